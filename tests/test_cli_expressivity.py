"""`incidence expressivity MAP FILE...`: what it prints, in words and as JSON."""

import json
from pathlib import Path

import pytest

from incidence.cli import main

EDGES = "i, {i j} -> i, {i j}"


def run(capsys, *words):
    code = main(["expressivity", *words])
    out, err = capsys.readouterr()
    return code, out, err


@pytest.fixture
def two_graphs(tmp_path):
    """A hexagon and two triangles, in graph6."""
    import networkx as nx

    graphs = [nx.cycle_graph(6), nx.disjoint_union(nx.cycle_graph(3), nx.cycle_graph(3))]
    lines = [nx.to_graph6_bytes(graph, header=False) for graph in graphs]
    path = tmp_path / "two.g6"
    path.write_bytes(b"".join(lines))
    return str(path)


def test_a_pair_that_is_not_told_apart_gets_larger_architectures(two_graphs, capsys):
    code, out, _ = run(capsys, EDGES, two_graphs)
    assert code == 0
    assert "Structures 0 and 1 are not told apart, whatever the weights." in out
    assert "cliques of 3 nodes: yes" in out
    assert "Classes: 0 0" in out


def test_products_and_lifts_tell_it_apart_with_a_witness(two_graphs, capsys):
    words = ["i j -> i j", two_graphs, "--lift", "pairs", "--products", "i j, j k -> i k"]
    _, out, _ = run(capsys, *words)
    assert "Classes: 0 1" in out
    assert "  A: " in out


def test_classes_of_many_structures_are_listed_as_json_alone(two_graphs, tmp_path, capsys):
    path = tmp_path / "many.g6"
    path.write_bytes(Path(two_graphs).read_bytes() * 60)
    _, out, _ = run(capsys, EDGES, str(path))
    assert out.splitlines()[-1].split(" ")[:2] == ["Classes:", "0"]
    assert out.endswith(" 0 0 ... (120 structures; --json lists all)\n")
    assert out.splitlines()[-1].split(" ... ")[0].count(" 0") == 100
    _, out, _ = run(capsys, EDGES, str(path), "--json")
    assert len(json.loads(out)["classes"]) == 120


def test_json_has_everything(two_graphs, capsys):
    _, out, _ = run(capsys, EDGES, two_graphs, "--json")
    data = json.loads(out)
    assert data["classes"] == [0, 0]
    assert data["groups"] == [[0, 1]]
    assert data["is_exact"] is True
    assert len(data["colours"]["i"]) == 12
    assert data["rounds"] == 0


def test_features_of_files_count_unless_they_are_left_out(capsys):
    molecules = ["smiles:CCO", "smiles:CCN"]
    _, out, _ = run(capsys, EDGES, *molecules)
    assert "Classes: 0 1" in out
    assert "with the features (" in out
    _, out, _ = run(capsys, EDGES, *molecules, "--bare")
    assert "Classes: 0 0" in out


def test_named_objects_share_the_tensors_that_all_have(capsys):
    _, out, _ = run(capsys, EDGES, "cube", "cycle-6", "petersen", "--pair", "0", "2")
    assert "Structures 0 and 2 are told apart" in out


def test_what_is_no_structure_is_refused(capsys):
    code, _, err = run(capsys, EDGES, "{i j} -> i")
    assert code == 2
    assert "compares structures, and '{i j} -> i' is a map" in err
