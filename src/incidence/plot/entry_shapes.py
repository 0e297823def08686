"""The shapes of entries: a polygon, a region around a set, a star, a line between two nodes, or a
path through faces.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from math import atan2, cos, hypot, pi, sin
from typing import NamedTuple

from incidence.plot.drawing import (
    FACES,
    LARGEST_POLYGON,
    LINES,
    SETS,
    Drawing,
    DrawnTensor,
    Layered,
    Nodes,
    cycle_of,
)
from incidence.plot.scene import (
    Circle,
    Mark,
    Path,
    Point,
    Style,
    area,
    arrow_head,
    holds,
    line,
    region_around,
)
from incidence.plot.theme import shaded, text_on
from incidence.plot.viewport import Viewport

__all__ = ["SHAPES", "chosen_shapes", "marks_of"]

_MOST_REGIONS, _MOST_AROUND = 24, 200  # sets and nodes, for which regions are tried


class _Drawn(NamedTuple):
    """One entry that is to be drawn."""

    drawing: Drawing
    tensor: DrawnTensor
    number: int
    faces: tuple[Nodes, ...]

    @property
    def key(self) -> str:
        return self.tensor.key

    @property
    def view(self) -> Viewport:
        return self.drawing.view

    @property
    def hint(self) -> str:
        return self.drawing.hint(self.tensor, self.number, self.faces)

    @property
    def value(self) -> float | None:
        return self.drawing.value(self.key, self.number)

    def colour(self, default: str) -> str:
        return self.drawing.colour(self.key, self.number, default)


def marks_of(drawing: Drawing, has_nodes: bool = True) -> list[Mark]:
    """Return all marks of a structure, with its nodes or without; what is behind comes first."""
    layered = [
        SHAPES[shape](_Drawn(drawing, tensor, number, faces))
        for tensor, shape in drawing.tensors
        for number, faces in enumerate(tensor.entries)
    ]
    if has_nodes:
        layered += [drawing.node(node) for node in range(len(drawing.view.places))]
    return [mark for _, marks in sorted(layered, key=lambda item: item[0]) for mark in marks]


def _polygon(entry: _Drawn) -> Layered:
    """A face as a filled polygon, shaded in space."""
    drawing = entry.drawing
    tensor = entry.tensor
    view = entry.view
    around = drawing.outline(entry.faces[0])
    points = tuple(view.at(v) for v in around)
    is_flat = view.space is None
    colour = shaded(entry.colour(drawing.face_colour(tensor)), view.light(around))
    has_values = tensor.key in drawing.values
    # Flat faces lie on each other, and colours of values must stay those of the legend.
    opacity = drawing.opacity * (0.5 if is_flat and not has_values else 1.0)
    outline = colour if is_flat else shaded(colour, 0.75)  # in space, edges of a face stand out
    style = Style(fill=colour, stroke=outline, width=0.5, opacity=opacity)
    face = _path(entry, points, style, is_closed=True)
    turn = _turn(entry, text_on(colour)) if tensor.is_oriented else []
    return drawing.order(FACES, around, _extent(points)), [face, *turn]


def _path(entry: _Drawn, points: Sequence[Point], style: Style, **more: bool) -> Path:
    """The mark that stands for the entry."""
    number = entry.number
    return Path(
        tuple(points),
        style=style,
        part=entry.key,
        entry=number,
        hint=entry.hint,
        **more,
    )


def _turn(entry: _Drawn, colour: str) -> list[Mark]:
    """An arrow around the middle of an oriented face, from its first node towards its second.

    It turns the other way if the value is negative.
    """
    [nodes] = entry.faces
    is_against = (entry.value or 0) < 0
    x, y = entry.view.middle(nodes)
    corners = [entry.view.at(v) for v in (nodes[::-1] if is_against else nodes)]
    # a smaller face about the same middle
    inner = [(x + 0.42 * (a - x), y + 0.42 * (b - y)) for a, b in corners]
    size = 0.4 * hypot(inner[0][0] - x, inner[0][1] - y) + 1.5
    head = arrow_head(inner[-2], inner[-1], min(5.0, size))
    number = entry.number
    return [
        line(inner, colour, 0.9, f"{entry.key} turn", entry=number),
        area(head, colour, f"{entry.key} head", entry=number),
    ]


def _region(entry: _Drawn) -> Layered:
    """A set of nodes as a rounded region.

    Each is a little wider than the one before, so that outlines do not run together.
    """
    [nodes] = entry.faces
    reach = entry.view.radius * (1.55 + 0.16 * (entry.number % 5))
    points = region_around([entry.view.at(v) for v in nodes], reach)
    colour = entry.colour(entry.drawing.theme.category(entry.number + 1))
    inside = Path(
        points,
        is_closed=True,
        style=Style(fill=colour, opacity=0.22),
        part=f"{entry.key} inside",
        entry=entry.number,
    )
    outline = _path(entry, points, Style(stroke=colour, width=1.4), is_closed=True)
    return entry.drawing.order(SETS, nodes, _extent(points)), [inside, outline]


def _star(entry: _Drawn) -> Layered:
    """A set of nodes as a small mark in its middle, joined to each."""
    [nodes] = entry.faces
    colour = entry.colour(entry.drawing.theme.category(entry.number + 1))
    x, y = entry.view.middle(nodes)
    rays = Style(stroke=colour, width=1.0, opacity=0.8)
    part = f"{entry.key} inside"
    number = entry.number
    lines = [Path(((x, y), entry.view.at(v)), style=rays, part=part, entry=number) for v in nodes]
    s = max(1.8, 0.45 * entry.view.radius)
    corners = ((x, y - s), (x + s, y), (x, y + s), (x - s, y))
    style = Style(fill=colour, stroke=entry.drawing.theme.paper, width=0.6)
    middle = _path(entry, corners, style, is_closed=True)
    return entry.drawing.order(SETS, nodes), [*lines, middle]


def _edge(entry: _Drawn) -> Layered:
    """Two nodes as a line, with a head if it has a direction; a node with itself as a loop."""
    drawing = entry.drawing
    tensor = entry.tensor
    nodes = tuple(v for face in entry.faces for v in face)
    if tensor.is_oriented and (entry.value or 0) < 0:
        nodes = nodes[::-1]
    style = Style(stroke=entry.colour(drawing.theme.line), width=_line_width(entry))
    if nodes[0] == nodes[-1]:
        loop = _path(entry, _loop(entry.view, nodes[0]), style, is_curved=True)
        return drawing.order(LINES, nodes[:1]), [loop]
    # Between nodes of two sorts, the colours of the nodes show the direction.
    has_head = tensor.has_direction and len({drawing.sorts[v] for v in nodes}) == 1
    # Two arrows between two nodes are bent, so that they do not lie on each other.
    goes_back = has_head and not tensor.is_oriented and nodes[::-1] in tensor.node_lists
    points = _line(entry.view, nodes, goes_back, has_head)
    strands = drawing.strands.get(frozenset(nodes), 1.0)
    marks: list[Mark] = [_path(entry, points, style, is_curved=goes_back)]
    if strands > 1:
        marks = _strands(entry, nodes, strands, style)
    if has_head:
        length = hypot(points[-1][0] - points[0][0], points[-1][1] - points[0][1])
        size = max(3.0, 0.8 * entry.view.radius) + 1.2 * style.width
        head = arrow_head(points[-2], points[-1], min(size, 0.6 * length))
        part = f"{entry.key} head"
        marks.append(area(head, style.stroke or "", part, entry=entry.number))
    return drawing.order(LINES, nodes), marks


def _line_width(entry: _Drawn) -> float:
    """Thicker with a value; for an oriented edge by the size of the value."""
    plain = max(0.5, min(1.3, entry.view.radius / 5))
    if entry.value is None:
        return plain
    if not entry.tensor.is_oriented:
        return 1.8 * plain
    scale = entry.drawing.scales[entry.key]
    reach = max(abs(scale.low), abs(scale.high)) or 1.0
    return plain * (0.8 + 2.6 * min(1.0, abs(entry.value) / reach))


def _line(view: Viewport, nodes: Nodes, is_bent: bool, has_head: bool) -> tuple[Point, ...]:
    """From node to node; with a head from rim to rim."""
    one = view.at(nodes[0])
    other = view.at(nodes[-1])
    if not has_head:
        return one, other
    x = other[0] - one[0]
    y = other[1] - one[1]
    length = hypot(x, y) or 1.0
    bend = 0.16 if is_bent else 0.0
    middle = (one[0] + x / 2 + bend * y, one[1] + y / 2 - bend * x)
    start = _towards(one, middle, min(0.9, 2 * view.radius / length))
    # the head needs a gap
    stop = _towards(other, middle, min(0.9, 2 * (view.radius + 0.8) / length))
    if not is_bent:
        return start, stop
    return start, _towards(start, middle, 2 / 3), _towards(stop, middle, 2 / 3), stop


def _towards(one: Point, other: Point, share: float) -> Point:
    return one[0] + share * (other[0] - one[0]), one[1] + share * (other[1] - one[1])


def _strands(entry: _Drawn, nodes: Nodes, strands: float, style: Style) -> list[Mark]:
    """Lines side by side; half a strand is a dashed one. At the side of a polygon all but one lie
    inside of it.
    """
    one = entry.view.at(nodes[0])
    other = entry.view.at(nodes[-1])
    x = other[0] - one[0]
    y = other[1] - one[1]
    length = hypot(x, y) or 1.0
    across = (-y / length, x / length)
    count = int(strands + 0.5)  # 1.5 strands are a line and a dashed one
    inside = entry.drawing.inside(nodes)
    gap = 0.62 * entry.view.radius
    first = (count - 1) / 2
    trim = 0.0
    if inside is not None:
        first, trim = 0.0, 0.12  # what lies inside is shorter
        if (inside[0] - one[0]) * across[0] + (inside[1] - one[1]) * across[1] < 0:
            gap = -gap
    marks: list[Mark] = []
    for k in range(count):
        at = gap * (k - first)
        share = trim if k else 0.0
        ends = _towards(one, other, share), _towards(one, other, 1 - share)
        moved = tuple((a + at * across[0], b + at * across[1]) for a, b in ends)
        is_dashed = strands != count and k == count - 1
        dashed = replace(style, dashes=(2.0, 1.6)) if is_dashed else style
        mark = _path(entry, moved, dashed)
        marks.append(replace(mark, part=f"{entry.key} strand") if k else mark)
    return marks


def _loop(view: Viewport, node: int) -> tuple[Point, ...]:
    """A curve from a node back to it, on the side away from the middle of the drawing."""
    x, y = view.at(node)
    dx = x - view.width / 2
    dy = y - view.height / 2
    turn = atan2(dy, dx) if hypot(dx, dy) > 1 else -pi / 2
    r = view.radius
    handles = ((r, 0.55), (3.6 * r, 0.75), (3.6 * r, -0.75), (r, -0.55))
    return tuple((x + far * cos(turn + by), y + far * sin(turn + by)) for far, by in handles)


def _through(entry: _Drawn) -> Layered:
    """An entry of several faces as a line through their middles; a ring if these are one place."""
    drawing = entry.drawing
    places = tuple(entry.view.middle(face) for face in entry.faces if face)
    number = [t.key for t, _ in drawing.tensors].index(entry.key)  # each tensor has a colour
    style = Style(stroke=entry.colour(drawing.theme.category(number)), width=1.6)
    mark: Mark = _path(entry, places, style)
    if all(hypot(a[0] - b[0], a[1] - b[1]) < 0.5 for a, b in pairwise(places)):
        mark = Circle(
            *places[0],
            0.55 * entry.view.radius,
            style=style,
            part=entry.key,
            entry=entry.number,
            hint=entry.hint,
        )
    nodes = tuple(dict.fromkeys(v for face in entry.faces for v in face))
    return drawing.order(LINES, nodes), [mark]


def _extent(points: Sequence[Point]) -> float:
    xs, ys = zip(*points, strict=True)
    return float((max(xs) - min(xs)) * (max(ys) - min(ys)))


SHAPES: dict[str, Callable[[_Drawn], Layered]] = {
    "edge": _edge,
    "path": _through,
    "polygon": _polygon,
    "region": _region,
    "star": _star,
}
"""The shapes that entries can have."""


def chosen_shapes(
    tensors: Sequence[DrawnTensor],
    edges: set[frozenset[int]],
    wanted: Sequence[str],
    view: Viewport,
) -> Iterator[tuple[DrawnTensor, str]]:
    """Yield the tensors that are drawn, each with the shape of its entries.

    A tensor of lone faces is drawn: pairs as edges, larger faces as polygons if all their edges are
    there (the cells of something larger are left out then), else as sets. Entries of several faces
    are drawn if they are wanted, or if there is nothing else.

    Args:
        tensors: The tensors that may be drawn.
        edges: The edges of all tensors.
        wanted: The keys of tensors that are drawn in any case.
        view: Where the nodes are.
    """
    shapes = {t.key: _shape(t, edges, view) for t in tensors}
    lone = [t for t in tensors if t.is_lone]
    has_polygons = any(shapes[t.key] == "polygon" for t in lone)
    for tensor in tensors:
        shape = shapes[tensor.key]
        is_cell = shape in ("region", "star") and has_polygons  # such as the rooms between polygons
        is_drawn = not lone or _joins_nodes(tensor) or (tensor.is_lone and not is_cell)
        if is_drawn or tensor.key in wanted:
            yield tensor, shape


def _joins_nodes(tensor: DrawnTensor) -> bool:
    """Whether an entry is two faces of one node."""
    return tensor.pattern.order == 2 and tensor.largest == 1


def _shape(tensor: DrawnTensor, edges: set[frozenset[int]], view: Viewport) -> str:
    if not tensor.is_lone:
        return "edge" if _joins_nodes(tensor) else "path"
    if not tensor.pattern.is_open and tensor.largest <= 3:
        return "edge" if tensor.largest <= 2 else "polygon"
    faces = [faces[0] for faces in tensor.entries]
    if edges and all(len(face) <= LARGEST_POLYGON and cycle_of(face, edges) for face in faces):
        return "polygon"
    return "region" if _are_apart(faces, view) else "star"


def _are_apart(faces: Sequence[Nodes], view: Viewport) -> bool:
    """Whether no set's region would hold a node that is not in the set."""
    count = len(view.places)
    # In space, a region would change its nodes with the camera.
    if view.space is not None or len(faces) > _MOST_REGIONS or count > _MOST_AROUND:
        return False
    for face in faces:
        region = region_around([view.at(v) for v in face], 1.6 * view.radius)
        if any(holds(region, view.at(v)) for v in range(count) if v not in face):
            return False
    return True
