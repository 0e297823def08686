"""What networks are made of, beside the layers of `incidence.nn`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from incidence.algebra.maps import EquivariantMap
from incidence.errors import IncidenceError
from incidence.nn import BatchNorm, LayerNorm
from incidence.nn.tensors import Values, key_of
from incidence.structure import Structure

__all__ = ["ACTIVATIONS", "NORMS", "PerTensor", "Sum", "activation"]

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "elu": nn.functional.elu,
    "gelu": nn.functional.gelu,
    "relu": torch.relu,
    "silu": nn.functional.silu,
    "tanh": torch.tanh,
}

NORMS: dict[str, Callable[[str, int], list[nn.Module]]] = {
    "batch": lambda text, channels: [BatchNorm(text, channels)],
    "layer": lambda text, channels: [LayerNorm(text, channels)],
    "none": lambda text, channels: [],
}


def activation(name: str) -> Callable[[Tensor], Tensor]:
    """An activation by name."""
    if name not in ACTIVATIONS:
        raise IncidenceError(f"activation is one of {', '.join(ACTIVATIONS)}; got {name!r}.")
    return ACTIVATIONS[name]


class PerTensor(nn.Module):
    """A linear map of every entry, one for each tensor."""

    def __init__(self, text: str, in_channels: int, out_channels: int, bias: bool = True) -> None:
        super().__init__()
        self.keys = [key_of(p) for p in EquivariantMap(f"{text} -> ").inputs]
        self.maps = nn.ModuleList(nn.Linear(in_channels, out_channels, bias) for _ in self.keys)

    def forward(self, x: Values, structure: Structure) -> Any:
        """Maps every entry."""
        if not isinstance(x, Mapping):
            return self.maps[0](x)
        return {key: linear(x[key]) for key, linear in zip(self.keys, self.maps, strict=True)}


class Sum(nn.Module):
    """The sum of what several modules make of the same input."""

    def __init__(self, *modules: nn.Module) -> None:
        super().__init__()
        self.terms = nn.ModuleList(modules)

    def forward(self, x: Values, structure: Structure) -> Any:
        """Adds up the terms."""
        first, *rest = (term(x, structure) for term in self.terms)
        for y in rest:
            first = {key: value + y[key] for key, value in first.items()} if isinstance(first, Mapping) else first + y
        return first
