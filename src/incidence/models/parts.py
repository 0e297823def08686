"""What networks are made of, beside the layers of `incidence.nn`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from incidence.algebra.maps import EquivariantMap
from incidence.nn import BatchNorm, LayerNorm
from incidence.nn.tensors import Values, key_of
from incidence.structure import Structure

__all__ = ["ACTIVATIONS", "NORMS", "PerTensor", "Rescale", "Sum"]

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


class Rescale(nn.Module):
    """Shifts and scales every channel by numbers that are taken from a first batch, and then stay.

    Sums over whole structures can be large; where there is no norm, nothing else would bring them to a scale that a network learns on.
    """

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.register_buffer("shift", torch.zeros(channels))
        self.register_buffer("scale", torch.ones(channels))

    shift: Tensor
    scale: Tensor

    def forward(self, x: Tensor) -> Tensor:
        """The scaled rows."""
        return (x - self.shift) / self.scale

    @torch.no_grad()
    def calibrate(self, x: Tensor) -> Rescale:
        """Takes the mean and the deviation of a batch; a channel that is constant there is only shifted."""
        deviation = x.std(0, unbiased=False) if len(x) > 1 else torch.ones_like(self.scale)
        self.shift.copy_(x.mean(0))
        self.scale.copy_(torch.where(deviation > 1e-6 * x.abs().amax(0), deviation, 1.0))
        return self
