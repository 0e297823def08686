"""Task tables of a database: rows of an entity and a time, with what is to be forecast."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from incidence.data.columns import PARTS, is_split
from incidence.data.database import Database
from incidence.data.dates import as_days
from incidence.data.tables import TextTable, is_frame, listed, read_table, table_of
from incidence.errors import IncidenceError

__all__ = ["TaskColumns", "task_columns", "task_table"]


class TaskColumns(NamedTuple):
    """The columns of a task table: which entity, and when."""

    entity: str
    sort: str
    time: str


def task_table(what: Any) -> TextTable:
    """Return the task table: one, or one for each part, as `dnf.train.csv` and `dnf.test.csv`."""
    several = [what] if is_frame(what) or isinstance(what, (str, Path)) else what
    if isinstance(several, Mapping):
        return _joined(
            [table_of(one, f"the DataFrame {key!r}") for key, one in several.items()], list(several)
        )
    tables = [
        table_of(one, "the DataFrame of the task") if is_frame(one) else _read_task(Path(one))
        for one in several
    ]
    if len(tables) == 1:
        return tables[0]
    return _joined(tables, [Path(str(one)).name for one in several])


def _read_task(path: Path) -> TextTable:
    path = path.expanduser()
    if not path.is_file():
        raise IncidenceError(
            f"there is no task table {path}: it has a row for each entity and time, with a target."
        )
    return read_table(path)


def _joined(tables: Sequence[TextTable], names: Sequence[str]) -> TextTable:
    """Return the tables of several parts as one, with a column `split`."""
    columns = list(tables[0].columns)
    joined: dict[str, list[str]] = {name: [] for name in (*columns, "split")}
    places: list[str] = []
    for table, name in zip(tables, names, strict=True):
        words = name.lower().replace("_", ".").replace("-", ".").split(".")
        part = next((word for word in words if word in PARTS), None)
        if part is None or set(table.columns) != set(columns):
            raise IncidenceError(
                "several task tables have the same columns, and the names of their parts, as"
                f" dnf.train.csv, dnf.val.csv and dnf.test.csv; got {name}."
            )
        for column in columns:
            joined[column] += table[column]
        joined["split"] += [part] * len(table)
        places += [f"{place} of {table.source}" for place in table.places]
    return TextTable(tables[0].source, joined, places)


def task_columns(table: TextTable, database: Database) -> TaskColumns:
    """Return the columns of the entity and of the time in a task table."""
    by_key = {one.primary.lower(): name for name, one in database.tables.items() if one.primary}
    for one in database.tables.values():
        by_key |= {column.lower(): other for column, other in one.foreign.items()}
    entities = [name for name in table.columns if name.lower() in by_key]
    times = [
        name
        for name in table.columns
        if name not in entities and not is_split(name) and as_days(table[name]) is not None
    ]
    if len(entities) != 1 or len(times) != 1:
        raise IncidenceError(
            f"{table.source}: a task table has one column with the key of an entity, such as"
            f" {listed(sorted({one.primary for one in database.tables.values() if one.primary}))},"
            f" one with dates, and the target; it has {listed(list(table.columns))}."
        )
    return TaskColumns(entities[0], by_key[entities[0].lower()], times[0])
