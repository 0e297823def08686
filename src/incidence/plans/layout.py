r"""How the bags of a map are laid out: what depends on the text alone, and on no structure.

The tensors of a side that have as many channels form a *stack*, their rows one below the other. A *bag* is a key (a node set) with a
slot: an orbit of the stack, and the word by which its entries tell the key. The slots of all orbits stand side by side, so that the
pooled rows of a level are one matrix of keys by (slots x channels), and all operations between two stacks are one product a level.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import product
from typing import NamedTuple

from incidence.algebra.maps import EquivariantMap
from incidence.algebra.orbit import Orbit
from incidence.algebra.pattern import Pattern
from incidence.algebra.words import Level, Word, levels, sign_of, words

__all__ = [
    "BagLayout",
    "MapLayout",
    "NodeSlot",
    "OrbitRef",
    "StackPlace",
    "Stacks",
    "by_width",
    "layout_of",
]

Stacks = tuple[tuple[int, ...], ...]
"""The tensors of a side by stack, each by its position on the side."""


class OrbitRef(NamedTuple):
    """An orbit of a side of a map: which tensor, and which of its orbits."""

    tensor: int
    orbit: int


class StackPlace(NamedTuple):
    """Where a tensor is: in which stack of its side, and at which place there."""

    stack: int
    place: int


class NodeSlot(NamedTuple):
    """A class of fixed size that has a level of single nodes: the level, the slot of the class there, and its size.

    Every entry stands in `size` of these bags, so that sums over all entries can be taken from there.
    """

    level: int
    slot: int
    size: int


@dataclass(frozen=True)
class BagLayout:
    """The slots of a stack.

    Attributes:
        patterns: The tensors of the stack.
        levels: For every orbit, tensor by tensor, the levels of its keys.
        max_overlap: Of the map.
    """

    patterns: tuple[Pattern, ...]
    levels: tuple[tuple[tuple[Level, ...], ...], ...]
    max_overlap: int

    @cached_property
    def all_levels(self) -> tuple[Level, ...]:
        """The levels of all orbits, the empty one first."""
        return _sorted({level for tensor in self.levels for orbit in tensor for level in orbit})

    @cached_property
    def slots(self) -> tuple[dict[OrbitRef, range], ...]:
        """For every level, the slots of every orbit that has it: one for each word."""
        found = []
        for level in self.all_levels:
            at: dict[OrbitRef, range] = {}
            start = 0
            for ref in self.orbits:
                count = (
                    len(self.words(ref, level))
                    if level in self.levels[ref.tensor][ref.orbit]
                    else 0
                )
                if (
                    count
                ):  # entries with an odd class have no key without it, not even the empty one
                    at[ref] = range(start, start + count)
                    start = at[ref].stop
            found.append(at)
        return tuple(found)

    @cached_property
    def num_slots(self) -> tuple[int, ...]:
        """For every level, how many slots a key has."""
        return tuple(max((slots.stop for slots in at.values()), default=0) for at in self.slots)

    @cached_property
    def orbits(self) -> dict[OrbitRef, Orbit]:
        """The orbits of the stack, tensor by tensor."""
        return {
            OrbitRef(t, number): orbit
            for t, p in enumerate(self.patterns)
            for number, orbit in enumerate(p.orbits)
        }

    def words(self, ref: OrbitRef, level: Level) -> tuple[Word, ...]:
        """The words with which the entries of an orbit tell the keys of a level."""
        return words(self.orbits[ref].classes, level, self.max_overlap)

    @property
    def is_signed(self) -> bool:
        """Whether rows write to bags with signs: some tensor has an oriented face."""
        return any(p.is_oriented for p in self.patterns)

    @cached_property
    def num_biases(self) -> tuple[int, ...]:
        """For every tensor, how many of its orbits have a bias: those with a bag for each structure."""
        return tuple(sum(orbit.has_bias for orbit in p.orbits) for p in self.patterns)

    @cached_property
    def single_nodes(self) -> tuple[NodeSlot, ...] | None:
        """For every orbit a class from which sums over all its entries can be taken; None unless all have one, and none has signs."""
        if self.is_signed:
            return None
        found = [self._single_node(ref) for ref in self.slots[0]]
        return None if None in found else tuple(slot for slot in found if slot is not None)

    def _single_node(self, ref: OrbitRef) -> NodeSlot | None:
        """The smallest class of fixed size that has a level of its own sort."""
        found = [
            NodeSlot(at, self.slots[at][ref].start + self.words(ref, level).index((label,)), size)
            for at, level in enumerate(self.all_levels)
            if len(level) == 1 and ref in self.slots[at]
            for label, c in enumerate(self.orbits[ref].classes)
            if c.sort == level[0] and (size := c.size)
        ]
        return min(found, key=lambda slot: (slot.size, slot.level, slot.slot), default=None)


@dataclass(frozen=True, eq=False)
class MapLayout:
    """The stacks of a map, and which of its operations need no key.

    Attributes:
        map: The map.
        input_stacks, output_stacks: The tensors of each side by stack.
        inputs, outputs: The slots of each stack.
        partners: The orbits that meet themselves where one side has no key for all their nodes, by input and output: there, entries are
            read from their *partners*, the entries on the same nodes.
    """

    map: EquivariantMap
    input_stacks: Stacks
    output_stacks: Stacks
    inputs: tuple[BagLayout, ...]
    outputs: tuple[BagLayout, ...]
    partners: tuple[tuple[OrbitRef, OrbitRef], ...]

    @cached_property
    def _key(self) -> tuple[int, tuple[EquivariantMap, Stacks, Stacks]]:
        """What all else follows from, with its hash: layouts are looked up for every batch."""
        key = self.map, self.input_stacks, self.output_stacks
        return hash(key), key

    def __hash__(self) -> int:
        return self._key[0]

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, MapLayout) and self._key == other._key)

    def __reduce__(self) -> tuple[Callable[..., MapLayout], tuple[EquivariantMap, Stacks, Stacks]]:
        """What it follows from: hashes differ from process to process, and what was found out since is found out again."""
        return layout_of, self._key[1]

    @cached_property
    def tensors(self) -> tuple[Pattern, ...]:
        """The tensors of the map, each once."""
        return tuple(dict.fromkeys(self.map.inputs + self.map.outputs))

    def place_in(self, tensor: int) -> StackPlace:
        """Where an input is."""
        return _place(self.input_stacks, tensor)

    def place_out(self, tensor: int) -> StackPlace:
        """Where an output is."""
        return _place(self.output_stacks, tensor)

    @cached_property
    def levels(self) -> tuple[Level, ...]:
        """The levels of all stacks."""
        return _sorted(
            {level for stack in self.inputs + self.outputs for level in stack.all_levels}
        )

    @cached_property
    def stacks(self) -> tuple[BagLayout, ...]:
        """The different stacks: one that stands on both sides has its lists once."""
        return tuple(dict.fromkeys(self.inputs + self.outputs))

    @cached_property
    def numbers_in(self) -> tuple[int, ...]:
        """For every stack of the inputs, its number among the different ones."""
        return tuple(map(self.stacks.index, self.inputs))

    @cached_property
    def numbers_out(self) -> tuple[int, ...]:
        """For every stack of the outputs, its number among the different ones."""
        return tuple(map(self.stacks.index, self.outputs))

    @cached_property
    def partner_orbits(self) -> tuple[OrbitRef, ...]:
        """The orbits whose entries are read from partners, by the number of their tensor."""
        return tuple(
            dict.fromkeys(
                OrbitRef(self.tensors.index(self.map.inputs[s.tensor]), s.orbit)
                for s, _ in self.partners
            )
        )


def _place(stacks: Stacks, tensor: int) -> StackPlace:
    return next(
        StackPlace(number, stack.index(tensor))
        for number, stack in enumerate(stacks)
        if tensor in stack
    )


def by_width(widths: list[int]) -> Stacks:
    """The tensors of a side by stack: those with as many channels."""
    found: dict[int, list[int]] = {}
    for position, width in enumerate(widths):
        found.setdefault(width, []).append(position)
    return tuple(map(tuple, found.values()))


def layout_of(
    equivariant_map: EquivariantMap,
    input_stacks: Stacks | None = None,
    output_stacks: Stacks | None = None,
) -> MapLayout:
    """The layout of a map; without stacks, each side is one."""
    inputs, outputs = equivariant_map.inputs, equivariant_map.outputs
    return _layout(
        equivariant_map,
        input_stacks or (tuple(range(len(inputs))),),
        output_stacks or (tuple(range(len(outputs))),),
    )


@lru_cache(maxsize=256)
def _layout(m: EquivariantMap, input_stacks: Stacks, output_stacks: Stacks) -> MapLayout:
    sources, targets = _orbits(m.inputs), _orbits(m.outputs)
    found_in: dict[OrbitRef, set[Level]] = {ref: {()} for ref in sources}
    found_out: dict[OrbitRef, set[Level]] = {ref: {()} for ref in targets}
    for s, source in sources.items():
        for t, target in targets.items():
            shared = _shared_levels(source, target, m.max_overlap)
            if _is_aligned(m, s, t):
                shared -= {_all_nodes(source)}  # partners will do
            found_in[s] |= shared
            found_out[t] |= shared
    partners = tuple(
        (s, t)
        for s in sources
        for t in targets
        if _is_aligned(m, s, t)
        and not (_all_nodes(sources[s]) in found_in[s] and _all_nodes(sources[s]) in found_out[t])
    )

    def layouts(
        patterns: tuple[Pattern, ...], stacks: Stacks, found: dict[OrbitRef, set[Level]]
    ) -> tuple[BagLayout, ...]:
        def of_tensor(k: int) -> tuple[tuple[Level, ...], ...]:
            return tuple(
                _sorted(found[OrbitRef(k, number)]) for number in range(len(patterns[k].orbits))
            )

        return tuple(
            BagLayout(
                tuple(patterns[k] for k in stack), tuple(map(of_tensor, stack)), m.max_overlap
            )
            for stack in stacks
        )

    inputs, outputs = (
        layouts(m.inputs, input_stacks, found_in),
        layouts(m.outputs, output_stacks, found_out),
    )
    return MapLayout(m, input_stacks, output_stacks, inputs, outputs, partners)


def _orbits(patterns: tuple[Pattern, ...]) -> dict[OrbitRef, Orbit]:
    return {
        OrbitRef(t, number): orbit
        for t, p in enumerate(patterns)
        for number, orbit in enumerate(p.orbits)
    }


def _is_aligned(m: EquivariantMap, source: OrbitRef, target: OrbitRef) -> bool:
    """Whether an input and an output orbit are the same entries, of a fixed number of nodes."""
    p, q = m.inputs[source.tensor], m.outputs[target.tensor]
    orbit = p.orbits[source.orbit]
    return p == q and source.orbit == target.orbit and orbit.size > 0 and not orbit.is_open


def _shared_levels(source: Orbit, target: Orbit, max_overlap: int) -> set[Level]:
    """The levels on which two orbits have operations; with oriented faces, not all that both have."""
    one, other = source.classes, target.classes
    shared = set(levels(one, max_overlap)) & set(levels(other, max_overlap))
    if not any(c.is_odd for c in one + other):
        return shared

    def has_operation(level: Level) -> bool:
        pairs = product(words(one, level, max_overlap), words(other, level, max_overlap))
        return any(sign_of(one, other, u, w) for u, w in pairs)

    return set(filter(has_operation, shared))


def _all_nodes(orbit: Orbit) -> Level:
    return tuple(sorted(c.sort for c in orbit.classes for _ in range(c.size or 0)))


def _sorted(found: set[Level]) -> tuple[Level, ...]:
    return tuple(sorted(found, key=lambda level: (len(level), level)))
