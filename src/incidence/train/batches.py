"""Batches of a data set, in an order that depends on the seed and the epoch alone: an epoch that is done again is the same."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Union

import torch
from torch.utils.data import DataLoader, Dataset, Sampler

from incidence.algebra.pattern import Pattern
from incidence.data.dataset import Task
from incidence.errors import IncidenceError, shown
from incidence.structure.example import Example
from incidence.structure.examples import collate
from incidence.structure.sampling import prepare_samples

__all__ = [
    "Augment",
    "Batches",
    "Examples",
    "Order",
    "Surroundings",
    "loader",
    "read_sizes",
    "seed_of",
    "training_batches",
]

Augment = Callable[[list[Example], torch.Generator], list[Example]]
Chosen = tuple[int, list[int]]
Batches = Union["Examples", "Surroundings"]


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
        self,
        count: int,
        batch_size: int,
        seed: int | None = None,
        share: tuple[int, int] = (0, 1),
        epoch: Callable[[], int] = int,
    ) -> None:
        self.count, self.seed, self.share, self.epoch = count, seed, share, epoch
        self.num_batches = max(1, min(-(-count // batch_size), count // share[1]))

    def __iter__(self) -> Iterator[Chosen]:
        order, epoch = torch.arange(self.count), self.epoch()
        if self.seed is not None:
            order = torch.randperm(
                self.count, generator=torch.Generator().manual_seed(seed_of(self.seed, epoch))
            )
        rank, world = self.share
        for step, numbers in enumerate(order.tensor_split(self.num_batches)):
            yield (
                seed_of(self.seed or 0, epoch, step, rank),
                numbers.tensor_split(world)[rank].tolist(),
            )

    def __len__(self) -> int:
        return self.num_batches


class Examples(Dataset[Example]):
    """A batch of examples for each list of their numbers, which are changed a little if there is a way to."""

    def __init__(self, examples: Sequence[Example], augment: Augment | None = None) -> None:
        self.examples, self.augment = examples, augment

    def __len__(self) -> int:
        return len(self.examples)

    def __getitem__(self, chosen: Chosen) -> Example:
        seed, numbers = chosen
        examples = [self.examples[k] for k in numbers]
        if self.augment is not None:
            examples = self.augment(examples, torch.Generator().manual_seed(seed))
        return collate(examples)


class Surroundings(Dataset[Example]):
    """The surroundings of some nodes of one example for each list of numbers of these nodes: of all that have a target.

    Args:
        example: The example.
        task: What is predicted, for nodes.
        sizes: How many neighbours are drawn at every step; None for all.
    """

    def __init__(self, example: Example, task: Task, sizes: Sequence[int | None]) -> None:
        pattern = example.structure.resolve(task.at)
        [self.sort] = pattern.sorts.values()
        known = task.is_known(task.rows(example))
        self.seeds = known.reshape(len(known), -1).any(1).nonzero()[:, 0]
        self.example, self.sizes = example, list(sizes)
        prepare_samples(example.structure)

    def __len__(self) -> int:
        return len(self.seeds)

    def __getitem__(self, chosen: Chosen) -> Example:
        seed, numbers = chosen
        generator = torch.Generator().manual_seed(seed)
        return self.example.sample(
            {self.sort: self.seeds[numbers]}, sizes=self.sizes, generator=generator
        )


def training_batches(
    examples: Sequence[Example], task: Task, neighbours: str | None, augment: Augment | None = None
) -> Batches:
    """What training batches are made of: examples; or the nodes of one, if neighbours are to be drawn.

    Raises:
        IncidenceError: There are several examples, or what is predicted is not for nodes.
    """
    if neighbours is None:
        return Examples(examples, augment)
    at = Pattern(task.at)
    if len(examples) != 1 or at.name or at.is_open or len(at.letters) != 1:
        what = (
            f"{len(examples)} examples"
            if len(examples) != 1
            else f"targets of {f'`{at}`' if task.at else 'the whole structure'}"
        )
        raise IncidenceError(
            f"--neighbours is for one structure whose nodes have targets; the data has {what}: leave it out."
        )
    return Surroundings(examples[0], task, read_sizes(neighbours))


def read_sizes(text: str) -> list[int | None]:
    """How many neighbours are drawn at every step, as people write it.

    Raises:
        IncidenceError: It is not written like that.

    Example:
        >>> read_sizes("15,10,all")
        [15, 10, None]
    """
    parts = [part.strip() for part in text.split(",")]
    if not all(part == "all" or (part.isdecimal() and len(part) < 10) for part in parts):
        raise IncidenceError(
            f"neighbours are told for every step, as in --neighbours 10,10, or all,all; got {shown(text)}."
        )
    return [None if part == "all" else int(part) for part in parts]


def loader(batches: Batches, order: Order) -> DataLoader[Any]:
    """A loader of batches, in a given order.

    A loader draws a number when it starts, which Lightning lets it do before the seed of a first epoch is set, and after that of others:
    with a generator of its own it does not matter.
    """
    return DataLoader(batches, sampler=order, batch_size=None, generator=torch.Generator())
