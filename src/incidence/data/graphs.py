"""Many graphs at once: examples with `i` and `{i j}` from numbers of nodes and one list of edges."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from incidence.algebra.pattern import Pattern
from incidence.errors import IncidenceError
from incidence.structure.example import Example
from incidence.structure.ragged import ranges
from incidence.structure.structure import Structure

__all__ = ["EDGES", "as_symbols", "graphs", "label_numbers", "node_features"]

EDGES = "{i j}"
_PATTERN = Pattern(EDGES)


def graphs(
    sizes: Tensor, edges: Tensor, features: Tensor, targets: Tensor | None = None, edge_features: Tensor | None = None
) -> list[Example]:
    """An example for every graph, edges in canonical order, with a column of ones unless they have features.

    Args:
        sizes: The number of nodes of every graph.
        edges: The edges of all graphs, each once and without loops, nodes numbered through; shape [2, edges].
        features: Of the nodes, [nodes, channels].
        targets: A row for each graph.
        edge_features: Of the edges, in their order; [edges, channels].
    """
    node_ptr = ranges(sizes)
    total = max(int(node_ptr[-1]), 1)
    low, high = edges.amin(0), edges.amax(0)
    order = (low * total + high).argsort(stable=True)
    ordered = torch.stack([low, high])[:, order]
    home = torch.bucketize(ordered[0].contiguous(), node_ptr[1:], right=True)
    of_edges = torch.ones(len(order), 1) if edge_features is None else edge_features[order]
    counts = torch.bincount(home, minlength=len(sizes))
    local = ordered - node_ptr[home]
    parts = zip(sizes.tolist(), counts.tolist(), local.split(counts.tolist(), dim=1), strict=True)
    structures = [_structure(*part) for part in parts]
    nodes, rows = features.split(sizes.tolist()), of_edges.split(counts.tolist())
    values = [None] * len(sizes) if targets is None else targets.unbind()
    every = zip(structures, nodes, rows, values, strict=True)
    return [Example._of(structure, {"i": x, EDGES: e}, target, False) for structure, x, e, target in every]


def _structure(num_nodes: int, num_edges: int, edges: Tensor) -> Structure:
    """A graph from edges in canonical order; many are made faster so than by taking a batch apart."""
    return Structure._of({"node": torch.tensor([0, num_nodes])}, {_PATTERN: (edges,)}, {_PATTERN: torch.tensor([0, num_edges])})


def as_symbols(labels: int | Sequence[int]) -> list[int]:
    """The labels that nodes may have, ascending: a number K stands for 0 to K - 1."""
    return list(range(labels)) if isinstance(labels, int) else sorted(labels)


def label_numbers(labels: Tensor, symbols: Sequence[int]) -> Tensor:
    """Labels as numbers 0, 1, ... in the order of the symbols.

    Raises:
        IncidenceError: A label is none of the symbols.
    """
    known = torch.tensor(symbols, dtype=torch.long)
    place = torch.searchsorted(known, labels).clamp(max=max(len(symbols) - 1, 0))
    wrong = known[place] != labels if len(symbols) else torch.ones_like(labels, dtype=torch.bool)
    if bool(wrong.any()):
        bad = int(labels[wrong][0])
        raise IncidenceError(f"the node label {bad} is not one of {', '.join(map(str, symbols))}, the labels that this data has.")
    return place


def node_features(num_nodes: int, edges: Tensor, labels: Tensor | None = None, num_labels: int = 0, degrees: bool = True) -> Tensor:
    """Features of nodes, [nodes, channels]: labels one-hot, log(1 + degree), 1 / (degree + 1); a column of ones if there is nothing.

    Args:
        num_nodes: The number of nodes.
        edges: Each edge once, [2, edges].
        labels: Numbers from 0, if nodes have labels.
        num_labels: How many labels there are.
        degrees: Whether degrees are features.
    """
    columns = []
    if labels is not None and num_labels:
        columns.append(torch.nn.functional.one_hot(labels, num_labels).float())
    if degrees:
        degree = torch.bincount(edges.flatten(), minlength=num_nodes).float()
        columns += [degree.log1p()[:, None], (1 / (degree + 1))[:, None]]
    return torch.cat(columns, dim=1) if columns else torch.ones(num_nodes, 1)
