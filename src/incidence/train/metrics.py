"""The metrics of a task, on torchmetrics: of ranking, of labels and classes, and of numbers."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import isnan
from typing import Any

import torch
import torchmetrics
from torch import Tensor
from torchmetrics.functional.classification import binary_auroc, binary_average_precision
from torchmetrics.utilities.data import dim_zero_cat

from incidence.data.dataset import Task

__all__ = [
    "HIGHER",
    "area_under_curve",
    "average_precision",
    "format_metric",
    "hits_at",
    "is_worse",
    "metrics_of",
    "update",
    "watched_metric",
]

_SHARES = frozenset({"accuracy", "ap", "auc", *(f"hits@{k}" for k in (1, 3, 10, 50)), "recall@10"})
HIGHER = _SHARES | {"mrr", "ndcg@10"}
"""Metrics that are better the higher they are."""


def format_metric(value: float, metric: str) -> str:
    """Return a metric for people: in percent, or with four digits; `none` for NaN."""
    if isnan(value):
        return "none"
    return f"{100 * value:.1f} %" if metric in _SHARES else f"{value:.4g}"


def is_worse(value: float, other: float, metric: str) -> bool:
    """Return whether a value of a metric is worse than another value."""
    return value < other if metric in HIGHER else value > other


def metrics_of(task: Task, is_shared: bool = False) -> torchmetrics.MetricCollection:
    """Return the metrics of a task by name.

    Args:
        task: The task.
        is_shared: Whether to compute them over all processes together.
    """
    made = {name: make(sync_on_compute=is_shared) for name, make in _makers(task).items()}
    return torchmetrics.MetricCollection(made, compute_groups=False)


def watched_metric(task: Task, metric: str) -> str:
    """Return the metric of a task that is computed in every epoch in place of a main metric.

    It is the main metric, unless that is one of ranks among all candidates, which takes long.
    """
    known = _makers(task)
    if metric in known:
        return metric
    return "ap" if "ap" in known else next(iter(known))


def _makers(task: Task) -> dict[str, Callable[..., Any]]:
    ranking = {"auc": partial(Ranking, area_under_curve)}
    precision = {"ap": partial(Ranking, average_precision)}
    if task.ranks:
        hits = {f"hits@{rank}": partial(Ranking, partial(hits_at, rank)) for rank in task.ranks}
        return {**ranking, **hits}
    if task.kind == "multilabel":
        return {**ranking, **precision, "accuracy": LabelAccuracy}
    if task.kind == "classification":
        accuracy = partial(
            torchmetrics.classification.MulticlassAccuracy,
            num_classes=max(2, len(task.names)),
            average="micro",
        )
        of_two = {**ranking, **precision} if len(task.names) == 2 else {}
        return {"accuracy": accuracy, **of_two}
    return {
        "rmse": partial(torchmetrics.MeanSquaredError, squared=False),
        "mae": torchmetrics.MeanAbsoluteError,
    }


def update(
    metrics: torchmetrics.MetricCollection, predicted: Tensor, target: Tensor, task: Task
) -> None:
    """Add rows to metrics, where the target is not missing.

    Args:
        metrics: The metrics of the task.
        predicted: Probabilities of classes or labels, or numbers, (rows, columns).
        target: The targets of the rows.
        task: The task.
    """
    shape = predicted.shape[:1] if task.kind == "classification" else predicted.shape
    target = target.reshape(shape)
    is_known = task.is_known(target)
    if task.kind == "multilabel":  # whose missing labels the metrics leave out
        is_known = is_known.any(1)
    if not bool(is_known.any()):
        return
    known = target[is_known]
    if task.kind != "classification":
        known = known.to(predicted.dtype)
    metrics.update(predicted[is_known], known)


def _as_ranks(scores: Tensor) -> Tensor:
    """Return scores as evenly spaced numbers from 0 to 1 in the same order, with the same ties.

    torchmetrics takes scores beyond 0 and 1 for logits, and their sigmoid makes new ties.
    """
    values, ranks = scores.unique(return_inverse=True)
    spaced: Tensor = ranks.double() / max(1, len(values) - 1)
    return spaced


def area_under_curve(scores: Tensor, is_positive: Tensor) -> Tensor:
    """Return the area under the ROC curve; NaN without positives or without negatives.

    It is how often a positive scores above a negative, with a tie counted half.

    Example:
        >>> is_positive = torch.tensor([False, True, False, True])
        >>> area_under_curve(torch.tensor([0.1, 0.4, 0.4, 0.8]), is_positive)
        tensor(0.8750)
    """
    if bool(is_positive.all()) or not bool(is_positive.any()):
        return torch.tensor(torch.nan)
    area: Tensor = binary_auroc(_as_ranks(scores), is_positive.long(), validate_args=False)
    return area.float()


def average_precision(scores: Tensor, is_positive: Tensor) -> Tensor:
    """Return the area under the curve of precision over recall, as a sum; NaN without positives.

    Example:
        >>> is_positive = torch.tensor([False, True, False, True])
        >>> average_precision(torch.tensor([0.1, 0.4, 0.5, 0.8]), is_positive)
        tensor(0.8333)
    """
    if not bool(is_positive.any()):
        return torch.tensor(torch.nan)
    ranks = _as_ranks(scores)
    area: Tensor = binary_average_precision(ranks, is_positive.long(), validate_args=False)
    return area.float()


def hits_at(rank: int, scores: Tensor, is_positive: Tensor) -> Tensor:
    """Return the share of positives that score above all negatives but `rank - 1`.

    The Open Graph Benchmark counts hits so.

    Example:
        >>> is_positive = torch.tensor([False, True, False, True])
        >>> hits_at(1, torch.tensor([0.1, 0.4, 0.5, 0.8]), is_positive)
        tensor(0.5000)
    """
    positive, negative = scores[is_positive], scores[~is_positive]
    if not len(positive):
        return torch.tensor(torch.nan)
    if len(negative) < rank:
        return torch.tensor(1.0)
    return (positive > negative.topk(rank).values[-1]).float().mean()


class Ranking(torchmetrics.Metric):
    """A metric of the order of probabilities, as the mean over the labels that have it.

    Args:
        function: The metric of the scores of a label, and of which rows are positive.
        options: Options of `torchmetrics.Metric`.
    """

    full_state_update = False
    scores: list[Tensor]
    labels: list[Tensor]

    def __init__(self, function: Callable[[Tensor, Tensor], Tensor], **options: Any) -> None:
        super().__init__(**options)
        self.function = function
        self.add_state("scores", [], dist_reduce_fx="cat")
        self.add_state("labels", [], dist_reduce_fx="cat")

    def update(self, predicted: Tensor, target: Tensor) -> None:
        """Add rows: probabilities of two classes or of labels, and the classes or labels."""
        if target.ndim == 1:  # of two classes
            predicted, target = predicted[:, 1:], target[:, None].to(predicted.dtype)
        self.scores.append(predicted.detach())  # (rows, labels)
        self.labels.append(target)

    def compute(self) -> Tensor:
        """Return the mean over the labels."""
        columns = zip(dim_zero_cat(self.scores).T, dim_zero_cat(self.labels).T, strict=True)
        values = []
        for scores, labels in columns:
            is_known = ~labels.isnan()
            values.append(self.function(scores[is_known], labels[is_known] == 1))
        return torch.stack(values).nanmean()


class LabelAccuracy(torchmetrics.classification.BinaryAccuracy):
    """The share of known labels that are right, with the threshold 0.5."""

    def update(self, predicted: Tensor, target: Tensor) -> None:
        """Add rows: probabilities of labels, and labels, with NaN where one is missing."""
        is_known = ~target.isnan()
        super().update(predicted[is_known], target[is_known].long())
