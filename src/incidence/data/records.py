"""Records, which readers of files yield, and the options that readers and loaders take."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from inspect import signature
from pathlib import Path
from types import UnionType
from typing import Any, NamedTuple, Union, get_args, get_origin, get_type_hints

from incidence.errors import IncidenceError
from incidence.structure.example import Example

__all__ = ["Reader", "Record", "assert_options", "options_of"]


class Record(NamedTuple):
    """One example of a file, before a target is chosen.

    Attributes:
        name: The name of the file, with the number or the name of the record.
        example: The example with features.
        nodes: The names of the nodes in the file, in order; None if they are numbered from 0.
        properties: What else the file has about the example, as text by column. One of them may
            be the target.
        columns: What else the file has about each node, as text by column.
    """

    name: str
    example: Example
    nodes: tuple[str, ...] | None = None
    properties: Mapping[str, str] = {}
    columns: Mapping[str, Sequence[str]] = {}


@dataclass(frozen=True)
class Reader:
    """A function that reads files of some kind, with the suffixes of these files.

    Attributes:
        suffixes: The suffixes, such as `.sdf`.
        read: Takes a path, a list for the errors of single records, and options; yields records.
            It raises an IncidenceError that names the file if it cannot read the file at all.
    """

    suffixes: tuple[str, ...]
    read: Callable[..., Iterator[Record]]

    def reads(self, path: Path) -> bool:
        """Return whether a file has one of the suffixes."""
        return path.name.lower().endswith(self.suffixes)


_TYPE_NAMES = {int: "a whole number", float: "a number", str: "a text", bool: "true or false"}


def options_of(function: Callable[..., Any], after: int = 2) -> dict[str, Any]:
    """Return the options of a function with their types.

    Args:
        function: The function.
        after: How many arguments come before the options.
    """
    hints = get_type_hints(function)
    names = list(signature(function).parameters)[after:]
    return {name: hints.get(name, object) for name in names}


def assert_options(
    function: Callable[..., Any], who: str, options: Mapping[str, Any], after: int = 2
) -> None:
    """Check that a function takes some options, and that their values have the right types.

    Raises:
        IncidenceError: It does not take one of them, or not a value of that type.
    """
    hints = options_of(function, after)
    for name, value in options.items():
        if name not in hints:
            takes = ", ".join(hints) or "no options"
            raise IncidenceError(f"{who} has no option `{name}`: it takes {takes}.")
        types = _members(hints[name])
        if not any(_is_of_type(value, one) for one in types):
            words = " or ".join(_TYPE_NAMES.get(one, "a list") for one in types if one in _NAMED)
            raise IncidenceError(
                f"the option `{name}` of {who} is {words or 'something else'}; got {value!r}."
            )


_NAMED = {*_TYPE_NAMES, Sequence}


def _members(hint: Any) -> list[Any]:
    """Return the types of a union, or the only type; a sequence of anything is `Sequence`."""
    is_union = get_origin(hint) in (Union, UnionType)
    members = get_args(hint) if is_union else (hint,)
    return [Sequence if get_origin(one) is Sequence else one for one in members]


def _is_of_type(value: object, kind: Any) -> bool:
    if isinstance(value, bool):  # which Python takes for a number
        return kind in (bool, object)
    plain: Any = {float: (int, float), Sequence: (list, tuple)}.get(kind, kind)
    return isinstance(value, plain)
