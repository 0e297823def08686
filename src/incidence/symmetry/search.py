r"""The symmetries of a structure: as those of a graph with coloured vertices, by refinement and
search, in pure Python.

*The graph.* The first vertices are the nodes, coloured by sort. An entry is a list of class sets
(`structure/entries.py`). It becomes a vertex that is joined to the nodes of its first class, and to
one further vertex for each other class, which is joined to the nodes of that class. The colours of
these vertices say the tensor, the orbit, the sizes and the class. Two short cuts keep graphs small:
an entry with one node is a colour of that node, and the first tensor of plain undirected pairs
gives edges between nodes.

*The search.* Vertices are split by colour, then by how many neighbours they have in each cell,
until nothing splits. Then a vertex of some cell becomes a cell by itself, and so on until all cells
are single vertices. This is the *first path*: its chosen vertices are a base of the group, and its
last partition is compared with those of other paths. Then the search goes back from the end of the
first path to its start. At every level it tries each vertex w of the cell in place of the chosen v,
and either finds a symmetry that takes v to w, or excludes it by all continuations. Vertices that a
known symmetry joins are tried once. So the generators are a strong generating set, and the order is
the product of the orbits of the base points.

Two habits of good programs for sparse graphs make this fast. A partition is changed in place and
undone from a log, so that a step costs what it touches. And every partial match is completed to a
guess, which maps vertices to themselves, or back to where they came from, wherever it may: on most
graphs the first guess is a symmetry.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from typing import NamedTuple

import numpy as np

from incidence.errors import TooLargeError
from incidence.structure.arrange import arranged
from incidence.structure.data import Array
from incidence.structure.structure import Structure

__all__ = ["MAX_STEPS", "ColouredGraph", "coloured_graph", "find_symmetries"]

MAX_STEPS = 300_000
"""The greatest number of refinements that lead nowhere in a search."""

Moves = dict[int, int]
"""A permutation, by the vertices that it moves."""
Trace = list[tuple[int, ...]]
"""The splits of a refinement, in terms that relabelling does not change."""


@dataclass(frozen=True)
class ColouredGraph:
    """An undirected graph with coloured vertices.

    Attributes:
        num_nodes: The number of nodes of the structure, which are the first vertices. A symmetry
            that fixes all nodes fixes the other vertices, too.
        colours: The colour of every vertex; nodes have the smallest ones.
        edges: Pairs of vertices, each edge once, shape (2, edges).
    """

    num_nodes: int
    colours: Array
    edges: Array

    @property
    def num_vertices(self) -> int:
        """The number of vertices."""
        return len(self.colours)

    def neighbours(self) -> list[list[int]]:
        """Return the neighbours of every vertex."""
        if not self.num_vertices:
            return []
        ends = np.concatenate([self.edges, self.edges[::-1]], axis=1)
        order = np.argsort(ends[0], kind="stable")
        bounds = np.searchsorted(ends[0][order], np.arange(1, self.num_vertices))
        return [part.tolist() for part in np.split(ends[1][order], bounds)]

    def cells(self) -> list[list[int]]:
        """Return the vertices of every colour."""
        if not self.num_vertices:
            return []
        order = np.argsort(self.colours, kind="stable")
        bounds = np.flatnonzero(np.diff(self.colours[order])) + 1
        return [part.tolist() for part in np.split(order, bounds)]


def coloured_graph(structure: Structure) -> ColouredGraph:
    """Return the graph of one structure.

    Example:
        >>> import torch
        >>> triangle = Structure(3, {"(i j)": torch.tensor([[0, 1, 2], [1, 2, 0]])})
        >>> coloured_graph(triangle).num_vertices  # 3 nodes, and 2 vertices for each directed edge
        9
    """
    num_nodes, sorts = structure.total_nodes, sorted(structure.counts)
    counts = [structure.counts[sort] for sort in sorts]
    marks = [np.repeat(np.arange(len(sorts)), counts)]  # each of shape (nodes,)
    edges = [np.zeros((2, 0), dtype=np.int64)]
    colours: list[Array] = []
    total, colour, has_pairs = num_nodes, 0, False
    parts = (part for pattern in structure.patterns for part in arranged(structure, pattern))
    for bucket in (part.bucket for part in parts):
        sizes = [size for size in bucket.sizes if size]
        nodes = bucket.nodes.cpu().numpy()  # (entries, nodes of each)
        if sizes == [1]:
            marks.append(np.isin(np.arange(num_nodes), nodes).astype(np.int64))
        elif sizes == [2] and not has_pairs:
            has_pairs = True
            edges.append(nodes.T)
        elif sizes:
            entries = total + np.arange(len(nodes))  # the vertices of the entries
            by_class = np.split(nodes, np.cumsum(sizes)[:-1], axis=1)
            for number, members in enumerate(by_class):
                vertices = total + np.arange(len(nodes))  # those of this class of the entries
                total += len(nodes)
                colours.append(np.full(len(nodes), colour + number))
                if number:
                    edges.append(np.stack([entries, vertices]))
                ends = np.repeat(vertices, members.shape[1]), members.ravel()
                edges.append(np.stack(ends))
            colour += len(sizes)
    # Nodes with equal marks get one colour.
    _, of_nodes = np.unique(np.stack(marks), axis=1, return_inverse=True)
    first = int(of_nodes.max(initial=-1)) + 1
    of_vertices = np.concatenate([of_nodes.ravel(), *(first + c for c in colours)])
    return ColouredGraph(num_nodes, of_vertices, np.concatenate(edges, axis=1))


def find_symmetries(graph: ColouredGraph, max_steps: int = MAX_STEPS) -> tuple[list[Moves], int]:
    """Return generators of the symmetries of a graph, and the order of their group.

    Raises:
        TooLargeError: The graph is too hard for the given number of steps.
    """
    return _SymmetrySearch(graph, max_steps).run()


class _Partition:
    """An ordered partition of the vertices that is refined in place, with a log to undo it.

    Cells are intervals of `order`, named by their start. If a cell is split, its first part keeps
    the name.
    """

    def __init__(self, graph: ColouredGraph) -> None:
        self.neighbours = graph.neighbours()
        cells = graph.cells()
        self.order = [v for cell in cells for v in cell]
        self.place = [0] * len(self.order)
        self.cell = [0] * len(self.order)
        self.size: dict[int, int] = {}
        self.log: list[tuple[int, int]] = []  # (new cell, the cell it was split from)
        for at, v in enumerate(self.order):
            self.place[v] = at
        start = 0
        for members in cells:
            self.size[start] = len(members)
            for v in members:
                self.cell[v] = start
            start += len(members)

    def members(self, cell: int) -> list[int]:
        """Return the vertices of a cell."""
        return self.order[cell : cell + self.size[cell]]

    def individualise(self, v: int) -> int:
        """Make a vertex a cell by itself, at the end of its cell, and return the new cell."""
        cell = self.cell[v]
        self._move(v, cell + self.size[cell] - 1)
        return self._cut(cell, 1)

    def undo(self, mark: int) -> None:
        """Join all cells that were split since the log had the given length."""
        while len(self.log) > mark:
            new, parent = self.log.pop()
            for v in self.members(new):
                self.cell[v] = parent
            self.size[parent] += self.size.pop(new)

    def _move(self, v: int, to: int) -> None:
        other, at = self.order[to], self.place[v]
        self.order[to], self.order[at] = v, other
        self.place[v], self.place[other] = to, at

    def _cut(self, cell: int, count: int) -> int:
        """Split the last vertices off a cell, and return the new cell."""
        self.size[cell] -= count
        new = cell + self.size[cell]
        self.size[new] = count
        for v in self.members(new):
            self.cell[v] = new
        self.log.append((new, cell))
        return new

    def refine(self, work: list[int], expected: Trace | None = None) -> Trace | None:
        """Split cells by the numbers of neighbours until nothing splits.

        Args:
            work: The cells to count neighbours in; the list grows meanwhile.
            expected: The splits to compare with.

        Returns:
            The splits; None as soon as they differ from the expected ones.
        """
        trace: Trace = []
        waiting = set(work)
        for by in work:
            waiting.discard(by)
            counts: dict[int, int] = {}
            for v in self.members(by):
                for u in self.neighbours[v]:
                    counts[u] = counts.get(u, 0) + 1
            touched: dict[int, list[int]] = {}
            for u in counts:
                touched.setdefault(self.cell[u], []).append(u)
            for cell in sorted(touched):
                trace.append(self._split(cell, touched[cell], counts, work, waiting))
                at = len(trace) - 1
                if expected is not None and (at == len(expected) or expected[at] != trace[at]):
                    return None
        return trace if expected is None or len(trace) == len(expected) else None

    def _split(
        self,
        cell: int,
        touched: list[int],
        counts: dict[int, int],
        work: list[int],
        waiting: set[int],
    ) -> tuple[int, ...]:
        """Split one cell by counts, untouched vertices first, and return a description.

        New cells are added to the work, except for the largest one if the cell is not waiting.
        """
        groups: dict[int, list[int]] = {}
        for u in touched:
            groups.setdefault(counts[u], []).append(u)
        ordered = sorted(groups)
        sizes = [number for count in ordered for number in (count, len(groups[count]))]
        description = (cell, *sizes)
        untouched = self.size[cell] - len(touched)
        if len(ordered) + (untouched > 0) == 1:
            return description
        parts = []
        for count in reversed(ordered[(untouched == 0) :]):
            for at, v in enumerate(groups[count]):
                self._move(v, cell + self.size[cell] - 1 - at)
            parts.append(self._cut(cell, len(groups[count])))
        if cell not in waiting:
            parts = sorted([cell, *parts])
            # Counts in the largest part follow from those in the others.
            parts.remove(max(parts, key=lambda c: (self.size[c], -c)))
        for part in parts:
            if part not in waiting:
                waiting.add(part)
                work.append(part)
        return description


class _Level(NamedTuple):
    """A step of the first path.

    Attributes:
        vertex: The chosen vertex.
        cell, members: The cell that it was chosen from, and the vertices of that cell.
        mark: The length of the log before.
        trace: The splits of the refinement.
    """

    vertex: int
    cell: int
    members: list[int]
    mark: int
    trace: Trace


class _SymmetrySearch:
    def __init__(self, graph: ColouredGraph, max_steps: int) -> None:
        self.num_nodes = graph.num_nodes
        self.partition = _Partition(graph)
        self.neighbour_sets: dict[int, frozenset[int]] = {}
        self.steps_left = max_steps
        self.generators: list[Moves] = []
        self.root = list(range(graph.num_vertices))  # of the orbits under the generators
        self.leaf: list[int] = []

    def run(self) -> tuple[list[Moves], int]:
        levels = self._first_path()
        self.leaf = list(self.partition.order)
        order = 1
        for depth in reversed(range(len(levels))):
            self.partition.undo(levels[depth].mark)
            self._close(levels, depth)
            orbit = self._find(levels[depth].vertex)
            order *= sum(self._find(w) == orbit for w in levels[depth].members)
        return self.generators, order

    def _first_path(self) -> list[_Level]:
        """Choose vertices of small cells first, which keeps neighbours together."""
        partition, levels = self.partition, []
        partition.refine(sorted(partition.size))
        heap = [(size, cell) for cell, size in partition.size.items()]
        heapify(heap)
        while heap:
            size, cell = heappop(heap)
            if size < 2 or partition.size[cell] != size or partition.order[cell] >= self.num_nodes:
                continue
            mark, members = len(partition.log), partition.members(cell)
            vertex = min(members)
            trace = partition.refine([partition.individualise(vertex)])
            assert trace is not None
            levels.append(_Level(vertex, cell, members, mark, trace))
            for changed in {c for pair in partition.log[mark:] for c in pair}:
                heappush(heap, (partition.size[changed], changed))
        return levels

    def _close(self, levels: list[_Level], depth: int) -> None:
        """Find the orbit of a base point under the symmetries that fix the base points before."""
        failed: list[int] = []
        for w in sorted(levels[depth].members):
            known = {self._find(v) for v in (levels[depth].vertex, *failed)}
            if self._find(w) in known:
                continue
            moves = self._match(levels, depth, w)
            if moves is None:
                failed.append(w)
                continue
            self.generators.append(moves)
            for a, b in moves.items():
                low, high = sorted((self._find(a), self._find(b)))
                self.root[high] = low

    def _find(self, v: int) -> int:
        while self.root[v] != v:
            self.root[v] = self.root[self.root[v]]
            v = self.root[v]
        return v

    def _match(self, levels: list[_Level], depth: int, w: int) -> Moves | None:
        """Return a symmetry that fixes earlier base points and takes that of a level to w."""
        partition, start, steps = self.partition, len(self.partition.log), self.steps_left
        stack: list[tuple[int, Iterator[int]]] = [(start, iter([w]))]
        symmetry = None
        while stack and symmetry is None:
            mark, choices = stack[-1]
            partition.undo(mark)
            choice = next(choices, None)
            if choice is None:
                stack.pop()
                continue
            level = levels[depth + len(stack) - 1]
            if not self._is_alike(level, choice):
                continue
            moves = self._guess(start)
            if self._is_symmetry(moves):
                symmetry = moves
            elif depth + len(stack) < len(levels):
                following = levels[depth + len(stack)]
                # The image that the guess proposes is tried first.
                wish = moves.get(following.vertex, following.vertex)
                members = sorted(partition.members(following.cell), key=lambda v: (v != wish, v))
                stack.append((len(partition.log), iter(members)))
        partition.undo(start)
        # Many symmetries are not hard to find: only steps that lead nowhere count.
        if symmetry is not None:
            self.steps_left = steps
        return symmetry

    def _is_alike(self, level: _Level, choice: int) -> bool:
        self.steps_left -= 1
        if self.steps_left < 0:
            raise TooLargeError(
                "the symmetries of this structure are too hard to find for the search that comes"
                " with the library. Install the optional engine, pip install pynauty, or give"
                " generators of the group yourself."
            )
        trace = self.partition.refine([self.partition.individualise(choice)], level.trace)
        return trace is not None

    def _guess(self, start: int) -> Moves:
        """Return a permutation from the cells of the first path to the present ones.

        Only cells that were split since the two paths parted can differ.
        """
        partition, leaf = self.partition, self.leaf
        cells = {c for pair in partition.log[start:] for c in pair}
        moves = {leaf[cell]: partition.order[cell] for cell in cells if partition.size[cell] == 1}
        back = {b: a for a, b in moves.items()}
        for cell in cells:
            size = partition.size[cell]
            if size == 1:
                continue
            ours, theirs = leaf[cell : cell + size], partition.members(cell)
            free = set(theirs).difference(ours)
            left = sorted(set(ours).difference(theirs))
            for v in left:
                if back.get(v) in free:
                    moves[v] = back[v]
                    free.remove(back[v])
            rest = [v for v in left if v not in moves]
            moves.update(zip(rest, sorted(free), strict=True))
        return {a: b for a, b in moves.items() if a != b}

    def _is_symmetry(self, moves: Moves) -> bool:
        neighbours = self.partition.neighbours
        for a, b in moves.items():
            if b not in self.neighbour_sets:
                self.neighbour_sets[b] = frozenset(neighbours[b])
            image = self.neighbour_sets[b]
            if len(neighbours[a]) != len(image):
                return False
            if any(moves.get(u, u) not in image for u in neighbours[a]):
                return False
        return True
