"""The structure of a hypergraph with its features, from its tables.

A hypergraph is `{i ...}`, or `i e:edge` where hyperedges have equal nodes that stay apart, or where
incidences have weights.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor

from incidence.data.columns import find_column, is_split
from incidence.data.feature_columns import Column, as_features, columns_of
from incidence.data.hypergraph_tables import (
    EDGE_NAMES,
    NODE_NAMES,
    HypergraphTables,
    key_of,
    names_in,
)
from incidence.data.node_tables import GraphColumns
from incidence.data.tables import TextTable, sorted_names
from incidence.structure.example import Example
from incidence.structure.structure import Structure

__all__ = [
    "EDGES",
    "FACES",
    "PAIRS",
    "NamedHypergraph",
    "columns_of_hypergraph",
    "hyperedges_of",
    "hypergraph_of",
    "needs_pairs",
]

FACES, PAIRS, EDGES = "{i ...}", "i e:edge", "e:edge"
_WEIGHTS = ("weight", "weights", "value", "w")


class NamedHypergraph(NamedTuple):
    """One hypergraph.

    Attributes:
        example: The structure with features.
        nodes: The names of the nodes.
        edges: The names of the hyperedges, in the order of the entries.
        columns: How columns became features.
        notes: What a user must know of it.
        skipped: Why rows were skipped.
    """

    example: Example
    nodes: list[str]
    edges: list[str]
    columns: GraphColumns
    notes: list[str]
    skipped: list[str]

    @property
    def pattern(self) -> str:
        """The tensor: `{i ...}` or `i e:edge`."""
        return FACES if FACES in map(str, self.example.structure.patterns) else PAIRS


def hypergraph_of(
    tables: HypergraphTables,
    used: Collection[str] = (),
    duplicates: str | None = None,
    columns: GraphColumns | None = None,
    pattern: str | None = None,
    by_edge: bool = False,
) -> NamedHypergraph:
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
    if columns is None:
        columns = columns_of_hypergraph(tables.nodes, tables.edges, used)
    if pattern is None:
        # Merged hyperedges would lose a target or features of their own.
        stays_apart = duplicates == "keep" or by_edge or bool(columns.edges)
        pattern = _pattern_for(tables, members, duplicates, stays_apart)
    notes = []
    if members.has_equal_sets:
        notes.append(_equal_in_words(members.sets, is_merged=pattern == FACES))
    make = _as_faces if pattern == FACES else _as_pairs
    example, rows = make(tables, members, columns)
    names = [members.edges[row] for row in rows]
    return NamedHypergraph(example, members.nodes, names, columns, notes, members.skipped)


def columns_of_hypergraph(
    nodes: TextTable | None, edges: TextTable | None, used: Collection[str] = ()
) -> GraphColumns:
    """Return how columns of nodes and hyperedges become features.

    Args:
        nodes: The table of the nodes.
        edges: The table of the hyperedges.
        used: Columns that do not become features.
    """
    return GraphColumns(
        _feature_columns(nodes, NODE_NAMES, used), _feature_columns(edges, EDGE_NAMES, used)
    )


def needs_pairs(tables: HypergraphTables) -> bool:
    """Return whether faces cannot hold a hypergraph: it has weights, or an empty hyperedge."""
    members = _members(tables)
    return _is_weighted(tables, members) or not all(members.sets)


class _EdgeMembers(NamedTuple):
    """Who is in which hyperedge.

    Attributes:
        nodes: The names of the nodes.
        edges: The names of the hyperedges.
        pairs: Nodes and hyperedges by number, [2, incidences], by hyperedge.
        sets: The nodes of every hyperedge, in ascending order.
        rows: The row of each incidence in its table.
        skipped: Why rows were skipped.
    """

    nodes: list[str]
    edges: list[str]
    pairs: Tensor
    sets: list[tuple[int, ...]]
    rows: list[int]
    skipped: list[str]

    @property
    def has_equal_sets(self) -> bool:
        """Whether hyperedges have the same nodes."""
        return len(set(self.sets)) < len(self.sets)


def _members(tables: HypergraphTables) -> _EdgeMembers:
    first, skipped = _incidences(tables)
    nodes = _with_new(names_in(tables.nodes, NODE_NAMES), [node for _, node in first])
    edges = _with_new(names_in(tables.edges, EDGE_NAMES), [edge for edge, _ in first])
    node_at, edge_at = ({name: k for k, name in enumerate(names)} for names in (nodes, edges))
    numbered = sorted((edge_at[edge], node_at[node], row) for (edge, node), row in first.items())
    sets: list[list[int]] = [[] for _ in edges]
    for edge, node, _ in numbered:
        sets[edge].append(node)
    pairs = [[node, edge] for edge, node, _ in numbered]
    index = torch.tensor(pairs, dtype=torch.long).view(-1, 2).T.contiguous()  # (2, incidences)
    rows = [row for _, _, row in numbered]
    return _EdgeMembers(nodes, edges, index, list(map(tuple, sets)), rows, skipped)


def _incidences(tables: HypergraphTables) -> tuple[dict[tuple[str, str], int], list[str]]:
    """Return the row of every pair of a hyperedge and a node, and why other rows are skipped."""
    table = tables.incidences
    first: dict[tuple[str, str], int] = {}
    skipped = []
    for row, pair in enumerate(zip(table[tables.edge], table[tables.node], strict=True)):
        problem = ""
        if "" in pair:
            problem = "has an empty cell"
        elif first.setdefault(pair, row) != row:
            problem = f"is there already, in {table.places[first[pair]]}"
        if problem:
            skipped.append(f"{table.source}, {table.places[row]}: the incidence {problem}.")
    return first, skipped


def _with_new(names: list[str], others: Sequence[str]) -> list[str]:
    """Return names, then others that are not among them, sorted."""
    known = set(names)
    return [*names, *sorted_names(other for other in others if other not in known)]


def _pattern_for(
    tables: HypergraphTables, members: _EdgeMembers, duplicates: str | None, stays_apart: bool
) -> str:
    if _is_weighted(tables, members):
        return PAIRS
    if duplicates == "merge":
        return FACES
    is_apart = members.has_equal_sets and stays_apart
    return PAIRS if is_apart or not all(members.sets) else FACES


def _as_pairs(
    tables: HypergraphTables, members: _EdgeMembers, columns: GraphColumns
) -> tuple[Example, Sequence[int]]:
    """Return nodes and hyperedges as nodes of two sorts, and the hyperedges by row."""
    weights = _weights(tables, members)
    if weights is None:
        weights = torch.ones(len(members.rows))
    counts = {"node": len(members.nodes), "edge": len(members.edges)}
    features = {
        "i": _node_features(tables, members, columns),
        EDGES: _edge_features(tables, members, columns),
        PAIRS: weights[:, None],
    }
    structure = Structure(counts, {PAIRS: members.pairs})
    return Example(structure, features), range(len(members.edges))


def _as_faces(
    tables: HypergraphTables, members: _EdgeMembers, columns: GraphColumns
) -> tuple[Example, Sequence[int]]:
    """Return hyperedges as faces, equal ones merged and counted, and their rows."""
    rows, copies = _merged(members.sets)
    place = {row: k for k, row in enumerate(rows)}
    index = [(node, place[row]) for row in rows for node in members.sets[row]]
    faces = torch.tensor(index, dtype=torch.long).view(-1, 2).T.contiguous()  # (2, incidences)
    e = _edge_features(tables, members, columns)[rows]
    features = {
        "i": _node_features(tables, members, columns),
        FACES: torch.cat([copies[:, None], e], 1),
    }
    return Example(Structure(len(members.nodes), {FACES: faces}), features), rows


def _merged(sets: Sequence[tuple[int, ...]]) -> tuple[list[int], Tensor]:
    """Return the first of all equal sets, without empty ones, and how many each stands for."""
    first: dict[tuple[int, ...], int] = {}
    for row, one in enumerate(sets):
        if one:
            first.setdefault(one, row)
    count = Counter(sets)
    return list(first.values()), torch.tensor([float(count[one]) for one in first])


def _equal_in_words(sets: Sequence[tuple[int, ...]], is_merged: bool) -> str:
    what, other = "stay apart: each is a node of the sort `edge`", "merge"
    if is_merged:
        what, other = "are merged, and their number is a feature", "keep"
    count = len(sets) - len(set(sets))
    return (
        f"{count:,} of {len(sets):,} hyperedges have the nodes of another one. They {what}"
        f" (`--data-options duplicates={other}` for the other way)."
    )


def _weights(tables: HypergraphTables, members: _EdgeMembers) -> Tensor | None:
    """Return the weight of every incidence, [incidences], if there is such a column."""
    name = find_column(tables.incidences, _WEIGHTS)
    if name is None:
        return None
    # a weight that is missing is 1
    columns = [replace(one, mean=1.0) for one in columns_of(tables.incidences, [name])]
    return as_features(tables.incidences.only(members.rows), columns)[:, 0]


def _is_weighted(tables: HypergraphTables, members: _EdgeMembers) -> bool:
    weights = _weights(tables, members)
    return weights is not None and bool((weights != 1).any())


def _node_features(
    tables: HypergraphTables, members: _EdgeMembers, columns: GraphColumns
) -> Tensor:
    """Return the columns of nodes, or their degrees if there are none."""
    x = _features(tables.nodes, columns.nodes, members.nodes, NODE_NAMES)
    if x.shape[1]:
        return x
    return torch.bincount(members.pairs[0], minlength=len(members.nodes)).float()[:, None]


def _edge_features(
    tables: HypergraphTables, members: _EdgeMembers, columns: GraphColumns
) -> Tensor:
    """Return the sizes of hyperedges, and their columns."""
    sizes = torch.tensor([float(len(one)) for one in members.sets])[:, None]  # (hyperedges, 1)
    return torch.cat([sizes, _features(tables.edges, columns.edges, members.edges, EDGE_NAMES)], 1)


def _feature_columns(
    table: TextTable | None, usual: Sequence[str], used: Collection[str]
) -> list[Column]:
    if table is None:
        return []
    left_out = {*used, key_of(table, usual)}
    names = [name for name in table.columns if name not in left_out and not is_split(name)]
    return columns_of(table, names)


def _features(
    table: TextTable | None, columns: Sequence[Column], names: Sequence[str], usual: Sequence[str]
) -> Tensor:
    """Return features of nodes or hyperedges by name; the mean of the others without a row."""
    if table is None or not columns:
        return torch.zeros(len(names), 0)
    x = as_features(table, columns)  # (rows, channels)
    place = {name: k for k, name in enumerate(table[key_of(table, usual)])}
    # Who has no row in the table gets the mean: zeros would say something.
    features = x.mean(0, keepdim=True).repeat(len(names), 1)
    known = [k for k, name in enumerate(names) if name in place]
    features[known] = x[[place[names[k]] for k in known]]
    return features


def hyperedges_of(tables: HypergraphTables) -> tuple[Example, list[str], list[str]]:
    """Return the hyperedges of tables as links: an example, the names of nodes, what is skipped.

    Equal hyperedges are one link, and those with one node are none. Nodes have the features of
    their columns alone: degrees count the links that are queried.
    """
    found = hypergraph_of(tables, pattern=FACES)
    structure = found.example.structure
    node, edge = structure[FACES]
    is_link = torch.bincount(edge, minlength=structure.num_entries(FACES)) > 1
    number = is_link.cumsum(0) - 1  # of the entries that stay
    index = torch.stack([node, number[edge]])[:, is_link[edge]]
    small = int((~is_link).sum())
    skipped = [*found.skipped]
    if small:
        skipped.append(f"{tables.incidences.source}: {small} hyperedges have one node only.")
    x = _features(tables.nodes, found.columns.nodes, found.nodes, NODE_NAMES)
    links = Structure(structure.num_nodes, {FACES: index})
    return Example(links, {"i": x}), found.nodes, skipped
