"""Structures in files: a zip of plain arrays, written at once or not at all, read without executing anything."""

from __future__ import annotations

import os
import struct
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from incidence.algebra.pattern import Pattern
from incidence.errors import IncidenceError
from incidence.structure.structure import Structure

__all__ = ["arrays_of", "load", "read_arrays", "save", "structure_from", "whole_file", "write_arrays"]

T = TypeVar("T")

_FORMAT = 1


def save(structure: Structure, path: Any) -> None:
    """Writes a structure; a file that is there already is replaced only when the new one is complete."""
    write_arrays(path, {"format": np.array(_FORMAT), **arrays_of(structure)})


def arrays_of(structure: Structure) -> dict[str, Any]:
    """A structure as plain arrays, each under a text that says what it is."""
    arrays: dict[str, Any] = {}
    for sort, ptr in structure._node_ptr.items():
        arrays[f"nodes/{sort}"] = ptr.cpu().numpy()
    for number, (pattern, parts) in enumerate(structure._index.items()):
        arrays[f"tensor/{number}/pattern"] = np.array(str(pattern))
        arrays[f"tensor/{number}/ptr"] = structure._entry_ptr[pattern].cpu().numpy()
        for place, part in enumerate(parts):
            arrays[f"tensor/{number}/{place}"] = part.cpu().numpy()
    return arrays


def write_arrays(path: Any, arrays: dict[str, Any]) -> None:
    """Writes arrays to a zip, at once or not at all."""
    with whole_file(path) as file:
        np.savez(file, **arrays)


@contextmanager
def whole_file(path: Any) -> Iterator[IO[bytes]]:
    """A file to write to that takes the place of what is at the path only when it is complete."""
    path = Path(path)
    if not path.parent.is_dir():
        raise IncidenceError(f"there is no folder {path.parent} to save to: make it first.")
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(name, 0o666 & ~umask)  # temporary files are private; this one is to be as any other
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


# What reading a damaged or foreign file may raise, in numpy, zipfile or here.
_DAMAGE = (
    *(ValueError, KeyError, TypeError, IndexError, AttributeError, OSError, EOFError, NotImplementedError, OverflowError),
    *(RuntimeError, zipfile.BadZipFile, zlib.error, struct.error),
)


def load(path: Any) -> Structure:
    """Reads a structure and checks it as if it were given anew."""
    return read_arrays(path, "a structure written by `Structure.save`", _FORMAT, structure_from)


def read_arrays(path: Any, what: str, newest: int, read: Callable[[dict[str, Any]], T]) -> T:
    """Reads what was written as arrays; whatever is wrong with the file becomes one sentence that names it."""
    path = Path(path)
    if not path.exists():
        raise IncidenceError(f"there is no file {path}.")
    try:
        arrays = _arrays(path)
        version = int(arrays["format"])
    except _DAMAGE as error:
        raise IncidenceError(f"{path} is not {what}, or it is damaged: {error}.") from None
    if version != newest:
        raise IncidenceError(f"{path} has format {version}; this version reads format {newest}. Update the library.")
    try:
        return read(arrays)
    except IncidenceError as error:
        raise IncidenceError(f"{path} is damaged: {error}") from None
    except _DAMAGE as error:
        raise IncidenceError(f"{path} is damaged: {error} is missing or of the wrong kind.") from None


def _arrays(path: Path) -> dict[str, Any]:
    with zipfile.ZipFile(path) as archive:  # a single array or a pickle is no archive
        broken = archive.testzip()
    if broken is not None:
        raise ValueError(f"{broken} does not match its checksum")
    with np.load(path, allow_pickle=False) as file:
        return {key: file[key] for key in file.files}


def _integers(array: Any, axes: int) -> Tensor:
    if array.ndim != axes or array.dtype.kind not in "iu":
        raise ValueError("an array of integers")
    return torch.from_numpy(array).long()


def structure_from(arrays: dict[str, Any]) -> Structure:
    """The structure that `arrays_of` made arrays of, checked."""
    node_ptr = {key.removeprefix("nodes/"): _integers(a, 1) for key, a in arrays.items() if key.startswith("nodes/")}
    numbers = sorted({int(key.split("/")[1]) for key in arrays if key.startswith("tensor/")})
    index, entry_ptr = {}, {}
    for number in numbers:
        text = str(arrays[f"tensor/{number}/pattern"])
        parts = sorted(int(k.split("/")[2]) for k in arrays if k.startswith(f"tensor/{number}/") and k.split("/")[2].isdigit())
        tensors = tuple(_integers(arrays[f"tensor/{number}/{part}"], 2) for part in parts)
        index[text] = tensors if Pattern(text).is_open else tensors[0]
        entry_ptr[Pattern(text)] = _integers(arrays[f"tensor/{number}/ptr"], 1)
    checked = Structure({sort: int(ptr[-1]) for sort, ptr in node_ptr.items()}, index)
    totals = [(entry_ptr[p], checked.num_entries(p)) for p in entry_ptr] + [(ptr, int(ptr[-1])) for ptr in node_ptr.values()]
    length = len(next(iter(node_ptr.values())))
    for ptr, total in totals:
        if len(ptr) != length or length < 2 or int(ptr[0]) or int(ptr[-1]) != total or bool((ptr.diff() < 0).any()):
            raise IncidenceError("its structures do not add up.")
    loaded = Structure._of({sort: node_ptr[sort] for sort in sorted(node_ptr)}, checked._index, entry_ptr)
    loaded._arranged = checked._arranged
    _assert_apart(loaded)
    return loaded


def _assert_apart(structure: Structure) -> None:
    """Refuses entries with nodes of another structure of the batch."""
    for pattern, parts in structure._index.items():
        home = structure.batch(pattern)
        places = [(parts[0][row], home, pattern.sorts[x]) for row, x in enumerate(pattern.fixed_letters)]
        faces = [face for face in pattern.faces if face.is_open]
        places += [(m[0], home[m[1]], f.letters[0].sort) for f, m in zip(faces, parts[1:], strict=True)]
        for nodes, own, sort in places:
            if not torch.equal(torch.bucketize(nodes.contiguous(), structure.node_ptr(sort)[1:], right=True), own):
                raise IncidenceError(f"an entry of `{pattern}` has nodes of another structure.")
