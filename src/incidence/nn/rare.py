"""Layers that few networks have. `incidence.nn` loads this module when one of them is used."""

from incidence.nn.attention import Attention
from incidence.nn.automorphism import AutomorphismLinear
from incidence.nn.diffusion import Diffusion, Neighbours
from incidence.nn.exchangeable import Exchangeable
from incidence.nn.harmonic import Harmonic
from incidence.nn.masked import MaskedLinear
from incidence.nn.odd import Gate
from incidence.nn.products import Multilinear, Product
from incidence.nn.topology import HarmonicRanks, HarmonicReadout, HarmonicTerm

__all__ = [
    "Attention",
    "AutomorphismLinear",
    "Diffusion",
    "Exchangeable",
    "Gate",
    "Harmonic",
    "HarmonicRanks",
    "HarmonicReadout",
    "HarmonicTerm",
    "MaskedLinear",
    "Multilinear",
    "Neighbours",
    "Product",
]
