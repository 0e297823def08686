"""Graphs: the TU collection with its ten folds; CSL, EXP, strongly regular graphs and BREC, hard to
tell apart; counts of patterns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import torch
from torch import Tensor

from benchmarks.sets.files import (
    array,
    arrays,
    checked_rows,
    choose,
    damaged,
    find,
    lines_of_integers,
    rows,
    text,
)
from benchmarks.sets.neighbour_lists import NeighbourLists, read_neighbour_lists
from incidence.data import DataSet, Split, Task
from incidence.data.graphs import graphs, label_numbers, node_features, read_graph6
from incidence.errors import IncidenceError
from incidence.structure.example import Example
from incidence.structure.ragged import ranges

__all__ = [
    "FAMILIES",
    "GROUPS",
    "load_brec",
    "load_counting",
    "load_csl",
    "load_exp",
    "load_small_graphs",
    "load_sr",
    "load_tu",
    "others",
    "random_folds",
]

_PLAIN = {"degrees": False}
_TWO = ("class 0", "class 1")

# ---- the TU collection

# name: (name of its files, names of the classes in the order of their symbols)
_TU: dict[str, tuple[str, tuple[str, ...]]] = {
    "mutag": ("MUTAG", ("not mutagenic", "mutagenic")),
    "ptc": ("PTC", _TWO),
    "proteins": ("PROTEINS", _TWO),
    "nci1": ("NCI1", _TWO),
    "imdb-b": ("IMDBBINARY", _TWO),
    "imdb-m": ("IMDBMULTI", (*_TWO, "class 2")),
}
_ABOUT_TU = (
    "{} of the TU collection, with the ten fixed folds that the literature uses. Published"
    " accuracies are means over the folds; many are those of the best epoch on the test part"
    " itself. The option validation keeps a part of the training graphs apart instead."
)


def load_tu(name: str, folder: Path | None) -> DataSet:
    """A TU data set; ten splits, one for each fold.

    Args:
        name: `mutag`, `ptc`, `proteins`, `nci1`, `imdb-b` or `imdb-m`.
        folder: `tu_graphs`, or the folder that holds it.
    """
    file, names = _TU[name]
    path = find(name, folder, "tu_graphs", f"{file}/{file}.txt.gz")
    lists = read_neighbour_lists(path)
    symbols, classes = lists.classes.unique(return_inverse=True)
    if len(symbols) != len(names):
        raise damaged(path, f"it has {len(symbols)} classes, not {len(names)}")
    examples, labels = _labelled(lists, classes)
    splits = []
    for fold in range(1, 11):
        train, test = (
            rows(name, path.parent / "10fold_idx" / f"{part}_idx-{fold}.txt", len(classes))
            for part in ("train", "test")
        )
        splits.append(Split(train, train[:0], test))
    return _classification(
        name, examples, names, splits, {"labels": labels, "degrees": True}, _ABOUT_TU.format(file)
    )


def _labelled(lists: NeighbourLists, classes: Tensor) -> tuple[list[Example], list[int]]:
    """Examples with labels and degrees as features, and the labels there are; a single one says
    nothing and is none.
    """
    symbols: list[int] = lists.labels.unique().tolist()
    symbols = symbols if len(symbols) > 1 else []
    labels = label_numbers(lists.labels, symbols) if symbols else None
    features = node_features(int(lists.sizes.sum()), lists.edges, labels, len(symbols))
    return graphs(lists.sizes, lists.edges, features, classes), symbols


# ---- hard to tell apart

FAMILIES = ("sr16622", "sr251256", "sr261034", "sr281264", "sr291467", "sr351899")
GROUPS = ("basic", "regular", "str", "4vtx", "dr", "extension", "cfi")
_NO_TRAINING = (
    "There is nothing to train on: everything is in the test part. A network with random weights,"
    " in double precision, separates a pair if its outputs differ by far more than those of a graph"
    " and a relabelled copy of it."
)


def load_csl(name: str, folder: Path | None) -> DataSet:
    """Circular skip links: ten classes of 4-regular graphs on 41 nodes, five fixed folds.

    Args:
        name: `csl`.
        folder: The folder `csl`, or the one that holds it.
    """
    path = find(name, folder, "csl", "csl.npz")
    found = arrays(path, ["edges", "labels"])
    ends, classes = (
        torch.from_numpy(found["edges"].astype("int64")),
        torch.from_numpy(found["labels"].astype("int64")),
    )
    if ends.ndim != 3 or len(ends) != len(classes):
        raise damaged(path, "its edges and labels do not fit together")
    examples = _plain([(41, own.T) for own in ends], classes)
    # The file of validation graphs that comes with the folds lists the test graphs, so it is not
    # read: 30 graphs are in neither part.
    folds = [
        _folds(find(name, path.parent, "", f"CSL_{part}.txt"), len(classes))
        for part in ("train", "test")
    ]
    splits = [
        Split(train, others(torch.cat([train, test]), len(classes)), test)
        for train, test in zip(*folds, strict=True)
    ]
    about = (
        "150 circular skip link graphs (Murphy et al., 2019): message passing, as the 1-WL test,"
        " cannot tell the ten classes apart. The published folds validate on the test graphs; here"
        " the graphs in neither part, 3 of each class, are for validation."
    )
    return _classification(name, examples, [f"class {k}" for k in range(10)], splits, _PLAIN, about)


def _folds(path: Path, count: int) -> list[Tensor]:
    lines = lines_of_integers(path)
    if len(lines) != 5:
        raise damaged(path, f"it has {len(lines)} lines, not one for each of the 5 folds")
    return [checked_rows(path, torch.from_numpy(line), count) for line in lines]


def load_exp(name: str, folder: Path | None, *, seed: int = 0) -> DataSet:
    """EXP and CEXP: formulas as graphs, satisfiable or not; ten folds by chance that keep the two
    graphs of a pair together.

    Args:
        name: `exp` or `cexp`.
        folder: `exp_cexp`, or the folder that holds it.
        seed: Of the folds.
    """
    lists = read_neighbour_lists(find(name, folder, "exp_cexp", f"{name.upper()}.txt.gz"))
    examples, labels = _labelled(lists, lists.classes)
    pairs = len(examples) // 2
    splits = []
    for test in random_folds(pairs, 10, seed):
        parts = (others(test, pairs), test[:0], test)
        splits.append(
            Split(*(torch.stack([2 * part, 2 * part + 1], dim=1).flatten() for part in parts))
        )
    about = (
        f"{name.upper()} (Abboud et al., 2021): 600 pairs of planar formulas as graphs; graphs 2k"
        " and 2k + 1 differ in class."
    )
    return _classification(name, examples, _TWO, splits, {"labels": labels, "degrees": True}, about)


def load_sr(name: str, folder: Path | None, *, family: str = "sr16622") -> DataSet:
    """The strongly regular graphs of a family, each a class of its own.

    Args:
        name: `sr`.
        folder: `sr_graphs`, or the folder that holds it.
        family: Such as `sr251256`: 25 nodes of degree 12, with 5 and 6 common neighbours of
            adjacent nodes and of others.
    """
    choose(name, "family", family, FAMILIES)
    return _each_a_class(
        name, find(name, folder, "sr_graphs", f"{family}.g6"), f"Strongly regular graphs {family}."
    )


def load_brec(name: str, folder: Path | None, *, group: str = "basic") -> DataSet:
    """The pairs of a group of BREC: examples 2k and 2k + 1 are a pair, of classes 0 and 1.

    Args:
        name: `brec`.
        folder: The folder `brec`, or the one that holds it.
        group: `basic`, `regular`, `str` (strongly regular), `4vtx`, `dr` (distance regular),
            `extension` or `cfi`.
    """
    choose(name, "group", group, GROUPS)
    path = find(name, folder, "brec", f"{group}.npy")
    lines = array(path).reshape(-1)
    if lines.dtype.kind not in "US" or len(lines) % 2:
        raise damaged(path, "it has no pairs of graph6 texts")
    examples = _plain(_from_graph6(path, lines.tolist()), torch.arange(len(lines)) % 2)
    about = (
        f"The group {group} of BREC (Wang and Zhang, 2024): pairs of graphs that the 1-WL test"
        f" cannot tell apart. {_NO_TRAINING}"
    )
    return _classification(
        name, examples, ("first", "second"), [_all_test(examples)], _PLAIN, about
    )


def load_small_graphs(name: str, folder: Path | None, *, nodes: int = 8) -> DataSet:
    """All connected graphs with so many nodes, each a class of its own.

    Args:
        name: `small-graphs`.
        folder: `small_graphs`, or the folder that holds it.
        nodes: From 2 to 8.
    """
    choose(name, "nodes", str(nodes), [str(count) for count in range(2, 9)])
    return _each_a_class(
        name,
        find(name, folder, "small_graphs", f"graph{nodes}c.g6"),
        f"All connected graphs with {nodes} nodes.",
    )


def _each_a_class(name: str, path: Path, about: str) -> DataSet:
    examples = _plain(_from_graph6(path, text(path).split()))
    names = [f"graph {k}" for k in range(len(examples))]
    return _classification(
        name, examples, names, [_all_test(examples)], _PLAIN, f"{about} {_NO_TRAINING}"
    )


def _from_graph6(path: Path, lines: Sequence[str | bytes]) -> list[tuple[int, Tensor]]:
    try:
        return [read_graph6(line) for line in lines]
    except IncidenceError as error:
        raise damaged(path, str(error).rstrip(".")) from None


def _plain(parts: Sequence[tuple[int, Tensor]], classes: Tensor | None = None) -> list[Example]:
    """Examples without features; if there are no classes, each is its own."""
    sizes = torch.tensor([count for count, _ in parts])
    edges = torch.cat(
        [own + start for (_, own), start in zip(parts, ranges(sizes).tolist(), strict=False)], dim=1
    )
    features = node_features(int(sizes.sum()), edges, degrees=False)
    return graphs(sizes, edges, features, torch.arange(len(parts)) if classes is None else classes)


# ---- counts of patterns

_COUNTED = ("triangle", "star", "tailed_triangle", "chordal_cycle")
_ABOUT_COUNTING = (
    "5000 random graphs of 10 nodes (Chen et al., 2020); the target is the number of {}s. The"
    " literature reports the mean squared error of the test part divided by the variance of the"
    " target over all graphs, which is {:.4g}."
)


def load_counting(name: str, folder: Path | None, *, target: str = "triangle") -> DataSet:
    """Random graphs with the counts of a pattern: triangles, tailed triangles and chordal cycles
    are induced, 3-stars are not.

    Args:
        name: `counting`.
        folder: `substructure_counting`, or the folder that holds it.
        target: `triangle`, `star`, `tailed_triangle` or `chordal_cycle`.
    """
    choose(name, "target", target, _COUNTED)
    path = find(name, folder, "substructure_counting", "dataset1_er.npz")
    found = arrays(path, ["node_ptr", "edge_ptr", "edges", f"label_{target}"])
    node_ptr, edge_ptr, ends = (
        torch.from_numpy(found[key].astype("int64")) for key in ("node_ptr", "edge_ptr", "edges")
    )
    counts = torch.from_numpy(found[f"label_{target}"].astype("float32"))
    examples = _counted(path, node_ptr, edge_ptr, ends, counts)
    return DataSet(
        name,
        examples,
        Task("regression", (target,)),
        (
            Split(
                *(
                    rows(name, path.parent / f"dataset1_{part}.txt", len(examples))
                    for part in ("train", "val", "test")
                )
            ),
        ),
        reader="graph",
        reader_options=_PLAIN,
        about=_ABOUT_COUNTING.format(
            target.replace("_", " "), float(counts.double().var(correction=0))
        ),
    )


_CYCLES = ("cycle3", "cycle4", "cycle5", "cycle6", "chordal4", "chordal5")
_ABOUT_CYCLES = (
    "5000 random graphs of 10 to 30 nodes (Zhang et al., 2024); the target is the number of"
    " subgraphs {}. The literature reports the mean absolute error of the test part divided by the"
    " deviation of the target over all graphs, which is {:.4f}."
)


def load_cycles(name: str, folder: Path | None, *, target: str = "cycle3") -> DataSet:
    """Random graphs with the counts of cycles, with and without a chord; not necessarily induced.

    Args:
        name: `cycles`.
        folder: `cycle_counting`, or the folder that holds it.
        target: `cycle3` to `cycle6`, `chordal4` or `chordal5`.
    """
    choose(name, "target", target, _CYCLES)
    path = find(name, folder, "cycle_counting", "cycle_counting.npz")
    found = arrays(
        path, ["node_ptr", "edge_ptr", "edges", f"graph_{target}", "train", "val", "test"]
    )
    node_ptr, edge_ptr, ends = (
        torch.from_numpy(found[key].astype("int64")) for key in ("node_ptr", "edge_ptr", "edges")
    )
    counts = torch.from_numpy(found[f"graph_{target}"].astype("float32"))
    examples = _counted(path, node_ptr, edge_ptr, ends, counts)
    parts = [
        checked_rows(path, torch.from_numpy(found[part].astype("int64")), len(examples))
        for part in ("train", "val", "test")
    ]
    return DataSet(
        name,
        examples,
        Task("regression", (target,)),
        (Split(*parts),),
        reader="graph",
        reader_options=_PLAIN,
        about=_ABOUT_CYCLES.format(target, float(counts.double().std())),
        metric="mae",
    )


def _counted(
    path: Path, node_ptr: Tensor, edge_ptr: Tensor, ends: Tensor, counts: Tensor
) -> list[Example]:
    """Graphs from prefix sums of their nodes and edges, with a number each."""
    sizes, per_graph = node_ptr.diff(), edge_ptr.diff()
    if len(sizes) != len(counts) or len(per_graph) != len(sizes) or int(edge_ptr[-1]) != len(ends):
        raise damaged(path, "its arrays do not fit together")
    home = torch.repeat_interleave(torch.arange(len(sizes)), per_graph)
    edges = (ends + ranges(sizes)[home, None]).T
    return graphs(
        sizes, edges, node_features(int(node_ptr[-1]), edges, degrees=False), counts[:, None]
    )


# ---- splits, and the data set of a classification


def others(chosen: Tensor, count: int) -> Tensor:
    """The numbers below `count` that are not among the chosen."""
    kept = torch.ones(count, dtype=torch.bool)
    kept[chosen] = False
    return kept.nonzero()[:, 0]


def random_folds(count: int, folds: int, seed: int) -> list[Tensor]:
    """The numbers below `count` in so many parts of nearly equal size, by chance."""
    order = torch.randperm(count, generator=torch.Generator().manual_seed(seed))
    return [part.sort().values for part in order.tensor_split(folds)]


def _all_test(examples: Sequence[Example]) -> Split:
    none = torch.zeros(0, dtype=torch.long)
    return Split(none, none, torch.arange(len(examples)))


def _classification(
    name: str,
    examples: list[Example],
    names: Sequence[str],
    splits: Sequence[Split],
    options: Mapping[str, object],
    about: str,
) -> DataSet:
    task = Task("classification", tuple(names))
    return DataSet(
        name,
        examples,
        task,
        tuple(splits),
        reader="graph",
        reader_options=options,
        about=about,
        metric="accuracy",
    )
