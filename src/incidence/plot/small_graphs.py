"""Small graphs that are typed as text, the entries that tensors have on them, and places to draw
their nodes at. Standard library only: it runs in browsers too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations, pairwise, permutations, product
from math import cos, hypot, pi, sin

from incidence.algebra.pattern import Pattern
from incidence.errors import IncidenceError, TooLargeError
from incidence.plot.weights import Entry, entries_at

__all__ = ["SmallGraph", "adjacent_pairs", "entries_on", "places", "read_graph"]

_MOST_NODES = 40
_MOST_ENTRIES = 5_000  # of one tensor
_STEPS = 150  # of the layout
_PATH = re.compile(r"\w+(-\w+)*")


@dataclass(frozen=True)
class SmallGraph:
    """A graph without loops.

    Attributes:
        names: The names of its nodes.
        edges: Pairs of numbers of nodes, each ascending.
    """

    names: tuple[str, ...]
    edges: tuple[tuple[int, int], ...]

    def __post_init__(self) -> None:
        # The class is frozen, and looking for an edge among all would be slow.
        object.__setattr__(self, "_pairs", frozenset(self.edges))

    def is_edge(self, a: int, b: int) -> bool:
        """Return whether two nodes are adjacent."""
        return (min(a, b), max(a, b)) in self._pairs  # type: ignore[attr-defined]


def read_graph(text: str) -> SmallGraph:
    """Return the graph that a text lists: paths of names with minus signs between them.

    Raises:
        IncidenceError: A word is no path, or an edge joins a node to itself.
        TooLargeError: There are too many nodes.

    Example:
        >>> read_graph("a-b-c-a, d").edges  # a triangle, and a node
        ((0, 1), (0, 2), (1, 2))
    """
    numbers: dict[str, int] = {}
    edges = set()
    for word in filter(None, re.split(r"[\s,;]+", text)):
        if not _PATH.fullmatch(word):
            raise IncidenceError(
                f"`{word}` is no edge: write names of nodes with `-` between them, such as 0-1, or"
                " 0-1-2-0 for a triangle."
            )
        path = [numbers.setdefault(name, len(numbers)) for name in word.split("-")]
        for a, b in pairwise(path):
            if a == b:
                raise IncidenceError(f"an edge joins two different nodes; got one in `{word}`.")
            edges.add((min(a, b), max(a, b)))
    if not 0 < len(numbers) <= _MOST_NODES:
        raise TooLargeError(
            f"a graph here has 1 to {_MOST_NODES} nodes; got {len(numbers)}. inc.expressivity takes"
            " larger ones."
        )
    return SmallGraph(tuple(numbers), tuple(sorted(edges)))


def entries_on(graph: SmallGraph, pattern: Pattern) -> list[Entry]:
    """Return the entries of a tensor on a graph, in one order.

    The nodes of a face such as `{i j}` or `(i j k)` are adjacent, each to each. Others are any.

    Raises:
        TooLargeError: There are too many.

    Example:
        >>> path = read_graph("0-1-2")
        >>> [entry.sets for entry in entries_on(path, Pattern("{i j}"))]
        [((0, 1),), ((1, 2),)]
        >>> len(entries_on(path, Pattern("(i j)"))), len(entries_on(path, Pattern("i j")))
        (4, 9)
    """
    found: dict[Entry, None] = {}
    for nodes in _assignments(graph, pattern, ()):
        [entry] = entries_at(pattern, [[node] for node in nodes]) if nodes else [Entry(0, ())]
        found[entry] = None
        if len(found) > _MOST_ENTRIES:
            raise TooLargeError(
                f"`{pattern}` has more than {_MOST_ENTRIES:,} entries on a graph of"
                f" {len(graph.names)} nodes. Take a smaller graph, or inc.expressivity."
            )
    return sorted(found)


def _assignments(
    graph: SmallGraph, pattern: Pattern, nodes: tuple[int, ...]
) -> Iterator[tuple[int, ...]]:
    """Yield nodes for all letters, in the order of the letters."""
    letters = pattern.letters
    if len(nodes) == len(letters):
        yield nodes
        return
    letter = letters[len(nodes)]
    joined = {
        other.name
        for face in pattern.faces
        if face.kind.is_distinct and letter in [one.name for one in face.letters]
        for other in face.letters
    }
    # chosen before
    near = [node for name, node in zip(letters, nodes, strict=False) if name in joined]
    for node in range(len(graph.names)):
        if all(graph.is_edge(node, other) for other in near):
            yield from _assignments(graph, pattern, (*nodes, node))


def adjacent_pairs(graph: SmallGraph, entry: Entry) -> tuple[bool, ...]:
    """Return which nodes of an entry are adjacent, the same for entries that look alike."""
    orders = product(*(permutations(nodes) for nodes in entry.sets))
    flat = ([node for nodes in order for node in nodes] for order in orders)
    return min(tuple(graph.is_edge(a, b) for a, b in combinations(nodes, 2)) for nodes in flat)


def places(graph: SmallGraph) -> list[tuple[float, float]]:
    """Return coordinates of the nodes between 0 and 1, with distances like those in the graph.

    Each step moves a node to the mean of where the others want it (stress majorization).
    """
    count = len(graph.names)
    wanted = _distances(graph)
    points = [(cos(2 * pi * k / count), sin(2 * pi * k / count)) for k in range(count)]
    for _ in range(_STEPS):
        for k in range(count):
            points[k] = _pulled(points, wanted[k], k)
    columns = list(zip(*points, strict=True))
    extent = max(max(column) - min(column) for column in columns) or 1.0
    x, y = ([(v - (max(c) + min(c)) / 2) / extent + 0.5 for v in c] for c in columns)
    return [(round(a, 4), round(b, 4)) for a, b in zip(x, y, strict=True)]


def _pulled(points: list[tuple[float, float]], wanted: list[int], k: int) -> tuple[float, float]:
    """The mean of where the other nodes want node k, near ones counting more."""
    total = x = y = 0.0
    for other, (a, b) in enumerate(points):
        if other == k:
            continue
        dx, dy = points[k][0] - a, points[k][1] - b
        # to the wanted distance from the other node
        stretch = wanted[other] / (hypot(dx, dy) or 1.0)
        weight = 1 / wanted[other] ** 2
        total, x, y = (
            total + weight,
            x + weight * (a + dx * stretch),
            y + weight * (b + dy * stretch),
        )
    return (x / total, y / total) if total else points[k]


def _distances(graph: SmallGraph) -> list[list[int]]:
    """How many edges apart nodes are; parts that are not connected are a little further apart."""
    count = len(graph.names)
    near = [[b for b in range(count) if graph.is_edge(a, b)] for a in range(count)]
    rows = []
    for start in range(count):
        reached = {start: 0}
        queue = [start]
        for node in queue:  # which grows
            for other in near[node]:
                if other not in reached:
                    reached[other] = reached[node] + 1
                    queue.append(other)
        rows.append([reached.get(node, 0) for node in range(count)])
    # Parts must not drift away from each other, nor lie on each other.
    apart = 1 + max(max(row) for row in rows)
    return [[distance or apart for distance in row] for row in rows]
