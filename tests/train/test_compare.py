"""Runs side by side, and sweeps, which are resumed."""

from __future__ import annotations

import csv
import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

import incidence as inc
from incidence.cli import main
from incidence.errors import IncidenceError
from incidence.train import Config, Interrupted, train
from incidence.train.compare import compare, repeated
from incidence.train.steps import Training
from incidence.train.sweep import combinations, sweep
from tests.train.small_runs import graphs

SWEPT = """\
data: {data}
model: 'i, {{i j}}'
epochs: 1
batch_size: 16
depth: 1
hidden: [4, 6]
"""


@pytest.fixture(autouse=True, scope="module")
def quick_pages() -> Iterator[None]:
    """Pages of runs are tested elsewhere, and take longer than these runs."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            "incidence.train.sweep.finish", lambda run: run.folder.report.write_text("a page")
        )
        yield


@pytest.fixture(scope="module")
def swept(numbers: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a sweep that is finished."""
    folder = tmp_path_factory.mktemp("sweep")
    (folder / "sizes.yaml").write_text(SWEPT.format(data=numbers))
    sweep(folder / "sizes.yaml", folder / "out")
    return folder / "out"


def test_a_sweep_has_a_run_for_every_combination(swept, numbers):
    names = {"hidden=4", "hidden=6"}
    assert {path.name for path in swept.iterdir()} == {*names, "sweep.yaml"}
    assert all((swept / name / "report.html").is_file() for name in names)
    found = compare([swept])
    assert [r.config.hidden for r in found.results] == [4, 6]
    assert found.differing == ["hidden"]


def test_runs_stand_by_their_metric_with_what_differs_and_what_they_cost(swept, capsys):
    # as the shell would write runs/*
    assert main(["compare", *sorted(map(str, swept.iterdir()))]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert re.fullmatch(
        r"numbers.npz: test rmse, against [\d.]+ for the mean of the training data", lines[0]
    )
    values = [float(line.split()[0]) for line in lines[2::2]]
    assert values == sorted(values)
    told = {
        json.loads((path / "metrics.json").read_text())["test"]["rmse"]
        for path in swept.glob("hidden*")
    }
    assert values == pytest.approx(sorted(told), rel=1e-3)
    assert re.fullmatch(r" {11}hidden=\d; [\d,]+ parameters, 1 epochs, \d+ s", lines[3])
    bars = [line.count("█") for line in lines[2::2]]
    assert bars == sorted(bars)
    assert bars[-1] == 24


def test_runs_that_differ_by_chance_alone_have_a_mean(numbers, tmp_path, capsys):
    text = SWEPT.format(data=numbers) + "cv: 3\nsplit: [0, 1, 2]\n"
    (tmp_path / "folds.yaml").write_text(text)
    found, errors = sweep(tmp_path / "folds.yaml", tmp_path / "out")
    assert not errors
    means = repeated(found.groups[0])
    assert [len(same) for _, _, same in means] == [3, 3]
    for mean, deviation, same in means:
        values = torch.tensor([result.value for result in same], dtype=torch.float64)
        assert (mean, deviation) == (
            pytest.approx(float(values.mean())),
            pytest.approx(float(values.std())),
        )
    told = str(found)
    assert "over 3 runs: split 0, 1, 2 (hidden=4)" in told
    own = {line.strip().partition(";")[0] for line in told.splitlines() if "parameters" in line}
    assert "in brackets that of the mean of the training data, as parts differ" in told
    assert own == {f"({result.baseline:.4g})" for result in found.results}
    assert len(own) == 3  # a fold has a baseline of its own
    assert "±" not in str(
        compare([tmp_path / "out" / "hidden=4,split=0", tmp_path / "out" / "hidden=6,split=0"])
    )


def test_a_comparison_is_a_picture_a_table_or_json(swept, tmp_path, capsys):
    for suffix, start in ((".png", b"\x89PNG"), (".svg", b"<?xml")):
        assert main(["compare", str(swept), "--out", str(tmp_path / f"c{suffix}")]) == 0
        assert capsys.readouterr().err == f"2 runs in {tmp_path / f'c{suffix}'}\n"
        assert (tmp_path / f"c{suffix}").read_bytes().startswith(start)
    assert main(["compare", str(swept), "--out", str(tmp_path / "c.csv"), "--json"]) == 0
    rows = list(csv.DictReader((tmp_path / "c.csv").read_text().splitlines()))
    assert [row["hidden"] for row in rows] == [
        str(r.config.hidden) for group in compare([swept]).groups for r in group
    ]
    found = json.loads(capsys.readouterr().out.partition("{\n")[2].join(["{\n", ""]))["runs"]
    assert [run["value"] for run in found] == pytest.approx([float(row["value"]) for row in rows])
    assert main(["compare", str(swept), "--out", str(tmp_path / "c.jpeg")]) == 2
    assert "a comparison is written as .csv, .png, .svg or .pdf" in capsys.readouterr().err
    assert main(["compare", str(swept), "--out", str(tmp_path / "no" / "c.png")]) == 2


def test_classes_are_better_the_higher_and_other_data_stands_apart(
    swept, classes, tmp_path, capsys
):
    for seed in (0, 1):
        options = {
            "data": str(classes),
            "model": "i, {i j}",
            "hidden": 4,
            "depth": 1,
            "epochs": 1,
            "seed": seed,
        }
        train({**options, "out": str(tmp_path / f"c{seed}")})
    found = compare([tmp_path, swept / "hidden=4"])
    assert [len(group) for group in found.groups] == [2, 1]
    values = [result.value for result in found.groups[0]]
    assert values == sorted(values, reverse=True)
    assert " %" in str(found)
    assert str(found).count("against") == 2
    # a run alone differs from none on the same data
    assert str(found).splitlines()[-1].split()[1] == "parameters,"
    assert "seed=1" in str(found)


def test_runs_on_a_file_that_changed_stand_apart_and_have_no_mean_together(numbers, tmp_path):
    data = tmp_path / "mine.npz"
    options = {"data": str(data), "model": "i, {i j}", "hidden": 4, "depth": 1, "epochs": 1}
    for run, examples in (("a", graphs(30)), ("b", graphs(30)), ("c", graphs(30)[::-1])):
        inc.collate(examples).save(data)
        train({**options, "seed": ord(run), "out": str(tmp_path / "runs" / run)})
    found = compare([tmp_path / "runs"])
    assert [
        [result.path.name for result in sorted(group, key=lambda r: r.path)]
        for group in found.groups
    ] == [["a", "b"], ["c"]]
    assert str(found).count("over 2 runs") == 1
    assert f"mine.npz, as it was for {tmp_path / 'runs' / 'c'}: test rmse, against" in str(found)


def test_runs_on_other_columns_of_one_file_are_told_by_their_targets(tmp_path):
    rows = "".join(f"{'C' * (1 + k % 7)}O,{k}.5,{(7 * k) % 5}.5\n" for k in range(20))
    (tmp_path / "mine.csv").write_text(f"smiles,a,b\n{rows}")
    for target in "ab":
        options = {
            "data": str(tmp_path / "mine.csv"),
            "target": target,
            "hidden": 4,
            "depth": 1,
            "epochs": 1,
        }
        train({**options, "out": str(tmp_path / "runs" / target)})
    found = compare([tmp_path / "runs"])
    assert [found.title(group) for group in found.groups] == ["mine.csv, a", "mine.csv, b"]


def test_runs_with_other_lifts_or_from_a_copy_are_on_the_same_data(numbers, tmp_path):
    shutil.copy(numbers, tmp_path / "copy.npz")
    for data, model in ((numbers, "i, {i j}"), (tmp_path / "copy.npz", "rings")):
        train(
            {
                "data": str(data),
                "model": model,
                "hidden": 4,
                "depth": 1,
                "epochs": 1,
                "out": str(tmp_path / "runs" / model[0]),
            }
        )
    assert [len(group) for group in compare([tmp_path / "runs"]).groups] == [2]


def test_every_group_has_a_panel_with_its_data_as_title(swept, classes, tmp_path, monkeypatch):
    train(
        {
            "data": str(classes),
            "model": "i, {i j}",
            "hidden": 4,
            "depth": 1,
            "epochs": 1,
            "out": str(tmp_path / "c"),
        }
    )
    drawn = []
    monkeypatch.setattr("incidence.plot.save", lambda figure, path: drawn.append(figure) or path)
    compare([tmp_path / "c", swept]).save(tmp_path / "all.png")
    assert [part.get_suptitle() for part in drawn[0].subfigs] == [
        "classes.npz: test accuracy",
        "numbers.npz: test rmse",
    ]


def test_a_file_is_no_run_unless_it_stands_beside_some(swept, tmp_path, capsys):
    (tmp_path / "sol.csv").write_text("smiles,expt\n")
    assert main(["compare", str(swept / "hidden=4"), str(tmp_path / "sol.csv")]) == 1
    assert (
        f"skipped: {tmp_path / 'sol.csv'} is a file, and no folder of a run"
        in capsys.readouterr().err
    )


def test_runs_that_are_not_finished_are_named_and_the_rest_is_compared(swept, tmp_path, capsys):
    shutil.copytree(swept, tmp_path / "copy")
    (tmp_path / "copy" / "hidden=4" / "metrics.json").unlink()
    (tmp_path / "empty").mkdir()
    assert main(["compare", str(tmp_path / "copy"), str(tmp_path / "empty")]) == 1
    found = capsys.readouterr()
    assert found.out.count("parameters") == 1
    assert "hidden=4 is not finished: continue it with `incidence train --resume" in found.err
    assert "empty is no folder of a run" in found.err


def test_a_run_that_kept_no_word_for_its_baseline_is_compared_without_one(swept, tmp_path):
    shutil.copytree(swept / "hidden=4", tmp_path / "old")
    metrics = json.loads((tmp_path / "old" / "metrics.json").read_text())
    del metrics["baseline"]
    (tmp_path / "old" / "metrics.json").write_text(json.dumps(metrics))
    assert str(compare([tmp_path / "old"])).splitlines()[0].endswith(" for the baseline")


def test_nothing_to_compare_is_said(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["compare"]) == 2
    assert "runs is no folder of a run" in capsys.readouterr().err
    with pytest.raises(
        IncidenceError, match="there is no run to compare: `incidence train` makes one"
    ):
        compare([])


# ---- sweeps


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"hidden": [4, 8], "epochs": 2}, {"hidden=4": {"hidden": 4}, "hidden=8": {"hidden": 8}}),
        ({"aggr": ["sum", "max"]}, {"run": {"aggr": ("sum", "max")}}),
        (
            {"aggr": [["sum"], ["sum", "max"]]},
            {"aggr=sum": {"aggr": ("sum",)}, "aggr=sum+max": {"aggr": ("sum", "max")}},
        ),
        (
            {"model": ["i, {i j}", "rings"]},
            {"model=i,_i_j_": {"model": "i, {i j}"}, "model=rings": {"model": "rings"}},
        ),
        ({"lr": [1e-3, "1e-2"]}, {"lr=0.001": {"lr": 1e-3}, "lr=1e-2": {"lr": 1e-2}}),
        ({"model": ["i" + " j" * 80]}, {"0": {"model": "i" + " j" * 80}}),
        ({"hidden": [8, 8]}, {"hidden=8": {"hidden": 8}}),
        ({"model": ["a b", "a_b"]}, {"model=a_b": {"model": "a b"}, "1": {"model": "a_b"}}),
    ],
)
def test_lists_of_values_are_swept_and_options_that_are_lists_by_lists_of_lists(options, expected):
    found = combinations(options)
    assert list(found) == list(expected)
    for name, chosen in expected.items():
        assert all(getattr(found[name], key) == value for key, value in chosen.items())
        assert isinstance(found[name], Config)


def test_a_sweep_that_was_stopped_goes_on_where_it_was(
    swept, numbers, tmp_path, monkeypatch, capsys
):
    file, out = tmp_path / "sizes.yaml", tmp_path / "out"
    file.write_text(SWEPT.format(data=numbers))
    own, count = Training.on_train_epoch_start, iter(range(100))

    def stop(self: Training) -> None:
        own(self)
        if next(count) == 1:
            raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Training, "on_train_epoch_start", stop)
        assert main(["sweep", str(file), "--out", str(out)]) == 130
    done = {path.parent.name: path.read_bytes() for path in out.glob("*/model.safetensors")}
    assert list(done) == ["hidden=4"]
    stamps = {name: (out / name / "model.safetensors").stat().st_mtime_ns for name in done}
    assert (
        f"stopped; continue with: incidence sweep {file} --out {out}\n" in capsys.readouterr().err
    )
    assert main(["sweep", str(file), "--out", str(out)]) == 0
    told = capsys.readouterr().err
    assert [line for line in told.splitlines() if line.startswith("Run")] == [
        "Run 2 of 2: hidden=6"
    ]
    assert {name: (out / name / "model.safetensors").stat().st_mtime_ns for name in done} == stamps
    for path in swept.glob("*/model.safetensors"):
        assert (out / path.parent.name / path.name).read_bytes() == path.read_bytes()


def test_a_sweep_that_is_stopped_between_runs_says_how_to_go_on_in_words_that_can_be_typed(
    numbers, tmp_path, monkeypatch
):
    def stop(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.chdir(tmp_path)
    Path("my sizes.yaml").write_text(SWEPT.format(data=numbers))
    monkeypatch.setattr("incidence.train.sweep.finish", stop)
    with pytest.raises(
        Interrupted, match=r"stopped; continue with: incidence sweep 'my sizes\.yaml'$"
    ) as error:
        sweep(Path("my sizes.yaml"))
    assert error.value.folder.path == Path("runs/my sizes/hidden=4")


def test_a_run_of_a_sweep_that_fails_is_named_and_the_others_go_on(numbers, tmp_path, capsys):
    file = tmp_path / "odd.yaml"
    file.write_text(
        SWEPT.format(data=numbers).replace("hidden: [4, 6]", "hidden: 4\nwhole: [mean, nonsense]")
    )
    assert main(["sweep", str(file), "--out", str(tmp_path / "out"), "--json"]) == 1
    found = capsys.readouterr()
    assert len(json.loads(found.out)["runs"]) == 1
    assert "skipped: whole=nonsense: " in found.err


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("hidden: []", "the option `hidden` of the sweep has an empty list of values"),
        ("", "has no options: a sweep is a config with lists of values"),
        ("hiden: [3]", "no option `hiden`. Did you mean `hidden`?"),
        ("hidden: [3, x]", "the option `hidden` is a whole number; got 'x'"),
        ("hidden: [3]\nout: there", "leave out `out`; the folder of a sweep is given by --out"),
        ("epochs: 1\nmodel: [nonsense]", "model=nonsense: no model 'nonsense'"),
    ],
)
def test_a_file_that_says_no_sweep_is_refused(text, message, tmp_path, capsys):
    (tmp_path / "s.yaml").write_text(text)
    assert main(["sweep", str(tmp_path / "s.yaml"), "--out", str(tmp_path / "out")]) == 2
    assert message in capsys.readouterr().err


def test_a_folder_of_something_else_is_left_alone(swept, tmp_path, capsys):
    (tmp_path / "s.yaml").write_text("hidden: [3, 4]\n")
    assert main(["sweep", str(tmp_path / "s.yaml"), "--out", str(tmp_path)]) == 2
    assert "has something in it that is no sweep: give another --out" in capsys.readouterr().err
    assert main(["sweep", str(tmp_path / "s.yaml"), "--out", str(swept)]) == 2
    assert "was started with other options" in capsys.readouterr().err
    assert main(["sweep", str(tmp_path / "s.yaml"), "--out", str(tmp_path / "s.yaml" / "x")]) == 2
    assert "no folder can be made for the sweep" in capsys.readouterr().err
