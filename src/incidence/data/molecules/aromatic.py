"""Rings of molecules, and which of them are aromatic: Hückel's count for every ring and every two that are fused."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from incidence.data.molecules.joined import Joined
from incidence.data.molecules.tables import LONE_PAIR, Array
from incidence.structure.structure import Structure

__all__ = ["Rings", "rings_of"]

_AROMATIC_SIZES = (5, 8)
_IMPOSSIBLE = 1000  # electrons of an atom that no aromatic ring can have; more than any ring could make up for


@dataclass(frozen=True, eq=False)
class Rings:
    """The rings, and which atoms and bonds are in them.

    Attributes:
        sizes: The number of atoms of every ring.
        is_aromatic: For every ring.
        atoms: Pairs (atom, ring), shape [2, incidences].
        bonds: Pairs (bond, ring), shape [2, incidences].
    """

    sizes: Array
    is_aromatic: Array
    atoms: Array
    bonds: Array

    def count(self, pairs: Array, values: Array, length: int) -> Array:
        """For every atom or bond, the sum over its rings of their values."""
        return np.bincount(pairs[0], values[pairs[1]].astype(float), minlength=length)


def rings_of(joined: Joined, structure: Structure) -> Rings:
    """What is to be known about the rings of a structure that has them as `ring`."""
    atoms = structure["ring"].numpy()
    sizes = np.bincount(atoms[1], minlength=structure.num_entries("ring"))
    bonds = _bonds_in(joined, atoms)
    return Rings(sizes, _hueckel(joined, sizes, atoms, bonds), atoms, bonds)


def _bonds_in(joined: Joined, atoms: Array) -> Array:
    """Pairs (bond, ring): as rings have no chords, a bond is in a ring if both of its ends are."""
    order = np.argsort(atoms[0], kind="stable")
    count = np.bincount(atoms[0], minlength=joined.num_atoms)
    start = np.cumsum(count) - count
    one, other = joined.bonds
    bond = np.repeat(np.arange(len(one)), count[one])
    within = np.arange(len(bond)) - np.repeat(np.cumsum(count[one]) - count[one], count[one])
    ring = atoms[1][order][start[one][bond] + within]
    key = atoms[1] * joined.num_atoms + atoms[0]
    is_in = np.isin(ring * joined.num_atoms + other[bond], key)
    return np.stack([bond[is_in], ring[is_in]])


def _hueckel(joined: Joined, sizes: Array, atoms: Array, bonds: Array) -> Array:
    """Whether a ring, by itself or with one that it shares a bond with, has 2, 6, 10, ... electrons; or the file calls it aromatic."""
    given = _electrons(joined, bonds)
    electrons = np.bincount(atoms[1], given[atoms[0]], minlength=len(sizes))
    smallest, largest = _AROMATIC_SIZES
    has_size = (sizes >= smallest) & (sizes <= largest)
    found: Array = _fits(electrons) & has_size
    one, other, shared = _fused(bonds, len(sizes))
    is_pair = _fits(electrons[one] + electrons[other] - given[joined.bonds[:, shared]].sum(axis=0)) & has_size[one] & has_size[other]
    found[one[is_pair]] = True
    found[other[is_pair]] = True
    found |= np.bincount(bonds[1], joined.orders[bonds[0]] == 4, minlength=len(sizes)) == sizes
    return found


def _fits(electrons: Array) -> Array:
    found: Array = (electrons < _IMPOSSIBLE) & (electrons % 4 == 2)
    return found


def _fused(bonds: Array, num_rings: int) -> tuple[Array, Array, Array]:
    """Pairs of rings that share one bond only, and that bond."""
    order = np.argsort(bonds[0], kind="stable")
    bond, ring = bonds[:, order]
    last = np.searchsorted(bond, bond, side="right")
    later = last - np.arange(len(bond)) - 1  # rings of the same bond that follow
    left = np.repeat(np.arange(len(bond)), later)
    right = left + 1 + np.arange(len(left)) - np.repeat(np.cumsum(later) - later, later)
    one, other = np.minimum(ring[left], ring[right]), np.maximum(ring[left], ring[right])
    _, inverse, times = np.unique(one * num_rings + other, return_inverse=True, return_counts=True)
    once = times[inverse] == 1
    return one[once], other[once], bond[left][once]


def _electrons(joined: Joined, ring_bonds: Array) -> Array:
    """How many electrons an atom gives to a ring that it is in.

    One from a double bond of that or a neighbouring ring; none if its double bond leads out of the rings to a heteroatom, which draws
    the electrons away; two from a lone pair; none from an empty orbital (boron, a carbon cation). A saturated atom, and one with a double
    bond out to a carbon, break the circle.
    """
    number, charge = joined.numbers, joined.atoms[:, 1]
    in_ring = np.zeros(len(joined.orders), dtype=bool)
    in_ring[ring_bonds[0]] = True
    multiple = joined.is_multiple
    inner = joined.at_atoms(multiple & in_ring & (joined.orders != 4)) + (joined.at_atoms(joined.orders == 4) > 0)
    outer = joined.at_atoms(multiple & ~in_ring)
    hetero = (number != 6) & (number != 1)
    outer_hetero = _over_bonds(joined, multiple & ~in_ring, hetero)
    saturated = (inner == 0) & (outer == 0)
    has_pair = (LONE_PAIR[number] & (charge <= 0)) | ((number == 6) & (charge < 0))
    is_empty = ((number == 6) & (charge > 0)) | ((number == 5) & (charge == 0))
    given = np.full(joined.num_atoms, _IMPOSSIBLE)
    given[saturated & has_pair] = 2
    given[saturated & is_empty] = 0
    given[(inner == 0) & (outer == 1) & (outer_hetero == 1) & (number == 6)] = 0
    given[(inner == 1) & ((outer == 0) | (number == 7))] = 1
    return given


def _over_bonds(joined: Joined, chosen: Array, values: Array) -> Array:
    """For every atom the sum of the values of its neighbours along chosen bonds."""
    one, other = joined.bonds[:, chosen]
    return np.bincount(np.concatenate([one, other]), np.concatenate([values[other], values[one]]), minlength=joined.num_atoms)
