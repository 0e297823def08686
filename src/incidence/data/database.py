"""Tables with keys: relational databases in folders, SQLite and DuckDB files, and data frames.

Primary and foreign keys are given, or follow from names and values. A table that others refer to is
a sort, and its rows are nodes. A table with several foreign keys has faces: its rows join nodes.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

from incidence.data.dates import as_days
from incidence.data.tables import (
    TextTable,
    are_frames,
    is_table,
    listed,
    read_table,
    table_of,
    table_of_values,
)
from incidence.errors import IncidenceError, need
from incidence.files import regular_file

__all__ = ["DATABASES", "Database", "KeyedTable", "find_keys", "is_database", "tables_from"]

_SQLITE = (".sqlite", ".sqlite3", ".db")
_DUCKDB = (".duckdb",)
DATABASES = (*_SQLITE, *_DUCKDB)
"""The suffixes of files with several tables."""
_TIMES = ("date", "datetime", "timestamp", "time", "created_at", "created", "day", "event_time")
# Real foreign keys point to rows that were deleted; columns that only look alike match by chance.
_SHARE = 0.9  # of the values of a foreign key that must be there
_QUOTE = '"'


@dataclass(frozen=True)
class KeyedTable:
    """A table with its keys.

    Attributes:
        name: Its name.
        table: Its rows.
        primary: The column with the name of each row; empty if there is none.
        foreign: For each column that refers to another table, the name of that table.
        time: The column with the time of each row; empty if rows have no time.
    """

    name: str
    table: TextTable
    primary: str
    foreign: Mapping[str, str]
    time: str

    @property
    def others(self) -> list[str]:
        """The columns that are no keys and no time."""
        used = {self.primary, self.time, *self.foreign}
        return [name for name in self.table.columns if name not in used]


@dataclass(frozen=True)
class Database:
    """Tables with their keys, by name."""

    name: str
    tables: Mapping[str, KeyedTable]

    def __repr__(self) -> str:
        """Return the tables with their keys, a line for each."""
        return f"Database {self.name}\n" + "\n".join(f"  {line}" for line in self.lines())

    def lines(self) -> list[str]:
        """Return a line for each table: its rows, keys and time."""
        lines = []
        for name, one in self.tables.items():
            words = [f"{len(one.table):,} rows"]
            if one.primary:
                words.append(f"key {one.primary}")
            words += [f"{column} -> {other}" for column, other in one.foreign.items()]
            if one.time:
                words.append(f"time {one.time}")
            lines.append(f"{name}: {', '.join(words)}")
        return lines


def is_database(path: Path) -> bool:
    """Return whether the name of a file is that of a database."""
    return path.name.lower().endswith(DATABASES)


def tables_from(what: Any) -> dict[str, TextTable]:
    """Return the tables of a folder, of a database file, or of data frames, by name.

    Raises:
        IncidenceError: There are none, or a file is damaged.
    """
    if are_frames(what):
        return {str(name): table_of(one, f"the DataFrame {name!r}") for name, one in what.items()}
    if isinstance(what, Mapping):
        return dict(what)
    path = Path(what).expanduser()
    if path.is_dir():
        files = [file for file in sorted(path.iterdir()) if is_table(file)]
        if not files and (path / "tables").is_dir():  # as some exports of databases lay them out
            return tables_from(path / "tables")
        tables = {file.name.partition(".")[0]: read_table(file) for file in files}
    elif path.name.lower().endswith(_DUCKDB):
        tables = _duckdb_tables(path)
    else:
        tables = _sqlite_tables(path)
    if not tables:
        raise IncidenceError(f"{path} has no tables: it is a folder of tables, or a database.")
    return tables


def _sqlite_tables(path: Path) -> dict[str, TextTable]:
    regular_file(path, "a database")
    try:
        # no journal is written
        with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as base:
            query = "select name from sqlite_master where type = 'table' order by name"
            names = [str(name) for (name,) in base.execute(query) if not name.startswith("sqlite_")]
            return {name: _of_query(path, name, base) for name in names}
    except (sqlite3.Error, UnicodeDecodeError) as error:
        raise IncidenceError(f"{path} cannot be read as a SQLite database: {error}.") from None


def _duckdb_tables(path: Path) -> dict[str, TextTable]:
    duckdb = need("duckdb", "reading a DuckDB database", "duckdb")
    regular_file(path, "a database")
    try:
        with closing(duckdb.connect(str(path), read_only=True)) as base:
            names = [str(name) for (name,) in base.execute("show tables").fetchall()]
            return {name: _of_query(path, name, base) for name in names}
    except duckdb.Error as error:
        raise IncidenceError(f"{path} cannot be read as a DuckDB database: {error}.") from None


def _of_query(path: Path, name: str, base: Any) -> TextTable:
    quoted = _QUOTE + name.replace(_QUOTE, 2 * _QUOTE) + _QUOTE
    found = base.execute(f"select * from {quoted}")  # a name of the file itself, quoted
    columns = [str(column[0]) for column in found.description]
    rows = found.fetchall()
    values = {column: [row[k] for row in rows] for k, column in enumerate(columns)}
    return table_of_values(f"{path}, table {name}", values)


def find_keys(
    name: str,
    tables: Mapping[str, TextTable],
    keys: Sequence[str] = (),
    times: Mapping[str, str] | None = None,
) -> Database:
    """Return a database: tables with their keys.

    - The primary key is a column without repetition that is called `id`, or after the table, such
      as `driverId` of `drivers`; else the first column if its name ends in `id`.
    - A foreign key is called like the primary key of another table, or after that table, such as
      `driver_id` for `id` of `drivers`; nine tenths of its values must be there.
    - The time of a row is in a column such as `date` or `created_at`, if it has dates.

    Args:
        name: The name of the database.
        tables: Its tables.
        keys: Foreign keys that are given, as in `results.winner=drivers`.
        times: The columns of times that are given, by table.

    Raises:
        IncidenceError: A given key or time is not there, or no table refers to another.
    """
    tables = dict(sorted(tables.items()))
    given = _given_keys(keys, tables)  # these win over what names suggest
    primaries = {key: _primary(key, table) for key, table in tables.items()}
    # the keys of each table
    known = {key: set(tables[key][column]) for key, column in primaries.items() if column}
    keyed = {}
    for key, table in tables.items():
        foreign = {}
        for column in table.columns:
            target = given.get((key, column)) or _target(key, column, primaries)
            # A primary key may look like a foreign one: `id` of two tables that describe the same
            # rows.
            if target is None or column == primaries[key]:
                continue
            if (key, column) in given or _refers(table[column], known[target]):
                foreign[column] = target
        time = (times or {}).get(key) or _time(table, foreign)
        keyed[key] = KeyedTable(key, table, primaries[key], foreign, time and table.named(time))
    if not any(one.foreign for one in keyed.values()):
        raise IncidenceError(
            f"{name}: no table refers to another by a column that is called like its key. Name the"
            f" keys, as in `--keys orders.customer=customers`; there are: {listed(list(tables))}."
        )
    return Database(name, keyed)


def _given_keys(keys: Sequence[str], tables: Mapping[str, TextTable]) -> dict[tuple[str, str], str]:
    given = {}
    for text in keys:
        match = re.fullmatch(r"\s*(.+?)\.(.+?)\s*=\s*(.+?)\s*", text)
        table, column, target = match.groups() if match else ("", "", "")
        if table not in tables or target not in tables or column not in tables[table].columns:
            raise IncidenceError(
                "a foreign key is given as in orders.customer=customers, by a table, a column, and"
                f" the table that it refers to; got {text!r}. Tables: {listed(list(tables))}."
            )
        given[table, column] = target
    return given


def _plain(name: str) -> str:
    return re.sub(r"[\W_]", "", name.lower())


def _stems(name: str) -> set[str]:
    """Return a name and its singulars: `categories` is about `category`."""
    plain = _plain(name)
    stems = {plain, plain.removesuffix("s"), plain.removesuffix("es")}
    return stems | ({plain.removesuffix("ies") + "y"} if plain.endswith("ies") else set())


def _primary(name: str, table: TextTable) -> str:
    columns = list(table.columns)
    wanted = {"id", *(f"{stem}id" for stem in _stems(name)), *(f"{s}key" for s in _stems(name))}
    usual = [column for column in columns if _plain(column) in wanted]
    first = [columns[0]] if _plain(columns[0]).endswith("id") else []
    # Names alone do not decide: `id` may repeat in a table of events.
    for column in (*usual, *first):
        values = table[column]
        if all(values) and len(set(values)) == len(values):
            return column
    return ""


def _target(name: str, column: str, primaries: Mapping[str, str]) -> str | None:
    """Return the table that a column seems to refer to, by its name."""
    plain = _plain(column)
    for other, primary in primaries.items():
        # every table may have an `id`
        is_same = primary and _plain(primary) == plain and plain != "id"
        if other != name and is_same:
            return other
    for other, primary in primaries.items():
        if primary and plain.removesuffix("id") in _stems(other) and plain.endswith("id"):
            return other
    return None


def _refers(texts: Sequence[str], known: set[str]) -> bool:
    present = [text for text in texts if text]
    return bool(present) and sum(text in known for text in present) >= _SHARE * len(present)


def _time(table: TextTable, foreign: Mapping[str, str]) -> str:
    """Return the column with the time of each row: one with a usual name that has dates."""
    lower = {column.lower(): column for column in table.columns if column not in foreign}
    usual = [lower[name] for name in _TIMES if name in lower]
    usual += [column for name, column in lower.items() if name.endswith(("_date", "_at"))]
    return next((column for column in usual if as_days(table[column]) is not None), "")


def as_path(what: Any) -> str:
    """Return the absolute path of a database, empty for data frames."""
    if isinstance(what, (str, PathLike)):
        return str(Path(what).expanduser().resolve())
    return ""
