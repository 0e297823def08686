"""Oblivious 3-WL on triples in linear memory, against its definition and against the layers."""

import numpy as np
import pytest

from benchmarks.expressivity import KINDS, by_triples, read_pairs
from benchmarks.triples import tell_apart
from tests.data_folder import data_folder
from tests.expressive import definition as by_definition
from tests.expressive.graphs import cycle, read_graph6, rook, shrikhande


def matrix(graph):
    own = np.zeros((len(graph), len(graph)), dtype=bool)
    for node, neighbours in enumerate(graph):
        own[node, list(neighbours)] = True
    return own


def by_3wl(*graphs):
    start = by_definition.atomic_types(graphs, 3)
    stable, _ = by_definition.until_stable(start, by_definition.oblivious_3wl(graphs))
    return len(set(by_definition.classes(stable))) > 1


def test_graphs_of_one_size_are_told_apart_as_by_the_definition():
    graphs = read_graph6(data_folder("small_graphs") / "graph5c.g6")[::3]
    for k, one in enumerate(graphs):
        for other in graphs[k:]:
            assert tell_apart(matrix(one), matrix(other))[0] == by_3wl(one, other)


def test_cycles_and_strongly_regular_graphs():
    assert tell_apart(matrix(cycle(6)), matrix(cycle(3, 3)))[0]
    assert tell_apart(matrix(cycle(9)), matrix(cycle(4, 5)))[0]
    is_apart, rounds = tell_apart(matrix(rook()), matrix(shrikhande()))
    assert not is_apart
    assert rounds == 2  # nothing splits


def test_a_graph_is_not_told_apart_from_a_copy_with_other_numbers():
    one = matrix([*cycle(7), {0}])
    one[0, 7] = True
    order = np.random.default_rng(0).permutation(8)
    assert not tell_apart(one, one[order][:, order])[0]


@pytest.mark.parametrize("group", ["basic", "extension", "cfi", "str"])
def test_layers_on_triples_tell_apart_the_same_pairs_of_brec(group):
    pairs = read_pairs(data_folder("brec").parent, group)
    small = [pair for pair in pairs if pair[0].structure.total_nodes <= 18][:2]
    assert small
    for pair in small:
        graphs = [one.structure for one in pair]
        assert by_triples(graphs).is_apart == KINDS["`order3`"].judge(pair).is_apart
