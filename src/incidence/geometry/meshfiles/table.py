"""Text files with one point or one polygon a line.

Lines stay bytes until they become numbers: millions of small lists would keep Python's garbage collector busy for longer than all the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from operator import itemgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from incidence.geometry.meshfiles.soup import Floats, Integers, damaged, shown

__all__ = ["Table", "coordinates", "integers", "numbers", "polygons", "table"]

Words = Callable[[Iterable[bytes]], Iterable[Sequence[bytes]]]  # the words that matter of every line


@dataclass(frozen=True)
class Table:
    """Some lines of a file, and their numbers in it."""

    name: str
    lines: list[bytes]
    places: list[int]

    def __len__(self) -> int:
        return len(self.lines)

    def __getitem__(self, rows: slice) -> Table:
        return Table(self.name, self.lines[rows], self.places[rows])

    def place(self, row: int) -> str:
        """Where a line stands, for a message."""
        return f"{self.name}, line {self.places[row]}"

    def where(self, is_kept: Callable[[bytes], bool]) -> Table:
        """The lines of a kind."""
        rows = [row for row, line in enumerate(self.lines) if is_kept(line)]
        return Table(self.name, [self.lines[row] for row in rows], [self.places[row] for row in rows])


def table(data: bytes, name: str, comment: bytes = b"", first: int = 1) -> Table:
    """The lines that have words."""
    lines = data.splitlines()
    if comment and comment in data:
        lines = [line.partition(comment)[0] for line in lines]
    return Table(name, lines, list(range(first, first + len(lines)))).where(lambda line: not line.isspace() and bool(line))


def numbers(lines: Sequence[bytes], words: Words, kind: type[int] | type[float], place: Callable[[int], str]) -> NDArray[Any]:
    """Numbers of lines, one after the other; `map` and `chain` keep the loop inside the interpreter, at about 0.1 µs a number.

    Raises:
        IncidenceError: A word is no number; `place(row)` says where.
        IndexError: A line has too few words.
    """
    dtype = np.int64 if kind is int else np.float64
    try:
        values = np.fromiter(map(kind, chain.from_iterable(words(lines))), dtype=dtype)
        if b"_" not in b"".join(lines):  # Python reads 1_0 as 10
            return values
    except (ValueError, OverflowError):
        values = np.zeros(0, dtype=dtype)
    for row, own in enumerate(words(lines)):
        bad = next((word for word in own if not _fits(word, kind, dtype)), None)
        if bad is not None:
            what = "an integer" if kind is int else "a number"
            raise damaged(f"{place(row)}: {shown(bad)} is not {what} that can stand here.")
    return values


def _fits(word: bytes, kind: type[int] | type[float], dtype: Any) -> bool:
    try:
        np.asarray(kind(word), dtype=dtype)
    except (ValueError, OverflowError):
        return False
    return b"_" not in word


def integers(words: Sequence[bytes], place: str) -> list[int]:
    """A few words as integers."""
    found: list[int] = numbers(words, zip, int, lambda _: place).tolist()
    return found


def coordinates(points: Table, columns: Sequence[int]) -> Floats:
    """Three columns of a table of points; shape [points, 3]."""
    pick = itemgetter(*columns)
    try:
        values: Floats = numbers(points.lines, lambda lines: map(pick, map(bytes.split, lines)), float, points.place)
        return values.reshape(-1, 3)
    except IndexError:
        least = max(columns) + 1
        row, count = next((row, count) for row, count in enumerate(map(len, map(bytes.split, points.lines))) if count < least)
        raise damaged(f"{points.place(row)}: a point has at least {least} numbers here; got {count}.") from None


def polygons(faces: Table, column: int) -> tuple[Integers, Integers]:
    """Sizes and nodes of polygons, told from a column on by their size and their nodes."""
    first = column + 1
    lengths = np.fromiter(map(len, map(bytes.split, faces.lines)), dtype=np.int64)
    size_of = itemgetter(slice(column, first))
    sizes: Integers = numbers(faces.lines, lambda lines: map(size_of, map(bytes.split, lines)), int, faces.place)
    is_bad = lengths < first if len(sizes) < len(faces) else (sizes < 0) | (lengths - first < sizes)
    if is_bad.any():
        row = int(is_bad.argmax())
        size = f" of {int(sizes[row])} points" if len(sizes) == len(faces) else ""
        got = max(int(lengths[row]) - first, 0)
        raise damaged(f"{faces.place(row)}: a face{size} needs its size and as many numbers after it; got {got}.")
    stops = (first + sizes).tolist()

    def nodes(lines: Iterable[bytes]) -> Iterable[list[bytes]]:
        return (words[first:stop] for words, stop in zip(map(bytes.split, lines), stops, strict=True))

    return sizes, numbers(faces.lines, nodes, int, faces.place)
