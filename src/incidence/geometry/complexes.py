"""Structures from lists: graphs and hypergraphs from edges, complexes from facets, and the densest
structure on the same nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import combinations
from math import comb
from typing import Any

import numpy as np
import torch
from torch import Tensor

from incidence.algebra.grammar import MAX_LETTERS
from incidence.errors import IncidenceError
from incidence.geometry.assembly import assemble, assert_structure, brackets, face_text
from incidence.geometry.node_lists import (
    NodeLists,
    as_count,
    as_integer,
    assert_nodes,
    different,
    read_node_lists,
)
from incidence.structure import Structure, collate
from incidence.structure.ragged import MAX_ENTRIES, assert_few, by_entry
from incidence.structure.validate import as_matrix, assert_range

__all__ = [
    "close_downwards",
    "densify",
    "directed_complex",
    "graph",
    "hypergraph",
    "read_hyperedges",
    "simplicial_complex",
]


def graph(
    edge_index: object, num_nodes: int, directed: bool = False, oriented: bool = False
) -> Structure:
    r"""Build a graph: the tensor `{i j}`, `(i j)` for directed edges, or `<i j>` for edges with an
    orientation.

    The edges of the structure stand in the preferred order. `geometry.align` brings features of the
    edges, in the order of `edge_index`, into that order.

    Args:
        edge_index: The ends of every edge, shape [2, edges]. An edge may be given several times, an
            undirected one in either direction: it is one edge.
        num_nodes: The number of nodes.
        directed: Whether (i, j) and (j, i) are two edges.
        oriented: Whether they are one edge whose features, a flow, change sign with the direction;
            the reference is from the smaller node to the larger.

    Raises:
        IncidenceError: A node is out of range, or an edge is a self-loop; the message names the
            column.

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
            "graph: an edge is either directed, `(i j)`, or oriented, `<i j>`: give one of"
            " directed=, oriented=."
        )
    count = as_count(num_nodes)
    edges = as_matrix(edge_index, 2, "edge_index", "rows (one end, other end)", None)
    for row in range(2):
        assert_range(f"edge_index[{row}]", "an end of an edge", edges[row], "node", {"node": count})
    is_loop = edges[0] == edges[1]
    if is_loop.any():
        bad = int(is_loop.nonzero()[0])
        raise IncidenceError(
            f"edge_index[:, {bad}] is {tuple(edges[:, bad].tolist())}, a self-loop: the ends of an"
            " edge are different. Drop it, as in edge_index[:, edge_index[0] != edge_index[1]],"
            " and keep its features on the node; or use Structure with the pattern `i j`."
        )
    ends = edges.T if directed else edges.T.sort(dim=1)[0]  # (edges, 2)
    text = face_text(2, brackets="()" if directed else brackets(oriented))
    index = ends[different(ends, max(count, 1))].T.contiguous()  # (2, edges)
    return assemble(count, {text: index}, is_preferred=not directed)


def hypergraph(faces: Any, num_nodes: int, duplicates: str = "refuse") -> Structure:
    r"""Build a hypergraph: the tensor `{i ...}`, hyperedges of any size.

    The hyperedges of the structure stand in the preferred order: by size, then by nodes.
    `geometry.align` brings features of the hyperedges, in the order of `faces`, into that order.

    Args:
        faces: A list of hyperedges, each a list of nodes. Or a tensor or array of shape [2,
            incidences], rows (node, hyperedge), hyperedges numbered from 0 without gaps. A list is
            always read as a list of hyperedges.
        num_nodes: The number of nodes.
        duplicates: What happens to hyperedges on the same nodes: `"refuse"` raises an error;
            `"merge"` keeps one of them; `"keep"` makes every hyperedge a node of the sort `edge`,
            numbered as given, with the tensor `{i ...} e:edge` in place of `{i ...}`.

    Raises:
        IncidenceError: A hyperedge is empty, repeats a node or another hyperedge, or has a node out
            of range; the message names it.

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
        index = {"{i ...} e:edge": (edges[None], lists.index)}
        # Sorted by nodes; features of a hyperedge stay with its node, whose number does not change.
        return Structure({"edge": len(lists), "node": count}, index).canonical()[0]
    ordered, order, again = lists.arranged(count)
    if duplicates == "refuse" and again.any():
        spot = int(again.nonzero()[0])
        one, other = (place(int(order[k])) for k in (spot - 1, spot))
        raise IncidenceError(
            f"{one} and {other} have the same nodes. Give duplicates='merge' to keep one, or"
            " duplicates='keep' to make every hyperedge a node of a sort of its own."
        )
    return assemble(count, {"{i ...}": ordered.take((~again).nonzero()[:, 0]).index})


def read_hyperedges(name: str, faces: object) -> tuple[NodeLists, Callable[[int], str]]:
    """Return hyperedges from a list of node lists, or from a tensor of rows (node, hyperedge).

    Returns:
        The hyperedges; and a function from the number of a hyperedge to its name in errors.
    """
    if not isinstance(faces, (Tensor, np.ndarray)):
        return read_node_lists(name, faces), lambda k: f"{name}[{k}]"
    what = "rows (node, hyperedge); hyperedges in rows are given as a list of lists"
    members = as_matrix(faces, 2, name, what, None)  # (2, incidences)
    if members.numel() and int(members[1].min()) < 0:
        bad = int((members[1] < 0).nonzero()[0])
        raise IncidenceError(
            f"{name}[1, {bad}] is {int(members[1, bad])}: hyperedges are numbered from 0."
        )
    count = int(members[1].max()) + 1 if members.numel() else 0
    if count > members.shape[1]:
        raise IncidenceError(
            f"{name}: {members.shape[1]} incidences cannot make {count:,} hyperedges. These are"
            " numbered from 0 without gaps: renumber them, for example with"
            f" torch.unique({name}[1], return_inverse=True)."
        )
    nodes, ptr = by_entry(members, count)
    return NodeLists(ptr, nodes), lambda k: f"hyperedge {k} of {name}"


def simplicial_complex(
    facets: Any, num_nodes: int | None = None, max_size: int | None = None, oriented: bool = False
) -> Structure:
    r"""Build a simplicial complex: the tensors `{i j}`, `{i j k}`, ..., or `<i j>`, `<i j k>`, ...,
    with every subset of every facet.

    The faces of the structure stand in the preferred order, by ascending nodes. `geometry.align`
    brings features of faces in another order into it. A facet may repeat, or lie in another.

    Args:
        facets: A list of facets, each a list of nodes, of any sizes. Or a tensor or array of shape
            [size, facets], one column for each facet, as in an index.
        num_nodes: The number of nodes. Default: one more than the largest.
        max_size: The number of nodes of the largest faces. The structure then has the tensors of
            all sizes from 2 to `max_size`, some of them perhaps without entries, so that complexes
            of different dimension make a batch.
        oriented: Whether faces have an orientation, that of ascending nodes: features of `<i j>`,
            `<i j k>`, ... are flows, which change sign with it.

    Raises:
        IncidenceError: A facet is empty, repeats a node or has one out of range; the message names
            the facet.
        TooLargeError: There are too many faces to list.

    Example:
        >>> simplicial_complex([[0, 1, 2], [2, 3], [4]])
        Structure(num_nodes=5, '{i j}': 4 entries, '{i j k}': 1 entry)
        >>> simplicial_complex([range(10)], max_size=3)
        Structure(num_nodes=10, '{i j}': 45 entries, '{i j k}': 120 entries)
        >>> simplicial_complex([[2, 1, 0]], oriented=True)["<i j>"].T.tolist()
        [[0, 1], [0, 2], [1, 2]]
    """
    return _closure("simplicial_complex", "facets", facets, num_nodes, max_size, brackets(oriented))


def directed_complex(
    sequences: Any, num_nodes: int | None = None, max_size: int | None = None
) -> Structure:
    r"""Build a directed complex: the tensors `(i j)`, `(i j k)`, ..., with every subsequence of
    every given sequence.

    Args:
        sequences: A list of sequences of distinct nodes. Or a tensor or array of shape [size,
            sequences], one column for each.
        num_nodes: The number of nodes. Default: one more than the largest.
        max_size: As in `simplicial_complex`.

    Raises:
        IncidenceError: A sequence is empty, repeats a node or has one out of range; the message
            names it.
        TooLargeError: There are too many subsequences to list.

    Example:
        >>> directed_complex([[2, 0, 1]])["(i j)"].T.tolist()
        [[0, 1], [2, 0], [2, 1]]
    """
    return _closure("directed_complex", "sequences", sequences, num_nodes, max_size, "()")


def _closure(
    who: str, name: str, faces: Any, num_nodes: int | None, max_size: int | None, kind: str
) -> Structure:
    is_matrix = isinstance(faces, (Tensor, np.ndarray))
    lists = _columns(name, faces) if is_matrix else read_node_lists(name, faces)
    if num_nodes is None and not len(lists):
        raise IncidenceError(f"{name} is empty, and shows no number of nodes. Give num_nodes.")
    if num_nodes is None:
        count = int(lists.nodes.max()) + 1 if len(lists.nodes) else 0
    else:
        count = as_count(num_nodes)
    assert_nodes(lists, count, lambda k: f"{name}[:, {k}]" if is_matrix else f"{name}[{k}]")
    given = {
        nodes.shape[1]: nodes if kind == "()" else nodes.sort(dim=1)[0]
        for _, nodes in lists.by_size()
    }
    largest = max(given, default=1)
    top = largest
    if max_size is not None:
        top = as_integer(who, "max_size", max_size, 1, MAX_LETTERS)
    # The parts of one facet are all different: if they are too many, nothing is listed.
    for size in range(2, top + 1):
        _assert_few_faces(comb(largest, size), size)
    index = {
        face_text(size, brackets=kind): rows.T.contiguous()
        for size, rows in close_downwards(given, top, count).items()
    }
    return assemble(count, index, is_preferred=kind != "()")


def close_downwards(faces: Mapping[int, Tensor], top: int, num_nodes: int) -> dict[int, Tensor]:
    """Return the parts of faces that have 2 to `top` nodes, each once.

    Args:
        faces: For sizes the nodes of faces, (faces, size). A part keeps the order of its nodes.
        top: The largest size of parts.
        num_nodes: The number of nodes.
    """
    found = {}
    some = next(iter(faces.values()), torch.zeros(0, 1, dtype=torch.long))
    larger = some.new_zeros(0, top + 1)
    for size in range(top, 1, -1):
        parts = [_shorter(larger, size)]
        for width, nodes in faces.items():
            # A face larger than `top` is cut down once, from its own nodes; below, parts come from
            # the next larger ones.
            if width == size or width > size == top:
                parts.append(_shorter(nodes, size))
        rows = torch.cat(parts)  # (faces, size)
        larger = rows[different(rows, max(num_nodes, 1))]  # (faces, size), each once
        found[size] = larger
    return dict(reversed(found.items()))


def _columns(name: str, faces: Any) -> NodeLists:
    """Faces from a matrix that has a column for each."""
    if faces.ndim != 2 or faces.shape[0] > faces.shape[1] > 0:
        remedy = ". Give"
        if faces.ndim == 2:
            remedy = ", more rows than columns. Transpose it if its rows are faces, or give"
        raise IncidenceError(
            f"{name} must have shape [size, faces], a column for each face; got"
            f" {list(faces.shape)}{remedy} a list of faces."
        )
    matrix = as_matrix(faces, faces.shape[0], name, "one column for each face", None)
    return NodeLists.of_rows(matrix.T)


def _shorter(nodes: Tensor, size: int) -> Tensor:
    """All rows of so many nodes that are left when nodes of the given rows are deleted."""
    count, width = nodes.shape
    _assert_few_faces(count * comb(width, size), size)
    if not count or width == size:
        return nodes[:, :size]
    return torch.cat([nodes[:, list(places)] for places in combinations(range(width), size)])


def _assert_few_faces(count: int, size: int) -> None:
    limit = min(MAX_ENTRIES, 4 * MAX_ENTRIES // size)  # large faces take more room
    assert_few(count, limit, f"there are too many faces of {size} nodes", "Give a smaller max_size")


def densify(structure: Structure) -> Structure:
    r"""Return the structure on the same nodes, with the same tensors, in which every entry is
    present; each structure of a batch on its own.

    Raises:
        IncidenceError: A tensor has open faces, of which there is no complete list.
        TooLargeError: There are too many entries.

    Example:
        >>> densify(simplicial_complex([[0, 1, 2], [3]]))
        Structure(num_nodes=4, '{i j}': 6 entries, '{i j k}': 4 entries)
    """
    assert_structure("densify", structure)
    texts = [str(pattern) for pattern in structure.patterns]
    return collate([Structure.complete(one.counts, texts, device=one.device) for one in structure])
