"""`inc.load`: a trained model predicts for whatever can be loaded, says what it is, and is measured
on other data.
"""

from __future__ import annotations

import json
import shutil
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

import incidence as inc
from incidence.data import Split
from incidence.errors import IncidenceError
from incidence.geometry.convert import to_pyg
from incidence.train.inputs import records_of
from incidence.train.run_folder import RunFolder
from tests.train.small_runs import graphs

SMALL: dict[str, Any] = {"epochs": 1, "batch_size": 16, "hidden": 4, "depth": 1}


@pytest.fixture(scope="module")
def molecules(tmp_path_factory: pytest.TempPathFactory) -> inc.train.Model:
    """A model of molecules, from a table."""
    folder = tmp_path_factory.mktemp("molecules")
    rows = [f"m{k},{'C' * (1 + k % 5)}{'ON'[k % 2]},{k % 7}.5" for k in range(20)]
    (folder / "mine.csv").write_text("\n".join(["id,smiles,value", *rows]) + "\n")
    inc.train.train(
        {**SMALL, "data": str(folder / "mine.csv"), "target": "value", "out": str(folder / "run")}
    )
    return inc.load(folder / "run")


@pytest.fixture(scope="module")
def numbers_model(numbers: Path, tmp_path_factory: pytest.TempPathFactory) -> inc.train.Model:
    folder = tmp_path_factory.mktemp("numbers")
    inc.train.train(
        {**SMALL, "data": str(numbers), "model": "i, {i j}", "out": str(folder / "run")}
    )
    return inc.load(str(folder / "run"))


@pytest.fixture(scope="module")
def classes_model(classes: Path, tmp_path_factory: pytest.TempPathFactory) -> inc.train.Model:
    folder = tmp_path_factory.mktemp("classes")
    inc.train.train({**SMALL, "data": str(classes), "model": "rings", "out": str(folder / "run")})
    return inc.load(folder / "run")


def test_a_model_says_what_it_is(numbers_model, classes_model):
    told = repr(numbers_model)
    score = numbers_model.metrics["test"]
    assert "regression of target" in told
    assert "i, {i j} network" in told
    assert f"test rmse {score['rmse']:.4g}, baseline {score['baseline']['rmse']:.4g}" in told
    assert "classification of class 0, class 1; rings network" in repr(classes_model)
    assert numbers_model.config.hidden == 4
    assert isinstance(numbers_model.network, inc.models.IncidenceNet)


def test_a_model_says_what_it_is_without_the_metrics_of_its_run(numbers_model, tmp_path):
    copy = shutil.copytree(numbers_model.folder.path, tmp_path / "copy")
    (copy / "metrics.json").unlink()
    assert repr(inc.load(copy)).endswith("numbers.npz)")


@pytest.mark.parametrize(
    "kind",
    [
        "examples",
        "an example",
        "a batch",
        "a file",
        "a path",
        "files",
        "a data set",
        "PyG",
        "one graph",
    ],
)
def test_a_model_predicts_for_whatever_can_be_loaded(kind, numbers_model, numbers):
    examples = list(inc.data.load(numbers).examples)
    expected = numbers_model.predictor.predict(inc.collate(examples))
    with_pyg = [to_pyg(e.replace(target=None)) for e in examples]
    what, count = {
        "examples": (examples, 40),
        "an example": (examples[0], 1),
        "a batch": (inc.collate(examples), 40),
        "a file": (str(numbers), 40),
        "a path": (Path(numbers), 40),
        "files": ([numbers, str(numbers)], 80),
        "a data set": (inc.data.load(numbers), 40),
        "PyG": (with_pyg, 40),
        "one graph": (with_pyg[0], 1),
    }[kind]
    found = numbers_model.predict(what)
    assert len(found) == len(found.names) == count
    assert not found.passed_over
    torch.testing.assert_close(
        found.values, torch.cat([expected, expected])[:count], rtol=1e-4, atol=1e-5
    )


def test_predictions_become_a_data_frame(classes_model, classes):
    pandas = pytest.importorskip("pandas")
    found = classes_model.predict(str(classes))
    frame = found.to_frame()
    assert isinstance(frame, pandas.DataFrame)
    assert list(frame["predicted"]) == found.classes
    assert len(frame) == len(found)


def test_predictions_print_as_a_table_and_become_a_file(
    numbers_model, classes_model, numbers, tmp_path
):
    found = numbers_model.predict(numbers)
    lines = repr(found).splitlines()
    assert lines[0] == "name,predicted target"
    assert lines[-1] == "... 30 more"
    assert len(lines) == 12
    found.save(tmp_path / "out.csv")
    assert (tmp_path / "out.csv").read_text() == found.csv()
    assert found[3].name == found.names[3]
    assert len(found[:2]) == 2
    with pytest.raises(
        IncidenceError, match=r"this model predicts numbers \(target\): they are in `\.values`"
    ):
        _ = found.classes
    other = classes_model.predict(graphs(3))
    assert set(other.classes) <= {"class 0", "class 1"}
    assert other.values.sum(1).tolist() == pytest.approx([1.0] * 3)


def test_predictions_of_many_entries_print_the_first_few(tmp_path):
    examples = [e.replace(target={"i": e.features["i"][:, :1]}) for e in graphs(20)]
    inc.train.train(
        {**SMALL, "model": "i, {i j}", "out": str(tmp_path / "run")}, inc.data.load(examples)
    )
    found = inc.load(tmp_path / "run").predict(inc.collate(examples * 5))
    lines = repr(found).splitlines()
    assert lines[:11] == found.csv().splitlines()[:11]
    assert lines[11:] == [f"... {len(found.values) - 10} more"]
    nodes = len(found[0].rows)
    assert (
        repr(found[0])
        == f"Prediction('example 0': {nodes} rows, the first [{found[0].rows[0][0]:.4g}])"
    )
    assert (
        repr(found[0]._replace(rows=[[1.0] * 12]))
        == f"Prediction('example 0': [{', '.join(['1'] * 10)}, ...])"
    )


def test_a_model_of_molecules_takes_smiles_tables_and_data_frames(molecules, tmp_path):
    pandas = pytest.importorskip("pandas")
    smiles = ["CCO", "c1ccccc1", "CN"]
    found = molecules.predict(smiles)
    assert found.names == smiles
    assert found.csv().splitlines()[0] == "name,smiles,predicted value"
    frame = pandas.DataFrame({"compound": smiles, "batch": [1, 2, 3]})
    framed = molecules.predict(frame)
    torch.testing.assert_close(framed.values, found.values)
    assert framed.csv().splitlines()[0] == "name,compound,batch,predicted value"
    assert framed.names == ["row 0 CCO", "row 1 c1ccccc1", "row 2 CN"]
    broken = molecules.predict(pandas.DataFrame({"smiles": ["CCO", "C(", "CN"]}))
    assert broken.names == ["row 0 CCO", "row 2 CN"]
    assert str(broken.passed_over[0]).startswith(
        "the DataFrame, row 1: RDKit cannot read the SMILES 'C('"
    )
    (tmp_path / "new.smi").write_text("\n".join(smiles) + "\n")
    torch.testing.assert_close(molecules.predict(tmp_path / "new.smi").values, found.values)
    torch.testing.assert_close(molecules.predict("CCO").values, found.values[:1])


def test_a_new_table_may_name_its_smiles_otherwise_or_not_at_all(molecules, tmp_path):
    expected = molecules.predict(["CCO", "c1ccccc1", "CN"]).values
    spec = replace(
        molecules.spec, reader_options={**molecules.spec.reader_options, "smiles": "smiles"}
    )
    for name, text in {
        "a.smi": "CCO\nc1ccccc1\nCN\n",
        "b.smi": "CCO a\nc1ccccc1 b\nCN c\n",
        "c.csv": "SMILES,n\nCCO,1\nc1ccccc1,2\nCN,3\n",
    }.items():
        (tmp_path / name).write_text(text)
        errors = []
        found = [one.example for one in records_of(tmp_path / name, spec, errors)]
        assert not errors
        torch.testing.assert_close(molecules.predict(found).values, expected)
    (tmp_path / "d.csv").write_text("what,n\nfoo,1\nbar,2\n")
    assert not list(records_of(tmp_path / "d.csv", spec, errors))
    assert "has no column `smiles`; it has: what, n" in str(errors[0])


def test_one_class_alone_is_refused_before_training(tmp_path):
    (tmp_path / "mine.csv").write_text(
        "smiles,kind\n" + "".join(f"{'C' * k}O,lab\n" for k in range(1, 12))
    )
    with pytest.raises(IncidenceError, match="mine: there is one class only, 'lab'"):
        inc.train.train(
            {
                **SMALL,
                "data": str(tmp_path / "mine.csv"),
                "target": "kind",
                "out": str(tmp_path / "run"),
            }
        )


@pytest.mark.parametrize(
    ("script", "told"),
    [
        ("/x/incidence/__main__.py", ["python", "-m", "incidence"]),
        ("/x/bin/incidence", ["python", "-m", "incidence"]),
        ("/x/mine.py", ["mine.py"]),
    ],
)
def test_a_run_keeps_the_command_as_it_was_typed(molecules, tmp_path, monkeypatch, script, told):
    monkeypatch.setenv("INCIDENCE_COMMAND", "python -m incidence")
    monkeypatch.setattr(sys, "argv", [script, "train", "--epochs", "1"])
    RunFolder.new(str(tmp_path / "run"), "mine").start(molecules.config, molecules.spec)
    assert json.loads((tmp_path / "run/environment.json").read_text())["command"] == [
        *told,
        "train",
        "--epochs",
        "1",
    ]


def test_what_cannot_be_read_is_passed_over(molecules, tmp_path):
    found = molecules.predict(["CCO", "C1CC", str(tmp_path / "absent.sdf")])
    assert found.names == ["CCO"]
    assert len(found.passed_over) == 2
    assert (
        str(found.passed_over[0]) == "there is no file C1CC, and it is no SMILES that can be read."
    )
    assert repr(found).splitlines()[-1].startswith("2 skipped, the first: ")


@pytest.mark.parametrize(
    ("what", "message"),
    [
        ("absent.npz", "there is no file absent.npz"),
        ([], "there is nothing to predict for"),
        (
            3,
            (
                "a model predicts for names, files, folders, data frames, examples, graphs of PyG"
                " or networkx, and data sets; got int"
            ),
        ),
        ([3], "got list of int"),
        ({"a": 3}, "got dict"),
    ],
)
def test_what_is_nothing_to_predict_for_is_refused(what, message, numbers_model):
    with pytest.raises(IncidenceError, match=message):
        numbers_model.predict(what)


def test_molecules_of_rdkit_are_predicted_as_their_smiles(molecules):
    read = pytest.importorskip("rdkit.Chem").MolFromSmiles
    texts = ["CCO", "c1ccccc1"]
    expected = molecules.predict(texts)
    for what, count in (([read(text) for text in texts], 2), (read("CCO"), 1)):
        found = molecules.predict(what)
        assert list(found.names) == texts[:count]
        assert torch.equal(found.values, expected.values[:count])
    message = r"SMILES, molecules of RDKit, .*; got list of Mol, int"
    with pytest.raises(IncidenceError, match=message):
        molecules.predict([read("CCO"), 3])


def test_a_table_is_nothing_for_a_model_of_graphs(classes_model):
    pandas = pytest.importorskip("pandas")
    with pytest.raises(
        IncidenceError,
        match=r"the DataFrame is a table, and this model reads files of kind 'example'",
    ):
        classes_model.predict(pandas.DataFrame({"a": [1, 2]}))


def test_a_folder_that_is_no_run_is_refused(tmp_path):
    with pytest.raises(IncidenceError, match="is no folder of a run"):
        inc.load(tmp_path)


def test_a_folder_of_runs_names_them(numbers_model, tmp_path):
    for name in ("a", "b"):
        shutil.copytree(numbers_model.folder.path, tmp_path / name)
    with pytest.raises(
        IncidenceError,
        match=rf"It has runs in it, give one of them: {tmp_path / 'a'}, {tmp_path / 'b'}\.",
    ):
        inc.load(tmp_path)
    with pytest.raises(IncidenceError, match="a file is given by its path, as a text; got 3"):
        inc.load(3)


# ---- evaluation


def test_a_model_is_measured_on_its_own_parts(numbers_model):
    found = numbers_model.evaluate()
    for part in ("train", "validation", "test"):
        assert found.parts[part].metrics["rmse"] == pytest.approx(
            numbers_model.metrics[part]["rmse"], rel=1e-4
        )


def test_other_data_without_parts_is_all_for_testing(numbers_model):
    examples = graphs(12)
    found = numbers_model.evaluate(examples)
    assert list(found.parts) == ["test"]
    assert len(found.parts["test"].target) == 12
    predicted = numbers_model.predict(examples).values
    error = (predicted - torch.stack([e.target for e in examples])).square().mean().sqrt()
    assert found.parts["test"].metrics["rmse"] == pytest.approx(float(error), rel=1e-4)
    spread = torch.cat([e.target for e in examples]).std(unbiased=False)
    assert found.parts["test"].baseline["rmse"] == pytest.approx(float(spread), rel=1e-4)


def test_other_data_is_lifted_and_parts_that_it_tells_are_kept(classes_model):
    data = inc.data.load(graphs(20, is_classes=True))  # whose parts are drawn
    found = classes_model.evaluate(data)
    assert {name: len(part.target) for name, part in found.parts.items()} == {"test": 20}
    told = replace(
        data, splits=(Split(*torch.arange(20).split([16, 2, 2])),), has_drawn_parts=False
    )
    found = classes_model.evaluate(told)
    assert {name: len(part.target) for name, part in found.parts.items()} == {
        "train": 16,
        "validation": 2,
        "test": 2,
    }


def test_a_table_is_measured_by_the_target_of_the_model(molecules, tmp_path):
    (tmp_path / "new.csv").write_text("smiles,value,other\nCCO,1,7\nCCCN,2,9\nCO,3,8\n")
    found = molecules.evaluate(tmp_path / "new.csv")
    assert found.parts["test"].target.flatten().tolist() == [1.0, 2.0, 3.0]
    assert found.task.names == ("value",)


def test_data_for_another_task_is_refused(numbers_model):
    with pytest.raises(
        IncidenceError,
        match=(
            "the model was trained for 1 number for the whole structure, and the data has the"
            " classes"
        ),
    ):
        numbers_model.evaluate(graphs(6, is_classes=True))


# ---- the Hub


def test_a_model_is_saved_and_comes_back_with_nothing_of_this_machine(numbers_model, tmp_path):
    pytest.importorskip("huggingface_hub")
    numbers_model.save_pretrained(tmp_path / "saved")
    examples = graphs(5)
    for found in (
        inc.load(tmp_path / "saved"),
        inc.train.Model.from_pretrained(tmp_path / "saved"),
    ):
        assert torch.equal(found.predict(examples).values, numbers_model.predict(examples).values)
        assert found.spec.data == "numbers.npz"
    written = b"".join(path.read_bytes() for path in (tmp_path / "saved").iterdir())
    assert str(Path(numbers_model.config.data).parent).encode() not in written
    assert (
        "A network of incidence for regression of target"
        in (tmp_path / "saved" / "README.md").read_text()
    )


def test_a_model_goes_to_the_hub_and_comes_from_there(numbers_model, tmp_path, monkeypatch):
    """Against a folder that stands for the Hub: nothing is sent anywhere."""
    hub = pytest.importorskip("huggingface_hub")
    sent = []

    def upload(self: Any, *, repo_id: str, folder_path: Path, **options: Any) -> str:
        shutil.copytree(folder_path, tmp_path / repo_id)
        sent.append((repo_id, options["commit_message"]))
        return "commit"

    monkeypatch.setattr(
        hub.HfApi, "create_repo", lambda self, repo_id, **options: SimpleNamespace(repo_id=repo_id)
    )
    monkeypatch.setattr(hub.HfApi, "upload_folder", upload)
    (tmp_path / "config.json").write_text("{}")  # which the mixin asks for first
    monkeypatch.setattr(
        "huggingface_hub.hub_mixin.hf_hub_download", lambda **options: str(tmp_path / "config.json")
    )
    monkeypatch.setattr(
        "incidence.train.hub.snapshot_download", lambda name, **options: str(tmp_path / name)
    )
    assert numbers_model.push_to_hub("somebody/numbers", commit_message="a model") == "commit"
    assert sent == [("somebody/numbers", "a model")]
    found = inc.train.Model.from_pretrained("somebody/numbers", revision="main")
    examples = graphs(3)
    assert torch.equal(found.predict(examples).values, numbers_model.predict(examples).values)


def test_a_missing_library_of_the_hub_is_named(numbers_model, monkeypatch):
    monkeypatch.setitem(sys.modules, "incidence.train.hub", None)
    with pytest.raises(ImportError, match=r"pip install 'incidence\[hub\]'"):
        numbers_model.push_to_hub("somebody/numbers")


def test_a_run_on_data_given_in_python_asks_for_it_again(tmp_path):
    data = inc.data.load(graphs(12))
    run = inc.train.train({**SMALL, "model": "graph", "out": str(tmp_path / "run")}, data)
    model = inc.load(run.folder.path)
    with pytest.raises(
        IncidenceError,
        match=r"was given in Python, or is missing: give it again as evaluate\(data\)",
    ):
        model.evaluate()
    assert "test" in model.evaluate(data).parts


@pytest.mark.parametrize(
    "metrics",
    [
        {"test": 5},
        {"test": {"rmse": 0.5}},
        {"test": {"rmse": [1], "baseline": {"rmse": 1}}},
        {"test": None},
    ],
)
def test_a_model_says_what_it_is_though_its_metrics_are_damaged(metrics, numbers_model, tmp_path):
    copy = shutil.copytree(numbers_model.folder.path, tmp_path / "copy")
    (copy / "metrics.json").write_text(json.dumps(metrics))
    assert repr(inc.load(copy)).endswith("numbers.npz)")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"reader_options": 5}, "`reader_options` cannot be 5"),
        ({"task": {"kind": "regression", "names": [1, 2]}}, r"`names` cannot be \[1, 2\]"),
        ({"task": {"kind": "guessing", "names": ["a"]}}, "`kind` cannot be 'guessing'"),
        ({"task": 5}, "is no description of a model, or is damaged"),
        ({"metric": [1]}, r"`metric` cannot be \[1\]"),
        ({"in_channels": {"i": "many"}}, "`in_channels` cannot be {'i': 'many'}"),
        (
            {"settings": {"hops": 10**18}},
            "the option `hops` is at most 1000; got 1000000000000000000",
        ),
        ({"settings": {"heads": 10**9}}, "the option `heads` is at most 1048576; got 1000000000"),
    ],
)
def test_a_description_whose_values_are_of_other_types_is_refused(
    changes, said, numbers_model, tmp_path
):
    copy = shutil.copytree(numbers_model.folder.path, tmp_path / "copy")
    told = json.loads((copy / "model.json").read_text())
    (copy / "model.json").write_text(json.dumps({**told, **changes}))
    with pytest.raises(
        IncidenceError,
        match=rf"model\.json is no description of a model, or is damaged.*{said}|{said}",
    ):
        inc.load(copy)


@pytest.mark.parametrize("name", ["x" * 300, "a b/c"], ids=["300 characters", "a blank"])
def test_a_name_that_no_model_of_the_hub_has_is_refused(name, monkeypatch):
    pytest.importorskip("huggingface_hub")
    with pytest.raises(
        IncidenceError, match="is no folder of a model, and cannot be loaded from the Hub"
    ):
        inc.train.Model.from_pretrained(name)


def test_a_home_that_nobody_has_is_no_run():
    with pytest.raises(IncidenceError, match="is no folder of a run"):
        inc.load("~nobody_at_all/run")
