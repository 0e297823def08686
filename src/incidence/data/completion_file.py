"""What a model of ratings or links knows, in a file of plain arrays: nothing that is read can execute code."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from incidence.data.completion import ROWS, Completion
from incidence.data.links import Links
from incidence.data.ratings import Ratings
from incidence.errors import IncidenceError
from incidence.structure.example import Example
from incidence.structure.storage import (
    arrays_of,
    read_arrays,
    tensor_arrays,
    tensors_from,
    write_arrays,
)
from incidence.structure.structure import Structure

__all__ = ["read_completion", "write_completion"]

_FORMAT = 1
_KINDS: dict[str, type[Completion]] = {"ratings": Ratings, "links": Links}


def write_completion(completion: Completion, path: Path) -> None:
    """Writes all facts, with what belongs to them, at once or not at all."""
    known = completion.facts()
    whole = known.context.structure.with_index({f"{ROWS}={known.pattern}": known.rows[ROWS]})
    arrays: dict[str, Any] = {
        "format": np.array(_FORMAT),
        "kind": np.array(next(k for k, v in _KINDS.items() if type(known) is v)),
    }
    arrays |= {
        "keys": np.array(known.keys, dtype=str),
        "seed": np.array([known.seed, known.folds]),
        **arrays_of(whole),
    }
    arrays |= {f"names/{sort}": np.array(list(own), dtype=str) for sort, own in known.names.items()}
    for number, (key, x) in enumerate(
        {**known.context.features, ":values": known.values, ":target": known.target}.items()
    ):
        arrays |= tensor_arrays(f"feature/{number}", key, x)
    write_arrays(path, arrays)


def read_completion(path: Path) -> Completion:
    """Reads what `write_completion` wrote.

    Raises:
        IncidenceError: It is not there, or damaged.
    """
    return read_arrays(path, "what a model of ratings or links knows", _FORMAT, _from_arrays)


def _from_arrays(arrays: Mapping[str, Any]) -> Completion:
    whole, tensors = Structure._from_arrays(arrays), tensors_from(arrays, "feature/")
    values, target = tensors.pop(":values"), tensors.pop(":target")
    names = {
        key.removeprefix("names/"): [str(name) for name in arrays[key]]
        for key in arrays
        if key.startswith("names/")
    }
    rows = whole.num_entries(ROWS)
    if {sort: len(own) for sort, own in names.items()} != whole.counts or not rows == len(
        values
    ) == len(target):
        raise IncidenceError("its names or rows do not add up.")
    others = {str(p): whole[p] for p in whole.patterns if p.name != ROWS}
    seed, folds = arrays["seed"].tolist()
    return _KINDS[str(arrays["kind"])](
        context=Example(Structure(whole.counts, others), tensors),
        rows=Structure(whole.counts, {str(whole.resolve(ROWS)): whole[ROWS]}),
        values=values,
        target=target,
        is_fact=torch.ones(rows, dtype=torch.bool),
        names=names,
        keys=tuple(str(key) for key in arrays["keys"]),
        seed=seed,
        folds=folds,
    )
