"""Layers: the complete linear layer, its kin for other groups, and what a network needs around
them.

What most networks have is loaded at once. Attention, products, other groups, diffusion and harmonic
parts are loaded on first use: they would add a quarter to the time of `import incidence.nn`.
"""

from typing import TYPE_CHECKING

from incidence.lazy import front_door, uninterrupted

with uninterrupted():
    from incidence.engine.aggregate import Aggregation, register_aggregation
    from incidence.nn.linear import Linear
    from incidence.nn.modules import Activation, Dropout, Residual, Sequential
    from incidence.nn.norms import BatchNorm, LayerNorm
    from incidence.nn.readout import Readout

if TYPE_CHECKING:
    from incidence.nn.attention import Attention
    from incidence.nn.automorphism import AutomorphismLinear
    from incidence.nn.diffusion import Diffusion, Neighbours
    from incidence.nn.exchangeable import Exchangeable
    from incidence.nn.harmonic import Harmonic
    from incidence.nn.masked import MaskedLinear
    from incidence.nn.odd import Gate
    from incidence.nn.products import Multilinear, Product
    from incidence.nn.topology import HarmonicRanks, HarmonicReadout, HarmonicTerm

_HOMES = {
    "Attention": "incidence.nn.attention",
    "AutomorphismLinear": "incidence.nn.automorphism",
    "Diffusion": "incidence.nn.diffusion",
    "Exchangeable": "incidence.nn.exchangeable",
    "Gate": "incidence.nn.odd",
    "Harmonic": "incidence.nn.harmonic",
    "HarmonicRanks": "incidence.nn.topology",
    "HarmonicReadout": "incidence.nn.topology",
    "HarmonicTerm": "incidence.nn.topology",
    "MaskedLinear": "incidence.nn.masked",
    "Multilinear": "incidence.nn.products",
    "Neighbours": "incidence.nn.diffusion",
    "Product": "incidence.nn.products",
}

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

__getattr__, _names = front_door(__name__, _HOMES)


def __dir__() -> list[str]:
    return sorted({*globals(), *_names()})
