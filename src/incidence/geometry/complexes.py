"""Complexes: everything below the given faces. Simplicial, directed, and the densest one on the same nodes."""

from __future__ import annotations

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
from incidence.structure.ragged import MAX_ENTRIES, assert_few
from incidence.structure.validate import as_matrix

__all__ = ["densify", "directed_complex", "simplicial_complex"]


def simplicial_complex(
    facets: Any, num_nodes: int | None = None, max_size: int | None = None, oriented: bool = False
) -> Structure:
    r"""A simplicial complex: the tensors `{i j}`, `{i j k}`, ..., or `<i j>`, `<i j k>`, ..., with every subset of every facet.

    The faces of the structure stand in the preferred order, by ascending nodes; `geometry.align` brings features of faces in
    another order into it. A facet may repeat, or lie in another.

    Args:
        facets: A list of facets, each a list of nodes, of any sizes. Or a tensor or array of shape [size, facets], one column for
            each facet, as in an index.
        num_nodes: The number of nodes; if not given, one more than the largest.
        max_size: Faces have at most so many nodes. The structure then has the tensors of all sizes from 2 to `max_size`, some of
            them perhaps without entries, so that complexes of different dimension make a batch.
        oriented: Whether faces have an orientation, that of ascending nodes: features of `<i j>`, `<i j k>`, ... are flows, which change
            sign with it.

    Raises:
        IncidenceError: A facet is empty, repeats a node or has one out of range; the message names the facet.
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
    r"""A directed complex: the tensors `(i j)`, `(i j k)`, ..., with every subsequence of every given sequence.

    Args:
        sequences: A list of sequences of distinct nodes. Or a tensor or array of shape [size, sequences], one column for each.
        num_nodes: The number of nodes; if not given, one more than the largest.
        max_size: As in `simplicial_complex`.

    Raises:
        IncidenceError: A sequence is empty, repeats a node or has one out of range; the message names it.
        TooLargeError: There are too many subsequences to list.

    Example:
        >>> directed_complex([[2, 0, 1]])["(i j)"].T.tolist()
        [[0, 1], [2, 0], [2, 1]]
    """
    return _closure("directed_complex", "sequences", sequences, num_nodes, max_size, "()")


def _closure(
    who: str, name: str, faces: Any, num_nodes: int | None, max_size: int | None, kind: str
) -> Structure:
    is_columns = isinstance(faces, (Tensor, np.ndarray))
    if is_columns and (faces.ndim != 2 or faces.shape[0] > faces.shape[1] > 0):
        why = (
            ", more rows than columns. Transpose it if its rows are faces, or give"
            if faces.ndim == 2
            else ". Give"
        )
        raise IncidenceError(
            f"{name} must have shape [size, faces], a column for each face; got {list(faces.shape)}{why} a list of faces."
        )
    columns = (
        as_matrix(faces, faces.shape[0], name, "one column for each face", None)
        if is_columns
        else None
    )
    lists = read_node_lists(name, faces) if columns is None else NodeLists.of_rows(columns.T)
    if num_nodes is None and not len(lists):
        raise IncidenceError(
            f"{name} is empty, so nothing tells the number of nodes. Give num_nodes."
        )
    count = (
        int(torch.cat([lists.nodes, lists.ptr[:1] - 1]).max()) + 1
        if num_nodes is None
        else as_count(num_nodes)
    )
    assert_nodes(lists, count, lambda k: f"{name}[:, {k}]" if is_columns else f"{name}[{k}]")
    given = {
        nodes.shape[1]: nodes if kind == "()" else nodes.sort(dim=1)[0]
        for _, nodes in lists.by_size()
    }
    top = (
        as_integer(who, "max_size", max_size, 1, MAX_LETTERS)
        if max_size is not None
        else max(given, default=1)
    )
    for size in range(
        2, top + 1
    ):  # the parts of one facet are all different: what they exceed need not be tried
        _assert_few(comb(max(given, default=1), size), size)
    index, larger = {}, lists.nodes.new_zeros(0, top + 1)
    for size in range(top, 1, -1):
        parts = [_shorter(larger, size)]
        parts += [
            _shorter(nodes, size)
            for own, nodes in given.items()
            if own == size or own > size == top
        ]
        faces = torch.cat(parts)
        larger = faces[different(faces, max(count, 1))]
        index[face_text(size, brackets=kind)] = larger.T.contiguous()
    return assemble(count, dict(reversed(index.items())), is_preferred=kind != "()")


def _shorter(nodes: Tensor, size: int) -> Tensor:
    """All rows of so many nodes that are left of the given rows when others are deleted, order kept."""
    count, width = nodes.shape
    _assert_few(count * comb(width, size), size)
    if not count or width == size:
        return nodes[:, :size]
    return torch.cat([nodes[:, list(kept)] for kept in combinations(range(width), size)])


def _assert_few(count: int, size: int) -> None:
    limit = min(MAX_ENTRIES, 4 * MAX_ENTRIES // size)  # large faces take more room
    assert_few(count, limit, f"there are too many faces of {size} nodes", "Give a smaller max_size")


def densify(structure: Structure) -> Structure:
    r"""The structure on the same nodes with the same tensors in which every entry is present; each structure of a batch for itself.

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
