"""Citation hypergraphs: papers are nodes, papers cited together or of one author are hyperedges;
the topics of papers are predicted.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from benchmarks.sets.files import arrays, checked_rows, damaged, find
from benchmarks.sets.graphs import others
from incidence.data import DataSet, Split, Task
from incidence.structure import Structure
from incidence.structure.example import Example

__all__ = ["load_citation"]

_FOLDER, _SPLITS = "citation_hypergraphs", 10
# name: (file, number of classes, what a hyperedge is)
_SETS = {
    "cora-cocitation": ("cora_cocitation.npz", 7, "papers that are cited together"),
    "cora-coauthorship": ("cora_coauthorship.npz", 7, "papers of one author"),
    "citeseer-cocitation": ("citeseer_cocitation.npz", 6, "papers that are cited together"),
}
_ABOUT = (
    "Papers as nodes, with the words they contain; a hyperedge joins {}; the target is the topic of"
    " a paper (Yadati et al., 2019). Hyperedges on the same papers are one here, with their number"
    " as a feature. Ten splits, without a validation part; the literature reports the mean error"
    " over them."
)


def load_citation(name: str, folder: Path | None) -> DataSet:
    """A citation hypergraph: one structure, ten splits of its nodes.

    Args:
        name: `cora-cocitation`, `cora-coauthorship` or `citeseer-cocitation`.
        folder: `citation_hypergraphs`, or the folder that holds it.
    """
    file, num_classes, what = _SETS[name]
    path = find(name, folder, _FOLDER, file)
    trains = [f"train_{k}" for k in range(1, _SPLITS + 1)]
    keys = [
        "num_nodes",
        "edge_ptr",
        "edge_nodes",
        "labels",
        "feat_indptr",
        "feat_indices",
        "feat_shape",
    ]
    found: dict[str, Any] = {
        key: torch.from_numpy(x.astype("int64"))
        for key, x in arrays(path, [*keys, *trains]).items()
    }
    count, classes = int(found["num_nodes"]), found["labels"]
    _assert_fits(path, found, count, num_classes)
    splits = []
    for key in trains:
        train = checked_rows(path, found[key], count)
        splits.append(Split(train, train[:0], others(train, count)))
    structure, of_hyperedges = _hyperedges(found["edge_ptr"], found["edge_nodes"], count)
    features = {
        "i": _words(found["feat_indptr"], found["feat_indices"], found["feat_shape"]),
        "{i ...}": of_hyperedges,
    }
    return DataSet(
        name,
        [Example(structure, features, {"i": classes})],
        Task("classification", tuple(f"topic {k}" for k in range(num_classes)), at="i"),
        tuple(splits),
        reader="example",
        about=_ABOUT.format(what),
        is_transductive=True,
        metric="accuracy",
    )


def _assert_fits(path: Path, found: dict[str, Tensor], count: int, num_classes: int) -> None:
    fits = (
        len(found["labels"]) == count == len(found["feat_indptr"]) - 1
        and 0 <= int(found["labels"].min()) <= int(found["labels"].max()) < num_classes
        and int(found["edge_ptr"][-1]) == len(found["edge_nodes"])
        and 0 <= int(found["edge_nodes"].min()) <= int(found["edge_nodes"].max()) < count
        and int(found["feat_indptr"][-1]) == len(found["feat_indices"])
        and 0
        <= int(found["feat_indices"].min())
        <= int(found["feat_indices"].max())
        < int(found["feat_shape"][1])
    )
    if not fits:
        raise damaged(path, "its arrays do not fit together")


def _hyperedges(ptr: Tensor, nodes: Tensor, count: int) -> tuple[Structure, Tensor]:
    """Hyperedges in canonical order, each once, with the logarithms of their size and of how often
    each came.
    """
    times = Counter(tuple(sorted(own.tolist())) for own in nodes.tensor_split(ptr[1:-1]))
    sizes = torch.tensor([len(own) for own in times])
    members = torch.stack(
        [
            torch.tensor([node for own in times for node in own]),
            torch.arange(len(sizes)).repeat_interleave(sizes),
        ]
    )
    structure, rows = Structure(count, {"{i ...}": members}).canonical()
    features = torch.stack(
        [sizes.float().log(), torch.tensor(list(times.values())).float().log()], dim=1
    )
    return structure, features[rows["{i ...}"]]


def _words(ptr: Tensor, columns: Tensor, shape: Tensor) -> Tensor:
    words = torch.zeros(*shape.tolist())
    words[torch.repeat_interleave(torch.arange(len(ptr) - 1), ptr.diff()), columns] = 1
    return words
