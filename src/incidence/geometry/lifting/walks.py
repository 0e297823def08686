"""Walks along edges: nodes a few steps apart, neighbourhoods, paths of two edges, line graphs; and
all tuples of nodes.
"""

from __future__ import annotations

import torch
from torch import Tensor

from incidence.algebra.grammar import DEFAULT_SORT
from incidence.geometry.assembly import (
    assemble,
    assert_structure,
    attach,
    attach_faces,
    face_text,
    is_directed,
    letters,
    named,
    open_text,
)
from incidence.geometry.lifting.adjacency import (
    LIMIT,
    Adjacency,
    Bound,
    chunks,
    edge_pattern,
    pairs_in_groups,
    read_edges,
)
from incidence.geometry.node_lists import NodeLists, as_integer
from incidence.structure import Structure, collate
from incidence.structure.ragged import by_entry, expand, ranges

__all__ = ["khop", "line_graph", "neighbourhoods", "paths", "tuples"]


def khop(
    structure: Structure,
    k: int = 2,
    *,
    exact: bool = False,
    name: str | None = None,
    edges: str | None = None,
    limit: int | None = LIMIT,
) -> Structure:
    r"""Add the pairs of different nodes that are at most k steps apart, as a tensor `hopk={i j}`;
    with directed edges `hopk=(i j)`.

    Args:
        structure: One structure or a batch. Steps follow the direction of edges that have one.
        k: The number of steps.
        exact: Whether only pairs at distance k count, and none that are nearer.
        name: The name of the new tensor. Default: `hop2` for two steps.
        edges: The tensor whose entries are the edges. Default: the only one there is.
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
    pattern, sort, graph = read_edges(structure, edges, "khop", directed=True)
    steps = _reach(graph, k, Bound("khop", limit, "Lower k"))
    pairs = torch.cat(steps[-1:] if exact else steps, dim=1)  # (2, pairs)
    name = name or f"hop{k}"
    if is_directed(pattern):
        return attach(structure, {named(name, face_text(2, sort, "()")): pairs})
    return attach_faces(
        structure, {named(name, face_text(2, sort)): [pairs[:, pairs[0] < pairs[1]].T]}
    )


def neighbourhoods(
    structure: Structure,
    k: int = 1,
    *,
    centred: bool = False,
    name: str | None = "neighbourhood",
    edges: str | None = None,
    limit: int | None = LIMIT,
) -> Structure:
    r"""Add every node with all nodes at most k steps from it, as a hyperedge: a tensor
    `neighbourhood={i ...}`.

    Args:
        structure: One structure or a batch. Directions of edges are ignored.
        k: The number of steps.
        centred: Whether entries have their centre: `neighbourhood=i {i ...}`, one entry for every
            node. If not, nodes with the same neighbourhood share one entry.
        name: The name of the new tensor; None for `{i ...}` itself.
        edges: The tensor whose entries are the edges. Default: the only one there is.
        limit: How many incidences may result; None for any number.

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
    _, sort, graph = read_edges(structure, edges, "neighbourhoods")
    nodes = torch.arange(graph.num_nodes, device=graph.ptr.device)
    near = _reach(graph, k, Bound("neighbourhoods", limit, "Lower k"))
    centre, node = torch.cat([torch.stack([nodes, nodes]), *near], dim=1)
    if centred:
        text = f"{letters(1, sort)[0]} {open_text(sort)}"
        return attach(structure, {named(name, text): (nodes[None], torch.stack([node, centre]))})
    members, ptr = by_entry(torch.stack([node, centre]), graph.num_nodes)
    different = [torch.unique(rows, dim=0) for _, rows in NodeLists(ptr, members).by_size()]
    return attach_faces(
        structure, {named(name, open_text(sort)): different or [members.view(0, 1)]}
    )


def _reach(graph: Adjacency, k: int, bound: Bound) -> list[Tensor]:
    """For every number of steps up to k, the pairs (start, node) that are so far apart, shape [2,
    pairs].
    """
    count = max(graph.num_nodes, 1)
    nodes = torch.arange(graph.num_nodes, device=graph.ptr.device)
    front = seen = nodes * count + nodes  # pairs as codes start * nodes + node
    steps = []
    total = 0
    for _ in range(k):
        start = front // count
        node = front % count
        degrees = graph.degree[node]
        bound.assert_time(int(degrees.sum()), "pairs with a step more")
        new = [front.new_zeros(0)]
        for chunk in chunks(degrees):
            which, after = graph.grow(node[chunk])
            # pairs with a step more, each once
            codes = torch.unique(start[chunk][which] * count + after)
            spot = torch.searchsorted(seen, codes).clamp_(max=max(len(seen) - 1, 0))
            # What was met before is nearer.
            new.append(codes[seen[spot] != codes])
            bound.assert_room(total + len(new[-1]), "pairs")
        front = torch.unique(torch.cat(new))
        total += len(front)
        bound.assert_room(total, "pairs")
        seen = torch.cat([seen, front]).sort()[0]
        steps.append(torch.stack([front // count, front % count]))
    return steps


def paths(
    structure: Structure,
    *,
    backtrack: bool = True,
    name: str | None = None,
    edges: str | None = None,
    limit: int | None = LIMIT,
) -> Structure:
    r"""Add the pairs of edges that meet head to tail, `(i j) (j k)`; with undirected edges those
    that share a node, `{i j} {j k}`.

    Args:
        structure: One structure or a batch. Loops are left out.
        backtrack: Whether i and k may be one node: an edge and its reverse, or an undirected edge
            with itself.
        name: A name for the new tensor.
        edges: The tensor whose entries are the edges. Default: the only one there is.
        limit: How many pairs may result; None for any number.

    Raises:
        TooLargeError: There are more pairs than the limit.

    Example:
        >>> fork = Structure(4, {"(i j)": [[0, 1, 1], [1, 2, 3]]})
        >>> paths(fork)["(i j) (j k)"].tolist()
        [[0, 0], [1, 1], [2, 3]]
    """
    pattern, sort, graph = read_edges(structure, edges, "paths", directed=True)
    bound = Bound("paths", limit, "Leave out edges at nodes of high degree")
    bound.assert_room(int(graph.degree[graph.neighbour].sum()), "pairs of edges")
    arc, last = graph.grow(graph.neighbour)  # for every arc the nodes one step after its end
    first = graph.source[arc]
    middle = graph.neighbour[arc]
    is_entry = first != last
    if backtrack and is_directed(pattern):
        is_entry = torch.ones_like(is_entry)
    elif backtrack:  # an undirected edge with itself is one entry, from either end
        is_entry |= first < middle
    left, right = "()" if is_directed(pattern) else "{}"
    i, j, k = letters(3, sort)
    text = named(name, f"{left}{i} {j}{right} {left}{j} {k}{right}")
    return attach(structure, {text: torch.stack([first, middle, last])[:, is_entry]})


def line_graph(
    structure: Structure, *, edges: str | None = None, limit: int | None = LIMIT
) -> Structure:
    r"""Return the structure whose nodes are the edges of another, in their order; `{i j}` joins
    edges that share a node.

    For directed edges, `(i j)` joins an edge to those that start where it ends. Features of the
    edges are features of the new nodes.

    Args:
        structure: One structure or a batch.
        edges: The tensor whose entries are the edges. Default: the only one there is.
        limit: How many pairs of edges may result; None for any number.

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
    sizes = structure.entry_ptr(pattern).diff()
    lines = collate([Structure(count, device=structure.device) for count in sizes.tolist()])
    if is_directed(pattern):  # the second starts where the first ends
        starting, order = source.sort(stable=True)
        num_nodes = structure.counts[pattern.sorts[pattern.letters[0]]]
        # the edges that start at each node
        leaving = Adjacency(ranges(torch.bincount(starting, minlength=num_nodes)), order)
        bound.assert_room(int(leaving.degree[target].sum()), "pairs of edges")
        first, second = leaving.grow(target)
        return attach(lines, {"(i j)": torch.stack([first, second])[:, first != second]})
    edge = torch.arange(len(source), device=source.device)
    apart = source != target  # a loop meets its node once
    node, order = torch.cat([source, target[apart]]).sort(stable=True)
    edge = torch.cat([edge, edge[apart]])[order]
    meeting = pairs_in_groups(node, bound.assert_room, "pairs of edges")
    rows = [torch.stack([edge[one], edge[other]], 1) for one, other in meeting]
    return attach_faces(lines, {"{i j}": [torch.cat([edge.new_zeros(0, 2), *rows])]})


def tuples(
    structure: Structure,
    k: int = 2,
    *,
    sort: str = DEFAULT_SORT,
    name: str | None = None,
    limit: int | None = LIMIT,
) -> Structure:
    r"""Add all k-tuples of nodes, repeats allowed: `i j` for two, `i j k` for three; in a batch
    those of each structure.

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
    total = sum(n**k for n in sizes.tolist())
    Bound("tuples", limit, "Lower k").assert_room(total, f"tuples of {k} nodes")
    text = named(name, " ".join(letters(k, sort)))
    different, kind = torch.unique(sizes, return_inverse=True)
    plain = " ".join(letters(k))
    columns = []
    for n in different.tolist():  # the preferred order is the same for all structures of a size
        numbers = torch.arange(n**k, device=structure.device)
        rows = torch.stack([numbers // n ** (k - 1 - p) % max(n, 1) for p in range(k)])
        columns.append(assemble(n, {plain: rows}, is_preferred=False)[plain])
    counts = torch.tensor([rows.shape[1] for rows in columns])
    starts = ranges(counts)[:-1].to(structure.device)
    home, place = expand(starts[kind], sizes**k)
    index = torch.cat(columns, dim=1)[:, place] + ranges(sizes)[home]
    return attach(structure, {text: index}, is_preferred=True)
