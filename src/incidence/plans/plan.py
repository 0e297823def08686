r"""Plans: which keys the entries of a structure write to and read from.

Every entry writes to all subsets of its nodes and reads from all subsets of its nodes. A plan lists, for every orbit of every
tensor of a map, the bags of its entries, a bag being a subset with a word; see `orbit_plan`, and `docs/engine.md` for an example
carried through by hand.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from incidence.algebra.maps import EquivariantMap
from incidence.algebra.orbit import Class, Orbit
from incidence.algebra.pattern import Pattern
from incidence.algebra.words import Level, levels, num_open, words
from incidence.plans.orbit_plan import BucketPlan, NodeSlot, OrbitPlan, bags_ptr_of, level_ptr_of, places_of
from incidence.structure.arrange import Arranged, Mask
from incidence.structure.data import Array, StructureData, arranged
from incidence.structure.ragged import code, no_entries, ranges, rank

__all__ = ["Plan", "build_plan", "is_aligned", "tensors_of"]


@dataclass(frozen=True, eq=False)
class Plan:
    """Everything a layer needs to know of a structure. Prints its cost.

    Attributes:
        tensors: The tensors of the map, each once.
        levels: The levels, the empty one first.
        num_keys: How many keys of each level each structure has, shape (levels, structures); on the host.
        num_entries: How many entries of each tensor each structure has, shape (tensors, structures); on the host.
        orbits: For every tensor, the lists of its orbits.
        places: For every tensor, where its rows are among the entries of its orbits; None where they are in that order.
    """

    tensors: tuple[Pattern, ...]
    levels: tuple[Level, ...]
    num_keys: Array
    num_entries: Array
    orbits: tuple[tuple[OrbitPlan, ...], ...]
    places: tuple[Tensor | None, ...]

    @property
    def device(self) -> torch.device:
        """Where the lists live."""
        return self.orbits[0][0].bags_of_entries.device

    def __repr__(self) -> str:
        lines = ["Plan"]
        for pattern, orbits, count in zip(self.tensors, self.orbits, self.num_entries.sum(1).tolist(), strict=True):
            lines.append(f"  {str(pattern) or '(one value)'}: {count:,} entries")
            for orbit, lists in zip(pattern.orbits, orbits, strict=True):
                if len(pattern.orbits) > 1:
                    lines.append(f"    {orbit}: {lists.num_entries:,} entries")
                cost = f"{len(lists.bags_of_entries):,} reads, {lists.num_bags:,} bags on {len(lists.level_numbers)} levels"
                order = "rows in order" if lists.rows is None else "rows looked up"
                lines.append(f"      {cost}, {len(lists.masks)} masks, {order}")
        keys = ", ".join(f"{n:,} of size {len(level)}" for level, n in zip(self.levels, self.num_keys.sum(1).tolist(), strict=True))
        return "\n".join([*lines, f"  keys: {keys}", f"  memory: {self.num_bytes / 2**20:,.1f} MiB"])

    @property
    def num_bytes(self) -> int:
        """The memory of the lists."""
        lists = [o for orbits in self.orbits for o in orbits]
        tensors = [t for o in lists for t in (o.bags_of_entries, o.bags_ptr, o.rows_of_bags, o.rows_ptr, o.rows)]
        return sum(t.numel() * t.element_size() for t in (*tensors, *self.places) if t is not None)


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


def build_plan(equivariant_map: EquivariantMap, structure: StructureData) -> Plan:
    """Finds the lists of a map on a structure."""
    tensors = tensors_of(equivariant_map)
    wanted = _orbit_levels(equivariant_map, tensors)
    found = [_bucket_keys(structure, t, pattern, one) for t, pattern in enumerate(tensors) for one in arranged(structure, pattern)]
    all_levels = tuple(sorted({x for found_levels in wanted.values() for x in found_levels}, key=lambda x: (len(x), x)))
    for bucket in found:
        classes = tensors[bucket.tensor].orbits[bucket.orbit].classes
        for level in wanted[bucket.tensor, bucket.orbit]:
            if level:
                bucket.keys[level] = _keys(bucket, classes, level, equivariant_map.max_overlap)
    num_keys = np.stack([_number_keys(structure, level, found) for level in all_levels])
    orbits = []
    for t, pattern in enumerate(tensors):
        lists: list[OrbitPlan] = []
        for number, orbit in enumerate(pattern.orbits):
            buckets = [bucket for bucket in found if (bucket.tensor, bucket.orbit) == (t, number)]
            layout = _bag_layout(orbit, wanted[t, number], all_levels, num_keys, equivariant_map.max_overlap)
            lists.append(_orbit_plan(buckets, wanted[t, number], layout, structure))
        orbits.append(tuple(lists))
    num_entries = np.stack([structure.entry_ptr(p).diff().cpu().numpy() for p in tensors])
    return Plan(tensors, all_levels, num_keys, num_entries, tuple(orbits), tuple(map(places_of, orbits)))


class _Keys(NamedTuple):
    """The keys of one level in every entry: their nodes, ascending, (entries, keys each, nodes); and their slots (entries, keys each)."""

    nodes: Tensor
    slots: Tensor


@dataclass(frozen=True)
class _BucketKeys:
    """A bucket while its plan is made, with its entries in the order of the plan.

    Attributes:
        tensor, orbit: The orbit it is of.
        sizes, labels: The number of nodes in each class, and the class of every node.
        masks, num_sets: The masks of its node sets, and how many sets have each.
        rows: The rows of its entries, shape (entries,).
        nodes: Their nodes, shape (entries, nodes).
        home: Their structures, shape (entries,).
        keys: For every level, the keys of its entries.
        numbers: For every level, the numbers of those keys once they are known, shape (entries, keys each).
    """

    tensor: int
    orbit: int
    sizes: tuple[int, ...]
    labels: tuple[int, ...]
    masks: tuple[Mask, ...]
    num_sets: tuple[int, ...]
    rows: Tensor
    nodes: Tensor
    home: Tensor
    keys: dict[Level, _Keys]
    numbers: dict[Level, Tensor]


def _bucket_keys(structure: StructureData, tensor: int, pattern: Pattern, found: Arranged) -> _BucketKeys:
    """A bucket before its keys are known. Entries that are alone on their node sets keep the order of the user."""
    rows, nodes = found.bucket.rows, found.bucket.nodes
    if not found.is_single:
        rows, nodes = rows[found.order], nodes[found.order]
    home = structure.batch(pattern)[rows]
    return _BucketKeys(
        tensor, found.bucket.orbit, found.bucket.sizes, found.bucket.labels, found.masks, found.num_sets, rows, nodes, home, {}, {}
    )


class _BagLayout(NamedTuple):
    """The levels of an orbit, the words that a key of each has, and where the bags of each start; see `OrbitPlan`."""

    level_numbers: tuple[int, ...]
    num_slots: tuple[int, ...]
    level_ptr: tuple[int, ...]
    single_nodes: NodeSlot | None


def _bag_layout(orbit: Orbit, wanted: Sequence[Level], all_levels: Sequence[Level], num_keys: Array, max_overlap: int) -> _BagLayout:
    numbers = tuple(all_levels.index(level) for level in wanted)
    slots = tuple(len(words(orbit.classes, level, max_overlap)) for level in wanted)
    return _BagLayout(numbers, slots, level_ptr_of(numbers, slots, num_keys), _single_nodes(orbit, wanted, max_overlap))


def _keys(bucket: _BucketKeys, classes: Sequence[Class], level: Level, max_overlap: int) -> _Keys:
    """The keys of a level in every entry."""
    nodes, labels = bucket.nodes, bucket.labels
    subsets = [
        s
        for s in combinations(range(len(labels)), len(level))
        if tuple(sorted(classes[labels[p]].sort for p in s)) == level and num_open(classes, tuple(labels[p] for p in s)) <= max_overlap
    ]
    chosen = torch.tensor(subsets, dtype=torch.long, device=nodes.device).view(-1, len(level))
    keys = nodes[:, chosen]  # (entries, keys each, nodes)
    label = torch.tensor(labels, dtype=torch.long, device=nodes.device)[chosen].expand_as(keys)
    if any(len({labels[p] for p in s}) > 1 for s in subsets):  # nodes ascend within a class, not across
        keys, order = keys.sort(dim=2)
        label = label.gather(2, order)
    known = words(tuple(classes), level, max_overlap)
    bases = [len(classes)] * len(level)
    codes = torch.tensor([_number(word, len(classes)) for word in known], device=nodes.device)
    slots = torch.searchsorted(codes, code(label.unbind(2), bases)[0].contiguous()) if len(known) > 1 else torch.zeros_like(keys[:, :, 0])
    return _Keys(keys, slots)


def _number(word: Sequence[int], base: int) -> int:
    value = 0
    for letter in word:
        value = value * base + letter
    return value


def _number_keys(structure: StructureData, level: Level, found: Sequence[_BucketKeys]) -> Array:
    """Numbers the keys of a level: nodes by their own number, larger sets by rank among all that occur. How many each structure has.

    Where most nodes are in no entry, nodes are ranked too: a thousand edges among a billion nodes are a small structure. Either
    way the keys of a structure follow those of the one before.
    """
    if not level:
        return np.ones(structure.num_structures, dtype=np.int64)
    members = [bucket for bucket in found if level in bucket.keys]
    total = sum(bucket.keys[level].nodes.numel() for bucket in members)
    if len(level) == 1 and structure.counts[level[0]] <= _SPARSE_NODES * total + 1024:
        for bucket in members:
            bucket.numbers[level] = bucket.keys[level].nodes[:, :, 0] - structure._node_offsets[level[0]]
        return _host(structure.node_ptr(level[0]).diff())
    keys = [bucket.keys[level].nodes for bucket in members]
    flat = torch.cat([k.reshape(-1, len(level)) for k in keys]) if keys else no_entries(len(level), structure.device).T
    ranks, count = rank(code(flat.unbind(1), [structure.total_nodes] * len(level))[0])
    for bucket, numbers in zip(members, ranks.split([k.shape[0] * k.shape[1] for k in keys]), strict=True):
        bucket.numbers[level] = numbers.view(bucket.keys[level].slots.shape)
    if structure.num_structures == 1:
        return np.array([count])
    owner = torch.empty(count, dtype=torch.long, device=structure.device)
    for bucket in members:
        owner[bucket.numbers[level]] = bucket.home[:, None]
    return _host(torch.bincount(owner, minlength=structure.num_structures))


def _host(values: Tensor) -> Array:
    found: Array = values.cpu().numpy()
    return found


def _single_nodes(orbit: Orbit, wanted: Sequence[Level], max_overlap: int) -> NodeSlot | None:
    """The smallest class of fixed size that has a level of its own sort."""
    found = [
        NodeSlot(at, words(orbit.classes, level, max_overlap).index((label,)), size)
        for at, level in enumerate(wanted)
        for label, c in enumerate(orbit.classes)
        if len(level) == 1 and c.sort == level[0] and (size := c.size)
    ]
    return min(found, key=lambda slot: (slot.size, slot.level, slot.slot), default=None)


def _orbit_plan(buckets: Sequence[_BucketKeys], wanted: Sequence[Level], layout: _BagLayout, structure: StructureData) -> OrbitPlan:
    device, num_structures = structure.device, structure.num_structures
    columns = [
        [bucket.home[:, None]]
        + [
            bucket.numbers[level] * num_slots + bucket.keys[level].slots + first
            for level, num_slots, first in zip(wanted[1:], layout.num_slots[1:], layout.level_ptr[1:-1], strict=True)
        ]
        for bucket in buckets
    ]  # for every bucket and level, the bags of its entries: (entries, bags each)
    num_reads = sum(c.numel() for parts in columns for c in parts)
    dtype = torch.int32 if max(layout.level_ptr[-1], num_reads) < 2**31 - 1 else torch.long
    tables = [torch.cat(parts, dim=1).to(dtype) for parts in columns]  # (entries, bags each)
    bags = torch.cat([torch.zeros(0, dtype=dtype, device=device), *(table.flatten() for table in tables)])  # (pairs,)
    bags_ptr = bags_ptr_of([(len(table), table.shape[1]) for table in tables], bags)  # (entries + 1,)
    rows = torch.cat([no_entries(1, device)[0], *(bucket.rows for bucket in buckets)])  # (entries,)
    plans = tuple(
        BucketPlan(bucket.sizes, tuple(c.shape[1] for c in parts), bucket.masks, _sets(bucket, num_structures))
        for bucket, parts in zip(buckets, columns, strict=True)
    )
    first_row, listed = _in_order(rows)
    rows_of_bags, rows_ptr = _transposed(bags, bags_ptr, rows, layout.level_ptr)
    return OrbitPlan(
        num_entries=len(rows),
        first_row=first_row,
        rows=listed,
        level_numbers=layout.level_numbers,
        num_slots=layout.num_slots,
        level_ptr=layout.level_ptr,
        bags_of_entries=bags,
        bags_ptr=bags_ptr,
        rows_of_bags=rows_of_bags,
        rows_ptr=rows_ptr,
        masks=tuple(mask for bucket in plans for mask in bucket.masks),
        num_sets=tuple(n for bucket in plans for n in bucket.sets.sum(1).tolist()),
        single_nodes=layout.single_nodes,
        buckets=plans,
    )


def _in_order(rows: Tensor) -> tuple[int, Tensor | None]:
    """The first row, and all of them unless they follow each other."""
    first = int(rows[0]) if len(rows) else 0
    is_range = bool((rows == torch.arange(first, first + len(rows), device=rows.device)).all())
    return (first, None) if is_range else (0, rows)


def _transposed(bags: Tensor, bags_ptr: Tensor, rows: Tensor, level_ptr: Sequence[int]) -> tuple[Tensor, Tensor]:
    """The rows of the entries of every bag, and where those of each start."""
    num_structures = level_ptr[1]  # their bags come first, and every entry is in one: they need no sort, or a small one
    is_other = bags >= num_structures
    of_others = torch.repeat_interleave(rows.to(bags.dtype), bags_ptr.diff())[is_other]
    of_others = of_others[bags[is_other].sort(stable=True)[1]]
    of_structures = rows.to(bags.dtype)
    if num_structures > 1:
        of_structures = of_structures[bags[~is_other].sort(stable=True)[1]]
    rows_ptr = ranges(torch.bincount(bags, minlength=level_ptr[-1])).to(bags.dtype)
    return torch.cat([of_structures, of_others]), rows_ptr


def _sets(bucket: _BucketKeys, num_structures: int) -> Array:
    """How many sets of each mask each structure has."""
    if num_structures == 1:
        return np.array(bucket.num_sets)[:, None]
    lengths = torch.tensor([n * len(mask) for n, mask in zip(bucket.num_sets, bucket.masks, strict=True)], device=bucket.home.device)
    mask = torch.repeat_interleave(torch.arange(len(bucket.masks), device=lengths.device), lengths)
    counts = torch.bincount(mask * num_structures + bucket.home, minlength=len(bucket.masks) * num_structures)
    found: Array = _host(counts).reshape(len(bucket.masks), num_structures) // np.array([len(mask) for mask in bucket.masks])[:, None]
    return found
