"""PyG: `Data`, `HeteroData`, `Batch`, and data sets, read exactly.

Edges that are no entries are refused; `pyg_lenient.py` changes them.
"""

from __future__ import annotations

import warnings
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from incidence.errors import IncidenceError, need
from incidence.geometry.convert.pyg_graphs import (
    KNOWN,
    NO_TARGET,
    OF_EDGES,
    PygOptions,
    read_graph,
    read_hetero,
    written_by_us,
)
from incidence.geometry.convert.pyg_hetero import other_names
from incidence.structure import Example, collate, uncollate

__all__ = [
    "from_pyg",
    "name_in",
    "read_each",
    "read_graphs",
    "read_together",
    "warn_about",
]

_WARNED: set[tuple[str, ...]] = set()  # the attributes, and the names, that warnings were about
_MANY = 8  # graphs, from which on it is faster to read a batch of them


def from_pyg(
    data: Any,
    *,
    edges: str | None = None,
    features: Mapping[str, str] | None = None,
    target: str | None = None,
) -> Any:
    r"""Read PyG data: `Data` and `HeteroData` as examples, a `Batch` as a batch, a list or data set
    as a list of examples.

    `Data` and `HeteroData` whose nodes have `batch`, the graph of every node, are batches too.
    Nodes and edges keep their order; those of a batch stand by graph. `x` are the features of `i`,
    `edge_attr` of the edges, `pos` of `pos=i`, `hyperedge_attr` of `{i ...}`; `hyperedge_index` is
    `{i ...}`, `face` is `{i j k}`, or `<i j k>` beside oriented edges. `HeteroData` gives sorts:
    its node types, each with a letter of its own. Each edge type is a tensor with the name of its
    relation; `is-a` and `2` are no names here, and become `is_a` and `_2`. Other attributes are
    read only if `features` says what they belong to; a warning names those that are not.

    Args:
        data: The data.
        edges: The pattern of `edge_index`. `{i j}`, the default, is for undirected edges, which may
            come in one direction or both; `(i j)` for directed ones; `[i j]` or `i j` if there are
            loops; `<i j>` for flows, with opposite features in the two directions, oriented as they
            come first.
        features: Further attributes and what they belong to, as in `{"z": "charge=i"}`.
        target: What `y` belongs to: `i` for nodes, the pattern of the edges for those, the empty
            text for the whole. Default: nodes if `y` has as many rows as there are nodes, else
            edges if it has as many rows as `edge_index` has columns, else the whole. The two
            directions of an edge must agree.

    Raises:
        IncidenceError: The data does not fit. The message names loops, parallel edges, and features
            that differ in the two directions of an edge.

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
            "from_pyg takes Data, HeteroData, a Batch, or a list or data set of them; got"
            f" {type(data).__name__}."
        )
    items = [data] if is_one else list(data)
    warn_about(items, features or {}, stacklevel=3)
    examples = read_graphs(items, PygOptions(edges, features or {}, target))
    return examples[0] if is_one else examples


def read_graphs(items: Sequence[Any], options: PygOptions) -> list[Example]:
    """Return what `from_pyg` gives for every one of a list, without warnings."""
    batch = read_together(items, options) if len(items) >= _MANY else None
    return read_each(items, options) if batch is None else uncollate(batch)


def read_each(items: Sequence[Any], options: PygOptions) -> list[Example]:
    """Return the same, and read one by one."""
    pyg = need("torch_geometric.data", "from_pyg", "convert")
    if not any(_is_batch(pyg, item) for item in items):
        return _read_all(pyg, items, options)
    examples = []
    for item in items:
        if _is_batch(pyg, item):
            examples.append(_read_batch(pyg, item, options))
        else:
            examples += _read_all(pyg, [item], options)
    return examples


def read_together(items: Sequence[Any], options: PygOptions) -> Example | None:
    """Return graphs that are alike as a batch, which takes a twentieth of the time.

    It is None where the graphs cannot be read together. Reading one by one then says which of them
    does not fit.
    """
    pyg = need("torch_geometric.data", "from_pyg", "convert")
    if not items or any(not isinstance(x, pyg.Data) or _is_batch(pyg, x) for x in items):
        return None
    # PyG would silently drop an attribute that the first graph lacks.
    first, *others = {_attribute_types(item) for item in items}
    if others or not {"x", "num_nodes"} & {key for key, *_ in first}:
        return None
    target = _target_of(items) if options.target is None else options.target
    try:
        batch = pyg.Batch.from_data_list(list(items))
        return _read_whole(pyg, batch, options._replace(target=target))
    # of our checks, or of PyG's `cat`
    except (IncidenceError, RuntimeError, TypeError, LookupError):
        return None


def _attribute_types(data: Any) -> tuple[tuple[object, ...], ...]:
    """What graphs have in common that PyG puts together without a change."""
    return tuple(
        (key, type(value), getattr(value, "dtype", None), getattr(value, "ndim", 0))
        for key, value in data._store.items()
    )


def warn_about(items: Sequence[Any], used: Collection[str], stacklevel: int = 2) -> None:
    """Warn of attributes that are not read, and of types that have other names here; of each once.

    Python's own memory of warnings is lost whenever filters change.
    """
    stores = [store for item in items for store in getattr(item, "stores", ())]
    names = (name_in(store, key) for store in stores for key in store if not _is_read(key, used))
    unused = [name for name in dict.fromkeys(names) if name not in used]
    renamed: dict[str, str] = {}
    for item in items:
        if hasattr(item, "edge_types"):
            renamed.update(other_names(item))
    _warn_once(
        "these attributes of the data are not used: {} (say with features= what they belong to, as"
        " in features={{'z': 'charge=i'}}, or leave them).",
        unused,
        stacklevel,
    )
    _warn_once(
        "names here are of letters, digits and `_`, not a digit first: {}.",
        [f"`{word}` is `{name}`" for word, name in renamed.items()],
        stacklevel,
    )


def _warn_once(message: str, names: Sequence[str], stacklevel: int) -> None:
    if names and tuple(names) not in _WARNED:
        _WARNED.add(tuple(names))
        warnings.warn(message.format(", ".join(names)), stacklevel=stacklevel + 1)


def name_in(store: Any, key: str) -> str:
    """Return the name of an attribute in warnings, with its node type if there are several."""
    return key if store._key is None else f"{key} of {store._key}"


def _is_read(key: str, used: Collection[str]) -> bool:
    return key in KNOWN or key in used or key.startswith(("index_", "features ", "target "))


def _is_batch(pyg: Any, data: Any) -> bool:
    """Whether nodes have a graph; a `batch` that is no row of numbers is another attribute."""
    if isinstance(data, pyg.Batch):
        return True
    if not isinstance(data, (pyg.Data, pyg.HeteroData)):
        return False
    batches = [store.get("batch") for store in data.node_stores]
    return any(isinstance(x, Tensor) and x.ndim == 1 for x in batches)


def _read_all(pyg: Any, items: Sequence[Any], options: PygOptions) -> list[Example]:
    if items and all(isinstance(item, pyg.HeteroData) for item in items):
        return [read_hetero(item, options) for item in items]
    for number, item in enumerate(items):
        if not isinstance(item, pyg.Data):
            raise IncidenceError(
                f"from_pyg: number {number} of the list is a {type(item).__name__}, and all must be"
                " Data, or HeteroData."
            )
    target = _target_of(items) if options.target is None else options.target
    return [read_graph(item, options, target) for item in items]


# ---- batches


def _read_batch(pyg: Any, batch: Any, options: PygOptions) -> Example:
    whole = _read_whole(pyg, batch, options)
    return collate(_read_all(pyg, _graphs_of(batch), options)) if whole is None else whole


def _graphs_of(batch: Any) -> list[Any]:
    try:
        return list(batch.to_data_list())
    except (AttributeError, KeyError, RuntimeError) as error:
        raise IncidenceError(
            f"from_pyg: PyG cannot take this batch apart ({error!r}), and it cannot be read as a"
            " whole: that takes `batch` for all nodes, no hyperedges, and `y` with a row for each"
            " node or graph. Make it by Batch.from_data_list."
        ) from None


def _read_whole(pyg: Any, batch: Any, options: PygOptions) -> Example | None:
    """A batch by the graph of every node, also one that was made by hand or changed.

    It is None where only its graphs show what is meant.
    """
    base = pyg.HeteroData if isinstance(batch, pyg.HeteroData) else pyg.Data
    stores = [store for store in batch.node_stores if "batch" in store]
    graphs = {store._key or "node": store.batch for store in stores}
    # A class of the user may count indices in its own way.
    has_other_rules = type(batch).__inc__ is not base.__inc__
    if len(graphs) < len(batch.node_stores) or has_other_rules or _has_several_patterns(batch):
        return None
    y = None
    if options.target != NO_TARGET and "y" in batch.stores[0]:  # of HeteroData that of the graphs
        y = batch.get("y")
    if y is not None and (not isinstance(y, Tensor) or not y.ndim):
        return None
    count = _num_graphs(batch, graphs)
    lacks_rows = y is not None and len(y) != count
    if base is pyg.HeteroData:
        return None if lacks_rows else read_hetero(batch, options, graphs, count)
    keys = batch.keys()
    others = [key for key in keys if key in options.features or " " in key]
    if "hyperedge_index" in keys or any("index" in key or "batch" in key for key in others):
        return None  # PyG adds the number of nodes to all of these, and hyperedges are none
    target = options.target
    if target is None:
        target = _target_of_batch(batch, graphs["node"], count)
    return None if lacks_rows and not target else read_graph(batch, options, target, graphs, count)


def _has_several_patterns(batch: Any) -> bool:
    patterns = [store.get("edge_pattern") for store in batch.stores]
    return any(isinstance(x, list) and len(set(x)) > 1 for x in patterns)


def _num_graphs(batch: Any, graphs: Mapping[str, Tensor]) -> int:
    try:
        count = int(batch.num_graphs)
    except (AttributeError, ValueError, RuntimeError):
        count = 0  # graphs without nodes at the end are not known then
    return max([count, 1, *(int(numbers.max()) + 1 for numbers in graphs.values() if len(numbers))])


# ---- what `y` belongs to


def _target_of(items: Sequence[Any]) -> str:
    """What `y` of a list of graphs belongs to: nodes, edges or the whole.

    One node does not decide; nor do two columns, which may be one edge of a graph whose target has
    two numbers.
    """
    for item in items:
        if "target_of" in item:
            return str(item["target_of"])
    some = [item for item in items if isinstance(item.get("y"), Tensor) and item.y.ndim]
    with warnings.catch_warnings():
        # of PyG, about a number of nodes that is not known: it is refused later
        warnings.simplefilter("ignore")
        counts = [item.num_nodes for item in some]
    rows = [len(item.y) for item in some]
    if rows == counts and any(count > 1 for count in counts):
        return "i"
    has_row_for_columns = rows == [_num_columns(item) for item in some]
    return OF_EDGES if has_row_for_columns and max(rows, default=0) > 2 else ""


def _target_of_batch(batch: Any, graphs: Tensor, count: int) -> str:
    """What `y` of a batch belongs to, from the rows of each graph if PyG knows them, else from
    their total.
    """
    y = batch.get("y")
    written = written_by_us(batch.get("target_of"))
    if written or y is None:
        return written or ""
    # A graph with a wrong number is refused by the structure.
    num_nodes = torch.bincount(graphs.long().clamp(min=0), minlength=count)  # (graphs,)
    rows = _rows_of_graphs(batch, y, count)
    if rows is None:
        is_of_nodes = len(y) == len(graphs) != count
    else:
        is_of_nodes = torch.equal(rows.to(num_nodes.device), num_nodes)
    if is_of_nodes and bool((num_nodes > 1).any()):
        return "i"
    num_columns = _num_columns(batch)
    if not len(graphs) or len(y) == count or len(y) != num_columns or num_columns <= 2:
        return ""
    starts = batch.edge_index[0].long().clamp(0, len(graphs) - 1)
    columns = torch.bincount(graphs[starts].long().clamp(min=0), minlength=count)  # (graphs,)
    if rows is not None and not torch.equal(rows.to(columns.device), columns):
        return ""
    return OF_EDGES if bool((columns > 2).any()) else ""


def _rows_of_graphs(batch: Any, y: Tensor, count: int) -> Tensor | None:
    """The number of rows of `y` of each graph; None if PyG does not know it."""
    slices: Any = (getattr(batch, "_slice_dict", None) or {}).get("y")
    is_known = slices is not None and len(slices) == count + 1 and int(slices[-1]) == len(y)
    return slices.diff() if is_known else None


def _num_columns(data: Any) -> int:
    pairs = data.get("edge_index")
    return pairs.shape[1] if isinstance(pairs, Tensor) and pairs.ndim == 2 else 0
