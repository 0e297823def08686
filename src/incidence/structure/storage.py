"""Structures in files: a zip of plain arrays.

A file is written completely or not at all. Reading it executes no code, and reserves no memory
before its declared sizes have been checked.
"""

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
    "array_header",
    "arrays_of",
    "parts_from",
    "plain_arrays",
    "read_archive",
    "read_arrays",
    "tensor_arrays",
    "tensors_from",
    "write_arrays",
]

T = TypeVar("T")
Arrays = Mapping[str, Any]
"""Arrays by name."""


def arrays_of(structure: StructureData) -> dict[str, Any]:
    """Return a structure as plain arrays, each with a key that says what it is.

    Raises:
        IncidenceError: It is a part of a structure.
    """
    if structure.world is not None:
        raise IncidenceError(
            "a part of a structure is written with those of the other processes: use"
            " inc.distributed.save(part, folder)."
        )
    return plain_arrays(structure)


def plain_arrays(structure: StructureData) -> dict[str, Any]:
    """Return the index of a structure as plain arrays, also that of a part."""
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
    """Write arrays to a zip, completely or not at all."""
    with whole_file(path) as file:
        np.savez(file, **arrays)


# The errors that numpy, zipfile or this module may raise for a damaged or foreign file.
_DAMAGE = (
    *(ValueError, KeyError, TypeError, IndexError, AttributeError, OSError, EOFError),
    *(NotImplementedError, OverflowError, RuntimeError),
    *(zipfile.BadZipFile, zlib.error, struct.error),
    SystemError,  # for an invalid text
)


class _Archive(Mapping[str, Any]):
    """The arrays of an archive, each read on access."""

    def __init__(self, archive: zipfile.ZipFile) -> None:
        self._archive = archive
        self._members = {info.filename.removesuffix(".npy"): info for info in archive.infolist()}

    def __iter__(self) -> Iterator[str]:
        return iter(self._members)

    def __len__(self) -> int:
        return len(self._members)

    def __getitem__(self, key: str) -> Any:
        """Read an array to its end, so that its checksum is compared.

        Raises:
            ValueError: It holds Python objects, or declares another size than it has.
        """
        member = self._members[key]
        with self._archive.open(member) as file:
            shape, _, dtype = array_header(file, key)
            # compared before numpy reserves memory for the declared shape
            size = member.file_size - file.tell()
            if prod(shape) * dtype.itemsize != size:
                raise ValueError(
                    f"{key} declares the shape {shape} of {dtype}, and has {size:,} bytes"
                )
            file.seek(0)
            return np.lib.format.read_array(file, allow_pickle=False)


_HEADERS: dict[tuple[int, int], Callable[[Any], Any]] = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}


def array_header(file: Any, name: str) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Read what a file says about an array: its shape, whether it is by columns, and its type.

    Args:
        file: The file, at the start of the array; then at the start of its bytes.
        name: The name of the array, for messages.

    Raises:
        ValueError: It is no array.
    """
    try:
        shape, is_by_columns, dtype = _HEADERS[np.lib.format.read_magic(file)](file)
    except Exception:
        # numpy passes a damaged header to Python's parser, which may raise any error
        raise ValueError(f"{name} has no header of an array") from None
    return shape, is_by_columns, dtype


def read_archive(path: Any, what: str, read: Callable[[Arrays], T]) -> T:
    """Read arrays that any program may have written.

    Args:
        path: The file.
        what: What the file should be, for messages.
        read: The function that turns the arrays into a value.

    Raises:
        IncidenceError: The file is damaged, or has other contents.
        TooLargeError: Its arrays would take too much memory.
    """
    path = regular_file(path, what)
    with _archive(path, what) as archive:
        assert_unzipped(archive, path)
        try:
            return read(_Archive(archive))
        except IncidenceError:
            raise
        except _DAMAGE as error:
            raise _foreign(path, what, error) from None


def read_arrays(path: Any, what: str, newest: int, read: Callable[[Arrays], T]) -> T:
    """Read arrays that this library wrote.

    Args:
        path: The file.
        what: What the file should be, for messages.
        newest: The number of the file format.
        read: The function that turns the arrays into a value.

    Raises:
        IncidenceError: The file is damaged, or has other contents or another format.
        TooLargeError: Its arrays would take too much memory.
    """
    path = regular_file(path, what)
    with _archive(path, what) as archive:
        assert_unzipped(archive, path)
        arrays = _Archive(archive)
        try:
            version = int(arrays["format"])
        except _DAMAGE as error:
            raise _foreign(path, what, error) from None
        if version != newest:
            raise IncidenceError(
                f"{path} has format {version}; this version reads format {newest}. Update the"
                " library."
            )
        try:
            return read(arrays)
        except IncidenceError as error:
            raise IncidenceError(f"{path} is damaged: {error}") from None
        except _DAMAGE as error:
            raise IncidenceError(
                f"{path} is damaged: {_short(error)} is missing or of the wrong kind."
            ) from None


def _foreign(path: Path, what: str, error: Exception) -> IncidenceError:
    return IncidenceError(f"{path} is not {what}, or it is damaged: {_short(error)}.")


def _short(error: Exception) -> str:
    """Return the message of an error on one line; that of an archive may quote all of it."""
    return " ".join(str(error).split())[:300]


def _archive(path: Path, what: str) -> zipfile.ZipFile:
    try:
        return zipfile.ZipFile(path)  # a single array or a pickle is no archive
    except _DAMAGE as error:
        raise _foreign(path, what, error) from None


def _integers(array: Any, axes: int) -> Tensor:
    if array.ndim != axes or array.dtype.kind not in "iu":
        raise ValueError("an array of integers")
    return torch.from_numpy(array).long()


def parts_from(
    arrays: Arrays,
) -> tuple[dict[str, Tensor], dict[str, Any], dict[str, Tensor]]:
    """Return the parts of a structure from the arrays that `arrays_of` returned.

    Returns:
        The pointers to nodes by sort, and the index and the pointers to entries by pattern.
    """
    keys = sorted(key for key in arrays if key.startswith("nodes/"))
    node_ptr = {key.removeprefix("nodes/"): _integers(arrays[key], 1) for key in keys}
    length = len(next(iter(node_ptr.values()), ()))
    for ptr in node_ptr.values():
        if len(ptr) != length or int(ptr[0]) or bool((ptr.diff() < 0).any()):
            length = 0
    if length < 2:
        raise IncidenceError("its structures do not add up.")
    num_nodes = sum(int(ptr[-1]) for ptr in node_ptr.values())
    # The file holds entries one by one, but of the nodes only their number.
    assert_size(num_nodes * 8, f"{num_nodes:,} nodes, of which it has no more than the number,")
    index, entry_ptr = {}, {}
    for number in _numbers(arrays, "tensor"):
        place = f"tensor/{number}"
        text = str(arrays[f"{place}/pattern"])
        pattern = Pattern(text)
        tensors: list[Tensor] = []
        while (part := f"{place}/{len(tensors)}") in arrays:
            tensors.append(_integers(arrays[part], 2))
        index[text] = tuple(tensors) if pattern.is_open else tensors[0]
        entry_ptr[str(pattern)] = _integers(arrays[f"{place}/ptr"], 1)
    return node_ptr, index, entry_ptr


def _numbers(arrays: Arrays, what: str) -> list[int]:
    """Return the numbers of the tensors whose keys start with a word."""
    return sorted({int(key.split("/")[1]) for key in arrays if key.startswith(f"{what}/")})


def tensor_arrays(place: str, key: str, x: Tensor) -> dict[str, Any]:
    """Return a tensor as bytes with its type and shape, as numpy lacks some types of torch."""
    flat = x.detach().cpu().contiguous().flatten()
    if not flat.numel():  # which has no view of another type
        flat = flat.new_zeros(0, dtype=torch.uint8)
    raw = flat.view(torch.uint8)
    kind = str(x.dtype).removeprefix("torch.")
    return {
        f"{place}/key": np.array(str(key)),
        f"{place}/type": np.array(kind),
        f"{place}/shape": np.array(x.shape, dtype=np.int64),
        f"{place}/bytes": raw.numpy(),
    }


def tensors_from(arrays: Arrays, what: str) -> dict[str, Tensor]:
    """Return the tensors from the arrays that `tensor_arrays` returned for places `what/number`."""
    places = [f"{what}/{number}" for number in _numbers(arrays, what)]
    return {str(arrays[f"{place}/key"]): _tensor(arrays, place) for place in places}


@lru_cache(maxsize=100)
def _has_numbers(kind: torch.dtype) -> bool:
    """Return whether torch can compute with a type; some are no more than a name."""
    try:
        torch.zeros(1, dtype=kind).to(torch.complex128 if kind.is_complex else torch.float64)
    except (RuntimeError, TypeError):
        return False
    return kind not in _QUANTISED


_QUANTISED = (torch.qint8, torch.quint8, torch.qint32, torch.quint4x2, torch.quint2x4)


def _tensor(arrays: Arrays, place: str) -> Tensor:
    kind: Any = getattr(torch, str(arrays[f"{place}/type"]), None)
    raw, shape = arrays[f"{place}/bytes"], arrays[f"{place}/shape"].tolist()
    is_empty = not raw.size
    is_type = isinstance(kind, torch.dtype) and _has_numbers(kind)
    if not is_type or raw.dtype != np.uint8 or raw.ndim != 1 or is_empty != (0 in shape):
        raise IncidenceError(f"{place} is no tensor.")
    if is_empty:
        return torch.zeros(shape, dtype=kind)
    return torch.from_numpy(raw).view(kind).view(shape)
