"""One graph from an `.npz` file of plain arrays: features and labels of nodes, edges, and masks of the parts."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from os.path import isfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from incidence.algebra.pattern import Pattern
from incidence.data.building import Asked
from incidence.data.dataset import DataSet, Split, Task
from incidence.data.examples_file import task_of
from incidence.data.graphs import node_features
from incidence.data.node_tables import labelled
from incidence.errors import IncidenceError
from incidence.geometry.convert.exchange import once
from incidence.limits import assert_size
from incidence.structure.example import Example
from incidence.structure.storage import read_archive
from incidence.structure.structure import Structure

__all__ = ["from_arrays", "graph_of_arrays", "has_arrays", "with_degrees"]

_KNOWN: Mapping[str, tuple[str, ...]] = {
    "edges": ("edges",),
    "edge_index": ("edge_index",),
    "features": ("node_features", "features", "x"),
    "labels": ("node_labels", "labels", "y"),
    "train": ("train_masks", "train_mask"),
    "validation": ("val_masks", "val_mask", "valid_mask"),
    "test": ("test_masks", "test_mask"),
}
"""What people call the arrays."""
_KINDS: Mapping[str, Any] = {"b": np.bool_, "i": np.int64, "u": np.int64, "f": np.float64}
"""What numbers are read as, by the letters of numpy for their types; others, such as complex ones, are not read."""
_AXES = {"edges": (2,), "edge_index": (2,), "labels": (1, 2), "features": (1, 2, 3, 4)}
_ALWAYS = 1 << 20  # nodes that edges may have, however few they are
_GAPS = 10  # how many nodes there may be beyond that for each end of an edge, if nothing else tells of nodes


def has_arrays(path: Path, needs_labels: bool = True) -> bool:
    """Whether a file has edges and labels, if they are needed, as arrays, rather than an example that the library saved."""
    if not isfile(path):  # a pipe may never end
        return False
    try:
        with zipfile.ZipFile(path) as archive:
            names = {name.removesuffix(".npy") for name in archive.namelist()}
    except (OSError, ValueError, NotImplementedError, zipfile.BadZipFile):
        return False
    is_labelled = not needs_labels or bool(names & set(_KNOWN["labels"]))
    return bool(names & {"edges", "edge_index"}) and is_labelled and "format" not in names


def from_arrays(asked: Asked) -> DataSet:
    """A graph whose nodes have labels; masks with a row for each split, [splits, nodes], or with one only.

    Raises:
        IncidenceError: The arrays do not fit together, or hold other than numbers.
    """
    path = asked.path
    unused = next(
        (
            name
            for name, value in (("--target", asked.target), ("--data-options", asked.options))
            if value
        ),
        None,
    )
    if unused is not None:
        raise IncidenceError(f"{path} has its own labels: leave out {unused}.")
    found = _read(path)
    labels = found["labels"]
    return labelled(
        asked.name,
        with_degrees(_graph(path, found, len(labels))),
        *_task(labels, asked.task, path),
        _splits(path, found, len(labels)),
    )


def with_degrees(example: Example) -> Example:
    """A graph whose nodes have their degrees for features, if they have no others."""
    if example.features["i"].shape[1]:
        return example
    return example.replace(
        features={
            **example.features,
            "i": node_features(example.structure.total_nodes, example.structure["{i j}"]),
        }
    )


def graph_of_arrays(path: Path) -> Example:
    """A graph without its labels; nodes without features have no columns."""
    found = _read(path)
    edges = next(found[key] for key in ("edges", "edge_index") if key in found)
    rows = next((len(found[key]) for key in ("labels", "features") if key in found), None)
    if rows is None:
        rows = max(int(edges.max()) + 1, 0) if edges.numel() else 0
        if rows > max(_ALWAYS, _GAPS * edges.numel()):
            raise IncidenceError(
                f"{path}: {edges.numel() // 2:,} edges have nodes up to number {rows - 1:,}. Number the nodes 0, 1, ... without such gaps, "
                f"or give features, a row for each node."
            )
    return _graph(path, found, rows)


def _graph(path: Path, found: Mapping[str, Tensor], count: int) -> Example:
    features = found.get("features", torch.zeros(count, 0))
    if len(features) != count:
        raise IncidenceError(
            f"{path}: there are {count} labels of nodes and {len(features)} rows of features."
        )
    features = features[:, None] if features.ndim == 1 else features.flatten(1)  # (nodes, channels)
    pairs = _pairs(path, found, count)
    return Example(
        Structure(count, {"{i j}": pairs}),
        {"i": features.float(), "{i j}": torch.ones(pairs.shape[1], 1)},
    )


def _pairs(path: Path, found: Mapping[str, Tensor], count: int) -> Tensor:
    """Undirected edges, each once and without loops, [2, edges]; `edges` has a row for each, and `edge_index` a column."""
    given = found["edges"] if "edges" in found else found["edge_index"].T
    given = given.T if given.ndim == 2 and given.shape[1] != 2 else given
    if given.ndim != 2 or given.shape[1] != 2:
        raise IncidenceError(
            f"{path}: an edge has two nodes, as in an array of shape [edges, 2]; got {list(given.shape)}."
        )
    pairs = given.T
    if pairs.numel() and not 0 <= int(pairs.min()) <= int(pairs.max()) < count:
        raise IncidenceError(
            f"{path}: edges join nodes 0 to {count - 1}, as there are {count} labels; got {_outside(pairs, count)}."
        )
    return once(
        Pattern("{i j}"), pairs[:, pairs[0] != pairs[1]].contiguous(), count, {}, str(path)
    )[0]


def _outside(pairs: Tensor, count: int) -> int:
    return int(pairs[(pairs < 0) | (pairs >= count)][0])


def _task(labels: Tensor, asked: str | None, path: Path) -> tuple[Task, Tensor]:
    """Whole numbers are classes, several of 0 and 1 for each node are labels, unless something else is asked for."""
    flat = labels[:, 0] if labels.ndim == 2 and labels.shape[1] == 1 else labels
    task, [rows] = task_of([flat], "i", asked, str(path))
    return task, rows


def _read(path: Path) -> dict[str, Tensor]:
    """The arrays that are known, as bools, integers or floats."""

    def read(arrays: Mapping[str, Any]) -> dict[str, Tensor]:
        names = {
            what: next((name for name in known if name in arrays), None)
            for what, known in _KNOWN.items()
        }
        return {
            what: _numbers(arrays[name], what, name, path)
            for what, name in names.items()
            if name is not None
        }

    return read_archive(path, "a graph in arrays of numbers", read)


def _numbers(array: Any, what: str, name: str, path: Path) -> Tensor:
    """An array as a tensor of one of three types, for which there is room."""
    if array.dtype.kind not in _KINDS:
        raise IncidenceError(f"{path}: `{name}` has whole or decimal numbers; got {array.dtype}.")
    axes = _AXES.get(what, (1, 2))
    if array.ndim not in axes:
        wanted = " or ".join(map(str, axes))
        raise IncidenceError(
            f"{path}: `{name}` has {wanted} axes, of which one is for nodes or edges; got the shape {list(array.shape)}."
        )
    kind = np.dtype(np.float32 if array.dtype == np.float32 else _KINDS[array.dtype.kind])
    if array.size * kind.itemsize > path.stat().st_size:  # small integers take more room as tensors
        assert_size(array.size * kind.itemsize, f"{path}, unpacked,")
    found = torch.from_numpy(array.astype(kind, copy=False))
    if not what.startswith("edge"):
        return found
    if bool((found != found.long()).any()):
        raise IncidenceError(
            f"{path}: `{name}` joins nodes by their numbers, 0, 1, ...; got some that are not whole."
        )
    return found.long()


def _splits(path: Path, found: Mapping[str, Tensor], count: int) -> list[Split]:
    if "train" not in found or "test" not in found:
        return []
    nothing = torch.zeros_like(found["train"])
    masks = [found.get(part, nothing).bool() for part in Split._fields]
    tables = [mask[None] if mask.ndim == 1 else mask for mask in masks]  # (splits, nodes)
    if any(table.shape != (len(tables[0]), count) for table in tables):
        raise IncidenceError(
            f"{path}: masks have a row for each split and a column for each of {count} nodes."
        )
    return [Split(*(table[k].nonzero()[:, 0] for table in tables)) for k in range(len(tables[0]))]
