"""Which weight of a map stands at every pair of an output and an input entry, and in which colour. Standard library only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from incidence.algebra.maps import EquivariantMap
from incidence.algebra.overlap import Matrix, overlaps
from incidence.algebra.pattern import Pattern
from incidence.errors import IncidenceError, TooLargeError
from incidence.plot.entries import (
    Entry,
    complete_entries,
    entries_at,
    num_complete,
    overlap_of,
    sign_of,
)
from incidence.plot.theme import Theme, between

__all__ = ["Sharing", "Weight", "weight_colours"]

MOST_CELLS = 40_000


@dataclass(frozen=True)
class Weight:
    """What stands at a pair of entries: the number of an operation (of the orbit basis), and its sign."""

    number: int
    sign: int


@dataclass(frozen=True)
class Sharing:
    """The matrix of a map, weight by weight.

    Attributes:
        map: The map.
        rows, columns: The entries of the outputs and of the inputs: the position of the tensor, and the entry; by tensor and orbit.
    """

    map: EquivariantMap
    rows: Sequence[tuple[int, Entry]]
    columns: Sequence[tuple[int, Entry]]

    @staticmethod
    def of(m: EquivariantMap, where: Any) -> Sharing:
        """The matrix on all entries over a number of nodes (with sorts: a mapping), or on those of a structure.

        Raises:
            IncidenceError: The map has open faces.
            TooLargeError: There are too many pairs to see anything.
        """
        if m.is_open:
            raise IncidenceError(
                f"`{m}` has open faces, so there are infinitely many weights by pairs of entries. Give the faces a size."
            )
        if hasattr(where, "index") and hasattr(where, "num_entries"):
            sides = [[_listed(p, where) for p in side] for side in (m.outputs, m.inputs)]
        else:
            counts = m._counts(where)
            _assert_few(
                m, [sum(num_complete(p, counts) for p in side) for side in (m.outputs, m.inputs)]
            )
            sides = [[complete_entries(p, counts) for p in side] for side in (m.outputs, m.inputs)]
        rows, columns = (
            [
                (t, entry)
                for t, entries in enumerate(side)
                for entry in sorted(entries, key=lambda e: e.orbit)
            ]
            for side in sides
        )
        _assert_few(m, [len(rows), len(columns)])
        return Sharing(m, rows, columns)

    @cached_property
    def _numbers(self) -> dict[tuple[int, int, int, int], dict[Matrix, int]]:
        """For every pair of tensors and orbits the numbers of its operations, by overlap."""
        return {
            (pair.source.tensor, pair.target.tensor, pair.source.number, pair.target.number): {
                matrix: number
                for number, matrix in enumerate(
                    overlaps(pair.source.orbit.classes, pair.target.orbit.classes), pair.start
                )
            }
            for pair in self.map.iter_pairs()
        }

    def at(self, row: int, column: int) -> Weight | None:
        """What stands at a place of the matrix; None where it is always 0."""
        (t, y), (s, x) = self.rows[row], self.columns[column]
        source, target = self.map.inputs[s].orbits[x.orbit], self.map.outputs[t].orbits[y.orbit]
        overlap = overlap_of(x.sets, y.sets, source, target)
        number = self._numbers[s, t, x.orbit, y.orbit].get(overlap)
        if number is None:
            return None
        return Weight(
            number,
            sign_of(x.sets, y.sets, self.map.operations[number]) if self.map.is_oriented else 1,
        )


def _listed(pattern: Pattern, structure: Any) -> list[Entry]:
    [index] = structure.index(pattern)
    return entries_at(pattern, index.tolist()) if pattern.faces else complete_entries(pattern, {})


def _assert_few(m: EquivariantMap, sizes: Sequence[int]) -> None:
    if sizes[0] * sizes[1] > MOST_CELLS:
        raise TooLargeError(
            f"the matrix of `{m}` has {sizes[0]:,} x {sizes[1]:,} places; at most {MOST_CELLS:,} are drawn. Take fewer nodes."
        )


def weight_colours(m: EquivariantMap, theme: Theme) -> Mapping[int, str]:
    """A colour for every weight; if there are many, those of one pair of orbits are shades of one colour, told apart by light as well."""
    if m.dimension <= len(theme.palette):
        return {number: theme.palette[number] for number in range(m.dimension)}
    found = {}
    for block, pair in enumerate(m.iter_pairs()):
        base = theme.category(block)
        row = (between((base, theme.paper), 0.72), base, between((base, theme.ink), 0.62))
        for k in range(pair.count):
            found[pair.start + k] = between(row, (k + 0.5) / pair.count if pair.count > 1 else 0.5)
    return found
