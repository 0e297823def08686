"""How good predictions are: metrics of every part, beside those of a predictor that looks at nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
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
from incidence.train.ranking import AUC, AveragePrecision, Hits

__all__ = [
    "HIGHER",
    "PARTS",
    "Evaluation",
    "Scored",
    "blind_words",
    "evaluate",
    "metrics_of",
    "number",
    "update",
]

PARTS: tuple[str, ...] = ("test", "validation", "train")
"""The first that is there counts."""
_BLIND = {
    "accuracy": "the most frequent class",
    "ap": "a guess",
    "auc": "a guess",
    "rmse": "the mean of the training data",
    "mae": "the median of the training data",
}
"""What the baseline says, by metric."""
HIGHER = frozenset({"accuracy", "ap", "auc", "hits@10", "hits@50"})
"""Metrics that are better the higher they are."""


_MOST_TOLD = 4  # targets in one line


def number(value: float, metric: str) -> str:
    """A metric as people read it; `none` where it is no number, as the AUC of one class."""
    if isnan(value):
        return "none"
    return f"{100 * value:.1f} %" if metric in HIGHER else f"{value:.4g}"


class LabelAccuracy(torchmetrics.classification.BinaryAccuracy):
    """Which share of the labels that are known was found, with a probability of a half for the border."""

    def update(self, predicted: Tensor, target: Tensor) -> None:
        """Adds rows: probabilities of labels, and these, with NaN where one is missing."""
        known = ~target.isnan()
        super().update(predicted[known], target[known].long())


def metrics_of(task: Task, is_shared: bool = False) -> torchmetrics.MetricCollection:
    """The metrics of a task, by name; those of all processes together if they are shared."""
    made = {name: make(sync_on_compute=is_shared) for name, make in _metrics(task).items()}
    return torchmetrics.MetricCollection(made, compute_groups=False)


def _metrics(task: Task) -> dict[str, Callable[..., Any]]:
    if task.ranks:
        return {"auc": AUC, **{f"hits@{rank}": partial(Hits, rank) for rank in task.ranks}}
    if task.kind == "multilabel":
        return {"auc": AUC, "ap": AveragePrecision, "accuracy": LabelAccuracy}
    if task.kind == "classification":
        accuracy = partial(
            torchmetrics.classification.MulticlassAccuracy,
            num_classes=max(2, len(task.names)),
            average="micro",
        )
        return {
            "accuracy": accuracy,
            **({"auc": AUC, "ap": AveragePrecision} if len(task.names) == 2 else {}),
        }
    return {
        "rmse": partial(torchmetrics.MeanSquaredError, squared=False),
        "mae": torchmetrics.MeanAbsoluteError,
    }


def update(
    metrics: torchmetrics.MetricCollection, predicted: Tensor, target: Tensor, task: Task
) -> None:
    """Adds rows to metrics, where there is a target: probabilities of classes or labels, or numbers."""
    target = target.reshape(
        predicted.shape[:1] if task.kind == "classification" else predicted.shape
    )
    known = task.is_known(target)
    kept = (
        known.any(1) if task.kind == "multilabel" else known
    )  # labels are taken one by one, numbers all together
    if bool(kept.any()):
        metrics.update(
            predicted[kept],
            target[kept] if task.kind == "classification" else target[kept].to(predicted.dtype),
        )


@dataclass(frozen=True)
class Scored:
    """Predictions of one part, their targets, and metrics of both the network and the baseline.

    Where each row comes from is in `places`: the number of the example in the data set, and that of the entry in it. Where there are
    several numbers or labels, `of_targets` has the two of each alone, by name.
    """

    predicted: Tensor
    target: Tensor
    metrics: dict[str, float]
    baseline: dict[str, float]
    places: list[tuple[int, int]]
    of_targets: dict[str, tuple[dict[str, float], dict[str, float]]] = field(default_factory=dict)

    def __repr__(self) -> str:
        """A line, however many predictions there are."""
        told = (
            f"{name} {number(value, name)}, baseline {number(self.baseline[name], name)}"
            for name, value in self.metrics.items()
        )
        return f"Scored({len(self.target):,} rows: {'; '.join(told)})"


@dataclass(frozen=True)
class Evaluation:
    """The scores of the parts of a data set, by name; predictions for what belongs to none; and of other data, what its parts are."""

    data: DataSet
    parts: dict[str, Scored]
    other: Scored | None = None
    about: str = ""

    @property
    def task(self) -> Task:
        """What is predicted."""
        return self.data.task

    @property
    def part(self) -> str:
        """The part that counts: the first of test, validation and train that is there."""
        return next(name for name in PARTS if name in self.parts)

    def __repr__(self) -> str:
        """The metrics of every part."""
        return f"Evaluation of {self.data.name}\n{self.scores()}"

    def line(self) -> str:
        """The metric that counts, beside the baseline, in one line."""
        metric, scored = self.data.metric, self.parts[self.part]
        unit = f" {self.task.unit}" if self.task.unit and metric not in HIGHER else ""
        ours, blind = (number(found[metric], metric) for found in (scored.metrics, scored.baseline))
        told = self.told_apart()
        value = "; ".join(told) if told else f"{ours}{unit}, against {blind}"
        return (
            f"{self.data.name}: {self.part} {metric} {value} for {blind_words(self.data, metric)}"
        )

    def told_apart(self) -> list[str]:
        """Where there are several numbers, the metric of each beside its baseline: on scales of their own, they have no common one."""
        if self.task.kind != "regression":
            return []
        metric, of_targets = self.data.metric, self.parts[self.part].of_targets
        told = [
            f"{name} {number(o[metric], metric)}, against {number(b[metric], metric)}"
            for name, (o, b) in of_targets.items()
        ]
        return [
            *told[:_MOST_TOLD],
            *([f"and {len(told) - _MOST_TOLD} more"] if len(told) > _MOST_TOLD else []),
        ]

    def _verdict(self) -> str:
        """That the baseline does better, of some or all targets; empty if it does not."""
        metric, scored = self.data.metric, self.parts[self.part]
        if self.task.kind == "regression" and scored.of_targets:
            worse = [
                name
                for name, (ours, blind) in scored.of_targets.items()
                if _is_worse(ours[metric], blind[metric], metric)
            ]
            if len(worse) < len(scored.of_targets):
                return f"Worse than the baseline: {', '.join(worse)}." if worse else ""
        elif not _is_worse(scored.metrics[metric], scored.baseline[metric], metric):
            return ""
        return "That is worse than the baseline."

    def cautions(self) -> list[str]:
        """What must stand beside the metric that counts: that the baseline does better, and that there is no test part."""
        return [*filter(None, (self._verdict(), self._caution()))]

    def _caution(self) -> str:
        if self.part == "test":
            return ""
        seen = "was trained on" if self.part == "train" else "may have been chosen by"
        return f"There is no test part: these are rows that the model {seen}, and others may be predicted worse."

    def scores(self) -> str:
        """The metrics of every part beside those of the baseline, as a table for people, and what there is to say about them."""
        lines = [f"{'part':<12}{'rows':>7}  {'metric':<10}{'network':>10}{'baseline':>10}"]
        for name, part in self.parts.items():
            for metric, value in part.metrics.items():
                lines.append(
                    f"{name:<12}{len(part.target):>7}  {metric:<10}{value:>10.4g}{part.baseline[metric]:>10.4g}"
                )
        return "\n".join([*lines, *filter(None, [self._caution()]), *self.notes()])

    def notes(self) -> list[str]:
        """What one must know about the metrics: what the parts are; and where hits say nothing, with fewer absent links than a rank."""
        found = [self.about] if self.about else []
        found += [
            note for name, part in self.parts.items() if (note := _one_class(self.task, name, part))
        ]
        for name, part in self.parts.items():
            absent = int((part.target == 0).sum())
            void = " and ".join(f"hits@{rank}" for rank in self.task.ranks if absent < rank)
            if void:
                said = f"The {name} part has {absent} absent links, too few for {void}: 100 % whatever is predicted."
                found.append(f"{said} Draw more with --data-options negatives=5.")
        return found

    def metrics(self) -> dict[str, Any]:
        """All numbers, for a file; None for a metric that is no finite number, as JSON has no other way to say so."""

        def plain(metrics: dict[str, float]) -> dict[str, float | None]:
            return {name: value if isfinite(value) else None for name, value in metrics.items()}

        def numbers(metrics: dict[str, float], baseline: dict[str, float]) -> dict[str, Any]:
            return {**plain(metrics), "baseline": plain(baseline)}

        found = {name: numbers(part.metrics, part.baseline) for name, part in self.parts.items()}
        for name, part in self.parts.items():
            if part.of_targets:
                found[name]["targets"] = {
                    target: numbers(*both) for target, both in part.of_targets.items()
                }
        return found

    def table(self) -> str:
        """Every prediction beside its target, as the text of a CSV file."""
        names, is_class = self.task.names, self.task.kind == "classification"
        values = ["target", "predicted", *(f"p({name})" for name in names)]
        said = "p({})" if self.task.kind == "multilabel" else "predicted {}"
        numbers = [what.format(name) for what in ("target {}", said) for name in names]
        own, made = list(self.data.columns), values if is_class else numbers
        first = ["part", *self.data.label_columns[: len(self.data.label_columns) - len(own)]]
        rows: list[list[object]] = [[*first, *apart(own, [*first, *made]), *made]]
        for part, scored in {
            **self.parts,
            **({} if self.other is None else {"other": self.other}),
        }.items():
            for (example, entry), y, target in zip(
                scored.places, scored.predicted.tolist(), scored.target.tolist(), strict=True
            ):
                rows.append([part, *self.data.label(example, entry)])
                if is_class:
                    rows[-1] += [
                        names[target] if target >= 0 else "",
                        names[y.index(max(y))],
                        *(f"{p:.6g}" for p in y),
                    ]
                else:
                    told = target if isinstance(target, list) else [target]
                    rows[-1] += ["" if isnan(value) else f"{value:.7g}" for value in (*told, *y)]
        return csv_text(rows)


def _is_worse(ours: float, blind: float, metric: str) -> bool:
    return ours < blind if metric in HIGHER else ours > blind


def _one_class(task: Task, name: str, part: Scored) -> str:
    """A sentence on a part in which nothing can be told apart, so that it has no AUC and no ROC curve."""
    if task.ranks or "auc" not in part.metrics:
        return ""
    if task.kind == "classification":
        found = part.target[part.target >= 0].unique().tolist()
        return (
            f"The {name} part has one class only, {task.names[found[0]]}: no AUC and no ROC curve."
            if len(found) == 1
            else ""
        )
    alike = [label for label, (metrics, _) in part.of_targets.items() if isnan(metrics["auc"])]
    more = f" and {len(alike) - _MOST_TOLD} more" if len(alike) > _MOST_TOLD else ""
    return (
        f"The {name} part has one value only of {', '.join(alike[:_MOST_TOLD])}{more}: no AUC and no ROC curve."
        if alike
        else ""
    )


def _baseline(task: Task, train: Tensor, count: int, metric: str) -> Tensor:
    """What the best predictor says that knows the training targets and looks at nothing: their frequencies, their mean or their median."""
    if task.kind == "classification":
        frequencies = torch.bincount(train[train >= 0], minlength=len(task.names)).float()
        return (frequencies / frequencies.sum().clamp(min=1)).expand(count, -1)
    rows = train.reshape(-1, len(task.names))
    best = rows.nanmedian(0).values if metric == "mae" else rows.nanmean(0)
    return best.expand(count, -1)


def evaluate(
    predictor: Predictor, data: DataSet, split: Split, parts: Parts, batch_size: int = 64
) -> Evaluation:
    """Scores every part of a split of the data that has examples, and predicts what belongs to no part."""
    predictor.eval()
    trained = next(
        part for part in parts if part
    )  # for other data than the model was trained on, all that there is
    score = partial(_scored, predictor, data, _targets(trained, data.task), batch_size)
    found = zip(Split._fields, parts, data.order(split), strict=True)
    left = data.rest(split)
    other = score(left, data.others(split)) if left else None
    return Evaluation(
        data, {name: score(examples, rows) for name, examples, rows in found if examples}, other
    )


def _scored(
    predictor: Predictor,
    data: DataSet,
    trained: Tensor,
    batch_size: int,
    examples: Sequence[Example],
    rows: Tensor,
) -> Scored:
    """The predictions of one part, whose rows are known by number; of entries of many examples, those alone that have a target."""
    task, target = data.task, _targets(examples, data.task)
    batches = (collate(examples[k : k + batch_size]) for k in range(0, len(examples), batch_size))
    predicted = torch.cat(
        [predictor.predict(batch.features, batch.structure) for batch in batches]
    )  # (rows, out_channels)
    places = _places(data, examples, rows)
    if task.at and data.completion is None:
        kept = (
            rows
            if data.is_transductive
            else task.is_known(target).reshape(len(target), -1).any(1).nonzero()[:, 0]
        )
        predicted, target, places = (
            predicted[kept],
            target[kept],
            [places[k] for k in kept.tolist()],
        )
    blind = {
        metric: _blind_score(data, trained, examples, target, metric)
        for metric in map(str, metrics_of(task))
    }
    return Scored(
        predicted,
        target,
        _score(task, predicted, target),
        blind,
        places,
        _of_targets(task, trained, predicted, target),
    )


def _of_targets(
    task: Task, trained: Tensor, predicted: Tensor, target: Tensor
) -> dict[str, tuple[dict[str, float], dict[str, float]]]:
    """The metrics of each number or label alone, and those of the baseline, where there are several."""
    if task.kind == "classification" or len(task.names) == 1:
        return {}
    target, trained = target.reshape(predicted.shape), trained.reshape(-1, len(task.names))
    found = {}
    for k, name in enumerate(task.names):
        alone, column, known = (
            replace(task, names=(name,)),
            target[:, k : k + 1],
            trained[:, k : k + 1],
        )
        blind = {
            m: _score(alone, _baseline(alone, known, len(column), m), column)[m]
            for m in map(str, metrics_of(alone))
        }
        found[name] = _score(alone, predicted[:, k : k + 1], column), blind
    return found


def _places(data: DataSet, examples: Sequence[Example], rows: Tensor) -> list[tuple[int, int]]:
    """The example and the entry of every row that is predicted; where rows are asked for, the entries are those rows alone."""
    if data.completion is not None:
        return [(0, row) for row in rows.tolist()]
    numbers = [0] if data.is_transductive else rows.tolist()
    return [
        (k, n)
        for k, e in zip(numbers, examples, strict=True)
        for n in range(len(data.task.rows(e)) if data.task.at else 1)
    ]


def _blind_score(
    data: DataSet, trained: Tensor, examples: Sequence[Example], target: Tensor, metric: str
) -> float:
    """The metric of the baseline; where there are several, of the one that is best."""
    if data.completion is None:
        guesses = [_baseline(data.task, trained, len(target), metric)]
    else:
        found = [data.completion.baseline(example) for example in examples]
        columns = [
            torch.cat([one[name] for one in found]) for name in data.completion.baselines
        ]  # (rows,) each
        guesses = [
            torch.stack([-x, x], 1) if data.task.kind == "classification" else x[:, None]
            for x in columns
        ]
    scores = [_score(data.task, guess, target)[metric] for guess in guesses]
    return max(scores) if metric in HIGHER else min(scores)


def blind_words(data: DataSet, metric: str) -> str:
    """What the baseline of a metric is called; `metrics.json` has it as well, for those that have no data at hand."""
    if data.completion is None:
        return _BLIND.get(metric, "the baseline")
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
