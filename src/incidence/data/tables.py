"""Tables of text: CSV files and their kin, and data frames, as named columns of text."""

from __future__ import annotations

import csv
import gzip
import os
import re
import sys
import zlib
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from difflib import get_close_matches
from itertools import chain, islice, pairwise
from os import PathLike
from pathlib import Path
from typing import IO, Any, NamedTuple

from incidence.data.columnar import COLUMNAR, columnar_pieces, is_columnar, read_columnar
from incidence.data.spool import empty_texts, is_spooling
from incidence.errors import IncidenceError
from incidence.limits import assert_unpacked

__all__ = [
    "SUFFIXES",
    "Line",
    "RowError",
    "TextTable",
    "are_frames",
    "as_float",
    "counts_rows",
    "has_tables",
    "is_frame",
    "is_table",
    "join_parts",
    "legible",
    "listed",
    "open_text",
    "read_table",
    "readable",
    "sorted_names",
    "table_of",
    "table_of_values",
    "without_comment",
]

SUFFIXES = (".csv", ".tsv", ".csv.gz", ".tsv.gz", *COLUMNAR)
"""The suffixes of files that are tables, whatever is in them."""
_DELIMITERS = ",\t;"
_DECIMAL_COMMA = re.compile(r"[+-]?(\d+|\d*,\d+)([eE][+-]?\d+)?")
_THOUSANDS = re.compile(r"[+-]?[1-9]\d{0,2}(,\d{3})+(\.\d*)?")
_COMMENTS = ("#", "%")
_MOST_LISTED = 8
_START = 1 << 16  # characters of a file in which its delimiter is looked for


class RowError(IncidenceError):
    """A row of a table, or a record of a file, that cannot be used.

    Attributes:
        row: The number of the row, from 0.
    """

    def __init__(self, message: str, row: int) -> None:
        super().__init__(message)
        self.row = row


class Line(NamedTuple):
    """The words of a line of a file, and its number, from 1."""

    number: int
    words: list[str]


@dataclass(frozen=True)
class TextTable:
    """Rows of text under named columns.

    Attributes:
        source: What messages call the table: a path, or `the DataFrame`.
        columns: The texts of every column, without blanks around them. The text is empty where a
            value is missing.
        places: Where every row is, for messages: `line 17`, or `row 3` of a frame.
        has_names: Whether the columns have names; otherwise they are `column 1`, `column 2`, ...
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
        """Return a column by name, or by number if the columns have no names.

        Raises:
            IncidenceError: There is none.
        """
        return self.columns[self.named(name)]

    def named(self, name: str) -> str:
        """Return the name of a column as the table spells it.

        Raises:
            IncidenceError: There is no such column.
        """
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
        """Return one row by the names of the columns."""
        return {name: texts[number] for name, texts in self.columns.items()}

    def only(self, rows: Sequence[int]) -> TextTable:
        """Return a table of some of the rows."""
        columns = {name: [texts[k] for k in rows] for name, texts in self.columns.items()}
        return replace(self, columns=columns, places=[self.places[k] for k in rows])


def listed(names: Collection[str]) -> str:
    """Return names for a message: all of them, or the first and last of many.

    Example:
        >>> listed([f"w{k}" for k in range(100)])
        'w0, w1, w2, w3, w4, w5, w6, w7, ..., w98, w99 (100 in all)'
    """
    if len(names) <= _MOST_LISTED + 2:
        return ", ".join(names)
    every = list(names)
    first, last = ", ".join(every[:_MOST_LISTED]), ", ".join(every[-2:])
    return f"{first}, ..., {last} ({len(every)} in all)"


def as_float(text: str) -> float | None:
    """Return the number that a text is, or None; `1_000`, a number to Python, is a name here."""
    if "_" in text:
        return None
    try:
        return float(text)
    except ValueError:
        return None


# Bytes 0x80 to 0x9f are control characters in Latin-1, which nobody writes, and quotes and primes
# in the code page 1252 of Windows; five of them are nothing there.
_WINDOWS = {byte: bytes([byte]).decode("cp1252", errors="replace") for byte in range(0x80, 0xA0)}
_LEGIBLE = _WINDOWS | {0xDC00 + byte: _WINDOWS.get(byte, chr(byte)) for byte in range(0x80, 0x100)}


def legible(text: str) -> str:
    r"""Return a text in which bytes that are not UTF-8 are read as Windows wrote them (cp1252).

    `surrogateescape` decodes such bytes as halves of characters, which no file can be written with.

    Example:
        >>> legible(b"2\x92-PCB".decode(errors="surrogateescape"))
        '2’-PCB'
    """
    return text.translate(_LEGIBLE)


def is_table(path: Path) -> bool:
    """Return whether the name of a file is that of a table."""
    return path.name.lower().endswith(SUFFIXES)


def read_table(
    path: Path,
    has_names: Callable[[list[str], list[list[str]]], bool] = lambda first, others: True,
    by_blanks: bool = True,
) -> TextTable:
    """Read a table from a file: Parquet, Arrow, or text, plain or compressed with gzip.

    The first line decides what divides the columns: `::`, or else commas, tabs or semicolons, or
    blanks. Files whose names do not say that they are tables, such as lists of edges, may have
    comments: lines that begin with `#` or `%`, and whatever follows a blank and `#`. A first
    column without a name that counts the rows is left out.

    Args:
        path: The file.
        has_names: Returns whether the first line names the columns, given that line and some of
            the next ones.
        by_blanks: Whether blanks divide the columns if the first line has no other delimiter.

    Raises:
        IncidenceError: The file cannot be read, has no rows, or a line has another number of
            values than the first line.
    """
    if is_columnar(path):
        if is_spooling():
            return _packed_table(path)
        return table_of_values(str(path), read_columnar(path))
    with open_text(path) as file:
        is_smiles = ".smi" in path.suffixes
        has_comments = not (is_smiles or is_table(path))
        delimiter, lines = _read_lines(file, is_smiles, by_blanks, has_comments)
        head = list(islice(lines, 30))
        first = head[0].words if head else []
        is_named = bool(head) and has_names(first, [line.words for line in head[1:]])
        names = _column_names(path, first if is_named else [""] * len(first))
        texts, places = [empty_texts() for _ in names], empty_texts()
        for number, words in chain(head[is_named:], lines):
            if len(words) != len(names):
                raise IncidenceError(
                    f"{path}, line {number}: there are {len(words)} values for {len(names)}"
                    " columns."
                )
            places.append(f"line {number}")
            for column, word in zip(texts, words, strict=True):
                column.append(word)
    if not places:
        raise IncidenceError(
            f"{path} has no rows: its first line names the columns, and every other line is a row."
        )
    columns: dict[str, Sequence[str]] = {
        name: _with_points(column, delimiter) for name, column in zip(names, texts, strict=True)
    }
    # pandas writes the index of a frame as a first column without a name
    if is_named and not first[0] and len(names) > 1 and counts_rows(columns[names[0]]):
        del columns[names[0]]
    return TextTable(str(path), columns, places, is_named)


def _with_points(texts: Sequence[str], delimiter: str) -> Sequence[str]:
    """Return the texts of a column; if they are numbers with commas, without these.

    A comma separates thousands, as in `1,200`, where commas divide the columns, or where some
    number has several commas or a point. Otherwise it is a decimal comma.
    """
    with_comma = [text for text in texts if "," in text]
    if not with_comma:
        return texts
    others = [text for text in texts if text and "," not in text]
    are_thousands = delimiter == "," or any(
        text.count(",") > 1 or "." in text for text in with_comma
    )
    others_are_numbers = all(as_float(text) is not None for text in others)
    if are_thousands and others_are_numbers and all(map(_THOUSANDS.fullmatch, with_comma)):
        return [text.replace(",", "") for text in texts]
    if all(map(_DECIMAL_COMMA.fullmatch, (*with_comma, *others))):
        return [text.replace(",", ".") for text in texts]
    return texts


def sorted_names(texts: Iterable[str]) -> list[str]:
    """Return the different names among texts: by number if all are numbers, else as they come.

    Empty texts are left out.

    Example:
        >>> sorted_names(["10", "9", "", "10"]), sorted_names(["b", "a", "10"])
        (['9', '10'], ['b', 'a', '10'])
    """
    different = dict.fromkeys(text for text in texts if text)
    if not all(text.isascii() and text.isdecimal() for text in different):
        return list(different)
    # as texts: Python refuses to convert numbers of thousands of digits
    return sorted(different, key=lambda text: (len(text.lstrip("0")), text.lstrip("0"), text))


def counts_rows(texts: Sequence[str]) -> bool:
    """Return whether a column does nothing but number the rows, perhaps with gaps."""
    if not all(text.isdecimal() and len(text) < 10 for text in texts):
        return False
    numbers = [int(text) for text in texts]
    ascend = all(a < b for a, b in pairwise(numbers))
    return ascend and numbers[0] in (0, 1) and numbers[-1] - numbers[0] <= 1.1 * (len(numbers) - 1)


def join_parts(tables: Mapping[str, TextTable]) -> TextTable:
    """Return one table with the rows of all, and a column `split` with the names of the tables.

    Raises:
        IncidenceError: Their columns differ.
    """
    (first, *_), names = tables.values(), list(tables)
    for name, table in tables.items():
        if set(table.columns) != set(first.columns):
            one, other = ", ".join(first.columns), ", ".join(table.columns)
            raise IncidenceError(
                f"the parts of a table have the same columns; `{names[0]}` has {one} and `{name}`"
                f" has {other}."
            )
    columns = {
        key: [text for table in tables.values() for text in table[key]] for key in first.columns
    }
    columns["split"] = [name for name, table in tables.items() for _ in table.places]
    places = [f"{place} of {table.source}" for table in tables.values() for place in table.places]
    return TextTable(first.source, columns, places, first.has_names)


def _column_names(path: Path, words: Sequence[str]) -> list[str]:
    names = [word or f"column {k}" for k, word in enumerate(words, 1)]
    twice = _first_repeated(names)
    if twice is not None:
        raise IncidenceError(f"{path}: two columns are called `{twice}`. Rename one of them.")
    return names


def _first_repeated(names: Sequence[str]) -> str | None:
    return next((name for name, count in Counter(names).items() if count > 1), None)


@contextmanager
def readable(path: Path) -> Iterator[None]:
    """Turn the errors that a damaged file causes in libraries into one that names the file."""
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
    """Open a text file, plain or compressed with gzip."""
    opener: Callable[..., IO[str]] = gzip.open if path.suffix == ".gz" else open
    with readable(path):
        if path.suffix == ".gz":
            assert_unpacked(path)
        with opener(path, "rt", encoding="utf-8-sig", errors="surrogateescape", newline="") as file:
            yield file


def _read_lines(
    file: IO[str], is_smiles: bool, by_blanks: bool, has_comments: bool
) -> tuple[str, Iterator[Line]]:
    """Return what divides the lines, and an iterator of the words of every line that has some."""
    start = file.read(_START)
    file.seek(0)
    # A spreadsheet or an archive with a wrong name: its bytes would become one long word.
    if "\0" in start:
        raise ValueError("it has bytes that are 0")
    beginning: Iterable[str] = start.splitlines()
    texts: Iterable[str] = file
    if has_comments:
        beginning, texts = map(without_comment, beginning), map(without_comment, texts)
    first = next((line.strip() for line in beginning if line.strip()), "")
    if "::" in first and not is_smiles:
        return "::", _delimited((text.replace("::", "\t") for text in texts), "\t", False)
    has_delimiter = any(mark in first for mark in _DELIMITERS)
    # a comma or semicolon of a `.smi` file belongs to a molecule or its name
    if by_blanks and (not has_delimiter or (is_smiles and "\t" not in first and " " in first)):
        return " ", _divided_by_blanks(texts)
    # The most frequent one: a comma inside of a text must not win over the tabs.
    delimiter = max(_DELIMITERS, key=first.count)
    if is_smiles and "\t" in first:
        delimiter = "\t"
    return delimiter, _delimited(texts, delimiter, is_smiles)


def without_comment(line: str) -> str:
    """Return a line up to its comment, or a blank line, so that lines keep their numbers."""
    if line.lstrip().startswith(_COMMENTS):
        return "\n"
    return re.split(r"\s#", line, maxsplit=1)[0]


def _delimited(texts: Iterable[str], delimiter: str, is_smiles: bool) -> Iterator[Line]:
    reader, width = csv.reader(texts, delimiter=delimiter), 0
    for words in reader:
        if any(word.strip() for word in words):
            width = width or len(words) * is_smiles  # the name of a molecule may be missing
            padding = [""] * (width - len(words))
            yield Line(reader.line_num, [legible(word).strip() for word in words] + padding)


def _divided_by_blanks(texts: Iterable[str]) -> Iterator[Line]:
    """Divide lines by blanks; if they differ in length, into a SMILES and a name with blanks."""
    lines = [
        Line(number, legible(line).split()) for number, line in enumerate(texts, 1) if line.strip()
    ]
    have_one_width = len({len(line.words) for line in lines}) == 1
    for number, words in lines:
        yield Line(number, words if have_one_width else [words[0], " ".join(words[1:])])


def is_frame(what: Any) -> bool:
    """Return whether something is a table of pandas, polars or Arrow, without importing any."""
    return _is_arrow(what) or (
        all(hasattr(what, name) for name in ("columns", "to_dict", "__len__", "__getitem__"))
        and not isinstance(what, type)
    )


def _is_arrow(what: Any) -> bool:
    arrow = sys.modules.get("pyarrow")
    return arrow is not None and isinstance(what, arrow.Table)


def are_frames(what: Any) -> bool:
    """Return whether something is a data frame, or a dict of data frames."""
    is_dict = isinstance(what, Mapping) and bool(what)
    return is_frame(what) or (is_dict and all(map(is_frame, what.values())))


def has_tables(what: Any) -> bool:
    """Return whether something may have tables: a file or folder of them, or data frames."""
    if not isinstance(what, (str, PathLike)):
        return are_frames(what)
    path = Path(what).expanduser()
    return os.path.isdir(path) or is_table(path)


def table_of(frame: Any, source: str = "the DataFrame") -> TextTable:
    """Return the table of a data frame.

    Raises:
        IncidenceError: It has no rows, or two columns of one name.
    """
    names = frame.column_names if _is_arrow(frame) else frame.columns
    twice = _first_repeated([str(name) for name in names])
    if twice is not None:
        raise IncidenceError(f"{source} has two columns `{twice}`: rename one of them.")
    if not len(frame):
        raise IncidenceError(f"{source} has no rows.")
    values = {
        str(name): frame[name].to_pylist() if _is_arrow(frame) else frame[name].to_list()
        for name in names
    }
    table = table_of_values(source, values)
    labels = getattr(frame, "index", range(len(frame)))
    return replace(table, places=[f"row {label}" for label in labels])


def table_of_values(source: str, values: Mapping[str, Sequence[Any]]) -> TextTable:
    """Return the table of columns of values, whose rows are numbered from 0."""
    count = max(map(len, values.values()), default=0)
    if not count:
        raise IncidenceError(f"{source} has no rows.")
    columns = {name: [_as_text(value) for value in some] for name, some in values.items()}
    return TextTable(source, columns, [f"row {row}" for row in range(count)])


def _packed_table(path: Path) -> TextTable:
    """Return the table of a Parquet or Arrow file, with few of its rows as objects at a time."""
    columns: dict[str, Any] = {}
    for piece in columnar_pieces(path, is_whole=False):
        for name, values in piece.items():
            texts = columns.setdefault(name, empty_texts())
            for value in values:
                texts.append(_as_text(value))
    places = empty_texts()
    for row in range(max(map(len, columns.values()), default=0)):
        places.append(f"row {row}")
    if not places:
        return table_of_values(str(path), {})  # which refuses it
    return TextTable(str(path), columns, places)


def _as_text(value: Any) -> str:
    try:
        is_missing = value is None or bool(value != value)  # None, NaN, NaT
    except TypeError:  # pandas.NA has no truth value
        is_missing = True
    if is_missing:
        return ""
    # pandas turns whole numbers into floats as soon as one is missing
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value).strip()
