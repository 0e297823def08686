"""Equivariant learning on incidence structures: write the index pattern, get every linear map that respects relabelling.

The front door loads what it names on first use, so that `import incidence.algebra` needs neither torch nor numpy.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from incidence.algebra import EquivariantMap, Pattern, counting, explain
    from incidence.errors import IncidenceError, PatternError, TooLargeError

_HOMES = {
    "EquivariantMap": "incidence.algebra",
    "IncidenceError": "incidence.errors",
    "Pattern": "incidence.algebra",
    "PatternError": "incidence.errors",
    "TooLargeError": "incidence.errors",
    "counting": "incidence.algebra",
    "explain": "incidence.algebra",
}

__all__ = ["EquivariantMap", "IncidenceError", "Pattern", "PatternError", "TooLargeError", "counting", "explain"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'incidence' has no attribute {name!r}")
    home = import_module(_HOMES[name])
    value = getattr(home, name, None) or import_module(f"{_HOMES[name]}.{name}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__", "algebra", "errors"])
