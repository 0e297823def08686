"""Graphs that are hard to tell apart: CSL, EXP, CEXP, strongly regular graphs, BREC."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import torch
from torch import Tensor

from incidence.data.dataset import DataSet, Split, Task
from incidence.data.graphs.files import array, arrays, checked_rows, choose, damaged, find, numbered_lines, text
from incidence.data.graphs.folds import others, random_folds
from incidence.data.graphs.graph6 import read_graph6
from incidence.data.graphs.many import graphs, node_features
from incidence.data.graphs.neighbour_lists import read_neighbour_lists
from incidence.data.graphs.tu import labelled_graphs
from incidence.errors import IncidenceError
from incidence.structure.example import Example
from incidence.structure.ragged import ranges

__all__ = ["FAMILIES", "GROUPS", "load_brec", "load_csl", "load_exp", "load_sr"]

FAMILIES = ("sr16622", "sr251256", "sr261034", "sr281264", "sr291467", "sr351899")
GROUPS = ("basic", "regular", "str", "4vtx", "dr", "extension", "cfi")
_PLAIN = {"degrees": False}
_NO_TRAINING = (
    "There is nothing to train on: everything is in the test part. A network with random weights, in double precision, separates a pair if "
    "its outputs differ by far more than those of a graph and a relabelled copy of it."
)


def load_csl(name: str, folder: Path | None) -> DataSet:
    """Circular skip links: ten classes of 4-regular graphs on 41 nodes, five fixed folds.

    Args:
        name: `csl`.
        folder: The folder `csl`, or the one that holds it.
    """
    path = find(name, folder, "csl", "csl.npz")
    found = arrays(path, ["edges", "labels"])
    ends, classes = torch.from_numpy(found["edges"].astype("int64")), torch.from_numpy(found["labels"].astype("int64"))
    if ends.ndim != 3 or len(ends) != len(classes):
        raise damaged(path, "its edges and labels do not fit together")
    examples = _plain([(41, own.T) for own in ends], classes)
    # The file of validation graphs that comes with the folds lists the test graphs, so it is not read: 30 graphs are in neither part.
    folds = [_folds(find(name, path.parent, "", f"CSL_{part}.txt"), len(classes)) for part in ("train", "test")]
    splits = tuple(Split(train, others(torch.cat([train, test]), len(classes)), test) for train, test in zip(*folds, strict=True))
    about = (
        "150 circular skip link graphs (Murphy et al., 2019): message passing, as the 1-WL test, cannot tell the ten classes apart. The "
        "published folds validate on the test graphs; here the graphs in neither part, 3 of each class, are for validation."
    )
    return _data_set(name, examples, tuple(f"class {k}" for k in range(10)), splits, _PLAIN, about)


def _folds(path: Path, count: int) -> list[Tensor]:
    lines = numbered_lines(path)
    if len(lines) != 5:
        raise damaged(path, f"it has {len(lines)} lines, not one for each of the 5 folds")
    return [checked_rows(path, torch.from_numpy(line), count) for line in lines]


def load_exp(name: str, folder: Path | None, *, seed: int = 0) -> DataSet:
    """EXP and CEXP: formulas as graphs, satisfiable or not; ten folds by chance that keep the two graphs of a pair together.

    Args:
        name: `exp` or `cexp`.
        folder: `exp_cexp`, or the folder that holds it.
        seed: Of the folds.
    """
    lists = read_neighbour_lists(find(name, folder, "exp_cexp", f"{name.upper()}.txt.gz"))
    examples, labels = labelled_graphs(lists, lists.classes)
    pairs = len(examples) // 2
    splits = []
    for test in random_folds(pairs, 10, seed):
        parts = (others(test, pairs), test[:0], test)
        splits.append(Split(*(torch.stack([2 * part, 2 * part + 1], dim=1).flatten() for part in parts)))
    about = f"{name.upper()} (Abboud et al., 2021): 600 pairs of planar formulas as graphs; graphs 2k and 2k + 1 differ in class."
    return _data_set(name, examples, ("class 0", "class 1"), tuple(splits), {"labels": labels, "degrees": True}, about)


def load_sr(name: str, folder: Path | None, *, family: str = "sr16622") -> DataSet:
    """The strongly regular graphs of a family, each a class of its own.

    Args:
        name: `sr`.
        folder: `sr_graphs`, or the folder that holds it.
        family: Such as `sr251256`: 25 nodes of degree 12, with 5 and 6 common neighbours of adjacent nodes and of others.
    """
    choose(name, "family", family, FAMILIES)
    path = find(name, folder, "sr_graphs", f"{family}.g6")
    examples = _plain(_parsed(path, text(path).split()))
    names = tuple(f"graph {k}" for k in range(len(examples)))
    return _data_set(name, examples, names, (_all_test(len(examples)),), _PLAIN, f"Strongly regular graphs {family}. {_NO_TRAINING}")


def load_brec(name: str, folder: Path | None, *, group: str = "basic") -> DataSet:
    """The pairs of a group of BREC: examples 2k and 2k + 1 are a pair, of classes 0 and 1.

    Args:
        name: `brec`.
        folder: The folder `brec`, or the one that holds it.
        group: `basic`, `regular`, `str` (strongly regular), `4vtx`, `dr` (distance regular), `extension` or `cfi`.
    """
    choose(name, "group", group, GROUPS)
    path = find(name, folder, "brec", f"{group}.npy")
    lines = array(path).reshape(-1)
    if lines.dtype.kind not in "US" or len(lines) % 2:
        raise damaged(path, "it has no pairs of graph6 texts")
    examples = _plain(_parsed(path, lines.tolist()), torch.arange(len(lines)) % 2)
    about = f"The group {group} of BREC (Wang and Zhang, 2024): pairs of graphs that the 1-WL test cannot tell apart. {_NO_TRAINING}"
    return _data_set(name, examples, ("first", "second"), (_all_test(len(examples)),), _PLAIN, about)


def _parsed(path: Path, lines: Sequence[str | bytes]) -> list[tuple[int, Tensor]]:
    try:
        return [read_graph6(line) for line in lines]
    except IncidenceError as error:
        raise damaged(path, str(error).rstrip(".")) from None


def _plain(parts: Sequence[tuple[int, Tensor]], classes: Tensor | None = None) -> list[Example]:
    """Examples without features; if there are no classes, each is its own."""
    sizes = torch.tensor([count for count, _ in parts])
    edges = torch.cat([own + start for (_, own), start in zip(parts, ranges(sizes).tolist(), strict=False)], dim=1)
    features = node_features(int(sizes.sum()), edges, degrees=False)
    return graphs(sizes, edges, features, torch.arange(len(parts)) if classes is None else classes)


def _all_test(count: int) -> Split:
    none = torch.zeros(0, dtype=torch.long)
    return Split(none, none, torch.arange(count))


def _data_set(
    name: str, examples: list[Example], names: tuple[str, ...], splits: tuple[Split, ...], options: Mapping[str, object], about: str
) -> DataSet:
    task = Task("classification", names)
    return DataSet(name, examples, task, splits, reader="graph", reader_options=options, about=about, metric="accuracy")
