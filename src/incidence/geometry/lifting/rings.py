"""Rings: cycles without chords, as faces of mixed size; what chemists and cell complexes mean by
the cycles of a graph.
"""

from __future__ import annotations

import torch
from torch import Tensor

from incidence.geometry.assembly import attach_faces, named, open_text
from incidence.geometry.lifting.adjacency import (
    LIMIT,
    Adjacency,
    Bound,
    chunks,
    pairs_in_groups,
    read_edges,
)
from incidence.geometry.node_lists import as_integer
from incidence.structure import Structure

__all__ = ["rings"]


def rings(
    structure: Structure,
    max_length: int = 6,
    *,
    min_length: int = 3,
    name: str | None = "ring",
    edges: str | None = None,
    limit: int | None = LIMIT,
) -> Structure:
    r"""Add the cycles without chords of up to so many nodes, as a tensor `ring={i ...}`.

    A cycle without chords is told by its nodes: no other edge joins two of them. Triangles are
    rings of length 3.

    Args:
        structure: One structure or a batch. Directions of edges are ignored, and so are loops.
        max_length: The number of nodes of the longest rings.
        min_length: The number of nodes of the shortest rings.
        name: The name of the new tensor; None for `{i ...}` itself.
        edges: The tensor whose entries are the edges. Default: the only one there is.
        limit: How many rings, and how many paths of one length that may become rings, may be found;
            None for any number.

    Raises:
        TooLargeError: There are more than the limit.

    Example:
        >>> ends = [[0, 0, 0, 1, 1, 2, 2, 3, 4, 4, 5, 6], [1, 2, 4, 3, 5, 3, 6, 7, 5, 6, 7, 7]]
        >>> cube = Structure(8, {"{i j}": ends})
        >>> rings(cube, max_length=4)
        Structure(num_nodes=8, '{i j}': 12 entries, 'ring={i ...}': 6 entries)
        >>> rings(cube, max_length=6).num_entries("ring")  # and hexagons around 4 diagonals
        10
    """
    max_length = as_integer("rings", "max_length", max_length, 3)
    min_length = as_integer("rings", "min_length", min_length, 3)
    _, sort, graph = read_edges(structure, edges, "rings")
    bound = Bound("rings", limit, "Lower max_length")
    # Every ring results once: from its smallest node s, with neighbours a < b on it. Paths (a, s,
    # b, ...) grow at their end by nodes that are larger than s and joined to no earlier node of the
    # path; a node that is joined to a closes the ring.
    graph = _peeled(graph, max_length)
    paths, triangles = _start(graph, bound)
    by_length = [triangles]
    total = len(triangles)
    for length in range(4, max_length + 1):
        if not len(paths):
            break
        # (paths, length) each
        paths, closed = _grow(graph, paths, bound, total, is_last=length == max_length)
        total += len(closed)
        by_length.append(closed)
    long_enough = [rows for rows in by_length if rows.shape[1] >= min_length]
    return attach_faces(structure, {named(name, open_text(sort)): [triangles[:0], *long_enough]})


def _peeled(graph: Adjacency, rounds: int) -> Adjacency:
    """The graph without nodes of one neighbour, repeatedly: trees at rings only cost time."""
    for _ in range(rounds):
        inner = (graph.degree[graph.source] > 1) & (graph.degree[graph.neighbour] > 1)
        if bool(inner.all()):
            break
        graph = Adjacency.of(graph.source[inner], graph.neighbour[inner], graph.num_nodes)
    return graph


def _start(graph: Adjacency, bound: Bound) -> tuple[Tensor, Tensor]:
    """The open paths of 3 nodes, and the triangles."""
    up = graph.source < graph.neighbour  # from the smallest node of a ring
    smallest = graph.source[up]
    above = graph.neighbour[up]
    open_paths = _Rows(above.new_zeros(0, 3), bound, "paths of 3 nodes")
    triangles = _Rows(above.new_zeros(0, 3), bound, "rings")
    for which, other in pairs_in_groups(smallest, bound.assert_time, "paths of 3 nodes"):
        rows = torch.stack([above[which], smallest[which], above[other]], dim=1)
        is_closed = graph.has(rows[:, 0], rows[:, 2])
        open_paths.add(rows[~is_closed])
        triangles.add(rows[is_closed])
    return open_paths.joined(), triangles.joined()


class _Rows:
    """Rows that come in parts, within a bound.

    Args:
        empty: No rows, of the right width.
        bound: The bound.
        what: The plural of the rows, for errors.
        count: How many rows there are already.
    """

    def __init__(self, empty: Tensor, bound: Bound, what: str, count: int = 0) -> None:
        self.parts = [empty]
        self.bound = bound
        self.what = what
        self.count = count

    def add(self, rows: Tensor) -> None:
        """Add a part, and check the bound."""
        self.count += len(rows)
        self.bound.assert_room(self.count, self.what)
        self.parts.append(rows)

    def joined(self) -> Tensor:
        """Return all rows."""
        return torch.cat(self.parts)


def _grow(
    graph: Adjacency, paths: Tensor, bound: Bound, total: int, is_last: bool
) -> tuple[Tensor, Tensor]:
    """The paths with one node more that are still open, and those that are closed by it."""
    length = paths.shape[1] + 1
    what = f"paths of {length} nodes"
    degrees = graph.degree[paths[:, -1]]
    bound.assert_time(int(degrees.sum()), what)
    open_paths = _Rows(paths.new_zeros(0, length), bound, what)
    closed = _Rows(paths.new_zeros(0, length), bound, "rings", total)
    for chunk in chunks(degrees):
        rows = paths[chunk]
        which, node = graph.grow(rows[:, -1])
        fits = node > rows[which, 1]  # column 1 is the smallest node s
        which = which[fits]
        node = node[fits]
        # Columns before the last one: a neighbour there would be a chord.
        for column in range(1, length - 2):
            fits = ~graph.has(rows[which, column], node)
            which = which[fits]
            node = node[fits]
        grown = torch.cat([rows[which], node[:, None]], dim=1)
        is_closed = graph.has(rows[which, 0], node)
        closed.add(grown[is_closed])
        if not is_last:
            open_paths.add(grown[~is_closed])
    return open_paths.joined(), closed.joined()
