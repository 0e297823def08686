"""Columns of a table as features: numbers as they are, a few different words one-hot, lists of words by what they have."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from incidence.data.readers import as_float
from incidence.data.tables import Table, listed
from incidence.data.targets import is_missing
from incidence.errors import IncidenceError, shown

__all__ = ["Column", "as_features", "columns_of", "find_column"]

_MOST_WORDS = 64  # different words of a column that become columns of their own
_NAMES = {"name", "title", "id", "url", "description"}  # of which nobody expects features


def find_column(table: Table, known: Sequence[str], default: int | None = None) -> str | None:
    """The first column that is called by one of the known names, in any case; else the one of that number."""
    for name in known:
        found = next((column for column in table.columns if column.strip().lower() == name), None)
        if found is not None:
            return found
    return (
        None if default is None or default >= len(table.columns) else list(table.columns)[default]
    )


@dataclass(frozen=True)
class Column:
    """How a column becomes features, so that another table is read in the same way: a number, or a column of 0 and 1 for each word.

    Attributes:
        name: Of the column.
        words: The words that count; None for a number.
        mean: What stands for a number that is missing.
    """

    name: str
    words: tuple[str, ...] | None = None
    mean: float = 0.0

    @staticmethod
    def of(table: Table, name: str) -> Column | None:
        """What a column of a table becomes; None if it has a word of its own for almost every row.

        Raises:
            IncidenceError: A number is infinite.
        """
        texts = table[name]
        if all(is_missing(text) or as_float(text) is not None for text in texts):
            return Column(name, mean=float(_numbers(table, name).nanmean().nan_to_num()))
        different = sorted({word for words in map(_words, texts) for word in words})
        return (
            None
            if len(different) > min(_MOST_WORDS, len(texts) // 2)
            else Column(name, tuple(different))
        )

    @staticmethod
    def from_plain(told: Mapping[str, Any]) -> Column:
        """What a file has kept of a column, as `dataclasses.asdict` gives it."""
        return Column(
            str(told["name"]),
            None if told["words"] is None else tuple(told["words"]),
            float(told["mean"]),
        )

    def features(self, table: Table) -> Tensor:
        """The features that a table has here, [rows, channels]; words that were not there before count for nothing.

        Raises:
            IncidenceError: The table has no such column, or other than finite numbers where there were numbers.
        """
        if self.words is None:
            return _numbers(table, self.name).nan_to_num(self.mean)[:, None]
        number = {word: k for k, word in enumerate(self.words)}
        lists = [
            [number[word] for word in _words(text) if word in number] for text in table[self.name]
        ]
        made = torch.zeros(len(lists), len(self.words))
        rows = torch.tensor(
            [k for k, numbers in enumerate(lists) for _ in numbers], dtype=torch.long
        )
        made[rows, torch.tensor([k for numbers in lists for k in numbers], dtype=torch.long)] = 1
        return made


def columns_of(table: Table, names: Sequence[str]) -> list[Column]:
    """What some columns become; those with a word of its own for almost every row are left out.

    A warning tells which, but for names and titles. A number that is missing is the mean of its column. Words that are joined by `|`, as in
    `Action|Comedy`, count each.
    """
    found = {name: Column.of(table, name) for name in names}
    left = [
        name
        for name, column in found.items()
        if column is None and name.strip().lower() not in _NAMES
    ]
    if left:
        example = next(
            text for text in table[left[0]] if as_float(text) is None and not is_missing(text)
        )
        warnings.warn(
            f"{table.source}: no features are {listed([f'`{name}`' for name in left])}, whose words differ in almost every row, as "
            f"{shown(example)} does in `{left[0]}`.",
            stacklevel=2,
        )
    return [column for column in found.values() if column is not None]


def as_features(table: Table, columns: Sequence[Column]) -> Tensor:
    """The features of some columns side by side, [rows, channels]."""
    return torch.cat(
        [torch.zeros(len(table), 0), *(column.features(table) for column in columns)], dim=1
    )


def _numbers(table: Table, name: str) -> Tensor:
    """The numbers of a column, [rows], with NaN where one is missing."""
    values = [math.nan if is_missing(text) else as_float(text) for text in table[name]]
    wrong = next((k for k, value in enumerate(values) if value is None or math.isinf(value)), None)
    if wrong is not None:
        must, place = (
            "a value that is not finite"
            if values[wrong] is not None
            else "a value that is no number",
            table.places[wrong],
        )
        raise IncidenceError(f"{table.source}, {place}: the column `{name}` has {must}.")
    return torch.tensor(values)


def _words(text: str) -> list[str]:
    return [] if is_missing(text) else [word.strip() for word in text.split("|")]
