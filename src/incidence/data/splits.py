"""Splits by chance, and a part of the training examples kept for validation."""

from __future__ import annotations

from dataclasses import replace

import torch

from incidence.data.dataset import DataSet, Split
from incidence.errors import IncidenceError

__all__ = ["held_out", "random_split"]


def held_out(data: DataSet, validation: float | None, seed: int) -> DataSet:
    """The data with a part of the training rows of every split kept apart for validation, if that is asked for.

    Raises:
        IncidenceError: A split has such a part already, or the fraction is none.
    """
    if validation is None:
        return data
    if any(len(split.validation) for split in data.splits):
        raise IncidenceError(f"{data.name!r} has a validation part of its own, so none is drawn: leave out --validation.")
    return replace(data, splits=tuple(data.split(number, validation, seed) for number in range(len(data.splits))))


def random_split(count: int, seed: int, validation: float | None = None) -> Split:
    """A split by chance: a tenth for testing, and a tenth for validation unless that is drawn later; at least one if there are three."""
    order = torch.randperm(count, generator=torch.Generator().manual_seed(seed))
    tenth = max(round(count / 10), int(count >= 3))
    one = tenth if validation is None else 0
    return Split(order[one + tenth :].sort().values, order[:one].sort().values, order[one : one + tenth].sort().values)
