"""Data sets from examples that the library saved, with their targets."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

from incidence.data.dataset import DataSet, Split, Task
from incidence.data.reading import assert_alike
from incidence.data.registry import Read
from incidence.data.saved import with_floats
from incidence.data.splits import held_out, random_split
from incidence.data.targets import as_task
from incidence.errors import IncidenceError
from incidence.structure.example import Example
from incidence.structure.examples import uncollate

__all__ = ["METRICS", "data_set_of", "read_stored"]

METRICS = {"classification": "accuracy", "regression": "rmse"}


def read_stored(path: Path, task: str | None, seed: int, validation: float | None = None) -> DataSet:
    """The data set of a file that `Example.save` wrote; integers as targets are classes, other numbers are predicted as they are.

    Raises:
        IncidenceError: It has no targets, or they are not such numbers.
    """
    found = with_floats(Example.load(path)).canonical()
    examples = uncollate(found) if found.is_batch else [found]
    assert_alike([Read(f"{path} {k}", example) for k, example in enumerate(examples)])
    name = path.stem if path.stem != "examples" else path.resolve().parent.name
    return data_set_of(name, examples, str(path), task, seed, validation=validation)


def data_set_of(
    name: str,
    examples: Sequence[Example],
    source: str,
    task: str | None = None,
    seed: int = 0,
    splits: Sequence[Split] = (),
    validation: float | None = None,
) -> DataSet:
    """A data set from examples that have targets.

    Args:
        name: What it is called.
        examples: With targets of one kind: for the whole structure, or for the entries of one pattern.
        source: Where they come from, for messages.
        task: `classification` or `regression`; what the type of the targets tells, if not given.
        seed: Of the split by chance that is made if there are no splits.
        splits: Which examples, or entries of the only one, serve for what.
        validation: The share of the training part to keep apart for validation.
    """
    at, rows = _targets(examples, source)
    form, rows = _task(as_task(task), at, rows, source)
    per_entry = [{at: own} for own in rows] if at else rows
    made = [example.replace(target=own) for example, own in zip(examples, per_entry, strict=True)]
    is_transductive = bool(at) and len(made) == 1
    count = len(rows[0]) if is_transductive else len(made)
    data = DataSet(
        name,
        made,
        form,
        tuple(splits) or (random_split(count, seed, validation),),
        reader="example",
        about=f"{len(made)} examples from {source}.",
        is_transductive=is_transductive,
        metric=METRICS[form.kind],
    )
    return held_out(data, validation, seed)


def _targets(examples: Sequence[Example], source: str) -> tuple[str, list[Tensor]]:
    """What the targets belong to, and the target of every example."""
    found = [example.target for example in examples]
    if any(target is None for target in found):
        raise IncidenceError(f"{source}: an example has no target, so there is nothing to learn. Save examples with target=.")
    keys = {key for target in found for key in (target if isinstance(target, dict) else ("",))}
    if len(keys) != 1:
        raise IncidenceError(f"{source}: targets belong to one pattern; these belong to {', '.join(sorted(map(repr, keys)))}.")
    [key] = keys
    return key, [target[key] if isinstance(target, dict) else target for target in found if target is not None]


def _task(task: str | None, at: str, rows: list[Tensor], source: str) -> tuple[Task, list[Tensor]]:
    """The task, and the targets in the form that it takes: [numbers] or a class, for each entry if they belong to entries."""
    flat = torch.cat([row.reshape(-1) for row in rows])
    kind = task or ("regression" if flat.is_floating_point() else "classification")
    return _FORMS[kind](at, rows, flat.double(), source)


def _numbers(at: str, rows: list[Tensor], flat: Tensor, source: str) -> tuple[Task, list[Tensor]]:
    if bool(flat.isinf().any()) or bool(flat.isnan().all()):
        raise IncidenceError(f"{source}: targets are infinite, or all missing.")
    axes = 2 if at else 1
    shaped = [row.float() if row.ndim == axes else row.float()[..., None] for row in rows]
    _assert_shape(shaped, axes, source)
    width = shaped[0].shape[-1]
    return Task("regression", ("target",) if width == 1 else tuple(f"target {k}" for k in range(width)), at=at), shaped


def _classes(at: str, rows: list[Tensor], flat: Tensor, source: str) -> tuple[Task, list[Tensor]]:
    if bool((flat != flat.round()).any()) or int(flat.max()) < 0:
        raise IncidenceError(f"{source}: classes are the integers 0, 1, ..., with -1 where one is missing.")
    axes = 1 if at else 0
    shaped = [row.long()[..., 0] if row.ndim == axes + 1 and row.shape[-1] == 1 else row.long() for row in rows]
    _assert_shape(shaped, axes, source)
    return Task("classification", tuple(f"class {k}" for k in range(int(flat.max()) + 1)), at=at), shaped


def _assert_shape(rows: list[Tensor], axes: int, source: str) -> None:
    bad = next((k for k, row in enumerate(rows) if row.ndim != axes or row.shape[1:] != rows[0].shape[1:]), None)
    if bad is not None:
        raise IncidenceError(f"{source}: the target of example {bad} has the shape {list(rows[bad].shape)}, which does not fit the task.")


_FORMS = {"regression": _numbers, "classification": _classes}
