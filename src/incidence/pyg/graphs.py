"""The structure of a graph that PyG has as `edge_index` and `batch`: made once, and cached as long
as these tensors live.
"""

from __future__ import annotations

import weakref
from typing import NamedTuple

import torch
from torch import Tensor
from torch.utils.weak import WeakTensorKeyDictionary

from incidence.algebra.pattern import Pattern
from incidence.errors import IncidenceError
from incidence.geometry.assembly import is_directed
from incidence.structure import Structure
from incidence.structure.ragged import rank

__all__ = ["Graph", "graph_of"]


class Graph(NamedTuple):
    """A structure, and how its entries and the columns of `edge_index` correspond.

    Attributes:
        structure: The nodes and edges, with cached plans of layers.
        columns: A column of every entry; None if entry k is column k.
        entries: For every column its entry; None if entry k is column k.
        times: How many columns every entry has, shape (entries, 1); None if each has one.
    """

    structure: Structure
    columns: Tensor | None = None
    entries: Tensor | None = None
    times: Tensor | None = None

    def to_entries(self, x: Tensor) -> Tensor:
        """Return features of the entries: means over both directions of undirected edges, and over
        parallel edges.
        """
        if self.columns is None or self.entries is None:
            return x
        if len(x) != len(self.entries):
            raise IncidenceError(
                f"edge_attr has a row for each of the {len(self.entries)} columns of edge_index;"
                f" got {len(x)}."
            )
        if self.times is None:
            return x[self.columns]
        sums = x.new_zeros(len(self.times), x.shape[1])  # (entries, channels)
        return sums.index_add(0, self.entries, x) / self.times.to(x.dtype)

    def to_columns(self, y: Tensor) -> Tensor:
        """Return features of the columns: both directions have those of their edge."""
        return y if self.entries is None else y[self.entries]


class _Cached(NamedTuple):
    """A graph, and the `batch` of its structure, which must still be the same tensor."""

    graph: Graph
    batch: weakref.ref[Tensor] | None


# from edge_index to its graphs; no graph holds an edge_index, so that entries can expire
_GRAPHS = WeakTensorKeyDictionary()


def graph_of(edge_index: Tensor, num_nodes: int, batch: Tensor | None, edges: str) -> Graph:
    """Return the graph of an `edge_index`. All layers of a model, and all calls with the same
    tensors, share one.

    Args:
        edge_index: The edges, shape (2, columns).
        num_nodes: The number of nodes.
        batch: The graph of every node; None for one graph.
        edges: The pattern of the edges, as in `{i j}`.

    Raises:
        IncidenceError: It is no list of edges, or the pattern has no such edges: loops, nodes that
            are not there.
    """
    is_tensor = isinstance(edge_index, Tensor)
    has_pairs = is_tensor and edge_index.ndim == 2 and len(edge_index) == 2
    if not has_pairs or edge_index.is_floating_point():
        got = list(edge_index.shape) if is_tensor else type(edge_index).__name__
        raise IncidenceError(
            f"edge_index has integers of shape [2, edges], or is a Structure; got {got}."
        )
    cache: dict[tuple[object, ...], _Cached] = _GRAPHS.setdefault(edge_index, {})
    # An id may come again once a tensor is gone: the weak reference below shows whether it is the
    # same.
    key = edges, num_nodes, _version(edge_index), batch is None or (id(batch), _version(batch))
    cached = cache.get(key)
    if cached is None or (cached.batch is not None and cached.batch() is not batch):
        graph = _graph(edge_index, num_nodes, batch, Pattern(edges))
        cached = _Cached(graph, None if batch is None else weakref.ref(batch))
        cache[key] = cached
    return cached.graph


def _version(x: Tensor) -> int:
    """The number of changes in place: after one, the cached graph is out of date."""
    return 0 if x.is_inference() else x._version


@torch.inference_mode(False)
@torch.no_grad()
def _graph(edge_index: Tensor, num_nodes: int, batch: Tensor | None, pattern: Pattern) -> Graph:
    # The structure must not see later changes of the caller's tensor.
    pairs = edge_index.clone()
    count = edge_index.shape[1]
    place = torch.arange(count, device=pairs.device)
    first, number, times = _entries(pairs, num_nodes, pattern)
    order = first.argsort()  # as they come
    if batch is not None and len(batch):
        # (entries,); wrong nodes are refused later
        home = batch[pairs[0, first[order]].clamp(0, len(batch) - 1)]
        order = order[home.sort(stable=True)[1]]  # the entries of a structure stand together
    structure = Structure(num_nodes, {str(pattern): pairs[:, first[order]]}, batch=batch)
    if len(first) == count and torch.equal(first[order], place):
        return Graph(structure)
    entries = torch.empty_like(order).index_copy(0, order, place[: len(order)])[number]
    has_one_each = len(first) == count
    return Graph(structure, first[order], entries, None if has_one_each else times[order, None])


def _entries(pairs: Tensor, num_nodes: int, pattern: Pattern) -> tuple[Tensor, Tensor, Tensor]:
    """For every entry its first column, for every column the number of its entry, and for every
    entry how many columns it has.
    """
    place = torch.arange(pairs.shape[1], device=pairs.device)
    low, high = (pairs[0], pairs[1]) if is_directed(pattern) else (pairs.amin(0), pairs.amax(0))
    # the structure refuses other nodes
    if not len(place) or int(pairs.min()) < 0 or int(pairs.max()) >= num_nodes:
        return place, place, torch.ones_like(place)
    number, count = rank(low * num_nodes + high)  # the entry of each column
    first = torch.full((count,), len(place), device=pairs.device)
    first = first.scatter_reduce(0, number, place, "amin")  # (entries,)
    return first, number, torch.bincount(number, minlength=count)
