"""Relational data: tables whose columns hold values of sorts, each row an entry."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Set
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from incidence.algebra.grammar import is_letter
from incidence.algebra.pattern import Pattern
from incidence.errors import IncidenceError
from incidence.geometry.node_lists import as_count, different
from incidence.structure import Structure

__all__ = ["RelationalData", "table"]

_SHOWN = 3  # values of a sort
_COLUMN = re.compile(
    r"\s*(?:(?P<letter>[A-Za-z][0-9]*)\s*:)?\s*(?P<sort>[A-Za-z_]\w*)\s*", re.ASCII
)


@dataclass(frozen=True)
class RelationalData:
    """Tables as a structure, and what is needed to go between values and nodes, and between rows and entries.

    Attributes:
        structure: The structure: a sort for every kind of values, a tensor for every table.
        values: For every sort, the values of its nodes in order.
        rows: For every table (by name, or `"table"` for the only one) the rows in the order of the entries of its tensor: features of
            the rows follow by `features[rows]`.
    """

    structure: Structure
    values: dict[str, list[Any]]
    rows: dict[str, Tensor]

    def __repr__(self) -> str:
        """A line, however large the tables are: a few values of every sort."""
        told = (
            f"{sort}: {', '.join(map(repr, own[:_SHOWN]))}{', ...' if len(own) > _SHOWN else ''}"
            for sort, own in self.values.items()
        )
        return f"RelationalData({self.structure}; {'; '.join(told)})"

    def nodes(self, sort: str, values: Iterable[Any]) -> Tensor:
        """The numbers of the nodes with given values of a sort.

        Raises:
            IncidenceError: There is no such sort, or no node with such a value.
        """
        if sort not in self.values:
            raise IncidenceError(
                f"no column has the sort `{sort}`; there are: {', '.join(self.values)}."
            )
        number = {value: k for k, value in enumerate(self.values[sort])}
        return _numbers(f"nodes of sort `{sort}`", _as_list(values), number)


def table(columns: Mapping[str, Any], nodes: Mapping[str, Any] | None = None) -> RelationalData:
    r"""Relational data as a structure: each row of a table is one entry of a pattern with one letter for each column.

    Entries stand in the preferred order; `rows` of the result tells which row each entry is.

    Args:
        columns: From the sort of every column to its values (anything hashable), one for each row: `{"user": u, "movie": m}` makes
            the tensor `a:user b:movie`. Columns of one sort get letters of their own, as in `{"a:user": u, "b:user": v}`. Several tables
            over the same sorts: from a name to the columns of each, as in `{"rates": {...}, "knows": {...}}`.
        nodes: For some sorts all values in the order of their nodes, or a number n if the values are 0 to n - 1. Other sorts have the
            values that occur, in ascending order, or by appearance where they do not compare.

    Raises:
        IncidenceError: Columns differ in length, a value is missing or unknown, or a row repeats another; the message names the row.

    Example:
        >>> t = table({"user": ["ann", "bob", "ann"], "movie": ["Jaws", "Jaws", "Alien"]})
        >>> t.structure
        Structure(num_nodes={'movie': 2, 'user': 2}, 'a:user b:movie': 3 entries)
        >>> t.values["movie"], t.nodes("user", ["bob"])
        (['Alien', 'Jaws'], tensor([1]))
    """
    if not isinstance(columns, Mapping) or not columns:
        raise IncidenceError(
            f"table needs a mapping from sorts to columns of values, as in {{'user': users, 'movie': movies}}; got {columns!r}."
        )
    is_many = all(isinstance(value, Mapping) for value in columns.values())
    tables = dict(_read(columns if is_many else {"": columns}))
    numbers = _values(tables, nodes or {})
    index = {}
    for pattern, own in tables.items():
        name, sorts = pattern.name or "table", pattern.sorts
        index[str(pattern)] = torch.stack(
            [_numbers(f"{name}: column `{x}:{sorts[x]}`", own[x], numbers[sorts[x]]) for x in own]
        )
        _assert_different(name, index[str(pattern)], own, max(map(len, numbers.values())))
    ordered, order = Structure(
        {sort: len(found) for sort, found in numbers.items()}, index
    ).canonical()
    rows = {pattern.name or "table": order[pattern.name or str(pattern)] for pattern in tables}
    return RelationalData(ordered, {sort: list(found) for sort, found in numbers.items()}, rows)


Columns = dict[str, list[Any]]  # the values of every letter
Numbers = dict[Any, int]  # the node of every value


def _read(tables: Mapping[str, Any]) -> Iterator[tuple[Pattern, Columns]]:
    for name, columns in tables.items():
        title = name or "table"
        if isinstance(name, str) and is_letter(name):
            raise IncidenceError(
                f"table: the table {name!r} has the name of a letter. Give it two letters or more, as in '{name}_table'."
            )
        letters = _letters(title, list(columns))
        lists = [_as_list(column) for column in columns.values()]
        bad = next(
            (
                (key, len(own))
                for key, own in zip(columns, lists, strict=True)
                if len(own) != len(lists[0])
            ),
            None,
        )
        if bad is not None:
            raise IncidenceError(
                f"{title}: the column `{bad[0]}` has {bad[1]} values and `{next(iter(columns))}` has {len(lists[0])}. A column has one "
                f"value a row."
            )
        text = " ".join(f"{letter}:{sort}" for letter, sort in letters)
        yield (
            Pattern(f"{name}={text}" if name else text),
            {letter: column for (letter, _), column in zip(letters, lists, strict=True)},
        )


def _letters(title: str, keys: list[str]) -> list[tuple[str, str]]:
    """A letter and a sort for every column: as written, or the sort alone with a letter that is free."""
    read = [_COLUMN.fullmatch(key) if isinstance(key, str) else None for key in keys]
    if None in read or not read:
        bad = repr(keys[read.index(None)]) if read else "no column"
        raise IncidenceError(
            f"{title}: a column is named by its sort (letters, digits and _), as in 'user' or 'a:user'; got {bad}."
        )
    written = [match["letter"] for match in read if match and match["letter"]]
    if len(set(written)) < len(written):
        raise IncidenceError(
            f"{title}: every column has a letter of its own; `{max(written, key=written.count)}` is there twice."
        )
    free = (
        f"{x}{number or ''}"
        for number in range(100)
        for x in "abcdefghijklmnopqrstuvwxyz"
        if f"{x}{number or ''}" not in written
    )
    return [(match["letter"] or next(free), match["sort"]) for match in read if match]


def _as_list(values: Any) -> list[Any]:
    if isinstance(values, (str, bytes, Mapping, Set)) or not isinstance(values, Iterable):
        raise IncidenceError(f"a column is a list of values, one for each row; got {values!r}.")
    return values.tolist() if hasattr(values, "tolist") else list(values)


def _values(tables: Mapping[Pattern, Columns], nodes: Mapping[str, Any]) -> dict[str, Numbers]:
    """A number for every value of every sort."""
    occurring: dict[str, dict[Any, None]] = {}
    for pattern, columns in tables.items():
        for letter, column in columns.items():
            _assert_values(
                f"{pattern.name or 'table'}: column `{letter}:{pattern.sorts[letter]}`", column
            )
            occurring.setdefault(pattern.sorts[letter], {}).update(dict.fromkeys(column))
    unknown = [sort for sort in nodes if sort not in occurring]
    if unknown:
        raise IncidenceError(
            f"nodes: no column has the sort `{unknown[0]}`; there are: {', '.join(occurring)}."
        )
    return {
        sort: _given(sort, nodes[sort]) if sort in nodes else _numbered(found)
        for sort, found in occurring.items()
    }


def _assert_values(where: str, column: list[Any]) -> None:
    for row, value in enumerate(column):
        try:
            hash(value)
        except TypeError:
            raise IncidenceError(
                f"{where} has {value!r} in row {row}, which is not hashable. Use numbers or strings."
            ) from None
        try:
            is_missing = value is None or bool(
                value != value
            )  # None, NaN, and what cannot even be compared with itself
        except (TypeError, ValueError):
            is_missing = True
        if is_missing:
            raise IncidenceError(
                f"{where} has no value in row {row}. Drop the row, or give it a value."
            )


def _numbered(values: Iterable[Any]) -> Numbers:
    listed = list(values)
    with suppress(TypeError):
        listed = sorted(listed)
    return {value: number for number, value in enumerate(listed)}


def _given(sort: str, nodes: Any) -> Numbers:
    listed = (
        list(range(as_count(nodes)))
        if hasattr(nodes, "__index__") and not hasattr(nodes, "tolist")
        else _as_list(nodes)
    )
    _assert_values(f"nodes['{sort}']", listed)
    numbers = {value: number for number, value in enumerate(listed)}
    if len(numbers) < len(listed):
        twice = next(value for number, value in enumerate(listed) if numbers[value] != number)
        raise IncidenceError(f"nodes['{sort}'] has {twice!r} twice. A value is one node.")
    return numbers


def _numbers(where: str, column: list[Any], numbers: Numbers) -> Tensor:
    found = []
    for row, value in enumerate(column):
        try:
            found.append(numbers[value])
        except (KeyError, TypeError):
            raise IncidenceError(
                f"{where}: {value!r} in row {row} is not one of the {len(numbers)} values of its nodes."
            ) from None
    return torch.tensor(found, dtype=torch.long)


def _assert_different(name: str, letters: Tensor, columns: Columns, bound: int) -> None:
    first = different(letters.T, max(bound, 1))
    if len(first) == letters.shape[1]:
        return
    other = next(row for row, known in enumerate([*first.sort()[0].tolist(), -1]) if row != known)
    one = int((letters == letters[:, other : other + 1]).all(0).nonzero()[0])
    row = tuple(column[one] for column in columns.values())
    raise IncidenceError(
        f"{name}: rows {one} and {other} are both {row}. Join their features and keep one; or tell them apart by a column of another sort, "
        f"as in 'event': range({letters.shape[1]})."
    )
