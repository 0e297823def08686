"""Rows that belong together: groups laid out one after the other, joins on equal keys, first occurrences. All linear or one sort."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from incidence.errors import TooLargeError
from incidence.structure.keys import code, ranges

__all__ = ["MAX_ENTRIES", "assert_few", "by_entry", "common_keys", "distinct", "expand", "is_among", "pairs"]

MAX_ENTRIES = 20_000_000
"""How many entries are looked for before a request is refused: pairs of edges then take 7 gigabytes while they are put in order."""


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


def common_keys(left: Sequence[Tensor], right: Sequence[Tensor], bounds: Sequence[int]) -> tuple[Tensor, Tensor]:
    """Integers for the rows of two lists of columns, equal iff the rows are."""
    columns = [torch.cat([one, other]) for one, other in zip(left, right, strict=True)]
    keys, _ = code(columns, bounds)
    return keys[: len(left[0])], keys[len(left[0]) :]


def pairs(left: Tensor, right: Tensor, limit: int, what: str) -> tuple[Tensor, Tensor]:
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


def assert_few(count: int, limit: int, what: str, remedy: str = "Ask for fewer faces, or raise the limit") -> None:
    """Refuses to list more than `limit` things."""
    if count > limit:
        raise TooLargeError(f"{what}: {count:,} combinations, and the limit is {limit:,}. {remedy}.")


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
