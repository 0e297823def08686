"""Rows that belong together: tuples of nodes as integers, groups laid out one after the other, joins on equal keys.

Nothing here is quadratic, and nothing overflows: all is linear or one sort.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from incidence.errors import TooLargeError

__all__ = [
    "LIMIT",
    "MAX_ENTRIES",
    "are_short",
    "ascend",
    "assert_few",
    "by_entry",
    "code",
    "common_keys",
    "distinct",
    "expand",
    "group",
    "is_among",
    "no_entries",
    "pairs",
    "ranges",
    "rank",
    "sort_few",
    "spans",
    "starts_of",
]

MAX_ENTRIES = 20_000_000
"""How many entries are looked for before a request is refused: pairs of edges then take 7 gigabytes while they are put in order."""

LIMIT = 2**62
"""What codes stay below: an integer, with a bit to spare."""

_MOST_SHORT = 2**31 - 1  # what numbers stay below that are listed in 4 bytes


def are_short(*largest: int) -> bool:
    """Whether lists of numbers up to these need only 4 bytes for each."""
    return max(largest) < _MOST_SHORT


def rank(values: Tensor) -> tuple[Tensor, int]:
    """The rank of every value among the different values, and how many of those there are."""
    if not values.numel():
        return values.new_zeros(values.shape, dtype=torch.long), 0
    if not values.is_floating_point():
        low, high = (int(v) for v in torch.aminmax(values))
        if high - low < values.numel():
            return _rank_by_counting(values.long() - low, high - low + 1)
    ordered, order = values.flatten().sort()
    is_new = torch.ones_like(ordered, dtype=torch.bool)
    torch.ne(ordered[1:], ordered[:-1], out=is_new[1:])
    ranks = torch.empty_like(order)
    ranks[order] = is_new.cumsum(0) - 1
    return ranks.view(values.shape), int(ranks[order[-1]]) + 1


def _rank_by_counting(values: Tensor, bound: int) -> tuple[Tensor, int]:
    """The same without a sort, for integers from 0 up to a small bound."""
    is_there = torch.zeros(bound, dtype=torch.bool, device=values.device)
    is_there[values] = True
    ranks = is_there.cumsum(0) - 1
    return ranks[values], int(ranks[-1]) + 1


def sort_few(values: Tensor, bound: int) -> tuple[Tensor, Tensor]:
    """Integers from 0 in ascending order, and where each stood; equal ones stay in order. Small integers have few bytes to sort by."""
    small = next(
        (dtype for dtype in (torch.int16, torch.int32) if bound <= torch.iinfo(dtype).max),
        torch.long,
    )
    return values.to(small).sort(stable=True)


def code(columns: Sequence[Tensor], bounds: Iterable[int]) -> tuple[Tensor, int]:
    """One integer for each row, equal iff the rows are equal and ordered as they are; with a bound on the integers.

    Columns are combined by place value; where the next product would pass 2^62, what is there is first replaced by its rank, and
    the next column too if need be, so that no number of nodes is too large.
    """
    total: Tensor | None = None
    bound = 1
    for column, size in zip(columns, bounds, strict=True):
        if total is None:
            total, bound = column, max(size, 1)
            continue
        if bound * size >= LIMIT:
            total, bound = rank(total)
        if bound * size >= LIMIT:
            column, size = rank(column)
        total = torch.add(column, total, alpha=size)
        bound *= max(size, 1)
    if total is None:
        raise ValueError("a code needs at least one column")
    return total, bound


_FEW_COLUMNS = 8  # up to which compare and swap is faster than a sort of every row


def ascend(columns: Sequence[Tensor]) -> list[Tensor]:
    """The same rows, each in ascending order.

    Every column is compared and swapped with those before it: torch sorts along so short a dimension ten times as slowly.

    Example:
        >>> ascend([torch.tensor([7, 1]), torch.tensor([4, 2])])
        [tensor([4, 1]), tensor([7, 2])]
    """
    if len(columns) > _FEW_COLUMNS:
        return list(torch.stack(list(columns), dim=1).sort(dim=1)[0].T.contiguous())
    placed: list[Tensor] = []
    for column in columns:
        for k, before in enumerate(placed):
            placed[k], column = torch.minimum(before, column), torch.maximum(before, column)
        placed.append(column)
    return placed


def group(values: Tensor) -> list[tuple[int, Tensor]]:
    """The different values in ascending order, each with the positions where it stands, in order."""
    if not values.numel():
        return []
    low, high = (int(v) for v in torch.aminmax(values))
    if low == high:
        return [(low, torch.arange(len(values), device=values.device))]
    ordered, order = sort_few(values - low, high - low + 1)
    different, counts = torch.unique_consecutive(ordered, return_counts=True)
    return list(
        zip(
            [low + value for value in different.tolist()], order.split(counts.tolist()), strict=True
        )
    )


def no_entries(rows: int, device: torch.device) -> Tensor:
    """An index without entries."""
    return torch.zeros(rows, 0, dtype=torch.long, device=device)


def ranges(counts: Tensor) -> Tensor:
    """The cumulated counts with a leading zero: where each of the consecutive groups starts, and the end."""
    return torch.cat([counts.new_zeros(1), counts.cumsum(0)])


def expand(starts: Tensor, counts: Tensor) -> tuple[Tensor, Tensor]:
    """Groups of consecutive positions, one after the other: which group each position is of, and the positions.

    Example:
        >>> which, position = expand(torch.tensor([5, 0]), torch.tensor([2, 3]))
        >>> which.tolist(), position.tolist()
        ([0, 0, 1, 1, 1], [5, 6, 0, 1, 2])
    """
    which = torch.repeat_interleave(torch.arange(len(counts), device=counts.device), counts)
    first = counts.cumsum(0) - counts
    return which, torch.arange(len(which), device=counts.device) + (starts - first)[which]


def common_keys(
    left: Sequence[Tensor], right: Sequence[Tensor], bounds: Sequence[int]
) -> tuple[Tensor, Tensor]:
    """Integers for the rows of two lists of columns, equal iff the rows are."""
    columns = [torch.cat([one, other]) for one, other in zip(left, right, strict=True)]
    keys, _ = code(columns, bounds)
    return keys[: len(left[0])], keys[len(left[0]) :]


def pairs(
    left: Tensor, right: Tensor, limit: int = sys.maxsize, what: str = ""
) -> tuple[Tensor, Tensor]:
    """All pairs (place in left, place in right) of equal keys, by the place in left.

    Raises:
        TooLargeError: There are more than `limit`; `what` starts the sentence. Nothing has been allocated then.
    """
    ordered, order = right.sort(stable=True)
    starts = torch.searchsorted(ordered, left)
    counts = torch.searchsorted(ordered, left, right=True) - starts
    assert_few(int(counts.sum()), limit, what)
    which, spot = expand(starts, counts)
    return which, order[spot]


def assert_few(
    count: int, limit: int, what: str, remedy: str = "Ask for fewer faces, or raise the limit"
) -> None:
    """Refuses to list more than `limit` things."""
    if count > limit:
        raise TooLargeError(
            f"{what}: {count:,} combinations, and the limit is {limit:,}. {remedy}."
        )


def distinct(keys: Tensor) -> Tensor:
    """Where every different key stands first, by ascending key."""
    ordered, order = keys.sort(stable=True)
    is_new = torch.ones_like(ordered, dtype=torch.bool)
    torch.ne(ordered[1:], ordered[:-1], out=is_new[1:])
    return order[is_new]


def is_among(asked: Tensor, known: Tensor) -> Tensor:
    """Whether each key is one of those known."""
    if not known.numel():
        return torch.zeros_like(asked, dtype=torch.bool)
    ordered = known.sort()[0]
    return ordered[torch.searchsorted(ordered, asked).clamp(max=len(ordered) - 1)] == asked


def by_entry(members: Tensor, num_entries: int) -> tuple[Tensor, Tensor]:
    """The nodes of open faces, ascending within each; and where each face starts, with the end."""
    nodes, entry = members[:, members[0].sort()[1]]
    order = entry.sort(stable=True)[1]
    return nodes[order], ranges(torch.bincount(entry, minlength=num_entries))


def starts_of(lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    """Where pieces start that follow each other."""
    ends: NDArray[np.int64] = lengths.cumsum()
    return ends - lengths


_NUMBERS = np.arange(1 << 16)  # batches are made of short lists again and again


def spans(starts: NDArray[np.int64], lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    """The numbers of several ranges, one range after the other."""
    ends = lengths.cumsum()
    found: NDArray[np.int64] = (starts - ends + lengths).repeat(lengths)
    found += _NUMBERS[: len(found)] if len(found) <= len(_NUMBERS) else np.arange(len(found))
    return found
