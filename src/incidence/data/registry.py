"""Data sets by name, and readers of files by name: a new one is one new entry."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from inspect import signature
from pathlib import Path
from types import UnionType
from typing import Any, NamedTuple, Union, get_args, get_origin, get_type_hints

from incidence.data.dataset import DataSet
from incidence.errors import IncidenceError
from incidence.structure.example import Example

__all__ = ["DATA_SETS", "READERS", "Read", "Reader", "assert_options", "call", "load", "loader", "options_of", "reader"]


class Read(NamedTuple):
    """One example of a file.

    Attributes:
        name: What it is called: the name of the file, with a number or the name of the record.
        example: With features.
        nodes: What the file calls the nodes, in their order; None if they are numbered from 0.
    """

    name: str
    example: Example
    nodes: tuple[str, ...] | None = None


@dataclass(frozen=True)
class Reader:
    """Reads files and makes features.

    Attributes:
        suffixes: Of the files it reads, such as `.sdf`.
        read: From a path, a list that takes the errors of single records, and options, to examples. A file that cannot be read at all
            is an IncidenceError that names it.
    """

    suffixes: tuple[str, ...]
    read: Callable[..., Iterator[Read]]


# name: (module, function, one line for --help). A loader is called as loader(name, folder, **options) and gives a DataSet; folder is None
# if the user named none.
DATA_SETS: dict[str, tuple[str, str, str]] = {
    "solubility": ("incidence.data.molecules.solubility", "load_solubility", "aqueous solubility of 1,282 molecules; part of the package"),
    "mutag": ("incidence.data.graphs.tu", "load_tu", "188 molecules, mutagenic or not; 10 folds"),
    "ptc": ("incidence.data.graphs.tu", "load_tu", "344 molecules, carcinogenic or not; 10 folds"),
    "proteins": ("incidence.data.graphs.tu", "load_tu", "1113 proteins, enzymes or not; 10 folds"),
    "nci1": ("incidence.data.graphs.tu", "load_tu", "4110 molecules, active against lung cancer or not; 10 folds"),
    "imdb-b": ("incidence.data.graphs.tu", "load_tu", "1000 networks of actors in 2 genres; 10 folds"),
    "imdb-m": ("incidence.data.graphs.tu", "load_tu", "1500 networks of actors in 3 genres; 10 folds"),
    "csl": ("incidence.data.graphs.hard", "load_csl", "150 circular skip link graphs in 10 classes; 5 folds"),
    "exp": ("incidence.data.graphs.hard", "load_exp", "600 pairs of graphs of formulas, satisfiable or not; 10 folds"),
    "cexp": ("incidence.data.graphs.hard", "load_exp", "as exp, half of the pairs made easy; 10 folds"),
    "sr": ("incidence.data.graphs.hard", "load_sr", "strongly regular graphs of a family, nothing to train on"),
    "brec": ("incidence.data.graphs.hard", "load_brec", "pairs of graphs that are hard to tell apart, nothing to train on"),
    "counting": ("incidence.data.graphs.counting", "load_counting", "5000 random graphs with counts of small patterns"),
    "cora-cocitation": ("incidence.data.hypergraphs", "load_citation", "2708 papers, topics by co-citation hypergraph; 10 splits"),
    "cora-coauthorship": ("incidence.data.hypergraphs", "load_citation", "2708 papers, topics by co-authorship hypergraph; 10 splits"),
    "citeseer-cocitation": ("incidence.data.hypergraphs", "load_citation", "3312 papers, topics by co-citation hypergraph; 10 splits"),
    "esol": ("incidence.data.molecules.moleculenet", "load_moleculenet", "aqueous solubility of 1,128 molecules (needs RDKit)"),
    "freesolv": ("incidence.data.molecules.moleculenet", "load_moleculenet", "hydration free energy of 642 molecules (needs RDKit)"),
    "lipophilicity": ("incidence.data.molecules.moleculenet", "load_moleculenet", "logD of 4,200 molecules (needs RDKit)"),
    "qm7": ("incidence.data.molecules.quantum", "load_qm7", "atomisation energies of 7,101 molecules in space"),
    "qm9": ("incidence.data.molecules.quantum", "load_qm9", "a property of 13,087 molecules in space, by `target`"),
    "shrec11": ("incidence.data.meshes.shrec", "load_shrec11", "600 closed surfaces of 30 classes"),
    "shrec11-10": ("incidence.data.meshes.shrec", "load_shrec11", "the same, 10 training meshes a class drawn at random"),
    "coseg-aliens": ("incidence.data.meshes.coseg", "load_coseg", "198 surfaces, the part of every edge"),
    "coseg-vases": ("incidence.data.meshes.coseg", "load_coseg", "297 surfaces, the part of every edge"),
}

# name: (module, the name of its Reader)
READERS: dict[str, tuple[str, str]] = {
    "graph": ("incidence.data.graphs.edge_lists", "GRAPH"),
    "example": ("incidence.data.saved", "EXAMPLE"),
    "molecule": ("incidence.data.molecules.reader", "READER"),
    "mesh": ("incidence.data.meshes.files", "MESH"),
}


def load(name: str, folder: Path | None = None, **options: Any) -> DataSet:
    """A data set by name.

    Raises:
        IncidenceError: There is none of that name, or its files are missing or damaged.
    """
    return call(loader(name), name, (name, folder), options)


def loader(name: str) -> Callable[..., DataSet]:
    """What loads the data set of a name."""
    if name not in DATA_SETS:
        raise IncidenceError(f"no data set {name!r}; there are: {', '.join(sorted(DATA_SETS))}. A folder of your own is given by its path.")
    module, function, _ = DATA_SETS[name]
    found: Callable[..., DataSet] = getattr(import_module(module), function)
    return found


def call(load: Callable[..., DataSet], name: str, arguments: tuple[Any, ...], options: Mapping[str, Any]) -> DataSet:
    """Calls a loader with options that it takes."""
    assert_options(load, f"the data set {name!r}", options)
    return load(*arguments, **options)


def options_of(function: Callable[..., Any]) -> dict[str, Any]:
    """The options of a loader or of the function of a reader, which come after two arguments, and their types."""
    hints = get_type_hints(function)
    return {key: hints.get(key, object) for key in list(signature(function).parameters)[2:]}


def assert_options(function: Callable[..., Any], who: str, options: Mapping[str, Any]) -> None:
    """Refuses options that a loader or reader does not take.

    Raises:
        IncidenceError: The message names those it takes.
    """
    taken = options_of(function)
    for key, value in options.items():
        if key not in taken:
            have = f"takes {', '.join(taken)}" if taken else "takes none"
            raise IncidenceError(f"{who} has no option `{key}`: it {have}.")
        if not _fits(value, taken[key]):
            raise IncidenceError(f"the option `{key}` of {who} cannot be {value!r}.")


def _fits(value: object, hint: Any) -> bool:
    kinds = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    plain = [(list, tuple) if get_origin(kind) is Sequence else (int, float) if kind is float else kind for kind in kinds]
    return any(isinstance(value, kind) and (kind is bool or not isinstance(value, bool)) for kind in plain)


def reader(name: str) -> Reader:
    """A reader by name."""
    if name not in READERS:
        raise IncidenceError(f"no reader {name!r}; there are: {', '.join(sorted(READERS))}.")
    module, attribute = READERS[name]
    found: Reader = getattr(import_module(module), attribute)
    return found
