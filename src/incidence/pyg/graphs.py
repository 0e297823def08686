"""The structure of a graph that PyG tells by `edge_index` and `batch`: made once for each, and kept as long as PyG keeps them."""

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
    """A structure, and how its entries and the columns of `edge_index` belong together.

    Attributes:
        structure: The nodes and edges, with plans of all layers that have seen it.
        columns: A column of every entry; None if entry k is column k.
        entries: For every column its entry; None if entry k is column k.
        times: How many columns every entry has, shape (entries, 1); None if each has one.
    """

    structure: Structure
    columns: Tensor | None = None
    entries: Tensor | None = None
    times: Tensor | None = None

    def to_entries(self, x: Tensor) -> Tensor:
        """Features of the entries: the mean over the directions of an edge that has none, and over parallel edges."""
        if self.columns is None or self.entries is None:
            return x
        if len(x) != len(self.entries):
            raise IncidenceError(
                f"edge_attr has a row for each of the {len(self.entries)} columns of edge_index; got {len(x)}."
            )
        if self.times is None:
            return x[self.columns]
        return x.new_zeros(len(self.times), x.shape[1]).index_add(
            0, self.entries, x
        ) / self.times.to(x.dtype)  # (entries, channels)

    def to_columns(self, y: Tensor) -> Tensor:
        """Features of the columns: both directions have those of their edge."""
        return y if self.entries is None else y[self.entries]


class _Kept(NamedTuple):
    """A graph, and the `batch` that it was made with, which must still be the same."""

    graph: Graph
    batch: weakref.ref[Tensor] | None


_GRAPHS = (
    WeakTensorKeyDictionary()
)  # from edge_index to what was made of it; no graph holds an edge_index, or none would ever go


def graph_of(edge_index: Tensor, num_nodes: int, batch: Tensor | None, edges: str) -> Graph:
    """The graph of an `edge_index`; all layers of a model, and all calls with the same tensors, share one.

    Args:
        edge_index: The edges, shape (2, columns).
        num_nodes: The number of nodes.
        batch: The graph of every node; None for one graph.
        edges: The pattern of the edges, as in `{i j}`.

    Raises:
        IncidenceError: It is no list of edges, or the pattern has no such edges: loops, nodes that are not there.
    """
    if (
        not isinstance(edge_index, Tensor)
        or edge_index.ndim != 2
        or len(edge_index) != 2
        or edge_index.is_floating_point()
    ):
        came = (
            list(edge_index.shape) if isinstance(edge_index, Tensor) else type(edge_index).__name__
        )
        raise IncidenceError(
            f"edge_index has integers of shape [2, edges], or is a Structure; got {came}."
        )
    kept: dict[tuple[object, ...], _Kept] = _GRAPHS.setdefault(edge_index, {})
    key = edges, num_nodes, _version(edge_index), batch is None or (id(batch), _version(batch))
    found = kept.get(key)
    if found is None or (found.batch is not None and found.batch() is not batch):
        kept[key] = found = _Kept(
            _graph(edge_index, num_nodes, batch, Pattern(edges)),
            None if batch is None else weakref.ref(batch),
        )
    return found.graph


def _version(x: Tensor) -> int:
    """Counts the changes in place, so that what was made of a tensor is not used after one."""
    return 0 if x.is_inference() else x._version


@torch.inference_mode(False)
@torch.no_grad()
def _graph(edge_index: Tensor, num_nodes: int, batch: Tensor | None, pattern: Pattern) -> Graph:
    pairs, count = edge_index.clone(), edge_index.shape[1]
    place = torch.arange(count, device=pairs.device)
    first, number, times = _entries(pairs, num_nodes, pattern)
    order = first.argsort()  # as they come
    if batch is not None and len(batch):
        home = batch[pairs[0, first[order]].clamp(0, len(batch) - 1)]
        order = order[home.sort(stable=True)[1]]  # the entries of a structure stand together
    structure = Structure(num_nodes, {str(pattern): pairs[:, first[order]]}, batch=batch)
    if len(first) == count and torch.equal(first[order], place):
        return Graph(structure)
    entries = torch.empty_like(order).index_copy(0, order, place[: len(order)])[number]
    return Graph(
        structure, first[order], entries, None if len(first) == count else times[order, None]
    )


def _entries(pairs: Tensor, num_nodes: int, pattern: Pattern) -> tuple[Tensor, Tensor, Tensor]:
    """For every entry its first column, for every column the number of its entry, and for every entry how many columns it has."""
    place = torch.arange(pairs.shape[1], device=pairs.device)
    low, high = (pairs[0], pairs[1]) if is_directed(pattern) else (pairs.amin(0), pairs.amax(0))
    if (
        not len(place) or int(pairs.min()) < 0 or int(pairs.max()) >= num_nodes
    ):  # a structure says where
        return place, place, torch.ones_like(place)
    number, count = rank(low * num_nodes + high)
    first = torch.full((count,), len(place), device=pairs.device).scatter_reduce(
        0, number, place, "amin"
    )
    return first, number, torch.bincount(number, minlength=count)
