"""One structure on paper: its tensors as node lists, and what their drawings have in common: order,
colours, hints and nodes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import atan2

from incidence.algebra.pattern import Pattern
from incidence.plot.scene import Circle, Mark, Point, Style, label, rectangle
from incidence.plot.theme import Scale, Theme, between, text_on
from incidence.plot.viewport import Viewport
from incidence.structure import Structure

__all__ = [
    "FACES",
    "LARGEST_POLYGON",
    "LINES",
    "SETS",
    "Drawing",
    "DrawnTensor",
    "Layered",
    "Nodes",
    "cycle_of",
    "drawn_tensors",
    "edges_of",
]

FACES, SETS, LINES, NODES = range(4)  # what lies on what, on flat paper
LARGEST_POLYGON = 64

Nodes = tuple[int, ...]
"""The nodes of a face, numbered through all sorts."""

Layered = tuple[tuple[float, ...], Sequence[Mark]]
"""When marks are drawn, and the marks."""


@dataclass(frozen=True)
class DrawnTensor:
    """A tensor of a structure.

    Attributes:
        pattern: Its pattern.
        entries: For every entry its faces.
    """

    pattern: Pattern
    entries: list[tuple[Nodes, ...]]

    @property
    def key(self) -> str:
        """The name or text of the tensor."""
        return self.pattern.name or str(self.pattern)

    @property
    def is_lone(self) -> bool:
        """Whether an entry is one face."""
        return self.pattern.order == 1

    @property
    def has_direction(self) -> bool:
        """Whether an entry leads from its first node to its last."""
        kinds = [kind for kind, _ in self.pattern.kinds]
        return not self.is_lone or any(kind.is_ordered or kind.is_oriented for kind in kinds)

    @property
    def is_oriented(self) -> bool:
        """Whether a negative value means the other direction."""
        return any(kind.is_oriented for kind, _ in self.pattern.kinds)

    @cached_property
    def node_lists(self) -> set[Nodes]:
        """The nodes of every entry, one face after the other."""
        return {tuple(v for face in faces for v in face) for faces in self.entries}

    @cached_property
    def largest(self) -> int:
        """The number of nodes of the largest face."""
        return max((len(set(face)) for faces in self.entries for face in faces), default=0)


def drawn_tensors(structure: Structure) -> list[DrawnTensor]:
    """Return all tensors that have an index."""
    return [DrawnTensor(p, list(_entries(structure, p))) for p in structure.patterns]


def _entries(structure: Structure, pattern: Pattern) -> Iterator[tuple[Nodes, ...]]:
    offsets = structure._node_offsets
    letters, *members = structure.index(pattern)
    columns = {
        name: (row + offsets[pattern.sorts[name]]).tolist()
        for name, row in zip(pattern.fixed_letters, letters.cpu(), strict=True)
    }
    sets = iter([_members(part.tolist(), structure.num_entries(pattern)) for part in members])
    parts: list[list[Nodes]] = []
    for face in pattern.faces:
        if face.is_open:
            shift = offsets[face.letters[0].sort]  # nodes are numbered through all sorts
            parts.append([tuple(v + shift for v in nodes) for nodes in next(sets)])
        else:
            rows = [columns[letter.name] for letter in face.letters]
            parts.append(list(zip(*rows, strict=True)))
    return zip(*parts, strict=True)


def _members(incidences: list[list[int]], num_entries: int) -> list[list[int]]:
    """The nodes of every face, from rows (node, entry)."""
    faces: list[list[int]] = [[] for _ in range(num_entries)]
    for node, entry in zip(*incidences, strict=True):
        faces[entry].append(node)
    return faces


def edges_of(tensors: Sequence[DrawnTensor]) -> set[frozenset[int]]:
    """Return the pairs of different nodes that are an entry of a tensor whose entries are pairs."""
    pairs = {frozenset(nodes) for t in tensors if t.largest <= 2 for nodes in t.node_lists}
    return {pair for pair in pairs if len(pair) == 2}


def cycle_of(nodes: Nodes, edges: set[frozenset[int]]) -> Nodes | None:
    """Return the nodes in the order of the cycle that the edges between them make.

    It is None if they make something else than one cycle.
    """
    # In one cycle, every node has two neighbours; two cycles have that too, so the path is followed
    # below.
    near = {v: [w for w in nodes if frozenset((v, w)) in edges] for v in nodes}
    if len(nodes) < 3 or any(len(others) != 2 for others in near.values()):
        return None
    path = [nodes[0], near[nodes[0]][0]]
    while len(path) < len(nodes):
        path.append(next(w for w in near[path[-1]] if w != path[-2]))
    return tuple(path) if len(set(path)) == len(nodes) else None


@dataclass(frozen=True)
class Drawing:
    """How one structure is drawn.

    Attributes:
        view: Where its nodes are.
        tensors: What is drawn, each with the shape that its entries have.
        edges: The pairs of nodes that are joined.
        sorts: The sort of every node, as a number.
        theme: The colours.
        labels: The text in every node; none if empty.
        tints: The colour of every node without a value; by sort if empty.
        strands: How many lines an edge has, by its nodes, such as two for a double bond; a half is
            a dashed line.
        values: For some tensors a number for each entry; `""` stands for the nodes.
        scales: The colours of these numbers.
        opacity: Opacity of faces.
    """

    view: Viewport
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
        """Return when a mark is drawn.

        On flat paper the layers lie on each other, large marks first. In space depth decides, and
        what bounds a face comes after the nearest such face.
        """
        if self.view.space is None:
            return layer, -extent
        depth = self.view.depth(nodes)
        if layer != FACES:
            # A side drawn before its face would be half hidden by it.
            depth = max(depth, self._nearest.get(frozenset(nodes), depth))
        return depth, layer

    @cached_property
    def _polygons(self) -> list[Nodes]:
        """The corners of every polygon that is drawn."""
        drawn = [tensor for tensor, shape in self.tensors if shape == "polygon"]
        return [self.outline(faces[0]) for tensor in drawn for faces in tensor.entries]

    @cached_property
    def _nearest(self) -> dict[frozenset[int], float]:
        """The depth of the nearest polygon around every corner and every side of a polygon."""
        nearest: dict[frozenset[int], float] = {}
        for around in self._polygons:
            depth = self.view.depth(around)
            for bound in (*(frozenset((node,)) for node in around), *_sides(around)):
                nearest[bound] = max(nearest.get(bound, depth), depth)
        return nearest

    @cached_property
    def _inside(self) -> dict[frozenset[int], Point]:
        """The middle of a polygon at every side of one."""
        polygons = self._polygons
        return {side: self.view.middle(around) for around in polygons for side in _sides(around)}

    def inside(self, nodes: Sequence[int]) -> Point | None:
        """Return the middle of a polygon that has an edge as its side."""
        return self._inside.get(frozenset(nodes))

    def outline(self, nodes: Nodes) -> Nodes:
        """Return the nodes of a face in the order of its corners: along its edges if they make a
        cycle, else around its middle.
        """
        cycle = cycle_of(nodes, self.edges) if len(nodes) <= LARGEST_POLYGON else None
        if cycle is not None or len(nodes) <= 3:
            return cycle or nodes
        x, y = self.view.middle(nodes)
        places = {v: self.view.at(v) for v in nodes}
        return tuple(sorted(nodes, key=lambda v: atan2(places[v][1] - y, places[v][0] - x)))

    def value(self, key: str, entry: int) -> float | None:
        """Return the number of an entry, if there is one."""
        return self.values[key][entry] if key in self.values else None

    def colour(self, key: str, entry: int, default: str) -> str:
        """Return the colour of the value of an entry, or the default if it has none."""
        return self.scales[key](self.values[key][entry]) if key in self.values else default

    def face_colour(self, tensor: DrawnTensor) -> str:
        """Return the colour of faces without values: one for each tensor that has faces."""
        number = [t.key for t, shape in self.tensors if shape == "polygon"].index(tensor.key)
        if not number:
            return self.theme.face
        return between((self.theme.category(number), self.theme.face), 0.6)

    def hint(self, tensor: DrawnTensor, entry: int, faces: Sequence[Nodes]) -> str:
        """Return what a reader sees who points at an entry."""
        texts = [" ".join(map(str, face)) for face in faces if face]
        nodes = " ".join(f"{{{text}}}" if " " in text else text for text in texts)
        return f"{tensor.key}: {nodes}{_value_text(self.value(tensor.key, entry))}"

    def node(self, node: int) -> Layered:
        """Draw a node with its label: a circle, or a square for every second sort."""
        tint = self.tints[node] if self.tints else self.theme.category(self.sorts[node])
        colour = self.colour("", node, tint)
        (x, y), r = self.view.at(node), self.view.radius
        text = self.labels[node] if self.labels else ""
        hint = f"node {text or node}{_value_text(self.value('', node))}"
        style = Style(fill=colour, stroke=self.theme.paper, width=min(1.0, r / 4))
        mark: Mark = Circle(
            x,
            y,
            r,
            style=style,
            part="node",
            entry=node,
            hint=hint,
        )
        if self.sorts[node] % 2:
            s = 0.9 * r
            mark = rectangle(
                x - s,
                y - s,
                2 * s,
                2 * s,
                style,
                "node",
                entry=node,
                hint=hint,
            )
        marks = [mark]
        if text:
            size = min(1.15 * r, 2.6 * r / len(text))
            ink = text_on(colour)
            place = (x, y + 0.36 * size)
            marks.append(
                label(
                    *place,
                    text,
                    size,
                    ink,
                    "label",
                    "middle",
                    entry=node,
                )
            )
        return self.order(NODES, (node,)), marks


def _sides(around: Nodes) -> list[frozenset[int]]:
    return [frozenset(side) for side in zip(around, (*around[1:], *around[:1]), strict=True)]


def _value_text(value: float | None) -> str:
    return "" if value is None else f", {value:.4g}"
