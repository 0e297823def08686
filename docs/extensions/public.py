"""List the public names, and the one path under which each is documented."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from inspect import isclass, ismodule, isroutine
from types import ModuleType

__all__ = ["PACKAGES", "PublicName", "all_names", "names_of"]

PACKAGES = (
    "incidence",
    "incidence.algebra",
    "incidence.algebra.counting",
    "incidence.structure",
    "incidence.symmetry",
    "incidence.nn",
    "incidence.models",
    "incidence.geometry",
    "incidence.geometry.lifting",
    "incidence.geometry.convert",
    "incidence.data",
    "incidence.data.molecules",
    "incidence.data.meshes",
    "incidence.data.lifts",
    "incidence.pyg",
    "incidence.distributed",
    "incidence.train",
    "incidence.sklearn",
    "incidence.plot",
    "incidence.testing",
    "incidence.theorems",
    "incidence.expressive",
)
"""The packages that users import from, in the order in which a name is looked for: the first that
has it is its path.
"""


@dataclass(frozen=True)
class PublicName:
    """A name of a package.

    Attributes:
        path: Where it was found, as in `incidence.structure.Structure`.
        documented: The path it is documented under, as in `incidence.Structure`.
        kind: `module`, `class`, `exception`, `function` or `data`.
    """

    path: str
    documented: str
    kind: str


def kind_of(value: object) -> str:
    """Return what a value is, in Sphinx's words."""
    if ismodule(value):
        return "module"
    if isclass(value):
        return "exception" if issubclass(value, BaseException) else "class"
    return "function" if isroutine(value) else "data"


def all_names() -> list[PublicName]:
    """Return every name of every public package. An object with several paths is documented under
    the first.
    """
    found: list[PublicName] = []
    first: dict[int, str] = {}
    for package in PACKAGES:
        module = import_module(package)
        for name in sorted(module.__all__, key=str.lower):
            value = getattr(module, name)
            path = (
                value.__name__
                if isinstance(value, ModuleType)
                else first.setdefault(id(value), f"{package}.{name}")
            )
            found.append(PublicName(f"{package}.{name}", path, kind_of(value)))
    return found


def names_of(package: str) -> list[PublicName]:
    """Return the names of one package."""
    return [name for name in all_names() if name.path.rpartition(".")[0] == package]
