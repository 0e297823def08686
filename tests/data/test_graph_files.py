"""Files of graphs: what is read, and what is said about files that are missing or damaged."""

import gzip

import networkx as nx
import numpy as np
import pytest
import torch

from incidence.data import load, reader
from incidence.data.graphs.graph6 import read_graph6
from incidence.data.graphs.neighbour_lists import read_neighbour_lists
from incidence.errors import IncidenceError

TRIANGLE = "1\n3 0\n0 2 1 2\n0 2 0 2\n1 2 0 1\n"


def read(path, errors=None, **options):
    return list(reader("graph").read(path, errors, **options))


def write(folder, name, text):
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
    return path


# ---- graph6


@pytest.mark.parametrize("n", [0, 1, 2, 3, 7, 30, 62, 63, 64, 100])
def test_graph6_is_read_as_networkx_does(n):
    graph = nx.gnp_random_graph(n, 0.3, seed=n)
    for line in (nx.to_graph6_bytes(graph), nx.to_graph6_bytes(graph, header=False).decode()):
        count, edges = read_graph6(line)
        assert count == n
        assert sorted(map(tuple, edges.T.tolist())) == sorted(tuple(sorted(edge)) for edge in graph.edges)


@pytest.mark.parametrize(
    ("line", "problem"),
    [("", "the characters"), ("B w", "the characters"), ("B", "characters, which"), ("Bww", "3 nodes"), ("~?", "nodes take")],
)
def test_what_is_not_graph6_is_refused(line, problem):
    with pytest.raises(IncidenceError, match=problem):
        read_graph6(line)


# ---- lists of neighbours


def test_neighbour_lists_are_read(tmp_path):
    lists = read_neighbour_lists(write(tmp_path, "x.txt", "2\n1 5\n3 0\n" + TRIANGLE[2:]))
    assert lists.sizes.tolist() == [1, 3]
    assert lists.classes.tolist() == [5, 0]
    assert lists.labels.tolist() == [3, 0, 0, 1]
    assert lists.edges.T.tolist() == [[1, 2], [1, 3], [2, 3]]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "as many graphs"),
        ("2\n1 0\n0 0\n", "as many graphs"),
        ("1\n1 0\n0 0\n7\n", "as many graphs"),
        ("1\n2 0\n0 1 2\n0 1 0\n", "no node of its graph"),
        ("1\n2 0\n0 1 1\n0 0\n", "one direction"),
        ("1\n1 0\n0 1 0\n", "loops"),
        ("1\n1 x\n0 0\n", "invalid literal"),
    ],
)
def test_damaged_neighbour_lists_are_refused(tmp_path, text, problem):
    with pytest.raises(IncidenceError, match=rf"x\.txt is damaged.*{problem}.*fetch it again"):
        read_neighbour_lists(write(tmp_path, "x.txt", text))


# ---- data sets by name


@pytest.mark.parametrize("name", ["mutag", "csl", "exp", "sr", "brec", "counting", "cora-cocitation"])
def test_a_data_set_needs_its_folder(name, tmp_path):
    with pytest.raises(IncidenceError, match="with --folder"):
        load(name)
    with pytest.raises(IncidenceError, match=r"needs the file .* which is not there"):
        load(name, tmp_path)


def test_unknown_choices_are_refused(tmp_path):
    with pytest.raises(IncidenceError, match=r"family of the data set 'sr' is one of sr16622, .*; got 'sr1'"):
        load("sr", tmp_path, family="sr1")
    with pytest.raises(IncidenceError, match="group of the data set 'brec'"):
        load("brec", tmp_path, group="hard")
    with pytest.raises(IncidenceError, match="target of the data set 'counting'"):
        load("counting", tmp_path, target="square")


def mutag(folder, text="2\n1 0\n0 0\n1 2\n1 0\n", train="0\n", test="1\n"):
    write(folder, "tu_graphs/MUTAG/MUTAG.txt.gz", text)
    for k in range(1, 11):
        write(folder, f"tu_graphs/MUTAG/10fold_idx/train_idx-{k}.txt", train)
        write(folder, f"tu_graphs/MUTAG/10fold_idx/test_idx-{k}.txt", test)
    return folder


def test_classes_are_renumbered(tmp_path):
    data = load("mutag", mutag(tmp_path))
    assert [int(example.target) for example in data.examples] == [0, 1]
    assert data.examples[0].features["{i j}"].shape == (0, 1)


def test_damaged_sets_are_refused(tmp_path):
    with pytest.raises(IncidenceError, match="it has 1 classes, not 2"):
        load("mutag", mutag(tmp_path, "1\n1 0\n0 0\n"))
    with pytest.raises(IncidenceError, match=r"train_idx-1.txt is damaged \(examples are numbered from 0 to 1\)"):
        load("mutag", mutag(tmp_path, train="7\n"))
    (tmp_path / "tu_graphs/MUTAG/MUTAG.txt.gz").write_bytes(b"no gzip")
    with pytest.raises(IncidenceError, match=r"MUTAG.txt.gz is damaged"):
        load("mutag", tmp_path)
    (mutag(tmp_path) / "tu_graphs/MUTAG/10fold_idx/train_idx-1.txt").unlink()
    with pytest.raises(IncidenceError, match=r"train_idx-1.txt, which is not there"):
        load("mutag", tmp_path)


def test_damaged_hard_sets_are_refused(tmp_path):
    np.savez(tmp_path / "csl.npz", edges=np.zeros((2, 1, 2), dtype=np.int8), labels=np.zeros(3, dtype=np.int8))
    with pytest.raises(IncidenceError, match="edges and labels do not fit"):
        load("csl", tmp_path)
    np.savez(tmp_path / "csl.npz", edges=np.array([[[0, 1]]], dtype=np.int8), labels=np.zeros(1, dtype=np.int8))
    write(tmp_path, "CSL_train.txt", "0\n")
    with pytest.raises(IncidenceError, match="it has 1 lines, not one for each of the 5 folds"):
        load("csl", tmp_path)
    write(tmp_path, "CSL_train.txt", "0\n0\n0\n0\n0,x\n")
    with pytest.raises(IncidenceError, match=r"CSL_train.txt is damaged"):
        load("csl", tmp_path)
    np.savez(tmp_path / "csl.npz", other=np.zeros(1))
    with pytest.raises(IncidenceError, match=r"csl.npz is damaged"):
        load("csl", tmp_path)
    write(tmp_path, "sr16622.g6", "O~\n")
    with pytest.raises(IncidenceError, match=r"sr16622.g6 is damaged \(this graph6 line"):
        load("sr", tmp_path)
    np.save(tmp_path / "basic.npy", np.zeros(2))
    with pytest.raises(IncidenceError, match="no pairs of graph6"):
        load("brec", tmp_path)
    np.save(tmp_path / "basic.npy", np.array([{}], dtype=object))
    with pytest.raises(IncidenceError, match=r"basic.npy is damaged"):  # pickles are never loaded
        load("brec", tmp_path)
    np.savez(
        tmp_path / "dataset1_er.npz",
        node_ptr=np.array([0, 2]),
        edge_ptr=np.array([0, 5]),
        edges=np.array([[0, 1]]),
        label_triangle=np.zeros(1),
    )
    with pytest.raises(IncidenceError, match="arrays do not fit"):
        load("counting", tmp_path)


# ---- lists of edges


def test_a_list_of_edges_is_a_graph(tmp_path):
    [(name, example, nodes)] = read(write(tmp_path, "a.edges", "# a path\n10 2 0.5\n\n2 7 1.5 # the second\n7 2 1.5\n"))
    assert nodes == ("2", "7", "10")
    assert name == "a.edges"
    assert example.structure["{i j}"].T.tolist() == [[0, 1], [0, 2]]  # nodes 2, 7, 10
    assert example.features["{i j}"].tolist() == [[1.5], [0.5]]
    assert torch.allclose(example.features["i"][:, 0], torch.tensor([2.0, 1.0, 1.0]).log1p())


def test_names_commas_and_headers_are_understood(tmp_path):
    [(_, example, _)] = read(write(tmp_path, "a.csv", "ann,bob\nbob,carl\n"))
    assert example.structure["{i j}"].T.tolist() == [[0, 1], [1, 2]]
    [(_, example, _)] = read(write(tmp_path, "b.csv", "source,target,weight\n0,1,2\n"), degrees=False)
    assert example.structure.num_nodes == 2
    assert example.features["i"].tolist() == [[1.0], [1.0]]
    assert example.features["{i j}"].tolist() == [[2.0]]


def test_nodes_have_labels_and_features_from_the_file_beside(tmp_path):
    path = write(tmp_path, "a.edges", "u v\n")
    write(tmp_path, "a.nodes", "w 3 0.5\nv 1 0.25\nu 3 0\n")
    [(_, example, _)] = read(path, labels=[1, 3])
    assert example.structure.num_nodes == 3
    assert example.structure["{i j}"].T.tolist() == [[1, 2]]
    assert example.features["i"][:, :4].tolist() == [
        [0, 1, 0.5, 0],
        [1, 0, 0.25, pytest.approx(np.log(2))],
        [0, 1, 0, pytest.approx(np.log(2))],
    ]
    [(_, plain, _)] = read(path, degrees=False)
    assert plain.features["i"].tolist() == [[3, 0.5], [1, 0.25], [3, 0]]


def test_a_graph_without_edges_is_its_nodes(tmp_path):
    path = write(tmp_path, "a.edges", "")
    write(tmp_path, "a.nodes", "u\nv\n")
    [(_, example, _)] = read(path)
    assert example.structure.num_nodes == 2
    assert example.features["i"].tolist() == [[0, 1], [0, 1]]
    assert example.features["{i j}"].shape == (0, 1)


def test_the_reader_makes_the_features_of_the_tu_sets(tmp_path):
    data = load("mutag", mutag(tmp_path, "2\n3 0\n0 2 1 2\n0 2 0 2\n1 2 0 1\n1 1\n0 0\n"))
    path = write(tmp_path, "a.edges", "0 1\n1 2\n2 0\n")
    write(tmp_path, "a.nodes", "0 0\n1 0\n2 1\n")
    [(_, example, _)] = read(path, **data.reader_options)
    assert example == data.examples[0].replace(target=None)


@pytest.mark.parametrize(
    ("edges", "nodes", "options", "problem"),
    [
        ("0\n", None, {}, r"a.edges, line 1: an edge has two nodes"),
        ("0 1\n1 1\n", None, {}, r"line 2: the edge joins 1 to itself"),
        ("0 1 2\n1 2\n", None, {}, r"line 2: there are 0 features, and the first line has 1"),
        ("0 1 x\n", None, {}, r"line 1: a feature is a finite number; got 'x'"),
        ("0 1 nan\n", None, {}, "finite number; got 'nan'"),
        ("0 1\n0 1\n", None, {}, r"a.edges: the edge \(0, 1\) comes more than once"),
        ("0 1 2\n1 0 3\n", None, {}, "differs from that"),
        ("0 1\n", None, {"labels": 2}, "so a file a.nodes beside it must have a line"),
        ("0 1\n", "0\n", {}, "the node 1 has no line in a.nodes"),
        ("0 1\n", "0\n1\n0\n", {}, "line 3: the node 0 has a line already"),
        ("0 1\n", "0 0.5\n1 0\n", {"labels": 2}, "its label, an integer"),
        ("0 1\n", "0\n1\n", {"labels": 2}, "its label, an integer"),
        ("0 1\n", "0 0\n1 2\n", {"labels": 2}, "a.nodes: the node label 2 is not one of 0, 1"),
    ],
)
def test_wrong_lists_of_edges_are_refused(tmp_path, edges, nodes, options, problem):
    path = write(tmp_path, "a.edges", edges)
    if nodes is not None:
        write(tmp_path, "a.nodes", nodes)
    with pytest.raises(IncidenceError, match=problem):
        read(path, **options)


def test_a_file_that_is_no_text_is_named(tmp_path):
    (tmp_path / "a.txt").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(IncidenceError, match=r"a.txt cannot be read as text"):
        read(tmp_path / "a.txt")


def test_every_line_of_graph6_is_a_graph_and_bad_ones_are_passed_over(tmp_path):
    path = write(tmp_path, "a.g6", "Bw\nB\nA_\n")
    errors = []
    assert [(name, example.structure.num_nodes) for name, example, _ in read(path, errors)] == [("a.g6 1", 3), ("a.g6 3", 2)]
    assert "a.g6, line 2" in str(errors[0])
    with pytest.raises(IncidenceError, match=r"a.g6, line 2: this graph6 line"):
        read(path)
    with pytest.raises(IncidenceError, match="graph6 has no node labels"):
        read(path, labels=2)
