r"""Orbits of a group on pairs of entries: the 0/1 basis of the maps that are equivariant to it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from random import Random

import torch
from torch import Tensor

from incidence.algebra.pattern import Pattern
from incidence.errors import TooLargeError
from incidence.structure.structure import Structure
from incidence.symmetry.group import Group
from incidence.symmetry.orbits import number_orbits

__all__ = ["PairOrbits", "pair_orbits"]

_MAX_PAIRS = 2**30
_MIXED = 4


@dataclass(frozen=True)
class PairOrbits:
    """The orbits of pairs of an output entry y and an input entry x.

    They are numbered by their first pair, row by row; so those with one orbit of output entries stand side by side.

    Attributes:
        number: The orbit of every pair, shape (outputs, inputs).
        sizes: How many pairs each orbit has.
        ys, xs: The first pair of each orbit.
    """

    number: Tensor
    sizes: Tensor
    ys: Tensor
    xs: Tensor

    def __len__(self) -> int:
        return len(self.sizes)


def pair_orbits(group: Group, source: str | Pattern, target: str | Pattern, structure: Structure | None = None) -> PairOrbits:
    """The orbits of a group on pairs of entries of two tensors; time and memory are linear in the pairs, for each generator.

    Raises:
        TooLargeError: There are too many pairs to number.

    Example:
        >>> turn = Group(5, [[1, 2, 3, 4, 0]])
        >>> len(pair_orbits(turn, "i", "i"))  # circulant matrices
        5
    """
    structure = structure or group.structure
    num_x, num_y = structure.num_entries(source), structure.num_entries(target)
    if num_x * num_y > _MAX_PAIRS:
        raise TooLargeError(f"`{source}` and `{target}` have {num_x * num_y:,} pairs of entries here; at most {_MAX_PAIRS:,} are numbered.")
    moved = list(zip(group.permutations(target, structure), group.permutations(source, structure), strict=True))
    moved = [*_mixed(moved), *moved]

    number, first = number_orbits(num_y * num_x, ((y[:, None] * num_x + x).flatten() for y, x in moved), structure.device)
    sizes = torch.bincount(number, minlength=len(first))
    return PairOrbits(number.view(num_y, num_x), sizes, first // max(num_x, 1), first % max(num_x, 1))


def _mixed(moved: list[tuple[Tensor, Tensor]]) -> Iterator[tuple[Tensor, Tensor]]:
    """A few random products of many generators: they join nearly all that is to be joined, so that the rest is soon seen to be done."""
    random = Random(0)
    for _ in range(_MIXED if len(moved) > _MIXED else 0):
        y, x = moved[0]
        for other_y, other_x in random.sample(moved, len(moved) // 2):
            y, x = other_y[y], other_x[x]
        yield y, x
