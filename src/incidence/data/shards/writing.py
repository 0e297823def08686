"""Writing a shard: a batch of examples, with pointers to the rows of every example."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence

import numpy as np
import torch

from incidence.data.shards.folder import ShardFolder, checksum_of
from incidence.data.shards.plans import plan_arrays
from incidence.data.shards.texts import column_arrays
from incidence.files import whole_file
from incidence.structure.collate import collate
from incidence.structure.data import Array
from incidence.structure.example import Example
from incidence.structure.storage import write_arrays
from incidence.structure.structure import Structure

__all__ = ["write_shard"]


def write_shard(
    folder: ShardFolder,
    number: int,
    examples: Sequence[Example],
    make_plans: Callable[[Structure], object] | None = None,
    columns: Iterable[Sequence[str]] = (),
) -> None:
    """Write examples to a shard, whole or not at all; a shard that is there is replaced.

    Args:
        folder: The folder.
        number: The number of the shard, from 1.
        examples: Its examples.
        make_plans: Caches plans on a structure, which are then stored; None to store none.
        columns: Texts of the examples, such as their names.
    """
    batch = collate(examples)
    arrays = {**batch._arrays(), **_pointers(batch), **column_arrays(columns)}
    if make_plans is not None:
        make_plans(batch.structure)
        arrays |= plan_arrays(batch.structure)
    file = folder.file(number)
    write_arrays(file, arrays)
    receipt = {
        "shard": number,
        "manifest": folder.digest,
        "examples": len(examples),
        "bytes": file.stat().st_size,
        "checksum": checksum_of(file),
    }
    with whole_file(file.with_suffix(".json")) as out:
        out.write(json.dumps(receipt, indent=1).encode())


def _pointers(batch: Example) -> dict[str, Array]:
    """Return where the members, features and targets of every example start, and the end."""
    structure, target = batch.structure, batch.target
    ptrs = {}
    for number, pattern in enumerate(structure.patterns):
        for place, part in enumerate(structure._index[pattern]):
            if place:
                # members come by structure, as `collate` puts structures side by side
                owner = structure.batch(pattern)[part[1]]
                lengths = torch.bincount(owner, minlength=batch.num_structures)
                ptrs[f"tensor/{number}/ptr/{place}"] = np.append(0, lengths.numpy().cumsum())
    by_pattern = target if isinstance(target, dict) else {}
    for what, tensors in (("feature", batch.features), ("target", by_pattern)):
        for number, key in enumerate(tensors):
            lengths_of_key = structure._lengths_of(structure.resolve(key))
            ptrs[f"{what}/{number}/ptr"] = np.append(0, lengths_of_key.cumsum())
    return ptrs
