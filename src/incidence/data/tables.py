"""Tables of text: CSV files and their kin, and data frames, as named columns with the place of every row."""

from __future__ import annotations

import csv
import gzip
import os
import re
import zlib
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from difflib import get_close_matches
from itertools import islice, pairwise
from os import PathLike
from pathlib import Path
from typing import IO, Any

from incidence.data.readers import as_float, legible
from incidence.errors import IncidenceError
from incidence.limits import assert_unpacked

__all__ = [
    "SUFFIXES",
    "Table",
    "are_frames",
    "counts_rows",
    "has_tables",
    "is_frame",
    "is_table",
    "join_parts",
    "listed",
    "numbered",
    "open_text",
    "read_table",
    "readable",
    "table_of",
    "without_comment",
]

SUFFIXES = (".csv", ".tsv", ".csv.gz", ".tsv.gz")
"""Of files that are tables, whatever is in them."""
_DELIMITERS = ",\t;"
_COMMA = re.compile(r"[+-]?(\d+|\d*,\d+)([eE][+-]?\d+)?")
_THOUSANDS = re.compile(r"[+-]?[1-9]\d{0,2}(,\d{3})+(\.\d*)?")
_COMMENTS = ("#", "%")
_LISTED = 8

Line = tuple[int, list[str]]
"""The number of a line, and its words."""


@dataclass(frozen=True)
class Table:
    """Rows of text under named columns.

    Attributes:
        source: What messages call it: a path, or `the DataFrame`.
        columns: The texts of every column, without blanks around them; a value that is missing is an empty text.
        places: Where every row is, as messages say it: `line 17`, or `row 3` of a frame.
        has_names: Whether the columns were named, rather than called `column 1`, `column 2`, ... here.
        word: What messages call a column.
    """

    source: str
    columns: Mapping[str, Sequence[str]]
    places: Sequence[str]
    has_names: bool = True
    word: str = "column"

    def __len__(self) -> int:
        return len(self.places)

    def __getitem__(self, name: str) -> Sequence[str]:
        """A column by name, or by number where there are no names.

        Raises:
            IncidenceError: There is none.
        """
        return self.columns[self.named(name)]

    def named(self, name: str) -> str:
        """The name of a column as the table has it."""
        if name in self.columns:
            return name
        if not self.has_names and f"column {name}" in self.columns:
            return f"column {name}"
        close = get_close_matches(name, self.columns, n=1)
        guess = f" Did you mean `{close[0]}`?" if close else ""
        raise IncidenceError(
            f"{self.source} has no {self.word} `{name}`; it has: {listed(self.columns)}.{guess}"
        )

    def row(self, number: int) -> dict[str, str]:
        """One row, by the names of the columns."""
        return {name: texts[number] for name, texts in self.columns.items()}

    def only(self, rows: Sequence[int]) -> Table:
        """Some of the rows."""
        columns = {name: [texts[k] for k in rows] for name, texts in self.columns.items()}
        return replace(self, columns=columns, places=[self.places[k] for k in rows])


def listed(names: Collection[str]) -> str:
    """Names of columns for a message, the first and last few of many.

    Example:
        >>> listed([f"w{k}" for k in range(100)])
        'w0, w1, w2, w3, w4, w5, w6, w7, ..., w98, w99 (100 in all)'
    """
    if len(names) <= _LISTED + 2:
        return ", ".join(names)
    every = list(names)
    return f"{', '.join(every[:_LISTED])}, ..., {', '.join(every[-2:])} ({len(every)} in all)"


def is_table(path: Path) -> bool:
    """Whether a file is a table by its name."""
    return path.name.lower().endswith(SUFFIXES)


def read_table(
    path: Path,
    has_names: Callable[[list[str], list[list[str]]], bool] = lambda first, others: True,
    by_blanks: bool = True,
) -> Table:
    """A table from a file, plain or compressed with gzip, divided by `::`, or else commas, tabs or semicolons, by its first line.

    Files of SMILES (`.smi`) may be divided by blanks. Lists of edges, and others whose names do not say that they are tables, may have
    comments: lines that begin with `#` or `%`, and what stands behind a blank and `#`. A column without a name that counts the rows is
    left out.

    Args:
        path: The file.
        has_names: Tells from the first line, and some of those that follow, whether it names the columns.
        by_blanks: Whether blanks divide the lines of a file whose first line has none of the other marks.

    Raises:
        IncidenceError: It cannot be read, has no rows, or a line has another number of values than the first.
    """
    with open_text(path) as file:
        is_smiles = ".smi" in path.suffixes
        mark, lines = _lines(
            file, is_smiles, by_blanks, has_comments=not (is_smiles or is_table(path))
        )
    if not lines:
        raise IncidenceError(
            f"{path} has no rows: its first line names the columns, and every other one is a row."
        )
    is_named = has_names(lines[0][1], [words for _, words in islice(lines, 1, 30)])
    names = _names(path, lines[0][1] if is_named else [""] * len(lines[0][1]))
    rows = lines[1:] if is_named else lines
    if not rows:
        raise IncidenceError(
            f"{path} has no rows: its first line names the columns, and every other one is a row."
        )
    for number, words in rows:
        if len(words) != len(names):
            raise IncidenceError(
                f"{path}, line {number}: there are {len(words)} values for {len(names)} columns."
            )
    columns = {
        name: _with_points([words[k] for _, words in rows], mark) for k, name in enumerate(names)
    }
    if (
        is_named and not lines[0][1][0] and len(names) > 1 and counts_rows(columns[names[0]])
    ):  # as pandas writes the index of a frame
        del columns[names[0]]
    return Table(str(path), columns, [f"line {number}" for number, _ in rows], is_named)


def _with_points(texts: list[str], mark: str) -> list[str]:
    """A column of numbers some of which have commas, without them.

    As in `1,200`, a comma makes thousands where commas divide the columns, too, or where a number has several, or a point besides; else it
    is a decimal comma, as tables divided by semicolons have it.
    """
    with_comma, others = (
        [text for text in texts if "," in text],
        [text for text in texts if text and "," not in text],
    )
    is_clear = mark == "," or any(text.count(",") > 1 or "." in text for text in with_comma)
    if (
        with_comma
        and is_clear
        and all(map(_THOUSANDS.fullmatch, with_comma))
        and all(as_float(text) is not None for text in others)
    ):
        return [text.replace(",", "") for text in texts]
    is_so = bool(with_comma) and all(map(_COMMA.fullmatch, (*with_comma, *others)))
    return [text.replace(",", ".") for text in texts] if is_so else texts


def numbered(texts: Iterable[str]) -> list[str]:
    """Different names, by number if they are whole numbers, however long, else as they come; an empty text is none.

    Example:
        >>> numbered(["10", "9", "", "10"]), numbered(["b", "a", "10"])
        (['9', '10'], ['b', 'a', '10'])
    """
    different = dict.fromkeys(text for text in texts if text)
    if not all(text.isascii() and text.isdecimal() for text in different):
        return list(different)
    return sorted(different, key=lambda text: (len(text.lstrip("0")), text.lstrip("0"), text))


def counts_rows(texts: Sequence[str]) -> bool:
    """Whether a column does nothing but number the rows, maybe with gaps."""
    if not all(text.isdecimal() and len(text) < 10 for text in texts):
        return False
    numbers = [int(text) for text in texts]
    return (
        numbers[0] in (0, 1)
        and all(a < b for a, b in pairwise(numbers))
        and numbers[-1] - numbers[0] <= 1.1 * (len(numbers) - 1)
    )


def join_parts(tables: Mapping[str, Table]) -> Table:
    """Tables with the same columns one below the other, with a column `split` that has their names.

    Raises:
        IncidenceError: Their columns differ.
    """
    (first, *_), names = tables.values(), list(tables)
    for name, table in tables.items():
        if set(table.columns) != set(first.columns):
            one, other = ", ".join(first.columns), ", ".join(table.columns)
            raise IncidenceError(
                f"the parts of a table have the same columns; `{names[0]}` has {one} and `{name}` has {other}."
            )
    columns = {
        key: [text for table in tables.values() for text in table[key]] for key in first.columns
    }
    columns["split"] = [name for name, table in tables.items() for _ in table.places]
    places = [f"{place} of {table.source}" for table in tables.values() for place in table.places]
    return Table(first.source, columns, places, first.has_names)


def _names(path: Path, words: Sequence[str]) -> list[str]:
    names = [word or f"column {k}" for k, word in enumerate(words, 1)]
    twice = next((name for name, count in Counter(names).items() if count > 1), None)
    if twice is not None:
        raise IncidenceError(f"{path}: two columns are called `{twice}`. Rename one of them.")
    return names


@contextmanager
def readable(path: Path) -> Iterator[None]:
    """Turns what a damaged file makes libraries raise into one sentence."""
    try:
        yield
    except IncidenceError:
        raise
    except (OSError, EOFError, ValueError, csv.Error, zlib.error) as error:
        raise IncidenceError(
            f"{path} cannot be read ({error}): get the file again, or save it as text in UTF-8."
        ) from error


@contextmanager
def open_text(path: Path) -> Iterator[IO[str]]:
    """A text file, plain or compressed with gzip."""
    opener: Callable[..., IO[str]] = gzip.open if path.suffix == ".gz" else open
    with readable(path):
        if path.suffix == ".gz":
            assert_unpacked(path)
        with opener(path, "rt", encoding="utf-8-sig", errors="surrogateescape", newline="") as file:
            yield file


def _lines(
    file: IO[str], is_smiles: bool, by_blanks: bool, has_comments: bool
) -> tuple[str, list[Line]]:
    """What divides the lines, and the words of every line that has some."""
    start = file.read(1 << 16)
    file.seek(0)
    if "\0" in start:
        raise ValueError("it has bytes that are 0")
    texts = map(without_comment, file) if has_comments else file
    shown = map(without_comment, start.splitlines()) if has_comments else start.splitlines()
    first = next((line.strip() for line in shown if line.strip()), "")
    if "::" in first and not is_smiles:
        return "::", list(_divided((line.replace("::", "\t") for line in texts), "\t", False))
    if by_blanks and (
        (is_smiles and "\t" not in first and " " in first)
        or not any(mark in first for mark in _DELIMITERS)
    ):
        return " ", list(_blank_lines(texts))
    mark = "\t" if is_smiles and "\t" in first else max(_DELIMITERS, key=first.count)
    return mark, list(_divided(texts, mark, is_smiles))


def without_comment(line: str) -> str:
    """A line up to its comment; one that is nothing else is blank, so that lines keep their numbers."""
    return "\n" if line.lstrip().startswith(_COMMENTS) else re.split(r"\s#", line, maxsplit=1)[0]


def _divided(texts: Iterable[str], mark: str, is_smiles: bool) -> Iterator[Line]:
    reader, width = csv.reader(texts, delimiter=mark), 0
    for words in reader:
        if any(word.strip() for word in words):
            width = width or len(words) * is_smiles  # a molecule there may do without a name
            yield (
                reader.line_num,
                [legible(word).strip() for word in words] + [""] * (width - len(words)),
            )


def _blank_lines(texts: Iterable[str]) -> Iterator[Line]:
    """Lines that are divided by blanks: if they do not all have as many words, into a SMILES and a name, which may be none."""
    lines = [
        (number, legible(line).split()) for number, line in enumerate(texts, 1) if line.strip()
    ]
    widths = {len(words) for _, words in lines}
    for number, words in lines:
        yield number, words if len(widths) == 1 else [words[0], " ".join(words[1:])]


def is_frame(what: Any) -> bool:
    """Whether something is a data frame, of pandas or polars: who has one has imported its library."""
    return all(
        hasattr(what, name) for name in ("columns", "to_dict", "__len__", "__getitem__")
    ) and not isinstance(what, type)


def are_frames(what: Any) -> bool:
    """Whether something is a data frame, or several by name."""
    return is_frame(what) or (
        isinstance(what, Mapping) and bool(what) and all(map(is_frame, what.values()))
    )


def has_tables(what: Any) -> bool:
    """Whether something may have tables: a file or folder of them, or data frames."""
    if not isinstance(what, (str, PathLike)):
        return are_frames(what)
    path = Path(what).expanduser()
    return os.path.isdir(path) or is_table(path)


def table_of(frame: Any, source: str = "the DataFrame") -> Table:
    """A table from a data frame.

    Raises:
        IncidenceError: It has no rows, or two columns of one name.
    """
    names = [str(name) for name in frame.columns]
    twice = next((name for name, count in Counter(names).items() if count > 1), None)
    if twice is not None or not len(frame):
        what = "has no rows" if twice is None else f"has two columns `{twice}`: rename one of them"
        raise IncidenceError(f"{source} {what}.")
    columns = {
        str(name): [_text(value) for value in frame[name].to_list()] for name in frame.columns
    }
    return Table(
        source, columns, [f"row {label}" for label in getattr(frame, "index", range(len(frame)))]
    )


def _text(value: Any) -> str:
    try:
        is_missing = value is None or bool(value != value)  # None, NaN, NaT
    except TypeError:  # pandas does not know whether NA is NA
        is_missing = True
    if (
        isinstance(value, float) and not is_missing and value.is_integer()
    ):  # whole numbers are floats in pandas as soon as one is missing
        return str(int(value))
    return "" if is_missing else str(value).strip()
