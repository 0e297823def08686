"""`ShardedExamples`: the examples of a folder of shards as a sequence."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from typing import Any, overload

import numpy as np
import torch
from torch import Tensor

from incidence.data.shards.folder import ShardFolder
from incidence.data.shards.gathering import Gathering
from incidence.data.shards.reading import Shard
from incidence.engine.store import PlanStore
from incidence.structure.collate import collate, register_reader
from incidence.structure.data import Array
from incidence.structure.example import Example

__all__ = ["ShardedExamples"]

_TOGETHER = 64  # examples that are read at once when all are read in order


class ShardedExamples(Sequence[Example]):
    """Examples in shards, each read when it is taken. A slice is lazy, too.

    Args:
        folder: The shards.
        rows: The numbers of the examples; all of them by default.
    """

    def __init__(self, folder: ShardFolder, rows: Array | None = None) -> None:
        self.folder, self._starts = folder, folder.starts
        self._rows = np.arange(folder.num_examples) if rows is None else rows
        self._targets: Tensor | None = None
        self.source_rows: Array | None = None  # where the examples stand in a table
        self._open: OrderedDict[int, Shard] = OrderedDict()
        self._checked = set[int]()
        self._stores = dict[str, PlanStore[Any] | None]()

    def __repr__(self) -> str:
        return f"ShardedExamples({len(self):,} examples in {self.folder.path})"

    def __getstate__(self) -> dict[str, Any]:
        """Return what another process needs: it maps the shards anew."""
        return {**self.__dict__, "_open": OrderedDict(), "_stores": {}}

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
        shards = {number: self.shard(number) for number in set(numbers.tolist())}
        chosen = [shards[number] for number in numbers.tolist()]
        batch = Gathering(list(zip(chosen, places, strict=True)), self._stores).batch()
        if self._targets is None:
            return batch
        target = self._targets[torch.from_numpy(rows)]
        return Example._of(batch.structure, batch.features, target, True)

    def __iter__(self) -> Iterator[Example]:
        for start in range(0, len(self), _TOGETHER):
            yield from self[start : start + _TOGETHER].batch()

    def take(self, rows: Tensor | list[int]) -> ShardedExamples:
        """Return a lazy sequence of the examples of some numbers."""
        return self._some(self._rows[torch.as_tensor(rows, dtype=torch.long).numpy()])

    def _some(self, rows: Array) -> ShardedExamples:
        some = ShardedExamples(self.folder, rows)
        some._targets, some.source_rows = self._targets, self.source_rows
        some._open, some._checked, some._stores = self._open, self._checked, self._stores
        return some

    def shard(self, number: int) -> Shard:
        """Return a shard; its checksum is compared when it is first used."""
        shard = self._open.get(number)
        if shard is None:
            checksum = None
            if number not in self._checked:
                checksum = str(self.folder.receipt(number).get("checksum"))
            shard = self._open[number] = Shard(self.folder.file(number), checksum)
            self._checked.add(number)
        self._open.move_to_end(number)
        if len(self._open) > self.folder.most_open:
            self._open.popitem(last=False)
        return shard

    def whole_targets(self) -> Tensor:
        """Return the targets of whole structures, [examples, ...], without the examples."""
        if self._targets is not None:
            return self._targets[torch.from_numpy(self._rows)]
        every = range(1, self.folder.num_shards + 1)
        return torch.cat([self.shard(number).whole_targets() for number in every])[
            torch.from_numpy(self._rows)
        ]

    def with_targets(self, targets: Tensor) -> ShardedExamples:
        """Return the examples with other targets of whole structures.

        Args:
            targets: A row for every example of the folder.
        """
        others = self._some(self._rows)
        others._targets = targets
        return others

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
