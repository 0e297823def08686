"""The order of the data: every example once in an epoch, in batches of like size, and shares that
make up each batch.
"""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

import incidence as inc
from incidence.data.order import Order, seed_of
from incidence.structure import Structure
from incidence.train.batches import ExampleBatches, loader

SIZES = [(1, 1), (7, 3), (64, 64), (65, 64), (40, 8), (100, 33)]


def numbers(order: Order) -> list[list[int]]:
    return [chosen for _, chosen in order]


@pytest.mark.parametrize(("count", "size"), SIZES)
def test_every_example_comes_once_in_batches_of_like_size(count, size):
    order = Order(count, size, seed=0)
    batches = numbers(order)
    assert sorted(k for batch in batches for k in batch) == list(range(count))
    assert len(batches) == len(order) == -(-count // size)
    assert max(map(len, batches)) - min(map(len, batches)) <= 1
    assert max(map(len, batches)) <= size


@pytest.mark.parametrize("world", [2, 3])
@pytest.mark.parametrize(("count", "size"), SIZES[1:])
def test_processes_share_every_batch(count, size, world):
    whole = numbers(Order(count, size, seed=3, share=(0, 1)))
    shares = [numbers(Order(count, size, seed=3, share=(rank, world))) for rank in range(world)]
    assert all(part for share in shares for part in share)
    assert sorted(k for share in shares for part in share for k in part) == list(range(count))
    # else there are fewer batches, so that each has something for every process
    if count // world >= len(whole):
        assert all(
            [k for part in parts for k in part] == batch
            for batch, *parts in zip(whole, *shares, strict=True)
        )


def test_the_order_depends_on_the_seed_and_the_epoch_alone():
    first = numbers(Order(20, 6, seed=1))
    torch.manual_seed(99)
    assert numbers(Order(20, 6, seed=1)) == first
    assert numbers(Order(20, 6, seed=2)) != first
    assert numbers(Order(20, 6, seed=1, epoch=lambda: 1)) != first


def test_an_epoch_that_is_continued_has_the_batches_that_are_left():
    whole = list(Order(20, 6, seed=1))
    assert list(Order(20, 6, seed=1, start=lambda: 2)) == whole[2:]
    assert len(Order(20, 6, seed=1, start=lambda: 2)) == len(whole)


def test_the_epoch_is_asked_for_when_it_begins():
    epoch = [0]
    order = Order(20, 6, seed=1, epoch=lambda: epoch[0])
    first = numbers(order)
    epoch[0] = 1
    assert numbers(order) != first
    epoch[0] = 0
    assert numbers(order) == first


def test_without_a_seed_the_order_is_that_of_the_data():
    assert [k for batch in numbers(Order(10, 4)) for k in batch] == list(range(10))


def test_seeds_differ_by_every_number():
    seeds = {seed_of(a, b, c) for a in range(5) for b in range(5) for c in range(5)}
    assert len(seeds) == 125
    assert seed_of(1, 2) != seed_of(2, 1)
    assert 0 <= seed_of(2**63, 2**63) < 2**63


def test_a_batch_is_changed_in_the_same_way_in_the_same_epoch():
    examples = [
        inc.Example(Structure(2, {}), {"i": torch.full((2, 1), float(k))}) for k in range(6)
    ]

    def shake(some: list[inc.Example], generator: torch.Generator) -> list[inc.Example]:
        return [
            e.replace(features={"i": e.features["i"] + torch.rand(2, 1, generator=generator)})
            for e in some
        ]

    def values(epoch: int) -> Tensor:
        return torch.cat(
            [
                batch.features["i"]
                for batch in loader(
                    ExampleBatches(examples, shake), Order(6, 2, 0, epoch=lambda: epoch)
                )
            ]
        )

    assert torch.equal(values(0), values(0))
    assert not torch.equal(values(0).frac().sort(0)[0], values(1).frac().sort(0)[0])


def test_a_loader_draws_nothing_from_the_generator_of_the_run():
    examples = [inc.Example(Structure(2, {}), {"i": torch.ones(2, 1)})]
    torch.manual_seed(0)
    before = torch.get_rng_state()
    list(loader(ExampleBatches(examples), Order(1, 1, 0)))
    assert torch.equal(torch.get_rng_state(), before)
