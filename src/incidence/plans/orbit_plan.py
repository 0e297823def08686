r"""The lists of one orbit in a plan: which bags its entries write to and read from.

A *bag* is a key (a node set) with a word (in which classes its nodes lie). Pooling adds the entries of a bag; broadcasting adds the
bags of an entry; backward is the same two with the sides swapped. Bags are numbered level by level: first one for each structure
(the empty key), then for every level the keys, each with its words side by side, so that the pooled features of a level are a matrix
of keys by (words x channels).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, pairwise

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from incidence.structure.arrange import Mask
from incidence.structure.ragged import group, ranges

__all__ = ["Array", "BySize", "OrbitPlan", "Table", "flatten", "mask_lists", "offsets_of", "order_of", "read_ptr_of"]

Array = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Table:
    """A bucket: entries of one orbit and given class sizes, which have as many bags each.

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


class BySize:
    """Bags by their size.

    Attributes:
        filled: For every size but 0, ascending, the bags of that size and their entries, shape (bags, size).
        empty: The other bags.
        num_bags: How many bags there are.
    """

    def __init__(self, members: Tensor, ptr: Tensor) -> None:
        self.num_bags = len(ptr) - 1
        by_size = dict(group(ptr.diff()))
        self.empty = by_size.pop(0, ptr.new_zeros(0, dtype=torch.long))
        within = {size: torch.arange(size, device=ptr.device) for size in by_size}
        self.filled = [(bags, members[ptr[bags, None].long() + within[size]]) for size, bags in by_size.items()]


@dataclass(frozen=True)
class OrbitPlan:
    """The lists of one orbit of one tensor.

    Attributes:
        start, stop: The rows of the orbit, in canonical order.
        levels: The numbers of the levels, in the order of the bags.
        num_slots: For every level, how many words a key has.
        offsets: For every level, its first bag; the last number is the number of all bags.
        read: The bags of every entry one after the other; shape (pairs,).
        read_ptr: Where the bags of every entry start in `read`, and the end.
        pool: The entries of every bag one after the other, counted from `start`.
        pool_ptr: Where the entries of every bag start in `pool`, and the end.
        masks: The masks of the node sets, and `num_sets` how many sets have each.
        tables: The same by bucket and structure, for batches.
        nodes_at: A level of single nodes with the slot of a class and its size, where there is one: every entry stands in as many of
            its bags as the class has nodes, so that sums over all entries can be taken from there.
    """

    start: int
    stop: int
    levels: tuple[int, ...]
    num_slots: tuple[int, ...]
    offsets: tuple[int, ...]
    read: Tensor
    read_ptr: Tensor
    pool: Tensor
    pool_ptr: Tensor
    masks: tuple[Mask, ...]
    num_sets: tuple[int, ...]
    nodes_at: tuple[int, int, int] | None = None
    tables: tuple[Table, ...] = ()

    @property
    def num_bags(self) -> int:
        """The number of bags, empty ones included."""
        return self.offsets[-1]

    @cached_property
    def num_bags_at(self) -> list[int]:
        """The number of bags of every level."""
        return [stop - start for start, stop in pairwise(self.offsets)]

    @cached_property
    def slices(self) -> list[tuple[int, int, int]]:
        """The entries of every mask: start, stop, and how many entries a set has."""
        stops = list(accumulate(n * len(mask) for n, mask in zip(self.num_sets, self.masks, strict=True)))
        return [(start, stop, len(mask)) for start, stop, mask in zip([0, *stops], stops, self.masks, strict=False)]

    @property
    def whole(self) -> tuple[Tensor, Tensor]:
        """The entries of structures, and where they start: every entry is in one."""
        return self.pool[: self.stop - self.start], self.pool_ptr[: self.offsets[1] + 1]

    @cached_property
    def local(self) -> tuple[Tensor, Tensor]:
        """The entries of all bags but those of structures, and where they start."""
        total = self.stop - self.start
        return self.pool[total:], self.pool_ptr[self.offsets[1] :] - total

    @cached_property
    def bags_by_size(self) -> BySize:
        """The bags by size, but those of structures."""
        return BySize(*self.local)

    @cached_property
    def structures_by_size(self) -> BySize:
        """The bags of structures by size."""
        return BySize(*self.whole)

    @cached_property
    def entries_by_width(self) -> list[tuple[int, int, int, int]]:
        """Runs of entries with as many bags each: start and stop, where their bags start in `read`, and how many each has."""
        widths, counts = torch.unique_consecutive(self.read_ptr.diff(), return_counts=True)
        found, start, first = [], 0, 0
        for width, count in zip(widths.tolist(), counts.tolist(), strict=True):
            found.append((start, start + count, first, width))
            start, first = start + count, first + count * width
        return found


def flatten(bags: Sequence[Tensor], dtype: torch.dtype, device: torch.device) -> tuple[Tensor, Tensor]:
    """The bags of all entries one after the other, and where those of each start."""
    read = torch.cat([torch.zeros(0, dtype=dtype, device=device), *(b.flatten() for b in bags)]) if len(bags) != 1 else bags[0].flatten()
    return read, read_ptr_of([(len(b), b.shape[1]) for b in bags], read)


def read_ptr_of(shapes: Sequence[tuple[int, int]], like: Tensor) -> Tensor:
    """Where the bags of every entry start, for some numbers of entries with as many bags each."""
    dtype, device = like.dtype, like.device
    if len(shapes) == 1:
        [(count, width)] = shapes
        return torch.arange(0, count * width + 1, width, dtype=dtype, device=device)
    each = [torch.full((count,), width, device=device) for count, width in shapes]
    return ranges(torch.cat([torch.zeros(0, dtype=torch.long, device=device), *each])).to(dtype)


def mask_lists(tables: Sequence[Table]) -> tuple[tuple[Mask, ...], tuple[int, ...]]:
    """The masks of all buckets, and how many sets have each."""
    return tuple(mask for t in tables for mask in t.masks), tuple(n for t in tables for n in t.sets.sum(1).tolist())


def offsets_of(levels: Sequence[int], slots: Sequence[int], keys: Array) -> tuple[int, ...]:
    """Where the bags of every level start, and the end."""
    totals = keys.sum(1).tolist()
    return (0, *accumulate(totals[level] * num_slots for level, num_slots in zip(levels, slots, strict=True)))


def order_of(rows: Sequence[Tensor]) -> Tensor | None:
    """The rows in canonical order; None if they are."""
    if not rows:
        return None
    order = torch.cat(list(rows)) if len(rows) > 1 else rows[0]
    return None if bool((order == torch.arange(len(order), device=order.device)).all()) else order
