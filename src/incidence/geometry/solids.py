r"""Corners of the regular and semiregular polytopes, as orbits of a few points under permutations and signs of the coordinates.

The coordinates are the usual ones, from closed formulas; `PHI` is the golden ratio.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import permutations, product
from math import prod, sqrt

import numpy as np
from numpy.typing import NDArray

__all__ = ["GROUPS", "SOLIDS", "solid_points"]

Seed = tuple[float, ...]

PHI = (1 + sqrt(5)) / 2
# t^3 = t^2 + t + 1 and x^3 = 2 x + PHI, by Cardano's formula
TRIBONACCI = float(1 + np.cbrt(19 - 3 * sqrt(33)) + np.cbrt(19 + 3 * sqrt(33))) / 3
SNUB = float(np.cbrt((PHI + sqrt(PHI - 5 / 27)) / 2) + np.cbrt((PHI - sqrt(PHI - 5 / 27)) / 2))
A, B = SNUB - 1 / SNUB, SNUB * PHI + PHI**2 + PHI / SNUB

# Which permutations (by parity) go with which signs (by their product).
GROUPS: dict[str, Callable[[int, int], bool]] = {
    "all": lambda parity, sign: True,
    "even permutations": lambda parity, sign: parity == 1,
    "even signs": lambda parity, sign: sign == 1,
    "rotations": lambda parity, sign: parity * sign == 1,
    "even rotations": lambda parity, sign: parity == sign == 1,
}

SOLIDS: dict[str, list[tuple[str, list[Seed]]]] = {
    "tetrahedron": [("even signs", [(1, 1, 1)])],
    "octahedron": [("all", [(1, 0, 0)])],
    "dodecahedron": [("even permutations", [(1, 1, 1), (0, 1 / PHI, PHI)])],
    "icosahedron": [("even permutations", [(0, 1, PHI)])],
    "truncated tetrahedron": [("even signs", [(3, 1, 1)])],
    "cuboctahedron": [("all", [(1, 1, 0)])],
    "truncated cube": [("all", [(sqrt(2) - 1, 1, 1)])],
    "truncated octahedron": [("all", [(0, 1, 2)])],
    "rhombicuboctahedron": [("all", [(1, 1, 1 + sqrt(2))])],
    "truncated cuboctahedron": [("all", [(1, 1 + sqrt(2), 1 + 2 * sqrt(2))])],
    "snub cube": [("rotations", [(1, 1 / TRIBONACCI, TRIBONACCI)])],
    "icosidodecahedron": [("even permutations", [(0, 0, 2 * PHI), (1, PHI, PHI**2)])],
    "truncated dodecahedron": [("even permutations", [(0, 1 / PHI, 2 + PHI), (1 / PHI, PHI, 2 * PHI), (PHI, 2, PHI + 1)])],
    "truncated icosahedron": [("even permutations", [(0, 1, 3 * PHI), (1, 2 + PHI, 2 * PHI), (PHI, 2, 2 * PHI + 1)])],
    "rhombicosidodecahedron": [("even permutations", [(1, 1, PHI**3), (PHI**2, PHI, 2 * PHI), (2 + PHI, 0, PHI**2)])],
    "truncated icosidodecahedron": [
        (
            "even permutations",
            [
                (1 / PHI, 1 / PHI, 3 + PHI),
                (2 / PHI, PHI, 1 + 2 * PHI),
                (1 / PHI, PHI**2, 3 * PHI - 1),
                (2 * PHI - 1, 2, 2 + PHI),
                (PHI, 3, 2 * PHI),
            ],
        )
    ],
    "snub dodecahedron": [
        (
            "even rotations",
            [
                (2 * A, 2, 2 * B),
                (A + B / PHI + PHI, -A * PHI + B + 1 / PHI, A / PHI + B * PHI - 1),
                (A + B / PHI - PHI, A * PHI - B + 1 / PHI, A / PHI + B * PHI + 1),
                (-A / PHI + B * PHI + 1, -A + B / PHI - PHI, A * PHI + B - 1 / PHI),
                (-A / PHI + B * PHI - 1, A - B / PHI - PHI, A * PHI + B + 1 / PHI),
            ],
        )
    ],
    "24-cell": [("all", [(1, 1, 0, 0)])],
    "600-cell": [("all", [(2, 0, 0, 0), (1, 1, 1, 1)]), ("even permutations", [(PHI, 1, 1 / PHI, 0)])],
    "120-cell": [
        ("all", [(0, 0, 2, 2), (1, 1, 1, sqrt(5)), (PHI**-2, PHI, PHI, PHI), (1 / PHI, 1 / PHI, 1 / PHI, PHI**2)]),
        ("even permutations", [(0, PHI**-2, 1, PHI**2), (0, 1 / PHI, PHI, sqrt(5)), (1 / PHI, 1, PHI, 2)]),
    ],
}


def solid_points(name: str) -> NDArray[np.float64]:
    """The corners of a solid; shape [nodes, dimensions].

    Example:
        >>> solid_points("icosahedron").shape
        (12, 3)
    """
    found = [_orbit(seed, group) for group, seeds in SOLIDS[name] for seed in seeds]
    return np.array(list(dict.fromkeys(point for points in found for point in points)))


def _orbit(seed: Seed, group: str) -> list[Seed]:
    size, belongs = len(seed), GROUPS[group]
    return [
        tuple(sign * seed[place] + 0.0 for sign, place in zip(signs, order, strict=True))  # -0.0 becomes 0.0
        for order in permutations(range(size))
        for signs in product((1, -1), repeat=size)
        if belongs(_parity(order), prod(signs))
    ]


def _parity(order: tuple[int, ...]) -> int:
    return prod((1 if b > a else -1) for k, a in enumerate(order) for b in order[k + 1 :])
