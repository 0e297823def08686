"""One graph of PyG, or a batch of which the graph of every node is known: read exactly, and
written.
"""

from __future__ import annotations

import warnings
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

from torch import Tensor

from incidence.algebra.pattern import Pattern
from incidence.errors import IncidenceError, need
from incidence.geometry.assembly import brackets, face_text, is_edge
from incidence.geometry.convert.edge_lists import (
    TARGET,
    DirectedPairs,
    EdgeChanges,
    NodeGraphs,
    both_directions,
    pyg_entries,
    with_changes,
    with_graphs,
)
from incidence.geometry.convert.exchange import as_example, as_numbers, as_rows
from incidence.geometry.convert.pyg_hetero import read_sorts, whole_target, write_sorts
from incidence.structure import Example, Structure

__all__ = [
    "KNOWN",
    "NO_TARGET",
    "OF_EDGES",
    "PygOptions",
    "read_graph",
    "read_hetero",
    "to_pyg",
    "written_by_us",
]

NO_TARGET = "-"
"""What `y` belongs to if it is not read."""

OF_EDGES = "edge_index"
"""What `y` of edges belongs to, before the pattern of the edges is known."""

_KNOWN_FEATURES = {"x": "i", "pos": "pos=i", "hyperedge_attr": "{i ...}"}
_KNOWN_INDEX = ("hyperedge_index", "face")
_OF_PYG = ("edge_index", "edge_attr", "y", "num_nodes", "batch", "ptr", "n_id")

KNOWN = frozenset((*_KNOWN_FEATURES, *_KNOWN_INDEX, *_OF_PYG, "edge_pattern", "target_of"))
"""The attributes of PyG that have a meaning here."""


class PygOptions(NamedTuple):
    """How data of PyG is read.

    Attributes:
        edges, features, target: As for `from_pyg`.
        changes: Changes edges that are no entries, and counts that; None refuses such edges.
    """

    edges: str | None = None
    features: Mapping[str, str] = {}
    target: str | None = None
    changes: EdgeChanges | None = None


def written_by_us(value: Any) -> Any:
    """Return an attribute that `to_pyg` wrote; PyG makes a list of those of a batch."""
    return value[0] if isinstance(value, list) else value


def _num_nodes(data: Any) -> int:
    with warnings.catch_warnings():
        # PyG guesses the number from the largest index, and warns: a guess is refused here.
        warnings.simplefilter("error")
        try:
            count = data.num_nodes
        except UserWarning:
            count = None
    if count is None:
        raise IncidenceError(
            "from_pyg: the number of nodes is not known, because edges do not show nodes without"
            " edges. Set data.num_nodes or data.x."
        )
    return int(count)


def _index_texts(edges: Pattern | None) -> dict[str, str]:
    """The patterns of attributes that list faces, which have orientations beside oriented edges."""
    triangles = face_text(3, brackets=brackets(edges is not None and edges.is_oriented))
    return dict(zip(_KNOWN_INDEX, ("{i ...}", triangles), strict=True))


def read_hetero(
    data: Any, options: PygOptions, graphs: NodeGraphs = None, num_graphs: int = 1
) -> Example:
    """Return an example of `HeteroData`; or a batch, as for `read_graph`."""
    if options.edges is not None or options.features:
        raise IncidenceError(
            "from_pyg: the node types and relations of HeteroData define the tensors: leave out"
            " edges= and features=."
        )
    return with_changes(lambda c: read_sorts(data, c, graphs, num_graphs), options.changes)


def read_graph(
    data: Any, options: PygOptions, target: str, graphs: NodeGraphs = None, num_graphs: int = 1
) -> Example:
    """Return an example of `Data`; or a batch, if the graph of every node is given.

    Args:
        data: The data.
        options: How it is read.
        target: What `y` belongs to.
        graphs: The graph of every node, by sort; None for a single graph.
        num_graphs: The number of graphs.
    """
    return with_changes(
        lambda changes: _example(data, options, target, changes, graphs, num_graphs),
        options.changes,
    )


def _example(
    data: Any,
    options: PygOptions,
    target: str,
    changes: EdgeChanges | None,
    graphs: NodeGraphs,
    num_graphs: int,
) -> Example:
    num_nodes = _num_nodes(data)
    text = options.edges or written_by_us(data.get("edge_pattern")) or "{i j}"
    pattern = Pattern(text)
    tensor_of = {**_KNOWN_FEATURES, **options.features}
    values = _values(data, ["edge_attr", *tensor_of], options.features)
    index: dict[str, Any] = {
        known: data[key]
        for key, known in _index_texts(pattern).items()
        if data.get(key) is not None
    }
    y: Any = None
    if target != NO_TARGET and data.get("y") is not None:
        y = as_numbers(data.y, "from_pyg", "y")
    where = text if target == OF_EDGES else target  # now that the pattern is known
    if data.get("edge_index") is not None:
        _assert_edges(pattern, text)
        keys = ["edge_attr", *(key for key, t in tensor_of.items() if Pattern(t) == pattern)]
        of_edges = {key: values[key] for key in keys if key in values}
        has_target = y is not None and where not in ("", "i") and Pattern(where) == pattern
        if has_target:
            of_edges[TARGET] = as_rows(y, "from_pyg", "y")
        homes = None if graphs is None else graphs["node"]
        index[text], of_edges = pyg_entries(
            pattern, data.edge_index, num_nodes, of_edges, homes, changes
        )
        if has_target and TARGET not in values:
            y = of_edges.pop(TARGET).view(-1, *y.shape[1:])
        values.update(of_edges)
    features = {tensor_of.get(key, text): x for key, x in values.items()}
    if len(features) < len(values):  # two attributes with one key
        raise IncidenceError(
            f"from_pyg: two of {', '.join(values)} belong to one tensor. Join them first, or name"
            " one, as in `charge=i`."
        )
    written = _written_attributes(data)
    index.update(written["index"])
    features.update(written["features"])
    if written["target"]:
        y = written["target"]
    elif y is not None:
        y = {where: y} if where else whole_target(y, graphs)
    structure = with_graphs({"node": num_nodes}, index, graphs, num_graphs)
    return Example(structure, features, y, is_batch=graphs is not None)


def _values(data: Any, keys: Sequence[str], required: Collection[str]) -> dict[str, Tensor]:
    """The attributes that are features, as rows."""
    values = {key: as_rows(data[key], "from_pyg", key) for key in keys if data.get(key) is not None}
    for key in required:
        if key not in values:
            raise IncidenceError(
                f"from_pyg: the data has no attribute `{key}`; it has {', '.join(data.keys())}."
            )
    return values


def _assert_edges(pattern: Pattern, text: str) -> None:
    if not is_edge(pattern) or set(pattern.sorts.values()) != {"node"}:
        raise IncidenceError(
            "from_pyg: edges are read as `{i j}`, `(i j)`, `<i j>`, `[i j]` or `i j`; got"
            f" `{text}`."
        )


def _written_attributes(data: Any) -> dict[str, dict[str, Any]]:
    """What `to_pyg` keeps in attributes of its own: `index_`, the number of a part, and the
    pattern; `features` or `target` and the pattern.
    """
    found: dict[str, dict[str, Any]] = {"index": {}, "features": {}, "target": {}}
    for key in data.keys():  # noqa: SIM118
        word, space, text = key.partition(" ")
        name, _, number = word.partition("_")
        if name == "index" and number.isdecimal():
            found["index"].setdefault(text, {})[int(number)] = data[key]
        elif space and word in ("features", "target"):
            found[word][text] = data[key]
    for text, parts in found["index"].items():
        ordered = tuple(parts[number] for number in sorted(parts))
        found["index"][text] = ordered if len(ordered) > 1 else ordered[0]
    return found


def to_pyg(example: Example | Structure) -> Any:
    r"""Write an example or a structure as PyG data: `Data`, with several sorts `HeteroData`, and a
    `Batch` for a batch.

    The edges become `edge_index`, undirected ones in both directions, as is the custom there,
    oriented ones with opposite features. Everything has a place: other tensors become attributes
    such as `index_0 {i j k l}`, which PyG batches rightly, with `features {i j k l}` beside them.
    So `from_pyg(to_pyg(example)) == example`.

    Example:
        >>> import torch
        >>> s = Structure(3, {"{i j}": [[0, 1], [1, 2]]})
        >>> to_pyg(Example(s, {"i": torch.zeros(3, 5)}))
        Data(edge_index=[2, 4], x=[3, 5], num_nodes=3)
    """
    pyg = need("torch_geometric.data", "to_pyg", "convert")
    example = as_example(example, "to_pyg")
    structure = example.structure
    if example.is_batch:
        return pyg.Batch.from_data_list([to_pyg(one) for one in example])
    if set(structure.counts) != {"node"}:
        return write_sorts(pyg.HeteroData(), example)
    data = pyg.Data()
    name_of: dict[Pattern, str] = {Pattern(text): key for key, text in _KNOWN_FEATURES.items()}
    edges = next((p for p in structure.patterns if is_edge(p) and p.name is None), None)
    index_name = {Pattern(text): key for key, text in _index_texts(edges).items()}
    pairs: dict[Pattern, DirectedPairs] = {}
    for pattern in structure.patterns:
        index = structure[pattern]
        if pattern == edges:
            pairs[pattern] = both_directions(pattern, index)
            data.edge_index = pairs[pattern].nodes
            name_of[pattern] = "edge_attr"
            if str(pattern) != "{i j}":
                data.edge_pattern = str(pattern)
        elif pattern in index_name:
            data[index_name[pattern]] = index
        else:
            for number, part in enumerate(index if isinstance(index, tuple) else (index,)):
                data[f"index_{number} {pattern}"] = part
    for key, x in example.features.items():
        pattern = structure.resolve(key)
        rows = pairs[pattern].values(x) if pattern in pairs else x
        data[name_of.get(pattern, f"features {pattern}")] = rows
    target = example.target
    if isinstance(target, Tensor):
        data.y = target[None]
        data.target_of = ""
    elif target is not None and list(target) == ["i"]:
        data.y = target["i"]
        data.target_of = "i"
    else:
        for key, x in (target or {}).items():
            data[f"target {key}"] = x
    data.num_nodes = structure.num_nodes  # also where there is no `x`
    return data
