"""Files of examples: which reader reads them, and what they must have in common."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from incidence.data.registry import READERS, Read, assert_options, reader
from incidence.errors import IncidenceError

__all__ = ["assert_alike", "legible", "read_file", "readable", "reader_for"]


_LATIN = {0xDC00 + byte: byte for byte in range(0x80, 0x100)}


def legible(text: str) -> str:
    """Text with every byte that was no UTF-8, which Python keeps as half of a character, read as Latin-1."""
    return text.translate(_LATIN)


def readable(path: Path, suffixes: Iterable[str]) -> bool:
    """Whether a file has one of the suffixes; hidden files have none."""
    return path.is_file() and not path.name.startswith(".") and path.name.lower().endswith(tuple(suffixes))


def reader_for(paths: Sequence[Path], name: str | None = None) -> str:
    """The name of the reader for files: the one asked for, else the one that their suffixes tell.

    Raises:
        IncidenceError: There is none for the suffix of a file, or there are several.
    """
    if name is not None:
        reader(name)  # says so if there is none
        return name
    for path in paths:
        if not _fitting(path):
            known = ", ".join(f"{key} ({' '.join(reader(key).suffixes)})" for key in READERS)
            raise IncidenceError(f"no reader reads {path}; by suffix there are: {known}. Give --reader for another suffix.")
    fit = [key for key in READERS if all(key in _fitting(path) for path in paths)]
    if len(fit) != 1:
        said = f"the readers {', '.join(fit)} would all do" if fit else "they need different readers"
        raise IncidenceError(f"which reader is to read {paths[0].name} and the other files is not clear, as {said}: give --reader.")
    return fit[0]


def _fitting(path: Path) -> list[str]:
    return [key for key in READERS if path.name.lower().endswith(tuple(reader(key).suffixes))]


def read_file(name: str, path: Path, options: Mapping[str, Any]) -> list[Read]:
    """The examples of a file.

    Raises:
        IncidenceError: There is no such file, it cannot be read, or one of its records cannot.
    """
    if not path.is_file():
        raise IncidenceError(f"there is no file {path}.")
    assert_options(reader(name).read, f"the reader {name!r}", options)
    errors: list[IncidenceError] = []
    found = list(reader(name).read(path, errors, **options))
    if errors:
        raise errors[0]
    if not found:
        raise IncidenceError(f"{path} has no example.")
    return found


def assert_alike(reads: Sequence[Read]) -> None:
    """Refuses examples that make no batch, and features that are no finite numbers.

    Raises:
        IncidenceError: The message names the first example that differs from the first one, or has such a feature.
    """
    first = reads[0]
    wanted = _kind(first)
    for read in reads:
        own = _kind(read)
        if own != wanted:
            key = next(key for key in sorted(wanted.keys() | own.keys()) if wanted.get(key) != own.get(key))
            said = [f"{one.name} has {_said(kind.get(key))}" for one, kind in ((first, wanted), (read, own))]
            raise IncidenceError(f"examples of a data set have the same tensors and features; for `{key}`, {' and '.join(said)}.")
        bad = next((key for key, x in read.example.features.items() if not bool(torch.isfinite(x).all())), None)
        if bad is not None:
            raise IncidenceError(f"{read.name}: the features of `{bad}` have values that are no finite numbers.")


def _kind(read: Read) -> dict[str, int]:
    """For every tensor and feature the number of channels, -1 without features."""
    kind = {str(pattern): -1 for pattern in read.example.structure.patterns}
    return {**kind, **{str(read.example.structure.resolve(key)): x.shape[1] for key, x in read.example.features.items()}}


def _said(channels: int | None) -> str:
    return "no such tensor" if channels is None else "no features" if channels < 0 else f"{channels} features"
