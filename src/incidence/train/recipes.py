"""What learned well on which data: options by the name of a data set, or else by what its files are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from incidence.train.config import Config

__all__ = ["BY_DATA", "BY_READER", "resolve"]

_MOLECULE = {"model": "molecule"}
_TU = {"model": "graph", "hidden": 24, "depth": 2, "dropout": 0.3, "epochs": 16, "batch_size": 32}
_MESH = {
    "model": "mesh", "lr": 6e-3, "weight_decay": 1e-3, "batch_size": 16, "label_smoothing": 0.1, "augment": True, "epochs": 24,
}  # fmt: skip
_CITATION = {"model": "hypergraph", "epochs": 100, "weight_decay": 1e-2}

BY_DATA: Mapping[str, Mapping[str, Any]] = {
    "solubility": _MOLECULE,
    "esol": _MOLECULE,
    "freesolv": _MOLECULE,
    "lipophilicity": _MOLECULE,
    "mutag": {"model": "rings", "max_size": 6, "hidden": 32, "depth": 3, "dropout": 0.2, "epochs": 100, "batch_size": 32},
    "ptc": {**_TU, "model": "rings", "max_size": 6},
    "proteins": _TU,
    "nci1": {**_TU, "epochs": 50, "hidden": 32},
    "imdb-b": _TU,
    "imdb-m": _TU,
    "csl": {"model": "rings", "max_size": 8, "hidden": 32, "depth": 2, "epochs": 60, "batch_size": 15},
    "counting": {"model": "order3", "lr": 2e-2, "weight_decay": 0.0, "batch_size": 32},
    "exp": {"model": "rings", "max_size": 8},
    "cexp": {"model": "rings", "max_size": 8},
    "shrec11": _MESH,
    "shrec11-10": _MESH,
    "coseg-aliens": {**_MESH, "depth": 6, "batch_size": 6, "epochs": 40},
    "coseg-vases": {**_MESH, "depth": 6, "batch_size": 6, "epochs": 40},
    "qm7": {"model": "molecule-3d", "loss": "absolute"},
    "qm9": {"model": "molecule-3d", "loss": "absolute"},
    "cora-cocitation": _CITATION,
    "cora-coauthorship": _CITATION,
    "citeseer-cocitation": _CITATION,
}

BY_READER: Mapping[str, Mapping[str, Any]] = {
    "molecule": _MOLECULE,
    "mesh": _MESH,
    "graph": {"model": "graph"},
    "example": {"model": "relational"},
}


_OF_MODEL = {f.name for f in fields(Config) if f.metadata["section"] == "model"} | {"lift", "max_size"}  # of no use to another model


def resolve(config: Config, given: Mapping[str, Any], reader: str = "") -> Config:
    """The config with the recipe of its data under what the user gave."""
    recipe = BY_DATA.get(config.data, BY_READER.get(reader, {"model": "relational"}))
    is_own = given.get("model", recipe["model"]) == recipe["model"]
    wanted = {key: value for key, value in recipe.items() if is_own or key not in _OF_MODEL}
    return config.replace(**{key: value for key, value in wanted.items() if key not in given})
