"""Tuples of nodes and of edges: paths of two edges, line graphs, and all tuples of nodes."""

from __future__ import annotations

import torch
from torch import Tensor

from incidence.algebra.grammar import DEFAULT_SORT
from incidence.geometry.assembly import assemble, assert_structure, attach, attach_faces, is_directed, letters, named
from incidence.geometry.lifting.adjacency import LIMIT, Adjacency, Bound, adjacency, edge_pattern, pairs_in_groups
from incidence.geometry.node_lists import as_integer
from incidence.structure import Structure, collate
from incidence.structure.ragged import expand, ranges

__all__ = ["line_graph", "paths", "tuples"]


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
    bound = Bound("paths", limit, "Leave out edges at nodes of high degree")
    bound.assert_room(int(graph.degree[graph.neighbour].sum()), "pairs of edges")
    arc, last = graph.grow(graph.neighbour)  # for every arc the nodes one step after its end
    first, middle = graph.source[arc], graph.neighbour[arc]
    left, right = "()" if is_directed(pattern) else "{}"
    # An undirected edge with itself is one entry, whichever end it is seen from.
    kept = (first != last) | (backtrack and (torch.tensor(is_directed(pattern)) | (first < middle)))
    i, j, k = letters(3, sort)
    text = named(name, f"{left}{i} {j}{right} {left}{j} {k}{right}")
    return attach(structure, {text: torch.stack([first, middle, last])[:, kept]})


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
    source, target = structure[pattern]
    [sort] = set(pattern.sorts.values())
    sizes = torch.bincount(structure.batch(pattern), minlength=structure.num_structures)
    lines = collate([Structure(count, device=structure.device) for count in sizes.tolist()])
    if is_directed(pattern):
        return attach(lines, {"(i j)": _head_to_tail(source, target, structure.counts[sort], bound)})
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
    found = [torch.stack([edge[one], edge[other]], 1) for one, other in pairs_in_groups(node, bound.assert_room, "pairs of edges")]
    return torch.cat([edge.new_zeros(0, 2), *found])


def tuples(structure: Structure, k: int = 2, *, sort: str = DEFAULT_SORT, name: str | None = None, limit: int | None = LIMIT) -> Structure:
    r"""Adds all k-tuples of nodes, repeats allowed: `i j` for two, `i j k` for three; in a batch those of each structure.

    Args:
        structure: One structure or a batch.
        k: The number of nodes of a tuple.
        sort: The sort of the nodes.
        name: A name for the new tensor.
        limit: How many tuples may be made; None for any number.

    Raises:
        TooLargeError: There are more tuples than the limit.

    Example:
        >>> tuples(Structure(4), 3)
        Structure(num_nodes=4, 'i j k': 64 entries)
    """
    k = as_integer("tuples", "k", k, 2)
    assert_structure("tuples", structure)
    node = f"i:{sort}"
    sizes = torch.bincount(structure.batch(node), minlength=structure.num_structures)
    Bound("tuples", limit, "Lower k").assert_room(sum(n**k for n in sizes.tolist()), f"tuples of {k} nodes")
    text = named(name, " ".join(letters(k, sort)))
    different, kind = torch.unique(sizes, return_inverse=True)
    columns = [_all(n, k).to(structure.device) for n in different.tolist()]
    starts = ranges(torch.tensor([own.shape[1] for own in columns]))[:-1].to(structure.device)
    home, place = expand(starts[kind], sizes**k)
    return attach(structure, {text: torch.cat(columns, dim=1)[:, place] + ranges(sizes)[home]}, is_preferred=True)


def _all(num_nodes: int, k: int) -> Tensor:
    """The tuples of so many nodes in the preferred order, which is found once for all structures of that size."""
    numbers = torch.arange(num_nodes**k)
    columns = torch.stack([numbers // num_nodes ** (k - 1 - p) % max(num_nodes, 1) for p in range(k)])
    text = " ".join(letters(k))
    return assemble(num_nodes, {text: columns}, is_preferred=False)[text]  # type: ignore[no-any-return]
