"""Reading a shard: its arrays are mapped into memory, and examples are ranges of them."""

from __future__ import annotations

import io
import mmap
import zipfile
from collections.abc import Mapping
from functools import cached_property, lru_cache
from math import prod
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from incidence.algebra.pattern import Pattern
from incidence.data.shards.folder import checksum_of
from incidence.data.shards.plans import plans_from
from incidence.data.shards.texts import columns_from
from incidence.errors import IncidenceError
from incidence.files import regular_file
from incidence.structure.data import Array
from incidence.structure.storage import array_header

__all__ = ["PatternIndex", "Shard", "ShardTensor"]

# what a file may raise that is no shard, or that somebody changed together with its checksum
_DAMAGE = (
    *(ValueError, LookupError, TypeError, AttributeError, OSError, StopIteration),
    zipfile.BadZipFile,
)
_LOCAL_HEADER = 30  # bytes before the name of a member of a zip


class ShardTensor(NamedTuple):
    """A tensor of a shard with the rows of every example.

    Attributes:
        key: Its pattern; empty for a target of whole structures.
        dtype: Its type.
        shape: The shape of a row.
        raw: Its bytes.
        ptr: Where the rows of every example start.
    """

    key: str
    dtype: torch.dtype
    shape: tuple[int, ...]
    raw: Array
    ptr: Array

    def some(self, start: int, stop: int) -> Array:
        """Return the bytes of some rows."""
        width = prod(self.shape) * self.dtype.itemsize
        return self.raw[start * width : stop * width]

    def of(self, number: int) -> Array:
        """Return the bytes of the rows of an example."""
        return self.some(int(self.ptr[number]), int(self.ptr[number + 1]))

    def tensor(self, raw: Array) -> Tensor:
        """Return rows of this type and shape, [rows, ...], from bytes that nothing else holds."""
        if not raw.size:
            return torch.zeros((0, *self.shape), dtype=self.dtype)
        return torch.from_numpy(raw).view(self.dtype).view(-1, *self.shape)


class PatternIndex(NamedTuple):
    """The index of a pattern in a shard, with the columns of every example.

    Attributes:
        pattern: The pattern.
        parts: The letters, then the members of every open face.
        ptrs: Where the columns of every example start; the first are those of entries.
    """

    pattern: Pattern
    parts: list[Array]
    ptrs: list[Array]

    def columns(self, place: int, number: int) -> Array:
        """Return the columns of an example in a part, [rows, columns]."""
        part, ptr = self.parts[place], self.ptrs[place]
        if not len(part):  # a lone open face has no letters
            return part
        return part[:, ptr[number] : ptr[number + 1]]


class Shard:
    """The arrays of one shard, mapped into memory.

    Args:
        path: The file.
        checksum: The checksum of all of it; None if it was compared before.

    Raises:
        IncidenceError: The file is damaged.
    """

    def __init__(self, path: Path, checksum: str | None = None) -> None:
        self.path = regular_file(path, "a shard")
        self.stores: dict[str, Any] = {}
        if checksum is not None and checksum_of(path) != checksum:
            raise self.damage("its checksum is not the one that was written with it")
        try:
            self._take_arrays(_mapped(path))
        except _DAMAGE as error:
            raise self.damage(" ".join(str(error).split())[:200]) from None

    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
        return _reopened, (self.path, self.path.stat().st_mtime_ns)

    def _take_arrays(self, arrays: Mapping[str, Any]) -> None:
        self.nodes = {key[6:]: arrays[key] for key in sorted(arrays) if key.startswith("nodes/")}
        self.num_examples = len(next(iter(self.nodes.values()))) - 1
        self.index = [_index(arrays, k) for k in range(_count(arrays, "tensor", "pattern"))]
        self.features = self._rows(arrays, "feature")
        self.targets = self._rows(arrays, "target")
        self.target_kind = str(arrays["target"])
        self.plans = plans_from(arrays)
        self.texts = columns_from(arrays, self.num_examples)

    def damage(self, what: str) -> IncidenceError:
        """Return the error for a damaged file."""
        return IncidenceError(
            f"{self.path} is damaged: {what}. Delete it, and prepare it again with the same"
            " options."
        )

    def _rows(self, arrays: Mapping[str, Any], what: str) -> list[ShardTensor]:
        rows = []
        for number in range(_count(arrays, what, "key")):
            place = f"{what}/{number}"
            key, dtype = str(arrays[f"{place}/key"]), getattr(torch, str(arrays[f"{place}/type"]))
            if not isinstance(dtype, torch.dtype):
                raise ValueError(f"{place} is no tensor")
            shape = tuple(arrays[f"{place}/shape"].tolist()[1:])
            # a target of whole structures has a row for every example
            ptr = arrays.get(f"{place}/ptr", np.arange(self.num_examples + 1))
            rows.append(ShardTensor(key, dtype, shape, arrays[f"{place}/bytes"], ptr))
        return rows

    @cached_property
    def layout(self) -> tuple[object, ...]:
        """What is the same in all shards of a folder."""
        tensors = [(one.key, one.dtype, one.shape) for one in (*self.features, *self.targets)]
        return list(self.nodes), [one.pattern for one in self.index], tensors, self.target_kind

    def whole_targets(self) -> Tensor:
        """Return the targets of all examples, of whole structures, [examples, ...]."""
        [target] = self.targets
        return target.tensor(target.some(0, self.num_examples).copy())


def _reopened(path: Path, time: int) -> Shard | None:
    """Return a shard of another process, mapped once for all batches; None if it is gone."""
    try:
        return _mapped_once(path, time)
    except IncidenceError:
        return None


@lru_cache(maxsize=64)
def _mapped_once(path: Path, time: int) -> Shard:
    return Shard(path)


def _index(arrays: Mapping[str, Any], number: int) -> PatternIndex:
    place = f"tensor/{number}"
    parts: list[Array] = []
    ptrs: list[Array] = []
    while (key := f"{place}/{len(parts)}") in arrays:
        ptrs.append(arrays[f"{place}/ptr/{len(parts)}" if parts else f"{place}/ptr"])
        parts.append(arrays[key])
    return PatternIndex(_parsed(str(arrays[f"{place}/pattern"])), parts, ptrs)


_parsed = lru_cache(maxsize=1024)(Pattern)


def _count(arrays: Mapping[str, Any], what: str, last: str) -> int:
    return sum(key.startswith(f"{what}/") and key.endswith(f"/{last}") for key in arrays)


def _mapped(path: Path) -> dict[str, Any]:
    """Return the arrays of an archive that is not packed, without reading them."""
    with zipfile.ZipFile(path) as archive, path.open("rb") as file:
        memory = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        return {
            info.filename.removesuffix(".npy"): _array_at(memory, info)
            for info in archive.infolist()
        }


def _array_at(memory: mmap.mmap, info: zipfile.ZipInfo) -> Any:
    header = memory[info.header_offset : info.header_offset + _LOCAL_HEADER]
    lengths = int.from_bytes(header[26:28], "little") + int.from_bytes(header[28:30], "little")
    start = info.header_offset + _LOCAL_HEADER + lengths
    head = io.BytesIO(memory[start : start + min(info.file_size, 1 << 16)])
    shape, is_by_columns, dtype = array_header(head, info.filename)
    if dtype.hasobject:
        raise ValueError(f"{info.filename} has Python objects")
    first = start + head.tell()
    return np.ndarray(shape, dtype, memory, first, order="F" if is_by_columns else "C")
