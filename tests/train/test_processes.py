"""Two processes that share every batch train as one does."""

from __future__ import annotations

import os
from math import isnan
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import torch.distributed as dist
from safetensors.torch import load_file

import incidence as inc
from incidence.train import train
from incidence.train.steps import Training
from incidence.train.trainer import History
from tests.train.several_processes import SMALL, history, labelled_nodes, two
from tests.train.small_runs import die, graphs


def _missing(examples: list[inc.Example]) -> list[inc.Example]:
    """Half of the targets are missing, so that the processes have unequal numbers of them."""
    return [
        e.replace(target=torch.tensor([torch.nan])) if k % 2 else e for k, e in enumerate(examples)
    ]


CASES: dict[str, Any] = {
    "numbers": (graphs(40), {}),
    "classes": (graphs(40, is_classes=True), {"label_smoothing": 0.1}),
    "missing targets": (_missing(graphs(40)), {}),
    "the best weights": (graphs(40), {"keep": "best", "patience": 2}),
    "one to validate on": (graphs(10), {}),
}


DEFAULT = ("numbers", "missing targets")


@pytest.mark.parametrize(
    ("examples", "options"),
    [
        pytest.param(*case, id=name, marks=[] if name in DEFAULT else pytest.mark.exhaustive)
        for name, case in CASES.items()
    ],
)
def test_two_processes_have_the_losses_and_weights_of_one(examples, options, tmp_path):
    inc.collate(examples).save(tmp_path / "d.npz")
    given = {**SMALL, **options, "data": str(tmp_path / "d.npz")}
    train({**given, "out": str(tmp_path / "one")})
    assert two(lambda: train({**given, "out": str(tmp_path / "two")})) == [0, 0]
    for first, second in zip(history(tmp_path / "one"), history(tmp_path / "two"), strict=True):
        assert first == pytest.approx(second, rel=1e-6, abs=1e-9)
    one, other = (load_file(tmp_path / name / "model.safetensors") for name in ("one", "two"))
    for key in one:
        torch.testing.assert_close(one[key], other[key], rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("model", ["i, {i j}", "i, (i j)"])
def test_a_structure_over_two_processes_has_the_losses_and_weights_of_one(model, tmp_path):
    labelled_nodes(model.partition(", ")[2]).save(tmp_path / "d.npz")
    given = {**SMALL, "model": model, "data": str(tmp_path / "d.npz"), "split_structure": True}
    given = {**given, "batch_size": 1}
    train({**given, "out": str(tmp_path / "one")})
    assert two(lambda: train({**given, "out": str(tmp_path / "two")})) == [0, 0]
    for first, second in zip(history(tmp_path / "one"), history(tmp_path / "two"), strict=True):
        assert first == pytest.approx(second, rel=1e-6, abs=1e-9)
    one, other = (load_file(tmp_path / name / "model.safetensors") for name in ("one", "two"))
    for key in one:
        torch.testing.assert_close(one[key], other[key], rtol=1e-6, atol=1e-8)


def test_a_run_of_one_process_is_resumed_by_two(tmp_path):
    labelled_nodes("{i j}").save(tmp_path / "d.npz")
    given = {**SMALL, "data": str(tmp_path / "d.npz"), "split_structure": True}
    given |= {"batch_size": 1, "schedule": "constant", "warmup": 0.0}
    train({**given, "out": str(tmp_path / "whole")})
    train({**given, "epochs": 2, "out": str(tmp_path / "part")})
    assert two(lambda: inc.train.resume(tmp_path / "part", epochs=3)) == [0, 0]
    one, other = (load_file(tmp_path / name / "model.safetensors") for name in ("whole", "part"))
    for key in one:
        torch.testing.assert_close(one[key], other[key], rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("is_split", [True, False])
def test_processes_that_torchrun_starts_again_continue_the_run(is_split, tmp_path, monkeypatch):
    """The store of torchrun has the addresses of the first start; one machine counts it."""
    labelled_nodes("{i j}").save(tmp_path / "d.npz")
    if not is_split:
        inc.collate(graphs(20)).save(tmp_path / "d.npz")
    given = {**SMALL, "data": str(tmp_path / "d.npz"), "split_structure": is_split}
    given |= {"batch_size": 1} if is_split else {}
    train({**given, "out": str(tmp_path / "one")})
    store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    shared = {"MASTER_PORT": str(store.port), "TORCHELASTIC_USE_AGENT_STORE": "True"}
    add_row = History.on_train_epoch_end

    def killed(self: History, *arguments: Any) -> None:
        add_row(self, *arguments)
        if len(self.rows) == 2:
            die()

    def again() -> None:
        os.environ["TORCHELASTIC_RESTART_COUNT"] = os.environ["RANK"]
        train({**given, "out": str(tmp_path / "two")})

    with monkeypatch.context() as patch:
        patch.setattr(History, "on_train_epoch_end", killed)
        assert -9 in two(lambda: train({**given, "out": str(tmp_path / "two")}), environment=shared)
    assert (tmp_path / "two" / "checkpoints" / "last.ckpt").exists()
    assert two(again, environment=shared) == [0, 0]
    assert len(list((tmp_path / "two" / "logs" / "csv").iterdir())) == 2  # a part for each start
    for first, second in zip(history(tmp_path / "one"), history(tmp_path / "two"), strict=True):
        assert first == pytest.approx(second, rel=1e-6, abs=1e-9)


def test_only_labels_of_entries_are_learned_on_a_structure_over_processes(tmp_path):
    inc.collate(graphs(20)).save(tmp_path / "d.npz")
    given = {**SMALL, "data": str(tmp_path / "d.npz"), "out": str(tmp_path / "run")}
    with pytest.raises(inc.IncidenceError, match="`split_structure` is for labels or numbers"):
        train({**given, "split_structure": True})


def test_a_structure_over_processes_is_not_sampled(tmp_path):
    labelled_nodes("{i j}").save(tmp_path / "d.npz")
    given = {**SMALL, "data": str(tmp_path / "d.npz"), "out": str(tmp_path / "run")}
    given |= {"operations": "local", "neighbours": "2 2", "split_structure": True}
    with pytest.raises(inc.IncidenceError, match="all entries in every step: leave out `neigh"):
        train(given)


def test_only_the_first_process_of_torchrun_writes(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    inc.collate(graphs(20)).save(tmp_path / "d.npz")
    given = {**SMALL, "data": "d.npz", "epochs": 1}
    assert two(lambda: train(given)) == [0, 0]
    assert [path.name for path in (tmp_path / "runs").iterdir()] == ["d-1"]
    logs = (tmp_path / "runs" / "d-1" / "logs" / "csv").iterdir()
    assert [path.name for path in logs] == ["part_1"]


def test_a_run_of_torchrun_refuses_another_number_of_processes(tmp_path, monkeypatch):
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "test")
    monkeypatch.setenv("WORLD_SIZE", "4")
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "2")
    message = "devices=3 and machines=1, and torchrun started 2 processes on each of 2 machines"
    with pytest.raises(inc.IncidenceError, match=message):
        train({"devices": 3, "out": str(tmp_path / "run")})


def test_a_process_with_nothing_to_validate_on_counts_nothing(tmp_path):
    inc.collate(graphs(20)).save(tmp_path / "d.npz")
    run = train(
        {**SMALL, "data": str(tmp_path / "d.npz"), "out": str(tmp_path / "run"), "epochs": 1}
    )
    held, module = run.experiment.parts.validation, Training(run.predictor, run.experiment)
    shares = []
    for rank in range(len(held) + 1):
        module.trainer = SimpleNamespace(global_rank=rank, world_size=len(held) + 1)
        shares += [float(t) for batch in module.val_dataloader() for t in batch.target]
    assert shares[:-1] == [float(e.target) for e in held]
    assert isnan(shares[-1])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"data": "d{rank}.npz"}, "the data must be the same on all processes"),
        ({"data": "d0.npz", "hidden": 4}, "the options must be the same on all processes"),
    ],
)
def test_processes_with_other_data_or_options_are_refused(options, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for rank in range(2):
        inc.collate(graphs(20 + rank)).save(tmp_path / f"d{rank}.npz")

    def work() -> None:
        rank = os.environ["RANK"]
        own: dict[str, Any] = {"data": options["data"].format(rank=rank)}
        if "hidden" in options:
            own["hidden"] = options["hidden"] + int(rank)
        with pytest.raises(inc.IncidenceError, match=message):
            train({**SMALL, **own})

    assert two(work) == [0, 0]


def test_both_processes_end_when_the_weights_of_one_run_away(tmp_path, monkeypatch):
    own = Training._loss

    def loss(self: Training, batch: Any) -> Any:
        total, count = own(self, batch)
        return (total * torch.nan if self.global_rank == 1 else total), count

    monkeypatch.setattr(Training, "_loss", loss)
    inc.collate(graphs(20)).save(tmp_path / "d.npz")
    given = {**SMALL, "data": str(tmp_path / "d.npz"), "out": str(tmp_path / "run"), "devices": 2}
    assert two(lambda: train(given)) == [2, 2]
    assert not (tmp_path / "run" / "checkpoints" / "last.ckpt").exists()
