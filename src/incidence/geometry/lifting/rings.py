"""Rings: cycles without chords, as faces of mixed size; what chemists and cell complexes mean by the cycles of a graph."""

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
    r"""Adds the cycles without chords of up to so many nodes, as a tensor `ring={i ...}`.

    A cycle without chords is told by its nodes: no other edge joins two of them. Triangles are rings of length 3.

    Args:
        structure: One structure or a batch. Directions of edges are ignored, and so are loops.
        max_length: The number of nodes of the longest rings.
        min_length: The number of nodes of the shortest rings.
        name: The name of the new tensor; None for `{i ...}` itself.
        edges: The tensor whose entries are the edges; the only one there is, if not given.
        limit: How many rings, and how many paths of one length that may become rings, may be found; None for any number.

    Raises:
        TooLargeError: There are more than the limit.

    Example:
        >>> cube = Structure(8, {"{i j}": [[0, 0, 0, 1, 1, 2, 2, 3, 4, 4, 5, 6], [1, 2, 4, 3, 5, 3, 6, 7, 5, 6, 7, 7]]})
        >>> rings(cube, max_length=4)
        Structure(num_nodes=8, '{i j}': 12 entries, 'ring={i ...}': 6 entries)
        >>> rings(cube, max_length=6).num_entries("ring")  # and the hexagons around the four diagonals
        10
    """
    max_length = as_integer("rings", "max_length", max_length, 3)
    min_length = as_integer("rings", "min_length", min_length, 3)
    _, sort, graph = read_edges(structure, edges, "rings")
    bound = Bound("rings", limit, "Lower max_length")
    # A ring is found once: from its smallest node s, with neighbours a < b on it. Paths (a, s, b, ...) grow at their end by nodes that are
    # larger than s and joined to no earlier node of the path; one that is joined to a closes the ring.
    graph = _peeled(graph, max_length)
    paths, triangles = _start(graph, bound)
    found, total = [triangles], len(triangles)
    for length in range(4, max_length + 1):
        if not len(paths):
            break
        paths, closed = _grow(graph, paths, bound, total, is_last=length == max_length)
        total += len(closed)
        found.append(closed)
    return attach_faces(
        structure,
        {
            named(name, open_text(sort)): [
                triangles[:0],
                *(rows for rows in found if rows.shape[1] >= min_length),
            ]
        },
    )


def _peeled(graph: Adjacency, rounds: int) -> Adjacency:
    """Without nodes of one neighbour, again and again: trees that hang on rings would only cost time."""
    for _ in range(rounds):
        inner = (graph.degree[graph.source] > 1) & (graph.degree[graph.neighbour] > 1)
        if bool(inner.all()):
            break
        graph = Adjacency.of(graph.source[inner], graph.neighbour[inner], graph.num_nodes)
    return graph


def _start(graph: Adjacency, bound: Bound) -> tuple[Tensor, Tensor]:
    up = graph.source < graph.neighbour
    smallest, above = graph.source[up], graph.neighbour[up]
    open_paths, triangles, counts = [above.new_zeros(0, 3)], [above.new_zeros(0, 3)], [0, 0]
    for which, other in pairs_in_groups(smallest, bound.assert_time, "paths of 3 nodes"):
        rows = torch.stack([above[which], smallest[which], above[other]], dim=1)
        is_closed = graph.has(rows[:, 0], rows[:, 2])
        _keep(open_paths, rows[~is_closed], counts, 0, bound, "paths of 3 nodes")
        _keep(triangles, rows[is_closed], counts, 1, bound, "rings")
    return torch.cat(open_paths), torch.cat(triangles)


def _keep(
    parts: list[Tensor], rows: Tensor, counts: list[int], place: int, bound: Bound, what: str
) -> None:
    counts[place] += len(rows)
    bound.assert_room(counts[place], what)
    parts.append(rows)


def _grow(
    graph: Adjacency, paths: Tensor, bound: Bound, total: int, is_last: bool
) -> tuple[Tensor, Tensor]:
    """The paths with one node more that are still open, and those that are closed by it."""
    length = paths.shape[1] + 1
    counts, degrees = [0, total], graph.degree[paths[:, -1]]
    bound.assert_time(int(degrees.sum()), f"paths of {length} nodes")
    open_paths, closed = [paths.new_zeros(0, length)], [paths.new_zeros(0, length)]
    for chunk in chunks(degrees):
        rows = paths[chunk]
        which, node = graph.grow(rows[:, -1])
        fits = node > rows[which, 1]
        which, node = which[fits], node[fits]
        for column in range(1, length - 2):
            fits = ~graph.has(rows[which, column], node)
            which, node = which[fits], node[fits]
        grown = torch.cat([rows[which], node[:, None]], dim=1)
        is_closed = graph.has(rows[which, 0], node)
        _keep(closed, grown[is_closed], counts, 1, bound, "rings")
        if not is_last:
            _keep(open_paths, grown[~is_closed], counts, 0, bound, f"paths of {length} nodes")
    return torch.cat(open_paths), torch.cat(closed)
