"""The shapes of one structure: how faces, edges, paths between faces, and nodes look on a sheet."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import atan2, cos, hypot, pi, sin

from incidence.plot.colours import Scale, shaded, text_on
from incidence.plot.faces import DrawnTensor, Nodes, cycle_of, edges_of
from incidence.plot.hulls import holds, region_around
from incidence.plot.scene import Circle, Path, Point, Shape, Style, Text, arrow_head
from incidence.plot.sheet import Sheet
from incidence.plot.theme import Theme, between

__all__ = ["Drawing", "ways_to_draw"]

_FACES, _HULLS, _LINES, _NODES = range(4)  # what lies on what, on flat paper
_LARGEST_POLYGON = 64


@dataclass(frozen=True)
class Drawing:
    """How one structure is drawn.

    Attributes:
        sheet: Where its nodes are.
        tensors: What is drawn, each with the way it is drawn in.
        sorts: The sort of every node, as a number.
        labels: What stands in every node; none if empty.
        values: For some tensors a number for each entry; `""` stands for the nodes.
        scales: The colours of these numbers.
    """

    sheet: Sheet
    tensors: Sequence[tuple[DrawnTensor, str]]
    sorts: Sequence[int]
    labels: Sequence[str]
    values: Mapping[str, Sequence[float]]
    scales: Mapping[str, Scale]
    theme: Theme
    opacity: float
    edges: set[frozenset[int]] = field(default_factory=set)

    def shapes(self) -> list[Shape]:
        """Everything, what is behind first."""
        found: list[tuple[tuple[float, ...], Sequence[Shape]]] = []
        for number, (tensor, way) in enumerate(self.tensors):
            for entry, faces in enumerate(tensor.entries):
                found.append(WAYS[way](self, tensor, entry, faces, number))
        found += [self._node(node) for node in range(len(self.sheet.places))]
        return [shape for _, shapes in sorted(found, key=lambda item: item[0]) for shape in shapes]

    def order(self, layer: int, nodes: Sequence[int], extent: float = 0.0) -> tuple[float, ...]:
        """When a shape is drawn: on flat paper by layer, large ones first; in space by depth, just after the nearest face it lies in."""
        if self.sheet.space is None:
            return layer, -extent
        depth = self.sheet.depth(nodes)
        if layer != _FACES:
            depth = max([depth, *(self.near.get(node, depth) for node in nodes[:1])]) if len(nodes) == 1 else self._edge_depth(nodes, depth)
        return depth, layer

    @property
    def near(self) -> dict[int, float]:
        """For every node the depth of the nearest face that it lies in."""
        return self._depths[0]

    @property
    def _depths(self) -> tuple[dict[int, float], dict[frozenset[int], float]]:
        if "depths" not in self.__dict__:
            nodes: dict[int, float] = {}
            pairs: dict[frozenset[int], float] = {}
            for tensor, way in self.tensors:
                for faces in tensor.entries if way == "polygon" else ():
                    around = self.outline(faces[0])
                    depth = self.sheet.depth(around)
                    for v, w in zip(around, (*around[1:], around[0]), strict=True):
                        nodes[v] = max(nodes.get(v, depth), depth)
                        pairs[frozenset((v, w))] = max(pairs.get(frozenset((v, w)), depth), depth)
            self.__dict__["depths"] = nodes, pairs
        found: tuple[dict[int, float], dict[frozenset[int], float]] = self.__dict__["depths"]
        return found

    def _edge_depth(self, nodes: Sequence[int], depth: float) -> float:
        return max(depth, self._depths[1].get(frozenset(nodes), depth))

    def outline(self, nodes: Nodes) -> Nodes:
        """The nodes of a face in the order of its corners: along its edges, else around its middle."""
        found = cycle_of(nodes, self.edges) if len(nodes) <= _LARGEST_POLYGON else None
        if found is not None or len(nodes) <= 3:
            return found or nodes
        x, y = self.sheet.middle(nodes)
        return tuple(sorted(nodes, key=lambda v: atan2(self.sheet.at(v)[1] - y, self.sheet.at(v)[0] - x)))

    def face_colour(self, tensor: DrawnTensor) -> str:
        """The colour of faces without values: one for each tensor that has faces."""
        number = [t.key for t, way in self.tensors if way == "polygon"].index(tensor.key)
        return between((self.theme.category(number), self.theme.face), 0.6) if number else self.theme.face

    def colour(self, key: str, entry: int, default: str) -> str:
        """The colour of an entry: of its value, if there is one."""
        return self.scales[key](self.values[key][entry]) if key in self.values else default

    def hint(self, tensor: DrawnTensor, entry: int, faces: Sequence[Nodes]) -> str:
        """What a reader sees who points at an entry."""
        nodes = " ".join(f"{{{' '.join(map(str, face))}}}" if len(face) > 1 else str(face[0]) for face in faces if face)
        value = f": {self.values[tensor.key][entry]:.4g}" if tensor.key in self.values else ""
        return f"{tensor.key} {nodes}{value}"

    def _node(self, node: int) -> tuple[tuple[float, ...], list[Shape]]:
        plain = between((self.theme.category(self.sorts[node]), self.theme.paper), 0.0)
        colour = self.colour("", node, plain)
        x, y = self.sheet.at(node)
        r = self.sheet.radius
        value = f": {self.values[''][node]:.4g}" if "" in self.values else ""
        label = self.labels[node] if self.labels else ""
        style = Style(fill=colour, stroke=self.theme.paper, width=min(1.0, r / 4))
        hint = f"node {label or node}{value}"
        if self.sorts[node] % 2:
            s = 0.9 * r
            mark: Shape = Path(
                ((x - s, y - s), (x + s, y - s), (x + s, y + s), (x - s, y + s)),
                is_closed=True,
                style=style,
                part="node",
                entry=node,
                hint=hint,
            )
        else:
            mark = Circle(x, y, r, style=style, part="node", entry=node, hint=hint)
        shapes = [mark]
        if label:
            size = min(1.15 * r, 2.6 * r / max(len(label), 1))
            shapes.append(
                Text(x, y + 0.36 * size, label, size, "middle", style=Style(fill=text_on(colour, self.theme)), part="label", entry=node)
            )
        return self.order(_NODES, (node,)), shapes


Drawn = tuple[tuple[float, ...], list[Shape]]


def _polygon(drawing: Drawing, tensor: DrawnTensor, entry: int, faces: tuple[Nodes, ...], number: int) -> Drawn:
    """A face as a filled polygon, in the light of space."""
    around = drawing.outline(faces[0])
    points = tuple(drawing.sheet.at(v) for v in around)
    is_flat = drawing.sheet.space is None
    has_value = tensor.key in drawing.values
    colour = shaded(drawing.colour(tensor.key, entry, drawing.face_colour(tensor)), drawing.sheet.light(around))
    opacity = drawing.opacity if not is_flat or has_value else 0.5 * drawing.opacity
    outline = None if is_flat else shaded(colour, 0.75)
    style = Style(fill=colour, stroke=outline or colour, width=0.5, opacity=opacity)
    shape = Path(points, is_closed=True, style=style, part=tensor.key, entry=entry, hint=drawing.hint(tensor, entry, faces))
    return drawing.order(_FACES, around, _extent(points)), [shape]


def _hull(drawing: Drawing, tensor: DrawnTensor, entry: int, faces: tuple[Nodes, ...], number: int) -> Drawn:
    """A set of nodes as a rounded region around them; each a little wider than the one before, so that outlines do not run together."""
    reach = drawing.sheet.radius * (1.55 + 0.16 * (entry % 5))
    points = region_around([drawing.sheet.at(v) for v in faces[0]], reach)
    colour = drawing.colour(tensor.key, entry, drawing.theme.category(entry + 1))
    hint = drawing.hint(tensor, entry, faces)
    inside = Path(points, is_closed=True, style=Style(fill=colour, opacity=0.22), part=f"{tensor.key} inside", entry=entry)
    line = Path(points, is_closed=True, style=Style(stroke=colour, width=1.4), part=tensor.key, entry=entry, hint=hint)
    return drawing.order(_HULLS, faces[0], _extent(points)), [inside, line]


def _star(drawing: Drawing, tensor: DrawnTensor, entry: int, faces: tuple[Nodes, ...], number: int) -> Drawn:
    """A set of nodes as a small mark in its middle, joined to each."""
    colour = drawing.colour(tensor.key, entry, drawing.theme.category(entry + 1))
    x, y = drawing.sheet.middle(faces[0])
    style = Style(stroke=colour, width=1.0, opacity=0.8)
    lines: list[Shape] = [Path(((x, y), drawing.sheet.at(v)), style=style, part=f"{tensor.key} inside", entry=entry) for v in faces[0]]
    s = max(1.8, 0.45 * drawing.sheet.radius)
    corners = ((x, y - s), (x + s, y), (x, y + s), (x - s, y))
    mark = Style(fill=colour, stroke=drawing.theme.paper, width=0.6)
    hint = drawing.hint(tensor, entry, faces)
    lines.append(Path(corners, is_closed=True, style=mark, part=tensor.key, entry=entry, hint=hint))
    return drawing.order(_HULLS, faces[0]), lines


def _edge(drawing: Drawing, tensor: DrawnTensor, entry: int, faces: tuple[Nodes, ...], number: int) -> Drawn:
    """Two nodes as a line, with a head if it has a direction; a node with itself as a loop."""
    nodes = tuple(v for face in faces for v in face)
    value = drawing.values[tensor.key][entry] if tensor.key in drawing.values else None
    if tensor.is_oriented and value is not None and value < 0:
        nodes = nodes[::-1]
    colour = drawing.colour(tensor.key, entry, drawing.theme.line)
    width = _line_width(drawing, tensor, value)
    hint = drawing.hint(tensor, entry, faces)
    if nodes[0] == nodes[-1]:
        return drawing.order(_LINES, nodes[:1]), [_loop(drawing, nodes[0], colour, width, tensor.key, entry, hint)]
    has_head = tensor.has_direction and len({drawing.sorts[v] for v in nodes}) == 1
    bend = 0.16 if has_head and not tensor.is_oriented and (nodes[::-1] in _both(tensor)) else 0.0
    line = _line(drawing, nodes, bend, has_head)
    shapes: list[Shape] = [
        Path(line, is_curved=bool(bend), style=Style(stroke=colour, width=width), part=tensor.key, entry=entry, hint=hint)
    ]
    if has_head:
        shapes.append(_head(drawing, nodes, line, colour, width, tensor.key, entry))
    return drawing.order(_LINES, nodes), shapes


def _line_width(drawing: Drawing, tensor: DrawnTensor, value: float | None) -> float:
    plain = max(0.5, min(1.3, drawing.sheet.radius / 5))
    if value is None:
        return plain
    if not tensor.is_oriented:
        return 1.8 * plain
    scale = drawing.scales[tensor.key]
    reach = max(abs(scale.low), abs(scale.high)) or 1.0
    return plain * (0.8 + 2.6 * min(1.0, abs(value) / reach))


def _both(tensor: DrawnTensor) -> set[Nodes]:
    """The pairs of nodes of a tensor, to find those in both directions."""
    if "both" not in tensor.__dict__:
        tensor.__dict__["both"] = {tuple(v for face in faces for v in face) for faces in tensor.entries}
    found: set[Nodes] = tensor.__dict__["both"]
    return found


def _line(drawing: Drawing, nodes: Nodes, bend: float, has_head: bool) -> tuple[Point, ...]:
    """From the rim of one node to that of the other."""
    (x1, y1), (x2, y2) = drawing.sheet.at(nodes[0]), drawing.sheet.at(nodes[-1])
    x, y = x2 - x1, y2 - y1
    length = hypot(x, y) or 1.0
    r = drawing.sheet.radius
    start, stop = min(0.45, r / length), min(0.45, (r + 0.8) / length)
    if not has_head and not bend:
        return (x1, y1), (x2, y2)
    middle = (x1 + x / 2 + bend * y, y1 + y / 2 - bend * x)
    one, other = (x1 + start * x + 0.5 * bend * start * y, y1 + start * y), (x2 - stop * x, y2 - stop * y)
    if not bend:
        return one, other
    return one, _towards(one, middle, 2 / 3), _towards(other, middle, 2 / 3), other


def _towards(one: Point, other: Point, share: float) -> Point:
    return one[0] + share * (other[0] - one[0]), one[1] + share * (other[1] - one[1])


def _head(drawing: Drawing, nodes: Nodes, line: tuple[Point, ...], colour: str, width: float, key: str, entry: int) -> Path:
    length = hypot(line[-1][0] - line[0][0], line[-1][1] - line[0][1])
    size = min(max(3.0, 0.8 * drawing.sheet.radius) + 1.2 * width, 0.6 * length)
    corners = arrow_head(line[-2], line[-1], size)
    return Path(corners, is_closed=True, style=Style(fill=colour), part=f"{key} head", entry=entry)


def _loop(drawing: Drawing, node: int, colour: str, width: float, key: str, entry: int, hint: str) -> Path:
    """A curve from a node back to it, on the side away from the middle of the drawing."""
    x, y = drawing.sheet.at(node)
    dx, dy = x - drawing.sheet.width / 2, y - drawing.sheet.height / 2
    turn = atan2(dy, dx) if hypot(dx, dy) > 1 else -pi / 2
    r = drawing.sheet.radius

    def at(distance: float, angle: float) -> Point:
        return x + distance * cos(turn + angle), y + distance * sin(turn + angle)

    points = at(r, 0.5), at(2.9 * r, 0.62), at(2.9 * r, -0.62), at(r, -0.5)
    return Path(points, is_curved=True, style=Style(stroke=colour, width=width), part=key, entry=entry, hint=hint)


def _path(drawing: Drawing, tensor: DrawnTensor, entry: int, faces: tuple[Nodes, ...], number: int) -> Drawn:
    """An entry of several faces as a line through their middles; a ring where all of them are in one place."""
    places = [drawing.sheet.middle(face) for face in faces if face]
    colour = drawing.colour(tensor.key, entry, drawing.theme.category(number))
    hint = drawing.hint(tensor, entry, faces)
    nodes = tuple(dict.fromkeys(v for face in faces for v in face))
    style = Style(stroke=colour, width=1.6)
    if all(hypot(a[0] - b[0], a[1] - b[1]) < 0.5 for a, b in pairwise(places)):
        ring = Circle(*places[0], 0.55 * drawing.sheet.radius, style=style, part=tensor.key, entry=entry, hint=hint)
        return drawing.order(_LINES, nodes), [ring]
    return drawing.order(_LINES, nodes), [Path(tuple(places), style=style, part=tensor.key, entry=entry, hint=hint)]


WAYS: dict[str, Callable[[Drawing, DrawnTensor, int, tuple[Nodes, ...], int], Drawn]] = {
    "edge": _edge,
    "hull": _hull,
    "path": _path,
    "polygon": _polygon,
    "star": _star,
}
"""How entries can be drawn."""


def ways_to_draw(tensors: Sequence[DrawnTensor], wanted: Sequence[str], sheet: Sheet) -> Iterator[tuple[DrawnTensor, str]]:
    """The tensors that are drawn, and how.

    A tensor of lone faces is drawn: pairs as edges, larger faces as polygons if all their edges are there (the cells of something larger
    are left out then), else as sets. Entries of several faces are drawn if they are asked for, or if there is nothing else.
    """
    edges = edges_of([t for t in tensors if t.largest <= 2])
    lone = [t for t in tensors if t.is_lone]
    ways = {t.key: _way(t, edges, sheet) for t in tensors}
    has_polygons = any(ways[t.key] == "polygon" for t in lone)
    for tensor in tensors:
        is_asked = tensor.key in wanted
        is_cell = ways[tensor.key] in ("hull", "star") and has_polygons
        is_drawn = (tensor.is_lone and not is_cell) or not lone or (len(tensor.pattern.letters) == 2 and tensor.largest == 1)
        if is_asked or is_drawn:
            yield tensor, ways[tensor.key]


def _way(tensor: DrawnTensor, edges: set[frozenset[int]], sheet: Sheet) -> str:
    if not tensor.is_lone:
        return "edge" if tensor.pattern.order == 2 and tensor.largest == 1 else "path"
    if tensor.largest <= 2 and not tensor.pattern.is_open:
        return "edge"
    if tensor.largest == 3 and not tensor.pattern.is_open:
        return "polygon"
    faces = [faces[0] for faces in tensor.entries]
    if edges and all(len(face) <= _LARGEST_POLYGON and cycle_of(face, edges) for face in faces):
        return "polygon"
    return "hull" if _are_apart(faces, sheet) else "star"


def _are_apart(faces: Sequence[Nodes], sheet: Sheet) -> bool:
    """Whether no set's region would hold a node that is not in the set."""
    if sheet.space is not None or len(faces) > 24 or len(sheet.places) > 200:
        return False
    for face in faces:
        region = region_around([sheet.at(v) for v in face], 1.6 * sheet.radius)
        if any(holds(region, sheet.at(v)) for v in range(len(sheet.places)) if v not in face):
            return False
    return True


def _extent(points: Sequence[Point]) -> float:
    xs, ys = [x for x, _ in points], [y for _, y in points]
    return (max(xs) - min(xs)) * (max(ys) - min(ys))
