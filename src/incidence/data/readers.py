"""Readers of files by name, which of them reads a file, and what examples of one data set must have in common."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from inspect import signature
from pathlib import Path
from types import UnionType
from typing import Any, NamedTuple, Union, get_args, get_origin, get_type_hints

import torch

from incidence.errors import IncidenceError
from incidence.structure.example import Example

__all__ = [
    "READERS", "Read", "Reader", "as_float", "assert_alike", "assert_options", "legible", "options_of", "read_file", "reader", "reader_for",
]  # fmt: skip


class Read(NamedTuple):
    """One example of a file.

    Attributes:
        name: What it is called: the name of the file, with a number or the name of the record.
        example: With features.
        nodes: What the file calls the nodes, in their order; None if they are numbered from 0.
        properties: What else the file says about it, as text; one of them may be the target.
        columns: What else the file says about each of its nodes, as text by column.
    """

    name: str
    example: Example
    nodes: tuple[str, ...] | None = None
    properties: Mapping[str, str] = {}
    columns: Mapping[str, Sequence[str]] = {}


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

    def reads(self, path: Path) -> bool:
        """Whether a file has one of the suffixes."""
        return path.name.lower().endswith(self.suffixes)


READERS: dict[str, tuple[str, str]] = {
    "graph": ("incidence.data.graphs", "GRAPH"),
    "example": ("incidence.data.examples_file", "EXAMPLE"),
    "molecule": ("incidence.data.molecules.reader", "READER"),
    "mesh": ("incidence.data.meshes.files", "MESH"),
}
"""From the name of a reader to its module and its name there."""


def reader(name: str) -> Reader:
    """A reader by name."""
    if name not in READERS:
        raise IncidenceError(f"no reader {name!r}; there are: {', '.join(sorted(READERS))}.")
    module, attribute = READERS[name]
    found: Reader = getattr(import_module(module), attribute)
    return found


def reader_for(paths: Sequence[Path], name: str | None = None) -> str:
    """The name of the reader for files: the one asked for, else the one that their suffixes tell, if there is one."""
    if name is not None:
        reader(name)  # says so if there is none
        return name
    fitting = {path: {key for key in READERS if reader(key).reads(path)} for path in paths}
    unread = next((path for path, fit in fitting.items() if not fit), None)
    if unread is not None:
        known = ", ".join(f"{key} ({' '.join(reader(key).suffixes)})" for key in READERS)
        raise IncidenceError(
            f"no reader reads {unread}; by suffix there are: {known}. Give --reader for another suffix."
        )
    fit = [key for key in READERS if all(key in some for some in fitting.values())]
    if len(fit) != 1:
        said = (
            f"the readers {', '.join(fit)} would all do" if fit else "they need different readers"
        )
        raise IncidenceError(
            f"which reader is to read {paths[0].name} and the other files is not clear, as {said}: give --reader."
        )
    return fit[0]


def read_file(
    name: str, path: Path, options: Mapping[str, Any], errors: list[IncidenceError] | None = None
) -> list[Read]:
    """The examples of a file, all of which must be read without an error unless there is a list that takes those of single records."""
    if not path.is_file():
        raise IncidenceError(f"there is no file {path}.")
    assert_options(reader(name).read, f"the reader {name!r}", options)
    met: list[IncidenceError] = [] if errors is None else errors
    found = list(reader(name).read(path, met, **options))
    if errors is None and met:
        raise met[0]
    if not found and not met:
        raise IncidenceError(f"{path} has no example.")
    return found


def options_of(function: Callable[..., Any], after: int = 2) -> dict[str, Any]:
    """The options of a function, which come after some arguments, and their types."""
    hints = get_type_hints(function)
    return {key: hints.get(key, object) for key in list(signature(function).parameters)[after:]}


_KINDS = {int: "a whole number", float: "a number", str: "a text", bool: "true or false"}
"""What messages call the types of options."""


def assert_options(
    function: Callable[..., Any], who: str, options: Mapping[str, Any], after: int = 2
) -> None:
    """Refuses options that a function does not take, and values of another type."""
    taken = options_of(function, after)
    for key, value in options.items():
        if key not in taken:
            raise IncidenceError(
                f"{who} has no option `{key}`: it takes {', '.join(taken) or 'none'}."
            )
        hint = taken[key]
        kinds = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
        plain = [
            (list, tuple)
            if get_origin(kind) is Sequence
            else (int, float)
            if kind is float
            else kind
            for kind in kinds
        ]
        if not any(
            isinstance(value, kind) and (kind is bool or not isinstance(value, bool))
            for kind in plain
        ):
            words = [_KINDS[kind] for kind in kinds if kind in _KINDS] + ["a list"] * any(
                get_origin(kind) is Sequence for kind in kinds
            )
            must = f"is {' or '.join(words)}" if words else "is something else"
            raise IncidenceError(f"the option `{key}` of {who} {must}, and cannot be {value!r}.")


def as_float(text: str) -> float | None:
    """The number that a text is, if it is one; `1_000`, which Python takes for one, is a name."""
    try:
        return None if "_" in text else float(text)
    except ValueError:
        return None


_LATIN = {0xDC00 + byte: byte for byte in range(0x80, 0x100)}


def legible(text: str) -> str:
    """Text with every byte that was no UTF-8, which Python keeps as half of a character, read as Latin-1."""
    return text.translate(_LATIN)


def assert_alike(examples: Iterable[tuple[str, Example]]) -> None:
    """Refuses examples, each with its name, that make no batch with the first one, and features that are no finite numbers."""
    first, wanted = "", dict[str, int]()
    for number, (name, example) in enumerate(examples):
        structure = example.structure
        has = {
            str(pattern): -1 for pattern in structure.patterns
        }  # the channels of every tensor, -1 without features
        has |= {str(structure.resolve(key)): x.shape[1] for key, x in example.features.items()}
        if not number:
            first, wanted = name, has
        if has != wanted:
            key = next(
                key for key in sorted(wanted.keys() | has.keys()) if wanted.get(key) != has.get(key)
            )
            said = f"{first} has {_said(wanted.get(key))} and {name} has {_said(has.get(key))}"
            raise IncidenceError(
                f"examples of a data set have the same tensors and features; for `{key}`, {said}."
            )
        bad = next(
            (key for key, x in example.features.items() if not bool(torch.isfinite(x).all())), None
        )
        if bad is not None:
            raise IncidenceError(
                f"{name}: the features of `{bad}` have values that are no finite numbers."
            )


def _said(channels: int | None) -> str:
    return (
        "no such tensor"
        if channels is None
        else "no features"
        if channels < 0
        else f"{channels} features"
    )
