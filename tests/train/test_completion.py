"""Runs that complete what is known: ratings from a table to predictions for pairs, beside their
baseline.
"""

from __future__ import annotations

import csv
import io
import json
import warnings
from dataclasses import replace

import pytest
import torch

import incidence as inc
from incidence.cli import main
from incidence.data import Task
from incidence.errors import IncidenceError
from incidence.train import resume, train
from incidence.train.evaluation import Evaluation
from incidence.train.prediction import assert_no_facts
from tests.train.small_runs import as_scored


@pytest.fixture(scope="module")
def rated(tmp_path_factory):
    """Users like movies of their own kind: what no mean of users or movies can tell."""
    folder = tmp_path_factory.mktemp("rated")
    generator = torch.Generator().manual_seed(0)
    rows = [
        f"u{u},m{m},{4 if (u + m) % 2 else 2}\n"
        for u in range(24)
        for m in range(16)
        if torch.rand(1, generator=generator) < 0.5
    ]
    (folder / "ratings.csv").write_text("user,movie,rating\n" + "".join(rows))
    (folder / "users.csv").write_text(
        "user,kind\n" + "".join(f"u{u},{'ab'[u % 2]}\n" for u in range(24))
    )
    (folder / "films.csv").write_text(
        "movie,kind\n" + "".join(f"m{m},{'ab'[m % 2]}\n" for m in range(16))
    )
    return folder


@pytest.fixture(scope="module")
def run(rated):
    words = [
        "train",
        "--data",
        str(rated / "ratings.csv"),
        "--target",
        "rating",
        "--tables",
        str(rated / "users.csv"),
        str(rated / "films.csv"),
    ]
    assert (
        main(
            [
                *words,
                "--out",
                str(rated / "run"),
                "--hidden",
                "8",
                "--depth",
                "1",
                "--epochs",
                "8",
                "--lr",
                "0.02",
            ]
        )
        == 0
    )
    return rated / "run"


def test_a_network_beats_the_means_of_users_and_movies(run):
    metrics = json.loads((run / "metrics.json").read_text())["test"]
    assert metrics["baseline"]["rmse"] > 0.8
    assert metrics["rmse"] < 0.6 * metrics["baseline"]["rmse"]
    page = (run / "report.html").read_text()
    assert "for the damped means of user and movie" in page


def test_few_pairs_are_ranked_by_default_and_ranks_stand_beside_the_error(
    run, rated, tmp_path, monkeypatch
):
    metrics = json.loads((run / "metrics.json").read_text())
    assert {"rmse", "mae", "ndcg@10", "recall@10"} <= set(metrics["test"])
    assert metrics["test"]["ndcg@10"] > metrics["test"]["baseline"]["ndcg@10"] / 2
    page = (run / "report.html").read_text()
    assert page.index("rmse") < page.index("ndcg@10")
    monkeypatch.setattr("incidence.data.ratings._FEW_CANDIDATES", 5)
    options = {"target": "rating", "epochs": 1, "hidden": 4, "depth": 1}
    many = train({**options, "data": str(rated / "ratings.csv"), "out": str(tmp_path / "run")})
    assert "ndcg@10" not in many.evaluation.parts["test"].metrics
    log = (run / "log.txt").read_text()
    assert "for the damped means of user and movie" in log
    assert f"incidence predict {run} pairs.csv" in log


def test_predictions_name_users_and_movies(run):
    rows = list(csv.DictReader((run / "predictions.csv").read_text().splitlines()))
    assert list(rows[0]) == ["part", "user", "movie", "target rating", "predicted rating"]
    known = {
        (row[0], row[1]): row[2]
        for row in csv.reader((run.parent / "ratings.csv").read_text().splitlines())
    }
    assert len(rows) == len(known) - 1
    assert all(known[row["user"], row["movie"]] == row["target rating"] for row in rows)


def test_new_pairs_are_predicted_wherever_the_folder_is(run, tmp_path, capsys):
    moved = tmp_path / "moved"
    moved.mkdir()
    for name in ("config.yaml", "model.json", "model.safetensors", "known.npz"):
        (moved / name).write_bytes((run / name).read_bytes())
    (tmp_path / "pairs.csv").write_text("movie,user,note\nm1,u2,a\nm1,u3,b\nm2,zoe,c\n")
    with warnings.catch_warnings():
        warnings.simplefilter("always")  # which the command shows in its own words
        assert main(["predict", str(moved), str(tmp_path / "pairs.csv")]) == 0
    found = capsys.readouterr()
    assert (
        "1 of `user` not in the data of the model (zoe): predicted as if nothing were known about"
        " them." in found.err
    )
    rows = list(csv.DictReader(io.StringIO(found.out)))
    assert [(row["user"], row["movie"], row["note"]) for row in rows] == [
        ("u2", "m1", "a"),
        ("u3", "m1", "b"),
        ("zoe", "m2", "c"),
    ]
    liked, other, new = (float(row["predicted rating"]) for row in rows)
    assert 2 <= other < 2.4 < new < 3.6 < liked <= 4  # nothing is known of what zoe likes


def test_a_table_of_users_gets_the_best_movies_that_they_have_not_rated(run, tmp_path, capsys):
    (tmp_path / "users.csv").write_text("user,city\nu2,Rome\nu3,Bonn\nzoe,Oslo\n")
    (tmp_path / "new.csv").write_text("user,movie,stars\nzoe,m1,4\nzoe,m3,4\nzoe,m2,2\n")
    words = [str(tmp_path / "users.csv"), "--known", str(tmp_path / "new.csv"), "--top", "3"]
    assert main(["predict", str(run), *words]) == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert [row["user"] for row in rows] == ["u2"] * 3 + ["u3"] * 3 + ["zoe"] * 3
    assert [row["rank"] for row in rows] == ["1", "2", "3"] * 3
    assert {row["city"] for row in rows if row["user"] == "u3"} == {"Bonn"}
    lines = (run.parent / "ratings.csv").read_text().splitlines()
    known = {tuple(row[:2]) for row in csv.reader(lines)}
    known |= {("zoe", movie) for movie in ("m1", "m2", "m3")}
    assert not known & {(row["user"], row["movie"]) for row in rows}
    for name in ("u2", "u3", "zoe"):
        numbers = [float(row["predicted rating"]) for row in rows if row["user"] == name]
        assert numbers == sorted(numbers, reverse=True)
    odd = [int(row["movie"][1:]) % 2 for row in rows if row["user"] == "u2"]
    assert sum(odd) >= 2  # who likes movies of the other kind


def test_only_models_that_complete_facts_take_further_ones():
    with pytest.raises(IncidenceError, match=r"only models of ratings, links and triples"):
        assert_no_facts("ratings.csv")


def test_a_model_predicts_for_frames_and_says_what_it_needs(run):
    pandas = pytest.importorskip("pandas")
    model = inc.load(run)
    found = model.predict(pandas.DataFrame({"user": ["u2"], "movie": ["m1"]}))
    assert (found.values.shape, found.task.names) == ((1, 1), ("rating",))
    with pytest.raises(IncidenceError, match="has no column `movie`; it has: user, film"):
        model.predict(pandas.DataFrame({"user": ["u2"], "film": ["m1"]}))
    with pytest.raises(
        IncidenceError,
        match=(
            r"there is no file .*; this model predicts for rows of a table with the columns user"
            r" and movie\. One row is"
            r" pandas\.DataFrame\(\{'user': \['u\d+'\], 'movie': \['m\d+'\]\}\)"
        ),
    ):
        model.predict("CCO")
    with pytest.raises(
        IncidenceError,
        match=(
            "predicts for rows of tables with the columns user and movie: give paths or data"
            " frames; got int"
        ),
    ):
        model.predict([3])
    with pytest.raises(IncidenceError, match="row 0: an entry has at least two nodes; got u2 "):
        model.predict(pandas.DataFrame({"user": ["u2"], "movie": [""]}))


def test_a_run_is_measured_again_and_goes_on(run, capsys):
    assert main(["evaluate", str(run), "--json"]) == 0
    again = json.loads(capsys.readouterr().out)
    assert again["test"] == json.loads((run / "metrics.json").read_text())["test"]
    assert resume(run, epochs=9) is not None
    assert len((run / "history.csv").read_text().splitlines()) == 1 + 9


def test_a_folder_without_what_the_model_knows_is_told(run, tmp_path):
    for name in ("config.yaml", "model.json", "model.safetensors"):
        (tmp_path / name).write_bytes((run / name).read_bytes())
    with pytest.raises(IncidenceError, match=r"there is no file .*known\.npz"):
        inc.load(tmp_path).predict("pairs.csv")


def test_ratings_have_no_lift(run, tmp_path):
    with pytest.raises(
        IncidenceError,
        match=r"what is known of .* changes from part to part, so it has no lift: leave out `lift`",
    ):
        train(
            {"data": str(run.parent / "ratings.csv"), "lift": "rings", "out": str(tmp_path / "run")}
        )


def test_rows_without_a_rating_are_predicted(tmp_path):
    (tmp_path / "ratings.csv").write_text(
        "user,movie,rating\n"
        + "".join(f"u{k % 4},m{k // 4},{'' if k == 7 else k % 3}\n" for k in range(20))
    )
    found = train(
        {
            "data": str(tmp_path / "ratings.csv"),
            "out": str(tmp_path / "run"),
            "epochs": 1,
            "hidden": 4,
            "depth": 1,
        }
    )
    rows = list(csv.DictReader(io.StringIO(found.evaluation.table())))
    assert [
        (row["user"], row["movie"], row["target rating"]) for row in rows if row["part"] == "other"
    ] == [("u3", "m1", "")]


@pytest.fixture(scope="module")
def linked(tmp_path_factory):
    """Nodes of one kind are joined, and the kind is a column."""
    folder = tmp_path_factory.mktemp("linked")
    generator = torch.Generator().manual_seed(0)
    pairs = [
        (a, b)
        for a in range(40)
        for b in range(a)
        if a % 2 == b % 2 and torch.rand(1, generator=generator) < 0.4
    ]
    (folder / "edges.csv").write_text("source,target\n" + "".join(f"n{a},n{b}\n" for a, b in pairs))
    (folder / "nodes.csv").write_text(
        "id,kind\n" + "".join(f"n{k},{'ab'[k % 2]}\n" for k in range(40))
    )
    words = [
        "train",
        "--data",
        str(folder / "edges.csv"),
        "--nodes",
        str(folder / "nodes.csv"),
        "--task",
        "links",
    ]
    assert (
        main(
            [
                *words,
                "--out",
                str(folder / "run"),
                "--hidden",
                "8",
                "--depth",
                "1",
                "--epochs",
                "6",
                "--lr",
                "0.02",
            ]
        )
        == 0
    )
    return folder / "run"


def test_links_are_learned_and_their_floor_is_told(linked):
    metrics = json.loads((linked / "metrics.json").read_text())["test"]
    assert set(metrics) == {"auc", "hits@10", "hits@50", "baseline"}
    assert metrics["auc"] > 0.75  # half of the absent pairs are of one kind, too
    log = (linked / "log.txt").read_text()
    assert "for the best of common neighbours, Adamic and Adar and preferential attachment" in log


def test_hits_that_everybody_has_are_told_as_such(linked, capsys):
    rows = list(csv.DictReader((linked / "predictions.csv").read_text().splitlines()))
    notes = inc.load(linked).evaluate().notes()
    for part in ("train", "validation", "test"):
        absent = sum(row["part"] == part and row["target"] == "absent" for row in rows)
        told = (
            f"The {part} part has {absent} absent links, too few for hits@50: 100 % whatever is"
            " predicted."
        )
        assert (f"{told} Draw more with `negatives=5`." in notes) == (10 <= absent < 50)
    assert len(notes) == 2  # validation and test
    flag = "--data-options negatives=5"  # as the run was started on the command line
    typed = [note.replace("`negatives=5`", flag) for note in notes]
    for text in ((linked / "log.txt").read_text(), (linked / "report.html").read_text()):
        assert all(note in text for note in typed)
    assert main(["evaluate", str(linked)]) == 0
    assert capsys.readouterr().out.splitlines()[-2:] == typed


def test_ranks_with_enough_absent_links_are_told_without_a_note(run):
    absent = torch.arange(120) % 2
    scored = as_scored(torch.rand(120, 2), absent, {}, {}, [(0, k) for k in range(120)])
    links = Task("classification", ("absent", "present"), ranks=(10, 50))
    data = replace(inc.load(run).evaluate().data, task=links)
    assert Evaluation(data, {"test": scored}).notes() == []
    few = replace(scored, target=absent[:10])
    assert (
        Evaluation(data, {"test": few})
        .notes()[0]
        .startswith("The test part has 5 absent links, too few for hits@10 and hits@50: ")
    )


def test_a_comparison_calls_the_baseline_what_the_run_called_it(run, linked, capsys):
    assert main(["compare", str(run), str(linked)]) == 0
    told = capsys.readouterr().out
    for folder in (run, linked):
        first = (folder / "log.txt").read_text().splitlines()[0]
        assert f" for {first.partition(' for ')[2]}\n" in told
    assert "for the damped means of user and movie\n" in told


def test_probabilities_of_new_links_do_not_depend_on_the_order_of_their_ends(
    linked, tmp_path, capsys
):
    (tmp_path / "pairs.csv").write_text("source,target\nn2,n4\nn4,n2\nn2,n5\n")
    assert main(["predict", str(linked), str(tmp_path / "pairs.csv")]) == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    one, other, apart = (float(row["p(present)"]) for row in rows)
    assert one == pytest.approx(other, abs=1e-5)
    assert apart < 0.5 < one
    (tmp_path / "some.csv").write_text("source,target\nn2,n2\nn2,n4\nn3,\n")
    some = inc.load(linked).predict(tmp_path / "some.csv")  # those that can be asked for
    assert some.values[0, 1].item() == pytest.approx(one, abs=1e-5)
    assert [str(error).partition(", ")[2][:8] for error in some.passed_over] == [
        "line 2: ",
        "line 4: ",
    ]
    (tmp_path / "loop.csv").write_text("n2,n2\n")
    with pytest.raises(IncidenceError, match="line 1: an entry has different nodes; got n2 n2"):
        inc.load(linked).predict(tmp_path / "loop.csv")


def test_the_metric_may_be_hits(linked):
    model = inc.load(linked)
    assert (
        model.evaluate().parts["test"].metrics["hits@50"]
        == json.loads((linked / "metrics.json").read_text())["test"]["hits@50"]
    )
    assert "test auc" in repr(model)


@pytest.fixture(scope="module")
def grouped(tmp_path_factory):
    """A model of hyperedges."""
    folder = tmp_path_factory.mktemp("grouped")
    lines = [" ".join(f"v{(k + j) % 20}" for j in range(2 + k % 2)) for k in range(20)]
    (folder / "sets.txt").write_text("\n".join(lines))
    options = {
        "data": str(folder / "sets.txt"),
        "task": "links",
        "out": str(folder / "run"),
        "epochs": 1,
        "hidden": 4,
        "depth": 1,
    }
    assert train(options) is not None
    return inc.load(folder / "run")


def test_sets_are_asked_for_as_words_or_columns(grouped, tmp_path):
    (tmp_path / "words.csv").write_text("nodes\nv0 v1 v2\nv0 v5\n")
    (tmp_path / "columns.csv").write_text("one,two,three\nv0,v1,v2\nv0,v5,\n")
    one, two = (grouped.predict(tmp_path / f"{name}.csv").values for name in ("words", "columns"))
    torch.testing.assert_close(one, two)


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        ("nodes\nv0 v1 v2\nv0 v5\n", ["nodes"]),
        ('"nodes"\n"v0 v1 v2"\n"v0 v5"\n', ["nodes"]),
        ("v0 v1 v2\nv0 v5\n", ["column 1"]),
        ("nodes,note\nv0 v1 v2,a\nv0 v5,b\n", ["nodes", "note"]),
    ],
    ids=["named", "quoted", "bare", "noted"],
)
def test_a_set_of_nodes_comes_back_as_the_cell_that_it_was(text, columns, grouped, tmp_path):
    (tmp_path / "sets.csv").write_text(text)
    found = list(csv.DictReader(io.StringIO(grouped.predict(tmp_path / "sets.csv").csv())))
    assert list(found[0]) == ["name", *columns, "predicted", "p(absent)", "p(present)"]
    assert [row[columns[0]] for row in found] == ["v0 v1 v2", "v0 v5"]


def test_links_between_two_sorts_are_learned_and_reported(tmp_path, capsys):
    """Who is of the same kind is linked: no number tells, as users and movies have the same
    ones.
    """
    pairs = [(u, m) for u in range(20) for m in range(16) if (u + m) % 2 and (3 * u + m) % 5]
    (tmp_path / "seen.csv").write_text("user,movie\n" + "".join(f"{u},{m}\n" for u, m in pairs))
    words = [
        "train",
        "--data",
        str(tmp_path / "seen.csv"),
        "--task",
        "links",
        "--out",
        str(tmp_path / "run"),
    ]
    assert main([*words, "--hidden", "8", "--depth", "2", "--epochs", "4"]) == 0
    page = (tmp_path / "run" / "report.html").read_text()
    assert page.count("<svg") > 4  # curves, and cards
    (tmp_path / "ask.csv").write_text("user,movie\n3,3\n19,0\n0,15\n")
    capsys.readouterr()
    assert main(["predict", str(tmp_path / "run"), str(tmp_path / "ask.csv")]) == 0
    found = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert [(row["user"], row["movie"]) for row in found] == [("3", "3"), ("19", "0"), ("0", "15")]
    (tmp_path / "ask.csv").write_text("user,movie\n3,3\n3,17\n")
    # though there is a user 17
    with pytest.warns(UserWarning, match=r"1 of `movie` not in the data of the model \(17\)"):
        inc.load(tmp_path / "run").predict(tmp_path / "ask.csv")
