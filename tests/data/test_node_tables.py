"""One graph from tables, data frames and arrays: nodes with labels, some of them unknown, and what
is passed over.
"""

import zipfile
from dataclasses import asdict

import numpy as np
import pytest
import torch

from incidence.data import load
from incidence.data.feature_columns import Column, as_features, columns_of
from incidence.data.node_tables import GraphColumns, record_of_graph
from incidence.data.table_kinds import read_any
from incidence.data.tables import TextTable
from incidence.errors import IncidenceError, TooLargeError
from tests.little_memory import little_memory

NODES = "id,size,colour,topic,split\na,1,red,x,train\nb,2,blue,y,test\nc,4,red,,\nd,8,,x,train\n"
EDGES = "source,target\na,b\nb,c\nc,b\n"


def write(folder, **texts):
    for name, text in texts.items():
        (folder / f"{name}.csv").write_text(text)
    return folder


def test_a_graph_with_labels_is_read_from_two_tables(tmp_path):
    write(tmp_path, edges=EDGES, nodes=NODES)
    data = load(tmp_path / "edges.csv", "topic", nodes=tmp_path / "nodes.csv")
    [example] = data.examples
    assert (data.task.kind, data.task.names, data.task.at, data.is_transductive) == (
        "classification",
        ("x", "y"),
        "i",
        True,
    )
    assert example.target["i"].tolist() == [0, 1, -1, 0]
    assert example.structure["{i j}"].T.tolist() == [[0, 1], [1, 2]]
    assert example.features["i"].tolist() == [[1, 0, 1], [2, 1, 0], [4, 0, 1], [8, 0, 0]]
    assert example.features["{i j}"].tolist() == [[1], [1]]
    assert [part.tolist() for part in data.split()] == [[0, 3], [], [1]]
    assert (data.names, data.columns) == (
        ["a", "b", "c", "d"],
        {"colour": ["red", "blue", "red", ""]},
    )
    assert data.others(data.split()).tolist() == [2]


def test_the_same_from_a_folder_and_from_frames(tmp_path):
    pandas = pytest.importorskip("pandas")
    write(tmp_path, edges=EDGES, nodes=NODES)
    data = load(tmp_path / "edges.csv", "topic", nodes=[str(tmp_path / "nodes.csv")])
    frames = {name: pandas.read_csv(tmp_path / f"{name}.csv") for name in ("nodes", "edges")}
    for other in (
        load(tmp_path, "topic"),
        load(frames, "topic"),
        load(frames["edges"], "topic", nodes=frames["nodes"]),
    ):
        assert other.examples[0] == data.examples[0]
        assert other.names == data.names


def test_edges_may_have_other_names_or_none_and_features_of_their_own(tmp_path):
    write(tmp_path, edges="7 3 0.5\n3 9 1.5\n", nodes="name,y\n3,0.5\n7,1.5\n9,2.5\n")
    data = load(tmp_path / "edges.csv", nodes=tmp_path / "nodes.csv")
    [example] = data.examples
    assert (data.task.kind, data.task.names) == ("regression", ("y",))
    assert example.structure["{i j}"].T.sort(1).values.tolist() == [[0, 1], [0, 2]]
    assert example.features["{i j}"].flatten().tolist() == [0.5, 1.5]
    # degrees, as nodes have no columns but the target
    assert example.features["i"].shape == (3, 2)
    (tmp_path / "graph.edges").write_text("7\t3\n9\t7\n")
    directed = load(tmp_path / "graph.edges", nodes=tmp_path / "nodes.csv", directed=True).examples[
        0
    ]
    assert sorted(directed.structure["(i j)"].T.tolist()) == [[1, 0], [2, 1]]


def test_edges_that_are_none_are_passed_over(tmp_path):
    write(tmp_path, edges="from,to\na,b\nb,b\na,b\nc,e\nb,c\nc,d\n", nodes=NODES)
    told = (
        r"(?s)3 .*line 3: the edge joins 'b' to itself.*line 4: the edge is there already, in line"
        r" 2.*'e'"
    )
    with pytest.warns(UserWarning, match=told):
        data = load(tmp_path / "edges.csv", "topic", nodes=tmp_path / "nodes.csv")
    assert data.examples[0].structure.num_entries("{i j}") == 3


@pytest.mark.parametrize(
    ("edges", "nodes", "options", "problem"),
    [
        ("a\nb\n", NODES, {}, "an edge has two nodes, and a row has one column only"),
        (
            EDGES,
            NODES + "a,1,red,x,train\n",
            {},
            r"nodes.csv, line 6: the node 'a' has a row already, in line 2",
        ),
        (
            "source,target\nq,b\na,r\nb,c\n",
            NODES,
            {},
            "2 of 3 edges do not fit the nodes, .*line 2: the edge has the node 'q'",
        ),
        (
            EDGES,
            NODES,
            {"colour": 1},
            "a graph from tables has no option `colour`: it takes nodes, directed",
        ),
        (
            EDGES,
            NODES.replace(",1,red", ",inf,red"),
            {},
            r"nodes.csv, line 2: the column `size` has a value that is not finite",
        ),
        ("source,target,w\na,b,1\nb,a,2\n", NODES, {}, "differs from that of"),
    ],
)
def test_tables_that_make_no_graph_are_refused(tmp_path, edges, nodes, options, problem):
    write(tmp_path, edges=edges, nodes=nodes)
    with pytest.raises(IncidenceError, match=problem):
        load(tmp_path / "edges.csv", "topic", nodes=tmp_path / "nodes.csv", **options)


def test_a_table_of_nodes_that_is_nowhere_is_named(tmp_path):
    write(tmp_path, edges=EDGES)
    with pytest.raises(IncidenceError, match=r"there is no file .*nowhere.csv of nodes"):
        load(tmp_path / "edges.csv", nodes=tmp_path / "nowhere.csv")


def test_columns_become_features_by_what_they_have():
    columns = {
        "n": ["1", "", "3", "nan"],
        "genres": ["Action|Comedy", "Comedy", "", "Action"],
        "title": ["Jaws", "Heat", "Up", "Alien"],
        "flag": ["yes", "no", "no", "yes"],
    }
    table = TextTable("a", columns, ["line 2"] * 4)
    read = columns_of(table, list(columns))
    assert as_features(table, read).tolist() == [
        [1, 1, 1, 0, 1],
        [2, 0, 1, 1, 0],
        [3, 0, 0, 1, 0],
        [2, 1, 0, 0, 1],
    ]
    assert [column.name for column in read] == ["n", "genres", "flag"]  # and no title


def test_another_table_is_read_by_the_words_and_means_of_the_first():
    first = TextTable(
        "a", {"n": ["1", "3", "2"] * 2, "colour": ["red", "blue", "red"] * 2}, ["line 2"] * 6
    )
    read = [Column.from_plain(asdict(column)) for column in columns_of(first, ["n", "colour"])]
    other = TextTable(
        "b",
        {"colour": ["green", "blue|red", ""], "more": ["x"] * 3, "n": ["", "7", "8"]},
        ["line 2"] * 3,
    )
    assert as_features(other, read).tolist() == [[2, 0, 0], [7, 1, 1], [8, 0, 0]]
    with pytest.raises(
        IncidenceError, match="b, line 2: the column `n` has a value that is no number"
    ):
        as_features(TextTable("b", {"n": ["many"], "colour": ["red"]}, ["line 2"]), read)
    with pytest.raises(IncidenceError, match="b has no column `colour`; it has: n"):
        as_features(TextTable("b", {"n": ["1"]}, ["line 2"]), read)


def test_numbers_of_columns_are_finite():
    with pytest.raises(
        IncidenceError, match="a, line 3: the column `n` has a value that is not finite"
    ):
        columns_of(TextTable("a", {"n": ["1", "inf"]}, ["line 2", "line 3"]), ["n"])


@pytest.mark.parametrize("told", [{}, {"nodes": [], "edges": [{}]}, {"nodes": 3, "edges": []}])
def test_what_was_kept_of_columns_may_be_damaged(told):
    with pytest.raises(
        IncidenceError, match="the description of the columns of nodes and edges is damaged"
    ):
        GraphColumns.from_plain(told)


def test_a_table_of_nodes_is_asked_for_where_columns_need_it(tmp_path):
    columns = load(write(tmp_path, edges=EDGES, nodes=NODES), "topic").reader_options["columns"]
    with pytest.raises(
        IncidenceError, match="nodes have the columns size, colour: give a table of nodes, too"
    ):
        record_of_graph({"columns": columns}, read_any(tmp_path / "edges.csv"), None, [])


def test_labels_of_arrays_may_be_several(tmp_path):
    data = load(arrays(tmp_path / "a.npz", node_labels=np.array([[0, 1], [1, 1], [0, 0]])))
    assert (data.task.kind, data.task.names, data.task.at) == (
        "multilabel",
        ("label 0", "label 1"),
        "i",
    )


def arrays(path, **changes):
    masks = np.array([[True, False, False], [False, True, False]])
    found = {
        "node_features": np.eye(3, dtype=np.float32),
        "node_labels": np.array([0, 1, 1]),
        "edges": np.array([[1, 0], [2, 1]]),
        "train_masks": masks,
        "val_masks": ~masks & [[False, False, True]],
        "test_masks": ~masks & [[True, True, False]],
        **changes,
    }
    np.savez(path, **{key: value for key, value in found.items() if value is not None})
    return path


def test_arrays_of_a_graph_with_masks_are_read(tmp_path):
    data = load(arrays(tmp_path / "a.npz"))
    [example] = data.examples
    assert (data.task.at, data.task.names, data.is_transductive) == (
        "i",
        ("class 0", "class 1"),
        True,
    )
    assert example.structure["{i j}"].T.sort(1).values.tolist() == [[0, 1], [1, 2]]
    assert torch.equal(example.features["i"], torch.eye(3))
    assert [[part.tolist() for part in split] for split in data.splits] == [
        [[0], [2], [1]],
        [[1], [2], [0]],
    ]
    named = {
        "x": np.ones((3, 2)),
        "y": np.array([0.5, 1.5, 2.5]),
        "edge_index": np.array([[0, 1, 2, 1], [1, 0, 1, 2]]),
    }
    np.savez(tmp_path / "b.npz", **named)
    data = load(tmp_path / "b.npz")
    assert (data.task.kind, data.examples[0].structure.num_entries("{i j}"), len(data.splits)) == (
        "regression",
        2,
        1,
    )


@pytest.mark.parametrize(
    ("changes", "options", "problem"),
    [
        (
            {"node_features": np.ones((2, 2))},
            {},
            "there are 3 labels of nodes and 2 rows of features",
        ),
        (
            {"edges": np.arange(9).reshape(3, 3)},
            {},
            r"an edge has two nodes, as in an array of shape \[edges, 2\]; got \[3, 3\]",
        ),
        (
            {"edges": np.array([[0, 5]])},
            {},
            "edges join nodes 0 to 2, as there are 3 labels; got 5",
        ),
        (
            {"train_masks": np.ones((2, 4), dtype=bool)},
            {},
            "masks have a row for each split and a column for each of 3 nodes",
        ),
        (
            {"node_labels": np.array([object()] * 3)},
            {},
            "is not a graph in arrays of numbers, or it is damaged",
        ),
        (
            {"node_labels": np.array(5)},
            {},
            (
                r"`node_labels` has 1 or 2 axes, of which one is for nodes or edges; got the shape"
                r" \[\]"
            ),
        ),
        (
            {"node_features": np.ones((3, 2), complex)},
            {},
            "`node_features` has whole or decimal numbers; got complex128",
        ),
        (
            {"node_labels": np.array(["a", "b", "c"])},
            {},
            "`node_labels` has whole or decimal numbers; got <U1",
        ),
        (
            {"edges": np.array([[0, 0.5]])},
            {},
            "`edges` joins nodes by their numbers, 0, 1, ...; got some that are not whole",
        ),
        (
            {"edges": np.array([[0, np.nan]])},
            {},
            "`edges` joins nodes by their numbers, 0, 1, ...; got some that are not whole",
        ),
        (
            {"edges": np.array([[0, -1]])},
            {},
            "edges join nodes 0 to 2, as there are 3 labels; got -1",
        ),
        (
            {"node_labels": np.array([0, 1, 10**12])},
            {},
            r"classes are the integers 0, 1, \.\.\. below 65,536; got 1e\+12",
        ),
        (
            {"node_labels": np.array([0, 1, 65536])},
            {},
            r"classes are the integers 0, 1, \.\.\. below 65,536; got 65536",
        ),
        ({}, {"target": "x"}, "has labels as an array: leave out `target`"),
        ({}, {"labels": 3}, "has labels as an array: leave out further options"),
    ],
)
def test_arrays_that_do_not_fit_are_refused(tmp_path, changes, options, problem):
    with pytest.raises(IncidenceError, match=problem):
        load(arrays(tmp_path / "a.npz", **changes), **options)


def test_one_number_for_each_node_is_a_column_and_any_type_of_numbers_is_read(tmp_path):
    others = {"node_labels": np.array([0, 1, 1], np.uint64), "edges": np.array([[1.0, 0], [2, 1]])}
    [example] = load(
        arrays(tmp_path / "a.npz", node_features=np.array([1, 2, 3], ">u2"), **others)
    ).examples
    assert example.features["i"].tolist() == [[1], [2], [3]]
    assert example.structure.num_entries("{i j}") == 2


def test_arrays_that_unpack_to_more_than_is_allowed_are_not_read(tmp_path, monkeypatch):
    many = np.zeros((1 << 20, 2), np.int8)
    np.savez_compressed(tmp_path / "a.npz", edges=many, labels=np.arange(3))
    monkeypatch.setenv("INCIDENCE_MAX_GB", "0.001")
    with (
        little_memory(),
        pytest.raises(TooLargeError, match=r"a\.npz, unpacked, would take at least 0\.00195 GB"),
    ):
        load(tmp_path / "a.npz")
    # enough for the bytes, not for the numbers that they become
    monkeypatch.setenv("INCIDENCE_MAX_GB", "0.01")
    with pytest.raises(TooLargeError, match=r"a\.npz, unpacked, would take at least 0\.0156 GB"):
        load(tmp_path / "a.npz")


def test_an_array_that_declares_more_than_it_has_is_refused(tmp_path):
    path = arrays(tmp_path / "a.npz")
    with zipfile.ZipFile(path) as archive:
        content = {name: archive.read(name) for name in archive.namelist()}
    assert b"(2, 2), }" in content["edges.npy"]
    content["edges.npy"] = content["edges.npy"].replace(
        b"(2, 2), }             ", b"(1000000000000000, 2)}"
    )
    with zipfile.ZipFile(path, "w") as archive:
        for name, raw in content.items():
            archive.writestr(name, raw)
    with (
        little_memory(),
        pytest.raises(IncidenceError, match=r"edges declares the shape \(1000000000000000, 2\)"),
    ):
        load(path)


def test_a_damaged_stream_is_told_in_a_sentence(tmp_path):
    path = tmp_path / "a.npz"
    np.savez_compressed(path, edges=np.arange(2000).reshape(1000, 2), labels=np.zeros(2000, int))
    raw = bytearray(path.read_bytes())
    raw[200:300] = bytes(100)
    path.write_bytes(raw)
    with pytest.raises(
        IncidenceError, match=r"a\.npz is not a graph in arrays of numbers, or it is damaged"
    ):
        load(path)


@pytest.mark.parametrize("largest", [10**11, 6 * 10**8, 2 * 10**6])
def test_few_edges_do_not_make_many_nodes(largest, tmp_path):
    np.savez(tmp_path / "a.npz", edges=np.array([[0, largest]]))
    with (
        little_memory(),
        pytest.raises(IncidenceError, match=f"1 edges have nodes up to number {largest:,}"),
    ):
        load(tmp_path / "a.npz", task="links")


def test_a_graph_of_pyg_with_masks_is_learned_within():
    pyg = pytest.importorskip("torch_geometric.data")
    masks = {
        f"{part}_mask": torch.arange(6) % 3 == k for k, part in enumerate(("train", "val", "test"))
    }
    graph = pyg.Data(
        x=torch.ones(6, 2),
        edge_index=torch.tensor([[0, 1, 2], [1, 2, 3]]),
        y=torch.tensor([0, 1, 0, 1, 0, 1]),
        **masks,
    )
    data = load(graph)
    assert (data.is_transductive, data.task.at) == (True, "i")
    assert [part.tolist() for part in data.split()] == [[0, 3], [1, 4], [2, 5]]
