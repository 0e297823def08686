"""Forecasts about entities of a database: for each entity and time an example of earlier rows.

An example has the entity, its latest rows in every table that refers to it, what these rows refer
to, and the rows of other tables between the same nodes. No row later than the time is read.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from string import ascii_letters
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from incidence.data.columns import PARTS, choose_targets, is_split, read_parts, read_targets
from incidence.data.database import Database, KeyedTable, as_path, find_keys, tables_from
from incidence.data.dataset import METRICS, DataSet, Record
from incidence.data.dataset_builder import DataRequest
from incidence.data.dates import as_days, as_times
from incidence.data.row_encoding import Encoding, encoding_of
from incidence.data.splitting import split_by_time, splits_of
from incidence.data.tables import TextTable, is_frame, listed, read_table, table_of
from incidence.errors import IncidenceError
from incidence.structure.collate import uncollate
from incidence.structure.example import Example
from incidence.structure.structure import Structure

__all__ = ["READER", "from_database", "read_queries", "records_of_queries"]

READER = "database"
LATEST = 20
"""How many of the latest rows of each table an example has."""
_TOGETHER = 256  # examples that are made at once
_OPTIONS = ("task_table", "keys", "times", "until", "latest")


class TaskColumns(NamedTuple):
    """The columns of a task table: which entity, and when."""

    entity: str
    sort: str
    time: str


class _Sort(NamedTuple):
    """The rows of a table that others refer to.

    Attributes:
        number: The number of a row by its key.
        features: Static features of rows, [rows, channels].
        times: When rows become known, [rows]; minus infinity for rows without a time.
    """

    number: dict[str, int]
    features: Tensor
    times: np.ndarray[Any, Any]


class _Faces(NamedTuple):
    """The rows of a table, each joining nodes of several sorts.

    Attributes:
        pattern: The tensor.
        columns: The foreign keys, in the order of its letters.
        sorts: The sorts that they refer to.
        nodes: The nodes of rows, [rows, letters].
        features: Static features of rows, [rows, channels].
        times: When rows become known, [rows].
        by_node: For each column, the rows of each node, by time.
        by_nodes: The rows with the same nodes.
    """

    pattern: str
    columns: list[str]
    sorts: list[str]
    nodes: np.ndarray[Any, Any]
    features: Tensor
    times: np.ndarray[Any, Any]
    by_node: list[dict[int, np.ndarray[Any, Any]]]
    by_nodes: dict[tuple[int, ...], list[int]]


class _Past(NamedTuple):
    """What is known of an entity at a time.

    Attributes:
        time: The time.
        nodes: For each sort, the nodes by their row in the table; the entity comes first.
        rows: For each table of faces, its rows.
        counts: How many rows every table has about the entity, and how old the last one is.
    """

    time: float
    nodes: Mapping[str, Mapping[int, int]]
    rows: Mapping[str, list[int]]
    counts: Sequence[float]


Encodings = Mapping[str, Sequence[Encoding]]


@dataclass(frozen=True)
class EntityHistory:
    """A database from which the past of every entity is read.

    Attributes:
        database: The tables with their keys.
        encodings: How columns become features, by table.
        latest: How many of the latest rows of each table an example has.
        until: A time after which nothing is read, whatever the time of an example.
        sorts: The tables that others refer to, by name.
        faces: The tables that refer to others, by name.
    """

    database: Database
    encodings: Encodings
    latest: int
    until: float
    sorts: Mapping[str, _Sort]
    faces: Mapping[str, _Faces]

    @staticmethod
    def of(
        database: Database,
        encodings: Encodings | None,
        fitted_until: float,
        latest: int = LATEST,
        until: float = math.inf,
    ) -> EntityHistory:
        """Return the history of a database.

        Args:
            database: The tables with their keys.
            encodings: How columns become features, if that is known.
            fitted_until: If it is not, rows up to this time decide it.
            latest: How many of the latest rows of each table an example has.
            until: A time after which nothing is read.
        """
        times = {name: _times(one) for name, one in database.tables.items()}
        if encodings is None:
            known = min(fitted_until, until)
            encodings = {
                name: _encodings(one, times[name] <= known) for name, one in database.tables.items()
            }
        referred = {other for one in database.tables.values() for other in one.foreign.values()}
        sorts, faces = {}, {}
        for name, one in database.tables.items():
            x = _encoded(one, encodings[name])
            if name in referred:
                keys = one.table[one.primary]
                number = {key: k for k, key in enumerate(keys)}
                sorts[name] = _Sort(number, x, times[name])
        for name, one in database.tables.items():
            if one.foreign:
                is_node = name in referred
                x = torch.zeros(len(one.table), 0) if is_node else _encoded(one, encodings[name])
                faces[name] = _faces(one, x, times[name], sorts, is_node)
        return EntityHistory(database, encodings, latest, until, sorts, faces)

    def examples(self, sort: str, entities: Sequence[str], times: Sequence[float]) -> list[Example]:
        """Return what is known of each entity at a time."""
        asked = zip(entities, times, strict=True)
        pasts = [self._past(sort, entity, min(time, self.until)) for entity, time in asked]
        counts: dict[str, Tensor] = {}
        features: dict[str, Tensor] = {}
        first: dict[str, list[int]] = {}
        for name in self.sorts:
            sizes = torch.tensor([len(past.nodes[name]) for past in pasts])
            first[name] = [0, *sizes.cumsum(0).tolist()]
            counts[name] = sizes
            of_seeds = [past.counts for past in pasts] if name == sort else None
            features[_node(name, self.sorts)] = _node_features(
                self.sorts[name], name, pasts, of_seeds
            )
        index = {}
        for name, faces in self.faces.items():
            index[faces.pattern], features[faces.pattern] = _entries(faces, name, pasts, first)
        batch = {
            _word(name): torch.arange(len(pasts)).repeat_interleave(sizes)
            for name, sizes in counts.items()
        }
        totals = {_word(name): int(sizes.sum()) for name, sizes in counts.items()}
        structure = Structure(totals, index, batch=batch)
        return uncollate(Example(structure, features))

    def _past(self, sort: str, entity: str, time: float) -> _Past:
        """Return the rows that are known of an entity at a time."""
        seed = self.sorts[sort].number.get(entity)
        chosen = {
            name: self._rows_of(faces, sort, seed, time) for name, faces in self.faces.items()
        }
        self._add_between(chosen, time)
        nodes: dict[str, dict[int, int]] = {name: {} for name in self.sorts}
        nodes[sort] = {-1 if seed is None else seed: 0}
        for name, rows in chosen.items():
            faces = self.faces[name]
            for k, other in enumerate(faces.sorts):
                for node in faces.nodes[rows, k].tolist():
                    nodes[other].setdefault(node, len(nodes[other]))
        return _Past(time, nodes, chosen, self._counts(sort, seed, time))

    def _rows_of(self, faces: _Faces, sort: str, seed: int | None, time: float) -> list[int]:
        """Return the latest rows about a node, up to a time."""
        rows: list[int] = []
        for k, other in enumerate(faces.sorts):
            if other == sort and seed is not None and seed in faces.by_node[k]:
                every = faces.by_node[k][seed]
                end = int(np.searchsorted(faces.times[every], time, side="right"))
                rows += every[max(0, end - self.latest) : end].tolist()
        return list(dict.fromkeys(rows))

    def _add_between(self, chosen: dict[str, list[int]], time: float) -> None:
        """Add the rows of tables that join nodes which a chosen row joins already."""
        first = {name: list(rows) for name, rows in chosen.items()}
        for name, faces in self.faces.items():
            for other, rows in first.items():
                theirs = self.faces[other]
                if other == name or not set(faces.sorts) <= set(theirs.sorts):
                    continue
                columns = [theirs.sorts.index(sort) for sort in faces.sorts]
                for key in dict.fromkeys(map(tuple, theirs.nodes[rows][:, columns].tolist())):
                    known = [r for r in faces.by_nodes.get(key, ()) if faces.times[r] <= time]
                    chosen[name] += known[-self.latest :]
        for name, faces in self.faces.items():  # such as the circuit of each race
            for other, rows in first.items():
                theirs = self.faces[other]
                for k, sort in enumerate(theirs.sorts):
                    if sort == name and name in self.sorts:
                        reached = dict.fromkeys(theirs.nodes[rows, k].tolist())
                        chosen[name] += [r for r in reached if faces.times[r] <= time and r >= 0]
        for name, rows in chosen.items():
            chosen[name] = [
                row for row in dict.fromkeys(rows) if self.faces[name].nodes[row].min() >= 0
            ]

    def _counts(self, sort: str, seed: int | None, time: float) -> list[float]:
        """Return how many rows every table has about the entity up to the time, and how old."""
        values = []
        for faces in self.faces.values():
            for k, other in enumerate(faces.sorts):
                if other != sort:
                    continue
                every = faces.by_node[k].get(-2 if seed is None else seed)
                end = 0
                if every is not None:
                    end = int(np.searchsorted(faces.times[every], time, side="right"))
                last = faces.times[every[end - 1]] if every is not None and end else -math.inf
                values += [math.log1p(end), _age(last, time)]
        return values


def _word(name: str) -> str:
    """Return a table's name as a sort."""
    word = "".join(letter if letter.isalnum() and letter.isascii() else "_" for letter in name)
    return word if word[:1].isalpha() else f"t{word}"


def _node(name: str, sorts: Iterable[str], number: int = 0) -> str:
    """Return a node of a sort: in a map, every letter belongs to one sort."""
    letter = ascii_letters[list(sorts).index(name) % len(ascii_letters)]
    return f"{letter}{number or ''}:{_word(name)}"


def _age(then: float, time: float) -> float:
    """Return how long ago something was, on a logarithmic scale; 0 if it has no time."""
    return math.log1p(max(0.0, time - then)) if math.isfinite(then) else 0.0


def _times(one: KeyedTable) -> np.ndarray[Any, Any]:
    """Return when every row is known: never, if the table has times and this row none."""
    if not one.time:
        return np.full(len(one.table), -np.inf)
    times = as_times(one.table.source, one.time, one.table[one.time]).numpy()
    return np.where(np.isnan(times), np.inf, times)


def _encodings(one: KeyedTable, is_known: np.ndarray[Any, Any]) -> list[Encoding]:
    rows = np.flatnonzero(is_known).tolist()
    found = [encoding_of(name, [one.table[name][k] for k in rows]) for name in one.others]
    return [encoding for encoding in found if encoding is not None]


def _encoded(one: KeyedTable, encodings: Sequence[Encoding]) -> Tensor:
    parts = [encoding.features(one.table[encoding.name]) for encoding in encodings]
    for encoding, x in zip(encodings, parts, strict=True):
        if encoding.kind == "date":
            x[:, 0] /= 3652.5  # decades
    return (
        torch.cat([torch.ones(len(one.table), 1), *parts], 1)
        if parts
        else torch.ones(len(one.table), 1)
    )


def _faces(
    one: KeyedTable,
    x: Tensor,
    times: np.ndarray[Any, Any],
    sorts: Mapping[str, _Sort],
    is_node: bool,
) -> _Faces:
    columns, others = list(one.foreign), list(one.foreign.values())
    nodes = [
        [sorts[other].number.get(text, -1) for text in one.table[column]]
        for column, other in one.foreign.items()
    ]
    if is_node:  # a row is a node itself
        columns, others = [one.primary, *columns], [one.name, *others]
        nodes = [list(range(len(one.table))), *nodes]
    seen: Counter[str] = Counter()
    letters = []
    for other in others:
        letters.append(_node(other, sorts, seen[other]))
        seen[other] += 1
    table = np.array(nodes, dtype=np.int64).T.reshape(len(one.table), len(others))
    order = np.argsort(times, kind="stable")
    by_node: list[dict[int, np.ndarray[Any, Any]]] = []
    for k in range(len(others)):
        lists: dict[int, list[int]] = {}
        for row in order.tolist():
            if np.isfinite(times[row]) or times[row] < 0:
                lists.setdefault(int(table[row, k]), []).append(row)
        by_node.append({node: np.array(rows) for node, rows in lists.items() if node >= 0})
    by_nodes: dict[tuple[int, ...], list[int]] = {}
    for row in order.tolist():
        by_nodes.setdefault(tuple(table[row].tolist()), []).append(row)
    pattern = f"{_word(one.name)}={' '.join(letters)}"
    return _Faces(pattern, columns, others, table, x, times, by_node, by_nodes)


def _entries(
    faces: _Faces, name: str, pasts: Sequence[_Past], first: Mapping[str, Sequence[int]]
) -> tuple[Tensor, Tensor]:
    """Return the entries of the rows of all examples, [letters, entries], and their features.

    Rows with the same nodes are one entry, with the means of their features. These are those of the
    row, its age, and how many rows an entry stands for.
    """
    places: dict[tuple[int, ...], int] = {}
    owner, every, ages = list[int](), list[int](), list[float]()
    for number, past in enumerate(pasts):
        tables = [past.nodes[sort] for sort in faces.sorts]
        starts = [first[sort][number] for sort in faces.sorts]
        rows = past.rows[name]
        for row, nodes in zip(rows, faces.nodes[rows].tolist(), strict=True):
            entry = tuple(
                start + table[node]
                for start, table, node in zip(starts, tables, nodes, strict=True)
            )
            owner.append(places.setdefault(entry, len(places)))
            ages.append(_age(float(faces.times[row]), past.time))
        every += rows
    x = torch.cat([faces.features[every], torch.tensor(ages)[:, None]], 1)
    target = torch.tensor(owner, dtype=torch.long)
    count = torch.bincount(target, minlength=len(places)).float()[:, None]
    sums = x.new_zeros(len(places), x.shape[1]).index_add_(0, target, x)
    index = torch.tensor(list(places), dtype=torch.long).view(-1, len(faces.sorts)).T.contiguous()
    return index, torch.cat([sums / count.clamp(min=1), count.log1p()], 1)


def _node_features(
    sort: _Sort, name: str, pasts: Sequence[_Past], of_seeds: Sequence[Sequence[float]] | None
) -> Tensor:
    """Return the features of nodes that are known at the time, zeros for others; and their age.

    The entity itself comes first; a last feature marks it, beside counts of its rows.
    """
    nodes = [node for past in pasts for node in past.nodes[name]]
    times = [past.time for past in pasts for _ in past.nodes[name]]
    known = [
        node >= 0 and bool(sort.times[node] <= time)
        for node, time in zip(nodes, times, strict=True)
    ]
    x = sort.features[torch.tensor(nodes, dtype=torch.long).clamp(min=0)]
    x = x * torch.tensor(known, dtype=torch.float32)[:, None]
    ages = [
        _age(float(sort.times[node]), time) if is_known else 0.0
        for node, time, is_known in zip(nodes, times, known, strict=True)
    ]
    x = torch.cat([x, torch.tensor(ages)[:, None]], 1)
    if of_seeds is None:
        return x
    seeds = torch.tensor([0, *(len(past.nodes[name]) for past in pasts[:-1])]).cumsum(0)
    mark = torch.zeros(len(nodes), 1 + len(of_seeds[0]))
    mark[seeds] = torch.tensor([[1.0, *counts] for counts in of_seeds])
    return torch.cat([x, mark], 1)


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
    table = _task_table(options["task_table"])
    columns = _task_columns(table, database)
    used = [columns.entity, columns.time]
    names = choose_targets(table, request.targets, used)
    task, targets = read_targets(table.source, {n: table[n] for n in names}, request.task)
    times = as_times(table.source, columns.time, table[columns.time])
    splits = splits_of(read_parts(table))
    has_drawn_parts = not splits
    if not splits:
        rows = torch.arange(len(table))
        splits = (split_by_time(rows, times),)
    fitted_until = float(times[splits[0].train].max())
    until = _until(options.get("until"))
    latest = int(options.get("latest", LATEST))
    history = EntityHistory.of(database, None, fitted_until, latest, until)
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


def _task_table(what: Any) -> TextTable:
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


def _task_columns(table: TextTable, database: Database) -> TaskColumns:
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


def _name(table: TextTable, columns: TaskColumns, row: int) -> str:
    return f"{table[columns.entity][row]} {table[columns.time][row]}"


def _records(table: TextTable, columns: TaskColumns, history: EntityHistory) -> Iterator[Record]:
    times = as_times(table.source, columns.time, table[columns.time]).tolist()
    missing = next((row for row, time in enumerate(times) if math.isnan(time)), None)
    if missing is not None:
        raise IncidenceError(f"{table.source}, {table.places[missing]}: the time is missing.")
    entities = table[columns.entity]
    for start in range(0, len(times), _TOGETHER):
        some = slice(start, start + _TOGETHER)
        found = history.examples(columns.sort, entities[some], times[some])
        for row, example in enumerate(found, start):
            yield Record(_name(table, columns, row), example, None, table.row(row), row=row)


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
