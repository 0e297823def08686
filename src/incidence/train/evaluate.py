"""How good predictions are: metrics of every part, beside those of a predictor that looks at nothing."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from math import isnan, nan
from typing import Any

import torch
from torch import Tensor

from incidence.data.dataset import Parts, Task
from incidence.models import Predictor
from incidence.structure.example import Example
from incidence.structure.examples import collate
from incidence.train.module import is_known, metrics_of, rows_of, update

__all__ = ["Evaluation", "Scored", "baseline", "evaluate", "predictions"]


@dataclass(frozen=True)
class Scored:
    """Predictions of one part, their targets, and metrics of both the network and the baseline."""

    predicted: Tensor
    target: Tensor
    metrics: dict[str, float]
    baseline: dict[str, float]


@dataclass(frozen=True)
class Evaluation:
    """The scores of the parts of a data set, by name."""

    task: Task
    parts: dict[str, Scored]

    def metrics(self) -> dict[str, Any]:
        """All numbers, for a file; None for a metric of a part that has no targets, as JSON has no other way to say so."""
        return {name: {**_plain(part.metrics), "baseline": _plain(part.baseline)} for name, part in self.parts.items()}

    def table(self) -> str:
        """Every prediction beside its target, as the text of a CSV file."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        names = list(self.task.names)
        if self.task.kind == "classification":
            writer.writerow(["part", "row", "target", "predicted", *(f"p({name})" for name in names)])
        else:
            writer.writerow(["part", "row", *(f"target {name}" for name in names), *(f"predicted {name}" for name in names)])
        for part, scored in self.parts.items():
            for row, (y, t) in enumerate(zip(scored.predicted.tolist(), scored.target.tolist(), strict=True)):
                if self.task.kind == "classification":
                    best = names[max(range(len(y)), key=y.__getitem__)]
                    writer.writerow([part, row, names[t] if t >= 0 else "", best, *(f"{p:.6g}" for p in y)])
                else:
                    writer.writerow([part, row, *(f"{v:.7g}" for v in (t if isinstance(t, list) else [t])), *(f"{v:.7g}" for v in y)])
        return text.getvalue()


@torch.no_grad()
def predictions(predictor: Predictor, examples: Sequence[Example], batch_size: int) -> Tensor:
    """Predictions for all rows of all examples, in their units; shape (rows, out_channels)."""
    predictor.eval()
    batches = (collate(examples[k : k + batch_size]) for k in range(0, len(examples), batch_size))
    return torch.cat([predictor.predict(batch.features, batch.structure) for batch in batches])


def baseline(task: Task, train: Tensor, count: int) -> Tensor:
    """What a predictor says that knows the training targets and looks at nothing: their mean, or their frequencies."""
    if task.kind == "classification":
        frequencies = torch.bincount(train[train >= 0], minlength=len(task.names)).float()
        return (frequencies / frequencies.sum().clamp(min=1)).expand(count, -1)
    return train.reshape(-1, len(task.names)).nanmean(0).expand(count, -1)


def evaluate(predictor: Predictor, parts: Parts, task: Task, batch_size: int = 64) -> Evaluation:
    """Scores every part that has examples."""
    known = _targets(parts.train, task)
    scored = {}
    for name, examples in parts._asdict().items():
        if examples:
            target = known if name == "train" else _targets(examples, task)
            predicted = predictions(predictor, examples, batch_size)
            scored[name] = Scored(
                predicted, target, _score(task, predicted, target), _score(task, baseline(task, known, len(target)), target)
            )
    return Evaluation(task, scored)


def _plain(metrics: dict[str, float]) -> dict[str, float | None]:
    return {name: None if isnan(value) else value for name, value in metrics.items()}


def _targets(examples: Sequence[Example], task: Task) -> Tensor:
    rows = [rows_of(e, task) for e in examples]
    return torch.cat(rows) if task.at else torch.stack(rows)


def _score(task: Task, predicted: Tensor, target: Tensor) -> dict[str, float]:
    metrics = metrics_of(task)
    if not is_known(target, task).any():
        return dict.fromkeys(map(str, metrics.keys()), nan)
    update(metrics, predicted, target, task)
    return {name: float(value) for name, value in metrics.compute().items()}
