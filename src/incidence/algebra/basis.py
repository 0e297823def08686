r"""The two bases of the equivariant maps, and the exact change between them (docs/math.md section 5).

The *orbit basis* $O_A$ is 1 where the overlap is exactly A and 0 elsewhere; the *pool-broadcast basis* $B_A$, the one layers
use, counts the ways of finding A in the overlap. For overlap matrices C of the same two orbits,

$$B_A = \sum_C \prod_{ij} \binom{c_{ij}}{a_{ij}} O_C, \qquad O_A = \sum_C (-1)^{|C|-|A|} \prod_{ij} \binom{c_{ij}}{a_{ij}} B_C.$$

Only C >= A entrywise contribute, with 1 at C = A: the change of basis is unitriangular, at every number of nodes.
"""

from __future__ import annotations

from itertools import chain
from math import comb, prod

from incidence.algebra.maps import EquivariantMap, as_map
from incidence.algebra.overlap import overlap_matrices
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
    a = list(chain(*operation.overlap))
    terms = ((k, prod((-1) ** (is_signed * (y - x)) * comb(y, x) for x, y in zip(a, chain(*c), strict=True))) for k, c in listed)
    return {k: value for k, value in terms if value}
