"""Tables of hypergraphs: incidences, nodes, hyperedges and wholes, from tables, lines and HIF."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from incidence.data.columns import PARTS, find_column
from incidence.data.node_tables import IDS
from incidence.data.tables import TextTable, listed, open_text, without_comment
from incidence.errors import IncidenceError
from incidence.geometry.convert.hif import read_hif_tables

__all__ = [
    "EDGE_NAMES",
    "HIF",
    "NODE_NAMES",
    "WHOLE_NAMES",
    "HifFiles",
    "HypergraphTables",
    "find_hypergraph",
    "hif_files",
    "hif_tables",
    "is_hif",
    "key_of",
    "lines_as_table",
    "names_in",
]

HIF = (".hif.json", ".hif.json.gz", ".hif")
EDGE_NAMES = ("hyperedge", "hyperedge_id", "hyperedgeid", "hyper_edge", "he", "edge", "edge_id")
NODE_NAMES = ("node", "node_id", "nodeid", "vertex", "vertex_id", "member", "id")
WHOLE_NAMES = ("hypergraph", "hypergraph_id", "graph", "graph_id", "sample")
_TABLES = {
    "nodes": ("nodes", "node", "vertices"),
    "edges": ("hyperedges", "hyperedge", "edges", "edge"),
    "wholes": ("hypergraphs", "hypergraph", "graphs", "labels", "targets"),
}
"""What people call further tables."""
_INCIDENCES = ("incidences", "incidence", "memberships", "membership", "members", "hypergraph")
"""What people call the table of incidences."""


@dataclass(frozen=True)
class HypergraphTables:
    """The tables of one hypergraph, or of many.

    Attributes:
        incidences: A row for each node of each hyperedge.
        node: The column with the names of the nodes.
        edge: The column with the names of the hyperedges.
        whole: The column with the names of the hypergraphs; empty for a single one.
        nodes: A row for each node, if there is such a table.
        edges: A row for each hyperedge, if there is such a table.
        wholes: A row for each hypergraph, if there is such a table.
        properties: What a file says of the whole hypergraph.
        left_out: A sentence for each attribute that is left out.
    """

    incidences: TextTable
    node: str
    edge: str
    whole: str = ""
    nodes: TextTable | None = None
    edges: TextTable | None = None
    wholes: TextTable | None = None
    properties: Mapping[str, str] = field(default_factory=dict)
    left_out: tuple[str, ...] = ()


def is_hif(path: Path) -> bool:
    """Return whether the name of a file is that of a HIF file."""
    return path.name.lower().endswith(HIF)


class HifFiles(NamedTuple):
    """The HIF files of a folder.

    Attributes:
        files: The files.
        parts: The part of each, if they lie in folders `train`, `val` and `test`.
    """

    files: list[Path]
    parts: list[int] | None


def hif_files(path: Path) -> HifFiles:
    """Return the HIF files of a folder, or of its folders `train`, `val` and `test`."""
    if not path.is_dir():
        return HifFiles([], None)
    files = _hif_files_in(path)  # files of the folder itself win over parts below
    if files:
        return HifFiles(files, None)
    parts = list[int]()
    for folder in sorted(path.iterdir()):
        part = PARTS.get(folder.name.lower())
        if part is not None and folder.is_dir():
            found = _hif_files_in(folder)
            files += found
            parts += [part] * len(found)
    return HifFiles(files, parts)


def _hif_files_in(folder: Path) -> list[Path]:
    return [one for one in sorted(folder.iterdir()) if one.is_file() and is_hif(one)]


def find_hypergraph(tables: Mapping[str, TextTable]) -> HypergraphTables | None:
    """Return the tables of a hypergraph among tables by name, or None.

    One of them has incidences: a column such as `hyperedge`, and one such as `node`.

    Raises:
        IncidenceError: Several tables have incidences, and none is called `incidences`.
    """
    found = {name: columns for name, table in tables.items() if (columns := _pair(name, table))}
    if not found:
        return None
    usual = [name for name in found if name.lower() in _INCIDENCES]
    if len(found) > 1 and len(usual) != 1:
        raise IncidenceError(
            f"the tables {listed(found)} have columns of nodes and hyperedges, and a"
            " hypergraph has one such table: call it `incidences`, or give its path alone."
        )
    name = usual[0] if usual else next(iter(found))
    table, (node, edge) = tables[name], found[name]
    others = {key.lower(): one for key, one in tables.items() if one is not table}
    whole = find_column(table, WHOLE_NAMES) or ""
    keys = {"nodes": node, "edges": edge, "wholes": whole}
    further = {kind: _further(others, kind, key) for kind, key in keys.items() if key}
    return HypergraphTables(
        table, node, edge, whole, further["nodes"], further["edges"], further.get("wholes")
    )


def _further(tables: Mapping[str, TextTable], kind: str, key: str) -> TextTable | None:
    """Return the table of nodes, hyperedges or wholes: by its name, else by the column of keys."""
    named = next((tables[name] for name in _TABLES[kind] if name in tables), None)
    if named is not None:
        return named
    others = {name for names in _TABLES.values() for name in names}
    by_key = [
        table
        for name, table in tables.items()
        if name not in others and key in table.columns and _pair(name, table) is None
    ]
    return by_key[0] if len(by_key) == 1 else None


def _pair(name: str, table: TextTable) -> tuple[str, str] | None:
    """Return the columns of nodes and of hyperedges, if a table has incidences."""
    if not table.has_names or name.lower() in (*_TABLES["nodes"], *_TABLES["edges"]):
        return None
    node, edge = find_column(table, NODE_NAMES), find_column(table, EDGE_NAMES)
    return None if node is None or edge is None else (node, edge)


def lines_as_table(path: Path) -> TextTable:
    """Return the incidences of a file with a hyperedge on each line, called `line 1` and so on."""
    nodes, edges, places = list[str](), list[str](), list[str]()
    with open_text(path) as file:
        for number, line in enumerate(file, 1):
            words = without_comment(line).translate(str.maketrans(",;\t", "   ")).split()
            nodes += words
            edges += [f"line {number}"] * len(words)
            places += [f"line {number}"] * len(words)
    if not nodes:
        raise IncidenceError(f"{path} has no hyperedge: a line is a set of nodes.")
    return TextTable(str(path), {"node": nodes, "hyperedge": edges}, places)


def hif_tables(path: Path) -> HypergraphTables:
    """Return the tables of a HIF file."""
    found = read_hif_tables(path)
    nodes, edges, incidences = (
        TextTable(f"{path}, {name}", columns, [f"number {k}" for k in range(_length(columns))])
        for name, columns in zip(found._fields, found[:3], strict=False)
    )
    return HypergraphTables(
        incidences,
        "node",
        "edge",
        nodes=nodes,
        edges=edges,
        properties=found.metadata,
        left_out=found.left_out,
    )


def _length(columns: Mapping[str, Sequence[str]]) -> int:
    return len(next(iter(columns.values())))


def key_of(table: TextTable, usual: Sequence[str]) -> str:
    """Return the column with the names of rows: one with a usual name, else the first."""
    return str(find_column(table, (*usual, *IDS), 0))


def names_in(table: TextTable | None, usual: Sequence[str]) -> list[str]:
    """Return the names of the rows of a table.

    Raises:
        IncidenceError: A name has two rows.
    """
    if table is None:
        return []
    key = key_of(table, usual)
    names = list(table[key])
    twice = next((name for name, count in Counter(names).items() if count > 1), None)
    if twice is not None:
        raise IncidenceError(f"{table.source}: `{key}` {twice!r} has two rows. Remove one of them.")
    return names
