"""Hypergraphs: the topics of papers that are cited together or of one author; classes of nodes;
classes of whole hypergraphs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from benchmarks.sets.files import (
    arrays,
    checked_rows,
    damaged,
    find,
    integers,
    lines_of_integers,
    text,
)
from benchmarks.sets.graphs import others
from incidence.data import DataSet, Split, Task
from incidence.structure import Structure
from incidence.structure.example import Example

__all__ = ["load_citation", "load_house", "load_node_set", "load_whole", "random_halves"]

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


# ---- hypergraphs of Chien et al. (AllSet)

_NODE_SETS = {"mushroom": ("Mushroom", 2), "20news": ("20newsW100", 4)}
_ABOUT_NODES = (
    "{} as a hypergraph (Chien et al., ICLR 2022). Hyperedges on the same nodes are one here. Ten"
    " random splits of 50, 25 and 25 per cent."
)
_ABOUT_HOUSE = (
    "1290 members of the House in 336 committees (Chodrow et al. 2021); the target is the party."
    " Features are the label one-hot with Gaussian noise of deviation 1, of test nodes as well, as"
    " in all published figures (Chien et al., ICLR 2022). Ten random splits of 50, 25 and 25 per"
    " cent; the noise of all is the same."
)


def load_node_set(name: str, folder: Path | None) -> DataSet:
    """Mushroom or 20newsW100: one structure, ten random splits of its nodes.

    Args:
        name: `mushroom` or `20news`.
        folder: `hypergraph_nodes`, or the folder that holds it.
    """
    file, num_classes = _NODE_SETS[name]
    content = find(name, folder, "hypergraph_nodes", f"{file}.content.gz")
    table = [line.split("\t") for line in text(content).splitlines()]
    pairs = integers(find(name, folder, "hypergraph_nodes", f"{file}.edges.gz")).reshape(-1, 2)
    # placeholders for hyperedges follow the nodes, whose numbers start at that of the nodes
    count = int(pairs[:, 1].min())
    place = {row[0]: number for number, row in enumerate(table[:count])}
    if len(place) != count:
        raise damaged(content, f"it has no {count} different nodes")
    nodes = torch.tensor([place[str(node)] for node in pairs[:, 0]])
    values = torch.tensor([[float(word) for word in row[1:]] for row in table[:count]])
    members: dict[int, list[int]] = {}
    for node, hyperedge in zip(nodes.tolist(), pairs[:, 1].tolist(), strict=True):
        members.setdefault(hyperedge, []).append(node)
    x, classes = values[:, :-1], values[:, -1].long()
    if name == "mushroom":
        x = _one_hot_columns(x.long())
    labels = classes.unique(return_inverse=True)[1]
    return _nodes_data(
        name, count, members.values(), x, labels, num_classes, _ABOUT_NODES.format(file)
    )


def load_house(name: str, folder: Path | None, *, noise: float = 1.0) -> DataSet:
    """The party of members of the House by their committees, with noisy labels as features.

    Args:
        name: `house`.
        folder: `hypergraph_nodes`, or the folder that holds it.
        noise: The deviation of the noise; 0 for no features but a column of ones.
    """
    committees = lines_of_integers(
        find(name, folder, "hypergraph_nodes", "hyperedges-house-committees.txt.gz")
    )
    path = find(name, folder, "hypergraph_nodes", "node-labels-house-committees.txt.gz")
    labels = torch.from_numpy(integers(path)) - 1
    members = [sorted({node - 1 for node in own.tolist()}) for own in committees]
    if max(map(max, members)) >= len(labels):
        raise damaged(path, "it has fewer nodes than the committees")
    x = torch.ones(len(labels), 1)
    if noise:
        generator = torch.Generator().manual_seed(0)
        one_hot = torch.nn.functional.one_hot(labels, 2).float()
        x = one_hot + noise * torch.randn(one_hot.shape, generator=generator)
    return _nodes_data(name, len(labels), members, x, labels, 2, _ABOUT_HOUSE)


def random_halves(count: int, seed: int) -> Split:
    """Half of the nodes for training, a quarter for validation, the others for testing."""
    order = torch.randperm(count, generator=torch.Generator().manual_seed(seed))
    half, quarter = count // 2, count // 4
    return Split(order[:half], order[half : half + quarter], order[half + quarter :])


def _one_hot_columns(codes: Tensor) -> Tensor:
    """Return codes in columns, one column for each code of each column."""
    columns = []
    for code in codes.T:
        values, numbers = code.unique(return_inverse=True)
        columns.append(torch.nn.functional.one_hot(numbers, len(values)).float())
    return torch.cat(columns, dim=1)


def _nodes_data(
    name: str,
    count: int,
    members: Collection[Sequence[int]],
    x: Tensor,
    labels: Tensor,
    num_classes: int,
    about: str,
) -> DataSet:
    sizes = torch.tensor([len(own) for own in members])
    flat = torch.tensor([node for own in members for node in own])
    structure, of_hyperedges = _hyperedges(torch.cat([sizes[:1] * 0, sizes.cumsum(0)]), flat, count)
    splits = [random_halves(count, seed) for seed in range(_SPLITS)]
    return DataSet(
        name,
        [Example(structure, {"i": x, "{i ...}": of_hyperedges}, {"i": labels})],
        Task("classification", tuple(f"class {k}" for k in range(num_classes)), at="i"),
        tuple(splits),
        reader="example",
        about=about,
        is_transductive=True,
        metric="accuracy",
    )


# ---- whole hypergraphs of Feng et al.

_WHOLE = {
    "rhg-3": ("RHG_3", 3),
    "rhg-10": ("RHG_10", 10),
    "rhg-table": ("RHG_table", 2),
    "rhg-pyramid": ("RHG_pyramid", 2),
    "imdb-form": ("IMDB_dir_form", 3),
    "imdb-genre": ("IMDB_dir_genre", 3),
    "stream-player": ("stream_player", 2),
}
_ABOUT_WHOLE = (
    "{} (Feng et al., TPAMI 2024, Apache-2.0): hypergraphs without features; the target is the"
    " class. Nodes have their degree as a feature, as the authors have it, and hyperedges their"
    " size. Five folds, by the number of the hypergraph modulo 5."
)


def load_whole(name: str, folder: Path | None) -> DataSet:
    """Hypergraphs in classes; five folds.

    Args:
        name: `rhg-3`, `rhg-10`, `rhg-table`, `rhg-pyramid`, `imdb-form`, `imdb-genre` or
            `stream-player`.
        folder: `hypergraph_classification`, or the folder that holds it.
    """
    file, num_classes = _WHOLE[name]
    path = find(name, folder, "hypergraph_classification", f"{file}.txt.gz")
    lines = iter(lines_of_integers(path))
    examples, classes = [], []
    try:
        for _ in range(int(next(lines)[0])):
            count, num_hyperedges, label = next(lines).tolist()
            next(lines)  # the tags of nodes, which are all 0
            faces = [next(lines) for _ in range(num_hyperedges)]
            examples.append(_whole_hypergraph(count, faces))
            classes.append(label)
    except (StopIteration, ValueError):
        raise damaged(path, "it has fewer lines than it says") from None
    found = torch.tensor(classes).unique(return_inverse=True)[1]
    examples = [one.replace(target=label) for one, label in zip(examples, found, strict=True)]
    rows = torch.arange(len(examples))
    folds = [(rows % 5 == fold, rows % 5 != fold) for fold in range(5)]
    return DataSet(
        name,
        examples,
        Task("classification", tuple(f"class {k}" for k in range(num_classes))),
        tuple(Split(rows[others], rows[:0], rows[fold]) for fold, others in folds),
        reader="example",
        about=_ABOUT_WHOLE.format(file),
        metric="accuracy",
    )


def _whole_hypergraph(count: int, faces: Sequence[NDArray[np.int64]]) -> Example:
    sizes = torch.tensor([len(own) for own in faces])
    flat = torch.from_numpy(np.concatenate(faces))
    ptr = torch.cat([sizes[:1] * 0, sizes.cumsum(0)])
    structure, of_hyperedges = _hyperedges(ptr, flat, count)
    degrees = torch.bincount(flat, minlength=count).float()
    x = torch.stack([torch.log1p(degrees), 1 / (degrees + 1)], dim=1)
    return Example(structure, {"i": x, "{i ...}": of_hyperedges})
