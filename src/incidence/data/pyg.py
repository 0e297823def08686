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
from incidence.data.examples_file import from_examples, with_floats
from incidence.data.splitting import assert_apart
from incidence.errors import IncidenceError, need
from incidence.geometry.convert.loose import read_loosely
from incidence.geometry.convert.pyg import NO_TARGET, Reading, name_in, warn_about
from incidence.geometry.convert.simple import no_loops
from incidence.structure.example import Example
from incidence.structure.examples import uncollate

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
_OWN_TEXTS = ("edge_pattern", "target_of")  # which `to_pyg` writes
_USUAL = ("x", "edge_attr")
MASKS = ("train_mask", "val_mask", "test_mask")
_TROUBLE = (OSError, EOFError, RuntimeError, BadZipFile)  # what PyG raises without a network


def from_pyg_name(
    name: str, folder: Path | None, *, task: str | None = None, target: int | str | None = None
) -> DataSet:
    """A data set of PyG by name, `pyg:TUDataset/MUTAG`: the class, and after the slash what it calls `name`, if it takes one.

    PyG fetches the data from the internet unless it is in the folder, and reads its own files there, which it keeps as pickles. Task and
    target are those of `from_pyg_data`.
    """
    datasets = need("torch_geometric.datasets", f"the data set {name!r}", "convert")
    kind, _, inner = name.removeprefix(PREFIX).partition("/")
    made = getattr(datasets, kind, None)
    if not isclass(made) or not issubclass(
        made, need("torch_geometric.data", f"the data set {name!r}", "convert").Dataset
    ):
        raise IncidenceError(
            f"PyG has no data set {kind!r}: give the name of a class of torch_geometric.datasets, as in TUDataset/MUTAG."
        )
    if folder is None:
        raise IncidenceError(
            f"the data set {name!r} is kept in files: give the folder for them with --folder."
        )
    if isinstance(target, str) and not target.isdecimal():
        raise IncidenceError(
            f"the target of {name!r} is the number of a column, as in --target 0; got {target!r}."
        )
    given = {"root": str(folder), "name": inner}
    arguments = {key: given[key] for key in signature(made).parameters if given.get(key)}
    try:
        dataset = made(**arguments)
    except TypeError as error:
        raise IncidenceError(
            f"PyG's {kind} takes more than folder and name ({error}): make it yourself and give it to `inc.data.load`."
        ) from None
    except _TROUBLE as error:
        raw = next(Path(folder).rglob("raw"), Path(folder))
        raise IncidenceError(
            f"PyG could not fetch {name!r}, or not read what it has ({error}): put the files that it downloads into {raw} yourself."
        ) from error
    return from_pyg_data(
        dataset, name=name, task=task, target=None if target is None else int(target)
    )


def is_pyg(what: Any) -> bool:
    """Whether something is a data set of PyG, a graph of it or a list of such; who has some has imported PyG."""
    pyg = sys.modules.get("torch_geometric.data")
    graphs = what if isinstance(what, (list, tuple)) and what else [what]
    return pyg is not None and (
        isinstance(what, pyg.Dataset)
        or all(isinstance(one, (pyg.Data, pyg.HeteroData)) for one in graphs)
    )


def unpacked(what: Any) -> Any:
    """A data set of torch, such as a part that `random_split` drew, as a list of what it has; anything else as it is."""
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
    splits: Sequence[tuple[Tensor, Tensor, Tensor]] = (),
) -> DataSet:
    """A data set of PyG, one of its graphs or a list of them, ready for training.

    Nodes without features get log(1 + degree) and 1 / (degree + 1), edges without features a column of ones. A single graph with masks is
    learned within, with the splits that the masks tell; of `HeteroData` those of the node type that has `y`.

    Args:
        dataset: The data set, a `Data` with `y`, or a list of them.
        name: What it is called.
        edges: How `edge_index` is read, as in `convert.from_pyg`.
        features: Further attributes and what they belong to, as in `convert.from_pyg`; a warning names those that are not used.
        task: `classification` or `regression`; integers as `y` are classes, if not given.
        target: The column of `y` that is to be predicted, or several in a list; all, if not given.
        splits: Numbers of examples for training, validation and testing; several splits make a cross validation.

    Raises:
        IncidenceError: It is empty, or the data does not fit; the message says what.

    Example:
        >>> from torch_geometric.data import Data
        >>> graphs = [Data(edge_index=torch.tensor([[0, 1], [1, 0]]), num_nodes=2, y=torch.tensor([k % 2])) for k in range(10)]
        >>> data = from_pyg_data(graphs)
        >>> data.task.names, data.examples[1].features["i"].shape
        (('class 0', 'class 1'), torch.Size([2, 2]))
    """
    items = _as_list(dataset)
    masked = _masked(items)
    found, edges = _examples(
        items,
        Reading(edges, features or {}),
        [] if masked is None else [name_in(masked, key) for key in MASKS],
    )
    examples = [_column(example, target, name) for example in found]
    told = [Split(*(torch.as_tensor(part) for part in split)) for split in splits]
    if not told and masked is not None:
        told = [_of_entries(split, examples[0], masked, name) for split in _masks(masked, name)]
    lacking = [
        key for key in _USUAL if all(key not in own for item in items for own in item.stores)
    ]
    given = {
        key: value
        for key, value in (("edges", edges), ("features", features), ("lacking", lacking))
        if value
    }
    return replace(
        from_examples(examples, name=name, task=task, splits=told),
        reader_options=given,
        columns=_texts(items, len(examples)),
    )


def examples_of_pyg(
    dataset: Any,
    edges: str | None = None,
    features: Mapping[str, str] | None = None,
    lacking: Sequence[str] = (),
) -> list[Example]:
    """The graphs of a data set of PyG, or of a list, with features of nodes and edges, whether they have targets or not.

    Attributes that are `lacking`, as no graph had them that a model was trained on, are left out.
    """
    items = _without(_as_list(dataset), lacking)
    return _examples(items, Reading(edges, features or {}, NO_TARGET), MASKS)[0]


def graphs_of(
    what: Any,
    used: Collection[str] = (),
    target: str | None = None,
    completes: bool = True,
    stacklevel: int = 2,
) -> list[Example]:
    """The same for loaders: types and targets as they are, edges and features as `load` reads them; a batch stays one."""
    items = _as_list(what)
    warn_about(items, used, stacklevel + 1)
    return read_loosely(
        items, Reading(target=target), completes=completes, stacklevel=stacklevel + 1
    )[0]


def _examples(
    items: Sequence[Any], reading: Reading, used: Collection[str]
) -> tuple[list[Example], str | None]:
    warn_about(items, {*used, *_texts(items, len(items)), *reading.features}, stacklevel=7)
    parts, edges = read_loosely(items, reading, keeps="edges='i j'", stacklevel=7)
    return [
        with_floats(one).canonical()
        for part in parts
        for one in (uncollate(part) if part.is_batch else [part])
    ], edges


def _texts(items: Sequence[Any], count: int) -> dict[str, list[str]]:
    """What all graphs tell of themselves in words, such as `smiles` or `name`: predictions stand beside it."""
    told = [item.to_dict() for item in items] if len(items) == count else []
    keys = (
        [key for key, value in told[0].items() if isinstance(value, str) and key not in _OWN_TEXTS]
        if told
        else []
    )
    return {
        key: [own[key] for own in told]
        for key in keys
        if all(isinstance(own.get(key), str) for own in told)
    }


def _without(items: Sequence[Any], lacking: Sequence[str]) -> list[Any]:
    """Graphs without some of their attributes, of which a warning tells."""
    found = [key for key in lacking if any(key in own for item in items for own in item.stores)]
    if not found:
        return list(items)
    warnings.warn(
        f"the model was trained on graphs without {' and '.join(found)}, which are left out here.",
        stacklevel=6,
    )
    copies = [copy(item) for item in items]
    for own in (own for item in copies for own in item.stores):
        for key in found:
            own.pop(key, None)
    return copies


def _as_list(dataset: Any) -> list[Any]:
    return [dataset] if is_pyg([dataset]) else list(dataset)


def _column(example: Example, target: int | Sequence[int] | None, name: str) -> Example:
    whole = example.target
    if target is None or whole is None:
        return example
    if isinstance(whole, dict) and len(whole) > 1:
        return example  # which is refused later
    [(key, y)] = whole.items() if isinstance(whole, dict) else [("", whole)]
    y = y[..., None] if y.ndim == bool(key) else y
    wanted = [target] if isinstance(target, int) else list(target)
    if not wanted or not all(
        isinstance(column, int) and 0 <= column < y.shape[-1] for column in wanted
    ):
        raise IncidenceError(
            f"the targets of {name!r} have the shape {list(y.shape)}, so there is no column {target}."
        )
    chosen = y[..., wanted]
    return example.replace(target={key: chosen} if isinstance(whole, dict) else chosen)


def _masked(items: Sequence[Any]) -> Any:
    """What has the target of the only graph, its nodes or those of a type, if masks tell the parts for training and testing; else None."""
    stores = [own for own in items[0].stores if "batch" not in own] if len(items) == 1 else []
    found = [
        own
        for own in stores
        if all(
            isinstance(own.get(key), Tensor) and own[key].ndim
            for key in ("y", "train_mask", "test_mask")
        )
    ]
    return found[0] if len(found) == 1 else None


def _masks(store: Any, name: str) -> list[Split]:
    """The splits that masks tell; a mask may have a column for each."""
    train, held, test = map(store.get, MASKS)
    tables = [
        mask[:, None] if mask.ndim == 1 else mask
        for mask in (train, torch.zeros_like(train) if held is None else held, test)
    ]
    for key, table in zip(MASKS, tables, strict=True):
        if len(table) != len(store.y):
            raise IncidenceError(
                f"{name}: {name_in(store, key)} has {len(table)} rows, and y has {len(store.y)}: it needs one for each."
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
    """A split of the rows of `y` as one of the entries of the target: of edges, `y` has a row for each column of `edge_index`."""
    keys = [
        key
        for key in (example.target if isinstance(example.target, dict) else ())
        if len(Pattern(key).letters) > 1
    ]
    if "edge_index" not in store or not keys:  # of nodes, and several targets are refused later
        return split
    key = keys[0]
    kept = [rows[no_loops(Pattern(key), store.edge_index[:, rows])] for rows in split]
    parts = [example.structure.locate(key, store.edge_index[:, rows]).unique() for rows in kept]
    if len(torch.cat(parts).unique()) < sum(map(len, parts)):
        raise IncidenceError(
            f"{name}: masks put an edge and its reverse, or a parallel one, into different parts: make them equal, or use edges='(i j)'."
        )
    return Split(*parts)
