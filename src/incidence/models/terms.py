"""What a block of a network may have beside its linear layer: products of the hidden tensors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn

from incidence.algebra.pattern import Pattern
from incidence.algebra.products import fits, parse_product
from incidence.errors import IncidenceError
from incidence.nn.functional import einsum, plan_einsum
from incidence.nn.tensors import Values, key_of
from incidence.structure import Structure

__all__ = ["ProductTerm", "Sum", "as_texts"]


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
        product = parse_product(text)
        self.text = str(product)
        self.keys = [_hidden_key(p, hidden, self.text) for p in product.operands]
        self.key = _hidden_key(product.output, hidden, self.text)
        self.maps = nn.ModuleList(nn.Linear(channels, channels) for _ in self.keys)
        self.result = nn.Linear(channels, channels, bias=False)

    def forward(self, x: Values, structure: Structure) -> Tensor:
        """What is added to the tensor of the output."""
        y: Tensor = self.result(self._product(x, structure))
        return y

    def _product(self, x: Values, structure: Structure) -> Tensor:
        xs = [x[key] if isinstance(x, Mapping) else x for key in self.keys]
        return einsum(self.text, *(linear(value) for linear, value in zip(self.maps, xs, strict=True)), structure)

    def plan(self, structure: Structure) -> None:
        """Makes the index lists for a structure, which tracing needs."""
        plan_einsum(self.text, structure)

    @torch.no_grad()
    def calibrate(self, x: Values, structure: Structure) -> ProductTerm:
        """Divides the last map by the root mean square of the product on a first batch: sums may be large."""
        size = float(self._product(x, structure).double().square().mean().sqrt())
        self.result.weight.div_(size if size > 0 else 1.0)
        return self

    def extra_repr(self) -> str:
        """The product."""
        return repr(self.text)


class Sum(nn.Module):
    """A layer and further terms of the same input, each added to the tensor it is for."""

    def __init__(self, layer: nn.Module, terms: Sequence[ProductTerm]) -> None:
        super().__init__()
        self.layer, self.terms = layer, nn.ModuleList(terms)
        self._keys = [term.key for term in terms]

    def forward(self, x: Values, structure: Structure) -> Values:
        """The sum."""
        y: Values = self.layer(x, structure)
        for key, term in zip(self._keys, self.terms, strict=True):
            more = term(x, structure)
            y = {**y, key: y[key] + more} if isinstance(y, dict) else y + more
        return y


def as_texts(products: str | Sequence[str] | None) -> tuple[str, ...]:
    """Texts from one, several or none.

    Raises:
        IncidenceError: It is something else.
    """
    texts = () if products is None else (products,) if isinstance(products, str) else tuple(products)
    if not all(isinstance(text, str) for text in texts):
        raise IncidenceError(f"products= is a text such as 'i j, j k -> i k', or a list of them; got {products!r}.")
    return texts


def _hidden_key(pattern: Pattern, hidden: Sequence[Pattern], text: str) -> str:
    """The key of the hidden tensor that a pattern of a product means."""
    found = [p for p in hidden if p == pattern] or [p for p in hidden if p.name == pattern.name and fits(pattern, p)]
    if len(found) != 1:
        known = ", ".join(f"`{p}`" for p in hidden)
        raise IncidenceError(f"the product `{text}` takes hidden tensors, and `{pattern}` is none: there are {known}; see through=.")
    return key_of(found[0])
