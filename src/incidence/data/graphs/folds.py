"""Splits: folds, and a part of the training examples kept for validation."""

from __future__ import annotations

import torch
from torch import Tensor

from incidence.data.dataset import Split
from incidence.errors import IncidenceError

__all__ = ["hold_out", "others", "random_folds", "random_split"]


def others(rows: Tensor, count: int) -> Tensor:
    """The numbers below `count` that are not among the rows."""
    kept = torch.ones(count, dtype=torch.bool)
    kept[rows] = False
    return kept.nonzero()[:, 0]


def hold_out(train: Tensor, fraction: float, seed: int, classes: Tensor) -> tuple[Tensor, Tensor]:
    """Training rows without a part, and that part: the same share of every class, by chance.

    Args:
        train: Rows.
        fraction: The share, from 0 to less than 1.
        seed: Of the choice.
        classes: The class of every row there is, not of those in `train` alone.

    Raises:
        IncidenceError: The fraction is out of range.
    """
    if not 0 <= fraction < 1:
        raise IncidenceError(f"validation is the share of the training part that is kept apart, from 0 to less than 1; got {fraction}.")
    shuffled = train[torch.randperm(len(train), generator=torch.Generator().manual_seed(seed))]
    chosen = torch.zeros(len(train), dtype=torch.bool)
    for one in classes[train].unique():
        own = (classes[shuffled] == one).nonzero()[:, 0]
        chosen[own[: round(fraction * len(own))]] = True
    return shuffled[~chosen].sort().values, shuffled[chosen].sort().values


def random_folds(count: int, folds: int, seed: int) -> list[Tensor]:
    """The numbers below `count` in so many parts of nearly equal size, by chance."""
    order = torch.randperm(count, generator=torch.Generator().manual_seed(seed))
    return [part.sort().values for part in order.tensor_split(folds)]


def random_split(count: int, seed: int, validation: float = 0.1, test: float = 0.1) -> Split:
    """A split by chance; a part is at least one example if there are three or more."""
    order = torch.randperm(count, generator=torch.Generator().manual_seed(seed))
    least = int(count >= 3)
    one, two = max(round(validation * count), least), max(round(test * count), least)
    return Split(order[one + two :].sort().values, order[:one].sort().values, order[one : one + two].sort().values)
