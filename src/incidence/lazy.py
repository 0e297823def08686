"""Packages that load their modules on first use."""

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
    """Switch off garbage collection inside of the `with` block.

    Scanning all objects of torch takes as long as loading our modules. They stay anyway, so at the
    end they are among the oldest objects, and no scan of the young ones makes up for it.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            if not gc.get_freeze_count():  # else what somebody froze would come back
                gc.freeze()
                gc.unfreeze()
            gc.enable()


def front_door(
    package: str, homes: Mapping[str, str], load_module: Callable[[str], Any] = import_module
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return the `__getattr__` and `__dir__` of a package that loads names on first use.

    Args:
        package: The name of the package.
        homes: From every public name to the module that defines it; a public module maps to itself.
        load_module: Loads a module by name. A package that needs an extra checks for it there.
    """

    def load(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module = load_module(homes[name])
        value = module if homes[name] == f"{package}.{name}" else getattr(module, name)
        # From now on Python finds the name itself, and does not ask here.
        setattr(sys.modules[package], name, value)
        return value

    def names() -> list[str]:
        version = ["__version__"] if package == "incidence" else []  # only the front door has one
        return sorted([*homes, *version])

    return load, names
