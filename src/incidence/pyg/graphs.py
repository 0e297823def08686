"""The structure of a graph that PyG tells by `edge_index` and `batch`: made once for each, and kept as long as PyG keeps them."""

from __future__ import annotations

import weakref
from typing import NamedTuple

import torch
from torch import Tensor
from torch.utils.weak import WeakTensorKeyDictionary

from incidence.algebra.pattern import Pattern
from incidence.errors import IncidenceError
from incidence.geometry.convert.exchange import two_ways
from incidence.structure import Structure

__all__ = ["Graph", "graph_of"]


class Graph(NamedTuple):
    """A structure, and how its entries and the columns of `edge_index` belong together.

    Attributes:
        structure: The nodes and edges, with plans of all layers that have seen it.
        columns: The columns of every entry: one, or the first and the last; none if entry k is column k.
        entries: For every column its entry; None if entry k is column k.
    """

    structure: Structure
    columns: tuple[Tensor, ...] = ()
    entries: Tensor | None = None

    def to_entries(self, x: Tensor) -> Tensor:
        """Features of the entries: the mean over the two directions of an edge that has none."""
        if not self.columns:
            return x
        found = [x[columns] for columns in self.columns]
        return found[0] if len(found) == 1 else (found[0] + found[1]) / 2  # (entries, channels)

    def to_columns(self, y: Tensor) -> Tensor:
        """Features of the columns: both directions have those of their edge."""
        return y if self.entries is None else y[self.entries]


class _Kept(NamedTuple):
    """A graph, and the `batch` that it was made with, which must still be the same."""

    graph: Graph
    batch: weakref.ref[Tensor] | None


_GRAPHS = WeakTensorKeyDictionary()  # from edge_index to what was made of it; no graph holds an edge_index, or none would ever go


def graph_of(edge_index: Tensor, num_nodes: int, batch: Tensor | None, edges: str) -> Graph:
    """The graph of an `edge_index`; all layers of a model, and all calls with the same tensors, share one.

    Args:
        edge_index: The edges, shape (2, columns).
        num_nodes: The number of nodes.
        batch: The graph of every node; None for one graph.
        edges: The pattern of the edges, as in `{i j}`.

    Raises:
        IncidenceError: It is no list of edges, or the pattern has no such edges: loops, parallel edges, nodes that are not there.
    """
    if not isinstance(edge_index, Tensor) or edge_index.ndim != 2 or len(edge_index) != 2 or edge_index.is_floating_point():
        came = list(edge_index.shape) if isinstance(edge_index, Tensor) else type(edge_index).__name__
        raise IncidenceError(f"edge_index has integers of shape [2, edges], or is a Structure; got {came}.")
    kept: dict[tuple[object, ...], _Kept] = _GRAPHS.setdefault(edge_index, {})
    key = edges, num_nodes, _version(edge_index), batch is None or (id(batch), _version(batch))
    found = kept.get(key)
    if found is None or (found.batch is not None and found.batch() is not batch):
        kept[key] = found = _Kept(_graph(edge_index, num_nodes, batch, Pattern(edges)), None if batch is None else weakref.ref(batch))
    return found.graph


def _version(x: Tensor) -> int:
    """Counts the changes in place, so that what was made of a tensor is not used after one."""
    return 0 if x.is_inference() else x._version


@torch.inference_mode(False)
@torch.no_grad()
def _graph(edge_index: Tensor, num_nodes: int, batch: Tensor | None, pattern: Pattern) -> Graph:
    pairs = edge_index.clone()
    first, last = two_ways(pattern, pairs, num_nodes, "IncidenceConv")
    if batch is not None and len(batch):
        home = batch[pairs[0, first].clamp(0, len(batch) - 1)]
        order = home.sort(stable=True)[1]  # the entries of a structure stand together
        first, last = first[order], last[order]
    structure = Structure(num_nodes, {str(pattern): pairs[:, first]}, batch=batch)
    count = pairs.shape[1]
    if len(first) == count and torch.equal(first, torch.arange(count, device=pairs.device)):
        return Graph(structure)
    entries = torch.empty(count, dtype=torch.long, device=pairs.device)
    entries[first] = entries[last] = torch.arange(len(first), device=pairs.device)
    return Graph(structure, (first,) if len(first) == count else (first, last), entries)
