"""Runs on one structure, some of whose nodes have labels: which options they get, what they learn,
and metrics of two classes.
"""

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
from incidence.train.metrics import area_under_curve, hits_at
from incidence.train.recipes import agreement, transductive_recipe, with_metric
from incidence.train.report import finish
from tests.structure.listing import entries_of
from tests.structure.random_structures import random_structure


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
    return inc.Example(
        inc.Structure(count, {"{i j}": edges}),
        {"i": x, "{i j}": torch.ones(edges.shape[1], 1)},
        {"i": group},
    ).canonical()


def in_parts(example: inc.Example, train: int, validation: int = 0):
    order = torch.randperm(example.structure.num_nodes, generator=torch.Generator().manual_seed(1))
    split = Split(order[:train], order[train : train + validation], order[train + validation :])
    return inc.data.DataSet(**{**vars(load(example)), "splits": (split,)})


def test_options_follow_the_number_of_labels_and_the_parts():
    data = in_parts(two_groups(words=30), 10)
    few = transductive_recipe(data, data.split())
    assert (few["model"], few["scale"], few["optimizer"], "keep" in few) == (
        "diffusion",
        "rows",
        "adam",
        False,
    )
    data = in_parts(two_groups(words=30), 40, 5)
    many = transductive_recipe(data, data.split())
    assert (many["model"], many["keep"], "optimizer" in many) == ("nodes", "best", False)
    assert transductive_recipe(inc.data.load("solubility"), data.split()) == {}
    dense = in_parts(two_groups().replace(features={"i": torch.randn(60, 90)}), 10)
    assert transductive_recipe(dense, dense.split())["scale"] == "columns"


@pytest.mark.parametrize("text", ["{i j}", "{i ...}", "(i j)"])
def test_agreement_is_how_much_more_often_than_by_chance_joined_nodes_have_one_label(text):
    s = random_structure(40, [text], seed=0, draws=200)
    labels = torch.arange(40) % 3
    shown = torch.arange(40)[torch.arange(40) % 4 > 0]
    data = load(
        inc.Example(
            s, {"i": torch.ones(40, 1), text: torch.ones(s.num_entries(text), 1)}, {"i": labels}
        )
    )
    sets = [
        {node for face in entry for _, node in face} & set(shown.tolist())
        for entry in entries_of(s, text)
    ]
    pairs = [(int(labels[a]), int(labels[b])) for one in sets for a in one for b in one if a != b]
    same, shares = (
        sum(a == b for a, b in pairs) / len(pairs),
        [sum(a == k for a, _ in pairs) / len(pairs) for k in range(3)],
    )
    chance = sum(share**2 for share in shares)
    assert agreement(data, shown) == pytest.approx((same - chance) / (1 - chance))
    assert agreement(data, shown[:1]) is None  # it tells nothing


def test_agreement_is_of_classes_of_nodes_alone():
    ring = inc.Structure(
        300, {"{i j}": torch.stack([torch.arange(300), (torch.arange(300) + 1) % 300])}
    )
    x = {"i": torch.ones(300, 1), "{i j}": torch.ones(300, 1)}
    everything = torch.arange(300)
    assert agreement(
        load(inc.Example(ring, x, {"i": everything % 2})), everything
    ) == pytest.approx(-1)
    assert (
        agreement(
            load(
                inc.Example(ring, x, {"i": torch.zeros(300, dtype=torch.long)}),
                task="classification",
            ),
            everything,
        )
        == 1
    )
    assert agreement(load(inc.Example(ring, x, {"i": torch.rand(300)})), everything) is None
    assert agreement(load(inc.Example(ring, x, {"{i j}": everything % 2})), everything) is None
    assert (
        agreement(
            load(inc.Example(inc.Structure(300), {"i": x["i"]}, {"i": everything % 2})), everything
        )
        is None
    )


def bipartite(words: int) -> inc.Example:
    """Neighbours are never alike."""
    pairs = torch.cartesian_prod(torch.arange(0, 60, 2), torch.arange(1, 60, 2)).T[:, ::3]
    x = {"i": torch.ones(60, words), "{i j}": torch.ones(pairs.shape[1], 1)}
    return inc.Example(inc.Structure(60, {"{i j}": pairs}), x, {"i": torch.arange(60) % 2})


def test_where_neighbours_are_not_alike_what_they_mean_is_learned():
    data = in_parts(bipartite(words=90), 40)
    found = transductive_recipe(data, data.split())
    assert (found["model"], found["dropout"], found["scale"], "through" in found) == (
        "nodes",
        0.5,
        "columns",
        False,
    )
    data = in_parts(bipartite(words=9), 40)
    assert "dropout" not in transductive_recipe(data, data.split())


@pytest.mark.parametrize(
    ("text", "is_hidden"),
    [("{i j}", False), ("(i j)", True), ("<i j>", True), ("{i ...}", False)],
)
def test_what_joins_nodes_is_hidden_if_it_has_an_order_or_differs(text, is_hidden):
    s = random_structure(40, [text], seed=0, draws=200)
    for x, wanted in (
        (torch.ones(s.num_entries(text), 1), is_hidden),
        (torch.arange(s.num_entries(text)).float()[:, None], True),
    ):
        data = in_parts(
            inc.Example(s, {"i": torch.ones(40, 2), text: x}, {"i": torch.arange(40) % 2}), 20
        )
        found = transductive_recipe(data, data.split())
        assert found.get("through") == (f"i, {text}" if wanted else None)


def test_labels_of_a_few_nodes_are_carried_to_the_others(tmp_path):
    """Twelve labels, and words that say something about every fifth node only."""
    data = in_parts(two_groups(words=20), 12)
    run = train({"out": str(tmp_path / "run"), "epochs": 60}, data)
    assert run.experiment.config.model == "diffusion"
    assert run.evaluation.parts["test"].metrics["accuracy"] > 0.85
    assert run.evaluation.parts["test"].metrics["auc"] > 0.9
    finish(run)
    assert ">i, {i j} -&gt; i, {i j}</td>" in run.folder.report.read_text()
    alone = train({"out": str(tmp_path / "alone"), "epochs": 60, "hops": 0}, data)
    assert alone.evaluation.parts["test"].metrics["accuracy"] < 0.75


def test_with_a_validation_part_the_best_epoch_is_kept(tmp_path):
    data = in_parts(two_groups(), 30, 10)
    run = train(
        {
            "out": str(tmp_path / "run"),
            "epochs": 6,
            "patience": 3,
            "hidden": 8,
            "depth": 1,
            "metric": "auc",
        },
        data,
    )
    assert (
        run.experiment.config.model,
        run.experiment.config.keep,
        run.experiment.data.metric,
    ) == (
        "nodes",
        "best",
        "auc",
    )
    best = max(row["validation_auc"] for row in run.history)
    assert run.evaluation.parts["validation"].metrics["auc"] == pytest.approx(best)


def test_a_metric_that_the_task_has_not_is_refused():
    with pytest.raises(
        IncidenceError, match="the metrics of 'solubility' are mae, rmse; got 'auc'"
    ):
        with_metric(inc.data.load("solubility"), "auc")


def test_nodes_without_a_label_are_predicted_by_name(tmp_path, capsys):
    (tmp_path / "edges.csv").write_text(
        "source,target\n" + "".join(f"n{k},n{(k + 2) % 20}\n" for k in range(20))
    )
    rows = "".join(
        f"n{k},{k % 7},{'' if k > 15 else 'odd' if k % 2 else 'even'}\n" for k in range(20)
    )
    (tmp_path / "nodes.csv").write_text("id,size,kind\n" + rows)
    edges, nodes, out = (str(tmp_path / name) for name in ("edges.csv", "nodes.csv", "run"))
    small = ["--epochs", "2", "--hidden", "4", "--depth", "1"]
    assert (
        main(["train", "--data", edges, "--nodes", nodes, "--target", "kind", "--out", out, *small])
        == 0
    )
    assert "edges: test accuracy" in capsys.readouterr().out
    found = list(csv.DictReader((tmp_path / "run" / "predictions.csv").read_text().splitlines()))
    assert sorted(row["name"] for row in found) == sorted(f"n{k}" for k in range(20))
    assert {row["name"] for row in found if row["part"] == "other"} == {
        f"n{k}" for k in range(16, 20)
    }
    assert all(
        row["target"] == "" and row["predicted"] in ("odd", "even")
        for row in found
        if row["part"] == "other"
    )


@pytest.mark.parametrize("seed", range(3))
def test_the_area_under_the_curve_counts_pairs(seed):
    generator = torch.Generator().manual_seed(seed)
    scores = torch.randint(6, (20,), generator=generator).float()
    labels = torch.rand(20, generator=generator) < 0.4
    pairs = [
        (p > n) + (p == n) / 2 for p in scores[labels].tolist() for n in scores[~labels].tolist()
    ]
    assert float(area_under_curve(scores, labels)) == pytest.approx(sum(pairs) / len(pairs))


def test_ranking_metrics_of_one_class_only():
    scores = torch.tensor([0.2, 0.9])
    assert math.isnan(float(area_under_curve(scores, torch.tensor([True, True]))))
    assert math.isnan(float(hits_at(1, scores, torch.tensor([False, False]))))
    assert float(hits_at(5, scores, torch.tensor([True, False]))) == 1.0
    assert float(hits_at(1, torch.tensor([0.5, 0.5]), torch.tensor([True, False]))) == 0.0


def test_one_graph_trains_in_batches_of_nodes_with_their_neighbours_and_the_same_again(tmp_path):
    data = in_parts(two_groups(words=20), 18)  # fewer labels than words: diffusion over two steps
    run = train(
        {
            "out": str(tmp_path / "run"),
            "epochs": 20,
            "batch_size": 6,
            "neighbours": "5,5",
            "hidden": 16,
        },
        data,
    )
    assert run.evaluation.parts["test"].metrics["accuracy"] > 0.8
    batches = run.experiment.batches
    assert len(batches) == 18
    # a seed says what is drawn
    assert batches[7, [0, 3]] == batches[7, [0, 3]] != batches[8, [0, 3]]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"neighbours": "10;10"},
            "neighbours are given for every step, as in `neighbours='10,10'`, .*; got '10;10'",
        ),
        ({"neighbours": "-1,5"}, "neighbours are given for every step"),
        (
            {"neighbours": "5,5", "model": "relational"},
            "this one has some: add `operations='local'`",
        ),
        (
            {"neighbours": "5,5", "batch_size": 5, "devices": 50},
            "30 nodes cannot be shared by 50 processes",
        ),
    ],
)
def test_neighbours_that_cannot_be_drawn_are_answered(options, message, tmp_path):
    with pytest.raises(IncidenceError, match=message):
        train(
            {"out": str(tmp_path / "run"), "epochs": 1, **options}, in_parts(two_groups(), 30, 10)
        )


def test_neighbours_are_for_nodes_of_one_structure(tmp_path):
    with pytest.raises(
        IncidenceError,
        match=(
            r"`neighbours` is for one structure whose nodes have targets; the data has \d+ examples"
        ),
    ):
        train({"out": str(tmp_path / "run"), "epochs": 1, "neighbours": "5,5"})
    whole = two_groups()
    edges = whole.replace(
        target={"{i j}": torch.zeros(whole.structure.num_entries("{i j}"), dtype=torch.long) % 2}
    )
    split = Split(torch.arange(10), torch.arange(0), torch.arange(10, 20))
    data = inc.data.DataSet(
        "x",
        [edges],
        inc.data.Task("classification", ("a", "b"), "{i j}"),
        (split,),
        "graph",
        is_transductive=True,
    )
    with pytest.raises(IncidenceError, match=r"the data has targets of `\{i j\}`: leave it out"):
        train(
            {"out": str(tmp_path / "run"), "epochs": 1, "neighbours": "5,5", "operations": "local"},
            data,
        )
