"""Models of labels of nodes predict for another graph, from tables, data frames, arrays and graphs
of PyG, and are measured on it.
"""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest
import torch

import incidence as inc
from incidence.cli import main
from incidence.errors import IncidenceError

SMALL = ["--epochs", "2", "--hidden", "4", "--depth", "1"]


def tables(
    folder: Path,
    count: int,
    first: int = 0,
    colours: tuple[str, ...] = ("red", "blue"),
    topics: tuple[str, ...] = ("x", "y", "z"),
) -> Path:
    """A ring with chords; nodes have a number, a word and a topic."""
    folder.mkdir(exist_ok=True)
    rows = [
        f"n{first + k},{k % 5},{colours[k % len(colours)]},{topics[k % len(topics)]}"
        for k in range(count)
    ]
    pairs = [(k, (k + step) % count) for k in range(count) for step in (1, 4)]
    (folder / "nodes.csv").write_text("\n".join(["id,size,colour,topic", *rows]) + "\n")
    (folder / "edges.csv").write_text(
        "\n".join(["source,target", *(f"n{first + a},n{first + b}" for a, b in pairs)]) + "\n"
    )
    return folder


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("nodes")
    words = [
        "train",
        "--data",
        str(tables(folder / "old", 30)),
        "--target",
        "topic",
        "--out",
        str(folder / "run"),
        *SMALL,
    ]
    assert main(words) == 0
    return folder / "run"


def rows(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(text.splitlines()))


def test_another_graph_is_predicted_with_the_names_and_columns_of_its_nodes(run, tmp_path, capsys):
    new = tables(tmp_path / "new", 11, first=100)
    assert (
        main(["predict", str(run), str(new / "edges.csv"), "--nodes", str(new / "nodes.csv")]) == 0
    )
    found = rows(capsys.readouterr().out)
    assert [row["name"] for row in found] == [f"n{100 + k}" for k in range(11)]
    assert [row["colour"] for row in found] == ["red", "blue"] * 5 + ["red"]
    assert list(found[0])[-4:] == ["predicted", "p(x)", "p(y)", "p(z)"]
    assert main(["predict", str(run), str(new)]) == 0  # a folder with both
    assert [row["p(x)"] for row in rows(capsys.readouterr().out)] == [row["p(x)"] for row in found]


def test_nodes_are_called_by_their_names_as_after_training_and_files_are_told_apart(
    run, tmp_path, capsys
):
    after = rows((run / "predictions.csv").read_text())
    old, new = run.parent / "old", tables(tmp_path / "new", 11, first=100)
    assert main(["predict", str(run), str(old)]) == 0
    alone = rows(capsys.readouterr().out)
    assert list(alone[0]) == [
        "name",
        "size",
        "colour",
        "topic",
        "predicted",
        "p(x)",
        "p(y)",
        "p(z)",
    ]
    assert {row["name"]: row["predicted"] for row in alone} == {
        row["name"]: row["predicted"] for row in after
    }
    assert main(["predict", str(run), str(old), str(new)]) == 0
    both = rows(capsys.readouterr().out)
    assert list(both[0])[:2] == ["name", "file"]
    assert [row["file"] for row in both] == [str(old / "edges.csv")] * 30 + [
        str(new / "edges.csv")
    ] * 11
    assert [row["name"] for row in both[30:]] == [f"n{100 + k}" for k in range(11)]


@pytest.mark.parametrize(("count", "is_repeated"), [(20, True), (21, False)])
def test_columns_that_are_features_stand_beside_predictions_unless_there_are_many(
    count, is_repeated, tmp_path, capsys
):
    # beside size and colour
    folder, words = tables(tmp_path / "many", 30), [f"w{k}" for k in range(count - 2)]
    head, *lines = (folder / "nodes.csv").read_text().splitlines()
    told = [
        ",".join([line, *(str((k + j) % 2) for j in range(len(words))), f"note {k}"])
        for k, line in enumerate(lines)
    ]
    (folder / "nodes.csv").write_text("\n".join([",".join([head, *words, "name"]), *told]) + "\n")
    out = tmp_path / "run"
    assert (
        main(["train", "--data", str(folder), "--target", "topic", "--out", str(out), *SMALL]) == 0
    )
    capsys.readouterr()
    assert main(["predict", str(out), str(folder)]) == 0
    found = rows(capsys.readouterr().out)
    own = ["size", "colour", "topic", *words] if is_repeated else ["topic"]
    assert list(found[0]) == ["name", *own, "input name", "predicted", "p(x)", "p(y)", "p(z)"]
    assert [(row["name"], row["input name"]) for row in found] == [
        (f"n{k}", f"note {k}") for k in range(30)
    ]


def test_predictions_for_frames_of_a_graph_have_the_index_of_its_nodes(run, tmp_path):
    pandas = pytest.importorskip("pandas")
    new = tables(tmp_path / "new", 11, first=100)
    edges, nodes = (pandas.read_csv(new / f"{name}.csv") for name in ("edges", "nodes"))
    nodes.index = pandas.Index(range(50, 61), name="key")
    model = inc.load(run)
    expected = model.predict(new).to_frame()
    for found in (model.predict({"edges": edges, "nodes": nodes}), model.predict(edges, nodes)):
        table = found.to_frame()
        assert table.index.equals(nodes.index)
        assert table.reset_index(drop=True).equals(expected)
        assert found[:1].to_frame().index.equals(nodes.index)


def test_the_graph_of_the_run_gets_the_predictions_of_the_run(run):
    known = [float(row["p(x)"]) for row in rows((run / "predictions.csv").read_text())]
    by_name = {
        row["name"]: float(row["p(x)"]) for row in rows((run / "predictions.csv").read_text())
    }
    found = inc.load(run).predict(str(run.parent / "old"))
    assert len(known) == len(by_name) == 30
    for name, row in zip(found[0].nodes, found[0].rows, strict=True):
        assert row[0] == pytest.approx(by_name[name], abs=1e-4)


def test_frames_are_tables_of_a_new_graph(run, tmp_path):
    pandas = pytest.importorskip("pandas")
    new = tables(tmp_path / "new", 9)
    frames = {name: pandas.read_csv(new / f"{name}.csv") for name in ("edges", "nodes")}
    model = inc.load(run)
    for found in (
        model.predict(frames),
        model.predict(frames["edges"], nodes=frames["nodes"]),
        model.predict([frames, new])[:1],
    ):
        torch.testing.assert_close(found.values, model.predict(new).values)


def test_words_that_are_new_count_for_nothing_and_others_stay_where_they_were(run, tmp_path):
    model = inc.load(run)
    plain, mixed = (
        tables(tmp_path / "plain", 8, colours=("blue",)),
        tables(tmp_path / "mixed", 8, colours=("blue", "green")),
    )
    only = model.predict(tables(tmp_path / "red", 8, colours=("red",))).values
    assert not torch.allclose(model.predict(plain).values, only)
    assert not torch.allclose(model.predict(mixed).values, model.predict(plain).values)


def test_what_a_new_graph_lacks_is_told(run, tmp_path, capsys):
    new = tables(tmp_path / "new", 8)
    assert main(["predict", str(run), str(new / "edges.csv")]) == 2
    assert (
        "nodes have the columns size, colour: give a table of nodes, too" in capsys.readouterr().err
    )
    (new / "nodes.csv").write_text("id,size\n" + "".join(f"n{k},1\n" for k in range(8)))
    with pytest.raises(IncidenceError, match="has no column `colour`"):
        inc.load(run).predict(new)
    (new / "more.csv").write_text("a,b\n1,2\n")
    with pytest.raises(
        IncidenceError,
        match="a graph is a table of edges, and one of nodes; got edges, more, nodes",
    ):
        inc.load(run).predict(new)


def test_edges_that_do_not_fit_are_named_and_the_rest_is_predicted(run, tmp_path):
    new = tables(tmp_path / "new", 8)
    with (new / "edges.csv").open("a") as file:
        file.write("n0,nobody\n")
    found = inc.load(run).predict(new)
    assert len(found.values) == 8
    assert "has the node 'nobody'" in str(found.passed_over[0])


def test_a_table_of_nodes_is_nothing_to_other_models(run, tmp_path, numbers):
    inc.train.train(
        {
            "data": str(numbers),
            "model": "i, {i j}",
            "epochs": 1,
            "hidden": 4,
            "depth": 1,
            "out": str(tmp_path / "run"),
        }
    )
    with pytest.raises(
        IncidenceError, match="this model was not trained on such tables: leave out nodes"
    ):
        inc.load(tmp_path / "run").predict(str(numbers), nodes="nodes.csv")


def test_a_model_is_measured_on_another_graph_that_has_some_of_its_classes(run, tmp_path, capsys):
    new = tables(tmp_path / "new", 12, topics=("z", "x"))
    scored = inc.load(run).evaluate(new).parts["test"]
    assert scored.target.tolist() == [2, 0] * 6
    torch.testing.assert_close(scored.predicted, inc.load(run).predict(new).values)
    assert main(["evaluate", str(run), "--data", str(new)]) == 0
    assert "accuracy" in capsys.readouterr().out
    with pytest.raises(
        IncidenceError,
        match=(
            "trained for the classes x, y, z for every entry of `i`, and the data has the classes"
            " w, x"
        ),
    ):
        inc.load(run).evaluate(tables(tmp_path / "other", 12, topics=("w", "x")))


def test_a_run_with_a_table_of_nodes_forgets_it_for_other_data(run, tmp_path, capsys):
    new, old, out = tables(tmp_path / "new", 12), run.parent / "old", str(tmp_path / "run")
    words = [
        "train",
        "--data",
        str(old / "edges.csv"),
        "--nodes",
        str(old / "nodes.csv"),
        "--target",
        "topic",
        "--out",
        out,
        *SMALL,
    ]
    assert main(words) == 0
    capsys.readouterr()
    assert main(["evaluate", out, "--data", str(new), "--json"]) == 0
    together = json.loads(capsys.readouterr().out)
    assert (
        main(
            [
                "evaluate",
                out,
                "--data",
                str(new / "edges.csv"),
                "--nodes",
                str(new / "nodes.csv"),
                "--json",
            ]
        )
        == 0
    )
    assert json.loads(capsys.readouterr().out) == together
    assert main(["evaluate", out, "--data", str(new / "edges.csv")]) == 2
    assert "add --nodes nodes.csv (labels of nodes)" in capsys.readouterr().err


def test_arrays_without_labels_are_a_new_graph_too(tmp_path):
    generator = np.random.default_rng(0)
    edges, features = (
        np.array([[k, (k + 1) % 20] for k in range(20)]),
        generator.normal(size=(20, 3)).astype(np.float32),
    )
    np.savez(
        tmp_path / "old.npz", edges=edges, node_features=features, node_labels=np.arange(20) % 2
    )
    np.savez(tmp_path / "new.npz", edges=edges[:10], node_features=features)
    inc.train.train(
        {
            "data": str(tmp_path / "old.npz"),
            "epochs": 1,
            "hidden": 4,
            "depth": 1,
            "out": str(tmp_path / "run"),
        }
    )
    assert inc.load(tmp_path / "run").predict(tmp_path / "new.npz").values.shape == (20, 2)


def test_a_model_of_tables_reads_graphs_of_pyg_with_as_many_features(run):
    pyg = pytest.importorskip("torch_geometric.data")
    graph = pyg.Data(
        x=torch.ones(4, 3), edge_index=torch.tensor([[0, 1], [1, 2]]), edge_attr=torch.ones(2, 1)
    )
    assert inc.load(run).predict([graph, graph]).values.shape == (8, 3)
    part = torch.utils.data.Subset([graph] * 3, [0, 2])
    assert inc.load(run).predict(part).values.shape == (8, 3)


def test_labels_of_the_edges_of_a_graph_of_pyg_are_learned_and_predicted(tmp_path):
    pyg = pytest.importorskip("torch_geometric.data")
    ring = torch.stack([torch.arange(12), torch.arange(1, 13) % 12])
    pairs, y = torch.cat([ring, ring.flip(0)], 1), (torch.arange(12) % 2).repeat(2)
    graph = pyg.Data(x=torch.rand(12, 2), edge_index=pairs, y=y)
    run = inc.train.train(
        {"epochs": 1, "hidden": 4, "depth": 1, "out": str(tmp_path / "run")},
        data=inc.data.load(graph),
    )
    assert run is not None
    graph.y = torch.rand(24)  # which says nothing here, and differs by direction
    found = inc.load(tmp_path / "run").predict(graph)
    assert found.values.shape == (12, 2)
