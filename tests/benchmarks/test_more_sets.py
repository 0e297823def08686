"""Labels of molecules, ZINC, hypergraphs with features, random graphs with communities."""

import gzip
import json

import numpy as np
import pytest
import torch

from benchmarks.sets import load
from benchmarks.sets.universe import SETTINGS
from incidence.data.dataset_checks import checked
from incidence.errors import IncidenceError
from tests.data_folder import data_folder


@pytest.mark.parametrize(
    ("name", "parts", "labels", "positives"),
    [
        ("bbbp", [1631, 204, 204], 1, [1560]),
        ("clintox", [1184, 148, 148], 2, [1386, 112]),
    ],
)
def test_labels_of_molecules_have_the_published_parts(name, parts, labels, positives):
    pytest.importorskip("rdkit")
    data = load(name, data_folder("moleculenet_classification"))
    checked(data)
    assert [len(part) for part in data.splits[0]] == parts
    assert len(data.task.names) == labels
    assert torch.stack([e.target for e in data.examples]).sum(0).tolist() == positives


def test_rows_that_rdkit_refuses_are_left_out_and_the_parts_follow(tmp_path):
    pytest.importorskip("rdkit")
    table = "smiles,y\nCCO,1\nnonsense,0\nCCN,0\nCCC,1\n"
    (tmp_path / "bbbp.csv.gz").write_bytes(gzip.compress(table.encode()))
    rows = {
        part: np.array(own, np.int32)
        for part, own in {"train": [0, 1], "valid": [2], "test": [3]}.items()
    }
    np.savez(tmp_path / "bbbp_scaffold.npz", **rows)
    data = load("bbbp", tmp_path)
    assert [part.tolist() for part in data.splits[0]] == [[0], [1], [2]]
    assert [float(e.target) for e in data.examples] == [1, 0, 1]


def test_a_label_that_is_no_number_is_refused(tmp_path):
    pytest.importorskip("rdkit")
    (tmp_path / "bbbp.csv.gz").write_bytes(gzip.compress(b"smiles,y\nCCO,yes\n"))
    none = np.zeros(0, np.int32)
    np.savez(tmp_path / "bbbp_scaffold.npz", train=none, valid=none, test=none)
    with pytest.raises(IncidenceError, match="has no label"):
        load("bbbp", tmp_path)


def test_zinc_has_its_counts_and_floor():
    data = load("zinc", data_folder("zinc12k"))
    assert [len(part) for part in data.splits[0]] == [10_000, 1000, 1000]
    assert sum(e.structure.total_nodes for e in data.examples) == 277_864
    assert sum(e.structure.num_entries("{i j}") for e in data.examples) == 298_985
    y = torch.stack([e.target for e in data.examples])[:, 0]
    floor = (y[11_000:] - y[:10_000].median()).abs().mean()
    assert float(floor) == pytest.approx(1.547, abs=5e-4)


@pytest.mark.parametrize(
    ("name", "nodes", "hyperedges", "channels"),
    [("house", 1290, 336, 2), ("mushroom", 8124, 293, 117), ("20news", 16242, 100, 100)],
)
def test_hypergraphs_of_nodes_have_the_published_counts(name, nodes, hyperedges, channels):
    data = load(name, data_folder("hypergraph_nodes"))
    checked(data)
    [example] = data.examples
    assert example.structure.total_nodes == nodes
    assert example.structure.num_entries("{i ...}") == hyperedges
    assert example.features["i"].shape == (nodes, channels)
    assert [len(part) for part in data.splits[0]] == [
        nodes // 2,
        nodes // 4,
        nodes - nodes // 2 - nodes // 4,
    ]
    assert sorted(torch.cat(list(data.splits[9])).tolist()) == list(range(nodes))


def test_words_of_the_news_are_the_hyperedges_of_the_news():
    [example] = load("20news", data_folder("hypergraph_nodes")).examples
    nodes, numbers = example.structure["{i ...}"]
    incidence = torch.zeros(16242, 100)
    incidence[nodes, numbers] = 1
    words = example.features["i"]
    same = (incidence.T @ words).amax(1) == incidence.sum(0)
    assert bool(same.all())  # ids are looked up: rows in order would scramble the hypergraph


def test_members_of_the_house_have_noisy_labels_or_ones():
    folder = data_folder("hypergraph_nodes")
    [noisy] = load("house", folder).examples
    error = noisy.features["i"] - torch.nn.functional.one_hot(noisy.target["i"], 2)
    assert float(error.std()) == pytest.approx(1.0, abs=0.05)
    [plain] = load("house", folder, noise=0.0).examples
    assert bool((plain.features["i"] == 1).all())


@pytest.mark.parametrize(
    ("name", "count", "classes"),
    [("stream-player", 2048, [1024, 1024]), ("rhg-3", 1500, [503, 499, 498])],
)
def test_whole_hypergraphs_have_the_published_counts(name, count, classes):
    data = load(name, data_folder("hypergraph_classification"))
    assert len(data.examples) == count
    targets = torch.stack([e.target for e in data.examples])
    assert sorted(torch.bincount(targets).tolist()) == sorted(classes)
    assert data.splits[1].test.tolist() == list(range(1, count, 5))


def test_a_file_of_hypergraphs_that_ends_early_is_refused(tmp_path):
    (tmp_path / "RHG_3.txt.gz").write_bytes(gzip.compress(b"2\n2 1 0\n0 0\n0 1\n"))
    with pytest.raises(IncidenceError, match="it has fewer lines than it says"):
        load("rhg-3", tmp_path)


# ---- random graphs with communities


def universe(folder, triangles=(0.0, 1.0), total=1):
    """Write two graphs for each of 1000, a path and a triangle, in place of what is generated."""
    grid = {"settings": {name: {"test_triangles_total": total} for name in SETTINGS}}
    (folder / "grid.json").write_text(json.dumps(grid))
    edges = [np.array([[0, 1], [1, 2]]), np.array([[0, 0, 1], [1, 2, 2]])] * 500
    np.savez(
        folder / f"{SETTINGS[0]}.npz",
        sizes=np.full(1000, 3),
        num_edges=np.array([own.shape[1] for own in edges]),
        edges=np.concatenate(edges, axis=1),
        x=np.zeros((3000, 15), np.float32),
        communities=np.arange(3000) % 20,
        triangles=np.array(triangles * 500),
    )


def test_random_graphs_have_the_parts_of_the_challenge(tmp_path, monkeypatch):
    monkeypatch.setenv("INCIDENCE_GENERATED", str(tmp_path))
    order = np.random.RandomState(42).permutation(1000)
    universe(tmp_path, total=int((order[850:] % 2).sum()))
    data = load("universe", tmp_path, setting=SETTINGS[0])
    assert [part.tolist() for part in data.splits[0]] == [
        order[:700].tolist(),
        order[700:850].tolist(),
        order[850:].tolist(),
    ]
    assert [float(e.target) for e in data.examples[:4]] == [0, 1, 0, 1]
    assert data.examples[1].structure["{i j}"].tolist() == [[0, 0, 1], [1, 2, 2]]
    nodes = load("universe", tmp_path, setting=SETTINGS[0], target="communities")
    assert nodes.examples[7].target["i"].tolist() == [1, 2, 3]


def test_graphs_without_the_published_number_of_triangles_are_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("INCIDENCE_GENERATED", str(tmp_path))
    universe(tmp_path, total=3)
    with pytest.raises(IncidenceError, match="triangles, and not the published number"):
        load("universe", tmp_path, setting=SETTINGS[0])
