"""What the columns of a table mean: which have the targets, and which the parts."""

from __future__ import annotations

import math
import shlex
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from incidence.data.dataset import Task, as_kind
from incidence.data.tables import TextTable, as_float, counts_rows, listed
from incidence.errors import IncidenceError

__all__ = [
    "PARTS",
    "as_classes",
    "choose_targets",
    "find_column",
    "is_missing",
    "is_split",
    "read_parts",
    "read_targets",
    "target_names",
]

PARTS = {"train": 0, "training": 0, "validation": 1, "valid": 1, "val": 1, "dev": 1, "test": 2}
"""What people call the parts."""
_MISSING = {"", "nan", "na", "n/a", "#n/a", "#na", "<na>", "none", "null", "?", "-"}
_YES_OR_NO = {"no": 0.0, "yes": 1.0, "false": 0.0, "true": 1.0, "inactive": 0.0, "active": 1.0}
_CLASS_COLUMNS = {"label", "labels", "class", "classes", "category"}
"""What people call columns of classes; whole numbers in such a column are classes."""
_TARGET_COLUMNS = {"target", "targets", "y", *_CLASS_COLUMNS}
"""What people call a column to predict."""
_MASKS = {"train_mask": 0, "val_mask": 1, "valid_mask": 1, "validation_mask": 1, "test_mask": 2}
"""What people call columns of yes and no, one for each part."""
_MANY_CLASSES = 20  # may be classes of a few rows; of more rows, half as many
_ALL_DIFFER = 8  # so many rows, no two of which agree, have no classes


def is_missing(text: str) -> bool:
    """Return whether a text stands for a missing value."""
    return text.strip().lower() in _MISSING


def target_names(target: object) -> tuple[str, ...]:
    """Return the names in a `target` argument: a text, perhaps with commas, or a list.

    Raises:
        IncidenceError: It is something else.
    """
    if target is None:
        return ()
    names: Any = [target] if isinstance(target, (str, int)) else target
    is_list = isinstance(names, Sequence)
    if not is_list or not all(type(name) in (str, int) for name in names):
        raise IncidenceError(
            "the target of files is the name of a column or property, or a list of names; got"
            f" {target!r}. Write it as in `--target SOL`."
        )
    return tuple(map(str, names))


def choose_targets(
    table: TextTable,
    targets: Sequence[str],
    used: Collection[str] = (),
    prefers_numbers: bool = True,
) -> tuple[str, ...]:
    """Return the columns to predict: the given ones, or the one that is clear.

    Without given ones, it is the first of these that is exactly one column:

    1. the columns that are left and tell rows apart,
    2. those of them with a name that people give to targets,
    3. those of them with numbers, if `prefers_numbers`,
    4. all columns that are left, also those that count the rows or have one value.

    If that finds none, and all columns that are left say yes or no, they all are labels.

    Args:
        table: The table.
        targets: The given names; a single text may name several columns, divided by commas.
        used: Columns with another use.
        prefers_numbers: Whether columns of numbers are likely targets.

    Raises:
        IncidenceError: A given column is not there or has another use, or none is clear.
    """
    if targets:
        return _given_targets(table, targets, used)
    left = [
        name
        for name in table.columns
        if name not in used and not is_split(name) and _has_information(table[name])
    ]
    free = [
        name for name in left if not counts_rows(table[name]) and len({*table[name]} - {""}) > 1
    ]
    numbers = [name for name in free if _are_numbers(_present(table[name]))]
    usual = [name for name in free if name.lower() in _TARGET_COLUMNS]
    # A test that leaves one column decides; one that leaves none or several says nothing.
    for candidates in (free, usual, numbers if prefers_numbers else [], left):
        if len(candidates) == 1:
            return (candidates[0],)
    if free and all(_are_yes_or_no(table[name]) for name in free):
        return tuple(free)
    problem = f"could be any of: {listed(free)}" if free else _no_target(table, used)
    several = ""
    if len(numbers) > 1:
        several = f", or several: `--target {shlex.quote(','.join(free[:3]))}`"
    raise IncidenceError(
        f"{table.source}: what is to be predicted {problem}. Say which {table.word} with --target"
        f"{several}."
    )


def _given_targets(
    table: TextTable, targets: Sequence[str], used: Collection[str]
) -> tuple[str, ...]:
    names = list(targets)
    if len(names) == 1 and names[0] not in table.columns:
        names = [name.strip() for name in names[0].split(",")]
    chosen = tuple(table.named(name) for name in names)
    taken = next((name for name in chosen if name in used), None)
    if taken is not None:
        raise IncidenceError(
            f"{table.source}: the {table.word} `{taken}` is no target, as it has another use."
        )
    return chosen


def _no_target(table: TextTable, used: Collection[str]) -> str:
    """Return why no column can be the target, with a column that is nearly one of numbers."""
    if not table.columns:
        return f"is no {table.word}"
    problem = f"is none of: {listed(table.columns)}, which are empty, names, or used otherwise"
    for name in (name for name in table.columns if name not in used):
        present = _present(table[name])
        words = [text for text in present if as_float(text) is None]
        if 0 < 2 * len(words) < len(present):
            return f"{problem} (`{name}` has numbers, and text such as {words[0]!r})"
    return problem


def _present(texts: Sequence[str]) -> list[str]:
    return [text for text in texts if not is_missing(text)]


def _has_information(texts: Sequence[str]) -> bool:
    """Return whether a column is neither empty nor a list of names, one for nearly each row."""
    present = _present(texts)
    # Two rows that differ say nothing; three texts that all differ look like names.
    all_differ = len(set(present)) == len(present) > 2
    are_names = (all_differ or _are_too_many(present)) and not _are_numbers(present)
    return bool(present) and not are_names


def _are_too_many(present: Sequence[str]) -> bool:
    """Return whether values differ too often to be classes."""
    return len(set(present)) > max(_MANY_CLASSES, len(present) // 2)


def is_split(name: str) -> bool:
    """Return whether a column has the part of every row: `split`, or masks such as `train_mask`."""
    return name.strip().lower() in ("split", *_MASKS)


def read_parts(table: TextTable) -> list[int] | None:
    """Return the part (0, 1, 2) of every row from the column `split`, or from masks.

    The part is -1 where the column is empty. None if there are no such columns.

    Raises:
        IncidenceError: A value is no part, or a row is in two parts.
    """
    masks = {name: name.strip().lower() for name in table.columns if is_split(name)}
    column = next((name for name, plain in masks.items() if plain == "split"), None)
    if column is None:
        parts = {name: _MASKS[plain] for name, plain in masks.items()}
        return _parts_of_masks(table, parts) if parts else None
    texts = [text.lower() for text in table[column]]
    for text, place in zip(table[column], table.places, strict=True):
        if text.lower() not in PARTS and not is_missing(text):
            raise IncidenceError(
                f"{table.source}, {place}: the split is train, validation or test; got {text!r}."
            )
    return [PARTS.get(text, -1) for text in texts]


def _parts_of_masks(table: TextTable, masks: Mapping[str, int]) -> list[int]:
    parts = [-1] * len(table)
    for name, part in masks.items():
        for row, text in enumerate(table[name]):
            value = _yes_or_no(text)
            if value is None and not is_missing(text):
                raise IncidenceError(
                    f"{table.source}, {table.places[row]}: `{name}` says yes or no (1 or 0, True or"
                    f" False); got {text!r}."
                )
            if value and parts[row] >= 0:
                raise IncidenceError(
                    f"{table.source}, {table.places[row]}: the row is in two parts, by"
                    f" {listed(list(masks))}."
                )
            if value:
                parts[row] = part
    return parts


def read_targets(
    source: str, columns: Mapping[str, Sequence[str]], task: str | None = None
) -> tuple[Task, Tensor]:
    """Return the task, and a row of targets for each example.

    Targets are [rows, columns] floats with NaN where a value is missing, or [rows] classes with -1.
    Unless the task is given, it follows from the values: text makes classes; numbers make
    regression, unless they are 0 and 1 alone, or a few whole numbers in a column called `label` or
    `class`. Several columns of 0 and 1, or of no and yes, are labels.

    Args:
        source: What messages call the data.
        columns: The texts of the targets by name.
        task: `regression`, `classification` or `multilabel`.

    Raises:
        IncidenceError: A value does not fit the task, or all values of a column are missing.

    Example:
        >>> read_targets("a.csv", {"toxic": ["0", "1", ""], "soluble": ["yes", "no", "no"]})
        (Task(kind='multilabel', names=('toxic', 'soluble'), at='', unit='', ranks=(), target=''),
        tensor([[0., 1.],
                [1., 0.],
                [nan, 0.]]))
    """
    kind = as_kind(task)
    for name, texts in columns.items():
        if not _present(texts):
            raise IncidenceError(f"{source}: all values of the target `{name}` are missing.")
    may_be_labels = len(columns) > 1 and kind in (None, "classification")
    if kind == "multilabel" or (may_be_labels and all(map(_are_yes_or_no, columns.values()))):
        must = "for labels 0 or 1, or no or yes"
        return Task("multilabel", tuple(columns)), _as_numbers(source, columns, _yes_or_no, must)
    is_alone = len(columns) == 1
    kinds = {
        name: kind or _kind_of(source, name, texts, is_alone) for name, texts in columns.items()
    }
    classes = next((name for name, one in kinds.items() if one == "classification"), None)
    if classes is None:
        must = "a finite number for regression"
        return Task("regression", tuple(columns)), _as_numbers(source, columns, as_float, must)
    if not is_alone:
        raise IncidenceError(
            f"{source}: the target `{classes}` has classes, which are predicted alone: give"
            f" `--target {classes}` or another."
        )
    texts = columns[classes]
    _assert_classes(source, classes, _present(texts), is_certain=kind is not None)
    return as_classes([None if is_missing(text) else text.strip() for text in texts], classes)


def _assert_classes(source: str, name: str, present: Sequence[str], is_certain: bool) -> None:
    """Refuse values that differ too often to be classes."""
    all_differ = len(set(present)) == len(present) >= _ALL_DIFFER
    if not _are_too_many(present) and (is_certain or not all_differ):
        return
    remedy = f"they begin with {present[0]!r}"
    if _are_numbers(present):
        remedy = "numbers are predicted as they are with task='regression'"
    raise IncidenceError(
        f"{source}: the target `{name}` has {len(set(present))} different values in"
        f" {len(present)} rows, too many to be classes; {remedy}."
    )


def _as_numbers(
    source: str,
    columns: Mapping[str, Sequence[str]],
    read: Callable[[str], float | None],
    must: str,
) -> Tensor:
    """Return a row for each example, [rows, columns], with NaN where a value is missing."""
    numbers = []
    for name, texts in columns.items():
        values = [math.nan if is_missing(text) else read(text) for text in texts]
        for text, value in zip(texts, values, strict=True):
            if value is None or math.isinf(value):
                raise IncidenceError(f"{source}: the target `{name}` is {must}; got {text!r}.")
        numbers.append(values)
    return torch.tensor(numbers).T.contiguous()


def _yes_or_no(text: str) -> float | None:
    """Return 1 for a text that says yes, 0 for one that says no, and None for others."""
    value = _YES_OR_NO.get(text.strip().lower(), as_float(text))
    return value if value in (0.0, 1.0) else None


def _are_yes_or_no(texts: Sequence[str]) -> bool:
    """Return whether all values of a column that are not missing say yes or no."""
    return all(_yes_or_no(text) is not None for text in _present(texts))


def as_classes(names: Sequence[str | None], target: str = "") -> tuple[Task, Tensor]:
    """Return the task, and a class for each name, -1 for None.

    Classes are in the order of their names, or of the numbers that their names are.
    """
    different = {name for name in names if name is not None}
    if _are_numbers(different):
        ordered = sorted(different, key=lambda name: (as_float(name), name))  # 2 before 10
    else:
        ordered = sorted(different)
    number = {name: k for k, name in enumerate(ordered)}
    rows = torch.tensor([-1 if name is None else number[name] for name in names])
    return Task("classification", tuple(ordered), target=target), rows


def _are_numbers(texts: Collection[str]) -> bool:
    return all(as_float(text) is not None for text in texts)


def _kind_of(source: str, name: str, texts: Sequence[str], is_alone: bool) -> str:
    """Return which task the values of a column are for."""
    present = _present(texts)
    words = [text for text in present if as_float(text) is None]
    if words and len(words) < len(present):
        raise IncidenceError(
            f"{source}: the target `{name}` has numbers and text, such as {words[0]!r}. Correct it,"
            " or give `--task classification` to read every value as the name of a class."
        )
    if words:
        return "classification"
    is_yes_or_no = {as_float(text) for text in present} == {0.0, 1.0}
    are_whole = all(text.isdecimal() for text in present)
    # Values that hardly come again, such as years, are numbers.
    come_again = not _are_too_many(present) and 2 * len(set(present)) <= len(present)
    is_called_so = name.strip().lower() in _CLASS_COLUMNS
    are_classes = is_yes_or_no or (is_called_so and are_whole and come_again)
    return "classification" if is_alone and are_classes else "regression"


def find_column(table: TextTable, names: Sequence[str], default: int | None = None) -> str | None:
    """Return the first column with one of some names, in any case, or else the default column.

    Args:
        table: The table.
        names: The names, in small letters; earlier ones win.
        default: The number of the default column.
    """
    # the first of a name wins
    by_name = {column.strip().lower(): column for column in reversed(list(table.columns))}
    for name in names:
        if name in by_name:
            return by_name[name]
    if default is None or default >= len(table.columns):
        return None
    return list(table.columns)[default]
