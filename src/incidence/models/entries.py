"""What networks do with every entry on its own: linear maps, scaled rows, one of several tensors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from incidence.algebra.pattern import Pattern
from incidence.nn.composition import Side, unknown
from incidence.nn.tensors import Values, as_side, key_of
from incidence.structure import Structure

__all__ = ["PerTensor", "Pick", "RowScale"]


class PerTensor(nn.Module):
    """A linear map of every entry, one for each tensor; that of an oriented tensor has no bias.

    Channels are for all, or for each in the order of the text; -1 if they are not known yet.
    """

    def __init__(
        self, text: str, in_channels: int | Sequence[int], out_channels: int, bias: bool = True
    ) -> None:
        super().__init__()
        self.patterns, self.out_channels = as_side(text), out_channels
        self.keys = [key_of(p) for p in self.patterns]
        widths = [in_channels] * len(self.keys) if isinstance(in_channels, int) else in_channels
        biases = [bias and not p.is_oriented for p in self.patterns]
        self.maps = nn.ModuleList(
            _linear(width, out_channels, b) for width, b in zip(widths, biases, strict=True)
        )

    def forward(self, x: Values, structure: Structure) -> Any:
        """Maps every entry."""
        if not isinstance(x, Mapping):
            return self.maps[0](x)
        return {key: linear(x[key]) for key, linear in zip(self.keys, self.maps, strict=True)}

    def follow(self, side: Side | None) -> Side:
        """The same tensors."""
        return Side(self.patterns, (self.out_channels,) * len(self.patterns))


def _linear(in_channels: int, out_channels: int, bias: bool) -> nn.Linear:
    return (
        nn.LazyLinear(out_channels, bias)
        if in_channels < 0
        else nn.Linear(in_channels, out_channels, bias)
    )


class Pick(nn.Module):
    """One of several tensors."""

    def __init__(self, output: Pattern) -> None:
        super().__init__()
        self.output, self.key = output, key_of(output)

    def forward(self, x: Values, structure: Structure) -> Tensor:
        """The tensor."""
        return x[self.key] if isinstance(x, Mapping) else x

    def follow(self, side: Side | None) -> Side:
        """That tensor."""
        return unknown((self.output,))

    def extra_repr(self) -> str:
        """Its key."""
        return repr(self.key)


class RowScale(nn.Module):
    """Divides every row by the sum of its absolute values; a row of zeros stays."""

    def forward(self, x: Values, structure: Structure) -> Any:
        """The scaled rows of every tensor."""
        if isinstance(x, Mapping):
            return {key: self._scaled(value) for key, value in x.items()}
        return self._scaled(x)

    def follow(self, side: Side | None) -> Side | None:
        """The same tensors: a row keeps its signs."""
        return side

    @staticmethod
    def _scaled(x: Tensor) -> Tensor:
        total = x.abs().sum(1, keepdim=True)
        return x / torch.where(total > 0, total, 1.0)
