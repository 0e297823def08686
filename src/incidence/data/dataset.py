"""`DataSet`: examples with a task and splits, ready for training; the parts of a split, and what all of it must be (`sound`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate
from textwrap import shorten
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, cast
from unicodedata import category

import torch
from torch import Tensor

from incidence.data.readers import assert_alike
from incidence.data.splitting import (
    TENTH,
    Split,
    cross_validation,
    held_out,
    random_split,
    sizes_of,
)
from incidence.errors import IncidenceError, shown
from incidence.structure.example import Example
from incidence.structure.examples import pack

if TYPE_CHECKING:
    from incidence.data.completion import Completion

__all__ = ["METRICS", "DataSet", "Kind", "Parts", "Split", "Task", "as_kind", "sound"]

METRICS = {"classification": "accuracy", "multilabel": "auc", "regression": "rmse"}
"""The metric of a task where nobody says another."""


Kind = Literal["regression", "classification", "multilabel"]


@dataclass(frozen=True)
class Task:
    """What is to be predicted.

    Attributes:
        kind: `regression`; `classification` with one class for each row; or `multilabel`, yes or no to each of several labels.
        names: What the numbers are called, or the classes, or the labels.
        at: The pattern whose entries have a value each; empty for one of the whole structure.
        unit: Of the numbers.
        ranks: Of two classes, the ranks at which hits are counted, as for links; the metrics are then those of ranking.
        target: What the classes are classes of, if that has a name: a column.
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
        """The target of an example, or of a batch: a row for each prediction."""
        target = example.target[self.at] if isinstance(example.target, dict) else example.target
        assert target is not None  # as `sound` has seen
        return target

    def is_known(self, target: Tensor) -> Tensor:
        """Where there is a target at all."""
        return target >= 0 if self.kind == "classification" else ~target.isnan()

    def only(self, example: Example, rows: Tensor | None) -> Example:
        """The same example with the target of some entries alone, or with none at all."""
        target = self.rows(example)
        kept = torch.full_like(target, -1 if self.kind == "classification" else torch.nan)
        if rows is not None:
            kept[rows] = target[rows]
        return example.replace(target={self.at: kept} if self.at else kept)


class Parts(NamedTuple):
    """The three parts of a data set, each a list of examples; a part may be empty."""

    train: list[Example]
    validation: list[Example]
    test: list[Example]

    def __repr__(self) -> str:
        """How large the parts are."""
        return f"Parts({sizes_of(self)})"


@dataclass(frozen=True)
class DataSet:
    """Examples with a task and splits.

    A row that has no target is NaN (numbers and labels) or -1 (classes), and is left out of losses and metrics.

    Attributes:
        name: What users call it.
        examples: Features are floats, [entries, channels]. Targets: [numbers], [labels] that are 0 or 1, or a class (an integer) for the
            whole structure; or a dict with the key `task.at` and a row for each entry.
        task: What is to be predicted.
        splits: Cross validation has one for each fold; without any, one is drawn by chance.
        reader: The name in `READERS` of what reads a file for prediction and makes the same features.
        reader_options: What the reader needs to know, such as the number of node labels; plain values.
        about: Where the data comes from, its terms, what the target is.
        is_transductive: Whether there is one structure, and splits number the entries of its target.
        metric: The metric that the literature reports: `rmse`, `mae`, `accuracy`, `auc`, `ap`.
        augment: Changes the examples of a training batch a little, with a generator; None if there is no such thing.
        names: Of the examples, so that predictions can be traced; none if they have no names. Of data that is learned within, the names of
            the entries of the target.
        columns: What else the data tells of each of them, as text by column: predictions stand beside it.
        passed_over: What could not be read, and why; it is left out.
        completion: Of data in which some entries are known and others asked for, such as ratings: what makes the examples of its parts. The
            only example is then the one in which everything is known and asked for, and `columns` name the rows.
        has_drawn_parts: Whether the data told no parts, so that the splits are drawn by chance.
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

    def __repr__(self) -> str:
        """A line, however large the data is."""
        kind, sizes, count = self.task.kind, "", len(self.splits)
        what = (
            f"{len(self.task.names)} classes"
            if kind == "classification"
            else ", ".join(self.task.names)
        )
        if self.splits:
            sizes = sizes_of(self.splits[0])
        parts = (
            sizes if count == 1 else f"{count} splits, the first {sizes}" if count else "no splits"
        )
        told = (
            {key: list(x.shape[1:]) for key, x in self.examples[0].features.items()}
            if self.examples
            else {}
        )
        task = f"{kind} of {shorten(what, 60)}" + (f" at `{self.task.at}`" if self.task.at else "")
        features = shorten(", ".join(f"{key}: {shape}" for key, shape in told.items()), 80)
        return f"DataSet({self.name!r}: {len(self.examples)} examples; {parts}; {task}; features {features or 'none'})"

    def split(self, number: int = 0) -> Split:
        """The split, or fold, of that number.

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
    ) -> DataSet:
        """The same with every part that the data does not tell drawn by chance; nothing else draws any.

        Without splits, a tenth is for testing, and a tenth for validation unless another share is asked for. Splits that are told stay as
        they are; but those of ratings get a validation part, too, if they have none.

        Args:
            validation: Which share of the training part of every split is kept apart for validation; each class is represented as in the
                whole; 0 for none.
            seed: Of the drawing.
            cv: How many folds a cross validation has: a split for each, which is tested after training on the others.
            groups: The group of every row, by any name: rows of one group stay in one part.

        Raises:
            IncidenceError: A split has a validation part already, or splits are told, and others asked for; or the share is none.
        """
        asked = next(
            (word for word, value in (("cv", cv), ("groups", groups)) if value is not None), None
        )
        if self.splits and asked is not None:
            raise IncidenceError(
                f"{self.name!r} tells its parts, so none are drawn: leave out --{asked}."
            )
        is_drawn = self.has_drawn_parts or not self.splits
        together = None if groups is None else _numbered(groups, self.num_rows)
        rows, classes = (
            self._rows_with_target() if not self.splits else torch.zeros(0),
            self._classes(),
        )
        if cv is not None:
            splits = cross_validation(rows, cv, classes, seed, together)
        else:
            splits = self.splits or (random_split(rows, seed, validation is None, together),)
        if validation is None:
            is_rated = self.completion is not None and self.task.kind == "regression"
            if (cv is None and not is_rated) or any(len(split.validation) for split in splits):
                return replace(self, splits=splits, has_drawn_parts=is_drawn)
            validation = TENTH  # ratings are learned by heart soon, and what is kept apart is known again for testing
        if not 0 <= validation < 1:
            raise IncidenceError(
                f"the part for validation is a number from 0 up to 1; got {validation}."
            )
        if any(len(split.validation) for split in splits):
            raise IncidenceError(
                f"{self.name!r} has a validation part of its own, so none is drawn: leave out --validation."
            )
        held = tuple(
            held_out(split, classes, validation, seed, together) if validation else split
            for split in splits
        )
        return replace(self, splits=held, has_drawn_parts=is_drawn)

    def _classes(self) -> Tensor:
        """The class of every row; all the same where there are none to spread over parts."""
        if self.task.kind == "classification" and (not self.task.at or self.is_transductive):
            return torch.cat([self.task.rows(example).reshape(-1) for example in self.examples])
        return torch.zeros(self.num_rows, dtype=torch.long)

    def _rows_with_target(self) -> Tensor:
        known = [self.task.is_known(self.task.rows(example)) for example in self.examples]
        rows = (
            known[0].reshape(self.num_rows, -1).any(1)
            if self.is_transductive
            else torch.stack([one.any() for one in known])
        )
        return rows.nonzero()[:, 0]

    def parts(self, split: Split | int = 0) -> Parts:
        """The three parts of a split, or of the split of that number, packed together so that a plan is made once."""
        split = self.split(split) if isinstance(split, int) else split
        if self.completion is not None:
            return self.completion.parts(split)
        if self.is_transductive:
            [example] = self.examples
            return Parts(*([self.task.only(example, rows)] if len(rows) else [] for rows in split))
        packed = pack(list(self.examples))
        return Parts(*([packed[k] for k in rows.tolist()] for rows in split))

    def order(self, split: Split) -> Split:
        """The rows of every part, in the order in which its examples have them."""
        return split if self.completion is None else self.completion.order(split)

    def others(self, split: Split) -> Tensor:
        """The rows that belong to no part, such as those that have no target."""
        is_left = torch.ones(self.num_rows, dtype=torch.bool)
        is_left[torch.cat(list(split))] = False
        return is_left.nonzero()[:, 0]

    def rest(self, split: Split) -> list[Example]:
        """The examples that belong to no part; of data that is learned within, the only one with the targets of no part."""
        rows = self.others(split)
        if self.completion is not None:
            return [self.completion.rest(split, rows)] if len(rows) else []
        if self.is_transductive:
            return [self.task.only(self.examples[0], rows)] if len(rows) else []
        return [self.examples[k] for k in rows.tolist()]

    @property
    def num_rows(self) -> int:
        """How many rows splits number: the examples, or the entries of the target of the only one."""
        return len(self.task.rows(self.examples[0])) if self.is_transductive else len(self.examples)

    @property
    def label_columns(self) -> list[str]:
        """What a row of predictions is called by: the columns of `label`."""
        if self.completion is not None:
            return list(self.columns)
        is_entry = bool(self.task.at) and not (self.is_transductive and self.names)
        return [
            *(["name"] if self.names else ["example"]),
            *(["entry"] if is_entry else []),
            *self.columns,
        ]

    def label(self, example: int, entry: int = 0) -> list[object]:
        """What a prediction for an example, or for an entry of it, is called by: its name or number, and what else the data tells."""
        row = entry if self.is_transductive else example
        if self.completion is not None:
            return [texts[row] for texts in self.columns.values()]
        is_entry = bool(self.task.at) and not (self.is_transductive and self.names)
        name = self.names[row] if self.names else example
        return [
            name,
            *([entry] if is_entry else []),
            *(texts[row] for texts in self.columns.values()),
        ]


def _numbered(groups: Sequence[object] | Tensor, count: int) -> Tensor:
    """A number for every row, the same for those of one group."""
    names = groups.tolist() if isinstance(groups, Tensor) else list(groups)
    if len(names) != count:
        raise IncidenceError(f"groups have a name for each of {count} rows; got {len(names)}.")
    number = {name: k for k, name in enumerate(dict.fromkeys(names))}
    return torch.tensor([number[name] for name in names])


def as_kind(task: str | None) -> Kind | None:
    """The kind of a task by its name, if it was said; what is none is refused."""
    if task is not None and task not in METRICS:
        raise IncidenceError(f"the task is {', '.join(METRICS)} or links; got {task!r}.")
    return cast("Kind | None", task)


def sound(data: DataSet) -> DataSet:
    """The data set, with whole numbers that are to be predicted as floats and parts of splits as tensors; what does not fit is refused."""
    examples = list(data.examples)
    if not examples:
        raise IncidenceError(f"the data set {data.name!r} needs examples.")
    _assert_names(data.task)
    if data.is_transductive and (len(examples) > 1 or not data.task.at):
        raise IncidenceError(
            f"the data set {data.name!r} is learned within, so it has one example, with targets of its entries."
        )
    _assert_features(examples)
    targets = _targets(examples, data.task)
    (_assert_classes if data.task.kind == "classification" else _assert_numbers)(targets, data.task)
    if data.task.kind != "classification" and not all(y.is_floating_point() for y in targets):
        targets = [y.float() for y in targets]
        examples = [
            e.replace(target={data.task.at: y} if data.task.at else y)
            for e, y in zip(examples, targets, strict=True)
        ]
    count = len(targets[0]) if data.is_transductive else len(examples)
    return replace(
        data,
        examples=examples,
        splits=tuple(_split(split, number, count) for number, split in enumerate(data.splits)),
    )


def _assert_names(task: Task) -> None:
    """Refuses names that no table and no picture could show, before anything is trained for them."""
    bad = next(
        (name for name in task.names if any(category(letter) in ("Cc", "Cs") for letter in name)),
        None,
    )
    if bad is not None:
        what = "class" if task.kind == "classification" else "target"
        raise IncidenceError(
            f"the name of a {what} is text without control characters, in UTF-8; got {shown(bad)}. Correct the data."
        )


def _assert_features(examples: Sequence[Example]) -> None:
    features = [example.features for example in examples]
    kinds = {
        (e.structure.patterns, tuple((key, x.shape[1], x.dtype) for key, x in e.features.items()))
        for e in examples
    }
    whole = (
        [{key: torch.cat([f[key] for f in features]) for key in features[0]}]
        if len(kinds) == 1
        else features
    )  # one look, if alike
    if len(kinds) > 1 or not all(bool(x.isfinite().all()) for x in whole[0].values()):
        assert_alike(
            (f"example {number}", example) for number, example in enumerate(examples)
        )  # says which, and what
    for number, table in enumerate(whole):
        key = next((key for key, x in table.items() if not x.is_floating_point()), None)
        if key is not None:
            kind = table[key].dtype
            raise IncidenceError(
                f"example {number}: the features of `{key}` are {kind}, and a network takes floats: use .float()."
            )


def _targets(examples: Sequence[Example], task: Task) -> list[Tensor]:
    found = []
    for number, example in enumerate(examples):
        target: Any = example.target
        if task.at:
            target = target.get(task.at) if isinstance(target, dict) else None
        if not isinstance(target, Tensor):
            place = (
                f"a dict with the key {task.at!r}"
                if task.at
                else "a tensor for the whole structure"
            )
            raise IncidenceError(
                f"example {number}: the target of this task is {place}; got {example.target!r}."
            )
        found.append(target)
    return found


def _assert_numbers(targets: Sequence[Tensor], task: Task) -> None:
    for number, y in enumerate(targets):
        if y.ndim != 1 + bool(task.at) or y.shape[-1] != len(task.names):
            form = f"[entries, {len(task.names)}]" if task.at else f"[{len(task.names)}]"
            raise IncidenceError(
                f"example {number}: the target has the shape {form}, for {', '.join(task.names)}; got {list(y.shape)}."
            )
    flat = torch.cat([y.reshape(-1) for y in targets])
    is_wrong = (
        flat.isinf() if task.kind == "regression" else (flat != 0) & (flat != 1) & ~flat.isnan()
    )
    if bool(is_wrong.any()):
        first = int(is_wrong.nonzero()[0, 0])
        number = next(
            number
            for number, end in enumerate(accumulate(y.numel() for y in targets))
            if first < end
        )
        must = (
            "is infinite"
            if task.kind == "regression"
            else f"is {float(flat[first]):g}, and a label is 0 or 1"
        )
        raise IncidenceError(
            f"example {number}: the target {must}. A value that is missing is NaN."
        )


def _assert_classes(targets: Sequence[Tensor], task: Task) -> None:
    for number, y in enumerate(targets):
        if y.is_floating_point() or y.dtype == torch.bool or y.ndim != bool(task.at):
            form = "integers, one for each entry" if task.at else "an integer"
            raise IncidenceError(
                f"example {number}: a class is {form}; got {y.dtype} of shape {list(y.shape)}."
            )
    flat = torch.cat([y.reshape(-1) for y in targets])
    wrong = ((flat < -1) | (flat >= len(task.names))).nonzero()[:, 0]
    if len(wrong):
        number = next(
            number
            for number, end in enumerate(accumulate(y.numel() for y in targets))
            if wrong[0] < end
        )
        known, bad = (
            f"the numbers 0 to {len(task.names) - 1}, or -1 where there is none",
            int(flat[wrong[0]]),
        )
        raise IncidenceError(f"example {number}: classes are {known}; got {bad}.")


def _split(split: Split, number: int, count: int) -> Split:
    parts = []
    for name, rows in zip(Split._fields, split, strict=True):
        part = torch.as_tensor(rows)
        part = part.long() if not part.numel() else part
        if part.dtype == torch.bool or part.is_floating_point() or part.ndim != 1:
            raise IncidenceError(
                f"split {number}: the part {name} has numbers of rows; got {part.dtype} of shape {list(part.shape)}."
            )
        if len(part) and not 0 <= int(part.min()) <= int(part.max()) < count:
            bad = int(part[(part < 0) | (part >= count)][0])
            raise IncidenceError(
                f"split {number}: the part {name} has the row {bad}, and rows are numbered from 0 to {count - 1}."
            )
        parts.append(part)
    return Split(*parts)
