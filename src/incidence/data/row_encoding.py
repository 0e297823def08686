"""Columns of keyed tables as features of rows, by kind: numbers, categories, dates, text.

Encodings are chosen by rows up to a time alone, so that nothing later decides them.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any
from zlib import crc32

import torch
from torch import Tensor

from incidence.data.columns import is_missing
from incidence.data.dates import as_days
from incidence.data.tables import as_float
from incidence.errors import IncidenceError

__all__ = ["Encoding", "encoding_of"]

_MOST_WORDS = 16  # different values of a category that have a feature each
_FEW = 2000  # so many different whole numbers in a column called `...Id` are categories at most
_BUCKETS = 8  # of the hash of a text
_YEAR = 365.25


@dataclass(frozen=True)
class Encoding:
    """How a column becomes features.

    Attributes:
        name: The name of the column.
        kind: `number`, `category`, `date` or `text`.
        words: The values of a category that have a feature each.
        mean: The mean of a number.
        deviation: Its deviation.
    """

    name: str
    kind: str
    words: tuple[str, ...] = ()
    mean: float = 0.0
    deviation: float = 1.0

    def plain(self) -> dict[str, Any]:
        """Return plain values, for a file."""
        return asdict(self)

    @staticmethod
    def from_plain(values: Mapping[str, Any]) -> Encoding:
        """Return the encoding that `plain` turned into plain values.

        Raises:
            IncidenceError: The values are damaged.
        """
        try:
            words = tuple(map(str, values["words"]))
            numbers = (float(values["mean"]), float(values["deviation"]))
            return Encoding(str(values["name"]), str(values["kind"]), words, *numbers)
        except (LookupError, TypeError, ValueError) as error:
            raise IncidenceError(
                f"the description of the columns of a database is damaged ({error!r}): train again."
            ) from error

    @property
    def width(self) -> int:
        """How many features the column has."""
        return {"number": 2, "date": 2, "category": len(self.words) + 1, "text": _BUCKETS + 1}[
            self.kind
        ]

    def features(self, texts: Sequence[str]) -> Tensor:
        """Return the features of rows, [rows, width].

        - A number is standardised, and 0 where it is missing; a second feature says so.
        - A category has a feature for each frequent value, and one for all others.
        - A date is in days since 1970; it becomes an age when an example has a time.
        - A text has the logarithm of its length, and its words counted by their hash.
        """
        return torch.tensor([self._row(text) for text in texts]).view(len(texts), self.width)

    def _row(self, text: str) -> list[float]:
        if self.kind == "number":
            number = None if is_missing(text) else as_float(text)
            if number is None or not math.isfinite(number):
                return [0.0, 1.0]
            # Later rows may have values far from all of training: they must not drown the rest.
            return [max(-10.0, min(10.0, (number - self.mean) / self.deviation)), 0.0]
        if self.kind == "category":
            hot = [float(text == word) for word in self.words]
            return [*hot, float(not any(hot))]
        if self.kind == "date":
            days = None if is_missing(text) else as_days([text])
            return [0.0, 1.0] if days is None else [days[0], 0.0]
        counts = [0.0] * _BUCKETS
        for word in text.lower().split():
            # Python's own hash of texts differs from process to process.
            counts[crc32(word.encode()) % _BUCKETS] += 1.0
        return [math.log1p(len(text)), *(math.log1p(count) for count in counts)]


def encoding_of(name: str, texts: Sequence[str]) -> Encoding | None:
    """Return how a column becomes features; None if all its values are missing or the same.

    Args:
        name: The name of the column.
        texts: Its values in the rows that may be looked at.

    Example:
        >>> encoding_of("size", ["1", "3", ""])
        Encoding(name='size', kind='number', words=(), mean=2.0, deviation=1.0)
        >>> encoding_of("colour", ["red", "blue", "red", "red"]).words
        ('red', 'blue')
    """
    present = [text for text in texts if not is_missing(text)]
    counts = Counter(present)
    if len(counts) < 2:
        return None
    numbers = [as_float(text) for text in present]
    finite = [x for x in numbers if x is not None and math.isfinite(x)]
    are_numbers = len(finite) == len(present)
    is_code = name.lower().endswith(("id", "code", "type", "status")) and len(counts) <= _FEW
    if are_numbers and not (is_code and all(x == int(x) for x in finite)):
        values = torch.tensor(finite, dtype=torch.float64)
        deviation = float(values.std(unbiased=False)) or 1.0
        return Encoding(name, "number", mean=float(values.mean()), deviation=deviation)
    if as_days(present[:50]) is not None and as_days(present) is not None:  # a cheap look first
        return Encoding(name, "date")
    is_category = are_numbers or len(counts) <= max(_MOST_WORDS, len(present) // 10)
    if is_category:
        # ties by name
        frequent = sorted(counts, key=lambda word: (-counts[word], word))[:_MOST_WORDS]
        return Encoding(name, "category", tuple(frequent))
    return Encoding(name, "text")
