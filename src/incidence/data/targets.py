"""Targets and parts from the columns of a table: which column it is, numbers or classes, and what is missing."""

from __future__ import annotations

import math
import warnings
from collections.abc import Collection, Mapping, Sequence

import torch
from torch import Tensor

from incidence.data.dataset import Task, assert_task
from incidence.data.readers import as_float
from incidence.data.tables import Table, listed
from incidence.errors import IncidenceError

__all__ = ["PARTS", "as_classes", "choose_targets", "is_missing", "is_split", "read_parts", "read_targets", "wanted_names"]

PARTS = {"train": 0, "training": 0, "validation": 1, "valid": 1, "val": 1, "dev": 1, "test": 2}
"""What people call the parts."""
_MISSING = {"", "nan", "na", "none", "null", "?"}
_USUAL = {"target", "targets", "y", "label", "labels", "class"}
"""What people call a target."""


def is_missing(text: str) -> bool:
    """Whether a text says that there is no value."""
    return text.strip().lower() in _MISSING


def wanted_names(target: object) -> tuple[str, ...]:
    """The names of targets as they were asked for: a text, which may be divided by commas, or a list."""
    if target is None:
        return ()
    names = [target] if isinstance(target, str) else target
    if not isinstance(names, Sequence) or not all(isinstance(name, str) for name in names):
        raise IncidenceError(
            f"the target of files is the name of a column or property, or a list of names; got {target!r}. Write it as text, as in "
            f"target='SOL'; numbers are for data of PyG."
        )
    return tuple(names)


def choose_targets(table: Table, asked: Sequence[str], used: Collection[str] = ()) -> tuple[str, ...]:
    """The columns that are to be predicted: those asked for, or the one that is clear.

    A lone text may name several, divided by commas. Without any, it is the only column that is not used otherwise; else the only one
    that is called as targets usually are; else the only one with numbers, or without. A column that counts the rows, or has one value
    throughout, is none if there is another.

    Raises:
        IncidenceError: A column is not there, or none is clear.
    """
    if asked:
        [*names] = asked if len(asked) > 1 or asked[0] in table.columns else (name.strip() for name in asked[0].split(","))
        chosen = tuple(table.named(name) for name in names)
        taken = next((name for name in chosen if name in used), None)
        if taken is not None:
            raise IncidenceError(f"{table.source}: the {table.word} `{taken}` is no target, as it has another use.")
        return chosen
    told = [name for name in table.columns if name not in used and not is_split(name) and _tells(table[name])]
    free = [name for name in told if not _counts(table[name]) and len({*table[name]} - {""}) > 1]
    numbers = [name for name in free if all(as_float(text) is not None for text in table[name] if not is_missing(text))]
    words = [name for name in free if name not in numbers]
    for some in (free, [name for name in free if name.lower() in _USUAL], numbers, words, told):
        if len(some) == 1:
            return (some[0],)
    could = f"could be any of: {listed(free)}" if free else f"is none of: {listed(table.columns)}"
    several = f", or several: --target {','.join(free[:3])}" if len(numbers) > 1 else ""
    raise IncidenceError(f"{table.source}: what is to be predicted {could}. Say which {table.word} with --target{several}.")


def _tells(texts: Sequence[str]) -> bool:
    """Whether a column tells something: it is not empty, and has not a name of its own for each row."""
    present = [text for text in texts if not is_missing(text)]
    are_names = len(set(present)) == len(present) > 2 and all(as_float(text) is None for text in present)
    return bool(present) and not are_names


def _counts(texts: Sequence[str]) -> bool:
    """Whether a column does nothing but count the rows."""
    return list(texts) in [[str(start + k) for k in range(len(texts))] for start in (0, 1)]


def is_split(name: str) -> bool:
    """Whether a column tells the part of every row."""
    return name.strip().lower() == "split"


def read_parts(table: Table) -> list[int] | None:
    """The part (0, 1, 2) of every row by the column `split`, if there is one; -1 where it is empty."""
    column = next((name for name in table.columns if is_split(name)), None)
    if column is None:
        return None
    told = [text.lower() for text in table[column]]
    wrong = next((k for k, part in enumerate(told) if part not in PARTS and not is_missing(part)), None)
    if wrong is not None:
        was = table[column][wrong]
        raise IncidenceError(f"{table.source}, {table.places[wrong]}: the split is train, validation or test; got {was!r}.")
    return [PARTS.get(part, -1) for part in told]


def read_targets(source: str, columns: Mapping[str, Sequence[str]], task: str | None = None) -> tuple[Task, Tensor]:
    """The task, and a row of targets for each example: [rows, columns] floats, or [rows] classes; an empty text, or `nan`, is missing.

    Without a task, text makes classes and numbers do not, unless they are 0 and 1 alone; with `classification`, numbers are names of
    classes, too.
    """
    assert_task(task)
    for name, texts in columns.items():
        if all(is_missing(text) for text in texts):
            raise IncidenceError(f"{source}: all values of the target `{name}` are missing.")
    kinds = {name: task or _kind(source, name, texts, len(columns) == 1) for name, texts in columns.items()}
    if "classification" not in kinds.values():
        rows = [[math.nan if is_missing(text) else as_float(text) for text in texts] for texts in columns.values()]
        for (name, texts), row in zip(columns.items(), rows, strict=True):
            wrong = next((text for text, value in zip(texts, row, strict=True) if value is None or math.isinf(value)), None)
            if wrong is not None:
                raise IncidenceError(f"{source}: the target `{name}` is a finite number for regression; got {wrong!r}.")
        if len(columns) > 1 and task is None and all(set(row) == {0.0, 1.0} for row in _known(rows)):
            warnings.warn(
                f"{source}: the targets {listed(columns)} are 0 or 1 each, and are predicted as numbers, by their squared error. For "
                f"probabilities and the area under the ROC curve give one of them alone, as in --target {next(iter(columns))}; "
                f"--task regression says that numbers are meant.",
                stacklevel=2,
            )
        return Task("regression", tuple(columns)), torch.tensor(rows).T.contiguous()
    if len(columns) > 1:
        name = next(name for name, kind in kinds.items() if kind == "classification")
        raise IncidenceError(f"{source}: the target `{name}` has classes, which are predicted alone: give target={name!r} or another.")
    [texts] = columns.values()
    return as_classes([None if is_missing(text) else text.strip() for text in texts])


def _known(rows: Sequence[Sequence[float | None]]) -> list[list[float]]:
    """The values that are not missing, of every column."""
    return [[value for value in row if value is not None and not math.isnan(value)] for row in rows]


def as_classes(names: Sequence[str | None]) -> tuple[Task, Tensor]:
    """A class for each name, in the order of names, or of numbers if they are numbers; -1 where there is none."""
    different = {name for name in names if name is not None}
    is_numeric = all(as_float(name) is not None for name in different)
    ordered = sorted(different, key=(lambda name: (as_float(name), name)) if is_numeric else str)
    number = {name: k for k, name in enumerate(ordered)}
    return Task("classification", tuple(ordered)), torch.tensor([-1 if name is None else number[name] for name in names])


def _kind(source: str, name: str, texts: Sequence[str], is_alone: bool) -> str:
    present = [text for text in texts if not is_missing(text)]
    words = [text for text in present if as_float(text) is None]
    if words and len(words) < len(present):
        raise IncidenceError(
            f"{source}: the target `{name}` has numbers and text, such as {words[0]!r}. Correct it, or give task='classification' to read "
            f"every value as the name of a class."
        )
    is_yes_or_no = is_alone and {as_float(text) for text in present} == {0.0, 1.0}
    return "classification" if words or is_yes_or_no else "regression"
