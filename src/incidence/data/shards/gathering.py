"""Batches of examples that lie in shards."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from incidence.algebra.pattern import Pattern
from incidence.data.shards.plans import StoredPlans
from incidence.data.shards.reading import PatternIndex, Shard
from incidence.engine.store import PlanStore
from incidence.errors import IncidenceError
from incidence.structure.batch import shifts_of
from incidence.structure.data import Array, Origin
from incidence.structure.example import Example, Target
from incidence.structure.structure import Structure

__all__ = ["Gathering"]


class Gathering:
    """Puts examples of shards side by side, as `collate` does, without making each of them.

    Args:
        chosen: The shard and the number of every example.
        stores: The plans of single structures that batches of one folder share.

    Raises:
        IncidenceError: Shards do not fit together, or have numbers that no example has.
    """

    def __init__(
        self, chosen: Sequence[tuple[Shard, int]], stores: dict[str, PlanStore[Any] | None]
    ) -> None:
        self._stored = StoredPlans(chosen, stores)
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
        origin = Origin([], stored=self._stored)
        structure = Structure._of(self.node_ptr, index, entry_ptr, origin)
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
        ptr = np.append(0, lengths.cumsum())
        return ptr, ptr[:-1] - spans[:, 0]

    def _parts(
        self, place: int, one: PatternIndex, shift: Array, entries: int
    ) -> tuple[Tensor, ...]:
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
