"""Data sets by name, and readers of files by name: a new one is one new entry."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from incidence.data.dataset import DataSet
from incidence.errors import IncidenceError
from incidence.structure.example import Example

__all__ = ["DATA_SETS", "READERS", "Read", "Reader", "load", "reader"]


class Read(NamedTuple):
    """One example of a file, and what it is called: the name of the file, with a number or the name of the record."""

    name: str
    example: Example


@dataclass(frozen=True)
class Reader:
    """Reads files and makes features.

    Attributes:
        suffixes: Of the files it reads, such as `.sdf`.
        read: From a path, a list that takes the errors of single records, and options, to examples. A file that cannot be read at all
            is an IncidenceError that names it.
    """

    suffixes: tuple[str, ...]
    read: Callable[..., Iterator[Read]]


# name: (module, function, one line for --help). A loader is called as loader(name, folder, **options) and gives a DataSet; folder is None
# if the user named none.
DATA_SETS: dict[str, tuple[str, str, str]] = {
    "shrec11": ("incidence.data.meshes.shrec", "load_shrec11", "600 closed surfaces of 30 classes"),
    "coseg-aliens": ("incidence.data.meshes.coseg", "load_coseg", "198 surfaces, the part of every edge"),
    "coseg-vases": ("incidence.data.meshes.coseg", "load_coseg", "297 surfaces, the part of every edge"),
}

# name: (module, the name of its Reader)
READERS: dict[str, tuple[str, str]] = {
    "mesh": ("incidence.data.meshes.files", "MESH"),
}


def load(name: str, folder: Path | None = None, **options: Any) -> DataSet:
    """A data set by name.

    Raises:
        IncidenceError: There is none of that name, or its files are missing or damaged.
    """
    if name not in DATA_SETS:
        raise IncidenceError(f"no data set {name!r}; there are: {', '.join(sorted(DATA_SETS))}. A folder of your own is given by its path.")
    module, function, _ = DATA_SETS[name]
    found: DataSet = getattr(import_module(module), function)(name, folder, **options)
    return found


def reader(name: str) -> Reader:
    """A reader by name."""
    if name not in READERS:
        raise IncidenceError(f"no reader {name!r}; there are: {', '.join(sorted(READERS))}.")
    module, attribute = READERS[name]
    found: Reader = getattr(import_module(module), attribute)
    return found
