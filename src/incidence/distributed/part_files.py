"""Files by part: every process writes what it holds, and reads it again."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from incidence.algebra.pattern import Pattern
from incidence.distributed.agreement import agreed, assert_same
from incidence.distributed.part import Part, as_part
from incidence.distributed.processes import DEFAULT_TIMEOUT, as_world
from incidence.errors import IncidenceError
from incidence.structure import Example, Structure
from incidence.structure.arrange import arranged
from incidence.structure.storage import (
    plain_arrays,
    read_arrays,
    tensor_arrays,
    tensors_from,
    write_arrays,
)
from incidence.structure.world import World

__all__ = ["load", "save"]

P = TypeVar("P", Structure, Example)

_FORMAT = 1
_WRAP = 1 << 64  # integers of torch wrap around


def save(part: Structure | Example, folder: Any) -> None:
    """Write what every process holds to a folder: `part-1-of-4.npz` and so on.

    All processes call it together. A file is written completely or not at all.

    Args:
        part: A part of a structure, or of an example with features and targets.
        folder: The folder, which all processes see. It is made if it is missing.

    Raises:
        IncidenceError: Some process cannot write its file; all processes raise it.
    """
    example = part if isinstance(part, Example) else None
    own = as_part(part if example is None else example.structure)
    world = own.world
    assert world is not None

    def write() -> None:
        path = _path(folder, world)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise IncidenceError(f"the folder {path.parent} cannot be made: {error}.") from error
        write_arrays(path, _arrays(own, example))

    agreed(world, write)


def load(folder: Any, timeout: float = DEFAULT_TIMEOUT, world: World | None = None) -> Any:
    """Return the part, or the part of an example, that `save` wrote for this process.

    All processes call it together. There must be as many as there are files.

    Args:
        folder: The folder.
        timeout: The seconds after which a process stops waiting for the others.
        world: The processes; those of `torch.distributed` if not given.

    Raises:
        IncidenceError: A file is missing, damaged, or of another structure; all processes raise it.
    """
    processes = as_world(world, timeout)

    def read() -> tuple[Part, Example | None]:
        path = _path(folder, processes)
        _assert_written(path, processes.size)
        what = "a part written by `inc.distributed.save`"
        return read_arrays(path, what, _FORMAT, lambda arrays: _from_arrays(arrays, processes))

    part, example = agreed(processes, read)
    counts = sorted((str(key), count) for key, count in part._whole_counts.items())
    assert_same(processes, f"the structure in {folder}", counts)
    _assert_whole(part, processes)
    agreed(processes, lambda: [arranged(part, pattern) for pattern in part.patterns])
    return part if example is None else example


def _path(folder: Any, world: World) -> Path:
    return Path(folder, f"part-{world.rank + 1}-of-{world.size}.npz")


def _assert_written(path: Path, size: int) -> None:
    """Refuse a folder without the file of this process."""
    if path.is_file():
        return
    others = sorted(file.name for file in path.parent.glob("part-*-of-*.npz"))
    numbers = sorted({name.removesuffix(".npz").rpartition("-")[2] for name in others})
    if numbers and str(size) not in numbers:
        raise IncidenceError(
            f"{path.parent} has the parts of {' or '.join(numbers)} processes, and there are {size}"
            f" now: start {' or '.join(numbers)}, or split the structure again."
        )
    raise IncidenceError(f"{path} is missing: save the parts again, or copy all of their files.")


def _arrays(part: Part, example: Example | None) -> dict[str, Any]:
    """Return a part as plain arrays."""
    assert part.world is not None
    arrays = {
        "format": np.array(_FORMAT),
        "processes": np.array([part.world.rank, part.world.size]),
        "target": np.array("none"),
        **plain_arrays(part),
    }
    values = {
        "node": part.nodes,
        "held": part._held,
        "row": {str(pattern): rows for pattern, rows in part._whole_rows.items()},
        "count": {str(key): torch.tensor([n]) for key, n in part._whole_counts.items()},
    }
    if example is not None:
        values["feature"] = dict(example.features)
        target, kind = example.target, "entries"
        if not isinstance(target, Mapping):
            target, kind = ({}, "example") if target is None else ({"": target}, "whole")
        values["goal"] = dict(target)
        arrays |= {"target": np.array(kind), "is_batch": np.array(example._is_batch)}
    for what, tensors in values.items():
        for number, (key, x) in enumerate(tensors.items()):
            arrays |= tensor_arrays(f"{what}/{number}", key, x)
    return arrays


def _from_arrays(arrays: Mapping[str, Any], world: World) -> tuple[Part, Example | None]:
    rank, size = arrays["processes"].tolist()
    if (rank, size) != (world.rank, world.size):
        raise IncidenceError(
            f"it is part {rank + 1} of {size}, and its name says {world.rank + 1} of {world.size}."
        )
    local = Structure._from_arrays(arrays)
    nodes, held = tensors_from(arrays, "node"), tensors_from(arrays, "held")
    rows, counts = tensors_from(arrays, "row"), tensors_from(arrays, "count")
    by_pattern = {str(pattern): pattern for pattern in local.patterns}
    lengths = {f"node {sort}": count for sort, count in local.counts.items()}
    lengths |= {f"row {key}": local.num_entries(p) for key, p in by_pattern.items()}
    given = {f"node {sort}": x for sort, x in nodes.items()}
    given |= {f"row {key}": x for key, x in rows.items()}
    for key, length in lengths.items():
        if not _ascends(given[key]) or len(given[key]) != length:
            raise IncidenceError(f"the numbers of its {key} do not ascend.")
    for sort, own in held.items():
        if not _ascends(own) or (len(own) and int(own[-1]) >= local.counts[sort]):
            raise IncidenceError(f"the numbers of its held {sort} do not ascend.")
    part = Part._of_checked(
        local,
        world,
        nodes,
        held,
        {by_pattern[key]: x for key, x in rows.items()},
        {by_pattern.get(key, key): int(x) for key, x in counts.items()},
    )
    kind = str(arrays["target"])
    if kind == "none":
        return part, None
    goals = tensors_from(arrays, "goal")
    target: Any = {"entries": goals, "whole": goals.get(""), "example": None}[kind]
    features = tensors_from(arrays, "feature")
    return part, Example(part, features, target, is_batch=bool(arrays["is_batch"]))


def _ascends(x: Tensor) -> bool:
    return not len(x) or (int(x[0]) >= 0 and bool((x.diff() > 0).all()))


def _assert_whole(part: Part, world: World) -> None:
    """Check that the rows of all parts are those of one structure, each once."""
    sums, expected = [], []
    for key, n in part._whole_counts.items():
        rows = _numbers_of(part, key)
        # parts of different splits hardly agree in all three sums; they may wrap around
        sums += [len(rows), int(rows.sum()), int(rows.square().sum())]
        expected += [n, n * (n - 1) // 2, n * (n - 1) * (2 * n - 1) // 6]
    total = world.reduce(torch.tensor(sums)).tolist()
    if [number % _WRAP for number in total] != [number % _WRAP for number in expected]:
        raise IncidenceError(
            "the parts do not add up to one structure: some of the files are of another split. Save"
            " all parts again."
        )


def _numbers_of(part: Part, key: str | Pattern) -> Tensor:
    """Return the numbers in the whole structure of the nodes of a sort, or of entries."""
    if isinstance(key, str):
        return part.nodes[key][part._held[key]]
    return part._whole_rows[key]
