"""Shards: files of many examples, from which single examples are taken without reading the rest.

A shard is a batch of examples as `Example.save` writes it, with pointers to the rows of every
example. Its arrays are not packed, so they are mapped into memory, and the system reads the pages
that an example needs. Beside a shard is a JSON file with its checksum, written last.
"""

from __future__ import annotations

import io
import json
import mmap
import zipfile
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from hashlib import blake2b
from math import prod
from pathlib import Path
from typing import Any, NamedTuple, overload

import numpy as np
import torch
from torch import Tensor

from incidence.algebra.pattern import Pattern
from incidence.errors import IncidenceError
from incidence.files import regular_file, whole_file
from incidence.limits import parse_json
from incidence.structure.batch import shifts_of
from incidence.structure.collate import collate
from incidence.structure.data import Array
from incidence.structure.example import Example, Target
from incidence.structure.storage import array_header, write_arrays
from incidence.structure.structure import Structure

__all__ = ["Shard", "ShardFolder", "ShardedExamples", "digest_of", "write_shard"]

_MOST_OPEN = 256  # shards that are mapped at once: each needs a file that is open
_CHUNK = 1 << 20  # bytes to compare at once
_LOCAL_HEADER = 30  # bytes before the name of a member of a zip


class ShardFolder(NamedTuple):
    """Where shards are, and what they must belong to.

    Attributes:
        path: The folder.
        digest: The digest of the manifest that all shards were written for.
        num_shards: The number of shards.
        num_examples: The number of examples in all shards.
    """

    path: Path
    digest: str
    num_shards: int
    num_examples: int

    @property
    def starts(self) -> Array:
        """The number of the first example of every shard, and the number of all, [shards + 1]."""
        return np.arange(self.num_shards + 1) * self.num_examples // self.num_shards

    def file(self, number: int) -> Path:
        """Return the file of a shard, which are numbered from 1."""
        return self.path / f"shard-{number:05d}-of-{self.num_shards:05d}.npz"

    def command(self, number: int) -> str:
        """Return the option that writes a shard again."""
        return f"--shard {number}/{self.num_shards}"

    def is_complete(self, number: int) -> bool:
        """Return whether a shard was written for this manifest, without reading all of it."""
        try:
            self.receipt(number)
        except IncidenceError:
            return False
        return True

    def receipt(self, number: int) -> dict[str, Any]:
        """Return what the JSON file beside a shard says.

        Raises:
            IncidenceError: The shard is missing, cut short, or belongs to something else.
        """
        file, again = self.file(number), f"Write it again: incidence prepare {self.command(number)}"
        receipt = file.with_suffix(".json")
        if not file.is_file() or not receipt.is_file():
            raise IncidenceError(
                f"shard {number} of {self.num_shards} in {self.path} is missing. {again}, with the"
                " other options as before."
            )
        values = parse_json(receipt.read_bytes(), str(receipt), "record of a shard")
        if not isinstance(values, dict) or values.get("manifest") != self.digest:
            raise IncidenceError(
                f"{file} was prepared from other data, with other options, or by another version"
                f" than {self.path / 'manifest.json'}. {again}, with the options of the others."
            )
        if values.get("bytes") != file.stat().st_size:
            raise IncidenceError(
                f"{file} is damaged: it has {file.stat().st_size:,} bytes, and"
                f" {values.get('bytes')} were written. {again}."
            )
        return values


def digest_of(text: bytes) -> str:
    """Return a checksum of a text."""
    return blake2b(text, digest_size=16).hexdigest()


def _checksum(path: Path) -> str:
    digest = blake2b(digest_size=16)
    with path.open("rb") as file:
        while part := file.read(_CHUNK):
            digest.update(part)
    return digest.hexdigest()


def write_shard(folder: ShardFolder, number: int, examples: Sequence[Example]) -> None:
    """Write examples to a shard, whole or not at all; a shard that is there is replaced."""
    batch = collate(examples)
    arrays = {**batch._arrays(), **_pointers(batch)}
    file = folder.file(number)
    write_arrays(file, arrays)
    receipt = {
        "shard": number,
        "manifest": folder.digest,
        "examples": len(examples),
        "bytes": file.stat().st_size,
        "checksum": _checksum(file),
    }
    with whole_file(file.with_suffix(".json")) as out:
        out.write(json.dumps(receipt, indent=1).encode())


def _pointers(batch: Example) -> dict[str, Array]:
    """Return where the members, features and targets of every example start, and the end."""
    structure, target = batch.structure, batch.target
    ptrs = {}
    for number, pattern in enumerate(structure.patterns):
        for place, part in enumerate(structure._index[pattern]):
            if place:
                # members come by structure, as `collate` puts structures side by side
                owner = structure.batch(pattern)[part[1]]
                lengths = torch.bincount(owner, minlength=batch.num_structures)
                ptrs[f"tensor/{number}/ptr/{place}"] = _ptr(lengths.numpy())
    by_pattern = target if isinstance(target, dict) else {}
    for what, tensors in (("feature", batch.features), ("target", by_pattern)):
        for number, key in enumerate(tensors):
            lengths_of_key = structure._lengths_of(structure.resolve(key))
            ptrs[f"{what}/{number}/ptr"] = _ptr(lengths_of_key)
    return ptrs


def _ptr(lengths: Array) -> Array:
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths, dtype=np.int64)])


class _Rows(NamedTuple):
    """A tensor of a shard with the rows of every example.

    Attributes:
        key: Its pattern.
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

    def take(self, start: int, stop: int) -> Tensor:
        """Return a copy of some rows, [rows, ...]."""
        width = prod(self.shape) * self.dtype.itemsize
        if start == stop or not width:
            return torch.zeros((stop - start, *self.shape), dtype=self.dtype)
        raw = self.raw[start * width : stop * width].copy()
        return torch.from_numpy(raw).view(self.dtype).view(stop - start, *self.shape)


class Shard:
    """The examples of one shard, each read from its file when it is taken.

    Args:
        path: The file.
        checksum: The checksum of all of it; None if it was compared before.

    Raises:
        IncidenceError: The file is damaged.
    """

    def __init__(self, path: Path, checksum: str | None = None) -> None:
        self.path = regular_file(path, "a shard")
        if checksum is not None and _checksum(path) != checksum:
            raise self._damage("its checksum is not the one that was written with it")
        arrays = _mapped(path)
        self._nodes = {key[6:]: arrays[key] for key in sorted(arrays) if key.startswith("nodes/")}
        self.num_examples = len(next(iter(self._nodes.values()))) - 1
        self._patterns = [
            self._parts(arrays, number) for number in range(_count(arrays, "tensor", "pattern"))
        ]
        self._features = self._tensors(arrays, "feature")
        self._target_kind = str(arrays["target"])
        self._targets = self._tensors(arrays, "target")

    def _damage(self, what: str) -> IncidenceError:
        return IncidenceError(
            f"{self.path} is damaged: {what}. Delete it, and run the command that prepared it again."
        )

    def _parts(self, arrays: Mapping[str, Any], number: int) -> _Parts:
        place = f"tensor/{number}"
        pattern = _parsed(str(arrays[f"{place}/pattern"]))
        parts, ptrs = [], []
        while (key := f"{place}/{len(parts)}") in arrays:
            ptrs.append(arrays[f"{place}/ptr/{len(parts)}" if parts else f"{place}/ptr"])
            parts.append(arrays[key])
        return _Parts(pattern, parts, ptrs)

    def _tensors(self, arrays: Mapping[str, Any], what: str) -> list[_Rows]:
        rows = []
        for number in range(_count(arrays, what, "key")):
            place = f"{what}/{number}"
            dtype = getattr(torch, str(arrays[f"{place}/type"]))
            shape = tuple(arrays[f"{place}/shape"].tolist()[1:])
            ptr = arrays.get(f"{place}/ptr", np.arange(self.num_examples + 1))
            rows.append(
                _Rows(str(arrays[f"{place}/key"]), dtype, shape, arrays[f"{place}/bytes"], ptr)
            )
        return rows

    def __getitem__(self, number: int) -> Example:
        """Return the example of a number from 0, in memory of its own."""
        starts = {sort: ptr[number] for sort, ptr in self._nodes.items()}
        counts = {sort: ptr[number + 1] - starts[sort] for sort, ptr in self._nodes.items()}
        node_ptr = {sort: torch.tensor([0, int(n)]) for sort, n in counts.items()}
        index, entry_ptr = {}, {}
        for one in self._patterns:
            first, last = int(one.ptrs[0][number]), int(one.ptrs[0][number + 1])
            shifts = shifts_of(
                one.pattern,
                {sort: np.array([start]) for sort, start in starts.items()},
                np.array([first]),
            )
            index[one.pattern] = tuple(
                torch.from_numpy(self._moved(part, ptr, number, shift))
                for part, ptr, shift in zip(one.parts, one.ptrs, shifts, strict=True)
            )
            entry_ptr[one.pattern] = torch.tensor([0, last - first])
            self._assert_inside(one.pattern, index[one.pattern], counts, last - first)
        structure = Structure._of(node_ptr, index, entry_ptr)
        features = _some_rows(self._features, number)
        return Example._of(structure, features, self._target(number), False)

    def _moved(self, part: Array, ptr: Array, number: int, shift: Array) -> Array:
        """Return the columns of an example, with its nodes and entries numbered from 0."""
        if not len(part):  # a lone open face has no letters
            return np.zeros((0, part.shape[1]), dtype=np.int64)
        moved: Array = part[:, ptr[number] : ptr[number + 1]] - shift
        return moved

    def _assert_inside(
        self, pattern: Pattern, parts: Sequence[Tensor], counts: Mapping[str, int], entries: int
    ) -> None:
        """Refuse numbers of nodes or entries that an example does not have: kernels trust them."""
        letters = [counts[pattern.sorts[x]] for x in pattern.fixed_letters]
        open_sorts = [face.letters[0].sort for face in pattern.faces if face.is_open]
        bounds = [letters, *([counts[sort], entries] for sort in open_sorts)]
        for part, bound in zip(parts, bounds, strict=True):
            rows = part.numpy()
            if rows.size and (rows.min() < 0 or (rows.max(1) >= bound).any()):
                raise self._damage(f"`{pattern}` has a node that its example has not")

    def _target(self, number: int) -> Target:
        if self._target_kind == "none":
            return None
        if self._target_kind == "entries":
            return _some_rows(self._targets, number)
        return self._targets[0].take(number, number + 1)[0]

    def whole_targets(self) -> Tensor:
        """Return the targets of all examples, of whole structures, [examples, ...]."""
        return self._targets[0].take(0, self.num_examples)


class _Parts(NamedTuple):
    """The index of a pattern, with the columns of every example."""

    pattern: Pattern
    parts: list[Array]
    ptrs: list[Array]


_parsed = lru_cache(maxsize=1024)(Pattern)


def _some_rows(tensors: Sequence[_Rows], number: int) -> dict[str, Tensor]:
    return {
        one.key: one.take(int(one.ptr[number]), int(one.ptr[number + 1])) for one in tensors
    }


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
    order = "F" if is_by_columns else "C"
    return np.ndarray(shape, dtype, memory, start + head.tell(), order=order)


class ShardedExamples(Sequence[Example]):
    """Examples in shards, each read when it is taken. A slice is lazy, too.

    Args:
        folder: The shards.
        rows: The numbers of the examples; all of them by default.
    """

    def __init__(self, folder: ShardFolder, rows: Array | None = None) -> None:
        self.folder, self._starts = folder, folder.starts
        self._rows = np.arange(folder.num_examples) if rows is None else rows
        self._open: OrderedDict[int, Shard] = OrderedDict()
        self._checked = set[int]()

    def __repr__(self) -> str:
        return f"ShardedExamples({len(self):,} examples in {self.folder.path})"

    def __getstate__(self) -> dict[str, Any]:
        """Return what another process needs: it maps the shards anew."""
        return {**self.__dict__, "_open": OrderedDict()}

    def __len__(self) -> int:
        return len(self._rows)

    @overload
    def __getitem__(self, item: int) -> Example: ...
    @overload
    def __getitem__(self, item: slice) -> ShardedExamples: ...
    def __getitem__(self, item: int | slice) -> Example | ShardedExamples:
        """Return an example, or a lazy sequence of some."""
        if isinstance(item, slice):
            return self._some(self._rows[item])
        row = int(self._rows[item])
        number = int(np.searchsorted(self._starts, row, side="right"))
        return self._shard(number)[row - int(self._starts[number - 1])]

    def __iter__(self) -> Iterator[Example]:
        return (self[k] for k in range(len(self)))

    def take(self, rows: Tensor) -> ShardedExamples:
        """Return a lazy sequence of the examples of some numbers."""
        return self._some(self._rows[rows.numpy()])

    def _some(self, rows: Array) -> ShardedExamples:
        some = ShardedExamples(self.folder, rows)
        some._open, some._checked = self._open, self._checked
        return some

    def _shard(self, number: int) -> Shard:
        """Return a shard; its checksum is compared when it is first used."""
        shard = self._open.get(number)
        if shard is None:
            checksum = None
            if number not in self._checked:
                checksum = str(self.folder.receipt(number).get("checksum"))
            shard = self._open[number] = Shard(self.folder.file(number), checksum)
            self._checked.add(number)
        self._open.move_to_end(number)
        if len(self._open) > _MOST_OPEN:
            self._open.popitem(last=False)
        return shard

    def whole_targets(self) -> Tensor:
        """Return the targets of whole structures, [examples, ...], without the examples."""
        every = range(1, self.folder.num_shards + 1)
        return torch.cat([self._shard(number).whole_targets() for number in every])[
            torch.from_numpy(self._rows)
        ]

    def fingerprint(self) -> bytes:
        """Return bytes that change with any example, by the checksums of the shards."""
        every = range(1, self.folder.num_shards + 1)
        checksums = [str(self.folder.receipt(number)["checksum"]) for number in every]
        return " ".join(checksums).encode() + self._rows.tobytes()
