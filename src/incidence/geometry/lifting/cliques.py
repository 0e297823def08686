"""Clique complexes: every set of nodes that are all joined by edges becomes a face."""

from __future__ import annotations

import torch
from torch import Tensor

from incidence.algebra.pattern import Pattern
from incidence.geometry.assembly import attach_faces, face_text
from incidence.geometry.lifting.adjacency import LIMIT, Adjacency, Bound, adjacency, edge_pattern, pairs_in_groups
from incidence.geometry.node_lists import as_integer
from incidence.structure import Structure

__all__ = ["add_cliques", "cliques"]


def cliques(structure: Structure, max_size: int = 3, *, edges: str | None = None, limit: int | None = LIMIT) -> Structure:
    r"""Adds the cliques of up to so many nodes: tensors `{i j}`, `{i j k}`, ..., closed under subsets.

    Args:
        structure: One structure or a batch. Directions of edges are ignored, and so are loops.
        max_size: The number of nodes of the largest cliques.
        edges: The tensor whose entries are the edges; the only one there is, if not given.
        limit: How many cliques of one size may be found; None for any number.

    Raises:
        TooLargeError: There are more cliques than the limit.

    Example:
        >>> k4 = Structure.complete(4, ["{i j}"])
        >>> cliques(k4, max_size=4)
        Structure(num_nodes=4, '{i j}': 6 entries, '{i j k}': 4 entries, '{i j k l}': 1 entry)
    """
    max_size = as_integer("cliques", "max_size", max_size, 2)
    return add_cliques(structure, edge_pattern(structure, edges, "cliques"), max_size, Bound("cliques", limit, "Lower max_size"))


def add_cliques(structure: Structure, pattern: Pattern, max_size: int, bound: Bound) -> Structure:
    """The cliques of the edges of one tensor, within a bound."""
    [sort] = set(pattern.sorts.values())
    found = {}
    for rows in _by_size(adjacency(structure, pattern), max_size, bound):
        text = face_text(rows.shape[1], sort)
        if rows.shape[1] > 2 or Pattern(text) not in structure.patterns:
            found[text] = [rows]
    return attach_faces(structure, found)


def _by_size(graph: Adjacency, max_size: int, bound: Bound) -> list[Tensor]:
    """The cliques of every size, as rows of nodes.

    Every edge points to the end with more neighbours, so no node has more than sqrt(2 edges) neighbours ahead. Cliques are kept sorted
    along that order; two that agree in all but the last node make a larger one if these two nodes are joined.
    """
    order = torch.argsort(graph.degree, stable=True)
    rank = torch.empty_like(order)
    rank[order] = torch.arange(len(order), device=order.device)
    source, target = rank[graph.source], rank[graph.neighbour]
    ahead = Adjacency.of(source[source < target], target[source < target], graph.num_nodes)
    rows, parent = torch.stack([ahead.source, ahead.neighbour], dim=1), ahead.source
    sizes = [rows]
    for _ in range(2, max_size):
        rows, parent = _larger(rows, parent, ahead, bound)
        sizes.append(rows)
    return [order[rows] for rows in sizes]


def _larger(rows: Tensor, parent: Tensor, ahead: Adjacency, bound: Bound) -> tuple[Tensor, Tensor]:
    """The cliques with one node more, and for each the number of the clique it was made from."""
    size = rows.shape[1] + 1
    found, parents, total = [rows.new_zeros(0, size)], [parent.new_zeros(0)], 0
    for which, other in pairs_in_groups(parent, bound.assert_time, f"pairs of cliques of {size - 1} nodes"):
        last = rows[other, -1]
        joined = ahead.has(rows[which, -1], last)
        which, last = which[joined], last[joined]
        total += len(which)
        bound.assert_room(total, f"cliques of {size} nodes")
        found.append(torch.cat([rows[which], last[:, None]], dim=1))
        parents.append(which)
    return torch.cat(found), torch.cat(parents)
