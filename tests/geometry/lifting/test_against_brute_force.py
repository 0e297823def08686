"""Liftings against slow, obvious answers, on random small graphs and on all of the atlas."""

from itertools import combinations, product

import networkx as nx
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from networkx.generators.atlas import graph_atlas_g

from incidence.geometry import lifting
from incidence.structure import Structure, collate
from tests.geometry.lifting.graphs import columns, faces, random_graphs, structure_of

few = settings(max_examples=40, deadline=None)


@few
@given(random_graphs(8), st.integers(2, 6))
def test_cliques_are_the_sets_of_joined_nodes(graph, max_size):
    lifted = lifting.cliques(structure_of(graph), max_size)
    for size in range(2, max_size + 1):
        text = "{" + " ".join("ijklmn"[:size]) + "}"
        expected = [
            frozenset(c)
            for c in combinations(graph, size)
            if all(graph.has_edge(*pair) for pair in combinations(c, 2))
        ]
        assert faces(lifted, text) == expected


def test_rings_are_the_chordless_cycles_of_all_graphs_with_seven_nodes():
    """All 1253 graphs of the atlas, lifted as one batch; nodes are numbered through."""
    atlas = graph_atlas_g()
    batch = collate([structure_of(graph) for graph in atlas])
    starts = batch.node_ptr().tolist()
    cycles = [
        frozenset(start + v for v in c)
        for graph, start in zip(atlas, starts, strict=False)
        for c in nx.chordless_cycles(graph)
    ]
    for max_length in (3, 5, 7):
        found = faces(lifting.rings(batch, max_length), "ring")
        expected = {cycle for cycle in cycles if len(cycle) <= max_length}
        assert len(found) == len(expected)
        assert set(found) == expected


@few
@given(random_graphs(10), st.integers(3, 10), st.integers(3, 5))
def test_rings_of_some_lengths_are_the_chordless_cycles_of_these(graph, max_length, min_length):
    found = faces(lifting.rings(structure_of(graph), max_length, min_length=min_length), "ring")
    cycles = {
        frozenset(c) for c in nx.chordless_cycles(graph) if min_length <= len(c) <= max_length
    }
    assert len(found) == len(cycles)
    assert set(found) == cycles


def test_rings_are_found_in_small_chunks_too(monkeypatch):
    graph = structure_of(nx.circulant_graph(13, [1, 3, 4]))
    whole = lifting.rings(graph, 7), lifting.cliques(graph, 4), lifting.khop(graph, 3)
    monkeypatch.setattr("incidence.geometry.lifting.adjacency.CHUNK", 5)
    assert (lifting.rings(graph, 7), lifting.cliques(graph, 4), lifting.khop(graph, 3)) == whole


def test_a_long_path_hangs_on_a_ring_without_harm():
    graph = nx.cycle_graph(5)
    nx.add_path(graph, [0, *range(5, 40)])
    assert faces(lifting.rings(structure_of(graph), 6), "ring") == [frozenset(range(5))]


@few
@given(
    st.one_of(random_graphs(7), random_graphs(5, directed=True)), st.integers(1, 4), st.booleans()
)
def test_pairs_are_as_many_steps_apart_as_asked_for(graph, k, exact):
    lifted = lifting.khop(structure_of(graph), k, exact=exact)
    distance = dict(nx.all_pairs_shortest_path_length(graph))
    expected = {
        (u, v) for u in graph for v, d in distance[u].items() if (d == k if exact else 1 <= d <= k)
    }
    found = columns(lifted, f"hop{k}")
    if not graph.is_directed():
        expected = {pair for pair in expected if pair[0] < pair[1]}
        found = [tuple(sorted(pair)) for pair in found]
    assert len(found) == len(expected)
    assert set(found) == expected


@few
@given(random_graphs(5, directed=True), st.booleans())
def test_paths_run_head_to_tail(graph, backtrack):
    found = columns(lifting.paths(structure_of(graph), backtrack=backtrack), "(i j) (j k)")
    expected = {
        (i, j, k)
        for i, j in graph.edges
        for v, k in graph.edges
        if v == j and (backtrack or i != k)
    }
    assert len(found) == len(expected)
    assert set(found) == expected


@few
@given(random_graphs(6), st.booleans())
def test_undirected_paths_are_pairs_of_edges_that_share_a_node(graph, backtrack):
    found = columns(lifting.paths(structure_of(graph), backtrack=backtrack), "{i j} {j k}")
    pairs = [(frozenset((i, j)), frozenset((j, k))) for i, j, k in found]
    edges = list(map(frozenset, graph.edges))
    expected = {
        (e, f) for e, f in product(edges, repeat=2) if (e & f and e != f) or (backtrack and e == f)
    }
    assert len(pairs) == len(expected)
    assert set(pairs) == expected


@pytest.mark.parametrize(("n", "k"), [(0, 2), (1, 3), (4, 2), (3, 4)])
def test_tuples_are_those_of_the_complete_structure(n, k):
    text = " ".join("ijkl"[:k])
    assert lifting.tuples(Structure(n), k) == Structure.complete(n, [text])


@few
@given(random_graphs(6))
def test_line_graphs_are_those_of_networkx(graph):
    edges = list(graph.edges)
    expected = {
        frozenset((edges.index(tuple(sorted(e))), edges.index(tuple(sorted(f)))))
        for e, f in nx.line_graph(graph).edges
    }
    lines = lifting.line_graph(structure_of(graph))
    assert lines.num_nodes == len(edges)
    assert len(faces(lines, "{i j}")) == len(expected)
    assert set(faces(lines, "{i j}")) == expected


@few
@given(random_graphs(4, directed=True))
def test_directed_line_graphs_are_those_of_networkx(graph):
    edges = list(graph.edges)
    expected = {(edges.index(e), edges.index(f)) for e, f in nx.line_graph(graph).edges}
    found = columns(lifting.line_graph(structure_of(graph)), "(i j)")
    assert len(found) == len(expected)
    assert set(found) == expected


def test_a_loop_is_a_node_of_the_line_graph_and_not_its_own_neighbour():
    s = Structure(2, {"[i j]": [[0, 0, 1], [0, 1, 1]]})
    assert columns(lifting.line_graph(s), "{i j}") == [(0, 1), (1, 2)]
    directed = Structure(2, {"i j": [[0, 0, 1], [0, 1, 1]]})
    assert columns(lifting.line_graph(directed), "(i j)") == [(0, 1), (1, 2)]


@few
@given(random_graphs(7), st.integers(1, 3))
def test_neighbourhoods_are_balls_of_nodes(graph, k):
    s = structure_of(graph)
    balls = [frozenset(nx.single_source_shortest_path_length(graph, v, cutoff=k)) for v in graph]
    found = faces(lifting.neighbourhoods(s, k), "neighbourhood")
    assert len(found) == len(set(found))
    assert set(found) == set(balls)
    centres, (node, entry) = lifting.neighbourhoods(s, k, centred=True)["neighbourhood"]
    assert sorted(centres[0].tolist()) == list(graph)
    for row, centre in enumerate(centres[0].tolist()):
        assert frozenset(node[entry == row].tolist()) == balls[centre]


def test_a_graph_of_many_nodes_is_lifted_fast():
    """A torus of 40,000 nodes: nothing is quadratic in the nodes."""
    n = 200
    at = torch.arange(n * n).view(n, n)
    edges = torch.stack(
        [at.repeat(2, 1).flatten(), torch.cat([at.roll(1, 0), at.roll(1, 1)]).flatten()]
    )
    torus = Structure(n * n, {"{i j}": edges})
    assert lifting.rings(torus, 4).num_entries("ring") == n * n
    assert lifting.cliques(torus).num_entries("{i j k}") == 0
    assert lifting.khop(torus, 2).num_entries("hop2") == 6 * n * n
    assert lifting.neighbourhoods(torus).num_entries("neighbourhood") == n * n
    assert lifting.line_graph(torus).num_entries("{i j}") == 6 * n * n
