"""Layers: the complete linear layer, its kin for other groups, and what a network needs around
them.

What most networks have is loaded at once. Attention, products, other groups, diffusion and harmonic
parts are loaded on first use: they would add a quarter to the time of `import incidence.nn`.
"""

from typing import TYPE_CHECKING, Any

from incidence.lazy import uninterrupted

with uninterrupted():
    from incidence.engine.aggregate import Aggregation, register_aggregation
    from incidence.nn.linear import Linear
    from incidence.nn.modules import Activation, Dropout, Residual, Sequential
    from incidence.nn.norms import BatchNorm, LayerNorm
    from incidence.nn.readout import Readout

if TYPE_CHECKING:
    from incidence.nn.rare import (
        Attention,
        AutomorphismLinear,
        Diffusion,
        Exchangeable,
        Gate,
        Harmonic,
        HarmonicRanks,
        HarmonicReadout,
        HarmonicTerm,
        MaskedLinear,
        Multilinear,
        Neighbours,
        Product,
    )

__all__ = [
    "Activation",
    "Aggregation",
    "Attention",
    "AutomorphismLinear",
    "BatchNorm",
    "Diffusion",
    "Dropout",
    "Exchangeable",
    "Gate",
    "Harmonic",
    "HarmonicRanks",
    "HarmonicReadout",
    "HarmonicTerm",
    "LayerNorm",
    "Linear",
    "MaskedLinear",
    "Multilinear",
    "Neighbours",
    "Product",
    "Readout",
    "Residual",
    "Sequential",
    "register_aggregation",
]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from incidence.nn import rare

    globals()[name] = value = getattr(rare, name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
