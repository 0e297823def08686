"""What learned well on which data: options that a named data set has, or else by what its files are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from incidence.data import DATA_SETS
from incidence.train.config import Config

__all__ = ["BY_READER", "resolve"]

_MESH = {
    "model": "mesh", "lr": 6e-3, "weight_decay": 1e-3, "batch_size": 16, "label_smoothing": 0.1, "augment": True, "epochs": 24,
}  # fmt: skip

BY_READER: Mapping[str, Mapping[str, Any]] = {
    "molecule": {"model": "molecule"},
    "mesh": _MESH,
    "graph": {"model": "graph"},
    "example": {"model": "relational"},
}


_OF_MODEL = {f.name for f in fields(Config) if f.metadata["section"] == "model"} | {"lift", "max_size"}  # of no use to another model


def resolve(config: Config, given: Mapping[str, Any], reader: str = "") -> Config:
    """The config with the recipe of its data under what the user gave."""
    named = DATA_SETS[config.data].recipe if config.data in DATA_SETS else {}
    recipe = named or BY_READER.get(reader, BY_READER["example"])
    is_own = given.get("model", recipe["model"]) == recipe["model"]
    wanted = {key: value for key, value in recipe.items() if is_own or key not in _OF_MODEL}
    return config.replace(**{key: value for key, value in wanted.items() if key not in given})
