"""`DataSet`: examples with a task and splits, ready for training."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from textwrap import shorten
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, cast

import torch
from torch import Tensor

from incidence.data.dates import times_of
from incidence.data.shards import ShardedExamples
from incidence.data.splitting import (
    TENTH,
    Split,
    cross_validation,
    held_out,
    random_split,
    sizes_of,
    split_by_time,
)
from incidence.errors import IncidenceError
from incidence.structure.collate import pack
from incidence.structure.example import Example

if TYPE_CHECKING:
    from incidence.data.completion import Completion

__all__ = ["METRICS", "DataSet", "Kind", "Parts", "Reader", "Record", "Split", "Task", "as_kind"]

METRICS = {"classification": "accuracy", "multilabel": "auc", "regression": "rmse"}
"""The default metric of each kind of task."""


Kind = Literal["regression", "classification", "multilabel"]


@dataclass(frozen=True)
class Task:
    """What is to be predicted.

    Attributes:
        kind: `regression`; `classification`, one class for each row; or `multilabel`, yes or no to
            each of several labels.
        names: The names of the numbers, classes or labels.
        at: The pattern whose entries have a target each; empty for targets of whole structures.
        unit: The unit of the numbers.
        ranks: For links, the ranks at which hits are counted. The metrics are then those of
            ranking.
        target: The name of what the classes belong to, such as a column, if it has one.
    """

    kind: Kind
    names: tuple[str, ...]
    at: str = ""
    unit: str = ""
    ranks: tuple[int, ...] = ()
    target: str = ""

    @property
    def out_channels(self) -> int:
        """How many numbers a network gives for each row."""
        return len(self.names)

    def rows(self, example: Example) -> Tensor:
        """Return the target of an example, or of a batch: a row for each prediction."""
        target = example.target[self.at] if isinstance(example.target, dict) else example.target
        assert target is not None  # `checked` has refused such examples
        return target

    def rows_of_all(self, examples: Sequence[Example]) -> list[Tensor]:
        """Return the targets of many examples, in order; a tensor may have those of several."""
        if isinstance(examples, ShardedExamples) and not self.at:
            return [examples.whole_targets()]
        rows = [self.rows(example) for example in examples]
        return rows if self.at else [torch.stack(rows)]

    def is_known(self, target: Tensor) -> Tensor:
        """Return where the target is not missing."""
        return target >= 0 if self.kind == "classification" else ~target.isnan()

    def only(self, example: Example, rows: Tensor | None) -> Example:
        """Return the example with the target of some entries alone, or of none."""
        target = self.rows(example)
        missing = -1 if self.kind == "classification" else torch.nan
        left = torch.full_like(target, missing)
        if rows is not None:
            left[rows] = target[rows]
        return self.with_target(example, left)

    def with_target(self, example: Example, target: Tensor) -> Example:
        """Return the example with another target."""
        return example.replace(target={self.at: target} if self.at else target)


def as_kind(task: str | None) -> Kind | None:
    """Return the kind of task of that name, or None for None.

    Raises:
        IncidenceError: There is no such kind.
    """
    if task is not None and task not in METRICS:
        raise IncidenceError(f"the task is {', '.join(METRICS)} or links; got {task!r}.")
    return cast("Kind | None", task)


class Parts(NamedTuple):
    """The three parts of a data set, each a sequence of examples; a part may be empty."""

    train: Sequence[Example]
    validation: Sequence[Example]
    test: Sequence[Example]

    def __repr__(self) -> str:
        """Return the sizes of the parts."""
        return f"Parts({sizes_of(self)})"


class Record(NamedTuple):
    """One example of a file, before a target is chosen.

    Attributes:
        name: The name of the file, with the number or the name of the record.
        example: The example with features.
        nodes: The names of the nodes in the file, in order, through all sorts; None if they are
            numbered from 0.
        properties: What else the file has about the example, as text by column. One of them may
            be the target.
        columns: What else the file has about each node, as text by column.
        row: The number of the record in the file or table, from 0; None if it has no number.
    """

    name: str
    example: Example
    nodes: tuple[str, ...] | None = None
    properties: Mapping[str, str] = {}
    columns: Mapping[str, Sequence[str]] = {}
    row: int | None = None


@dataclass(frozen=True)
class Reader:
    """A function that reads files of some kind, with the suffixes of these files.

    Attributes:
        suffixes: The suffixes, such as `.sdf`.
        read: Takes a path, a list for the errors of single records, and options; yields records.
            It raises an IncidenceError that names the file if it cannot read the file at all.
    """

    suffixes: tuple[str, ...]
    read: Callable[..., Iterator[Record]]

    def reads(self, path: Path) -> bool:
        """Return whether a file has one of the suffixes."""
        return path.name.lower().endswith(self.suffixes)


@dataclass(frozen=True)
class DataSet:
    """Examples with a task and splits.

    A target that is missing is NaN (numbers and labels) or -1 (classes). Losses and metrics leave
    it out.

    Attributes:
        name: The name of the data set.
        examples: Examples whose features are floats, [entries, channels]. A target of the whole
            structure is [numbers], [labels] of 0 and 1, or a class (an integer). Other targets are
            a dict with the key `task.at` and a row for each entry.
        task: What is to be predicted.
        splits: One split, or one for each fold of a cross validation; there may be none.
        reader: The name in `READERS` of the reader that makes the same features of other files.
        reader_options: Options of the reader, such as the number of node labels; plain values.
        about: Where the data comes from, its terms, what the target is.
        is_transductive: Whether there is one structure, and splits number the entries of its
            target.
        metric: The main metric: `rmse`, `mae`, `accuracy`, `auc`, `ap`.
        augment: Changes the examples of a training batch at random, given a generator; or None.
        names: The names of the examples, or of the entries of the target if `is_transductive`;
            empty if they have no names.
        columns: What else is known of each row, as text by column. Tables of predictions have
            these columns, too.
        passed_over: Why records were skipped, a message for each.
        completion: Makes the examples of all parts where some entries are known and others are
            queried, such as ratings. `examples` then has one example, in which everything is known
            and queried, and `columns` name the rows.
        has_drawn_parts: Whether the splits were drawn at random, as the data defines none.
        has_drawn_validation: Whether a validation part was drawn in splits that the data defines.
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
    columns: Mapping[str, Sequence[str]] = field(default_factory=dict)
    passed_over: tuple[str, ...] = ()
    completion: Completion | None = None
    has_drawn_parts: bool = False
    has_drawn_validation: bool = False

    def __repr__(self) -> str:
        """Return a line, however large the data is."""
        return (
            f"DataSet({self.name!r}: {len(self.examples)} examples; {self._splits_in_words()};"
            f" {self._task_in_words()}; features {self._features_in_words()})"
        )

    def _splits_in_words(self) -> str:
        if not self.splits:
            return "no splits"
        sizes = sizes_of(self.splits[0])
        return sizes if len(self.splits) == 1 else f"{len(self.splits)} splits, the first {sizes}"

    def _task_in_words(self) -> str:
        names = ", ".join(self.task.names)
        if self.task.kind == "classification":
            names = f"{len(self.task.names)} classes"
        place = f" at `{self.task.at}`" if self.task.at else ""
        return f"{self.task.kind} of {shorten(names, 60)}{place}"

    def _features_in_words(self) -> str:
        features = self.examples[0].features if self.examples else {}
        shapes = ", ".join(f"{key}: {list(x.shape[1:])}" for key, x in features.items())
        return shorten(shapes, 80) or "none"

    def split(self, number: int = 0) -> Split:
        """Return the split, or fold, of that number.

        Raises:
            IncidenceError: There is no such split.
        """
        if not 0 <= number < len(self.splits):
            raise IncidenceError(
                f"the data set {self.name!r} has splits 0 to {len(self.splits) - 1}; got {number}."
            )
        return self.splits[number]

    def with_parts(
        self,
        validation: float | None = None,
        seed: int = 0,
        cv: int | None = None,
        groups: Sequence[object] | Tensor | None = None,
        time: str | None = None,
    ) -> DataSet:
        """Return the data set with every part that it lacks, drawn at random.

        Without splits, a tenth is for testing, and a tenth, or the given share, for validation.
        Splits that the data defines stay as they are, except that those of ratings get a validation
        part if they have none.

        Args:
            validation: The share of the training part of every split that becomes the validation
                part, with all classes represented as in the whole; 0 for none.
            seed: Seed of the drawing.
            cv: The number of folds of a cross validation. Each fold is the test part of one split.
            groups: The group of every row, by any name. Rows of a group stay in one part.
            time: The column of times: the latest rows are for testing, and those before them for
                validation.

        Raises:
            IncidenceError: The data defines the parts that would be drawn, or the share is not one.
        """
        given = {"--cv": cv, "--groups": groups, "--time": time}
        flag = next((name for name, value in given.items() if value is not None), "")
        if self.has_drawn_parts and flag:
            raise IncidenceError(
                f"`inc.data.load` has drawn the parts of {self.name!r}, so none are drawn again:"
                f" leave out {flag}, or give what was loaded in place of the result of"
                " `inc.data.load`."
            )
        if self.splits and flag:
            raise IncidenceError(
                f"{self.name!r} defines its parts, so none are drawn: leave out {flag}."
            )
        numbers = None if groups is None else _group_numbers(groups, self.num_rows)
        classes = self._classes()  # so that parts have all classes in like shares
        splits = self.splits
        if not splits:
            rows = self._rows_with_target()
            if time is not None:
                if cv is not None or groups is not None:
                    raise IncidenceError(
                        "parts by time have no folds and no groups: leave them out."
                    )
                times = times_of(self.name, self.columns, time)
                share = TENTH if validation is None else validation
                split = split_by_time(rows, times, validation=share)
                return replace(self, splits=(split,), has_drawn_parts=True)
            if cv is None:
                splits = (random_split(rows, seed, validation is None, numbers),)
            else:
                splits = cross_validation(rows, cv, classes, seed, numbers)
        has_drawn_parts = self.has_drawn_parts or not self.splits
        data = replace(self, splits=splits, has_drawn_parts=has_drawn_parts)
        has_validation = any(len(split.validation) for split in splits)
        if validation is None:
            is_rated = self.completion is not None and self.task.kind == "regression"
            if has_validation or (cv is None and not is_rated):
                return data
            # Ratings are soon learned by heart, and a test knows the validation part anyway.
            validation = TENTH
        if not 0 <= validation < 1:
            raise IncidenceError(
                f"the part for validation is a number from 0 up to 1; got {validation}."
            )
        if has_validation:
            raise IncidenceError(
                f"{self.name!r} has a validation part, so none is drawn: leave out --validation."
            )
        if not validation:
            return data
        held = tuple(held_out(split, classes, validation, seed, numbers) for split in splits)
        return replace(data, splits=held, has_drawn_validation=True)

    def _classes(self) -> Tensor:
        """Return the class of every row, [rows]; zeros where the task has no classes of rows."""
        if self.task.kind == "classification" and (not self.task.at or self.is_transductive):
            return torch.cat([y.reshape(-1) for y in self.task.rows_of_all(self.examples)])
        return torch.zeros(self.num_rows, dtype=torch.long)

    def _rows_with_target(self) -> Tensor:
        known = [self.task.is_known(y) for y in self.task.rows_of_all(self.examples)]
        if self.is_transductive or not self.task.at:
            has_target = known[0].reshape(self.num_rows, -1).any(1)  # (rows,)
        else:
            has_target = torch.stack([one.any() for one in known])  # (rows,)
        return has_target.nonzero()[:, 0]

    def gives_validation(self, split: Split) -> bool:
        """Return whether the data itself defines the validation part of a split."""
        is_drawn = self.has_drawn_parts or self.has_drawn_validation
        return len(split.validation) > 0 and not is_drawn

    def parts(self, split: Split | int = 0) -> Parts:
        """Return the examples of the three parts of a split, or of the split of that number.

        Those of a prepared folder are read when they are needed. Others are packed together, so
        that the plans of all of them are made once.
        """
        split = self.split(split) if isinstance(split, int) else split
        if self.completion is not None:
            return self.completion.parts(split)
        if self.is_transductive:
            [example] = self.examples
            return Parts(*([self.task.only(example, rows)] if len(rows) else [] for rows in split))
        if isinstance(self.examples, ShardedExamples):
            return Parts(*map(self.examples.take, split))
        packed = pack(list(self.examples))
        return Parts(*([packed[k] for k in rows.tolist()] for rows in split))

    def order(self, split: Split) -> Split:
        """Return the rows of every part, in the order of its examples."""
        return split if self.completion is None else self.completion.order(split)

    def others(self, split: Split) -> Tensor:
        """Return the rows that belong to no part, such as those without a target."""
        is_left = torch.ones(self.num_rows, dtype=torch.bool)
        is_left[torch.cat(list(split))] = False
        return is_left.nonzero()[:, 0]

    def rest(self, split: Split) -> Sequence[Example]:
        """Return the examples of the rows that belong to no part."""
        rows = self.others(split)
        if not len(rows):
            return []
        if self.completion is not None:
            return [self.completion.rest(split, rows)]
        if self.is_transductive:
            return [self.task.only(self.examples[0], rows)]
        if isinstance(self.examples, ShardedExamples):
            return self.examples.take(rows)
        return [self.examples[k] for k in rows.tolist()]

    @property
    def num_rows(self) -> int:
        """How many rows splits number: examples, or entries of the target of the only example."""
        return len(self.task.rows(self.examples[0])) if self.is_transductive else len(self.examples)

    @property
    def has_named_entries(self) -> bool:
        """Whether rows are entries of one structure that have names."""
        return self.is_transductive and bool(self.names)

    @property
    def label_columns(self) -> list[str]:
        """The columns of `label`."""
        if self.completion is not None:
            return list(self.columns)
        first = ["name"] if self.names else ["example"]
        if self.task.at and not self.has_named_entries:
            first.append("entry")
        return [*first, *self.columns]

    def label(self, example: int, entry: int = 0) -> list[object]:
        """Return what identifies a prediction in a table: names, numbers, and other columns.

        Args:
            example: The number of the example.
            entry: The number of the entry in the example.
        """
        row = entry if self.is_transductive else example
        others = [texts[row] for texts in self.columns.values()]
        if self.completion is not None:
            return [*others]
        first: list[object] = [self.names[row] if self.names else example]
        if self.task.at and not self.has_named_entries:
            first.append(entry)
        return [*first, *others]


def _group_numbers(groups: Sequence[object] | Tensor, count: int) -> Tensor:
    """Return a number for every row, the same for rows of one group."""
    names = groups.tolist() if isinstance(groups, Tensor) else list(groups)
    if len(names) != count:
        raise IncidenceError(f"groups have a name for each of {count} rows; got {len(names)}.")
    number = {name: k for k, name in enumerate(dict.fromkeys(names))}
    return torch.tensor([number[name] for name in names])
