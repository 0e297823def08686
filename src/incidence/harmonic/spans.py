r"""Noise that spans the harmonic tensors of every structure.

Let Z be a matrix of white noise and $Y = P Z$ its harmonic part. With at least as many columns as
there are harmonic tensors, Y spans them all: its rank is their number, the Betti number, and
$Y (Y^\top Y)^+ Y^\top$ is P itself. So neither depends on the draw. With fewer columns, Y spans a
random part. Its distribution does not change when nodes are renumbered or faces reversed.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from incidence.algebra.pattern import Pattern
from incidence.harmonic.boundaries import assert_whole
from incidence.harmonic.projection import harmonic_plan_of
from incidence.structure import Structure
from incidence.structure.data import cache_of

__all__ = ["HarmonicSpan", "harmonic_span"]

_RESIDUAL = 1e-12
_NULL = 1e-10  # of the square of the noise: a smaller part is rounding


@dataclass(frozen=True, eq=False)
class HarmonicSpan:
    """What noise spans of the harmonic tensors of every structure.

    Attributes:
        ranks: The number of harmonic tensors, or of columns if that is less; shape (structures,).
        mass: The diagonal of the projection on the span: which share of a unit at an entry is
            harmonic. Adds up to the rank. In float64, shape (entries,).
        home: The structure of every entry, shape (entries,).
    """

    ranks: Tensor
    mass: Tensor
    home: Tensor


def harmonic_span(structure: Structure, pattern: Pattern, columns: int, seed: int) -> HarmonicSpan:
    """Return what noise spans, which is cached on the structure.

    Args:
        structure: The structure.
        pattern: A tensor on sets of nodes of one sort, with an orientation or without.
        columns: The number of columns of noise.
        seed: Seed of the noise.
    """
    assert_whole(structure)
    cache = cache_of(structure, HarmonicSpan)
    key = pattern, columns, seed
    if key not in cache:
        with torch.inference_mode(False), torch.no_grad():
            cache[key] = _new_span(structure, pattern, columns, seed)
    return cache[key]


def _new_span(structure: Structure, pattern: Pattern, columns: int, seed: int) -> HarmonicSpan:
    home = structure.batch(pattern)
    plan = harmonic_plan_of(structure, pattern)
    part = plan.project(_noise(structure, pattern, columns, seed), _RESIDUAL)  # (entries, columns)
    products = part[:, :, None] * part[:, None]
    squares = part.new_zeros(structure.num_structures, columns, columns)
    sizes, vectors = torch.linalg.eigh(squares.index_add_(0, home, products))
    is_known = sizes > _NULL
    inverse = torch.where(is_known, sizes, 1.0).rsqrt() * is_known  # (structures, columns)
    basis = (part[:, None] @ (vectors * inverse[:, None])[home])[:, 0]  # (entries, columns)
    return HarmonicSpan(is_known.sum(1), basis.square().sum(1), home)


def _noise(structure: Structure, pattern: Pattern, columns: int, seed: int) -> Tensor:
    """White noise that depends on the number of an entry in its structure, and on nothing else.

    A structure has the same noise alone and in every batch, on every device, in every process.
    """
    ptr = structure.entry_ptr(pattern)
    home = structure.batch(pattern)
    number = torch.arange(len(home), device=home.device) - ptr[:-1][home]
    longest = int(ptr.diff().max()) if len(ptr) > 1 else 0
    generator = torch.Generator().manual_seed(seed)
    # numbers are drawn one after the other: more rows do not change the first ones
    shape = longest, columns
    drawn = torch.rand(shape, generator=generator, dtype=torch.float64, device="cpu")
    return (2 * drawn - 1).mul_(3**0.5).to(home.device)[number]
