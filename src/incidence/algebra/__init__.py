"""From a pattern to every equivariant operation: exact, and with the standard library only."""

from incidence.algebra.composition import Composition, Polynomial, orbit_to_pool, pool_to_orbit
from incidence.algebra.describe import read
from incidence.algebra.explain import Explanation, ProductExplanation, explain
from incidence.algebra.maps import EquivariantMap, Operation
from incidence.algebra.multilinear import MultilinearMap
from incidence.algebra.orbit import Class, Orbit
from incidence.algebra.pattern import Pattern
from incidence.algebra.products import ProductText

Product = Composition  # its public name, which nn.Product has, too

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
