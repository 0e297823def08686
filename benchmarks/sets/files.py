"""Files of data sets: where they are, what they hold, and what to say if they are missing or
damaged.
"""

from __future__ import annotations

import csv
import gzip
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from io import StringIO
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from incidence.errors import IncidenceError

__all__ = [
    "array",
    "arrays",
    "checked_rows",
    "choose",
    "column",
    "damaged",
    "find",
    "integers",
    "lines_of_integers",
    "rows",
    "text",
    "unzip",
]

_DAMAGE = (
    OSError,
    EOFError,
    ValueError,
    KeyError,
    RuntimeError,
    NotImplementedError,
    csv.Error,
    zipfile.BadZipFile,
    zlib.error,
)
"""What reading a damaged file may raise."""


def find(name: str, folder: Path | str | None, own: str, file: str) -> Path:
    """The path of a file of a data set; `folder` is the one called `own`, or the one that holds it.
    A `.gz` may be unpacked.

    Raises:
        IncidenceError: No folder was given, or there is no such file in it.
    """
    if folder is None:
        raise IncidenceError(
            f"the data set {name!r} is read from files: give the folder that holds `{own}` with"
            " --folder."
        )
    places = [
        Path(folder) / below / spelt
        for below in (own, "")
        for spelt in (file, file.removesuffix(".gz"))
    ]
    found = next((place for place in places if place.is_file()), None)
    if found is None:
        raise IncidenceError(
            f"the data set {name!r} needs the file {places[0]}, which is not there: give the folder"
            f" that holds `{own}`."
        )
    return found


def choose(name: str, option: str, value: str, known: Sequence[str]) -> str:
    """A value of an option that is one of a few.

    Raises:
        IncidenceError: It is another.
    """
    if value not in known:
        raise IncidenceError(
            f"the option {option} of the data set {name!r} is one of {', '.join(known)}; got"
            f" {value!r}."
        )
    return value


def damaged(path: Path, problem: object) -> IncidenceError:
    """The error for a file that is not what it should be."""
    return IncidenceError(f"{path} is damaged ({problem}): fetch it again.")


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    """Turns what a damaged file makes libraries raise into one sentence."""
    try:
        yield
    except IncidenceError:
        raise
    except _DAMAGE as error:
        raise damaged(path, error) from None


def text(path: Path) -> str:
    """A text file, compressed or not."""
    with _reading(path):
        return (
            gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
        ).decode()


def integers(path: Path) -> NDArray[np.int64]:
    """The integers of a text file, divided by blanks, line ends or commas."""
    with _reading(path):
        return np.array(text(path).replace(",", " ").split(), dtype=np.int64)


def lines_of_integers(path: Path) -> list[NDArray[np.int64]]:
    """The integers of every line of a text file, divided by commas or blanks."""
    with _reading(path):
        return [
            np.array(line.replace(",", " ").split(), dtype=np.int64)
            for line in text(path).splitlines()
            if line.strip()
        ]


def rows(name: str, path: Path, count: int) -> Tensor:
    """The numbers of examples, below `count`, that a file of a split lists."""
    found = torch.from_numpy(integers(find(name, path.parent, "", path.name)))
    return checked_rows(path, found, count)


def checked_rows(path: Path, found: Tensor, count: int) -> Tensor:
    """Numbers of examples, which must be below `count`."""
    if len(found) and not 0 <= int(found.min()) <= int(found.max()) < count:
        raise damaged(path, f"examples are numbered from 0 to {count - 1}")
    return found


def arrays(path: Path, names: Sequence[str]) -> dict[str, NDArray[Any]]:
    """Arrays of an npz file, read without pickle."""
    with _reading(path), np.load(path, allow_pickle=False) as file:
        return {key: file[key] for key in names}


def array(path: Path) -> NDArray[Any]:
    """The array of an npy file, read without pickle."""
    with _reading(path):
        return np.asarray(np.load(path, allow_pickle=False))


def column(path: Path, name: str) -> list[float]:
    """The numbers in a column of a CSV file with a header; empty rows are none."""
    with _reading(path):
        header, *lines = [
            row
            for row in csv.reader(StringIO(text(path), newline=""))
            if any(word.strip() for word in row)
        ] or [[]]
        names = [word.strip() for word in header]
        if name not in names:
            raise damaged(path, f"it has no column {name!r}, but {', '.join(names) or 'none'}")
        place = names.index(name)
        return [
            _number(path, k, row[place] if place < len(row) else "")
            for k, row in enumerate(lines, 1)
        ]


def _number(path: Path, number: int, word: str) -> float:
    try:
        return float(word)
    except ValueError:
        raise damaged(
            path, f"the value to predict of row {number} is a number, not {word!r}"
        ) from None


def unzip(path: Path) -> dict[PurePosixPath, bytes]:
    """The files of a zip file."""
    with _reading(path), zipfile.ZipFile(path) as opened:
        return {
            PurePosixPath(entry): opened.read(entry)
            for entry in opened.namelist()
            if not entry.endswith("/")
        }
