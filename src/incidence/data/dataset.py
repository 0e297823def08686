"""`DataSet`: examples with a task and splits, ready for training; and the parts of a split."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor

from incidence.errors import IncidenceError
from incidence.structure.example import Example
from incidence.structure.examples import pack

__all__ = ["DataSet", "Parts", "Split", "Task"]


@dataclass(frozen=True)
class Task:
    """What is to be predicted.

    Attributes:
        kind: `regression`, or `classification` with one class for each row.
        names: What the numbers are called, or the classes.
        at: The pattern whose entries have a value each; empty for one of the whole structure.
        unit: Of the numbers.
    """

    kind: Literal["regression", "classification"]
    names: tuple[str, ...]
    at: str = ""
    unit: str = ""

    @property
    def out_channels(self) -> int:
        """How many numbers a network gives for each row."""
        return len(self.names)


class Split(NamedTuple):
    """Which examples (or, in one structure, which entries of the target) serve for what: numbers, in any order."""

    train: Tensor
    validation: Tensor
    test: Tensor


class Parts(NamedTuple):
    """The three parts of a data set, each a list of examples; a part may be empty."""

    train: list[Example]
    validation: list[Example]
    test: list[Example]


@dataclass(frozen=True)
class DataSet:
    """Examples with a task and splits.

    A row that has no target is NaN (numbers) or -1 (classes), and is left out of losses and metrics.

    Attributes:
        name: What users call it.
        examples: Features are floats, [entries, channels]. Targets: [numbers] or a class (an integer) for the whole structure, or a dict
            with the key `task.at` and a row for each entry.
        task: What is to be predicted.
        splits: At least one; cross validation has one for each fold.
        reader: The name in `READERS` of what reads a file for prediction and makes the same features.
        reader_options: What the reader needs to know, such as the number of node labels; plain values.
        about: Where the data comes from, its terms, what the target is.
        is_transductive: Whether there is one structure, and splits number the entries of its target.
        metric: The metric that the literature reports: `rmse`, `mae`, `accuracy`.
    """

    name: str
    examples: Sequence[Example]
    task: Task
    splits: tuple[Split, ...]
    reader: str
    reader_options: Mapping[str, Any] = field(default_factory=dict)
    about: str = ""
    is_transductive: bool = False
    metric: str = "rmse"

    def parts(self, number: int = 0) -> Parts:
        """The three parts of a split, packed together so that a plan is made once.

        Raises:
            IncidenceError: There is no such split.
        """
        if not 0 <= number < len(self.splits):
            raise IncidenceError(f"the data set {self.name!r} has splits 0 to {len(self.splits) - 1}; got {number}.")
        split = self.splits[number]
        if self.is_transductive:
            [example] = self.examples
            return Parts(*([_only(example, self.task, rows)] if len(rows) else [] for rows in split))
        packed = pack(list(self.examples))
        return Parts(*([packed[k] for k in rows.tolist()] for rows in split))


def _only(example: Example, task: Task, rows: Tensor) -> Example:
    """The same example with the target of some entries alone."""
    assert isinstance(example.target, dict)
    target = example.target[task.at]
    missing = -1 if task.kind == "classification" else torch.nan
    kept = torch.full_like(target, missing)
    kept[rows] = target[rows]
    return example.replace(target={task.at: kept})
