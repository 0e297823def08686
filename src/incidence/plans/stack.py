r"""The lists of a stack in a plan: which bags its rows write to and read from.

Pooling adds the rows of a bag; reading back adds the bags of a row; backward is the same two with the sides swapped. Bags are
numbered level by level, then by key, with the slots of a key side by side; see `layout`. With oriented faces a row counts in a bag, and
a bag in a row, by a sign (docs/math.md section 16).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate, pairwise
from typing import NamedTuple

import torch
from torch import Tensor

from incidence.plans.buffers import Buffers
from incidence.plans.layout import NodeSlot
from incidence.structure.data import Array
from incidence.structure.ragged import group

__all__ = ["Bags", "BagsBySize", "Partners", "RowsByWidth", "StackLists", "StackPlan", "StackSigns"]


@dataclass(frozen=True, eq=False)
class Partners:
    """For one operation that matches all nodes of an orbit: the entry on the same nodes that each entry reads.

    Attributes:
        targets: The rows that read, ascending, shape (pairs,); None if all rows of the tensor do, each once.
        sources: The rows that they read, shape (pairs,); None if each reads itself.
        counts: How many pairs each structure has; on the host.
        signs: With oriented faces, 1 or -1 by which each is read, shape (pairs,); None if there are no signs.
    """

    targets: Tensor | None
    sources: Tensor | None
    counts: Array
    signs: Tensor | None = None

    @property
    def lists(self) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
        """Targets, sources and signs."""
        return self.targets, self.sources, self.signs

    @property
    def read_from(self) -> tuple[Tensor | None, Tensor | None]:
        """Sources and signs."""
        return self.sources, self.signs

    @cached_property
    def _by_row(self) -> dict[int, PartnersByRow | None]:
        return {}

    def by_row(self, num_rows: int) -> PartnersByRow | None:
        """The same for all rows of the tensor, where some read a partner; None if one reads several. Kept."""
        if num_rows not in self._by_row:
            assert self.targets is not None
            with torch.inference_mode(False):
                self._by_row[num_rows] = _by_row(
                    self.targets.long(), self.sources, self.signs, num_rows
                )
        return self._by_row[num_rows]


class PartnersByRow(NamedTuple):
    """The row that every row of a tensor reads, None if it is the row itself, and its sign; and the rows that read none, ascending."""

    sources: Tensor | None
    signs: Tensor | None
    absent: Tensor

    @property
    def read_from(self) -> tuple[Tensor | None, Tensor | None]:
        """Sources and signs."""
        return self.sources, self.signs


def _by_row(
    targets: Tensor, sources: Tensor | None, signs: Tensor | None, num_rows: int
) -> PartnersByRow | None:
    if bool((targets[1:] == targets[:-1]).any()):
        return None
    rows = torch.arange(num_rows, device=targets.device)
    absent = (
        torch.ones(num_rows, dtype=torch.bool, device=targets.device)
        .index_fill_(0, targets, False)
        .nonzero()[:, 0]
    )
    return PartnersByRow(
        None if sources is None else rows.index_copy(0, targets, sources.long()).to(sources.dtype),
        None
        if signs is None
        else torch.ones_like(signs[:1]).repeat(num_rows).index_copy(0, targets, signs),
        absent,
    )


class BagsBySize:
    """Bags by the number of their rows.

    Attributes:
        filled: For every size but 0, ascending, the bags of that size, shape (bags,), and their rows, shape (bags, size).
        empty: The other bags.
        num_bags: How many bags there are.
    """

    def __init__(self, rows: Tensor, ptr: Tensor) -> None:
        self.num_bags = len(ptr) - 1
        by_size = dict(group(ptr.diff()))
        self.empty = by_size.pop(0, ptr.new_zeros(0, dtype=torch.long))
        within = {size: torch.arange(size, device=ptr.device) for size in by_size}
        self.filled = [
            (bags, rows[ptr[bags, None].long() + within[size]]) for size, bags in by_size.items()
        ]


class RowsByWidth(NamedTuple):
    """Rows with as many bags each: the rows, or None if it is all of them, and their bags, shape (rows, bags each)."""

    rows: Tensor | None
    bags: Tensor


class StackLists(NamedTuple):
    """Which bags the rows of a stack have, and which rows its bags: each is the transpose of the other.

    Attributes:
        bags_of_rows: The bags of every row one after the other, shape (reads,).
        bags_ptr: Where the bags of every row start, and the end, shape (rows + 1,).
        rows_of_bags: The rows of every bag one after the other, shape (reads,).
        rows_ptr: Where the rows of every bag start, and the end, shape (bags + 1,).
    """

    bags_of_rows: Tensor
    bags_ptr: Tensor
    rows_of_bags: Tensor
    rows_ptr: Tensor


class StackSigns(NamedTuple):
    """1 or -1 for every pair of a row and a bag: in the order of `bags_of_rows`, and in that of `rows_of_bags`; shape (reads,) each."""

    of_rows: Tensor
    of_bags: Tensor


class Bags(NamedTuple):
    """Members of bags one after the other, where those of each start, and the sign by which each counts, if there are signs."""

    members: Tensor
    ptr: Tensor
    signs: Tensor | None


@dataclass(frozen=True, eq=False)
class StackPlan:
    """The lists of one stack.

    Attributes:
        row_ptr: Where the rows of each tensor start, and the end.
        num_structures: How many structures there are.
        num_slots: For every level, how many slots a key has.
        level_ptr: For every level its first bag, and the number of all bags.
        lists: Which bags its rows have, and which rows its bags.
        num_reads: How many pairs of a row and a bag there are, by tensor, level and structure; on the host.
        single_nodes: For every slot of structures, where sums over all its rows can be taken from; None unless all have one.
        signs: The signs by which rows count in bags, and bags in rows; None where no tensor has an oriented face.
        buffers: Memory for what its rows and bags hold.
    """

    row_ptr: tuple[int, ...]
    num_structures: int
    num_slots: tuple[int, ...]
    level_ptr: tuple[int, ...]
    lists: StackLists
    num_reads: Array
    single_nodes: tuple[NodeSlot, ...] | None
    signs: StackSigns | None = None
    buffers: Buffers = field(default_factory=Buffers, repr=False)
    _sizes: dict[int, Tensor] = field(default_factory=dict, repr=False)

    @property
    def num_rows(self) -> int:
        """The rows of all tensors."""
        return self.row_ptr[-1]

    @property
    def num_bags(self) -> int:
        """The number of bags, empty ones included."""
        return self.level_ptr[-1]

    @cached_property
    def num_bags_at(self) -> list[int]:
        """The number of bags of every level."""
        return [stop - start for start, stop in pairwise(self.level_ptr)]

    @cached_property
    def num_rows_of(self) -> list[int]:
        """The number of rows of every tensor."""
        return [stop - start for start, stop in pairwise(self.row_ptr)]

    @cached_property
    def reads_ptr(self) -> tuple[int, ...]:
        """For every level where its reads start in `rows_of_bags`, and the end."""
        return 0, *accumulate(self.num_reads.sum(axis=(0, 2)).tolist())

    def bag_sizes(self, level: int) -> Tensor:
        """The number of rows of every bag of a level, shape (keys, slots, 1); 1 for an empty one. Kept."""
        if level not in self._sizes:
            with torch.inference_mode(False):
                ptr = self.lists.rows_ptr[self.level_ptr[level] : self.level_ptr[level + 1] + 1]
                self._sizes[level] = (
                    ptr.diff().clamp_(min=1).float().view(-1, self.num_slots[level], 1)
                )
        return self._sizes[level]

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """The lists, then the signs if there are any."""
        return *self.lists, *(self.signs or ())

    @property
    def bags_of_rows(self) -> Bags:
        """The bags of all rows."""
        return Bags(
            self.lists.bags_of_rows,
            self.lists.bags_ptr,
            None if self.signs is None else self.signs.of_rows,
        )

    @property
    def rows_of_bags(self) -> Bags:
        """The rows of all bags."""
        return Bags(
            self.lists.rows_of_bags,
            self.lists.rows_ptr,
            None if self.signs is None else self.signs.of_bags,
        )

    @property
    def rows_of_structures(self) -> Bags:
        """The rows of the bags of structures."""
        rows, ptr, signs = self.rows_of_bags
        end = self.reads_ptr[1]
        return Bags(
            rows[:end], ptr[: self.level_ptr[1] + 1], None if signs is None else signs[:end]
        )

    @cached_property
    def rows_of_others(self) -> Bags:
        """The rows of all bags but those of structures."""
        rows, ptr, signs = self.rows_of_bags
        start = self.reads_ptr[1]
        return Bags(
            rows[start:], ptr[self.level_ptr[1] :] - start, None if signs is None else signs[start:]
        )

    @cached_property
    def structures_by_size(self) -> BagsBySize:
        """The bags of structures by size."""
        return BagsBySize(*self.rows_of_structures[:2])

    @cached_property
    def others_by_size(self) -> BagsBySize:
        """All bags but those of structures by size."""
        return BagsBySize(*self.rows_of_others[:2])

    @cached_property
    def rows_by_width(self) -> list[RowsByWidth]:
        """The rows by the number of their bags."""
        by_width = group(self.lists.bags_ptr.diff())
        if len(by_width) == 1:
            return [
                RowsByWidth(None, self.lists.bags_of_rows.view(-1, width)) for width, _ in by_width
            ]
        starts = self.lists.bags_ptr.long()
        within = {width: torch.arange(width, device=starts.device) for width, _ in by_width}
        return [
            RowsByWidth(rows, self.lists.bags_of_rows[starts[rows, None] + within[width]])
            for width, rows in by_width
        ]
