"""Numbers about the elements that features are made of, by atomic number."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from incidence.geometry.convert.elements import NUMBER, SYMBOLS

__all__ = ["ELECTRONEGATIVITY", "ELEMENTS", "LONE_PAIR", "MAX_VALENCE", "RADIUS", "VALENCES", "Array", "column_of", "valence"]

Array = NDArray[Any]

ELEMENTS = ("H", "B", "C", "N", "O", "F", "Si", "P", "S", "Cl", "Br", "I")
"""Those with a column of their own; all others share one."""

# Pauling's scale; an element that is not here has that of an average metal.
_PAULING = """
H 2.20 Li 0.98 Be 1.57 B 2.04 C 2.55 N 3.04 O 3.44 F 3.98 Na 0.93 Mg 1.31 Al 1.61 Si 1.90 P 2.19 S 2.58 Cl 3.16 K 0.82 Ca 1.00 Sc 1.36
Ti 1.54 V 1.63 Cr 1.66 Mn 1.55 Fe 1.83 Co 1.88 Ni 1.91 Cu 1.90 Zn 1.65 Ga 1.81 Ge 2.01 As 2.18 Se 2.55 Br 2.96 Rb 0.82 Sr 0.95 Y 1.22
Zr 1.33 Nb 1.60 Mo 2.16 Tc 1.90 Ru 2.20 Rh 2.28 Pd 2.20 Ag 1.93 Cd 1.69 In 1.78 Sn 1.96 Sb 2.05 Te 2.10 I 2.66 Xe 2.60 Cs 0.79 Ba 0.89
Hf 1.30 Ta 1.50 W 2.36 Re 1.90 Os 2.20 Ir 2.20 Pt 2.28 Au 2.54 Hg 2.00 Tl 1.62 Pb 2.33 Bi 2.02
"""

# Single-bond covalent radii in Angstrom.
_RADII = "H 0.31 B 0.84 C 0.76 N 0.71 O 0.66 F 0.57 Si 1.11 P 1.07 S 1.05 Cl 1.02 As 1.19 Se 1.20 Br 1.20 Sn 1.39 I 1.39"


def _by_number(text: str, default: float) -> Array:
    words = text.split()
    values = np.full(len(SYMBOLS), default)
    values[[NUMBER[symbol] for symbol in words[::2]]] = [float(word) for word in words[1::2]]
    return values


ELECTRONEGATIVITY = _by_number(_PAULING, 1.7)
RADIUS = _by_number(_RADII, 1.5)

VALENCES: dict[str, tuple[int, ...]] = {
    "H": (1,),
    "B": (3,),
    "C": (4,),
    "N": (3, 4, 5),  # 4 without a charge is a charge that the file lacks, as in N=N=N, and no hydrogen
    "O": (2,),
    "F": (1,),
    "Si": (4,),
    "P": (3, 5),
    "S": (2, 4, 6),
    "Cl": (1, 3, 5, 7),
    "Ge": (4,),
    "As": (3, 5),
    "Se": (2, 4, 6),
    "Br": (1, 3, 5, 7),
    "Sn": (2, 4),
    "Te": (2, 4, 6),
    "I": (1, 3, 5, 7),
}
"""How many bonds an atom without charge may have; the elements that are not here take no hydrogens."""

MAX_VALENCE = 8

LONE_PAIR = np.isin(np.arange(len(SYMBOLS)), [NUMBER[s] for s in ("N", "O", "P", "S", "As", "Se", "Te")])
"""Elements that have a lone pair to give to a ring when all their bonds are single."""

# What a charge does to a valence: boron gains a bond with a negative one, carbon loses one either way, those to the right gain with a
# positive one.
_CHARGE_SIGN = {"B": -1, **dict.fromkeys(("H", "C", "Si", "Ge", "Sn"), 0)}


def _smallest_valences() -> Array:
    """For every element and sum of bond orders, the smallest valence that is not below it; 0 if there is none."""
    table = np.zeros((len(SYMBOLS), 4 * MAX_VALENCE), dtype=np.int64)
    for symbol, valences in VALENCES.items():
        for total in range(max(valences) + 1):
            table[NUMBER[symbol], total] = min(v for v in valences if v >= total)
    return table


_SMALLEST = _smallest_valences()
_SIGN = np.ones(len(SYMBOLS), dtype=np.int64)
_SIGN[[NUMBER[symbol] for symbol in _CHARGE_SIGN]] = list(_CHARGE_SIGN.values())


def valence(number: Array, charge: Array, total: Array) -> Array:
    """How many bonds atoms have with all their hydrogens, given the sum of the orders of those they show; 0 if that is too many."""
    gain = np.where(_SIGN[number] == 0, -np.abs(charge), _SIGN[number] * charge)
    without = np.clip(total - gain, 0, _SMALLEST.shape[1] - 1)
    smallest = _SMALLEST[number, without]
    return np.where(smallest > 0, smallest + gain, 0)


def column_of(numbers: Array) -> Array:
    """Which of the columns for elements is that of each atom; the last is for all others."""
    columns = np.full(len(SYMBOLS), len(ELEMENTS))
    columns[[NUMBER[symbol] for symbol in ELEMENTS]] = range(len(ELEMENTS))
    return columns[numbers]
