"""One structure on a sheet: in which order its parts are drawn, in which colours, and how nodes look."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import atan2

from incidence.plot.colours import Scale, text_on
from incidence.plot.faces import DrawnTensor, Nodes, cycle_of
from incidence.plot.scene import Circle, Path, Point, Shape, Style, Text
from incidence.plot.sheet import Sheet
from incidence.plot.theme import Theme, between

__all__ = ["FACES", "LARGEST_POLYGON", "LINES", "SETS", "Drawing", "Drawn"]

FACES, SETS, LINES, NODES = range(4)  # what lies on what, on flat paper
LARGEST_POLYGON = 64

Drawn = tuple[tuple[float, ...], Sequence[Shape]]
"""When shapes are drawn, and the shapes."""


@dataclass(frozen=True)
class Drawing:
    """How one structure is drawn.

    Attributes:
        sheet: Where its nodes are.
        tensors: What is drawn, each with the way it is drawn in.
        edges: The pairs of nodes that are joined.
        sorts: The sort of every node, as a number.
        labels: What stands in every node; none if empty.
        tints: The colour of every node without a value; by sort if empty.
        strands: How many lines an edge has, by its nodes, such as two for a double bond; a half is a dashed line.
        values: For some tensors a number for each entry; `""` stands for the nodes.
        scales: The colours of these numbers.
        opacity: Of faces.
    """

    sheet: Sheet
    tensors: Sequence[tuple[DrawnTensor, str]]
    edges: set[frozenset[int]]
    sorts: Sequence[int]
    theme: Theme
    labels: Sequence[str] = ()
    tints: Sequence[str] = ()
    strands: Mapping[frozenset[int], float] = field(default_factory=dict)
    values: Mapping[str, Sequence[float]] = field(default_factory=dict)
    scales: Mapping[str, Scale] = field(default_factory=dict)
    opacity: float = 1.0

    def order(self, layer: int, nodes: Sequence[int], extent: float = 0.0) -> tuple[float, ...]:
        """When a shape is drawn: on flat paper by layer, large ones first; in space by depth, after the nearest face that it bounds."""
        if self.sheet.space is None:
            return layer, -extent
        depth = self.sheet.depth(nodes)
        return (
            depth if layer == FACES else max(depth, self._nearest.get(frozenset(nodes), depth))
        ), layer

    @cached_property
    def _polygons(self) -> list[Nodes]:
        """The corners of every polygon that is drawn."""
        return [
            self.outline(faces[0])
            for tensor, way in self.tensors
            if way == "polygon"
            for faces in tensor.entries
        ]

    @cached_property
    def _nearest(self) -> dict[frozenset[int], float]:
        """The depth of the nearest polygon around every corner and every side of a polygon."""
        found: dict[frozenset[int], float] = {}
        for around in self._polygons:
            depth = self.sheet.depth(around)
            for bound in (*(frozenset((node,)) for node in around), *_sides(around)):
                found[bound] = max(found.get(bound, depth), depth)
        return found

    @cached_property
    def _inside(self) -> dict[frozenset[int], Point]:
        """The middle of a polygon at every side of one."""
        return {
            side: self.sheet.middle(around) for around in self._polygons for side in _sides(around)
        }

    def inside(self, nodes: Sequence[int]) -> Point | None:
        """The middle of a polygon that has an edge as its side."""
        return self._inside.get(frozenset(nodes))

    def outline(self, nodes: Nodes) -> Nodes:
        """The nodes of a face in the order of its corners: along its edges, else around its middle."""
        found = cycle_of(nodes, self.edges) if len(nodes) <= LARGEST_POLYGON else None
        if found is not None or len(nodes) <= 3:
            return found or nodes
        x, y = self.sheet.middle(nodes)
        return tuple(
            sorted(nodes, key=lambda v: atan2(self.sheet.at(v)[1] - y, self.sheet.at(v)[0] - x))
        )

    def value(self, key: str, entry: int) -> float | None:
        """The number of an entry, if there is one."""
        return self.values[key][entry] if key in self.values else None

    def colour(self, key: str, entry: int, default: str) -> str:
        """The colour of an entry: of its value, if there is one."""
        return self.scales[key](self.values[key][entry]) if key in self.values else default

    def face_colour(self, tensor: DrawnTensor) -> str:
        """The colour of faces without values: one for each tensor that has faces."""
        number = [t.key for t, way in self.tensors if way == "polygon"].index(tensor.key)
        return (
            between((self.theme.category(number), self.theme.face), 0.6)
            if number
            else self.theme.face
        )

    def hint(self, tensor: DrawnTensor, entry: int, faces: Sequence[Nodes]) -> str:
        """What a reader sees who points at an entry."""
        nodes = " ".join(
            f"{{{' '.join(map(str, face))}}}" if len(face) > 1 else str(face[0])
            for face in faces
            if face
        )
        return f"{tensor.key}: {nodes}{_told(self.value(tensor.key, entry))}"

    def node(self, node: int) -> Drawn:
        """A node as a circle, or a square if its sort is the second; with its label."""
        tint = self.tints[node] if self.tints else self.theme.category(self.sorts[node])
        colour = self.colour("", node, tint)
        (x, y), r = self.sheet.at(node), self.sheet.radius
        style = Style(fill=colour, stroke=self.theme.paper, width=min(1.0, r / 4))
        label = self.labels[node] if self.labels else ""
        hint = f"node {label or node}{_told(self.value('', node))}"
        mark: Shape = Circle(x, y, r, style=style, part="node", entry=node, hint=hint)
        if self.sorts[node] % 2:
            s = 0.9 * r
            corners = ((x - s, y - s), (x + s, y - s), (x + s, y + s), (x - s, y + s))
            mark = Path(corners, is_closed=True, style=style, part="node", entry=node, hint=hint)
        return self.order(NODES, (node,)), [mark, *self._label(node, label, colour)]

    def _label(self, node: int, label: str, colour: str) -> list[Shape]:
        if not label:
            return []
        (x, y), r = self.sheet.at(node), self.sheet.radius
        size = min(1.15 * r, 2.6 * r / len(label))
        return [
            Text(
                x,
                y + 0.36 * size,
                label,
                size,
                "middle",
                style=Style(fill=text_on(colour)),
                part="label",
                entry=node,
            )
        ]


def _sides(around: Nodes) -> list[frozenset[int]]:
    return [frozenset(side) for side in zip(around, (*around[1:], *around[:1]), strict=True)]


def _told(value: float | None) -> str:
    return "" if value is None else f", {value:.4g}"
