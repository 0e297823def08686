r"""Plans: which keys the entries of a structure write to and read from.

Every entry writes to all subsets of its nodes and reads from all subsets of its nodes. A plan lists
the bags of every tensor of a map. Where an orbit meets itself, it lists the partners of the
entries. `docs/engine.md` carries an example through by hand.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, combinations
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from incidence.algebra.maps import EquivariantMap
from incidence.algebra.orbit import Class
from incidence.algebra.pattern import Pattern
from incidence.algebra.words import Level, words
from incidence.engine.bags import Bags, Lists, range_bags, wide_of
from incidence.engine.layout import MapLayout, OrbitRef, TensorLayout, layout_of
from incidence.engine.memory import Buffers
from incidence.engine.partners import PartnerKey, Partners, partners_of
from incidence.engine.shared import SharedKeys, all_shared, shared_keys
from incidence.engine.store import Batchable, Listed, cached_plan
from incidence.structure.arrange import Arranged, arranged
from incidence.structure.data import Array, StructureData, cache_of
from incidence.structure.ragged import are_short, code, no_entries, ranges, rank

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
        for number, ((ref, overlap), partners) in enumerate(self.partners.items(), first):
            lists += partners.lists(overlap, number, 1 + ref.tensor)
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
            (ref, overlap): known.remade(
                overlap, own[0], int(num_entries[ref.tensor].sum()), tensors
            )
            for ((ref, overlap), known), own in zip(self.partners.items(), counts, strict=True)
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


_SPARSE_NODES = 4  # nodes for each place in an entry from which on nodes are ranked


def build_plan(layout: MapLayout, structure: StructureData) -> Plan:
    """Build the plan of a map on a structure."""
    keyed = [
        bucket
        for number, pattern in enumerate(layout.patterns)
        if _needs_keys(layout, pattern)
        for bucket in _bucket_keys(structure, number, pattern)
    ]
    wanted = _wanted_levels(layout)
    for bucket in keyed:
        classes = layout.patterns[bucket.ref.tensor].orbits[bucket.ref.orbit].classes
        for level in sorted(wanted[bucket.ref]):
            bucket.keys[level] = _keys(bucket, classes, level, layout.map.max_overlap)
    # (levels, structures)
    num_keys = np.stack([_number_keys(structure, level, keyed) for level in layout.levels])
    # (patterns, structures)
    num_entries = np.stack([structure._lengths_of(p) for p in layout.patterns])
    bags = []
    for tensor in layout.tensors:
        if tensor.has_range_bags:
            bags.append(range_bags(structure._lengths_of(tensor.pattern), structure.device))
            continue
        number = layout.patterns.index(tensor.pattern)
        own = [bucket for bucket in keyed if bucket.ref.tensor == number]
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
    keyed: Sequence[_BucketKeys],
    structure: StructureData,
) -> list[Bags]:
    """Return the bags of a part of a structure, which are exchanged.

    All processes build this plan together: they find out which keys they share, and how many
    entries the bags have over all processes.
    """
    world = structure.world
    assert world is not None
    shared = {
        level: _shared_at(level, count, keyed, structure)
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


def _shared_at(
    level: Level, count: int, keyed: Sequence[_BucketKeys], structure: StructureData
) -> SharedKeys:
    """Return which keys of a level other processes have, too."""
    world = structure.world
    assert world is not None
    if not level:
        return all_shared(count, world)
    nodes = torch.full((count, len(level)), -1, dtype=torch.long)
    for bucket in keyed:
        if level in bucket.keys:
            numbers = bucket.numbers[level].flatten()
            nodes[numbers] = bucket.keys[level].nodes.reshape(-1, len(level))
    keys = (nodes[:, 0] >= 0).nonzero()[:, 0]
    return shared_keys(structure.whole_nodes(nodes[keys]), world).numbered(keys)


def _needs_keys(layout: MapLayout, pattern: Pattern) -> bool:
    """Return whether the keys of the entries of a pattern, or their partners, are listed."""
    has_partners = any(layout.patterns[ref.tensor] == pattern for ref in layout.partner_orbits)
    has_ranges = all(t.has_range_bags for t in layout.tensors if t.pattern == pattern)
    return has_partners or not has_ranges


def _wanted_levels(layout: MapLayout) -> dict[OrbitRef, set[Level]]:
    """Return the levels of every orbit of every pattern, but for the empty level."""
    wanted: dict[OrbitRef, set[Level]] = {}
    for tensor in layout.tensors:
        number = layout.patterns.index(tensor.pattern)
        for orbit, levels in enumerate(tensor.orbit_levels):
            wanted.setdefault(OrbitRef(number, orbit), set()).update(set(levels) - {()})
    return wanted


class _Keys(NamedTuple):
    """The keys of one level in every entry of a bucket.

    Attributes:
        nodes: Their nodes, ascending, shape (entries, keys each, nodes).
        words: The number of the word of every key, shape (entries, keys each).
        signs: 1 or -1 for every key of an entry in standard orientation, shape (keys each,).
    """

    nodes: Tensor
    words: Tensor
    signs: Tensor


@dataclass(frozen=True)
class _BucketKeys:
    """The keys of a bucket: of entries of one orbit with as many nodes in each class.

    Attributes:
        ref: The orbit, by the number of the pattern.
        arranged: The entries, and which of them are on one node set.
        home: The structure of every entry, shape (entries,).
        keys: The keys of every level.
        numbers: The numbers of these keys, shape (entries, keys each).
    """

    ref: OrbitRef
    arranged: Arranged
    home: Tensor
    keys: dict[Level, _Keys] = field(default_factory=dict)
    numbers: dict[Level, Tensor] = field(default_factory=dict)

    @property
    def rows(self) -> Tensor:
        """The rows of the entries, ascending, shape (entries,)."""
        return self.arranged.bucket.rows


def _bucket_keys(structure: StructureData, number: int, pattern: Pattern) -> list[_BucketKeys]:
    """Return the buckets of a pattern, with no keys yet."""
    home = structure.batch(pattern)
    return [
        _BucketKeys(OrbitRef(number, own.bucket.orbit), own, home[own.bucket.rows])
        for own in arranged(structure, pattern)
    ]


def _keys(bucket: _BucketKeys, classes: Sequence[Class], level: Level, max_overlap: int) -> _Keys:
    """Return the keys of a level in every entry."""
    nodes, labels = bucket.arranged.bucket.nodes, bucket.arranged.bucket.labels
    device = nodes.device
    known = words(tuple(classes), level, max_overlap)
    kinds = {tuple(sorted(word)) for word in known}  # how many nodes of each class a key may have
    places = combinations(range(len(labels)), len(level))
    subsets = [s for s in places if tuple(labels[p] for p in s) in kinds]
    # (keys each, nodes of a key)
    chosen = torch.tensor(subsets, dtype=torch.long, device=device).view(-1, len(level))
    keys = nodes[:, chosen]  # (entries, keys each, nodes)
    label = torch.tensor(labels, dtype=torch.long, device=device)[chosen].expand_as(keys)
    # nodes ascend within a class, not across
    if any(len({labels[p] for p in s}) > 1 for s in subsets):
        keys, order = keys.sort(dim=2)
        label = label.gather(2, order)
    which = torch.zeros_like(keys[:, :, 0])
    if len(known) > 1:
        codes = torch.tensor([_number(word, len(classes)) for word in known], device=device)
        # (entries, keys each): the word as a number
        own = code(label.unbind(2), [len(classes)] * len(level))[0]
        # (entries, keys each): the number of the word
        which = torch.searchsorted(codes, own.contiguous())
    sizes = bucket.arranged.bucket.sizes
    signs = [_sign(sizes, classes, subset) for subset in subsets]
    return _Keys(keys, which, torch.tensor(signs, dtype=torch.int8, device=device))


def _sign(sizes: Sequence[int], classes: Sequence[Class], key: Sequence[int]) -> int:
    """Return the sign by which an entry in standard orientation counts in a key.

    The key is given by columns. The node of an odd class that is left out moves to the front of its
    class.
    """
    columns = zip(classes, accumulate(sizes, initial=0), sizes, strict=False)
    left_out = [
        p - start
        for c, start, size in columns
        if c.is_odd
        for p in range(start, start + size)
        if p not in key
    ]
    return -1 if sum(left_out) % 2 else 1


def _number(word: Sequence[int], base: int) -> int:
    value = 0
    for letter in word:
        value = value * base + letter
    return value


def _number_keys(structure: StructureData, level: Level, buckets: Sequence[_BucketKeys]) -> Array:
    """Number the keys of a level, and return how many each structure has.

    Nodes keep their own numbers; larger sets get their rank among all that occur. Where most nodes
    are in no entry, nodes are ranked too: a thousand edges among a billion nodes are a small
    structure. Either way the keys of a structure follow those of the structure before it.
    """
    if not level:
        return np.ones(structure.num_structures, dtype=np.int64)
    members = [bucket for bucket in buckets if level in bucket.keys]
    keys = [bucket.keys[level].nodes for bucket in members]
    total = sum(own.numel() for own in keys)
    if len(level) == 1 and structure.counts[level[0]] <= _SPARSE_NODES * total + 1024:
        for bucket, own in zip(members, keys, strict=True):
            bucket.numbers[level] = own[:, :, 0] - structure._node_offsets[level[0]]
        return structure._lengths_of(level[0])
    flat = torch.cat(
        [no_entries(len(level), structure.device).T, *(k.reshape(-1, len(level)) for k in keys)]
    )
    ranks, count = rank(code(flat.unbind(1), [structure.total_nodes] * len(level))[0])
    # (keys,): the structure of each
    owner = torch.empty(count, dtype=torch.long, device=structure.device)
    parts = ranks.split([k.shape[0] * k.shape[1] for k in keys])
    for bucket, numbers in zip(members, parts, strict=True):
        bucket.numbers[level] = numbers.view(bucket.keys[level].words.shape)
        owner[bucket.numbers[level]] = bucket.home[:, None]
    return _by_structure(owner, structure.num_structures)


def _by_structure(home: Tensor, num_structures: int) -> Array:
    """Return how many things each structure has, from the structure of each."""
    counts: Array = torch.bincount(home, minlength=num_structures).cpu().numpy()
    return counts


def _build_bags(
    tensor: TensorLayout,
    buckets: Sequence[_BucketKeys],
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
        per_structure = _by_structure(bucket.home, structure.num_structures)
        for at, level in enumerate(tensor.levels):
            if bucket.ref.orbit in tensor.slots[at]:
                num_reads[at] += _keys_each(bucket, level) * per_structure
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


def _keys_each(bucket: _BucketKeys, level: Level) -> int:
    return bucket.keys[level].words.shape[1] if level else 1


def _bag_table(bucket: _BucketKeys, tensor: TensorLayout, level_ptr: Sequence[int]) -> Tensor:
    """Return the bags of the entries of a bucket, level by level, shape (entries, bags each)."""
    columns = [bucket.home.new_zeros(len(bucket.home), 0)]
    for at, level in enumerate(tensor.levels):
        slots = tensor.slots[at].get(bucket.ref.orbit)
        if slots is None:
            continue
        first = level_ptr[at] + slots.start
        if level:
            keys, within = bucket.numbers[level], bucket.keys[level].words
            columns.append(keys * tensor.num_slots[at] + within + first)  # (entries, keys each)
        else:
            # (entries, 1): the empty key is the structure
            columns.append(bucket.home[:, None] * tensor.num_slots[at] + first)
    return torch.cat(columns, dim=1)  # (entries, bags each)


def _sign_table(bucket: _BucketKeys, tensor: TensorLayout) -> Tensor:
    """Return the signs of the entries of a bucket in their bags, shape (entries, bags each)."""
    one = torch.ones(1, dtype=torch.int8, device=bucket.home.device)
    columns = [one[:0]]
    for at, level in enumerate(tensor.levels):
        if bucket.ref.orbit in tensor.slots[at]:
            columns.append(bucket.keys[level].signs if level else one)
    of_keys = torch.cat(columns)  # (bags each,)
    orientation = bucket.arranged.bucket.signs
    if orientation is None:
        return of_keys.expand(len(bucket.rows), -1)
    return orientation[:, None] * of_keys  # (entries, bags each)


def _by_row(
    buckets: Sequence[_BucketKeys],
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
    layout: MapLayout, buckets: Sequence[_BucketKeys], structure: StructureData
) -> dict[PartnerKey, Partners]:
    partners: dict[PartnerKey, Partners] = {}
    for ref in layout.partner_orbits:
        pattern = layout.patterns[ref.tensor]
        own = [bucket.arranged for bucket in buckets if bucket.ref == ref]
        classes = pattern.orbits[ref.orbit].classes
        home = structure.batch(pattern)
        listed = partners_of(own, classes, home, structure.num_structures, pattern.is_oriented)
        partners |= {(ref, overlap): pairs for overlap, pairs in listed}
    return partners
