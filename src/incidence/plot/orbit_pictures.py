"""`plot.orbits`: every orbit of a pattern, drawn as one entry. Standard library only."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import cos, hypot, pi, sin

from incidence.algebra.grammar import Kind
from incidence.algebra.orbit import Orbit
from incidence.algebra.pattern import Pattern
from incidence.errors import IncidenceError, TooLargeError
from incidence.plot.picture import Picture, assert_at_least_one
from incidence.plot.scene import (
    Circle,
    Mark,
    Path,
    Point,
    Scene,
    Style,
    area,
    arrow_head,
    disc,
    label,
    line,
    region_around,
    text_width,
)
from incidence.plot.theme import Theme, theme_of

__all__ = ["facts", "one_entry", "orbits"]

_NODE = 8.0  # radius of a node
_TILE, _GAP = 128.0, 18.0
_MOST = 120


def orbits(what: Pattern | str, *, columns: int = 4, theme: str | Theme = "light") -> Picture:
    """Draw the orbits of a pattern: which of its nodes coincide, in which faces each node stands,
    and which can be exchanged.

    A face has one colour in the drawing and in the text above it: a set is a region, a tuple a
    chain of arrows, a lone node a ring.

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
    pattern = Pattern(what)
    look = theme_of(theme)
    if len(pattern.orbits) > _MOST:
        raise TooLargeError(
            f"`{pattern}` has {len(pattern.orbits):,} orbits; at most {_MOST} are drawn. Print"
            " pattern.orbits instead."
        )
    text = str(pattern) or "one value"
    title = label(
        0,
        12,
        text,
        12,
        look.ink,
        "title",
        is_code=True,
        is_bold=True,
    )
    marks: list[Mark] = [title]
    y = 26.0
    for start in range(0, len(pattern.orbits), columns):
        tiles = [_tile(orbit, look) for orbit in pattern.orbits[start : start + columns]]
        for k, (_, drawn) in enumerate(tiles):
            marks += [mark.moved(k * (_TILE + _GAP), y) for mark in drawn]
        y += max(high for high, _ in tiles) + 14
    return Picture(Scene.around(marks, 12), look, f"orbits of {pattern}")


def _tile(orbit: Orbit, theme: Theme) -> tuple[float, list[Mark]]:
    """One orbit: its height, and marks from (0, 0) on."""
    drawn = one_entry(orbit, theme)
    corners = [point for mark in drawn for point in mark.points_around()] or [(0.0, 0.0)]
    xs, ys = zip(*corners, strict=True)
    shift = _TILE / 2 - (min(xs) + max(xs)) / 2, 8 - min(ys)  # to the middle of the tile
    marks = [*_coloured_text(orbit, theme), *(mark.moved(*shift) for mark in drawn)]
    y = max(ys) - min(ys) + 22
    for k, text in enumerate(facts(orbit)):
        marks.append(
            label(
                0,
                y,
                text,
                7,
                theme.faint,
                "facts" if k else "orbit",
            )
        )
        y += 9
    return y - 4, marks


def facts(orbit: Orbit) -> list[str]:
    """Return how many nodes an orbit has, and which can be exchanged."""
    text = "1 node" if orbit.size == 1 else f"{orbit.size} nodes"
    if orbit.is_open:
        text += " and more"
    if orbit.symmetry > 1:
        text += f", {orbit.symmetry} symmetries"
    large = [
        (c, names)
        for c, names in zip(orbit.classes, orbit.node_names, strict=True)
        if (c.size or 0) > 1
    ]
    if not large:
        return [text]
    exchange = "; ".join(f"{', '.join(names)} can be exchanged" for _, names in large)
    changes_sign = any(c.is_odd for c, _ in large)
    return [text, f"{exchange} (changes the sign)" if changes_sign else exchange]


def _coloured_text(orbit: Orbit, theme: Theme) -> list[Mark]:
    """The orbit as it is written, every face in its colour."""
    marks: list[Mark] = []
    x = 0.0
    faces = orbit.names_by_face(orbit.node_names)
    for number, ((kind, is_open), names) in enumerate(zip(orbit.kinds, faces, strict=True)):
        members = [*names, "..."] if is_open else names
        text = kind.opening + " ".join(members) + kind.closing
        colour = theme.category(number)
        marks.append(
            label(
                x,
                0,
                text,
                9,
                colour,
                "face",
                is_code=True,
                is_bold=True,
            )
        )
        x += text_width(text + " ", 9, is_code=True)
    return marks or [
        label(
            x,
            0,
            "one value",
            9,
            theme.ink,
            "face",
            is_code=True,
        )
    ]


def one_entry(orbit: Orbit, theme: Theme) -> list[Mark]:
    """Return an entry of an orbit: its nodes, and around them its faces."""
    faces = orbit.names_by_face(orbit.node_names)
    names = list(dict.fromkeys(name for face in faces for name in face))
    places = dict(zip(names, _places(sum(map(len, orbit.node_names))), strict=True))
    marks: list[Mark] = []
    # large faces lie below small ones
    order = sorted(range(len(faces)), key=lambda k: -len(faces[k]))
    for depth, k in enumerate(order):
        kind, is_open = orbit.kinds[k]
        nodes = [places[name] for name in faces[k]]
        marks += _face(nodes, kind, is_open, k, len(order) - depth, theme)
    for name, (x, y) in places.items():
        style = Style(fill=theme.pale, stroke=theme.line, width=0.8)
        marks.append(
            Circle(
                x,
                y,
                _NODE,
                style=style,
                part="node",
                hint=name,
            )
        )
        marks.append(
            label(
                x,
                y + 3,
                name,
                9,
                theme.ink,
                "letter",
                "middle",
            )
        )
        often = max(face.count(name) for face in faces)  # `[i i]` has a node twice
        if often > 1:
            text = f"{often} times"
            below = y + 2 * _NODE + 8
            marks.append(label(x, below, text, 6.5, theme.faint, "repeats", "middle"))
    return marks


def _places(count: int) -> list[Point]:
    """On a circle, the first two level."""
    if count < 2:
        return [(0.0, 0.0)] * count
    radius = 19.0 if count == 2 else 21.0 / sin(pi / count)  # neighbours are 42 points apart
    turn = pi if count == 2 else pi / 2 + pi / count  # the first two level, above the rest
    angles = [turn + 2 * pi * k / count for k in range(count)]
    return [(radius * cos(angle), radius * sin(angle)) for angle in angles]


def _face(
    nodes: Sequence[Point], kind: Kind, is_open: bool, number: int, depth: int, theme: Theme
) -> list[Mark]:
    colour = theme.category(number)
    hint = f"face {number + 1}"
    # Faces around the same nodes lie in each other like onion skins.
    reach = _NODE + 2.5 + 2.8 * depth
    outline = Style(stroke=colour, width=1.6)
    if len(nodes) == 1 and not is_open:
        return [
            Circle(
                *nodes[0],
                reach,
                style=outline,
                part="lone",
                hint=hint,
            )
        ]
    if kind.is_ordered:
        return _arrows(nodes, colour, 3.0 * depth)
    dots = (0.0, 0.0)
    around = list(nodes)
    if is_open:  # room for nodes without a name
        if nodes:
            xs, ys = zip(*nodes, strict=True)
            dots = sum(xs) / len(nodes) + 24 + 6 * number, sum(ys) / len(nodes) + 12
            around.append(dots)
        else:
            around = [(-12.0, 0.0), (12.0, 0.0)]
    corners = region_around(around, reach)
    inside = Style(fill=colour, opacity=0.16)
    marks: list[Mark] = [
        Path(corners, is_closed=True, style=inside, part="region"),
        Path(corners, is_closed=True, style=outline, part="set", hint=hint),
    ]
    if is_open:
        x, y = dots
        marks += [
            disc(
                x + step,
                y,
                1.2,
                colour,
                "open",
            )
            for step in (-4.0, 0.0, 4.0)
        ]
    if kind.is_oriented:
        marks += _arrows(nodes, colour, 0.0)
    return marks


def _arrows(nodes: Sequence[Point], colour: str, bend: float) -> list[Mark]:
    """From node to node, a little to the side, so that two of them do not lie on each other."""
    marks: list[Mark] = []
    for one, other in pairwise(nodes):
        x = other[0] - one[0]
        y = other[1] - one[1]
        length = hypot(x, y)
        if not length:  # two letters of a tuple are one node
            continue
        ux = x / length
        uy = y / length
        right = -uy * bend / 2
        down = ux * bend / 2
        start = one[0] + ux * _NODE + right, one[1] + uy * _NODE + down
        near = _NODE + 0.5
        stop = other[0] - ux * near + right, other[1] - uy * near + down
        inner = stop[0] - ux * 4, stop[1] - uy * 4
        marks.append(line((start, inner), colour, 1.8, "arrow"))
        marks.append(area(arrow_head(start, stop, 6.5), colour, "head"))
    return marks
