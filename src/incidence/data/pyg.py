"""Data sets of PyG, by name or as objects."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Collection, Mapping, Sequence
from copy import copy
from dataclasses import replace
from inspect import isclass, signature
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import torch
import torch.utils.data
from torch import Tensor

from incidence.algebra.pattern import Pattern
from incidence.data.dataset import DataSet, Split
from incidence.data.dataset_builder import from_examples, with_floats
from incidence.data.splitting import as_split, assert_apart
from incidence.errors import IncidenceError, need
from incidence.geometry.convert.edge_lists import is_no_loop
from incidence.geometry.convert.pyg import name_in, warn_about
from incidence.geometry.convert.pyg_graphs import NO_TARGET, PygOptions
from incidence.geometry.convert.pyg_lenient import read_lenient
from incidence.structure.collate import uncollate
from incidence.structure.example import Example

__all__ = [
    "MASKS",
    "PREFIX",
    "examples_of_pyg",
    "from_pyg_data",
    "from_pyg_name",
    "graphs_of",
    "is_pyg",
    "unpacked",
]

PREFIX = "pyg:"
"""What the names of data sets of PyG begin with."""
MASKS = ("train_mask", "val_mask", "test_mask")
_TEXTS_OF_OURS = ("edge_pattern", "target_of")  # which `to_pyg` writes
_OPTIONAL = ("x", "edge_attr")
_DOWNLOAD_ERRORS = (OSError, EOFError, RuntimeError, BadZipFile)


def from_pyg_name(
    name: str, folder: Path | None, *, task: str | None = None, target: int | str | None = None
) -> DataSet:
    """Return a data set of PyG by name.

    PyG downloads what is not in the folder, and caches what it has read there, as pickles.

    Args:
        name: `pyg:`, the class, and after a slash its argument `name`, as in
            `pyg:TUDataset/MUTAG`.
        folder: The folder for the files.
        task: As for `from_pyg_data`.
        target: The number of a column, as for `from_pyg_data`.

    Raises:
        IncidenceError: There is no such data set, it takes other arguments, or PyG cannot get it.
    """
    purpose = f"the data set {name!r}"
    datasets = need("torch_geometric.datasets", purpose, "convert")
    base = need("torch_geometric.data", purpose, "convert").Dataset
    class_name, _, inner = name.removeprefix(PREFIX).partition("/")
    kind = getattr(datasets, class_name, None)
    if not isclass(kind) or not issubclass(kind, base):
        raise IncidenceError(
            f"PyG has no data set {class_name!r}: give the name of a class of"
            " torch_geometric.datasets, as in TUDataset/MUTAG."
        )
    if folder is None:
        raise IncidenceError(f"{purpose} is stored in files: give the folder for them by --folder.")
    if isinstance(target, str) and not target.isdecimal():
        raise IncidenceError(
            f"the target of {name!r} is the number of a column, as in `--target 0`; got {target!r}."
        )
    # Classes of PyG differ in their arguments: each gets those of these two that it takes.
    given = {"root": str(folder), "name": inner}
    arguments = {key: given[key] for key in signature(kind).parameters if given.get(key)}
    try:
        dataset = kind(**arguments)
    except TypeError as error:
        raise IncidenceError(
            f"PyG's {class_name} takes more than folder and name ({error}): make it yourself and"
            " give it to `inc.data.load`."
        ) from None
    except _DOWNLOAD_ERRORS as error:
        raw = next(Path(folder).rglob("raw"), Path(folder))  # where PyG puts what it downloads
        raise IncidenceError(
            f"PyG could not download {name!r}, or not read its files ({error}): put the files that"
            f" it downloads into {raw} yourself."
        ) from error
    column = None if target is None else int(target)
    return from_pyg_data(dataset, name=name, task=task, target=column)


def is_pyg(what: Any) -> bool:
    """Return whether something is a data set of PyG, a graph of PyG, or a list of graphs.

    PyG is not imported: whoever has such a thing has imported it.
    """
    pyg = sys.modules.get("torch_geometric.data")
    graphs = what if isinstance(what, (list, tuple)) and what else [what]
    return pyg is not None and (
        isinstance(what, pyg.Dataset)
        or all(isinstance(one, (pyg.Data, pyg.HeteroData)) for one in graphs)
    )


def unpacked(what: Any) -> Any:
    """Return the items of a data set of torch, such as one of `random_split`; else the argument."""
    is_of_torch = (
        isinstance(what, torch.utils.data.Dataset) and hasattr(what, "__len__") and not is_pyg(what)
    )
    return [what[number] for number in range(len(what))] if is_of_torch else what


def from_pyg_data(
    dataset: Any,
    *,
    name: str = "pyg",
    edges: str | None = None,
    features: Mapping[str, str] | None = None,
    task: str | None = None,
    target: int | Sequence[int] | None = None,
    splits: Sequence[Sequence[Any]] = (),
) -> DataSet:
    """Return a data set of PyG, one of its graphs or a list of them, as a `DataSet`.

    Nodes without features get log(1 + degree) and 1 / (degree + 1); edges without features get a
    column of ones. A single graph with masks is transductive, with the splits of the masks; of
    `HeteroData`, those of the node type that has `y`.

    Args:
        dataset: The data set, a `Data` with `y`, or a list of them.
        name: The name of the result.
        edges: How to read `edge_index`, as in `convert.from_pyg`.
        features: Further attributes, and what they belong to, as in `convert.from_pyg`. A warning
            names attributes that are not used.
        task: `classification` or `regression`; if None, integers in `y` are classes.
        target: The column of `y` to predict, or several in a list; all by default.
        splits: Numbers of examples for training and testing, perhaps with those for validation
            between them; several splits make a cross validation.

    Raises:
        IncidenceError: It is empty, or the data does not fit; the message says what.

    Example:
        >>> from torch_geometric.data import Data
        >>> edges = torch.tensor([[0, 1], [1, 0]])
        >>> classes = torch.arange(10)[:, None] % 2
        >>> data = from_pyg_data([Data(edge_index=edges, num_nodes=2, y=y) for y in classes])
        >>> data.task.names, data.examples[1].features["i"].shape
        (('class 0', 'class 1'), torch.Size([2, 2]))
    """
    items = _as_list(dataset)
    store = _masked_store(items)
    masks = [] if store is None else [name_in(store, key) for key in MASKS]
    read, edges = _examples(items, PygOptions(edges, features or {}), masks)
    examples = [_with_columns(example, target, name) for example in read]
    parts = [as_split(split, number) for number, split in enumerate(splits)]
    if not parts and store is not None:
        parts = [_of_entries(one, examples[0], store, name) for one in _mask_splits(store, name)]
    lacking = [
        key
        for key in _OPTIONAL
        if all(key not in attributes for item in items for attributes in item.stores)
    ]
    built = from_examples(examples, name=name, task=task, splits=parts)
    options = {"edges": edges, "features": features, "lacking": lacking, **built.reader_options}
    return replace(
        built,
        reader_options={key: value for key, value in options.items() if value},
        columns=_texts(items, len(examples)),
    )


def examples_of_pyg(
    dataset: Any,
    edges: str | None = None,
    features: Mapping[str, str] | None = None,
    lacking: Sequence[str] = (),
) -> list[Example]:
    """Return the graphs of a data set of PyG, or of a list, with features, for prediction.

    Args:
        dataset: The data set or the list; targets are ignored.
        edges: As for `from_pyg_data`.
        features: As for `from_pyg_data`.
        lacking: Attributes to leave out, as no graph had them that the model was trained on.
    """
    items = _without(_as_list(dataset), lacking)
    return _examples(items, PygOptions(edges, features or {}, NO_TARGET), MASKS)[0]


def graphs_of(
    what: Any,
    used: Collection[str] = (),
    target: str | None = None,
    completes: bool = True,
    stacklevel: int = 2,
) -> list[Example]:
    """Return graphs of PyG for loaders: edges and features as `load` reads them, types as they are.

    A batch of PyG stays one batch.

    Args:
        what: A data set, a graph, or a list.
        used: Attributes that no warning names.
        target: What `y` belongs to.
        completes: Whether nodes and edges without features get some.
        stacklevel: Of warnings.
    """
    items = _as_list(what)
    warn_about(items, used, stacklevel + 1)
    options = PygOptions(target=target)
    return read_lenient(items, options, completes=completes, stacklevel=stacklevel + 1)[0]


def _examples(
    items: Sequence[Any], options: PygOptions, used: Collection[str]
) -> tuple[list[Example], str | None]:
    """Return single examples, and how their edges were read."""
    texts = _texts(items, len(items))
    warn_about(items, {*used, *texts, *options.features}, stacklevel=8)
    parts, edges = read_lenient(items, options, exact="edges='i j'", stacklevel=8)
    single = (one for part in parts for one in (uncollate(part) if part.is_batch else [part]))
    return [with_floats(one).canonical() for one in single], edges


def _texts(items: Sequence[Any], count: int) -> dict[str, list[str]]:
    """Return the attributes of all graphs that are texts, such as `smiles` or `name`."""
    if not items or len(items) != count:
        return {}
    attributes = [item.to_dict() for item in items]
    return {
        key: [one[key] for one in attributes]
        for key in attributes[0]
        if key not in _TEXTS_OF_OURS and all(isinstance(one.get(key), str) for one in attributes)
    }


def _without(items: Sequence[Any], lacking: Sequence[str]) -> list[Any]:
    """Return graphs without some of their attributes, and warn of those that are left out."""
    present = [
        key
        for key in lacking
        if any(key in attributes for item in items for attributes in item.stores)
    ]
    if not present:
        return list(items)
    warnings.warn(
        f"the model was trained on graphs without {' and '.join(present)}, which are left out"
        " here.",
        stacklevel=6,
    )
    copies = [copy(item) for item in items]
    for attributes in (attributes for item in copies for attributes in item.stores):
        for key in present:
            attributes.pop(key, None)
    return copies


def _as_list(dataset: Any) -> list[Any]:
    return [dataset] if is_pyg([dataset]) else list(dataset)


def _with_columns(example: Example, target: int | Sequence[int] | None, name: str) -> Example:
    """Return the example with some columns of its target alone."""
    whole = example.target
    if target is None or whole is None:
        return example
    if isinstance(whole, dict) and len(whole) > 1:
        return example  # `from_examples` refuses targets of several patterns
    [(key, y)] = whole.items() if isinstance(whole, dict) else [("", whole)]
    if y.ndim == bool(key):
        y = y[..., None]
    columns = [target] if isinstance(target, int) else list(target)
    are_there = all(isinstance(one, int) and 0 <= one < y.shape[-1] for one in columns)
    if not columns or not are_there:
        raise IncidenceError(
            f"the targets of {name!r} have the shape {list(y.shape)}, so there is no column"
            f" {target}."
        )
    chosen = y[..., columns]
    return example.replace(target={key: chosen} if isinstance(whole, dict) else chosen)


def _masked_store(items: Sequence[Any]) -> Any:
    """Return the nodes, or nodes of one type, of the only graph that have `y` and masks."""
    if len(items) != 1:
        return None
    needed = ("y", "train_mask", "test_mask")
    stores = [
        store
        for store in items[0].stores
        if "batch" not in store
        and all(isinstance(store.get(key), Tensor) and store[key].ndim for key in needed)
    ]
    return stores[0] if len(stores) == 1 else None


def _mask_splits(store: Any, name: str) -> list[Split]:
    """Return the splits of masks; a mask may have a column for each split."""
    train, validation, test = map(store.get, MASKS)
    if validation is None:
        validation = torch.zeros_like(train)
    tables = [mask[:, None] if mask.ndim == 1 else mask for mask in (train, validation, test)]
    for key, table in zip(MASKS, tables, strict=True):
        if len(table) != len(store.y):
            raise IncidenceError(
                f"{name}: {name_in(store, key)} has {len(table)} rows, and y has {len(store.y)}: it"
                " needs one for each."
            )
    count = max(table.shape[1] for table in tables)
    splits = [
        Split(*(table.expand(-1, count)[:, k].nonzero()[:, 0] for table in tables))
        for k in range(count)
    ]
    for split in splits:
        assert_apart(split, name)
    return splits


def _of_entries(split: Split, example: Example, store: Any, name: str) -> Split:
    """Return a split of the rows of `y` as one of the entries of the target.

    A `y` of edges has a row for each column of `edge_index`, where an edge may come twice.
    """
    target = example.target if isinstance(example.target, dict) else {}
    keys = [key for key in target if len(Pattern(key).letters) > 1]
    if "edge_index" not in store or not keys:
        return split  # of nodes
    [key, *_] = keys
    parts = []
    for rows in split:
        proper = rows[is_no_loop(Pattern(key), store.edge_index[:, rows])]
        parts.append(example.structure.locate(key, store.edge_index[:, proper]).unique())
    if len(torch.cat(parts).unique()) < sum(map(len, parts)):
        raise IncidenceError(
            f"{name}: masks put an edge and its reverse, or a parallel one, into different parts:"
            " make them equal, or use `--data-options 'edges=(i j)'`."
        )
    return Split(*parts)
