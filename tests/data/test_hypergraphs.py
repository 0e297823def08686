"""Hypergraphs from tables, lines and HIF files, with labels of nodes, hyperedges and wholes."""

from __future__ import annotations

import json

import pytest
import torch

import incidence as inc
from incidence.data.hypergraphs import find_hypergraph, lines_as_table
from incidence.data.tables import TextTable
from incidence.errors import IncidenceError

SETS = {"x": "abc", "y": "cd", "z": "abc", "w": "be"}
LABELS = {"a": "red", "b": "blue", "c": "red", "d": "blue", "e": ""}
KINDS = {"x": "big", "y": "small", "z": "big", "w": "small"}


def csv(path, header, rows):
    path.write_text("\n".join([header, *(",".join(map(str, row)) for row in rows)]) + "\n")
    return path


@pytest.fixture
def folder(tmp_path):
    pairs = [(node, edge) for edge, nodes in SETS.items() for node in nodes]
    csv(tmp_path / "inc.csv", "node,hyperedge", pairs)
    csv(tmp_path / "weighted.csv", "node,hyperedge,weight", [(*p, k) for k, p in enumerate(pairs)])
    csv(tmp_path / "nodes.csv", "id,label", LABELS.items())
    csv(tmp_path / "hyperedges.csv", "hyperedge,kind", KINDS.items())
    (tmp_path / "sets.txt").write_text("\n".join(" ".join(nodes) for nodes in SETS.values()))
    content = {
        "incidences": [{"node": node, "edge": edge} for node, edge in pairs],
        "nodes": [{"node": node, "attrs": {"label": label}} for node, label in LABELS.items()],
        "edges": [{"edge": edge, "attrs": {"kind": kind}} for edge, kind in KINDS.items()],
        "metadata": {"mood": "good"},
    }
    (tmp_path / "h.hif.json").write_text(json.dumps(content))
    return tmp_path


def targets(data):
    names = [data.task.names[k] if k >= 0 else "" for k in data.examples[0].target[data.task.at]]
    return dict(zip(data.names, names, strict=True))


@pytest.mark.filterwarnings("ignore:.*hyperedges have the nodes of another one")
@pytest.mark.parametrize(
    ("file", "options"),
    [
        ("inc.csv", {"nodes": "nodes.csv"}),
        ("sets.txt", {"nodes": "nodes.csv"}),
        ("h.hif.json", {}),
    ],
)
def test_labels_of_nodes_are_those_of_the_file(file, options, folder):
    given = {key: folder / name for key, name in options.items()}
    data = inc.data.load(folder / file, "label", **given)
    assert targets(data) == LABELS
    [example] = data.examples
    key = next(str(p) for p in example.structure.patterns)
    assert data.is_transductive
    assert all(len(x) for x in example.features.values())
    assert key in ("{i ...}", "i e:edge")


@pytest.mark.filterwarnings("ignore:.*hyperedges have the nodes of another one")
def test_labels_of_hyperedges_keep_equal_ones_apart(folder):
    table = inc.data.load(folder / "inc.csv", "kind", tables=[folder / "hyperedges.csv"])
    hif = inc.data.load(folder / "h.hif.json", "kind")
    for data in (table, hif):
        assert data.task.at == "e:edge"
        assert targets(data) == KINDS


def test_equal_hyperedges_are_merged_or_kept_and_the_run_says_which(folder):
    nodes = folder / "nodes.csv"
    with pytest.warns(UserWarning, match=r"1 of 4 hyperedges .* are merged.*duplicates=keep"):
        merged = inc.data.load(folder / "inc.csv", nodes=nodes).examples[0]
    assert merged.structure.num_entries("{i ...}") == 3
    assert merged.features["{i ...}"].tolist() == [[2.0, 3.0], [1.0, 2.0], [1.0, 2.0]]
    with pytest.warns(UserWarning, match=r"stay apart.*duplicates=merge"):
        kept = inc.data.load(folder / "inc.csv", nodes=nodes, duplicates="keep").examples[0]
    assert kept.structure.counts == {"edge": 4, "node": 5}
    with pytest.raises(IncidenceError, match=r"merge or keep; got 'drop'"):
        inc.data.load(folder / "inc.csv", nodes=nodes, duplicates="drop")


def test_without_features_nodes_have_degrees_and_hyperedges_sizes(folder):
    with pytest.warns(UserWarning, match="merged"):
        data = inc.data.load(folder / "inc.csv", nodes=folder / "nodes.csv")
    assert dict(zip(data.names, data.examples[0].features["i"][:, 0].tolist(), strict=True)) == {
        "a": 2.0,
        "b": 3.0,
        "c": 3.0,
        "d": 1.0,
        "e": 1.0,
    }


def test_weights_of_incidences_are_features_of_pairs(folder):
    with pytest.warns(UserWarning, match="stay apart"):
        data = inc.data.load(folder / "weighted.csv", nodes=folder / "nodes.csv")
    [example] = data.examples
    assert sorted(example.features["i e:edge"][:, 0].tolist()) == list(range(10))


def test_a_table_of_many_hypergraphs_has_a_target_for_each(tmp_path):
    rows = [(n, e, g) for g in ("g1", "g2", "g3") for e in "xy" for n in "abc"[: 2 + (g == "g2")]]
    csv(tmp_path / "many.csv", "node,hyperedge,hypergraph", rows)
    wholes = csv(tmp_path / "hypergraphs.csv", "hypergraph,size", [("g1", 2), ("g2", 3), ("g3", 2)])
    data = inc.data.load(tmp_path / "many.csv", "size", tables=[wholes])
    assert data.names == ["g1", "g2", "g3"]
    assert [example.structure.num_nodes for example in data.examples] == [2, 3, 2]
    assert data.examples[1].features["{i ...}"].tolist() == [[2.0, 3.0]]  # two copies of one
    with pytest.raises(IncidenceError, match=r"many hypergraphs\. Give a table.*--tables"):
        inc.data.load(tmp_path / "many.csv", "size")
    csv(tmp_path / "hypergraphs.csv", "hypergraph,size", [("h1", 2), ("h2", 3)])
    with pytest.raises(IncidenceError, match="no row is about a hypergraph"):
        inc.data.load(tmp_path / "many.csv", "size", tables=[wholes])


def test_folders_of_hif_files_are_classes(folder, tmp_path):
    text = (folder / "h.hif.json").read_text()
    for name in ("one", "two"):
        (tmp_path / "by" / name).mkdir(parents=True)
        for k in range(2):
            (tmp_path / "by" / name / f"{k}.hif.json").write_text(text)
    data = inc.data.load(tmp_path / "by")
    assert data.reader == "hypergraph"
    assert data.columns["mood"] == ["good"] * 4


def test_hypergraphs_without_labels_name_the_options(folder):
    with pytest.raises(IncidenceError, match=r"--nodes nodes\.csv --target label.*--task links"):
        inc.data.load(folder / "inc.csv")
    with pytest.raises(IncidenceError, match=r"no option `folds`: it takes nodes"):
        inc.data.load(folder / "inc.csv", nodes=folder / "nodes.csv", folds=3)
    (folder / "empty.txt").write_text("# nothing\n")
    with pytest.raises(IncidenceError, match="has no hyperedge"):
        lines_as_table(folder / "empty.txt")


def test_incidences_that_come_again_or_lack_a_name_are_skipped(tmp_path):
    csv(tmp_path / "inc.csv", "node,hyperedge", [*zip("aabc", "xxxy", strict=True), ("", "x")])
    csv(tmp_path / "nodes.csv", "id,y", [("a", 1.5), ("b", 2.5), ("c", 0.5)])
    with pytest.warns(UserWarning, match="skipped 2 rows"):
        data = inc.data.load(tmp_path / "inc.csv", "y", nodes=tmp_path / "nodes.csv")
    assert "is there already" in data.passed_over[0]
    assert data.examples[0].features["{i ...}"][:, 1].tolist() == [2.0, 1.0]
    csv(tmp_path / "nodes.csv", "id,y", [("a", 1.5), ("a", 2.5)])
    with pytest.raises(IncidenceError, match="'a' has two rows"):
        inc.data.load(tmp_path / "inc.csv", "y", nodes=tmp_path / "nodes.csv")


def test_tables_of_edges_are_no_hypergraph():
    table = TextTable("t", {"source": ["a"], "target": ["b"]}, ["line 2"])
    assert find_hypergraph({"edges": table}) is None


@pytest.mark.filterwarnings("ignore:.*hyperedges have the nodes of another one")
def test_a_model_predicts_hyperedges_of_a_new_file_by_name(folder, tmp_path):
    options = {"epochs": 1, "hidden": 4, "depth": 1, "out": str(tmp_path / "run")}
    inc.train.train(options, inc.data.load(folder / "h.hif.json", "kind"))
    [found] = inc.load(tmp_path / "run").predict(folder / "h.hif.json")
    assert found.nodes == list(SETS)
    expected = torch.ones(4)
    torch.testing.assert_close(torch.tensor(found.rows).sum(1), expected)


@pytest.mark.parametrize("file", ["inc.csv", "h.hif.json"])
def test_hyperedges_of_tables_and_hif_files_are_links(file, folder):
    data = inc.data.load(folder / file, task="links")
    facts = [data.columns["nodes"][k] for k in range(len(data.completion.is_fact))]
    known = {frozenset(facts[k].split()) for k in data.completion.is_fact.nonzero()[:, 0].tolist()}
    assert known == {frozenset("abc"), frozenset("cd"), frozenset("be")}
    assert data.task.at == "query={i ...}"
