r"""`Product`: operands through linear maps of their own, multiplied where their letters meet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from incidence.algebra.maps import EquivariantMap
from incidence.algebra.pattern import Pattern
from incidence.algebra.products import parse_product
from incidence.engine.products.contract import MAX_JOINED
from incidence.engine.products.plan import JoinPlan
from incidence.errors import IncidenceError
from incidence.nn.functional import as_limit, assert_operands, einsum, plan_einsum
from incidence.nn.linear import Linear, as_channels
from incidence.nn.modules import BatchNorm, LayerNorm
from incidence.nn.operands import Operands
from incidence.nn.planned import Planned
from incidence.nn.tensors import Values
from incidence.structure import Structure

__all__ = ["Product"]

_NORMS = {"layer": LayerNorm, "batch": BatchNorm}


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
        found = None if norm is None else _NORMS[norm](str(self.product.output), self.out_channels)
        self.norm = None if found is None else found.to(device=device, dtype=dtype)

    def forward(self, x: Values | Sequence[Tensor], structure: Structure) -> Tensor:
        """The product on a structure.

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
        """The index lists of the product for a structure. Print it for its cost."""
        for module in (*self.maps, self.norm):
            if isinstance(module, (Linear, LayerNorm, BatchNorm)):
                module.plan(structure)
        return plan_einsum(self.product.text, structure, self.limit)

    def extra_repr(self) -> str:
        """What the layer is, as it was written."""
        widths = self.in_channels[0] if len(set(self.in_channels)) == 1 else self.in_channels
        return f"{self.product.text!r}, {widths}, {self.out_channels}"


def _by_entry(pattern: Pattern, width: int, out: int, device: Any, dtype: Any) -> nn.Module:
    """A map of the channels of every entry; values that change sign with the order of nodes have no
    bias.
    """
    is_oriented = any(face.kind.is_oriented for face in pattern.faces)
    return nn.Linear(width, out, bias=not is_oriented, device=device, dtype=dtype)


def _complete(pattern: Pattern, width: int, out: int, device: Any, dtype: Any) -> nn.Module:
    return Linear(
        EquivariantMap.between([pattern], [pattern]), width, out, device=device, dtype=dtype
    )
