"""Data sets of hypergraphs: with targets of nodes, hyperedges or wholes, and their reader."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from incidence.data.columns import choose_targets, read_parts, read_targets
from incidence.data.dataset import METRICS, DataSet, Record
from incidence.data.dataset_builder import DataRequest, build, from_records
from incidence.data.feature_columns import Column
from incidence.data.hypergraph_examples import (
    EDGES,
    FACES,
    PAIRS,
    NamedHypergraph,
    columns_of_hypergraph,
    hypergraph_of,
    needs_pairs,
)
from incidence.data.hypergraph_tables import (
    EDGE_NAMES,
    NODE_NAMES,
    WHOLE_NAMES,
    HypergraphTables,
    hif_tables,
    is_hif,
    key_of,
    lines_as_table,
)
from incidence.data.node_tables import GraphColumns
from incidence.data.splitting import splits_of
from incidence.data.tables import TextTable
from incidence.errors import IncidenceError, spelled

__all__ = [
    "READER",
    "from_hif_files",
    "from_hypergraph_tables",
    "options_for_files",
    "read_hypergraphs",
    "records_of_hypergraphs",
]

READER = "hypergraph"
_OPTIONS = ("nodes", "tables", "duplicates", "columns", "hyperedges")
_DUPLICATES = ("merge", "keep")


def from_hypergraph_tables(tables: HypergraphTables, request: DataRequest) -> DataSet:
    """Return the data set of hypergraphs whose nodes, hyperedges or wholes have targets.

    Raises:
        IncidenceError: An option is unknown, or it is not clear what the target is.
    """
    duplicates = _duplicates(request.options)
    if tables.whole:
        return _from_many(tables, request)
    level, table, usual = _level_of_target(tables, request)
    key = key_of(table, usual)
    names = choose_targets(table, request.targets, [key], prefers_numbers=False)
    plain = request.options.get("columns")
    columns = None if plain is None else GraphColumns.from_plain(plain)
    found = hypergraph_of(tables, names, duplicates, columns, by_edge=level == "edges")
    texts = {name: table[name] for name in names}
    task, targets = read_targets(table.source, texts, request.task)
    entries = found.nodes if level == "nodes" else found.edges
    place = {name: k for k, name in enumerate(table[key])}
    missing = -1 if task.kind == "classification" else torch.nan
    # Nodes that only the incidences name have no row in the table, and no target.
    rows = torch.full((len(entries), *targets.shape[1:]), missing, dtype=targets.dtype)
    with_row = [k for k, name in enumerate(entries) if name in place]
    rows[with_row] = targets[[place[entries[k]] for k in with_row]]
    of_edges = FACES if found.pattern == FACES else EDGES
    at = "i" if level == "nodes" else of_edges
    parts = read_parts(table)
    if parts is not None:
        parts = [parts[place[name]] if name in place else -1 for name in entries]
    notes = [*found.notes, *tables.left_out]
    for note in notes:
        warnings.warn(spelled(f"{request.name}: {note}"), stacklevel=3)
    return DataSet(
        request.name,
        [found.example.replace(target={at: rows})],
        replace(task, at=at),
        splits_of(parts),
        reader=READER,
        reader_options={"columns": found.columns.plain(), "pattern": found.pattern},
        about=_about(found, notes),
        is_transductive=True,
        metric=METRICS[task.kind],
        names=entries,
        passed_over=tuple(found.skipped),
    )


def _duplicates(options: Mapping[str, Any]) -> str | None:
    """Return what becomes of equal hyperedges, once all options are known to be right."""
    unknown = next((name for name in options if name not in _OPTIONS), None)
    if unknown is not None:
        raise IncidenceError(
            f"a hypergraph has no option `{unknown}`: it takes nodes, tables, duplicates."
        )
    duplicates = options.get("duplicates")
    if duplicates not in (None, *_DUPLICATES):
        raise IncidenceError(
            f"`duplicates` says what becomes of equal hyperedges, merge or keep; got"
            f" {duplicates!r}."
        )
    return duplicates


def _about(found: NamedHypergraph, notes: Sequence[str]) -> str:
    sizes = f"{len(found.nodes):,} nodes in {len(found.edges):,} hyperedges"
    return " ".join([f"Your own data: {sizes}.", *notes])


def _level_of_target(
    tables: HypergraphTables, request: DataRequest
) -> tuple[str, TextTable, Sequence[str]]:
    """Return whether nodes or hyperedges have the target, and their table."""
    candidates = [
        (level, table, usual)
        for level, table, usual in (
            ("nodes", tables.nodes, NODE_NAMES),
            ("edges", tables.edges, EDGE_NAMES),
        )
        if table is not None and len(table.columns) > 1
    ]
    if request.targets:
        wanted = [one for one in candidates if set(request.targets) <= set(one[1].columns)]
        is_of_whole = set(request.targets) <= tables.properties.keys()
        # A target that no table has is looked for in the first one, whose message names its
        # columns.
        candidates = wanted or candidates[: 0 if is_of_whole else 1]
    if candidates:
        return candidates[0]
    source = tables.incidences.source.partition(",")[0]
    if request.targets and set(request.targets) <= tables.properties.keys():
        raise IncidenceError(
            f"{source}: `{request.targets[0]}` is about the whole hypergraph, and one hypergraph is"
            " no training data. Give the folder with all HIF files."
        )
    raise IncidenceError(
        f"{source}: a hypergraph without labels. For labels of nodes or hyperedges, give their"
        " table, as in `--nodes nodes.csv` `--target label`, or `--tables hyperedges.csv`. For"
        " hyperedges that are missing, add `--task links`."
    )


def _from_many(tables: HypergraphTables, request: DataRequest) -> DataSet:
    """Return the data set of a table of many hypergraphs, with a table of their targets."""
    wholes = tables.wholes
    if wholes is None:
        raise IncidenceError(
            f"{tables.incidences.source}: its column `{tables.whole}` says that there are many"
            " hypergraphs. Give a table with a target for each, as in `--tables hypergraphs.csv`"
            " `--target label`."
        )
    key = key_of(wholes, WHOLE_NAMES)
    names = choose_targets(wholes, request.targets, [key])
    task, targets = read_targets(wholes.source, {n: wholes[n] for n in names}, request.task)
    rows_of = _rows_of_each(tables)
    records, rows = [], []
    for row, name in enumerate(wholes[key]):
        if name in rows_of:
            part = _one_of_many(tables, rows_of[name])
            # The tensor is the same for all, or the examples could not make a batch.
            found = hypergraph_of(part, pattern=FACES)
            properties = {k: v for k, v in wholes.row(row).items() if k not in names}
            records.append(Record(name, found.example, tuple(found.nodes), properties))
            rows.append(row)
    if not records:
        raise IncidenceError(
            f"{wholes.source}: no row is about a hypergraph of {tables.incidences.source}."
        )
    parts = read_parts(wholes.only(rows))
    plain = replace(request, options={})
    return build(plain, records, READER, task, targets[rows], parts)


def from_hif_files(
    files: Sequence[Path], parts: Sequence[int] | None, request: DataRequest
) -> DataSet:
    """Return the data set of HIF files, a hypergraph each, whose metadata has the targets.

    Args:
        files: The files.
        parts: The part of each file, if folders say so.
        request: The options of the user.

    Raises:
        IncidenceError: The metadata has no target.
    """
    options = options_for_files(files, request.options)
    errors = list[IncidenceError]()
    records = [record for file in files for record in read_hypergraphs(file, errors, **options)]
    if not any(record.properties for record in records):
        raise IncidenceError(
            f"{request.path} has HIF files without a label of the whole: write it into the"
            ' `metadata` of each file, as {"label": "a"}, or put the files of each class into a'
            " folder of its own."
        )
    plain = replace(request, options=options)
    data = from_records(plain, records, READER, parts=parts, word="metadata")
    return replace(data, passed_over=tuple(map(str, errors)))


def options_for_files(files: Sequence[Path], options: Mapping[str, Any]) -> dict[str, Any]:
    """Return options with which all files of hypergraphs are read alike.

    These say how columns of nodes and hyperedges become features, and which tensor holds them.

    Args:
        files: The files.
        options: Options that win.
    """
    every = [hif_tables(file) for file in files if is_hif(file)]
    options = dict(options)
    duplicates = options.pop("duplicates", None)
    _duplicates({"duplicates": duplicates})
    left_out = {note: one.incidences.source for one in reversed(every) for note in one.left_out}
    for note, source in left_out.items():
        warnings.warn(spelled(f"{source.partition(',')[0]}: {note}"), stacklevel=4)
    is_apart = duplicates == "keep" or any(map(needs_pairs, every))
    nodes = _joined([one.nodes for one in every if one.nodes is not None])
    edges = _joined([one.edges for one in every if one.edges is not None])
    known = {
        "columns": columns_of_hypergraph(nodes, edges).plain(),
        "pattern": PAIRS if is_apart else FACES,
    }
    return {**known, **options} if every else options


def _joined(tables: Sequence[TextTable]) -> TextTable | None:
    """Return the rows of several tables as one, with the columns of all of them."""
    if not tables:
        return None
    names = dict.fromkeys(name for table in tables for name in table.columns)
    columns = {
        name: [text for table in tables for text in table.columns.get(name, [""] * len(table))]
        for name in names
    }
    places = [f"{place} of {table.source}" for table in tables for place in table.places]
    return TextTable(tables[0].source, columns, places)


def read_hypergraphs(
    path: Path,
    errors: list[IncidenceError],
    *,
    columns: Mapping[str, Any] | None = None,
    pattern: str | None = None,
) -> Iterator[Record]:
    """Read the hypergraph of a HIF file, or of a line for each hyperedge.

    Without known columns, degrees of nodes and sizes of hyperedges are the features.

    Args:
        path: The file.
        errors: Collects why rows are skipped.
        columns: How columns become features, as `GraphColumns.plain` gives them.
        pattern: `{i ...}` or `i e:edge`.
    """
    if is_hif(path):
        tables = hif_tables(path)
    else:
        tables = HypergraphTables(lines_as_table(path), "node", "hyperedge")
    yield _record(tables, path.name, columns, pattern, errors)


def records_of_hypergraphs(
    tables: HypergraphTables, options: Mapping[str, Any], errors: list[IncidenceError], name: str
) -> Iterator[Record]:
    """Yield the hypergraph of tables, or each of many.

    Args:
        tables: The tables.
        options: The options of `read_hypergraphs`.
        errors: Collects why rows are skipped.
        name: What a single hypergraph is called.
    """
    columns, pattern = options.get("columns"), options.get("pattern")
    if not tables.whole:
        yield _record(tables, name, columns, pattern, errors)
        return
    about = {} if tables.wholes is None else _rows_by_name(tables.wholes)
    for whole, rows in _rows_of_each(tables).items():
        record = _record(_one_of_many(tables, rows), whole, columns, pattern, errors)
        yield record._replace(properties=about.get(whole, {}))


def _rows_of_each(tables: HypergraphTables) -> dict[str, list[int]]:
    """Return the rows of incidences of each of many hypergraphs, by name."""
    rows_of: dict[str, list[int]] = {}
    for row, name in enumerate(tables.incidences[tables.whole]):
        rows_of.setdefault(name, []).append(row)
    return rows_of


def _one_of_many(tables: HypergraphTables, rows: Sequence[int]) -> HypergraphTables:
    incidences = tables.incidences.only(rows)
    return replace(tables, incidences=incidences, whole="", nodes=None, edges=None)


def _rows_by_name(table: TextTable) -> dict[str, dict[str, str]]:
    """Return the other cells of every row by the name of its hypergraph."""
    key = key_of(table, WHOLE_NAMES)
    return {
        name: {column: text for column, text in table.row(k).items() if column != key}
        for k, name in enumerate(table[key])
    }


def _record(
    tables: HypergraphTables,
    name: str,
    columns: Mapping[str, Any] | None,
    pattern: str | None,
    errors: list[IncidenceError],
) -> Record:
    """Return the record of one hypergraph, with features as they are known."""
    known = GraphColumns([], []) if columns is None else GraphColumns.from_plain(columns)
    _assert_has(tables.nodes, known.nodes, f"{name}: a table of nodes with", "nodes")
    _assert_has(tables.edges, known.edges, f"{name}: a table of hyperedges with", "hyperedges")
    tables = replace(
        tables,
        nodes=_with_columns(tables.nodes, known.nodes),
        edges=_with_columns(tables.edges, known.edges),
    )
    found = hypergraph_of(tables, columns=known, pattern=pattern or FACES)
    errors += map(IncidenceError, found.skipped)
    # names go through all sorts, in their order
    names = [*found.edges, *found.nodes] if found.pattern == PAIRS else found.nodes
    texts = _texts_of_nodes(tables.nodes, found.nodes)
    return Record(name, found.example, tuple(names), tables.properties, texts)


def _assert_has(table: TextTable | None, columns: Sequence[Column], what: str, called: str) -> None:
    """Refuse data without a table whose columns are features.

    Degrees would stand in their place.
    """
    if columns and table is None:
        names = ", ".join(f"`{column.name}`" for column in columns)
        raise IncidenceError(
            f"{what} the columns {names} is missing, which the model reads. Give a folder with"
            f" incidences.csv and {called}.csv"
            + (", or `--nodes nodes.csv`." if called == "nodes" else ".")
        )


def _with_columns(table: TextTable | None, columns: Sequence[Column]) -> TextTable | None:
    """Return a table with empty columns for some that this file lacks; none for all of them."""
    if table is None:
        return None
    lacking = [column.name for column in columns if column.name not in table.columns]
    if len(lacking) == len(columns):
        return table
    empty = {name: [""] * len(table) for name in lacking}
    return replace(table, columns={**table.columns, **empty})


def _texts_of_nodes(table: TextTable | None, nodes: Sequence[str]) -> dict[str, list[str]]:
    """Return what a table says of each node, by column; empty texts for nodes without a row."""
    if table is None:
        return {}
    key = key_of(table, NODE_NAMES)
    place = {name: k for k, name in enumerate(table[key])}
    return {
        name: [texts[place[node]] if node in place else "" for node in nodes]
        for name, texts in table.columns.items()
        if name != key
    }
