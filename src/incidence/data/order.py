"""The order of batches, which depends on the seed and the epoch alone.

An epoch that is done again, or continued, has the same batches for every number of processes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from torch.utils.data import Sampler

__all__ = ["Chosen", "Order", "seed_of"]

Chosen = tuple[int, list[int]]
"""A seed, and the numbers of the examples of a batch."""


def seed_of(*numbers: int) -> int:
    """Return one seed for several numbers, such as the seed of a run, the epoch and the process."""
    mixed = 0
    for number in numbers:
        mixed = (mixed * 1_000_003 + number + 1) % (2**61 - 1)
    return mixed


class Order(Sampler[Chosen]):
    """A seed and the numbers of the examples of every batch.

    Batches differ in size by at most one, so that none is too small for statistics. With several
    processes, each takes its share of every batch; together they do what one would do. The sampler
    of Lightning gives some examples to two processes to fill up, and makes other batches with other
    numbers of processes.

    Args:
        count: How many examples there are.
        batch_size: The largest size of a batch.
        seed: Seed of the order; None to keep the order of the data.
        share: The number of this process, and how many there are.
        epoch: Returns the number of the epoch.
        start: Returns how many batches of the epoch were done before, which are left out.
    """

    def __init__(
        self,
        count: int,
        batch_size: int,
        seed: int | None = None,
        share: tuple[int, int] = (0, 1),
        epoch: Callable[[], int] = int,
        start: Callable[[], int] = int,
    ) -> None:
        self.count, self.seed, self.share = count, seed, share
        self.epoch, self.start = epoch, start
        self.num_batches = max(1, min(-(-count // batch_size), count // share[1]))

    def __iter__(self) -> Iterator[Chosen]:
        order, epoch, start = torch.arange(self.count), self.epoch(), self.start()
        if self.seed is not None:
            generator = torch.Generator().manual_seed(seed_of(self.seed, epoch))
            order = torch.randperm(self.count, generator=generator)
        rank, world = self.share
        batches = order.tensor_split(self.num_batches)
        for step, numbers in enumerate(batches[start:], start):
            seed = seed_of(self.seed or 0, epoch, step, rank)
            yield seed, numbers.tensor_split(world)[rank].tolist()

    def __len__(self) -> int:
        return self.num_batches
