"""Packages that load what they name on first use: nobody pays for what is not used."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from typing import Any

__all__ = ["front_door", "uninterrupted"]


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Collects no garbage meanwhile: to look through all that torch has made takes as long as loading our own modules."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def front_door(
    package: str, homes: Mapping[str, str], load_module: Callable[[str], Any] = import_module
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """The `__getattr__` and `__dir__` of a package.

    Args:
        package: Its name.
        homes: From every name to the module where it is; a module of the package has itself for its home.
        load_module: What loads a module by name; a package that needs an extra says so there.
    """

    def load(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module = load_module(homes[name])
        value = module if homes[name] == f"{package}.{name}" else getattr(module, name)
        setattr(sys.modules[package], name, value)
        return value

    return load, lambda: sorted([*homes, *(["__version__"] if package == "incidence" else [])])
