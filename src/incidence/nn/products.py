r"""Products of tensors as layers: `Product` of operands whose letters meet, and `Multilinear`, the
complete equivariant multilinear layer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod, sqrt
from typing import Any

import torch
from torch import Tensor, nn

from incidence.algebra.maps import EquivariantMap
from incidence.algebra.multilinear import MultilinearMap
from incidence.algebra.pattern import Pattern
from incidence.algebra.products import ProductText, parse_product
from incidence.engine.products.contract import MAX_JOINED
from incidence.engine.products.plan import JoinPlan
from incidence.errors import IncidenceError
from incidence.nn.composition import Planned
from incidence.nn.functional import as_limit, assert_operands, einsum, linked, plan_einsum
from incidence.nn.linear import Linear
from incidence.nn.norms import BatchNorm, LayerNorm
from incidence.nn.tensors import Values, as_channels, key_of, per_tensor, takes_examples
from incidence.structure import Structure

__all__ = ["Multilinear", "Product"]

_NORMS = {"layer": LayerNorm, "batch": BatchNorm}


class Operands:
    """The operands of a product, some of which may be one tensor.

    Args:
        patterns: The patterns of the operands.
        text: The product, for messages.
    """

    def __init__(self, patterns: Sequence[Pattern], text: str) -> None:
        self.tensors, self._text = list(dict.fromkeys(patterns)), text  # each tensor once
        self._keys = [key_of(pattern) for pattern in self.tensors]
        # of every operand among the tensors
        self._places = [self.tensors.index(pattern) for pattern in patterns]

    def per_operand(self, value: Any, what: str) -> list[Any]:
        """Return one value for each operand, from one for all or a mapping by tensor."""
        by_tensor = per_tensor(self.tensors, value, what)
        return [by_tensor[place] for place in self._places]

    def values(self, x: Values | Sequence[Tensor]) -> list[Any]:
        """Return the values of all operands: given one by one, by tensor, or as one tensor that all
        of them are.

        Raises:
            IncidenceError: There are too few or too many.
        """
        if isinstance(x, Mapping):
            if torch.compiler.is_compiling():
                return [x[self._keys[place]] for place in self._places]
            return self.per_operand(x, "the input")
        if isinstance(x, (list, tuple)):
            if len(x) != len(self._places):
                raise IncidenceError(
                    f"`{self._text}` has {len(self._places)} operands; got {len(x)}."
                )
            return list(x)  # one by one
        if len(self._keys) > 1:
            keys = ", ".join(map(repr, self._keys))
            raise IncidenceError(
                f"the operands of `{self._text}` are different tensors: pass one for each, or a"
                f" dict with the keys {keys}."
            )
        return [x] * len(self._places)


class Product(Planned):
    r"""A product whose letters link the tensors, of operands that go through linear maps of their
    own.

    $$y = \mathrm{norm}\big(\mathrm{einsum}(x_1 W_1, \dots, x_n W_n)\big)$$

    Sums over many nodes are of any size, so the result is normalised. `i j, j k -> i k` is what
    PPGN multiplies by, `(i j), (j k) -> (i k)` what local 2-FGNN does.

    Args:
        text: The product, as `inc.einsum` takes it: a letter is one node throughout.
        in_channels: For all operands, or a dict by tensor.
        out_channels: What every operand is mapped to, and the output has.
        norm: `layer`, `batch`, or None: of every orbit of the output.
        is_complete: Whether the maps of operands are the complete linear layers of their tensors,
            not just of the channels of every entry.
        limit: More joined rows than this are refused.
        device, dtype: Of the parameters.

    Shape:
        x: (entries, in_channels) for an operand: one tensor that all operands are, a tuple of one
            for each, or a dict by tensor.

    Example:
        >>> s = Structure.complete(4, "i j")
        >>> layer = Product("i j, j k -> i k", 8, 16)
        >>> layer(torch.randn(16, 8), s).shape
        torch.Size([16, 16])
    """

    def __init__(
        self,
        text: str,
        in_channels: int | Mapping[str, int],
        out_channels: int,
        norm: str | None = "layer",
        is_complete: bool = False,
        limit: int = MAX_JOINED,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        self.product, self.limit = parse_product(text), as_limit(limit)
        if norm is not None and norm not in _NORMS:
            raise IncidenceError(f"norm is 'layer', 'batch' or None; got {norm!r}.")
        self._operands, self.out_channels = (
            Operands(self.product.operands, text),
            as_channels(out_channels, "out_channels", 1),
        )
        self.in_channels = [
            as_channels(c, "in_channels", 1)
            for c in self._operands.per_operand(in_channels, "in_channels")
        ]
        self.map = EquivariantMap.between(self._operands.tensors, [self.product.output])
        make = _complete if is_complete else _by_entry
        widths = zip(self.product.operands, self.in_channels, strict=True)
        self.maps = nn.ModuleList(
            make(p, width, self.out_channels, device, dtype) for p, width in widths
        )
        # Norms make their parameters in single precision on the CPU, and are then moved.
        found = None if norm is None else _NORMS[norm](str(self.product.output), self.out_channels)
        self.norm = None if found is None else found.to(device=device, dtype=dtype)

    @takes_examples
    def forward(self, x: Values | Sequence[Tensor], structure: Structure) -> Tensor:
        """Return the product on a structure.

        Raises:
            IncidenceError: The values do not fit the structure or the layer.
        """
        xs = self._operands.values(x)
        if not torch.compiler.is_compiling():
            assert_operands(self.product, xs, structure, self.in_channels, self.limit)
        mapped = [
            m(v, structure) if isinstance(m, Linear) else m(v)
            for m, v in zip(self.maps, xs, strict=True)
        ]
        y = einsum(self.product.text, *mapped, structure, limit=self.limit)
        return y if self.norm is None else self.norm(y, structure)

    def plan(self, structure: Structure) -> JoinPlan:
        """Return the index lists of the product for a structure. Print it for its cost."""
        for module in (*self.maps, self.norm):
            if isinstance(module, (Linear, LayerNorm, BatchNorm)):
                module.plan(structure)
        return plan_einsum(self.product.text, structure, self.limit)

    def extra_repr(self) -> str:
        """Return the layer as it was written."""
        widths = self.in_channels[0] if len(set(self.in_channels)) == 1 else self.in_channels
        return f"{self.product.text!r}, {widths}, {self.out_channels}"


def _by_entry(pattern: Pattern, width: int, out: int, device: Any, dtype: Any) -> nn.Module:
    """Return a map of the channels of every entry; values that change sign with the order of nodes
    have no bias.
    """
    is_oriented = any(face.kind.is_oriented for face in pattern.faces)
    return nn.Linear(width, out, bias=not is_oriented, device=device, dtype=dtype)


def _complete(pattern: Pattern, width: int, out: int, device: Any, dtype: Any) -> nn.Module:
    return Linear(
        EquivariantMap.between([pattern], [pattern]), width, out, device=device, dtype=dtype
    )


class Multilinear(Planned):
    r"""Every multilinear map that respects relabelling: all products of Theorem 5 (docs/math.md
    section 17), each with weights of its own.

    $$y = \sum_t W_t\big(\mathrm{einsum}_t(x_1 \otimes \dots \otimes x_n)\big),$$

    t over the products of the map, and $W_t$ any matrix from the products of channels to those of
    the output. With `rank` the channels of every operand are first mapped to so many, and
    multiplied one by one: fewer weights and less work, and the whole space again where the rank is
    the product of all in_channels.

    Args:
        text: The map, `i j * i j -> i j`; commas do as well. Letters of different tensors are
            unrelated.
        in_channels: For all operands, or a dict by tensor.
        out_channels: Of the output.
        rank: How many channels operands are mapped to for every product; all products of channels,
            if not given.
        products: A predicate on products (`ProductText`) that keeps some, for example no joins.
        device, dtype: Of the parameters.

    Shape:
        x: (entries, in_channels) for an operand: one tensor that all operands are, a tuple of one
            for each, or a dict by tensor.
        weight: (products, *in_channels, out_channels); with rank `weights[k]` (products,
            in_channels of k, rank) and `weight` (products, rank, out_channels).

    Example:
        >>> s = Structure.complete(3, "i j")
        >>> layer = Multilinear("i j * i j -> i j", 2, 4)
        >>> layer(torch.randn(9, 2), s).shape, layer.weight.shape
        (torch.Size([9, 4]), torch.Size([203, 2, 2, 4]))
    """

    def __init__(
        self,
        text: str | MultilinearMap,
        in_channels: int | Mapping[str, int],
        out_channels: int,
        rank: int | None = None,
        products: Callable[[ProductText], bool] | None = None,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        self.map = text if isinstance(text, MultilinearMap) else MultilinearMap(text)
        if products is not None and not callable(products):
            raise IncidenceError(
                f"products= is a function that says which products to keep; got {products!r}."
            )
        self.products = tuple(
            product for product in self.map.products if products is None or products(product)
        )
        if not self.products:
            raise IncidenceError(
                f"no product is left of the {self.map.dimension} of `{self.map}`: the layer would"
                " be 0."
            )
        self._operands = Operands(self.map.operands, self.map.text)
        self.in_channels = [
            as_channels(c, "in_channels", 1)
            for c in self._operands.per_operand(in_channels, "in_channels")
        ]
        self.out_channels = as_channels(out_channels, "out_channels", 1)
        self.rank = None if rank is None else as_channels(rank, "rank", 1)
        shapes = [(*self.in_channels, self.out_channels)]  # a weight for all products of channels
        if self.rank is not None:
            shapes = [
                (self.rank, self.out_channels),
                *((width, self.rank) for width in self.in_channels),
            ]
        self.weight, *rest = (
            nn.Parameter(torch.empty(len(self.products), *shape, device=device, dtype=dtype))
            for shape in shapes
        )
        self.weights = nn.ParameterList(rest)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the weights anew: with products of unit scale, which `calibrate` sees to, the output
        has unit scale.
        """
        with torch.no_grad():
            self.weight.normal_(std=1 / sqrt(len(self.products) * prod(self.weight.shape[1:-1])))
            for weight in self.weights:
                weight.normal_(std=1 / sqrt(weight.shape[1]))  # columns of unit length, about

    @takes_examples
    def forward(self, x: Values | Sequence[Tensor], structure: Structure) -> Tensor:
        """Apply the layer.

        Raises:
            IncidenceError: The values do not fit the structure or the layer.
        """
        xs = self._operands.values(x)
        if not torch.compiler.is_compiling():
            assert_operands(self.products[0], xs, structure, self.in_channels)
        # One product at a time: all of them together would take as much memory as there are
        # products.
        y = self._term(0, xs, structure)
        for number in range(1, len(self.products)):
            y = y + self._term(number, xs, structure)
        return y

    def _term(self, number: int, xs: Sequence[Tensor], structure: Structure) -> Tensor:
        """Return what one product gives, (entries, out_channels)."""
        # (entries, out)
        return self._product(number, xs, structure) @ self.weight[number].flatten(0, -2)

    def _product(self, number: int, xs: Sequence[Tensor], structure: Structure) -> Tensor:
        """Return one product before its weight, (entries, products of channels or rank)."""
        text = str(self.products[number])
        if self.rank is not None:
            return linked(
                text,
                # (entries, rank) each
                [x @ weight[number] for x, weight in zip(xs, self.weights, strict=True)],
                structure,
            )
        shapes = [
            # channels on an axis of their own, so that the product has all pairs of channels
            [x.shape[1] if place == k else 1 for place in range(len(xs))]
            for k, x in enumerate(xs)
        ]
        return linked(
            text,
            [x.view(x.shape[0], *shape) for x, shape in zip(xs, shapes, strict=True)],
            structure,
        ).flatten(1)

    @torch.no_grad()
    def calibrate(self, x: Values | Sequence[Tensor], structure: Structure) -> Multilinear:
        """Divide the weight of every product by the root mean square of the product on this batch;
        those that are 0 are left alone.
        """
        xs = self._operands.values(x)
        assert_operands(self.products[0], xs, structure, self.in_channels)
        for number, weight in enumerate(self.weight):
            # root mean square
            scale = float(self._product(number, xs, structure).double().square().mean().sqrt())
            if scale > 0:
                weight.div_(scale)
        return self

    def plan(self, structure: Structure) -> None:
        """Make the index lists of all products for a structure: needed before tracing."""
        for product in self.products:
            plan_einsum(str(product), structure)

    def extra_repr(self) -> str:
        """Return the layer as it was written."""
        widths = self.in_channels[0] if len(set(self.in_channels)) == 1 else self.in_channels
        rank = "" if self.rank is None else f", rank={self.rank}"
        return (
            f"{self.map.text!r}, {widths}, {self.out_channels}{rank}, products={len(self.products)}"
        )
