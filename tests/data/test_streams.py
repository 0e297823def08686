"""Streams of batches: the same batches for every number of processes and workers."""

from __future__ import annotations

from typing import Any

import pytest
from torch.utils.data import DataLoader

import incidence as inc
from incidence.data import BatchStream
from incidence.errors import IncidenceError
from incidence.structure import Example
from incidence.train.steps import Training
from tests.data.small_shards import graphs, written


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> inc.data.DataSet:
    path = tmp_path_factory.mktemp("stream") / "prepared"
    written(path, graphs(23), 4)
    return inc.data.load(path)


def epoch(stream: BatchStream, workers: int = 0) -> list[Example]:
    options: dict[str, Any] = {"multiprocessing_context": "fork"} if workers else {}
    return list(DataLoader(stream, batch_size=None, num_workers=workers, **options))


def targets(batches: list[Example]) -> list[float]:
    return [y for batch in batches for y in batch.target.flatten().tolist()]


@pytest.mark.parametrize("workers", [1, 2])
def test_workers_take_turns_and_give_the_batches_of_one_process(data, workers):
    stream = BatchStream(data, 4)
    alone = epoch(stream)
    assert len(alone) == len(stream) == 6
    assert epoch(stream, workers) == alone
    assert sorted(targets(alone)) == sorted(targets(list(data.examples)))


@pytest.mark.parametrize("world", [2, 3])
def test_processes_share_the_batches_of_one(data, world):
    shares = [epoch(BatchStream(data, 6, share=(rank, world))) for rank in range(world)]
    together = [inc.collate(list(parts)) for parts in zip(*shares, strict=True)]
    assert together == epoch(BatchStream(data, 6))


def test_the_order_is_that_of_the_seed_and_the_epoch(data):
    first, second = BatchStream(data, 5), BatchStream(data, 5, seed=1)
    before = targets(epoch(first))
    assert targets(epoch(first)) == before
    assert targets(epoch(second)) != before
    first.begin(epoch=1)
    assert targets(epoch(first)) != before
    unshuffled = BatchStream(data, 5, seed=None)
    assert targets(epoch(unshuffled)) == targets(list(data.examples))


@pytest.mark.parametrize("workers", [0, 2])
def test_an_epoch_continues_after_the_batches_that_were_done(data, workers):
    stream = BatchStream(data, 4)
    stream.begin(epoch=2)
    whole = epoch(stream)
    stream.begin(epoch=2, batch=3)
    assert len(stream) == 3
    assert epoch(stream, workers) == whole[3:]


def test_a_stream_of_examples_in_memory_is_that_of_their_shards(data):
    assert epoch(BatchStream(list(data.examples), 4)) == epoch(BatchStream(data, 4))


def test_training_reads_the_batches_of_a_stream(data, tmp_path, monkeypatch):
    seen = []
    step = Training.take_step

    def watched(self: Any, batch: Example, *arguments: Any) -> None:
        seen.append(batch)
        step(self, batch, *arguments)

    monkeypatch.setattr(Training, "take_step", watched)
    options = {"model": "rings", "epochs": 1, "batch_size": 5, "hidden": 4, "depth": 1, "seed": 3}
    folder = data.examples.folder.path
    run = inc.train.train({**options, "data": str(folder), "out": str(tmp_path / "run")})
    assert seen == list(BatchStream(run.experiment.parts.train, 5, seed=3))


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ({"batch_size": 0}, "batch_size of a BatchStream is a whole number from 1; got 0"),
        ({"batch_size": 4, "seed": -1}, "seed of a BatchStream is a whole number from 0; got -1"),
        ({"batch_size": 4, "share": (2, 2)}, r"at most one for each of 23 examples; got \(2, 2\)"),
        ({"batch_size": 4, "share": (0, 24)}, "at most one for each of 23 examples"),
    ],
    ids=str,
)
def test_arguments_that_make_no_batches_are_refused(data, arguments, match):
    with pytest.raises(IncidenceError, match=match):
        BatchStream(data, **arguments)
