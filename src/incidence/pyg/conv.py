"""`IncidenceConv`: a layer for models of PyG, from nodes to edges and back by complete maps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from incidence.algebra.maps import EquivariantMap, Operation
from incidence.algebra.pattern import Pattern
from incidence.algebra.selection import Choice, predicate, word_for
from incidence.errors import IncidenceError
from incidence.geometry.assembly import is_edge
from incidence.nn import Linear
from incidence.nn.composition import plan_modules
from incidence.nn.tensors import as_channels
from incidence.pyg.graphs import Graph, graph_of
from incidence.structure import Structure

__all__ = ["IncidenceConv"]


class IncidenceConv(nn.Module):
    r"""A convolution for any model of PyG: from nodes to edges and back, by all operations that
    respect relabelling.

    With $L$ a complete layer, which has a matrix for every operation,

    $$e' = \sigma(L_{i,\,ij \to ij}(x, e)), \qquad x' = L_{i,\,ij \to i}(x, e')$$

    where the nodes of an edge, its reverse and the edges it meets all count. The layer is local, so
    the graphs of a batch never mix; `whole="mean"` adds the operations that pool over a whole
    graph. Edges may come in one direction or in both, with loops. Parallel edges count as one,
    whose features are their mean. `edges="{i j}"` is for undirected graphs; it has fewer weights
    and is twice as fast.

    Args:
        in_channels: Channels of the nodes; -1 to take it from the first input.
        out_channels: Channels of the nodes that come out.
        edge_dim: Channels of `edge_attr`; None if there are none.
        edge_out: Channels of the edges that come out; if given, the layer returns `(x,
            edge_attr)`.
        hidden: Channels of the edges in between. Default: `out_channels`.
        edges: The pattern of the edges: `i j` for any; `(i j)` for directed ones without loops; `{i
            j}` for undirected ones, which may come in one direction or in both (features of the two
            are averaged); `[i j]` for those with loops.
        aggr: How edges are pooled into nodes: `sum`, `mean`, `max`, `min`, `std`, or several.
        whole: How whole graphs are pooled, such as `mean`, which does not grow with them. Calls
            must then give `batch`. Default: they are not pooled.
        activation: A function of a tensor, between the two layers.
        operations: Which operations there are, as for `nn.Linear`.
        bias: Whether the layers have biases.

    Shape:
        x: (nodes, in_channels); edge_index: (2, edges); edge_attr: (edges, edge_dim); batch:
        (nodes,). Out: (nodes, out_channels), or with `edge_out` also (edges, edge_out), in the
        order of `edge_index`.

    Example:
        >>> conv = IncidenceConv(16, 32, edge_dim=8)
        >>> edge_index = torch.tensor([[0, 1, 1, 2, 2], [1, 0, 2, 1, 2]])
        >>> conv(torch.randn(3, 16), edge_index, torch.randn(5, 8)).shape
        torch.Size([3, 32])
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        edge_dim: int | None = None,
        *,
        edge_out: int | None = None,
        hidden: int | None = None,
        edges: str = "i j",
        aggr: str | Sequence[str] = "sum",
        whole: str | None = None,
        activation: Callable[[Tensor], Tensor] = torch.relu,
        operations: Choice = None,
        bias: bool = True,
    ) -> None:
        super().__init__()
        pattern = Pattern(edges)
        is_plain = is_edge(pattern) and not pattern.name and not pattern.is_oriented
        if not is_plain or set(pattern.sorts.values()) != {"node"}:
            hint = ""
            if pattern.is_oriented:
                flows = "inc.nn.Linear, and geometry.convert.from_pyg(data, edges='<i j>')"
                hint = f" For flows use {flows}."
            raise IncidenceError(
                f"edges are `i j`, `(i j)`, `{{i j}}` or `[i j]`; got `{edges}`.{hint}"
            )
        self.edges = str(pattern)
        self.edge_dim = edge_dim
        self.edge_out = edge_out
        self.activation = activation
        self.whole = whole
        self.in_channels = in_channels
        self.out_channels = out_channels
        width = as_channels(out_channels, "out_channels", 1)
        if hidden is not None:
            width = as_channels(hidden, "hidden", 1)

        def pooling(operation: Operation) -> Any:
            return whole if word_for(operation) == "global" else aggr

        def layer(to: str, of_edges: int | None, out: dict[str, int]) -> Linear:
            channels = {"i": in_channels, **({} if of_edges is None else {self.edges: of_edges})}
            text = f"{', '.join(channels)} -> {to}"
            # Without `batch`, pooling over everything would mix the graphs of a batch.
            kept = operations if whole is not None else _local(operations, EquivariantMap(text))
            return Linear(text, channels, out, aggr=pooling, bias=bias, operations=kept)

        self.to_edges = layer(self.edges, edge_dim, {self.edges: width})
        both = {"i": out_channels, **({} if edge_out is None else {self.edges: edge_out})}
        self.to_nodes = layer(", ".join(both), width, both)

    def reset_parameters(self) -> None:
        """Draw the weights anew."""
        self.to_edges.reset_parameters()
        self.to_nodes.reset_parameters()

    def forward(
        self,
        x: Tensor,
        edge_index: Tensor | Structure,
        edge_attr: Tensor | None = None,
        batch: Tensor | None = None,
    ) -> Any:
        """Return the features of the nodes, or those of nodes and edges.

        Args:
            x: Features of the nodes.
            edge_index: The edges; or a structure with edges, as in the batches of
                `inc.data.DataLoader`.
            edge_attr: Features of the edges, if the layer has `edge_dim`; weights may have one
                dimension.
            batch: The graph of every node. A local layer gives the same without it.

        Raises:
            IncidenceError: Something does not fit; the message says what.
        """
        if torch.compiler.is_compiling() and not isinstance(edge_index, Structure):
            from incidence.nn import untraced

            return untraced.call(self, x, edge_index, edge_attr, batch)
        graph = self._graph(x, edge_index, batch)
        of_edges = self._edge_features(edge_attr)
        inputs: Any = x
        if of_edges is not None:
            inputs = {"i": x, self.edges: graph.to_entries(of_edges)}
        inner = self.activation(self.to_edges(inputs, graph.structure))
        y = self.to_nodes({"i": x, self.edges: inner}, graph.structure)
        return y if self.edge_out is None else (y["i"], graph.to_columns(y[self.edges]))

    def plan(self, structure: Structure) -> None:
        """Build the index lists of both layers for a structure. Tracing needs them."""
        plan_modules(self, structure)

    def _graph(self, x: Tensor, edge_index: Tensor | Structure, batch: Tensor | None) -> Graph:
        if not isinstance(x, Tensor):
            hint = (
                "nodes of two kinds are sorts: see `geometry.convert.from_pyg` of HeteroData, and"
                " `nn.Linear`"
            )
            raise IncidenceError(
                "IncidenceConv takes the features of the nodes as one tensor; got"
                f" {type(x).__name__} ({hint})."
            )
        if isinstance(edge_index, Structure):
            return Graph(edge_index)
        if batch is None and self.whole is not None:
            raise IncidenceError(
                f"this layer pools over whole graphs (whole={self.whole!r}), so it needs the graph"
                " of every node: pass batch=data.batch, or for a single graph"
                " batch=torch.zeros(len(x), dtype=torch.long)."
            )
        return graph_of(edge_index, len(x), batch, self.edges)

    def _edge_features(self, edge_attr: Tensor | None) -> Tensor | None:
        if (edge_attr is None) != (self.edge_dim is None):
            wanted = "no edge_attr (edge_dim=None)"
            if self.edge_dim is not None:
                wanted = f"edge_attr with {self.edge_dim} channels"
            if edge_attr is None:
                got, hint = "none", "Pass data.edge_attr, or make the layer without edge_dim."
            elif edge_attr.ndim == 1 and not edge_attr.is_floating_point():
                got, hint = str(list(edge_attr.shape)), "Graphs of nodes are batch=data.batch."
            else:
                got = str(list(edge_attr.shape))
                hint = f"Make it with edge_dim={edge_attr.shape[-1] if edge_attr.ndim > 1 else 1}."
            raise IncidenceError(f"this layer was made for {wanted}; got {got}. {hint}")
        return edge_attr[:, None] if edge_attr is not None and edge_attr.ndim == 1 else edge_attr

    def extra_repr(self) -> str:
        """Return the arguments of the layer."""
        out = "" if self.edge_out is None else f", edge_out={self.edge_out}"
        out += "" if self.whole is None else f", whole={self.whole!r}"
        return (
            f"{self.in_channels}, {self.out_channels}, edge_dim={self.edge_dim}{out},"
            f" edges={self.edges!r}"
        )


def _local(operations: Choice, m: EquivariantMap) -> Choice:
    """Return the choice, `local` by default; refuse one that pools over whole graphs."""
    if operations is None:
        return "local"
    is_selected = predicate(operations, m)
    if any(word_for(operation) == "global" for operation in filter(is_selected, m.operations)):
        raise IncidenceError(
            f"operations={operations!r} keeps operations of `{m}` that pool over whole graphs: add"
            " whole='mean', and pass batch in every call."
        )
    return operations
