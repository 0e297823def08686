"""Ensembles predict the mean of their members; intervals cover what they promise; folds are all
tested.
"""

from __future__ import annotations

import pytest
import torch
from safetensors.torch import load_file

from incidence.data.dataset import Task
from incidence.errors import IncidenceError
from incidence.models.ensemble import Ensemble
from incidence.train import cross_validate, load, resume, train
from incidence.train.conformal import Calibration
from incidence.train.run import Interrupted
from tests.train.small_runs import graphs

SMALL = {"model": "i, {i j}", "epochs": 1, "hidden": 4, "depth": 1, "validation": 0.3}


@pytest.fixture(scope="module")
def ensemble(tmp_path_factory):
    out = tmp_path_factory.mktemp("runs") / "ensemble"
    run = train({**SMALL, "ensemble": 2, "seed": 5, "out": str(out)}, graphs(40))
    return load(run.folder.path)


def test_an_ensemble_predicts_mean_and_deviation_of_runs_with_different_seeds(ensemble, tmp_path):
    examples = graphs(6)
    both = []
    for seed in (5, 6):
        options = {**SMALL, "seed": seed, "out": str(tmp_path / str(seed))}
        run = train(options, graphs(40))
        both.append(load(run.folder.path).predict(examples).values)
    predictions = ensemble.predict(examples)
    torch.testing.assert_close(predictions.values, torch.stack(both).mean(0))
    torch.testing.assert_close(predictions.deviations, torch.stack(both).std(0))
    head, first, *_ = predictions.csv().splitlines()
    assert head.endswith(",deviation target")
    assert float(first.split(",")[-1]) == pytest.approx(float(predictions.deviations[0]), rel=1e-4)


def test_an_ensemble_resumes_to_the_same_weights_after_a_stop(ensemble, tmp_path, monkeypatch):
    from incidence.train import run as module

    own, count = module._Job.run, [0]

    def stop_second(job):
        count[0] += 1
        if count[0] == 2:
            raise Interrupted(job.folder)
        return own(job)

    monkeypatch.setattr(module._Job, "run", stop_second)
    options = {**SMALL, "ensemble": 2, "seed": 5, "out": str(tmp_path / "run")}
    with pytest.raises(Interrupted, match=f"resume\\('{tmp_path / 'run'}'\\)`$"):
        train(options, graphs(40))
    resumed = resume(tmp_path / "run", graphs(40))
    theirs = load_file(ensemble.folder.weights)
    ours = load_file(resumed.folder.weights)
    assert all(torch.equal(ours[key], theirs[key]) for key in theirs)


def test_intervals_reach_the_error_of_the_right_rank():
    errors = torch.arange(1.0, 20.0)  # 19 of them
    task = Task("regression", ("x",))
    calibration = Calibration.of(errors[:, None], torch.zeros(19, 1), task)
    assert calibration.radius("x", 0.9) == 18  # ceil(20 * 0.9)
    assert calibration.radius("x", 0.5) == 10
    with pytest.raises(IncidenceError, match=r"cover 0\.99 of the values need 99 validation rows"):
        calibration.radius("x", 0.99)
    with pytest.raises(IncidenceError, match=r"between 0 and 1; got 1\.5"):
        calibration.radius("x", 1.5)


def test_intervals_cover_their_share_of_new_values():
    generator = torch.Generator().manual_seed(0)
    task, covered = Task("regression", ("x",)), []
    for _ in range(200):
        errors = torch.randn(60, generator=generator).exp()
        calibration = Calibration.of(errors[:49, None], torch.zeros(49, 1), task)
        covered.append((errors[49:] <= calibration.radius("x", 0.8)).float().mean())
    assert 0.78 < float(torch.stack(covered).mean()) < 0.84


def test_a_run_gives_intervals_around_its_predictions(ensemble):
    predictions = ensemble.predict(graphs(3), coverage=0.8)
    middle = predictions.intervals.mean(-1)
    torch.testing.assert_close(middle, predictions.values)
    assert predictions.csv().splitlines()[0].endswith("lower target,upper target")
    with pytest.raises(IncidenceError, match=r"call predict\(what, coverage=0\.9\)"):
        _ = ensemble.predict(graphs(3)).intervals


def test_what_a_run_lacks_is_said(ensemble, tmp_path):
    options = {**SMALL, "validation": 0.0, "out": str(tmp_path / "run")}
    lone = load(train(options, graphs(20)).folder.path)
    with pytest.raises(IncidenceError, match="only an ensemble has deviations"):
        _ = lone.predict(graphs(2)).deviations
    lone.folder.calibration.unlink(missing_ok=True)
    with pytest.raises(IncidenceError, match="no calibrated intervals: they need numbers"):
        lone.predict(graphs(2), coverage=0.9)
    lone.folder.calibration.write_text('{"x": [2, 1]}')
    with pytest.raises(IncidenceError, match=r"calibration\.json is damaged"):
        lone.predict(graphs(2), coverage=0.9)
    with pytest.raises(IncidenceError, match="export one of its members"):
        ensemble.export(tmp_path / "x.onnx")
    with pytest.raises(IncidenceError, match="trained in one process"):
        train({**SMALL, "ensemble": 2, "devices": 2}, graphs(20))
    with pytest.raises(IncidenceError, match="at least two members; got 1"):
        Ensemble([lone.predictor])
    with pytest.raises(IncidenceError, match="continues with the epochs it was started for, 1"):
        resume(ensemble.folder.path, graphs(40), epochs=2)


def test_every_row_is_tested_in_one_fold_of_a_cross_validation(tmp_path):
    options = {**SMALL, "validation": 0.0, "out": str(tmp_path)}
    result = cross_validate(options, graphs(12), cv=3)
    tested = [place[0] for one in result.evaluations for place in one.parts["test"].places]
    assert sorted(tested) == list(range(12))
    assert result.mean == pytest.approx(sum(result.values) / 3)
    assert repr(result).startswith("CrossValidation(rmse ")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["1", "2", "3"]
