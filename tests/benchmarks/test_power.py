"""What networks tell apart is measured with controls: copies of a graph never count, and the
statistic of BREC is Hotelling's.
"""

import networkx as nx
import pytest
import torch

import incidence as inc
from benchmarks.brec import copies, judge, t_squared
from benchmarks.separate import GRAPH, PPGN, Contestant, batch_of, pairs_told_apart, told_apart
from benchmarks.tasks.power import cycle_text
from incidence.geometry.lifting import khop


def plain(graph: nx.Graph) -> inc.Example:
    edges = torch.tensor(sorted(map(sorted, nx.convert_node_labels_to_integers(graph).edges))).T
    return inc.Example(
        inc.Structure(len(graph), {"{i j}": edges}),
        {"i": torch.ones(len(graph), 1), "{i j}": torch.ones(edges.shape[1], 1)},
    )


HEXAGON = plain(nx.cycle_graph(6))
TRIANGLES = plain(nx.disjoint_union(nx.cycle_graph(3), nx.cycle_graph(3)))
TURNED = plain(nx.relabel_nodes(nx.cycle_graph(6), {0: 3, 1: 5, 2: 0, 3: 4, 4: 1, 5: 2}))
SMALL = Contestant("ppgn", PPGN.lifts, {"hidden": 4, "depth": 1})


def test_pairs_are_told_apart_by_products_alone_and_copies_by_nothing():
    pairs = [HEXAGON, TRIANGLES, HEXAGON, TURNED]
    assert pairs_told_apart(pairs, SMALL) == [True, False]
    assert pairs_told_apart(pairs, GRAPH) == [False, False]


def test_a_network_with_large_weights_and_waves_tells_pairs_apart_and_keeps_copies_together():
    hashed = Contestant(
        "ppgn", PPGN.lifts, {"hidden": 4, "depth": 2, "activation": "sin"}, gain=4.0
    )
    assert pairs_told_apart([HEXAGON, TRIANGLES, HEXAGON, TURNED], hashed) == [True, False]


def test_a_gain_multiplies_the_weights_of_blocks_and_no_bias():
    [example] = SMALL.lifted([HEXAGON])
    nets = []
    for gain in (1.0, 4.0):
        torch.manual_seed(0)
        nets.append(
            Contestant("ppgn", PPGN.lifts, {"hidden": 4, "depth": 1}, gain).network(
                batch_of([example])
            )
        )
    for (name, one), other in zip(nets[0].named_parameters(), nets[1].parameters(), strict=True):
        factor = 4.0 if name.startswith("blocks.") and one.ndim > 1 else 1.0
        torch.testing.assert_close(other, factor * one)


def test_all_pairs_of_a_set_are_counted():
    assert told_apart([HEXAGON, TURNED, TRIANGLES], SMALL) == (2, 3)


@pytest.mark.parametrize(("length", "count"), [(3, 20), (4, 45), (5, 72), (6, 60)])
def test_the_product_of_a_cycle_counts_those_of_the_complete_graph_on_six_nodes(length, count):
    s = khop(plain(nx.complete_graph(6)).structure, 3, name="apart", edges="{i j}")
    text = cycle_text(length)
    operands = [
        inc.ones(s, "apart" if "apart" in word else "{i j}")
        for word in text.removesuffix(" -> ").split(", ")
    ]
    assert inc.einsum(text, *operands, s).item() == 2 * length * count


def test_the_statistic_is_the_mean_difference_by_its_own_covariance():
    generator = torch.Generator().manual_seed(0)
    y = torch.randn(64, 3, dtype=torch.float64, generator=generator)
    difference = y[0::2] - y[1::2]
    centred = difference - difference.mean(0)
    covariance = centred.T @ centred / 31
    expected = difference.mean(0) @ torch.linalg.solve(covariance, difference.mean(0))
    assert t_squared(y) == pytest.approx(float(expected))


def test_copies_come_in_turns_with_other_labels():
    found = copies(HEXAGON, TRIANGLES, torch.Generator().manual_seed(0))
    assert len(found) == 64
    assert all(
        nx.is_connected(nx.Graph(e.structure["{i j}"].T.tolist())) == (k % 2 == 0)
        for k, e in enumerate(found)
    )
    assert found[0] != found[2]


def test_training_tells_a_pair_apart_and_not_a_graph_from_itself():
    statistic, control = judge(SMALL, [HEXAGON, TRIANGLES], seed=0)
    assert statistic > 72.34 > control
