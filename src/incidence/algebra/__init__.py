"""From a pattern to every equivariant operation: exact, and with the standard library only."""

from typing import TYPE_CHECKING

from incidence.algebra.describe import read
from incidence.algebra.explain import Explanation, ProductExplanation, explain
from incidence.algebra.maps import EquivariantMap, Operation
from incidence.algebra.multilinear import MultilinearMap
from incidence.algebra.orbit import Class, Orbit
from incidence.algebra.pattern import Pattern
from incidence.algebra.products import ProductText
from incidence.lazy import front_door

if TYPE_CHECKING:
    from incidence.algebra.composition import (
        Composition,
        Polynomial,
        Product,
        orbit_to_pool,
        pool_to_orbit,
    )

__all__ = [
    "Class",
    "Composition",
    "EquivariantMap",
    "Explanation",
    "MultilinearMap",
    "Operation",
    "Orbit",
    "Pattern",
    "Polynomial",
    "Product",
    "ProductExplanation",
    "ProductText",
    "explain",
    "orbit_to_pool",
    "pool_to_orbit",
    "read",
]

# Products of maps are rare, and need fractions.
_HOMES = {
    "Composition": "incidence.algebra.composition",
    "Polynomial": "incidence.algebra.composition",
    "Product": "incidence.algebra.composition",
    "orbit_to_pool": "incidence.algebra.composition",
    "pool_to_orbit": "incidence.algebra.composition",
}
__getattr__, _names = front_door(__name__, _HOMES)


def __dir__() -> list[str]:
    return sorted({*globals(), *_names()})
