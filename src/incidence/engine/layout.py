r"""How the bags of a map are laid out: what the text alone decides, before any structure is known.

A *bag* is a key (a node set) with a slot. A *slot* is an orbit of a tensor with a word, which says
in which class of the entry each node of the key lies. The slots of all orbits of a tensor stand
side by side. So the pooled rows of a level are one matrix of keys by (slots x channels), and all
operations between two tensors are one matrix product for each level.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import product
from typing import NamedTuple

from incidence.algebra.maps import EquivariantMap, TensorOrbit
from incidence.algebra.orbit import Orbit
from incidence.algebra.pattern import Pattern
from incidence.algebra.words import Level, Word, levels, sign_of, words

__all__ = ["MapLayout", "NodeSlot", "TensorLayout", "layout_of", "orbits_of"]


class NodeSlot(NamedTuple):
    """A class of fixed size that has a slot at a level of single nodes.

    Every entry stands in `size` of these bags. So sums over all entries are sums over these bags,
    divided by `size`.
    """

    level: int
    slot: int
    size: int


@dataclass(frozen=True)
class TensorLayout:
    """The slots of one tensor.

    Attributes:
        pattern: The tensor.
        orbit_levels: The levels of the keys of every orbit.
        max_overlap: How many nodes of a key may lie in open classes.
    """

    pattern: Pattern
    orbit_levels: tuple[tuple[Level, ...], ...]
    max_overlap: int

    @cached_property
    def levels(self) -> tuple[Level, ...]:
        """The levels of all orbits, the empty one first."""
        return _sorted({level for own in self.orbit_levels for level in own})

    @cached_property
    def slots(self) -> tuple[dict[int, range], ...]:
        """For every level the slots of every orbit that has it: one slot for each word."""
        return tuple(map(self._slots_at, self.levels))

    def _slots_at(self, level: Level) -> dict[int, range]:
        slots: dict[int, range] = {}
        start = 0
        for orbit, own in enumerate(self.orbit_levels):
            # entries with an odd class have no key that leaves it out, not even the empty key
            num_words = len(self.words(orbit, level)) if level in own else 0
            if num_words:
                slots[orbit] = range(start, start + num_words)  # orbits of a level side by side
                start += num_words
        return slots

    @cached_property
    def num_slots(self) -> tuple[int, ...]:
        """For every level the number of slots of a key."""
        return tuple(sum(map(len, slots.values())) for slots in self.slots)

    def words(self, orbit: int, level: Level) -> tuple[Word, ...]:
        """Return the words with which the entries of an orbit name the keys of a level."""
        return words(self.pattern.orbits[orbit].classes, level, self.max_overlap)

    @property
    def is_signed(self) -> bool:
        """Whether rows write to bags with signs, because the tensor has an oriented face."""
        return self.pattern.is_oriented

    @property
    def has_range_bags(self) -> bool:
        """Whether the bag of every structure is a range of rows, and there are no other bags."""
        return self.levels == ((),) and len(self.orbit_levels) == 1 and not self.is_signed

    @cached_property
    def node_slots(self) -> tuple[NodeSlot, ...] | None:
        """For every orbit a class from whose bags sums over all entries can be taken.

        None unless every orbit has such a class. Signs would make these sums wrong.
        """
        if self.is_signed:
            return None
        slots = [self._node_slot(orbit) for orbit in self.slots[0]]
        known = tuple(slot for slot in slots if slot is not None)
        return known if len(known) == len(slots) else None

    def _node_slot(self, orbit: int) -> NodeSlot | None:
        """Return the smallest class of fixed size that has a level of its own sort."""
        candidates = []
        for at, level in enumerate(self.levels):
            if len(level) != 1 or orbit not in self.slots[at]:
                continue
            for label, c in enumerate(self.pattern.orbits[orbit].classes):
                if c.sort == level[0] and c.size:
                    slot = self.slots[at][orbit][self.words(orbit, level).index((label,))]
                    candidates.append(NodeSlot(at, slot, c.size))
        return min(candidates, key=lambda s: (s.size, s.level, s.slot), default=None)


@dataclass(frozen=True, eq=False)
class MapLayout:
    """The slots of all tensors of a map, and which of its operations need no key.

    Attributes:
        map: The map.
        inputs, outputs: The slots of each tensor.
        partners: Pairs of an input and an output orbit that are the same entries, where one side
            has no key for all their nodes. There, entries are read from their *partners*: the
            entries on the same nodes.
    """

    map: EquivariantMap
    inputs: tuple[TensorLayout, ...]
    outputs: tuple[TensorLayout, ...]
    partners: tuple[tuple[TensorOrbit, TensorOrbit], ...]

    def __repr__(self) -> str:
        return f"MapLayout({self.map!r})"

    def __reduce__(self) -> tuple[Callable[..., MapLayout], tuple[EquivariantMap]]:
        """Return the map: `layout_of` gives every process its one layout of a map."""
        return layout_of, (self.map,)

    @cached_property
    def patterns(self) -> tuple[Pattern, ...]:
        """The tensors of the map, each once."""
        return tuple(dict.fromkeys(self.map.inputs + self.map.outputs))

    @cached_property
    def levels(self) -> tuple[Level, ...]:
        """The levels of all tensors."""
        return _sorted({level for tensor in self.tensors for level in tensor.levels})

    @cached_property
    def tensors(self) -> tuple[TensorLayout, ...]:
        """The different layouts: a tensor on both sides often has the same bags there."""
        return tuple(dict.fromkeys(self.inputs + self.outputs))

    @cached_property
    def input_numbers(self) -> tuple[int, ...]:
        """For every input the number of its layout in `tensors`."""
        return tuple(map(self.tensors.index, self.inputs))

    @cached_property
    def output_numbers(self) -> tuple[int, ...]:
        """For every output the number of its layout in `tensors`."""
        return tuple(map(self.tensors.index, self.outputs))

    @cached_property
    def partner_orbits(self) -> tuple[TensorOrbit, ...]:
        """The orbits whose entries are read from partners, by the number of their pattern."""
        orbits = (self.by_pattern(source) for source, _ in self.partners)
        return tuple(dict.fromkeys(orbits))

    def by_pattern(self, source: TensorOrbit) -> TensorOrbit:
        """Return an orbit of an input by the number of its pattern."""
        return source._replace(tensor=self.patterns.index(self.map.inputs[source.tensor]))


@lru_cache(maxsize=256)
def layout_of(m: EquivariantMap) -> MapLayout:
    """Return the layout of a map."""
    sources = [orbit for s, p in enumerate(m.inputs) for orbit in orbits_of(p, s)]
    targets = [orbit for t, p in enumerate(m.outputs) for orbit in orbits_of(p, t)]
    # everybody has the empty key
    levels_in: dict[TensorOrbit, set[Level]] = {source: {()} for source in sources}
    levels_out: dict[TensorOrbit, set[Level]] = {target: {()} for target in targets}
    aligned = []
    for source, target in product(sources, targets):
        shared = _shared_levels(source.orbit, target.orbit, m.max_overlap)
        if _is_aligned(m, source, target):
            shared -= {_all_nodes(source.orbit)}  # partners replace this level
            aligned.append((source, target))
        levels_in[source] |= shared  # levels of no operation are not listed
        levels_out[target] |= shared
    # another pair of orbits may need the level of all nodes on both sides: then it is used
    partners = tuple(
        (source, target)
        for source, target in aligned
        if _all_nodes(source.orbit) not in levels_in[source] & levels_out[target]
    )
    inputs = _tensor_layouts(m.inputs, levels_in, m.max_overlap)
    outputs = _tensor_layouts(m.outputs, levels_out, m.max_overlap)
    return MapLayout(m, inputs, outputs, partners)


def _tensor_layouts(
    patterns: tuple[Pattern, ...], orbit_levels: dict[TensorOrbit, set[Level]], max_overlap: int
) -> tuple[TensorLayout, ...]:
    layouts = []
    for number, pattern in enumerate(patterns):
        own = tuple(_sorted(orbit_levels[orbit]) for orbit in orbits_of(pattern, number))
        layouts.append(TensorLayout(pattern, own, max_overlap))
    return tuple(layouts)


def orbits_of(pattern: Pattern, number: int) -> list[TensorOrbit]:
    """Return the orbits of a pattern, which is the tensor of that number."""
    return [TensorOrbit(number, k, orbit) for k, orbit in enumerate(pattern.orbits)]


def _is_aligned(m: EquivariantMap, source: TensorOrbit, target: TensorOrbit) -> bool:
    """Return whether an input and an output orbit are the same entries, of a fixed size."""
    if m.inputs[source.tensor] != m.outputs[target.tensor] or source.number != target.number:
        return False
    return source.orbit.size > 0 and not source.orbit.is_open


def _shared_levels(source: Orbit, target: Orbit, max_overlap: int) -> set[Level]:
    """Return the levels on which two orbits have operations.

    With oriented faces these are not all the levels that both orbits have.
    """
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


def _sorted(some: set[Level]) -> tuple[Level, ...]:
    return tuple(sorted(some, key=lambda level: (len(level), level)))
