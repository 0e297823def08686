"""Runs: what they learn, what they leave behind, and how they end when something is wrong."""

from __future__ import annotations

import csv
import errno
import importlib.metadata
import io
import json
import os
import pickle
import resource
import shutil
import signal
import sys
import zipfile
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pandas
import pytest
import torch
from safetensors.torch import load_file, save_file

import incidence as inc
from incidence.data import Split, load
from incidence.errors import IncidenceError, TooLargeError
from incidence.models import PRESETS
from incidence.train import Config, Interrupted, RunFolder, resume, train
from incidence.train.checkpoint import read
from incidence.train.evaluation import Evaluation
from incidence.train.report import finish, summary
from incidence.train.steps import Training
from tests.train.small_runs import as_scored, graphs, in_child

SMALL: dict[str, Any] = {
    "model": "i, {i j}",
    "epochs": 2,
    "batch_size": 16,
    "hidden": 4,
    "depth": 1,
    "dropout": 0.0,
}


def rows(path: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(path.read_text().splitlines()))


def saved(path: Path, examples: list[inc.Example]) -> str:
    inc.collate(examples).save(path)
    return str(path)


@pytest.fixture(scope="module")
def done(numbers: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a finished run."""
    path = tmp_path_factory.mktemp("runs") / "done"
    train({**SMALL, "data": str(numbers), "out": str(path)})
    return path


# ---- what is learned


def test_numbers_are_learned_better_than_by_the_mean(numbers, tmp_path):
    run = train(
        {
            **SMALL,
            "data": str(numbers),
            "out": str(tmp_path / "run"),
            "epochs": 14,
            "batch_size": 8,
            "lr": 0.05,
        }
    )
    scored = run.evaluation.parts["train"]
    assert scored.metrics["rmse"] < 0.5 * scored.baseline["rmse"]
    assert scored.baseline["rmse"] == pytest.approx(
        float(scored.target.std(correction=0)), rel=1e-4
    )


def test_each_metric_is_beside_its_own_best_constant(tmp_path):
    skewed = [e.replace(target=e.target.exp()) for e in graphs(40)]
    scored = train(
        {**SMALL, "data": saved(tmp_path / "d.npz", skewed), "out": str(tmp_path / "run")}
    ).evaluation.parts["train"]
    assert scored.baseline["mae"] == pytest.approx(
        float((scored.target - scored.target.median()).abs().mean()), rel=1e-4
    )
    assert scored.baseline["rmse"] == pytest.approx(
        float(scored.target.std(correction=0)), rel=1e-4
    )


def test_classes_are_learned_better_than_by_their_frequency(classes, tmp_path):
    run = train(
        {
            **SMALL,
            "data": str(classes),
            "out": str(tmp_path / "run"),
            "epochs": 10,
            "lr": 0.05,
            "label_smoothing": 0.1,
        }
    )
    scored = run.evaluation.parts["train"]
    assert scored.metrics["accuracy"] > scored.baseline["accuracy"]
    assert scored.metrics["accuracy"] == pytest.approx(
        float((scored.predicted.argmax(1) == scored.target).float().mean())
    )


def _with_targets(at: str, is_classes: bool) -> list[inc.Example]:
    found = []
    for e in graphs(20):
        x = (
            e.features["i"][:, :1]
            if at == "i"
            else e.features["i"][e.structure["{i j}"]].sum(0)[:, :1]
        )
        target = (x[:, 0] > 0).long() if is_classes else x.clone()
        target[0] = -1 if is_classes else torch.nan
        found.append(e.replace(target={at: target}))
    return found


@pytest.mark.parametrize(("at", "is_classes"), [("i", False), ("{i j}", True)])
def test_targets_may_belong_to_nodes_and_edges_and_be_missing(at, is_classes, tmp_path):
    data = saved(tmp_path / "data.npz", _with_targets(at, is_classes))
    run = train(
        {
            **SMALL,
            "data": data,
            "out": str(tmp_path / "run"),
            "epochs": 12,
            "batch_size": 4,
            "lr": 0.05,
        }
    )
    scored, metric = run.evaluation.parts["train"], "accuracy" if is_classes else "rmse"
    assert (scored.metrics[metric] > scored.baseline[metric]) is is_classes
    assert all(p.isfinite().all() for p in run.predictor.parameters())
    assert len(rows(tmp_path / "run" / "predictions.csv")) == sum(
        len(p.target) for p in run.evaluation.parts.values()
    )


def test_entries_of_one_structure_are_split(tmp_path):
    [example] = [e.replace(target={"i": (e.features["i"][:, 0] > 0).long()}) for e in graphs(1)]
    wide = inc.collate([example] * 5)
    whole = inc.Example(
        inc.Structure(wide.structure.total_nodes, {"{i j}": wide.structure["{i j}"]}),
        wide.features,
        wide.target,
    )
    whole.save(tmp_path / "one.npz")
    run = train({**SMALL, "data": str(tmp_path / "one.npz"), "out": str(tmp_path / "run")})
    known = {name: len(part.target) for name, part in run.evaluation.parts.items()}
    assert sum(known.values()) == whole.structure.total_nodes
    assert known["train"] > known["test"] > 0
    table = rows(tmp_path / "run" / "predictions.csv")
    assert {row["example"] for row in table} == {"0"}
    assert sorted(int(row["entry"]) for row in table) == list(range(whole.structure.total_nodes))
    names = run.experiment.data.task.names
    assert all(row["target"] == names[whole.target["i"][int(row["entry"])]] for row in table)


def in_parts(examples):
    """Forty examples: the first thirty for training, the last five for testing."""
    every = torch.arange(40)
    return replace(load(examples), splits=(Split(every[:30], every[30:35], every[35:]),))


def test_targets_that_are_missing_do_not_count(tmp_path):
    """Values of the same examples with and without others that have no target."""
    examples = graphs(40)
    bare = [
        e if k % 2 else e.replace(target=torch.tensor([torch.nan])) for k, e in enumerate(examples)
    ]
    run = train({**SMALL, "out": str(tmp_path / "run")}, in_parts(bare))
    scored = run.evaluation.parts["train"]
    known = ~scored.target.isnan()
    assert 0 < int(known.sum()) < len(known)
    assert scored.metrics["rmse"] == pytest.approx(
        float((scored.predicted - scored.target)[known].square().mean().sqrt()), rel=1e-4
    )
    assert all(float(row["train_loss"]) < 100 for row in rows(tmp_path / "run" / "history.csv"))


def test_anything_that_is_data_can_be_trained_on(tmp_path):
    frame = pandas.DataFrame(
        {"smiles": ["C" * k for k in range(1, 13)], "weight": [float(k) for k in range(12)]}
    )
    frame.to_csv(tmp_path / "alkanes.csv", index=False)
    small = {"epochs": 1, "hidden": 4, "depth": 1, "target": "weight"}
    given = [
        ((small,), frame),
        (({**small, "data": frame},), None),
        ((small,), tmp_path / "alkanes.csv"),
    ]
    runs = [
        train({**options[0], "out": str(tmp_path / f"run {k}")}, data)
        for k, (options, data) in enumerate(given)
    ]
    assert {run.evaluation.parts["test"].metrics["rmse"] for run in runs} == {
        runs[0].evaluation.parts["test"].metrics["rmse"]
    }
    assert resume(runs[0].folder.path, frame).evaluation.metrics() == runs[0].evaluation.metrics()
    assert runs[2].experiment.config.data == str(tmp_path / "alkanes.csv")


@pytest.mark.parametrize(
    ("targets", "only"), [([2.5] * 12, "one value only, 2.5"), (["a"] * 12, "one class only, 'a'")]
)
def test_a_target_that_is_the_same_for_all_is_nothing_to_learn(targets, only, tmp_path):
    frame = pandas.DataFrame({"smiles": ["C" * k for k in range(1, 13)], "y": targets})
    with pytest.raises(
        IncidenceError, match=f"there is {only}, so nothing to learn: see what `target` is"
    ):
        train({"out": str(tmp_path / "run"), "target": "y"}, frame)


def test_what_is_learned_from_what_is_told_before_it_begins(tmp_path, capsys):
    frame = pandas.DataFrame(
        {"smiles": ["C" * k for k in range(1, 13)], "kind": ["odd", "even"] * 6}
    )
    run = train(
        {"epochs": 1, "hidden": 4, "depth": 1, "out": str(tmp_path / "run")}, frame, is_shown=True
    )
    told = (
        "frame: 10 rows to train on, 1 to validate on, 1 to test on; predicting kind (2 classes);"
        " model: molecule (molecules: atoms and bonds), which reads `i`, `{i j}`, and not"
        " `ring={i ...}`; not the coordinates `pos=i`, which change with every rotation"
    )
    assert capsys.readouterr().err.splitlines()[0] == told
    finish(run)
    assert "<dt>predicted</dt><dd>kind (2 classes)</dd>" in run.folder.report.read_text()


def test_training_without_any_target_is_refused(tmp_path):
    bare = [
        e.replace(target=torch.tensor([torch.nan])) if k < 30 else e
        for k, e in enumerate(graphs(40))
    ]
    with pytest.raises(IncidenceError, match=r"none of the training examples of .* has a target"):
        train({**SMALL, "out": str(tmp_path / "run")}, in_parts(bare))
    assert not (tmp_path / "run").exists()


def test_a_part_without_any_target_has_no_metric(tmp_path):
    bare = [
        e.replace(target=torch.tensor([torch.nan])) if k >= 35 else e
        for k, e in enumerate(graphs(40))
    ]
    run = train({**SMALL, "out": str(tmp_path / "b")}, in_parts(bare))
    finish(run)
    assert "test rmse none" in summary(run)
    assert json.loads((tmp_path / "b" / "metrics.json").read_text())["test"]["rmse"] is None


@pytest.mark.parametrize(
    ("loss", "schedule"), [("squared", "constant"), ("absolute", "cosine"), ("huber", "constant")]
)
def test_every_loss_and_schedule_trains(loss, schedule, numbers, tmp_path):
    run = train(
        {
            **SMALL,
            "data": str(numbers),
            "out": str(tmp_path / "run"),
            "epochs": 1,
            "loss": loss,
            "schedule": schedule,
            "clip": 0,
        }
    )
    assert run.evaluation.parts["train"].metrics["rmse"] < 20


@pytest.mark.parametrize("precision", ["64-true", "bf16-mixed"])
def test_other_precisions_train(precision, numbers, tmp_path):
    run = train(
        {**SMALL, "data": str(numbers), "out": str(tmp_path / "run"), "precision": precision}
    )
    assert run.evaluation.parts["train"].metrics["rmse"] < 10


def test_a_model_may_be_named_by_its_tensors_without_blanks(numbers, tmp_path):
    run = train(
        {
            **SMALL,
            "data": str(numbers),
            "out": str(tmp_path / "run"),
            "model": "i,{i j}",
            "epochs": 1,
        }
    )
    assert str(run.predictor.net.map) == "i, {i j} -> "


# ---- the best weights, and an early end


WATCHED = {**SMALL, "epochs": 6, "lr": 0.2, "schedule": "constant", "keep": "best"}


def test_the_weights_of_the_best_epoch_are_kept(numbers, tmp_path):
    run = train({**WATCHED, "data": str(numbers), "out": str(tmp_path / "run")})
    best = min(float(row["validation_rmse"]) for row in rows(tmp_path / "run" / "history.csv"))
    assert run.evaluation.parts["validation"].metrics["rmse"] == pytest.approx(best, rel=1e-4)
    assert best < float(rows(tmp_path / "run" / "history.csv")[-1]["validation_rmse"])


def graphs_in_parts() -> inc.data.DataSet:
    every = torch.arange(24)
    data = load(graphs(24))
    split = Split(every[:16], every[16:20], every[20:])
    return replace(data, splits=(split,), has_drawn_parts=False)


def molecules_in_parts() -> inc.data.DataSet:
    sizes = [1 + k % 12 for k in range(24)]
    columns = {"smiles": ["C" * n for n in sizes], "y": [(n * n) % 7 for n in sizes]}
    frame = pandas.DataFrame({**columns, "split": ["train"] * 16 + ["val"] * 4 + ["test"] * 4})
    return load(frame, target="y")


@pytest.mark.parametrize("make", [graphs_in_parts, molecules_in_parts])
def test_a_validation_part_that_the_data_gives_chooses_the_epoch_and_the_report_says_which(
    make, tmp_path
):
    options = {key: value for key, value in WATCHED.items() if key not in ("keep", "model")}
    data = make()
    run = train({**options, "out": str(tmp_path / "run")}, data)
    scores = [row["validation_rmse"] for row in run.history]
    assert run.experiment.config.keep == "best"
    assert run.saved_epoch == 1 + scores.index(min(scores)) < len(scores)
    # the scores of epochs have the precision of training
    measured = run.evaluation.parts["validation"].metrics["rmse"]
    assert measured == pytest.approx(min(scores), rel=1e-4)
    said = f"The weights are those of epoch {run.saved_epoch} of 6, which has the best rmse on the"
    assert said in finish(run)
    assert said in run.folder.report.read_text()


def test_without_a_validation_part_of_the_data_the_last_epoch_is_saved(tmp_path):
    data = replace(graphs_in_parts(), has_drawn_parts=True)
    options = {key: value for key, value in WATCHED.items() if key != "keep"}
    run = train({**options, "epochs": 2, "out": str(tmp_path / "run")}, data)
    assert (run.experiment.config.keep, run.saved_epoch) == ("last", 2)
    assert "The weights are those" not in finish(run)


def _flat(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets the validation get worse in every epoch."""
    monkeypatch.setattr(
        Training,
        "on_validation_epoch_end",
        lambda self: self.log("validation_rmse", float(self.current_epoch)),
    )


def test_a_run_ends_early_and_resuming_it_changes_nothing(numbers, tmp_path, monkeypatch):
    _flat(monkeypatch)
    path = tmp_path / "run"
    train({**SMALL, "data": str(numbers), "out": str(path), "epochs": 9, "patience": 2})
    history, weights = (path / "history.csv").read_text(), (path / "model.safetensors").read_bytes()
    assert len(history.splitlines()) == 1 + 3
    resume(path)
    assert (path / "history.csv").read_text() == history
    assert (path / "model.safetensors").read_bytes() == weights


def test_the_best_weights_survive_a_move_and_a_resume(numbers, tmp_path, monkeypatch):
    _flat(monkeypatch)
    options = {**SMALL, "data": str(numbers), "epochs": 3, "keep": "best"}
    train({**options, "out": str(tmp_path / "whole")})
    own = Training.on_train_epoch_start

    def stop(self: Training) -> None:
        own(self)
        if self.current_epoch == 1:
            raise RuntimeError("stop here")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Training, "on_train_epoch_start", stop)
        with pytest.raises(RuntimeError, match="stop here"):
            train({**options, "out": str(tmp_path / "run")})
    shutil.move(tmp_path / "run", tmp_path / "elsewhere")
    resume(tmp_path / "elsewhere")
    one, two = (load_file(tmp_path / name / "model.safetensors") for name in ("whole", "elsewhere"))
    assert all(torch.equal(one[key], two[key]) for key in one)


@pytest.mark.parametrize("options", [{"keep": "best"}, {"patience": 3}])
def test_watching_needs_a_validation_part(options, tmp_path):
    folder = tmp_path / "data"
    for name in ("few", "many"):
        for part in ("train", "test"):
            (folder / name / part).mkdir(parents=True)
            (folder / name / part / "a.edges").write_text("0 1\n1 2\n2 0\n")
    with pytest.raises(
        IncidenceError,
        match=r"`keep='best'` and `patience` need a validation part: add `validation=0\.1`",
    ):
        train({**SMALL, **options, "data": str(folder), "out": str(tmp_path / "run")})
    assert not (tmp_path / "run").exists()


# ---- what a run leaves behind


def test_a_run_leaves_everything_in_its_folder(done):
    assert sorted(p.name for p in done.iterdir()) == [
        "calibration.json",
        "checkpoints",
        "config.yaml",
        "environment.json",
        "history.csv",
        "logs",
        "metrics.json",
        "model.json",
        "model.safetensors",
        "plots",
        "predictions.csv",
    ]
    assert json.loads((done / "environment.json").read_text())["libraries"][
        "torch"
    ] == importlib.metadata.version("torch")
    assert json.loads((done / "metrics.json").read_text())["epochs"] == 2
    assert "hidden: 4" in (done / "config.yaml").read_text()
    assert "\nout:" not in (done / "config.yaml").read_text()
    assert (done / "logs" / "csv" / "part_1" / "metrics.csv").is_file()
    assert [row["epoch"] for row in rows(done / "history.csv")] == ["1", "2"]


def test_a_change_of_presets_and_defaults_does_not_touch_old_runs(numbers, tmp_path, monkeypatch):
    """Settings that nobody gave stand in the folder as they were."""
    path = tmp_path / "run"
    run = train({"model": "graph", "data": str(numbers), "out": str(path), "epochs": 1})
    spec = json.loads((path / "model.json").read_text())
    assert spec["settings"].keys() == {
        f.name for f in fields(Config) if f.metadata["section"] == "model"
    } - {"model"}
    assert (spec["settings"]["hidden"], spec["settings"]["depth"], spec["settings"]["readout"]) == (
        32,
        3,
        ["sum", "mean"],
    )
    assert "hidden: 32\n" in (path / "config.yaml").read_text()
    assert "norm: batch\n" in (path / "config.yaml").read_text()
    monkeypatch.setitem(
        PRESETS,
        "graph",
        replace(
            PRESETS["graph"],
            settings={"hidden": 5, "depth": 1, "readout": ("max",), "norm": "none"},
        ),
    )
    loaded, _ = RunFolder.open(path).load()
    assert all(
        torch.equal(value, run.predictor.state()[key]) for key, value in loaded.state().items()
    )
    resume(path)


def test_a_run_with_several_ways_to_pool_goes_on(numbers, tmp_path):
    run = train(
        {
            **SMALL,
            "data": str(numbers),
            "out": str(tmp_path / "run"),
            "epochs": 1,
            "aggr": ["sum", "max"],
            "readout": "max",
        }
    )
    again = resume(tmp_path / "run")
    assert again.predictor.net.state_dict().keys() == run.predictor.net.state_dict().keys()


def test_predictions_are_those_of_the_model(done):
    run = resume(done)
    table = rows(done / "predictions.csv")
    for part, scored in run.evaluation.parts.items():
        own = [row for row in table if row["part"] == part]
        assert [float(row["predicted target"]) for row in own] == pytest.approx(
            scored.predicted[:, 0].tolist(), rel=1e-5
        )
        assert [float(row["target target"]) for row in own] == pytest.approx(
            scored.target[:, 0].tolist(), rel=1e-5
        )


def test_a_prediction_can_be_traced_to_its_example(numbers, tmp_path):
    run = train(
        {
            **SMALL,
            "data": str(numbers),
            "out": str(tmp_path / "run"),
            "epochs": 1,
            "validation": 0.2,
        }
    )
    targets = [float(e.target) for e in graphs(40)]
    table = rows(tmp_path / "run" / "predictions.csv")
    assert sorted(int(row["example"]) for row in table) == list(range(40))
    assert all(float(row["target target"]) == targets[int(row["example"])] for row in table)
    named = replace(run.experiment.data, names=[f"graph {k}" for k in range(40)])
    train({**SMALL, "out": str(tmp_path / "named"), "epochs": 1}, named)
    assert [row["name"] for row in rows(tmp_path / "named" / "predictions.csv")] == [
        f"graph {row['example']}" for row in table
    ]


def test_metrics_that_are_not_finite_are_null():
    far = as_scored(
        torch.ones(1, 1), torch.ones(1, 1), {"rmse": float("inf")}, {"rmse": float("nan")}, [(0, 0)]
    )
    assert Evaluation(load(graphs(3)), {"test": far}).metrics() == {
        "test": {"rmse": None, "baseline": {"rmse": None}}
    }


@pytest.mark.parametrize(
    ("logger", "kinds"), [("tensorboard", {"tensorboard"}), ("both", {"csv", "tensorboard"})]
)
def test_logs_may_go_to_tensorboard(logger, kinds, numbers, tmp_path):
    train(
        {**SMALL, "data": str(numbers), "out": str(tmp_path / "run"), "epochs": 1, "logger": logger}
    )
    assert {p.name for p in (tmp_path / "run" / "logs").iterdir()} == kinds
    assert list((tmp_path / "run" / "logs" / "tensorboard").rglob("events.out.*"))


def test_runs_are_numbered_where_no_folder_is_named(numbers, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = [train({**SMALL, "data": str(numbers), "epochs": 1}).folder.path for _ in range(2)]
    assert names == [Path("runs/numbers-1"), Path("runs/numbers-2")]


def test_the_same_seed_gives_the_same_bits_and_another_does_not(done, numbers, tmp_path):
    for name, seed in (("same", 0), ("other", 1)):
        train({**SMALL, "data": str(numbers), "out": str(tmp_path / name), "seed": seed})
    assert (tmp_path / "same" / "model.safetensors").read_bytes() == (
        done / "model.safetensors"
    ).read_bytes()
    assert (tmp_path / "other" / "model.safetensors").read_bytes() != (
        done / "model.safetensors"
    ).read_bytes()


# ---- what a run prints as


def test_a_run_prints_its_folder_and_its_metric_beside_the_baseline(done):
    run = resume(done)
    scored = run.evaluation.parts["test"]
    told = (
        f"test rmse {scored.metrics['rmse']:.4g}, against {scored.baseline['rmse']:.4g} for the"
        " mean of the training data"
    )
    assert repr(run) == f"Run({str(done)!r}: numbers: {told}; 2 epochs)"
    assert summary(run).startswith(f"numbers: {told}\n")


def test_an_evaluation_prints_as_the_table_of_its_metrics(done):
    found = resume(done).evaluation
    first, *lines = repr(found).splitlines()
    assert first == "Evaluation of numbers"
    assert lines == found.scores().splitlines()
    assert [line.split()[:3] for line in lines[1:]] == [
        [part, str(len(found.parts[part].target)), metric]
        for part in ("train", "validation", "test")
        for metric in ("mae", "rmse")
    ]
    scored = found.parts["test"]
    told = "; ".join(
        f"{key} {value:.4g}, baseline {scored.baseline[key]:.4g}"
        for key, value in scored.metrics.items()
    )
    assert repr(scored) == f"Scored({len(scored.target)} rows: {told})"


def test_whatever_a_run_has_prints_in_a_few_hundred_letters(done, tmp_path):
    run = resume(done)
    (tmp_path / "ratings.csv").write_text(
        "user,movie,rating\n" + "".join(f"u{k % 20},m{k // 20},{k % 5}\n" for k in range(400))
    )
    rated = train(
        {
            "data": str(tmp_path / "ratings.csv"),
            "out": str(tmp_path / "run"),
            "epochs": 1,
            "hidden": 4,
            "depth": 1,
        }
    )
    for one in (run, rated):
        data = one.experiment.data
        for value in (
            one,
            one.folder,
            one.experiment,
            one.experiment.parts,
            one.experiment.spec,
            one.evaluation,
            data,
            data.splits,
        ):
            assert len(repr(value)) < 600
    assert (
        repr(run.experiment)
        == "Experiment('numbers': train 32, validation 4, test 4; i, {i j} network, lift none)"
    )
    assert repr(run.experiment.parts) == "Parts(train 32, validation 4, test 4)"
    assert repr(run.experiment.data.splits) == "(Split(train 32, validation 4, test 4),)"
    assert repr(run.folder) == f"RunFolder({str(done)!r})"
    assert repr(run.experiment.spec).startswith(
        "ModelSpec(regression of target; i, {i j} network that reads i: 3, {i j}: 1; trained on "
    )
    assert (
        repr(rated.experiment.data.completion)
        == "Ratings(400 rows of `a:user b:movie`; nodes: 20 of sort user, 20 of sort movie)"
    )


# ---- refusals, with nothing overwritten


def content(folder: Path) -> dict[str, bytes]:
    return {
        str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()
    }


def test_a_new_run_never_writes_into_a_folder_that_has_something(done, numbers, tmp_path):
    before = content(done)
    with pytest.raises(
        IncidenceError,
        match=r"exists already, and is not written over.*To continue the run in it: .*\.resume",
    ):
        train({**SMALL, "data": str(numbers), "out": str(done)})
    assert content(done) == before
    (tmp_path / "file").write_text("mine")
    with pytest.raises(
        IncidenceError, match="exists already, and is not written over: choose another `out`"
    ):
        train({**SMALL, "data": str(numbers), "out": str(tmp_path / "file")})
    with pytest.raises(IncidenceError, match="no folder can be made for the run"):
        train({**SMALL, "data": str(numbers), "out": str(tmp_path / "file" / "run")})
    assert (tmp_path / "file").read_text() == "mine"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"data": "solubility", "task": "classification"},
            "the task is classification, and the targets of 'solubility' are for reg",
        ),
        (
            {"data": "no-such-data"},
            "'no-such-data' is no data set and no file or folder. Data sets: solubility",
        ),
        ({"data": "pyg:TUDataset/MUTAG"}, "`folder`"),
        (
            {"data": "solubility", "target": "x"},
            "the data set 'solubility' has one target: leave out `target`",
        ),
        (
            {"model": "mesh"},
            r"the model 'mesh' reads `\{i j k\}`, and the data has features of .*: lift it",
        ),
        ({"model": "meshes"}, "no model 'meshes'"),
        ({"lift": "nonsense"}, "no lift 'nonsense'"),
        ({"split": 4}, "has splits 0 to 0; got 4"),
        ({"aggr": "median"}, "median"),
        ({"precision": "8-true"}, "the option `precision` is one of"),
        ({"accelerator": "abacus"}, "Lightning does not take these options"),
        ({"devices": 99}, "examples cannot be shared by 99 processes: use fewer `devices`"),
    ],
)
def test_options_that_do_not_fit_are_refused(options, message, numbers, tmp_path):
    with pytest.raises(IncidenceError, match=message):
        train({**SMALL, "data": str(numbers), "out": str(tmp_path / "run"), **options})
    assert not (tmp_path / "run").exists()  # it does not stand in the way of the next try


def test_damaged_data_is_refused(tmp_path):
    (tmp_path / "d.npz").write_bytes(b"PK\x03\x04 nothing more")
    with pytest.raises(IncidenceError, match=r"d\.npz is not .*, or it is damaged"):
        train({**SMALL, "data": str(tmp_path / "d.npz"), "out": str(tmp_path / "run")})
    assert not (tmp_path / "run").exists()


def test_features_that_are_not_finite_are_refused(tmp_path):
    examples = graphs(10)
    examples[3] = examples[3].replace(
        features={**examples[3].features, "i": examples[3].features["i"] / 0}
    )
    with pytest.raises(
        IncidenceError, match="the features of `i` have values that are no finite numbers"
    ):
        train({**SMALL, "data": saved(tmp_path / "d.npz", examples), "out": str(tmp_path / "run")})


@pytest.mark.parametrize(
    ("batch_size", "what"), [(8, "the loss is (nan|inf)"), (64, "(the loss is|a weight is)")]
)
def test_weights_that_run_away_are_told_and_never_saved(batch_size, what, numbers, tmp_path):
    path = tmp_path / "run"
    with pytest.raises(
        IncidenceError,
        match=what + r".* in epoch \d+: training has diverged.*Try a smaller learning rate",
    ):
        train(
            {
                **SMALL,
                "data": str(numbers),
                "out": str(path),
                "epochs": 9,
                "lr": 1e38,
                "batch_size": batch_size,
                "norm": "none",
                "clip": 0,
            }
        )
    assert not (path / "model.safetensors").exists()
    if (path / "checkpoints" / "last.ckpt").exists():
        state = read(path / "checkpoints" / "last.ckpt")["state_dict"]
        assert all(value.isfinite().all() for value in state.values())


def test_the_checkpoint_before_a_runaway_stays(numbers, tmp_path, monkeypatch):
    own = Training.batch_loss

    def batch_loss(self: Training, batch: Any) -> Any:
        loss = own(self, batch)
        return loss * torch.inf if self.current_epoch == 1 else loss

    monkeypatch.setattr(Training, "batch_loss", batch_loss)
    with pytest.raises(IncidenceError, match="in epoch 2: training has diverged"):
        train(
            {
                **SMALL,
                "data": str(numbers),
                "out": str(tmp_path / "run"),
                "epochs": 4,
                "batch_size": 64,
            }
        )
    kept = read(tmp_path / "run" / "checkpoints" / "last.ckpt")
    assert kept["epoch"] == 0
    assert all(value.isfinite().all() for value in kept["state_dict"].values())


# ---- resuming what is not to be resumed


@pytest.fixture
def copy(done: Path, tmp_path: Path) -> Path:
    shutil.copytree(done, tmp_path / "copy")
    return tmp_path / "copy"


def test_a_folder_that_is_no_run_is_not_resumed(tmp_path):
    with pytest.raises(
        IncidenceError, match=r"is no folder of a run: it has no config\.yaml and model\.json"
    ):
        resume(tmp_path)


def _other(path: Path) -> None:
    state = read(path)
    state["incidence"]["settings"]["hidden"] = 99
    torch.save(state, path)


def _with(change: Any) -> Any:
    """A checkpoint of which something is changed."""

    def damage(path: Path) -> None:
        state = read(path)
        change(state)
        torch.save(state, path)

    return damage


def _flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    with zipfile.ZipFile(path) as archive:
        largest = max(archive.infolist(), key=lambda one: one.file_size)
    data[largest.header_offset + 500] ^= 1
    path.write_bytes(data)


def _large(path: Path) -> None:
    """Packs a checkpoint together with what it never asked for."""
    with zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("archive/data/large", bytes(1 << 24))


class _Trap:
    """What a pickle may do."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return os.system, (f"touch {self.path}",)


STRANGE = {
    "a weight of eight bits": torch.zeros(2).to(torch.float8_e4m3fn),
    "a complex weight": torch.zeros(2, dtype=torch.complex64),
    "a sparse weight": torch.eye(2).to_sparse(),
    "a weight that is nowhere": torch.zeros(2, device="meta"),
    "a weight of one number": torch.zeros(1).expand(10**12),
}
DAMAGES: dict[str, Any] = {
    "another model": (
        _other,
        "last.ckpt belongs to another model: settings is .*99.* Nothing was changed",
    ),
    "half of it": (
        lambda p: p.write_bytes(p.read_bytes()[: p.stat().st_size // 2]),
        "last.ckpt is no checkpoint, or is damaged",
    ),
    "empty": (lambda p: p.write_bytes(b""), "last.ckpt is no checkpoint, or is damaged"),
    "words": (lambda p: p.write_text("hello"), "last.ckpt is no checkpoint, or is damaged"),
    "a list": (
        lambda p: torch.save([1, 2], p),
        "last.ckpt is no checkpoint: it holds something of type list",
    ),
    "a pickle": (
        lambda p: p.write_bytes(pickle.dumps(_Trap(p.parent / "trap"))),
        "last.ckpt is no checkpoint, or is damaged",
    ),
    "a pickle in a zip": (
        lambda p: torch.save({"state_dict": _Trap(p.parent / "trap")}, p),
        (
            r"last.ckpt is no checkpoint of a run: it has something other than tensors and plain"
            r" values, and was not read\.$"
        ),
    ),
    "more than is allowed": (
        _large,
        r"last\.ckpt, unpacked, would take at least 0\.01.* GB, and 0\.01 GB are allowed",
    ),
    "a byte that flipped": (
        _flip,
        "last.ckpt is no checkpoint, or is damaged: .* does not match its checksum",
    ),
    "no state": (
        _with(lambda s: s.pop("state_dict")),
        "last.ckpt is no checkpoint of a run, or is damaged: it has no 'state_dict'",
    ),
    "no loops": (
        _with(lambda s: s.pop("loops")),
        "last.ckpt is no checkpoint of a run, or is damaged: it has no 'loops'",
    ),
    "no weights": (
        _with(lambda s: s.update(state_dict={})),
        "last.ckpt is no checkpoint of a run, or is damaged: it has no 'state_dict'",
    ),
    "weights of no kind": (
        _with(lambda s: s.update(state_dict=3)),
        "cannot continue from .*last.ckpt",
    ),
    "other weights": (
        _with(lambda s: s.update(state_dict={"x": torch.ones(2)})),
        "cannot continue from .*last.ckpt: .*Missing key",
    ),
    "a number of loops": (_with(lambda s: s.update(loops=5)), "cannot continue from .*last.ckpt"),
    "empty loops": (
        _with(lambda s: s.update(loops={})),
        "last.ckpt is no checkpoint of a run, or is damaged: it has no 'loops'",
    ),
    "no optimiser": (
        _with(lambda s: s.update(optimizer_states=[])),
        "last.ckpt is no checkpoint of a run, or is damaged: it has no 'opt",
    ),
    "no description": (
        _with(lambda s: s.update(incidence=None)),
        "last.ckpt belongs to another model",
    ),
    "numbers that are not there": (
        _with(lambda s: s["optimizer_states"].append(torch.zeros(1).expand(10**12))),
        r"last\.ckpt is damaged: a tensor has no ordinary numbers, one for each of its entries",
    ),
    **{
        name: (
            _with(lambda s, x=x: s["state_dict"].update(x=x)),
            r"last\.ckpt is damaged: 'x' has no ordinary numbers",
        )
        for name, x in STRANGE.items()
    },
    "weights that are none": (
        _with(
            lambda s: [
                w.fill_(torch.nan) for w in s["state_dict"].values() if w.is_floating_point()
            ]
        ),
        r"last\.ckpt is damaged: .* has values that are no finite numbers",
    ),
}


@pytest.mark.parametrize(("damage", "message"), DAMAGES.values(), ids=DAMAGES.keys())
def test_a_checkpoint_that_is_not_that_of_the_run_is_refused_and_nothing_changes(
    damage, message, copy, monkeypatch
):
    monkeypatch.setenv("INCIDENCE_MAX_GB", "0.01")
    damage(copy / "checkpoints" / "last.ckpt")
    before = content(copy)
    with pytest.raises(IncidenceError, match=message):
        resume(copy)
    assert content(copy) == before
    assert not (copy / "checkpoints" / "trap").exists()


def test_data_that_has_changed_is_refused(numbers, tmp_path):
    data = shutil.copy(numbers, tmp_path / "d.npz")
    train({**SMALL, "data": str(data), "out": str(tmp_path / "run")})
    saved(
        tmp_path / "d.npz",
        [e.replace(features={**e.features, "i": e.features["i"][:, :2]}) for e in graphs(40)],
    )
    with pytest.raises(
        IncidenceError,
        match=(r"the version of the library has changed since .* was started: in_channels is"),
    ):
        resume(tmp_path / "run")


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda p: p.unlink(), r"there is no file .*best\.ckpt"),
        (
            _with(lambda s: s.pop("state_dict")),
            "best.ckpt is no checkpoint of a run, or is damaged: it has no 'state_dict'",
        ),
        (
            _with(lambda s: s.update(state_dict={"x": torch.ones(2)})),
            "best.ckpt has not the weights of this model",
        ),
    ],
)
def test_best_weights_that_are_damaged_are_refused(damage, message, numbers, tmp_path):
    path = tmp_path / "run"
    train({**SMALL, "data": str(numbers), "out": str(path), "epochs": 1, "keep": "best"})
    damage(path / "checkpoints" / "best.ckpt")
    with pytest.raises(IncidenceError, match=message):
        resume(path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"task": {"kind": "regression"}}, "is no description of a model, or is damaged"),
        ({"settings": {"colour": "blue"}}, "is no description of a model, or is damaged: .*colour"),
        ({"in_channels": None}, "is no description of a model, or is damaged"),
        ({"in_channels": {"i": -3}}, "is no description of a model, or is damaged"),
        ({"format": 2}, "has format 2; this version reads format 1. Update the library"),
        (
            {"format": 10**4000},
            (
                "has format a number of about 4,000 digits; this version reads format 1. Update the"
                " library"
            ),
        ),
        (
            {"settings": {"hidden": 10**7}},
            (
                "is no description of a model, or is damaged: the option `hidden` is at most"
                " 1048576; got 1"
            ),
        ),
        (
            {"settings": {"depth": 10**9}},
            "is no description of a model, or is damaged: the option `depth` is at most 1000; got",
        ),
        (
            {"in_channels": {"i": 10**30, "{i j}": 1}},
            "is no description of a model, or is damaged: .*verflow",
        ),
    ],
)
def test_a_description_with_something_wrong_is_refused(change, message, copy):
    spec = json.loads((copy / "model.json").read_text())
    (copy / "model.json").write_text(json.dumps({**spec, **change}))
    with pytest.raises(IncidenceError, match=r"model\.json " + message):
        RunFolder.open(copy).load()


@pytest.mark.parametrize("hidden", [10**6, 5])
def test_shapes_are_compared_before_there_is_memory_for_them(hidden, copy):
    spec = json.loads((copy / "model.json").read_text())
    (copy / "model.json").write_text(
        json.dumps({**spec, "settings": {**spec["settings"], "hidden": hidden}})
    )
    with pytest.raises(
        IncidenceError,
        match=rf"model\.safetensors belongs to another model than .*size mismatch.*{hidden}",
    ):
        RunFolder.open(copy).load()


@pytest.mark.parametrize(
    "text", ["[" * 200_000, '{"format": ' + "9" * 5000 + "}", "[1"], ids=["deep", "digits", "half"]
)
def test_a_description_that_is_no_json_is_refused_in_a_sentence(text, copy):
    (copy / "model.json").write_text(text)
    with pytest.raises(IncidenceError, match=r"model\.json is no description of a model: "):
        RunFolder.open(copy).load()


@pytest.mark.parametrize("value", [torch.nan, torch.inf])
def test_weights_that_are_no_finite_numbers_are_refused_on_loading_as_on_saving(value, copy):
    folder = RunFolder.open(copy)
    predictor, spec = folder.load()
    state = predictor.state()
    next(iter(state.values())).view(-1)[0] = value
    save_file(state, folder.weights)
    with pytest.raises(
        IncidenceError,
        match=r"model\.safetensors is damaged: \S+ has values that are no finite numbers",
    ):
        folder.load()
    with torch.no_grad():
        next(predictor.parameters()).view(-1)[0] = value
    with pytest.raises(
        IncidenceError,
        match=r"model\.safetensors was not written: \S+ has values that are no finite numbers",
    ):
        folder.save_weights(predictor, spec)


@pytest.mark.parametrize(
    ("dtype", "value", "said"),
    [
        (torch.float64, 1e300, r"\S+ has values that are no finite numbers in single precision"),
        (torch.complex64, 1, r"\S+ has no ordinary numbers"),
        (torch.float8_e4m3fn, 1, r"\S+ has no ordinary numbers"),
    ],
    ids=["double", "complex", "eight bits"],
)
def test_weights_that_are_no_numbers_in_single_precision_are_refused(dtype, value, said, copy):
    folder = RunFolder.open(copy)
    state = {
        key: x.to(dtype) if x.is_floating_point() else x
        for key, x in folder.load()[0].state().items()
    }
    next(iter(state.values())).view(-1)[0] = value
    save_file(state, folder.weights)
    with pytest.raises(IncidenceError, match=rf"model\.safetensors is damaged: {said}"):
        folder.load()


def test_a_model_that_was_loaded_can_be_trained_on(copy):
    predictor, _ = RunFolder.open(copy).load()
    assert all(
        p.requires_grad and p.dtype == torch.float32 and p.device.type == "cpu"
        for p in predictor.parameters()
    )


@pytest.mark.parametrize("hidden", [10**6, 50_000])
def test_a_network_too_large_for_the_memory_that_is_allowed_is_refused_before_it_is_made(
    hidden, numbers, tmp_path
):
    with pytest.raises(
        TooLargeError,
        match=r"a network with [\d,]+ weights would take at least .* GB, and 2 GB are allowed",
    ):
        train({**SMALL, "data": str(numbers), "out": str(tmp_path / "run"), "hidden": hidden})
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("name", ["x" * 300, "a\0b"])
def test_a_folder_that_cannot_be_made_is_refused(name, numbers, tmp_path):
    with pytest.raises(
        IncidenceError, match=r"no folder can be made for the run: .* Choose one with `out`"
    ):
        train({**SMALL, "data": str(numbers), "out": str(tmp_path / name)})
    with pytest.raises(IncidenceError, match="is no folder of a run"):
        resume(tmp_path / name)


CHANGES: dict[str, Any] = {
    "a target": lambda e: e.replace(target=e.target + 1),
    "a feature": lambda e: e.replace(features={**e.features, "i": e.features["i"] + 1e-6}),
    "a structure": lambda e: inc.Example(
        inc.Structure(e.structure.num_nodes, {"{i j}": e.structure["{i j}"][:, :-1]}),
        {**e.features, "{i j}": e.features["{i j}"][:-1]},
        e.target,
    ),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
def test_one_example_that_has_changed_is_noticed(change, numbers, tmp_path):
    data = shutil.copy(numbers, tmp_path / "d.npz")
    train({**SMALL, "data": str(data), "out": str(tmp_path / "run")})
    examples = graphs(40)
    saved(tmp_path / "d.npz", [*examples[:7], change(examples[7]), *examples[8:]])
    before = content(tmp_path / "run")
    with pytest.raises(
        IncidenceError,
        match=r"has changed since .* was started: fingerprint is .* Nothing was changed",
    ):
        resume(tmp_path / "run")
    assert content(tmp_path / "run") == before


@pytest.mark.parametrize("text", ["{}", "[]", "nonsense", '{"model": 3}'])
def test_a_damaged_description_is_refused(text, copy):
    (copy / "model.json").write_text(text)
    with pytest.raises(
        IncidenceError, match=r"model\.json (cannot be read|is no description of a model)"
    ):
        resume(copy)


def test_two_processes_do_not_train_in_one_folder(numbers, tmp_path, monkeypatch):
    path, own, told = tmp_path / "run", Training.on_train_epoch_start, []

    def again(self: Training) -> None:
        own(self)
        with pytest.raises(
            IncidenceError, match=r"another process trains in .*run: wait for its end"
        ) as error:
            resume(path)
        told.append(error)

    monkeypatch.setattr(Training, "on_train_epoch_start", again)
    train({**SMALL, "data": str(numbers), "out": str(path), "epochs": 1})
    assert len(told) == 1
    monkeypatch.undo()
    resume(path)


def test_a_folder_that_cannot_be_locked_is_told(copy):
    (copy / "environment.json").unlink()
    (copy / "environment.json").mkdir()
    with pytest.raises(IncidenceError, match=r"environment\.json cannot be written"):
        resume(copy)


def test_half_written_files_go_and_others_stay(copy):
    halves = [
        ".metrics.json.ab3_xy9q",
        "plots/.curves.png.abcdefgh",
        "checkpoints/.last.ckpt.12345678",
    ]
    others = [".notes", ".notes.txt", ".my.metrics.json.swp", "logs/.metrics.csv.abcdefgh"]
    for name in (*halves, *others):
        (copy / name).write_text("x")
    resume(copy)
    assert not any((copy / name).exists() for name in halves)
    assert all((copy / name).exists() for name in others)


def test_threads_are_those_of_the_caller_again(numbers, tmp_path):
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        train(
            {**SMALL, "data": str(numbers), "out": str(tmp_path / "run"), "threads": 1, "epochs": 1}
        )
        resume(tmp_path / "run")
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


# ---- full disks and Ctrl-C


def _full(monkeypatch: pytest.MonkeyPatch, wanted: str) -> None:
    """Lets the disk be full for a file."""
    own = os.fsync

    def fsync(handle: int) -> None:
        if wanted in os.readlink(f"/proc/self/fd/{handle}"):
            raise OSError(errno.ENOSPC, "No space left on device")
        own(handle)

    monkeypatch.setattr(os, "fsync", fsync)


@pytest.mark.parametrize(
    "name",
    [
        "last.ckpt",
        "history.csv",
        "model.safetensors",
        "metrics.json",
        "predictions.csv",
        "config.yaml",
    ],
)
def test_a_full_disk_is_told_and_leaves_whole_files(name, numbers, tmp_path):
    path = tmp_path / "run"
    with pytest.MonkeyPatch.context() as patch:
        _full(patch, name)
        with pytest.raises(
            IncidenceError,
            match=(
                rf"the disk is full: .*{name} was not written, and what was there before is whole"
            ),
        ):
            train({**SMALL, "data": str(numbers), "out": str(path)})
    assert not list(path.rglob(f"*{name}*"))
    if name == "config.yaml":
        assert not path.exists()  # it had not begun
    else:
        resume(path)
        assert (path / "predictions.csv").is_file()


def test_a_full_disk_is_told_when_plots_are_drawn(copy, monkeypatch):
    run = resume(copy)
    _full(monkeypatch, "curves.png")
    with pytest.raises(IncidenceError, match=r"the disk is full: .*curves\.png was not written"):
        finish(run)
    assert not list((copy / "plots").iterdir())


def test_the_result_is_told_where_the_terminal_knows_no_braille(copy, monkeypatch):
    run = resume(copy)
    assert "┤" in summary(run)
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(io.BytesIO(), "ascii"))
    told = summary(run)
    assert told.isascii()
    assert all(word in told for word in ("|", "*", "Results are in"))


def test_a_disk_that_fills_up_leaves_the_last_checkpoint(numbers, tmp_path, done):
    """The limit of a file's size, in a process of its own, stands for a disk."""
    path = tmp_path / "run"
    size = (done / "checkpoints" / "last.ckpt").stat().st_size
    own = Training.on_train_epoch_start

    def limited(self: Training) -> None:
        own(self)
        if self.current_epoch == 1:
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (size // 2, size // 2))

    def work() -> None:
        try:
            train({**SMALL, "data": str(numbers), "out": str(path)})
        except IncidenceError as error:
            os._exit(7 if "the disk is full" in str(error) else 8)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Training, "on_train_epoch_start", limited)
        assert in_child(work) == 7
    assert read(path / "checkpoints" / "last.ckpt")["epoch"] == 0
    resume(path)
    assert (path / "model.safetensors").read_bytes() == (done / "model.safetensors").read_bytes()


def test_ctrl_c_says_how_to_go_on_and_the_same_bits_come_out(
    done, numbers, tmp_path, monkeypatch, capsys
):
    from incidence.cli import main

    path, own = tmp_path / "run", Training.take_step
    count = iter(range(10**6))

    def step(self: Training, *arguments: Any) -> Any:
        if next(count) == self.steps_per_epoch + 1:  # in the second step of the second epoch
            os.kill(os.getpid(), signal.SIGINT)
        return own(self, *arguments)

    words = [f"--{key.replace('_', '-')}={value}" for key, value in SMALL.items()]
    # which is switched off where tests run in the background
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Training, "take_step", step)
            assert main(["train", f"--data={numbers}", f"--out={path}", *words]) == 130
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)
    assert f"continue with: incidence train --resume {path}" in capsys.readouterr().err
    assert not (path / "model.safetensors").exists()
    assert main(["train", "--resume", str(path)]) == 0
    assert (path / "model.safetensors").read_bytes() == (done / "model.safetensors").read_bytes()


@pytest.mark.parametrize("after", [0, 3, 40])
def test_ctrl_c_while_a_checkpoint_is_written_is_told_as_any_other(
    after, done, numbers, tmp_path, monkeypatch
):
    own, count = torch.save, iter(range(10**6))

    class Interrupting:
        def __init__(self, file: Any) -> None:
            self.file = file

        def write(self, data: Any) -> int:
            if next(count) == after:
                raise KeyboardInterrupt
            return self.file.write(data)

        def flush(self) -> None:
            self.file.flush()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            torch, "save", lambda content, file, **rest: own(content, Interrupting(file), **rest)
        )
        with pytest.raises(Interrupted, match="stopped; continue with"):
            train({**SMALL, "data": str(numbers), "out": str(tmp_path / "run")})
    assert not list((tmp_path / "run" / "checkpoints").iterdir())
    resume(tmp_path / "run")
    assert (tmp_path / "run" / "model.safetensors").read_bytes() == (
        done / "model.safetensors"
    ).read_bytes()


def test_an_interrupted_run_names_its_folder(numbers, tmp_path, monkeypatch):
    def stop(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Training, "take_step", stop)
    with pytest.raises(
        Interrupted, match=r"stopped; continue with: `incidence\.train\.resume"
    ) as error:
        train({**SMALL, "data": str(numbers), "out": str(tmp_path / "run")})
    assert error.value.folder.path == tmp_path / "run"
