"""Files of arrays (`.npz`): examples that the library saved, and one graph in plain arrays."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator, Mapping
from os.path import isfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from incidence.algebra.pattern import Pattern
from incidence.data.dataset import DataSet, Record, Split
from incidence.data.dataset_builder import DataRequest, task_of, with_floats
from incidence.data.graphs import node_features
from incidence.data.node_tables import graph_with_targets
from incidence.errors import IncidenceError
from incidence.geometry.convert.edge_lists import strict_entries
from incidence.limits import assert_size
from incidence.structure.collate import uncollate
from incidence.structure.example import Example
from incidence.structure.storage import read_archive
from incidence.structure.structure import Structure

__all__ = ["from_arrays", "graph_of_arrays", "has_arrays", "read_examples", "read_graph_of_arrays"]

_NAMES: Mapping[str, tuple[str, ...]] = {
    "edges": ("edges",),
    "edge_index": ("edge_index",),
    "features": ("node_features", "features", "x"),
    "labels": ("node_labels", "labels", "y"),
    "train": ("train_masks", "train_mask"),
    "validation": ("val_masks", "val_mask", "valid_mask"),
    "test": ("test_masks", "test_mask"),
}
"""What people call the arrays."""
_TYPES: Mapping[str, Any] = {"b": np.bool_, "i": np.int64, "u": np.int64, "f": np.float64}
"""How arrays are read, by the letters of NumPy for their types; others are refused."""
_NUM_AXES = {"edges": (2,), "edge_index": (2,), "labels": (1, 2), "features": (1, 2, 3, 4)}
# Without labels and features, the largest number in an edge decides how many nodes there are: a
# small file must not make a graph of many nodes.
_MOST_NODES = 1 << 20
_MOST_NODES_PER_END = 10


def read_examples(path: Path, errors: list[IncidenceError] | None = None) -> Iterator[Record]:
    """Read the example of a file that `Example.save` wrote, or the examples of a batch."""
    example = with_floats(Example.load(path)).canonical()
    if not example.is_batch:
        yield Record(path.name, example)
        return
    for number, one in enumerate(uncollate(example)):
        yield Record(f"{path.name} {number}", one)


def has_arrays(path: Path, needs_labels: bool = True) -> bool:
    """Return whether a file has edges, and labels, as plain arrays, and is no saved example."""
    if not isfile(path):  # a pipe may never end
        return False
    try:
        with zipfile.ZipFile(path) as archive:
            names = {name.removesuffix(".npy") for name in archive.namelist()}
    except (OSError, ValueError, NotImplementedError, zipfile.BadZipFile):
        return False
    is_labelled = not needs_labels or not names.isdisjoint(_NAMES["labels"])
    return is_labelled and bool(names & {"edges", "edge_index"}) and "format" not in names


def from_arrays(request: DataRequest) -> DataSet:
    """Return the data set of a graph whose nodes have labels.

    Masks may have a row for each of several splits, [splits, nodes].

    Raises:
        IncidenceError: The arrays do not fit together, or have something else than numbers.
    """
    path = request.path
    for flag, value in (("--target", request.targets), ("--data-options", request.options)):
        if value:
            raise IncidenceError(f"{path} has labels as an array: leave out {flag}.")
    arrays = _read(path)
    labels = arrays["labels"]
    if labels.ndim == 2 and labels.shape[1] == 1:  # a column of one class each
        labels = labels[:, 0]
    task, [targets] = task_of([labels], "i", request.task, str(path))
    graph = _with_degrees(_graph(path, arrays, len(labels)))  # a row of labels for each node
    splits = _splits(path, arrays, len(labels))
    return graph_with_targets(request.name, graph, task, targets, splits)


def read_graph_of_arrays(
    path: Path, errors: list[IncidenceError] | None = None
) -> Iterator[Record]:
    """Read a graph for prediction; nodes without features have their degrees for features."""
    yield Record(path.name, _with_degrees(graph_of_arrays(path)).canonical())


def _with_degrees(graph: Example) -> Example:
    if graph.features["i"].shape[1]:
        return graph
    degrees = node_features(graph.structure.total_nodes, graph.structure["{i j}"])
    return graph.replace(features={**graph.features, "i": degrees})


def graph_of_arrays(path: Path) -> Example:
    """Return a graph without its labels; nodes without features have features of 0 channels.

    Raises:
        IncidenceError: The arrays do not fit together, or the edges name far too many nodes.
    """
    arrays = _read(path)
    for key in ("labels", "features"):
        if key in arrays:
            return _graph(path, arrays, len(arrays[key]))
    edges = arrays["edges"] if "edges" in arrays else arrays["edge_index"]
    num_nodes = max(int(edges.max()) + 1, 0) if edges.numel() else 0
    if num_nodes > max(_MOST_NODES, _MOST_NODES_PER_END * edges.numel()):
        raise IncidenceError(
            f"{path}: {edges.numel() // 2:,} edges have nodes up to number {num_nodes - 1:,}."
            " Number the nodes 0, 1, ... without such gaps, or give features, a row for each node."
        )
    return _graph(path, arrays, num_nodes)


def _graph(path: Path, arrays: Mapping[str, Tensor], num_nodes: int) -> Example:
    features = arrays.get("features", torch.zeros(num_nodes, 0))
    if len(features) != num_nodes:
        raise IncidenceError(
            f"{path}: there are {num_nodes} labels of nodes and {len(features)} rows of features."
        )
    features = features[:, None] if features.ndim == 1 else features.flatten(1)  # (nodes, channels)
    pairs = _pairs(path, arrays, num_nodes)
    structure = Structure(num_nodes, {"{i j}": pairs})
    return Example(structure, {"i": features.float(), "{i j}": torch.ones(pairs.shape[1], 1)})


def _pairs(path: Path, arrays: Mapping[str, Tensor], num_nodes: int) -> Tensor:
    """Return undirected edges, each once and without loops, [2, edges].

    `edges` has a row for each edge, and `edge_index` a column; the other way round is accepted.
    """
    edges = arrays["edges"] if "edges" in arrays else arrays["edge_index"].T
    if edges.ndim == 2 and edges.shape[1] != 2:
        edges = edges.T
    if edges.ndim != 2 or edges.shape[1] != 2:
        raise IncidenceError(
            f"{path}: an edge has two nodes, as in an array of shape [edges, 2]; got"
            f" {list(edges.shape)}."
        )
    pairs = edges.T  # (2, edges)
    outside = pairs[(pairs < 0) | (pairs >= num_nodes)]
    if len(outside):
        raise IncidenceError(
            f"{path}: edges join nodes 0 to {num_nodes - 1}, as there are {num_nodes} labels; got"
            f" {int(outside[0])}."
        )
    no_loops = pairs[:, pairs[0] != pairs[1]].contiguous()  # (2, edges)
    return strict_entries(Pattern("{i j}"), no_loops, num_nodes, {}, str(path))[0]


def _read(path: Path) -> dict[str, Tensor]:
    """Read the arrays with known names, as bools, integers or floats."""

    def read(arrays: Mapping[str, Any]) -> dict[str, Tensor]:
        tensors = {}
        for what, names in _NAMES.items():
            name = next((name for name in names if name in arrays), None)
            if name is not None:
                tensors[what] = _tensor(arrays[name], what, name, path)
        return tensors

    return read_archive(path, "a graph in arrays of numbers", read)


def _tensor(array: Any, what: str, name: str, path: Path) -> Tensor:
    """Return an array as a tensor of a known type, if there is memory for it."""
    if array.dtype.kind not in _TYPES:
        raise IncidenceError(f"{path}: `{name}` has whole or decimal numbers; got {array.dtype}.")
    num_axes = _NUM_AXES.get(what, (1, 2))
    if array.ndim not in num_axes:
        expected = " or ".join(map(str, num_axes))
        raise IncidenceError(
            f"{path}: `{name}` has {expected} axes, of which one is for nodes or edges; got the"
            f" shape {list(array.shape)}."
        )
    kind = np.dtype(np.float32 if array.dtype == np.float32 else _TYPES[array.dtype.kind])
    size = array.size * kind.itemsize
    if size > path.stat().st_size:  # small integers take more memory as tensors
        assert_size(size, f"{path}, unpacked,")
    tensor = torch.from_numpy(array.astype(kind, copy=False))
    if not what.startswith("edge"):
        return tensor
    if bool((tensor != tensor.long()).any()):
        raise IncidenceError(
            f"{path}: `{name}` joins nodes by their numbers, 0, 1, ...; got some that are not"
            " whole."
        )
    return tensor.long()


def _splits(path: Path, arrays: Mapping[str, Tensor], num_nodes: int) -> list[Split]:
    if "train" not in arrays or "test" not in arrays:
        return []
    nothing = torch.zeros_like(arrays["train"])  # a part that has no mask is empty
    masks = [arrays.get(part, nothing).bool() for part in Split._fields]
    tables = [mask[None] if mask.ndim == 1 else mask for mask in masks]  # (splits, nodes)
    num_splits = len(tables[0])
    if any(table.shape != (num_splits, num_nodes) for table in tables):
        raise IncidenceError(
            f"{path}: masks have a row for each split and a column for each of {num_nodes} nodes."
        )
    return [Split(*(table[k].nonzero()[:, 0] for table in tables)) for k in range(num_splits)]
