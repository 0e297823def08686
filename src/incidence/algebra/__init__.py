"""The algebra: from a pattern to every equivariant operation. Standard library only, exact, no torch."""

from incidence.algebra.basis import orbit_to_pool, pool_to_orbit
from incidence.algebra.compose import Product
from incidence.algebra.explain import Explanation, explain
from incidence.algebra.maps import EquivariantMap, Operation
from incidence.algebra.multilinear import MultilinearMap
from incidence.algebra.orbit import Class, Orbit
from incidence.algebra.pattern import Pattern
from incidence.algebra.polynomial import Polynomial
from incidence.algebra.product_reading import ProductExplanation
from incidence.algebra.products import ProductText
from incidence.algebra.reading import read

__all__ = [
    "Class",
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
