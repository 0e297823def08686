"""From what was read, and what was asked for, to a data set."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from incidence.data.dataset import METRICS, DataSet, Split, Task
from incidence.data.readers import Read, assert_alike
from incidence.data.tables import Table
from incidence.data.targets import choose_targets, read_parts, read_targets
from incidence.errors import IncidenceError

__all__ = ["Asked", "data_set_of", "from_properties", "splits_of"]


@dataclass(frozen=True)
class Asked:
    """What was asked for.

    Attributes:
        source: What messages call the data: a path, or `the DataFrame`.
        name: Of the data set.
        reader: By name, if it was said.
        target: What is to be predicted, if it was said.
        task: Its kind, if it was said.
        options: Others, of the reader or of the layout.
        path: Where the data is, if it is in files.
    """

    source: str
    name: str
    reader: str | None
    target: tuple[str, ...]
    task: str | None
    options: Mapping[str, Any]
    path: Path = Path()


def data_set_of(
    asked: Asked,
    reads: Sequence[Read],
    reader: str,
    task: Task,
    targets: Tensor,
    parts: Sequence[int] | None = None,
    passed_over: Sequence[str] = (),
) -> DataSet:
    """The data set of what was read: a row of targets for each, and its part (0, 1, 2, or -1 for none) if that is told."""
    assert_alike((read.name, read.example) for read in reads)
    examples = [read.example.replace(target=row) for read, row in zip(reads, targets, strict=True)]
    own = dict.fromkeys(
        key for read in reads for key in read.properties if key not in (*task.names, task.target)
    )
    left_out = f" {len(passed_over)} others could not be read." if passed_over else ""
    return DataSet(
        asked.name,
        examples,
        task,
        splits_of(parts),
        reader=reader,
        reader_options=asked.options,
        about=f"Your own data: {len(examples)} examples.{left_out}",
        metric=METRICS[task.kind],
        names=[read.name for read in reads],
        columns={key: [read.properties.get(key, "") for read in reads] for key in own},
        passed_over=tuple(passed_over),
    )


def splits_of(parts: Sequence[int] | None) -> tuple[Split, ...]:
    """The split that the part of every row tells; none if nothing is told."""
    if parts is None:
        return ()
    if 0 not in parts:
        raise IncidenceError(
            "the data tells which examples are for testing, and none is left for training."
        )
    numbers = torch.tensor(parts)
    return (Split(*((numbers == k).nonzero()[:, 0] for k in range(3))),)


def from_properties(
    asked: Asked,
    reads: Sequence[Read],
    reader: str,
    used: Callable[[Table], Collection[str]] = lambda table: (),
    parts: Sequence[int] | None = None,
    errors: Sequence[IncidenceError] = (),
    word: str = "column",
) -> DataSet:
    """The data set of what was read, with some of the properties as targets, and with parts if a property `split` tells them.

    Args:
        asked: What was asked for.
        reads: What was read, with its properties.
        reader: The name of what read it.
        used: Which properties are no targets.
        parts: The part of each, where other than a property tells it.
        errors: Of records that could not be read.
        word: What messages call a property.

    Raises:
        IncidenceError: Most could not be read, or the targets are not clear.
    """
    if len(errors) > len(reads):
        raise IncidenceError(
            f"{asked.source}: {len(errors)} of {len(reads) + len(errors)} records cannot be read, so this is hardly the right file or "
            f"column. The first: {errors[0]}"
        )
    keys = dict.fromkeys(key for read in reads for key in read.properties)
    columns = {key: [read.properties.get(key, "") for read in reads] for key in keys}
    table = Table(asked.source, columns, [read.name for read in reads], word=word)
    names = choose_targets(table, asked.target, used(table))
    task, targets = read_targets(asked.source, {name: table[name] for name in names}, asked.task)
    told = read_parts(table) if parts is None else parts
    return data_set_of(asked, reads, reader, task, targets, told, [str(error) for error in errors])
