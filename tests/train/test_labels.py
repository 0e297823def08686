"""Several labels, yes or no each: they are learned as probabilities, measured one by one, and told
by name.
"""

from __future__ import annotations

import csv
from typing import Any

import pytest
import torch
from torchmetrics.functional import classification as peer

import incidence as inc
from incidence.cli import main
from incidence.data import DataSet, Task, load
from incidence.errors import IncidenceError
from incidence.train import Run, train
from incidence.train.metrics import average_precision, metrics_of, update
from incidence.train.report import finish
from incidence.train.report.example_gallery import badness, gallery
from tests.train.small_runs import as_scored, graphs

SMALL: dict[str, Any] = {
    "epochs": 2,
    "batch_size": 16,
    "hidden": 4,
    "depth": 1,
    "model": "i, {i j}",
}


def labelled(count: int = 60) -> list[inc.Example]:
    """Graphs with three labels: large, with a chord, and one that is often missing."""
    found = []
    for number, example in enumerate(graphs(count)):
        nodes, edges = example.structure.num_nodes, example.structure.num_entries("{i j}")
        labels = [
            float(nodes > 6),
            float(edges > nodes),
            float("nan") if number % 3 else float(nodes % 2),
        ]
        found.append(example.replace(target=torch.tensor(labels)))
    return found


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp("labels")
    inc.collate(labelled()).save(folder / "labels.npz")
    found = train(
        {
            **SMALL,
            "data": str(folder / "labels.npz"),
            "out": str(folder / "run"),
            "epochs": 12,
            "lr": 0.05,
            "batch_size": 8,
        }
    )
    assert found is not None
    finish(found)
    return found


# ---- what is read as labels


def test_numbers_that_are_zero_and_one_are_labels_if_there_are_several():
    data = load(labelled())
    assert (data.task, data.metric) == (
        Task("multilabel", ("label 0", "label 1", "label 2")),
        "auc",
    )
    assert load(labelled(), task="classification").task == data.task
    assert load(labelled(), task="regression").task.kind == "regression"
    whole = [example.replace(target=example.target.nan_to_num(-1).long()) for example in labelled()]
    assert torch.equal(load(whole).examples[1].target.isnan(), torch.tensor([False, False, True]))


def test_one_number_that_is_zero_or_one_is_a_class():
    halves = [
        example.replace(target=example.target[:1] if k else torch.tensor([torch.nan]))
        for k, example in enumerate(labelled())
    ]
    data = load(halves)
    assert data.task == Task("classification", ("class 0", "class 1"))
    assert int(data.examples[0].target) == -1


def test_labels_of_nodes_are_read_from_graphs_of_pyg():
    pyg = pytest.importorskip("torch_geometric.data")
    y = torch.tensor([[0.0, 1.0], [1.0, 1.0], [0.0, 0.0]])
    graph = pyg.Data(x=torch.ones(3, 2), edge_index=torch.tensor([[0, 1], [1, 2]]), y=y)
    assert load([graph, graph]).task == Task("multilabel", ("label 0", "label 1"), at="i")


def test_labels_that_are_no_labels_are_refused():
    data = load(labelled())
    examples = [*data.examples[:3], data.examples[3].replace(target=torch.tensor([0.0, 2.0, 1.0]))]
    wrong = DataSet("wrong", examples, data.task, (), "example")
    with pytest.raises(
        IncidenceError,
        match=r"example 3: the target is 2, and a label is 0 or 1. A value that is missing is NaN",
    ):
        load(wrong)


# ---- how they are measured


def test_metrics_of_labels_are_means_over_labels_of_what_others_compute():
    generator = torch.Generator().manual_seed(0)
    predicted, target = (
        torch.rand(50, 3, generator=generator).round(decimals=1),
        torch.rand(50, 3, generator=generator).round(),
    )
    target[::4, 1], target[:, 2] = torch.nan, 1.0  # the last label has no zeros
    task = Task("multilabel", ("a", "b", "c"))
    found = metrics_of(task)
    update(found, predicted[:20], target[:20], task)
    update(found, predicted[20:], target[20:], task)
    known = [~target[:, k].isnan() for k in range(3)]
    columns = [(predicted[own, k], target[own, k].long()) for k, own in enumerate(known)]
    values = found.compute()
    assert float(values["auc"]) == pytest.approx(
        sum(float(peer.binary_auroc(*column)) for column in columns[:2]) / 2
    )
    assert float(values["ap"]) == pytest.approx(
        sum(float(peer.binary_average_precision(*column)) for column in columns) / 3, rel=1e-6
    )
    right = sum(int(((y > 0.5) == t).sum()) for y, t in columns)
    assert float(values["accuracy"]) == pytest.approx(right / sum(len(t) for _, t in columns))


def test_average_precision_without_positives_is_no_number():
    assert average_precision(torch.rand(3), torch.zeros(3, dtype=torch.bool)).isnan()


def test_labels_are_learned_better_than_by_a_guess(run):
    scored = run.evaluation.parts["train"]
    assert scored.metrics["auc"] > 0.8
    assert scored.baseline["auc"] == 0.5
    assert scored.metrics["accuracy"] > scored.baseline["accuracy"]
    torch.testing.assert_close(
        scored.predicted, run.predictor.predict(inc.collate(run.experiment.parts.train))
    )
    assert 0 <= float(scored.predicted.min()) <= float(scored.predicted.max()) <= 1


def test_smoothed_labels_keep_scores_from_running_away(tmp_path):
    ends = []
    for smoothing in (0.0, 0.8):
        done = train(
            {
                **SMALL,
                "out": str(tmp_path / str(smoothing)),
                "epochs": 8,
                "lr": 0.2,
                "label_smoothing": smoothing,
            },
            load(labelled()),
        )
        ends.append(float((done.evaluation.parts["train"].predicted - 0.5).abs().max()))
    assert ends[1] < 0.45 < ends[0]  # the best scores with smoothing are 0.1 and 0.9


# ---- what is told of them


def test_every_label_is_told_alone(run):
    told = run.evaluation.metrics()["test"]["targets"]
    assert list(told) == ["label 0", "label 1", "label 2"]
    assert told["label 0"]["baseline"]["auc"] in (0.5, None)
    page = run.folder.report.read_text()
    assert "Each target alone, on the test part" in page
    assert '<details class="targets"' in page
    # none is cut where the page is narrow
    assert page.count("<table>") == page.count('<div class="scroll"><table>')
    assert 'class="roc"' in page
    assert "auc on the test part" in page


def test_several_numbers_are_told_one_by_one_too(tmp_path):
    numbers = [
        example.replace(target=torch.tensor([float(k), 10.0 * k]))
        for k, example in enumerate(graphs(30))
    ]
    done = train({**SMALL, "out": str(tmp_path / "run")}, load(numbers))
    scored = done.evaluation.parts["train"]
    alone = scored.by_target["target 1"]
    off = (scored.predicted - scored.target)[:, 1]
    assert alone.metrics["rmse"] == pytest.approx(float(off.square().mean().sqrt()), rel=1e-5)
    assert alone.baseline["rmse"] == pytest.approx(
        float(scored.target[:, 1].std(correction=0)), rel=1e-5
    )
    assert scored.by_target["target 0"].baseline["rmse"] == pytest.approx(
        alone.baseline["rmse"] / 10, rel=1e-5
    )


def test_predictions_of_labels_are_probabilities_by_name(run):
    with run.folder.predictions.open() as file:
        first = next(csv.DictReader(file))
    assert list(first)[-6:] == [
        *(f"target label {k}" for k in range(3)),
        *(f"p(label {k})" for k in range(3)),
    ]
    model = inc.load(run.folder.path)
    found = model.predict(labelled(3))
    assert found.csv().splitlines()[0] == "name,p(label 0),p(label 1),p(label 2)"
    with pytest.raises(
        IncidenceError,
        match=(
            r"predicts probabilities of labels \(label 0, label 1, label 2\): they are in `.values`"
        ),
    ):
        _ = found.classes
    assert "multilabel of label 0, label 1, label 2" in repr(model)


def test_data_with_other_labels_is_refused(run):
    model = inc.load(run.folder.path)
    with pytest.raises(
        IncidenceError,
        match=(
            "was trained for the labels label 0, label 1, label 2 for the whole structure, and the"
            " data has"
        ),
    ):
        model.evaluate(load([example.replace(target=example.target[:2]) for example in labelled()]))


def test_the_worst_labels_are_told_first():
    task = Task("multilabel", tuple("abcdef"))
    predicted = torch.tensor([[0.9, 0.2, 0.5, 0.6, 0.1, 0.1], [0.1, 0.2, 0.1, 0.6, 0.1, 0.1]])
    target = torch.tensor([[0.0, 0.0, torch.nan, 1.0, 1.0, 0.0], [0.0] * 6])
    scored = as_scored(predicted, target, {}, {}, [(0, 0), (1, 0)])
    assert badness(task, scored).tolist() == pytest.approx([2.5 / 5, 1.2 / 6])
    data = DataSet(
        "labels",
        [example.replace(target=row) for example, row in zip(graphs(2), target, strict=True)],
        task,
        (),
        "example",
    )
    [worst], _ = gallery(data, scored)
    assert (
        worst.caption
        == "e: is 1, predicted 10 %; a: is 0, predicted 90 %; d: is 1, predicted 60 %; b: is 0,"
        " predicted 20 %; and 1 more"
    )


# ---- as users have them


def test_a_table_with_several_yes_and_no_columns_becomes_a_model_by_the_command_line(
    tmp_path, capsys
):
    rows = [
        f"{'C' * (1 + k % 6)}{'ON'[k % 2]},{k % 2},{'' if k % 5 == 4 else int(k % 6 > 2)}"
        for k in range(40)
    ]
    (tmp_path / "tox.csv").write_text("\n".join(["smiles,NR-AR,SR-p53", *rows]) + "\n")
    out = tmp_path / "run"
    words = [
        "train",
        "--data",
        str(tmp_path / "tox.csv"),
        "--out",
        str(out),
        "--epochs",
        "1",
        "--hidden",
        "4",
        "--depth",
        "1",
    ]
    assert main([*words, "--task", "classification", "--metric", "ap"]) == 0
    told = capsys.readouterr().out
    assert "ap" in told.splitlines()[0]
    assert main(["predict", str(out), "CCO"]) == 0
    assert capsys.readouterr().out.splitlines()[0] == "name,smiles,p(NR-AR),p(SR-p53)"


def test_a_model_of_labels_is_exported(run, tmp_path):
    model = inc.load(run.folder.path)
    model.export(tmp_path / "labels.pt2")
    some = labelled(5)
    torch.testing.assert_close(
        inc.load(tmp_path / "labels.pt2").predict(some).values, model.predict(some).values
    )
