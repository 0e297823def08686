"""What a block of a network may have beside its linear layer: products of the hidden tensors, attention along one of them, neighbours."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from incidence.algebra.pattern import Pattern
from incidence.algebra.products import fits
from incidence.errors import IncidenceError
from incidence.nn import Attention, Linear, Neighbours, Product
from incidence.nn.tensors import Values, key_of
from incidence.structure import Structure

__all__ = ["AttentionTerm", "NeighbourTerm", "PooledTerm", "ProductTerm", "Sum", "as_texts"]


class ProductTerm(nn.Module):
    r"""A product of hidden tensors: a linear map of every entry of each operand, `inc.einsum`, and a linear map of the result.

    Args:
        text: The product, for example `i j, j k -> i k`.
        hidden: The hidden tensors; the text may name them in other letters, and `i i` reads the diagonal of `i j`.
        channels: Of each.

    Raises:
        IncidenceError: A tensor of the text is not hidden.
    """

    def __init__(self, text: str, hidden: Sequence[Pattern], channels: int) -> None:
        super().__init__()
        self.product = Product(text, channels, channels, norm=None)
        product = self.product.product
        self.keys = [_hidden_key(p, hidden, f"the product `{product}`") for p in product.operands]
        self.key = _hidden_key(product.output, hidden, f"the product `{product}`")
        self.result = nn.Linear(channels, channels, bias=False)

    def forward(self, x: Values, structure: Structure) -> Tensor:
        """What is added to the tensor of the output."""
        y: Tensor = self.result(self._product(x, structure))
        return y

    def _product(self, x: Values, structure: Structure) -> Tensor:
        y: Tensor = self.product(
            [x[key] if isinstance(x, Mapping) else x for key in self.keys], structure
        )
        return y

    @torch.no_grad()
    def calibrate(self, x: Values, structure: Structure) -> ProductTerm:
        """Divides the last map by the root mean square of the product on a first batch: sums may be large."""
        self.result.weight.div_(_size(self._product(x, structure)))
        return self


class AttentionTerm(nn.Module):
    r"""Attention along hidden tensors, with a bias from the features of what it goes along, if that is no end of it.

    Args:
        text: Along what, and over which letters: `near=i j over j` lets every node i look at the nodes j of its pairs, `{i j} over i j`
            the whole structure at its edges.
        hidden: The hidden tensors.
        channels: Of each.
        heads: How many heads; a divisor of the channels.

    Raises:
        IncidenceError: The text has another form, or a tensor of it is not hidden.
    """

    def __init__(self, text: str, hidden: Sequence[Pattern], channels: int, heads: int) -> None:
        super().__init__()
        pattern, word, over = text.rpartition(" over ")
        if not word:
            raise IncidenceError(
                f"attention= is along a tensor over some of its letters, such as 'near=i j over j'; got {text!r}."
            )
        if isinstance(heads, int) and heads > 0 and channels % heads:
            raise IncidenceError(
                f"with attention, hidden is a multiple of heads; got {channels} and {heads}."
            )
        ends = Attention(pattern, over, 1, 1)
        bias = None if ends.pattern in (ends.queries, ends.values) else channels
        self.attention = Attention(pattern, over, channels, channels, heads, bias)
        self._own = [key_of(p) for p in self.attention.in_channels]
        self.keys = [
            _hidden_key(p, hidden, f"attention along `{text}`") for p in self.attention.in_channels
        ]
        self.key = _hidden_key(self.attention.queries, hidden, f"attention along `{text}`")

    def forward(self, x: Values, structure: Structure) -> Tensor:
        """What is added to the tensor that looks."""
        xs = [x[key] if isinstance(x, Mapping) else x for key in self.keys]
        y: Tensor = self.attention(
            xs[0] if len(xs) == 1 else dict(zip(self._own, xs, strict=True)), structure
        )
        return y


class NeighbourTerm(nn.Module):
    r"""A linear map of the neighbours of every node, `nn.Neighbours`: of nodes of each sort, among whatever is hidden.

    Args:
        hidden: The hidden tensors.
        links: What joins nodes; it need not be hidden, but its nodes are.
        channels: Of each.
    """

    def __init__(self, hidden: Sequence[Pattern], links: Sequence[Pattern], channels: int) -> None:
        super().__init__()
        nodes = [p for p in hidden if len(p.letters) == 1 and p not in links]
        self.neighbours = Neighbours(", ".join(map(str, (*nodes, *links))))
        self.keys = list(self.neighbours.nodes.values())
        self.results = nn.ModuleList(nn.Linear(channels, channels, bias=False) for _ in self.keys)

    def forward(self, x: Values, structure: Structure) -> Any:
        """What is added to nodes."""
        sums = self._sums(x, structure)
        more = {key: result(sums[key]) for key, result in zip(self.keys, self.results, strict=True)}
        return more if isinstance(x, Mapping) else more[self.keys[0]]

    def _sums(self, x: Values, structure: Structure) -> dict[str, Tensor]:
        return self.neighbours.of_nodes(
            x if isinstance(x, Mapping) else {self.keys[0]: x}, structure
        )

    @torch.no_grad()
    def calibrate(self, x: Values, structure: Structure) -> NeighbourTerm:
        """Divides the maps by the root mean square of the sums on a first batch."""
        sums = self._sums(x, structure)
        for key, weight in zip(self.keys, self.results.parameters(), strict=True):
            weight.div_(_size(sums[key]))
        return self


class PooledTerm(nn.Module):
    """A complete layer of some of the tensors that come in, for those that are hidden."""

    def __init__(self, layer: Linear) -> None:
        super().__init__()
        self.layer = layer
        self._reads, self._gives = (
            [key_of(p) for p in side] for side in (layer.map.inputs, layer.map.outputs)
        )

    def forward(self, x: Mapping[str, Tensor], structure: Structure) -> dict[str, Tensor]:
        """What is added to the hidden tensors."""
        y = self.layer(
            {key: x[key] for key in self._reads} if len(self._reads) > 1 else x[self._reads[0]],
            structure,
        )
        return y if isinstance(y, dict) else {self._gives[0]: y}


class Sum(nn.Module):
    """A layer and further terms of the same input, each added to the tensors it is for."""

    def __init__(self, layer: nn.Module, terms: Sequence[nn.Module]) -> None:
        super().__init__()
        self.layer, self.terms = layer, nn.ModuleList(terms)
        self._keys = [getattr(term, "key", "") for term in terms]

    def forward(self, x: Values, structure: Structure) -> Values:
        """The sum."""
        y: Values = self.layer(x, structure)
        for key, term in zip(self._keys, self.terms, strict=True):
            more = term(x, structure)
            if isinstance(y, dict):
                y = {
                    **y,
                    **{
                        k: y[k] + value
                        for k, value in (more if isinstance(more, dict) else {key: more}).items()
                    },
                }
            else:
                y = y + more
        return y


def _size(x: Tensor) -> float:
    """The root mean square; 1 if there is nothing to divide by."""
    size = float(x.double().square().mean().sqrt()) if x.numel() else 0.0
    return size if size > 0 else 1.0


def as_texts(given: str | Sequence[str] | None, what: str) -> tuple[str, ...]:
    """Texts from one, several or none.

    Raises:
        IncidenceError: It is something else.
    """
    texts = () if given is None else (given,) if isinstance(given, str) else tuple(given)
    if not all(isinstance(text, str) for text in texts):
        raise IncidenceError(f"{what}= is a text, or a list of texts; got {given!r}.")
    return texts


def _hidden_key(pattern: Pattern, hidden: Sequence[Pattern], what: str) -> str:
    """The key of the hidden tensor that a pattern means."""
    found = [p for p in hidden if p == pattern] or [
        p for p in hidden if p.name == pattern.name and fits(pattern, p)
    ]
    if len(found) != 1:
        known = ", ".join(f"`{p}`" for p in hidden)
        raise IncidenceError(
            f"{what} takes hidden tensors, and `{pattern}` is none: there are {known}; see through=."
        )
    return key_of(found[0])
