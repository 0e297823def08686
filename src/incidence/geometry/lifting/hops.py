"""Nodes a few steps apart: pairs of them, and neighbourhoods as faces of mixed size."""

from __future__ import annotations

import torch
from torch import Tensor

from incidence.geometry.assembly import attach, attach_faces, face_text, is_directed, letters, named, open_text
from incidence.geometry.lifting.adjacency import LIMIT, Adjacency, Bound, adjacency, chunks, edge_pattern
from incidence.geometry.node_lists import NodeLists, as_integer
from incidence.structure import Structure
from incidence.structure.ragged import by_entry

__all__ = ["khop", "neighbourhoods"]


def khop(
    structure: Structure,
    k: int = 2,
    *,
    exact: bool = False,
    name: str | None = None,
    edges: str | None = None,
    limit: int | None = LIMIT,
) -> Structure:
    r"""Adds the pairs of different nodes that are at most k steps apart, as a tensor `hopk={i j}`; with directed edges `hopk=(i j)`.

    Args:
        structure: One structure or a batch. Steps follow the direction of edges that have one.
        k: The number of steps.
        exact: Only pairs whose distance is k, and none that are nearer.
        name: The name of the new tensor; `hop2` for two steps, if not given.
        edges: The tensor whose entries are the edges; the only one there is, if not given.
        limit: How many pairs may be found, each counted in both directions; None for any number.

    Raises:
        TooLargeError: There are more pairs than the limit.

    Example:
        >>> path = Structure(4, {"{i j}": [[0, 1, 2], [1, 2, 3]]})
        >>> khop(path, 2)["hop2"].tolist()
        [[0, 0, 1, 1, 2], [1, 2, 2, 3, 3]]
        >>> khop(path, 2, exact=True)["hop2"].tolist()
        [[0, 1], [2, 3]]
    """
    k = as_integer("khop", "k", k, 1)
    pattern = edge_pattern(structure, edges, "khop")
    [sort] = set(pattern.sorts.values())
    graph = adjacency(structure, pattern, directed=True)
    steps = _reach(graph, k, Bound("khop", limit, "Lower k"))
    pairs = torch.cat(steps[-1:] if exact else steps, dim=1)
    name = name or f"hop{k}"
    if is_directed(pattern):
        return attach(structure, {named(name, face_text(2, sort, "()")): pairs})
    return attach_faces(structure, {named(name, face_text(2, sort)): [pairs[:, pairs[0] < pairs[1]].T]})


def neighbourhoods(
    structure: Structure,
    k: int = 1,
    *,
    centred: bool = False,
    name: str | None = "neighbourhood",
    edges: str | None = None,
    limit: int | None = LIMIT,
) -> Structure:
    r"""Adds every node with all nodes at most k steps from it, as a hyperedge: a tensor `neighbourhood={i ...}`.

    Args:
        structure: One structure or a batch. Directions of edges are ignored.
        k: The number of steps.
        centred: Keep whose neighbourhood it is: `neighbourhood=i {i ...}`, one entry for every node, in any case. Without, nodes that have
            the same neighbourhood share one entry.
        name: The name of the new tensor; None for `{i ...}` itself.
        edges: The tensor whose entries are the edges; the only one there is, if not given.
        limit: How many incidences may be found; None for any number.

    Raises:
        TooLargeError: There are more incidences than the limit.

    Example:
        >>> triangle_with_tail = Structure(4, {"{i j}": [[0, 0, 1, 2], [1, 2, 2, 3]]})
        >>> neighbourhoods(triangle_with_tail)  # nodes 0 and 1 have the same
        Structure(num_nodes=4, '{i j}': 4 entries, 'neighbourhood={i ...}': 3 entries)
        >>> neighbourhoods(triangle_with_tail, centred=True)
        Structure(num_nodes=4, '{i j}': 4 entries, 'neighbourhood=i {i ...}': 4 entries)
    """
    k = as_integer("neighbourhoods", "k", k, 1)
    pattern = edge_pattern(structure, edges, "neighbourhoods")
    [sort] = set(pattern.sorts.values())
    graph = adjacency(structure, pattern)
    nodes = torch.arange(graph.num_nodes, device=graph.ptr.device)
    near = _reach(graph, k, Bound("neighbourhoods", limit, "Lower k"))
    centre, node = torch.cat([torch.stack([nodes, nodes]), *near], dim=1)
    if centred:
        text = f"{letters(1, sort)[0]} {open_text(sort)}"
        return attach(structure, {named(name, text): (nodes[None], torch.stack([node, centre]))})
    return attach_faces(structure, {named(name, open_text(sort)): _different(centre, node)})


def _different(face: Tensor, node: Tensor) -> list[Tensor]:
    """The different sets among faces given by incidences, as rows of nodes, one matrix for each size."""
    nodes, ptr = by_entry(torch.stack([node, face]), int(face.max()) + 1 if len(face) else 0)
    return [torch.unique(rows, dim=0) for _, rows in NodeLists(ptr, nodes).by_size()] or [nodes.view(0, 1)]


def _reach(graph: Adjacency, k: int, bound: Bound) -> list[Tensor]:
    """For every number of steps up to k, the pairs (start, node) that are so far apart, shape [2, pairs]."""
    count = max(graph.num_nodes, 1)
    nodes = torch.arange(graph.num_nodes, device=graph.ptr.device)
    seen = nodes * count + nodes
    front, steps, total = seen, [], 0
    for _ in range(k):
        front = _next(graph, front, seen, bound, total)
        total += len(front)
        seen = torch.cat([seen, front]).sort()[0]
        steps.append(torch.stack([front // count, front % count]))
    return steps


def _next(graph: Adjacency, front: Tensor, seen: Tensor, bound: Bound, total: int) -> Tensor:
    """The pairs one step further, as codes start * nodes + node, without those seen before."""
    count = graph.num_nodes
    start, node = front // max(count, 1), front % max(count, 1)
    degrees = graph.degree[node]
    bound.assert_time(int(degrees.sum()), "pairs with a step more")
    found = [front.new_zeros(0)]
    for chunk in chunks(degrees):
        which, after = graph.grow(node[chunk])
        codes = torch.unique(start[chunk][which] * count + after)
        spot = torch.searchsorted(seen, codes).clamp_(max=max(len(seen) - 1, 0))
        found.append(codes[seen[spot] != codes])
        bound.assert_room(total + len(found[-1]), "pairs")
    new: Tensor = torch.unique(torch.cat(found))
    bound.assert_room(total + len(new), "pairs")
    return new
