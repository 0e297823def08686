"""Metrics of two classes, or of labels, that look at the order of probabilities alone."""

from __future__ import annotations

from typing import Any

import torch
import torchmetrics
from torch import Tensor
from torchmetrics.utilities.data import dim_zero_cat

__all__ = ["AUC", "AveragePrecision", "Hits", "area_under_curve", "average_precision", "hits_at"]


def area_under_curve(scores: Tensor, is_positive: Tensor) -> Tensor:
    """How often a positive scores above a negative, a tie counted half; no number where one of the two is missing.

    Example:
        >>> area_under_curve(torch.tensor([0.1, 0.4, 0.4, 0.8]), torch.tensor([False, True, False, True]))
        tensor(0.8750)
    """
    positive, negative = scores[is_positive], scores[~is_positive].sort().values
    if not len(positive) or not len(negative):
        return torch.tensor(torch.nan)
    below, up_to = (torch.searchsorted(negative, positive, right=right) for right in (False, True))
    return (below + up_to).double().mean().div(2 * len(negative)).float()


def hits_at(scores: Tensor, is_positive: Tensor, count: int) -> Tensor:
    """Which share of the positives scores above all negatives but `count - 1`, as the Open Graph Benchmark counts hits.

    Example:
        >>> hits_at(torch.tensor([0.1, 0.4, 0.5, 0.8]), torch.tensor([False, True, False, True]), 1)
        tensor(0.5000)
    """
    positive, negative = scores[is_positive], scores[~is_positive]
    if not len(positive):
        return torch.tensor(torch.nan)
    bar = (
        negative.topk(count).values[-1] if len(negative) >= count else scores.new_tensor(-torch.inf)
    )
    return (positive > bar).float().mean()


def average_precision(scores: Tensor, is_positive: Tensor) -> Tensor:
    """The mean, over positives, of the share of positives among those that score as high or higher; no number without positives.

    Example:
        >>> average_precision(torch.tensor([0.1, 0.4, 0.5, 0.8]), torch.tensor([False, True, False, True]))
        tensor(0.8333)
    """
    ordered = scores.sort().values
    above = len(scores) - torch.searchsorted(ordered, scores[is_positive])
    positives_above = int(is_positive.sum()) - torch.searchsorted(
        scores[is_positive].sort().values, scores[is_positive]
    )
    return (positives_above / above).mean()


class _Ranking(torchmetrics.Metric):
    """Keeps the probabilities of the second of two classes, or of every label, and which rows are of it; labels are taken one by one."""

    full_state_update = False
    scores: list[Tensor]
    labels: list[Tensor]

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.add_state("scores", [], dist_reduce_fx="cat")
        self.add_state("labels", [], dist_reduce_fx="cat")

    def update(self, predicted: Tensor, target: Tensor) -> None:
        """Adds rows: probabilities of both classes, and the number of the class; or probabilities of labels, and these."""
        of_labels = target.ndim == 2
        self.scores.append(
            predicted.detach() if of_labels else predicted[:, 1:].detach()
        )  # (rows, labels)
        self.labels.append(target if of_labels else target[:, None].to(predicted.dtype))

    def compute(self) -> Tensor:
        """The metric; the mean over the labels that have one."""
        scores, labels = (dim_zero_cat(rows) for rows in (self.scores, self.labels))
        known = ~labels.isnan()
        return torch.stack(
            [
                self._of(y[own], target[own] == 1)
                for y, target, own in zip(scores.T, labels.T, known.T, strict=True)
            ]
        ).nanmean()

    def _of(self, scores: Tensor, is_positive: Tensor) -> Tensor:
        raise NotImplementedError


class AUC(_Ranking):
    """The area under the ROC curve."""

    def _of(self, scores: Tensor, is_positive: Tensor) -> Tensor:
        return area_under_curve(scores, is_positive)


class AveragePrecision(_Ranking):
    """The area under the curve of precision over recall, as a sum of steps."""

    def _of(self, scores: Tensor, is_positive: Tensor) -> Tensor:
        return average_precision(scores, is_positive)


class Hits(_Ranking):
    """Hits at a rank."""

    def __init__(self, count: int, **options: Any) -> None:
        super().__init__(**options)
        self.count = count

    def _of(self, scores: Tensor, is_positive: Tensor) -> Tensor:
        return hits_at(scores, is_positive, self.count)
