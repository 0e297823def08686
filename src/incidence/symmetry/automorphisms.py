r"""`automorphisms`: the relabellings of the nodes that keep every entry of a structure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from importlib.util import find_spec

import numpy as np

from incidence.errors import IncidenceError, TooLargeError, need
from incidence.structure.data import Array
from incidence.structure.structure import Structure
from incidence.structure.validate import assert_structure
from incidence.symmetry.coloured import ColouredGraph, coloured_graph
from incidence.symmetry.factor import direct_factors
from incidence.symmetry.group import Group
from incidence.symmetry.search import MAX_STEPS, find_symmetries

__all__ = ["ENGINES", "automorphisms"]

Found = tuple[Array, int]
"""Generators on the nodes, shape (number, nodes); and the order."""

_MAX_DENSE = 20_000  # vertices: pynauty keeps a bit for every pair
_EASY = 2_000  # steps of the search before pynauty is asked: a second or less


def automorphisms(structure: Structure, engine: str = "auto") -> Group:
    r"""The group $\mathrm{Aut}(X)$ of a structure X: the relabellings that keep the entries of every tensor.

    Presence counts, not values; the order of entries does not. Nodes keep their sort.

    Args:
        structure: One structure, not a batch.
        engine: `python`, the search that comes with the library; `pynauty`, which must be installed; or `auto`: the search, and
            pynauty for what is hard for it, if pynauty is there.

    Raises:
        IncidenceError: A batch is given, or no such engine.
        TooLargeError: The search gives up; pynauty may do it.

    Example:
        >>> import torch
        >>> ring = Structure(5, {"{i j}": torch.tensor([[0, 1, 2, 3, 4], [1, 2, 3, 4, 0]])})
        >>> automorphisms(ring).order
        10
    """
    assert_structure(structure, "the first argument", "automorphisms(structure)")
    if structure.num_structures != 1:
        raise IncidenceError(
            f"automorphisms is for one structure; got a batch of {structure.num_structures}: take batch[k]."
        )
    if engine not in ENGINES:
        raise IncidenceError(
            f"no engine {engine!r} for automorphisms; there are: {', '.join(ENGINES)}."
        )
    return Group._of_all(structure, *ENGINES[engine](coloured_graph(structure)))


def _auto(graph: ColouredGraph) -> Found:
    if graph.num_vertices > _MAX_DENSE or not find_spec("pynauty"):
        return _search(graph)
    try:
        return _search(graph, _EASY)
    except TooLargeError:
        return _pynauty(graph)


def _search(graph: ColouredGraph, max_steps: int = MAX_STEPS) -> Found:
    found, order = find_symmetries(graph, max_steps)
    generators = np.tile(np.arange(graph.num_nodes), (len(found), 1))
    for row, moves in zip(generators, found, strict=True):
        for a, b in moves.items():
            if a < graph.num_nodes:
                row[a] = b
    return generators, order


def _pynauty(graph: ColouredGraph) -> Found:
    nauty = need("pynauty", "this engine for automorphisms", "symmetry")
    if not graph.num_vertices:
        return np.zeros((0, 0), dtype=np.int64), 1
    adjacency = {v: [u for u in around if u > v] for v, around in enumerate(graph.neighbours())}
    cells = [set(cell) for cell in graph.cells()]
    drawn = nauty.Graph(graph.num_vertices, adjacency_dict=adjacency, vertex_coloring=cells)
    found, mantissa, exponent, orbits, _ = nauty.autgrp(drawn)
    generators, order = _on_nodes(found, graph), 1
    left = generators
    while exponent:
        # Orders from 10^10 on come rounded. An order is the size of an orbit times the order of the stabiliser of a node in it; so one
        # node of every factor is made a cell of its own, until the rest is exact.
        for nodes, _ in direct_factors(left):
            node, size = Counter(orbits[v] for v in nodes).most_common(1)[0]
            order *= size
            cells = [{node}, *(rest for cell in cells if (rest := cell - {node}))]
        drawn.set_vertex_coloring(cells)
        found, mantissa, exponent, orbits, _ = nauty.autgrp(drawn)
        left = _on_nodes(found, graph)
    return generators, order * round(mantissa)


def _on_nodes(found: list[list[int]], graph: ColouredGraph) -> Array:
    return np.array(found, dtype=np.int64).reshape(len(found), graph.num_vertices)[
        :, : graph.num_nodes
    ]


ENGINES: dict[str, Callable[[ColouredGraph], Found]] = {
    "auto": _auto,
    "python": _search,
    "pynauty": _pynauty,
}
"""Ways to find the symmetries of a coloured graph."""
