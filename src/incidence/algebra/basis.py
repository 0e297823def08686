r"""The two bases of the equivariant maps, and the exact change between them (docs/math.md section 5).

The *orbit basis* $O_A$ is 1 where the overlap is exactly A and 0 elsewhere; the *pool-broadcast basis* $B_A$, the one layers
use, counts the ways of finding A in the overlap. For overlap matrices C of the same two orbits,

$$B_A = \sum_C \prod_{ij} \binom{c_{ij}}{a_{ij}} O_C, \qquad O_A = \sum_C (-1)^{|C|-|A|} \prod_{ij} \binom{c_{ij}}{a_{ij}} B_C.$$

Only C >= A entrywise contribute, with 1 at C = A: the change of basis is unitriangular, at every number of nodes.
"""

from __future__ import annotations

from incidence.algebra.maps import EquivariantMap, as_map
from incidence.algebra.overlap import Matrix, binomial_product, overlap_matrices, total
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
        raise IncidenceError(f"operation {number} of `{equivariant_map}` has an open class: its orbit basis is infinite.")
    start = next(pair.start for pair in equivariant_map.pairs if (pair.source, pair.target) == (operation.source, operation.target))
    listed = enumerate(overlap_matrices(source.classes, target.classes), start)
    terms = ((k, change_coefficient(operation.overlap, c, is_signed)) for k, c in listed)
    return {k: value for k, value in terms if value}


def change_coefficient(a: Matrix, c: Matrix, is_signed: bool) -> int:
    """The coefficient of C in the expansion of A, into the orbit basis or (signed) out of it."""
    sign = -1 if is_signed and (total(c) - total(a)) % 2 else 1
    return sign * binomial_product(c, a)
