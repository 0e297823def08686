"""`BatchStream`: batches in a shuffled order that does not depend on who reads them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch.distributed as dist
from torch.utils.data import IterableDataset, get_worker_info

from incidence.data.dataset import DataSet
from incidence.data.order import Order
from incidence.data.shards import ShardedExamples
from incidence.errors import IncidenceError, shown
from incidence.structure.collate import collate
from incidence.structure.example import Example

__all__ = ["BatchStream"]


class BatchStream(IterableDataset[Example]):
    """Batches of examples for the loaders of torch, in the order of `incidence train`.

    The order depends on the seed and the epoch alone. Every process takes its share of every batch,
    and the workers of a loader take turns. So the batches are the same for every number of
    processes and workers. Examples of a prepared folder are read when their batch is needed.

    Give it to `torch.utils.data.DataLoader(stream, batch_size=None, num_workers=4)`.

    Args:
        examples: A `DataSet`, or a part of one, or a list of examples.
        batch_size: The largest size of a batch of all processes together.
        seed: Seed of the order; None for the order of the data.
        share: The number of this process, and how many there are. By default those of
            torch.distributed, or one process.

    Raises:
        IncidenceError: There are fewer examples than processes, or an argument is of no use.

    Example:
        >>> import torch
        >>> from incidence import Structure
        >>> s = Structure(2, {"{i j}": [[0], [1]]})
        >>> examples = [Example(s, {"i": torch.ones(2, 3)}, target=k) for k in range(5)]
        >>> stream = BatchStream(examples, batch_size=2)
        >>> [batch.target.tolist() for batch in stream]
        [[3, 4], [0, 1], [2]]
        >>> stream.begin(epoch=0, batch=1)  # after a stop
        >>> [batch.target.tolist() for batch in stream]
        [[0, 1], [2]]
    """

    def __init__(
        self,
        examples: DataSet | Sequence[Example],
        batch_size: int,
        seed: int | None = 0,
        share: tuple[int, int] | None = None,
    ) -> None:
        self.examples = examples.examples if isinstance(examples, DataSet) else examples
        for name, value, least in (("batch_size", batch_size, 1), ("seed", seed or 0, 0)):
            if not isinstance(value, int) or isinstance(value, bool) or value < least:
                raise IncidenceError(
                    f"{name} of a BatchStream is a whole number from {least}; got {shown(value)}."
                )
        self.batch_size, self.seed = batch_size, seed
        self.share = _share() if share is None else share
        if len(self.examples) < self.share[1] or not 0 <= self.share[0] < self.share[1]:
            raise IncidenceError(
                f"share is the number of a process and how many there are, at most one for each of"
                f" {len(self.examples):,} examples; got {self.share}."
            )
        self.epoch = self.batch = 0

    def begin(self, epoch: int, batch: int = 0) -> None:
        """Set the epoch to read, and how many of its batches were done before.

        Call this before a loader begins an epoch. The batches that were done are not read.
        """
        self.epoch, self.batch = epoch, batch

    def _order(self) -> Order:
        return Order(
            len(self.examples),
            self.batch_size,
            self.seed,
            self.share,
            lambda: self.epoch,
            lambda: self.batch,
        )

    def __len__(self) -> int:
        return max(0, len(self._order()) - self.batch)

    def __iter__(self) -> Iterator[Example]:
        worker = get_worker_info()
        turn, turns = (0, 1) if worker is None else (worker.id, worker.num_workers)
        for number, (_, rows) in enumerate(self._order()):
            if number % turns == turn:
                yield self._batch(rows)

    def _batch(self, rows: list[int]) -> Example:
        items: Any = [self.examples[k] for k in rows]
        if isinstance(self.examples, ShardedExamples):
            items = self.examples.take(rows)
        batch: Example = collate(items)
        return batch


def _share() -> tuple[int, int]:
    if dist.is_available() and dist.is_initialized():
        return dist.get_rank(), dist.get_world_size()
    return 0, 1
