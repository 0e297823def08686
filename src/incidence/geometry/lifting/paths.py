"""Paths of two edges."""

from __future__ import annotations

import torch

from incidence.geometry.lifting.adjacency import Adjacency, adjacency, edge_pattern, is_directed
from incidence.geometry.lifting.attach import attach, letters, named
from incidence.geometry.lifting.bounds import LIMIT, Bound
from incidence.structure.structure import Structure

__all__ = ["paths"]


def paths(
    structure: Structure,
    *,
    backtrack: bool = True,
    name: str | None = None,
    edges: str | None = None,
    limit: int | None = LIMIT,
) -> Structure:
    r"""Adds the pairs of edges that meet head to tail, `(i j) (j k)`; with undirected edges those that share a node, `{i j} {j k}`.

    Args:
        structure: One structure or a batch. Loops are left out.
        backtrack: Whether i and k may be one node: an edge and its reverse, or an undirected edge with itself.
        name: A name for the new tensor.
        edges: The tensor whose entries are the edges; the only one there is, if not given.
        limit: How many pairs may be found; None for any number.

    Raises:
        TooLargeError: There are more pairs than the limit.

    Example:
        >>> fork = Structure(4, {"(i j)": [[0, 1, 1], [1, 2, 3]]})
        >>> paths(fork)["(i j) (j k)"].tolist()
        [[0, 0], [1, 1], [2, 3]]
    """
    pattern = edge_pattern(structure, edges, "paths")
    [sort] = set(pattern.sorts.values())
    graph = adjacency(structure, pattern, directed=True)
    middle, last = _second(graph, Bound("paths", limit, "Leave out edges at nodes of high degree"))
    first, middle = graph.source[middle], graph.neighbour[middle]
    left, right = "()" if is_directed(pattern) else "{}"
    # An undirected edge with itself is one entry, whichever end it is seen from.
    kept = (first != last) | (backtrack and (torch.tensor(is_directed(pattern)) | (first < middle)))
    i, j, k = letters(3, sort)
    text = named(name, f"{left}{i} {j}{right} {left}{j} {k}{right}")
    return attach(structure, {text: (torch.stack([first, middle, last])[:, kept],)})


def _second(graph: Adjacency, bound: Bound) -> tuple[torch.Tensor, torch.Tensor]:
    """For every arc the nodes one step after its end."""
    bound.assert_room(int(graph.degree[graph.neighbour].sum()), "pairs of edges")
    return graph.grow(graph.neighbour)
