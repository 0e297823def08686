r"""Theorem A.1: what layers of relaxed symmetry on the node-edge incidence make of node and edge features, against one exact layer.

On an undirected graph with node features n and edge features e, $V_X$ is the span of the nine operators of `i, {i j} -> i, {i j}`. A
relaxed layer works on `i {i j}`, which carries n and e in two channels; what it gives is read as a node feature where it is repeated
across the edges at each node, and as an edge feature where it is repeated across the nodes of each edge. $V_Y$ is the span of what
one such layer gives. Products of spans are the spans of products: there are as many channels in between as needed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product

import torch
from torch import Tensor

from incidence.algebra.reading import read
from incidence.errors import IncidenceError
from incidence.nn.exchangeable import Exchangeable
from incidence.nn.linear import Linear
from incidence.structure import Structure, carry
from incidence.theorems.spans import basis, is_within, rank

__all__ = ["Comparison", "theorem_a1"]

_SIZES = {"i": 0, "{i j}": 1}


@dataclass(frozen=True)
class Comparison:
    """Relaxed layers against one exact layer.

    Attributes:
        exact: The dimension of $V_X$, of one exact layer.
        relaxed: The dimension of $V_Y$, of one relaxed layer.
        stacked: The dimension of the span of several relaxed layers in a row.
        relaxed_is_within: Whether $V_Y$ is part of $V_X$: statement (a).
        stacked_is_within: Whether the stacked layers stay in $V_X$.
        missing_once: The operators of $V_X$ that one relaxed layer does not give.
        missing: Those that the stacked layers do not give. Statement (b) says there are none.
    """

    exact: int
    relaxed: int
    stacked: int
    relaxed_is_within: bool
    stacked_is_within: bool
    missing_once: tuple[str, ...]
    missing: tuple[str, ...]

    @property
    def is_equal(self) -> bool:
        """Whether the stacked layers span exactly what one exact layer does: statement (b)."""
        return self.stacked_is_within and self.stacked == self.exact


def theorem_a1(graphs: Structure | Sequence[Structure], layers: int = 2) -> Comparison:
    """Compares the spans on a graph; or on several graphs that share their weights.

    Args:
        graphs: A structure with undirected edges `{i j}`, or a list of them.
        layers: How many relaxed layers are stacked.

    Example:
        >>> found = theorem_a1(Structure.complete(4, ["{i j}"]))
        >>> found.relaxed, found.exact, found.stacked, found.missing_once, found.is_equal
        (8, 9, 9, ('y[{i a}] = sum_j x[{i j}]',), True)
    """
    is_list = isinstance(graphs, Iterable) and not isinstance(graphs, Structure)
    listed: list[Structure] = [*graphs] if is_list else [graphs]  # type: ignore[list-item]
    if not listed or not all(isinstance(g, Structure) and g.num_structures == 1 for g in listed):
        raise IncidenceError("theorem_a1 takes a graph, or a list of graphs: structures with the edges `{i j}`.")
    if any(not g.total_nodes for g in listed):
        raise IncidenceError("theorem_a1 compares maps of node and edge features: every graph needs a node; got one without nodes.")
    if isinstance(layers, bool) or not isinstance(layers, int) or layers < 1:
        raise IncidenceError(f"layers is a number of relaxed layers, at least 1; got {layers!r}.")
    sizes = [(g.num_entries("i"), g.num_entries("{i j}")) for g in listed]
    names, exact = _exact(listed, sizes)
    once = _relaxed(listed, sizes)
    stacked = basis(once)
    for _ in range(layers - 1):
        stacked = basis(_products(stacked, basis(once), sizes))
    return Comparison(
        exact=rank(exact),
        relaxed=rank(once),
        stacked=len(stacked),
        relaxed_is_within=bool(is_within(once, exact).all()),
        stacked_is_within=bool(is_within(stacked, exact).all()),
        missing_once=_names_outside(names, exact, once),
        missing=_names_outside(names, exact, stacked),
    )


def _names_outside(names: Sequence[str], exact: Tensor, span: Tensor) -> tuple[str, ...]:
    return tuple(name for name, is_in in zip(names, is_within(exact, span).tolist(), strict=True) if not is_in)


def _in_block(matrix: Tensor, size: tuple[int, int], target: int, source: int) -> Tensor:
    """A matrix between nodes (0) and edges (1) as one on all features of a graph, nodes first."""
    whole = torch.zeros(sum(size), sum(size), dtype=torch.float64)
    starts = (0, size[0])
    rows, columns = (slice(starts[k], starts[k] + size[k]) for k in (target, source))
    whole[rows, columns] = matrix
    return whole


def _as_vector(matrices: Sequence[Tensor]) -> Tensor:
    """One map on all graphs as a vector."""
    return torch.cat([m.flatten() for m in matrices])


def _exact(graphs: Sequence[Structure], sizes: Sequence[tuple[int, int]]) -> tuple[list[str], Tensor]:
    layer = Linear("i, {i j} -> i, {i j}", 1, 1)
    names, vectors = [], []
    for number, operation in enumerate(layer.map.operations):
        places = operation.target.tensor, operation.source.tensor
        parts = [_in_block(layer.operator(number, g).to_dense(), size, *places) for g, size in zip(graphs, sizes, strict=True)]
        names.append(read(operation).formula)
        vectors.append(_as_vector(parts))
    return names, torch.stack(vectors)


def _relaxed(graphs: Sequence[Structure], sizes: Sequence[tuple[int, int]]) -> Tensor:
    """What one relaxed layer gives: every operation, on either feature, read as either feature where that can be."""
    each = [list(_readings(graph)) for graph in graphs]
    vectors = [torch.zeros(0, sum(sum(size) ** 2 for size in sizes), dtype=torch.float64)]
    for found in zip(*each, strict=True):
        target, source, _ = found[0]
        if all(matrix is not None for _, _, matrix in found):
            parts = [_in_block(m, size, target, source) for (_, _, m), size in zip(found, sizes, strict=True) if m is not None]
            vectors.append(_as_vector(parts)[None])
    return torch.cat(vectors)


def _readings(graph: Structure) -> Iterator[tuple[int, int, Tensor | None]]:
    """For every operation, input and output feature: the map between them, or None where the output is no such feature."""
    edges = graph["{i j}"]
    incidence = graph.with_index({"i {i j}": torch.cat([edges, edges.flip(0)], dim=1)})
    carried = {text: carry(incidence, text, "i {i j}", torch.eye(graph.num_entries(text), dtype=torch.float64)) for text in _SIZES}
    layer = Exchangeable("i {i j}", 1, 1)
    for number in range(layer.num_operations):
        operator = layer.linear.operator(number, layer.relax(incidence)).to_dense()
        for source, target in product(_SIZES, repeat=2):
            value = operator @ carried[source]
            found = torch.linalg.pinv(carried[target]) @ value
            is_read = torch.allclose(carried[target] @ found, value, atol=1e-9)
            yield _SIZES[target], _SIZES[source], found if is_read else None


def _products(later: Tensor, first: Tensor, sizes: Sequence[tuple[int, int]]) -> Tensor:
    """All products of maps of one span with maps of another, graph by graph."""
    squares = [sum(size) ** 2 for size in sizes]
    parts = []
    for a, b, size in zip(later.split(squares, 1), first.split(squares, 1), sizes, strict=True):
        q = sum(size)
        products = torch.einsum("xij,yjk->xyik", a.reshape(-1, q, q), b.reshape(-1, q, q))
        parts.append(products.reshape(len(later) * len(first), q * q))
    return torch.cat(parts, dim=1)
