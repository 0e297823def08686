"""PyG: `Data`, `HeteroData`, `Batch`, and data sets."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import Tensor

from incidence.algebra.grammar import is_letter
from incidence.algebra.pattern import Pattern
from incidence.errors import IncidenceError, need
from incidence.geometry.assembly import is_edge
from incidence.geometry.convert.exchange import as_example, as_rows, both_ways, once
from incidence.structure import Example, Structure, collate

__all__ = ["from_pyg", "to_pyg"]

_KNOWN_FEATURES = {"x": "i", "pos": "pos=i", "hyperedge_attr": "{i ...}"}
_KNOWN_INDEX = {"hyperedge_index": "{i ...}", "face": "{i j k}"}

Homes = Mapping[str, Tensor] | None
"""For every sort the graph of each node, of a batch."""


def from_pyg(data: Any, *, edges: str | None = None, features: Mapping[str, str] | None = None, target: str | None = None) -> Any:
    r"""Reads PyG data: `Data` or `HeteroData` gives an example, a `Batch` a batch, a list or data set a list of examples.

    `Data` and `HeteroData` whose nodes have `batch`, the graph of every node, are batches too.
    Nodes and edges keep their order; those of a batch stand by graph. `x` are the features of `i`, `edge_attr` of the edges, `pos` of
    `pos=i`, `hyperedge_attr` of `{i ...}`; `hyperedge_index` is `{i ...}`, `face` is `{i j k}`. `HeteroData` gives sorts: its node types,
    with a tensor for each edge type, called as the relation is. What else the data has is read only if `features` says what it belongs to.

    Args:
        data: The data.
        edges: How `edge_index` is read: `{i j}`, if not given, for undirected edges, which may come in one direction or both; `(i j)` for
            directed ones; `[i j]` or `i j` if there are loops.
        features: Further attributes and what they belong to, as in `{"z": "charge=i"}`.
        target: What `y` belongs to: `i` for nodes, the empty text for the whole; found out from its shape, if not given.

    Raises:
        IncidenceError: The data does not fit; loops, parallel edges, and features that differ in the two directions of an edge are named.

    Example:
        >>> from torch_geometric.data import Data
        >>> edge_index = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
        >>> from_pyg(Data(x=torch.zeros(3, 5), edge_index=edge_index, y=torch.tensor([1])))
        Example(Structure(num_nodes=3, '{i j}': 2 entries), features={'i': [3, 5]}, target=[])
    """
    pyg = need("torch_geometric.data", "from_pyg", "convert")
    if _is_batch(pyg, data):
        whole = _read_whole(pyg, data, edges, features or {}, target)
        return collate(_read_all(pyg, _apart(data), edges, features, target)) if whole is None else whole
    if isinstance(data, pyg.data.BaseData):
        return _read_all(pyg, [data], edges, features, target)[0]
    if not isinstance(data, Iterable):
        raise IncidenceError(f"from_pyg takes Data, HeteroData, a Batch, or a list or data set of them; got {type(data).__name__}.")
    items = list(data)
    if any(_is_batch(pyg, item) for item in items):
        return [from_pyg(item, edges=edges, features=features, target=target) for item in items]
    return _read_all(pyg, items, edges, features, target)


def _is_batch(pyg: Any, data: Any) -> bool:
    """Whether nodes tell of their graph; a `batch` that is no row of numbers is an attribute like others."""
    stores = data.node_stores if isinstance(data, (pyg.Data, pyg.HeteroData)) else ()
    return isinstance(data, pyg.Batch) or any(isinstance(own.get("batch"), Tensor) and own.batch.ndim == 1 for own in stores)


def _read_all(pyg: Any, items: list[Any], edges: str | None, features: Mapping[str, str] | None, target: str | None) -> list[Example]:
    if items and all(isinstance(item, pyg.HeteroData) for item in items):
        return [_read_sorts(item) for item in items]
    for number, item in enumerate(items):
        if not isinstance(item, pyg.Data):
            raise IncidenceError(f"from_pyg: number {number} of the list is a {type(item).__name__}, and all must be Data, or HeteroData.")
    belongs = _target_of(items) if target is None else target
    return [_read(item, edges, features or {}, belongs) for item in items]


def _read_whole(pyg: Any, batch: Any, edges: str | None, extra: Mapping[str, str], target: str | None) -> Example | None:
    """A batch by the graph of every node, also one that was made by hand or changed; None where only its graphs tell what is meant."""
    homes = {store._key or "node": store.batch for store in batch.node_stores if "batch" in store}
    told = [store.get("edge_pattern") for store in batch.stores]
    base = pyg.HeteroData if isinstance(batch, pyg.HeteroData) else pyg.Data
    is_mixed = any(isinstance(own, list) and len(set(own)) > 1 for own in told)
    y = batch.get("y") if "y" in batch.stores[0] else None  # of HeteroData that of the whole graphs
    is_odd = y is not None and (not isinstance(y, Tensor) or not y.ndim)
    if len(homes) < len(batch.node_stores) or type(batch).__inc__ is not base.__inc__ or is_mixed or is_odd:
        return None
    try:
        count = int(batch.num_graphs)
    except (AttributeError, ValueError, RuntimeError):  # then nothing tells of graphs without nodes at the end
        count = 0
    count = max([count, 1, *(int(home.max()) + 1 for home in homes.values() if len(home))])
    if base is pyg.HeteroData:
        return None if y is not None and len(y) != count else _read_sorts(batch, homes, count)
    own = [key for key in batch.keys() if key in ("hyperedge_index", *extra) or " " in key]  # noqa: SIM118
    if any("index" in key or "batch" in key for key in own):  # PyG adds the number of nodes to all of these, and hyperedges are none
        return None
    belongs = _whole_target_of(batch, homes["node"], count) if target is None else target
    return None if belongs == "" and y is not None and len(y) != count else _read(batch, edges, extra, belongs, homes, count)


def _whole_target_of(batch: Any, home: Tensor, count: int) -> str:
    """What `y` belongs to, from the rows of each graph, where PyG knows them, or else from all rows."""
    y, told = batch.get("y"), batch.get("target_of")
    if told or y is None:
        return (told[0] if isinstance(told, list) else told) or ""
    sizes = torch.bincount(home.long().clamp(min=0), minlength=count)  # a home that is none is refused by the structure
    slices: Any = (getattr(batch, "_slice_dict", None) or {}).get("y")
    is_known = slices is not None and len(slices) == count + 1 and int(slices[-1]) == len(y)
    rows = slices.diff().to(sizes.device) if is_known else sizes if count != len(y) == len(home) else torch.ones_like(sizes)
    return "i" if torch.equal(rows, sizes) and bool((sizes > 1).any()) else ""


def _structure(counts: Any, index: dict[str, Any], homes: Homes, num_graphs: int) -> Structure:
    """The structure; of a batch with the graphs at its end that have no nodes, of which nodes do not tell."""
    made = Structure(counts, index, batch=homes)
    if homes is None or made.num_structures == num_graphs:
        return made
    nothing = {str(p): torch.zeros(len(p.letters), 0, dtype=torch.long, device=made.device) for p in made.patterns}
    empty = Structure(dict.fromkeys(made.counts, 0), nothing, device=made.device)
    return collate([made, *[empty] * (num_graphs - made.num_structures)])


def _by_graph(pairs: Tensor, values: Mapping[str, Tensor], homes: Homes, sort: str) -> tuple[Tensor, dict[str, Tensor]]:
    """Edges and their features by the graph of the first node, which has a sort."""
    home = homes[sort] if homes else pairs[0, :0]
    if not len(home):
        return pairs, dict(values)
    order = home[pairs[0].clamp(0, len(home) - 1)].sort(stable=True)[1]
    return pairs[:, order], {key: x[order] for key, x in values.items()}


def _apart(batch: Any) -> list[Any]:
    try:
        return list(batch.to_data_list())
    except (AttributeError, KeyError, RuntimeError) as error:
        raise IncidenceError(
            f"from_pyg: PyG cannot take this batch apart ({error!r}), and it cannot be read as a whole: that takes `batch` for all nodes, "
            f"no hyperedges, and `y` with a row for each node or graph. Make it by Batch.from_data_list."
        ) from None


def _target_of(items: list[Any]) -> str:
    """What `y` belongs to: to nodes if it has as many rows as nodes everywhere. One node tells nothing."""
    told = {item["target_of"] for item in items if "target_of" in item}
    if told:
        return str(told.pop())
    rows = [(len(item.y), item.num_nodes) for item in items if isinstance(item.get("y"), Tensor) and item.y.ndim]
    is_of_nodes = all(n == m for n, m in rows) and any(m > 1 for _, m in rows)
    return "i" if is_of_nodes else ""


def _count_nodes(data: Any) -> int:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            count = data.num_nodes
        except UserWarning:
            count = None
    if count is None:
        raise IncidenceError(
            "from_pyg: the number of nodes is not known, as edges do not tell of nodes that have none. Set data.num_nodes or data.x."
        )
    return int(count)


def _read(data: Any, edges: str | None, extra: Mapping[str, str], target: str, homes: Homes = None, num_graphs: int = 1) -> Example:
    """An example; or a batch, if the graph of every node and the number of graphs are given."""
    num_nodes = _count_nodes(data)
    told = data.get("edge_pattern")
    text = edges or (told[0] if isinstance(told, list) else told) or "{i j}"
    belongs = {**_KNOWN_FEATURES, **extra}
    values = {key: as_rows(data[key], "from_pyg", key) for key in ("edge_attr", *belongs) if data.get(key) is not None}
    for key in extra:
        if key not in values:
            raise IncidenceError(f"from_pyg: the data has no attribute `{key}`; it has {', '.join(data.keys())}.")
    index: dict[str, Any] = {known: data[key] for key, known in _KNOWN_INDEX.items() if data.get(key) is not None}
    if data.get("edge_index") is not None:
        pattern, pairs = Pattern(text), torch.as_tensor(data.edge_index)
        if not is_edge(pattern) or set(pattern.sorts.values()) != {"node"}:
            raise IncidenceError(f"from_pyg: edges are read as `{{i j}}`, `(i j)`, `[i j]` or `i j`; got `{text}`.")
        of_edges = {key: x for key, x in values.items() if key == "edge_attr" or Pattern(belongs.get(key, "")) == pattern}
        for key, x in of_edges.items():
            if len(x) != pairs.shape[1]:
                raise IncidenceError(f"from_pyg: {key} has {len(x)} rows, and edge_index has {pairs.shape[1]} columns.")
        pairs, of_edges = _by_graph(pairs, of_edges, homes, "node")
        index[text], of_edges = once(pattern, pairs, num_nodes, of_edges, "from_pyg")
        values.update(of_edges)
    features = {belongs.get(key, text): x for key, x in values.items()}
    if len(features) < len(values):
        raise IncidenceError(f"from_pyg: two of {', '.join(values)} belong to one tensor. Join them first, or name one, as in `charge=i`.")
    # What `to_pyg` keeps under names of its own: `index_`, the number of a part, and the pattern; `features` or `target` and the pattern.
    parts: dict[str, dict[int, Tensor]] = {}
    of_entries: dict[str, Tensor] = {}
    for key in data.keys():  # noqa: SIM118
        word, _, rest = key.partition(" ")
        if word.startswith("index_"):
            parts.setdefault(rest, {})[int(word.removeprefix("index_"))] = data[key]
        elif key.startswith("features "):
            features[rest] = data[key]
        elif key.startswith("target "):
            of_entries[rest] = data[key]
    index.update({name: own[0] if len(own) == 1 else tuple(own[k] for k in sorted(own)) for name, own in parts.items()})
    y: Any = of_entries or None
    if data.get("y") is not None and not of_entries:
        y = torch.as_tensor(data.y)
        y = {target: y} if target else y[0] if y.ndim and len(y) == 1 and homes is None else y
    return Example(_structure({"node": num_nodes}, index, homes, num_graphs), features, y, is_batch=homes is not None)


def to_pyg(example: Example | Structure) -> Any:
    r"""Writes an example or a structure as PyG data: `Data`, with several sorts `HeteroData`, and a `Batch` for a batch.

    The edges become `edge_index`, undirected ones in both directions, as is the custom there. Everything has a place: tensors without one
    of their own are kept as attributes such as `index_0 {i j k l}`, which PyG batches rightly, with `features {i j k l}` beside them. So
    `from_pyg(to_pyg(example)) == example`.

    Example:
        >>> s = Structure(3, {"{i j}": [[0, 1], [1, 2]]})
        >>> to_pyg(Example(s, {"i": torch.zeros(3, 5)}))
        Data(edge_index=[2, 4], x=[3, 5], num_nodes=3)
    """
    pyg = need("torch_geometric.data", "to_pyg", "convert")
    example = as_example(example, "to_pyg")
    if example.is_batch:
        return pyg.Batch.from_data_list([to_pyg(one) for one in example])
    if set(example.structure.counts) != {"node"}:
        return _write_sorts(pyg, example)
    data = pyg.Data()
    known: dict[Pattern, str] = {Pattern(text): key for key, text in _KNOWN_FEATURES.items()}
    known_index = {Pattern(text): key for key, text in _KNOWN_INDEX.items()}
    rows: dict[Pattern, Tensor] = {}
    edges = next((p for p in example.structure.patterns if is_edge(p) and p.name is None), None)
    for pattern in example.structure.patterns:
        if pattern == edges:
            data.edge_index, rows[pattern] = both_ways(pattern, example.structure[pattern])
            known[pattern] = "edge_attr"
            if str(pattern) != "{i j}":
                data.edge_pattern = str(pattern)
            continue
        index = example.structure[pattern]
        if pattern in known_index:
            data[known_index[pattern]] = index
            continue
        for number, part in enumerate(index if isinstance(index, tuple) else (index,)):
            data[f"index_{number} {pattern}"] = part
    for key, x in example.features.items():
        pattern = example.structure.resolve(key)
        data[known.get(pattern, f"features {pattern}")] = x[rows[pattern]] if pattern in rows else x
    target = example.target
    if isinstance(target, Tensor):
        data.y, data.target_of = target[None], ""
    elif target is not None and list(target) == ["i"]:
        data.y, data.target_of = target["i"], "i"
    else:
        for key, x in (target or {}).items():
            data[f"target {key}"] = x
    data.num_nodes = example.structure.num_nodes
    return data


_UNNAMED = "to"
"""What PyG calls a relation that has no name."""


def _read_sorts(data: Any, homes: Homes = None, num_graphs: int = 1) -> Example:
    """An example from `HeteroData`: `x` are the features of nodes, `pos` those of a tensor named after sort, `y` the target; or a batch."""
    counts: dict[str, int] = {}
    features: dict[str, Tensor] = {}
    target: dict[str, Tensor] = {}
    for sort in data.node_types:
        known = [key for key in ("num_nodes", "x", "pos", "y", "batch") if key in data[sort]]
        if not known:
            raise IncidenceError(f"from_pyg: the number of nodes of `{sort}` is not known. Set data['{sort}'].num_nodes or .x.")
        counts[sort] = int(data[sort].num_nodes) if known[0] == "num_nodes" else len(data[sort][known[0]])
        for key, text in {"x": f"i:{sort}", "pos": f"{sort}_pos=i:{sort}"}.items():
            if data[sort].get(key) is not None:
                features[text] = as_rows(data[sort][key], "from_pyg", f"{key} of `{sort}`")
        if data[sort].get("y") is not None:
            target[f"i:{sort}"] = torch.as_tensor(data[sort].y)
    index: dict[str, Any] = {}
    for kind in data.edge_types:
        text = _relation_text(data, kind)
        if text in index:
            raise IncidenceError(f"from_pyg: two edge types are `{text}` here. Rename a relation, as names tell tensors apart.")
        values = {"edge_attr": as_rows(data[kind].edge_attr, "from_pyg", "edge_attr")} if "edge_attr" in data[kind] else {}
        index[text], values = _by_graph(data[kind].edge_index, values, homes, kind[0])
        pattern = Pattern(text)
        if is_edge(pattern):
            index[text], values = once(pattern, index[text], counts[kind[0]], values, "from_pyg")
        if values:
            features[text] = values["edge_attr"]
    whole = data.get("y") if "y" in data._global_store else None
    of_whole = None if whole is None else whole if homes else whole[0]
    return Example(_structure(counts, index, homes, num_graphs), features, target or of_whole, is_batch=homes is not None)


def _relation_text(data: Any, kind: tuple[str, str, str]) -> str:
    if "edge_pattern" in data[kind]:
        told = data[kind].edge_pattern
        return str(told[0] if isinstance(told, list) else told)
    source, relation, target = kind
    faces = f"(i:{source} j:{source})" if source == target else f"i:{source} j:{target}"
    others = [other for other in data.edge_types if other[1] == relation]
    name = relation if len(others) == 1 and not is_letter(relation) else f"{source}_{relation}_{target}"
    return faces if relation == _UNNAMED else f"{name}={faces}"


def _write_sorts(pyg: Any, example: Example) -> Any:
    """An example as `HeteroData`; tensors must have two letters, as edges there do."""
    data, structure = pyg.HeteroData(), example.structure
    for sort, count in structure.counts.items():
        data[sort].num_nodes = count
    place: dict[Pattern, tuple[Any, str, Tensor | None]] = {Pattern(f"i:{sort}"): (data[sort], "x", None) for sort in structure.counts}
    place.update({Pattern(f"{sort}_pos=i:{sort}"): (data[sort], "pos", None) for sort in structure.counts})
    for pattern in structure.patterns:
        if len(pattern.letters) != 2 or pattern.is_open or pattern.name == _UNNAMED:
            raise IncidenceError(f"to_pyg: HeteroData holds pairs of nodes, and no `{pattern}`. Leave it out, or call it otherwise.")
        source, target = (pattern.sorts[letter] for letter in pattern.letters)
        kind = (source, pattern.name or _UNNAMED, target)
        if kind in data.edge_types:
            raise IncidenceError(f"to_pyg: two tensors are of the edge type {kind}: name `{pattern}`, or leave it out.")
        store = data[kind]
        store.edge_pattern = str(pattern)
        store.edge_index, rows = both_ways(pattern, structure[pattern]) if is_edge(pattern) else (structure[pattern], None)
        place[pattern] = (store, "edge_attr", rows)
    for key, x in example.features.items():
        pattern = structure.resolve(key)
        if pattern not in place:
            raise IncidenceError(
                f"to_pyg: HeteroData has no place for features of `{str(pattern) or 'the whole structure'}`: leave them out."
            )
        store, name, rows = place[pattern]
        store[name] = x if rows is None else x[rows]
    if isinstance(example.target, Tensor):
        data.y = example.target[None]
    for key, x in (example.target if isinstance(example.target, dict) else {}).items():
        pattern = structure.resolve(key)
        if len(pattern.letters) != 1 or pattern in structure.patterns:
            raise IncidenceError(f"to_pyg: HeteroData has no place for a target of `{key}`, only for those of nodes: leave it out.")
        data[pattern.sorts[pattern.letters[0]]].y = x
    for store in data.node_stores:
        if list(store.keys()) == ["num_nodes"]:  # PyG makes a batch of such nodes, but cannot take it apart again
            store.n_id = torch.arange(store.num_nodes, device=structure.device)
    return data
