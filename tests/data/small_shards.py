"""Small data sets in shards."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

import incidence as inc
from incidence.data import DataSet
from incidence.data.loading import load_whole
from incidence.data.prepared import Preparation, prepare_shard, start_folder
from incidence.data.shards import ShardFolder
from incidence.structure import Example

RINGS = Preparation("graphs", {"target": None}, "rings", {"max_size": 6}, None, "1")
PLAIN = RINGS._replace(lift="none", lift_options={})


def ring(nodes: int, target: Any) -> Example:
    edges = torch.stack([torch.arange(nodes), (torch.arange(nodes) + 1) % nodes])
    features = {"i": torch.rand(nodes, 3), "{i j}": torch.rand(nodes, 2)}
    return Example(inc.Structure(nodes, {"{i j}": edges}), features, target).canonical()


def graphs(count: int = 10) -> DataSet:
    """Rings, some of which are larger than the lift adds."""
    torch.manual_seed(0)
    return load_whole([ring(3 + k % 6, torch.tensor([k / 2])) for k in range(count)])


def written(
    path: Path,
    data: DataSet,
    shards: int = 3,
    preparation: Preparation = RINGS,
    make_plans: Callable[[inc.Structure], object] | None = None,
) -> ShardFolder:
    folder = start_folder(path, data, preparation, shards)
    for number in range(1, shards + 1):
        prepare_shard(folder, data, preparation, number, make_plans)
    return folder


def change(folder: ShardFolder, number: int, arrays: dict[str, Any]) -> None:
    """Change arrays of a shard together with its checksum, as an attacker would."""
    file, receipt = folder.file(number), folder.file(number).with_suffix(".json")
    with np.load(file) as before:
        np.savez(file, **{**before, **arrays})
    values = json.loads(receipt.read_text())
    checksum = hashlib.blake2b(file.read_bytes(), digest_size=16).hexdigest()
    changes = {"bytes": file.stat().st_size, "checksum": checksum}
    receipt.write_text(json.dumps({**values, **changes}))
