"""Runs on one structure, some of whose nodes have labels: which options they get, what they learn, and metrics of two classes."""

from __future__ import annotations

import csv
import math

import pytest
import torch

import incidence as inc
from incidence.cli import main
from incidence.data import Split, load
from incidence.errors import IncidenceError
from incidence.train import train
from incidence.train.ranking import area_under_curve, hits_at
from incidence.train.recipes import recipe_within, with_metric
from incidence.train.report import tell


def two_groups(count: int = 60, words: int = 4, seed: int = 0) -> inc.Example:
    """Two groups of nodes with many edges inside and few between; words tell the group of some."""
    generator = torch.Generator().manual_seed(seed)
    group = torch.arange(count) % 2
    pairs = torch.combinations(torch.arange(count)).T
    chance = torch.where(group[pairs[0]] == group[pairs[1]], 0.2, 0.01)
    edges = pairs[:, torch.rand(pairs.shape[1], generator=generator) < chance]
    x = torch.zeros(count, words)
    x[torch.arange(count), torch.randint(words, (count,), generator=generator)] = 1
    x[::5] = torch.nn.functional.one_hot(group[::5], words).float()
    return inc.Example(inc.Structure(count, {"{i j}": edges}), {"i": x, "{i j}": torch.ones(edges.shape[1], 1)}, {"i": group}).canonical()


def in_parts(example: inc.Example, train: int, validation: int = 0):
    order = torch.randperm(example.structure.num_nodes, generator=torch.Generator().manual_seed(1))
    split = Split(order[:train], order[train : train + validation], order[train + validation :])
    return inc.data.DataSet(**{**vars(load(example)), "splits": (split,)})


def test_options_follow_the_number_of_labels_and_the_parts():
    data = in_parts(two_groups(words=30), 10)
    few = recipe_within(data, data.split())
    assert (few["model"], few["scale"], few["optimizer"], "keep" in few) == ("diffusion", "rows", "adam", False)
    data = in_parts(two_groups(words=30), 40, 5)
    many = recipe_within(data, data.split())
    assert (many["model"], many["keep"], "optimizer" in many) == ("nodes", "best", False)
    assert recipe_within(inc.data.load("solubility"), data.split()) == {}
    dense = in_parts(two_groups().replace(features={"i": torch.randn(60, 90)}), 10)
    assert recipe_within(dense, dense.split())["scale"] == "columns"


def test_labels_of_a_few_nodes_are_carried_to_the_others(tmp_path):
    """Twelve labels, and words that say something about every fifth node only."""
    data = in_parts(two_groups(words=20), 12)
    run = train({"out": str(tmp_path / "run"), "epochs": 60}, data)
    assert run.prepared.config.model == "diffusion"
    assert run.evaluation.parts["test"].metrics["accuracy"] > 0.85
    assert run.evaluation.parts["test"].metrics["auc"] > 0.9
    tell(run)
    assert ">i, {i j} -&gt; i, {i j}</td>" in run.folder.report.read_text()
    alone = train({"out": str(tmp_path / "alone"), "epochs": 60, "hops": 0}, data)
    assert alone.evaluation.parts["test"].metrics["accuracy"] < 0.75


def test_with_a_validation_part_the_best_epoch_is_kept(tmp_path):
    data = in_parts(two_groups(), 30, 10)
    run = train({"out": str(tmp_path / "run"), "epochs": 6, "patience": 3, "hidden": 8, "depth": 1, "metric": "auc"}, data)
    assert (run.prepared.config.model, run.prepared.config.keep, run.prepared.data.metric) == ("nodes", "best", "auc")
    best = max(row["validation_auc"] for row in run.history)
    assert run.evaluation.parts["validation"].metrics["auc"] == pytest.approx(best)


def test_a_metric_that_the_task_has_not_is_refused():
    with pytest.raises(IncidenceError, match="the metrics of 'solubility' are mae, rmse; got 'auc'"):
        with_metric(inc.data.load("solubility"), "auc")


def test_nodes_without_a_label_are_predicted_by_name(tmp_path, capsys):
    (tmp_path / "edges.csv").write_text("source,target\n" + "".join(f"n{k},n{(k + 2) % 20}\n" for k in range(20)))
    rows = "".join(f"n{k},{k % 7},{'' if k > 15 else 'odd' if k % 2 else 'even'}\n" for k in range(20))
    (tmp_path / "nodes.csv").write_text("id,size,kind\n" + rows)
    edges, nodes, out = (str(tmp_path / name) for name in ("edges.csv", "nodes.csv", "run"))
    small = ["--epochs", "2", "--hidden", "4", "--depth", "1"]
    assert main(["train", "--data", edges, "--nodes", nodes, "--target", "kind", "--out", out, *small]) == 0
    assert "edges: test accuracy" in capsys.readouterr().out
    found = list(csv.DictReader((tmp_path / "run" / "predictions.csv").read_text().splitlines()))
    assert sorted(row["name"] for row in found) == sorted(f"n{k}" for k in range(20))
    assert {row["name"] for row in found if row["part"] == "other"} == {f"n{k}" for k in range(16, 20)}
    assert all(row["target"] == "" and row["predicted"] in ("odd", "even") for row in found if row["part"] == "other")


@pytest.mark.parametrize("seed", range(3))
def test_the_area_under_the_curve_counts_pairs(seed):
    generator = torch.Generator().manual_seed(seed)
    scores = torch.randint(6, (20,), generator=generator).float()
    labels = torch.rand(20, generator=generator) < 0.4
    pairs = [(p > n) + (p == n) / 2 for p in scores[labels].tolist() for n in scores[~labels].tolist()]
    assert float(area_under_curve(scores, labels)) == pytest.approx(sum(pairs) / len(pairs))


def test_ranking_metrics_of_one_class_only():
    scores = torch.tensor([0.2, 0.9])
    assert math.isnan(float(area_under_curve(scores, torch.tensor([True, True]))))
    assert math.isnan(float(hits_at(scores, torch.tensor([False, False]), 1)))
    assert float(hits_at(scores, torch.tensor([True, False]), 5)) == 1.0
    assert float(hits_at(torch.tensor([0.5, 0.5]), torch.tensor([True, False]), 1)) == 0.0


def test_one_graph_trains_in_batches_of_nodes_with_their_neighbours_and_the_same_again(tmp_path):
    data = in_parts(two_groups(words=20), 18)  # fewer labels than words: diffusion over two steps
    run = train({"out": str(tmp_path / "run"), "epochs": 20, "batch_size": 6, "neighbours": "5,5", "hidden": 16}, data)
    assert run.evaluation.parts["test"].metrics["accuracy"] > 0.8
    batches = run.prepared.batches
    assert len(batches) == 18
    assert batches[7, [0, 3]] == batches[7, [0, 3]] != batches[8, [0, 3]]  # a seed says what is drawn


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"neighbours": "10;10"}, "neighbours are told for every step, as in --neighbours 10,10, or all,all; got '10;10'"),
        ({"neighbours": "-1,5"}, "neighbours are told for every step"),
        ({"neighbours": "5,5", "model": "relational"}, "this one looks at all: add --operations local"),
        ({"neighbours": "5,5", "batch_size": 5, "devices": 50}, "30 nodes cannot be shared by 50 processes"),
    ],
)
def test_neighbours_that_cannot_be_drawn_are_answered(options, message, tmp_path):
    with pytest.raises(IncidenceError, match=message):
        train({"out": str(tmp_path / "run"), "epochs": 1, **options}, in_parts(two_groups(), 30, 10))


def test_neighbours_are_for_nodes_of_one_structure(tmp_path):
    with pytest.raises(IncidenceError, match=r"--neighbours is for one structure whose nodes have targets; the data has \d+ examples"):
        train({"out": str(tmp_path / "run"), "epochs": 1, "neighbours": "5,5"})
    whole = two_groups()
    edges = whole.replace(target={"{i j}": torch.zeros(whole.structure.num_entries("{i j}"), dtype=torch.long) % 2})
    split = Split(torch.arange(10), torch.arange(0), torch.arange(10, 20))
    data = inc.data.DataSet("x", [edges], inc.data.Task("classification", ("a", "b"), "{i j}"), (split,), "graph", is_transductive=True)
    with pytest.raises(IncidenceError, match=r"the data has targets of `\{i j\}`: leave it out"):
        train({"out": str(tmp_path / "run"), "epochs": 1, "neighbours": "5,5", "operations": "local"}, data)
