"""What a data set must be before anything is learned from it, whoever made it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from incidence.data.dataset import DataSet, Split, Task
from incidence.data.readers import assert_alike
from incidence.errors import IncidenceError
from incidence.structure.example import Example

__all__ = ["sound"]


def sound(data: DataSet) -> DataSet:
    """The data set, with whole numbers that are to be predicted as floats and parts of splits as tensors.

    Raises:
        IncidenceError: Something does not fit the task, the other examples or the splits; the message names the example.
    """
    examples = list(data.examples)
    if not examples:
        raise IncidenceError(f"the data set {data.name!r} needs examples.")
    if data.is_transductive and (len(examples) > 1 or not data.task.at):
        raise IncidenceError(f"the data set {data.name!r} is learned within, so it has one example, with targets of its entries.")
    _assert_features(examples)
    targets = _targets(examples, data.task)
    _FORMS[data.task.kind](targets, data.task)
    if data.task.kind == "regression" and not all(y.is_floating_point() for y in targets):
        targets = [y.float() for y in targets]
        examples = [e.replace(target={data.task.at: y} if data.task.at else y) for e, y in zip(examples, targets, strict=True)]
    count = len(targets[0]) if data.is_transductive else len(examples)
    return replace(data, examples=examples, splits=tuple(_split(split, number, count) for number, split in enumerate(data.splits)))


def _assert_features(examples: Sequence[Example]) -> None:
    features = [example.features for example in examples]
    kinds = {
        (e.structure.patterns, tuple((key, x.shape[1], x.dtype) for key, x in f.items())) for e, f in zip(examples, features, strict=True)
    }
    whole = [{key: torch.cat([f[key] for f in features]) for key in features[0]}] if len(kinds) == 1 else features  # one look, if alike
    if len(kinds) > 1 or not all(bool(x.isfinite().all()) for x in whole[0].values()):
        assert_alike((f"example {number}", example) for number, example in enumerate(examples))  # says which, and what
    for number, own in enumerate(whole):
        key = next((key for key, x in own.items() if not x.is_floating_point()), None)
        if key is not None:
            raise IncidenceError(
                f"example {number}: the features of `{key}` are {own[key].dtype}, and a network takes floats: use .float()."
            )


def _targets(examples: Sequence[Example], task: Task) -> list[Tensor]:
    found = []
    for number, example in enumerate(examples):
        target = example.target
        if task.at:
            target = target.get(task.at) if isinstance(target, dict) else None
        if not isinstance(target, Tensor):
            place = f"a dict with the key {task.at!r}" if task.at else "a tensor for the whole structure"
            raise IncidenceError(f"example {number}: the target of this task is {place}; got {example.target!r}.")
        found.append(target)
    return found


def _assert_numbers(targets: Sequence[Tensor], task: Task) -> None:
    wanted = 2 if task.at else 1
    for number, y in enumerate(targets):
        if y.ndim != wanted or y.shape[-1] != len(task.names):
            form = f"[entries, {len(task.names)}]" if task.at else f"[{len(task.names)}]"
            raise IncidenceError(f"example {number}: the target has the shape {form}, for {', '.join(task.names)}; got {list(y.shape)}.")
    if bool(torch.cat(list(targets)).isinf().any()):
        number = next(number for number, y in enumerate(targets) if bool(y.isinf().any()))
        raise IncidenceError(f"example {number}: the target is infinite. A value that is missing is NaN.")


def _assert_classes(targets: Sequence[Tensor], task: Task) -> None:
    for number, y in enumerate(targets):
        if y.is_floating_point() or y.dtype == torch.bool or y.ndim != bool(task.at):
            form = "integers, one for each entry" if task.at else "an integer"
            raise IncidenceError(f"example {number}: a class is {form}; got {y.dtype} of shape {list(y.shape)}.")
    flat = torch.cat([y.reshape(-1) for y in targets])
    wrong = (flat < -1) | (flat >= len(task.names))
    if bool(wrong.any()):
        sizes = torch.tensor([y.numel() for y in targets])
        number = int(torch.repeat_interleave(torch.arange(len(sizes)), sizes)[wrong][0])
        raise IncidenceError(
            f"example {number}: classes are the numbers 0 to {len(task.names) - 1}, or -1 where there is none; got {int(flat[wrong][0])}."
        )


_FORMS = {"regression": _assert_numbers, "classification": _assert_classes}


def _split(split: Split, number: int, count: int) -> Split:
    parts = []
    for name, rows in zip(Split._fields, split, strict=True):
        part = torch.as_tensor(rows)
        part = part.long() if not part.numel() else part
        if part.dtype == torch.bool or part.is_floating_point() or part.ndim != 1:
            raise IncidenceError(f"split {number}: the part {name} has numbers of rows; got {part.dtype} of shape {list(part.shape)}.")
        if len(part) and not 0 <= int(part.min()) <= int(part.max()) < count:
            bad = int(part[(part < 0) | (part >= count)][0])
            raise IncidenceError(f"split {number}: the part {name} has the row {bad}, and rows are numbered from 0 to {count - 1}.")
        parts.append(part)
    return Split(*parts)
