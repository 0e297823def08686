"""Entries as lists of node sets, one for each class of their orbit: of complete structures, and from assignments. Standard library only."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from typing import NamedTuple

from incidence.algebra.maps import Operation
from incidence.algebra.orbit import Class, Orbit
from incidence.algebra.overlap import Matrix
from incidence.algebra.pattern import Pattern
from incidence.algebra.signs import sorting_sign

__all__ = [
    "Entry",
    "complete_entries",
    "entries_at",
    "faces_of",
    "num_complete",
    "overlap_of",
    "sign_of",
    "text_of",
]

Sets = tuple[tuple[int, ...], ...]


class Entry(NamedTuple):
    """An entry of a pattern.

    Attributes:
        orbit: The number of its orbit.
        sets: Its nodes by class, ascending.
    """

    orbit: int
    sets: Sets


def complete_entries(pattern: Pattern, num_nodes: Mapping[str, int]) -> list[Entry]:
    """All entries over given numbers of nodes, by orbit, then nodes.

    Example:
        >>> [entry.sets for entry in complete_entries(Pattern("i {i j}"), {"node": 2})]
        [((0,), (1,)), ((1,), (0,))]
    """
    return [
        Entry(k, sets)
        for k, orbit in enumerate(pattern.orbits)
        for sets in _disjoint(orbit.classes, num_nodes, {})
    ]


def _disjoint(
    classes: Sequence[Class], num_nodes: Mapping[str, int], used: dict[str, frozenset[int]]
) -> Iterator[Sets]:
    if not classes:
        yield ()
        return
    first, taken = classes[0], used.get(classes[0].sort, frozenset())
    free = [v for v in range(num_nodes[first.sort]) if v not in taken]
    for own in combinations(free, first.size or 0):
        for rest in _disjoint(classes[1:], num_nodes, {**used, first.sort: taken | set(own)}):
            yield (own, *rest)


def num_complete(pattern: Pattern, num_nodes: Mapping[str, int]) -> int:
    """How many entries there are, without listing them."""
    total = 0
    for orbit in pattern.orbits:
        ways, left = 1, dict(num_nodes)
        for c in orbit.classes:
            for _ in range(c.size or 0):
                ways *= max(left[c.sort], 0)
                left[c.sort] -= 1
        total += ways // orbit.symmetry
    return total


def entries_at(pattern: Pattern, index: Sequence[Sequence[int]]) -> list[Entry]:
    """The entries that assignments denote: for every letter, in order of appearance, a node of each.

    Example:
        >>> entries_at(Pattern("i j"), [[0, 1], [0, 2]])
        [Entry(orbit=0, sets=((0,),)), Entry(orbit=1, sets=((1,), (2,)))]
    """
    number = {
        tuple((c.faces, c.sort, c.size) for c in orbit.classes): k
        for k, orbit in enumerate(pattern.orbits)
    }
    found = []
    for column in zip(*index, strict=True):
        places: dict[tuple[str, int], list[tuple[int, int]]] = {}
        for name, node in zip(pattern.letters, column, strict=True):
            places.setdefault((pattern.sorts[name], node), []).extend(pattern.signatures[name])
        classes: dict[tuple[tuple[tuple[int, int], ...], str], list[int]] = {}
        for (sort, node), signature in places.items():
            classes.setdefault((tuple(sorted(signature)), sort), []).append(node)
        ordered = sorted(classes.items())
        key = tuple((faces, sort, len(nodes)) for (faces, sort), nodes in ordered)
        found.append(Entry(number[key], tuple(tuple(sorted(nodes)) for _, nodes in ordered)))
    return found


def overlap_of(x: Sets, y: Sets, source: Orbit, target: Orbit) -> Matrix:
    """How many nodes every class of x has in common with every class of y; nodes of different sorts differ."""
    return tuple(
        tuple(
            len({*own} & {*other}) if c.sort == d.sort else 0
            for other, d in zip(y, target.classes, strict=True)
        )
        for own, c in zip(x, source.classes, strict=True)
    )


def sign_of(x: Sets, y: Sets, operation: Operation) -> int:
    """The sign of the orbit indicator at a pair of entries: 1 without oriented faces (docs/math.md section 16)."""
    sides = (operation.source.orbit.classes, x, y), (operation.target.orbit.classes, y, x)
    sign = 1
    for classes, own, others in sides:
        outside = {v for other in others for v in other}
        for c, nodes in zip(classes, own, strict=True):
            if c.is_odd:
                cells = [v for other in others for v in other if v in nodes]
                sign *= sorting_sign([*(v for v in nodes if v not in outside), *cells])
    return sign


def faces_of(entry: Entry, pattern: Pattern) -> tuple[tuple[str, ...], ...]:
    """The nodes of every face of an entry, as texts; those of an unordered face ascending."""
    orbit = pattern.orbits[entry.orbit]
    faces = orbit.names_by_face([[str(v) for v in nodes] for nodes in entry.sets])
    return tuple(
        tuple(names) if kind.is_ordered else tuple(sorted(names, key=int))
        for (kind, _), names in zip(orbit.kinds, faces, strict=True)
    )


def text_of(entry: Entry, pattern: Pattern) -> str:
    """An entry as it is written: `0 {0 2}`."""
    kinds = pattern.orbits[entry.orbit].kinds
    return " ".join(
        f"{kind.opening}{' '.join(names)}{kind.closing}"
        for (kind, _), names in zip(kinds, faces_of(entry, pattern), strict=True)
    )
