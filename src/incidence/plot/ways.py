"""How an entry can be drawn: as a polygon, a region around a set, a star, a line between two nodes, or a line through faces."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from math import atan2, cos, hypot, pi, sin

from incidence.plot.colours import shaded, text_on
from incidence.plot.drawing import FACES, LARGEST_POLYGON, LINES, SETS, Drawing, Drawn
from incidence.plot.faces import DrawnTensor, Nodes, cycle_of
from incidence.plot.hulls import holds, region_around
from incidence.plot.scene import Circle, Path, Point, Shape, Style, arrow_head
from incidence.plot.sheet import Sheet

__all__ = ["WAYS", "shapes_of", "ways_to_draw"]

_MOST_REGIONS, _MOST_AROUND = 24, 200  # sets and nodes, for which regions are tried


def shapes_of(drawing: Drawing, has_nodes: bool = True) -> list[Shape]:
    """Everything, with the nodes or without, what is behind first."""
    found = [
        WAYS[way](drawing, tensor, entry, faces)
        for tensor, way in drawing.tensors
        for entry, faces in enumerate(tensor.entries)
    ]
    found += [drawing.node(node) for node in range(len(drawing.sheet.places)) if has_nodes]
    return [shape for _, shapes in sorted(found, key=lambda item: item[0]) for shape in shapes]


def _polygon(drawing: Drawing, tensor: DrawnTensor, entry: int, faces: tuple[Nodes, ...]) -> Drawn:
    """A face as a filled polygon, in the light of space."""
    around = drawing.outline(faces[0])
    points = tuple(drawing.sheet.at(v) for v in around)
    is_flat = drawing.sheet.space is None
    colour = shaded(
        drawing.colour(tensor.key, entry, drawing.face_colour(tensor)), drawing.sheet.light(around)
    )
    opacity = drawing.opacity * (0.5 if is_flat and tensor.key not in drawing.values else 1.0)
    style = Style(
        fill=colour, stroke=colour if is_flat else shaded(colour, 0.75), width=0.5, opacity=opacity
    )
    face = Path(
        points,
        is_closed=True,
        style=style,
        part=tensor.key,
        entry=entry,
        hint=drawing.hint(tensor, entry, faces),
    )
    turn = _turning(drawing, tensor, entry, text_on(colour)) if tensor.is_oriented else []
    return drawing.order(FACES, around, _extent(points)), [face, *turn]


def _turning(drawing: Drawing, tensor: DrawnTensor, entry: int, colour: str) -> list[Shape]:
    """An arrow around the middle of an oriented face, from its first node towards its second; the other way if its value is negative."""
    [nodes] = tensor.entries[entry]
    is_against = (drawing.value(tensor.key, entry) or 0) < 0
    x, y = drawing.sheet.middle(nodes)
    corners = [drawing.sheet.at(v) for v in (nodes[::-1] if is_against else nodes)]
    inner = tuple((x + 0.42 * (a - x), y + 0.42 * (b - y)) for a, b in corners)
    head = arrow_head(
        inner[-2], inner[-1], min(5.0, 0.4 * hypot(inner[0][0] - x, inner[0][1] - y) + 1.5)
    )
    return [
        Path(inner, style=Style(stroke=colour, width=0.9), part=f"{tensor.key} turn", entry=entry),
        Path(
            head, is_closed=True, style=Style(fill=colour), part=f"{tensor.key} head", entry=entry
        ),
    ]


def _region(drawing: Drawing, tensor: DrawnTensor, entry: int, faces: tuple[Nodes, ...]) -> Drawn:
    """A set of nodes as a rounded region; each a little wider than the one before, so that outlines do not run together."""
    reach = drawing.sheet.radius * (1.55 + 0.16 * (entry % 5))
    points = region_around([drawing.sheet.at(v) for v in faces[0]], reach)
    colour = drawing.colour(tensor.key, entry, drawing.theme.category(entry + 1))
    hint = drawing.hint(tensor, entry, faces)
    inside = Path(
        points,
        is_closed=True,
        style=Style(fill=colour, opacity=0.22),
        part=f"{tensor.key} inside",
        entry=entry,
    )
    line = Path(
        points,
        is_closed=True,
        style=Style(stroke=colour, width=1.4),
        part=tensor.key,
        entry=entry,
        hint=hint,
    )
    return drawing.order(SETS, faces[0], _extent(points)), [inside, line]


def _star(drawing: Drawing, tensor: DrawnTensor, entry: int, faces: tuple[Nodes, ...]) -> Drawn:
    """A set of nodes as a small mark in its middle, joined to each."""
    colour = drawing.colour(tensor.key, entry, drawing.theme.category(entry + 1))
    x, y = drawing.sheet.middle(faces[0])
    style = Style(stroke=colour, width=1.0, opacity=0.8)
    lines = [
        Path(((x, y), drawing.sheet.at(v)), style=style, part=f"{tensor.key} inside", entry=entry)
        for v in faces[0]
    ]
    s = max(1.8, 0.45 * drawing.sheet.radius)
    corners = ((x, y - s), (x + s, y), (x, y + s), (x - s, y))
    mark = Style(fill=colour, stroke=drawing.theme.paper, width=0.6)
    middle = Path(
        corners,
        is_closed=True,
        style=mark,
        part=tensor.key,
        entry=entry,
        hint=drawing.hint(tensor, entry, faces),
    )
    return drawing.order(SETS, faces[0]), [*lines, middle]


def _edge(drawing: Drawing, tensor: DrawnTensor, entry: int, faces: tuple[Nodes, ...]) -> Drawn:
    """Two nodes as a line, with a head if it has a direction; a node with itself as a loop."""
    nodes = tuple(v for face in faces for v in face)
    value = drawing.value(tensor.key, entry)
    if tensor.is_oriented and (value or 0) < 0:
        nodes = nodes[::-1]
    width = _line_width(drawing, tensor, value)
    style = Style(stroke=drawing.colour(tensor.key, entry, drawing.theme.line), width=width)
    hint = drawing.hint(tensor, entry, faces)
    if nodes[0] == nodes[-1]:
        return drawing.order(LINES, nodes[:1]), [
            Path(
                _loop(drawing, nodes[0]),
                is_curved=True,
                style=style,
                part=tensor.key,
                entry=entry,
                hint=hint,
            )
        ]
    has_head = tensor.has_direction and len({drawing.sorts[v] for v in nodes}) == 1
    bend = 0.16 if has_head and not tensor.is_oriented and nodes[::-1] in tensor.node_lists else 0.0
    line = _line(drawing.sheet, nodes, bend, has_head)
    shapes: list[Shape] = [
        Path(line, is_curved=bool(bend), style=style, part=tensor.key, entry=entry, hint=hint)
    ]
    strands = drawing.strands.get(frozenset(nodes), 1.0)
    if strands > 1:
        lines = _strands(drawing, nodes, strands)
        styles = {
            is_dashed: replace(style, dashes=(2.0, 1.6) if is_dashed else ())
            for is_dashed in (False, True)
        }
        shapes = [
            Path(
                own,
                style=styles[is_dashed],
                part=tensor.key if not k else f"{tensor.key} strand",
                entry=entry,
                hint=hint,
            )
            for k, (own, is_dashed) in enumerate(lines)
        ]
    if has_head:
        size = min(
            max(3.0, 0.8 * drawing.sheet.radius) + 1.2 * width,
            0.6 * hypot(line[-1][0] - line[0][0], line[-1][1] - line[0][1]),
        )
        head = arrow_head(line[-2], line[-1], size)
        shapes.append(
            Path(
                head,
                is_closed=True,
                style=Style(fill=style.stroke),
                part=f"{tensor.key} head",
                entry=entry,
            )
        )
    return drawing.order(LINES, nodes), shapes


def _line_width(drawing: Drawing, tensor: DrawnTensor, value: float | None) -> float:
    """Thicker with a value; with that of an oriented edge by its size."""
    plain = max(0.5, min(1.3, drawing.sheet.radius / 5))
    if value is None:
        return plain
    if not tensor.is_oriented:
        return 1.8 * plain
    scale = drawing.scales[tensor.key]
    reach = max(abs(scale.low), abs(scale.high)) or 1.0
    return plain * (0.8 + 2.6 * min(1.0, abs(value) / reach))


def _line(sheet: Sheet, nodes: Nodes, bend: float, has_head: bool) -> tuple[Point, ...]:
    """From node to node; with a head from rim to rim, and bent if there is one in the other direction too."""
    one, other = sheet.at(nodes[0]), sheet.at(nodes[-1])
    if not has_head:
        return one, other
    x, y = other[0] - one[0], other[1] - one[1]
    length = hypot(x, y) or 1.0
    middle = (one[0] + x / 2 + bend * y, one[1] + y / 2 - bend * x)
    start = _towards(one, middle, min(0.9, 2 * sheet.radius / length))
    stop = _towards(other, middle, min(0.9, 2 * (sheet.radius + 0.8) / length))
    return (
        (start, _towards(start, middle, 2 / 3), _towards(stop, middle, 2 / 3), stop)
        if bend
        else (start, stop)
    )


def _towards(one: Point, other: Point, share: float) -> Point:
    return one[0] + share * (other[0] - one[0]), one[1] + share * (other[1] - one[1])


def _strands(
    drawing: Drawing, nodes: Nodes, strands: float
) -> Iterator[tuple[tuple[Point, Point], bool]]:
    """Lines side by side, and whether each is dashed: as many as strands, a half being a dashed one; in a ring all but one are inside."""
    (x1, y1), (x2, y2) = drawing.sheet.at(nodes[0]), drawing.sheet.at(nodes[-1])
    length = hypot(x2 - x1, y2 - y1) or 1.0
    across = (-(y2 - y1) / length, (x2 - x1) / length)
    count, inside = int(strands + 0.5), drawing.inside(nodes)
    gap = 0.62 * drawing.sheet.radius
    if inside is not None and (inside[0] - x1) * across[0] + (inside[1] - y1) * across[1] < 0:
        gap = -gap
    for k in range(count):
        at = gap * (k - (0 if inside is not None else (count - 1) / 2))
        trim = 0.12 if inside is not None and k else 0.0  # what lies inside is shorter
        one, other = (_towards((x1, y1), (x2, y2), share) for share in (trim, 1 - trim))
        moved = (
            (one[0] + at * across[0], one[1] + at * across[1]),
            (other[0] + at * across[0], other[1] + at * across[1]),
        )
        yield moved, strands != count and k == count - 1


def _loop(drawing: Drawing, node: int) -> tuple[Point, ...]:
    """A curve from a node back to it, on the side away from the middle of the drawing."""
    x, y = drawing.sheet.at(node)
    dx, dy = x - drawing.sheet.width / 2, y - drawing.sheet.height / 2
    turn = atan2(dy, dx) if hypot(dx, dy) > 1 else -pi / 2
    r = drawing.sheet.radius
    steps = ((r, 0.55), (3.6 * r, 0.75), (3.6 * r, -0.75), (r, -0.55))
    return tuple(
        (x + distance * cos(turn + angle), y + distance * sin(turn + angle))
        for distance, angle in steps
    )


def _path(drawing: Drawing, tensor: DrawnTensor, entry: int, faces: tuple[Nodes, ...]) -> Drawn:
    """An entry of several faces as a line through their middles; a ring where all of them are in one place."""
    places = tuple(drawing.sheet.middle(face) for face in faces if face)
    number = [t.key for t, _ in drawing.tensors].index(tensor.key)
    style = Style(
        stroke=drawing.colour(tensor.key, entry, drawing.theme.category(number)), width=1.6
    )
    hint = drawing.hint(tensor, entry, faces)
    shape: Shape = Path(places, style=style, part=tensor.key, entry=entry, hint=hint)
    if all(hypot(a[0] - b[0], a[1] - b[1]) < 0.5 for a, b in pairwise(places)):
        shape = Circle(
            *places[0],
            0.55 * drawing.sheet.radius,
            style=style,
            part=tensor.key,
            entry=entry,
            hint=hint,
        )
    return drawing.order(LINES, tuple(dict.fromkeys(v for face in faces for v in face))), [shape]


def _extent(points: Sequence[Point]) -> float:
    xs, ys = [x for x, _ in points], [y for _, y in points]
    return (max(xs) - min(xs)) * (max(ys) - min(ys))


WAYS: dict[str, Callable[[Drawing, DrawnTensor, int, tuple[Nodes, ...]], Drawn]] = {
    "edge": _edge,
    "path": _path,
    "polygon": _polygon,
    "region": _region,
    "star": _star,
}
"""How entries can be drawn."""


def ways_to_draw(
    tensors: Sequence[DrawnTensor], edges: set[frozenset[int]], wanted: Sequence[str], sheet: Sheet
) -> Iterator[tuple[DrawnTensor, str]]:
    """Which of some tensors are drawn, and how; the edges are those of all tensors.

    A tensor of lone faces is drawn: pairs as edges, larger faces as polygons if all their edges are there (the cells of something larger
    are left out then), else as sets. Entries of several faces are drawn if they are asked for, or if there is nothing else.
    """
    ways = {t.key: _way(t, edges, sheet) for t in tensors}
    lone = [t for t in tensors if t.is_lone]
    has_polygons = any(ways[t.key] == "polygon" for t in lone)
    for tensor in tensors:
        is_cell = ways[tensor.key] in ("region", "star") and has_polygons
        is_pair = tensor.pattern.order == 2 and tensor.largest == 1
        if tensor.key in wanted or (tensor.is_lone and not is_cell) or is_pair or not lone:
            yield tensor, ways[tensor.key]


def _way(tensor: DrawnTensor, edges: set[frozenset[int]], sheet: Sheet) -> str:
    if not tensor.is_lone:
        return "edge" if tensor.pattern.order == 2 and tensor.largest == 1 else "path"
    if not tensor.pattern.is_open and tensor.largest <= 3:
        return "edge" if tensor.largest <= 2 else "polygon"
    faces = [faces[0] for faces in tensor.entries]
    if edges and all(len(face) <= LARGEST_POLYGON and cycle_of(face, edges) for face in faces):
        return "polygon"
    return "region" if _are_apart(faces, sheet) else "star"


def _are_apart(faces: Sequence[Nodes], sheet: Sheet) -> bool:
    """Whether no set's region would hold a node that is not in the set."""
    if sheet.space is not None or len(faces) > _MOST_REGIONS or len(sheet.places) > _MOST_AROUND:
        return False
    for face in faces:
        region = region_around([sheet.at(v) for v in face], 1.6 * sheet.radius)
        if any(holds(region, sheet.at(v)) for v in range(len(sheet.places)) if v not in face):
            return False
    return True
