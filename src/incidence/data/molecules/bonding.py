"""Bonds from positions in space: which atoms are close enough, and which bonds are double or triple."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from incidence.data.molecules.joined import Joined, starts
from incidence.data.molecules.tables import RADIUS, Array
from incidence.geometry.convert.elements import NUMBER, SYMBOLS

__all__ = ["bonded"]

_STRETCH = 1.15
"""Atoms are bonded up to this multiple of the sum of their covalent radii."""


def _table(values: dict[str, int]) -> Array:
    table = np.zeros(len(SYMBOLS), dtype=np.int64)
    table[[NUMBER[symbol] for symbol in values]] = list(values.values())
    return table


_USUAL = _table({"H": 1, "B": 3, "C": 4, "N": 3, "O": 2, "F": 1, "Si": 4, "P": 3, "S": 2, "Cl": 1, "Se": 2, "Br": 1, "I": 1})
# As files without charges write nitro groups and sulfones.
_LARGEST = np.maximum(_USUAL, _table({"N": 5, "P": 5, "S": 6, "Se": 6}))


def bonded(joined: Joined) -> Joined:
    """The molecules with the bonds that the distances of their atoms tell; all hydrogens must be there.

    A bond is double or triple where both ends have fewer bonds than usual; shorter ones first.
    """
    pairs = _pairs(joined.atom_ptr)
    one, other = pairs
    reach = RADIUS[joined.numbers[one]] + RADIUS[joined.numbers[other]]
    ratio = np.linalg.norm(joined.positions[one] - joined.positions[other], axis=1) / reach
    close = ratio < _STRETCH
    bonds, ratio = pairs[:, close], ratio[close]
    home = np.searchsorted(joined.atom_ptr, bonds[0], side="right") - 1
    counts = np.bincount(home, minlength=len(joined.atom_ptr) - 1)
    single = replace(joined, bonds=bonds, orders=np.ones(len(ratio), dtype=np.int64), bond_ptr=starts(counts))
    return replace(single, orders=_orders(single, home, ratio))


def _pairs(ptr: Array) -> Array:
    """All pairs of atoms of one molecule, the smaller number first."""
    sizes = np.diff(ptr)
    later = np.repeat(ptr[1:], sizes) - np.arange(ptr[-1]) - 1  # how many atoms of the molecule follow
    one = np.repeat(np.arange(ptr[-1]), later)
    within = np.arange(len(one)) - np.repeat(np.cumsum(later) - later, later)
    return np.stack([one, one + 1 + within])


def _orders(joined: Joined, home: Array, ratio: Array) -> Array:
    """Raises orders while both ends lack bonds; then also where one end lacks bonds and the other may have more than usual."""
    orders = joined.orders
    for most in (_USUAL, _LARGEST):
        while True:
            used = replace(joined, orders=orders).at_atoms(orders)
            lacks, takes = (used < _USUAL[joined.numbers])[joined.bonds], (used < most[joined.numbers])[joined.bonds]
            is_open = takes.all(axis=0) & lacks.any(axis=0) & (orders < 3)
            if not is_open.any():
                break
            orders = orders.copy()
            orders[_first(joined, home, ratio, is_open)] += 1
    return orders


def _first(joined: Joined, home: Array, ratio: Array, is_open: Array) -> Array:
    """One open bond of each molecule: that of an atom with no other choice, else the shortest.

    Without the first rule a ring may be left with two atoms that lack a bond, far apart.
    """
    choices = joined.at_atoms(is_open)[joined.bonds].min(axis=0)
    [rows] = np.nonzero(is_open)
    rows = rows[np.lexsort((ratio[rows], choices[rows] > 1, home[rows]))]
    _, first = np.unique(home[rows], return_index=True)
    found: Array = rows[first]
    return found
