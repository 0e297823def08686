"""Files of data sets: where they are, and what to say if they are missing or damaged."""

from __future__ import annotations

import gzip
import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from incidence.errors import IncidenceError

__all__ = ["array", "arrays", "checked_rows", "choose", "damaged", "find", "integers", "numbered_lines", "rows", "text"]

_DAMAGE = (OSError, EOFError, ValueError, KeyError, zipfile.BadZipFile, zlib.error)


def find(name: str, folder: Path | None, own: str, file: str) -> Path:
    """The path of a file of a data set; `folder` is the one called `own`, or the one that holds it.

    Raises:
        IncidenceError: No folder was given, or there is no such file in it.
    """
    if folder is None:
        raise IncidenceError(f"the data set {name!r} is read from files: give the folder that holds `{own}` with --folder.")
    places = [Path(folder) / own / file, Path(folder) / file]
    found = next((place for place in places if place.is_file()), None)
    if found is None:
        raise IncidenceError(f"the data set {name!r} needs the file {places[0]}, which is not there: give the folder that holds `{own}`.")
    return found


def choose(name: str, option: str, value: str, known: Sequence[str]) -> str:
    """A value of an option that is one of a few.

    Raises:
        IncidenceError: It is another.
    """
    if value not in known:
        raise IncidenceError(f"the option {option} of the data set {name!r} is one of {', '.join(known)}; got {value!r}.")
    return value


def text(path: Path) -> str:
    """A text file, compressed or not."""
    try:
        return (gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()).decode()
    except _DAMAGE as error:
        raise damaged(path, error) from None


def integers(path: Path) -> NDArray[np.int64]:
    """The integers of a text file, divided by blanks, line ends or commas."""
    try:
        return np.array(text(path).replace(",", " ").split(), dtype=np.int64)
    except ValueError as error:
        raise damaged(path, error) from None


def rows(name: str, path: Path, count: int) -> Tensor:
    """The numbers of examples, below `count`, that a file of a split lists."""
    found = torch.from_numpy(integers(find(name, path.parent, "", path.name)))
    return checked_rows(path, found, count)


def checked_rows(path: Path, found: Tensor, count: int) -> Tensor:
    """Numbers of examples, which must be below `count`."""
    if len(found) and not 0 <= int(found.min()) <= int(found.max()) < count:
        raise damaged(path, f"examples are numbered from 0 to {count - 1}")
    return found


def numbered_lines(path: Path) -> list[NDArray[np.int64]]:
    """The integers of every line of a text file, divided by commas or blanks."""
    try:
        return [np.array(line.replace(",", " ").split(), dtype=np.int64) for line in text(path).splitlines() if line.strip()]
    except ValueError as error:
        raise damaged(path, error) from None


def arrays(path: Path, names: Sequence[str]) -> dict[str, NDArray[Any]]:
    """Arrays of an npz file, read without pickle."""
    try:
        with np.load(path, allow_pickle=False) as file:
            return {key: file[key] for key in names}
    except _DAMAGE as error:
        raise damaged(path, error) from None


def array(path: Path) -> NDArray[Any]:
    """The array of an npy file, read without pickle."""
    try:
        return np.asarray(np.load(path, allow_pickle=False))
    except _DAMAGE as error:
        raise damaged(path, error) from None


def damaged(path: Path, problem: object) -> IncidenceError:
    """The error for a file that is not what it should be."""
    return IncidenceError(f"{path} is damaged ({problem}): fetch it again.")
