"""Batches: structures side by side, and back."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from operator import index as index_of
from typing import Any, NamedTuple, TypeVar

import numpy as np
import torch
from torch import Tensor

from incidence.algebra.pattern import Pattern
from incidence.errors import IncidenceError
from incidence.structure.data import Array, IndexData, Origin, StructureData, cache_of
from incidence.structure.ragged import spans, starts_of
from incidence.structure.validate import as_rows

__all__ = ["collate", "cut", "numbers", "pack", "take", "uncollate"]

S = TypeVar("S", bound=StructureData)


def collate(structures: Sequence[S]) -> S:
    """Puts structures side by side into one: nodes and entries are numbered through; batches collate again.

    Plans that every structure has are carried over by shifting their numbers. Structures that were packed together are taken from
    their store, which is faster.

    Raises:
        IncidenceError: There is none, or they differ in sorts, tensors or devices.
    """
    structures = _as_list(structures)
    store = _common_store(structures)
    if store is not None:
        places = chain.from_iterable(
            s._origin.numbers
            for s in structures
            if s._origin is not None and s._origin.numbers is not None
        )
        return _ranges_of(store, np.fromiter(places, np.int64), is_packed=True)
    _assert_alike(structures)
    first = structures[0]
    nodes = {sort: [s._lengths_of(sort) for s in structures] for sort in first.counts}
    entries = {p: [s._lengths_of(p) for s in structures] for p in first.patterns}
    starts = {
        sort: starts_of(np.array([int(each.sum()) for each in lengths]))
        for sort, lengths in nodes.items()
    }
    index = {}
    for pattern in first.patterns:
        spelling = str(pattern)
        index[pattern] = _join_index(
            pattern,
            [_in_spelling(s, pattern, spelling) for s in structures],
            starts,
            entries[pattern],
        )
    node_ptr = {
        sort: _ptr(np.concatenate(lengths), first.device) for sort, lengths in nodes.items()
    }
    entry_ptr = {p: _ptr(np.concatenate(lengths), first.device) for p, lengths in entries.items()}
    return first._of(node_ptr, index, entry_ptr, Origin(structures))


def _common_store(structures: Sequence[S]) -> S | None:
    """The store that all structures were packed in, if there is one."""
    origins = [s._origin for s in structures]
    if any(origin is None or origin.numbers is None for origin in origins):
        return None
    stores: list[Any] = [origin.sources[0] for origin in origins if origin is not None]
    return stores[0] if all(store is stores[0] for store in stores) else None


def _in_spelling(structure: StructureData, pattern: Pattern, spelling: str) -> tuple[Tensor, ...]:
    """The index of a tensor in the letters of a pattern, which may be spelt in other letters here."""
    return (
        structure._index[pattern]
        if structure._spelling.get(pattern) == spelling
        else structure.index(pattern)
    )


def pack(structures: Sequence[S]) -> list[S]:
    """The same structures, kept together in one store; see `examples.pack`."""
    structures = _as_list(structures)
    store, first, members = collate(structures), 0, []
    for s in structures:
        numbers = range(first, first + s.num_structures)
        members.append(s._of(s._node_ptr, s._index, s._entry_ptr, Origin([store], numbers)))
        first += s.num_structures
    return members


def _as_list(structures: Iterable[S]) -> list[S]:
    if not isinstance(structures, Iterable):
        raise IncidenceError(f"collate takes a list of structures; got {structures!r}.")
    listed = list(structures)
    if not listed:
        raise IncidenceError("collate needs at least one structure; got an empty list.")
    if not all(issubclass(kind, StructureData) for kind in set(map(type, listed))):
        number, other = next(
            (number, s) for number, s in enumerate(listed) if not isinstance(s, StructureData)
        )
        raise IncidenceError(
            f"collate takes structures; number {number} is a {type(other).__name__}."
        )
    return listed


def _assert_alike(structures: Sequence[StructureData]) -> None:
    first = structures[0]
    for number, other in enumerate(structures):
        if _kind(other) == _kind(first):
            continue
        if set(first.counts) != set(other.counts):
            one, two = sorted(first.counts), sorted(other.counts)
            raise IncidenceError(
                f"structures of a batch have the same sorts; number 0 has {one} and number {number} has {two}."
            )
        different = set(first.patterns) ^ set(other.patterns)
        if different:
            pattern = min(different, key=str)
            has, lacks = (0, number) if pattern in first.patterns else (number, 0)
            raise IncidenceError(
                f"structures of a batch have the same tensors; number {has} has `{pattern}` and number {lacks} has not. "
                f"Give it an empty index there."
            )
        if first.device != other.device:
            where = f"number 0 is on {first.device}, number {number} on {other.device}"
            raise IncidenceError(f"structures of a batch are on one device; {where}.")


class _Kind(NamedTuple):
    """Structures of one kind make a batch: sorts, tensors as they are spelt, and the device."""

    sorts: tuple[str, ...]
    tensors: tuple[str, ...]
    device: torch.device


def _kind(structure: StructureData) -> _Kind:
    cache = cache_of(structure, _Kind)
    if () not in cache:
        cache[()] = _Kind(
            tuple(sorted(structure._node_ptr)),
            tuple(sorted(structure._spelling.values())),
            structure.device,
        )
    return cache[()]


def _ptr(lengths: Array, device: torch.device) -> Tensor:
    ptr = np.zeros(len(lengths) + 1, dtype=np.int64)
    lengths.cumsum(out=ptr[1:])
    return torch.from_numpy(ptr).to(device)


def _join_index(
    pattern: Pattern,
    parts: Sequence[tuple[Tensor, ...]],
    starts: dict[str, Array],
    entries: Sequence[Array],
) -> tuple[Tensor, ...]:
    """The index of a tensor: nodes are shifted by those before, and with open faces entries too."""
    joined = [torch.cat([part[place] for part in parts], dim=1) for place in range(len(parts[0]))]
    before = starts_of(np.array([int(each.sum()) for each in entries]))
    shifts = _shifts(pattern, starts, before)
    return tuple(
        whole + _repeat(shift, [part[place].shape[1] for part in parts], whole.device)
        for place, (whole, shift) in enumerate(zip(joined, shifts, strict=True))
    )


def _shifts(pattern: Pattern, nodes: dict[str, Array], entries: Array) -> list[Array]:
    """For every part of an index, what is added to its rows, shape (rows, structures)."""
    letters = [nodes[pattern.sorts[x]] for x in pattern.fixed_letters]
    members = [[nodes[face.letters[0].sort], entries] for face in pattern.faces if face.is_open]
    return [
        np.stack(rows) if rows else np.zeros((0, len(entries)), dtype=np.int64)
        for rows in (letters, *members)
    ]


def _repeat(table: Array, lengths: Sequence[int] | Array, device: torch.device) -> Tensor:
    return torch.from_numpy(np.repeat(table, lengths, axis=1)).to(device)


class _Lengths(NamedTuple):
    """How many nodes of each sort, then entries of each pattern, the structures of a batch have; shape (sorts and patterns, structures)."""

    table: Array


def _length_table(batch: StructureData) -> Array:
    cache = cache_of(batch, _Lengths)
    if () not in cache:
        sorts, patterns = (
            map(batch._lengths_of, batch._node_ptr),
            map(batch._lengths_of, batch._index),
        )
        cache[()] = _Lengths(np.stack([*sorts, *patterns]))
    return cache[()].table


def _ranges_of(batch: S, numbers: Array, is_packed: bool = False) -> S:
    """Some structures of a batch, by ranges of its index."""
    index = _Index(batch, numbers)
    return (
        _some(batch, numbers, index, Origin([batch], numbers))
        if is_packed
        else _some(batch, numbers, dict(index))
    )


def _some(batch: S, numbers: Array, index: IndexData, origin: Origin | None = None) -> S:
    """Some structures of a batch, whose index is known."""
    counted: tuple[str | Pattern, ...] = (*batch.counts, *batch.patterns)
    lengths = _length_table(batch).take(numbers, axis=1)
    starts = np.zeros((len(lengths), len(numbers) + 1), dtype=np.int64)
    lengths.cumsum(axis=1, out=starts[:, 1:])
    rows = torch.from_numpy(starts).to(batch.device).unbind()
    node_ptr = dict(zip(batch.counts, rows, strict=False))
    entry_ptr = dict(zip(batch.patterns, rows[len(node_ptr) :], strict=True))
    chosen = batch._of(node_ptr, index, entry_ptr, origin)
    chosen._lengths.update(zip(counted, lengths, strict=True))
    return chosen


class _Pieces(NamedTuple):
    """A part of an index by structure, and how many columns each has: entries for letters, incidences for an open face."""

    part: Tensor
    lengths: Array


def _pieces(batch: StructureData, pattern: Pattern, place: int) -> _Pieces:
    part = batch._index[pattern][place]
    if place == 0:  # a lone open face has no letters
        return _Pieces(part, batch._lengths_of(pattern) * (part.shape[0] > 0))
    cache = cache_of(batch, _Pieces)
    if (pattern, place) not in cache:
        number, order = batch.batch(pattern)[part[1]].sort(stable=True)
        cache[pattern, place] = _Pieces(
            part[:, order], torch.bincount(number, minlength=batch.num_structures).cpu().numpy()
        )
    return cache[pattern, place]


class _Index(Mapping[Pattern, tuple[Tensor, ...]]):
    """The index of some structures of a batch, made when it is asked for: plans of packed structures are made without."""

    def __init__(self, batch: StructureData, numbers: Array) -> None:
        self._batch, self._numbers = batch, numbers
        self._made: dict[Pattern, tuple[Tensor, ...]] = {}

    def __iter__(self) -> Iterator[Pattern]:
        return iter(self._batch._index)

    def __len__(self) -> int:
        return len(self._batch._index)

    def __contains__(self, pattern: object) -> bool:
        return pattern in self._batch._index

    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
        return dict, (dict(self),)

    def __getitem__(self, pattern: Pattern) -> tuple[Tensor, ...]:
        if pattern not in self._made:
            self._made[pattern] = self._make(next(p for p in self if p == pattern))
        return self._made[pattern]

    @torch.inference_mode(False)
    def _make(self, pattern: Pattern) -> tuple[Tensor, ...]:
        batch, numbers = self._batch, self._numbers
        nodes = {sort: self._shift(sort) for sort in batch.counts}
        parts = []
        for place, by in enumerate(_shifts(pattern, nodes, self._shift(pattern))):
            whole, pieces = _pieces(batch, pattern, place)
            columns = torch.from_numpy(spans(starts_of(pieces)[numbers], pieces[numbers])).to(
                batch.device
            )
            moved = _repeat(by, pieces[numbers], batch.device)
            parts.append(
                (whole.index_select(1, columns) if len(whole) else whole[:, columns]) + moved
            )
        return tuple(parts)

    def _shift(self, what: str | Pattern) -> Array:
        """How far the nodes of a sort, or the entries of a pattern, have moved."""
        lengths = self._batch._lengths_of(what)
        return starts_of(lengths[self._numbers]) - starts_of(lengths)[self._numbers]


def uncollate(batch: S) -> list[S]:
    """The structures of a batch, each on its own."""
    if not isinstance(batch, StructureData):
        raise IncidenceError(f"uncollate takes a structure; got {type(batch).__name__}.")
    parts = {pattern: _cut(batch, pattern) for pattern in batch.patterns}
    return [
        _some(batch, np.array([k]), {p: each[k] for p, each in parts.items()})
        for k in range(batch.num_structures)
    ]


@torch.inference_mode(False)
def _cut(batch: StructureData, pattern: Pattern) -> list[tuple[Tensor, ...]]:
    """The index of a tensor for every structure on its own: moved as a whole, then cut, which is faster than one by one."""
    nodes = {sort: -starts_of(batch._lengths_of(sort)) for sort in batch.counts}
    places = []
    for place, by in enumerate(_shifts(pattern, nodes, -starts_of(batch._lengths_of(pattern)))):
        whole, pieces = _pieces(batch, pattern, place)
        places.append(
            cut(whole[:, : int(pieces.sum())] + _repeat(by, pieces, batch.device), pieces, dim=1)
        )
    return list(zip(*places, strict=True))


def cut(whole: Tensor, lengths: Array, dim: int = 0) -> list[Tensor]:
    """The parts of a tensor, each with memory of its own: one that is saved, or sent elsewhere, does not take the whole along."""
    return [
        part.clone(memory_format=torch.contiguous_format)
        for part in whole.split(lengths.tolist(), dim)
    ]


def take(batch: S, item: Any) -> S:
    """One structure of a batch, or a smaller batch by slice, mask or list of numbers."""
    chosen = numbers(batch, item)
    return _ranges_of(batch, np.atleast_1d(chosen))


def numbers(batch: StructureData, item: Any) -> int | list[int]:
    """The number of one structure of a batch, or the numbers that a slice, mask or list means."""
    if isinstance(item, slice):
        found = list(range(batch.num_structures)[item])
    elif isinstance(item, bool) or item is None:
        raise IncidenceError(f"a structure is indexed by pattern or number; got {item!r}.")
    elif hasattr(item, "__index__") and not getattr(item, "ndim", 0):
        return _in_range(batch, index_of(item))
    else:
        rows = as_rows(item, torch.device("cpu"))
        if (
            rows.ndim != 1
            or rows.is_floating_point()
            or (rows.dtype == torch.bool and len(rows) != batch.num_structures)
        ):
            raise IncidenceError(
                f"structures are indexed by numbers, or a mask of all {batch.num_structures}; got {item!r}."
            )
        found = rows.nonzero()[:, 0].tolist() if rows.dtype == torch.bool else rows.tolist()
    if not found:
        raise IncidenceError("a batch has at least one structure; the selection is empty.")
    return [_in_range(batch, k) for k in found]


def _in_range(batch: StructureData, k: int) -> int:
    try:
        return range(batch.num_structures)[k]
    except IndexError:
        raise IndexError(f"structure {k} of a batch of {batch.num_structures}") from None
