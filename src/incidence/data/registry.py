"""Data sets by name, and readers of files by name: a new one is one new entry."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from inspect import signature
from pathlib import Path
from types import UnionType
from typing import Any, NamedTuple, Union, cast, get_args, get_origin, get_type_hints

from incidence.data.dataset import DataSet
from incidence.errors import IncidenceError
from incidence.structure.example import Example

__all__ = [
    "DATA_SETS",
    "READERS",
    "Read",
    "Reader",
    "Source",
    "assert_options",
    "call",
    "load",
    "loader",
    "options_of",
    "reader",
    "register",
]


class Read(NamedTuple):
    """One example of a file.

    Attributes:
        name: What it is called: the name of the file, with a number or the name of the record.
        example: With features.
        nodes: What the file calls the nodes, in their order; None if they are numbered from 0.
    """

    name: str
    example: Example
    nodes: tuple[str, ...] | None = None


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


@dataclass(frozen=True)
class Source:
    """A data set that has a name.

    Attributes:
        loader: Called as loader(name, folder, **options), gives a DataSet; folder is None if the user named none. Or where it is, as in
            `package.module.function`: that is imported when the data is asked for.
        about: One line for `--list`.
        recipe: Options it is trained with unless the user gives others.
    """

    loader: str | Callable[..., DataSet]
    about: str = ""
    recipe: Mapping[str, Any] = field(default_factory=dict)


DATA_SETS: dict[str, Source] = {
    "solubility": Source(
        "incidence.data.molecules.solubility.load_solubility",
        "aqueous solubility of 1,282 molecules; part of the package",
        {"model": "molecule"},
    ),
}


def register(name: str, loader: str | Callable[..., DataSet], about: str = "", recipe: Mapping[str, Any] | None = None) -> None:
    """Gives a data set a name, by which `load`, `incidence train --data NAME` and its kin find it; see `Source` for the arguments.

    Example:
        >>> from incidence.data.molecules.solubility import load_solubility
        >>> register("water", load_solubility, "the data of the package by another name")
        >>> load("water").name
        'water'
        >>> del DATA_SETS["water"]
    """
    DATA_SETS[name] = Source(loader, about, recipe or {})


# name: (module, the name of its Reader)
READERS: dict[str, tuple[str, str]] = {
    "graph": ("incidence.data.edge_lists", "GRAPH"),
    "example": ("incidence.data.saved", "EXAMPLE"),
    "molecule": ("incidence.data.molecules.reader", "READER"),
    "mesh": ("incidence.data.meshes.files", "MESH"),
}


def load(name: str, folder: Path | None = None, **options: Any) -> DataSet:
    """A data set by name.

    Raises:
        IncidenceError: There is none of that name, or its files are missing or damaged.
    """
    return call(loader(name), name, (name, folder), options)


def loader(name: str) -> Callable[..., DataSet]:
    """What loads the data set of a name."""
    if name not in DATA_SETS:
        raise IncidenceError(f"no data set {name!r}; there are: {', '.join(sorted(DATA_SETS))}. A folder of your own is given by its path.")
    found = DATA_SETS[name].loader
    if isinstance(found, str):
        module, _, function = found.rpartition(".")
        found = getattr(import_module(module), function)
    return cast(Callable[..., DataSet], found)


def call(load: Callable[..., DataSet], name: str, arguments: tuple[Any, ...], options: Mapping[str, Any]) -> DataSet:
    """Calls a loader with options that it takes."""
    assert_options(load, f"the data set {name!r}", options)
    return load(*arguments, **options)


def options_of(function: Callable[..., Any]) -> dict[str, Any]:
    """The options of a loader or of the function of a reader, which come after two arguments, and their types."""
    hints = get_type_hints(function)
    return {key: hints.get(key, object) for key in list(signature(function).parameters)[2:]}


def assert_options(function: Callable[..., Any], who: str, options: Mapping[str, Any]) -> None:
    """Refuses options that a loader or reader does not take.

    Raises:
        IncidenceError: The message names those it takes.
    """
    taken = options_of(function)
    for key, value in options.items():
        if key not in taken:
            have = f"takes {', '.join(taken)}" if taken else "takes none"
            raise IncidenceError(f"{who} has no option `{key}`: it {have}.")
        if not _fits(value, taken[key]):
            raise IncidenceError(f"the option `{key}` of {who} cannot be {value!r}.")


def _fits(value: object, hint: Any) -> bool:
    kinds = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    plain = [(list, tuple) if get_origin(kind) is Sequence else (int, float) if kind is float else kind for kind in kinds]
    return any(isinstance(value, kind) and (kind is bool or not isinstance(value, bool)) for kind in plain)


def reader(name: str) -> Reader:
    """A reader by name."""
    if name not in READERS:
        raise IncidenceError(f"no reader {name!r}; there are: {', '.join(sorted(READERS))}.")
    module, attribute = READERS[name]
    found: Reader = getattr(import_module(module), attribute)
    return found
