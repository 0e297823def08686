"""The loop adds little to a step, and what it logs and clips stays exact."""

from __future__ import annotations

from unittest.mock import Mock

import pytest
import torch
from torch import nn

from incidence.train import train
from incidence.train.trainer import Training
from tests.train.small_runs import graphs

SMALL = {"model": "graph", "hidden": 4, "depth": 1, "epochs": 2, "batch_size": 7}


@pytest.fixture
def watch(monkeypatch):
    """Lets something look at each call of a method of the loop: its arguments and its result."""

    def watched(name, look):
        method = getattr(Training, name)

        def call(self, *arguments, **options):
            result = method(self, *arguments, **options)
            look([self, *arguments], result)
            return result

        monkeypatch.setattr(Training, name, call)

    return watched


def run(folder, **options):
    return train({**SMALL, "out": str(folder), **options}, graphs(30))


def losses(folder):
    lines = (folder / "history.csv").read_text().splitlines()
    column = lines[0].split(",").index("train_loss")
    return [float(line.split(",")[column]) for line in lines[1:]]


def test_the_loss_of_an_epoch_is_the_mean_over_all_its_targets_and_logged_once(watch, tmp_path):
    sums, logged = [], []
    watch("_loss", lambda _, pair: sums.append(torch.stack(pair).detach()))
    watch("log", lambda given, _: logged.append(given[1:2]))
    run(tmp_path)
    epochs = torch.stack(sums).view(2, -1, 2).sum(1)
    assert losses(tmp_path) == pytest.approx((epochs[:, 0] / epochs[:, 1]).tolist())
    assert logged.count(["train_loss"]) == 2


def gradient_norm(training):
    parts = [p.grad.flatten() for p in training.parameters() if p.grad is not None]
    return float(torch.cat(parts).norm())


def test_gradients_that_are_too_large_are_clipped_to_the_norm_of_the_option(watch, tmp_path):
    norms = []
    watch("on_train_batch_end", lambda given, _: norms.append(gradient_norm(given[0])))
    run(tmp_path, clip=0.01)
    assert norms == pytest.approx([0.01] * len(norms), rel=1e-3)


def test_gradients_that_are_small_enough_stay_as_they_are(tmp_path):
    run(tmp_path / "large", clip=1e9)
    run(tmp_path / "none", clip=0)
    assert losses(tmp_path / "large") == losses(tmp_path / "none")


def test_a_batch_that_is_on_the_device_is_not_copied():
    [batch] = graphs(1)
    move = Training.transfer_batch_to_device
    assert move(Mock(), batch, torch.device("cpu"), 0) is batch
    assert move(Mock(), batch, torch.device("meta"), 0).features["i"].device.type == "meta"


def test_parameters_of_the_loop_are_still_registered_and_removed():
    training = Training.__new__(Training)
    nn.Module.__init__(training)
    training.weight = nn.Parameter(torch.ones(2))
    assert [name for name, _ in training.named_parameters()] == ["weight"]
    training.weight = None
    assert list(training.parameters()) == []
