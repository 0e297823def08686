"""`plot.sharing`: the matrix of a map, every weight in its colour. Standard library only."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby, pairwise
from typing import Any

from incidence.algebra.maps import EquivariantMap, as_map
from incidence.algebra.reading import read
from incidence.errors import IncidenceError
from incidence.plot.colours import rectangle, text_on
from incidence.plot.entries import Entry, faces_of, text_of
from incidence.plot.picture import Picture
from incidence.plot.scene import Path, Scene, Shape, Style, Text, text_width
from incidence.plot.theme import Theme, theme_of
from incidence.plot.weights import Sharing, weight_colours

__all__ = ["sharing"]

_MOST_KEYS = 60


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
    """The matrix of a map with every weight in its colour: outputs are rows, inputs columns, in blocks by their orbits.

    Places of one colour share a weight of the orbit basis: the pairs of entries with the same overlap. If there are many, those
    between two orbits are shades of one colour. With oriented faces a bar marks the places where the sign is negative.

    Args:
        what: A map, or its text.
        num_nodes: How many nodes (with sorts: of each), all entries being present; or a structure, for its entries alone.
        nested: For tensors of two faces: draws the output as a matrix, and in each of its places the matrix of the inputs it reads.
        names: Whether entries are named at the sides.
        key: Whether the weights are listed with their formulas.
        size: Of a place, in points; what suits if not given.
        theme: `light` or `dark`.

    Raises:
        IncidenceError: The map has open faces; or it is to be nested, and its tensors are no matrices.
        TooLargeError: There are too many places to see anything.

    Example:
        >>> picture = sharing("i j -> i j", num_nodes=4)
        >>> len(picture.scene.of("weight")), len({shape.style.fill for shape in picture.scene.of("weight")})
        (256, 15)
    """
    m, look = as_map(what), theme_of(theme)
    found = Sharing.of(m, num_nodes)
    colours = weight_colours(m, look)
    drawn = list(
        _nested(found, colours, size, names, look)
        if nested
        else _blocks(found, colours, size, names, look)
    )
    numbers = sorted(
        {shape.entry for shape in drawn if shape.part == "weight" and shape.entry is not None}
    )
    corners = [point for shape in drawn for point in shape.points_around()] or [(0.0, 0.0)]
    right, top = max(x for x, _ in corners), min(y for _, y in corners)
    if key:
        drawn += [shape.moved(right + 18, top) for shape in _key(m, numbers, colours, look)]
    return Picture(Scene.around(drawn, 10), look, f"the weights of {m}")


def _cell(
    found: Sharing,
    row: int,
    column: int,
    box: tuple[float, float, float],
    colours: Mapping[int, str],
    theme: Theme,
) -> Iterator[Shape]:
    """One place of the matrix at (x, y) with a side; a bar where the sign is negative."""
    weight = found.at(row, column)
    x, y, side = box
    if weight is None:
        yield rectangle(x, y, side, side, Style(fill=theme.pale), "zero")
        return
    colour = colours[weight.number]
    hint = f"y[{_text(found, row, is_row=True)}] reads x[{_text(found, column, is_row=False)}] with {'-' * (weight.sign < 0)}w{weight.number}"
    yield rectangle(
        x,
        y,
        side,
        side,
        Style(fill=colour, stroke=theme.paper, width=min(0.5, side / 12)),
        "weight",
        entry=weight.number,
        hint=hint,
    )
    if weight.sign < 0:
        bar = Style(stroke=text_on(colour), width=max(0.8, side / 9))
        yield Path(
            ((x + 0.25 * side, y + side / 2), (x + 0.75 * side, y + side / 2)),
            style=bar,
            part="minus",
            entry=weight.number,
        )


def _text(found: Sharing, place: int, is_row: bool) -> str:
    tensor, entry = (found.rows if is_row else found.columns)[place]
    return text_of(entry, (found.map.outputs if is_row else found.map.inputs)[tensor]) or "."


def _blocks(
    found: Sharing, colours: Mapping[int, str], size: float | None, names: bool, theme: Theme
) -> Iterator[Shape]:
    """All places, with a gap between the blocks of different orbits."""
    most = max(len(found.rows), len(found.columns), 1)
    side = size or min(16.0, max(2.2, 300.0 / most))
    ys, xs = (
        _offsets([(t, e.orbit) for t, e in entries], side)
        for entries in (found.rows, found.columns)
    )
    for row, y in enumerate(ys):
        for column, x in enumerate(xs):
            yield from _cell(found, row, column, (x, y, side), colours, theme)
    if names and side >= 7:
        yield from _names(found, xs, ys, side, theme)
    yield from _heads(found, xs, ys, side, names and side >= 7, theme)


def _offsets(groups: Sequence[tuple[int, int]], side: float) -> list[float]:
    places, at = [], 0.0
    for k, group in enumerate(groups):
        if k and group != groups[k - 1]:
            at += max(3.0, 0.4 * side)
        places.append(at)
        at += side
    return places


def _names(
    found: Sharing, xs: Sequence[float], ys: Sequence[float], side: float, theme: Theme
) -> Iterator[Shape]:
    """The entries at the left, and above if they are short enough to stand side by side."""
    text = min(7.0, 0.62 * side)
    ink = Style(fill=theme.faint)
    for row, y in enumerate(ys):
        yield Text(
            -4,
            y + side / 2 + 0.35 * text,
            _text(found, row, is_row=True),
            text,
            "end",
            is_code=True,
            style=ink,
            part="row",
        )
    heads = [_text(found, column, is_row=False) for column in range(len(xs))]
    for x, head in zip(
        xs, heads, strict=True
    ):  # letters below each other, where a line would be wider than the place
        lines = [head] if text_width(head, text, is_code=True) <= side else head.split(" ")
        for k, line in enumerate(reversed(lines)):
            yield Text(
                x + side / 2,
                -3 - k * 1.1 * text,
                line,
                text,
                "middle",
                is_code=True,
                style=ink,
                part="column",
            )


def _heads(
    found: Sharing, xs: Sequence[float], ys: Sequence[float], side: float, names: bool, theme: Theme
) -> Iterator[Shape]:
    """The orbits of rows and columns."""
    ink = Style(fill=theme.ink)
    m = found.map
    deep = (
        max((len(_text(found, c, is_row=False).split(" ")) for c in range(len(xs))), default=1)
        if names
        else 0
    )
    wide = max(
        (
            text_width(_text(found, r, is_row=True), min(7.0, 0.62 * side), is_code=True)
            for r in range(len(ys))
        ),
        default=0.0,
    )
    above = -8 - deep * 8.0
    for (tensor, orbit), places in groupby(
        zip(found.columns, xs, strict=True), key=lambda item: (item[0][0], item[0][1].orbit)
    ):
        at = [x for _, x in places]
        pattern = m.inputs[tensor]
        label = str(pattern.orbits[orbit]) or "one value"
        yield Text(at[0], above, f"x[{label}]", 7.5, is_code=True, style=ink, part="input orbit")
        above -= 10 if text_width(f"x[{label}]", 7.5, is_code=True) > at[-1] + side - at[0] else 0
    for (tensor, orbit), places in groupby(
        zip(found.rows, ys, strict=True), key=lambda item: (item[0][0], item[0][1].orbit)
    ):
        at = [y for _, y in places]
        label = str(m.outputs[tensor].orbits[orbit]) or "one value"
        left = -10 - (wide if names else 0)
        yield Text(
            left,
            at[0] + min(side, 8.0),
            f"y[{label}]",
            7.5,
            "end",
            is_code=True,
            style=ink,
            part="output orbit",
        )


def _nested(
    found: Sharing, colours: Mapping[int, str], size: float | None, names: bool, theme: Theme
) -> Iterator[Shape]:
    """The output as a matrix of its two faces; in each place the inputs that it reads, as a matrix too."""
    m = found.map
    for pattern in (*m.inputs, *m.outputs):
        if pattern.order != 2 or len(m.inputs) != 1 or len(m.outputs) != 1:
            raise IncidenceError(
                f"nested=True is for maps of one matrix to one, such as `i j -> i j` or `i {{i j}} -> i {{i j}}`; got `{m}`."
            )
    outer, inner = (
        _grid(entries, pattern)
        for entries, pattern in ((found.rows, m.outputs[0]), (found.columns, m.inputs[0]))
    )
    side = size or min(
        9.0,
        max(1.6, 420.0 / max(1, max(len(outer[1]), len(outer[0])) * (max(map(len, inner)) + 1))),
    )
    wide, high = (len(inner[1]) + 0.8) * side, (len(inner[0]) + 0.8) * side
    for row, (_, entry) in enumerate(found.rows):
        first, second = faces_of(entry, m.outputs[0])
        left, top = outer[1].index(second) * wide, outer[0].index(first) * high
        yield rectangle(
            left,
            top,
            wide - 0.8 * side,
            high - 0.8 * side,
            Style(fill=theme.pale),
            "field",
            entry=row,
        )
        for column, (_, read_entry) in enumerate(found.columns):
            x, y = faces_of(read_entry, m.inputs[0])
            box = left + inner[1].index(y) * side, top + inner[0].index(x) * side, side
            yield from _cell(found, row, column, box, colours, theme)
    if names:
        yield from _face_names(outer, m.outputs[0].kinds, wide, high, side, theme)


def _grid(
    entries: Sequence[tuple[int, Entry]], pattern: Any
) -> tuple[list[tuple[str, ...]], list[tuple[str, ...]]]:
    """The different first faces and the different second faces, in order."""
    faces = [faces_of(entry, pattern) for _, entry in entries]
    one, other = ({pair[k] for pair in faces} for k in (0, 1))
    order = lambda face: tuple(map(int, face))  # noqa: E731
    return sorted(one, key=order), sorted(other, key=order)


def _face_names(
    outer: Any, kinds: Any, wide: float, high: float, side: float, theme: Theme
) -> Iterator[Shape]:
    ink = Style(fill=theme.ink)
    texts = [
        [kind.opening + " ".join(face) + kind.closing for face in faces]
        for faces, (kind, _) in zip(outer, kinds, strict=True)
    ]
    for k, text in enumerate(texts[0]):
        yield Text(
            -5,
            (k + 0.5) * high - 0.4 * side + 2.6,
            text,
            7.5,
            "end",
            is_code=True,
            style=ink,
            part="row",
        )
    for k, text in enumerate(texts[1]):
        yield Text(
            (k + 0.5) * wide - 0.4 * side,
            -5,
            text,
            7.5,
            "middle",
            is_code=True,
            style=ink,
            part="column",
        )


def _key(
    m: EquivariantMap, numbers: Sequence[int], colours: Mapping[int, str], theme: Theme
) -> Iterator[Shape]:
    """Every weight that occurs, with the operation it belongs to."""
    y = 0.0
    ink = Style(fill=theme.ink)
    for before, number in pairwise([-1, *numbers[:_MOST_KEYS]]):
        if before >= 0 and colours and _pair_of(m, before) != _pair_of(m, number):
            y += 4
        yield rectangle(0, y, 8, 8, Style(fill=colours[number]), "key", entry=number)
        formula = read(m.operations[number]).formula.replace("sum_", "Σ").replace("sum ", "Σ ")
        yield Text(
            12,
            y + 6.8,
            f"{number:>2}  {formula}",
            6.5,
            is_code=True,
            style=ink,
            part="formula",
            entry=number,
        )
        y += 10.5
    if len(numbers) > _MOST_KEYS:
        yield Text(
            12,
            y + 7,
            f"and {len(numbers) - _MOST_KEYS} more weights",
            7,
            style=Style(fill=theme.faint),
            part="note",
        )


def _pair_of(m: EquivariantMap, number: int) -> int:
    return next(
        k for k, pair in enumerate(m.pairs) if pair.start <= number < pair.start + pair.count
    )
