"""A run is measured on its own parts, on all of other data, and by the targets that its model
predicts.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
import torch

import incidence as inc
from incidence.cli import main
from incidence.errors import IncidenceError
from incidence.train import Model, train

SMALL: dict[str, Any] = {"epochs": 1, "batch_size": 16, "hidden": 4, "depth": 1}
ROWS = [f"{'C' * (1 + k % 7)}{'ON'[k % 2]},{k % 5}.5,{(3 * k) % 7}.25" for k in range(40)]


def written(path: Path, rows: list[str], head: str = "smiles,expt,calc") -> Path:
    path.write_text("\n".join([head, *rows]) + "\n")
    return path


def sizes(found: inc.train.Evaluation) -> dict[str, int]:
    return {name: len(part.target) for name, part in found.parts.items()}


@pytest.fixture(scope="module")
def one(tmp_path_factory: pytest.TempPathFactory) -> Model:
    """A model of one target, which was found in its table."""
    folder = tmp_path_factory.mktemp("one")
    data = written(folder / "mine.csv", [row.rpartition(",")[0] for row in ROWS], "smiles,expt")
    train({**SMALL, "data": str(data), "out": str(folder / "run")})
    return inc.load(folder / "run")


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Model:
    """A model of two targets."""
    folder = tmp_path_factory.mktemp("two")
    train(
        {
            **SMALL,
            "data": str(written(folder / "mine.csv", ROWS)),
            "target": "expt,calc",
            "out": str(folder / "run"),
        }
    )
    return inc.load(folder / "run")


# ---- its own data


def test_data_that_has_changed_since_has_no_parts_that_anybody_knows(one, tmp_path, capsys):
    path = Path(one.config.data)
    before = path.read_text()
    rows = before.splitlines()[1:]
    random.Random(0).shuffle(rows)
    try:
        written(path, rows, "smiles,expt")
        assert main(["evaluate", str(one.folder.path)]) == 2
        told = capsys.readouterr().err
        assert f"{path} has changed since training, or is read differently now" in told
        assert f"give --data {path}." in told
        with pytest.raises(IncidenceError, match="has changed since training"):
            one.evaluate()
        assert main(["evaluate", str(one.folder.path), "--data", str(path)]) == 0
        assert (
            capsys.readouterr().out.splitlines()[-1]
            == "mine defines no parts, so all of it is for testing."
        )
    finally:
        path.write_text(before)


def test_a_copy_of_the_data_of_a_run_has_the_parts_of_the_run(one, tmp_path, capsys):
    copy = tmp_path / "copy.csv"
    copy.write_text(Path(one.config.data).read_text())
    own = sizes(one.evaluate())
    assert set(own) == {"train", "validation", "test"}
    for what in (copy, str(copy), inc.data.load(copy), inc.data.load(copy, seed=5)):
        assert sizes(one.evaluate(what)) == own
    assert main(["evaluate", str(one.folder.path), "--data", str(copy)]) == 0
    assert (
        capsys.readouterr().out.splitlines()[-1]
        == "copy is the data of the run: the parts are those of training."
    )


def test_a_copy_has_the_parts_of_a_run_of_a_cross_validation(two, tmp_path):
    copy = written(tmp_path / "mine.csv", ROWS)
    out = str(tmp_path / "run")
    train(
        {
            **SMALL,
            "data": str(copy),
            "target": "expt",
            "cv": 4,
            "split": 2,
            "validation": 0.2,
            "out": out,
        }
    )
    own = inc.load(out).evaluate()
    (tmp_path / "elsewhere.csv").write_text(copy.read_text())
    found = inc.load(out).evaluate(tmp_path / "elsewhere.csv")
    assert sizes(found) == sizes(own) == {"train": 24, "validation": 6, "test": 10}
    assert torch.equal(found.parts["test"].target, own.parts["test"].target)


# ---- other data


def test_all_rows_of_other_data_are_one_part_by_every_door(one, tmp_path, capsys):
    rows = [f"{'C' * (1 + k % 9)}S,{k % 4}.5" for k in range(12)]
    new = written(tmp_path / "new.csv", rows, "smiles,expt")
    for what in (new, inc.data.load(new), inc.data.load(new, validation=0.5)):
        assert sizes(one.evaluate(what)) == {"test": 12}
    assert main(["evaluate", str(one.folder.path), "--data", str(new)]) == 0
    assert "test             12  rmse" in capsys.readouterr().out


def test_other_data_keeps_the_parts_that_it_tells(one, tmp_path, capsys):
    rows = [f"{'C' * (1 + k % 9)}S,{k % 4}.5,{'train' if k < 8 else 'test'}" for k in range(12)]
    new = written(tmp_path / "new.csv", rows, "smiles,expt,split")
    for what in (new, inc.data.load(new)):
        assert sizes(one.evaluate(what)) == {"train": 8, "test": 4}
    assert main(["evaluate", str(one.folder.path), "--data", str(new)]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "The parts are those that new defines."


# ---- targets


def test_the_target_of_the_model_is_taken_where_a_table_has_several_columns(one, two, tmp_path):
    new = written(
        tmp_path / "new.csv",
        ["CCS,1.5,9,0.5", "CCCS,2.5,8,7.5", "CS,3.5,7,3.5"],
        "smiles,expt,calc,other",
    )
    assert one.evaluate(new).parts["test"].target.flatten().tolist() == [1.5, 2.5, 3.5]
    assert two.evaluate(new).parts["test"].target.tolist() == [[1.5, 9], [2.5, 8], [3.5, 7]]


def test_classes_are_taken_from_the_column_of_the_model(tmp_path):
    rows = [
        f"{'C' * (1 + k % 7)}{'ON'[k % 2]},{'acid' if k % 2 else 'base'},{'ab'[k % 3 > 0]}"
        for k in range(30)
    ]
    data = written(tmp_path / "mine.csv", rows, "smiles,kind,lab")
    train({**SMALL, "data": str(data), "target": "kind", "out": str(tmp_path / "run")})
    new = written(tmp_path / "new.csv", rows[:6], "smiles,kind,lab")
    assert inc.load(tmp_path / "run").evaluate(new).parts["test"].target.tolist() == [
        1,
        0,
        1,
        0,
        1,
        0,
    ]


def test_targets_are_put_in_the_order_of_the_model(two, tmp_path, capsys):
    new = written(tmp_path / "new.csv", ["CCS,1.5,9", "CCCS,2.5,8", "CS,3.5,7"])
    expected = [[1.5, 9], [2.5, 8], [3.5, 7]]
    for what in (
        inc.data.load(new, target="calc,expt"),
        inc.data.load(new, target=["expt", "calc"]),
    ):
        assert two.evaluate(what).parts["test"].target.tolist() == expected
    assert two.evaluate(new, target="calc,expt").parts["test"].target.tolist() == expected
    assert main(["evaluate", str(two.folder.path), "--json"]) == 0
    own = capsys.readouterr().out
    assert main(["evaluate", str(two.folder.path), "--target", "calc,expt", "--json"]) == 0
    assert capsys.readouterr().out == own


def test_a_target_by_another_name_is_told_and_several_are_refused(one, two, tmp_path):
    new = written(
        tmp_path / "new.csv",
        ["CCS,1.5,9,0.5", "CCCS,2.5,8,7.5", "CS,3.5,7,3.5"],
        "smiles,expt,calc,other",
    )
    with pytest.warns(
        UserWarning, match="the model predicts `expt`, and is compared with `calc` of new"
    ):
        assert one.evaluate(inc.data.load(new, target="calc")).parts[
            "test"
        ].target.flatten().tolist() == [9, 8, 7]
    with pytest.warns(
        UserWarning, match="the model predicts `expt`, and is compared with `calc` of new"
    ):
        one.evaluate(new, target="calc")
    with pytest.raises(
        IncidenceError,
        match=(
            "the model predicts expt, calc, and new has calc, other: targets are matched by name"
        ),
    ):
        two.evaluate(new, target="calc,other")


def test_a_table_without_the_target_of_the_model_is_refused_unless_it_is_said(one, tmp_path):
    new = written(tmp_path / "new.csv", ["CCS,1.5", "CCCS,2.5", "CS,3.5"], "smiles,logS")
    with pytest.raises(
        IncidenceError,
        match=(
            r"has no column `expt`; it has: smiles, logS\. The model predicts expt: say with"
            r" `target`"
        ),
    ):
        one.evaluate(new)


def test_targets_without_names_are_taken_as_they_come(one, two, tmp_path):
    data = inc.data.load(
        written(tmp_path / "new.csv", ["CCS,1.5,9", "CCCS,2.5,8", "CS,3.5,7"]), target="expt,calc"
    )
    found = two.evaluate(list(data.examples))
    assert found.task.names == ("target 0", "target 1")
    assert found.parts["test"].target.tolist() == [[1.5, 9], [2.5, 8], [3.5, 7]]
