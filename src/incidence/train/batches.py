"""Batches of training: of examples, of nodes of one example, or of the part of a process."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Union

import torch
from torch.utils.data import DataLoader, Dataset

from incidence.algebra.pattern import Pattern
from incidence.data.dataset import Task
from incidence.data.order import Chosen
from incidence.data.shards import ShardedExamples
from incidence.distributed.splitting import part_of_example, split
from incidence.errors import IncidenceError, shown
from incidence.structure import Structure
from incidence.structure.collate import collate
from incidence.structure.example import Example
from incidence.structure.sampling import prepare_samples

__all__ = [
    "Augment",
    "Batches",
    "Epoch",
    "ExampleBatches",
    "NeighbourBatches",
    "SplitExamples",
    "loader",
    "one_epoch",
    "read_sizes",
    "training_batches",
]

Augment = Callable[[list[Example], torch.Generator], list[Example]]
Batches = Union["ExampleBatches", "NeighbourBatches"]


class ExampleBatches(Dataset[Example]):
    """A batch for each list of numbers of examples.

    Args:
        examples: The examples.
        augment: Changes the examples of a batch at random.
    """

    def __init__(self, examples: Sequence[Example], augment: Augment | None = None) -> None:
        self.examples, self.augment = examples, augment
        self._only: Example | None = None

    def __len__(self) -> int:
        return len(self.examples)

    def __getitem__(self, chosen: Chosen) -> Example:
        seed, numbers = chosen
        if len(self.examples) == 1 and self.augment is None:
            # One large structure is the same batch in every epoch, whose plan is made once.
            if self._only is None:
                self._only = collate([self.examples[0]])
            return self._only
        if isinstance(self.examples, ShardedExamples):
            return collate(self.examples.take(numbers))
        examples = [self.examples[k] for k in numbers]
        if self.augment is not None:
            examples = self.augment(examples, torch.Generator().manual_seed(seed))
        return collate(examples)


class SplitExamples:
    """The part of this process of all examples of a part of the data, as one batch.

    Args:
        is_split: Whether there are other processes.
    """

    def __init__(self, is_split: bool) -> None:
        self._is_split = is_split
        self._parts: dict[tuple[int, ...], tuple[Sequence[Example], Structure]] = {}

    def batch(self, examples: Sequence[Example]) -> Example:
        """Return the part of this process. All processes call this together.

        Examples with the same structures share how these are split.
        """
        batch = collate(examples)
        if not self._is_split:
            return batch
        key = tuple(id(one.structure) for one in examples)
        if key not in self._parts:
            self._parts[key] = examples, split(batch.structure)
        return part_of_example(self._parts[key][1], batch)


class NeighbourBatches(Dataset[Example]):
    """Some nodes of one example with nodes around them, for each list of numbers of nodes.

    The numbers count the nodes that have a target.

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
        seeds = {self.sort: self.seeds[numbers]}
        return self.example.sample(seeds, sizes=self.sizes, generator=generator)


def training_batches(
    examples: Sequence[Example], task: Task, neighbours: str | None, augment: Augment | None = None
) -> Batches:
    """Return the batches of training: of examples, or of nodes of one example.

    Args:
        examples: The training part.
        task: What is predicted.
        neighbours: How many neighbours of nodes to draw, as in `10,10`; None for whole examples.
        augment: Changes the examples of a batch at random.

    Raises:
        IncidenceError: Neighbours are to be drawn, and there are several examples, or targets of
            something else than nodes.
    """
    if neighbours is None:
        return ExampleBatches(examples, augment)
    at = Pattern(task.at)
    are_of_nodes = not at.name and not at.is_open and len(at.letters) == 1
    if len(examples) != 1:
        problem = f"{len(examples)} examples"
    elif not are_of_nodes:
        problem = f"targets of {f'`{at}`' if task.at else 'the whole structure'}"
    else:
        return NeighbourBatches(examples[0], task, read_sizes(neighbours))
    raise IncidenceError(
        f"--neighbours is for one structure whose nodes have targets; the data has {problem}: leave"
        " it out."
    )


def read_sizes(text: str) -> list[int | None]:
    """Return how many neighbours to draw at every step; None for all.

    Raises:
        IncidenceError: The text is not of the form `10,10`.

    Example:
        >>> read_sizes("15,10,all")
        [15, 10, None]
    """
    parts = [part.strip() for part in text.split(",")]
    if not all(part == "all" or (part.isdecimal() and len(part) < 10) for part in parts):
        raise IncidenceError(
            "neighbours are given for every step, as in `--neighbours 10,10`, or all,all; got"
            f" {shown(text)}."
        )
    return [None if part == "all" else int(part) for part in parts]


class Epoch:
    """The batches of an epoch, each made when its turn comes.

    Args:
        batches: A batch for every item of the order.
        order: The order, which may be another one each time.
    """

    def __init__(self, batches: Any, order: Iterable[Any]) -> None:
        self._batches, self._order = batches, order

    def __iter__(self) -> Iterator[Example]:
        return (self._batches[chosen] for chosen in self._order)


def one_epoch(batches: Any, order: Iterable[Any]) -> DataLoader[Any]:
    """Return a loader whose one item is a whole epoch."""
    return loader([Epoch(batches, order)], [0])


def loader(batches: Any, order: Iterable[Any]) -> DataLoader[Any]:
    """Return a loader of batches in a given order."""
    # A loader draws a number when it starts, before Lightning seeds the first epoch and after it
    # seeds later ones. With a generator for the loader alone, that makes no difference.
    return DataLoader(batches, sampler=order, batch_size=None, generator=torch.Generator())
