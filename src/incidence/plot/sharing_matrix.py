"""`plot.sharing`: the matrix of a map, every weight in its colour. Standard library only."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from typing import Any

from incidence.algebra.describe import read
from incidence.algebra.grammar import Kind
from incidence.algebra.maps import EquivariantMap, as_map
from incidence.algebra.pattern import Pattern
from incidence.errors import IncidenceError
from incidence.plot.picture import Picture
from incidence.plot.scene import Mark, Scene, Style, label, line, rectangle, text_width
from incidence.plot.theme import Theme, text_on, theme_of
from incidence.plot.weights import Entry, Sharing, faces_of, text_of, weight_colours

__all__ = ["sharing"]

_MOST_KEYS = 60  # weights that are listed beside a matrix
_LEAST_NAMED = 7.0  # points of a place from which on entries are named


def sharing(
    what: EquivariantMap | str,
    num_nodes: int | Mapping[str, int] | Any = 4,
    *,
    nested: bool = False,
    names: bool = True,
    key: bool = True,
    size: float | None = None,
    theme: str | Theme = "light",
) -> Picture:
    """Draw the matrix of a map with every weight in its colour.

    Outputs are rows, inputs are columns, in blocks by their orbits. Places of one colour share a
    weight of the orbit basis: they are the pairs of entries with the same overlap. If there are
    many weights, those between two orbits are shades of one colour. With oriented faces a bar marks
    the places where the sign is negative.

    Args:
        what: A map, or its text.
        num_nodes: How many nodes (with sorts: of each), all entries being present; or a structure,
            for its entries alone.
        nested: For tensors of two faces: draws the output as a matrix, and in each of its places
            the matrix of the inputs it reads.
        names: Whether entries are named at the sides.
        key: Whether the weights are listed with their formulas.
        size: Side of a place, in points. Default: what suits.
        theme: `light` or `dark`.

    Raises:
        IncidenceError: The map has open faces; or `nested` is True, and its tensors are no
            matrices.
        TooLargeError: There are too many places to see anything.

    Example:
        >>> weights = sharing("i j -> i j", num_nodes=4).scene.of("weight")
        >>> len(weights), len({mark.style.fill for mark in weights})
        (256, 15)
    """
    m = as_map(what)
    look = theme_of(theme)
    matrix = _Matrix(Sharing.of(m, num_nodes), weight_colours(m, look), look)
    marks = list(matrix.nested(size, names) if nested else matrix.blocks(size, names))
    # weights that occur
    numbers = {mark.entry for mark in marks if mark.part == "weight" and mark.entry is not None}
    corners = [point for mark in marks for point in mark.points_around()] or [(0.0, 0.0)]
    right = max(x for x, _ in corners)
    top = min(y for _, y in corners)
    if key:
        marks += [mark.moved(right + 18, top) for mark in matrix.key(sorted(numbers))]
    return Picture(Scene.around(marks, 10), look, f"the weights of {m}")


@dataclass(frozen=True)
class _Matrix:
    """A matrix of weights in their colours."""

    sharing: Sharing
    colours: Mapping[int, str]
    theme: Theme

    def _row_text(self, row: int) -> str:
        tensor, entry = self.sharing.rows[row]
        return text_of(entry, self.sharing.map.outputs[tensor]) or "."

    def _column_text(self, column: int) -> str:
        tensor, entry = self.sharing.columns[column]
        return text_of(entry, self.sharing.map.inputs[tensor]) or "."

    def _cell(self, row: int, column: int, x: float, y: float, side: float) -> Iterator[Mark]:
        """One place of the matrix; a bar where the sign is negative."""
        weight = self.sharing.at(row, column)
        if weight is None:
            yield rectangle(
                x,
                y,
                side,
                side,
                Style(fill=self.theme.pale),
                "zero",
            )
            return
        colour = self.colours[weight.number]
        sign = "-" if weight.sign < 0 else ""
        reads = f"y[{self._row_text(row)}] reads x[{self._column_text(column)}]"
        hint = f"{reads} with {sign}w{weight.number}"
        style = Style(fill=colour, stroke=self.theme.paper, width=min(0.5, side / 12))
        yield rectangle(
            x,
            y,
            side,
            side,
            style,
            "weight",
            entry=weight.number,
            hint=hint,
        )
        if sign:
            ends = (x + 0.25 * side, y + side / 2), (x + 0.75 * side, y + side / 2)
            width = max(0.8, side / 9)
            yield line(ends, text_on(colour), width, "minus", entry=weight.number)

    def blocks(self, size: float | None, names: bool) -> Iterator[Mark]:
        """Draw all places, with a gap between the blocks of different orbits."""
        rows = self.sharing.rows
        columns = self.sharing.columns
        most = max(len(rows), len(columns), 1)
        # Small matrices have large places; large ones stay visible, if need be on more paper.
        side = size or min(16.0, max(2.2, 300.0 / most))
        ys = _offsets(rows, side)
        xs = _offsets(columns, side)
        for row, y in enumerate(ys):
            for column, x in enumerate(xs):
                yield from self._cell(row, column, x, y, side)
        is_named = names and side >= _LEAST_NAMED
        if is_named:
            yield from self._names(xs, ys, side)
        yield from self._heads(xs, ys, side, is_named)

    def _names(self, xs: Sequence[float], ys: Sequence[float], side: float) -> Iterator[Mark]:
        """The entries at the left and above."""
        size = _name_size(side)
        ink = self.theme.faint
        for row, y in enumerate(ys):
            place = -4.0, y + side / 2 + 0.35 * size
            yield label(
                *place,
                self._row_text(row),
                size,
                ink,
                "row",
                "end",
                is_code=True,
            )
        for column, x in enumerate(xs):
            text = self._column_text(column)
            # Faces stand below each other where a line would be wider than the place.
            fits = text_width(text, size, is_code=True) <= side
            lines = [text] if fits else text.split(" ")
            for k, part in enumerate(reversed(lines)):
                place = x + side / 2, -3 - k * 1.1 * size
                yield label(*place, part, size, ink, "column", "middle", is_code=True)

    def _heads(
        self, xs: Sequence[float], ys: Sequence[float], side: float, is_named: bool
    ) -> Iterator[Mark]:
        """The orbits of rows and columns."""
        sharing = self.sharing
        ink = self.theme.ink
        above = -8.0
        left = -10.0
        if is_named:
            lines = [len(self._column_text(k).split(" ")) for k in range(len(xs))]
            texts = [self._row_text(k) for k in range(len(ys))]
            above -= 8.0 * max(lines, default=1)
            widths = [text_width(text, _name_size(side), is_code=True) for text in texts]
            left -= max(widths, default=0.0)
        for text, places in _by_orbit(sharing.columns, xs, sharing.map.inputs, "x"):
            yield label(places[0], above, text, 7.5, ink, "input orbit", is_code=True)
            if text_width(text, 7.5, is_code=True) > places[-1] + side - places[0]:
                above -= 10  # the next text would run into this one
        for text, places in _by_orbit(sharing.rows, ys, sharing.map.outputs, "y"):
            place = left, places[0] + min(side, 8.0)
            yield label(*place, text, 7.5, ink, "output orbit", "end", is_code=True)

    def nested(self, size: float | None, names: bool) -> Iterator[Mark]:
        """Draw the output as a matrix of its two faces.

        In each place are the inputs that it reads, as a matrix too.
        """
        m = self.sharing.map
        patterns = (*m.inputs, *m.outputs)
        if len(patterns) != 2 or any(p.order != 2 for p in patterns) or len(m.inputs) != 1:
            raise IncidenceError(
                "nested=True is for maps of one matrix to one, such as `i j -> i j` or `i {i j}"
                f" -> i {{i j}}`; got `{m}`."
            )
        outer = _grid(self.sharing.rows, m.outputs[0])
        inner = _grid(self.sharing.columns, m.inputs[0])  # rows and columns of each inner matrix
        most = max(len(outer[1]), len(outer[0])) * (max(map(len, inner)) + 1)
        side = size or min(9.0, max(1.6, 420.0 / max(1, most)))
        gap = 0.8 * side
        wide = (len(inner[1]) + 0.8) * side
        high = (len(inner[0]) + 0.8) * side
        for row, (_, entry) in enumerate(self.sharing.rows):
            first, second = faces_of(entry, m.outputs[0])
            left = outer[1].index(second) * wide
            top = outer[0].index(first) * high
            style = Style(fill=self.theme.pale)
            yield rectangle(left, top, wide - gap, high - gap, style, "field", entry=row)
            for column, (_, input_entry) in enumerate(self.sharing.columns):
                y, x = faces_of(input_entry, m.inputs[0])
                place = left + inner[1].index(x) * side, top + inner[0].index(y) * side
                yield from self._cell(row, column, *place, side)
        if names:
            texts = [
                [_written(face, kind) for face in faces]
                for faces, (kind, _) in zip(outer, m.outputs[0].kinds, strict=True)
            ]
            ink = self.theme.ink
            shift = 0.4 * side
            for k, text in enumerate(texts[0]):
                place = -5, (k + 0.5) * high - shift + 2.6
                yield label(*place, text, 7.5, ink, "row", "end", is_code=True)
            for k, text in enumerate(texts[1]):
                place = (k + 0.5) * wide - shift, -5
                yield label(*place, text, 7.5, ink, "column", "middle", is_code=True)

    def key(self, numbers: Sequence[int]) -> Iterator[Mark]:
        """Draw every weight that occurs, with the operation it belongs to."""
        m = self.sharing.map
        y = 0.0
        for before, number in pairwise([-1, *numbers[:_MOST_KEYS]]):
            if before >= 0 and _pair_of(m, before) != _pair_of(m, number):
                y += 4
            yield rectangle(
                0,
                y,
                8,
                8,
                Style(fill=self.colours[number]),
                "key",
                entry=number,
            )
            formula = read(m.operations[number]).formula
            text = f"{number:>2}  {formula.replace('sum_', 'Σ').replace('sum ', 'Σ ')}"
            ink = self.theme.ink
            yield label(12, y + 6.8, text, 6.5, ink, "formula", is_code=True, entry=number)
            y += 10.5
        if len(numbers) > _MOST_KEYS:
            text = f"and {len(numbers) - _MOST_KEYS} more weights"
            yield label(12, y + 7, text, 7, self.theme.faint, "note")


def _name_size(side: float) -> float:
    return min(7.0, 0.62 * side)


def _offsets(entries: Sequence[tuple[int, Entry]], side: float) -> list[float]:
    """Where rows or columns begin."""
    groups = [(tensor, entry.orbit) for tensor, entry in entries]
    places = []
    at = 0.0
    for k, group in enumerate(groups):
        if k and group != groups[k - 1]:
            at += max(3.0, 0.4 * side)  # a gap between orbits
        places.append(at)
        at += side
    return places


def _by_orbit(
    entries: Sequence[tuple[int, Entry]],
    places: Sequence[float],
    patterns: Sequence[Pattern],
    name: str,
) -> Iterator[tuple[str, list[float]]]:
    """The text of every orbit, and the places of its entries."""
    items = [(tensor, entry.orbit, at) for (tensor, entry), at in zip(entries, places, strict=True)]
    for (tensor, orbit), group in groupby(items, key=lambda item: item[:2]):
        text = str(patterns[tensor].orbits[orbit]) or "one value"
        yield f"{name}[{text}]", [at for _, _, at in group]


def _grid(
    entries: Sequence[tuple[int, Entry]], pattern: Pattern
) -> tuple[list[tuple[str, ...]], list[tuple[str, ...]]]:
    """The different first faces and the different second faces, in order."""
    faces = [faces_of(entry, pattern) for _, entry in entries]
    first, second = ({pair[k] for pair in faces} for k in (0, 1))
    return sorted(first, key=_numbers), sorted(second, key=_numbers)


def _numbers(face: tuple[str, ...]) -> tuple[int, ...]:
    return tuple(map(int, face))


def _written(face: tuple[str, ...], kind: Kind) -> str:
    return kind.opening + " ".join(face) + kind.closing


def _pair_of(m: EquivariantMap, number: int) -> int:
    """The position of the pair of orbits that an operation is between."""
    starts = [pair.start for pair in m.pairs]
    return max(k for k, start in enumerate(starts) if start <= number and m.pairs[k].count)
