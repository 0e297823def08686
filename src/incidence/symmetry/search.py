r"""The symmetries of a coloured graph, by refinement and search, in pure Python.

Vertices are split by colour, then by how many neighbours they have in each cell, until nothing splits; then a vertex of some cell is
made a cell of its own, and so on until all cells are single vertices. That is the *first path*: the vertices chosen are a base of the
group, and its last partition is compared with those of other paths. From the end of the first path back to its start, at every level
each vertex w of the cell is tried in place of the chosen v; what it takes to map v to w is either found, or excluded by going through
all continuations. Vertices that a known symmetry joins are tried once. So the generators are a strong generating set, and the order
is the product of the orbits of the base points.

Two habits of good programs for sparse graphs make this fast. A partition is changed in place and undone from a log, so that a step costs
what it touches. And every partial match is completed to a guess, which maps vertices to themselves, or back where they came from,
wherever it may: on most graphs the first guess is a symmetry.
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heapify, heappop, heappush
from typing import NamedTuple

from incidence.errors import TooLargeError
from incidence.symmetry.coloured import ColouredGraph

__all__ = ["MAX_STEPS", "find_symmetries"]

MAX_STEPS = 300_000
"""Refinements that lead nowhere, after which a search is given up."""

Moves = dict[int, int]
"""A permutation by the vertices it moves."""
Trace = list[tuple[int, ...]]
"""What happened in a refinement, in terms that relabelling does not change."""


def find_symmetries(graph: ColouredGraph, max_steps: int = MAX_STEPS) -> tuple[list[Moves], int]:
    """Generators of the symmetries of a graph, as moves of its vertices, and the order of the group.

    Raises:
        TooLargeError: The graph is too hard for the given number of steps.
    """
    return _Search(graph, max_steps).run()


class _Partition:
    """An ordered partition of the vertices that is refined in place, with a log to undo it.

    Cells are intervals of `order` and are called by their start; splitting a cell leaves its first part the name.
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
        """The vertices of a cell."""
        return self.order[cell : cell + self.size[cell]]

    def individualise(self, v: int) -> int:
        """Makes a vertex a cell of its own, the last of its cell; gives the new cell."""
        cell = self.cell[v]
        self._move(v, cell + self.size[cell] - 1)
        return self._cut(cell, 1)

    def undo(self, mark: int) -> None:
        """Joins all cells split since the log had the given length."""
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
        """Splits the last vertices off a cell; gives the new cell."""
        self.size[cell] -= count
        new = cell + self.size[cell]
        self.size[new] = count
        for v in self.members(new):
            self.cell[v] = new
        self.log.append((new, cell))
        return new

    def refine(self, work: list[int], expected: Trace | None = None) -> Trace | None:
        """Splits cells by the numbers of neighbours until nothing splits; None as soon as it goes another way than expected."""
        trace: Trace = []
        waiting = set(work)
        for by in work:  # grows while it is gone through
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
                if expected is not None and (
                    len(trace) > len(expected) or expected[len(trace) - 1] != trace[-1]
                ):
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
        """Splits one cell by counts, the untouched first; new cells are put to work, but for the largest where one may be left out."""
        groups: dict[int, list[int]] = {}
        for u in touched:
            groups.setdefault(counts[u], []).append(u)
        ordered = sorted(groups)
        done = (cell, *(x for count in ordered for x in (count, len(groups[count]))))
        untouched = self.size[cell] - len(touched)
        if len(ordered) + (untouched > 0) == 1:
            return done
        parts = []
        for count in reversed(ordered[(untouched == 0) :]):
            for at, v in enumerate(groups[count]):
                self._move(v, cell + self.size[cell] - 1 - at)
            parts.append(self._cut(cell, len(groups[count])))
        if cell not in waiting:
            parts = sorted([cell, *parts])
            parts.remove(max(parts, key=lambda c: (self.size[c], -c)))
        for part in parts:
            if part not in waiting:
                waiting.add(part)
                work.append(part)
        return done


class _Level(NamedTuple):
    """A step of the first path: the vertex chosen, its cell, the length of the log before, and what refining did."""

    vertex: int
    cell: int
    members: list[int]
    mark: int
    trace: Trace


class _Search:
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
        """Small cells first: they keep what belongs together together."""
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
        """Finds the orbit of a base point under the symmetries that fix those before it."""
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
        """A symmetry that fixes the base points before a level and sends its own to w; None if there is none."""
        partition, start, steps = self.partition, len(self.partition.log), self.steps_left
        stack: list[tuple[int, Iterator[int]]] = [(start, iter([w]))]
        found = None
        while stack and found is None:
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
                found = moves
            elif depth + len(stack) < len(levels):
                following = levels[depth + len(stack)]
                wish = moves.get(
                    following.vertex, following.vertex
                )  # what the guess says is tried first
                members = sorted(partition.members(following.cell), key=lambda v: (v != wish, v))
                stack.append((len(partition.log), iter(members)))
        partition.undo(start)
        self.steps_left = (
            self.steps_left if found is None else steps
        )  # many symmetries are not hard: what leads nowhere is
        return found

    def _is_alike(self, level: _Level, choice: int) -> bool:
        self.steps_left -= 1
        if self.steps_left < 0:
            raise TooLargeError(
                "the symmetries of this structure are too hard to find for the search that comes with the library. "
                "Install the optional engine, pip install pynauty, or give generators of the group yourself."
            )
        return (
            self.partition.refine([self.partition.individualise(choice)], level.trace) is not None
        )

    def _guess(self, start: int) -> Moves:
        """A permutation that takes the cells of the first path to those of the present one.

        Only cells that were split since the two paths parted can differ.
        """
        partition = self.partition
        cells = {c for pair in partition.log[start:] for c in pair}
        moves = {
            self.leaf[cell]: partition.order[cell] for cell in cells if partition.size[cell] == 1
        }
        back = {b: a for a, b in moves.items()}
        for cell in cells:
            if partition.size[cell] > 1:
                ours, theirs = (
                    self.leaf[cell : cell + partition.size[cell]],
                    partition.members(cell),
                )
                free = set(theirs).difference(ours)
                left = sorted(set(ours).difference(theirs))
                for v in left:
                    if back.get(v) in free:
                        moves[v] = back[v]
                        free.remove(back[v])
                moves.update(zip([v for v in left if v not in moves], sorted(free), strict=True))
        return {a: b for a, b in moves.items() if a != b}

    def _is_symmetry(self, moves: Moves) -> bool:
        neighbours = self.partition.neighbours
        for a, b in moves.items():
            if b not in self.neighbour_sets:
                self.neighbour_sets[b] = frozenset(neighbours[b])
            there = self.neighbour_sets[b]
            if len(neighbours[a]) != len(there) or any(
                moves.get(u, u) not in there for u in neighbours[a]
            ):
                return False
        return True
