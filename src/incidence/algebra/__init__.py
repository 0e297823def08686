"""From a pattern to every equivariant operation: exact, and with the standard library only."""

from typing import TYPE_CHECKING, Any

from incidence.algebra.describe import read
from incidence.algebra.explain import Explanation, ProductExplanation, explain
from incidence.algebra.maps import EquivariantMap, Operation
from incidence.algebra.multilinear import MultilinearMap
from incidence.algebra.orbit import Class, Orbit
from incidence.algebra.pattern import Pattern
from incidence.algebra.products import ProductText

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


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from incidence.algebra import composition  # which few need, and which needs fractions

    globals()[name] = value = getattr(composition, name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
