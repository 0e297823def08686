"""Extensions: presets, lifts, readers and data sets of other packages, found by name.

A package names a module, or a function without arguments, in the entry point group
`incidence.extensions`. It is loaded when a name is looked up for the first time, and calls
`inc.models.register_preset`, `inc.data.register_lift`, `inc.data.register_reader` or
`inc.data.register`. Modules that are no package stand in the environment variable
`INCIDENCE_EXTENSIONS`, divided by commas. Nothing else is loaded: no file of data or of a run
names code.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any

__all__ = ["GROUP", "VARIABLE", "load_extensions"]

GROUP = "incidence.extensions"
VARIABLE = "INCIDENCE_EXTENSIONS"
_loaded: set[str] = set()


def load_extensions() -> None:
    """Load all extensions that are installed or named, once; warn of those that fail."""
    for name, load in _extensions():
        if name in _loaded:
            continue
        _loaded.add(name)  # first, as an extension may look up names itself
        try:
            extension = load()
            if callable(extension):
                extension()
        except Exception as error:  # another package may raise anything
            warnings.warn(
                f"the extension {name!r} was not loaded: {type(error).__name__}: {error}",
                stacklevel=3,
            )


def _extensions() -> Iterator[tuple[str, Callable[[], Any]]]:
    """Yield the name of every extension, and what loads it."""
    for name in filter(None, os.environ.get(VARIABLE, "").split(",")):
        yield name.strip(), partial(_import, name.strip())
    if "entry points" not in _loaded:  # which takes milliseconds to look through
        _loaded.add("entry points")
        for point in entry_points(group=GROUP):
            yield point.value, point.load


def _import(name: str) -> Any:
    """Import a module, also one in the current folder."""
    folder = os.getcwd()
    if folder not in sys.path:
        sys.path.append(folder)
    return import_module(name)
