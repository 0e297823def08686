"""Tables as data sets: which kind of data they have, by their names and by what is in them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

from incidence.data.dataset import DataSet, Record
from incidence.data.dataset_builder import DataRequest, assert_options, from_records
from incidence.data.forecasts import from_database
from incidence.data.hypergraph_tables import HypergraphTables, find_hypergraph
from incidence.data.hypergraphs import from_hypergraph_tables
from incidence.data.molecule_files import (
    find_smiles,
    has_smiles_name,
    is_molecule,
    read_molecules,
    read_records,
    smiles_column,
    smiles_records,
)
from incidence.data.node_tables import edge_columns, from_node_tables
from incidence.data.pair_tables import find_keys, find_rating, from_rating_tables
from incidence.data.spool import collected
from incidence.data.tables import TextTable, as_float, is_frame, listed, read_table, table_of
from incidence.data.triples import find_triples
from incidence.errors import IncidenceError

__all__ = [
    "NODE_TABLES",
    "GraphTables",
    "beside",
    "from_frames",
    "from_tables",
    "graph_tables",
    "hypergraph_tables",
    "read_any",
    "read_rows",
    "tables_of",
]


NODE_TABLES = ("nodes", "node", "vertices")
"""What people call a table of nodes."""
_EDGE_TABLES = ("edges", "edge", "links", "graph")
_RATING_TABLES = ("ratings", "rating", "scores", "reviews", "interactions")
_OF_RATINGS = {"keys", "tables"}  # options that only ratings have


def read_any(path: Path, smiles: str | None = None) -> TextTable:
    """Read a table from a file, whatever is in it.

    The first line does not name the columns if it has numbers alone, a molecule above molecules,
    or a node that comes again below.

    Args:
        path: The file.
        smiles: The column of SMILES, if it is known.
    """

    def has_names(first: list[str], others: list[list[str]]) -> bool:
        if smiles in first or has_smiles_name(first):
            return True
        # no header has numbers alone
        are_numbers = all(as_float(word) is not None for word in first if word)
        comes_again = any(word in row[:2] for word in first[:2] for row in others)
        return not (are_numbers or comes_again or is_molecule(first, others))

    return read_table(path, has_names)


def tables_of(what: Any) -> dict[str, TextTable]:
    """Return the tables of a data frame, or of several by name."""
    frames = what if isinstance(what, Mapping) else {"": what}
    return {
        str(name): table_of(frame, f"the DataFrame {name!r}" if name else "the DataFrame")
        for name, frame in frames.items()
    }


def from_frames(what: Any, request: DataRequest) -> DataSet:
    """Return the data set of a data frame, or of several by name."""
    tables = tables_of(what)
    if "task_table" in request.options:
        named = replace(request, source="the DataFrames", name="frames")
        return from_database(tables, named)
    source = next(iter(tables.values())).source if len(tables) == 1 else "the DataFrames"
    return from_tables(tables, replace(request, source=source, name="frame"))


def from_tables(tables: Mapping[str, TextTable], request: DataRequest) -> DataSet:
    """Return the data set of tables by name: a graph, molecules, or ratings.

    Raises:
        IncidenceError: It is not clear what they have; the message says what was looked for.
    """
    options = request.options
    hypergraph = None
    if "keys" not in options:
        hypergraph = hypergraph_tables(tables, options.get("nodes"), options.get("tables"))
    if hypergraph is not None:
        return from_hypergraph_tables(hypergraph, request)
    graph = graph_tables(tables, options.get("nodes"))
    if graph.nodes is not None and graph.edges is not None and len(graph.all) == 2:
        return from_node_tables(graph.edges, graph.nodes, request)
    if len(graph.all) == 1 and not _OF_RATINGS & options.keys():
        [table] = graph.all.values()
        if options.get("smiles") is not None or find_smiles(table):
            return _molecules(table, request)
    # Ratings come last: nearly every table has two columns and a number.
    ratings = _table_of_ratings(graph.all, request)
    if ratings is None:
        raise IncidenceError(_unclear(graph.all, request))
    others = {name: table for name, table in graph.all.items() if table is not ratings}
    others.update(beside(options.get("tables"), "tables"))
    return from_rating_tables(ratings, others, request)


def hypergraph_tables(
    tables: Mapping[str, TextTable], nodes: Any = None, others: Any = None
) -> HypergraphTables | None:
    """Return the tables of a hypergraph, if one of them has incidences.

    Args:
        tables: The tables by name.
        nodes: A table of nodes that was given beside them.
        others: Other tables that were given beside them.
    """
    if find_hypergraph(tables) is None:
        return None
    of_nodes = next(iter(beside(nodes, "nodes").values()), None)
    given = {} if of_nodes is None else {"nodes": of_nodes}
    return find_hypergraph({**tables, **given, **beside(others, "tables")})


class GraphTables(NamedTuple):
    """Tables that may make a graph.

    Attributes:
        all: All tables by name.
        edges: The table of edges, if there is one.
        nodes: The table of nodes, if there is one.
    """

    all: Mapping[str, TextTable]
    edges: TextTable | None
    nodes: TextTable | None


def graph_tables(tables: Mapping[str, TextTable], nodes: Any) -> GraphTables:
    """Return the tables of edges and nodes among some tables.

    Args:
        tables: The tables by name.
        nodes: Tables of nodes that were given beside them.
    """
    given = {f"nodes {k}": table for k, table in enumerate(beside(nodes, "nodes").values())}
    named = {**tables, **given}.items()
    of_nodes = next(
        (table for name, table in named if name.lower() in NODE_TABLES or name == "nodes 0"), None
    )
    edges = next((table for name, table in named if name.lower() in _EDGE_TABLES), None)
    if edges is None and nodes is not None:  # whatever it is called
        edges = next((table for _, table in named if table is not of_nodes), None)
    return GraphTables(dict(named), edges, of_nodes)


def _table_of_ratings(tables: Mapping[str, TextTable], request: DataRequest) -> TextTable | None:
    """Return the table of ratings, if there is one.

    It is the only table if its columns are clear, or one with a usual name among several.
    """
    candidates = list(tables.values())
    if len(tables) > 1:
        candidates = [table for name, table in tables.items() if name.lower() in _RATING_TABLES]
    if len(candidates) != 1:
        return None
    [table] = candidates
    if len(tables) > 1 or _OF_RATINGS & request.options.keys():
        return table
    targets = request.targets
    if edge_columns(table) is not None and set(targets).isdisjoint(table.columns):
        return None  # edges of a graph whose target is in another table
    rating = find_rating(table, targets) if len(targets) < 2 else None
    if rating is None or find_keys(table, rating) is None:
        return None
    return table


def _unclear(tables: Mapping[str, TextTable], request: DataRequest) -> str:
    """Return the message for tables of no known kind."""
    if len(tables) > 1:
        return (
            f"{request.source}: cannot tell what kind of data the tables {', '.join(tables)}"
            " contain. Expected `edges` and `nodes` (a graph), or `ratings` and others. For"
            " forecasts from tables with keys, add `--task-table task.csv` (entity, time, target)."
        )
    [table] = tables.values()
    message = (
        f"cannot tell what kind of data {request.source} contains (columns:"
        f" {listed(table.columns)}). Expected a SMILES column (molecules), or two ID columns and a"
        " number (ratings): name the number with --target, and the IDs with --keys."
    )
    if any(name.strip().lower() == "file" for name in table.columns):
        message += " For targets of files beside it, call the table targets.csv."
    if len(table.columns) > 1:
        message += (
            " For a list of edges, add `--nodes nodes.csv` (labels of nodes), or `--task links`."
        )
    if find_triples(table) is not None:
        message = (
            f"{request.source} has typed triples ({listed(table.columns)}), which are links: add"
            " `--task links`."
        )
    return message


def beside(what: Any, word: str) -> dict[str, TextTable]:
    """Return tables that were given beside the main one: paths, data frames, or a dict of them.

    Args:
        what: The tables, or None.
        word: What messages call them.

    Raises:
        IncidenceError: They are something else, or a file is missing.
    """
    if what is None:
        return {}
    if isinstance(what, Mapping):
        return {str(name): _one_beside(one, str(name)) for name, one in what.items()}
    is_one = isinstance(what, (str, PathLike)) or is_frame(what)
    several: list[Any] = [what] if is_one or not isinstance(what, Iterable) else list(what)
    tables = {}
    for number, one in enumerate(several):
        if is_frame(one):
            tables[f"{word} {number}"] = _one_beside(one, word)
        elif isinstance(one, (str, PathLike)):
            tables[Path(one).name.partition(".")[0]] = _one_beside(one, word)
        else:
            raise IncidenceError(
                f"`{word}` are paths of tables or data frames, one or several, or a dict of them;"
                f" got {what!r}."
            )
    return tables


def _one_beside(what: Any, word: str) -> TextTable:
    if is_frame(what):
        return table_of(what, f"the DataFrame of {word}")
    path = Path(what).expanduser()
    if not path.is_file():
        raise IncidenceError(f"there is no file {path} of {word}.")
    return read_table(path)


def _molecules(table: TextTable, request: DataRequest) -> DataSet:
    """Return the data set of molecules, one in each row; broken ones are skipped."""
    options = request.options
    assert_options(read_molecules, "the reader 'molecule'", options)
    column = smiles_column(table, options.get("smiles"))
    errors: list[IncidenceError] = []
    name = request.path.name or request.name
    records = collected(read_rows(table, "molecule", options, errors, name))
    return from_records(request, records, "molecule", lambda _: [column], errors=errors)


def read_rows(
    table: TextTable,
    reader: str,
    options: Mapping[str, Any],
    errors: list[IncidenceError],
    name: str = "row",
    wanted: Any = None,
) -> Iterator[Record]:
    """Read the rows of a table as examples, with features but without targets.

    Args:
        table: The table.
        reader: The name of the reader.
        options: Options of the reader. A `smiles` column that the table lacks is ignored: a new
            table may call it otherwise.
        errors: Collects the errors of single rows.
        name: What the examples are called, with their number.
        wanted: Whether to read each row; all of them by default.

    Raises:
        IncidenceError: The reader reads no tables, or the column of the SMILES is not clear.
    """
    if reader != "molecule":
        raise IncidenceError(
            f"{table.source} is a table, and this model reads files of kind {reader!r}: give it"
            " those, or examples."
        )
    given = options.get("smiles")
    # `--smiles 2` of a file without a header
    is_number = not table.has_names and f"column {given}" in table.columns
    column = smiles_column(table, given if given in table.columns or is_number else None)
    # Other options of the reader say how files are read, and this is a table.
    features = {key: value for key, value in options.items() if key in ("hydrogens", "lengths")}
    return read_records(
        smiles_records(table, column, wanted), name, table.source, errors, **features
    )
