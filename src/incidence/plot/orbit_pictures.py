"""`plot.orbits`: the kinds of entries that a pattern has, each drawn once. Standard library only."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import cos, hypot, pi, sin

from incidence.algebra.orbit import Orbit
from incidence.algebra.pattern import Pattern
from incidence.errors import IncidenceError, TooLargeError
from incidence.plot.checks import assert_at_least_one
from incidence.plot.hulls import region_around
from incidence.plot.picture import Picture
from incidence.plot.scene import (
    Circle,
    Path,
    Point,
    Scene,
    Shape,
    Style,
    Text,
    arrow_head,
    text_width,
)
from incidence.plot.theme import Theme, theme_of

__all__ = ["facts", "one_entry", "orbits"]

_NODE = 8.0  # radius of a node
_TILE, _GAP = 128.0, 18.0
_MOST = 120


def orbits(what: Pattern | str, *, columns: int = 4, theme: str | Theme = "light") -> Picture:
    """The orbits of a pattern: which of its nodes coincide, in which faces each node stands, and which can be exchanged.

    A face has one colour in the drawing and in the text above it: a set is a region, a tuple a chain of arrows, a lone node a ring.

    Args:
        what: A pattern, or its text.
        columns: How many orbits stand side by side.
        theme: `light` or `dark`.

    Raises:
        TooLargeError: There are too many orbits to draw.

    Example:
        >>> picture = orbits("{i j} {i k}")  # equal edges; edges that meet in a node
        >>> len(picture.scene.of("orbit")), len(picture.scene.of("node"))
        (2, 5)
    """
    assert_at_least_one(columns=columns)
    if not isinstance(what, (str, Pattern)):
        raise IncidenceError(f"plot.orbits draws a Pattern or its text; got {type(what).__name__}.")
    pattern, look = Pattern(what), theme_of(theme)
    if len(pattern.orbits) > _MOST:
        raise TooLargeError(
            f"`{pattern}` has {len(pattern.orbits):,} orbits; at most {_MOST} are drawn. Print pattern.orbits instead."
        )
    shapes: list[Shape] = [
        Text(
            0,
            12,
            str(pattern) or "one value",
            12,
            is_code=True,
            is_bold=True,
            style=Style(fill=look.ink),
            part="title",
        )
    ]
    y = 26.0
    for start in range(0, len(pattern.orbits), columns):
        tiles = [_tile(orbit, look) for orbit in pattern.orbits[start : start + columns]]
        for k, (_, own) in enumerate(tiles):
            shapes += [shape.moved(k * (_TILE + _GAP), y) for shape in own]
        y += max(high for high, _ in tiles) + 14
    return Picture(Scene.around(shapes, 12), look, f"orbits of {pattern}")


def _tile(orbit: Orbit, theme: Theme) -> tuple[float, list[Shape]]:
    """One orbit: its height, and shapes from (0, 0) on."""
    shapes = _coloured_text(orbit, theme)
    drawn = one_entry(orbit, theme)
    corners = [point for shape in drawn for point in shape.points_around()] or [(0.0, 0.0)]
    low, high = min(y for _, y in corners), max(y for _, y in corners)
    left, right = min(x for x, _ in corners), max(x for x, _ in corners)
    shapes += [shape.moved(_TILE / 2 - (left + right) / 2, 8 - low) for shape in drawn]
    y = high - low + 22
    for k, line in enumerate(facts(orbit)):
        shapes.append(
            Text(0, y, line, 7, style=Style(fill=theme.faint), part="facts" if k else "orbit")
        )
        y += 9
    return y - 4, shapes


def facts(orbit: Orbit) -> list[str]:
    """How many nodes an orbit has, and which can be exchanged."""
    nodes = f"{orbit.size} node{'s' * (orbit.size != 1)}" + " and more" * orbit.is_open
    alike = [
        names for c, names in zip(orbit.classes, orbit.node_names, strict=True) if (c.size or 0) > 1
    ]
    odd = " (changes the sign)" * any(c.is_odd and (c.size or 0) > 1 for c in orbit.classes)
    exchange = "; ".join(f"{', '.join(names)} can be exchanged" for names in alike)
    return [
        nodes + (f", {orbit.symmetry} symmetries" if orbit.symmetry > 1 else ""),
        *([exchange + odd] if exchange else []),
    ]


def _coloured_text(orbit: Orbit, theme: Theme) -> list[Shape]:
    """The orbit as it is written, every face in its colour."""
    shapes: list[Shape] = []
    x = 0.0
    for number, ((kind, is_open), names) in enumerate(
        zip(orbit.kinds, orbit.names_by_face(orbit.node_names), strict=True)
    ):
        text = kind.opening + " ".join([*names, *["..."] * is_open]) + kind.closing
        shapes.append(
            Text(
                x,
                0,
                text,
                9,
                is_code=True,
                is_bold=True,
                style=Style(fill=theme.category(number)),
                part="face",
            )
        )
        x += text_width(text + " ", 9, is_code=True)
    return shapes or [
        Text(x, 0, "one value", 9, is_code=True, style=Style(fill=theme.ink), part="face")
    ]


def one_entry(orbit: Orbit, theme: Theme) -> list[Shape]:
    """An entry of an orbit: its nodes, and around them its faces."""
    names = [name for own in orbit.node_names for name in own]
    faces = orbit.names_by_face(orbit.node_names)
    in_reading = list(dict.fromkeys(name for face in faces for name in face))
    at = dict(zip(in_reading, _places(len(names)), strict=True))
    shapes: list[Shape] = []
    order = sorted(range(len(faces)), key=lambda k: -len(faces[k]))
    for depth, k in enumerate(order):
        kind, is_open = orbit.kinds[k]
        shapes += _face(
            [at[name] for name in faces[k]],
            kind.is_ordered,
            kind.is_oriented,
            is_open,
            k,
            len(order) - depth,
            theme,
        )
    for name, (x, y) in at.items():
        shapes.append(
            Circle(
                x,
                y,
                _NODE,
                style=Style(fill=theme.pale, stroke=theme.line, width=0.8),
                part="node",
                hint=name,
            )
        )
        shapes.append(Text(x, y + 3, name, 9, "middle", style=Style(fill=theme.ink), part="letter"))
        often = max(face.count(name) for face in faces)
        if often > 1:
            shapes.append(
                Text(
                    x,
                    y + 2 * _NODE + 8,
                    f"{often} times",
                    6.5,
                    "middle",
                    style=Style(fill=theme.faint),
                    part="repeats",
                )
            )
    return shapes


def _places(count: int) -> list[Point]:
    """On a circle, the first two level."""
    radius = {0: 0.0, 1: 0.0, 2: 19.0}.get(count, 21.0 / sin(pi / max(count, 2)))
    turn = pi if count == 2 else pi / 2 + pi / max(count, 1)
    return [
        (
            radius * cos(turn + 2 * pi * k / max(count, 1)),
            radius * sin(turn + 2 * pi * k / max(count, 1)),
        )
        for k in range(count)
    ]


def _face(
    nodes: Sequence[Point],
    is_ordered: bool,
    is_oriented: bool,
    is_open: bool,
    number: int,
    depth: int,
    theme: Theme,
) -> list[Shape]:
    colour = theme.category(number)
    reach = _NODE + 2.5 + 2.8 * depth
    if len(nodes) == 1 and not is_open:
        return [
            Circle(
                *nodes[0],
                reach,
                style=Style(stroke=colour, width=1.6),
                part="lone",
                hint=f"face {number + 1}",
            )
        ]
    if is_ordered:
        return [
            shape
            for one, other in pairwise(nodes)
            for shape in _arrow(one, other, colour, 3.0 * depth)
        ]
    around = list(nodes)
    if is_open:  # room for nodes that are not named
        x, y = (
            (sum(p[0] for p in nodes) / len(nodes), sum(p[1] for p in nodes) / len(nodes))
            if nodes
            else (0.0, 0.0)
        )
        around += [(x + 24 + 6 * number, y + 12)] if nodes else [(-12.0, 0.0), (12.0, 0.0)]
    corners = region_around(around, reach)
    shapes: list[Shape] = [
        Path(corners, is_closed=True, style=Style(fill=colour, opacity=0.16), part="region"),
        Path(
            corners,
            is_closed=True,
            style=Style(stroke=colour, width=1.6),
            part="set",
            hint=f"face {number + 1}",
        ),
    ]
    if is_open:
        x, y = around[-1] if nodes else (0.0, 0.0)
        shapes += [
            Circle(x + step, y, 1.2, style=Style(fill=colour), part="open")
            for step in (-4.0, 0.0, 4.0)
        ]
    if is_oriented:
        shapes += [
            shape for one, other in pairwise(nodes) for shape in _arrow(one, other, colour, 0.0)
        ]
    return shapes


def _arrow(one: Point, other: Point, colour: str, bend: float) -> list[Shape]:
    """From node to node, a little to the side, so that two of them do not lie on each other."""
    x, y = other[0] - one[0], other[1] - one[1]
    length = hypot(x, y)
    if not length:  # a tuple in which two letters are one node has no length
        return []
    ux, uy = x / length, y / length
    side = (-uy * bend, ux * bend)
    start = (one[0] + ux * _NODE + side[0] / 2, one[1] + uy * _NODE + side[1] / 2)
    stop = (
        other[0] - ux * (_NODE + 0.5) + side[0] / 2,
        other[1] - uy * (_NODE + 0.5) + side[1] / 2,
    )
    inner = (stop[0] - ux * 4, stop[1] - uy * 4)
    line = Path((start, inner), style=Style(stroke=colour, width=1.8), part="arrow")
    return [
        line,
        Path(arrow_head(start, stop, 6.5), is_closed=True, style=Style(fill=colour), part="head"),
    ]
