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
"""The pattern of edges, by whether they are directed, and whether there are parallel ones."""


def from_networkx(
    graph: Any,
    edges: str | None = None,
    *,
    node_features: Sequence[str] | None = None,
    edge_features: Sequence[str] | None = None,
) -> Example:
    r"""Read a graph: nodes, of any names, in the order of `graph.nodes`, and edges in the order of
    `graph.edges`.

    The attributes `pos` are the features of `pos=i`, and `graph.graph["target"]` is the target.
    Every edge of a multigraph is a node of another sort, in `{i j} e:edge`, so that parallel edges
    are different entries.

    Args:
        graph: The graph.
        edges: The pattern of the edges. Default: `{i j}` or `(i j)`. With loops: `[i j]` or `i j`.
            For a multigraph: with `e:edge` beside. `<i j>` reads a `DiGraph` with flows: edges have
            the orientation of their direction, and none comes in both directions.
        node_features: The attributes of nodes that are the features of `i`, joined as channels.
            Default: `features`, if nodes have it.
        edge_features: The attributes of edges that are the features of the edges, in the same way.

    Raises:
        IncidenceError: There are loops where none can be, or an attribute is missing somewhere or
            is no number.

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
    is_directed_graph = graph.is_directed()
    loses_direction = pair is not None and is_directed_graph and not _has_direction(pair)
    invents_one = pair is not None and pair.is_oriented and not is_directed_graph
    if pair is None or loses_direction or invents_one:
        fit = _DEFAULT[graph.is_directed(), graph.is_multigraph()]
        raise IncidenceError(
            f"from_networkx: the edges of a {type(graph).__name__} are read as `{fit}`, for"
            f" example; got `{pattern}`."
        )
    number = {node: k for k, node in enumerate(graph.nodes)}
    listed = list(graph.edges(data=True))
    # A graph of `to_networkx` lists edges by nodes, and not in the order of the entries.
    if listed and all("entry" in data for *_, data in listed):
        listed.sort(key=lambda edge: edge[2]["entry"])
    ends = [(number[u], number[v]) for u, v, _ in listed]
    index = torch.tensor(ends, dtype=torch.long).view(-1, 2).T
    counts: dict[str, int] = {"node": len(number)}
    if graph.is_multigraph():
        counts["edge"] = len(listed)
        index = torch.cat([index, torch.arange(len(listed))[None]])  # (3, edges)
    of_nodes = [data for _, data in graph.nodes(data=True)]
    of_edges = [data for *_, data in listed]
    empty = {key: graph.graph.get(f"empty:{key}") for key in ("i", "pos=i", "edges")}
    features = {
        "i": _attributes(of_nodes, node_features, "nodes", empty["i"]),
        "pos=i": _attributes(of_nodes, None, "nodes", empty["pos=i"], "pos"),
        str(pattern): _attributes(of_edges, edge_features, "edges", empty["edges"]),
    }
    present = {key: x for key, x in features.items() if x is not None}
    return Example(Structure(counts, {str(pattern): index}), present, graph.graph.get("target"))


def _has_direction(pair: Pattern) -> bool:
    """Whether an edge leads from one node to another, by its direction or orientation."""
    return is_directed(pair) or pair.is_oriented


def _pair(pattern: Pattern, is_multi: bool) -> Pattern | None:
    """The two nodes of an edge, in a pattern with or without a node for the edge itself."""
    pair = pattern.restrict("node")
    others = [letter for letter in pattern.letters if pattern.sorts[letter] != "node"]
    wanted = [pattern.faces[-1].letters[0].name] if is_multi else []
    is_of_edges = all(pattern.sorts[letter] == "edge" for letter in others)
    fits = others == wanted and is_of_edges and pattern.order == pair.order + len(others)
    return pair if fits and is_edge(pair) else None


def _attributes(
    data: list[dict[str, Any]],
    names: Sequence[str] | None,
    what: str,
    empty: Any,
    default: str = "features",
) -> Tensor | None:
    """The features of nodes or edges; if there is none, those that `to_networkx` wrote."""
    if not data:
        return None if empty is None else as_rows(empty, "from_networkx", default)
    if names is None:
        return attribute(data, default, what, "from_networkx")
    parts = [attribute(data, name, what, "from_networkx", is_required=True) for name in names]
    return torch.cat([x for x in parts if x is not None], dim=1) if parts else None


def to_networkx(example: Example | Structure, edges: str | None = None) -> Any:
    r"""Write nodes 0, 1, ... and one tensor of edges as a graph: directed for `(i j)`, `i j` and
    `<i j>`, a multigraph for `{i j} e:edge`.

    Features become attributes `features` and `pos`. The number of every edge in its tensor becomes
    `entry`, because a graph has another order. A target for the whole becomes
    `graph.graph["target"]`.

    Args:
        example: An example or a structure.
        edges: The tensor of edges to write. Default: the only one there is; then nothing else must
            be there that would be lost.

    Raises:
        IncidenceError: A graph cannot hold it.

    Example:
        >>> to_networkx(Structure(3, {"{i j}": [[0, 1], [1, 2]]})).edges
        EdgeView([(0, 1), (1, 2)])
    """
    nx = need("networkx", "to_networkx", "convert")
    example = single(example, "to_networkx")
    structure = example.structure
    first = str(next(iter(structure.patterns), "{i j}"))
    if edges is None:
        has_whole_target = not isinstance(example.target, dict)
        places = ["i", "pos=i", first]
        assert_held(example, "to_networkx", [first], places, target=has_whole_target)
    wanted = structure.resolve(first if edges is None else edges)
    pattern = next(p for p in structure.patterns if p == wanted)
    is_multi = "edge" in structure.counts
    pair = _pair(pattern, is_multi)
    if pair is None or "node" not in structure.counts:
        raise IncidenceError(
            "to_networkx: a graph holds edges such as `{i j}`, `(i j)` or `{i j} e:edge`; not"
            f" `{pattern}`."
        )
    columns = structure[pattern]
    if is_multi:
        numbers = torch.arange(structure.counts["edge"], device=columns.device)
        if not torch.equal(columns[2], numbers):
            raise IncidenceError(
                f"to_networkx: entry k of `{pattern}` must be about node k of sort `edge`, each in"
                " one entry, in their order."
            )
    names = {
        (False, False): "Graph",
        (True, False): "DiGraph",
        (False, True): "MultiGraph",
        (True, True): "MultiDiGraph",
    }
    kind = getattr(nx, names[_has_direction(pair), is_multi])
    graph = kind(**({} if str(pattern) in _DEFAULT.values() else {"edges": str(pattern)}))
    graph.add_nodes_from(range(structure.counts["node"]))
    graph.add_edges_from((u, v, {"entry": k}) for k, (u, v) in enumerate(columns[:2].T.tolist()))
    features = by_meaning(example)
    keys = {Pattern("i"): "i", Pattern("pos=i"): "pos=i", pattern: "edges"}
    rows = {p: as_array(features[p], "to_networkx") for p in keys if p in features}
    for p, name in {Pattern("i"): "features", Pattern("pos=i"): "pos"}.items():
        if p in rows:
            nx.set_node_attributes(graph, dict(enumerate(rows[p])), name)
    if pattern in rows:
        for *_, data in graph.edges(data=True):
            data["features"] = rows[pattern][data["entry"]]
    for p, key in keys.items():
        if p in rows and not len(rows[p]):  # no node or edge could keep the shape
            graph.graph[f"empty:{key}"] = rows[p]
    if isinstance(example.target, Tensor):
        graph.graph["target"] = example.target
    return graph
