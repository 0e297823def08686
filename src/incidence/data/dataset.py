"""`DataSet`: examples with a task and splits, ready for training; and the parts of a split."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
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
        augment: Changes the examples of a training batch a little, with a generator; None if there is no such thing.
        names: Of the examples, so that predictions can be traced; none if they have no names.
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
    augment: Callable[[list[Example], torch.Generator], list[Example]] | None = None
    names: Sequence[str] = ()

    def split(self, number: int = 0, validation: float = 0.0, seed: int = 0) -> Split:
        """A split; where it has no part for validation, one is drawn from its part for training.

        Args:
            number: Which split or fold.
            validation: Which part of the training data to draw, between 0 and 1; each class is represented as in the whole.
            seed: Of the drawing.

        Raises:
            IncidenceError: There is no such split, or the fraction is none.
        """
        if not 0 <= number < len(self.splits):
            raise IncidenceError(f"the data set {self.name!r} has splits 0 to {len(self.splits) - 1}; got {number}.")
        split = self.splits[number]
        if not 0 <= validation < 1:
            raise IncidenceError(f"the part for validation is a number from 0 up to 1; got {validation}.")
        if len(split.validation) or not validation:
            return split
        held = _draw(split.train, self._classes(split.train), validation, seed)
        return Split(split.train[~held], split.train[held], split.test)

    def _classes(self, rows: Tensor) -> Tensor:
        """The class of every row, as far as there is one."""
        if self.task.kind != "classification" or (self.task.at and not self.is_transductive):
            return torch.zeros(len(rows), dtype=torch.long)
        targets = [e.target for e in self.examples]
        if isinstance(targets[0], dict):
            return targets[0][self.task.at][rows]
        return torch.stack([t for t in targets if isinstance(t, Tensor)]).flatten()[rows]

    def parts(self, split: Split | int = 0) -> Parts:
        """The three parts of a split, or of the split of that number, packed together so that a plan is made once."""
        split = self.split(split) if isinstance(split, int) else split
        if self.is_transductive:
            [example] = self.examples
            return Parts(*([_only(example, self.task, rows)] if len(rows) else [] for rows in split))
        packed = pack(list(self.examples))
        return Parts(*([packed[k] for k in rows.tolist()] for rows in split))


def _draw(rows: Tensor, classes: Tensor, fraction: float, seed: int) -> Tensor:
    """Which rows are drawn: the given fraction of every class, at least one row in all."""
    order = torch.randperm(len(rows), generator=torch.Generator().manual_seed(seed))
    held = torch.zeros(len(rows), dtype=torch.bool)
    spread = order[classes[order].argsort(stable=True)]  # shuffled inside, class after class
    count = max(1, round(fraction * len(rows)))
    held[spread[(torch.arange(count) * len(rows)).div(count, rounding_mode="floor")]] = True
    return held


def _only(example: Example, task: Task, rows: Tensor) -> Example:
    """The same example with the target of some entries alone."""
    assert isinstance(example.target, dict)
    target = example.target[task.at]
    missing = -1 if task.kind == "classification" else torch.nan
    kept = torch.full_like(target, missing)
    kept[rows] = target[rows]
    return example.replace(target={task.at: kept})
