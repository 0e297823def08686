"""Tuples of nodes as integers, groups of consecutive rows, and joins on equal keys.

Every function takes linear time or one sort, and no integer overflows.
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
    "rank_rows",
    "sort_few",
    "spans",
    "starts_of",
]

MAX_ENTRIES = 20_000_000
"""The default limit of entries to find. So many pairs of edges take 7 GB while they are sorted."""

LIMIT = 2**62
"""The bound of codes, which leaves one bit of an integer free."""

_MOST_SHORT = 2**31 - 1  # the bound of numbers with 4 bytes


def are_short(*largest: int) -> bool:
    """Return whether numbers up to these fit into 4 bytes."""
    return max(largest) < _MOST_SHORT


def rank(values: Tensor) -> tuple[Tensor, int]:
    """Return the rank of every value among the different values, and the number of these."""
    if not values.numel():
        return values.new_zeros(values.shape, dtype=torch.long), 0
    if not values.is_floating_point():
        low, high = (int(v) for v in torch.aminmax(values))
        # A table of flags costs less than a sort.
        if high - low < values.numel():
            return _rank_by_counting(values.long() - low, high - low + 1)
    ordered, order = values.flatten().sort()
    ranks = torch.empty_like(order)
    ranks[order] = _is_first(ordered).cumsum(0) - 1
    return ranks.view(values.shape), int(ranks[order[-1]]) + 1


def _is_first(ordered: Tensor) -> Tensor:
    """Return which values of a sorted tensor differ from the value before."""
    is_first = torch.ones_like(ordered, dtype=torch.bool)
    torch.ne(ordered[1:], ordered[:-1], out=is_first[1:])
    return is_first


def _rank_by_counting(values: Tensor, bound: int) -> tuple[Tensor, int]:
    """Rank integers from 0 up to a small bound, without a sort."""
    is_present = torch.zeros(bound, dtype=torch.bool, device=values.device)
    is_present[values] = True
    ranks = is_present.cumsum(0) - 1
    return ranks[values], int(ranks[-1]) + 1


def sort_few(values: Tensor, bound: int) -> tuple[Tensor, Tensor]:
    """Sort integers from 0 below a bound, and return them with their former places.

    The sort is stable.
    """
    dtype = torch.long
    # torch sorts small integers by fewer bytes.
    for small in (torch.int32, torch.int16):
        if bound <= torch.iinfo(small).max:
            dtype = small
    return values.to(dtype).sort(stable=True)


def code(columns: Sequence[Tensor], bounds: Iterable[int]) -> tuple[Tensor, int]:
    """Return one integer for each row, and a bound of these integers.

    The integers are equal if the rows are, and sort as the rows do. Columns are combined by place
    value. If the next product would pass 2^62, the integers so far are replaced by their ranks, and
    the next column, too, if necessary. So no number of nodes is too large.
    """
    if not columns:
        raise ValueError("a code needs at least one column")
    (total, bound), *rest = zip(columns, bounds, strict=True)
    bound = max(bound, 1)
    for column, size in rest:
        if bound * size >= LIMIT:
            # There are at most as many ranks as rows.
            total, bound = rank(total)
        if bound * size >= LIMIT:
            column, size = rank(column)
        # total * size + column, in one pass.
        total = torch.add(column, total, alpha=size)
        bound *= max(size, 1)
    return total, bound


def rank_rows(columns: Sequence[Tensor], bounds: Iterable[int]) -> tuple[Tensor, int]:
    """Return the rank of every row among the different rows, and the number of these."""
    codes, _ = code(columns, bounds)
    return rank(codes)


_FEW_COLUMNS = 8  # up to so many, compare and swap is faster than a sort of every row


def ascend(columns: Sequence[Tensor]) -> list[Tensor]:
    """Return the rows with their values in ascending order.

    Every column is compared and swapped with those before it, because torch sorts along so short a
    dimension ten times as slowly.

    Example:
        >>> ascend([torch.tensor([7, 1]), torch.tensor([4, 2])])
        [tensor([4, 1]), tensor([7, 2])]
    """
    if len(columns) > _FEW_COLUMNS:
        rows = torch.stack(list(columns), dim=1)
        return list(rows.sort(dim=1)[0].T.contiguous())
    placed: list[Tensor] = []
    for column in columns:
        for k, before in enumerate(placed):
            placed[k], column = torch.minimum(before, column), torch.maximum(before, column)
        placed.append(column)
    return placed


def group(values: Tensor) -> list[tuple[int, Tensor]]:
    """Return the different values in ascending order, each with its positions in order."""
    if not values.numel():
        return []
    low, high = (int(v) for v in torch.aminmax(values))
    if low == high:
        return [(low, torch.arange(len(values), device=values.device))]
    ordered, order = sort_few(values - low, high - low + 1)
    different, counts = torch.unique_consecutive(ordered, return_counts=True)
    positions = order.split(counts.tolist())
    return [(low + k, where) for k, where in zip(different.tolist(), positions, strict=True)]


def no_entries(rows: int, device: torch.device) -> Tensor:
    """Return an index without entries."""
    return torch.zeros(rows, 0, dtype=torch.long, device=device)


def ranges(counts: Tensor) -> Tensor:
    """Return where consecutive groups of these sizes start, and the end."""
    return torch.cat([counts.new_zeros(1), counts.cumsum(0)])


def expand(starts: Tensor, counts: Tensor) -> tuple[Tensor, Tensor]:
    """List groups of consecutive positions, one group after the other.

    Args:
        starts: The first position of every group, shape (groups,).
        counts: The size of every group, shape (groups,).

    Returns:
        The group of every position, and the positions, shape (positions,).

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
    """Return integers for the rows of two lists of columns, which are equal if the rows are."""
    columns = [torch.cat([one, other]) for one, other in zip(left, right, strict=True)]
    keys, _ = code(columns, bounds)
    return keys[: len(left[0])], keys[len(left[0]) :]


def pairs(
    left: Tensor, right: Tensor, limit: int = sys.maxsize, what: str = ""
) -> tuple[Tensor, Tensor]:
    """Return all pairs (place in left, place in right) of equal keys, by the place in left.

    Args:
        left: Keys.
        right: Keys.
        limit: The greatest number of pairs.
        what: The start of the error message.

    Raises:
        TooLargeError: There are more pairs. They are counted before they are listed.
    """
    ordered, order = right.sort(stable=True)
    # The keys that equal a given one are a range of the sorted keys.
    starts = torch.searchsorted(ordered, left)
    counts = torch.searchsorted(ordered, left, right=True) - starts
    assert_few(int(counts.sum()), limit, what)
    which, spot = expand(starts, counts)
    return which, order[spot]


def assert_few(
    count: int, limit: int, what: str, remedy: str = "Ask for fewer faces, or raise the limit"
) -> None:
    """Raise if a list would have more than `limit` elements; `what` starts the message."""
    if count > limit:
        raise TooLargeError(
            f"{what}: {count:,} combinations, and the limit is {limit:,}. {remedy}."
        )


def distinct(keys: Tensor) -> Tensor:
    """Return the first place of every different key, by ascending key."""
    ordered, order = keys.sort(stable=True)
    return order[_is_first(ordered)]


def is_among(keys: Tensor, known: Tensor) -> Tensor:
    """Return which keys are among the known ones."""
    if not known.numel():
        return torch.zeros_like(keys, dtype=torch.bool)
    ordered = known.sort()[0]
    place = torch.searchsorted(ordered, keys).clamp(max=len(ordered) - 1)
    return ordered[place] == keys


def by_entry(members: Tensor, num_entries: int) -> tuple[Tensor, Tensor]:
    """Sort the members of open faces by entry, then by node.

    Returns:
        The nodes, and where those of each entry start, with the end.
    """
    # A stable sort by entry keeps the nodes ascending.
    nodes, entry = members[:, members[0].sort()[1]]
    order = entry.sort(stable=True)[1]
    return nodes[order], ranges(torch.bincount(entry, minlength=num_entries))


def starts_of(lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return where consecutive pieces of these lengths start."""
    ends: NDArray[np.int64] = lengths.cumsum()
    return ends - lengths


_NUMBERS = np.arange(1 << 16)  # made once, as batches consist of many short lists


def spans(starts: NDArray[np.int64], lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the numbers in several ranges, one range after the other."""
    ends = lengths.cumsum()
    numbers: NDArray[np.int64] = (starts - ends + lengths).repeat(lengths)
    count = len(numbers)
    numbers += _NUMBERS[:count] if count <= len(_NUMBERS) else np.arange(count)
    return numbers
