"""Tuples of nodes as integers: codes, ranks and groups. Nothing here is quadratic, and nothing overflows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor

__all__ = ["code", "group", "ranges", "rank"]

_LIMIT = 2**62


def rank(values: Tensor) -> tuple[Tensor, int]:
    """The rank of every value among the different values, and how many of those there are."""
    if not values.numel():
        return values.new_zeros(values.shape, dtype=torch.long), 0
    ordered, order = values.flatten().sort()
    is_new = torch.ones_like(ordered, dtype=torch.bool)
    torch.ne(ordered[1:], ordered[:-1], out=is_new[1:])
    ranks = torch.empty_like(order)
    ranks[order] = is_new.cumsum(0) - 1
    return ranks.view(values.shape), int(ranks[order[-1]]) + 1


def code(columns: Sequence[Tensor], bounds: Iterable[int]) -> tuple[Tensor, int]:
    """One integer for each row, equal iff the rows are equal and ordered as they are; with a bound on the integers.

    Columns are combined by place value; where the next product would pass 2^62, what is there is first replaced by its rank, so
    that no number of nodes is too large.
    """
    total: Tensor | None = None
    bound = 1
    for column, size in zip(columns, bounds, strict=True):
        if total is None:
            total, bound = column, max(size, 1)
            continue
        if bound * size >= _LIMIT:
            total, bound = rank(total)
        total = total * size + column
        bound *= max(size, 1)
    if total is None:
        raise ValueError("a code needs at least one column")
    return total, bound


def group(values: Tensor) -> list[tuple[int, Tensor]]:
    """The different values in ascending order, each with the positions where it stands, in order."""
    if not values.numel():
        return []
    low, high = (int(v) for v in torch.aminmax(values))
    if low == high:
        return [(low, torch.arange(len(values), device=values.device))]
    ordered, order = values.sort(stable=True)
    different, counts = torch.unique_consecutive(ordered, return_counts=True)
    return list(zip(different.tolist(), order.split(counts.tolist()), strict=True))


def ranges(counts: Tensor) -> Tensor:
    """The cumulated counts with a leading zero: where each of the consecutive groups starts, and the end."""
    return torch.cat([counts.new_zeros(1), counts.cumsum(0)])
