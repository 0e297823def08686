"""From records, or from examples at hand, to a `DataSet`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from inspect import signature
from pathlib import Path
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

import torch
from torch import Tensor

from incidence.data.columns import choose_targets, read_parts, read_targets, target_names
from incidence.data.dataset import METRICS, DataSet, Kind, Record, Task, as_kind
from incidence.data.dataset_checks import assert_alike
from incidence.data.default_features import PLAN, plan_features, with_planned
from incidence.data.splitting import as_split, splits_of
from incidence.data.spool import RecordSpool
from incidence.data.tables import TextTable
from incidence.errors import IncidenceError
from incidence.structure.example import Example

__all__ = [
    "DataRequest",
    "assert_options",
    "build",
    "from_examples",
    "from_records",
    "task_of",
    "with_floats",
]

_MOST_CLASSES = 1 << 16  # a network gives a number for each class


@dataclass(frozen=True)
class DataRequest:
    """The options of a user for a data set, beside the data itself.

    Attributes:
        source: What messages call the data: a path, or `the DataFrame`.
        name: The name of the data set.
        target: What is to be predicted, as the user gave it; None if not given.
        task: The kind of task; None if not given.
        reader: The name of the reader of files; None if not given.
        options: Other options: of the reader, of the layout, or of the data set.
        path: Where the data is, if it is in files.
        folder: Where a named data set has its files; None if not given.
        seed: Seed of everything that is drawn.
    """

    source: str = ""
    name: str = ""
    target: Any = None
    task: str | None = None
    reader: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    path: Path = Path()
    folder: Path | None = None
    seed: int = 0

    @property
    def targets(self) -> tuple[str, ...]:
        """The names of the targets; none if not given."""
        return target_names(self.target)

    def call(self, loader: Callable[..., DataSet], who: str, *arguments: Any) -> DataSet:
        """Call a loader with the options that it takes.

        Args:
            loader: Takes some arguments, then options.
            who: What messages call it.
            arguments: The arguments.

        Raises:
            IncidenceError: It does not take an option that was given.
        """
        takes = options_of(loader, len(arguments))
        if self.target is not None and "target" not in takes:
            raise IncidenceError(f"{who} has one target: leave out --target.")
        if self.reader is not None:
            raise IncidenceError(f"{who} is not read from files by a reader: leave out --reader.")
        # General options go to loaders that have a use for them, and are left out for others.
        general = {"seed": self.seed, "task": self.task, "target": self.target}
        options = {
            name: value for name, value in general.items() if name in takes and value is not None
        }
        options.update(self.options)
        assert_options(loader, who, options, len(arguments))
        return loader(*arguments, **options)


_TYPE_NAMES = {int: "a whole number", float: "a number", str: "a text", bool: "true or false"}


def options_of(function: Callable[..., Any], after: int = 2) -> dict[str, Any]:
    """Return the options of a function with their types.

    Args:
        function: The function.
        after: How many arguments come before the options.
    """
    hints = get_type_hints(function)
    names = list(signature(function).parameters)[after:]
    return {name: hints.get(name, object) for name in names}


def assert_options(
    function: Callable[..., Any], who: str, options: Mapping[str, Any], after: int = 2
) -> None:
    """Check that a function takes some options, and that their values have the right types.

    Raises:
        IncidenceError: It does not take one of them, or not a value of that type.
    """
    hints = options_of(function, after)
    for name, value in options.items():
        if name not in hints:
            takes = ", ".join(hints) or "no options"
            raise IncidenceError(f"{who} has no option `{name}`: it takes {takes}.")
        types = _members(hints[name])
        if not any(_is_of_type(value, one) for one in types):
            words = " or ".join(_TYPE_NAMES.get(one, "a list") for one in types if one in _NAMED)
            raise IncidenceError(
                f"the option `{name}` of {who} is {words or 'something else'}; got {value!r}."
            )


_NAMED = {*_TYPE_NAMES, Sequence}


def _members(hint: Any) -> list[Any]:
    """Return the types of a union, or the only type, without what they hold."""
    is_union = get_origin(hint) in (Union, UnionType)
    members = get_args(hint) if is_union else (hint,)
    return [get_origin(one) or one for one in members]


def _is_of_type(value: object, kind: Any) -> bool:
    if isinstance(value, bool):  # which Python takes for a number
        return kind in (bool, object)
    # 1 is a float to a user
    plain: Any = {float: (int, float), Sequence: (list, tuple)}.get(kind, kind)
    return isinstance(value, plain)


def build(
    request: DataRequest,
    records: Sequence[Record] | RecordSpool,
    reader: str,
    task: Task,
    targets: Tensor,
    parts: Sequence[int] | None = None,
    skipped: Sequence[str] = (),
) -> DataSet:
    """Return the data set of some records.

    Args:
        request: The options of the user.
        records: The records.
        reader: The name of the reader that read them.
        task: What is to be predicted.
        targets: A row for each record.
        parts: The part of each record (0, 1, 2, or -1 for none), if the data defines parts.
        skipped: Why other records were skipped.
    """
    examples: Sequence[Example]
    if isinstance(records, RecordSpool):
        assert_alike(zip(records.names, records.examples, strict=True))
        examples = records.examples.with_targets(targets)
    else:
        assert_alike((record.name, record.example) for record in records)
        examples = [
            record.example.replace(target=row) for record, row in zip(records, targets, strict=True)
        ]
    names, columns = _texts_of(records)
    columns = {
        key: texts for key, texts in columns.items() if key not in (*task.names, task.target)
    }
    count = len(skipped)
    note = f" {count} record{'s' * (count > 1)} could not be read." if skipped else ""
    return DataSet(
        request.name,
        examples,
        task,
        splits_of(parts),
        reader=reader,
        reader_options=request.options,
        about=f"Your own data: {len(examples)} examples.{note}",
        metric=METRICS[task.kind],
        names=names,
        columns=columns,
        passed_over=tuple(skipped),
    )


def _texts_of(
    records: Sequence[Record] | RecordSpool,
) -> tuple[Sequence[str], Mapping[str, Sequence[str]]]:
    """Return the names of records, and their properties by column."""
    if isinstance(records, RecordSpool):
        return records.names, records.columns
    keys = dict.fromkeys(key for record in records for key in record.properties)
    columns = {key: [record.properties.get(key, "") for record in records] for key in keys}
    return [record.name for record in records], columns


def from_records(
    request: DataRequest,
    records: Sequence[Record] | RecordSpool,
    reader: str,
    used: Callable[[TextTable], Collection[str]] = lambda table: (),
    parts: Sequence[int] | None = None,
    errors: Sequence[IncidenceError] = (),
    word: str = "column",
) -> DataSet:
    """Return the data set of some records whose properties include the targets.

    A property `split` defines the parts, unless they are given.

    Args:
        request: The options of the user.
        records: The records.
        reader: The name of the reader that read them.
        used: Returns which properties are no targets.
        parts: The part of each record, if something else than a property defines it.
        errors: The errors of records that could not be read.
        word: What messages call a property.

    Raises:
        IncidenceError: Most records could not be read, or it is not clear what the targets are.
    """
    # More broken than whole records: a wrong reader or column, and not a damaged line.
    if len(errors) > len(records):
        raise IncidenceError(
            f"{request.source}: {len(errors)} of {len(records) + len(errors)} records cannot be"
            f" read, so this is hardly the right file or column. The first: {errors[0]}"
        )
    # Records may lack a property that others have: the first of each name decides the order.
    record_names, columns = _texts_of(records)
    table = TextTable(request.source, columns, record_names, word=word)
    names = choose_targets(table, request.targets, used(table))
    texts = {name: table[name] for name in names}
    task, targets = read_targets(request.source, texts, request.task)
    if parts is None:
        parts = read_parts(table)
    return build(request, records, reader, task, targets, parts, [str(error) for error in errors])


def with_floats(example: Example) -> Example:
    """Return the example with features that a network can take.

    Raises:
        IncidenceError: Features are complex.
    """
    for key, x in example.features.items():
        if x.is_complex():
            raise IncidenceError(
                f"the features of `{key}` are complex: give their real and imaginary parts as two"
                " columns."
            )
    return example.replace(features={key: x.float() for key, x in example.features.items()})


def from_examples(
    examples: Sequence[Example],
    *,
    name: str = "examples",
    source: str = "",
    task: str | None = None,
    splits: Sequence[Sequence[Any]] = (),
) -> DataSet:
    """Return a data set of examples whose targets all belong to one pattern, or to no pattern.

    Integers are classes, and other numbers are regression. Values of 0 and 1 alone are two classes,
    or labels if there are several for each example. Tensors that need features get those of
    `default_features`.

    Args:
        examples: The examples.
        name: The name of the data set.
        source: What messages call it; the name if empty.
        task: The kind of task, if the values do not decide it.
        splits: Splits that the data defines, each of the rows for training, perhaps for validation,
            and for testing.

    Raises:
        IncidenceError: The examples are not alike, or have no targets, or targets of several kinds.
    """
    source = source or name
    if not examples:
        raise IncidenceError(f"the data set {name!r} is empty.")
    assert_alike((f"{source} {number}", example) for number, example in enumerate(examples))
    at, rows = _targets(examples, source)
    described, rows = task_of(rows, at, task, source)
    # The first example decides for all, as features must be alike.
    plan = plan_features(examples[0])
    finished = [
        described.with_target(with_planned(example, plan), row)
        for example, row in zip(examples, rows, strict=True)
    ]
    return DataSet(
        name,
        finished,
        described,
        tuple(as_split(split, number) for number, split in enumerate(splits)),
        reader="example",
        about=f"{len(finished)} examples from {source}.",
        is_transductive=bool(at) and len(finished) == 1,
        metric=METRICS[described.kind],
        reader_options={PLAN: plan} if plan else {},
    )


def _targets(examples: Sequence[Example], source: str) -> tuple[str, list[Tensor]]:
    """Return the pattern that targets belong to, perhaps an empty one, and every target."""
    keys, rows = set[str](), list[Tensor]()
    for number, example in enumerate(examples):
        target = example.target
        if target is None:
            raise IncidenceError(
                f"{source}: example {number} has no target, so there is nothing to learn. Give it"
                " target=, or y in PyG."
            )
        by_key = target if isinstance(target, dict) else {"": target}
        keys |= by_key.keys()
        rows += by_key.values()
    if len(keys) != 1:
        raise IncidenceError(
            f"{source}: targets must belong to one pattern; these belong to"
            f" {', '.join(sorted(map(repr, keys)))}."
        )
    return keys.pop(), rows


def task_of(
    rows: Sequence[Tensor], at: str, task: str | None, source: str
) -> tuple[Task, list[Tensor]]:
    """Return the task that targets are for, and the targets in the form that it needs.

    Args:
        rows: The target of every example.
        at: The pattern that they belong to; empty for whole structures.
        task: The kind of task, if the values do not decide it.
        source: What messages call the data.
    """
    kind = _kind_of(rows, at, as_kind(task))
    if kind == "classification":
        return _as_classes(rows, at, source)
    return _as_numbers(rows, at, kind, source)


def _kind_of(rows: Sequence[Tensor], at: str, kind: Kind | None) -> Kind:
    flat = torch.cat([row.reshape(-1) for row in rows])
    # Targets of entries have an axis more than those of wholes.
    width = rows[0].shape[-1] if rows[0].ndim > bool(at) else 1
    is_missing = flat.isnan() if flat.is_floating_point() else flat == -1
    are_yes_or_no = set(flat[~is_missing].unique().tolist()) == {0, 1}
    if width > 1 and are_yes_or_no and kind in (None, "classification"):
        return "multilabel"
    if kind is not None:
        return kind
    return "regression" if flat.is_floating_point() and not are_yes_or_no else "classification"


def _as_numbers(
    rows: Sequence[Tensor], at: str, kind: Kind, source: str
) -> tuple[Task, list[Tensor]]:
    """Return numbers or labels: [columns] of each example, or [entries, columns]."""
    if all(bool(row.isnan().all()) for row in rows):
        raise IncidenceError(f"{source}: all targets are missing.")
    numbers = []
    for row in rows:
        values = row.float() if row.ndim > bool(at) else row.float()[..., None]
        if kind == "multilabel" and not row.is_floating_point():
            # Integers have no NaN: -1 stands for a missing label.
            values = values.masked_fill(values == -1, torch.nan)
        numbers.append(values)
    word, width = "label" if kind == "multilabel" else "target", numbers[0].shape[-1]
    names = (word,) if width == 1 else tuple(f"{word} {k}" for k in range(width))
    return Task(kind, names, at=at), numbers


def _as_classes(rows: Sequence[Tensor], at: str, source: str) -> tuple[Task, list[Tensor]]:
    """Return a class of each example, or [entries]; -1 where a float is NaN."""
    # In double precision, as float32 would round large integers to others.
    flat = torch.cat([row.reshape(-1) for row in rows]).double().nan_to_num(-1)
    if not len(flat):
        raise IncidenceError(f"{source}: all targets are missing.")
    if bool((flat != flat.round()).any()) or int(flat.max()) < 0:
        raise IncidenceError(
            f"{source}: classes are the integers 0, 1, ..., with -1 where one is missing."
        )
    if flat.max() >= _MOST_CLASSES:
        raise IncidenceError(
            f"{source}: classes are the integers 0, 1, ... below {_MOST_CLASSES:,}; got"
            f" {float(flat.max()):.6g}."
        )
    classes = []
    for row in rows:
        values = row.nan_to_num(-1).long() if row.is_floating_point() else row.long()
        # Some data sets give a class as a column of one number.
        has_column = values.ndim == bool(at) + 1 and values.shape[-1] == 1
        classes.append(values[..., 0] if has_column else values)
    names = tuple(f"class {k}" for k in range(int(flat.max()) + 1))
    return Task("classification", names, at=at), classes
