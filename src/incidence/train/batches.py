"""Batches of a data set, in an order that depends on the seed and the epoch alone: an epoch that is done again is the same."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch.utils.data import DataLoader, Dataset, Sampler

from incidence.structure.example import Example
from incidence.structure.examples import collate

__all__ = ["Augment", "Order", "loader", "seed_of"]

Augment = Callable[[list[Example], torch.Generator], list[Example]]
Chosen = tuple[int, list[int]]


def seed_of(*numbers: int) -> int:
    """One seed from several numbers, such as the seed of a run, the epoch and the process."""
    mixed = 0
    for number in numbers:
        mixed = (mixed * 1_000_003 + number + 1) % (2**61 - 1)
    return mixed


class Order(Sampler[Chosen]):
    """The numbers of the examples of every batch, and a seed for each.

    Batches differ in size by at most one, so that none is so small that it has no statistics. With several processes, each takes its
    share of every batch: together they do what one would do. Ours, as Lightning's sampler gives some examples to two processes to fill up,
    and makes other batches with other numbers of processes.

    Args:
        count: How many examples there are.
        batch_size: At most that many in a batch.
        seed: Of the order; None to keep the order of the data.
        share: The number of this process, and how many there are.
        epoch: Tells which epoch it is.
    """

    def __init__(
        self, count: int, batch_size: int, seed: int | None = None, share: tuple[int, int] = (0, 1), epoch: Callable[[], int] = int
    ) -> None:
        self.count, self.seed, self.share, self.epoch = count, seed, share, epoch
        self.num_batches = max(1, min(-(-count // batch_size), count // share[1]))

    def __iter__(self) -> Iterator[Chosen]:
        order, epoch = torch.arange(self.count), self.epoch()
        if self.seed is not None:
            order = torch.randperm(self.count, generator=torch.Generator().manual_seed(seed_of(self.seed, epoch)))
        rank, world = self.share
        for step, numbers in enumerate(order.tensor_split(self.num_batches)):
            yield seed_of(self.seed or 0, epoch, step, rank), numbers.tensor_split(world)[rank].tolist()

    def __len__(self) -> int:
        return self.num_batches


class _Batches(Dataset[Example]):
    """A batch for each list of numbers."""

    def __init__(self, examples: Sequence[Example], augment: Augment | None) -> None:
        self.examples, self.augment = examples, augment

    def __getitem__(self, chosen: Chosen) -> Example:
        seed, numbers = chosen
        examples = [self.examples[k] for k in numbers]
        if self.augment is not None:
            examples = self.augment(examples, torch.Generator().manual_seed(seed))
        return collate(examples)


def loader(examples: Sequence[Example], order: Order, augment: Augment | None = None) -> DataLoader[Any]:
    """A loader of batches, in a given order.

    A loader draws a number when it starts, which Lightning lets it do before the seed of a first epoch is set, and after that of others:
    with a generator of its own it does not matter.
    """
    return DataLoader(_Batches(examples, augment), sampler=order, batch_size=None, generator=torch.Generator())
