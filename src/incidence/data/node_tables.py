"""One graph from tables: a row for each edge, and a row for each node with its features and label."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any, NamedTuple

import torch
from torch import Tensor

from incidence.algebra.pattern import Pattern
from incidence.data.building import Asked, splits_of
from incidence.data.columns import Column, as_features, columns_of, find_column
from incidence.data.dataset import METRICS, DataSet, Split, Task
from incidence.data.graphs import node_features
from incidence.data.readers import Read
from incidence.data.tables import Table, listed, numbered
from incidence.data.targets import choose_targets, is_split, read_parts, read_targets
from incidence.errors import IncidenceError
from incidence.geometry.convert.exchange import once
from incidence.structure.example import Example
from incidence.structure.structure import Structure

__all__ = [
    "IDS",
    "READER",
    "GraphColumns",
    "GraphTable",
    "edge_columns",
    "from_node_tables",
    "graph_for",
    "labelled",
    "read_graph",
]

READER = "nodes"
"""What data sets call the way in which tables of edges and nodes are read."""

IDS = ("id", "node", "node_id", "nodeid", "name", "index", "paper", "user")
_ENDS = (
    ("source", "target"), ("src", "dst"), ("from", "to"), ("head", "tail"), ("u", "v"), ("i", "j"), ("node1", "node2"), ("a", "b"),
    ("id1", "id2"), ("source_id", "target_id"), ("sender", "receiver"),
)  # fmt: skip


_MOST_REPEATED = 20
"""So many columns that are features stand beside predictions; more, such as a column for every word, would hide these."""


class GraphColumns(NamedTuple):
    """What the columns of the tables of nodes and edges become, so that another graph is read in the same way."""

    nodes: Sequence[Column]
    edges: Sequence[Column]

    def plain(self) -> dict[str, list[dict[str, Any]]]:
        """Plain values, for a file."""
        return {
            table: [asdict(column) for column in columns]
            for table, columns in self._asdict().items()
        }

    @staticmethod
    def from_plain(told: Mapping[str, Sequence[Mapping[str, Any]]]) -> GraphColumns:
        """What a file has kept.

        Raises:
            IncidenceError: It is damaged.
        """
        try:
            return GraphColumns(
                *(
                    [Column.from_plain(column) for column in told[table]]
                    for table in GraphColumns._fields
                )
            )
        except (LookupError, TypeError, ValueError) as error:
            raise IncidenceError(
                f"what was kept of the columns of nodes and edges is damaged ({error!r}): train again."
            ) from error


class GraphTable(NamedTuple):
    """A graph from tables.

    Attributes:
        structure: With the edges, `{i j}` or `(i j)`.
        features: Of nodes and edges.
        names: Of the nodes.
        edges: The pattern of the edges.
        passed_over: Edges that were left out, and why.
        columns: What the columns of the tables became.
    """

    structure: Structure
    features: dict[str, Tensor]
    names: list[str]
    edges: str
    passed_over: list[str]
    columns: GraphColumns


def edge_columns(table: Table) -> tuple[str, str] | None:
    """The columns of a table of edges that have the ends, by what they are called; None if nothing is called so."""
    lower = {name.strip().lower(): name for name in table.columns}
    return next(
        ((lower[one], lower[other]) for one, other in _ENDS if one in lower and other in lower),
        None,
    )


def read_graph(
    edges: Table,
    nodes: Table | None,
    used: Sequence[str] = (),
    directed: bool = False,
    degrees: bool = True,
    columns: GraphColumns | None = None,
) -> GraphTable:
    """A graph from a table of edges and one of nodes, whose columns become features but for those that are used otherwise.

    The ends of an edge are the columns that are called so (`source` and `target`, `from` and `to`, ...), else the first two; a node is
    known by the column `id`, `node` or `name`, else the first. Without a table of nodes, they are those that edges have, by number if
    they are numbers. Nodes that have no columns get their degrees, unless these are not to be known. Where it is given what columns
    become, others are of no interest.

    Raises:
        IncidenceError: There are fewer than two columns, a node has two rows, most edges are between nodes that are not there, or a
            column that is needed is not.
    """
    ends = edge_columns(edges) or tuple(list(edges.columns)[:2])
    if len(ends) < 2:
        raise IncidenceError(
            f"{edges.source}: an edge has two nodes, and a row has one column only."
        )
    names = _names(edges, ends, nodes)
    place = {name: k for k, name in enumerate(names)}
    pairs, kept, passed_over = _pairs(
        edges, ends, place, "no node of that name has a row" if nodes else ""
    )
    text = "(i j)" if directed else "{i j}"
    kept_edges = edges.only(kept)
    columns = columns or GraphColumns(
        [] if nodes is None else columns_of(nodes, _others(nodes, [*used, _key(nodes)])),
        columns_of(kept_edges, _others(edges, ends)),
    )
    of_edges = as_features(kept_edges, columns.edges)
    values = {"the row of features": of_edges} if of_edges.shape[1] else {}
    try:
        pairs, values = once(Pattern(text), pairs, len(names), values, edges.source)
    except IncidenceError as error:
        raise IncidenceError(
            f"{error} For tables, that is --data-options directed=true."
        ) from error
    features = {text: values.get("the row of features", torch.ones(pairs.shape[1], 1))}
    if nodes is None and columns.nodes:
        raise IncidenceError(
            f"{edges.source}: nodes have the columns {listed([c.name for c in columns.nodes])}: give a table of nodes, too."
        )
    of_nodes = torch.zeros(len(names), 0) if nodes is None else as_features(nodes, columns.nodes)
    features = {
        "i": of_nodes if of_nodes.shape[1] or not degrees else node_features(len(names), pairs),
        **features,
    }
    return GraphTable(
        Structure(len(names), {text: pairs}), features, names, text, passed_over, columns
    )


def _others(table: Table, used: Sequence[str]) -> list[str]:
    return [name for name in table.columns if name not in used and not is_split(name)]


def _key(nodes: Table) -> str:
    return str(find_column(nodes, IDS, 0))


def _names(edges: Table, ends: Sequence[str], nodes: Table | None) -> list[str]:
    if nodes is None:
        return numbered(
            [text for pair in zip(*(edges[end] for end in ends), strict=True) for text in pair]
        )
    names = list(nodes[_key(nodes)])
    if len(set(names)) < len(names):
        seen: dict[str, int] = {}
        row, name = next((k, name) for k, name in enumerate(names) if seen.setdefault(name, k) != k)
        raise IncidenceError(
            f"{nodes.source}, {nodes.places[row]}: the node {name!r} has a row already, in {nodes.places[seen[name]]}."
        )
    return names


def _pairs(
    edges: Table, ends: Sequence[str], place: dict[str, int], absent: str
) -> tuple[Tensor, list[int], list[str]]:
    """The nodes of every edge that is one, [2, edges], which rows these are, and what is wrong with the others."""
    rows: dict[tuple[str, ...], int] = {}
    wrong = []
    for row, pair in enumerate(zip(*(edges[end] for end in ends), strict=True)):
        missing = next((name for name in pair if name not in place), None)
        if missing is None and pair[0] != pair[1] and rows.setdefault(pair, row) == row:
            continue
        known = (
            f"is there already, in {edges.places[rows[pair]]}"
            if pair in rows
            else f"joins {pair[0]!r} to itself"
        )
        wrong.append(
            f"{edges.source}, {edges.places[row]}: the edge {known if missing is None else f'has the node {missing!r}, and {absent}'}."
        )
    if len(wrong) > len(rows):
        raise IncidenceError(
            f"{len(wrong)} of {len(edges)} edges do not fit the nodes, so columns are hardly what they seem. {wrong[0]}"
        )
    pairs = (
        torch.tensor([[place[name] for name in pair] for pair in rows], dtype=torch.long)
        .view(-1, 2)
        .T
    )
    return pairs.contiguous(), list(rows.values()), wrong


def from_node_tables(edges: Table, nodes: Table, asked: Asked) -> DataSet:
    """Labels or numbers of the nodes of one graph; parts by a column `split`, and nodes without a label are predicted in the end."""
    names = choose_targets(nodes, asked.target, [_key(nodes)], prefers_numbers=False)
    unknown = next(
        (key for key in asked.options if key not in ("nodes", "directed", "columns")), None
    )
    if unknown is not None:
        raise IncidenceError(
            f"a graph from tables has no option `{unknown}`: it takes nodes, directed."
        )
    kept, directed = asked.options.get("columns"), bool(asked.options.get("directed", False))
    found = read_graph(
        edges,
        nodes,
        names,
        directed,
        columns=None if kept is None else GraphColumns.from_plain(kept),
    )
    task, targets = read_targets(nodes.source, {name: nodes[name] for name in names}, asked.task)
    own = {
        name: list(texts)
        for name, texts in nodes.columns.items()
        if name not in (*names, _key(nodes)) and not is_split(name)
    }
    data = labelled(
        asked.name,
        Example(found.structure, found.features),
        task,
        targets,
        splits_of(read_parts(nodes)),
        found.names,
    )
    return replace(
        data,
        reader=READER,
        reader_options={"columns": found.columns.plain(), "directed": directed},
        columns={name: texts for name, texts in own.items() if _is_text(texts)},
        passed_over=tuple(found.passed_over),
    )


def graph_for(
    options: Mapping[str, Any], edges: Table, nodes: Table | None, errors: list[IncidenceError]
) -> Read:
    """Another graph, read as the options of a data set say that its own was; edges that do not fit are among the errors.

    Of the columns of its nodes those are kept that are no features; the features too, unless there are many.

    Raises:
        IncidenceError: The tables do not fit, or a column is missing.
    """
    columns = GraphColumns.from_plain(options.get("columns", {}))
    found = read_graph(edges, nodes, directed=bool(options.get("directed", False)), columns=columns)
    errors += map(IncidenceError, found.passed_over)
    read = (
        {column.name for column in columns.nodes}
        if len(columns.nodes) > _MOST_REPEATED
        else set[str]()
    )
    own = (
        {}
        if nodes is None
        else {
            name: list(texts)
            for name, texts in nodes.columns.items()
            if name not in {_key(nodes), *read}
        }
    )
    return Read(
        edges.source,
        Example(found.structure, found.features).canonical(),
        tuple(found.names),
        columns=own,
    )


def _is_text(texts: Sequence[str]) -> bool:
    return any(not text.replace(".", "").replace("-", "").isdecimal() for text in texts if text)


def labelled(
    name: str,
    example: Example,
    task: Task,
    targets: Tensor,
    splits: Sequence[Split],
    names: Sequence[str] = (),
    about: str = "",
) -> DataSet:
    """The data set of one graph whose nodes have targets."""
    at = replace(task, at="i")
    whole = example.replace(target={"i": targets}).canonical()
    return DataSet(
        name, [whole], at, tuple(splits), reader="example", about=about or f"Your own data: a graph of {whole.structure.num_nodes} nodes.",
        is_transductive=True, metric=METRICS[task.kind], names=list(names),
    )  # fmt: skip
