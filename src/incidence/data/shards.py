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
from functools import cached_property, lru_cache
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
from incidence.structure.collate import collate, register_reader
from incidence.structure.data import Array
from incidence.structure.example import Example, Target
from incidence.structure.storage import array_header, write_arrays
from incidence.structure.structure import Structure

__all__ = ["Shard", "ShardFolder", "ShardedExamples", "digest_of", "write_shard"]

_MOST_OPEN = 256  # shards that are mapped at once: each needs a file that is open
_CHUNK = 1 << 20  # bytes to compare at once
# what a file may raise that is no shard, or that somebody changed together with its checksum
_DAMAGE = (
    *(ValueError, LookupError, TypeError, AttributeError, OSError, StopIteration),
    zipfile.BadZipFile,
)
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
        file = self.file(number)
        again = f"Write shard {number}/{self.num_shards} again with `incidence prepare`"
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


class _ShardTensor(NamedTuple):
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


class _Index(NamedTuple):
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
        if checksum is not None and _checksum(path) != checksum:
            raise self.damage("its checksum is not the one that was written with it")
        try:
            self._take_arrays(_mapped(path))
        except _DAMAGE as error:
            raise self.damage(" ".join(str(error).split())[:200]) from None

    def _take_arrays(self, arrays: Mapping[str, Any]) -> None:
        self.nodes = {key[6:]: arrays[key] for key in sorted(arrays) if key.startswith("nodes/")}
        self.num_examples = len(next(iter(self.nodes.values()))) - 1
        self.index = [_index(arrays, k) for k in range(_count(arrays, "tensor", "pattern"))]
        self.features = self._rows(arrays, "feature")
        self.targets = self._rows(arrays, "target")
        self.target_kind = str(arrays["target"])

    def damage(self, what: str) -> IncidenceError:
        """Return the error for a damaged file."""
        return IncidenceError(
            f"{self.path} is damaged: {what}. Delete it, and prepare it again with the same"
            " options."
        )

    def _rows(self, arrays: Mapping[str, Any], what: str) -> list[_ShardTensor]:
        rows = []
        for number in range(_count(arrays, what, "key")):
            place = f"{what}/{number}"
            key, dtype = str(arrays[f"{place}/key"]), getattr(torch, str(arrays[f"{place}/type"]))
            if not isinstance(dtype, torch.dtype):
                raise ValueError(f"{place} is no tensor")
            shape = tuple(arrays[f"{place}/shape"].tolist()[1:])
            # a target of whole structures has a row for every example
            ptr = arrays.get(f"{place}/ptr", np.arange(self.num_examples + 1))
            rows.append(_ShardTensor(key, dtype, shape, arrays[f"{place}/bytes"], ptr))
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


def _index(arrays: Mapping[str, Any], number: int) -> _Index:
    place = f"tensor/{number}"
    parts: list[Array] = []
    ptrs: list[Array] = []
    while (key := f"{place}/{len(parts)}") in arrays:
        ptrs.append(arrays[f"{place}/ptr/{len(parts)}" if parts else f"{place}/ptr"])
        parts.append(arrays[key])
    return _Index(_parsed(str(arrays[f"{place}/pattern"])), parts, ptrs)


class _Gathering:
    """Puts examples of shards side by side, as `collate` does, without making each of them.

    Args:
        chosen: The shard and the number of every example.

    Raises:
        IncidenceError: Shards do not fit together, or have numbers that no example has.
    """

    def __init__(self, chosen: Sequence[tuple[Shard, int]]) -> None:
        self.chosen, self.first = chosen, chosen[0][0]
        for shard in {id(shard): shard for shard, _ in chosen}.values():
            if shard.layout != self.first.layout:
                raise shard.damage(f"it has other tensors than {self.first.path}")
        self.node_ptr, self.node_shifts = {}, {}
        for sort in self.first.nodes:
            ptr, shift = self._moved([shard.nodes[sort] for shard, _ in chosen])
            self.node_ptr[sort], self.node_shifts[sort] = torch.from_numpy(ptr), shift

    def batch(self) -> Example:
        """Return the batch."""
        index, entry_ptr = {}, {}
        for place, one in enumerate(self.first.index):
            ptr, shift = self._moved([shard.index[place].ptrs[0] for shard, _ in self.chosen])
            index[one.pattern] = self._parts(place, one, shift, int(ptr[-1]))
            entry_ptr[one.pattern] = torch.from_numpy(ptr)
        structure = Structure._of(self.node_ptr, index, entry_ptr)
        features = self._joined("features")
        try:
            return Example(structure, features, self._target(), is_batch=True)
        except IncidenceError as error:
            raise self.first.damage(str(error).rstrip(".")) from None

    def _moved(self, ptrs: Sequence[Array]) -> tuple[Array, Array]:
        """Return where the things of every example start in a batch, and how far they have moved.

        Returns:
            The starts with the end, [examples + 1], and the distances, [examples].
        """
        pairs = zip(ptrs, self.chosen, strict=True)
        spans = np.array([ptr[number : number + 2] for ptr, (_, number) in pairs])
        lengths = spans[:, 1] - spans[:, 0]
        if (lengths < 0).any():
            raise self.first.damage("an example ends before it starts")
        ptr = _ptr(lengths)
        return ptr, ptr[:-1] - spans[:, 0]

    def _parts(self, place: int, one: _Index, shift: Array, entries: int) -> tuple[Tensor, ...]:
        """Return the index of a pattern, with nodes and entries numbered through the batch."""
        parts = []
        bounds = self._bounds(one.pattern, entries)
        for k, move in enumerate(shifts_of(one.pattern, self.node_shifts, shift)):
            pieces = [shard.index[place].columns(k, number) for shard, number in self.chosen]
            lengths = [piece.shape[1] for piece in pieces]
            part = np.concatenate(pieces, axis=1) + np.repeat(move, lengths, axis=1)
            # kernels trust what they get
            is_outside = part.size and (part.min() < 0 or (part.max(1) >= bounds[k]).any())
            if is_outside or (not k and len(part) and part.shape[1] != entries):
                raise self.first.damage(f"`{one.pattern}` has nodes that its examples have not")
            parts.append(torch.from_numpy(part))
        return tuple(parts)

    def _bounds(self, pattern: Pattern, entries: int) -> list[Array]:
        """Return how many nodes or entries there are, for every row of every part."""
        counts = {sort: int(ptr[-1]) for sort, ptr in self.node_ptr.items()}
        bounds = [np.array([counts[pattern.sorts[x]] for x in pattern.fixed_letters])]
        for face in pattern.faces:
            if face.is_open:
                bounds.append(np.array([counts[face.letters[0].sort], entries]))
        return bounds

    def _joined(self, what: str) -> dict[str, Tensor]:
        tensors = {}
        for k, one in enumerate(getattr(self.first, what)):
            raw = [getattr(shard, what)[k].of(number) for shard, number in self.chosen]
            tensors[one.key] = one.tensor(np.concatenate(raw))
        return tensors

    def _target(self) -> Target:
        if self.first.target_kind == "none":
            return None
        targets = self._joined("targets")
        return targets if self.first.target_kind == "entries" else targets[""]


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
        batch = self._batch(self._rows[[item]])
        target = batch.target
        if isinstance(target, Tensor):
            target = target[0]
        return Example._of(batch.structure, batch.features, target, False)

    def __getitems__(self, numbers: list[int]) -> ShardedExamples:
        """Return a lazy sequence of some examples; loaders of torch call this."""
        return self.take(numbers)

    def batch(self) -> Example:
        """Return all examples side by side, as `collate` does."""
        return self._batch(self._rows)

    def _batch(self, rows: Array) -> Example:
        numbers = np.searchsorted(self._starts, rows, side="right")  # of shards, from 1
        places = (rows - self._starts[numbers - 1]).tolist()
        shards = {number: self._shard(number) for number in set(numbers.tolist())}
        chosen = [shards[number] for number in numbers.tolist()]
        return _Gathering(list(zip(chosen, places, strict=True))).batch()

    def __iter__(self) -> Iterator[Example]:
        return (self[k] for k in range(len(self)))

    def take(self, rows: Tensor | list[int]) -> ShardedExamples:
        """Return a lazy sequence of the examples of some numbers."""
        return self._some(self._rows[torch.as_tensor(rows, dtype=torch.long).numpy()])

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
        checksums = [str(self.folder.receipt(number).get("checksum")) for number in every]
        return " ".join(checksums).encode() + self._rows.tobytes()


def _collated(items: list[Any]) -> Example:
    """Return a batch of lazy examples; several sequences of them are put side by side."""
    batches = [one.batch() if isinstance(one, ShardedExamples) else one for one in items]
    return batches[0] if len(batches) == 1 else collate(batches)


register_reader(lambda kind: issubclass(kind, ShardedExamples), _collated)
