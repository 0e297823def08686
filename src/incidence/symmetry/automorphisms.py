r"""`automorphisms`: the relabellings of the nodes that keep every entry of a structure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from importlib.util import find_spec

import numpy as np

from incidence.errors import IncidenceError, TooLargeError, need
from incidence.structure.arguments import assert_structure
from incidence.structure.data import Array
from incidence.structure.structure import Structure
from incidence.symmetry.group import Group, direct_factors
from incidence.symmetry.search import (
    MAX_STEPS,
    ColouredGraph,
    coloured_graph,
    find_symmetries,
)

__all__ = ["ENGINES", "automorphisms"]

Symmetries = tuple[Array, int]
"""Generators on the nodes, shape (number, nodes), and the order of the group."""

_MAX_DENSE = 20_000  # vertices, as pynauty stores a bit for every pair
_EASY = 2_000  # steps of our search before `auto` turns to pynauty: a second or less


def automorphisms(structure: Structure, engine: str = "auto") -> Group:
    r"""Return the group $\mathrm{Aut}(X)$ of a structure X: the relabellings that keep its entries.

    Only the presence of entries counts, and neither their order nor values. Nodes keep their sort.

    Args:
        structure: One structure, not a batch.
        engine: `python`, the search that comes with the library; `pynauty`, which must be
            installed; or `auto`, the search and, if it is installed, pynauty for hard structures.

    Raises:
        IncidenceError: The structure is a batch, or there is no such engine.
        TooLargeError: The search gives up; pynauty may succeed.

    Example:
        >>> import torch
        >>> ring = Structure(5, {"{i j}": torch.tensor([[0, 1, 2, 3, 4], [1, 2, 3, 4, 0]])})
        >>> automorphisms(ring).order
        10
    """
    assert_structure(structure, "the first argument", "automorphisms(structure)")
    if structure.num_structures != 1:
        raise IncidenceError(
            f"automorphisms is for one structure; got a batch of {structure.num_structures}: take"
            " batch[k]."
        )
    if engine not in ENGINES:
        raise IncidenceError(
            f"no engine {engine!r} for automorphisms; there are: {', '.join(ENGINES)}."
        )
    return Group._of_all(structure, *ENGINES[engine](coloured_graph(structure)))


def _auto(graph: ColouredGraph) -> Symmetries:
    if graph.num_vertices > _MAX_DENSE or not find_spec("pynauty"):
        return _search(graph)
    try:
        return _search(graph, _EASY)
    except TooLargeError:
        return _pynauty(graph)


def _search(graph: ColouredGraph, max_steps: int = MAX_STEPS) -> Symmetries:
    symmetries, order = find_symmetries(graph, max_steps)
    generators = np.tile(np.arange(graph.num_nodes), (len(symmetries), 1))
    for row, moves in zip(generators, symmetries, strict=True):
        for a, b in moves.items():
            if a < graph.num_nodes:
                row[a] = b
    return generators, order


def _pynauty(graph: ColouredGraph) -> Symmetries:
    nauty = need("pynauty", "this engine for automorphisms", "symmetry")
    if not graph.num_vertices:
        return np.zeros((0, 0), dtype=np.int64), 1
    adjacency = {}
    for v, around in enumerate(graph.neighbours()):
        adjacency[v] = [u for u in around if u > v]  # every edge once
    cells = [set(cell) for cell in graph.cells()]
    coloured = nauty.Graph(graph.num_vertices, adjacency_dict=adjacency, vertex_coloring=cells)
    rows, mantissa, exponent, orbits, _ = nauty.autgrp(coloured)
    generators, order = _on_nodes(rows, graph), 1
    left = generators
    while exponent:
        # pynauty rounds orders from 10^10 on. An order is the size of an orbit times the order of
        # the stabiliser of a node in it. So one node of every factor becomes a cell by itself,
        # until the rest is exact.
        for nodes, _ in direct_factors(left):
            node, size = Counter(orbits[v] for v in nodes).most_common(1)[0]
            order *= size
            cells = [{node}, *(rest for cell in cells if (rest := cell - {node}))]
        coloured.set_vertex_coloring(cells)
        rows, mantissa, exponent, orbits, _ = nauty.autgrp(coloured)
        left = _on_nodes(rows, graph)
    return generators, order * round(mantissa)


def _on_nodes(rows: list[list[int]], graph: ColouredGraph) -> Array:
    on_vertices = np.array(rows, dtype=np.int64).reshape(len(rows), graph.num_vertices)
    return on_vertices[:, : graph.num_nodes]


ENGINES: dict[str, Callable[[ColouredGraph], Symmetries]] = {
    "auto": _auto,
    "python": _search,
    "pynauty": _pynauty,
}
"""The functions that find the symmetries of a coloured graph, by name."""
