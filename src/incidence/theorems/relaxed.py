r"""Theorem A.1: layers of relaxed symmetry on the node-edge incidence, against one exact layer.

On an undirected graph with node features n and edge features e, $V_X$ is the span of the nine
operators of `i, {i j} -> i, {i j}`. A relaxed layer works on `i {i j}`, with n and e in two
channels. Its output is a node feature if it is equal for all edges at a node, and an edge feature
if it is equal for both nodes of an edge. $V_Y$ is the span of the outputs of one such layer.
Products of spans are the spans of products, as there are as many channels in between as needed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from math import isqrt
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad

from incidence.algebra.describe import read
from incidence.errors import IncidenceError
from incidence.nn.exchangeable import Exchangeable
from incidence.nn.linear import Linear
from incidence.structure import Structure, carry, collate
from incidence.theorems.spans import basis, is_within, rank

__all__ = ["Comparison", "theorem_a1"]


@dataclass(frozen=True)
class Comparison:
    """Relaxed layers against one exact layer.

    Attributes:
        exact: The dimension of $V_X$, of one exact layer.
        relaxed: The dimension of $V_Y$, of one relaxed layer.
        stacked: The dimension of the span of several relaxed layers in a row.
        relaxed_is_within: Whether $V_Y$ is part of $V_X$: statement (a).
        stacked_is_within: Whether the span of the stacked layers is part of $V_X$.
        missing_once: The operators of $V_X$ that are not in $V_Y$.
        missing: The operators of $V_X$ that stacked layers cannot compute. Statement (b) says that
            there are none.
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
        """Whether the stacked layers have the same span as one exact layer: statement (b)."""
        return self.stacked_is_within and self.stacked == self.exact


def theorem_a1(graphs: Structure | Sequence[Structure], layers: int = 2) -> Comparison:
    """Compare the spans on a graph, or on several graphs that share their weights.

    Args:
        graphs: A structure with undirected edges `{i j}`, or a list of them.
        layers: The number of relaxed layers in a row.

    Example:
        >>> result = theorem_a1(Structure.complete(4, ["{i j}"]))
        >>> result.relaxed, result.exact, result.stacked, result.missing_once, result.is_equal
        (8, 9, 9, ('y[{i a}] = sum_j x[{i j}]',), True)
    """
    listed: list[Any] = []
    if isinstance(graphs, Structure):
        listed = [graphs]
    elif isinstance(graphs, Iterable):
        listed = list(graphs)
    if not listed or not all(isinstance(g, Structure) and g.num_structures == 1 for g in listed):
        raise IncidenceError(
            "theorem_a1 takes a graph, or a list of graphs: structures with the edges `{i j}`."
        )
    if any(not g.num_entries("i") for g in listed):
        raise IncidenceError(
            "theorem_a1 compares maps of node and edge features: every graph needs a node; got one"
            " without nodes."
        )
    if isinstance(layers, bool) or not isinstance(layers, int) or layers < 1:
        raise IncidenceError(f"layers is a number of relaxed layers, at least 1; got {layers!r}.")
    # Matrices on a batch have a block for each graph, so their sums and products are those of all
    # graphs at once.
    whole = collate([Structure(g.counts, {"{i j}": g["{i j}"]}) for g in listed])
    layer = Linear("i, {i j} -> i, {i j}", 1, 1)
    operations = list(layer.map.operations)
    exact = _span(
        whole,
        (
            (o.target.tensor, o.source.tensor, layer.operator(number, whole).to_dense())
            for number, o in enumerate(operations)
        ),
    )
    once = _span(whole, _relaxed_outputs(whole))
    stacked = first = basis(once)
    side = isqrt(once.shape[1])
    for _ in range(layers - 1):
        later, earlier = (span.view(-1, side, side) for span in (stacked, first))
        products = torch.einsum("xij,yjk->xyik", later, earlier)  # (later, earlier, side, side)
        stacked = basis(products.reshape(-1, side * side))

    def missing(span: Tensor) -> tuple[str, ...]:
        is_in = is_within(exact, span).tolist()
        return tuple(
            read(o).formula for o, known in zip(operations, is_in, strict=True) if not known
        )

    return Comparison(
        exact=rank(exact),
        relaxed=len(first),
        stacked=len(stacked),
        relaxed_is_within=bool(is_within(once, exact).all()),
        stacked_is_within=bool(is_within(stacked, exact).all()),
        missing_once=missing(once),
        missing=missing(stacked),
    )


def _span(graphs: Structure, blocks: Iterable[tuple[int, int, Tensor]]) -> Tensor:
    """Return matrices between nodes (0) and edges (1) as vectors.

    Args:
        graphs: The graphs.
        blocks: Triples (target, source, matrix). Each matrix is padded to a map of all features,
            nodes first.

    Returns:
        The vectors, shape (blocks, (nodes + edges) ** 2).
    """
    n, m = graphs.num_entries("i"), graphs.num_entries("{i j}")
    # so that `cat` has one without blocks
    padded = [torch.zeros(0, n + m, n + m, dtype=torch.float64)]
    for t, s, x in blocks:
        padded.append(pad(x, (s * n, (1 - s) * m, t * n, (1 - t) * m))[None])
    return torch.cat(padded).flatten(1)


def _relaxed_outputs(graphs: Structure) -> Iterator[tuple[int, int, Tensor]]:
    """Yield the maps of one relaxed layer between features, as triples (target, source, matrix).

    Every operation is applied to either feature. Its output counts if it is a node or an edge
    feature.
    """
    incidence = graphs.with_pattern("i {i j}")
    texts = ("i", "{i j}")
    carried = [
        # (incidences, entries)
        carry(incidence, text, "i {i j}", torch.eye(graphs.num_entries(text), dtype=torch.float64))
        for text in texts
    ]
    layer = Exchangeable("i {i j}", 1, 1)
    for number in range(layer.num_operations):
        operator = layer.linear.operator(number, layer.relax(incidence)).to_dense()
        for source, target in product((0, 1), repeat=2):
            value = operator @ carried[source]
            # The only candidate; whether it is one shows in what it gives back.
            matrix = torch.linalg.pinv(carried[target]) @ value
            if torch.allclose(carried[target] @ matrix, value, atol=1e-9):
                yield target, source, matrix
