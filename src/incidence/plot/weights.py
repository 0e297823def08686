"""Which weight of a map stands at every pair of an output entry and an input entry.

Entries are lists of node sets, one for each class of their orbit. Standard library only.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import Any, NamedTuple

from incidence.algebra.maps import EquivariantMap, Operation
from incidence.algebra.orbit import Class, Orbit
from incidence.algebra.overlap import Matrix, overlaps
from incidence.algebra.pattern import Pattern
from incidence.algebra.signs import sorting_sign
from incidence.errors import IncidenceError, TooLargeError
from incidence.plot.theme import Theme, between

__all__ = [
    "Entry",
    "Sharing",
    "Weight",
    "complete_entries",
    "entries_at",
    "faces_of",
    "num_complete",
    "overlap_of",
    "sign_of",
    "text_of",
    "weight_colours",
]

MOST_CELLS = 40_000

NodeSets = tuple[tuple[int, ...], ...]


class Entry(NamedTuple):
    """An entry of a pattern.

    Attributes:
        orbit: The number of its orbit.
        sets: Its nodes by class, ascending.
    """

    orbit: int
    sets: NodeSets


def complete_entries(pattern: Pattern, num_nodes: Mapping[str, int]) -> list[Entry]:
    """Return all entries over given numbers of nodes, by orbit, then nodes.

    Example:
        >>> [entry.sets for entry in complete_entries(Pattern("i {i j}"), {"node": 2})]
        [((0,), (1,)), ((1,), (0,))]
    """
    return [
        Entry(number, sets)
        for number, orbit in enumerate(pattern.orbits)
        for sets in _disjoint(orbit.classes, num_nodes, {})
    ]


def _disjoint(
    classes: Sequence[Class], num_nodes: Mapping[str, int], used: dict[str, frozenset[int]]
) -> Iterator[NodeSets]:
    if not classes:
        yield ()
        return
    first = classes[0]
    taken = used.get(classes[0].sort, frozenset())
    free = [v for v in range(num_nodes[first.sort]) if v not in taken]
    for nodes in combinations(free, first.size or 0):
        for others in _disjoint(classes[1:], num_nodes, {**used, first.sort: taken | set(nodes)}):
            yield (nodes, *others)


def num_complete(pattern: Pattern, num_nodes: Mapping[str, int]) -> int:
    """Return how many entries there are, without listing them."""
    total = 0
    for orbit in pattern.orbits:
        ways = 1
        left = dict(num_nodes)
        for c in orbit.classes:
            for _ in range(c.size or 0):
                ways *= max(left[c.sort], 0)  # ordered choices, divided by the symmetries below
                left[c.sort] -= 1
        total += ways // orbit.symmetry
    return total


def entries_at(pattern: Pattern, index: Sequence[Sequence[int]]) -> list[Entry]:
    """Return the entries of assignments: for every letter, in order of appearance, a row of nodes.

    Example:
        >>> entries_at(Pattern("i j"), [[0, 1], [0, 2]])
        [Entry(orbit=0, sets=((0,),)), Entry(orbit=1, sets=((1,), (2,)))]
    """
    number = {
        tuple((c.faces, c.sort, c.size) for c in orbit.classes): k
        for k, orbit in enumerate(pattern.orbits)
    }
    entries = []
    for column in zip(*index, strict=True):
        places: dict[tuple[str, int], list[tuple[int, int]]] = {}
        for name, node in zip(pattern.letters, column, strict=True):
            # Letters on one node make one class, with the places of all of them.
            places.setdefault((pattern.sorts[name], node), []).extend(pattern.signatures[name])
        classes: dict[tuple[tuple[tuple[int, int], ...], str], list[int]] = {}
        for (sort, node), signature in places.items():
            classes.setdefault((tuple(sorted(signature)), sort), []).append(node)
        ordered = sorted(classes.items())
        key = tuple((faces, sort, len(nodes)) for (faces, sort), nodes in ordered)
        entries.append(Entry(number[key], tuple(tuple(sorted(nodes)) for _, nodes in ordered)))
    return entries


def overlap_of(x: NodeSets, y: NodeSets, source: Orbit, target: Orbit) -> Matrix:
    """Return how many nodes every class of x has in common with every class of y.

    Nodes of different sorts differ.
    """

    def common(nodes: tuple[int, ...], c: Class) -> tuple[int, ...]:
        return tuple(
            len({*nodes} & {*others}) if c.sort == d.sort else 0
            for others, d in zip(y, target.classes, strict=True)
        )

    return tuple(common(nodes, c) for nodes, c in zip(x, source.classes, strict=True))


def sign_of(x: NodeSets, y: NodeSets, operation: Operation) -> int:
    """Return the sign of the orbit indicator at a pair of entries.

    It is 1 without oriented faces (docs/math.md section 16).
    """
    sides = (operation.source.orbit.classes, x, y), (operation.target.orbit.classes, y, x)
    sign = 1
    for classes, sets, others in sides:
        common = [v for other in others for v in other]
        for c, nodes in zip(classes, sets, strict=True):
            if c.is_odd:
                # nodes of this entry first, then shared ones
                alone = [v for v in nodes if v not in common]
                sign *= sorting_sign([*alone, *(v for v in common if v in nodes)])
    return sign


def faces_of(entry: Entry, pattern: Pattern) -> tuple[tuple[str, ...], ...]:
    """Return the nodes of every face of an entry, as texts; those of an unordered face ascend."""
    orbit = pattern.orbits[entry.orbit]
    faces = orbit.names_by_face([[str(v) for v in nodes] for nodes in entry.sets])
    return tuple(
        tuple(names) if kind.is_ordered else tuple(sorted(names, key=int))
        for (kind, _), names in zip(orbit.kinds, faces, strict=True)
    )


def text_of(entry: Entry, pattern: Pattern) -> str:
    """Return an entry as it is written: `0 {0 2}`."""
    kinds = pattern.orbits[entry.orbit].kinds
    return " ".join(
        f"{kind.opening}{' '.join(names)}{kind.closing}"
        for (kind, _), names in zip(kinds, faces_of(entry, pattern), strict=True)
    )


class Weight(NamedTuple):
    """What stands at a pair of entries: the number of an operation (of the orbit basis), and its
    sign.
    """

    number: int
    sign: int


@dataclass(frozen=True)
class Sharing:
    """The matrix of a map, weight by weight.

    Attributes:
        map: The map.
        rows: The entries of the outputs by tensor and orbit: the position of the tensor, and the
            entry.
        columns: The entries of the inputs, likewise.
    """

    map: EquivariantMap
    rows: Sequence[tuple[int, Entry]]
    columns: Sequence[tuple[int, Entry]]

    @staticmethod
    def of(m: EquivariantMap, where: Any) -> Sharing:
        """Return the matrix of a map.

        Args:
            m: The map.
            where: How many nodes (with sorts: a mapping), for all entries over them; or a
                structure, for its entries.

        Raises:
            IncidenceError: The map has open faces.
            TooLargeError: There are too many pairs to see anything.
        """
        if m.is_open:
            raise IncidenceError(
                f"`{m}` has open faces, so there are infinitely many weights by pairs of entries."
                " Give the faces a size."
            )
        sides = (m.outputs, m.inputs)
        if hasattr(where, "index") and hasattr(where, "num_entries"):
            listed = [[_entries_in(where, p) for p in side] for side in sides]
        else:
            counts = m._counts(where)
            _assert_few(m, [sum(num_complete(p, counts) for p in side) for side in sides])
            listed = [[complete_entries(p, counts) for p in side] for side in sides]
        rows, columns = map(_by_orbit, listed)
        _assert_few(m, [len(rows), len(columns)])
        return Sharing(m, rows, columns)

    @cached_property
    def _numbers(self) -> dict[tuple[int, int, int, int], dict[Matrix, int]]:
        """For every pair of tensors and orbits the numbers of its operations, by overlap."""
        numbers = {}
        for pair in self.map.iter_pairs():
            source = pair.source
            target = pair.target
            matrices = overlaps(source.orbit.classes, target.orbit.classes)
            numbers[source.tensor, target.tensor, source.number, target.number] = {
                matrix: number for number, matrix in enumerate(matrices, pair.start)
            }
        return numbers

    def at(self, row: int, column: int) -> Weight | None:
        """Return what stands at a place of the matrix; None where it is always 0."""
        (t, y), (s, x) = self.rows[row], self.columns[column]
        source = self.map.inputs[s].orbits[x.orbit]
        target = self.map.outputs[t].orbits[y.orbit]
        overlap = overlap_of(x.sets, y.sets, source, target)
        number = self._numbers[s, t, x.orbit, y.orbit].get(overlap)
        if number is None:
            return None
        if not self.map.is_oriented:
            return Weight(number, 1)
        return Weight(number, sign_of(x.sets, y.sets, self.map.operations[number]))


def _entries_in(structure: Any, pattern: Pattern) -> list[Entry]:
    [index] = structure.index(pattern)
    return entries_at(pattern, index.tolist()) if pattern.faces else complete_entries(pattern, {})


def _by_orbit(tensors: Sequence[list[Entry]]) -> list[tuple[int, Entry]]:
    return [
        (tensor, entry)
        for tensor, entries in enumerate(tensors)
        for entry in sorted(entries, key=lambda e: e.orbit)
    ]


def _assert_few(m: EquivariantMap, sizes: Sequence[int]) -> None:
    if sizes[0] * sizes[1] > MOST_CELLS:
        raise TooLargeError(
            f"the matrix of `{m}` has {sizes[0]:,} x {sizes[1]:,} places; at most {MOST_CELLS:,}"
            " are drawn. Take fewer nodes."
        )


def weight_colours(m: EquivariantMap, theme: Theme) -> Mapping[int, str]:
    """Return a colour for every weight.

    If there are many weights, those of one pair of orbits are shades of one colour.
    """
    if m.dimension <= len(theme.palette):
        return {number: theme.palette[number] for number in range(m.dimension)}
    colours = {}
    for block, pair in enumerate(m.iter_pairs()):
        base = theme.category(block)
        # pale, full, dark
        shades = (between((base, theme.paper), 0.72), base, between((base, theme.ink), 0.62))
        for k in range(pair.count):
            colours[pair.start + k] = between(shades, (k + 0.5) / pair.count)
    return colours
