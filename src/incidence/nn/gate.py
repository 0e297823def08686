r"""`Gate`: an activation that is odd, because what opens it is even."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from incidence.nn.linear import as_channels

__all__ = ["Gate"]


class Gate(nn.Module):
    r"""Multiplies every value by a number between 0 and 1 that depends on sizes, not on signs: $y =
    x \cdot \sigma(|x| W + b)$.

    So it may follow a layer onto oriented faces, where ReLU may not. The gate may depend on other
    features of the same entries instead, which have no sign, such as lengths of edges: $y = x \cdot
    \sigma(z W + b)$.

    Args:
        channels: Of the values.
        by: Channels of the other features, if it is to depend on those: then it is called as
            `gate(x, z)`.

    Shape:
        x: (entries, channels); z: (entries, by). Out: (entries, channels).

    Example:
        >>> gate = Gate(3)
        >>> x = torch.randn(5, 3)
        >>> torch.equal(gate(-x), -gate(x))
        True
    """

    def __init__(self, channels: int, by: int | None = None) -> None:
        super().__init__()
        width = as_channels(channels, "channels", 1)
        self.opening = nn.Linear(width if by is None else as_channels(by, "by", 1), width)

    def forward(self, x: Tensor, z: Tensor | None = None) -> Tensor:
        """The values, each as far as its gate is open."""
        return x * torch.sigmoid(self.opening(x.abs() if z is None else z))
