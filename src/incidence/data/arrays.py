"""One graph from an `.npz` file of plain arrays: features and labels of nodes, edges, and masks of the parts."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
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
from incidence.structure.example import Example
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


def has_arrays(path: Path, needs_labels: bool = True) -> bool:
    """Whether a file has edges and labels, if they are needed, as arrays, rather than an example that the library saved."""
    try:
        with zipfile.ZipFile(path) as archive:
            names = {name.removesuffix(".npy") for name in archive.namelist()}
    except (OSError, zipfile.BadZipFile):
        return False
    is_labelled = not needs_labels or bool(names & set(_KNOWN["labels"]))
    return bool(names & {"edges", "edge_index"}) and is_labelled and "format" not in names


def from_arrays(asked: Asked) -> DataSet:
    """A graph whose nodes have labels; masks with a row for each split, [splits, nodes], or with one only.

    Raises:
        IncidenceError: The arrays do not fit together, or hold other than numbers.
    """
    path = asked.path
    unused = next((name for name, value in (("--target", asked.target), ("--data-options", asked.options)) if value), None)
    if unused is not None:
        raise IncidenceError(f"{path} has its own labels: leave out {unused}.")
    found = _read(path)
    labels = found["labels"]
    return labelled(
        asked.name, with_degrees(_graph(path, found, len(labels))), *_task(labels, asked.task, path), _splits(path, found, len(labels))
    )


def with_degrees(example: Example) -> Example:
    """A graph whose nodes have their degrees for features, if they have no others."""
    if example.features["i"].shape[1]:
        return example
    return example.replace(features={**example.features, "i": node_features(example.structure.total_nodes, example.structure["{i j}"])})


def graph_of_arrays(path: Path) -> Example:
    """A graph without its labels; nodes without features have no columns."""
    found = _read(path)
    edges = next(found[key] for key in ("edges", "edge_index") if key in found)
    rows = next((len(found[key]) for key in ("labels", "features") if key in found), None)
    return _graph(path, found, int(edges.max()) + 1 if rows is None and edges.numel() else rows or 0)


def _graph(path: Path, found: Mapping[str, Tensor], count: int) -> Example:
    features = found.get("features", torch.zeros(count, 0))
    if len(features) != count:
        raise IncidenceError(f"{path}: there are {count} labels of nodes and {len(features)} rows of features.")
    pairs = _pairs(path, found, count)
    return Example(Structure(count, {"{i j}": pairs}), {"i": features.flatten(1).float(), "{i j}": torch.ones(pairs.shape[1], 1)})


def _pairs(path: Path, found: Mapping[str, Tensor], count: int) -> Tensor:
    """Undirected edges, each once and without loops, [2, edges]; `edges` has a row for each, and `edge_index` a column."""
    given = found["edges"] if "edges" in found else found["edge_index"].T
    given = given.T if given.ndim == 2 and given.shape[1] != 2 else given
    if given.ndim != 2 or given.shape[1] != 2:
        raise IncidenceError(f"{path}: an edge has two nodes, as in an array of shape [edges, 2]; got {list(given.shape)}.")
    pairs = given.T.long()
    if pairs.numel() and not 0 <= int(pairs.min()) <= int(pairs.max()) < count:
        raise IncidenceError(f"{path}: edges join nodes 0 to {count - 1}, as there are {count} labels; got {int(pairs.max())}.")
    return once(Pattern("{i j}"), pairs[:, pairs[0] != pairs[1]].contiguous(), count, {}, str(path))[0]


def _task(labels: Tensor, asked: str | None, path: Path) -> tuple[Task, Tensor]:
    """Whole numbers are classes, several of 0 and 1 for each node are labels, unless something else is asked for."""
    flat = labels[:, 0] if labels.ndim == 2 and labels.shape[1] == 1 else labels
    task, [rows] = task_of([flat], "i", asked, str(path))
    return task, rows


def _read(path: Path) -> dict[str, Tensor]:
    try:
        with np.load(path, allow_pickle=False) as file:
            names = {what: next((name for name in known if name in file.files), None) for what, known in _KNOWN.items()}
            arrays: dict[str, Any] = {what: file[name] for what, name in names.items() if name is not None}
            return {what: torch.from_numpy(array) for what, array in arrays.items()}
    except (OSError, ValueError, TypeError, EOFError, zipfile.BadZipFile) as error:
        raise IncidenceError(f"{path} cannot be read as arrays of numbers: {error}.") from error


def _splits(path: Path, found: Mapping[str, Tensor], count: int) -> list[Split]:
    if "train" not in found or "test" not in found:
        return []
    nothing = torch.zeros_like(found["train"])
    masks = [found.get(part, nothing).bool() for part in Split._fields]
    tables = [mask[None] if mask.ndim == 1 else mask for mask in masks]  # (splits, nodes)
    if any(table.shape != (len(tables[0]), count) for table in tables):
        raise IncidenceError(f"{path}: masks have a row for each split and a column for each of {count} nodes.")
    return [Split(*(table[k].nonzero()[:, 0] for table in tables)) for k in range(len(tables[0]))]
