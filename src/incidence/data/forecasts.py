"""Forecasts about entities of a database: an example for each row of a task table."""

from __future__ import annotations

import math
import warnings
from collections.abc import Container, Iterator, Mapping
from pathlib import Path
from typing import Any

import torch

from incidence.data.columns import choose_targets, is_split, read_parts, read_targets
from incidence.data.database import as_path, find_keys, tables_from
from incidence.data.dataset import METRICS, DataSet, Record
from incidence.data.dataset_builder import DataRequest
from incidence.data.dates import as_days, as_times
from incidence.data.entity_history import LATEST, EntityHistory
from incidence.data.row_encoding import Encoding
from incidence.data.splitting import split_by_time, splits_of
from incidence.data.tables import TextTable, listed, read_table
from incidence.data.task_tables import TaskColumns, task_columns, task_table
from incidence.errors import IncidenceError

__all__ = ["READER", "from_database", "read_queries", "records_of_queries"]

READER = "database"
_TOGETHER = 256  # examples that are made at once
_MOST_SHOWN = 3  # unknown entities in a warning
_OPTIONS = ("task_table", "keys", "times", "until", "latest")


def from_database(what: Any, request: DataRequest) -> DataSet:
    """Return the data set of a task table: for each entity and time, what was known by then.

    Raises:
        IncidenceError: An option is unknown, or keys, times or targets are not clear.
    """
    options = request.options
    unknown = next((name for name in options if name not in _OPTIONS), None)
    if unknown is not None:
        raise IncidenceError(
            f"a database has no option `{unknown}`: it takes {', '.join(_OPTIONS)}."
        )
    given = options.get("keys") or ()
    keys = [given] if isinstance(given, str) else list(given)
    database = find_keys(request.name, tables_from(what), keys, options.get("times"))
    table = task_table(options["task_table"])  # a row for each prediction
    columns = task_columns(table, database)
    used = [columns.entity, columns.time]
    names = choose_targets(table, request.targets, used)
    task, targets = read_targets(table.source, {n: table[n] for n in names}, request.task)
    times = as_times(table.source, columns.time, table[columns.time])
    splits = splits_of(read_parts(table))
    has_drawn_parts = not splits
    if not splits:
        rows = torch.arange(len(table))
        splits = (split_by_time(rows, times),)
    # Encodings are fitted to rows up to the last time of training, not to the whole database.
    fitted_until = float(times[splits[0].train].max())
    until = _until(options.get("until"))
    latest = int(options.get("latest", LATEST))
    history = EntityHistory.of(database, None, fitted_until, latest, until)
    # Plain values that `read_queries` needs: a model predicts from the same database later.
    settings = {
        "database": as_path(what),
        "keys": keys,
        "times": dict(options.get("times") or {}),
        "latest": latest,
        "until": until if math.isfinite(until) else None,
        "entity": columns.entity,
        "sort": columns.sort,
        "time": columns.time,
        "encodings": {
            name: [one.plain() for one in some] for name, some in history.encodings.items()
        },
    }
    examples = [
        record.example.replace(target=row)
        for record, row in zip(_records(table, columns, history), targets, strict=True)
    ]
    others = [name for name in table.columns if name not in names and not is_split(name)]
    return DataSet(
        request.name,
        examples,
        task,
        splits,
        reader=READER,
        reader_options=settings,
        about=" ".join(
            [
                f"Your own data: {len(examples):,} rows about `{columns.sort}`, each with what was"
                " known at its time. Tables:",
                "; ".join(database.lines()),
            ]
        ),
        metric="auc"
        if task.kind == "classification" and len(task.names) == 2
        else _metric_of(task),
        names=[_name(table, columns, row) for row in range(len(table))],
        columns={name: list(table[name]) for name in others},
        has_drawn_parts=has_drawn_parts,
    )


def _metric_of(task: Any) -> str:
    return "mae" if task.kind == "regression" else METRICS[task.kind]


def _until(value: Any) -> float:
    if value is None:
        return math.inf
    days = as_days([str(value)])
    if days is None:
        raise IncidenceError(f"`until` is a date such as 2010-01-01; got {value!r}.")
    return days[0]


def _name(table: TextTable, columns: TaskColumns, row: int) -> str:
    return f"{table[columns.entity][row]} {table[columns.time][row]}"


def _records(table: TextTable, columns: TaskColumns, history: EntityHistory) -> Iterator[Record]:
    times = as_times(table.source, columns.time, table[columns.time]).tolist()
    missing = next((row for row, time in enumerate(times) if math.isnan(time)), None)
    if missing is not None:
        raise IncidenceError(f"{table.source}, {table.places[missing]}: the time is missing.")
    entities = table[columns.entity]
    _warn_of_unknown(table, columns, history.sorts[columns.sort].number)
    for start in range(0, len(times), _TOGETHER):
        some = slice(start, start + _TOGETHER)
        found = history.examples(columns.sort, entities[some], times[some])
        for row, example in enumerate(found, start):
            yield Record(_name(table, columns, row), example, None, table.row(row), row=row)


def _warn_of_unknown(table: TextTable, columns: TaskColumns, known: Container[str]) -> None:
    """Warn of entities that the database does not have; they have no history.

    Raises:
        IncidenceError: It has none of them.
    """
    unknown = [text for text in dict.fromkeys(table[columns.entity]) if text not in known]
    if not unknown:
        return
    if len(unknown) == len(set(table[columns.entity])):
        raise IncidenceError(
            f"{table.source}: no `{columns.entity}` is a row of the table `{columns.sort}`; the"
            f" first is {unknown[0]!r}. See how both write their keys."
        )
    some = listed(unknown[:_MOST_SHOWN]) + (", ..." if len(unknown) > _MOST_SHOWN else "")
    warnings.warn(
        f"{table.source}: {len(unknown):,} of `{columns.entity}` are no rows of the table"
        f" `{columns.sort}` ({some}): nothing is known about them.",
        stacklevel=2,
    )


def read_queries(path: Path, errors: list[IncidenceError], **options: Any) -> Iterator[Record]:
    """Read rows of entities and times, each with what was known by then, from a table.

    Args:
        path: The table.
        errors: Not used: a row with an unknown entity has no history.
        options: What a data set of a database remembers.
    """
    for record in records_of_queries(read_table(path), options):
        yield record._replace(name=f"{path.name} {record.name}")


def records_of_queries(table: TextTable, options: Mapping[str, Any]) -> Iterator[Record]:
    """Return the records of a table of entities and times; see `read_queries`.

    Raises:
        IncidenceError: The database is not there any more, or a column is missing.
    """
    source = options.get("database")
    if not source or not Path(source).exists():
        raise IncidenceError(
            f"the database of this model, {source or 'data frames'}, is not there: predictions read"
            " the latest rows in it. Put it back, or train again on its new place."
        )
    path = Path(source)
    database = find_keys(path.name, tables_from(path), options["keys"], options["times"])
    encodings = {
        name: [Encoding.from_plain(one) for one in some]
        for name, some in options["encodings"].items()
    }
    until = options.get("until")
    history = EntityHistory.of(
        database, encodings, math.inf, options["latest"], math.inf if until is None else until
    )
    columns = TaskColumns(
        table.named(options["entity"]), options["sort"], table.named(options["time"])
    )
    return _records(table, columns, history)
