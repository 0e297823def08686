"""The head of a tensor whose entries are queries: it reads their nodes, and no layer reads them."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from incidence.algebra.pattern import Pattern
from incidence.engine.pair_products import pair_products, plain_pair_products
from incidence.engine.plain import refused
from incidence.errors import IncidenceError
from incidence.models.blocks import PerTensor
from incidence.nn import Linear, Sequential
from incidence.nn.composition import Side
from incidence.nn.diffusion import Incident, shared_nodes
from incidence.nn.tensors import as_side, key_of
from incidence.structure import Structure
from incidence.structure.incidences import incidences
from incidence.structure.pytree import traced

__all__ = ["PairProducts", "QueryHead", "node_tensors"]


def node_tensors(text: str, query: Pattern) -> list[Pattern]:
    """Return the tensors of a side that are the nodes of a query, one for each sort.

    Raises:
        IncidenceError: A sort has none.
    """
    nodes = []
    for sort in sorted(set(query.sorts.values())):
        pattern = Pattern(f"i:{sort}")
        if pattern not in as_side(text):
            raise IncidenceError(
                f"the head of the queries `{query}` reads their nodes, and `{text}` has no nodes of"
                f" sort `{sort}`: add them."
            )
        nodes.append(next(p for p in as_side(text) if p == pattern))
    return nodes


class PairProducts(Incident):
    r"""For every entry the mean product of every two of its nodes, after a linear map of the nodes
    of each sort.

    This is matrix factorisation for a user and a movie, and a factorisation machine for sets:
    $y_e = \frac1{m (m - 1)} \sum_{i \ne j \in e} W x_i \cdot W x_j$, each channel on its own.

    Args:
        text: The nodes, such as `u:user, m:movie`.
        query: The tensor whose entries have the products.
        channels: Channels of the nodes and of the products.

    Example:
        >>> s = Structure(3, {"query={i j}": [[0, 1], [1, 2]]})
        >>> PairProducts("i", Pattern("query={i j}"), 4)({"i": torch.randn(3, 4)}, s).shape
        torch.Size([2, 4])
    """

    def __init__(self, text: str, query: Pattern, channels: int) -> None:
        nodes = {next(iter(p.sorts.values())): key_of(p) for p in node_tensors(text, query)}
        # exported programs have this prefix in the names of their inputs
        super().__init__(f"asked_{key_of(query)}", [query], nodes)
        self.query, self.channels = query, channels
        self.maps = nn.ModuleList(nn.Linear(channels, channels) for _ in self.nodes)

    def forward(self, x: Mapping[str, Tensor], structure: Structure) -> Tensor:
        """Return the products; shape (entries, channels)."""
        keys = self.nodes.values()
        mapped = {key: linear(x[key]) for key, linear in zip(keys, self.maps, strict=True)}
        if torch.compiler.is_compiling():
            return self._traced(torch.cat(self._rows(mapped)), structure)
        rows = torch.cat(self._all_rows(mapped, structure))  # (all nodes, channels)
        shared = shared_nodes(structure)
        if shared is not None:  # a part: other processes have the rows of some nodes
            rows = shared.complete(rows)
        return pair_products(rows, incidences(structure, self.links))

    def _traced(self, x: Tensor, structure: Structure) -> Tensor:
        lists = traced(structure, self._key)
        if lists is None:
            return refused(None, x, 2, self.channels)
        return plain_pair_products(x, *lists.tensors)

    def follow(self, side: Side | None) -> Side:
        """Return the tensor of the queries."""
        return Side((self.query,), (self.channels,))


class QueryHead(nn.Module):
    """The outputs of queries: from the hidden values of their nodes, the products of these values,
    and the features of the queries.

    Its last map starts at zero, so a network that is added to a first guess starts at that guess.

    Args:
        layer: The layer from the nodes to the queries.
        after: The norm and the activation that follow the layer.
        in_channels: Channels of the features of queries.
        out_channels: Channels of the outputs.
        dropout: Dropout probability before the last map.
    """

    def __init__(
        self, layer: Linear, after: Sequential, in_channels: int, out_channels: int, dropout: float
    ) -> None:
        super().__init__()
        [query], hidden = layer.map.outputs, layer.out_channels[0]
        self.key = key_of(query)
        self.layer = layer
        self.after = after
        self._node_keys = [key_of(p) for p in layer.map.inputs]
        nodes = ", ".join(map(str, layer.map.inputs))
        self.own = PerTensor(str(query), in_channels, hidden)  # the name is in saved weights
        self.products = PairProducts(nodes, query, hidden)
        self.mix = nn.Linear(2 * hidden, hidden)
        self.dropout = nn.Dropout(dropout)
        self.last = nn.Linear(hidden, out_channels)
        # Only the last map: its first step is not 0, and from the second on all layers learn.
        nn.init.zeros_(self.last.weight)
        nn.init.zeros_(self.last.bias)

    def forward(self, x: Mapping[str, Tensor], structure: Structure) -> Tensor:
        """Return the outputs from hidden values of nodes and features of queries.

        Shape: (entries, out_channels).
        """
        nodes = {key: x[key] for key in self._node_keys}
        # A layer with one input takes a tensor, and one with several takes a dict.
        is_lone = len(nodes) == 1
        pooled = self.layer(nodes[self._node_keys[0]] if is_lone else nodes, structure)
        summed = pooled + self.own(x[self.key], structure)
        mixed = self.after(summed, structure)  # (entries, hidden)
        both = torch.cat([mixed, self.products(nodes, structure)], dim=1)  # (entries, 2 hidden)
        y: Tensor = self.last(self.dropout(torch.relu(self.mix(both))))  # (entries, out_channels)
        return y
