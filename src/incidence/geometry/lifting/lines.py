"""Line graphs: the edges of one structure are the nodes of another."""

from __future__ import annotations

import torch
from torch import Tensor

from incidence.geometry.lifting.adjacency import Adjacency, edge_pattern, is_directed, later_in_group, spread
from incidence.geometry.lifting.attach import attach, attach_faces
from incidence.geometry.lifting.bounds import LIMIT, Bound
from incidence.structure.ragged import ranges
from incidence.structure.structure import Structure

__all__ = ["line_graph"]


def line_graph(structure: Structure, *, edges: str | None = None, limit: int | None = LIMIT) -> Structure:
    r"""The structure whose nodes are the edges of another, in their order; joined, `{i j}`, if they share a node.

    Of directed edges, `(i j)` says that the second starts where the first ends. Features of the edges are features of the new nodes.

    Args:
        structure: One structure or a batch.
        edges: The tensor whose entries are the edges; the only one there is, if not given.
        limit: How many pairs of edges may be found; None for any number.

    Raises:
        TooLargeError: There are more pairs than the limit.

    Example:
        >>> star = Structure(4, {"{i j}": [[0, 0, 0], [1, 2, 3]]})
        >>> line_graph(star)
        Structure(num_nodes=3, '{i j}': 3 entries)
    """
    pattern = edge_pattern(structure, edges, "line_graph")
    bound = Bound("line_graph", limit, "Leave out edges at nodes of high degree")
    source, target = structure.index(pattern)[0]
    [sort] = set(pattern.sorts.values())
    lines = Structure._of({"node": structure.entry_ptr(pattern)}, {}, {})
    if is_directed(pattern):
        return attach(lines, {"(i j)": (_head_to_tail(source, target, structure.counts[sort], bound),)})
    return attach_faces(lines, {"{i j}": [_sharing(source, target, bound)]})


def _head_to_tail(source: Tensor, target: Tensor, num_nodes: int, bound: Bound) -> Tensor:
    """Pairs of edges of which the second starts where the first ends, shape [2, pairs]."""
    starting, order = source.sort(stable=True)
    leaving = Adjacency(ranges(torch.bincount(starting, minlength=num_nodes)), order)  # the edges that start at each node
    bound.assert_room(int(leaving.degree[target].sum()), "pairs of edges")
    first, second = leaving.grow(target)
    return torch.stack([first, second])[:, first != second]


def _sharing(source: Tensor, target: Tensor, bound: Bound) -> Tensor:
    """Pairs of edges that share a node, shape [pairs, 2]."""
    edge = torch.arange(len(source), device=source.device)
    apart = source != target  # a loop meets its node once
    node, edge = torch.cat([source, target[apart]]), torch.cat([edge, edge[apart]])
    node, order = node.sort(stable=True)
    edge = edge[order]
    later = later_in_group(node)
    bound.assert_room(int(later.sum()), "pairs of edges")
    which, place = spread(later)
    return torch.stack([edge[which], edge[which + place + 1]], dim=1)
