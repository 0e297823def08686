"""Columns of a table as features: numbers as they are, a few different words one-hot, lists of words by what they have."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from incidence.data.readers import as_float
from incidence.data.tables import Table
from incidence.data.targets import is_missing
from incidence.errors import IncidenceError

__all__ = ["as_features", "find_column"]

_MOST_WORDS = 64  # different words of a column that become columns of their own


def find_column(table: Table, known: Sequence[str], default: int | None = None) -> str | None:
    """The first column that is called by one of the known names, in any case; else the one of that number."""
    for name in known:
        found = next((column for column in table.columns if column.strip().lower() == name), None)
        if found is not None:
            return found
    return None if default is None or default >= len(table.columns) else list(table.columns)[default]


def as_features(table: Table, names: Sequence[str]) -> tuple[Tensor, list[str]]:
    """Some columns as features, [rows, channels], and the columns that make none, as they have a word of its own for almost every row.

    A number that is missing is the mean of its column. Words that are joined by `|`, as in `Action|Comedy`, count each.

    Raises:
        IncidenceError: A number is infinite.
    """
    parts, left = [torch.zeros(len(table), 0)], []
    for name in names:
        texts = table[name]
        made = _numbers(table, name) if all(is_missing(t) or as_float(t) is not None for t in texts) else _words(texts)
        if made is None:
            left.append(name)
        else:
            parts.append(made)
    return torch.cat(parts, dim=1), left


def _numbers(table: Table, name: str) -> Tensor:
    values = torch.tensor([math.nan if is_missing(text) else float(text) for text in table[name]])  # (rows,)
    if bool(values.isinf().any()):
        row = int(values.isinf().nonzero()[0])
        raise IncidenceError(f"{table.source}, {table.places[row]}: the column `{name}` has a value that is not finite.")
    return values.nan_to_num(float(values.nanmean().nan_to_num()))[:, None]


def _words(texts: Sequence[str]) -> Tensor | None:
    """A column for each different word, if they are few."""
    lists = [[] if is_missing(text) else [word.strip() for word in text.split("|")] for text in texts]
    different = sorted({word for words in lists for word in words})
    if len(different) > min(_MOST_WORDS, len(texts) // 2):
        return None
    number = {word: k for k, word in enumerate(different)}
    made = torch.zeros(len(texts), len(different))
    rows = torch.tensor([k for k, words in enumerate(lists) for _ in words], dtype=torch.long)
    made[rows, torch.tensor([number[word] for words in lists for word in words], dtype=torch.long)] = 1
    return made
