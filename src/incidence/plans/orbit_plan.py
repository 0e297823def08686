r"""The lists of one orbit in a plan: which bags its entries write to and read from.

A *bag* is a key (a node set) with a word (in which classes its nodes lie). Pooling adds the entries of a bag; reading back adds the
bags of an entry; backward is the same two with the sides swapped. Bags are numbered level by level: first one for each structure
(the empty key), then for every level the keys, each with its words side by side, so that the pooled features of a level are a matrix
of keys by (words x channels).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, pairwise
from typing import NamedTuple

import torch
from torch import Tensor

from incidence.structure.arrange import Mask
from incidence.structure.data import Array
from incidence.structure.ragged import group, ranges

__all__ = ["BagsBySize", "BucketPlan", "EntryRun", "MaskSlice", "NodeSlot", "OrbitPlan", "bags_ptr_of", "level_ptr_of", "places_of"]


@dataclass(frozen=True, eq=False)
class BucketPlan:
    """Entries of one orbit and given class sizes, which have as many bags each.

    Attributes:
        sizes: The number of nodes in each class.
        widths: How many bags of each level an entry has.
        masks: The masks of the node sets.
        sets: How many sets of each mask each structure has, shape (masks, structures); on the host.
    """

    sizes: tuple[int, ...]
    widths: tuple[int, ...]
    masks: tuple[Mask, ...]
    sets: Array


class NodeSlot(NamedTuple):
    """A class of fixed size that has a level of single nodes: the level, the slot of the class there, and its size.

    Every entry stands in `size` of these bags, so that sums over all entries can be taken from there.
    """

    level: int
    slot: int
    size: int


class MaskSlice(NamedTuple):
    """The entries of one mask, and how many of them lie on each node set: one for each word of the mask."""

    start: int
    stop: int
    entries_per_set: int


class EntryRun(NamedTuple):
    """Consecutive entries with as many bags each, and where those of the first start in `bags_of_entries`."""

    start: int
    stop: int
    first: int
    width: int


class BagsBySize:
    """Bags by the number of their entries.

    Attributes:
        filled: For every size but 0, ascending, the bags of that size, shape (bags,), and the rows of their entries, shape (bags, size).
        empty: The other bags.
        num_bags: How many bags there are.
    """

    def __init__(self, rows: Tensor, ptr: Tensor) -> None:
        self.num_bags = len(ptr) - 1
        by_size = dict(group(ptr.diff()))
        self.empty = by_size.pop(0, ptr.new_zeros(0, dtype=torch.long))
        within = {size: torch.arange(size, device=ptr.device) for size in by_size}
        self.filled = [(bags, rows[ptr[bags, None].long() + within[size]]) for size, bags in by_size.items()]


@dataclass(frozen=True)
class OrbitPlan:
    """The lists of one orbit of one tensor.

    Entries are numbered so that those on one node set follow each other. An entry is not a *row*, its place in the features as the caller
    has them: bags are listed by entry, and what is in a bag is listed by row, so that features are pooled from where they are.

    Attributes:
        num_entries: How many entries the orbit has.
        first_row, rows: Where they are in the features of the tensor: rows[e], shape (entries,); or first_row + e where rows is None.
        level_numbers: Which levels of the plan these are, in the order of the bags.
        num_slots: For every level, how many words a key has.
        level_ptr: For every level its first bag, and the number of all bags.
        bags_of_entries: The bags of every entry one after the other, shape (reads,).
        bags_ptr: Where the bags of every entry start, and the end, shape (entries + 1,).
        rows_of_bags: The rows of the entries of every bag one after the other, shape (reads,).
        rows_ptr: Where the rows of every bag start, and the end, shape (bags + 1,).
        masks: The masks of the node sets, and `num_sets` how many sets have each.
        single_nodes: Where sums over all entries can be taken from, if anywhere.
        buckets: The entries by class sizes and structure, for batches.
    """

    num_entries: int
    first_row: int
    rows: Tensor | None
    level_numbers: tuple[int, ...]
    num_slots: tuple[int, ...]
    level_ptr: tuple[int, ...]
    bags_of_entries: Tensor
    bags_ptr: Tensor
    rows_of_bags: Tensor
    rows_ptr: Tensor
    masks: tuple[Mask, ...]
    num_sets: tuple[int, ...]
    single_nodes: NodeSlot | None = None
    buckets: tuple[BucketPlan, ...] = ()

    @property
    def num_bags(self) -> int:
        """The number of bags, empty ones included."""
        return self.level_ptr[-1]

    @property
    def num_structures(self) -> int:
        """The number of structures: each has one bag, of all its entries."""
        return self.level_ptr[1]

    def row_of(self, entries: Tensor) -> Tensor:
        """The rows of some entries."""
        return entries + self.first_row if self.rows is None else self.rows[entries]

    @cached_property
    def on_host(self) -> dict[str, Array]:
        """All numbers of the lists but the ends, on the host, where batches are made of them."""
        rows = self.row_of(torch.arange(self.num_entries, device=self.bags_ptr.device)).to(self.bags_ptr.dtype)
        parts = {"bags": self.bags_of_entries, "rows_of_bags": self.rows_of_bags, "rows_ptr": self.rows_ptr[:-1], "rows": rows}
        return {name: part.cpu().numpy() for name, part in parts.items()}

    @cached_property
    def num_bags_at(self) -> list[int]:
        """The number of bags of every level."""
        return [stop - start for start, stop in pairwise(self.level_ptr)]

    @cached_property
    def mask_slices(self) -> list[MaskSlice]:
        """The entries of every mask."""
        stops = list(accumulate(n * len(mask) for n, mask in zip(self.num_sets, self.masks, strict=True)))
        return [MaskSlice(start, stop, len(mask)) for start, stop, mask in zip([0, *stops], stops, self.masks, strict=False)]

    @property
    def rows_of_structures(self) -> tuple[Tensor, Tensor]:
        """The rows of the bags of structures, and where they start: every entry is in one."""
        return self.rows_of_bags[: self.num_entries], self.rows_ptr[: self.num_structures + 1]

    @cached_property
    def rows_of_others(self) -> tuple[Tensor, Tensor]:
        """The rows of all bags but those of structures, and where they start."""
        return self.rows_of_bags[self.num_entries :], self.rows_ptr[self.num_structures :] - self.num_entries

    @cached_property
    def structures_by_size(self) -> BagsBySize:
        """The bags of structures by size."""
        return BagsBySize(*self.rows_of_structures)

    @cached_property
    def others_by_size(self) -> BagsBySize:
        """All bags but those of structures by size."""
        return BagsBySize(*self.rows_of_others)

    @cached_property
    def entry_runs(self) -> list[EntryRun]:
        """Runs of entries with as many bags each."""
        widths, counts = torch.unique_consecutive(self.bags_ptr.diff(), return_counts=True)
        found, start, first = [], 0, 0
        for width, count in zip(widths.tolist(), counts.tolist(), strict=True):
            found.append(EntryRun(start, start + count, first, width))
            start, first = start + count, first + count * width
        return found


def places_of(orbits: Sequence[OrbitPlan]) -> Tensor | None:
    """Where every row of a tensor is among the entries of its orbits, one orbit after the other; None if they are in that order."""
    starts = [0, *accumulate(orbit.num_entries for orbit in orbits)]
    if all(orbit.rows is None and orbit.first_row == start for orbit, start in zip(orbits, starts, strict=False) if orbit.num_entries):
        return None
    every = torch.arange(starts[-1], device=orbits[0].bags_ptr.device)
    rows = torch.cat([orbit.row_of(every[: orbit.num_entries]) for orbit in orbits])
    return torch.empty_like(every).index_copy_(0, rows, every)


def bags_ptr_of(shapes: Sequence[tuple[int, int]], like: Tensor) -> Tensor:
    """Where the bags of every entry start, for some numbers of entries with as many bags each."""
    dtype, device = like.dtype, like.device
    if len(shapes) == 1:
        [(count, width)] = shapes
        return torch.arange(0, count * width + 1, width, dtype=dtype, device=device)
    each = [torch.full((count,), width, device=device) for count, width in shapes]
    return ranges(torch.cat([torch.zeros(0, dtype=torch.long, device=device), *each])).to(dtype)


def level_ptr_of(level_numbers: Sequence[int], num_slots: Sequence[int], num_keys: Array) -> tuple[int, ...]:
    """Where the bags of every level start, and the end; from the number of keys by level and structure."""
    totals = num_keys.sum(1).tolist()
    return (0, *accumulate(totals[level] * slots for level, slots in zip(level_numbers, num_slots, strict=True)))
