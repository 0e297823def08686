"""Predictions of models that complete what they know: for pairs, or sets, of nodes by name."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

from incidence.data.completion import Completion
from incidence.data.tables import Table, is_frame, listed, read_table, table_of
from incidence.errors import IncidenceError
from incidence.models import Predictor

__all__ = ["Answer", "answers"]

_SHOWN = 3


class Answer(NamedTuple):
    """What a model says about a row that is asked for, and what else the table has there."""

    name: str
    row: list[float]
    properties: Mapping[str, str]


def answers(
    predictor: Predictor, completion: Completion, what: Any, errors: list[IncidenceError]
) -> list[Answer]:
    """A prediction for each row of tables.

    Args:
        predictor: The network with its scales.
        completion: What it knows.
        what: The path of a table, a data frame, or a list of such.
        errors: Takes what could not be read; the rest goes on.
    """
    several = [what] if isinstance(what, (str, PathLike)) or is_frame(what) else list(what)
    found: list[Answer] = []
    for one in several:
        try:
            table = _table(one, completion)
            found += _answered(
                predictor,
                completion,
                *_asked(table, _entries(table, completion), completion, errors),
            )
        except IncidenceError as error:
            errors.append(error)
    return found


def _table(what: Any, completion: Completion) -> Table:
    if is_frame(what):
        return table_of(what)
    if not isinstance(what, (str, PathLike)):
        kind = type(what).__name__
        raise IncidenceError(
            f"this model predicts for rows of tables with {_said(completion)}: give paths or data frames; got {kind}."
        )
    path = Path(what).expanduser()
    if not path.is_file():
        raise IncidenceError(
            f"there is no file {path}; this model predicts for rows of a table with {_said(completion)}."
        )
    known, are_sets = (
        {name for own in completion.names.values() for name in own},
        len(completion.keys) == 1,
    )  # whose cells have blanks
    return read_table(
        path,
        lambda first, others: (
            not any(
                word in known for cell in first for word in (cell.split() if are_sets else [cell])
            )
        ),
        by_blanks=not are_sets,
    )


def _said(completion: Completion) -> str:
    return (
        f"the columns {' and '.join(completion.keys)}"
        if len(completion.keys) > 1
        else f"the column {completion.keys[0]}"
    )


def _entries(table: Table, completion: Completion) -> list[list[str]]:
    """The names of the nodes of every row."""
    lower = {name.strip().lower(): name for name in table.columns}
    if len(completion.keys) == 1:
        first = lower.get(completion.keys[0])
        columns = [
            name for name in table.columns if first in (None, name) or name.startswith("column ")
        ]  # sets of words, or divided
        return [
            [word for column in columns for word in table[column][k].split()]
            for k in range(len(table))
        ]
    columns = [lower.get(key.strip().lower(), "") for key in completion.keys]
    if "" in columns and (table.has_names or len(table.columns) < len(columns)):
        raise IncidenceError(
            f"{table.source} has no column `{completion.keys[columns.index('')]}`; it has: {listed(table.columns)}."
        )
    columns = list(table.columns)[: len(columns)] if "" in columns else columns
    return [list(names) for names in zip(*(table[column] for column in columns), strict=True)]


def _asked(
    table: Table, entries: Sequence[list[str]], completion: Completion, errors: list[IncidenceError]
) -> tuple[Table, list[list[str]]]:
    """The rows that can be asked for; one with a node that is missing, or is there twice, is one of the errors, with its line."""
    kept = []
    for number, (place, entry) in enumerate(zip(table.places, entries, strict=True)):
        if len(set(entry)) < len(entry) and len(set(completion.sorts_of(len(entry)))) == 1:
            errors.append(
                IncidenceError(
                    f"{table.source}, {place}: an entry has different nodes; got {' '.join(entry)}."
                )
            )
        elif not all(entry) or len(entry) < 2:
            errors.append(
                IncidenceError(
                    f"{table.source}, {place}: an entry has at least two nodes; got {' '.join(entry) or 'none'}."
                )
            )
        else:
            kept.append(number)
    return table.only(kept), [entries[number] for number in kept]


def _answered(
    predictor: Predictor, completion: Completion, table: Table, entries: Sequence[Sequence[str]]
) -> Iterator[Answer]:
    """Rows in order."""
    if not entries:
        return iter(())
    _tell_new(table, completion, entries)
    rows: list[list[float]] = [[] for _ in entries]
    for places, example in completion.ask(entries):
        predicted = predictor.predict(example.features, example.structure).tolist()
        for same, row in zip(places, predicted, strict=True):
            for number in same:
                rows[number] = row
    name = Path(table.source).name
    return (
        Answer(f"{name} {place}", row, table.row(k))
        for k, (place, row) in enumerate(zip(table.places, rows, strict=True))
    )


def _tell_new(table: Table, completion: Completion, entries: Sequence[Sequence[str]]) -> None:
    for sort, names in completion.new_names(entries).items():
        if names:
            told = ", ".join(names[:_SHOWN]) + (", ..." if len(names) > _SHOWN else "")
            count = f"{len(names)} of `{sort}`"
            warnings.warn(
                f"{table.source}: {count} not in the data of the model ({told}): predicted as if nothing were known about them.",
                stacklevel=2,
            )
