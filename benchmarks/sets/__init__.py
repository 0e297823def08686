"""The data sets of the literature, with their protocols: folds, splits, and the options they are
trained with.

They are read from files that one has to have already (docs/datasets.md says which); nothing is
fetched. `register()` makes them known to `incidence.data.load` and to training, by name.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import incidence.data
from incidence.data import DataSet

__all__ = ["SETS", "load", "register"]

_SPACE = {"model": "molecule-3d", "loss": "absolute"}
_TU = {"hidden": 24, "depth": 2, "dropout": 0.3, "epochs": 16, "batch_size": 32}
_MUTAG = {
    "model": "rings",
    "max_size": 6,
    "hidden": 32,
    "depth": 3,
    "dropout": 0.2,
    "epochs": 100,
    "batch_size": 32,
}
_CSL = {"model": "rings", "max_size": 8, "hidden": 32, "depth": 2, "epochs": 60, "batch_size": 15}
_COUNTING = {"model": "order3", "lr": 2e-2, "weight_decay": 0.0, "batch_size": 32}
_CYCLES = {
    "model": "local-fgnn",
    "data_options": ("k=3",),
    "hidden": 16,
    "depth": 3,
    "dropout": 0.0,
    "loss": "absolute",
    "epochs": 20,
    "batch_size": 32,
}
_COSEG = {"depth": 6, "batch_size": 6, "epochs": 40}

# name: (loader in this package, one line about it, options it is trained with above those for its
# kind of files)
SETS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "mutag": ("graphs.load_tu", "188 molecules, mutagenic or not; 10 folds", _MUTAG),
    "ptc": (
        "graphs.load_tu",
        "344 molecules, carcinogenic or not; 10 folds",
        {**_TU, "model": "rings", "max_size": 6},
    ),
    "proteins": ("graphs.load_tu", "1113 proteins, enzymes or not; 10 folds", _TU),
    "nci1": (
        "graphs.load_tu",
        "4110 molecules, active against lung cancer or not; 10 folds",
        {**_TU, "epochs": 50, "hidden": 32},
    ),
    "imdb-b": ("graphs.load_tu", "1000 networks of actors in 2 genres; 10 folds", _TU),
    "imdb-m": ("graphs.load_tu", "1500 networks of actors in 3 genres; 10 folds", _TU),
    "csl": ("graphs.load_csl", "150 circular skip link graphs in 10 classes; 5 folds", _CSL),
    "exp": (
        "graphs.load_exp",
        "600 pairs of graphs of formulas, satisfiable or not; 10 folds",
        {"model": "rings", "max_size": 8},
    ),
    "cexp": (
        "graphs.load_exp",
        "as exp, half of the pairs made easy; 10 folds",
        {"model": "rings", "max_size": 8},
    ),
    "sr": ("graphs.load_sr", "strongly regular graphs of a family, nothing to train on", {}),
    "brec": (
        "graphs.load_brec",
        "pairs of graphs that are hard to tell apart, nothing to train on",
        {},
    ),
    "small-graphs": (
        "graphs.load_small_graphs",
        "all connected graphs with 2 to 8 nodes, nothing to train on",
        {},
    ),
    "counting": (
        "graphs.load_counting",
        "5000 random graphs with counts of small patterns",
        _COUNTING,
    ),
    "cycles": ("graphs.load_cycles", "5000 random graphs with counts of cycles", _CYCLES),
    "cora-cocitation": (
        "hypergraphs.load_citation",
        "2708 papers, topics by co-citation hypergraph; 10 splits",
        {},
    ),
    "cora-coauthorship": (
        "hypergraphs.load_citation",
        "2708 papers, topics by co-authorship hypergraph; 10 splits",
        {},
    ),
    "citeseer-cocitation": (
        "hypergraphs.load_citation",
        "3312 papers, topics by co-citation hypergraph; 10 splits",
        {},
    ),
    "mushroom": ("hypergraphs.load_node_set", "8124 mushrooms, edible or not; 10 splits", {}),
    "20news": ("hypergraphs.load_node_set", "16242 news in 4 groups by 100 words; 10 splits", {}),
    "house": ("hypergraphs.load_house", "1290 politicians, party by committees; 10 splits", {}),
    "rhg-3": ("hypergraphs.load_whole", "1500 random hypergraphs in 3 classes; 5 folds", {}),
    "rhg-10": ("hypergraphs.load_whole", "2000 random hypergraphs in 10 classes; 5 folds", {}),
    "rhg-table": ("hypergraphs.load_whole", "1000 random hypergraphs in 2 classes; 5 folds", {}),
    "rhg-pyramid": ("hypergraphs.load_whole", "1000 random hypergraphs in 2 classes; 5 folds", {}),
    "imdb-form": ("hypergraphs.load_whole", "1869 hypergraphs of films in 3 forms; 5 folds", {}),
    "imdb-genre": ("hypergraphs.load_whole", "3393 hypergraphs of films in 3 genres; 5 folds", {}),
    "stream-player": ("hypergraphs.load_whole", "2048 hypergraphs of players; 5 folds", {}),
    "universe": ("universe.load_universe", "1000 random graphs with communities, 12 families", {}),
    "zinc": ("zinc.load_zinc", "constrained solubility of 12,000 molecules as graphs", {}),
    "bbbp": ("properties.load_properties", "2,039 molecules that enter the brain or not", {}),
    "clintox": ("properties.load_properties", "1,480 drugs, approved or toxic", {}),
    "sider": ("properties.load_properties", "1,427 drugs with 27 kinds of side effects", {}),
    "molhiv": ("properties.load_molhiv", "41,127 molecules that inhibit HIV or not", {}),
    "esol": (
        "molecules.load_moleculenet",
        "aqueous solubility of 1,128 molecules (needs RDKit)",
        {},
    ),
    "freesolv": (
        "molecules.load_moleculenet",
        "hydration free energy of 642 molecules (needs RDKit)",
        {},
    ),
    "lipophilicity": ("molecules.load_moleculenet", "logD of 4,200 molecules (needs RDKit)", {}),
    "qm7": ("molecules.load_qm7", "atomisation energies of 7,101 molecules in space", _SPACE),
    "qm9": ("molecules.load_qm9", "a property of 13,087 molecules in space, by `target`", _SPACE),
    "shrec11": ("meshes.load_shrec11", "600 closed surfaces of 30 classes", {}),
    "shrec11-10": (
        "meshes.load_shrec11",
        "the same, 10 training meshes a class drawn at random",
        {},
    ),
    "coseg-aliens": ("meshes.load_coseg", "198 surfaces, the part of every edge", _COSEG),
    "coseg-vases": ("meshes.load_coseg", "297 surfaces, the part of every edge", _COSEG),
}


def register() -> None:
    """Makes all of them known to the library, until the process ends."""
    for name, (loader, about, recipe) in SETS.items():
        incidence.data.register(name, f"{__name__}.{loader}", about, recipe)


def load(name: str, folder: Path | None = None, **options: Any) -> DataSet:
    """A data set by name: of the literature, or of the library."""
    register()
    return incidence.data.load(name, folder=folder, **options)
