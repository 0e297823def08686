"""Relational data: tables whose columns hold values of sorts, each row an entry."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Set
from contextlib import suppress
from dataclasses import dataclass
from string import ascii_lowercase
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
    """Tables as a structure, with the way between values and nodes, and between rows and entries.

    Attributes:
        structure: The structure: a sort for every kind of values, a tensor for every table.
        values: For every sort, the values of its nodes in order.
        rows: For every table (by name, or `"table"` for the only one) the rows in the order of the
            entries of its tensor: features of the rows follow by `features[rows]`.
    """

    structure: Structure
    values: dict[str, list[Any]]
    rows: dict[str, Tensor]

    def __repr__(self) -> str:
        """Return a line with a few values of every sort."""
        texts = []
        for sort, values in self.values.items():
            shown = [*map(repr, values[:_SHOWN]), *(["..."] if len(values) > _SHOWN else [])]
            texts.append(f"{sort}: {', '.join(shown)}")
        return f"RelationalData({self.structure}; {'; '.join(texts)})"

    def nodes(self, sort: str, values: Iterable[Any]) -> Tensor:
        """Return the numbers of the nodes with given values of a sort.

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
    r"""Return relational data as a structure: each row of a table is one entry of a pattern with
    one letter for each column.

    Entries stand in the preferred order; `rows` of the result has the row of each entry.

    Args:
        columns: From the sort of every column to its values (anything hashable), one for each row:
            `{"user": u, "movie": m}` makes the tensor `a:user b:movie`. Columns of one sort get
            letters of their own, as in `{"a:user": u, "b:user": v}`. Several tables over the same
            sorts: from a name to the columns of each, as in `{"rates": {...}, "knows": {...}}`.
        nodes: For some sorts all values in the order of their nodes, or a number n if the values
            are 0 to n - 1. Other sorts have the values that occur, in ascending order, or by
            appearance where they do not compare.

    Raises:
        IncidenceError: Columns differ in length, a value is missing or unknown, or a row repeats
            another; the message names the row.

    Example:
        >>> t = table({"user": ["ann", "bob", "ann"], "movie": ["Jaws", "Jaws", "Alien"]})
        >>> t.structure
        Structure(num_nodes={'movie': 2, 'user': 2}, 'a:user b:movie': 3 entries)
        >>> t.values["movie"], t.nodes("user", ["bob"])
        (['Alien', 'Jaws'], tensor([1]))
    """
    if not isinstance(columns, Mapping) or not columns:
        raise IncidenceError(
            "table needs a mapping from sorts to columns of values, as in {'user': users,"
            f" 'movie': movies}}; got {columns!r}."
        )
    is_many = all(isinstance(value, Mapping) for value in columns.values())
    tables = dict(_read(columns if is_many else {"": columns}))
    node_of = _nodes_of_values(tables, nodes or {})
    most = max(map(len, node_of.values()))
    index = {}
    for pattern, by_letter in tables.items():
        name = pattern.name or "table"
        numbers = []
        for letter, column in by_letter.items():
            sort = pattern.sorts[letter]
            numbers.append(_numbers(f"{name}: column `{letter}:{sort}`", column, node_of[sort]))
        index[str(pattern)] = torch.stack(numbers)  # (letters, rows)
        _assert_different(name, index[str(pattern)], by_letter, most)
    counts = {sort: len(values) for sort, values in node_of.items()}
    ordered, order = Structure(counts, index).canonical()
    rows = {pattern.name or "table": order[pattern.name or str(pattern)] for pattern in tables}
    return RelationalData(ordered, {sort: list(values) for sort, values in node_of.items()}, rows)


Columns = dict[str, list[Any]]  # the values of every letter
Numbers = dict[Any, int]  # the node of every value


def _read(tables: Mapping[str, Any]) -> Iterator[tuple[Pattern, Columns]]:
    for name, columns in tables.items():
        title = name or "table"
        if isinstance(name, str) and is_letter(name):
            raise IncidenceError(
                f"table: the table {name!r} has the name of a letter. Give it two letters or more,"
                f" as in '{name}_table'."
            )
        letters = _letters(title, list(columns))
        lists = [_as_list(column) for column in columns.values()]
        for key, values in zip(columns, lists, strict=True):
            if len(values) != len(lists[0]):
                raise IncidenceError(
                    f"{title}: the column `{key}` has {len(values)} values and"
                    f" `{next(iter(columns))}` has {len(lists[0])}. A column has one value a row."
                )
        text = " ".join(f"{letter}:{sort}" for letter, sort in letters)
        yield (
            Pattern(f"{name}={text}" if name else text),
            {letter: column for (letter, _), column in zip(letters, lists, strict=True)},
        )


def _letters(title: str, keys: list[str]) -> list[tuple[str, str]]:
    """A letter and a sort for every column: as written, or the sort alone with a free letter."""
    matches = [_COLUMN.fullmatch(key) if isinstance(key, str) else None for key in keys]
    if None in matches or not matches:
        bad = repr(keys[matches.index(None)]) if matches else "no column"
        raise IncidenceError(
            f"{title}: a column is named by its sort (letters, digits and _), as in 'user' or"
            f" 'a:user'; got {bad}."
        )
    written = [match["letter"] for match in matches if match and match["letter"]]
    if len(set(written)) < len(written):
        raise IncidenceError(
            f"{title}: every column has a letter of its own; `{max(written, key=written.count)}` is"
            " there twice."
        )
    letters = (f"{x}{number}" for number in ("", *range(1, 100)) for x in ascii_lowercase)
    free = (letter for letter in letters if letter not in written)
    return [(match["letter"] or next(free), match["sort"]) for match in matches if match]


def _as_list(values: Any) -> list[Any]:
    if isinstance(values, (str, bytes, Mapping, Set)) or not isinstance(values, Iterable):
        raise IncidenceError(f"a column is a list of values, one for each row; got {values!r}.")
    return values.tolist() if hasattr(values, "tolist") else list(values)


def _nodes_of_values(
    tables: Mapping[Pattern, Columns], nodes: Mapping[str, Any]
) -> dict[str, Numbers]:
    """The node of every value, by sort."""
    occurring: dict[str, dict[Any, None]] = {}
    for pattern, columns in tables.items():
        for letter, column in columns.items():
            sort = pattern.sorts[letter]
            _assert_values(f"{pattern.name or 'table'}: column `{letter}:{sort}`", column)
            occurring.setdefault(sort, {}).update(dict.fromkeys(column))
    unknown = [sort for sort in nodes if sort not in occurring]
    if unknown:
        raise IncidenceError(
            f"nodes: no column has the sort `{unknown[0]}`; there are: {', '.join(occurring)}."
        )
    return {
        sort: _given(sort, nodes[sort]) if sort in nodes else _numbered(values)
        for sort, values in occurring.items()
    }


def _assert_values(where: str, column: list[Any]) -> None:
    for row, value in enumerate(column):
        try:
            hash(value)
        except TypeError:
            raise IncidenceError(
                f"{where} has {value!r} in row {row}, which is not hashable. Use numbers or"
                " strings."
            ) from None
        try:
            # None, NaN, and what cannot even be compared with itself
            is_missing = value is None or bool(value != value)
        except (TypeError, ValueError):
            is_missing = True
        if is_missing:
            raise IncidenceError(
                f"{where} has no value in row {row}. Drop the row, or give it a value."
            )


def _numbered(values: Iterable[Any]) -> Numbers:
    listed = list(values)
    with suppress(TypeError):
        # Numbers of nodes do not depend on the order of the rows, where values can be compared.
        listed = sorted(listed)
    return {value: number for number, value in enumerate(listed)}


def _given(sort: str, nodes: Any) -> Numbers:
    is_count = hasattr(nodes, "__index__") and not hasattr(nodes, "tolist")
    listed = list(range(as_count(nodes))) if is_count else _as_list(nodes)
    _assert_values(f"nodes['{sort}']", listed)
    numbers = {value: number for number, value in enumerate(listed)}
    if len(numbers) < len(listed):
        twice = next(value for number, value in enumerate(listed) if numbers[value] != number)
        raise IncidenceError(f"nodes['{sort}'] has {twice!r} twice. A value is one node.")
    return numbers


def _numbers(where: str, column: list[Any], numbers: Numbers) -> Tensor:
    nodes = []
    for row, value in enumerate(column):
        try:
            nodes.append(numbers[value])
        except (KeyError, TypeError):
            raise IncidenceError(
                f"{where}: {value!r} in row {row} is not one of the {len(numbers)} values of its"
                " nodes."
            ) from None
    return torch.tensor(nodes, dtype=torch.long)


def _assert_different(name: str, letters: Tensor, columns: Columns, bound: int) -> None:
    first = different(letters.T, max(bound, 1))  # the first of all equal rows
    if len(first) == letters.shape[1]:
        return
    is_first = torch.zeros(letters.shape[1], dtype=torch.bool)
    is_first[first] = True
    other = int((~is_first).nonzero()[0])
    one = int((letters == letters[:, other : other + 1]).all(0).nonzero()[0])
    row = tuple(column[one] for column in columns.values())
    raise IncidenceError(
        f"{name}: rows {one} and {other} are both {row}. Join their features and keep one; or tell"
        f" them apart by a column of another sort, as in 'event': range({letters.shape[1]})."
    )
