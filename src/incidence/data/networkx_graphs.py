"""Graphs of networkx as a data set: a target for each graph, or labels of the nodes of one.

networkx is not imported: whoever has such a graph has imported it.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from numbers import Real
from typing import Any

import torch

from incidence.data.columns import as_classes
from incidence.data.dataset import DataSet, Task
from incidence.data.dataset_builder import DataRequest, from_examples
from incidence.data.node_tables import from_node_tables
from incidence.data.tables import TextTable, listed, table_of_values
from incidence.errors import IncidenceError
from incidence.geometry.convert import from_networkx
from incidence.structure.example import Example

__all__ = ["NODE_FEATURES", "are_networkx", "examples_of_networkx", "load_networkx", "node_tables"]

NODE_FEATURES, EDGE_FEATURES = "node_features", "edge_features"
_APART = {"pos", "entry"}  # coordinates, and the number of an edge that `to_networkx` writes
_TARGETS = ("target", "y", "label")  # attributes of a graph that are its target, if none is given


def are_networkx(what: Any) -> bool:
    """Return whether something is a graph of networkx, or a list of them."""
    networkx = sys.modules.get("networkx")
    graphs = what if isinstance(what, (list, tuple)) and what else [what]
    return networkx is not None and all(isinstance(one, networkx.Graph) for one in graphs)


def load_networkx(what: Any, request: DataRequest) -> DataSet:
    """Return the data set of graphs.

    A list of graphs has a target for each, in `graph.graph`. A single graph has labels of its
    nodes, as an attribute that `target` names.

    Raises:
        IncidenceError: It is not clear what is to be predicted, or an option is unknown.
    """
    if not isinstance(what, (list, tuple)):
        edges, nodes = node_tables(what)
        options = {"directed": what.is_directed(), **request.options}
        return from_node_tables(edges, nodes, replace(request, name="networkx", options=options))
    return request.call(_of_graphs, "a list of graphs of networkx", what)


def _of_graphs(
    graphs: Sequence[Any],
    *,
    target: str | None = None,
    task: str | None = None,
    node_features: Sequence[str] | None = None,
    edge_features: Sequence[str] | None = None,
) -> DataSet:
    """Return graphs with a target each; attributes that all nodes or edges have are features."""
    name = target or next((n for n in _TARGETS if all(n in one.graph for one in graphs)), None)
    lacking = next((k for k, one in enumerate(graphs) if name not in one.graph), None)
    if lacking is not None:
        raise IncidenceError(
            f"graph {lacking} of networkx has no target"
            f"{'' if name is None else f' {name!r}'}, and its attributes are"
            f" {listed(graphs[lacking].graph) or 'none'}. Give every graph one, as in"
            f" graph.graph[{name or 'y'!r}] = 1."
        )
    values = [one.graph[name] for one in graphs]
    of_nodes = [data for one in graphs for _, data in one.nodes.data()]
    of_edges = [data for one in graphs for *_, data in one.edges.data()]
    chosen = {
        NODE_FEATURES: _chosen(node_features, of_nodes, "nodes"),
        EDGE_FEATURES: _chosen(edge_features, of_edges, "edges"),
    }
    options = {key: names for key, names in chosen.items() if names is not None}
    classes: Task | None = None
    if any(isinstance(one, str) for one in values):
        classes, rows = as_classes([str(one) for one in values], str(name))
        values = list(rows)
    targets = [torch.as_tensor(one) for one in values]
    whole = [one.long() if one.dtype == torch.bool else one for one in targets]
    examples = [
        one.replace(target=target)
        for one, target in zip(examples_of_networkx(graphs, options), whole, strict=True)
    ]
    data = from_examples(examples, name="networkx", source="graph", task=task)
    return replace(
        data, task=classes or data.task, reader_options={**data.reader_options, **options}
    )


def examples_of_networkx(graphs: Iterable[Any], options: Mapping[str, Any]) -> list[Example]:
    """Return the examples of graphs without targets, with the attributes that options name."""
    chosen = {key: options.get(key) for key in (NODE_FEATURES, EDGE_FEATURES)}
    return [from_networkx(_without_target(one), **chosen) for one in graphs]


def _without_target(graph: Any) -> Any:
    """Return the graph without its target, which may be a text that no example can have."""
    if "target" not in graph.graph:
        return graph
    graph = graph.copy()
    del graph.graph["target"]
    return graph


def _chosen(
    names: Sequence[str] | None, records: Sequence[Mapping[str, Any]], what: str
) -> list[str] | None:
    """Return the attributes that are features: those given, else all numbers that all have.

    None stands for the attribute `features`, which `to_networkx` writes.
    """
    if names is not None:
        return list(names)
    if not records or any("features" in one for one in records):
        return None
    present = {name for one in records for name in one} - _APART
    read = {n for n in present if all(isinstance(one.get(n), Real) for one in records)}
    if read != present:
        left = listed(sorted(map(str, present - read)))
        warnings.warn(
            f"attributes of {what} are features if they are a number everywhere; left out: {left}.",
            stacklevel=2,
        )
    return sorted(read) or None


def node_tables(graph: Any) -> tuple[TextTable, TextTable]:
    """Return the tables of the edges and of the nodes of a graph, with their attributes."""
    ends = list(graph.edges(data=True))
    edges = {"source": [u for u, _, _ in ends], "target": [v for _, v, _ in ends]}
    nodes = {"id": list(graph.nodes)}
    of_edges = _columns([data for *_, data in ends])
    of_nodes = _columns([data for _, data in graph.nodes.data()])
    return (  # the ends and the names come first, and win over attributes that are called like them
        table_of_values("the edges of the graph", {**edges, **of_edges, **edges}),
        table_of_values("the nodes of the graph", {**nodes, **of_nodes, **nodes}),
    )


def _columns(records: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]]:
    names = dict.fromkeys(str(name) for one in records for name in one)
    return {name: [one.get(name) for one in records] for name in names}
