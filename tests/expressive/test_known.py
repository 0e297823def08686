"""What is known of the graphs on which networks are compared: exact classes, and random weights.

The files come from the folder of INCIDENCE_DATA; without it these tests are left out.
"""

from collections import Counter

import pytest
import torch

import incidence as inc
from tests.data_folder import data_folder
from tests.expressive import definition as by_definition
from tests.expressive.graphs import (
    as_edges,
    as_matrix,
    partition,
    read_brec,
    read_exp,
    read_graph6,
)

EDGES = "i, {i j} -> i, {i j}"
SQUARE = "i j, j k -> i k"


def random_classes(layers, x, batch, keys):
    """Classes of structures by the sums of what random layers give, in double precision."""
    with torch.no_grad():
        for layer in layers:
            y = layer(x, batch)
            y = y if isinstance(y, dict) else {keys[0]: y}
            # a function that mixes what differs a little
            scaled = {key: value / value.square().mean().sqrt() for key, value in y.items()}
            x = {key: torch.sin(3 * value) for key, value in scaled.items()}
            x = x if len(x) > 1 else next(iter(x.values()))
    x = x if isinstance(x, dict) else {keys[0]: x}
    sums = []
    for key in keys:
        total = torch.zeros(batch.num_structures, x[key].shape[1], dtype=torch.double)
        sums.append(total.index_add_(0, batch.batch(key), x[key]))
    rows = (torch.cat(sums, 1) * 1e9).round().long().tolist()
    return partition([tuple(row) for row in rows])


def assert_agree(exact, random):
    """Random weights tell apart no more than the exact answer, and no less."""
    assert len(set(zip(exact, random, strict=True))) == len(set(exact)) == len(set(random))


def random_edges(depth, width=8):
    torch.manual_seed(0)
    widths = [1] + [width] * depth
    return [inc.nn.Linear(EDGES, one, width, operations="local").double() for one in widths[:-1]]


@pytest.mark.slow
def test_312_pairs_of_the_connected_graphs_on_8_nodes_are_equal():
    graphs = read_graph6(data_folder("small_graphs") / "graph8c.g6")
    assert len(graphs) == 11_117
    batch = inc.collate(list(map(as_edges, graphs)))
    e = inc.expressivity(EDGES, batch)
    assert e.num_equal_pairs == 312
    x = {key: inc.ones(batch, key).double() for key in ("i", "{i j}")}
    layers = random_edges(e.rounds + 2)
    assert_agree(e.classes, random_classes(layers, x, batch, ["i", "{i j}"]))


@pytest.mark.parametrize("nodes", [5, 6, pytest.param(7, marks=pytest.mark.slow)])
def test_products_tell_all_small_connected_graphs_apart(nodes):
    graphs = read_graph6(data_folder("small_graphs") / f"graph{nodes}c.g6")
    e = inc.expressivity("i j -> i j", list(map(as_matrix, graphs)), products=SQUARE)
    assert e.groups == ()


@pytest.mark.slow
def test_products_tell_the_312_pairs_apart():
    graphs = read_graph6(data_folder("small_graphs") / "graph8c.g6")
    equal = inc.expressivity(EDGES, list(map(as_edges, graphs))).groups
    batch = [as_matrix(graphs[number]) for group in equal for number in group]
    assert inc.expressivity("i j -> i j", batch, products=SQUARE).groups == ()


@pytest.mark.parametrize(
    ("group", "pairs"), [("basic", 60), ("regular", 50), ("extension", 100), ("dr", 20)]
)
def test_no_pair_of_brec_is_told_apart_by_edges(group, pairs):
    listed = read_brec(data_folder("brec") / f"{group}.npy")
    assert len(listed) == pairs
    batch = inc.collate([as_edges(graph) for pair in listed for graph in pair])
    e = inc.expressivity(EDGES, batch)
    assert not any(e.separates(2 * k, 2 * k + 1) for k in range(pairs))
    x = {key: inc.ones(batch, key).double() for key in ("i", "{i j}")}
    random = random_classes(random_edges(e.rounds + 2), x, batch, ["i", "{i j}"])
    assert_agree(e.classes, random)


def test_products_tell_the_pairs_of_brec_apart_that_folklore_2wl_does():
    listed = read_brec(data_folder("brec") / "regular.npy")[::5]
    graphs = [graph for pair in listed for graph in pair]
    e = inc.expressivity("i j -> i j", list(map(as_matrix, graphs)), products=SQUARE)
    start = by_definition.atomic_types(graphs, 2)
    stable, _ = by_definition.until_stable(start, by_definition.folklore_2wl(graphs))
    assert e.classes == by_definition.classes(stable)
    assert len(set(e.classes)) == len(graphs)


def test_folklore_2wl_tells_no_strongly_regular_graphs_of_one_family_apart():
    families = {"sr16622": (2, 6), "sr251256": (15, 12), "sr261034": (10, 10), "sr281264": (4, 12)}
    for name, (count, degree) in families.items():
        graphs = read_graph6(data_folder("sr_graphs") / f"{name}.g6")
        assert len(graphs) == count
        assert {len(own) for graph in graphs for own in graph} == {degree}
        e = inc.expressivity("i j -> i j", list(map(as_matrix, graphs)), products=SQUARE)
        assert set(e.classes) == {0}


def cliques(graph, size):
    """The cliques of a graph as node sets."""
    found = [(v,) for v in range(len(graph))]
    for _ in range(size - 1):
        found = [(*c, v) for c in found for v in graph[c[-1]] if v > c[-1] and set(c) <= graph[v]]
    return found


def test_cliques_of_four_nodes_tell_the_rook_graph_apart():
    graphs = read_graph6(data_folder("sr_graphs") / "sr16622.g6")
    batch = [
        as_edges(graph).with_index(
            {
                "{i j k}": torch.tensor(cliques(graph, 3)).view(-1, 3).T,
                "{i j k l}": torch.tensor(cliques(graph, 4)).long().view(-1, 4).T,
            }
        )
        for graph in graphs
    ]
    text = "i, {i j}, {i j k} -> i, {i j}, {i j k}"
    assert not inc.expressivity(text, batch).separates(0, 1)
    text = "i, {i j}, {i j k l} -> i, {i j}, {i j k l}"
    assert inc.expressivity(text, batch).separates(0, 1)


def test_all_pairs_of_exp_are_equal_for_edges_and_none_for_products():
    labelled = list(read_exp(data_folder("exp_cexp") / "EXP.txt.gz"))[:100]
    batch = inc.collate([as_edges(graph) for graph, _ in labelled])
    x = torch.tensor([label for _, labels in labelled for label in labels])
    e = inc.expressivity(EDGES, batch, features={"i": x})
    assert all(not e.separates(2 * k, 2 * k + 1) for k in range(len(labelled) // 2))
    sizes = Counter(len(group) for group in e.groups)
    assert sum(sizes.values()) >= 25
    values = {
        "i": torch.nn.functional.one_hot(x).double(),
        "{i j}": inc.ones(batch, "{i j}").double(),
    }
    torch.manual_seed(0)
    first = inc.nn.Linear(EDGES, {"i": values["i"].shape[1], "{i j}": 1}, 8).double()
    layers = [first, *random_edges(e.rounds + 2)[1:]]
    assert_agree(e.classes, random_classes(layers, values, batch, ["i", "{i j}"]))
