"""Neighbourhoods of nodes as faces of mixed size."""

from __future__ import annotations

import torch
from torch import Tensor

from incidence.geometry.lifting.adjacency import adjacency, edge_pattern
from incidence.geometry.lifting.attach import attach, attach_faces, letters, named, open_text
from incidence.geometry.lifting.bounds import LIMIT, Bound, at_least
from incidence.geometry.lifting.hops import reach
from incidence.structure.ragged import code, group
from incidence.structure.structure import Structure

__all__ = ["neighbourhoods"]


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
    k = at_least("neighbourhoods", "k", k, 1)
    pattern = edge_pattern(structure, edges, "neighbourhoods")
    [sort] = set(pattern.sorts.values())
    graph = adjacency(structure, pattern)
    nodes = torch.arange(graph.num_nodes, device=graph.ptr.device)
    near = reach(graph, k, Bound("neighbourhoods", limit, "Lower k"))
    centre, node = torch.cat([torch.stack([nodes, nodes]), *near], dim=1)
    if centred:
        text = f"{letters(1, sort)[0]} {open_text(sort)}"
        return attach(structure, {named(name, text): (nodes[None], torch.stack([node, centre]))})
    return attach_faces(structure, {named(name, open_text(sort)): _different(centre, node)})


def _different(face: Tensor, node: Tensor) -> list[Tensor]:
    """The different sets among faces given by incidences, as rows of nodes, one matrix for each size."""
    order = code([face, node], [len(face) + 1, len(node) + 1])[0].argsort()
    face, node = face[order], node[order]
    sizes = torch.bincount(face)
    starts = sizes.cumsum(0) - sizes
    spots = [(starts[which, None] + torch.arange(size, device=node.device)) for size, which in group(sizes)]
    return [torch.unique(node[spot], dim=0) for spot in spots]
