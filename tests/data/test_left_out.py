"""What lifts leave out is said in words, and counted."""

import networkx as nx
import torch

import incidence as inc
from incidence.data.left_out import edges_on_cycles, left_out
from incidence.data.lifts import lift_all
from tests.data.networkx_examples import example


def test_a_lift_says_what_it_leaves_out():
    assert left_out("rings", max_size=5) == ["rings of more than 5 nodes, and those with chords"]
    assert left_out("hops+matrix") == ["pairs more than 2 steps apart"]
    assert left_out("none") == []


def test_edges_on_cycles_are_those_that_are_no_bridges():
    graphs = [nx.gnp_random_graph(12, 0.12 + 0.02 * seed, seed=seed) for seed in range(12)]
    graphs += [nx.path_graph(5), nx.cycle_graph(7), nx.empty_graph(3), nx.empty_graph(0)]
    graphs += [nx.barbell_graph(4, 3)]
    batch = inc.collate([example(graph) for graph in graphs]).structure
    found = edges_on_cycles(batch)
    for number, graph in enumerate(graphs):
        bridges = set(map(frozenset, nx.bridges(graph)))
        edges = batch[number]["{i j}"].T.tolist()
        expected = [frozenset(edge) not in bridges for edge in edges]
        assert found[batch.batch("{i j}") == number].tolist() == expected


def test_edges_on_longer_rings_are_counted():
    graphs = [nx.cycle_graph(5), nx.cycle_graph(8), nx.barbell_graph(3, 2), nx.cycle_graph(9)]
    lifted = lift_all([example(graph) for graph in graphs], "rings", max_size=6)
    words = "rings of more than 6 nodes, and those with chords"
    assert left_out("rings", lifted, max_size=6) == [
        f"{words} (17 edges of 2 structures are on such rings only)"
    ]
    assert left_out("rings", lifted[:1]) == [f"{words} (every edge on a cycle is on a ring)"]


def test_larger_cliques_are_counted():
    lifted = lift_all([example(nx.complete_graph(5)), example(nx.path_graph(3))], "cliques")
    words = "cliques of more than 3 nodes"
    assert left_out("cliques", lifted) == [f"{words} (5 of 4 nodes, in 1 structure)"]
    assert left_out("cliques", lifted[1:]) == [f"{words} (none of 4 nodes)"]


def test_very_many_larger_cliques_are_not_counted_to_the_end(monkeypatch):
    monkeypatch.setattr("incidence.data.left_out._MOST_CLIQUES", 20)
    lifted = lift_all([example(nx.complete_graph(7))], "cliques")
    assert left_out("cliques", lifted) == ["cliques of more than 3 nodes (more than 20 of 4 nodes)"]


def test_pairs_that_are_too_far_apart_are_counted():
    lines = [example(nx.path_graph(5)), example(nx.path_graph(3))]  # 10 + 3 pairs
    assert left_out("hops", lift_all(lines, "hops", k=1), k=1) == [
        "pairs more than 1 steps apart (7 of 13)"
    ]
    assert left_out("distances", lift_all(lines, "distances", k=3), k=3) == [
        "how far pairs are that are more than 3 steps apart (1 of 13)"
    ]


def test_pairs_of_far_points_are_counted():
    points = torch.tensor([[0.0, 0, 0], [1, 0, 0], [9, 0, 0]])
    line = inc.Example(inc.Structure(3, {"{i j}": [[0, 1], [1, 2]]}), {"pos=i": points})
    assert left_out("space", lift_all([line], "space", cutoff=5.0), cutoff=5.0) == [
        "pairs of points farther apart than 5.0 (2 of 3)"
    ]
