"""Hypergraphs from files: tables of incidences, lines of hyperedges, and HIF.

All of them become tables, of incidences, nodes, hyperedges and whole hypergraphs; tables become
structures. A hypergraph is `{i ...}`, or `i e:edge` where hyperedges have equal nodes that stay
apart, or where incidences have weights.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from incidence.data.columns import (
    as_features,
    choose_targets,
    columns_of,
    find_column,
    is_split,
    read_parts,
    read_targets,
)
from incidence.data.dataset import METRICS, DataSet, Record
from incidence.data.dataset_builder import DataRequest, build
from incidence.data.node_tables import IDS, GraphColumns
from incidence.data.splitting import splits_of
from incidence.data.tables import TextTable, open_text, sorted_names, without_comment
from incidence.errors import IncidenceError
from incidence.geometry.convert.hif import read_hif_tables
from incidence.structure.example import Example
from incidence.structure.structure import Structure

__all__ = [
    "HIF",
    "READER",
    "HypergraphTables",
    "find_hypergraph",
    "from_hypergraph_tables",
    "hif_tables",
    "hyperedges_of",
    "is_hif",
    "lines_as_table",
    "read_hypergraphs",
]

READER = "hypergraph"
HIF = (".hif.json", ".hif.json.gz", ".hif")
FACES, PAIRS, EDGES = "{i ...}", "i e:edge", "e:edge"
_EDGE_NAMES = ("hyperedge", "hyperedge_id", "hyperedgeid", "hyper_edge", "he", "edge", "edge_id")
_NODE_NAMES = ("node", "node_id", "nodeid", "vertex", "vertex_id", "member", "id")
_WHOLE_NAMES = ("hypergraph", "hypergraph_id", "graph", "graph_id", "sample")
_TABLES = {
    "nodes": ("nodes", "node", "vertices"),
    "edges": ("hyperedges", "hyperedge", "edges", "edge"),
    "wholes": ("hypergraphs", "hypergraph", "graphs", "labels", "targets"),
}
"""What people call further tables."""
_OPTIONS = ("nodes", "tables", "duplicates", "columns", "hyperedges")
_DUPLICATES = ("merge", "keep")


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
    """

    incidences: TextTable
    node: str
    edge: str
    whole: str = ""
    nodes: TextTable | None = None
    edges: TextTable | None = None
    wholes: TextTable | None = None


def is_hif(path: Path) -> bool:
    """Return whether the name of a file is that of a HIF file."""
    return path.name.lower().endswith(HIF)


def find_hypergraph(tables: Mapping[str, TextTable]) -> HypergraphTables | None:
    """Return the tables of a hypergraph among tables by name, or None.

    One of them has incidences: a column such as `hyperedge`, and one such as `node`.
    """
    for name, table in tables.items():
        edge = find_column(table, _EDGE_NAMES) if table.has_names else None
        node = find_column(table, _NODE_NAMES) if table.has_names else None
        if edge is None or node is None or name.lower() in (*_TABLES["nodes"], *_TABLES["edges"]):
            continue
        others = {key.lower(): one for key, one in tables.items() if one is not table}
        further = {
            kind: next((others[key] for key in names if key in others), None)
            for kind, names in _TABLES.items()
        }
        whole = find_column(table, _WHOLE_NAMES) or ""
        if not whole and further["wholes"] is not None:
            further["wholes"] = None
        return HypergraphTables(table, node, edge, whole, **further)
    return None


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
    return HypergraphTables(incidences, "node", "edge", "", nodes, edges)


def _length(columns: Mapping[str, Sequence[str]]) -> int:
    return len(next(iter(columns.values())))


class _EdgeMembers(NamedTuple):
    """Who is in which hyperedge.

    Attributes:
        nodes: The names of the nodes.
        edges: The names of the hyperedges.
        pairs: Nodes and hyperedges by number, [2, incidences], by hyperedge.
        rows: The row of each incidence in its table.
        skipped: Why rows were skipped.
    """

    nodes: list[str]
    edges: list[str]
    pairs: Tensor
    rows: list[int]
    skipped: list[str]


def _members(tables: HypergraphTables) -> _EdgeMembers:
    table = tables.incidences
    nodes, edges = table[tables.node], table[tables.edge]
    first: dict[tuple[str, str], int] = {}
    skipped = []
    for row, pair in enumerate(zip(edges, nodes, strict=True)):
        problem = ""
        if "" in pair:
            problem = "has an empty cell"
        elif first.setdefault(pair, row) != row:
            problem = f"is there already, in {table.places[first[pair]]}"
        if problem:
            skipped.append(f"{table.source}, {table.places[row]}: the incidence {problem}.")
    listed_nodes = _keys_of(tables.nodes, _NODE_NAMES)
    names = _with_new(listed_nodes, [node for _, node in first])
    edge_names = _with_new(_keys_of(tables.edges, _EDGE_NAMES), [edge for edge, _ in first])
    node_at, edge_at = ({name: k for k, name in enumerate(some)} for some in (names, edge_names))
    rows = sorted(first.values(), key=lambda row: (edge_at[edges[row]], node_at[nodes[row]]))
    pairs = [[node_at[nodes[row]], edge_at[edges[row]]] for row in rows]
    index = torch.tensor(pairs, dtype=torch.long).view(-1, 2).T.contiguous()
    return _EdgeMembers(names, edge_names, index, rows, skipped)


def _keys_of(table: TextTable | None, usual: Sequence[str]) -> list[str]:
    """Return the names in the first column of a table, or in one with a usual name."""
    if table is None:
        return []
    key = str(find_column(table, (*usual, *IDS), 0))
    names = list(table[key])
    twice = next((name for name, count in Counter(names).items() if count > 1), None)
    if twice is not None:
        raise IncidenceError(f"{table.source}: `{key}` {twice!r} has two rows. Remove one of them.")
    return names


def _with_new(names: list[str], others: Sequence[str]) -> list[str]:
    """Return names, then others that are not among them, sorted."""
    known = set(names)
    return [*names, *sorted_names(other for other in others if other not in known)]


def _is_key(table: TextTable, usual: Sequence[str]) -> str:
    return str(find_column(table, (*usual, *IDS), 0))


class _Hypergraph(NamedTuple):
    """One hypergraph.

    Attributes:
        example: The structure with features.
        nodes: The names of the nodes.
        edges: The names of the hyperedges, in the order of the entries.
        columns: How columns became features.
        rows: For each entry, the number of the hyperedge in the table.
        notes: What a user must know of it.
        skipped: Why rows were skipped.
    """

    example: Example
    nodes: list[str]
    edges: list[str]
    columns: GraphColumns
    rows: list[int]
    notes: list[str]
    skipped: list[str]


def _hypergraph(
    tables: HypergraphTables,
    used: Collection[str] = (),
    duplicates: str | None = None,
    columns: GraphColumns | None = None,
    pattern: str | None = None,
    by_edge: bool = False,
) -> _Hypergraph:
    """Return the hypergraph of tables.

    Args:
        tables: The tables.
        used: Columns that do not become features.
        duplicates: What becomes of hyperedges with equal nodes: `merge` or `keep`.
        columns: How columns become features, if that is known.
        pattern: The tensor, if that is known: `{i ...}` or `i e:edge`.
        by_edge: Whether hyperedges have targets, so that they are not merged by default.
    """
    members = _members(tables)
    weights = _weights(tables, members)
    if columns is None:
        of_nodes = _feature_columns(tables.nodes, _NODE_NAMES, used)
        of_edges = _feature_columns(tables.edges, _EDGE_NAMES, used)
        columns = GraphColumns(of_nodes, of_edges)
    sets = _node_sets(members)
    has_empty = any(not one for one in sets)
    has_equal = len(set(sets)) < len(sets)
    if pattern is None:
        keeps = has_equal and (duplicates == "keep" or by_edge or bool(columns.edges))
        is_weighted = weights is not None and bool((weights != 1).any())
        pattern = PAIRS if keeps or is_weighted or has_empty else FACES
        if duplicates == "merge" and not is_weighted:
            pattern = FACES
    x = _features(tables.nodes, columns.nodes, members.nodes, _NODE_NAMES)
    if not x.shape[1]:
        x = torch.bincount(members.pairs[0], minlength=len(members.nodes)).float()[:, None]
    sizes = torch.tensor([float(len(one)) for one in sets])[:, None]  # (hyperedges, 1)
    e = _features(tables.edges, columns.edges, members.edges, _EDGE_NAMES)
    e = torch.cat([sizes, e], 1)
    notes: list[str] = []
    rows = list(range(len(members.edges)))
    if pattern == PAIRS:
        counts = {"node": len(members.nodes), "edge": len(members.edges)}
        structure = Structure(counts, {PAIRS: members.pairs})
        ones = torch.ones(members.pairs.shape[1])
        features = {"i": x, EDGES: e, PAIRS: (ones if weights is None else weights)[:, None]}
        if has_equal:
            notes.append(_equal_in_words(sets, "stay apart: each is a node of the sort `edge`"))
    else:
        rows, copies = _merged(sets)
        place = {row: k for k, row in enumerate(rows)}
        pairs = members.pairs
        stays = torch.tensor([int(edge) in place for edge in pairs[1].tolist()], dtype=torch.bool)
        numbers = torch.tensor([place[edge] for edge in pairs[1][stays].tolist()], dtype=torch.long)
        index = torch.stack([pairs[0][stays], numbers])
        structure = Structure(len(members.nodes), {FACES: index})
        e = torch.cat([copies[:, None], e[rows]], 1)
        if has_equal:
            notes.append(_equal_in_words(sets, "are merged, and their number is a feature"))
        features = {"i": x, FACES: e}
    return _Hypergraph(
        Example(structure, features),
        members.nodes,
        [members.edges[row] for row in rows],
        columns,
        rows,
        notes,
        members.skipped,
    )


def _node_sets(members: _EdgeMembers) -> list[tuple[int, ...]]:
    sets: list[list[int]] = [[] for _ in members.edges]
    for node, edge in members.pairs.T.tolist():
        sets[edge].append(node)
    return [tuple(one) for one in sets]  # in ascending order already


def _merged(sets: Sequence[tuple[int, ...]]) -> tuple[list[int], Tensor]:
    """Return the first of all equal sets, without empty ones, and how many each stands for."""
    first: dict[tuple[int, ...], int] = {}
    for row, one in enumerate(sets):
        if one:
            first.setdefault(one, row)
    count = Counter(sets)
    return list(first.values()), torch.tensor([float(count[one]) for one in first])


def _equal_in_words(sets: Sequence[tuple[int, ...]], what: str) -> str:
    count = len(sets) - len(set(sets))
    other = "keep" if "merged" in what else "merge"
    return (
        f"{count:,} of {len(sets):,} hyperedges have the nodes of another one. They {what}"
        f" (--data-options duplicates={other} for the other way)."
    )


def _weights(tables: HypergraphTables, members: _EdgeMembers) -> Tensor | None:
    """Return the weight of every incidence, [incidences], if there is such a column."""
    name = find_column(tables.incidences, ("weight", "weights", "value", "w"))
    if name is None:
        return None
    columns = columns_of(tables.incidences, [name])
    return as_features(tables.incidences.only(members.rows), columns)[:, 0]


def _feature_columns(
    table: TextTable | None, usual: Sequence[str], used: Collection[str]
) -> list[Any]:
    if table is None:
        return []
    left_out = {*used, _is_key(table, usual)}
    names = [name for name in table.columns if name not in left_out and not is_split(name)]
    return columns_of(table, names)


def _features(
    table: TextTable | None, columns: Sequence[Any], names: Sequence[str], usual: Sequence[str]
) -> Tensor:
    """Return features of nodes or hyperedges by name; the mean of the others without a row."""
    if table is None or not columns:
        return torch.zeros(len(names), 0)
    x = as_features(table, columns)
    place = {name: k for k, name in enumerate(table[_is_key(table, usual)])}
    features = x.mean(0, keepdim=True).repeat(len(names), 1)
    known = [k for k, name in enumerate(names) if name in place]
    features[known] = x[[place[names[k]] for k in known]]
    return features


def hyperedges_of(tables: HypergraphTables) -> tuple[Example, list[str], list[str]]:
    """Return the hyperedges of tables as links: an example, the names of nodes, what is skipped.

    Equal hyperedges are one link, and those with one node are none. Nodes have the features of
    their columns alone: degrees count the links that are queried.
    """
    found = _hypergraph(tables, pattern=FACES)
    structure = found.example.structure
    node, edge = structure[FACES]
    is_link = torch.bincount(edge, minlength=structure.num_entries(FACES)) > 1
    number = is_link.cumsum(0) - 1
    index = torch.stack([node, number[edge]])[:, is_link[edge]]
    small = int((~is_link).sum())
    skipped = [*found.skipped]
    if small:
        skipped.append(f"{tables.incidences.source}: {small} hyperedges have one node only.")
    x = _features(tables.nodes, found.columns.nodes, found.nodes, _NODE_NAMES)
    links = Structure(structure.num_nodes, {FACES: index})
    return Example(links, {"i": x}), found.nodes, skipped


def from_hypergraph_tables(tables: HypergraphTables, request: DataRequest) -> DataSet:
    """Return the data set of hypergraphs whose nodes, hyperedges or wholes have targets.

    Raises:
        IncidenceError: An option is unknown, or it is not clear what the target is.
    """
    options = request.options
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
    if tables.whole:
        return _from_many(tables, request)
    level, table, usual = _level_of_target(tables, request)
    names = choose_targets(table, request.targets, [_is_key(table, usual)], prefers_numbers=False)
    plain = options.get("columns")
    columns = None if plain is None else GraphColumns.from_plain(plain)
    found = _hypergraph(tables, names, duplicates, columns, by_edge=level == "edges")
    texts = {name: table[name] for name in names}
    task, targets = read_targets(table.source, texts, request.task)
    own_names = found.nodes if level == "nodes" else found.edges
    place = {name: k for k, name in enumerate(table[_is_key(table, usual)])}
    missing = -1 if task.kind == "classification" else torch.nan
    rows = torch.full((len(own_names), *targets.shape[1:]), missing, dtype=targets.dtype)
    with_row = [k for k, name in enumerate(own_names) if name in place]
    rows[with_row] = targets[[place[own_names[k]] for k in with_row]]
    is_faces = FACES in map(str, found.example.structure.patterns)
    at = "i" if level == "nodes" else FACES if is_faces else EDGES
    example = found.example.replace(target={at: rows})
    parts = read_parts(table)
    if parts is not None:
        parts = [parts[place[name]] if name in place else -1 for name in own_names]
    for note in found.notes:
        warnings.warn(f"{request.name}: {note}", stacklevel=3)
    count = len(found.edges)
    return DataSet(
        request.name,
        [example],
        replace(task, at=at),
        splits_of(parts),
        reader=READER,
        reader_options={
            "columns": found.columns.plain(),
            "pattern": FACES if is_faces else PAIRS,
        },
        about=" ".join(
            [f"Your own data: {len(found.nodes):,} nodes in {count:,} hyperedges.", *found.notes]
        ),
        is_transductive=True,
        metric=METRICS[task.kind],
        names=own_names,
        passed_over=tuple(found.skipped),
    )


def _level_of_target(
    tables: HypergraphTables, request: DataRequest
) -> tuple[str, TextTable, Sequence[str]]:
    """Return whether nodes or hyperedges have the target, and their table."""
    candidates = [
        (level, table, usual)
        for level, table, usual in (
            ("nodes", tables.nodes, _NODE_NAMES),
            ("edges", tables.edges, _EDGE_NAMES),
        )
        if table is not None and len(table.columns) > 1
    ]
    if request.targets:
        wanted = [one for one in candidates if set(request.targets) <= set(one[1].columns)]
        candidates = wanted or candidates[:1]
    if candidates:
        return candidates[0]
    source = tables.incidences.source.partition(",")[0]
    raise IncidenceError(
        f"{source}: a hypergraph without labels. For labels of nodes or hyperedges, give their"
        " table, as in --nodes nodes.csv --target label, or --tables hyperedges.csv. For hyperedges"
        " that are missing, add --task links."
    )


def _from_many(tables: HypergraphTables, request: DataRequest) -> DataSet:
    """Return the data set of a table of many hypergraphs, with a table of their targets."""
    wholes = tables.wholes
    if wholes is None:
        raise IncidenceError(
            f"{tables.incidences.source}: its column `{tables.whole}` says that there are many"
            " hypergraphs. Give a table with a target for each, as in --tables hypergraphs.csv"
            " --target label."
        )
    key = _is_key(wholes, _WHOLE_NAMES)
    names = choose_targets(wholes, request.targets, [key])
    task, targets = read_targets(wholes.source, {n: wholes[n] for n in names}, request.task)
    rows_of: dict[str, list[int]] = {}
    for row, name in enumerate(tables.incidences[tables.whole]):
        rows_of.setdefault(name, []).append(row)
    records, rows = [], []
    for row, name in enumerate(wholes[key]):
        if name in rows_of:
            part = replace(
                tables, incidences=tables.incidences.only(rows_of[name]), nodes=None, edges=None
            )
            found = _hypergraph(part, pattern=FACES)
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
    tables = hif_tables(path) if is_hif(path) else None
    metadata = read_hif_tables(path).metadata if is_hif(path) else {}
    if tables is None:
        incidences = lines_as_table(path)
        tables = HypergraphTables(incidences, "node", "hyperedge")
    known = None if columns is None else GraphColumns.from_plain(columns)
    found = _hypergraph(tables, columns=known, pattern=pattern or FACES)
    errors += map(IncidenceError, found.skipped)
    texts = {}
    if tables.nodes is not None:
        key = _is_key(tables.nodes, _NODE_NAMES)
        place = {name: k for k, name in enumerate(tables.nodes[key])}
        for name, column in tables.nodes.columns.items():
            if name != key:
                texts[name] = [column[place[node]] if node in place else "" for node in found.nodes]
    # names go through all sorts, in their order
    is_pairs = pattern == PAIRS
    names = (*found.edges, *found.nodes) if is_pairs else tuple(found.nodes)
    yield Record(path.name, found.example, names, metadata, texts)
