r"""Plans: which keys the entries of a structure write to and read from.

Every entry writes to all subsets of its nodes and reads from all subsets of its nodes. A plan lists, for every orbit of every
tensor of a map, the bags of its entries, a bag being a subset with a word; see `lists`.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import combinations
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from incidence.algebra.maps import EquivariantMap
from incidence.algebra.orbit import Class, Orbit
from incidence.algebra.pattern import Pattern
from incidence.algebra.words import Level, levels, num_open, words
from incidence.plans.orbit_plan import Array, OrbitPlan, Table, flatten, mask_lists, offsets_of, order_of
from incidence.structure.arrange import Arranged
from incidence.structure.ragged import code, ranges, rank

if TYPE_CHECKING:
    from incidence.plans.batches import Stock
    from incidence.structure.structure import Structure

__all__ = ["OrbitPlan", "Plan", "build", "is_aligned", "tensors_of"]


@dataclass(frozen=True, eq=False)
class Plan:
    """Everything a layer needs to know of a structure. Prints its cost.

    Attributes:
        tensors: The tensors of the map, each once.
        levels: The levels, the empty one first.
        keys: How many keys of each level each structure has, shape (levels, structures); on the host.
        entries: How many entries of each tensor each structure has, shape (tensors, structures); on the host.
        orbits: For every tensor, the lists of its orbits.
        orders: For every tensor, the rows in canonical order; None where the order is canonical already.
    """

    tensors: tuple[Pattern, ...]
    levels: tuple[Level, ...]
    keys: Array
    entries: Array
    orbits: tuple[tuple[OrbitPlan, ...], ...]
    orders: tuple[Tensor | None, ...]
    programs: dict[Hashable, Any] = field(default_factory=dict)  # what layers derive from this plan, by what they are

    @property
    def num_keys(self) -> tuple[int, ...]:
        """How many keys each level has."""
        return tuple(self.keys.sum(1).tolist())

    @property
    def num_entries(self) -> tuple[int, ...]:
        """For every tensor, the number of its entries."""
        return tuple(self.entries.sum(1).tolist())

    @cached_property
    def flat(self) -> Array:
        """The numbers of all lists as one: the bags of entries, orbit by orbit; then, by orbit, the members of bags and their starts.

        On the host.
        """
        lists = [lists for orbits in self.orbits for lists in orbits]
        parts = [*(own.read for own in lists), *(part for own in lists for part in (own.pool, own.pool_ptr[:-1]))]
        return _host(torch.cat(parts))

    @cached_property
    def stock(self) -> Stock:
        """The numbers ready to make batches of."""
        from incidence.plans.batches import Stock

        return Stock([self])

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
        tensors = [t for o in lists for t in (o.read, o.read_ptr, o.pool, o.pool_ptr)]
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
        _Found(t, arranged, structure.batch(pattern)[arranged.bucket.rows], {})
        for t, pattern in enumerate(tensors)
        for arranged in structure.arranged(pattern)
    ]
    all_levels = tuple(sorted({x for found_levels in wanted.values() for x in found_levels}, key=lambda x: (len(x), x)))
    for part in found:
        classes = tensors[part.tensor].orbits[part.arranged.bucket.orbit].classes
        for level in wanted[part.tensor, part.arranged.bucket.orbit]:
            if level:
                part.keys[level] = _keys(part.arranged, classes, level, equivariant_map.max_overlap)
    keys = np.stack([_number_keys(structure, level, found) for level in all_levels])
    orbits, orders = [], []
    for t, pattern in enumerate(tensors):
        lists: list[OrbitPlan] = []
        for number, orbit in enumerate(pattern.orbits):
            own = [part for part in found if (part.tensor, part.arranged.bucket.orbit) == (t, number)]
            shape = make_shape(orbit, wanted[t, number], all_levels, keys, equivariant_map.max_overlap)
            start = lists[-1].stop if lists else 0
            lists.append(_orbit_plan(own, start, wanted[t, number], shape, structure))
        orbits.append(tuple(lists))
        orders.append(order_of([part.arranged.bucket.rows for part in found if part.tensor == t]))
    entries = np.stack([structure.entry_ptr(p).diff().cpu().numpy() for p in tensors])
    return Plan(tensors, all_levels, keys, entries, tuple(orbits), tuple(orders))


class _Found(NamedTuple):
    """A bucket while its plan is made: the entries, their structures, and for every level nodes (later numbers) and slots of the keys."""

    tensor: int
    arranged: Arranged
    structure: Tensor
    keys: dict[Level, tuple[Tensor, Tensor]]


class Shape(NamedTuple):
    """The levels of an orbit, the words that a key of each has, and where the bags of each start; see `OrbitPlan`."""

    levels: tuple[int, ...]
    num_slots: tuple[int, ...]
    offsets: tuple[int, ...]
    nodes_at: tuple[int, int, int] | None


def make_shape(orbit: Orbit, own: Sequence[Level], all_levels: Sequence[Level], keys: Array, max_overlap: int) -> Shape:
    """The shape of the lists of an orbit."""
    levels = tuple(all_levels.index(level) for level in own)
    slots = tuple(len(words(orbit.classes, level, max_overlap)) for level in own)
    return Shape(levels, slots, offsets_of(levels, slots, keys), _nodes_at(orbit, own, max_overlap))


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


def _number_keys(structure: Structure, level: Level, found: Sequence[_Found]) -> Array:
    """Numbers the keys of a level: nodes by their own number, larger sets by rank among all that occur. How many each structure has.

    Where most nodes are in no entry, nodes are ranked too: a thousand edges among a billion nodes are a small structure. Either
    way the keys of a structure follow those of the one before.
    """
    if not level:
        return np.ones(structure.num_structures, dtype=np.int64)
    members = [part for part in found if level in part.keys]
    total = sum(part.keys[level][0].numel() for part in members)
    if len(level) == 1 and structure.counts[level[0]] <= _SPARSE_NODES * total + 1024:
        for part in members:
            nodes, slots = part.keys[level]
            part.keys[level] = nodes[:, :, 0] - structure.node_offsets[level[0]], slots
        return _host(structure.node_ptr(level[0]).diff())
    keys = [part.keys[level][0] for part in members]
    flat = torch.cat([k.reshape(-1, len(level)) for k in keys]) if keys else structure.empty_index(len(level)).T
    ranks, count = rank(code(flat.unbind(1), [structure.total_nodes] * len(level))[0])
    for part, numbers in zip(members, ranks.split([k.shape[0] * k.shape[1] for k in keys]), strict=True):
        nodes, slots = part.keys[level]
        part.keys[level] = numbers.view(nodes.shape[:2]), slots
    if structure.num_structures == 1:
        return np.array([count])
    owner = torch.empty(count, dtype=torch.long, device=structure.device)
    for part in members:
        owner[part.keys[level][0]] = part.structure[:, None]
    return _host(torch.bincount(owner, minlength=structure.num_structures))


def _host(values: Tensor) -> Array:
    found: Array = values.cpu().numpy()
    return found


def _nodes_at(orbit: Orbit, own: Sequence[Level], max_overlap: int) -> tuple[int, int, int] | None:
    """The smallest class of fixed size that has a level of its own sort."""
    found = [
        (size, at, words(orbit.classes, level, max_overlap).index((label,)))
        for at, level in enumerate(own)
        for label, c in enumerate(orbit.classes)
        if len(level) == 1 and c.sort == level[0] and (size := c.size)
    ]
    return (min(found)[1], min(found)[2], min(found)[0]) if found else None


def _orbit_plan(found: Sequence[_Found], start: int, own: Sequence[Level], shape: Shape, structure: Structure) -> OrbitPlan:
    device, num_structures = structure.device, structure.num_structures
    columns = [
        [part.structure[:, None]]
        + [
            part.keys[level][0] * slots + part.keys[level][1] + offset
            for level, slots, offset in zip(own[1:], shape.num_slots[1:], shape.offsets[1:], strict=False)
        ]
        for part in found
    ]
    total = sum(c.numel() for parts in columns for c in parts)
    dtype = torch.int32 if max(shape.offsets[-1], total) < 2**31 - 1 else torch.long
    tables = tuple(
        Table(
            part.arranged.bucket.sizes,
            tuple(c.shape[1] for c in parts),
            part.arranged.masks,
            _sets(part, num_structures),
        )
        for part, parts in zip(found, columns, strict=True)
    )
    read, read_ptr = flatten([torch.cat(parts, dim=1).to(dtype) for parts in columns], dtype, device)
    each = read_ptr.diff()
    first = shape.offsets[1]  # the bags of structures come first, one in each entry
    is_local = read >= first
    entries = torch.repeat_interleave(torch.arange(len(each), device=device, dtype=dtype), each)[is_local]
    local = read[is_local] - first
    pool_ptr = ranges(torch.bincount(read, minlength=shape.offsets[-1])).to(dtype)
    whole = read[~is_local].sort(stable=True)[1] if num_structures > 1 else torch.arange(len(each), device=device)
    pool = torch.cat([whole.to(dtype), entries[local.sort(stable=True)[1]]])
    lists = read, read_ptr, pool, pool_ptr
    return OrbitPlan(start, start + len(each), *shape[:3], *lists, *mask_lists(tables), shape.nodes_at, tables)


def _sets(part: _Found, num_structures: int) -> Array:
    """How many sets of each mask each structure has."""
    masks, num_sets = part.arranged.masks, part.arranged.num_sets
    if num_structures == 1:
        return np.array(num_sets)[:, None]
    lengths = torch.tensor([n * len(mask) for n, mask in zip(num_sets, masks, strict=True)], device=part.structure.device)
    run = torch.repeat_interleave(torch.arange(len(masks), device=lengths.device), lengths)
    counts = torch.bincount(run * num_structures + part.structure, minlength=len(masks) * num_structures)
    found: Array = _host(counts).reshape(len(masks), num_structures) // np.array([len(mask) for mask in masks])[:, None]
    return found
