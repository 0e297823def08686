"""Batches of structures: single structures and smaller batches out of one, by ranges of its index.

A *piece* is the part of an index tensor that belongs to one structure: some of its columns.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np
import torch
from torch import Tensor

from incidence.algebra.pattern import Pattern
from incidence.structure.arguments import as_structures
from incidence.structure.data import Array, IndexData, Origin, StructureData, cache_of
from incidence.structure.ragged import spans, starts_of

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["Batches", "cut", "repeat_columns", "shifts_of", "take", "uncollate"]

S = TypeVar("S", bound=StructureData)


class Batches(StructureData):
    """The methods of a structure that treat it as a batch."""

    def __getitem__(self, item: Any) -> Any:
        """Return the index of a tensor by text or name, or structures by number.

        Args:
            item: A text, a name or a `Pattern`; or the number of a structure, or a slice, mask or
                list of numbers, for a smaller batch.
        """
        if not isinstance(item, (str, Pattern)):
            return take(self, np.atleast_1d(as_structures(self, item)))
        parts, pattern = self.index(item), self.resolve(item)
        if not pattern.is_open:
            return parts[0]
        is_lone = len(parts) == 2 and not pattern.fixed_letters
        return parts[1] if is_lone else parts

    def __len__(self) -> int:
        return self.num_structures

    def __iter__(self) -> Iterator[Self]:
        return (self[k] for k in range(self.num_structures))


def take(batch: S, numbers: Array, is_packed: bool = False) -> S:
    """Return some structures of a batch as a batch.

    Args:
        batch: The batch.
        numbers: The numbers of the structures.
        is_packed: Whether the batch is a store: plans of the result are then made from its plans.
    """
    index = _LazyIndex(batch, numbers)
    if is_packed:
        return _some(batch, numbers, index, Origin([batch], numbers))
    return _some(batch, numbers, dict(index))


def uncollate(batch: S) -> list[S]:
    """Return the structures of a batch, each on its own."""
    parts = {pattern: _cut_index(batch, pattern) for pattern in batch.patterns}
    structures = []
    for k in range(batch.num_structures):
        index = {pattern: pieces[k] for pattern, pieces in parts.items()}
        structures.append(_some(batch, np.array([k]), index))
    return structures


def _some(batch: S, numbers: Array, index: IndexData, origin: Origin | None = None) -> S:
    """Return some structures of a batch from their index."""
    counted: tuple[str | Pattern, ...] = (*batch.counts, *batch.patterns)
    lengths = _length_table(batch).take(numbers, axis=1)  # (sorts and patterns, structures)
    starts = np.zeros((len(lengths), len(numbers) + 1), dtype=np.int64)
    lengths.cumsum(axis=1, out=starts[:, 1:])
    rows = torch.from_numpy(starts).to(batch.device).unbind()
    node_ptr = dict(zip(batch.counts, rows, strict=False))
    entry_ptr = dict(zip(batch.patterns, rows[len(node_ptr) :], strict=True))
    chosen = batch._of(node_ptr, index, entry_ptr, origin)
    # The lengths are at hand, and looking them up saves a copy from the device later.
    chosen._lengths.update(zip(counted, lengths, strict=True))
    return chosen


def _length_table(batch: StructureData) -> Array:
    """Return how many nodes of each sort, then entries of each pattern, every structure has."""
    cache: dict[None, Array] = cache_of(batch, "length table")
    if None not in cache:
        counted: tuple[str | Pattern, ...] = (*batch._node_ptr, *batch._index)
        cache[None] = np.stack(list(map(batch._lengths_of, counted)))
    return cache[None]


class _LazyIndex(Mapping[Pattern, tuple[Tensor, ...]]):
    """The index of some structures of a batch, computed on first use.

    Plans of packed structures are made from the plans of their store, and do not need it.
    """

    def __init__(self, batch: StructureData, numbers: Array) -> None:
        self._batch, self._numbers = batch, numbers
        self._computed: dict[Pattern, tuple[Tensor, ...]] = {}

    def __iter__(self) -> Iterator[Pattern]:
        return iter(self._batch._index)

    def __len__(self) -> int:
        return len(self._batch._index)

    def __contains__(self, pattern: object) -> bool:
        return pattern in self._batch._index

    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
        return dict, (dict(self),)

    def __getitem__(self, pattern: Pattern) -> tuple[Tensor, ...]:
        if pattern not in self._computed:
            self._computed[pattern] = self._compute(self._batch._as_spelt(pattern))
        return self._computed[pattern]

    @torch.inference_mode(False)
    def _compute(self, pattern: Pattern) -> tuple[Tensor, ...]:
        batch, numbers = self._batch, self._numbers
        nodes = {sort: self._shift(sort) for sort in batch.counts}
        parts = []
        for place, shift in enumerate(shifts_of(pattern, nodes, self._shift(pattern))):
            whole, lengths = _pieces(batch, pattern, place)
            chosen = lengths[numbers]  # (chosen structures,)
            # the columns of their pieces, one after the other
            places = spans(starts_of(lengths)[numbers], chosen)
            columns = torch.from_numpy(places).to(batch.device)
            # `index_select` is faster, but refuses a tensor without rows.
            part = whole.index_select(1, columns) if len(whole) else whole[:, columns]
            # (rows, columns of the pieces)
            parts.append(part + repeat_columns(shift, chosen, batch.device))
        return tuple(parts)

    def _shift(self, what: str | Pattern) -> Array:
        """Return how far the nodes of a sort, or the entries of a pattern, have moved."""
        lengths = self._batch._lengths_of(what)
        return starts_of(lengths[self._numbers]) - starts_of(lengths)[self._numbers]


class _Pieces(NamedTuple):
    """A part of an index, sorted by structure.

    Attributes:
        part: The letters, shape (letters, entries), or members, shape (2, incidences).
        lengths: The number of columns of each structure.
    """

    part: Tensor
    lengths: Array


def _pieces(batch: StructureData, pattern: Pattern, place: int) -> _Pieces:
    part = batch._index[pattern][place]
    if place == 0:  # a lone open face has no letters
        return _Pieces(part, batch._lengths_of(pattern) * (part.shape[0] > 0))
    cache: dict[tuple[Pattern, int], _Pieces] = cache_of(batch, "pieces")
    if (pattern, place) not in cache:
        # Incidences may stand in any order; the stable sort keeps it within each structure.
        number, order = batch.batch(pattern)[part[1]].sort(stable=True)
        lengths = torch.bincount(number, minlength=batch.num_structures).cpu().numpy()
        cache[pattern, place] = _Pieces(part[:, order], lengths)  # (2, incidences) by structure
    return cache[pattern, place]


def shifts_of(pattern: Pattern, nodes: Mapping[str, Array], entries: Array) -> list[Array]:
    """Return what is added to the rows of every part of an index, shape (rows, structures).

    Args:
        pattern: The pattern.
        nodes: How far the nodes of every sort have moved, by structure.
        entries: How far the entries have moved, by structure.
    """
    letters = [nodes[pattern.sorts[x]] for x in pattern.fixed_letters]  # (structures,) each
    no_letters = np.zeros((0, len(entries)), dtype=np.int64)
    shifts = [np.stack(letters) if letters else no_letters]
    for face in pattern.faces:
        if face.is_open:
            # (node, entry) by structure
            shifts.append(np.stack([nodes[face.letters[0].sort], entries]))
    return shifts


def repeat_columns(table: Array, lengths: Array, device: torch.device) -> Tensor:
    """Repeat the column of every structure as often as its piece has columns."""
    return torch.from_numpy(np.repeat(table, lengths, axis=1)).to(device)


@torch.inference_mode(False)
def _cut_index(batch: StructureData, pattern: Pattern) -> list[tuple[Tensor, ...]]:
    """Return the index of a tensor for every structure on its own.

    Moving the whole index and then cutting it is faster than moving piece by piece.
    """
    nodes = {sort: -starts_of(batch._lengths_of(sort)) for sort in batch.counts}
    entries = -starts_of(batch._lengths_of(pattern))  # negative: back to numbers from 0
    parts = []
    for place, shift in enumerate(shifts_of(pattern, nodes, entries)):
        whole, lengths = _pieces(batch, pattern, place)
        moved = whole[:, : int(lengths.sum())] + repeat_columns(shift, lengths, batch.device)
        parts.append(cut(moved, lengths, dim=1))
    return list(zip(*parts, strict=True))


def cut(whole: Tensor, lengths: Array, dim: int = 0) -> list[Tensor]:
    """Split a tensor into parts with memory of their own.

    A part that is saved, or sent to another process, then does not take the whole along.
    """
    parts = whole.split(lengths.tolist(), dim)
    # `split` returns views of the whole.
    return [part.clone(memory_format=torch.contiguous_format) for part in parts]
