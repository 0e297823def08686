"""NetworkX: `Graph`, `DiGraph`, `MultiGraph` and `MultiDiGraph`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from incidence.algebra.pattern import Pattern
from incidence.errors import IncidenceError, need
from incidence.geometry.assembly import is_directed, is_edge
from incidence.geometry.convert.exchange import (
    as_array,
    as_rows,
    assert_held,
    attribute,
    by_meaning,
    single,
)
from incidence.structure import Example, Structure

__all__ = ["from_networkx", "to_networkx"]

_DEFAULT = {
    (False, False): "{i j}",
    (True, False): "(i j)",
    (False, True): "{i j} e:edge",
    (True, True): "(i j) e:edge",
}
"""How edges are read, by whether they are directed, and whether there are parallel ones."""


def from_networkx(
    graph: Any,
    edges: str | None = None,
    *,
    node_features: Sequence[str] | None = None,
    edge_features: Sequence[str] | None = None,
) -> Example:
    r"""Reads a graph: nodes in the order of `graph.nodes`, whatever they are called, and edges in the order of `graph.edges`.

    The attributes of `pos` are the features of `pos=i`, and `graph.graph["target"]` is the target. Of a multigraph, every edge is a node of
    a sort of its own, in `{i j} e:edge`, so that parallel edges are different entries.

    Args:
        graph: The graph.
        edges: How edges are read: `{i j}` or `(i j)`, if not given; `[i j]` or `i j` if there are loops; for a multigraph with `e:edge`
            beside. `<i j>` reads a `DiGraph` with flows: edges are oriented as they are directed, and none comes in both directions.
        node_features: The attributes of nodes that are the features of `i`, joined as channels; if not given, `features`, if
            nodes have it.
        edge_features: The attributes of edges that are the features of the edges, in the same way.

    Raises:
        IncidenceError: There are loops where none can be, or an attribute is missing somewhere or is no number.

    Example:
        >>> import networkx as nx
        >>> graph = nx.path_graph(["a", "b", "c"])
        >>> nx.set_edge_attributes(graph, 0.5, "weight")
        >>> from_networkx(graph, edge_features=["weight"])
        Example(Structure(num_nodes=3, '{i j}': 2 entries), features={'{i j}': [2, 1]}, target=None)
    """
    nx = need("networkx", "from_networkx", "convert")
    if not isinstance(graph, nx.Graph):
        raise IncidenceError(
            f"from_networkx takes a graph of NetworkX; got {type(graph).__name__}."
        )
    text = edges or graph.graph.get("edges") or _DEFAULT[graph.is_directed(), graph.is_multigraph()]
    pattern = Pattern(text)
    pair = _pair(pattern, graph.is_multigraph())
    if (
        pair is None
        or (graph.is_directed() and not _has_direction(pair))
        or (pair.is_oriented and not graph.is_directed())
    ):
        fit = _DEFAULT[graph.is_directed(), graph.is_multigraph()]
        raise IncidenceError(
            f"from_networkx: the edges of a {type(graph).__name__} are read as `{fit}`, for example; got `{pattern}`."
        )
    number = {node: k for k, node in enumerate(graph.nodes)}
    listed = list(graph.edges(data=True))
    if listed and all(
        "entry" in data for *_, data in listed
    ):  # to_networkx was here: the graph lists edges by nodes, and not as they came
        listed.sort(key=lambda edge: edge[2]["entry"])
    pairs = (
        torch.tensor([(number[u], number[v]) for u, v, _ in listed], dtype=torch.long).view(-1, 2).T
    )
    counts: dict[str, int] = {"node": len(number)}
    if graph.is_multigraph():
        counts["edge"] = len(listed)
        pairs = torch.cat([pairs, torch.arange(len(listed))[None]])
    features = {
        "i": _attributes(
            [data for _, data in graph.nodes(data=True)],
            node_features,
            "nodes",
            graph.graph.get("empty:i"),
        ),
        "pos=i": _attributes(
            [data for _, data in graph.nodes(data=True)],
            None,
            "nodes",
            graph.graph.get("empty:pos=i"),
            "pos",
        ),
        str(pattern): _attributes(
            [data for *_, data in listed], edge_features, "edges", graph.graph.get("empty:edges")
        ),
    }
    found = {key: x for key, x in features.items() if x is not None}
    return Example(Structure(counts, {str(pattern): pairs}), found, graph.graph.get("target"))


def _has_direction(pair: Pattern) -> bool:
    """Whether an edge goes from one node to another: as it is directed, or as its orientation says."""
    return is_directed(pair) or pair.is_oriented


def _pair(pattern: Pattern, is_multi: bool) -> Pattern | None:
    """The two nodes of an edge, in a pattern with or without a node for the edge itself."""
    pair = pattern.restrict("node")
    own = [letter for letter in pattern.letters if pattern.sorts[letter] != "node"]
    wanted = [pattern.faces[-1].letters[0].name] if is_multi else []
    fits = (
        own == wanted
        and pattern.order == pair.order + len(own)
        and all(pattern.sorts[letter] == "edge" for letter in own)
    )
    return pair if fits and is_edge(pair) else None


def _attributes(
    data: list[dict[str, Any]],
    names: Sequence[str] | None,
    what: str,
    empty: Any,
    default: str = "features",
) -> Tensor | None:
    """The features of nodes or edges; where there are none, those that `to_networkx` has kept."""
    if not data:
        return None if empty is None else as_rows(empty, "from_networkx", default)
    if names is None:
        return attribute(data, default, what, "from_networkx")
    parts = [attribute(data, name, what, "from_networkx", is_asked=True) for name in names]
    return torch.cat([x for x in parts if x is not None], dim=1) if parts else None


def to_networkx(example: Example | Structure, edges: str | None = None) -> Any:
    r"""Writes nodes 0, 1, ... and one tensor of edges as a graph: directed for `(i j)`, `i j` and `<i j>`, a multigraph for `{i j} e:edge`.

    Features are kept as attributes `features` and `pos`, and the place of every edge in its tensor as `entry`, as a graph has an order of
    its own; a target for the whole is `graph.graph["target"]`.

    Args:
        example: An example or a structure.
        edges: The tensor of edges to write; if not given, the only one there is, and then nothing else must be there that would be lost.

    Raises:
        IncidenceError: A graph cannot hold it.

    Example:
        >>> to_networkx(Structure(3, {"{i j}": [[0, 1], [1, 2]]})).edges
        EdgeView([(0, 1), (1, 2)])
    """
    nx = need("networkx", "to_networkx", "convert")
    example = single(example, "to_networkx")
    structure = example.structure
    if edges is None:
        first = str(next(iter(structure.patterns), "{i j}"))
        assert_held(
            example,
            "to_networkx",
            [first],
            ["i", "pos=i", first],
            target=not isinstance(example.target, dict),
        )
    found = structure.resolve(next(iter(structure.patterns), "{i j}") if edges is None else edges)
    pattern = next(p for p in structure.patterns if p == found)
    is_multi = "edge" in structure.counts
    pair = _pair(pattern, is_multi)
    if pair is None or "node" not in structure.counts:
        raise IncidenceError(
            f"to_networkx: a graph holds edges such as `{{i j}}`, `(i j)` or `{{i j}} e:edge`; not `{pattern}`."
        )
    columns = structure[pattern]
    if is_multi and not torch.equal(
        columns[2], torch.arange(structure.counts["edge"], device=columns.device)
    ):
        raise IncidenceError(
            f"to_networkx: entry k of `{pattern}` must be about node k of sort `edge`, each in one entry, in their order."
        )
    kind = getattr(nx, f"{'Multi' * is_multi}{'Di' * _has_direction(pair)}Graph")
    graph = kind(**({} if str(pattern) in _DEFAULT.values() else {"edges": str(pattern)}))
    graph.add_nodes_from(range(structure.counts["node"]))
    graph.add_edges_from((u, v, {"entry": k}) for k, (u, v) in enumerate(columns[:2].T.tolist()))
    features = by_meaning(example)
    for text, name in (("i", "features"), ("pos=i", "pos")):
        if Pattern(text) in features:
            nx.set_node_attributes(
                graph, dict(enumerate(as_array(features[Pattern(text)], "to_networkx"))), name
            )
    if pattern in features:
        rows = as_array(features[pattern], "to_networkx")
        for *_, data in graph.edges(data=True):
            data["features"] = rows[data["entry"]]
    for text, key in (("i", "i"), ("pos=i", "pos=i"), (str(pattern), "edges")):
        if Pattern(text) in features and not len(features[Pattern(text)]):
            graph.graph[f"empty:{key}"] = as_array(
                features[Pattern(text)], "to_networkx"
            )  # no node or edge could keep their shape
    if isinstance(example.target, Tensor):
        graph.graph["target"] = example.target
    return graph
