r"""The bags of a tensor as a sparse matrix, and sums over bags.

Pooling adds the rows of every bag. Reading adds the bags of every row. Backward is the same two
with the sides swapped. So one matrix of rows by bags, with its transpose, serves all four. With
oriented faces it has entries 1 and -1 (docs/math.md section 16).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from incidence.engine.layout import NodeSlot
from incidence.engine.memory import Buffers
from incidence.engine.shared import SharedKeys, exchanged
from incidence.structure.data import Array
from incidence.structure.ragged import are_short, group, ranges

__all__ = [
    "Bags",
    "Lists",
    "ListsByLength",
    "Pairs",
    "bag_numbers",
    "bag_sum",
    "concatenated",
    "range_bags",
    "transposed_product",
    "wide_of",
]

_SUM = 0  # the mode of `embedding_bag`
_BLOCK = 1 << 22  # elements of a temporary
_CHUNKS, _LEAST_CHUNK = 16, 256  # parts of tall products, and rows that are worth a part
# Rows of one structure up to which one call pools into all bags. With more, the bag of the
# structure would be summed by one thread.
_FEW = 1 << 13

ListsByLength = list[tuple[Tensor | None, Tensor]]
"""For every length, ascending: the lists of that length, or None for all lists, shape (lists,); and
their members, shape (lists, length)."""


class Lists(NamedTuple):
    """Lists of numbers one after the other, such as the rows of every bag.

    Attributes:
        members: The numbers, shape (members,).
        ptr: Where every list starts, and the end, shape (lists + 1,).
        signs: 1 or -1 for every member, shape (members,); None where all are 1.
    """

    members: Tensor
    ptr: Tensor
    signs: Tensor | None = None

    @property
    def num_lists(self) -> int:
        """How many lists there are."""
        return len(self.ptr) - 1

    def by_length(self) -> ListsByLength:
        """Return the lists sorted by length: lists of one length are a table."""
        lengths = group(self.ptr.diff())  # by length: which lists
        if len(lengths) == 1:
            [(length, lists)] = lengths
            return [(None, self.members.view(len(lists), length))]
        starts = self.ptr.long()  # indices must be long to be added to
        return [
            # (lists, 1) + (length,) -> (lists, length)
            (lists, self.members[starts[lists, None] + torch.arange(length, device=lists.device)])
            for length, lists in lengths
        ]


class Pairs(NamedTuple):
    """Lists pair by pair, as steps read them that every runtime knows.

    Attributes:
        targets: Where something is added up, shape (pairs,).
        sources: The row that is added there, shape (pairs,).
        sizes: The number of pairs of every target. Its shape is (targets,), or (keys, slots) for
            the bags of a level. None where nothing depends on it.
        signs: 1 or -1 for every pair, shape (pairs,); None where all are 1.
    """

    targets: Tensor
    sources: Tensor
    sizes: Tensor | None = None
    signs: Tensor | None = None

    def signed(self, rows: Tensor) -> Tensor:
        """Return a row for every pair times its sign."""
        if self.signs is None:
            return rows
        return rows * self.signs.to(rows.dtype).view(-1, *[1] * (rows.ndim - 1))


@dataclass(frozen=True, eq=False)
class Bags:
    """The bags of a tensor on a structure.

    Bags are numbered level by level, then by key; the slots of a key are side by side.

    Attributes:
        num_slots: For every level the number of slots of a key.
        level_ptr: For every level its first bag, and the number of all bags.
        of_rows: The bags of every row.
        of_bags: The rows of every bag: the transpose of `of_rows`.
        num_reads: The number of pairs of a row and a bag, shape (levels, structures); on the host.
        node_slots: For every slot of a structure, the bags of single nodes that can stand in for
            it; see `NodeSlot`.
        shared: On a part of a structure, who shares the keys of every level; else empty.
        is_copy: Whether the rows are on another process too, which counts them: the values of
            whole structures are on all processes.
        buffers: Memory for the values of rows and bags.
    """

    num_slots: tuple[int, ...]
    level_ptr: tuple[int, ...]
    of_rows: Lists
    of_bags: Lists
    num_reads: Array
    node_slots: tuple[NodeSlot, ...] | None
    shared: tuple[SharedKeys, ...] = ()
    is_copy: bool = False
    buffers: Buffers = field(default_factory=Buffers, repr=False)
    _sizes: dict[int, Tensor] = field(default_factory=dict, repr=False)
    _rows_at: dict[int, Lists] = field(default_factory=dict, repr=False)

    @cached_property
    def num_rows(self) -> int:
        """The number of entries of the tensor."""
        return self.of_rows.num_lists

    @property
    def num_bags(self) -> int:
        """The number of bags, empty ones included."""
        return self.level_ptr[-1]

    @property
    def num_structures(self) -> int:
        """The number of structures."""
        return int(self.num_reads.shape[1])

    @cached_property
    def num_bags_at(self) -> list[int]:
        """The number of bags of every level."""
        return [stop - start for start, stop in pairwise(self.level_ptr)]

    @cached_property
    def reads_ptr(self) -> tuple[int, ...]:
        """Where the rows of the bags of every level start in `of_bags`, and the end."""
        return 0, *accumulate(self.num_reads.sum(axis=1).tolist())

    @property
    def tensors(self) -> list[Tensor]:
        """All lists."""
        return [
            part for lists in (self.of_rows, self.of_bags) for part in lists if part is not None
        ]

    def read(self, z: Tensor) -> Tensor:
        """Return the sum of the bags of every row: from (bags, channels) to (rows, channels)."""
        return bag_sum(z, *self.of_rows)

    def pool(self, x: Tensor) -> list[Tensor]:
        """Return the sum of the rows of every bag, by level: (keys, slots x channels) each."""
        if self.num_rows <= _FEW or self.num_structures > 1:
            return self.by_level(bag_sum(x, *self.of_bags))
        others = bag_sum(x, *self.of_others)  # (other bags, channels)
        whole = self._structure_sums(x, others).view(1, -1)  # (1, slots x channels)
        return [whole, *self.by_level(others, first=1)]

    def pool_at(self, level: int, x: Tensor) -> Tensor:
        """Return the sums of the bags of one level: from (rows, channels) to (bags, channels)."""
        return bag_sum(x, *self._of_bags(level, level + 1))

    def read_at(self, level: int, z: Tensor) -> Tensor:
        """Return the sums of the bags of one level that every row has, (rows, channels)."""
        if level not in self._rows_at:
            with torch.inference_mode(False):
                self._rows_at[level] = self._of_rows_at(level)
        return bag_sum(z, *self._rows_at[level])

    def _of_rows_at(self, level: int) -> Lists:
        """Return the bags of one level that every row has, by their numbers in the level."""
        members, ptr, signs = self.of_rows
        first, last = self.level_ptr[level], self.level_ptr[level + 1]
        is_there = (members >= first) & (members < last)
        counts = ranges(is_there).to(ptr.dtype)  # (members + 1,): those before each
        own = None if signs is None else signs[is_there]
        return Lists(members[is_there] - first, counts[ptr.long()], own)

    def pool_all(self, x: Tensor) -> list[Tensor]:
        """Return the same over the rows of all processes."""
        sums = self.pool(x)
        return self.over_rows(sums) if self.shared else sums

    def over_rows(self, values: Sequence[Tensor], op: str = "sum") -> list[Tensor]:
        """Return what the rows of all processes give the bags of every level.

        Args:
            values: What the rows of this process give, by level.
            op: `sum`, `max` or `min`.
        """
        return exchanged(self.shared, values, op, self.is_copy)

    def totals(self, sums: Sequence[Tensor]) -> Sequence[Tensor]:
        """Return the sums of bags over all processes, from those of this process."""
        return exchanged(self.shared, sums) if self.shared else sums

    def num_bytes_sent(self, channels: int, itemsize: int) -> int:
        """Return the bytes that this process sends when bags are exchanged once."""
        sent = [
            level.num_sent() * slots * channels
            for level, slots in zip(self.shared, self.num_slots, strict=True)
        ]
        return sum(sent) * itemsize

    def by_level(self, z: Tensor, first: int = 0) -> list[Tensor]:
        """Return the values of bags by level, from a level on: views (keys, slots x channels)."""
        parts = z.split_with_sizes(self.num_bags_at[first:])
        channels = z.shape[1]
        return [
            part if slots == 1 else part.view(len(part) // max(slots, 1), slots * channels)
            for part, slots in zip(parts, self.num_slots[first:], strict=True)
        ]

    def _structure_sums(self, x: Tensor, others: Tensor) -> Tensor:
        """Return the sums over a lone structure, (slots, channels).

        The bags of nodes hold these sums already, and they are far fewer than the rows.
        """
        wide = wide_of(x.dtype)
        if self.num_slots[0] == 1 and self.of_rows.signs is None:
            return x.sum(0, keepdim=True, dtype=wide).to(x.dtype)  # (1, channels)
        if self.node_slots is None or x.dtype != wide:
            return bag_sum(x, *self.of_structures)
        return torch.stack(
            [self.at_nodes(others, slot).sum(0).div_(slot.size) for slot in self.node_slots]
        )

    def at_nodes(self, others: Tensor, slot: NodeSlot) -> Tensor:
        """Return the values of the bags of one node slot, (nodes, channels).

        Args:
            others: The values of all bags but those of structures.
            slot: The slot.
        """
        first = self.level_ptr[1]
        start, stop = (self.level_ptr[level] - first for level in (slot.level, slot.level + 1))
        # (nodes, slots, channels)
        keys = others[start:stop].view(-1, self.num_slots[slot.level], others.shape[1])
        return keys[:, slot.slot]  # (nodes, channels)

    @property
    def of_structures(self) -> Lists:
        """The rows of the bags of structures."""
        return self._of_bags(0, 1)

    @cached_property
    def of_others(self) -> Lists:
        """The rows of all bags but those of structures."""
        return self._of_bags(1, len(self.num_slots))

    def _of_bags(self, first: int, last: int) -> Lists:
        """Return the rows of the bags of some levels."""
        members, ptr, signs = self.of_bags
        start, stop = self.reads_ptr[first], self.reads_ptr[last]
        own = ptr[self.level_ptr[first] : self.level_ptr[last] + 1]
        return Lists(
            members[start:stop],
            own - start if start else own,
            None if signs is None else signs[start:stop],
        )

    def sizes(self, level: int) -> Tensor:
        """Return the number of rows of every bag of a level, (keys, slots, 1).

        An empty bag counts as 1, so that sums can be divided by it.
        """
        if level not in self._sizes:
            # a structure is used in training later: nothing it caches is an inference tensor
            with torch.inference_mode(False):
                ptr = self.of_bags.ptr[self.level_ptr[level] : self.level_ptr[level + 1] + 1]
                counts = ptr.diff().clamp_(min=1).float()  # (bags of the level,)
                self._sizes[level] = counts.view(-1, self.num_slots[level], 1)
        return self._sizes[level]

    def count_all(self) -> None:
        """Count the rows of every bag over all processes, which `sizes` returns from now on."""
        counts = self.of_bags.ptr.diff().double()[:, None]  # (bags, 1)
        for level, own in enumerate(self.over_rows(self.by_level(counts))):
            sizes = own.clamp(min=1).float()
            self._sizes[level] = sizes.view(len(sizes), self.num_slots[level], 1)

    @cached_property
    def structures_by_size(self) -> ListsByLength:
        """The rows of the bags of structures, by the number of these rows."""
        return self.of_structures.by_length()

    @cached_property
    def others_by_size(self) -> ListsByLength:
        """The rows of all other bags, by the number of these rows."""
        return self.of_others.by_length()

    @cached_property
    def rows_by_width(self) -> ListsByLength:
        """The bags of the rows, by the number of these bags."""
        return self.of_rows.by_length()


def range_bags(counts: Array, device: torch.device) -> Bags:
    """Return the bags of a tensor where the bag of a structure is the range of its rows.

    Args:
        counts: The number of rows of every structure.
        device: Where the lists go.
    """
    total, num_structures = int(counts.sum()), len(counts)
    dtype = np.int32 if are_short(total, num_structures) else np.int64
    ptr = np.zeros(num_structures + 1, dtype=dtype)
    np.cumsum(counts, out=ptr[1:])
    # (rows,): the only bag of every row
    homes = np.arange(num_structures, dtype=dtype).repeat(counts)
    rows = np.arange(total + 1, dtype=dtype)

    def on_device(values: Any) -> Tensor:
        return torch.from_numpy(values).to(device)

    of_rows = Lists(on_device(homes), on_device(rows))
    of_bags = Lists(on_device(rows[:-1]), on_device(ptr))
    return Bags((1,), (0, num_structures), of_rows, of_bags, counts[None], None)


def wide_of(dtype: torch.dtype) -> torch.dtype:
    """Return the type in which numbers of a type are added up: half precision would overflow."""
    return dtype if dtype == torch.float64 else torch.float32


def bag_sum(x: Tensor, members: Tensor, ptr: Tensor, weights: Tensor | None = None) -> Tensor:
    """Return the sum of the rows of every bag, each times its weight if there are weights.

    `embedding_bag` is 3 to 6 times as fast as `index_add_` in float32, and slower than it in
    float64. In half precision the sums are taken in float32.

    Args:
        x: The rows, shape (rows, channels).
        members: The rows of every bag, one bag after the other.
        ptr: Where every bag starts, and the end.
        weights: A weight for every member.

    Returns:
        The sums, shape (bags, channels).
    """
    if not members.numel() or not x.numel():
        return x.new_zeros(len(ptr) - 1, x.shape[1])
    if x.dtype == torch.float32:
        x = x.contiguous()
        return torch.embedding_bag(x, members, ptr, False, _SUM, False, weights, True)[0]
    wide = wide_of(x.dtype)
    out = torch.zeros(len(ptr) - 1, x.shape[1], dtype=wide, device=x.device)
    bags = bag_numbers(ptr, len(members))
    step = max(1, _BLOCK // max(1, x.shape[1]))
    for start in range(0, len(members), step):
        part = slice(start, start + step)
        rows = x.index_select(0, members[part]).to(wide)  # (members of the part, channels)
        if weights is not None:
            rows = rows * weights[part, None]
        out.index_add_(0, bags[part], rows)
    return out.to(x.dtype)


def bag_numbers(ptr: Tensor, total: int) -> Tensor:
    """Return the bag of every member."""
    bags = torch.arange(len(ptr) - 1, device=ptr.device)
    return torch.repeat_interleave(bags, ptr.diff(), output_size=total)


def transposed_product(a: Tensor, b: Tensor, out: Tensor | None = None) -> Tensor:
    """Return `a.T @ b` for tall and narrow matrices, written to `out` if it is given.

    The product is taken in chunks of rows, which keeps the cores and the cache busy.
    """
    length = a.shape[0] // _CHUNKS
    if length < _LEAST_CHUNK:
        return torch.mm(a.t(), b, out=out)
    head = length * _CHUNKS
    left, right = (m[:head].view(_CHUNKS, length, -1) for m in (a, b))  # (chunks, rows, columns)
    # (columns of a, columns of b)
    product = torch.sum(torch.bmm(left.transpose(1, 2), right), 0, out=out)
    return product.addmm_(a[head:].t(), b[head:]) if head < a.shape[0] else product


def concatenated(parts: Sequence[Tensor]) -> Tensor:
    """Return tensors one below the other; a lone one as it is."""
    return parts[0] if len(parts) == 1 else torch.cat(list(parts))
