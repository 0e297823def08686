"""The surfaces and their tasks: classes of types, and networks that are trained once."""

import json

import pytest
import torch

from benchmarks.surfaces import (
    MODELS,
    REFINED,
    TASKS,
    Surfaces,
    balanced_accuracy,
    main,
    scores,
    table,
)
from incidence.data.surfaces import TYPES
from tests.data_folder import data_folder


def test_classes_of_types_are_their_topology():
    known = dict(
        zip(TYPES, zip(*(TASKS[task].tolist() for task in TASKS), strict=True), strict=True)
    )
    assert known["S^2"] == (0, 1, 0)
    assert known["T^2"] == (1, 1, 2)
    assert known["RP^2"] == (4, 0, 0)
    assert known["Klein bottle"] == (5, 0, 1)
    assert known["#^7 RP^2"] == (10, 0, 6)


def test_the_balanced_accuracy_counts_every_class_alike():
    target = torch.tensor([0] * 9 + [1])
    assert balanced_accuracy(torch.zeros(10), target) == 0.5
    assert balanced_accuracy(target, target) == 1.0


class Guess:
    """A predictor that always says class 0."""

    def eval(self):
        return self

    def predict(self, batch):
        return torch.eye(2)[torch.zeros(batch.structure.num_structures, dtype=torch.long)]


@pytest.fixture
def small(monkeypatch):
    monkeypatch.setattr("benchmarks.surfaces.MODELS", {"topology": MODELS["topology"]})
    monkeypatch.setattr("benchmarks.surfaces.REFINED", {})


def test_a_finished_training_is_not_repeated(small, tmp_path, capsys):
    words = ["orientable", "--epochs", "1", "--out", str(tmp_path)]
    [line] = main(words, max_vertices=6)
    assert line["network"] == "topology"
    assert {"accuracy", "balanced"} == set(line["test"])
    (tmp_path / "orientable-topology-0" / "seconds.json").write_text("12.3", encoding="utf-8")
    [again] = main(words, max_vertices=6)
    assert again == {**line, "cpu_seconds": 12}
    assert [json.loads(row) for row in capsys.readouterr().out.splitlines()][-1] == again


def test_an_interrupted_training_goes_on_with_the_same_surfaces(small, tmp_path, monkeypatch):
    monkeypatch.delenv("INCIDENCE_DATA", raising=False)
    words = ["b1", "--epochs", "1", "--networks", "topology", "--out", str(tmp_path)]
    [line] = main(words, max_vertices=6)
    (tmp_path / "b1-topology-0" / "seconds.json").unlink()
    [again] = main(words, max_vertices=6)
    assert again["test"] == line["test"]


@pytest.mark.slow
def test_refined_surfaces_are_500_of_the_test_part_and_have_their_types():
    surfaces = Surfaces(data_folder("surfaces").parent)
    types = None
    for name in REFINED:
        examples = surfaces.refined(name)
        own = torch.cat([one.target.view(1) for one in examples])
        types = own if types is None else types
        assert torch.equal(own, types)
        assert len(own) == 500
        assert min(one.structure.num_nodes for one in examples) > 9
        share = 100 * float((own >= 4).double().mean())
        guessed = scores(Guess(), surfaces.batches(name), "orientable")
        assert guessed["accuracy"] == pytest.approx(share)


def test_an_epoch_may_have_as_many_surfaces_of_every_type():
    surfaces = Surfaces(None, max_vertices=7)
    whole, even = surfaces.for_task("type"), surfaces.for_task("type", each=5)
    types = torch.tensor([int(one.target) for one in whole.examples])
    train = even.split(0).train
    assert torch.bincount(types[train]).tolist() == [5, 5, 0, 0, 5]
    assert set(train.tolist()) <= set(whole.split(0).train.tolist())
    assert torch.equal(even.split(0).test, whole.split(0).test)
    other = surfaces.for_task("type", each=5, seed=1)
    assert not torch.equal(other.split(0).train, train)


def test_the_table_has_the_worst_seed():
    def line(seed, accuracy):
        score = {"accuracy": accuracy, "balanced": accuracy - 10}
        return {"network": "GIN-like", "task": "b1", "seed": seed, "test": score}

    rows = table([line(0, 99.97), line(1, 92.0), line(2, 100.0)]).splitlines()
    assert rows[2].startswith("| b1 | `graph` | 3 | 92.0 (82.0) | - |")
    assert "| 99.97 (90.0) |" in table([line(0, 99.97)])
    assert "| 100 (90.0) |" in table([line(0, 100.0)])
