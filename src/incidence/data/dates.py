"""Times in columns of text: numbers as they are, and dates as days since 1970."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import datetime, timezone

import torch
from torch import Tensor

from incidence.errors import IncidenceError, shown

__all__ = ["as_days", "as_times", "times_of"]

_FORMATS = ("%Y/%m/%d", "%d.%m.%Y", "%m/%d/%Y", "%d/%m/%Y", "%Y%m%dT%H%M%S")
"""Formats of dates beside ISO 8601; the first that fits all texts counts."""
_DAY = 86400.0
_MISSING = {"", "nan", "nat", "na", "n/a", "<na>", "none", "null", "-", "\\n"}


def as_days(texts: Sequence[str]) -> list[float] | None:
    """Return dates as days since 1970, NaN where one is missing; None if they are no dates.

    Example:
        >>> as_days(["1970-01-02", "", "1970-01-03T12:00:00"])
        [1.0, nan, 2.5]
        >>> as_days(["03.01.1970"]), as_days(["apple"])
        ([2.0], None)
    """
    present = [text for text in texts if text.strip().lower() not in _MISSING]
    if not present:
        return None
    # One format for the whole column: 03/04 alone may be March or April, and another row decides
    # it.
    for form in ("", *_FORMATS):
        if _parsed(present[0], form) is None:
            continue
        days = [
            math.nan if text.strip().lower() in _MISSING else _parsed(text, form) for text in texts
        ]
        if None not in days:
            return [day for day in days if day is not None]
    return None


def _parsed(text: str, form: str) -> float | None:
    """Return a date in a format, or in ISO 8601, as days since 1970."""
    try:
        date = datetime.strptime(text, form) if form else datetime.fromisoformat(text)
    except ValueError:
        return None
    if not form and text.isdecimal():  # 20200101 may be a number
        return None
    # Dates without a zone are UTC, so that splits by time do not depend on the machine.
    aware = date if date.tzinfo else date.replace(tzinfo=timezone.utc)
    return aware.timestamp() / _DAY


def as_times(source: str, name: str, texts: Sequence[str]) -> Tensor:
    """Return the times in a column, [rows], as numbers; NaN where one is missing.

    Args:
        source: What messages call the data.
        name: The name of the column.
        texts: Its texts: numbers, such as seconds, or dates.

    Raises:
        IncidenceError: They are neither numbers nor dates.
    """
    try:
        numbers = [math.nan if text.strip().lower() in _MISSING else float(text) for text in texts]
    except ValueError:
        days = as_days(texts)
        if days is None:
            wrong = next(text for text in texts if text and not _is_time(text))
            raise IncidenceError(
                f"{source}: the column of times `{name}` has numbers or dates such as 2024-05-31;"
                f" got {shown(wrong)}."
            ) from None
        numbers = days
    return torch.tensor(numbers, dtype=torch.float64)


def _is_time(text: str) -> bool:
    return as_days([text]) is not None or text.replace(".", "", 1).isdecimal()


def times_of(source: str, columns: Mapping[str, Sequence[str]], name: str) -> Tensor:
    """Return the times in one of several columns, [rows].

    Raises:
        IncidenceError: There is no such column, or it has no times.
    """
    if name not in columns:
        has = f"there are: {', '.join(columns)}" if columns else "there is none"
        raise IncidenceError(
            f"{source} has no column `{name}` beside the target to order rows by time; {has}."
        )
    return as_times(source, name, columns[name])
