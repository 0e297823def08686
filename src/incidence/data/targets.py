"""Targets and parts from the columns of a table: which column it is, numbers or classes, and what is missing."""

from __future__ import annotations

import math
import shlex
from collections.abc import Callable, Collection, Mapping, Sequence

import torch
from torch import Tensor

from incidence.data.dataset import Task, as_kind
from incidence.data.readers import as_float
from incidence.data.tables import Table, counts_rows, listed
from incidence.errors import IncidenceError

__all__ = [
    "PARTS",
    "as_classes",
    "choose_targets",
    "is_missing",
    "is_split",
    "read_parts",
    "read_targets",
    "wanted_names",
]

PARTS = {"train": 0, "training": 0, "validation": 1, "valid": 1, "val": 1, "dev": 1, "test": 2}
"""What people call the parts."""
_MISSING = {"", "nan", "na", "n/a", "#n/a", "#na", "<na>", "none", "null", "?", "-"}
_SAID = {"no": 0.0, "yes": 1.0, "false": 0.0, "true": 1.0, "inactive": 0.0, "active": 1.0}
"""What stands for 0 and 1."""
_CLASSES = {"label", "labels", "class", "classes", "category"}
"""What people call classes, so that whole numbers are some, too."""
_USUAL = {"target", "targets", "y", *_CLASSES}
"""What people call a target."""
_MASKS = {"train_mask": 0, "val_mask": 1, "valid_mask": 1, "validation_mask": 1, "test_mask": 2}
"""What people call columns of yes and no that tell the parts."""
_MANY_CLASSES, _ALL_DIFFER = 20, 8
"""So many there may be of few rows; of more rows, half as many. Of so many rows or more, no two of which agree, there are no classes."""


def is_missing(text: str) -> bool:
    """Whether a text says that there is no value."""
    return text.strip().lower() in _MISSING


def wanted_names(target: object) -> tuple[str, ...]:
    """The names of targets as they were asked for: a text, which may be divided by commas, or a list."""
    if target is None:
        return ()
    names = [target] if isinstance(target, (str, int)) else target
    if not isinstance(names, Sequence) or not all(
        isinstance(name, (str, int)) and not isinstance(name, bool) for name in names
    ):
        raise IncidenceError(
            f"the target of files is the name of a column or property, or a list of names; got {target!r}. Write it as in target='SOL'."
        )
    return tuple(map(str, names))


def choose_targets(
    table: Table, asked: Sequence[str], used: Collection[str] = (), prefers_numbers: bool = True
) -> tuple[str, ...]:
    """The columns that are to be predicted: those asked for, or the one that is clear.

    A lone text may name several, divided by commas. Without any, it is the only column that is not used otherwise; else the only one
    that is called as targets usually are; else the only one with numbers, unless numbers may be something else here; else all, if each
    says yes or no. A column that counts the rows, or has one value throughout, is none if there is another.

    Raises:
        IncidenceError: A column is not there, or none is clear.
    """
    if asked:
        [*names] = (
            asked
            if len(asked) > 1 or asked[0] in table.columns
            else (name.strip() for name in asked[0].split(","))
        )
        chosen = tuple(table.named(name) for name in names)
        taken = next((name for name in chosen if name in used), None)
        if taken is not None:
            raise IncidenceError(
                f"{table.source}: the {table.word} `{taken}` is no target, as it has another use."
            )
        return chosen
    told = [
        name
        for name in table.columns
        if name not in used and not is_split(name) and _tells(table[name])
    ]
    free = [
        name for name in told if not counts_rows(table[name]) and len({*table[name]} - {""}) > 1
    ]
    numbers = [
        name
        for name in free
        if all(as_float(text) is not None for text in table[name] if not is_missing(text))
    ]
    for some in (
        free,
        [name for name in free if name.lower() in _USUAL],
        numbers if prefers_numbers else [],
        told,
    ):
        if len(some) == 1:
            return (some[0],)
    if free and all(_are_yes_or_no(table[name]) for name in free):
        return tuple(free)
    nothing = (
        f"is none of: {listed(table.columns)}, which are empty, names, or used otherwise"
        if table.columns
        else f"is no {table.word}"
    )
    could = f"could be any of: {listed(free)}" if free else nothing + _nearly(table, used)
    several = (
        f", or several: --target {shlex.quote(','.join(free[:3]))}" if len(numbers) > 1 else ""
    )
    raise IncidenceError(
        f"{table.source}: what is to be predicted {could}. Say which {table.word} with --target{several}."
    )


def _nearly(table: Table, used: Collection[str]) -> str:
    """A word about a column that has numbers but for some cells, which is hardly a column of names."""
    for name in (name for name in table.columns if name not in used):
        present = [text for text in table[name] if not is_missing(text)]
        words = [text for text in present if as_float(text) is None]
        if 0 < 2 * len(words) < len(present):
            return f" (`{name}` has numbers, and text such as {words[0]!r})"
    return ""


def _tells(texts: Sequence[str]) -> bool:
    """Whether a column tells something: it is not empty, and has not a name of its own for each row, or nearly each."""
    present = [text for text in texts if not is_missing(text)]
    are_names = (len(set(present)) == len(present) > 2 or _are_too_many(present)) and any(
        as_float(text) is None for text in present
    )
    return bool(present) and not are_names


def _are_too_many(present: Sequence[str]) -> bool:
    """Whether values differ too often to be classes."""
    return len(set(present)) > max(_MANY_CLASSES, len(present) // 2)


def is_split(name: str) -> bool:
    """Whether a column tells the part of every row, or which rows are in one: `split`, `train_mask`."""
    return name.strip().lower() in ("split", *_MASKS)


def read_parts(table: Table) -> list[int] | None:
    """The part (0, 1, 2) of every row by the column `split`, or by columns such as `train_mask`; -1 where none is told."""
    masks = {
        name: _MASKS[name.strip().lower()]
        for name in table.columns
        if name.strip().lower() in _MASKS
    }
    column = next((name for name in table.columns if is_split(name) and name not in masks), None)
    if column is None:
        return _parts_of_masks(table, masks) if masks else None
    told = [text.lower() for text in table[column]]
    wrong = next(
        (k for k, part in enumerate(told) if part not in PARTS and not is_missing(part)), None
    )
    if wrong is not None:
        was = table[column][wrong]
        raise IncidenceError(
            f"{table.source}, {table.places[wrong]}: the split is train, validation or test; got {was!r}."
        )
    return [PARTS.get(part, -1) for part in told]


def _parts_of_masks(table: Table, masks: Mapping[str, int]) -> list[int]:
    parts = [-1] * len(table)
    for name, part in masks.items():
        for row, text in enumerate(table[name]):
            said = _yes_or_no(text)
            if said is None and not is_missing(text):
                raise IncidenceError(
                    f"{table.source}, {table.places[row]}: `{name}` says yes or no (1 or 0, True or False); got {text!r}."
                )
            if said and parts[row] >= 0:
                raise IncidenceError(
                    f"{table.source}, {table.places[row]}: the row is in two parts, by {listed(list(masks))}."
                )
            parts[row] = part if said else parts[row]
    return parts


def read_targets(
    source: str, columns: Mapping[str, Sequence[str]], task: str | None = None
) -> tuple[Task, Tensor]:
    """The task, and a row of targets for each example: [rows, columns] floats, or [rows] classes; an empty text, or `nan`, is missing.

    Without a task, text makes classes and numbers do not, unless they are 0 and 1 alone, or a few whole numbers in a column that is called
    `label` or `class`; with `classification`, numbers are names of classes, too. Several columns of 0 and 1, or of no and yes, are labels.

    Example:
        >>> read_targets("a.csv", {"toxic": ["0", "1", ""], "soluble": ["yes", "no", "no"]})
        (Task(kind='multilabel', names=('toxic', 'soluble'), at='', unit='', ranks=(), target=''), tensor([[0., 1.],
                [1., 0.],
                [nan, 0.]]))
    """
    task = as_kind(task)
    for name, texts in columns.items():
        if all(is_missing(text) for text in texts):
            raise IncidenceError(f"{source}: all values of the target `{name}` are missing.")
    are_labels = (
        len(columns) > 1
        and task in (None, "classification")
        and all(map(_are_yes_or_no, columns.values()))
    )
    if task == "multilabel" or are_labels:
        must = "for labels 0 or 1, or no or yes"
        return Task("multilabel", tuple(columns)), _as_numbers(source, columns, _yes_or_no, must)
    kinds = {
        name: task or _kind(source, name, texts, len(columns) == 1)
        for name, texts in columns.items()
    }
    if "classification" not in kinds.values():
        return Task("regression", tuple(columns)), _as_numbers(
            source, columns, as_float, "a finite number for regression"
        )
    if len(columns) > 1:
        name = next(name for name, kind in kinds.items() if kind == "classification")
        raise IncidenceError(
            f"{source}: the target `{name}` has classes, which are predicted alone: give target={name!r} or another."
        )
    [(name, texts)] = columns.items()
    present = [text for text in texts if not is_missing(text)]
    if _are_too_many(present) or (
        task is None and len(set(present)) == len(present) >= _ALL_DIFFER
    ):
        what = (
            "numbers are predicted as they are with task='regression'"
            if _are_numbers(present)
            else f"they begin with {present[0]!r}"
        )
        many = f"{len(set(present))} different values in {len(present)} rows"
        raise IncidenceError(
            f"{source}: the target `{name}` has {many}, too many to be classes; {what}."
        )
    return as_classes([None if is_missing(text) else text.strip() for text in texts], name)


def _as_numbers(
    source: str,
    columns: Mapping[str, Sequence[str]],
    read: Callable[[str], float | None],
    must: str,
) -> Tensor:
    """A row for each example, [rows, columns], with NaN where a value is missing."""
    rows = [
        [math.nan if is_missing(text) else read(text) for text in texts]
        for texts in columns.values()
    ]
    for (name, texts), row in zip(columns.items(), rows, strict=True):
        wrong = next(
            (
                text
                for text, value in zip(texts, row, strict=True)
                if value is None or math.isinf(value)
            ),
            None,
        )
        if wrong is not None:
            raise IncidenceError(f"{source}: the target `{name}` is {must}; got {wrong!r}.")
    return torch.tensor(rows).T.contiguous()


def _yes_or_no(text: str) -> float | None:
    """1 for a text that says yes, 0 for one that says no, and None for others."""
    value = _SAID.get(text.strip().lower(), as_float(text))
    return value if value in (0.0, 1.0) else None


def _are_yes_or_no(texts: Sequence[str]) -> bool:
    """Whether all values of a column that are there say yes or no."""
    return all(_yes_or_no(text) is not None for text in texts if not is_missing(text))


def as_classes(names: Sequence[str | None], target: str = "") -> tuple[Task, Tensor]:
    """A class for each name, in the order of names, or of numbers if they are numbers; -1 where there is none."""
    different = {name for name in names if name is not None}
    ordered = sorted(
        different, key=(lambda name: (as_float(name), name)) if _are_numbers(different) else str
    )
    number = {name: k for k, name in enumerate(ordered)}
    rows = torch.tensor([-1 if name is None else number[name] for name in names])
    return Task("classification", tuple(ordered), target=target), rows


def _are_numbers(texts: Collection[str]) -> bool:
    return all(as_float(text) is not None for text in texts)


def _kind(source: str, name: str, texts: Sequence[str], is_alone: bool) -> str:
    present = [text for text in texts if not is_missing(text)]
    words = [text for text in present if as_float(text) is None]
    if words and len(words) < len(present):
        raise IncidenceError(
            f"{source}: the target `{name}` has numbers and text, such as {words[0]!r}. Correct it, or give task='classification' to read "
            f"every value as the name of a class."
        )
    is_yes_or_no = {as_float(text) for text in present} == {0.0, 1.0}
    are_few = (
        all(text.isdecimal() for text in present)
        and not _are_too_many(present)
        and 2 * len(set(present)) <= len(present)
    )
    are_classes = is_alone and (is_yes_or_no or (are_few and name.strip().lower() in _CLASSES))
    return "classification" if words or are_classes else "regression"
