"""Layers: the complete linear layer, its kin for other groups, and what a network needs around
them.
"""

from incidence.lazy import uninterrupted

with uninterrupted():
    from incidence.engine.aggregate import Aggregation, register_aggregation
    from incidence.nn.attention import Attention
    from incidence.nn.automorphism import AutomorphismLinear
    from incidence.nn.diffusion import Diffusion, Neighbours
    from incidence.nn.exchangeable import Exchangeable
    from incidence.nn.harmonic import Harmonic
    from incidence.nn.linear import Linear
    from incidence.nn.masked import MaskedLinear
    from incidence.nn.modules import Activation, Dropout, Residual, Sequential
    from incidence.nn.norms import BatchNorm, LayerNorm
    from incidence.nn.odd import Gate
    from incidence.nn.products import Multilinear, Product
    from incidence.nn.readout import Readout
    from incidence.nn.topology import HarmonicRanks, HarmonicReadout, HarmonicTerm

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
