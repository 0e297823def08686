"""Benchmark data, built with the counts that were published."""

import gzip
import json
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch

from incidence import geometry
from tests.data_folder import data_folder


@cache
def complexes(path: Path) -> list[dict]:
    with gzip.open(path, "rt") as lines:
        return [json.loads(line) for line in lines]


@pytest.mark.parametrize(
    ("dimension", "count"), [(2, 95), pytest.param(3, 316, marks=pytest.mark.slow), (4, 87)]
)
def test_triangulated_manifolds_have_their_counts_and_shape(dimension, count):
    cases = [
        case
        for case in complexes(data_folder("triangulated_manifolds") / "complexes.jsonl.gz")
        if case["dim"] == dimension
    ]
    assert len(cases) == count
    for case in cases:
        found = geometry.faces(geometry.simplicial_complex(case["facets"]))
        assert list(found.f_vector) == case["f_vector"], case["name"]
        assert found.euler == case["euler"], case["name"]
        assert found.is_closed, case["name"]
        assert found.is_pure, case["name"]
        assert found.is_manifold == case["is_manifold"], case["name"]
        # the homology of highest dimension of a connected pseudomanifold without boundary says
        # whether it is orientable
        assert found.is_orientable == (case["homology"][dimension][0] == 1), case["name"]


HYPERGRAPHS = {
    "cora_cocitation": (2708, 1579, 3.03, 5),
    "cora_coauthorship": (2708, 1072, 4.28, 43),
    "citeseer_cocitation": (3312, 1079, 3.20, 26),
}


@pytest.mark.parametrize("name", HYPERGRAPHS)
def test_citation_hypergraphs_have_their_published_counts(name):
    nodes, hyperedges, mean, largest = HYPERGRAPHS[name]
    with np.load(data_folder("citation_hypergraphs") / f"{name}.npz") as file:
        count, ptr, members = int(file["num_nodes"]), file["edge_ptr"], file["edge_nodes"]
    edge = np.repeat(np.arange(len(ptr) - 1), np.diff(ptr))
    found = geometry.hypergraph(np.stack([members, edge]), count, duplicates="keep")
    assert found.num_nodes == {"edge": hyperedges, "node": nodes}
    sizes = torch.bincount(found["{i ...} e:edge"][1][1])
    assert len(sizes) == hyperedges
    assert (round(float(sizes.double().mean()), 2), int(sizes.max())) == (mean, largest)


def test_equal_hyperedges_of_a_citation_hypergraph_are_refused_or_merged():
    with np.load(data_folder("citation_hypergraphs") / "cora_cocitation.npz") as file:
        lists = np.split(file["edge_nodes"], file["edge_ptr"][1:-1])
    with pytest.raises(ValueError, match=r"faces\[\d+\] and faces\[\d+\] have the same nodes"):
        geometry.hypergraph(lists, 2708)
    assert (
        geometry.hypergraph(lists, 2708, duplicates="merge").num_entries("{i ...}")
        == len({frozenset(e.tolist()) for e in lists})
        == 1483
    )


GRAPHS = {
    "MUTAG": (188, 17.93, 28, 19.79),
    "PTC": (344, 25.56, 109, 25.96),
    "PROTEINS": (1113, 39.06, 620, 72.82),
    "NCI1": (4110, 29.87, 111, 32.30),
    "IMDBBINARY": (1000, 19.77, 136, 96.53),
    "IMDBMULTI": (1500, 13.00, 89, 65.94),
}


def read_graphs(path: Path):
    """The number of nodes and the edges, both directions, of every graph."""
    with gzip.open(path, "rt") as lines:
        for _ in range(int(next(lines))):
            num_nodes = int(next(lines).split()[0])
            rows = [list(map(int, next(lines).split())) for _ in range(num_nodes)]
            yield (
                num_nodes,
                [
                    [v for v, row in enumerate(rows) for _ in row[2:]],
                    [u for row in rows for u in row[2:]],
                ],
            )


@pytest.mark.parametrize("name", GRAPHS)
def test_tu_graphs_have_their_published_counts(name):
    count, nodes, most, edges = GRAPHS[name]
    graphs = [
        geometry.graph(ends, n)
        for n, ends in read_graphs(data_folder("tu_graphs") / name / f"{name}.txt.gz")
    ]
    sizes = np.array([(s.num_nodes, s.num_entries("{i j}")) for s in graphs])
    assert len(graphs) == count
    assert sizes[:, 0].max() == most
    assert np.abs(sizes.mean(0) - (nodes, edges)).max() < 0.0051  # published with two digits
