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
from incidence.geometry.convert.exchange import (
    Homes,
    Pairs,
    as_example,
    as_numbers,
    as_rows,
    both_ways,
    whole_target,
    with_graphs,
)
from incidence.geometry.convert.hetero import other_names, read_sorts, write_sorts
from incidence.geometry.convert.simple import TARGET, Changes, Once, entries, simply
from incidence.structure import Example, Structure, collate, uncollate

__all__ = [
    "NO_TARGET",
    "Reading",
    "from_pyg",
    "name_in",
    "read_each",
    "read_graphs",
    "read_together",
    "to_pyg",
    "warn_about",
]

NO_TARGET = "-"
"""What `y` belongs to for those who do not ask."""

_KNOWN_FEATURES = {"x": "i", "pos": "pos=i", "hyperedge_attr": "{i ...}"}
_KNOWN_INDEX = ("hyperedge_index", "face")
_OF_PYG = ("edge_index", "edge_attr", "y", "num_nodes", "batch", "ptr", "n_id")
_READ = frozenset((*_KNOWN_FEATURES, *_KNOWN_INDEX, *_OF_PYG, "edge_pattern", "target_of"))
_TOLD: set[tuple[str, ...]] = set()  # the attributes, and the names, that warnings were about
_OF_EDGES = (
    "edge_index"  # what `y` belongs to, where it is found out before it is known how edges are read
)
_MANY = 8  # graphs, from which on it is faster to read a batch of them


def from_pyg(
    data: Any,
    *,
    edges: str | None = None,
    features: Mapping[str, str] | None = None,
    target: str | None = None,
) -> Any:
    r"""Reads PyG data: `Data` or `HeteroData` gives an example, a `Batch` a batch, a list or data set a list of examples.

    `Data` and `HeteroData` whose nodes have `batch`, the graph of every node, are batches too.
    Nodes and edges keep their order; those of a batch stand by graph. `x` are the features of `i`, `edge_attr` of the edges, `pos` of
    `pos=i`, `hyperedge_attr` of `{i ...}`; `hyperedge_index` is `{i ...}`, `face` is `{i j k}`, or `<i j k>` beside oriented edges.
    `HeteroData` gives sorts: its node types, each with a letter of its own, with a tensor for each edge type, called as the relation is;
    `is-a` and `2` are no names here, and are called `is_a` and `_2`.
    What else the data has is read only if `features` says what it belongs to; a warning names what is not.

    Args:
        data: The data.
        edges: How `edge_index` is read: `{i j}`, if not given, for undirected edges, which may come in one direction or both; `(i j)` for
            directed ones; `[i j]` or `i j` if there are loops; `<i j>` for flows, with opposite features in the two directions, oriented as
            they come first.
        features: Further attributes and what they belong to, as in `{"z": "charge=i"}`.
        target: What `y` belongs to: `i` for nodes, the pattern of the edges for those, the empty text for the whole. If not given, it is
            found out: as many rows as nodes, or else as columns of `edge_index`, are theirs; the two directions of an edge must agree.

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
        raise IncidenceError(
            f"from_pyg takes Data, HeteroData, a Batch, or a list or data set of them; got {type(data).__name__}."
        )
    items = [data] if is_one else list(data)
    warn_about(items, features or {}, stacklevel=3)
    found = read_graphs(items, Reading(edges, features or {}, target))
    return found[0] if is_one else found


class Reading(NamedTuple):
    """What the caller has said about the data: how edges are read, what else is, and what `y` belongs to.

    `changes` counts the loops that are left out and the parallel edges that are joined; they are refused, if nobody counts.
    """

    edges: str | None = None
    features: Mapping[str, str] = {}
    target: str | None = None
    changes: Changes | None = None


def read_graphs(items: Sequence[Any], reading: Reading) -> list[Example]:
    """What `from_pyg` gives for every one of a list, without a word about attributes that are not used."""
    whole = read_together(items, reading) if len(items) >= _MANY else None
    return read_each(items, reading) if whole is None else uncollate(whole)


def read_each(items: Sequence[Any], reading: Reading) -> list[Example]:
    """The same, one by one."""
    pyg = need("torch_geometric.data", "from_pyg", "convert")
    if any(_is_batch(pyg, item) for item in items):
        return [
            _read_batch(pyg, item, reading)
            if _is_batch(pyg, item)
            else _read_all(pyg, [item], reading)[0]
            for item in items
        ]
    return _read_all(pyg, items, reading)


def warn_about(items: Sequence[Any], used: Collection[str], stacklevel: int = 2) -> None:
    """Names the attributes that are not read, and the types that have other names here, in a warning each, once.

    Python's own memory of warnings is lost whenever filters change.
    """
    stores = [store for item in items for store in getattr(item, "stores", ())]
    names = (name_in(store, key) for store in stores for key in store if not _is_read(key, used))
    unused = tuple(name for name in dict.fromkeys(names) if name not in used)
    if unused and unused not in _TOLD:
        _TOLD.add(unused)
        hint = "say with features= what they belong to, as in features={'z': 'charge=i'}, or leave them"
        warnings.warn(
            f"these attributes of the data are not used: {', '.join(unused)} ({hint}).",
            stacklevel=stacklevel,
        )
    others = {
        word: name
        for item in items
        if hasattr(item, "edge_types")
        for word, name in other_names(item).items()
    }
    renamed = tuple(f"`{word}` is `{name}`" for word, name in others.items())
    if renamed and renamed not in _TOLD:
        _TOLD.add(renamed)
        warnings.warn(
            f"names here are of letters, digits and `_`, not a digit first: {', '.join(renamed)}.",
            stacklevel=stacklevel,
        )


def name_in(store: Any, key: str) -> str:
    """What a warning calls an attribute, which may be that of a node type."""
    return key if store._key is None else f"{key} of {store._key}"


def _is_read(key: str, used: Collection[str]) -> bool:
    return key in _READ or key in used or key.startswith(("index_", "features ", "target "))


def _is_batch(pyg: Any, data: Any) -> bool:
    """Whether nodes tell of their graph; a `batch` that is no row of numbers is an attribute like others."""
    stores = data.node_stores if isinstance(data, (pyg.Data, pyg.HeteroData)) else ()
    return isinstance(data, pyg.Batch) or any(
        isinstance(own.get("batch"), Tensor) and own.batch.ndim == 1 for own in stores
    )


def _read_all(pyg: Any, items: Sequence[Any], reading: Reading) -> list[Example]:
    if items and all(isinstance(item, pyg.HeteroData) for item in items):
        return [_read_sorts(item, reading) for item in items]
    for number, item in enumerate(items):
        if not isinstance(item, pyg.Data):
            raise IncidenceError(
                f"from_pyg: number {number} of the list is a {type(item).__name__}, and all must be Data, or HeteroData."
            )
    belongs = _target_of(items) if reading.target is None else reading.target
    return [_read(item, reading, belongs) for item in items]


def read_together(items: Sequence[Any], reading: Reading) -> Example | None:
    """Graphs that are alike, read as a batch, which takes a twentieth of the time; None where it cannot be had."""
    pyg = need("torch_geometric.data", "from_pyg", "convert")
    kinds = (
        {_kind(item) for item in items}
        if all(isinstance(item, pyg.Data) and not _is_batch(pyg, item) for item in items)
        else set()
    )
    if len(kinds) != 1 or not {"x", "num_nodes"} & {key for key, *_ in next(iter(kinds))}:
        return None
    target = _target_of(items) if reading.target is None else reading.target
    try:
        return _read_whole(
            pyg, pyg.Batch.from_data_list(list(items)), reading._replace(target=target)
        )
    except (
        IncidenceError,
        RuntimeError,
        TypeError,
        LookupError,
    ):  # one by one, it is said which does not fit
        return None


def _kind(data: Any) -> tuple[tuple[object, ...], ...]:
    """What graphs have in common that PyG puts together without a change."""
    return tuple(
        (key, type(value), getattr(value, "dtype", None), getattr(value, "ndim", 0))
        for key, value in data._store.items()
    )


def _read_batch(pyg: Any, batch: Any, reading: Reading) -> Example:
    whole = _read_whole(pyg, batch, reading)
    return collate(_read_all(pyg, _apart(batch), reading)) if whole is None else whole


def _read_whole(pyg: Any, batch: Any, reading: Reading) -> Example | None:
    """A batch by the graph of every node, also one that was made by hand or changed; None where only its graphs tell what is meant."""
    homes = {store._key or "node": store.batch for store in batch.node_stores if "batch" in store}
    told = [store.get("edge_pattern") for store in batch.stores]
    base = pyg.HeteroData if isinstance(batch, pyg.HeteroData) else pyg.Data
    is_mixed = any(isinstance(own, list) and len(set(own)) > 1 for own in told)
    y = (
        batch.get("y") if "y" in batch.stores[0] and reading.target != NO_TARGET else None
    )  # of HeteroData that of the whole graphs
    is_odd = y is not None and (not isinstance(y, Tensor) or not y.ndim)
    if (
        len(homes) < len(batch.node_stores)
        or type(batch).__inc__ is not base.__inc__
        or is_mixed
        or is_odd
    ):
        return None
    try:
        count = int(batch.num_graphs)
    except (
        AttributeError,
        ValueError,
        RuntimeError,
    ):  # then nothing tells of graphs without nodes at the end
        count = 0
    count = max([count, 1, *(int(home.max()) + 1 for home in homes.values() if len(home))])
    if base is pyg.HeteroData:
        return (
            None if y is not None and len(y) != count else _read_sorts(batch, reading, homes, count)
        )
    own = [
        key for key in batch.keys() if key in ("hyperedge_index", *reading.features) or " " in key
    ]  # noqa: SIM118
    if any(
        "index" in key or "batch" in key for key in own
    ):  # PyG adds the number of nodes to all of these, and hyperedges are none
        return None
    belongs = (
        _whole_target_of(batch, homes["node"], count) if reading.target is None else reading.target
    )
    return (
        None
        if belongs == "" and y is not None and len(y) != count
        else _read(batch, reading, belongs, homes, count)
    )


def _whole_target_of(batch: Any, home: Tensor, count: int) -> str:
    """What `y` belongs to, from the rows of each graph, where PyG knows them, or else from all rows."""
    y, told = batch.get("y"), batch.get("target_of")
    if told or y is None:
        return (told[0] if isinstance(told, list) else told) or ""
    sizes = torch.bincount(
        home.long().clamp(min=0), minlength=count
    )  # a home that is none is refused by the structure
    slices: Any = (getattr(batch, "_slice_dict", None) or {}).get("y")
    is_known = slices is not None and len(slices) == count + 1 and int(slices[-1]) == len(y)
    rows = (
        slices.diff().to(sizes.device)
        if is_known
        else sizes
        if count != len(y) == len(home)
        else torch.ones_like(sizes)
    )
    if torch.equal(rows, sizes) and bool((sizes > 1).any()):
        return "i"
    if not len(home) or not count != len(y) == _num_columns(batch) > 2:
        return ""
    columns = torch.bincount(
        home[batch.edge_index[0].long().clamp(0, len(home) - 1)].long().clamp(min=0),
        minlength=count,
    )
    return (
        _OF_EDGES
        if bool((columns > 2).any()) and (not is_known or torch.equal(rows, columns))
        else ""
    )


def _num_columns(data: Any) -> int:
    pairs = data.get("edge_index")
    return pairs.shape[1] if isinstance(pairs, Tensor) and pairs.ndim == 2 else 0


def _apart(batch: Any) -> list[Any]:
    try:
        return list(batch.to_data_list())
    except (AttributeError, KeyError, RuntimeError) as error:
        raise IncidenceError(
            f"from_pyg: PyG cannot take this batch apart ({error!r}), and it cannot be read as a whole: that takes `batch` for all nodes, "
            f"no hyperedges, and `y` with a row for each node or graph. Make it by Batch.from_data_list."
        ) from None


def _target_of(items: Sequence[Any]) -> str:
    """What `y` belongs to: to nodes if it has as many rows as nodes everywhere, else to edges if it has as many as `edge_index` columns.

    One node tells nothing; nor do two columns, which may be one edge of a graph that has two numbers for its target.
    """
    told = {item["target_of"] for item in items if "target_of" in item}
    if told:
        return str(told.pop())
    some = [item for item in items if isinstance(item.get("y"), Tensor) and item.y.ndim]
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore"
        )  # of PyG, about a number that is not known: it is refused later
        rows = [(len(item.y), item.num_nodes) for item in some]
    if all(n == m for n, m in rows) and any(m > 1 for _, m in rows):
        return "i"
    is_of_edges = all(len(item.y) == _num_columns(item) for item in some) and any(
        len(item.y) > 2 for item in some
    )
    return _OF_EDGES if is_of_edges else ""


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


def _read_sorts(data: Any, reading: Reading, homes: Homes = None, num_graphs: int = 1) -> Example:
    """An example of `HeteroData`, or a batch."""
    if reading.edges is not None or reading.features:
        raise IncidenceError(
            "from_pyg: the node types and relations of HeteroData say what there is: leave out edges= and features=."
        )
    return simply(lambda once: read_sorts(data, once, homes, num_graphs), reading.changes)


def _read(
    data: Any, reading: Reading, target: str, homes: Homes = None, num_graphs: int = 1
) -> Example:
    """An example; or a batch, if the graph of every node and the number of graphs are given."""
    return simply(
        lambda once: _example(data, reading, target, once, homes, num_graphs), reading.changes
    )


def _example(
    data: Any, reading: Reading, target: str, once: Once, homes: Homes, num_graphs: int
) -> Example:
    num_nodes, extra = _count_nodes(data), reading.features
    told = data.get("edge_pattern")
    text = reading.edges or (told[0] if isinstance(told, list) else told) or "{i j}"
    belongs = {**_KNOWN_FEATURES, **extra}
    values = {
        key: as_rows(data[key], "from_pyg", key)
        for key in ("edge_attr", *belongs)
        if data.get(key) is not None
    }
    for key in extra:
        if key not in values:
            raise IncidenceError(
                f"from_pyg: the data has no attribute `{key}`; it has {', '.join(data.keys())}."
            )
    index: dict[str, Any] = {
        known: data[key]
        for key, known in _index_texts(Pattern(text)).items()
        if data.get(key) is not None
    }
    y: Any = (
        None
        if target == NO_TARGET or data.get("y") is None
        else as_numbers(data.y, "from_pyg", "y")
    )
    where = text if target == _OF_EDGES else target
    if data.get("edge_index") is not None:
        pattern = Pattern(text)
        if not is_edge(pattern) or set(pattern.sorts.values()) != {"node"}:
            raise IncidenceError(
                f"from_pyg: edges are read as `{{i j}}`, `(i j)`, `<i j>`, `[i j]` or `i j`; got `{text}`."
            )
        of_edges = {
            key: x
            for key, x in values.items()
            if key == "edge_attr" or Pattern(belongs.get(key, "")) == pattern
        }
        if y is not None and where not in ("", "i") and Pattern(where) == pattern:
            of_edges[TARGET] = as_rows(y, "from_pyg", "y")
        index[text], of_edges = entries(
            once, pattern, data.edge_index, num_nodes, of_edges, homes, "node"
        )
        if TARGET in of_edges and TARGET not in values:
            y = of_edges.pop(TARGET).view(-1, *y.shape[1:])
        values.update(of_edges)
    features = {belongs.get(key, text): x for key, x in values.items()}
    if len(features) < len(values):
        raise IncidenceError(
            f"from_pyg: two of {', '.join(values)} belong to one tensor. Join them first, or name one, as in `charge=i`."
        )
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
    index.update(
        {
            name: own[0] if len(own) == 1 else tuple(own[k] for k in sorted(own))
            for name, own in parts.items()
        }
    )
    y = of_entries or (None if y is None else {where: y} if where else whole_target(y, homes))
    return Example(
        with_graphs({"node": num_nodes}, index, homes, num_graphs),
        features,
        y,
        is_batch=homes is not None,
    )


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
        data[known.get(pattern, f"features {pattern}")] = (
            rows[pattern].values(x) if pattern in rows else x
        )
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
