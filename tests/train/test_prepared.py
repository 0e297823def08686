"""Training from a prepared folder: the same weights as from the data itself, for every number of
processes and after a kill; and what does not fit the preparation is refused.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

import incidence as inc
from incidence.cli import main
from incidence.data.shards import ShardedExamples, ShardFolder
from incidence.distributed.heartbeat import Heartbeat
from incidence.errors import IncidenceError
from incidence.train import resume, train
from incidence.train.config import Config
from incidence.train.evaluate import evaluate_run
from incidence.train.shards import prepare_shards
from incidence.train.steps import Training
from tests.train.several_processes import history, two
from tests.train.small_runs import die, in_child

OPTIONS: dict[str, Any] = {
    "model": "rings",
    "epochs": 2,
    "batch_size": 9,
    "hidden": 4,
    "depth": 1,
    "dropout": 0.2,
    "validation": 0.2,
}


@pytest.fixture(scope="module")
def prepared(numbers: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Shards of the small graphs with rings."""
    path = tmp_path_factory.mktemp("prepared") / "shards"
    prepare_shards(Config(data=str(numbers), model="rings"), path, 3)
    return path


def _weights(path: Path) -> dict[str, torch.Tensor]:
    return load_file(path / "model.safetensors")


def test_prepared_data_trains_to_the_weights_of_the_data_itself(numbers, prepared, tmp_path):
    for name, data in (("whole", numbers), ("shards", prepared)):
        train({**OPTIONS, "data": str(data), "out": str(tmp_path / name)})
    whole, shards = (_weights(tmp_path / name) for name in ("whole", "shards"))
    assert whole.keys() == shards.keys()
    assert all(torch.equal(whole[key], shards[key]) for key in whole)
    for file in ("predictions.csv", "history.csv"):
        assert (tmp_path / "whole" / file).read_text() == (tmp_path / "shards" / file).read_text()


def test_examples_stay_in_their_shards_while_training(prepared, tmp_path):
    run = train({**OPTIONS, "data": str(prepared), "epochs": 1, "out": str(tmp_path / "run")})
    assert all(isinstance(part, ShardedExamples) for part in run.experiment.parts)
    again, _ = evaluate_run(tmp_path / "run", {})
    assert again.metrics() == run.evaluation.metrics()
    other, _ = evaluate_run(tmp_path / "run", {"data": str(prepared)})
    assert other.metrics() == run.evaluation.metrics()


def test_two_processes_train_from_shards_as_one_does(prepared, tmp_path):
    options = {**OPTIONS, "data": str(prepared), "dropout": 0.0, "precision": "64-true"}
    train({**options, "out": str(tmp_path / "one")})
    assert two(lambda: train({**options, "out": str(tmp_path / "two")})) == [0, 0]
    one, both = (torch.tensor(history(tmp_path / name)) for name in ("one", "two"))
    torch.testing.assert_close(one, both, rtol=1e-5, atol=1e-6)


def test_a_killed_run_from_shards_resumes_with_the_same_bits(prepared, tmp_path, monkeypatch):
    options = {**OPTIONS, "data": str(prepared)}
    train({**options, "out": str(tmp_path / "whole")})
    step = Training.take_step
    count = iter(range(100))

    def dying(self: Training, *arguments: Any) -> Any:
        if next(count) == 5:  # in the middle of the second epoch
            die()
        return step(self, *arguments)

    monkeypatch.setattr(Training, "take_step", dying)
    killed = in_child(lambda: train({**options, "out": str(tmp_path / "killed")}))
    assert killed == -signal.SIGKILL
    monkeypatch.setattr(Training, "take_step", step)
    resume(tmp_path / "killed")
    whole, killed = (_weights(tmp_path / name) for name in ("whole", "killed"))
    assert all(torch.equal(whole[key], killed[key]) for key in whole)


def test_processes_that_are_killed_in_an_epoch_continue_in_it(prepared, tmp_path, monkeypatch):
    options = {**OPTIONS, "data": str(prepared), "dropout": 0.0, "precision": "64-true"}
    options["save_minutes"] = 1e-9
    train({**options, "out": str(tmp_path / "one")})
    step = Training.take_step

    def dying(self: Training, batch: Any, optimizer: Any, number: int) -> None:
        if (self.current_epoch, number) == (1, 3):  # of four in an epoch
            die()
        step(self, batch, optimizer, number)

    with monkeypatch.context() as patch:
        patch.setattr(Training, "take_step", dying)
        ended = two(lambda: train({**options, "out": str(tmp_path / "two")}))
    assert -signal.SIGKILL in ended

    def counted(self: Training, batch: Any, optimizer: Any, number: int) -> None:
        assert (self.current_epoch, number) >= (1, 3)
        step(self, batch, optimizer, number)

    monkeypatch.setattr(Training, "take_step", counted)
    assert two(lambda: resume(tmp_path / "two")) == [0, 0]
    one, both = (torch.tensor(history(tmp_path / name)) for name in ("one", "two"))
    torch.testing.assert_close(one, both, rtol=1e-5, atol=1e-6)


def _missing(folder: ShardFolder) -> None:
    folder.file(2).unlink()


def _cut_short(folder: ShardFolder) -> None:
    folder.file(2).write_bytes(folder.file(2).read_bytes()[:-100])


def _changed(folder: ShardFolder) -> None:
    content = bytearray(folder.file(2).read_bytes())
    content[len(content) // 2] ^= 1
    folder.file(2).write_bytes(content)


def _of_another_format(folder: ShardFolder) -> None:
    manifest = folder.path / "manifest.json"
    manifest.write_text(manifest.read_text().replace('"format": ', '"format": 1'))


def _of_another_version(folder: ShardFolder) -> None:
    receipt = folder.file(2).with_suffix(".json")
    values = json.loads(receipt.read_text())
    receipt.write_text(json.dumps({**values, "manifest": "of another version"}))


@pytest.mark.parametrize(
    ("damage", "match"),
    [
        (_missing, "shard 2 of 3 in .* is missing"),
        (_cut_short, "is damaged: it has .* bytes"),
        (_changed, "is damaged: its checksum"),
        (_of_another_format, "has format 13, and this version of the library reads format 3"),
        (_of_another_version, "with other options, or by another version"),
    ],
)
def test_all_processes_end_with_a_sentence_for_a_bad_shard(prepared, tmp_path, damage, match):
    path = shutil.copytree(prepared, tmp_path / "shards")
    damage(inc.data.load(prepared).examples.folder._replace(path=path))
    said = tmp_path / "said"
    said.mkdir()

    def work() -> None:
        try:
            train({**OPTIONS, "data": str(path), "out": str(tmp_path / "run")})
        except IncidenceError as error:
            (said / os.environ["RANK"]).write_text(str(error))
            raise

    started = time.monotonic()
    assert two(work, has_store=True) == [2, 2]
    assert time.monotonic() - started < 60
    assert [bool(re.search(match, (said / rank).read_text())) for rank in "01"] == [True, True]
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("bad", [0, 1])
def test_a_shard_that_one_process_alone_sees_as_bad_ends_both(prepared, tmp_path, monkeypatch, bad):
    path = shutil.copytree(prepared, tmp_path / "shards")
    _missing(inc.data.load(prepared).examples.folder._replace(path=path))
    impatient = partial(Heartbeat, pause=0.2, grace=0.5)
    monkeypatch.setattr("incidence.distributed.heartbeat.Heartbeat", impatient)

    def work() -> None:
        rank = int(os.environ["RANK"])
        with (tmp_path / str(rank)).open("w") as sys.stderr:  # the process ends with it
            try:
                data = path if rank == bad else prepared
                train({**OPTIONS, "data": str(data), "out": str(tmp_path / "run")})
            except IncidenceError as error:
                print(error, file=sys.stderr, flush=True)
                raise

    started = time.monotonic()
    ended = two(work, has_store=True)
    assert time.monotonic() - started < 60
    assert (ended[bad], ended[1 - bad]) == (2, 1)
    said = [(tmp_path / name).read_text() for name in "01"]
    assert "shard 2 of 3 in " in said[bad]
    assert f"stops, as process {bad} has failed: shard 2 of 3 in {path} is missing" in said[1 - bad]


def test_a_shard_that_is_damaged_while_processes_train_ends_all_of_them(
    prepared, tmp_path, monkeypatch
):
    options = {**OPTIONS, "data": str(prepared), "out": str(tmp_path / "run")}
    gathered, said = ShardedExamples._batch, tmp_path / "said"
    said.mkdir()

    def damaged(self: ShardedExamples, rows: Any) -> inc.Example:
        batch = gathered(self, rows)
        if os.environ["RANK"] == "1" and self._is_training:
            raise self.shard(1).damage("a disk failed")
        return batch

    step = Training.take_step

    def training(self: Training, batch: Any, optimizer: Any, number: int) -> None:
        ShardedExamples._is_training = (self.current_epoch, number) == (0, 2)
        step(self, batch, optimizer, number)

    def work() -> None:
        try:
            train(options)
        except IncidenceError as error:
            (said / os.environ["RANK"]).write_text(str(error))
            raise

    monkeypatch.setattr(ShardedExamples, "_is_training", False, raising=False)
    monkeypatch.setattr(ShardedExamples, "_batch", damaged)
    monkeypatch.setattr(Training, "take_step", training)
    started = time.monotonic()
    assert two(work) == [2, 2]
    assert time.monotonic() - started < 60
    message = (said / "0").read_text()
    assert "lost the others: one of them has ended, or did not answer within" in message
    assert " s. Continue with: " in message
    assert "is damaged: a disk failed. Delete it, and prepare" in (said / "1").read_text()


def test_processes_write_shards_side_by_side_in_any_order(numbers, prepared, tmp_path, capsys):
    out = tmp_path / "shards"
    for number in (3, 1, 1, 2):
        words = ["prepare", str(numbers), "--model", "rings", "--out", str(out)]
        assert main([*words, "--shard", f"{number}/3"]) == 0
    printed = capsys.readouterr().out
    assert "missing: 2 of 3 shards" in printed
    assert "missing: 1 of 3 shards" in printed
    assert f"next: incidence train --data {out}" in printed
    ours, theirs = inc.data.load(out), inc.data.load(prepared)
    assert list(ours.examples) == list(theirs.examples)


def test_shards_that_are_there_are_not_written_again(numbers, prepared, tmp_path):
    path = shutil.copytree(prepared, tmp_path / "shards")
    (path / "shard-00002-of-00003.npz").unlink()
    made = prepare_shards(Config(data=str(numbers), model="rings"), path, 3)
    assert made.num_examples == 13
    assert made.describe().endswith(f"next: incidence train --data {path}")


@pytest.mark.parametrize(
    ("options", "match"),
    [
        (
            {"lift": "cliques"},
            "was prepared with the lift 'rings', and these options need 'cliques'",
        ),
        (
            {"model": "matrix"},
            "was prepared with the lift 'rings', and these options need 'matrix'",
        ),
        ({"max_size": 4}, "these options need 'rings' max_size=4: leave them out, or prepare"),
        ({"target": "y"}, "was prepared with target = None, and now it is 'y'"),
    ],
    ids=str,
)
def test_options_that_need_another_preparation_are_refused(prepared, tmp_path, options, match):
    given = {**OPTIONS, "data": str(prepared), "out": str(tmp_path / "run"), **options}
    with pytest.raises(IncidenceError, match=match):
        train(given)


def test_prepared_data_is_not_prepared_again(prepared, tmp_path):
    with pytest.raises(IncidenceError, match="is prepared already: give the data that it was"):
        prepare_shards(Config(data=str(prepared)), tmp_path / "again")


@pytest.mark.parametrize(
    ("words", "match"),
    [
        (["--shard", "4/3"], "a shard is K/N, with K from 1 to N, such as 3/16; got '4/3'"),
        (["--shard", "0/3"], "a shard is K/N"),
        (["--shard", "2"], "a shard is K/N"),
        (["--shard", "2/3", "--shards", "4"], "leave out --shards"),
        (["--shards", "0"], "so there are 1 to 40 shards; got 0"),
    ],
    ids=str,
)
def test_shards_that_do_not_exist_are_refused(numbers, tmp_path, capsys, words, match):
    assert main(["prepare", str(numbers), "--out", str(tmp_path / "out"), *words]) == 2
    assert match in capsys.readouterr().err
