"""Predictions of a finished run, wherever its folder is, for files of every kind; and its
metrics.
"""

from __future__ import annotations

import csv
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import incidence as inc
from incidence.cli import main
from incidence.data import READERS, DataSet, Reader, Record, Split, Task, reader
from incidence.data.tables import RowError
from incidence.errors import IncidenceError
from incidence.train import evaluate_run, predict, resume, train
from incidence.train.prediction import Prediction, Predictions, _nodes
from tests.train.small_runs import graphs

SMALL: dict[str, Any] = {"epochs": 1, "batch_size": 16, "hidden": 4, "depth": 1}

WATER = """\
{name}


  3  2  0  0  0  0  0  0  0  0999 V2000
    0.0000    0.0000    0.0000 {atom:<3} 0  0  0  0  0  0  0  0  0  0  0  0
    {x:.4f}    0.0000    0.0000 C   0  0  0  0  0  0  0  0  0  0  0  0
    1.6000    1.2000    0.0000 C   0  0  0  0  0  0  0  0  0  0  0  0
  1  2  1  0
  2  3  {order}  0
M  END
> <value>
{value}

$$$$
"""


def sdf(count: int = 12) -> str:
    changes = (
        {"atom": "NO"[k % 2], "x": 1.4 + k / 100, "order": 1 + k % 3 // 2, "value": k}
        for k in range(count)
    )
    return "".join(WATER.format(name=f"m{k}", **own) for k, own in enumerate(changes))


def obj(stretch: float) -> str:
    points = [(1, 1, 1), (1, -1, -1), (-1, 1, -1), (-1, -1, stretch)]
    lines = [f"v {x} {y} {z}" for x, y, z in points] + ["f 1 2 3", "f 1 4 2", "f 1 3 4", "f 2 4 3"]
    return "\n".join(lines) + "\n"


def _numbers(folder: Path) -> str:
    inc.collate(graphs(30)).save(folder / "numbers.npz")
    return str(folder / "numbers.npz")


def _molecules(folder: Path) -> str:
    (folder / "molecules.sdf").write_text(sdf())
    return str(folder / "molecules.sdf")


def _by_class(folder: Path, suffix: str, texts: dict[str, list[str]]) -> str:
    for name, own in texts.items():
        (folder / "data" / name).mkdir(parents=True)
        for number, text in enumerate(own):
            (folder / "data" / name / f"{number}{suffix}").write_text(text)
    return str(folder / "data")


def ring(n: int) -> str:
    return "".join(f"{k} {(k + 1) % n}\n" for k in range(n))


def _graphs(folder: Path) -> str:
    return _by_class(
        folder,
        ".edges",
        {"small": [ring(n) for n in (3, 4, 5, 3)], "large": [ring(n) for n in (8, 9, 10, 11)]},
    )


def _meshes(folder: Path) -> str:
    return _by_class(
        folder,
        ".obj",
        {"flat": [obj(1 + k / 9) for k in range(4)], "long": [obj(9 + k) for k in range(4)]},
    )


KINDS: dict[str, Any] = {
    "example": (_numbers, {"model": "i, {i j}"}),
    "molecule": (_molecules, {"target": "value", "task": "regression"}),
    "graph": (_graphs, {"model": "rings"}),
    "mesh": (_meshes, {}),
}


class Runs(dict[str, Path]):
    """Finished runs for files of every kind, trained on first use, in folders that were moved."""

    def __init__(self, factory: pytest.TempPathFactory) -> None:
        super().__init__()
        self.factory = factory

    def __missing__(self, name: str) -> Path:
        data, options = KINDS[name]
        folder = self.factory.mktemp(name)
        train({**SMALL, **options, "data": data(folder), "out": str(folder / "first")})
        self[name] = folder / "moved"
        shutil.move(folder / "first", self[name])
        return self[name]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return Runs(tmp_path_factory)


def files(folder: Path) -> dict[str, Path]:
    """A file of every kind that can be predicted."""
    found = {
        "molecule": folder / "new.sdf",
        "graph": folder / "new.edges",
        "mesh": folder / "new.obj",
        "example": folder / "new.npz",
    }
    found["molecule"].write_text(sdf(3))
    found["graph"].write_text(ring(6))
    found["mesh"].write_text(obj(4))
    inc.collate(graphs(3)).save(found["example"])
    return found


def table(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(text.splitlines()))


@pytest.mark.parametrize(
    ("kind", "count"), [("example", 3), ("molecule", 3), ("graph", 1), ("mesh", 1)]
)
def test_files_of_every_kind_are_predicted_by_a_run_that_moved(kind, count, runs, tmp_path, capsys):
    file = files(tmp_path)[kind]
    assert main(["predict", str(runs[kind]), str(file)]) == 0
    found = capsys.readouterr()
    rows = table(found.out)
    assert len(rows) == count
    assert all(row["name"].startswith(str(file)) for row in rows)
    assert found.err == ""


def test_predictions_are_those_of_the_training_code(runs, capsys):
    run = resume(runs["example"])
    scored = run.evaluation.parts["test"]
    numbers = run.experiment.data.splits[0].test.tolist()
    main(["predict", str(runs["example"]), run.experiment.config.data])
    rows = table(capsys.readouterr().out)
    assert list(rows[0]) == ["name", "predicted target"]
    assert [float(rows[k]["predicted target"]) for k in numbers] == pytest.approx(
        scored.predicted[:, 0].tolist(), rel=1e-4
    )


def test_classes_come_with_probabilities(runs, tmp_path, capsys):
    main(["predict", str(runs["graph"]), str(files(tmp_path)["graph"])])
    [row] = table(capsys.readouterr().out)
    assert list(row) == ["name", "predicted", "p(large)", "p(small)"]
    assert float(row["p(large)"]) + float(row["p(small)"]) == pytest.approx(1, abs=1e-5)
    assert row["predicted"] == max(("large", "small"), key=lambda name: float(row[f"p({name})"]))


def test_predictions_are_one_json_object_for_other_programs(runs, tmp_path, capsys):
    path = files(tmp_path)["graph"]
    main(["predict", str(runs["graph"]), str(path)])
    [row] = table(capsys.readouterr().out)
    assert (
        main(["predict", str(runs["graph"]), str(path), str(tmp_path / "none.edges"), "--json"])
        == 1
    )
    told = json.loads(capsys.readouterr().out)
    [found] = told["predictions"]
    assert list(found) == list(row)
    assert found["predicted"] == row["predicted"]
    assert found["p(large)"] == pytest.approx(float(row["p(large)"]), abs=1e-5)
    assert "there is no file" in told["passed_over"][0]


def test_values_of_entries_have_a_row_each(tmp_path):
    examples = [e.replace(target={"i": e.features["i"][:, :2]}) for e in graphs(12)]
    inc.collate(examples).save(tmp_path / "d.npz")
    train({**SMALL, "data": str(tmp_path / "d.npz"), "out": str(tmp_path / "run")})
    task, found = predict(tmp_path / "run", [tmp_path / "d.npz"], [])
    assert (task.at, task.out_channels) == ("i", 2)
    assert [len(p.rows) for p in found] == [e.structure.total_nodes for e in examples]
    assert found[0].nodes == [str(k) for k in range(examples[0].structure.total_nodes)]


def _run_at(at: str, examples: list[inc.Example], reader: str, folder: Path) -> Path:
    """A run that predicts a number for every entry of a pattern, for files of a reader."""
    made = [e.replace(target={at: torch.rand(e.structure.num_entries(at), 1)}) for e in examples]
    parts = torch.arange(len(made)).split([len(made) - 2, 1, 1])
    train(
        {**SMALL, "model": f"i, {at}", "out": str(folder / "at")},
        DataSet("d", made, Task("regression", ("y",), at), (Split(*parts),), reader),
    )
    return folder / "at"


def test_values_of_edges_come_with_their_nodes_as_the_file_calls_them(tmp_path, capsys):
    (tmp_path / "a.edges").write_text("zoe bob\nann zoe\nbob ann\nann eve\n")
    [read] = reader("graph").read(tmp_path / "a.edges", [])
    run = _run_at("{i j}", [read.example] * 6, "graph", tmp_path)
    assert main(["predict", str(run), str(tmp_path / "a.edges")]) == 0
    rows = table(capsys.readouterr().out)
    assert list(rows[0]) == ["name", "entry", "nodes", "predicted y"]
    assert [row["nodes"] for row in rows] == ["zoe bob", "zoe ann", "bob ann", "ann eve"]
    assert (
        main(["predict", str(run), str(tmp_path / "a.edges"), "--out", str(tmp_path / "out.csv")])
        == 0
    )
    assert capsys.readouterr().err == f"4 predictions in {tmp_path / 'out.csv'}\n"


def test_values_of_faces_come_with_the_numbers_of_the_file(tmp_path, capsys):
    (tmp_path / "a.obj").write_text(obj(2))
    [read] = reader("mesh").read(tmp_path / "a.obj", [])
    run = _run_at("{i j k}", [read.example] * 6, "mesh", tmp_path)
    assert main(["predict", str(run), str(tmp_path / "a.obj")]) == 0
    assert [row["nodes"] for row in table(capsys.readouterr().out)] == [
        "1 2 3",
        "1 2 4",
        "1 3 4",
        "2 3 4",
    ]


def test_hydrogens_that_are_counted_leave_the_numbers_of_atoms_as_they_are(tmp_path):
    (tmp_path / "a.xyz").write_text(
        "4\nwater and helium\nH 0.96 0 0\nO 0 0 0\nH -0.24 0.93 0\nHe 9 0 0\n"
    )
    [read] = reader("molecule").read(tmp_path / "a.xyz", [])
    assert read.nodes == ("2", "4")
    [read] = reader("molecule").read(tmp_path / "a.xyz", [], hydrogens="keep")
    assert read.nodes == ("1", "2", "3", "4")


def test_nodes_of_hyperedges_are_all_told():
    structure = inc.Structure(4, {"{i ...}": [[0, 1, 1, 2, 3], [0, 0, 1, 1, 1]]})
    assert _nodes(Record("x", inc.Example(structure)), "{i ...}") == ["0 1", "1 2 3"]


def test_files_of_one_name_in_two_folders_are_told_apart(runs, tmp_path, monkeypatch, capsys):
    for folder in ("tet", "oct"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "0.obj").write_text(obj(3))
    monkeypatch.chdir(tmp_path)
    assert main(["predict", str(runs["mesh"]), "tet/0.obj", "oct/0.obj"]) == 0
    assert [row["name"] for row in table(capsys.readouterr().out)] == ["tet/0.obj", "oct/0.obj"]


def test_a_broken_file_is_named_and_the_rest_is_predicted(runs, tmp_path, capsys):
    broken, half = tmp_path / "broken.sdf", sdf(3)
    broken.write_text("this is no molecule\n")
    (tmp_path / "half.sdf").write_text(half.replace("  3  2  0", "  x  y  0", 1))
    good = files(tmp_path)["molecule"]
    words = [str(tmp_path / "absent.sdf"), str(broken), str(tmp_path / "half.sdf"), str(good)]
    assert main(["predict", str(runs["molecule"]), *words]) == 1
    found = capsys.readouterr()
    names = [row["name"] for row in table(found.out)]
    assert [Path(name.split(":")[0]).name for name in names] == ["half.sdf"] * 2 + ["new.sdf"] * 3
    told = found.err.splitlines()
    assert len(told) == 3
    assert all(line.startswith("incidence: skipped: ") for line in told)
    assert all(
        name in line
        for name, line in zip(("absent.sdf", "broken.sdf", "half.sdf"), told, strict=True)
    )


def test_titles_and_lines_that_are_no_utf8_stop_nothing(runs, tmp_path, capsys):
    (tmp_path / "latin.sdf").write_bytes(sdf(2).replace("m0", "caf\xe9").encode("latin-1"))
    (tmp_path / "bad.smi").write_bytes(b"CCO one\nC\xe9 two\nCCN th\xe9\n")
    (tmp_path / "bad.csv").write_bytes(b"\xef\xbb\xbfsmiles\nCCO\nC\xe9\nCCN\n")
    out = tmp_path / "out.csv"
    main(
        [
            "predict",
            str(runs["molecule"]),
            *(str(tmp_path / name) for name in ("latin.sdf", "bad.smi", "bad.csv")),
            "--out",
            str(out),
        ]
    )
    names = [row["name"].removeprefix(f"{tmp_path}/") for row in table(out.read_text())]
    assert names == [
        "latin.sdf:1 caf\xe9",
        "latin.sdf:2 m1",
        "bad.smi:1 one",
        "bad.smi:3 th\xe9",
        "bad.csv:1 CCO",
        "bad.csv:3 CCN",
    ]
    told = capsys.readouterr().err
    assert "bad.smi, line 2: RDKit cannot read the SMILES 'C\xe9'" in told
    assert "bad.csv, line 3: RDKit" in told


MOLECULES = "id,smiles,value,note\n" + "".join(
    f"m{k},{'C' * (1 + k % 7)}O,{k % 5},=note {k}\n" for k in range(20)
)


@pytest.mark.filterwarnings("default:.*skipped")
def test_names_and_columns_travel_from_a_table_to_predictions_and_back(tmp_path, capsys):
    path = tmp_path / "mine.csv"
    path.write_text(MOLECULES + "m20,C(,1,broken\nm21,CN,,without a value\n")
    run = tmp_path / "run"
    assert (
        main(
            [
                "train",
                "--data",
                str(path),
                "--target",
                "value",
                "--task",
                "regression",
                "--out",
                str(run),
                "--epochs",
                "1",
            ]
        )
        == 0
    )
    assert (
        f"incidence: mine: skipped 1 of 22 records that cannot be read:\n  {path}, line 22:"
        " RDKit" in capsys.readouterr().err
    )
    rows = table((run / "predictions.csv").read_text())
    assert list(rows[0]) == [
        "part",
        "name",
        "id",
        "smiles",
        "note",
        "target value",
        "predicted value",
    ]
    assert sorted(row["id"] for row in rows) == sorted(f"m{k}" for k in range(22) if k != 20)
    assert [
        (row["part"], row["target value"], row["name"]) for row in rows if row["id"] == "m21"
    ] == [("other", "", "mine.csv:22 CN")]
    assert all(row["note"].startswith("'=note") for row in rows if row["id"] != "m21")
    assert main(["predict", str(run), str(path)]) == 1
    again = table(capsys.readouterr().out)
    assert list(again[0]) == ["name", "id", "smiles", "value", "note", "predicted value"]
    predicted = {row["id"]: float(row["predicted value"]) for row in rows}
    assert {row["id"]: float(row["predicted value"]) for row in again} == pytest.approx(
        predicted, rel=1e-4
    )


def test_a_column_called_name_is_told_in_the_same_way_after_training_and_by_predict(
    tmp_path, capsys
):
    path, run = tmp_path / "mine.csv", tmp_path / "run"
    path.write_text(
        "name,smiles,value\n" + "".join(f"m{k},{'C' * (1 + k % 7)}O,{k % 5}\n" for k in range(20))
    )
    assert (
        main(
            [
                "train",
                "--data",
                str(path),
                "--target",
                "value",
                "--task",
                "regression",
                "--out",
                str(run),
                "--epochs",
                "1",
            ]
        )
        == 0
    )
    rows = table((run / "predictions.csv").read_text())
    assert list(rows[0]) == [
        "part",
        "name",
        "input name",
        "smiles",
        "target value",
        "predicted value",
    ]
    capsys.readouterr()
    assert main(["predict", str(run), str(path)]) == 0
    again = table(capsys.readouterr().out)
    assert list(again[0]) == ["name", "input name", "smiles", "value", "predicted value"]
    for found in (rows, again):
        assert sorted(row["input name"] for row in found) == sorted(f"m{k}" for k in range(20))
        assert all("mine.csv:" in row["name"] for row in found)


def test_sdf_titles_and_properties_stand_beside_predictions(runs, tmp_path, capsys):
    main(["predict", str(runs["molecule"]), str(files(tmp_path)["molecule"])])
    rows = table(capsys.readouterr().out)
    assert list(rows[0]) == ["name", "value", "predicted value"]
    assert [row["name"].rpartition(":")[2] for row in rows] == ["1 m0", "2 m1", "3 m2"]
    assert [row["value"] for row in rows] == ["0", "1", "2"]


def test_what_no_reader_foresaw_is_the_error_of_one_file(runs, tmp_path, monkeypatch):
    def read(path, errors, **options):
        if path.name == "odd.edges":
            raise UnicodeDecodeError("utf-8", b"\xff", 0, 1, "odd")
        return known.read(path, errors, **options)

    known = reader("graph")
    monkeypatch.setitem(READERS, "graph", Reader(known.suffixes, read))
    (tmp_path / "odd.edges").write_text(ring(5))
    errors: list[IncidenceError] = []
    _, found = predict(runs["graph"], [tmp_path / "odd.edges", files(tmp_path)["graph"]], errors)
    assert len(found) == 1
    assert [str(error).partition(": ")[0] for error in errors] == [
        f"{tmp_path / 'odd.edges'} cannot be read"
    ]


def test_files_for_another_model_are_named_and_nothing_is_left(runs, tmp_path, capsys):
    found = files(tmp_path)
    assert main(["predict", str(runs["molecule"]), str(found["mesh"])]) == 2
    told = capsys.readouterr().err
    assert "new.obj is none of the files this model reads: .sdf" in told
    assert "A file like that is for a model of kind 'mesh'." in told
    assert (
        "there is nothing to predict: none of 1 files gave an example that fits the model" in told
    )


def test_examples_with_other_features_are_named_and_the_rest_goes_on(runs, tmp_path, capsys):
    good = files(tmp_path)["example"]
    narrow = [e.replace(features={**e.features, "i": e.features["i"][:, :2]}) for e in graphs(2)]
    inc.collate(narrow).save(tmp_path / "narrow.npz")
    bare = [e.replace(features={"i": e.features["i"]}) for e in graphs(1)]
    inc.collate(bare).save(tmp_path / "bare.npz")
    sick = [e.replace(features={**e.features, "i": e.features["i"] / 0}) for e in graphs(1)]
    inc.collate(sick).save(tmp_path / "sick.npz")
    assert (
        main(
            [
                "predict",
                str(runs["example"]),
                *(str(tmp_path / f"{n}.npz") for n in ("narrow", "bare", "sick")),
                str(good),
            ]
        )
        == 1
    )
    found = capsys.readouterr()
    assert [row["name"] for row in table(found.out)] == [f"{good} {k}" for k in range(3)]
    assert "narrow.npz 0: the features of `i` must have 3 channels" in found.err
    assert "narrow.npz 1: " in found.err
    assert "bare.npz 0: the network reads `{i j}`, which has no features here" in found.err
    assert "sick.npz 0: the features of `i` have values that are no finite numbers" in found.err


def test_a_graph_whose_lift_fails_is_named(runs, tmp_path, capsys):
    whole = graphs(1)[0]
    lone = inc.Example(inc.Structure(2, {}), {"i": torch.ones(2, 3)})
    lone.save(tmp_path / "lone.npz")
    assert whole.structure.total_nodes
    assert (
        main(
            [
                "predict",
                str(runs["graph"]),
                str(tmp_path / "lone.npz"),
                str(files(tmp_path)["graph"]),
            ]
        )
        == 1
    )
    assert "skipped: " in (told := capsys.readouterr().err)
    assert "lone.npz" in told


def test_a_table_is_written_at_once_or_not_at_all(runs, tmp_path, capsys):
    file, out = files(tmp_path)["graph"], tmp_path / "out.csv"
    out.write_text("before")
    assert (
        main(["predict", str(runs["graph"]), str(tmp_path / "absent.edges"), "--out", str(out)])
        == 2
    )
    assert out.read_text() == "before"
    assert main(["predict", str(runs["graph"]), str(file), "--out", str(out)]) == 0
    assert len(table(out.read_text())) == 1
    found = capsys.readouterr()
    assert found.out == ""
    assert f"1 prediction in {out}" in found.err
    assert not list(tmp_path.glob(".out*"))
    assert (
        main(["predict", str(runs["graph"]), str(file), "--out", str(tmp_path / "no" / "out.csv")])
        == 2
    )
    assert main(["predict", str(runs["graph"]), str(file), "--out", str(tmp_path)]) == 2
    assert (
        f"{tmp_path} is a folder, and predictions are one file: give --out"
        f" {tmp_path / 'predicted.csv'}." in capsys.readouterr().err
    )


def test_a_run_that_is_not_finished_predicts_nothing(runs, tmp_path, capsys):
    copy = shutil.copytree(runs["graph"], tmp_path / "copy")
    (copy / "model.safetensors").unlink()
    with pytest.raises(
        IncidenceError, match=r"has no model yet: finish it with `incidence\.train\.resume"
    ):
        predict(copy, [], [])
    (copy / "model.safetensors").write_bytes(b"damaged")
    with pytest.raises(IncidenceError, match=r"model\.safetensors is damaged"):
        predict(copy, [], [])
    shutil.copy(runs["mesh"] / "model.safetensors", copy / "model.safetensors")
    with pytest.raises(
        IncidenceError, match=r"model\.safetensors belongs to another model than .*model\.json"
    ):
        predict(copy, [], [])
    assert main(["predict", str(tmp_path), "x.edges"]) == 2
    assert "is no folder of a run" in capsys.readouterr().err


# ---- evaluation


@pytest.mark.parametrize("kind", ["example", "graph"])
def test_evaluation_gives_the_metrics_of_the_run(kind, runs, capsys):
    assert main(["evaluate", str(runs[kind]), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    wanted = json.loads((runs[kind] / "metrics.json").read_text())

    def told(metrics):
        """All numbers; a part with one class only has no area under the curve."""
        flat = {
            **metrics,
            **{f"baseline {key}": value for key, value in metrics["baseline"].items()},
            "baseline": None,
        }
        return {key: -1.0 if value is None else value for key, value in flat.items()}

    for part, metrics in found.items():
        assert told(metrics) == pytest.approx(told(wanted[part]), rel=1e-5)


def test_evaluation_is_a_table_for_people(runs, capsys):
    assert main(["evaluate", str(runs["example"])]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["part", "rows", "metric", "network", "baseline"]
    assert [line.split()[0] for line in lines[1:]] == [
        "train",
        "train",
        "validation",
        "validation",
        "test",
        "test",
    ]


def test_a_run_is_evaluated_on_other_data(runs, tmp_path):
    inc.collate(graphs(17)).save(tmp_path / "other.npz")
    evaluation, metric = evaluate_run(runs["example"], {"data": str(tmp_path / "other.npz")})
    assert metric == "rmse"
    assert {name: len(part.target) for name, part in evaluation.parts.items()} == {"test": 17}


def test_a_run_is_not_evaluated_on_another_task(runs, tmp_path, capsys):
    inc.collate(graphs(17, is_classes=True)).save(tmp_path / "other.npz")
    assert main(["evaluate", str(runs["example"]), "--data", str(tmp_path / "other.npz")]) == 2
    told = capsys.readouterr().err
    assert (
        "the model was trained for 1 number for the whole structure, and the data has the classes"
        " class 0, class 1 for the whole" in told
    )


@pytest.mark.filterwarnings("default:the model predicts")
def test_a_target_of_other_data_may_have_another_name_which_is_told(runs, tmp_path, capsys):
    (tmp_path / "other.sdf").write_text(sdf(10).replace("<value>", "<SOL>"))
    assert (
        main(
            [
                "evaluate",
                str(runs["molecule"]),
                "--data",
                str(tmp_path / "other.sdf"),
                "--target",
                "SOL",
            ]
        )
        == 0
    )
    told = capsys.readouterr()
    assert told.out.splitlines()[-1] == "other defines no parts, so all of it is for testing."
    assert (
        told.err == "incidence: the model predicts `value`, and is compared with `SOL` of other.\n"
    )
    assert main(["evaluate", str(runs["molecule"]), "--data", str(tmp_path / "other.sdf")]) == 2
    assert (
        "The model predicts value: say with --target what that is called here."
        in capsys.readouterr().err
    )


@pytest.mark.parametrize(
    ("flag", "value"),
    [("validation", "0.1"), ("split", "3"), ("data-seed", "5"), ("data-options", "a=1")],
)
def test_rows_of_training_are_not_scored_as_others(runs, flag, value, capsys):
    own = resume(runs["example"]).experiment.config.data
    for more in ([], ["--data", own]):
        assert main(["evaluate", str(runs["example"]), f"--{flag}", value, *more]) == 2
        assert (
            f"leave out --{flag}: other parts of the data of the run have rows that it was trained"
            " on" in capsys.readouterr().err
        )


@pytest.mark.parametrize(
    ("flag", "value"), [("validation", "0.5"), ("cv", "3"), ("groups", "name")]
)
def test_no_parts_are_drawn_of_other_data(runs, flag, value, tmp_path, capsys):
    inc.collate(graphs(20)).save(tmp_path / "other.npz")
    assert (
        main(
            [
                "evaluate",
                str(runs["example"]),
                "--data",
                str(tmp_path / "other.npz"),
                f"--{flag}",
                value,
            ]
        )
        == 2
    )
    assert (
        f"leave out --{flag}: nothing is trained here, so all rows of other data are one part"
        in capsys.readouterr().err
    )


def test_models_of_bare_graphs_see_the_ones_of_training_in_others(tmp_path):
    bare = [e.replace(features={"i": e.features["i"]}) for e in graphs(12)]
    train(
        {"model": "i, {i j}", "epochs": 1, "hidden": 4, "depth": 1, "out": str(tmp_path / "run")},
        bare,
    )
    full = [
        e.replace(features={**e.features, "{i j}": torch.ones(e.structure.num_entries("{i j}"), 1)})
        for e in bare
    ]
    model = inc.load(tmp_path / "run")
    assert [p.rows for p in model.predict(bare)] == [p.rows for p in model.predict(full)]


def test_predictions_for_a_frame_have_its_index_and_all_of_its_rows(runs):
    pandas = pytest.importorskip("pandas")
    index = pandas.Index([7, 7, 3, 1], name="key")
    frame = pandas.DataFrame({"smiles": ["CCO", "xx(", "CO", None], "id": list("abcd")}, index)
    found = inc.load(runs["molecule"]).predict(frame)
    table = found.to_frame()
    assert table.index.equals(index)
    assert list(table["id"]) == list("abcd")
    assert table["predicted value"].isna().tolist() == [False, True, False, True]
    assert table["predicted value"].dropna().tolist() == pytest.approx(found.values[:, 0].tolist())
    assert table["reason"].isna().tolist() == [True, False, True, False]
    assert "cannot read the SMILES 'xx('" in table["reason"].iloc[1]
    assert "there is no SMILES" in table["reason"].iloc[3]


def test_missing_classes_of_a_frame_are_no_class():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"x": [1, 2]}, index=["a", "b"])
    task = Task("classification", ("no", "yes"))
    one = Prediction("row a", [[0.2, 0.8]], [""], row=0)
    table = Predictions(task, [one], [RowError("the row b is broken", 1)], frame).to_frame()
    assert table["predicted"].iloc[0] == "yes"
    assert table.loc["b", ["predicted", "p(no)", "p(yes)"]].isna().all()
    assert table.loc["b", "reason"] == "the row b is broken"


def test_predictions_for_smiles_have_all_of_their_rows(runs):
    pandas = pytest.importorskip("pandas")
    model, smiles = inc.load(runs["molecule"]), ["CCO", "xx(", "CO"]
    series = pandas.Series(smiles, index=[5, 6, 9], name="structure")
    for what, index in ((smiles, [0, 1, 2]), (series, [5, 6, 9]), (np.array(smiles), [0, 1, 2])):
        table = model.predict(what).to_frame()
        assert table.index.tolist() == index
        assert table["smiles"].tolist() == smiles
        assert table["predicted value"].isna().tolist() == [False, True, False]
        assert "cannot read the SMILES 'xx('" in table["reason"].iloc[1]


def test_a_missing_file_among_smiles_is_no_molecule(runs):
    found = inc.load(runs["molecule"]).predict(["CCO", "missing.sdf"])
    assert "there is no file missing.sdf" in str(found.passed_over[0])


@pytest.mark.parametrize("suffix", [".parquet", ".feather", ".tsv", ".json", ".csv"])
def test_predictions_are_written_in_the_format_of_the_suffix(suffix, runs, tmp_path, capsys):
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    out = tmp_path / f"found{suffix}"
    assert main(["predict", str(runs["molecule"]), "CCO", "CC", "--out", str(out)]) == 0
    readers = {
        ".parquet": pandas.read_parquet,
        ".feather": pandas.read_feather,
        ".tsv": lambda path: pandas.read_csv(path, sep="\t"),
        ".json": lambda path: pandas.DataFrame(json.loads(path.read_text())["predictions"]),
        ".csv": pandas.read_csv,
    }
    found = readers[suffix](out)
    model = inc.load(runs["molecule"])
    expected = model.predict(["CCO", "CC"])
    assert found["name"].tolist() == ["CCO", "CC"]
    assert found["predicted value"].tolist() == pytest.approx(expected.values[:, 0].tolist())
    expected.save(tmp_path / f"again{suffix}")
    assert readers[suffix](tmp_path / f"again{suffix}").equals(found)


def test_predictions_are_not_written_under_a_name_of_another_format(runs, tmp_path, capsys):
    out = tmp_path / "found.xlsx"
    assert main(["predict", str(runs["molecule"]), "CCO", "--out", str(out)]) == 2
    message = "predictions are written as .csv, .txt, .tsv, .json, .parquet"
    assert message in capsys.readouterr().err
    assert not out.exists()
    with pytest.raises(IncidenceError, match="predictions are written as"):
        inc.load(runs["molecule"]).predict(["CCO"]).save(out)


def test_a_mesh_is_predicted_as_its_file(runs, tmp_path):
    model, path = inc.load(runs["mesh"]), tmp_path / "a.obj"
    path.write_text(obj(1.5))
    mesh = inc.geometry.read_mesh(path)
    expected = model.predict(path).values
    points = inc.Example(mesh.structure, {"pos=i": mesh.points})
    for what in (mesh, [mesh], points):
        torch.testing.assert_close(model.predict(what).values, expected)
