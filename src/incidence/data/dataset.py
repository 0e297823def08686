"""`DataSet`: examples with a task and splits, ready for training; and the parts of a split."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor

from incidence.errors import IncidenceError
from incidence.structure.example import Example
from incidence.structure.examples import pack

__all__ = ["METRICS", "DataSet", "Parts", "Split", "Task"]

METRICS = {"classification": "accuracy", "regression": "rmse"}
"""The metric of a task where nobody says another."""


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

    def rows(self, example: Example) -> Tensor:
        """The target of an example, or of a batch: a row for each prediction."""
        target = example.target[self.at] if isinstance(example.target, dict) else example.target
        assert target is not None  # as `checks.sound` has seen
        return target

    def only(self, example: Example, rows: Tensor | None) -> Example:
        """The same example with the target of some entries alone, or with none at all."""
        target = self.rows(example)
        kept = torch.full_like(target, -1 if self.kind == "classification" else torch.nan)
        if rows is not None:
            kept[rows] = target[rows]
        return example.replace(target={self.at: kept} if self.at else kept)


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
        splits: Cross validation has one for each fold; without any, one is drawn by chance.
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

    def split(self, number: int = 0) -> Split:
        """The split, or fold, of that number.

        Raises:
            IncidenceError: There is no such split.
        """
        if not 0 <= number < len(self.splits):
            raise IncidenceError(f"the data set {self.name!r} has splits 0 to {len(self.splits) - 1}; got {number}.")
        return self.splits[number]

    def with_parts(self, validation: float | None = None, seed: int = 0) -> DataSet:
        """The same with every part that the data does not tell drawn by chance; nothing else draws any.

        Without splits, a tenth is for testing, and a tenth for validation unless another share is asked for.

        Args:
            validation: Which share of the training part of every split is kept apart for validation; each class is represented as in the
                whole. None to leave splits that are told as they are.
            seed: Of the drawing.

        Raises:
            IncidenceError: A split has a validation part already, or the share is none.
        """
        count = len(self.task.rows(self.examples[0])) if self.is_transductive else len(self.examples)
        splits = self.splits or (_random_split(count, seed, has_validation=validation is None),)
        if validation is None:
            return replace(self, splits=splits)
        if not 0 <= validation < 1:
            raise IncidenceError(f"the part for validation is a number from 0 up to 1; got {validation}.")
        if any(len(split.validation) for split in splits):
            raise IncidenceError(f"{self.name!r} has a validation part of its own, so none is drawn: leave out --validation.")
        return replace(self, splits=tuple(self._held_out(split, validation, seed) if validation else split for split in splits))

    def _held_out(self, split: Split, validation: float, seed: int) -> Split:
        held = _draw(split.train, self._classes(split.train), validation, seed)
        return Split(split.train[~held], split.train[held], split.test)

    def _classes(self, rows: Tensor) -> Tensor:
        """The class of every row, as far as there is one."""
        if self.task.kind != "classification" or (self.task.at and not self.is_transductive):
            return torch.zeros(len(rows), dtype=torch.long)
        return torch.cat([self.task.rows(example).reshape(-1) for example in self.examples])[rows]

    def parts(self, split: Split | int = 0) -> Parts:
        """The three parts of a split, or of the split of that number, packed together so that a plan is made once."""
        split = self.split(split) if isinstance(split, int) else split
        if self.is_transductive:
            [example] = self.examples
            return Parts(*([self.task.only(example, rows)] if len(rows) else [] for rows in split))
        packed = pack(list(self.examples))
        return Parts(*([packed[k] for k in rows.tolist()] for rows in split))


def _random_split(count: int, seed: int, has_validation: bool) -> Split:
    """A tenth for testing, and a tenth for validation unless that is drawn later; at least one if there are three."""
    order = torch.randperm(count, generator=torch.Generator().manual_seed(seed))
    tenth = max(round(count / 10), int(count >= 3))
    held = tenth if has_validation else 0
    return Split(order[held + tenth :].sort().values, order[:held].sort().values, order[held : held + tenth].sort().values)


def _draw(rows: Tensor, classes: Tensor, fraction: float, seed: int) -> Tensor:
    """Which rows are drawn: the given fraction of every class, at least one row in all."""
    order = torch.randperm(len(rows), generator=torch.Generator().manual_seed(seed))
    held = torch.zeros(len(rows), dtype=torch.bool)
    spread = order[classes[order].argsort(stable=True)]  # shuffled inside, class after class
    count = max(1, round(fraction * len(rows)))
    held[spread[(torch.arange(count) * len(rows)).div(count, rounding_mode="floor")]] = True
    return held
