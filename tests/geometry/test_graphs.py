"""Graphs and hypergraphs: what collapses, what is kept, what is refused."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from incidence import geometry
from incidence.errors import IncidenceError
from incidence.structure import Structure, collate
from tests.structure.listing import entries_of

T = torch.tensor
modest = settings(deadline=None, max_examples=25, derandomize=True)
edge_lists = st.lists(
    st.tuples(st.integers(0, 6), st.integers(0, 6)).filter(lambda e: e[0] != e[1]), max_size=15
)
node_sets = st.lists(st.sets(st.integers(0, 6), min_size=1), max_size=8)


def columns(edges):
    return T(edges, dtype=torch.long).view(-1, 2).T


# ---- graph


@modest
@given(edge_lists)
def test_an_undirected_graph_has_every_pair_of_ends_once_in_the_preferred_order(edges):
    found = geometry.graph(columns(edges), 7)
    assert found["{i j}"].T.tolist() == sorted(map(list, {tuple(sorted(edge)) for edge in edges}))
    assert found.canonical()[0] == found


@modest
@given(edge_lists)
def test_a_directed_graph_has_every_ordered_pair_once_in_the_preferred_order(edges):
    found = geometry.graph(columns(edges), 7, directed=True)
    assert sorted(map(tuple, found["(i j)"].T.tolist())) == sorted(set(edges))
    assert found.canonical()[0] == found


@modest
@given(edge_lists, st.randoms(use_true_random=False), st.booleans())
def test_the_order_of_the_edges_given_is_immaterial(edges, random, directed):
    mixed = random.sample(edges, len(edges))
    assert geometry.graph(columns(mixed), 7, directed) == geometry.graph(
        columns(edges), 7, directed
    )


@pytest.mark.parametrize("kind", [list, np.array, T], ids=["list", "numpy", "torch"])
def test_edges_come_as_lists_arrays_and_tensors(kind):
    assert geometry.graph(kind([[0, 1], [1, 2]]), 3)["{i j}"].tolist() == [[0, 1], [1, 2]]


def test_a_graph_without_edges_keeps_its_nodes_and_its_tensor():
    assert repr(geometry.graph([[], []], 3)) == "Structure(num_nodes=3, '{i j}': 0 entries)"
    assert geometry.graph(torch.zeros(2, 0), 0).num_nodes == 0


def test_graphs_make_a_batch():
    batch = collate([geometry.graph([[0], [1]], 2), geometry.graph([[], []], 3)])
    assert batch.num_structures == 2


@pytest.mark.parametrize(
    ("edges", "num_nodes", "message"),
    [
        ([[0, 2], [1, 2]], 3, r"edge_index\[:, 1\] is \(2, 2\), a self-loop: .* Drop it"),
        ([[0, 3], [1, 0]], 3, r"edge_index\[0\]\[1\] is 3: nodes are numbered 0 to 2"),
        ([[0, 1], [1, -1]], 3, r"edge_index\[1\]\[1\] is -1"),
        (
            [[0, 1], [1, 2], [2, 0]],
            3,
            (
                r"edge_index must have shape \[2, entries\], rows \(one end, .* got \[3, 2\]."
                r" Transpose it"
            ),
        ),
        ([[0.5], [1.5]], 3, "edge_index must have integers"),
        ("edges", 3, "edge_index must be an integer tensor"),
        ([[0], [1]], -2, "num_nodes of sort `node` must be an integer of at least 0; got -2"),
        ([[0], [1]], {"node": 2}, "must be an integer of at least 0"),
    ],
)
def test_edges_that_make_no_graph_are_refused(edges, num_nodes, message):
    with pytest.raises(IncidenceError, match=message):
        geometry.graph(edges, num_nodes)


# ---- hypergraph


@modest
@given(node_sets)
def test_a_hypergraph_has_every_set_once_in_the_preferred_order(sets):
    found = geometry.hypergraph(sets, 7, duplicates="merge")
    nodes = [[v for _, v in entry[0]] for entry in entries_of(found, "{i ...}")]
    assert nodes == sorted(
        ({tuple(sorted(s)): sorted(s) for s in sets}).values(), key=lambda s: (len(s), s)
    )
    assert found.canonical()[0] == found


@modest
@given(node_sets, st.randoms(use_true_random=False))
def test_lists_and_incidences_tell_the_same_hypergraph(sets, random):
    pairs = [(node, number) for number, nodes in enumerate(sets) for node in nodes]
    members = T(random.sample(pairs, len(pairs)), dtype=torch.long).view(-1, 2).T
    for duplicates in ("merge", "keep"):
        told = geometry.hypergraph(members, 7, duplicates)
        assert told == geometry.hypergraph(sets, 7, duplicates)
        assert told == geometry.hypergraph(members.numpy(), 7, duplicates)


@modest
@given(node_sets)
def test_hyperedges_that_are_kept_are_nodes_of_a_sort_of_their_own(sets):
    found = geometry.hypergraph(sets, 7, duplicates="keep")
    assert found.num_nodes == {"edge": len(sets), "node": 7}
    faces = {edge[1]: {v for _, v in face} for face, (edge,) in entries_of(found, "{i ...} e:edge")}
    assert faces == dict(enumerate(sets))
    assert found.canonical()[0] == found


def test_two_lists_are_two_hyperedges_and_never_rows_of_incidences():
    assert geometry.hypergraph([[0, 1, 2], [0, 1]], 3).num_entries("{i ...}") == 2


def test_hyperedges_may_be_tuples_sets_tensors_and_ranges():
    found = geometry.hypergraph([(0, 1), {1, 2}, T([0, 2]), np.array([2]), range(3)], 3)
    assert found.num_entries("{i ...}") == 5


def test_a_hypergraph_without_hyperedges_keeps_its_tensor():
    assert geometry.hypergraph([], 3) == Structure(
        3, {"{i ...}": torch.zeros(2, 0, dtype=torch.long)}
    )
    assert geometry.hypergraph(torch.zeros(2, 0), 3).num_entries("{i ...}") == 0


@pytest.mark.parametrize(
    ("faces", "message"),
    [
        ([[0, 1], []], r"faces\[1\] is empty: a face has at least one node"),
        ([[0, 1], [2, 2, 1]], r"faces\[1\] is \(2, 2, 1\): the node 2 stands twice"),
        (
            [[0, 1], [2, 5]],
            r"faces\[1\] has the node 5: nodes are numbered 0 to 4 \(num_nodes is 5\)",
        ),
        ([[0, -1]], r"faces\[0\] has the negative node -1: nodes are numbered from 0"),
        (
            [[0, 1], [3], [1, 0]],
            r"faces\[0\] and faces\[2\] have the same nodes. Give duplicates='merge'",
        ),
        ([[0, 1], 3], r"faces\[1\] must be a list of nodes, which are integers; got 3"),
        ([[0, 1], [0.5]], r"faces\[1\] must be a list of nodes, which are integers; got \[0.5\]"),
        ([[0], "ab"], r"faces\[1\] must be a list of nodes"),
        ([[2**70]], r"faces\[0\] must be a list of nodes"),
        ("ab", "faces must be a list of lists of nodes; got str"),
        (7, "faces must be a list of lists of nodes; got int"),
        (
            T([[0, 1], [0, 2]]),
            r"faces: 2 incidences cannot make 3 hyperedges. These are numbered from 0 without gaps",
        ),
        (T([[0, 1, 3], [0, 2, 2]]), "hyperedge 1 of faces is empty"),
        (T([[0, 1], [0, -1]]), r"faces\[1, 1\] is -1: hyperedges are numbered from 0"),
        (T([[0, 1], [1, 2], [2, 3]]), "hyperedges in rows are given as a list of lists"),
        (
            T([[0, 1, 0, 1], [0, 0, 1, 1]]),
            "hyperedge 0 of faces and hyperedge 1 of faces have the same nodes",
        ),
    ],
)
def test_faces_that_make_no_hypergraph_are_refused(faces, message):
    with pytest.raises(IncidenceError, match=message):
        geometry.hypergraph(faces, 5)


def test_an_unknown_treatment_of_duplicates_is_refused():
    with pytest.raises(
        IncidenceError, match="duplicates must be one of 'refuse', 'merge', 'keep'; got 'drop'"
    ):
        geometry.hypergraph([[0]], 1, duplicates="drop")


def test_a_node_where_there_are_none_is_refused():
    with pytest.raises(IncidenceError, match="nodes are numbered from 0, and there are none"):
        geometry.hypergraph([[0]], 0)
