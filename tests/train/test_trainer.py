"""The loop adds little to a step, and what it logs and clips stays exact."""

from __future__ import annotations

from copy import deepcopy
from unittest.mock import Mock

import pytest
import torch

from incidence.train import train
from incidence.train.learning_rate import LearningRate
from incidence.train.steps import Training
from tests.train.killed_runs import assert_same_bits
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
    watch("take_step", lambda given, _: norms.append(gradient_norm(given[0])))
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


def test_steps_past_the_hooks_of_lightning_give_the_same_bits_as_those_with_them(
    tmp_path, monkeypatch
):
    run(tmp_path / "past", dropout=0.2, clip=0.1)
    own = Training.take_step
    monkeypatch.setattr(
        Training,
        "take_step",
        lambda self, batch, optimizer, _: own(self, batch, optimizer, self.steps_per_epoch),
    )
    run(tmp_path / "with", dropout=0.2, clip=0.1)
    assert_same_bits(tmp_path / "past", tmp_path / "with")


def test_a_step_in_mixed_precision_computes_with_the_weights_after_the_step_before(watch, tmp_path):
    # An epoch is one context of autocast, which may store copies of weights. Lightning forbids it.
    differences = []

    def compare(given, _):
        predictor, batch = given[0].predictor, given[1]
        fresh = deepcopy(predictor)  # whose weights nobody has a copy of in half precision
        with torch.no_grad():
            ours, theirs = (
                one.eval()(batch.features, batch.structure) for one in (predictor, fresh)
            )
        predictor.train()
        differences.append(float((ours - theirs).abs().max()))

    watch("take_step", compare)
    run(tmp_path, precision="bf16-mixed", lr=0.1)
    assert len(differences) > 4
    assert max(differences) == 0


def test_the_rate_of_a_step_follows_the_schedule_of_the_run(watch, tmp_path):
    rates = []
    watch("take_step", lambda given, _: rates.append(given[2].param_groups[0]["lr"]))
    finished = run(tmp_path, lr=0.1)
    schedule = LearningRate(finished.experiment.config, len(rates), is_higher_better=False)
    assert rates == pytest.approx([0.1 * schedule.factor(k) for k in range(len(rates))])
    assert max(rates) > 0.09 > 10 * rates[0]
