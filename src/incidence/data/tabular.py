"""Tables as data sets: which kind of data they have, by what was asked for and by what is in them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from os import PathLike
from pathlib import Path
from typing import Any

from incidence.data.building import Asked, from_properties
from incidence.data.dataset import DataSet
from incidence.data.molecules.reader import read_records
from incidence.data.molecules.records import smiles_records
from incidence.data.molecules.smiles import find_smiles, is_known, is_molecule, smiles_column
from incidence.data.node_tables import edge_columns, from_node_tables
from incidence.data.rating_tables import find_keys, find_rating, from_rating_tables
from incidence.data.readers import Read, as_float, assert_options, reader
from incidence.data.tables import Table, is_frame, listed, read_table, table_of
from incidence.data.targets import wanted_names
from incidence.errors import IncidenceError

__all__ = [
    "NODES",
    "beside",
    "from_frames",
    "from_tables",
    "read_any",
    "read_rows",
    "tables_of",
    "with_nodes",
]


NODES, _EDGES = ("nodes", "node", "vertices"), ("edges", "edge", "links", "graph")
"""What people call the two tables of a graph."""
_MAIN = ("ratings", "rating", "scores", "reviews", "interactions")
"""What people call a table of ratings."""
_TOLD = {"keys", "tables"}
"""Options that only ratings have."""


def read_any(path: Path, smiles: str | None = None) -> Table:
    """A table from a file, whatever is in it.

    Its first line names no columns if it has numbers alone, a molecule above molecules, or a node that comes again below.
    """

    def has_names(first: list[str], others: list[list[str]]) -> bool:
        are_numbers = all(as_float(word) is not None for word in first if word)
        comes_again = any(word in row[:2] for word in first[:2] for row in others)
        return (
            smiles in first
            or is_known(first)
            or not (are_numbers or comes_again or is_molecule(first, others))
        )

    return read_table(path, has_names)


def tables_of(what: Any) -> dict[str, Table]:
    """The tables of a data frame, or of several by name."""
    frames = what if isinstance(what, Mapping) else {"": what}
    return {
        str(name): table_of(frame, f"the DataFrame {name!r}" if name else "the DataFrame")
        for name, frame in frames.items()
    }


def from_frames(
    what: Any,
    target: object = None,
    *,
    reader: str | None = None,
    task: str | None = None,
    **options: Any,
) -> DataSet:
    """A data set from a data frame, or several by name."""
    tables = tables_of(what)
    source = next(iter(tables.values())).source if len(tables) == 1 else "the DataFrames"
    return from_tables(tables, Asked(source, "frame", reader, wanted_names(target), task, options))


def from_tables(tables: Mapping[str, Table], asked: Asked) -> DataSet:
    """A data set from tables by name.

    Raises:
        IncidenceError: It is not clear what they have; the message says what was looked for.
    """
    tables, edges, nodes = with_nodes(tables, asked.options.get("nodes"))
    if nodes is not None and edges is not None and len(tables) == 2:
        return from_node_tables(edges, nodes, asked)
    if len(tables) == 1 and not _TOLD & asked.options.keys():
        [table] = tables.values()
        if asked.options.get("smiles") is not None or find_smiles(table):
            return _molecules(table, asked)
    main = _ratings(tables, asked)
    if main is None:
        raise IncidenceError(_unclear(tables, asked))
    others = {name: table for name, table in tables.items() if table is not main}
    return from_rating_tables(
        main, {**others, **beside(asked.options.get("tables"), "tables")}, asked
    )


def with_nodes(
    tables: Mapping[str, Table], given: Any
) -> tuple[Mapping[str, Table], Table | None, Table | None]:
    """The tables with those of nodes that stand beside them, and the table of edges and that of nodes, if they are there."""
    tables = {
        **tables,
        **{f"nodes {k}": table for k, table in enumerate(beside(given, "nodes").values())},
    }
    nodes = next(
        (table for name, table in tables.items() if name.lower() in NODES or name == "nodes 0"),
        None,
    )
    edges = next(
        (
            table
            for name, table in tables.items()
            if name.lower() in _EDGES or (given is not None and table is not nodes)
        ),
        None,
    )
    return tables, edges, nodes


def _ratings(tables: Mapping[str, Table], asked: Asked) -> Table | None:
    """The table of ratings: the only one, or the one that is called so, if its columns are clear or others say that it is one."""
    found = (
        list(tables.values())
        if len(tables) == 1
        else [table for name, table in tables.items() if name.lower() in _MAIN]
    )
    if len(found) != 1:
        return None
    [table] = found
    if len(tables) > 1 or _TOLD & asked.options.keys():
        return table
    if edge_columns(table) is not None and not set(asked.target) & set(
        table.columns
    ):  # the target is somewhere else
        return None
    rating = find_rating(table, asked.target) if len(asked.target) < 2 else None
    return None if rating is None or find_keys(table, rating) is None else table


def _unclear(tables: Mapping[str, Table], asked: Asked) -> str:
    """What to say where tables are nothing that is known."""
    if len(tables) > 1:
        have = ", ".join(tables)
        return f"{asked.source}: what the tables {have} have is not clear: a graph is `edges` and `nodes`; ratings are `ratings` and others."
    [table] = tables.values()
    edges = (
        " It may be a list of edges: give --nodes nodes.csv for labels of nodes, or --task links."
        if len(table.columns) > 1
        else ""
    )
    return (
        f"{asked.source}: what the columns {listed(table.columns)} have is not clear. Looked for were molecules (a column of SMILES), and "
        f"ratings (two columns of names and a number: say --target, and --keys if need be).{edges}"
    )


def beside(what: Any, word: str) -> dict[str, Table]:
    """Tables that stand beside the main one: paths or data frames, or a dict of them."""
    if what is None:
        return {}
    if isinstance(what, Mapping):
        return {str(name): _one_beside(one, str(name)) for name, one in what.items()}
    several: list[Any] = (
        list(what)
        if isinstance(what, Iterable) and not (isinstance(what, (str, PathLike)) or is_frame(what))
        else [what]
    )
    if not all(isinstance(one, (str, PathLike)) or is_frame(one) for one in several):
        raise IncidenceError(
            f"`{word}` are paths of tables or data frames, one or several, or a dict of them; got {what!r}."
        )
    return {
        f"{word} {k}" if is_frame(one) else Path(one).name.partition(".")[0]: _one_beside(one, word)
        for k, one in enumerate(several)
    }


def _one_beside(what: Any, word: str) -> Table:
    if is_frame(what):
        return table_of(what, f"the DataFrame of {word}")
    path = Path(what).expanduser()
    if not path.is_file():
        raise IncidenceError(f"there is no file {path} of {word}.")
    return read_table(path)


def _molecules(table: Table, asked: Asked) -> DataSet:
    """A row for each molecule, with a SMILES and targets; rows that RDKit cannot read are passed over."""
    assert_options(reader("molecule").read, "the reader 'molecule'", asked.options)
    column, errors = smiles_column(table, asked.options.get("smiles")), list[IncidenceError]()
    reads = list(read_rows(table, "molecule", asked.options, errors, asked.path.name or asked.name))
    return from_properties(asked, reads, "molecule", lambda _: [column], errors=errors)


def read_rows(
    table: Table,
    reader: str,
    options: Mapping[str, Any],
    errors: list[IncidenceError],
    name: str = "row",
) -> Iterator[Read]:
    """The rows of a table as examples, with features but without targets.

    Args:
        table: The table.
        reader: The name of what reads it.
        options: Of the reader.
        errors: Takes the errors of single rows.
        name: What the examples are called, with their number.

    Raises:
        IncidenceError: The reader reads no tables, or the column of the SMILES is not clear.
    """
    if reader != "molecule":
        raise IncidenceError(
            f"{table.source} is a table, and this model reads files of kind {reader!r}: give it those, or examples."
        )
    asked = options.get("smiles")  # a new table may call it otherwise, or have no names
    is_there = asked in table.columns or (
        not table.has_names and f"column {asked}" in table.columns
    )
    column = smiles_column(table, asked if is_there else None)
    own = {key: value for key, value in options.items() if key in ("hydrogens", "lengths")}
    return read_records(smiles_records(table, column), name, table.source, errors, **own)
