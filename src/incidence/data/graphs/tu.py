"""The TU graphs: molecules, proteins and film networks, with ten fixed folds."""

from __future__ import annotations

from pathlib import Path

from torch import Tensor

from incidence.data.dataset import DataSet, Split, Task
from incidence.data.graphs.files import damaged, find, rows
from incidence.data.graphs.many import graphs, label_numbers, node_features
from incidence.data.graphs.neighbour_lists import NeighbourLists, read_neighbour_lists
from incidence.structure.example import Example

__all__ = ["labelled_graphs", "load_tu"]

_FOLDER = "tu_graphs"
# name: (name of its files, names of the classes in the order of their symbols)
_SETS: dict[str, tuple[str, tuple[str, ...]]] = {
    "mutag": ("MUTAG", ("not mutagenic", "mutagenic")),
    "ptc": ("PTC", ("class 0", "class 1")),
    "proteins": ("PROTEINS", ("class 0", "class 1")),
    "nci1": ("NCI1", ("class 0", "class 1")),
    "imdb-b": ("IMDBBINARY", ("class 0", "class 1")),
    "imdb-m": ("IMDBMULTI", ("class 0", "class 1", "class 2")),
}
_ABOUT = (
    "{} of the TU collection, with the ten fixed folds that the literature uses. Published accuracies are means over the folds; many are "
    "those of the best epoch on the test part itself. The option validation keeps a part of the training graphs apart instead."
)


def load_tu(name: str, folder: Path | None) -> DataSet:
    """A TU data set; ten splits, one for each fold.

    Args:
        name: `mutag`, `ptc`, `proteins`, `nci1`, `imdb-b` or `imdb-m`.
        folder: `tu_graphs`, or the folder that holds it.
    """
    file, names = _SETS[name]
    path = find(name, folder, _FOLDER, f"{file}/{file}.txt.gz")
    lists = read_neighbour_lists(path)
    symbols, classes = lists.classes.unique(return_inverse=True)
    if len(symbols) != len(names):
        raise damaged(path, f"it has {len(symbols)} classes, not {len(names)}")
    examples, labels = labelled_graphs(lists, classes)
    splits = []
    for fold in range(1, 11):
        train, test = (rows(name, path.parent / "10fold_idx" / f"{part}_idx-{fold}.txt", len(classes)) for part in ("train", "test"))
        splits.append(Split(train, train[:0], test))
    return DataSet(
        name,
        examples,
        Task("classification", names),
        tuple(splits),
        reader="graph",
        reader_options={"labels": labels, "degrees": True},
        about=_ABOUT.format(file),
        metric="accuracy",
    )


def labelled_graphs(lists: NeighbourLists, classes: Tensor) -> tuple[list[Example], list[int]]:
    """Examples with labels and degrees as features, and the labels there are; a single one says nothing and is none."""
    symbols: list[int] = lists.labels.unique().tolist()
    symbols = symbols if len(symbols) > 1 else []
    labels = label_numbers(lists.labels, symbols) if symbols else None
    features = node_features(int(lists.sizes.sum()), lists.edges, labels, len(symbols))
    return graphs(lists.sizes, lists.edges, features, classes), symbols
