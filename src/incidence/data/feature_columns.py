"""How columns of a table become features of the rows, and features of other tables alike."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from incidence.data.columns import is_missing
from incidence.data.tables import TextTable, as_float, listed
from incidence.errors import IncidenceError, shown

__all__ = ["Column", "as_features", "columns_of"]

_MOST_WORDS = 64  # different words of a column that become features
_NAMES = {"name", "title", "id", "url", "description"}  # nobody expects features of these columns


@dataclass(frozen=True)
class Column:
    """How a column becomes features, so that other tables are read in the same way.

    Attributes:
        name: The name of the column.
        words: The words that get a feature of 0 or 1 each; None for a column of numbers.
        mean: What replaces a number that is missing.
    """

    name: str
    words: tuple[str, ...] | None = None
    mean: float = 0.0

    @staticmethod
    def of(table: TextTable, name: str) -> Column | None:
        """Return how a column becomes features, or None if its words differ in nearly all rows.

        Raises:
            IncidenceError: A number is infinite.
        """
        texts = table[name]
        if all(is_missing(text) or as_float(text) is not None for text in texts):
            return Column(name, mean=float(_numbers(table, name).nanmean().nan_to_num()))
        # Sorted, so that the columns of features do not depend on the order of the rows.
        words = sorted({word for text in texts for word in _words(text)})
        # such words tell rows apart, and no more
        has_too_many = len(words) > min(_MOST_WORDS, len(texts) // 2)
        return None if has_too_many else Column(name, tuple(words))

    @staticmethod
    def from_plain(values: Mapping[str, Any]) -> Column:
        """Return the column that `dataclasses.asdict` turned into plain values."""
        words = values["words"]
        return Column(
            str(values["name"]), None if words is None else tuple(words), float(values["mean"])
        )

    def features(self, table: TextTable) -> Tensor:
        """Return the features of a table, [rows, channels]; new words count for nothing.

        Raises:
            IncidenceError: The table has no such column, or something else than finite numbers in
                a column of numbers.
        """
        if self.words is None:
            return _numbers(table, self.name).nan_to_num(self.mean)[:, None]  # (rows, 1)
        number = {word: k for k, word in enumerate(self.words)}
        features = torch.zeros(len(table), len(self.words))  # (rows, words)
        ones = [
            (row, number[word])
            for row, text in enumerate(table[self.name])
            for word in _words(text)
            if word in number
        ]
        places = torch.tensor(ones, dtype=torch.long).view(-1, 2)
        features[places[:, 0], places[:, 1]] = 1
        return features


def columns_of(table: TextTable, names: Sequence[str]) -> list[Column]:
    """Return how some columns become features, without those whose words differ in nearly all rows.

    A warning lists the columns that are left out, except for names and titles. The mean of the
    column replaces a number that is missing. Each of several words joined by `|`, as in
    `Action|Comedy`, counts.
    """
    columns = {name: Column.of(table, name) for name in names}
    left_out = [
        name
        for name, column in columns.items()
        if column is None and name.strip().lower() not in _NAMES
    ]
    if left_out:
        first = left_out[0]
        word = next(
            text for text in table[first] if not is_missing(text) and as_float(text) is None
        )
        warnings.warn(
            f"{table.source}: {listed([f'`{name}`' for name in left_out])} cannot become features:"
            f" almost every row has another text, such as {shown(word)} in `{first}`.",
            stacklevel=2,
        )
    return [column for column in columns.values() if column is not None]


def as_features(table: TextTable, columns: Sequence[Column]) -> Tensor:
    """Return the features of some columns side by side, [rows, channels]."""
    # `cat` of no tensors fails, and a table may have no columns of features.
    nothing = torch.zeros(len(table), 0)
    return torch.cat([nothing, *(column.features(table) for column in columns)], dim=1)


def _numbers(table: TextTable, name: str) -> Tensor:
    """Return the numbers of a column, [rows], with NaN where one is missing."""
    values = [math.nan if is_missing(text) else as_float(text) for text in table[name]]
    for value, place in zip(values, table.places, strict=True):
        if value is None or math.isinf(value):
            problem = "is no number" if value is None else "is not finite"
            raise IncidenceError(
                f"{table.source}, {place}: the column `{name}` has a value that {problem}."
            )
    return torch.tensor(values)


def _words(text: str) -> list[str]:
    return [] if is_missing(text) else [word.strip() for word in text.split("|")]
