"""Lists of edges and graph6: what is read, and what is said about files that are not right."""

import networkx as nx
import numpy as np
import pytest
import torch

from incidence.data import reader
from incidence.data.graphs import read_graph6
from incidence.errors import IncidenceError


def read(path, errors=None, **options):
    return list(reader("graph").read(path, errors, **options))


def write(folder, name, text):
    path = folder / name
    path.write_text(text)
    return path


# ---- graph6


@pytest.mark.parametrize("n", [0, 1, 2, 3, 7, 30, 62, 63, 64, 100])
def test_graph6_is_read_as_networkx_does(n):
    graph = nx.gnp_random_graph(n, 0.3, seed=n)
    for line in (nx.to_graph6_bytes(graph), nx.to_graph6_bytes(graph, header=False).decode()):
        count, edges = read_graph6(line)
        assert count == n
        assert sorted(map(tuple, edges.T.tolist())) == sorted(
            tuple(sorted(edge)) for edge in graph.edges
        )


@pytest.mark.parametrize("line", ["", "B w", "B!", "B", "Bww", "~?", "\xff"])
def test_what_is_not_graph6_is_refused(line):
    with pytest.raises(
        IncidenceError,
        match=(
            r"graph6 is a line of characters \? to ~, as many as its number of nodes takes; got b'"
        ),
    ):
        read_graph6(line)


# ---- lists of edges


def test_a_list_of_edges_is_a_graph(tmp_path):
    [(name, example, nodes, *_)] = read(
        write(tmp_path, "a.edges", "# a path\n10 2 0.5\n\n2 7 1.5 # the second\n7 2 1.5\n")
    )
    assert nodes == ("2", "7", "10")
    assert name == "a.edges"
    assert example.structure["{i j}"].T.tolist() == [[0, 1], [0, 2]]  # nodes 2, 7, 10
    assert example.features["{i j}"].tolist() == [[1.5], [0.5]]
    assert torch.allclose(example.features["i"][:, 0], torch.tensor([2.0, 1.0, 1.0]).log1p())


def test_names_commas_and_headers_are_understood(tmp_path):
    [(_, example, *_)] = read(write(tmp_path, "a.csv", "ann,bob\nbob,carl\n"))
    assert example.structure["{i j}"].T.tolist() == [[0, 1], [1, 2]]
    [(_, example, *_)] = read(
        write(tmp_path, "b.csv", "source,target,weight\n0,1,2\n"), degrees=False
    )
    assert example.structure.num_nodes == 2
    assert example.features["i"].tolist() == [[1.0], [1.0]]
    assert example.features["{i j}"].tolist() == [[2.0]]


def test_nodes_have_labels_and_features_from_the_file_beside(tmp_path):
    path = write(tmp_path, "a.edges", "u v\n")
    write(tmp_path, "a.nodes", "w 3 0.5\nv 1 0.25\nu 3 0\n")
    [(_, example, *_)] = read(path, labels=[1, 3])
    assert example.structure.num_nodes == 3
    assert example.structure["{i j}"].T.tolist() == [[1, 2]]
    assert example.features["i"][:, :4].tolist() == [
        [0, 1, 0.5, 0],
        [1, 0, 0.25, pytest.approx(np.log(2))],
        [0, 1, 0, pytest.approx(np.log(2))],
    ]
    [(_, plain, *_)] = read(path, degrees=False)
    assert plain.features["i"].tolist() == [[3, 0.5], [1, 0.25], [3, 0]]


def test_a_graph_without_edges_is_its_nodes(tmp_path):
    path = write(tmp_path, "a.edges", "")
    write(tmp_path, "a.nodes", "u\nv\n")
    [(_, example, *_)] = read(path)
    assert example.structure.num_nodes == 2
    assert example.features["i"].tolist() == [[0, 1], [0, 1]]
    assert example.features["{i j}"].shape == (0, 1)


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
        ("0 1\n", None, {"labels": 2}, "so there must be a file a.nodes beside it, with a line"),
        ("0 1\n", "0\n", {}, "the node 1 has no line in a.nodes"),
        ("0 1\n", "0\n1\n0\n", {}, "line 3: the node 0 has a line already"),
        (
            "0 1\n",
            None,
            {"labels": 10**12},
            "labels is the number of node labels, from 0 to 65,536; got 1000000000000",
        ),
        (
            "0 1\n",
            None,
            {"labels": -1},
            "labels is the number of node labels, from 0 to 65,536; got -1",
        ),
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
    assert [(name, example.structure.num_nodes) for name, example, *_ in read(path, errors)] == [
        ("a.g6 1", 3),
        ("a.g6 3", 2),
    ]
    assert "a.g6, line 2" in str(errors[0])
    with pytest.raises(IncidenceError, match=r"a.g6, line 2: graph6 is a line"):
        read(path)
    with pytest.raises(IncidenceError, match="graph6 has no node labels"):
        read(path, labels=2)


def test_a_number_of_thousands_of_digits_is_a_name(tmp_path):
    nodes = ["9" * 5000, "8" * 5000, "7"]
    [(_, example, names, *_)] = read(
        write(tmp_path, "a.edges", f"{nodes[0]} {nodes[1]}\n{nodes[1]} {nodes[2]}\n")
    )
    assert names == tuple(nodes)
    assert example.structure["{i j}"].T.tolist() == [[0, 1], [1, 2]]
