"""Averaged weights, a plateau of the metric, and a limit on time do what they say."""

from __future__ import annotations

import csv
import signal

import pytest
import torch
from safetensors.torch import load_file

from incidence.train import resume, train
from incidence.train.learning_rate import Plateau
from incidence.train.steps import Training
from tests.train.killed_runs import OPTIONS, assert_same_bits, kill_in_step
from tests.train.small_runs import graphs, in_child

AVERAGED = {"average": 0.9, "schedule": "plateau", "plateau_patience": 1, "lr": 0.1, "warmup": 0.0}


def rates(path):
    lines = (path / "history.csv").read_text().splitlines()
    return [float(row["lr"]) for row in csv.DictReader(lines)]


def test_a_killed_run_with_averages_and_a_plateau_ends_with_the_same_bits(numbers, tmp_path):
    given = {**OPTIONS, **AVERAGED, "epochs": 6, "data": str(numbers)}
    train({**given, "out": str(tmp_path / "whole")})
    assert len(set(rates(tmp_path / "whole"))) > 1  # the plateau came
    with pytest.MonkeyPatch.context() as patch:
        kill_in_step(patch, 13)
        killed = in_child(lambda: train({**given, "out": str(tmp_path / "run")}))
    assert killed == -signal.SIGKILL
    resume(tmp_path / "run")
    assert_same_bits(tmp_path / "run", tmp_path / "whole")


def test_the_averaged_weights_are_those_of_the_formula(tmp_path, monkeypatch):
    weights, own = [], Training.take_step

    def note(self, *arguments):
        own(self, *arguments)
        weights.append([p.detach().clone() for p in self.predictor.parameters()])

    monkeypatch.setattr(Training, "take_step", note)
    starts, begin = [], Training.__init__

    def start(self, predictor, *arguments):
        starts.extend(p.detach().clone() for p in predictor.parameters())
        begin(self, predictor, *arguments)

    monkeypatch.setattr(Training, "__init__", start)
    options = {**OPTIONS, "epochs": 2, "average": 0.5, "out": str(tmp_path / "run")}
    run = train({**options, "validation": 0.0}, graphs(20))
    expected = starts
    for step, now in enumerate(weights, 1):
        decay = min(0.5, (1 + step) / (10 + step))
        expected = [decay * a + (1 - decay) * w for a, w in zip(expected, now, strict=True)]
    for average, theirs in zip(run.predictor.parameters(), expected, strict=True):
        torch.testing.assert_close(average, theirs)
    names = [name for name, _ in run.predictor.named_parameters()]
    saved = load_file(run.folder.weights)
    assert all(name in saved for name in names)


def test_statistics_of_norms_are_averaged_with_the_weights(tmp_path, monkeypatch):
    statistics, own = [], Training.take_step

    def note(self, *arguments):
        own(self, *arguments)
        statistics.append({k: b.clone() for k, b in self.predictor.named_buffers()})

    monkeypatch.setattr(Training, "take_step", note)
    options = {**OPTIONS, "epochs": 2, "average": 0.5, "validation": 0.0, "norm": "batch"}
    run = train({**options, "out": str(tmp_path / "run")}, graphs(20))
    averaged = dict(run.predictor.named_buffers())
    [name, *_] = [name for name in averaged if name.endswith("running_var")]
    expected = torch.ones_like(averaged[name])  # as norms start
    for step, now in enumerate(statistics, 1):
        decay = min(0.5, (1 + step) / (10 + step))
        expected = decay * expected + (1 - decay) * now[name]
    torch.testing.assert_close(averaged[name], expected)
    assert not torch.equal(averaged[name], statistics[-1][name])


def test_a_plateau_halves_the_rate_after_its_patience():
    plateau = Plateau(2, is_higher_better=False)
    factors = []
    for value in (3.0, 2.0, 2.0, 2.5, 2.0, 1.0, 1.0, 1.0):
        plateau.update(value)
        factors.append(plateau.factor)
    assert factors == [1, 1, 1, 0.5, 0.5, 0.5, 0.5, 0.25]
    higher = Plateau(1, is_higher_better=True)
    for value in (0.1, 0.2, 0.3):
        higher.update(value)
    assert higher.factor == 1


def test_training_stops_when_its_time_is_over_and_does_not_go_on_when_resumed(tmp_path):
    options = {**OPTIONS, "epochs": 50, "max_minutes": 1e-6, "out": str(tmp_path / "run")}
    run = train(options, graphs(20))
    assert len(run.history) == 1
    assert len(resume(tmp_path / "run", graphs(20)).history) == 1
