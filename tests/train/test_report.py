"""The page of a run: what it says, that it needs nothing from elsewhere, and that nothing from data
becomes markup.
"""

from __future__ import annotations

import math
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
import torch

import incidence as inc
from incidence.data import DataSet, Split, Task
from incidence.train import Run, train
from incidence.train.evaluation import Score, Scored
from incidence.train.report import finish, summary
from incidence.train.report.example_gallery import badness, gallery
from incidence.train.report.page import (
    _duration,
    _name_of_new,
    figures_of,
    headline,
    page_text,
    themed,
)
from tests.train.small_runs import as_scored, graphs

EVIL = "<script>alert(1)</script>"
QUOTE = '" onload="alert(2)'
SMALL: dict[str, Any] = {
    "epochs": 2,
    "batch_size": 16,
    "hidden": 4,
    "depth": 1,
    "model": "i, {i j}",
}


def evil_data() -> DataSet:
    """Classes, names and words about data that would be markup."""
    found = graphs(24, is_classes=True)
    split = Split(torch.arange(12), torch.arange(12, 16), torch.arange(16, 24))
    task = Task("classification", (EVIL, f"{QUOTE}&amp;"))
    names = [f"{EVIL}{QUOTE}{k}" for k in range(24)]
    return DataSet(
        f"data {EVIL}",
        found,
        task,
        (split,),
        "example",
        about=f"about {EVIL}{QUOTE}",
        metric="accuracy",
        names=names,
    )


@pytest.fixture(scope="module")
def evil(tmp_path_factory: pytest.TempPathFactory) -> Run:
    run = train({**SMALL, "out": str(tmp_path_factory.mktemp("evil") / "run")}, evil_data())
    assert run is not None
    finish(run)
    return run


class _Elements(HTMLParser):
    """The elements of a page, with their attributes, and its text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def test_nothing_from_data_becomes_markup(evil):
    text = evil.folder.report.read_text()
    elements = _Elements(text)
    assert [
        tag
        for tag, _ in elements.found
        if tag in ("script", "iframe", "object", "embed", "link", "form")
    ] == []
    assert [a for _, own in elements.found for a in own if a.startswith("on")] == []
    told = " ".join(elements.texts)
    assert f"about {EVIL}{QUOTE}" in told
    assert f"data {EVIL}" in told
    assert any(f"{EVIL}{QUOTE}{k}" in told for k in range(16, 24))


def test_a_page_asks_for_nothing_from_elsewhere(evil):
    text = evil.folder.report.read_text()
    for _, own in _Elements(text).found:
        for name, value in own.items():
            if name in ("src", "href", "xlink:href", "data", "action", "srcset"):
                assert (value or "").startswith(("#", "data:"))
    assert "@import" not in text
    assert re.findall(r"url\((?!#)", text) == []
    assert "default-src 'none'" in text


def test_a_page_has_the_number_with_its_baseline_date_command_time_and_parameters(evil):
    value, what, meaning = headline(evil)
    told = " ".join(_Elements(evil.folder.report.read_text()).texts)
    scored = evil.evaluation.parts["test"]
    assert value == f"{100 * scored.metrics['accuracy']:.1f} %"
    assert what == "accuracy on the test part"
    right = round(8 * scored.metrics["accuracy"])
    assert meaning.startswith("On 8 examples of the test part, against ")
    assert meaning.endswith(f"for the most frequent class. {right} of them are right.")
    count = sum(p.numel() for p in evil.predictor.parameters())
    for word in (
        value,
        what,
        meaning,
        f"{count:,} parameters",
        "2 epochs, ",
        "command",
        "train 12, validation 4, test 8",
    ):
        assert word in told
    assert re.search(
        r"\d+ (January|February|March|April|May|June|July|August|September|October|November"
        r"|December) \d{4}, \d\d:\d\d",
        told,
    )


def test_a_page_says_which_operations_every_layer_has(evil):
    told = " ".join(_Elements(evil.folder.report.read_text()).texts)
    assert "2 self, 2 boundary, 1 adjacency, 4 global" in told
    assert "The 9 operations of i, {i j} -> i, {i j}" in told
    assert "y[{i j}] = x[{i j}]" in told
    assert "9 of 9" in told


def test_pictures_take_the_colours_of_the_screen(evil):
    text = evil.folder.report.read_text()
    assert "prefers-color-scheme: dark" in text
    body = text.partition("</style></head>")[2]
    assert "#000000" not in body
    assert "var(--ink)" in body
    assert (
        themed('<path fill="#1c2430" stroke="#0072b2"/>')
        == '<path fill="var(--ink)" stroke="var(--c0)"/>'
    )


def test_numbers_are_told_with_their_unit_and_how_much_less_the_error_is(evil):
    scored = as_scored(
        torch.zeros(4, 1),
        torch.zeros(4, 1),
        {"rmse": 0.5},
        {"rmse": 2.0},
        [(k, 0) for k in range(4)],
    )
    data = replace(evil.experiment.data, task=Task("regression", ("y",), unit="eV"), metric="rmse")
    run = replace(
        evil,
        experiment=replace(evil.experiment, data=data),
        evaluation=replace(evil.evaluation, data=data, parts={"test": scored}),
    )
    assert headline(run) == (
        "0.5 eV",
        "rmse on the test part",
        (
            "A prediction is off by about 0.5 eV on 4 examples of the test part, against 2 eV for"
            " the mean of the training data: 75 % less."
        ),
    )


def with_scores(run: Run, task: Task, metric: str, **parts: Scored) -> Run:
    data = replace(run.experiment.data, task=task, metric=metric)
    return replace(
        run,
        experiment=replace(run.experiment, data=data),
        evaluation=replace(run.evaluation, data=data, parts=parts),
    )


def test_a_model_that_is_worse_than_the_baseline_says_so(evil):
    scored = as_scored(
        torch.zeros(4, 1),
        torch.zeros(4, 1),
        {"rmse": 3.0},
        {"rmse": 2.0},
        [(k, 0) for k in range(4)],
    )
    run = with_scores(evil, Task("regression", ("y",)), "rmse", test=scored)
    assert headline(run)[2].endswith(
        "against 2 for the mean of the training data. That is worse than the baseline."
    )
    assert summary(run).splitlines()[1] == "That is worse than the baseline."
    accuracy = replace(scored, score=Score({"accuracy": 0.4}, {"accuracy": 0.4}))
    assert (
        with_scores(
            evil, Task("classification", ("a", "b")), "accuracy", test=accuracy
        ).evaluation.cautions()
        == []
    )


@pytest.mark.parametrize(
    ("part", "seen"),
    [("train", "the model was trained on"), ("validation", "may have chosen the model")],
)
def test_a_run_without_a_test_part_says_so(evil, part, seen):
    scored = as_scored(
        torch.zeros(4, 1),
        torch.zeros(4, 1),
        {"rmse": 0.5},
        {"rmse": 2.0},
        [(k, 0) for k in range(4)],
    )
    run = with_scores(evil, Task("regression", ("y",)), "rmse", **{part: scored})
    told = f"There is no test part: these rows {seen}, and new rows may be predicted worse."
    assert headline(run)[2].endswith(f" {told}")
    assert told in summary(run)
    assert told in run.evaluation.scores()


def test_numbers_on_scales_of_their_own_are_told_one_by_one(evil):
    of_targets = {"gap": ({"rmse": 0.5}, {"rmse": 1.0}), "mass": ({"rmse": 300.0}, {"rmse": 200.0})}
    scored = as_scored(
        torch.zeros(4, 2),
        torch.zeros(4, 2),
        {"rmse": 212.0},
        {"rmse": 141.0},
        [(k, 0) for k in range(4)],
        of_targets,
    )
    run = with_scores(evil, Task("regression", ("gap", "mass")), "rmse", test=scored)
    value, what, meaning = headline(run)
    assert (value, what) == (
        "100 %",
        "of the rmse of the baseline on the test part, the mean over 2 targets",
    )
    each = "gap 0.5, against 1; mass 300, against 200 for the mean of the training data"
    assert meaning == f"On 4 rows, rmse of {each}. Worse than the baseline: mass."
    assert run.evaluation.line().endswith(f"test rmse {each}")
    many = replace(scored, by_target={f"t{k}": scored.by_target["gap"] for k in range(7)})
    assert (
        with_scores(
            evil, Task("regression", ("gap", "mass")), "rmse", test=many
        ).evaluation.each_target()[-1]
        == "and 3 more"
    )


def test_a_part_with_one_class_has_no_roc_curve_and_says_why(evil):
    target, y = torch.zeros(4, dtype=torch.long), torch.full((4, 2), 0.5)
    scored = as_scored(
        y,
        target,
        {"accuracy": 1.0, "auc": math.nan},
        {"accuracy": 1.0, "auc": math.nan},
        [(k, 0) for k in range(4)],
    )
    run = with_scores(evil, Task("classification", ("a", "b")), "accuracy", test=scored)
    assert list(figures_of(run)) == ["curves", "confusion"]
    assert run.evaluation.notes() == [
        "The test part has one class only, a: no AUC and no ROC curve."
    ]
    assert "nan" not in " ".join(_Elements(page_text(run, figures_of(run))).texts)
    of_targets = {"x": ({"auc": math.nan}, {"auc": 0.5}), "y": ({"auc": 0.75}, {"auc": 0.5})}
    labels = torch.tensor([[0.0, 0], [0, 1], [0, 1], [0, 0]])
    some = as_scored(y, labels, {"auc": 0.75}, {"auc": 0.5}, scored.places, of_targets)
    run = with_scores(evil, Task("multilabel", ("x", "y")), "auc", test=some)
    assert [
        text.get_text() for text in figures_of(run)["roc"].axes[0].get_legend().get_texts()
    ] == ["y (75.0 %)"]
    assert run.evaluation.notes() == [
        "The test part has one value only of x: no AUC and no ROC curve."
    ]


@pytest.mark.parametrize(
    ("count", "areas"),
    [(3, "the area under each curve is in brackets"), (14, "is its AUC in the table above")],
)
def test_areas_stand_in_brackets_only_where_there_is_a_legend(evil, count, areas):
    names = tuple(f"l{k}" for k in range(count))
    of_targets = dict.fromkeys(names, ({"auc": 0.5}, {"auc": 0.5}))
    labels = torch.tensor([[0.0], [1.0]]).expand(2, count)
    scored = as_scored(
        torch.rand(2, count), labels, {"auc": 0.5}, {"auc": 0.5}, [(0, 0), (1, 0)], of_targets
    )
    run = with_scores(evil, Task("multilabel", names), "auc", test=scored)
    assert areas in page_text(run, figures_of(run))


def test_a_title_says_what_the_classes_are_of(evil):
    data = replace(
        evil.experiment.data, task=replace(evil.experiment.data.task, target="club"), name="edges"
    )
    run = replace(evil, experiment=replace(evil.experiment, data=data))
    assert "<title>edges: club (2 classes)</title>" in page_text(run, {})


def test_learning_curves_are_figures_of_their_own(evil):
    text = evil.folder.report.read_text()
    assert text.count('<figure class="loss">') == text.count('<figure class="metrics">') == 1


@pytest.mark.parametrize(
    ("seconds", "told"), [(0.25, "0.2 s"), (59, "59.0 s"), (61, "1 min 1 s"), (7300, "2 h 1 min")]
)
def test_times_are_told_in_words(seconds, told):
    assert _duration(seconds) == told


# ---- the worst and the best


def test_the_worst_and_the_best_are_those_with_the_largest_and_smallest_errors():
    data = inc.data.load(graphs(20))
    target = torch.stack([e.target for e in data.examples])
    predicted = target + torch.arange(20.0)[:, None] * torch.tensor([[1.0], [-1.0]]).repeat(10, 1)
    scored = as_scored(predicted, target, {}, {}, [(k, 0) for k in range(20)])
    worst, best = gallery(data, scored)
    assert [card.name for card in worst] == [f"example {k}" for k in (19, 18, 17, 16)]
    assert [card.name for card in best] == [f"example {k}" for k in (0, 1, 2, 3)]
    assert all(card.picture.startswith("<svg") for card in (*worst, *best))
    assert (
        worst[0].caption
        == f"measured {float(target[19]):.3g}, predicted {float(predicted[19]):.3g}"
    )


def test_classes_are_worst_where_the_true_one_has_the_least_probability():
    scored = as_scored(
        torch.tensor([[0.9, 0.1], [0.2, 0.8], [0.5, 0.5]]),
        torch.tensor([1, 1, -1]),
        {},
        {},
        [(0, 0), (1, 0), (2, 0)],
    )
    found = badness(Task("classification", ("a", "b")), scored)
    assert found[:2].tolist() == pytest.approx([0.9, 0.2])
    assert found[2].isnan()
    data = inc.data.load(graphs(3, is_classes=True))
    worst, best = gallery(replace(data, task=Task("classification", ("a", "b"))), scored)
    assert [(card.name, card.caption) for card in worst] == [
        ("example 0", "is b, predicted a (90 %)")
    ]
    assert [card.name for card in best] == ["example 1"]


def test_the_best_of_classes_are_right_where_any_are():
    data = replace(
        inc.data.load(graphs(6, is_classes=True)), task=Task("classification", ("a", "b", "c"))
    )
    predicted = torch.tensor(
        [
            [0.4, 0.3, 0.3],
            [0.45, 0.46, 0.09],
            [0.0, 0.9, 0.1],
            [0.0, 0.9, 0.1],
            [0.1, 0.8, 0.1],
            [0.1, 0.8, 0.1],
        ]
    )
    scored = as_scored(
        predicted, torch.zeros(6, dtype=torch.long), {}, {}, [(k, 0) for k in range(6)]
    )
    worst, best = gallery(data, scored)
    # example 1 has a higher probability, and is wrong
    assert [(card.name, card.is_right) for card in best] == [("example 0", True)]
    assert not any(card.is_right for card in worst)
    worst, best = gallery(data, replace(scored, target=torch.full((6,), 2)))
    assert len(best) == 3
    assert not any(card.is_right for card in best)


def test_what_is_best_of_nothing_right_is_called_least_wrong(evil):
    predicted, target = (
        torch.eye(2)[torch.ones(8, dtype=torch.long)],
        torch.zeros(8, dtype=torch.long),
    )
    scored = replace(evil.evaluation.parts["test"], predicted=predicted, target=target)
    text = page_text(replace(evil, evaluation=replace(evil.evaluation, parts={"test": scored})), {})
    assert "<h2>Least wrong predictions of the test part</h2>" in text
    assert "<h2>Best predictions" not in text


def test_molecules_are_drawn_by_rdkit_where_their_smiles_are_known(tmp_path):
    pytest.importorskip("rdkit")
    rows = "".join(f"{'C' * (1 + k)}O,{k}\n" for k in range(4))
    (tmp_path / "m.csv").write_text(f"smiles,value\n{rows}")
    data = inc.data.load(tmp_path / "m.csv", "value", task="regression")
    target = torch.stack([e.target for e in data.examples])
    worst, best = gallery(
        data,
        as_scored(target + torch.arange(4.0)[:, None], target, {}, {}, [(k, 0) for k in range(4)]),
    )
    assert all("bond-0" in card.picture for card in (*worst, *best))
    without = replace(data, columns={})
    worst, _ = gallery(without, as_scored(target, target, {}, {}, [(k, 0) for k in range(4)]))
    assert all("bond-0" not in card.picture and card.picture.startswith("<svg") for card in worst)


def test_molecules_have_no_colour_that_a_dark_page_does_not_change():
    pytest.importorskip("rdkit")
    pandas = pytest.importorskip("pandas")
    smiles = [
        "CC(=O)Nc1ccc(O)cc1",
        "FC(F)(Cl)CBr",
        "CS(=O)(=O)[O-].[Na+]",
        "OP(=O)(O)O[C@H](C)[2H]",
        "*CCI",
        "C[Si](C)(C)B(O)O",
    ]
    data = inc.data.load(
        pandas.DataFrame({"smiles": smiles, "value": [k / 2 for k in range(6)]}), "value"
    )
    target = torch.stack([e.target for e in data.examples])
    for card in (
        card
        for some in gallery(data, as_scored(target, target, {}, {}, [(k, 0) for k in range(6)]))
        for card in some
    ):
        assert "bond-0" in card.picture
        assert re.findall("#[0-9a-fA-F]{6}", themed(card.picture)) == []


@pytest.mark.parametrize("options", [{}, {"smiles": "what"}])
def test_molecules_are_drawn_from_the_column_that_was_read_whatever_it_is_called(options):
    pytest.importorskip("rdkit")
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(
        {
            "element": list("CNOF"),
            "what": ["CCO", "CCN", "CCCO", "CCCCN"],
            "value": [0.5, 1.5, 2.5, 3.5],
        }
    )
    data = inc.data.load(frame if options else frame.drop(columns="element"), "value", **options)
    target = torch.stack([e.target for e in data.examples])
    worst, best = gallery(data, as_scored(target, target, {}, {}, [(k, 0) for k in range(4)]))
    assert all("bond-0" in card.picture for card in (*worst, *best))


def test_a_column_that_only_looks_like_smiles_is_not_drawn_for_the_molecule():
    pytest.importorskip("rdkit")
    pandas = pytest.importorskip("pandas")
    data = inc.data.load(
        pandas.DataFrame(
            {"smiles": ["CCO", "CCN", "CCCO", "CCCCN"], "value": [0.5, 1.5, 2.5, 3.5]}
        ),
        "value",
    )
    other, target = (
        replace(data, columns={"code": ["CC", "NC", "OC", "FC"]}),
        torch.stack([e.target for e in data.examples]),
    )
    worst, _ = gallery(other, as_scored(target, target, {}, {}, [(k, 0) for k in range(4)]))
    assert all("bond-0" not in card.picture and card.picture.startswith("<svg") for card in worst)


def test_meshes_are_drawn_and_what_is_too_large_is_not():
    solid = inc.geometry.named("icosahedron")
    meshes = inc.data.load(
        [inc.Example(solid, {"i": torch.ones(12, 1)}, torch.tensor([float(k)])) for k in range(2)],
        task="regression",
    )
    target = torch.tensor([[0.0], [1.0]])
    worst, _ = gallery(meshes, as_scored(target, target, {}, {}, [(0, 0), (1, 0)]))
    assert worst[0].picture.startswith("<svg")
    many = inc.Structure(5000, {"{i j}": torch.stack([torch.arange(4999), torch.arange(1, 5000)])})
    examples = [
        inc.Example(many, {"i": torch.ones(5000, 1)}, torch.tensor([float(k)])) for k in range(2)
    ]
    data = inc.data.load(examples, task="regression")
    worst, best = gallery(data, as_scored(target, target, {}, {}, [(0, 0), (1, 0)]))
    assert [card.picture for card in (*worst, *best)] == ["", ""]


def test_values_of_entries_are_told_by_their_mean(tmp_path: Path):
    found = [e.replace(target={"i": torch.zeros(e.structure.total_nodes, 1)}) for e in graphs(4)]
    data = inc.data.load(found, task="regression")
    places = [(k, n) for k, e in enumerate(found) for n in range(e.structure.total_nodes)]
    predicted = torch.tensor([[float(k)] for k, _ in places])
    worst, best = gallery(data, as_scored(predicted, torch.zeros(len(places), 1), {}, {}, places))
    assert [card.name for card in (*worst, *best)] == [
        "example 3",
        "example 2",
        "example 0",
        "example 1",
    ]
    assert worst[0].caption.startswith(f"{found[3].structure.total_nodes} rows, mean error ")


def test_of_one_structure_entries_are_told_and_drawn_with_their_surroundings():
    ring = inc.Structure(12, {"{i j}": [list(range(12)), [*range(1, 12), 0]]})
    target = torch.arange(12) % 2
    example = inc.Example(ring, {"i": torch.ones(12, 1), "{i j}": torch.ones(12, 1)}, {"i": target})
    task, names = Task("classification", ("even", "odd"), at="i"), [f"node {k}" for k in range(12)]
    data = DataSet("ring", [example], task, (), "example", is_transductive=True, names=names)
    sure = torch.linspace(0.05, 0.95, 12)  # of the true class
    predicted = torch.stack([torch.where(target == k, sure, 1 - sure) for k in range(2)], 1)
    worst, best = gallery(data, as_scored(predicted, target, {}, {}, [(0, k) for k in range(12)]))
    assert [card.name for card in worst] == ["node 0", "node 1", "node 2", "node 3"]
    assert [card.name for card in best] == ["node 11", "node 10", "node 9", "node 8"]
    assert worst[1].caption == "is odd, predicted even (87 %)"
    assert worst[0].picture.count("<circle") == 5  # the node, its two neighbours and theirs
    assert "legend" not in worst[0].picture


def test_a_node_without_neighbours_is_drawn_no_larger_than_others():
    path = inc.Structure(9, {"{i j}": [list(range(7)), list(range(1, 8))]})
    target = torch.arange(9) % 2
    example = inc.Example(path, {"i": torch.ones(9, 1), "{i j}": torch.ones(7, 1)}, {"i": target})
    data = DataSet(
        "path",
        [example],
        Task("classification", ("even", "odd"), at="i"),
        (),
        "example",
        is_transductive=True,
    )
    sure = torch.linspace(0.95, 0.05, 9)
    predicted = torch.stack([torch.where(target == k, sure, 1 - sure) for k in range(2)], 1)
    worst, best = gallery(data, as_scored(predicted, target, {}, {}, [(0, k) for k in range(9)]))
    atoms = inc.data.load(
        [
            inc.Example(inc.Structure(1, {}), {"i": torch.ones(1, 1)}, torch.tensor([k / 2]))
            for k in range(2)
        ]
    )
    lone, _ = gallery(
        atoms, as_scored(torch.zeros(2, 1), torch.zeros(2, 1), {}, {}, [(0, 0), (1, 0)])
    )
    for picture in (worst[0].picture, best[0].picture, lone[0].picture):
        width, height = map(float, re.search(r'viewBox="0 0 (\S+) (\S+)"', picture).groups())
        radius = float(re.search(r' r="(\S+)"', picture)[1])
        assert radius < 0.08 * max(width, height)
    assert worst[0].picture.count("<circle") == 1


def test_ratings_are_drawn_with_those_that_are_known_of_either(tmp_path: Path):
    rows = [f"u{u},m{m},{1 + (u * m) % 5}" for u in range(6) for m in range(5) if (u + m) % 3]
    (tmp_path / "ratings.csv").write_text("\n".join(["user,movie,rating", *rows]) + "\n")
    data = inc.data.load(tmp_path / "ratings.csv")
    count = data.num_rows
    target = data.completion.target
    scored = as_scored(
        target + torch.linspace(0, 1, count)[:, None],
        target,
        {},
        {},
        [(0, k) for k in range(count)],
    )
    worst, _ = gallery(data, scored)
    user, movie = (data.columns[key][count - 1] for key in ("user", "movie"))
    assert worst[0].name == f"{user}, {movie}"
    known = sum(row.startswith(f"{user},") or f",{movie}," in row for row in rows)
    assert worst[0].picture.count("<path") + worst[0].picture.count("<line") >= known


def test_hyperedges_that_are_asked_for_are_drawn(tmp_path: Path):
    lines = [" ".join(f"n{(k + step) % 9}" for step in range(2 + k % 3)) for k in range(9)]
    (tmp_path / "sets.txt").write_text("\n".join(lines) + "\n")
    data = inc.data.load(tmp_path / "sets.txt", task="links")
    count = data.num_rows
    scored = as_scored(
        torch.rand(count, 2), data.completion.target, {}, {}, [(0, k) for k in range(count)]
    )
    worst, best = gallery(data, scored)
    assert all("<circle" in card.picture for card in (*worst, *best))
    assert worst[0].name.startswith("n")


def test_losses_that_hardly_change_are_told_on_a_plain_scale():
    for values, scale in (([1.0, 0.9], "linear"), ([1.0, 0.1], "log"), ([1.0, 0.0], "linear")):
        figure = inc.plot.curves(
            [{"epoch": k, "train_loss": value} for k, value in enumerate(values)]
        )
        assert figure.axes[0].get_yscale() == scale


@pytest.mark.parametrize(
    ("reader", "data", "name"),
    [
        ("molecule", "mine.smi", "molecules.smi"),
        ("molecule", "MINE.SDF", "molecules.sdf"),
        ("molecule", "solubility", "molecules.csv"),
        ("mesh", "mine.ply", "new.ply"),
        ("mesh", "meshes", "new.obj"),
        ("of another package", "data", "new.npz"),
    ],
)
def test_the_next_file_is_one_that_the_model_reads(reader, data, name):
    assert _name_of_new(reader, data) == name


def test_the_next_file_is_like_those_of_a_folder(tmp_path):
    assert _name_of_new("molecule", str(tmp_path)) == "molecules.sdf"
