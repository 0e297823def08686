r"""Plans: which keys the entries of a structure write to and read from.

Every entry writes to all subsets of its nodes and reads from all subsets of its nodes. A plan lists
the bags of every tensor of a map. Where an orbit meets itself, it lists the partners of the
entries. `docs/engine.md` carries an example through by hand.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate

import numpy as np
import torch
from torch import Tensor

from incidence.algebra.maps import EquivariantMap
from incidence.algebra.pattern import Pattern
from incidence.engine.bags import Bags, Lists, range_bags, wide_of
from incidence.engine.keys import (
    BucketKeys,
    count_by_structure,
    keys_of,
    number_keys,
    shared_at,
)
from incidence.engine.layout import MapLayout, TensorLayout, layout_of
from incidence.engine.memory import Buffers
from incidence.engine.partners import PartnerKey, Partners, partners_of
from incidence.engine.shared import all_shared
from incidence.engine.store import Batchable, Listed, cached_plan
from incidence.structure.data import Array, StructureData, cache_of
from incidence.structure.ragged import are_short, ranges

__all__ = ["Plan", "build_plan", "plan_of"]


@dataclass(frozen=True, eq=False)
class Plan(Batchable):
    """Everything a layer needs to know of a structure. Prints its cost.

    Attributes:
        layout: The slots of every tensor of the map.
        num_keys: The number of keys of each level, shape (levels, structures); on the host.
        num_entries: The number of entries of each pattern, shape (patterns, structures); on the
            host.
        bags: The bags of every layout in `layout.tensors`.
        partners: The entries on one node set that read each other, by orbit and operation.
        sent_forward: On a part of a structure, the bytes that a layer with sums and means sends
            for the bags of every input, by its name.
        sent_backward: The same for every output, where gradients of inputs are needed.
    """

    layout: MapLayout
    num_keys: Array
    num_entries: Array
    bags: tuple[Bags, ...]
    partners: dict[PartnerKey, Partners]
    sent_forward: dict[str, int] = field(default_factory=dict)
    sent_backward: dict[str, int] = field(default_factory=dict)

    @property
    def inputs(self) -> list[Bags]:
        """The bags of the inputs."""
        return [self.bags[number] for number in self.layout.input_numbers]

    @property
    def outputs(self) -> list[Bags]:
        """The bags of the outputs."""
        return [self.bags[number] for number in self.layout.output_numbers]

    @property
    def device(self) -> torch.device:
        """The device of the lists."""
        return self.bags[0].of_rows.members.device

    def __repr__(self) -> str:
        lines = ["Plan"]
        counts = self.num_entries.sum(1).tolist()
        for pattern, count in zip(self.layout.patterns, counts, strict=True):
            lines.append(f"  {_shown(pattern)}: {count:,} entries")
        for tensor, bags in zip(self.layout.tensors, self.bags, strict=True):
            reads = f"{int(bags.num_reads.sum()):,} reads"
            where = f"{bags.num_bags:,} bags on {len(bags.num_slots)} levels"
            lines.append(f"  {_shown(tensor.pattern)}: {reads}, {where}")
        if self.partners:
            num_pairs = sum(int(p.counts.sum()) for p in self.partners.values())
            lines.append(f"  partners: {num_pairs:,} reads")
        totals = zip(self.layout.levels, self.num_keys.sum(1).tolist(), strict=True)
        keys = ", ".join(f"{n:,} of size {len(level)}" for level, n in totals)
        lines += [f"  keys: {keys}", f"  memory: {self.num_bytes / 2**20:,.1f} MiB"]
        for step, sent in (("forward", self.sent_forward), ("backward", self.sent_backward)):
            lines += [f"  sent {step}, `{name}`: {count:,} bytes" for name, count in sent.items()]
        return "\n".join(lines)

    @property
    def num_bytes(self) -> int:
        """The memory of the lists."""
        tensors = [t for bags in self.bags for t in bags.tensors]
        tensors += [t for partners in self.partners.values() for t in partners.tensors]
        return sum(t.numel() * t.element_size() for t in tensors)

    @property
    def bytes_sent(self) -> int:
        """The bytes that a layer sends from this process, forward and backward."""
        return sum(self.sent_forward.values()) + sum(self.sent_backward.values())

    def with_channels(
        self, in_channels: Sequence[int], out_channels: Sequence[int], like: Tensor
    ) -> Plan:
        """Return the plan of a part of a structure with the bytes that a layer sends.

        Args:
            in_channels: The channels of every input.
            out_channels: The channels of every output.
            like: A tensor of the type of the features.
        """
        itemsize = torch.empty(0, dtype=wide_of(like.dtype)).element_size()

        def sent(
            patterns: Sequence[Pattern], sides: Sequence[Bags], channels: Sequence[int]
        ) -> dict[str, int]:
            own = zip(patterns, sides, channels, strict=True)
            return {str(p): bags.num_bytes_sent(width, itemsize) for p, bags, width in own}

        return replace(
            self,
            sent_forward=sent(self.layout.map.inputs, self.inputs, in_channels),
            sent_backward=sent(self.layout.map.outputs, self.outputs, out_channels),
        )

    def fits(self, structure: StructureData) -> bool:
        """Return whether it is for as many entries as a structure has."""
        lengths = np.stack([structure._lengths_of(p) for p in self.layout.patterns])
        return np.array_equal(self.num_entries, lengths)

    def spaces(self) -> list[Array]:
        """Return the spaces of a plan.

        These are keys; the entries of every pattern; of every tensor its bags, and its reads by row
        and by bag; and the pairs of partners.
        """
        spaces = [self.num_keys, *self.num_entries[:, None]]
        for tensor, bags in zip(self.layout.tensors, self.bags, strict=True):
            levels = [self.layout.levels.index(level) for level in tensor.levels]
            # (levels, structures)
            num_bags = self.num_keys[levels] * np.array(tensor.num_slots)[:, None]
            spaces += [num_bags, bags.num_reads.sum(axis=0, keepdims=True), bags.num_reads]
        return [*spaces, *(partners.counts[None] for partners in self.partners.values())]

    def lists(self) -> list[Listed]:
        """Return the lists of all bags that are no ranges, and of all partners."""
        lists = []
        num_patterns = len(self.layout.patterns)
        for number, (tensor, bags) in enumerate(zip(self.layout.tensors, self.bags, strict=True)):
            rows = 1 + self.layout.patterns.index(tensor.pattern)
            of_bags = 1 + num_patterns + _SPACES * number
            by_row, by_bag = of_bags + 1, of_bags + 2
            if not tensor.has_range_bags:
                lists += _listed(bags.of_rows, rows, by_row, of_bags)
                lists += _listed(bags.of_bags, of_bags, by_bag, rows)
        first = 1 + num_patterns + _SPACES * len(self.bags)
        for number, ((orbit, overlap), partners) in enumerate(self.partners.items(), first):
            lists += partners.lists(overlap, number, 1 + orbit.tensor)
        return lists

    def remade(self, sizes: Sequence[Array], tensors: Iterator[Tensor]) -> Plan:
        """Return the plan of other structures, from the sizes of its spaces and its lists."""
        num_keys, *rest = sizes
        num_patterns = len(self.layout.patterns)
        num_entries = np.concatenate(rest[:num_patterns])
        bags = []
        for number, tensor in enumerate(self.layout.tensors):
            num_bags, _, num_reads = rest[num_patterns + _SPACES * number :][:_SPACES]
            if tensor.has_range_bags:
                bags.append(range_bags(num_reads[0], self.device))
                continue
            level_ptr = (0, *num_bags.sum(axis=1).cumsum().tolist())
            of_rows, of_bags = (_next_lists(tensors, tensor.is_signed) for _ in range(2))
            bags.append(
                Bags(tensor.num_slots, level_ptr, of_rows, of_bags, num_reads, tensor.node_slots)
            )
        counts = rest[num_patterns + _SPACES * len(bags) :]
        partners = {
            (orbit, overlap): known.remade(
                overlap, own[0], int(num_entries[orbit.tensor].sum()), tensors
            )
            for ((orbit, overlap), known), own in zip(self.partners.items(), counts, strict=True)
        }
        return Plan(self.layout, num_keys, num_entries, tuple(bags), partners)


_SPACES = 3  # of every tensor: bags, reads by row, and reads by bag


def _listed(lists: Lists, things: int, reads: int, counts: int) -> list[Listed]:
    """Return lists of bags, or of rows, by the spaces of what has them, of reads, and of what they
    count.
    """
    listed = [Listed(lists.members, reads, counts), Listed(lists.ptr, things, reads, has_end=True)]
    return listed if lists.signs is None else [*listed, Listed(lists.signs, reads, None)]


def _next_lists(tensors: Iterator[Tensor], is_signed: bool) -> Lists:
    members, ptr = next(tensors), next(tensors)
    return Lists(members, ptr, next(tensors).float() if is_signed else None)


def _shown(pattern: Pattern) -> str:
    return str(pattern) or "(one value)"


def plan_of(structure: StructureData, layout: MapLayout | EquivariantMap) -> Plan:
    """Return the plan of a map on a structure.

    It is built once and cached on the structure. All layers with that map share it.
    """
    if isinstance(layout, EquivariantMap):
        layout = layout_of(layout)
    known = cache_of(structure, Plan).get(layout)
    return known if known is not None else _new_plan(structure, layout)


def _new_plan(structure: StructureData, layout: MapLayout) -> Plan:
    for pattern in layout.patterns:
        structure.resolve(pattern)
    return cached_plan(structure, Plan, layout, lambda source: build_plan(layout, source))


def build_plan(layout: MapLayout, structure: StructureData) -> Plan:
    """Build the plan of a map on a structure."""
    keyed = keys_of(layout, structure)
    # (levels, structures)
    num_keys = np.stack([number_keys(structure, level, keyed) for level in layout.levels])
    # (patterns, structures)
    num_entries = np.stack([structure._lengths_of(p) for p in layout.patterns])
    bags = []
    for tensor in layout.tensors:
        if tensor.has_range_bags:
            bags.append(range_bags(structure._lengths_of(tensor.pattern), structure.device))
            continue
        number = layout.patterns.index(tensor.pattern)
        own = [bucket for bucket in keyed if bucket.orbit.tensor == number]
        counts = [
            int(num_keys[layout.levels.index(level)].sum()) * num_slots
            for level, num_slots in zip(tensor.levels, tensor.num_slots, strict=True)
        ]
        bags.append(_build_bags(tensor, own, counts, structure))
    partners = _build_partners(layout, keyed, structure)
    if structure.world is not None:
        bags = _shared_bags(layout, bags, num_keys.sum(1).tolist(), keyed, structure)
    return Plan(layout, num_keys, num_entries, tuple(bags), partners)


def _shared_bags(
    layout: MapLayout,
    bags: Sequence[Bags],
    num_keys: Sequence[int],
    keyed: Sequence[BucketKeys],
    structure: StructureData,
) -> list[Bags]:
    """Return the bags of a part of a structure, which are exchanged.

    All processes build this plan together: they find out which keys they share, and how many
    entries the bags have over all processes.
    """
    world = structure.world
    assert world is not None
    shared = {
        level: shared_at(level, count, keyed, structure)
        for level, count in zip(layout.levels, num_keys, strict=True)
    }
    none = all_shared(0, world)
    joined = []
    for tensor, own in zip(layout.tensors, bags, strict=True):
        slots = zip(tensor.levels, own.num_slots, strict=True)
        levels = tuple(shared[level] if count else none for level, count in slots)
        is_copy = not tensor.pattern.faces and world.rank > 0
        one = replace(own, shared=levels, is_copy=is_copy, buffers=Buffers())
        one.count_all()
        joined.append(one)
    return joined


def _build_bags(
    tensor: TensorLayout,
    buckets: Sequence[BucketKeys],
    num_bags: Sequence[int],
    structure: StructureData,
) -> Bags:
    """Build the bags of a tensor from the keys of its buckets, and the number of bags by level."""
    level_ptr = (0, *accumulate(num_bags))
    num_rows = structure.num_entries(tensor.pattern)
    num_reads = np.zeros((len(tensor.levels), structure.num_structures), dtype=np.int64)
    tables = []
    for bucket in buckets:
        tables.append(_bag_table(bucket, tensor, level_ptr))
        per_structure = count_by_structure(bucket.home, structure.num_structures)
        for at, level in enumerate(tensor.levels):
            if bucket.orbit.number in tensor.slots[at]:
                num_reads[at] += bucket.keys_each(level) * per_structure
    is_short = are_short(level_ptr[-1], int(num_reads.sum()), num_rows)
    dtype = torch.int32 if is_short else torch.long
    bags, widths = _by_row(buckets, tables, num_rows, dtype, structure.device)
    signs = None
    if tensor.is_signed:
        sign_tables = [_sign_table(bucket, tensor) for bucket in buckets]
        signs, _ = _by_row(buckets, sign_tables, num_rows, torch.float32, structure.device)
    of_rows = Lists(bags, ranges(widths).to(dtype), signs)
    of_bags = _transposed(of_rows, widths, level_ptr)
    return Bags(tensor.num_slots, level_ptr, of_rows, of_bags, num_reads, tensor.node_slots)


def _bag_table(bucket: BucketKeys, tensor: TensorLayout, level_ptr: Sequence[int]) -> Tensor:
    """Return the bags of the entries of a bucket, level by level, shape (entries, bags each)."""
    columns = [bucket.home.new_zeros(len(bucket.home), 0)]
    for at, level in enumerate(tensor.levels):
        slots = tensor.slots[at].get(bucket.orbit.number)
        if slots is None:
            continue
        first = level_ptr[at] + slots.start
        if level:
            keys, within = bucket.numbers[level], bucket.words[level]
            columns.append(keys * tensor.num_slots[at] + within + first)  # (entries, keys each)
        else:
            # (entries, 1): the empty key is the structure
            columns.append(bucket.home[:, None] * tensor.num_slots[at] + first)
    return torch.cat(columns, dim=1)  # (entries, bags each)


def _sign_table(bucket: BucketKeys, tensor: TensorLayout) -> Tensor:
    """Return the signs of the entries of a bucket in their bags, shape (entries, bags each)."""
    one = torch.ones(1, dtype=torch.int8, device=bucket.home.device)
    columns = [one[:0]]
    for at, level in enumerate(tensor.levels):
        if bucket.orbit.number in tensor.slots[at]:
            columns.append(bucket.signs[level] if level else one)
    of_keys = torch.cat(columns)  # (bags each,)
    orientation = bucket.arranged.bucket.signs
    if orientation is None:
        return of_keys.expand(len(bucket.rows), -1)
    return orientation[:, None] * of_keys  # (entries, bags each)


def _by_row(
    buckets: Sequence[BucketKeys],
    tables: Sequence[Tensor],
    num_rows: int,
    dtype: torch.dtype,
    device: torch.device,
) -> tuple[Tensor, Tensor]:
    """Return the numbers of all rows of a tensor one after the other, and how many each row has.

    Args:
        buckets: The buckets of the tensor.
        tables: For every bucket the numbers of its entries, shape (entries, numbers each).
        num_rows: The number of rows of the tensor.
        dtype: The type of the numbers.
        device: Where they go.
    """
    if len(buckets) == 1:  # it has all rows, in order
        [table] = tables
        return table.to(dtype).flatten(), torch.full((num_rows,), table.shape[1], device=device)
    widths = torch.zeros(num_rows, dtype=torch.long, device=device)
    for bucket, table in zip(buckets, tables, strict=True):
        widths[bucket.rows] = table.shape[1]
    starts = ranges(widths)  # where the numbers of every row start
    numbers = torch.empty(int(starts[-1]), dtype=dtype, device=device)
    for bucket, table in zip(buckets, tables, strict=True):
        places = starts[bucket.rows, None] + torch.arange(table.shape[1], device=device)
        numbers[places] = table.to(dtype)
    return numbers, widths


def _transposed(of_rows: Lists, widths: Tensor, level_ptr: Sequence[int]) -> Lists:
    """Return the rows of every bag from the bags of every row."""
    bags, _, signs = of_rows
    numbers = torch.arange(len(widths), dtype=bags.dtype, device=bags.device)
    rows = torch.repeat_interleave(numbers, widths)  # (reads,)
    if signs is not None:
        rows = 2 * rows.long() + (signs < 0)  # the sign goes along as the last bit
    # bags of structures come first, and are often in order already
    is_other = bags >= level_ptr[1]
    parts = [_ordered(rows[chosen], bags[chosen]) for chosen in (~is_other, is_other)]
    ordered = torch.cat(parts)
    ptr = ranges(torch.bincount(bags, minlength=level_ptr[-1])).to(bags.dtype)
    if signs is None:
        return Lists(ordered, ptr)
    return Lists((ordered >> 1).to(bags.dtype), ptr, 1.0 - 2 * (ordered & 1))


def _ordered(values: Tensor, by: Tensor) -> Tensor:
    """Return values by ascending keys; as they are where keys ascend already."""
    # a sort takes several times as long as this look
    is_ascending = bool((by[1:] >= by[:-1]).all())
    return values if is_ascending else values[by.sort(stable=True)[1]]


def _build_partners(
    layout: MapLayout, buckets: Sequence[BucketKeys], structure: StructureData
) -> dict[PartnerKey, Partners]:
    partners: dict[PartnerKey, Partners] = {}
    for orbit in layout.partner_orbits:
        pattern = layout.patterns[orbit.tensor]
        own = [bucket.arranged for bucket in buckets if bucket.orbit == orbit]
        classes = orbit.orbit.classes
        home = structure.batch(pattern)
        listed = partners_of(own, classes, home, structure.num_structures, pattern.is_oriented)
        partners |= {(orbit, overlap): pairs for overlap, pairs in listed}
    return partners
