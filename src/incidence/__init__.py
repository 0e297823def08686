"""Equivariant learning on incidence structures: write the index pattern, get every linear map that respects relabelling.

The front door loads what it names on first use, so that `import incidence.algebra` needs neither torch nor numpy.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from incidence import geometry, nn, testing, theorems
    from incidence.algebra import EquivariantMap, Pattern, counting, explain
    from incidence.errors import IncidenceError, PatternError, TooLargeError
    from incidence.structure import Example, Group, Structure, carry, collate, from_faces, ones, pack, to_faces, uncollate

_HOMES = {
    "algebra": "incidence",
    "errors": "incidence",
    "structure": "incidence",
    "EquivariantMap": "incidence.algebra",
    "Example": "incidence.structure",
    "Group": "incidence.structure",
    "IncidenceError": "incidence.errors",
    "Pattern": "incidence.algebra",
    "PatternError": "incidence.errors",
    "Structure": "incidence.structure",
    "TooLargeError": "incidence.errors",
    "carry": "incidence.structure",
    "collate": "incidence.structure",
    "counting": "incidence.algebra",
    "explain": "incidence.algebra",
    "from_faces": "incidence.structure",
    "geometry": "incidence",
    "nn": "incidence",
    "ones": "incidence.structure",
    "pack": "incidence.structure",
    "testing": "incidence",
    "theorems": "incidence",
    "to_faces": "incidence.structure",
    "uncollate": "incidence.structure",
}

_MODULES = ("algebra", "counting", "errors", "geometry", "nn", "structure", "testing", "theorems")

__all__ = [
    "EquivariantMap",
    "Example",
    "Group",
    "IncidenceError",
    "Pattern",
    "PatternError",
    "Structure",
    "TooLargeError",
    "carry",
    "collate",
    "counting",
    "explain",
    "from_faces",
    "geometry",
    "nn",
    "ones",
    "pack",
    "testing",
    "theorems",
    "to_faces",
    "uncollate",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'incidence' has no attribute {name!r}")
    home = _HOMES[name]
    value = import_module(f"{home}.{name}") if name in _MODULES else getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__", "algebra", "errors", "structure"])
