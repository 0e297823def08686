"""Structures in files: a zip of plain arrays, written at once or not at all, read without executing anything."""

from __future__ import annotations

import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from math import prod
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from incidence.algebra.pattern import Pattern
from incidence.errors import IncidenceError
from incidence.files import regular_file, whole_file
from incidence.limits import assert_size, assert_unzipped
from incidence.structure.data import StructureData

__all__ = [
    "arrays_of",
    "load",
    "parts_from",
    "read_archive",
    "read_arrays",
    "save",
    "tensor_arrays",
    "tensors_from",
    "whole_file",
    "write_arrays",
]

T = TypeVar("T")

_FORMAT = 1


def save(structure: StructureData, path: Any) -> None:
    """Writes a structure; a file that is there already is replaced only when the new one is complete."""
    write_arrays(path, {"format": np.array(_FORMAT), **arrays_of(structure)})


def arrays_of(structure: StructureData) -> dict[str, Any]:
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


# What reading a damaged or foreign file may raise, in numpy, zipfile or here.
_DAMAGE = (
    *(
        ValueError,
        KeyError,
        TypeError,
        IndexError,
        AttributeError,
        OSError,
        EOFError,
        NotImplementedError,
        OverflowError,
    ),
    *(
        RuntimeError,
        SystemError,
        zipfile.BadZipFile,
        zlib.error,
        struct.error,
    ),  # SystemError: a text that is none
)


class Arrays(Mapping[str, Any]):
    """The arrays of an archive, each read when it is asked for; what nobody asks for is not read."""

    def __init__(self, archive: zipfile.ZipFile) -> None:
        self._archive = archive
        self._members = {info.filename.removesuffix(".npy"): info for info in archive.infolist()}

    def __iter__(self) -> Iterator[str]:
        return iter(self._members)

    def __len__(self) -> int:
        return len(self._members)

    def __getitem__(self, key: str) -> Any:
        """Reads an array, to its end, where its checksum is compared.

        Raises:
            ValueError: It is of Python objects, or declares other numbers than there are.
        """
        member = self._members[key]
        with self._archive.open(member) as file:
            try:
                shape, _, dtype = _HEADERS[np.lib.format.read_magic(file)](file)
            except (
                Exception
            ):  # numpy gives a damaged header to Python's parser, which may raise anything
                raise ValueError(f"{key} has no header of an array") from None
            if (
                prod(shape) * dtype.itemsize != member.file_size - file.tell()
            ):  # before there is memory for what it says
                raise ValueError(
                    f"{key} declares the shape {shape} of {dtype}, and has {member.file_size - file.tell():,} bytes"
                )
            file.seek(0)
            return np.lib.format.read_array(file, allow_pickle=False)


_HEADERS: dict[tuple[int, int], Callable[[Any], Any]] = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}


def load(path: Any, read: Callable[[Mapping[str, Any]], T]) -> T:
    """Reads a structure and checks it as if it were given anew."""
    return read_arrays(path, "a structure written by `Structure.save`", _FORMAT, read)


def read_archive(path: Any, what: str, read: Callable[[Mapping[str, Any]], T]) -> T:
    """Reads arrays that anybody may have written; sizes are looked at first, and whatever is wrong becomes one sentence."""
    path = regular_file(path, what)
    with _archive(path, what) as archive:
        assert_unzipped(archive, path)
        try:
            return read(Arrays(archive))
        except IncidenceError:
            raise
        except _DAMAGE as error:
            raise IncidenceError(
                f"{path} is not {what}, or it is damaged: {_short(error)}."
            ) from None


def read_arrays(path: Any, what: str, newest: int, read: Callable[[Mapping[str, Any]], T]) -> T:
    """Reads what was written as arrays; whatever is wrong with the file becomes one sentence that names it."""
    path = regular_file(path, what)
    with _archive(path, what) as archive:
        assert_unzipped(archive, path)
        arrays = Arrays(archive)
        try:
            version = int(arrays["format"])
        except _DAMAGE as error:
            raise IncidenceError(
                f"{path} is not {what}, or it is damaged: {_short(error)}."
            ) from None
        if version != newest:
            raise IncidenceError(
                f"{path} has format {version}; this version reads format {newest}. Update the library."
            )
        try:
            return read(arrays)
        except IncidenceError as error:
            raise IncidenceError(f"{path} is damaged: {error}") from None
        except _DAMAGE as error:
            raise IncidenceError(
                f"{path} is damaged: {_short(error)} is missing or of the wrong kind."
            ) from None


def _short(error: Exception) -> str:
    """What an error says, on one line: that of an archive may quote all of it."""
    return " ".join(str(error).split())[:300]


def _archive(path: Path, what: str) -> zipfile.ZipFile:
    try:
        return zipfile.ZipFile(path)  # a single array or a pickle is no archive
    except _DAMAGE as error:
        raise IncidenceError(f"{path} is not {what}, or it is damaged: {_short(error)}.") from None


def _integers(array: Any, axes: int) -> Tensor:
    if array.ndim != axes or array.dtype.kind not in "iu":
        raise ValueError("an array of integers")
    return torch.from_numpy(array).long()


def parts_from(
    arrays: Mapping[str, Any],
) -> tuple[dict[str, Tensor], dict[str, Any], dict[str, Tensor]]:
    """The pointers to nodes by sort, and the index and the pointers to entries by pattern, that `arrays_of` made arrays of."""
    found = {
        key.removeprefix("nodes/"): _integers(arrays[key], 1)
        for key in arrays
        if key.startswith("nodes/")
    }
    node_ptr = {sort: found[sort] for sort in sorted(found)}
    length = len(next(iter(node_ptr.values()), ()))
    if length < 2 or any(
        len(ptr) != length or int(ptr[0]) or bool((ptr.diff() < 0).any())
        for ptr in node_ptr.values()
    ):
        raise IncidenceError("its structures do not add up.")
    num_nodes = sum(int(ptr[-1]) for ptr in node_ptr.values())
    assert_size(
        num_nodes * 8, f"{num_nodes:,} nodes, of which it has no more than the number,"
    )  # others are in it one by one
    index, entry_ptr = {}, {}
    for number in sorted({int(key.split("/")[1]) for key in arrays if key.startswith("tensor/")}):
        text = str(arrays[f"tensor/{number}/pattern"])
        places = sorted(
            int(k.split("/")[2])
            for k in arrays
            if k.startswith(f"tensor/{number}/") and k.split("/")[2].isdigit()
        )
        tensors = tuple(_integers(arrays[f"tensor/{number}/{place}"], 2) for place in places)
        index[text] = tensors if Pattern(text).is_open else tensors[0]
        entry_ptr[str(Pattern(text))] = _integers(arrays[f"tensor/{number}/ptr"], 1)
    return node_ptr, index, entry_ptr


def tensor_arrays(place: str, key: str, x: Tensor) -> dict[str, Any]:
    """A tensor as bytes with its type and shape: numpy does not know all the types of torch."""
    flat = x.detach().cpu().contiguous().flatten()
    raw = flat.view(torch.uint8) if flat.numel() else flat.new_zeros(0, dtype=torch.uint8)
    kind = str(x.dtype).removeprefix("torch.")
    return {
        f"{place}/key": np.array(str(key)),
        f"{place}/type": np.array(kind),
        f"{place}/shape": np.array(x.shape, dtype=np.int64),
        f"{place}/bytes": raw.numpy(),
    }


def tensors_from(arrays: Mapping[str, Any], prefix: str) -> dict[str, Tensor]:
    places = sorted({int(key.split("/")[1]) for key in arrays if key.startswith(prefix)})
    return {str(arrays[f"{prefix}{n}/key"]): _tensor(arrays, f"{prefix}{n}") for n in places}


@lru_cache(maxsize=100)
def _has_numbers(kind: torch.dtype) -> bool:
    """Whether torch can compute with a type: of some it has no more than the name."""
    try:
        torch.zeros(1, dtype=kind).to(torch.complex128 if kind.is_complex else torch.float64)
    except (RuntimeError, TypeError):
        return False
    return kind not in _QUANTISED


_QUANTISED = (torch.qint8, torch.quint8, torch.qint32, torch.quint4x2, torch.quint2x4)


def _tensor(arrays: Mapping[str, Any], place: str) -> Tensor:
    kind = getattr(torch, str(arrays[f"{place}/type"]), None)
    raw, shape = arrays[f"{place}/bytes"], arrays[f"{place}/shape"].tolist()
    is_empty = not raw.size
    if (
        not isinstance(kind, torch.dtype)
        or not _has_numbers(kind)
        or raw.dtype != np.uint8
        or raw.ndim != 1
        or is_empty != (0 in shape)
    ):
        raise IncidenceError(f"{place} is no tensor.")
    return (
        torch.from_numpy(raw).view(kind).view(shape)
        if not is_empty
        else torch.zeros(shape, dtype=kind)
    )
