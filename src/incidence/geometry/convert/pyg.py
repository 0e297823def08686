"""PyG: `Data`, `HeteroData`, `Batch`, and data sets."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from incidence.algebra.pattern import Pattern
from incidence.errors import IncidenceError, need
from incidence.geometry.assembly import brackets, face_text, is_edge
from incidence.geometry.convert.exchange import Homes, Pairs, as_example, as_rows, both_ways, by_graph, once, with_graphs
from incidence.geometry.convert.hetero import read_sorts, write_sorts
from incidence.structure import Example, Structure, collate, uncollate

__all__ = ["collate_graphs", "from_pyg", "read_graphs", "to_pyg", "warn_of_unused"]

_KNOWN_FEATURES = {"x": "i", "pos": "pos=i", "hyperedge_attr": "{i ...}"}
_KNOWN_INDEX = ("hyperedge_index", "face")
_OF_PYG = ("edge_index", "edge_attr", "y", "num_nodes", "batch", "ptr", "n_id")
_READ = frozenset((*_KNOWN_FEATURES, *_KNOWN_INDEX, *_OF_PYG, "edge_pattern", "target_of"))
_TOLD: set[tuple[str, ...]] = set()  # the attributes that warnings were about
_MANY = 8  # graphs, from which on it is faster to read a batch of them


def from_pyg(data: Any, *, edges: str | None = None, features: Mapping[str, str] | None = None, target: str | None = None) -> Any:
    r"""Reads PyG data: `Data` or `HeteroData` gives an example, a `Batch` a batch, a list or data set a list of examples.

    `Data` and `HeteroData` whose nodes have `batch`, the graph of every node, are batches too.
    Nodes and edges keep their order; those of a batch stand by graph. `x` are the features of `i`, `edge_attr` of the edges, `pos` of
    `pos=i`, `hyperedge_attr` of `{i ...}`; `hyperedge_index` is `{i ...}`, `face` is `{i j k}`, or `<i j k>` beside oriented edges.
    `HeteroData` gives sorts: its node types, each with a letter of its own, with a tensor for each edge type, called as the relation is.
    What else the data has is read only if `features` says what it belongs to; a warning names what is not.

    Args:
        data: The data.
        edges: How `edge_index` is read: `{i j}`, if not given, for undirected edges, which may come in one direction or both; `(i j)` for
            directed ones; `[i j]` or `i j` if there are loops; `<i j>` for flows, with opposite features in the two directions, oriented as
            they come first.
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
    is_one = isinstance(data, pyg.data.BaseData)
    if not is_one and not isinstance(data, Iterable):
        raise IncidenceError(f"from_pyg takes Data, HeteroData, a Batch, or a list or data set of them; got {type(data).__name__}.")
    items = [data] if is_one else list(data)
    warn_of_unused(items, features or {}, stacklevel=3)
    found = read_graphs(items, edges, features, target)
    return found[0] if is_one else found


class _Reading(NamedTuple):
    """What the caller has said about the data: how edges are read, what else is, and what `y` belongs to."""

    edges: str | None
    features: Mapping[str, str]
    target: str | None


def read_graphs(
    items: Sequence[Any], edges: str | None = None, features: Mapping[str, str] | None = None, target: str | None = None
) -> list[Example]:
    """What `from_pyg` gives for every one of a list, without a word about attributes that are not used."""
    pyg, reading = need("torch_geometric.data", "from_pyg", "convert"), _Reading(edges, features or {}, target)
    if any(_is_batch(pyg, item) for item in items):
        return [_read_batch(pyg, item, reading) if _is_batch(pyg, item) else _read_all(pyg, [item], reading)[0] for item in items]
    return _read_together(pyg, items, reading) or _read_all(pyg, items, reading)


def warn_of_unused(items: Iterable[Any], used: Collection[str], stacklevel: int = 2) -> None:
    """Names the attributes that are not read, in one warning, once: Python's own memory of warnings is lost whenever filters change."""
    stores = (store for item in items for store in getattr(item, "stores", ()))
    names = (key if store._key is None else f"{key} of {store._key}" for store in stores for key in store if not _is_read(key, used))
    unused = tuple(dict.fromkeys(names))
    if unused and unused not in _TOLD:
        _TOLD.add(unused)
        hint = "say with features= what they belong to, as in features={'z': 'charge=i'}, or leave them"
        warnings.warn(f"these attributes of the data are not used: {', '.join(unused)} ({hint}).", stacklevel=stacklevel)


def _is_read(key: str, used: Collection[str]) -> bool:
    return key in _READ or key in used or key.startswith(("index_", "features ", "target "))


def _is_batch(pyg: Any, data: Any) -> bool:
    """Whether nodes tell of their graph; a `batch` that is no row of numbers is an attribute like others."""
    stores = data.node_stores if isinstance(data, (pyg.Data, pyg.HeteroData)) else ()
    return isinstance(data, pyg.Batch) or any(isinstance(own.get("batch"), Tensor) and own.batch.ndim == 1 for own in stores)


def _read_all(pyg: Any, items: Sequence[Any], reading: _Reading) -> list[Example]:
    if items and all(isinstance(item, pyg.HeteroData) for item in items):
        return [read_sorts(item) for item in items]
    for number, item in enumerate(items):
        if not isinstance(item, pyg.Data):
            raise IncidenceError(f"from_pyg: number {number} of the list is a {type(item).__name__}, and all must be Data, or HeteroData.")
    belongs = _target_of(items) if reading.target is None else reading.target
    return [_read(item, reading, belongs) for item in items]


def _read_together(pyg: Any, items: Sequence[Any], reading: _Reading) -> list[Example]:
    """The same for many graphs that are alike, by a batch of them, which takes a twentieth of the time; none where it cannot be had."""
    whole = _together(pyg, items, reading) if len(items) >= _MANY else None
    return [] if whole is None else uncollate(whole)


def collate_graphs(items: Sequence[Any]) -> Example:
    """Graphs side by side, as `collate(from_pyg(items))` gives them."""
    pyg, reading = need("torch_geometric.data", "collate of data of PyG", "convert"), _Reading(None, {}, None)
    for number, item in enumerate(items):
        if not isinstance(item, pyg.data.BaseData):
            raise IncidenceError(
                f"collate: number {number} of the list is a {type(item).__name__} among graphs of PyG: use from_pyg first."
            )
    warn_of_unused(items, (), stacklevel=4)
    whole = _together(pyg, items, reading)
    return collate(read_graphs(items)) if whole is None else whole


def _together(pyg: Any, items: Sequence[Any], reading: _Reading) -> Example | None:
    """Graphs that are alike, read as a batch; None where it cannot be had."""
    kinds = {_kind(item) for item in items} if all(isinstance(item, pyg.Data) and not _is_batch(pyg, item) for item in items) else set()
    if len(kinds) != 1 or not {"x", "num_nodes"} & {key for key, *_ in next(iter(kinds))}:
        return None
    target = _target_of(items) if reading.target is None else reading.target
    try:
        return _read_whole(pyg, pyg.Batch.from_data_list(list(items)), reading._replace(target=target))
    except (IncidenceError, RuntimeError, TypeError, LookupError):  # one by one, it is said which does not fit
        return None


def _kind(data: Any) -> tuple[tuple[object, ...], ...]:
    """What graphs have in common that PyG puts together without a change."""
    return tuple((key, type(value), getattr(value, "dtype", None), getattr(value, "ndim", 0)) for key, value in data._store.items())


def _read_batch(pyg: Any, batch: Any, reading: _Reading) -> Example:
    whole = _read_whole(pyg, batch, reading)
    return collate(_read_all(pyg, _apart(batch), reading)) if whole is None else whole


def _read_whole(pyg: Any, batch: Any, reading: _Reading) -> Example | None:
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
        return None if y is not None and len(y) != count else read_sorts(batch, homes, count)
    own = [key for key in batch.keys() if key in ("hyperedge_index", *reading.features) or " " in key]  # noqa: SIM118
    if any("index" in key or "batch" in key for key in own):  # PyG adds the number of nodes to all of these, and hyperedges are none
        return None
    belongs = _whole_target_of(batch, homes["node"], count) if reading.target is None else reading.target
    return None if belongs == "" and y is not None and len(y) != count else _read(batch, reading, belongs, homes, count)


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


def _apart(batch: Any) -> list[Any]:
    try:
        return list(batch.to_data_list())
    except (AttributeError, KeyError, RuntimeError) as error:
        raise IncidenceError(
            f"from_pyg: PyG cannot take this batch apart ({error!r}), and it cannot be read as a whole: that takes `batch` for all nodes, "
            f"no hyperedges, and `y` with a row for each node or graph. Make it by Batch.from_data_list."
        ) from None


def _target_of(items: Sequence[Any]) -> str:
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


def _index_texts(edges: Pattern | None) -> dict[str, str]:
    """What the attributes that list faces are, beside edges of some pattern: with orientations, where edges have them."""
    triangles = face_text(3, brackets=brackets(edges is not None and edges.is_oriented))
    return dict(zip(_KNOWN_INDEX, ("{i ...}", triangles), strict=True))


def _read(data: Any, reading: _Reading, target: str, homes: Homes = None, num_graphs: int = 1) -> Example:
    """An example; or a batch, if the graph of every node and the number of graphs are given."""
    num_nodes, extra = _count_nodes(data), reading.features
    told = data.get("edge_pattern")
    text = reading.edges or (told[0] if isinstance(told, list) else told) or "{i j}"
    belongs = {**_KNOWN_FEATURES, **extra}
    values = {key: as_rows(data[key], "from_pyg", key) for key in ("edge_attr", *belongs) if data.get(key) is not None}
    for key in extra:
        if key not in values:
            raise IncidenceError(f"from_pyg: the data has no attribute `{key}`; it has {', '.join(data.keys())}.")
    index: dict[str, Any] = {known: data[key] for key, known in _index_texts(Pattern(text)).items() if data.get(key) is not None}
    if data.get("edge_index") is not None:
        pattern, pairs = Pattern(text), torch.as_tensor(data.edge_index)
        if not is_edge(pattern) or set(pattern.sorts.values()) != {"node"}:
            raise IncidenceError(f"from_pyg: edges are read as `{{i j}}`, `(i j)`, `<i j>`, `[i j]` or `i j`; got `{text}`.")
        of_edges = {key: x for key, x in values.items() if key == "edge_attr" or Pattern(belongs.get(key, "")) == pattern}
        for key, x in of_edges.items():
            if len(x) != pairs.shape[1]:
                raise IncidenceError(f"from_pyg: {key} has {len(x)} rows, and edge_index has {pairs.shape[1]} columns.")
        pairs, of_edges = by_graph(pairs, of_edges, homes, "node")
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
    return Example(with_graphs({"node": num_nodes}, index, homes, num_graphs), features, y, is_batch=homes is not None)


def to_pyg(example: Example | Structure) -> Any:
    r"""Writes an example or a structure as PyG data: `Data`, with several sorts `HeteroData`, and a `Batch` for a batch.

    The edges become `edge_index`, undirected ones in both directions, as is the custom there, oriented ones with opposite features.
    Everything has a place: tensors without one of their own are kept as attributes such as `index_0 {i j k l}`, which PyG batches
    rightly, with `features {i j k l}` beside them. So `from_pyg(to_pyg(example)) == example`.

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
        return write_sorts(pyg.HeteroData(), example)
    data = pyg.Data()
    known: dict[Pattern, str] = {Pattern(text): key for key, text in _KNOWN_FEATURES.items()}
    rows: dict[Pattern, Pairs] = {}
    edges = next((p for p in example.structure.patterns if is_edge(p) and p.name is None), None)
    known_index = {Pattern(text): key for key, text in _index_texts(edges).items()}
    for pattern in example.structure.patterns:
        if pattern == edges:
            rows[pattern] = both_ways(pattern, example.structure[pattern])
            data.edge_index = rows[pattern].nodes
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
        data[known.get(pattern, f"features {pattern}")] = rows[pattern].values(x) if pattern in rows else x
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
