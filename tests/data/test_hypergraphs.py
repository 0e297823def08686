"""Hypergraphs from tables, lines and HIF files, with labels of nodes, hyperedges and wholes."""

from __future__ import annotations

import json

import pandas as pd
import pytest
import torch

import incidence as inc
from incidence.data.hypergraph_tables import find_hypergraph, lines_as_table
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
    with pytest.warns(UserWarning, match=r"1 of 4 hyperedges .* are merged.*duplicates='keep'"):
        merged = inc.data.load(folder / "inc.csv", nodes=nodes).examples[0]
    assert merged.structure.num_entries("{i ...}") == 3
    assert merged.features["{i ...}"].tolist() == [[2.0, 3.0], [1.0, 2.0], [1.0, 2.0]]
    with pytest.warns(UserWarning, match=r"stay apart.*duplicates='merge'"):
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
    with pytest.raises(IncidenceError, match=r"many hypergraphs\. Give a table.*`tables="):
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


def hif(path, sets, metadata=None, **nodes):
    """Write a HIF file; `nodes` are the attributes of all nodes, a list each."""
    names = sorted({node for one in sets for node in one})
    content = {
        "incidences": [
            {"node": node, "edge": str(k)} for k, one in enumerate(sets) for node in one
        ],
        "nodes": [
            {"node": name, "attrs": {key: some[k] for key, some in nodes.items()}}
            for k, name in enumerate(names)
        ],
        "metadata": metadata or {},
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content))
    return path


@pytest.mark.parametrize("where", ["metadata", "attrs"])
def test_the_metadata_of_hif_files_has_targets_of_the_whole(where, tmp_path):
    for k in range(6):
        words = {"label": "ab"[k % 2], "size": k, "pattern": "{i ...}"}
        metadata = words if where == "metadata" else {"attrs": words}
        hif(tmp_path / f"{k}.hif.json", ["xyz"[: 2 + k % 2], "yz"], metadata)
    data = inc.data.load(tmp_path, "label")
    assert [data.task.names[int(one.target)] for one in data.examples] == [*"ababab"]
    assert data.names[0] == "0.hif.json"
    assert data.columns == {"size": [*"012345"]}
    numbers = inc.data.load(tmp_path, "size")
    assert [float(one.target) for one in numbers.examples] == [0, 1, 2, 3, 4, 5]
    with pytest.raises(IncidenceError, match=r"no metadata `colour`; it has: label, size"):
        inc.data.load(tmp_path, "colour")
    with pytest.raises(IncidenceError, match=r"`label` is about the whole.*Give the folder"):
        inc.data.load(tmp_path / "0.hif.json", "label")


def test_folders_train_and_test_are_parts_of_hif_files(tmp_path):
    for part, count in (("train", 4), ("test", 2)):
        for k in range(count):
            hif(tmp_path / part / f"{k}.hif", ["abc", "cd"], {"y": 1.5 * k})
    data = inc.data.load(tmp_path, "y")
    [split] = data.splits
    assert (len(split.train), len(split.test)) == (4, 2)


def test_hif_files_without_metadata_say_where_the_label_goes(tmp_path):
    hif(tmp_path / "a.hif", ["ab"])
    with pytest.raises(IncidenceError, match=r"`metadata` of each file, as \{\"label\": \"a\"\}"):
        inc.data.load(tmp_path, "label")


def test_all_files_of_a_folder_are_read_with_the_same_columns(tmp_path):
    """Words and numbers of one file alone would get other features than those of all files."""
    hif(tmp_path / "0.hif", ["abc"], {"y": 0.5}, colour=["red", "red", "blue"], age=[1, 2, 3])
    hif(tmp_path / "1.hif", ["abc"], {"y": 1.5}, colour=["blue", "blue", "blue"], age=[4, 5, 6])
    hif(tmp_path / "2.hif", ["abc"], {"y": 1.0}, colour=["red", "blue", "red"])
    first, second, third = inc.data.load(tmp_path, "y").examples
    assert {x.features["i"].shape[1] for x in (first, second, third)} == {3}
    assert first.features["i"][2].tolist() == [1.0, 0.0, 3.0]
    assert second.features["i"][0].tolist() == [1.0, 0.0, 4.0]
    assert third.features["i"][0].tolist() == [0.0, 1.0, 3.5]


def test_weights_in_one_file_of_a_folder_make_all_of_them_pairs(tmp_path):
    hif(tmp_path / "0.hif", ["abc"], {"y": 0.5})
    content = json.loads((tmp_path / "0.hif").read_text())
    assert inc.data.load(tmp_path, "y").examples[0].structure.num_entries("{i ...}") == 1
    content["incidences"][0]["weight"] = 2.5
    (tmp_path / "1.hif").write_text(json.dumps(content))
    first, second = (one.features["i e:edge"] for one in inc.data.load(tmp_path, "y").examples)
    assert first[:, 0].tolist() == [1.0, 1.0, 1.0]
    assert second[:, 0].tolist() == [2.5, 1.0, 1.0]
    (tmp_path / "1.hif").unlink()
    kept = inc.data.load(tmp_path, "y", duplicates="keep")
    assert kept.examples[0].structure.counts == {"edge": 1, "node": 3}


def test_lists_of_numbers_are_columns_and_other_lists_are_left_out_with_a_sentence(tmp_path):
    columns = {"place": [[0.5, 1], [1, 2], [2, 4]], "tags": [["x"], [], ["y", "z"]]}
    labels = ["a", "b", "a"]
    for k in range(2):
        hif(tmp_path / f"{k}.hif", ["abc"], {"y": k}, label=labels, **columns)
    said = r"the attribute `tags` of nodes has lists or objects, and is left out"
    with pytest.warns(UserWarning, match=rf"0\.hif: {said}"):
        data = inc.data.load(tmp_path, "y")
    assert data.examples[0].features["i"][:, 2:].tolist() == [[0.5, 1], [1, 2], [2, 4]]
    with pytest.warns(UserWarning, match=said):
        alone = inc.data.load(tmp_path / "0.hif", "label")
    assert "`tags` of nodes" in alone.about
    assert alone.examples[0].features["i"].tolist() == [[0.5, 1], [1, 2], [2, 4]]


def test_a_model_of_whole_hypergraphs_predicts_a_new_file(tmp_path):
    for k in range(8):
        path = tmp_path / "data" / f"{k}.hif.json"
        hif(path, ["xyz"[: 2 + k % 2]], {"label": "ab"[k % 2]}, age=[1.0, 2.0, k][: 2 + k % 2])
    options = {"data": str(tmp_path / "data"), "target": "label", "epochs": 1, "hidden": 4}
    inc.train.train({**options, "depth": 1, "out": str(tmp_path / "run")})
    model = inc.load(tmp_path / "run")
    [found] = model.predict(hif(tmp_path / "new.hif.json", ["pq", "qr"], age=[1, 2, 3]))
    assert [sum(row) for row in found.rows] == pytest.approx([1])
    with pytest.raises(IncidenceError, match="has no column `age`"):
        model.predict(hif(tmp_path / "bare.hif.json", ["pq", "qr"]))


def test_hypergraphs_without_labels_name_the_options(folder):
    with pytest.raises(IncidenceError, match=r"nodes='nodes\.csv'` `target='label'.*task='links'"):
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


@pytest.fixture(scope="module")
def labels_run(tmp_path_factory):
    """A model of labels of nodes, whose nodes have a column."""
    path = tmp_path_factory.mktemp("labels")
    (path / "sets.txt").write_text("a b c\nc d\nb e\n")
    rows = [("a", 1, "red"), ("b", 2, "blue"), ("c", 3, "red"), ("d", 4, "blue"), ("e", 5, "red")]
    csv(path / "nodes.csv", "id,size,label", rows)
    csv(path / "incidences.csv", "node,hyperedge", [*zip("abccdbe", "xxxyyzz", strict=True)])
    data = inc.data.load(path / "sets.txt", "label", nodes=path / "nodes.csv")
    inc.train.train({"epochs": 1, "hidden": 4, "depth": 1, "out": str(path / "run")}, data)
    return path


def rows_of(predictions):
    [found] = predictions
    return dict(zip(found.nodes, found.rows, strict=True))


def test_tables_lines_folders_and_frames_of_hypergraphs_are_predicted(labels_run):
    model, nodes = inc.load(labels_run / "run"), labels_run / "nodes.csv"
    expected = rows_of(model.predict(labels_run / "incidences.csv", nodes=nodes))
    assert set(expected) == set("abcde")
    frames = {name: pd.read_csv(labels_run / f"{name}.csv") for name in ("incidences", "nodes")}
    others = [
        model.predict(labels_run / "sets.txt", nodes=nodes),
        model.predict(labels_run / "sets.txt", nodes=frames["nodes"]),
        model.predict(labels_run),
        model.predict(frames),
        model.predict(frames["incidences"], nodes=frames["nodes"]),
    ]
    assert all(rows_of(one) == expected for one in others)
    assert frames["nodes"].set_index("id").label.to_dict() == dict(
        zip(others[0][0].nodes, others[0][0].columns["label"], strict=True)
    )


def test_a_hypergraph_without_the_columns_of_the_model_is_refused(labels_run):
    model = inc.load(labels_run / "run")
    message = r"columns `size` is missing, which the model reads.*or `nodes='nodes\.csv'`"
    with pytest.raises(IncidenceError, match=message):
        model.predict(labels_run / "incidences.csv")
    with pytest.raises(IncidenceError, match="a column `node` and a column `hyperedge`"):
        model.predict(labels_run / "nodes.csv")


def test_a_table_of_many_new_hypergraphs_is_predicted(tmp_path):
    rows = [(f"g{k}", node, "x") for k in range(8) for node in "abcd"[: 2 + k % 2]]
    csv(tmp_path / "incidences.csv", "hypergraph,node,hyperedge", rows)
    csv(tmp_path / "kinds.csv", "hypergraph,label", [(f"g{k}", "ab"[k % 2]) for k in range(8)])
    data = inc.data.load(tmp_path / "incidences.csv", "label", tables=tmp_path / "kinds.csv")
    inc.train.train({"epochs": 1, "hidden": 4, "depth": 1, "out": str(tmp_path / "run")}, data)
    found = inc.load(tmp_path / "run").predict(pd.read_csv(tmp_path / "incidences.csv"))
    assert found.names == [f"g{k}" for k in range(8)]
    torch.testing.assert_close(found.values[0], found.values[2])
    assert not torch.allclose(found.values[0], found.values[1])


def test_several_tables_of_incidences_need_a_usual_name(tmp_path):
    tables = {
        name: TextTable(name, {"node": ["a"], "hyperedge": ["x"]}, ["line 2"]) for name in "pq"
    }
    with pytest.raises(IncidenceError, match="the tables p, q have columns of nodes and hyper"):
        find_hypergraph(tables)
    named = {**tables, "incidences": tables["q"]}
    assert find_hypergraph(named).incidences.source == "q"


@pytest.mark.parametrize("file", ["inc.csv", "h.hif.json"])
def test_hyperedges_of_tables_and_hif_files_are_links(file, folder):
    data = inc.data.load(folder / file, task="links")
    facts = [data.columns["nodes"][k] for k in range(len(data.completion.is_fact))]
    known = {frozenset(facts[k].split()) for k in data.completion.is_fact.nonzero()[:, 0].tolist()}
    assert known == {frozenset("abc"), frozenset("cd"), frozenset("be")}
    assert data.task.at == "query={i ...}"
