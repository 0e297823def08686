"""Theorem A.1: what it says, where it holds, and what holds where it does not."""

import gzip
from itertools import combinations

import pytest
import torch

from incidence.errors import IncidenceError
from incidence.nn import Exchangeable
from incidence.structure import Structure, carry
from incidence.theorems import theorem_a1
from incidence.theorems.spans import basis, is_within, rank
from tests.data_folder import data_folder
from tests.symmetry.solids import structure_of

GLOBAL_NODE_SUMS = ("y[a] = sum_i x[i]", "y[{a b}] = sum_i x[i]")


def graph(num_nodes: int, edges: list) -> Structure:
    return Structure(num_nodes, {"{i j}": torch.tensor(edges, dtype=torch.long).view(-1, 2).T})


def complete(n: int) -> Structure:
    return graph(n, list(combinations(range(n), 2)))


def ring(n: int) -> Structure:
    return graph(n, [(v, (v + 1) % n) for v in range(n)])


@pytest.mark.parametrize("n", [4, 5, 6])
def test_on_complete_graphs_one_relaxed_layer_gives_8_of_9_and_two_give_all(n):
    found = theorem_a1(complete(n))
    assert (found.relaxed, found.exact, found.stacked) == (8, 9, 9)
    assert found.relaxed_is_within
    assert found.is_equal
    assert found.missing_once == ("y[{i a}] = sum_j x[{i j}]",)
    assert found.missing == ()


@pytest.mark.parametrize(("n", "dimension"), [(2, 5), (3, 8)])
def test_on_two_and_three_nodes_there_is_no_gap(n, dimension):
    found = theorem_a1(complete(n))
    assert found.relaxed == found.exact == found.stacked == dimension
    assert found.is_equal


@pytest.mark.parametrize("n", [4, 5, 6])
def test_on_a_sparse_regular_graph_two_layers_give_more(n):
    found = theorem_a1(ring(n))
    assert found.relaxed_is_within
    assert found.missing == ()
    assert not found.stacked_is_within
    assert found.stacked > found.exact


def test_on_an_irregular_graph_the_subspace_statement_fails():
    path = theorem_a1(graph(3, [(0, 1), (1, 2)]))  # two degrees
    assert not path.relaxed_is_within
    assert path.missing == ()
    spider = theorem_a1(graph(5, [(0, 1), (0, 2), (0, 3), (3, 4)]))  # three degrees
    assert not spider.relaxed_is_within
    assert spider.missing == GLOBAL_NODE_SUMS


def test_isolated_nodes_are_not_represented():
    found = theorem_a1(graph(4, [(0, 1), (1, 2), (0, 2)]))
    assert "y[i] = x[i]" in found.missing


def test_on_disjoint_edges_node_and_edge_features_cannot_be_told_apart():
    found = theorem_a1(graph(4, [(0, 1), (2, 3)]))
    assert not found.relaxed_is_within
    assert found.missing == ()


def test_weights_shared_by_complete_graphs_of_several_sizes_need_three_layers():
    family = [complete(n) for n in (4, 5, 6, 7, 8)]
    assert theorem_a1(family, layers=2).missing == ("y[{a b}] = sum_i x[i]",)
    assert theorem_a1(family, layers=3).missing == ()


def test_on_a_varied_family_of_sparse_graphs_both_global_node_sums_are_missing_at_any_depth():
    family = [
        ring(5),
        graph(4, [(0, 1), (1, 2), (2, 3)]),
        graph(5, [(0, 1), (0, 2), (0, 3), (3, 4)]),
        graph(4, [(0, 1), (0, 2), (0, 3)]),
    ]
    family.append(graph(6, [(0, 1), (0, 2), (0, 3), (0, 4), (4, 5), (1, 2)]))
    for layers in (2, 3):
        assert theorem_a1(family, layers).missing == GLOBAL_NODE_SUMS


def read_atlas() -> list[tuple[int, list[tuple[int, int]]]]:
    graphs: list[tuple[int, list[tuple[int, int]]]] = []
    with gzip.open(data_folder("small_graphs") / "atlas.dat.gz", "rt") as lines:
        for line in lines:
            words = line.split()
            if words[0] == "NODES":
                graphs.append((int(words[1]), []))
            elif words[0] != "GRAPH":
                graphs[-1][1].append((int(words[0]), int(words[1])))
    return graphs


@pytest.mark.slow
def test_what_holds_on_all_graphs_with_at_most_six_nodes():
    checked = 0
    for n, edges in read_atlas():
        degrees = [sum(v in e for e in edges) for v in range(n)]
        if not edges or n > 6 or not min(degrees):
            continue
        found, is_complete = theorem_a1(graph(n, edges)), len(edges) == n * (n - 1) // 2
        is_regular = len(set(degrees)) == 1
        assert found.relaxed_is_within == (is_complete or (is_regular and degrees[0] > 1))
        assert found.missing == (() if len(set(degrees)) <= 2 else GLOBAL_NODE_SUMS)
        assert found.stacked_is_within == is_complete
        checked += 1
    assert checked == 155


def test_with_mean_pooling_the_global_term_weighs_nodes_by_their_degree():
    path = graph(3, [(0, 1), (1, 2)])
    incidence = path.with_index({"i {i j}": torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])})
    layer = Exchangeable("i {i j}", 1, 1, aggr="mean", bias=False, dtype=torch.float64)
    layer.linear.weight.data = torch.tensor([1.0, 0, 0, 0], dtype=torch.float64).view(4, 1, 1)
    n = torch.tensor([[1.0], [10.0], [100.0]], dtype=torch.float64)
    y = layer(carry(incidence, "i", "i {i j}", n), incidence)
    assert torch.allclose(y, torch.full((4, 1), (1 + 2 * 10 + 100) / 4, dtype=torch.float64))


def test_spans_know_their_rank_and_members():
    span = torch.tensor([[1.0, 2.0, 0.0], [2.0, 4.0, 0.0], [1e-14, 0.0, 0.0]], dtype=torch.float64)
    assert rank(span) == 1
    assert is_within(
        torch.tensor([[-1.0, -2.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 0.0]], dtype=torch.float64),
        span,
    ).tolist() == [
        True,
        False,
        True,
    ]
    assert basis(span[:0]).shape == (0, 3)


def test_bad_arguments_are_refused():
    with pytest.raises(IncidenceError, match="theorem_a1 takes a graph, or a list of graphs"):
        theorem_a1([])
    with pytest.raises(
        IncidenceError, match="layers is a number of relaxed layers, at least 1; got 0"
    ):
        theorem_a1(complete(3), layers=0)
    for layers in ("2", 1.5, True):
        with pytest.raises(
            IncidenceError,
            match=f"layers is a number of relaxed layers, at least 1; got {layers!r}",
        ):
            theorem_a1(complete(3), layers)
    with pytest.raises(IncidenceError, match="theorem_a1 takes a graph, or a list of graphs"):
        theorem_a1(None)
    with pytest.raises(IncidenceError, match="every graph needs a node; got one without nodes"):
        theorem_a1([complete(3), complete(0)])
    with pytest.raises(IncidenceError, match=r"no index for `\{i j\}` here"):
        theorem_a1(structure_of(3, {"(i j)": [(0, 1)]}))
