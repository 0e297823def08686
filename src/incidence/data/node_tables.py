"""One graph from tables: a row for each edge, and a row for each node with features and label."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any, NamedTuple

import torch
from torch import Tensor

from incidence.algebra.pattern import Pattern
from incidence.data.columns import choose_targets, find_column, is_split, read_parts, read_targets
from incidence.data.dataset import METRICS, DataSet, Record, Split, Task
from incidence.data.dataset_builder import DataRequest
from incidence.data.feature_columns import Column, as_features, columns_of
from incidence.data.graphs import node_features
from incidence.data.splitting import splits_of
from incidence.data.tables import TextTable, listed, sorted_names
from incidence.errors import IncidenceError
from incidence.geometry.convert.edge_lists import strict_entries
from incidence.structure.example import Example
from incidence.structure.structure import Structure

__all__ = [
    "IDS",
    "READER",
    "GraphColumns",
    "GraphTable",
    "edge_columns",
    "from_node_tables",
    "graph_with_targets",
    "read_graph",
    "record_of_graph",
]

READER = "nodes"
"""The reader in data sets that were read from tables of edges and nodes."""

IDS = ("id", "node", "node_id", "nodeid", "name", "index", "paper", "user")
"""What people call the column with the names of the nodes."""
_ENDS = (
    ("source", "target"),
    ("src", "dst"),
    ("from", "to"),
    ("head", "tail"),
    ("u", "v"),
    ("i", "j"),
    ("node1", "node2"),
    ("a", "b"),
    ("id1", "id2"),
    ("source_id", "target_id"),
    ("sender", "receiver"),
)
"""What people call the columns with the ends of edges."""
_MOST_REPEATED = 20  # columns of features that tables of predictions repeat; more would hide these
_OPTIONS = ("nodes", "directed", "columns")


class GraphColumns(NamedTuple):
    """How the columns of nodes and edges become features, so that another graph is read alike."""

    nodes: Sequence[Column]
    edges: Sequence[Column]

    def plain(self) -> dict[str, list[dict[str, Any]]]:
        """Return plain values, for a file."""
        return {
            table: [asdict(column) for column in columns]
            for table, columns in self._asdict().items()
        }

    @staticmethod
    def from_plain(values: Mapping[str, Sequence[Mapping[str, Any]]]) -> GraphColumns:
        """Return the columns that `plain` turned into plain values.

        Raises:
            IncidenceError: The values are damaged.
        """
        try:
            nodes, edges = (
                [Column.from_plain(column) for column in values[table]]
                for table in GraphColumns._fields
            )
        except (LookupError, TypeError, ValueError) as error:
            raise IncidenceError(
                f"the description of the columns of nodes and edges is damaged ({error!r}): train"
                " again."
            ) from error
        return GraphColumns(nodes, edges)


class GraphTable(NamedTuple):
    """A graph from tables.

    Attributes:
        structure: The structure with the edges, `{i j}` or `(i j)`.
        features: Features of nodes and edges.
        names: The names of the nodes.
        edges: The pattern of the edges.
        skipped: Why edges were skipped, a message for each.
        columns: How the columns of the tables became features.
    """

    structure: Structure
    features: dict[str, Tensor]
    names: list[str]
    edges: str
    skipped: list[str]
    columns: GraphColumns


def edge_columns(table: TextTable) -> tuple[str, str] | None:
    """Return the columns with the ends of edges, by their names, or None."""
    lower = {name.strip().lower(): name for name in table.columns}
    for one, other in _ENDS:
        if one in lower and other in lower:
            return lower[one], lower[other]
    return None


def read_graph(
    edges: TextTable,
    nodes: TextTable | None,
    used: Sequence[str] = (),
    directed: bool = False,
    degrees: bool = True,
    columns: GraphColumns | None = None,
) -> GraphTable:
    """Read a graph from a table of edges and one of nodes.

    The ends of an edge are in columns such as `source` and `target`, else in the first two. The
    name of a node is in a column such as `id` or `name`, else in the first one. All other columns
    become features.

    Args:
        edges: The table of edges.
        nodes: The table of nodes. Without one, the nodes are those that edges have, by number if
            they are numbers.
        used: Columns of nodes that do not become features.
        directed: Whether edges are directed.
        degrees: Whether nodes without other features have their degrees for features.
        columns: How columns become features, if that is known; other columns are ignored.

    Raises:
        IncidenceError: There are fewer than two columns, a node has two rows, most edges name
            nodes that do not exist, or a column is missing.
    """
    ends = edge_columns(edges) or tuple(list(edges.columns)[:2])
    if len(ends) < 2:
        raise IncidenceError(
            f"{edges.source}: an edge has two nodes, and a row has one column only."
        )
    names = _node_names(edges, ends, nodes)
    place = {name: k for k, name in enumerate(names)}
    pairs, rows, skipped = _pairs(edges, ends, place, has_table=nodes is not None)
    edges = edges.only(rows)
    if columns is None:
        of_nodes = [] if nodes is None else _other_columns(nodes, [*used, _key(nodes)])
        columns = GraphColumns(of_nodes, _other_columns(edges, ends))
    if nodes is None and columns.nodes:
        raise IncidenceError(
            f"{edges.source}: nodes have the columns {listed([c.name for c in columns.nodes])}:"
            " give a table of nodes, too."
        )
    text = "(i j)" if directed else "{i j}"
    pairs, edge_features = _without_repetition(
        text, pairs, len(names), as_features(edges, columns.edges), edges.source
    )
    features = torch.zeros(len(names), 0) if nodes is None else as_features(nodes, columns.nodes)
    if degrees and not features.shape[1]:
        features = node_features(len(names), pairs)
    structure = Structure(len(names), {text: pairs})
    by_tensor = {"i": features, text: edge_features}
    return GraphTable(structure, by_tensor, names, text, skipped, columns)


def _without_repetition(
    text: str, pairs: Tensor, num_nodes: int, features: Tensor, source: str
) -> tuple[Tensor, Tensor]:
    """Return edges that come once, [2, edges], and their features, or ones if they have none."""
    values = {"the row of features": features} if features.shape[1] else {}
    try:
        pairs, values = strict_entries(Pattern(text), pairs, num_nodes, values, source)
    except IncidenceError as error:
        raise IncidenceError(
            f"{error} For tables, that is `--data-options directed=true`."
        ) from error
    return pairs, values.get("the row of features", torch.ones(pairs.shape[1], 1))


def _other_columns(table: TextTable, used: Sequence[str]) -> list[Column]:
    names = [name for name in table.columns if name not in used and not is_split(name)]
    return columns_of(table, names)


def _key(nodes: TextTable) -> str:
    return str(find_column(nodes, IDS, 0))


def _node_names(edges: TextTable, ends: Sequence[str], nodes: TextTable | None) -> list[str]:
    if nodes is None:
        pairs = zip(*(edges[end] for end in ends), strict=True)
        return sorted_names(name for pair in pairs for name in pair)
    names = list(nodes[_key(nodes)])
    first: dict[str, int] = {}
    for row, name in enumerate(names):
        if first.setdefault(name, row) != row:
            raise IncidenceError(
                f"{nodes.source}, {nodes.places[row]}: the node {name!r} has a row already, in"
                f" {nodes.places[first[name]]}."
            )
    return names


def _pairs(
    edges: TextTable, ends: Sequence[str], place: dict[str, int], has_table: bool
) -> tuple[Tensor, list[int], list[str]]:
    """Return the nodes of every valid edge, [2, edges], their rows, and why others are skipped."""
    rows: dict[tuple[str, ...], int] = {}
    skipped = []
    for row, pair in enumerate(zip(*(edges[end] for end in ends), strict=True)):
        unknown = next((name for name in pair if name not in place), None)
        problem = ""
        if unknown is not None:
            absent = "no node of that name has a row" if has_table else ""
            problem = f"has the node {unknown!r}, and {absent}"
        elif pair[0] == pair[1]:
            problem = f"joins {pair[0]!r} to itself"
        elif rows.setdefault(pair, row) != row:
            problem = f"is there already, in {edges.places[rows[pair]]}"
        if problem:
            skipped.append(f"{edges.source}, {edges.places[row]}: the edge {problem}.")
    if len(skipped) > len(rows):
        raise IncidenceError(
            f"{len(skipped)} of {len(edges)} edges do not fit the nodes, so columns are hardly what"
            f" they seem. {skipped[0]}"
        )
    numbers = [[place[name] for name in pair] for pair in rows]
    pairs = torch.tensor(numbers, dtype=torch.long).view(-1, 2).T.contiguous()
    return pairs, list(rows.values()), skipped


def from_node_tables(edges: TextTable, nodes: TextTable, request: DataRequest) -> DataSet:
    """Return the data set of a graph whose nodes have labels or numbers to predict.

    A column `split`, or masks, of the nodes define the parts. Nodes without a label are in no part.

    Raises:
        IncidenceError: An option is unknown, the target is not clear, or the tables do not fit.
    """
    unknown = next((name for name in request.options if name not in _OPTIONS), None)
    names = choose_targets(nodes, request.targets, [_key(nodes)], prefers_numbers=False)
    if unknown is not None:
        raise IncidenceError(
            f"a graph from tables has no option `{unknown}`: it takes nodes, directed."
        )
    directed = bool(request.options.get("directed", False))
    plain = request.options.get("columns")
    columns = None if plain is None else GraphColumns.from_plain(plain)
    graph = read_graph(edges, nodes, names, directed, columns=columns)
    texts = {name: nodes[name] for name in names}
    task, targets = read_targets(nodes.source, texts, request.task)
    data = graph_with_targets(
        request.name,
        Example(graph.structure, graph.features),
        task,
        targets,
        splits_of(read_parts(nodes)),
        graph.names,
    )
    repeated = {
        name: list(texts)
        for name, texts in nodes.columns.items()
        if name not in (*names, _key(nodes)) and not is_split(name) and _has_words(texts)
    }
    return replace(
        data,
        reader=READER,
        reader_options={"columns": graph.columns.plain(), "directed": directed},
        columns=repeated,
        passed_over=tuple(graph.skipped),
    )


def record_of_graph(
    options: Mapping[str, Any],
    edges: TextTable,
    nodes: TextTable | None,
    errors: list[IncidenceError],
) -> Record:
    """Read another graph in the way of a data set.

    The record has the columns of the nodes that are no features; those that are, too, unless there
    are many of them.

    Args:
        options: The reader options of the data set.
        edges: The table of edges.
        nodes: The table of nodes.
        errors: Collects why edges are skipped.

    Raises:
        IncidenceError: The tables do not fit, or a column is missing.
    """
    columns = GraphColumns.from_plain(options.get("columns", {}))
    directed = bool(options.get("directed", False))
    graph = read_graph(edges, nodes, directed=directed, columns=columns)
    errors += map(IncidenceError, graph.skipped)
    repeated: dict[str, list[str]] = {}
    if nodes is not None:
        left_out = {_key(nodes)}
        if len(columns.nodes) > _MOST_REPEATED:
            left_out |= {column.name for column in columns.nodes}
        repeated = {
            name: list(texts) for name, texts in nodes.columns.items() if name not in left_out
        }
    example = Example(graph.structure, graph.features).canonical()
    return Record(edges.source, example, tuple(graph.names), columns=repeated)


def _has_words(texts: Sequence[str]) -> bool:
    return any(not text.replace(".", "").replace("-", "").isdecimal() for text in texts if text)


def graph_with_targets(
    name: str,
    graph: Example,
    task: Task,
    targets: Tensor,
    splits: Sequence[Split],
    names: Sequence[str] = (),
) -> DataSet:
    """Return the data set of one graph whose nodes have targets.

    Args:
        name: The name of the data set.
        graph: The graph with features.
        task: What is to be predicted of each node.
        targets: A row for each node.
        splits: Splits that the data defines.
        names: The names of the nodes.
    """
    example = graph.replace(target={"i": targets}).canonical()
    return DataSet(
        name,
        [example],
        replace(task, at="i"),
        tuple(splits),
        reader="example",
        about=f"Your own data: a graph of {example.structure.num_nodes} nodes.",
        is_transductive=True,
        metric=METRICS[task.kind],
        names=list(names),
    )
