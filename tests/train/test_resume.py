"""A run that was killed and resumed ends with the same bits as one that was not."""

from __future__ import annotations

import json
import shutil
import signal
import time
from pathlib import Path
from typing import Any

import pytest
import torch

from incidence.errors import IncidenceError
from incidence.train import RunFolder, resume, train
from incidence.train.steps import Training
from tests.train.killed_runs import OPTIONS, assert_same_bits, kill_in_step
from tests.train.small_runs import die, in_child


def _kill_in_write(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    """Lets the process die when half of its nth checkpoint is written."""
    own, count = torch.save, iter(range(10**6))

    def save(content: Any, file: Any, **settings: Any) -> None:
        if next(count) == number:
            file.write(b"half of it")
            file.flush()
            die()
        own(content, file, **settings)

    monkeypatch.setattr(torch, "save", save)


@pytest.fixture(scope="module")
def whole(numbers: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that nobody disturbed."""
    path = tmp_path_factory.mktemp("runs") / "whole"
    train({**OPTIONS, "data": str(numbers), "out": str(path)})
    return path


KILLS = {
    "in the first epoch": [(kill_in_step, 1)],
    "in the middle of an epoch": [(kill_in_step, 10)],
    "while a checkpoint is written": [(_kill_in_write, 1)],
    "while the first checkpoint is written": [(_kill_in_write, 0)],
    "twice in a row": [(kill_in_step, 10), (kill_in_step, 3)],
    "in a step, then in a write": [(kill_in_step, 6), (_kill_in_write, 1)],
}


@pytest.mark.parametrize("kills", KILLS.values(), ids=KILLS.keys())
def test_a_killed_run_ends_with_the_same_bits(
    kills: list[Any], numbers: Path, whole: Path, tmp_path: Path
) -> None:
    path = tmp_path / "run"
    start: Any = lambda: train({**OPTIONS, "data": str(numbers), "out": str(path)})  # noqa: E731
    for kill, number in kills:
        with pytest.MonkeyPatch.context() as patch:
            kill(patch, number)
            assert in_child(start) == -signal.SIGKILL
        start = lambda: resume(path)  # noqa: E731
    resume(path)
    assert_same_bits(path, whole)
    assert [p.name for p in (path / "checkpoints").iterdir()] == ["last.ckpt"]


@pytest.mark.parametrize("average", [0.0, 0.9])
@pytest.mark.parametrize("step", [2, 6, 7, 15])
def test_a_run_that_is_killed_in_an_epoch_continues_in_that_epoch(
    step: int, average: float, numbers: Path, tmp_path: Path
) -> None:
    options = {**OPTIONS, "data": str(numbers), "average": average, "save_minutes": 0}
    train({**options, "out": str(tmp_path / "whole")})
    path, done = tmp_path / "run", []
    with pytest.MonkeyPatch.context() as patch:
        kill_in_step(patch, step)  # of four in an epoch
        always = {**options, "save_minutes": 1e-9, "out": str(path)}
        assert in_child(lambda: train(always)) == -signal.SIGKILL
    own = Training.take_step
    with pytest.MonkeyPatch.context() as patch:

        def counted(self: Training, batch: Any, optimizer: Any, number: int) -> None:
            done.append(self.current_epoch * self.steps_per_epoch + number - 1)
            own(self, batch, optimizer, number)

        patch.setattr(Training, "take_step", counted)
        resume(path)
    assert done == list(range(step, 16))
    assert_same_bits(path, tmp_path / "whole")


def test_no_checkpoint_is_written_in_an_epoch_before_its_time(
    numbers: Path, tmp_path: Path
) -> None:
    options = {**OPTIONS, "data": str(numbers), "out": str(tmp_path / "run")}
    with pytest.MonkeyPatch.context() as patch:
        kill_in_step(patch, 6)
        assert in_child(lambda: train(options)) == -signal.SIGKILL
    content = torch.load(tmp_path / "run" / "checkpoints" / "last.ckpt", weights_only=True)
    assert (content["epoch"], content["position"]["batches"]) == (0, 0)


def _seconds(path: Path) -> float:
    return float(json.loads((path / "metrics.json").read_text())["seconds"])


def test_the_time_before_a_kill_counts(numbers: Path, whole: Path, tmp_path: Path) -> None:
    own = Training.on_train_epoch_start

    def slow(self: Training) -> None:
        own(self)
        time.sleep(0.15)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Training, "on_train_epoch_start", slow)
        kill_in_step(patch, 10)  # of four in an epoch
        assert (
            in_child(lambda: train({**OPTIONS, "data": str(numbers), "out": str(tmp_path / "run")}))
            == -signal.SIGKILL
        )
    resume(tmp_path / "run")
    assert _seconds(tmp_path / "run") >= 0.3  # of two epochs
    assert_same_bits(tmp_path / "run", whole)
    before = _seconds(tmp_path / "run")
    resume(tmp_path / "run", epochs=6)
    assert before < _seconds(tmp_path / "run") < before + 30  # it is counted once


@pytest.mark.parametrize(
    "model",
    [
        "ppgn",
        "topology",
        pytest.param("local-fgnn", marks=pytest.mark.exhaustive),
        pytest.param("subgraph", marks=pytest.mark.exhaustive),
        pytest.param("transformer", marks=pytest.mark.slow),
    ],
)
def test_a_killed_run_of_products_holes_and_attention_ends_with_the_same_bits(
    model: str, numbers: Path, tmp_path: Path
) -> None:
    options = {**OPTIONS, "model": model, "hidden": 4, "epochs": 2, "data": str(numbers)}
    train({**options, "out": str(tmp_path / "whole")})
    with pytest.MonkeyPatch.context() as patch:
        kill_in_step(patch, 7)
        assert in_child(lambda: train({**options, "out": str(tmp_path / "run")})) == -signal.SIGKILL
    resume(tmp_path / "run")
    assert_same_bits(tmp_path / "run", tmp_path / "whole")


def test_resuming_a_finished_run_changes_nothing(whole: Path, tmp_path: Path) -> None:
    before = (whole / "model.safetensors").read_bytes()
    resume(whole)
    assert (whole / "model.safetensors").read_bytes() == before


def test_a_run_of_a_version_that_knew_fewer_settings_is_resumed_and_loaded(
    whole: Path, tmp_path: Path
) -> None:
    path = tmp_path / "old"
    shutil.copytree(whole, path)
    spec = json.loads((path / "model.json").read_text())
    del spec["settings"]["operations"]
    (path / "model.json").write_text(json.dumps(spec))
    content = torch.load(path / "checkpoints" / "last.ckpt", weights_only=True)
    del content["incidence"]["settings"]["operations"]
    torch.save(content, path / "checkpoints" / "last.ckpt")
    (path / "config.yaml").write_text(
        (path / "config.yaml").read_text().replace("operations:", "# operations:")
    )
    resume(path)
    assert_same_bits(path, whole)
    predictor, _ = RunFolder.open(path).load()
    assert predictor.net.settings.operations is None


def test_a_finished_run_goes_on_for_more_epochs(whole: Path, tmp_path: Path) -> None:
    path = tmp_path / "longer"
    shutil.copytree(whole, path)
    before = (path / "history.csv").read_text().splitlines()
    run = resume(path, epochs=6)
    after = (path / "history.csv").read_text().splitlines()
    assert after[: len(before)] == before
    assert len(after) == 1 + 6
    # a schedule of six epochs ends at 0
    assert float(after[-1].split(",")[-1]) < 1e-3 * 3e-3 < float(after[-2].split(",")[-1])
    assert run is not None
    assert json.loads((path / "metrics.json").read_text())["epochs"] == 6
    assert "\nepochs: 6\n" in (path / "config.yaml").read_text()
    with pytest.raises(
        IncidenceError, match="is for 6 epochs: a run continues for as many or more; got 4"
    ):
        resume(path, epochs=4)
    again = (path / "model.safetensors").read_bytes()
    resume(path)
    assert (path / "model.safetensors").read_bytes() == again
