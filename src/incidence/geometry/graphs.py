"""Graphs and hypergraphs from lists of edges."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from incidence.errors import IncidenceError
from incidence.geometry.assembly import assemble, brackets, face_text
from incidence.geometry.node_lists import (
    NodeLists,
    as_count,
    assert_nodes,
    different,
    read_node_lists,
)
from incidence.structure import Structure
from incidence.structure.ragged import by_entry
from incidence.structure.validate import as_matrix, assert_range

__all__ = ["graph", "hypergraph"]


def graph(
    edge_index: object, num_nodes: int, directed: bool = False, oriented: bool = False
) -> Structure:
    r"""A graph: the tensor `{i j}`, `(i j)` if it is directed, or `<i j>` if its edges have an orientation.

    The edges of the structure stand in the preferred order. `geometry.align` brings features of the edges, in the order of
    `edge_index`, into that order.

    Args:
        edge_index: The ends of every edge, shape [2, edges]. An edge may be given several times, an undirected one in either
            direction: it is one edge.
        num_nodes: The number of nodes.
        directed: Whether (i, j) and (j, i) are two edges.
        oriented: Whether they are one edge whose features, a flow, change sign with the direction; the reference is from the smaller node
            to the larger.

    Raises:
        IncidenceError: A node is out of range, or an edge is a self-loop; the message names the column.

    Example:
        >>> graph([[0, 1, 1, 2], [1, 0, 2, 3]], num_nodes=4)
        Structure(num_nodes=4, '{i j}': 3 entries)
        >>> graph([[0, 1, 1, 2], [1, 0, 2, 3]], num_nodes=4, directed=True)
        Structure(num_nodes=4, '(i j)': 4 entries)
        >>> graph([[1, 2], [0, 1]], num_nodes=3, oriented=True)["<i j>"].tolist()
        [[0, 1], [1, 2]]
    """
    if directed and oriented:
        raise IncidenceError(
            "graph: an edge is either directed, `(i j)`, or oriented, `<i j>`: give one of directed=, oriented=."
        )
    count = as_count(num_nodes)
    edges = as_matrix(edge_index, 2, "edge_index", "rows (one end, other end)", None)
    for row in range(2):
        assert_range(f"edge_index[{row}]", "an end of an edge", edges[row], "node", {"node": count})
    is_loop = edges[0] == edges[1]
    if is_loop.any():
        bad = int(is_loop.nonzero()[0])
        raise IncidenceError(
            f"edge_index[:, {bad}] is {tuple(edges[:, bad].tolist())}, a self-loop: the ends of an edge are different. Drop it, as in "
            f"edge_index[:, edge_index[0] != edge_index[1]], and keep its features on the node; or use Structure with the pattern `i j`."
        )
    ends = edges.T if directed else edges.T.sort(dim=1)[0]
    kept = ends[different(ends, max(count, 1))].T.contiguous()
    return assemble(
        count,
        {"(i j)" if directed else face_text(2, brackets=brackets(oriented)): kept},
        is_preferred=not directed,
    )


def hypergraph(faces: Any, num_nodes: int, duplicates: str = "refuse") -> Structure:
    r"""A hypergraph: the tensor `{i ...}`, hyperedges of any size.

    The hyperedges of the structure stand in the preferred order: by size, then by nodes. `geometry.align` brings features of the
    hyperedges, in the order of `faces`, into that order.

    Args:
        faces: A list of hyperedges, each a list of nodes. Or a tensor or array of shape [2, incidences], rows (node, hyperedge),
            hyperedges numbered from 0 without gaps. A list is always read as a list of hyperedges.
        num_nodes: The number of nodes.
        duplicates: What to do with hyperedges on the same nodes. `"refuse"`; `"merge"` keeps one of them; `"keep"` makes every
            hyperedge a node of the sort `edge`, numbered as given, with the tensor `{i ...} e:edge` in place of `{i ...}`.

    Raises:
        IncidenceError: A hyperedge is empty, repeats a node or another hyperedge, or has a node out of range; the message names it.

    Example:
        >>> hypergraph([[0, 1, 2], [2, 3], [1]], num_nodes=5)
        Structure(num_nodes=5, '{i ...}': 3 entries)
        >>> hypergraph([[0, 1], [1, 0]], num_nodes=2, duplicates="keep")
        Structure(num_nodes={'edge': 2, 'node': 2}, '{i ...} e:edge': 2 entries)
    """
    count = as_count(num_nodes)
    if duplicates not in ("refuse", "merge", "keep"):
        raise IncidenceError(
            f"duplicates must be one of 'refuse', 'merge', 'keep'; got {duplicates!r}."
        )
    lists, place = read_hyperedges("faces", faces)
    assert_nodes(lists, count, place)
    if duplicates == "keep":
        edges = torch.arange(len(lists), device=lists.ptr.device)
        return Structure(
            {"edge": len(lists), "node": count}, {"{i ...} e:edge": (edges[None], lists.index)}
        ).canonical()[0]
    ordered, order, again = lists.arranged(count)
    if duplicates == "refuse" and again.any():
        spot = int(again.nonzero()[0])
        one, other = (place(int(order[k])) for k in (spot - 1, spot))
        raise IncidenceError(
            f"{one} and {other} have the same nodes. Give duplicates='merge' to keep one, or duplicates='keep' to make every hyperedge a "
            f"node of a sort of its own."
        )
    return assemble(count, {"{i ...}": ordered.take((~again).nonzero()[:, 0]).index})


def read_hyperedges(name: str, faces: object) -> tuple[NodeLists, Callable[[int], str]]:
    """Hyperedges from a list of node lists, or from a tensor of rows (node, hyperedge); and how messages call each."""
    if not isinstance(faces, (Tensor, np.ndarray)):
        return read_node_lists(name, faces), lambda k: f"{name}[{k}]"
    members = as_matrix(
        faces,
        2,
        name,
        "rows (node, hyperedge); hyperedges in rows are given as a list of lists",
        None,
    )
    if members.numel() and int(members[1].min()) < 0:
        bad = int((members[1] < 0).nonzero()[0])
        raise IncidenceError(
            f"{name}[1, {bad}] is {int(members[1, bad])}: hyperedges are numbered from 0."
        )
    count = int(members[1].max()) + 1 if members.numel() else 0
    if count > members.shape[1]:
        raise IncidenceError(
            f"{name}: {members.shape[1]} incidences cannot make {count:,} hyperedges. These are numbered from 0 without gaps: renumber "
            f"them, for example with torch.unique({name}[1], return_inverse=True)."
        )
    nodes, ptr = by_entry(members, count)
    return NodeLists(ptr, nodes), lambda k: f"hyperedge {k} of {name}"
