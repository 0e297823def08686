"""What a data set must hold: examples that are alike, finite features, targets, parts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import accumulate
from typing import Any
from unicodedata import category

import torch
from torch import Tensor

from incidence.data.dataset import DataSet, Task
from incidence.data.shards import ShardedExamples
from incidence.data.splitting import Split, as_split
from incidence.errors import IncidenceError, shown
from incidence.structure.example import Example

__all__ = ["assert_alike", "checked"]


def assert_alike(examples: Iterable[tuple[str, Example]]) -> None:
    """Check that examples can make a batch, and that their features are finite numbers.

    Args:
        examples: The examples, each with its name for messages.

    Raises:
        IncidenceError: One has other tensors or features than the first, or a feature is not
            finite.
    """
    first, expected = "", dict[str, int]()
    for number, (name, example) in enumerate(examples):
        channels = _channels(example)
        if not number:
            first, expected = name, channels
        if channels != expected:
            keys = sorted(expected.keys() | channels.keys())
            key = next(key for key in keys if expected.get(key) != channels.get(key))
            ours, theirs = _in_words(expected.get(key)), _in_words(channels.get(key))
            raise IncidenceError(
                f"examples of a data set have the same tensors and features; for `{key}`, {first}"
                f" has {ours} and {name} has {theirs}."
            )
        for key, x in example.features.items():
            if not bool(torch.isfinite(x).all()):
                raise IncidenceError(
                    f"{name}: the features of `{key}` have values that are no finite numbers."
                )


def _channels(example: Example) -> dict[str, int]:
    """Return the channels of every tensor, -1 for one without features."""
    structure = example.structure
    channels = {str(pattern): -1 for pattern in structure.patterns}
    for key, x in example.features.items():
        channels[str(structure.resolve(key))] = x.shape[1]
    return channels


def _in_words(channels: int | None) -> str:
    if channels is None:
        return "no such tensor"
    return "no features" if channels < 0 else f"{channels} features"


def checked(data: DataSet) -> DataSet:
    """Return the data set with targets as floats and parts as tensors, if it holds what it must.

    Raises:
        IncidenceError: Features are not finite or not alike, or targets or parts do not fit.
    """
    if isinstance(data.examples, ShardedExamples):  # examples were checked when they were written
        _assert_names(data.task)
        return _with_checked_splits(data, len(data.examples))
    examples, task = list(data.examples), data.task
    if not examples:
        raise IncidenceError(f"the data set {data.name!r} needs examples.")
    _assert_names(task)
    if data.is_transductive and (len(examples) > 1 or not task.at):
        raise IncidenceError(
            f"the data set {data.name!r} is transductive, so it must have one example, with"
            " targets of its entries."
        )
    _assert_features(examples)
    targets = _target_tensors(examples, task)
    if task.kind == "classification":
        _assert_class_targets(targets, task)
    else:
        _assert_number_targets(targets, task)
        if not all(y.is_floating_point() for y in targets):
            examples = [
                task.with_target(one, y.float()) for one, y in zip(examples, targets, strict=True)
            ]
    count = len(targets[0]) if data.is_transductive else len(examples)
    return _with_checked_splits(replace(data, examples=examples), count)


def _with_checked_splits(data: DataSet, count: int) -> DataSet:
    splits = [_checked_split(split, number, count) for number, split in enumerate(data.splits)]
    return replace(data, splits=tuple(splits))


def _assert_names(task: Task) -> None:
    """Refuse names that no table or picture can show, before a network is trained for them."""
    for name in task.names:
        # control characters, and halves of characters
        if any(category(letter) in ("Cc", "Cs") for letter in name):
            what = "class" if task.kind == "classification" else "target"
            raise IncidenceError(
                f"the name of a {what} is text without control characters, in UTF-8; got"
                f" {shown(name)}. Correct the data."
            )


def _assert_features(examples: Sequence[Example]) -> None:
    # Thousands of small examples: one test of all together is much faster than one for each.
    layouts = {
        (
            one.structure.patterns,
            tuple((key, x.shape[1], x.dtype) for key, x in one.features.items()),
        )
        for one in examples
    }
    tables = [one.features for one in examples]
    if len(layouts) == 1:  # alike, so that all can be looked at together
        tables = [{key: torch.cat([x[key] for x in tables]) for key in tables[0]}]
    if len(layouts) > 1 or not all(bool(x.isfinite().all()) for x in tables[0].values()):
        # raises with the number of the example, unless only the types differ
        assert_alike((f"example {number}", one) for number, one in enumerate(examples))
    for number, features in enumerate(tables):
        for key, x in features.items():
            if not x.is_floating_point():
                raise IncidenceError(
                    f"example {number}: the features of `{key}` are {x.dtype}, and a network takes"
                    " floats: use .float()."
                )


def _target_tensors(examples: Sequence[Example], task: Task) -> list[Tensor]:
    targets = []
    for number, example in enumerate(examples):
        target: Any = example.target
        place = "a tensor for the whole structure"
        if task.at:
            target = target.get(task.at) if isinstance(target, dict) else None
            place = f"a dict with the key {task.at!r}"
        if not isinstance(target, Tensor):
            raise IncidenceError(
                f"example {number}: the target of this task is {place}; got {example.target!r}."
            )
        targets.append(target)
    return targets


def _first_wrong(targets: Sequence[Tensor], is_wrong: Tensor) -> tuple[int, int] | None:
    """Return the first wrong value of all targets in a row, and the number of its example."""
    places = is_wrong.nonzero()[:, 0]
    if not len(places):
        return None
    ends = accumulate(y.numel() for y in targets)  # of the values of each example
    return int(places[0]), next(k for k, end in enumerate(ends) if int(places[0]) < end)


def _assert_number_targets(targets: Sequence[Tensor], task: Task) -> None:
    for number, y in enumerate(targets):
        if y.ndim != 1 + bool(task.at) or y.shape[-1] != len(task.names):
            shape = f"[entries, {len(task.names)}]" if task.at else f"[{len(task.names)}]"
            raise IncidenceError(
                f"example {number}: the target has the shape {shape}, for {', '.join(task.names)};"
                f" got {list(y.shape)}."
            )
    flat = torch.cat([y.reshape(-1) for y in targets])
    if task.kind == "regression":
        wrong = _first_wrong(targets, flat.isinf())
    else:
        wrong = _first_wrong(targets, (flat != 0) & (flat != 1) & ~flat.isnan())
    if wrong is not None:
        problem = "is infinite"
        if task.kind != "regression":
            problem = f"is {float(flat[wrong[0]]):g}, and a label is 0 or 1"
        raise IncidenceError(
            f"example {wrong[1]}: the target {problem}. A value that is missing is NaN."
        )


def _assert_class_targets(targets: Sequence[Tensor], task: Task) -> None:
    for number, y in enumerate(targets):
        if y.is_floating_point() or y.dtype == torch.bool or y.ndim != bool(task.at):
            form = "integers, one for each entry" if task.at else "an integer"
            raise IncidenceError(
                f"example {number}: a class is {form}; got {y.dtype} of shape {list(y.shape)}."
            )
    flat = torch.cat([y.reshape(-1) for y in targets])
    wrong = _first_wrong(targets, (flat < -1) | (flat >= len(task.names)))
    if wrong is not None:
        raise IncidenceError(
            f"example {wrong[1]}: classes are the numbers 0 to {len(task.names) - 1}, or -1 where"
            f" there is none; got {int(flat[wrong[0]])}."
        )


def _checked_split(split: Split, number: int, count: int) -> Split:
    """Return the split with tensors of whole numbers below `count`."""
    parts = []
    for name, rows in zip(Split._fields, as_split(split, number), strict=True):
        part = torch.as_tensor(rows)
        if not part.numel():
            part = part.long()  # an empty list becomes floats
        if part.dtype == torch.bool or part.is_floating_point() or part.ndim != 1:
            raise IncidenceError(
                f"split {number}: the part {name} has numbers of rows; got {part.dtype} of shape"
                f" {list(part.shape)}."
            )
        outside = part[(part < 0) | (part >= count)]
        if len(outside):
            raise IncidenceError(
                f"split {number}: the part {name} has the row {int(outside[0])}, and rows are"
                f" numbered from 0 to {count - 1}."
            )
        parts.append(part)
    return Split(*parts)
