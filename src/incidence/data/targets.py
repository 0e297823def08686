"""Targets of the user's own data: columns of text become numbers or classes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from incidence.data.dataset import Task
from incidence.errors import IncidenceError

__all__ = ["as_classes", "assert_task", "read_targets"]

_MISSING = {"", "nan", "na", "none", "null", "?"}
_KINDS = ("regression", "classification")


def assert_task(task: str | None) -> None:
    """Refuses kinds of tasks that there are not.

    Raises:
        IncidenceError: It is neither None nor one of the two.
    """
    if task is not None and task not in _KINDS:
        raise IncidenceError(f"the task is regression or classification; got {task!r}.")


def read_targets(source: str, columns: Mapping[str, Sequence[str]], task: str | None = None) -> tuple[Task, Tensor]:
    """The task, and a row of targets for each example: [rows, columns] floats, or [rows] classes.

    Args:
        source: Where the columns come from, for messages.
        columns: The texts of each target, one for each example. An empty one, or `nan`, is missing.
        task: `classification` reads numbers as names of classes, too; if not given, text makes classes and numbers do not.

    Raises:
        IncidenceError: Everything is missing, or numbers and text are mixed, or there are several columns of classes.
    """
    assert_task(task)
    for name, texts in columns.items():
        if all(_is_missing(text) for text in texts):
            raise IncidenceError(f"{source}: all values of the target `{name}` are missing.")
    kinds = {name: task or _kind(source, name, texts) for name, texts in columns.items()}
    if "classification" not in kinds.values():
        rows = [[_number(source, name, text) for text in texts] for name, texts in columns.items()]
        return Task("regression", tuple(columns)), torch.tensor(rows).T.contiguous()
    if len(columns) > 1:
        name = next(name for name, kind in kinds.items() if kind == "classification")
        raise IncidenceError(f"{source}: the target `{name}` has classes, which are predicted alone: give target={name!r} or another.")
    [texts] = columns.values()
    return as_classes([None if _is_missing(text) else text.strip() for text in texts])


def as_classes(names: Sequence[str | None]) -> tuple[Task, Tensor]:
    """A class for each name, in the order of names, or of numbers if they are numbers; -1 where there is none."""
    different = {name for name in names if name is not None}
    is_numeric = all(_as_float(name) is not None for name in different)
    ordered = sorted(different, key=(lambda name: (_as_float(name), name)) if is_numeric else str)
    number = {name: k for k, name in enumerate(ordered)}
    return Task("classification", tuple(ordered)), torch.tensor([-1 if name is None else number[name] for name in names])


def _is_missing(text: str) -> bool:
    return text.strip().lower() in _MISSING


def _as_float(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _kind(source: str, name: str, texts: Sequence[str]) -> str:
    present = [text for text in texts if not _is_missing(text)]
    words = [text for text in present if _as_float(text) is None]
    if words and len(words) < len(present):
        raise IncidenceError(
            f"{source}: the target `{name}` has numbers and text, such as {words[0]!r}. Correct it, or give task='classification' to read "
            f"every value as the name of a class."
        )
    return "classification" if words else "regression"


def _number(source: str, name: str, text: str) -> float:
    value = math.nan if _is_missing(text) else _as_float(text)
    if value is None or math.isinf(value):
        raise IncidenceError(f"{source}: the target `{name}` is a finite number for regression; got {text!r}.")
    return value
