"""The head of a tensor whose entries are asked for: it looks at their nodes, and no layer looks at it."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from incidence.algebra.pattern import Pattern
from incidence.errors import IncidenceError
from incidence.kernels.pair_products import pair_products, plain_pair_products
from incidence.kernels.traced import unplanned
from incidence.models.entries import PerTensor
from incidence.nn import Linear, Sequential
from incidence.nn.composition import Side
from incidence.nn.incident import Incident
from incidence.nn.tensors import as_side, key_of
from incidence.structure import Structure
from incidence.structure.incidences import incidences
from incidence.structure.pytree import flat_of

__all__ = ["AskedHead", "PairProducts", "nodes_of"]


def nodes_of(text: str, asked: Pattern) -> list[Pattern]:
    """Those of some tensors that are the nodes of an asked tensor, by sort.

    Raises:
        IncidenceError: A sort has none.
    """
    sorts = sorted(set(asked.sorts.values()))
    found = [next((p for p in as_side(text) if p == Pattern(f"i:{sort}")), None) for sort in sorts]
    missing = next((sort for sort, p in zip(sorts, found, strict=True) if p is None), None)
    if missing is not None:
        raise IncidenceError(
            f"entries of `{asked}` are asked for by their nodes, and `{text}` has no nodes of sort `{missing}`: add them."
        )
    return [p for p in found if p is not None]


class PairProducts(Incident):
    r"""For every entry the mean product of every two of its nodes, after a linear map of the nodes of each sort.

    It is what matrix factorisation gives for a user and a movie, and factorisation machines for sets:
    $y_e = \frac1{m (m - 1)} \sum_{i \ne j \in e} W x_i \cdot W x_j$, each channel on its own.

    Args:
        text: The nodes, such as `u:user, m:movie`.
        asked: The tensor whose entries have the products.
        channels: In and out.

    Example:
        >>> s = Structure(3, {"query={i j}": [[0, 1], [1, 2]]})
        >>> PairProducts("i", Pattern("query={i j}"), 4)({"i": torch.randn(3, 4)}, s).shape
        torch.Size([2, 4])
    """

    def __init__(self, text: str, asked: Pattern, channels: int) -> None:
        super().__init__(
            f"asked_{key_of(asked)}",
            [asked],
            {next(iter(p.sorts.values())): key_of(p) for p in nodes_of(text, asked)},
        )
        self.asked, self.channels = asked, channels
        self.maps = nn.ModuleList(nn.Linear(channels, channels) for _ in self.nodes)

    def forward(self, x: Mapping[str, Tensor], structure: Structure) -> Tensor:
        """The products; shape (entries, channels)."""
        made = {
            key: linear(x[key]) for key, linear in zip(self.nodes.values(), self.maps, strict=True)
        }
        if torch.compiler.is_compiling():
            return self._traced(torch.cat(self._rows(made)), structure)
        return pair_products(
            torch.cat(self._all_rows(made, structure)), incidences(structure, self.links)
        )

    def _traced(self, x: Tensor, structure: Structure) -> Tensor:
        flat = flat_of(structure, self._key)
        return (
            unplanned(x, 2, self.channels)
            if flat is None
            else plain_pair_products(x, *flat.tensors)
        )

    def follow(self, side: Side | None) -> Side:
        """The asked tensor."""
        return Side((self.asked,), (self.channels,))


class AskedHead(nn.Module):
    """Outputs of asked entries: from the hidden values of their nodes, their products, and the features of the entries themselves.

    It starts with zeros: a network that is added to what is expected starts there.

    Args:
        layer: From the nodes to the asked entries.
        after: What follows it: norm and activation.
        in_channels: Features of the asked entries.
        out_channels: Of the outputs.
        dropout: Before the last map.
    """

    def __init__(
        self, layer: Linear, after: Sequential, in_channels: int, out_channels: int, dropout: float
    ) -> None:
        super().__init__()
        [asked], hidden = layer.map.outputs, layer.out_channels[0]
        self.key, self.layer, self.after = key_of(asked), layer, after
        self._keys = [key_of(p) for p in layer.map.inputs]
        self.own = PerTensor(str(asked), in_channels, hidden)
        self.products = PairProducts(", ".join(map(str, layer.map.inputs)), asked, hidden)
        self.mix, self.dropout, self.last = (
            nn.Linear(2 * hidden, hidden),
            nn.Dropout(dropout),
            nn.Linear(hidden, out_channels),
        )
        nn.init.zeros_(self.last.weight)
        nn.init.zeros_(self.last.bias)

    def forward(self, x: Mapping[str, Tensor], structure: Structure) -> Tensor:
        """Rows of outputs, from hidden values of nodes and the features of the asked tensor; shape (entries, out_channels)."""
        nodes = {key: x[key] for key in self._keys}
        seen = self.layer(nodes if len(nodes) > 1 else nodes[self._keys[0]], structure)
        mixed = self.after(seen + self.own(x[self.key], structure), structure)  # (entries, hidden)
        both = torch.cat([mixed, self.products(nodes, structure)], dim=1)  # (entries, 2 hidden)
        y: Tensor = self.last(self.dropout(torch.relu(self.mix(both))))
        return y
