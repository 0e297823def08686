"""How good predictions are: metrics of every part, beside those of a predictor that looks at nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from math import isfinite, isnan, nan
from typing import Any

import torch
import torchmetrics
from torch import Tensor

from incidence.data.dataset import DataSet, Parts, Split, Task
from incidence.models import Predictor
from incidence.structure.example import Example
from incidence.structure.examples import collate
from incidence.train.folder import apart, csv_text
from incidence.train.ranking import AUC, Hits

__all__ = ["BLIND", "HIGHER", "PARTS", "Evaluation", "Scored", "blind_words", "evaluate", "metrics_of", "number", "update"]

PARTS: tuple[str, ...] = ("test", "validation", "train")
"""The first that is there counts."""
BLIND = {
    "accuracy": "the most frequent class",
    "auc": "a guess",
    "rmse": "the mean of the training data",
    "mae": "the median of the training data",
}
"""What the baseline says, by metric."""
HIGHER = frozenset({"accuracy", "auc", "hits@10", "hits@50"})
"""Metrics that are better the higher they are."""


def number(value: float, metric: str) -> str:
    """A metric as people read it."""
    return f"{100 * value:.1f} %" if metric in HIGHER else f"{value:.4g}"


def metrics_of(task: Task, is_shared: bool = False) -> torchmetrics.MetricCollection:
    """The metrics of a task, by name; those of all processes together if they are shared."""
    if task.ranks:
        ranked: dict[str, Any] = {"auc": AUC(sync_on_compute=is_shared)}
        ranked |= {f"hits@{rank}": Hits(rank, sync_on_compute=is_shared) for rank in task.ranks}
        return torchmetrics.MetricCollection(ranked, compute_groups=False)
    if task.kind == "classification":
        count, kinds = max(2, len(task.names)), torchmetrics.classification
        found: dict[str, Any] = {"accuracy": kinds.MulticlassAccuracy(num_classes=count, average="micro", sync_on_compute=is_shared)}
        if len(task.names) == 2:
            found["auc"] = AUC(sync_on_compute=is_shared)
        return torchmetrics.MetricCollection(found, compute_groups=False)
    numbers: dict[str, Any] = {
        "rmse": torchmetrics.MeanSquaredError(squared=False, sync_on_compute=is_shared),
        "mae": torchmetrics.MeanAbsoluteError(sync_on_compute=is_shared),
    }
    return torchmetrics.MetricCollection(numbers, compute_groups=False)


def update(metrics: torchmetrics.MetricCollection, predicted: Tensor, target: Tensor, task: Task) -> None:
    """Adds rows to metrics, where there is a target: probabilities of classes, or numbers."""
    target = target.reshape(predicted.shape[:1] if task.kind == "classification" else predicted.shape)
    known = task.is_known(target)
    predicted, target = predicted[known], target[known]
    if len(target):
        metrics.update(predicted, target if task.kind == "classification" else target.to(predicted.dtype))


@dataclass(frozen=True)
class Scored:
    """Predictions of one part, their targets, and metrics of both the network and the baseline.

    Where each row comes from is in `places`: the number of the example in the data set, and that of the entry in it.
    """

    predicted: Tensor
    target: Tensor
    metrics: dict[str, float]
    baseline: dict[str, float]
    places: list[tuple[int, int]]


@dataclass(frozen=True)
class Evaluation:
    """The scores of the parts of a data set, by name; and predictions for what belongs to none."""

    data: DataSet
    parts: dict[str, Scored]
    other: Scored | None = None

    @property
    def task(self) -> Task:
        """What is predicted."""
        return self.data.task

    def metrics(self) -> dict[str, Any]:
        """All numbers, for a file; None for a metric that is no finite number, as JSON has no other way to say so."""

        def plain(metrics: dict[str, float]) -> dict[str, float | None]:
            return {name: value if isfinite(value) else None for name, value in metrics.items()}

        return {name: {**plain(part.metrics), "baseline": plain(part.baseline)} for name, part in self.parts.items()}

    def table(self) -> str:
        """Every prediction beside its target, as the text of a CSV file."""
        names, is_class = self.task.names, self.task.kind == "classification"
        values = ["target", "predicted", *(f"p({name})" for name in names)]
        numbers = [f"{what} {name}" for what in ("target", "predicted") for name in names]
        made = ["part", *(values if is_class else numbers)]
        rows: list[list[object]] = [["part", *apart(self.data.label_columns, made), *made[1:]]]
        for part, scored in {**self.parts, **({} if self.other is None else {"other": self.other})}.items():
            for (example, entry), y, target in zip(scored.places, scored.predicted.tolist(), scored.target.tolist(), strict=True):
                rows.append([part, *self.data.label(example, entry)])
                if is_class:
                    rows[-1] += [names[target] if target >= 0 else "", names[y.index(max(y))], *(f"{p:.6g}" for p in y)]
                else:
                    told = target if isinstance(target, list) else [target]
                    rows[-1] += ["" if isnan(value) else f"{value:.7g}" for value in (*told, *y)]
        return csv_text(rows)


def _baseline(task: Task, train: Tensor, count: int, metric: str) -> Tensor:
    """What the best predictor says that knows the training targets and looks at nothing: their frequencies, their mean or their median."""
    if task.kind == "classification":
        frequencies = torch.bincount(train[train >= 0], minlength=len(task.names)).float()
        return (frequencies / frequencies.sum().clamp(min=1)).expand(count, -1)
    rows = train.reshape(-1, len(task.names))
    best = rows.nanmedian(0).values if metric == "mae" else rows.nanmean(0)
    return best.expand(count, -1)


def evaluate(predictor: Predictor, data: DataSet, split: Split, parts: Parts, batch_size: int = 64) -> Evaluation:
    """Scores every part of a split of the data that has examples, and predicts what belongs to no part."""
    predictor.eval()
    trained = next(part for part in parts if part)  # for other data than the model was trained on, all that there is
    score = partial(_scored, predictor, data, _targets(trained, data.task), batch_size)
    found = zip(Split._fields, parts, data.order(split), strict=True)
    left = data.rest(split)
    other = score(left, data.others(split)) if left else None
    return Evaluation(data, {name: score(examples, rows) for name, examples, rows in found if examples}, other)


def _scored(predictor: Predictor, data: DataSet, trained: Tensor, batch_size: int, examples: Sequence[Example], rows: Tensor) -> Scored:
    """The predictions of one part, whose rows are known by number; of entries of many examples, those alone that have a target."""
    task, target = data.task, _targets(examples, data.task)
    batches = (collate(examples[k : k + batch_size]) for k in range(0, len(examples), batch_size))
    predicted = torch.cat([predictor.predict(batch.features, batch.structure) for batch in batches])  # (rows, out_channels)
    places = _places(data, examples, rows)
    if task.at and data.completion is None:
        kept = rows if data.is_transductive else task.is_known(target).reshape(len(target), -1).any(1).nonzero()[:, 0]
        predicted, target, places = predicted[kept], target[kept], [places[k] for k in kept.tolist()]
    blind = {metric: _blind_score(data, trained, examples, target, metric) for metric in map(str, metrics_of(task))}
    return Scored(predicted, target, _score(task, predicted, target), blind, places)


def _places(data: DataSet, examples: Sequence[Example], rows: Tensor) -> list[tuple[int, int]]:
    """The example and the entry of every row that is predicted; where rows are asked for, the entries are those rows alone."""
    if data.completion is not None:
        return [(0, row) for row in rows.tolist()]
    numbers = [0] if data.is_transductive else rows.tolist()
    return [(k, n) for k, e in zip(numbers, examples, strict=True) for n in range(len(data.task.rows(e)) if data.task.at else 1)]


def _blind_score(data: DataSet, trained: Tensor, examples: Sequence[Example], target: Tensor, metric: str) -> float:
    """The metric of the baseline; where there are several, of the one that is best."""
    if data.completion is None:
        guesses = [_baseline(data.task, trained, len(target), metric)]
    else:
        found = [data.completion.baseline(example) for example in examples]
        columns = [torch.cat([one[name] for one in found]) for name in data.completion.baselines]  # (rows,) each
        guesses = [torch.stack([-x, x], 1) if data.task.kind == "classification" else x[:, None] for x in columns]
    scores = [_score(data.task, guess, target)[metric] for guess in guesses]
    return max(scores) if metric in HIGHER else min(scores)


def blind_words(data: DataSet, metric: str) -> str:
    """What the baseline of a metric is called."""
    if data.completion is None:
        return BLIND.get(metric, "the baseline")
    names = list(data.completion.baselines)
    return names[0] if len(names) == 1 else f"the best of {', '.join(names[:-1])} and {names[-1]}"


def _targets(examples: Sequence[Example], task: Task) -> Tensor:
    rows = [task.rows(e) for e in examples]
    return torch.cat(rows) if task.at else torch.stack(rows)


def _score(task: Task, predicted: Tensor, target: Tensor) -> dict[str, float]:
    metrics = metrics_of(task)
    if not task.is_known(target).any():
        return dict.fromkeys(map(str, metrics.keys()), nan)
    update(metrics, predicted, target, task)
    return {name: float(value) for name, value in metrics.compute().items()}
