r"""Plans: which keys the entries of a structure write to and read from.

Every entry writes to all subsets of its nodes and reads from all subsets of its nodes. A plan lists, for every orbit of every
tensor of a map, the *bags* of its entries: a bag is a key (a node set) with a word (in which classes its nodes lie). Pooling adds
the entries of a bag; broadcasting adds the bags of an entry; backward is the same two with the sides swapped.

Bags are numbered level by level: first one for each structure (the empty key), then for every level the keys, each with its words
side by side, so that the pooled features of a level are a matrix of keys by (words x channels).
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from incidence.algebra.maps import EquivariantMap
from incidence.algebra.orbit import Class, Orbit
from incidence.algebra.pattern import Pattern
from incidence.algebra.words import Level, levels, num_open, words
from incidence.structure.arrange import Arranged, Mask, join
from incidence.structure.keys import code, ranges, rank

if TYPE_CHECKING:
    from incidence.structure.structure import Structure

__all__ = ["OrbitPlan", "Plan", "build", "collate_plans"]


@dataclass(frozen=True)
class Table:
    """The bags of one bucket, by level, numbered within the level.

    Attributes:
        tensor: The position of the tensor in the plan.
        arranged: The entries.
        structure: The number of the structure of every entry.
        bags: For every level, the bags of every entry, shape (entries, bags each).
    """

    tensor: int
    arranged: Arranged
    structure: Tensor
    bags: tuple[Tensor, ...]


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
        pool: The entries of every bag but those of structures, one after the other, counted from `start`.
        pool_ptr: Where the entries of every such bag start in `pool`, and the end.
        whole: The entries of every structure, and `whole_ptr` where they start; empty where there is one structure.
        masks: The masks of the node sets, and `num_sets` how many sets have each.
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
    whole: Tensor
    whole_ptr: Tensor
    masks: tuple[Mask, ...]
    num_sets: tuple[int, ...]
    nodes_at: tuple[int, int, int] | None = None

    @property
    def num_bags(self) -> int:
        """The number of bags, empty ones included."""
        return self.offsets[-1]


@dataclass(frozen=True, eq=False)
class Plan:
    """Everything a layer needs to know of a structure. Prints its cost.

    Attributes:
        tensors: The tensors of the map, each once.
        levels: The levels, the empty one first.
        num_keys: How many keys each level has.
        orbits: For every tensor, the lists of its orbits.
        orders: For every tensor, the rows in canonical order; None where the order is canonical already.
        num_entries: For every tensor, the number of its entries.
    """

    tensors: tuple[Pattern, ...]
    levels: tuple[Level, ...]
    num_keys: tuple[int, ...]
    orbits: tuple[tuple[OrbitPlan, ...], ...]
    orders: tuple[Tensor | None, ...]
    num_entries: tuple[int, ...]
    tables: tuple[Table, ...]
    programs: dict[Hashable, Any] = field(default_factory=dict)  # what layers derive from this plan, by what they are

    def __repr__(self) -> str:
        return "\n".join(["Plan", *self._lines()])

    def _lines(self) -> list[str]:
        lines = []
        for pattern, orbits, order, count in zip(self.tensors, self.orbits, self.orders, self.num_entries, strict=True):
            is_kept = "in canonical order" if order is None else "permuted in and out"
            lines.append(f"  {str(pattern) or '(one value)'}: {count:,} entries, {is_kept}")
            for orbit, lists in zip(pattern.orbits, orbits, strict=True):
                if len(pattern.orbits) > 1:
                    lines.append(f"    {orbit}: {lists.stop - lists.start:,} entries")
                cost = f"{len(lists.read):,} reads, {lists.num_bags:,} bags on {len(lists.levels)} levels"
                lines.append(f"      {cost}, {len(lists.masks)} masks")
        keys = ", ".join(f"{n:,} of size {len(level)}" for level, n in zip(self.levels, self.num_keys, strict=True))
        return [*lines, f"  keys: {keys}", f"  memory: {self.num_bytes / 2**20:,.1f} MiB"]

    @property
    def num_bytes(self) -> int:
        """The memory of the lists."""
        lists = [o for orbits in self.orbits for o in orbits]
        tensors = [t for o in lists for t in (o.read, o.read_ptr, o.pool, o.pool_ptr, o.whole, o.whole_ptr)]
        return sum(t.numel() * t.element_size() for t in [*tensors, *(o for o in self.orders if o is not None)])


_SPARSE_NODES = 4  # nodes for each place in an entry from which on nodes are ranked


def tensors_of(equivariant_map: EquivariantMap) -> tuple[Pattern, ...]:
    """The tensors of a map, each once."""
    return tuple(dict.fromkeys(equivariant_map.inputs + equivariant_map.outputs))


def _orbit_levels(equivariant_map: EquivariantMap, tensors: Sequence[Pattern]) -> dict[tuple[int, int], tuple[Level, ...]]:
    """The levels at which an orbit meets another: those of its own that some orbit of the other side has too.

    An orbit of fixed size that meets itself needs no key for all its nodes: its entries lie side by side.
    """
    k = equivariant_map.max_overlap
    needed: dict[tuple[int, int], set[Level]] = {}
    for p in equivariant_map.inputs:
        for q in equivariant_map.outputs:
            for a, source in enumerate(p.orbits):
                for b, target in enumerate(q.orbits):
                    shared = set(levels(source.classes, k)) & set(levels(target.classes, k))
                    if is_aligned(p, q, a, b):
                        shared -= {_all_nodes(source)}
                    needed.setdefault((tensors.index(p), a), set()).update(shared)
                    needed.setdefault((tensors.index(q), b), set()).update(shared)
    return {place: tuple(sorted({(), *found}, key=lambda x: (len(x), x))) for place, found in needed.items()}


def is_aligned(source: Pattern, target: Pattern, source_orbit: int, target_orbit: int) -> bool:
    """Whether an input and an output orbit are the same entries, so that those on one node set lie side by side."""
    orbit = source.orbits[source_orbit]
    return source == target and source_orbit == target_orbit and orbit.size > 0 and not orbit.is_open


def _all_nodes(orbit: Orbit) -> Level:
    return tuple(sorted(c.sort for c in orbit.classes for _ in range(c.size or 0)))


def build(equivariant_map: EquivariantMap, structure: Structure) -> Plan:
    """Finds the lists of a map on a structure."""
    tensors = tensors_of(equivariant_map)
    wanted = _orbit_levels(equivariant_map, tensors)
    found = [
        (t, arranged, structure.batch(pattern)[arranged.bucket.rows])
        for t, pattern in enumerate(tensors)
        for arranged in structure.arranged(pattern)
    ]
    all_levels = tuple(sorted({x for found_levels in wanted.values() for x in found_levels}, key=lambda x: (len(x), x)))
    columns: list[dict[Level, tuple[Tensor, Tensor]]] = []
    for t, arranged, _ in found:
        classes = tensors[t].orbits[arranged.bucket.orbit].classes
        levels_of = wanted[t, arranged.bucket.orbit]
        columns.append({x: _keys(arranged, classes, x, equivariant_map.max_overlap) for x in levels_of if x})
    num_keys, numbered = _number_keys(structure, all_levels, columns)
    tables = []
    for (t, arranged, number), own, of_level in zip(found, columns, numbered, strict=True):
        classes = tensors[t].orbits[arranged.bucket.orbit].classes
        bags = []
        for level in wanted[t, arranged.bucket.orbit]:
            if level:
                num_slots = len(words(classes, level, equivariant_map.max_overlap))
                bags.append(of_level[level] * num_slots + own[level][1])
            else:
                bags.append(number[:, None])
        tables.append(Table(t, arranged, number, tuple(bags)))
    return _finish(equivariant_map, tensors, all_levels, num_keys, tuple(tables), structure.num_structures)


def _keys(arranged: Arranged, classes: Sequence[Class], level: Level, max_overlap: int) -> tuple[Tensor, Tensor]:
    """The nodes of all keys of a level in every entry, ascending, (entries, keys each, nodes); and their slots."""
    nodes, labels = arranged.bucket.nodes, arranged.bucket.labels
    subsets = [
        s
        for s in combinations(range(len(labels)), len(level))
        if tuple(sorted(classes[labels[p]].sort for p in s)) == level and num_open(classes, tuple(labels[p] for p in s)) <= max_overlap
    ]
    chosen = torch.tensor(subsets, dtype=torch.long, device=nodes.device).view(-1, len(level))
    keys = nodes[:, chosen]
    label = torch.tensor(labels, dtype=torch.long, device=nodes.device)[chosen].expand_as(keys)
    if any(len({labels[p] for p in s}) > 1 for s in subsets):  # nodes ascend within a class, not across
        keys, order = keys.sort(dim=2)
        label = label.gather(2, order)
    known = words(tuple(classes), level, max_overlap)
    bases = [len(classes)] * len(level)
    codes = torch.tensor([_number(word, len(classes)) for word in known], device=nodes.device)
    slots = torch.searchsorted(codes, code(label.unbind(2), bases)[0].contiguous()) if len(known) > 1 else torch.zeros_like(keys[:, :, 0])
    return keys, slots


def _number(word: Sequence[int], base: int) -> int:
    value = 0
    for letter in word:
        value = value * base + letter
    return value


def _number_keys(
    structure: Structure, all_levels: Sequence[Level], columns: Sequence[dict[Level, tuple[Tensor, Tensor]]]
) -> tuple[tuple[int, ...], list[dict[Level, Tensor]]]:
    """Numbers the keys of every level: nodes by their own number, larger sets by rank among all that occur.

    Where most nodes are in no entry, nodes are ranked too: a thousand edges among a billion nodes are a small structure.
    """
    numbered: list[dict[Level, Tensor]] = [{} for _ in columns]
    num_keys = []
    for level in all_levels:
        if not level:
            num_keys.append(structure.num_structures)
            continue
        members = [i for i, own in enumerate(columns) if level in own]
        total = sum(columns[i][level][0].numel() for i in members)
        if len(level) == 1 and structure.counts[level[0]] <= _SPARSE_NODES * total + 1024:
            offset = structure.node_offsets[level[0]]
            for i in members:
                numbered[i][level] = columns[i][level][0][:, :, 0] - offset
            num_keys.append(structure.counts[level[0]])
            continue
        keys = [columns[i][level][0] for i in members]
        flat = torch.cat([k.reshape(-1, len(level)) for k in keys]) if keys else structure.empty_index(len(level)).T
        ranks, count = rank(code(flat.unbind(1), [structure.total_nodes] * len(level))[0])
        for i, part in zip(members, ranks.split([k.shape[0] * k.shape[1] for k in keys]), strict=True):
            numbered[i][level] = part.view(columns[i][level][0].shape[:2])
        num_keys.append(count)
    return tuple(num_keys), numbered


def _finish(
    equivariant_map: EquivariantMap,
    tensors: tuple[Pattern, ...],
    all_levels: tuple[Level, ...],
    num_keys: tuple[int, ...],
    tables: tuple[Table, ...],
    num_structures: int,
) -> Plan:
    wanted = _orbit_levels(equivariant_map, tensors)
    orbits, orders, counts = [], [], []
    for t, pattern in enumerate(tensors):
        lists, start, rows = [], 0, []
        for number, orbit in enumerate(pattern.orbits):
            own = [table for table in tables if table.tensor == t and table.arranged.bucket.orbit == number]
            at = tuple(all_levels.index(level) for level in wanted[t, number])
            slots = tuple(len(words(orbit.classes, all_levels[x], equivariant_map.max_overlap)) for x in at)
            part = _orbit_plan(own, start, at, slots, [num_keys[x] for x in at], num_structures)
            part = replace(part, nodes_at=_nodes_at(orbit, [all_levels[x] for x in at], equivariant_map.max_overlap))
            lists.append(part)
            rows += [table.arranged.bucket.rows for table in own]
            start = part.stop
        order = torch.cat(rows) if rows else torch.zeros(0, dtype=torch.long)
        is_kept = bool((order == torch.arange(start, device=order.device)).all())
        orbits.append(tuple(lists))
        orders.append(None if is_kept else order)
        counts.append(start)
    return Plan(tensors, all_levels, num_keys, tuple(orbits), tuple(orders), tuple(counts), tables)


def _nodes_at(orbit: Orbit, own: Sequence[Level], max_overlap: int) -> tuple[int, int, int] | None:
    """The smallest class of fixed size that has a level of its own sort."""
    found = [
        (size, at, words(orbit.classes, level, max_overlap).index((label,)))
        for at, level in enumerate(own)
        for label, c in enumerate(orbit.classes)
        if len(level) == 1 and c.sort == level[0] and (size := c.size)
    ]
    return (min(found)[1], min(found)[2], min(found)[0]) if found else None


def _orbit_plan(
    tables: Sequence[Table],
    start: int,
    at: tuple[int, ...],
    slots: tuple[int, ...],
    num_keys: Sequence[int],
    num_structures: int,
) -> OrbitPlan:
    offsets = [0]
    for keys, num_slots in zip(num_keys, slots, strict=True):
        offsets.append(offsets[-1] + keys * num_slots)
    pairs = [torch.cat([b + offset for b, offset in zip(t.bags, offsets, strict=False)], dim=1) for t in tables]
    count = sum(len(p) for p in pairs)
    dtype = torch.int32 if max(offsets[-1], sum(p.numel() for p in pairs)) < 2**31 - 1 else torch.long
    device = pairs[0].device if pairs else torch.device("cpu")
    read = torch.cat([p.flatten() for p in pairs]).to(dtype) if pairs else torch.zeros(0, dtype=dtype)
    each = torch.cat([torch.full((len(p),), p.shape[1], device=device) for p in pairs]) if pairs else torch.zeros(0, dtype=torch.long)
    read_ptr = ranges(each).to(dtype)
    first = offsets[1]  # the bags of structures come first, one in each entry
    is_local = read >= first
    entries = torch.repeat_interleave(torch.arange(count, device=device, dtype=dtype), each)[is_local]
    local = read[is_local] - first
    pool_ptr = ranges(torch.bincount(local, minlength=offsets[-1] - first)).to(dtype)
    pool = entries[local.sort(stable=True)[1]]
    whole = torch.zeros(0, dtype=dtype, device=device)
    whole_ptr = torch.zeros(0, dtype=dtype, device=device)
    if num_structures != 1 and count:
        number = torch.cat([t.structure for t in tables])
        whole = number.sort(stable=True)[1].to(dtype)
        whole_ptr = ranges(torch.bincount(number, minlength=num_structures)).to(dtype)
    masks = tuple(mask for t in tables for mask in t.arranged.masks)
    num_sets = tuple(n for t in tables for n in t.arranged.num_sets)
    lists = (read, read_ptr, pool, pool_ptr, whole, whole_ptr)
    return OrbitPlan(start, start + count, at, slots, tuple(offsets), *lists, masks, num_sets)


def collate_plans(equivariant_map: EquivariantMap, plans: Sequence[Plan], structures: Sequence[Structure]) -> Plan:
    """The plan of a batch from the plans of its structures: keys, nodes and rows are shifted, nothing is looked up again."""
    all_levels, tensors = plans[0].levels, plans[0].tensors
    num_keys = torch.tensor([plan.num_keys for plan in plans])
    shifts = _Shifts(structures, tensors, num_keys)
    groups: dict[tuple[int, int, tuple[int, ...]], list[tuple[int, Table]]] = {}
    for s, plan in enumerate(plans):
        for table in plan.tables:
            bucket = table.arranged.bucket
            groups.setdefault((table.tensor, bucket.orbit, bucket.sizes), []).append((s, table))
    wanted = _orbit_levels(equivariant_map, tensors)
    tables = []
    for (t, orbit, _), members in sorted(groups.items(), key=lambda item: item[0]):
        classes = tensors[t].orbits[orbit].classes
        own = [(all_levels.index(x), len(words(classes, x, equivariant_map.max_overlap))) for x in wanted[t, orbit]]
        tables.append(_join_tables([table for _, table in members], [s for s, _ in members], classes, own, shifts))
    total = tuple(num_keys.sum(0).tolist())
    return _finish(equivariant_map, tensors, all_levels, total, tuple(tables), sum(s.num_structures for s in structures))


class _Shifts:
    """By how much rows, nodes, keys and structure numbers move in a batch, for every structure in it."""

    def __init__(self, structures: Sequence[Structure], tensors: Sequence[Pattern], num_keys: Tensor) -> None:
        self.structures = _starts(torch.tensor([s.num_structures for s in structures]))
        self.rows = [_starts(torch.tensor([s.num_entries(p) for s in structures])) for p in tensors]
        self.keys = _starts(num_keys)
        self.nodes, before = {}, 0
        for sort in sorted(structures[0].counts):
            counts = torch.tensor([s.counts[sort] for s in structures])
            own = torch.tensor([s.node_offsets[sort] for s in structures])
            self.nodes[sort] = before + _starts(counts) - own
            before += int(counts.sum())


def _starts(counts: Tensor) -> Tensor:
    return counts.cumsum(0) - counts


def _join_tables(
    tables: Sequence[Table], numbers: Sequence[int], classes: Sequence[Class], own: Sequence[tuple[int, int]], shifts: _Shifts
) -> Table:
    """The tables of one bucket in several structures as one."""
    t, buckets = tables[0].tensor, [table.arranged.bucket for table in tables]
    device = buckets[0].rows.device
    lengths = torch.tensor([len(bucket.rows) for bucket in buckets])
    which = torch.repeat_interleave(torch.tensor(numbers), lengths)
    rows = torch.cat([bucket.rows for bucket in buckets]) + shifts.rows[t][which].to(device)
    columns = [shifts.nodes[classes[label].sort] for label in buckets[0].labels]
    nodes = torch.cat([bucket.nodes for bucket in buckets])
    if columns:
        nodes = nodes + torch.stack(columns, dim=1)[which].to(device)
    number = torch.cat([table.structure for table in tables]) + shifts.structures[which].to(device)
    bags = [
        torch.cat([table.bags[i] for table in tables]) + (shifts.keys[which, at] * slots).to(device)[:, None]
        for i, (at, slots) in enumerate(own)
    ]
    order, masks, num_sets = join([table.arranged for table in tables])
    bucket = replace(buckets[0], rows=rows, nodes=nodes)
    if order is not None:
        bucket, number = replace(bucket, rows=rows[order], nodes=nodes[order]), number[order]
        bags = [bag[order] for bag in bags]
    return Table(t, Arranged(bucket, masks, num_sets), number, tuple(bags))
