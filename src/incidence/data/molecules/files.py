"""Where the files of data sets are, and what is said when they are not."""

from __future__ import annotations

import csv
import gzip
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import numpy as np

from incidence.data.molecules.tables import Array
from incidence.errors import IncidenceError

__all__ = ["find", "open_text", "read_npz", "table", "within"]

_DAMAGE = (OSError, EOFError, ValueError, KeyError, csv.Error, zipfile.BadZipFile, zlib.error)
"""What reading a damaged file may raise."""


def find(name: str, folder: Path | str | None, below: str, file: str) -> Path:
    """The path of a file of a data set, in the folder or in the one of that name below it.

    Raises:
        IncidenceError: There is no such file, or no folder was given.
    """
    if folder is None:
        raise IncidenceError(f"the data set {name!r} is read from {file}: give the folder that holds it with --folder.")
    places = [place / spelt for place in (Path(folder), Path(folder) / below) for spelt in (file, file.removesuffix(".gz"))]
    found = next((path for path in places if path.is_file()), None)
    if found is None:
        raise IncidenceError(f"there is no {file} in {folder} nor in its folder {below}: docs/molecules.md says where {name!r} comes from.")
    return found


@contextmanager
def within(path: Path) -> Iterator[None]:
    """Turns what a damaged file makes libraries raise into one sentence."""
    try:
        yield
    except IncidenceError:
        raise
    except _DAMAGE as error:
        raise IncidenceError(f"{path} cannot be read ({error}): get the file again.") from error


def read_npz(path: Path, keys: tuple[str, ...]) -> dict[str, Array]:
    """Arrays of an npz file; nothing in it is executed.

    Raises:
        IncidenceError: The file is damaged, or lacks an array.
    """
    with within(path), np.load(path, allow_pickle=False) as arrays:
        lacking = [key for key in keys if key not in arrays.files]
        if lacking:
            raise IncidenceError(f"{path} has no array {lacking[0]!r}; it has: {', '.join(arrays.files)}. Get the file again.")
        return {key: arrays[key] for key in keys}


def open_text(path: Path) -> IO[str]:
    """A text file, plain or compressed with gzip."""
    opener: Callable[..., IO[str]] = gzip.open if path.suffix == ".gz" else open
    return opener(path, "rt", encoding="utf-8-sig", errors="surrogateescape", newline="")


def table(path: Path, columns: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """The values of some columns of a CSV file with a header, row by row; names of columns in any case.

    Raises:
        IncidenceError: A column is not there, or a row ends before it.
    """
    with within(path), open_text(path) as file:
        rows = csv.reader(file)
        header = [word.strip().lower() for word in next(rows, [])]
        lacking = [column for column in columns if column.lower() not in header]
        if lacking:
            raise IncidenceError(f"{path} has no column {lacking[0]!r}; it has: {', '.join(header) or 'none'}.")
        places = [header.index(column.lower()) for column in columns]
        for row in rows:
            if any(word.strip() for word in row):
                if len(row) <= max(places):
                    raise IncidenceError(f"{path}, line {rows.line_num}: the row ends before the column {columns[-1]!r}.")
                yield tuple(row[place].strip() for place in places)
