"""Structures, or examples, side by side in one batch, and apart again."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from itertools import chain
from operator import attrgetter
from typing import Any, NamedTuple, TypeVar, overload

import numpy as np
import torch
from torch import Tensor

from incidence.algebra.pattern import Pattern
from incidence.errors import IncidenceError
from incidence.structure import batch as batches
from incidence.structure.batch import repeat_columns, shifts_of
from incidence.structure.data import Array, Origin, StructureData, cache_of
from incidence.structure.example import Example, Target
from incidence.structure.ragged import starts_of
from incidence.structure.structure import Structure

__all__ = ["collate", "pack", "register_reader", "uncollate"]

S = TypeVar("S", bound=StructureData)

_DTYPE = attrgetter("dtype")

Takes = Callable[[type], bool]
Read = Callable[[list[Any]], Any]

_READERS: list[tuple[Takes, Read]] = []
"""Functions that collate items of other libraries, each with a test for the types that it takes."""


def register_reader(takes: Takes, read: Read) -> None:
    """Let `collate` take items of another library.

    Args:
        takes: Returns whether a type belongs to that library.
        read: Returns the batch of a list of items, of which at least one has such a type.
    """
    _READERS.append((takes, read))


@overload
def collate(items: Sequence[Structure]) -> Structure: ...
@overload
def collate(items: Sequence[Example]) -> Example: ...
@overload
def collate(items: Sequence[Any]) -> Any: ...
def collate(items: Any) -> Any:
    """Put structures, or examples, side by side into a batch; batches collate again.

    Nodes and entries are numbered through. If all structures have a plan, the batch gets one made
    of these. Structures that were packed together are taken from their store, which is faster.

    The features of examples are joined by rows, and so are targets for the entries of a pattern.
    Targets for whole structures are stacked. A `DataLoader` of torch takes this function as
    `collate_fn`.

    Graphs of PyG are read as `inc.data.load` reads them. A warning says if self-loops were left out
    or parallel edges joined.

    Raises:
        IncidenceError: There is no item, or items differ in sorts, tensors, features, targets or
            devices.

    Example:
        >>> s = Structure(2, {"{i j}": [[0], [1]]})
        >>> collate([s, s])
        Structure(num_structures=2, num_nodes=4, '{i j}': 2 entries)
        >>> collate([Example(s, {"i": torch.zeros(2, 3)}, target=k) for k in (5, 7)]).target
        tensor([5, 7])
    """
    if any(takes(type(items)) for takes, _ in _READERS):
        items = [items]  # a batch of another library, which may iterate over its fields
    items = _as_list(items)
    # Types are few and items are many.
    kinds = set(map(type, items))
    for takes, read in _READERS:
        if any(map(takes, kinds)):
            return read(items)
    if not any(issubclass(kind, Example) for kind in kinds):
        return _collate_structures(_as_structures(items))
    if not all(issubclass(kind, Example) for kind in kinds):
        number = next(k for k, item in enumerate(items) if not isinstance(item, Example))
        raise IncidenceError(
            f"a batch is of examples or of structures; number {number} is a"
            f" {type(items[number]).__name__} among examples."
        )
    batch = _collate_structures([example._structure for example in items])
    features = _join_rows(items, [example._features for example in items], "features")
    return Example._of(batch, features, _join_targets(items), True)


@overload
def pack(items: Sequence[Structure]) -> list[Structure]: ...
@overload
def pack(items: Sequence[Example]) -> list[Example]: ...
def pack(items: Any) -> Any:
    """Return the same structures, or examples, with their structures together in one store.

    Pack the structures of a data set. A batch of packed structures is taken from the store by
    ranges, plans included: one plan is made for all structures, and not one for every batch.

    Example:
        >>> samples = pack([Structure(n, {"(i j)": [[0], [1]]}) for n in (2, 3, 4)])
        >>> collate([samples[2], samples[0]])
        Structure(num_structures=2, num_nodes=6, '(i j)': 2 entries)
    """
    items = _as_list(items)
    if not all(isinstance(item, Example) for item in items):
        return _pack_structures(_as_structures(items))
    packed = _pack_structures([example._structure for example in items])
    return [
        Example._of(structure, example._features, example._target, example._is_batch)
        for structure, example in zip(packed, items, strict=True)
    ]


@overload
def uncollate(batch: Structure) -> list[Structure]: ...
@overload
def uncollate(batch: Example) -> list[Example]: ...
def uncollate(batch: Any) -> Any:
    """Return the structures, or the examples, of a batch, each on its own."""
    if isinstance(batch, Example):
        return list(batch)
    if not isinstance(batch, StructureData):
        raise IncidenceError(f"uncollate takes a structure; got {type(batch).__name__}.")
    return batches.uncollate(batch)


def _as_list(items: object) -> list[Any]:
    if not isinstance(items, Iterable):
        raise IncidenceError(f"collate takes a list of structures; got {items!r}.")
    listed = list(items)
    if not listed:
        raise IncidenceError("collate needs at least one structure; got an empty list.")
    return listed


def _as_structures(items: list[Any]) -> list[Structure]:
    if not all(issubclass(kind, StructureData) for kind in set(map(type, items))):
        number = next(k for k, item in enumerate(items) if not isinstance(item, StructureData))
        raise IncidenceError(
            f"collate takes structures; number {number} is a {type(items[number]).__name__}."
        )
    return items


def _pack_structures(structures: Sequence[S]) -> list[S]:
    store, first, members = _collate_structures(structures), 0, []
    for s in structures:
        stop = first + s.num_structures
        origin = Origin([store], range(first, stop))
        members.append(s._of(s._node_ptr, s._index, s._entry_ptr, origin))
        first = stop  # structures of a batch are packed one by one
    return members


def _collate_structures(structures: Sequence[S]) -> S:
    origins = [s._origin for s in structures]
    store: S | None = _common_store(origins)
    if store is not None:
        numbers = chain.from_iterable(o.numbers for o in origins if o and o.numbers is not None)
        # One gathering instead of as many as there are tensors and structures.
        return batches.take(store, np.fromiter(numbers, np.int64), is_packed=True)
    _assert_alike(structures)
    first = structures[0]
    nodes = {sort: [s._lengths_of(sort) for s in structures] for sort in first.counts}
    entries = {p: [s._lengths_of(p) for s in structures] for p in first.patterns}
    starts = {sort: _starts(lengths) for sort, lengths in nodes.items()}  # (items,) for every sort
    index = {p: _join_index(p, structures, starts, _starts(entries[p])) for p in first.patterns}
    node_ptr = {sort: _ptr(lengths, first.device) for sort, lengths in nodes.items()}
    entry_ptr = {p: _ptr(lengths, first.device) for p, lengths in entries.items()}
    return first._of(node_ptr, index, entry_ptr, Origin(structures))


def _common_store(origins: Sequence[Origin | None]) -> Any:
    """Return the store in which all structures were packed, or None if there is none."""
    store = None
    for origin in origins:
        if origin is None or origin.numbers is None:
            return None
        if store is not None and origin.sources[0] is not store:
            return None
        store = origin.sources[0]
    return store


def _starts(lengths: Sequence[Array]) -> Array:
    """Return where the nodes, or entries, of each item start in the batch."""
    return starts_of(np.array([int(each.sum()) for each in lengths]))


def _ptr(lengths: Sequence[Array], device: torch.device) -> Tensor:
    joined = np.concatenate(lengths)  # (structures,)
    ptr = np.zeros(len(joined) + 1, dtype=np.int64)
    joined.cumsum(out=ptr[1:])
    return torch.from_numpy(ptr).to(device)


def _join_index(
    pattern: Pattern, structures: Sequence[StructureData], nodes: dict[str, Array], entries: Array
) -> tuple[Tensor, ...]:
    """Return the index of a tensor, with nodes and entries shifted by those of earlier items."""
    # Most structures of a dataset spell their patterns alike, and need no renaming of letters.
    spelling = str(pattern)
    parts = [
        s._index[pattern] if s._spelling.get(pattern) == spelling else s.index(pattern)
        for s in structures
    ]
    joined = []
    for pieces, shift in zip(
        zip(*parts, strict=True), shifts_of(pattern, nodes, entries), strict=True
    ):
        lengths = np.array([piece.shape[1] for piece in pieces])  # (items,)
        whole = torch.cat(pieces, dim=1)  # (rows, columns of all items)
        joined.append(whole + repeat_columns(shift, lengths, whole.device))
    return tuple(joined)


class _Kind(NamedTuple):
    """The properties in which the structures of a batch must agree."""

    sorts: tuple[str, ...]
    tensors: tuple[str, ...]
    device: torch.device


def _kind(structure: StructureData) -> _Kind:
    cache: dict[None, _Kind] = cache_of(structure, "kind")
    if None not in cache:
        spellings = structure._spelling.values()
        cache[None] = _Kind(
            tuple(sorted(structure._node_ptr)), tuple(sorted(spellings)), structure.device
        )
    return cache[None]


def _assert_alike(structures: Sequence[StructureData]) -> None:
    first = structures[0]
    for number, other in enumerate(structures):
        if _kind(other) == _kind(first):
            continue
        if set(first.counts) != set(other.counts):
            raise IncidenceError(
                f"structures of a batch have the same sorts; number 0 has {sorted(first.counts)}"
                f" and number {number} has {sorted(other.counts)}."
            )
        different = set(first.patterns) ^ set(other.patterns)  # tensors that only one of them has
        if different:
            pattern = min(different, key=str)
            has, lacks = (0, number) if pattern in first.patterns else (number, 0)
            raise IncidenceError(
                f"structures of a batch have the same tensors; number {has} has `{pattern}` and"
                f" number {lacks} has not. Give it an empty index there."
            )
        if first.device != other.device:
            raise IncidenceError(
                f"structures of a batch are on one device; number 0 is on {first.device}, number"
                f" {number} on {other.device}."
            )


def _join_rows(
    examples: Sequence[Example], tensors: Sequence[dict[str, Tensor]], what: str
) -> dict[str, Tensor]:
    spelt = _in_one_spelling(examples, tensors, what)
    return {key: _cat([each[key] for each in spelt], f"{what}[{key!r}]") for key in spelt[0]}


def _in_one_spelling(
    examples: Sequence[Example], tensors: Sequence[dict[str, Tensor]], what: str
) -> Sequence[dict[str, Tensor]]:
    """Return the tensors under the keys of the first example.

    Other examples may use other letters in their keys.
    """
    # The usual case: all examples spell their keys alike.
    if len(set(map(tuple, tensors))) == 1:
        return tensors
    keys = {examples[0]._structure.resolve(key): key for key in tensors[0]}
    spelt = []
    for number, (example, given) in enumerate(zip(examples, tensors, strict=True)):
        by_pattern = example._by_pattern(given)
        if by_pattern.keys() != keys.keys():
            raise IncidenceError(
                f"examples of a batch have the same {what}; number 0 has {sorted(tensors[0])} and"
                f" number {number} has {sorted(given)}."
            )
        spelt.append({key: by_pattern[pattern] for pattern, key in keys.items()})
    return spelt


def _cat(parts: Sequence[Tensor], name: str) -> Tensor:
    types, dimensions = set(map(_DTYPE, parts)), set(map(Tensor.dim, parts))
    if len(types) == len(dimensions) == 1:
        # torch compares all sizes faster; the loop below explains what torch refuses
        with suppress(RuntimeError):
            return torch.cat(list(parts))
    first = parts[0]
    for number, part in enumerate(parts):
        if part.shape[1:] != first.shape[1:] or part.dtype != first.dtype:
            one, other = (
                f"{list(t.shape[1:])} of {str(t.dtype).removeprefix('torch.')}"
                for t in (first, part)
            )
            raise IncidenceError(
                f"{name} has one shape and type throughout a batch; number 0 has rows {one} and"
                f" number {number} {other}."
            )
    return torch.cat(list(parts))


_KINDS_OF_TARGETS: dict[type, str] = {
    Tensor: "one for the whole structure",
    dict: "one for the entries of patterns",
    type(None): "none",
}


def _join_targets(examples: Sequence[Example]) -> Target:
    targets = [example._target for example in examples]
    kinds = [type(target) for target in targets]
    if len(set(kinds)) > 1:
        number = next(k for k, kind in enumerate(kinds) if kind is not kinds[0])
        one, other = (_KINDS_OF_TARGETS.get(kinds[k], "one") for k in (0, number))
        raise IncidenceError(
            f"examples of a batch have targets of one kind; number 0 has {one} and number {number}"
            f" has {other}."
        )
    per_entry = [target for target in targets if isinstance(target, dict)]
    if per_entry:
        return _join_rows(examples, per_entry, "target")
    whole = [target for target in targets if isinstance(target, Tensor)]
    if not whole:
        return None
    if not any(example._is_batch for example in examples) and len(set(map(_DTYPE, whole))) == 1:
        # one call instead of one for every target; `_cat` explains what torch refuses
        with suppress(RuntimeError):
            return torch.stack(whole)
    rows = [
        target if example._is_batch else target[None]  # (structures, ...)
        for example, target in zip(examples, whole, strict=True)
    ]
    return _cat(rows, "the target")
