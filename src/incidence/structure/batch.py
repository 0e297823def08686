"""Batches: structures side by side, and back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from operator import index as index_of
from typing import Any

import torch
from torch import Tensor

from incidence.algebra.pattern import Pattern
from incidence.errors import IncidenceError
from incidence.structure.entries import count_entries
from incidence.structure.keys import ranges
from incidence.structure.plan import collate_plans
from incidence.structure.structure import Structure
from incidence.structure.validate import as_rows

__all__ = ["collate", "numbers", "take", "uncollate"]


def collate(structures: Sequence[Structure]) -> Structure:
    """Puts structures side by side into one: nodes and entries are numbered through; batches collate again.

    Plans that every structure has are carried over by shifting their numbers.

    Raises:
        IncidenceError: There is none, or they differ in sorts, tensors or devices.
    """
    if not isinstance(structures, Iterable):
        raise IncidenceError(f"collate takes a list of structures; got {structures!r}.")
    structures = list(structures)
    if not structures:
        raise IncidenceError("collate needs at least one structure; got an empty list.")
    for number, s in enumerate(structures):
        if not isinstance(s, Structure):
            raise IncidenceError(f"collate takes structures; number {number} is a {type(s).__name__}.")
        _assert_alike(structures[0], s, number)
    first = structures[0]
    node_ptr = {sort: _join_ptr([s._node_ptr[sort] for s in structures]) for sort in first._node_ptr}
    index, entry_ptr = {}, {}
    for pattern in first._index:
        parts = [_spelt(s, pattern) for s in structures]
        entry_ptr[pattern] = _join_ptr([s._entry_ptr[pattern] for s in structures])
        index[pattern] = _join_index(pattern, parts, structures)
    batch = Structure._of(node_ptr, index, entry_ptr)
    for equivariant_map in first._plans:
        if all(equivariant_map in s._plans for s in structures):
            plans = [s._plans[equivariant_map] for s in structures]
            batch._plans[equivariant_map] = collate_plans(equivariant_map, plans, structures)
    return batch


def _assert_alike(first: Structure, other: Structure, number: int) -> None:
    if set(first._node_ptr) != set(other._node_ptr):
        one, two = sorted(first._node_ptr), sorted(other._node_ptr)
        raise IncidenceError(f"structures of a batch have the same sorts; number 0 has {one} and number {number} has {two}.")
    if set(first._index) != set(other._index):
        pattern = min(set(first._index) ^ set(other._index), key=str)
        has, lacks = (0, number) if pattern in first._index else (number, 0)
        raise IncidenceError(
            f"structures of a batch have the same tensors; number {has} has `{pattern}` and number {lacks} has not. "
            f"Give it an empty index there."
        )
    if first.device != other.device:
        raise IncidenceError(f"structures of a batch are on one device; number 0 is on {first.device}, number {number} on {other.device}.")


def _spelt(structure: Structure, pattern: Pattern) -> tuple[Tensor, ...]:
    """The index of a tensor in the letters of a pattern, which may be spelt in other letters here."""
    known = structure._spelling.get(pattern)
    return structure._index[pattern] if known == str(pattern) else structure.index(pattern)


def _join_ptr(ptrs: Sequence[Tensor]) -> Tensor:
    return ranges(torch.cat([ptr.diff() for ptr in ptrs]))


def _join_index(pattern: Pattern, parts: Sequence[tuple[Tensor, ...]], structures: Sequence[Structure]) -> tuple[Tensor, ...]:
    device = structures[0].device
    nodes = {sort: _starts([s.counts[sort] for s in structures]) for sort in structures[0].counts}
    entries = _starts([count_entries(pattern, own) for own in parts])
    letters = torch.cat([own[0] for own in parts], dim=1)
    if pattern.fixed_letters:
        which = _which([own[0].shape[1] for own in parts])
        letters = letters + torch.stack([nodes[pattern.sorts[x]][which] for x in pattern.fixed_letters]).to(device)
    members = []
    for place, face in enumerate((face for face in pattern.faces if face.is_open), 1):
        which = _which([own[place].shape[1] for own in parts])
        by = torch.stack([nodes[face.letters[0].sort][which], entries[which]]).to(device)
        members.append(torch.cat([own[place] for own in parts], dim=1) + by)
    return letters, *members


def _starts(counts: Sequence[int]) -> Tensor:
    sizes = torch.tensor(counts)
    return sizes.cumsum(0) - sizes


def _which(lengths: Sequence[int]) -> Tensor:
    """The number of the structure of every column."""
    return torch.repeat_interleave(torch.arange(len(lengths)), torch.tensor(lengths))


def uncollate(batch: Structure) -> list[Structure]:
    """The structures of a batch, each on its own."""
    if not isinstance(batch, Structure):
        raise IncidenceError(f"uncollate takes a structure; got {type(batch).__name__}.")
    members = {p: [_by_structure(pairs, batch._entry_ptr[p]) for pairs in parts[1:]] for p, parts in batch._index.items()}
    return [_one(batch, k, members) for k in range(batch.num_structures)]


def _by_structure(pairs: Tensor, entry_ptr: Tensor) -> tuple[Tensor, ...]:
    """The members of open faces, structure by structure: all at once, where `_one` would look through all of them for each."""
    home = torch.bucketize(pairs[1].contiguous(), entry_ptr[1:], right=True)
    counts = torch.bincount(home, minlength=len(entry_ptr) - 1).tolist()
    grouped: tuple[Tensor, ...] = pairs[:, home.sort(stable=True)[1]].split(counts, dim=1)
    return grouped


def take(batch: Structure, item: Any) -> Structure:
    """One structure of a batch, or a smaller batch by slice, mask or list of numbers."""
    chosen = numbers(batch, item)
    return _one(batch, chosen) if isinstance(chosen, int) else collate([_one(batch, k) for k in chosen])


def numbers(batch: Structure, item: Any) -> int | list[int]:
    """The number of one structure of a batch, or the numbers that a slice, mask or list means."""
    if isinstance(item, slice):
        found = list(range(batch.num_structures)[item])
    elif isinstance(item, bool) or item is None:
        raise IncidenceError(f"a structure is indexed by pattern or number; got {item!r}.")
    elif hasattr(item, "__index__") and not getattr(item, "ndim", 0):
        return _in_range(batch, index_of(item))
    else:
        rows = as_rows(item, torch.device("cpu"))
        if rows.ndim != 1 or rows.is_floating_point() or (rows.dtype == torch.bool and len(rows) != batch.num_structures):
            raise IncidenceError(f"structures are indexed by numbers, or a mask of all {batch.num_structures}; got {item!r}.")
        found = rows.nonzero()[:, 0].tolist() if rows.dtype == torch.bool else rows.tolist()
    if not found:
        raise IncidenceError("a batch has at least one structure; the selection is empty.")
    return [_in_range(batch, k) for k in found]


def _in_range(batch: Structure, k: int) -> int:
    try:
        return range(batch.num_structures)[k]
    except IndexError:
        raise IndexError(f"structure {k} of a batch of {batch.num_structures}") from None


def _one(batch: Structure, k: int, members_of: Mapping[Pattern, Sequence[Sequence[Tensor]]] | None = None) -> Structure:
    def start(ptr: Tensor) -> int:
        return int(ptr[k])

    def size(ptr: Tensor) -> int:
        return int(ptr[k + 1] - ptr[k])

    node_ptr = {sort: torch.tensor([0, size(ptr)], device=batch.device) for sort, ptr in batch._node_ptr.items()}
    shift = {sort: start(ptr) for sort, ptr in batch._node_ptr.items()}
    index, entry_ptr = {}, {}
    for pattern, parts in batch._index.items():
        ptr = batch._entry_ptr[pattern]
        entry_ptr[pattern] = torch.tensor([0, size(ptr)], device=batch.device)
        by = torch.tensor([shift[pattern.sorts[x]] for x in pattern.fixed_letters], dtype=torch.long, device=batch.device)
        letters = parts[0][:, start(ptr) : start(ptr) + size(ptr)] - by[:, None] if pattern.fixed_letters else parts[0]
        members = []
        for place, face in enumerate(f for f in pattern.faces if f.is_open):
            own = members_of[pattern][place][k] if members_of else _own(parts[1 + place], start(ptr), size(ptr))
            members.append(own - torch.tensor([[shift[face.letters[0].sort]], [start(ptr)]], device=batch.device))
        index[pattern] = (letters, *members)
    return Structure._of(node_ptr, index, entry_ptr)


def _own(pairs: Tensor, start: int, size: int) -> Tensor:
    return pairs[:, (pairs[1] >= start) & (pairs[1] < start + size)]
