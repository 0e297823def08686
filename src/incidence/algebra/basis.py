r"""The two bases of the equivariant maps, and the exact change between them (docs/math.md section 5).

The *orbit basis* $O_A$ is 1 where the overlap is exactly A and 0 elsewhere; the *pool-broadcast basis* $B_A$, the one layers
use, counts the ways of finding A in the overlap. For overlap matrices C of the same two orbits,

$$B_A = \sum_C \prod_{ij} \binom{c_{ij}}{a_{ij}} O_C, \qquad O_A = \sum_C (-1)^{|C|-|A|} \prod_{ij} \binom{c_{ij}}{a_{ij}} B_C.$$

Only C >= A entrywise contribute, with 1 at C = A: the change of basis is unitriangular, at every number of nodes. With oriented faces
every term has the sign s(C, A) of docs/math.md section 16.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, product
from math import comb, prod

from incidence.algebra.maps import EquivariantMap, as_map
from incidence.algebra.orbit import Class
from incidence.algebra.overlap import Matrix, overlap_matrices
from incidence.errors import IncidenceError

__all__ = ["orbit_to_pool", "pool_to_orbit"]


def pool_to_orbit(equivariant_map: EquivariantMap | str, operation: int) -> dict[int, int]:
    """A pool-broadcast operation in the orbit basis: from numbers of operations to integers.

    Example:
        >>> pool_to_orbit(EquivariantMap("{i j} -> {i j}"), 1)  # |x ∩ y| = 1 once, |x ∩ y| = 2 twice
        {1: 1, 2: 2}
    """
    return _change(as_map(equivariant_map), operation, is_signed=False)


def orbit_to_pool(equivariant_map: EquivariantMap | str, operation: int) -> dict[int, int]:
    """An orbit indicator in the pool-broadcast basis: from numbers of operations to integers.

    Example:
        >>> orbit_to_pool(EquivariantMap("{i j} -> {i j}"), 1)
        {1: 1, 2: -2}
    """
    return _change(as_map(equivariant_map), operation, is_signed=True)


def _change(equivariant_map: EquivariantMap, number: int, is_signed: bool) -> dict[int, int]:
    number = range(equivariant_map.dimension)[number]
    operation = equivariant_map.operations[number]
    source, target = operation.source.orbit, operation.target.orbit
    if source.is_open or target.is_open:
        raise IncidenceError(
            f"operation {number} of `{equivariant_map}` has an open class: its orbit basis is infinite."
        )
    start = next(
        pair.start
        for pair in equivariant_map.pairs
        if (pair.source, pair.target) == (operation.source, operation.target)
    )
    listed = enumerate(overlap_matrices(source.classes, target.classes), start)
    a = operation.overlap
    terms = {}
    for k, c in listed:
        sign = _growth_sign(source.classes, target.classes, a, c) * (-1) ** (
            is_signed * (_total(c) - _total(a))
        )
        terms[k] = sign * _ways(a, c)
    return {k: value for k, value in terms.items() if value}


def _total(a: Matrix) -> int:
    return sum(map(sum, a))


def _ways(a: Matrix, c: Matrix) -> int:
    return prod(comb(y, x) for x, y in zip(chain(*a), chain(*c), strict=True))


def _growth_sign(source: Sequence[Class], target: Sequence[Class], a: Matrix, c: Matrix) -> int:
    """s(C, A): a node that is matched in addition moves from the front of its odd classes to the end of its cell."""
    moves = 0
    for i, j in product(range(len(source)), range(len(target))):
        if c[i][j] == a[i][j] + 1:
            moves += source[i].is_odd * sum(a[i][:j]) + target[j].is_odd * sum(
                row[j] for row in a[:i]
            )
    return -1 if moves % 2 else 1
