"""Lifts of graphs: the entries and features of every new tensor, against plain loops."""

import networkx as nx
import pytest
import torch

import incidence as inc
from incidence.data.lifts import LIFTS, lift_all
from incidence.errors import IncidenceError


def example(graph, target=1):
    n = graph.number_of_nodes()
    pairs = sorted(tuple(sorted(edge)) for edge in graph.edges)
    structure = inc.Structure(n, {"{i j}": torch.tensor(pairs, dtype=torch.long).view(-1, 2).T})
    x = torch.arange(2.0 * n).view(n, 2) + 1
    return inc.Example(structure, {"i": x, "{i j}": torch.arange(float(len(pairs)))[:, None] + 10}, torch.tensor(target))


GRAPHS = [nx.gnp_random_graph(n, 0.5, seed=n) for n in (1, 4, 5, 7)] + [nx.empty_graph(3), nx.complete_graph(5), nx.cycle_graph(6)]
EXAMPLES = [example(graph, k) for k, graph in enumerate(GRAPHS)]
EVERY = [
    ("none", {}),
    ("rings", {}),
    ("rings", {"max_size": 4}),
    ("cliques", {"max_size": 4}),
    ("matrix", {}),
    ("pairs", {}),
    ("triples", {}),
    ("triples", {"features": True}),
]


@pytest.mark.parametrize(("name", "options"), EVERY)
def test_lifting_many_at_once_is_lifting_each(name, options):
    lifted = lift_all(EXAMPLES, name, **options)
    assert lifted == [LIFTS[name](one, **options) for one in EXAMPLES]
    whole = inc.collate(lifted)
    assert whole == whole.canonical()
    assert whole.target.tolist() == list(range(len(EXAMPLES)))
    for pattern in whole.structure.patterns:
        x = next(x for key, x in whole.features.items() if whole.structure.resolve(key) == pattern)
        assert x.dtype == torch.float32
        assert bool(x.isfinite().all())


def test_many_graphs_are_lifted_in_parts(monkeypatch):
    expected = lift_all(EXAMPLES, "pairs")
    monkeypatch.setattr("incidence.data.lifts._TOGETHER", 100)
    batches = []
    monkeypatch.setattr("incidence.data.lifts.collate", lambda part: batches.append(len(part)) or inc.collate(part))
    assert lift_all(EXAMPLES, "pairs") == expected
    assert batches == [2, 1, 1, 1, 1, 1]  # of 1 and 4, 5, 7, 3, 5, 6 nodes; one that is too large comes alone


def test_rings_tell_their_size():
    [hexagon] = lift_all([example(nx.cycle_graph(6))], "rings")
    assert hexagon.features["ring={i ...}"].tolist() == [[0, 0, 0, 1]]
    [solid] = lift_all([example(nx.complete_graph(4))], "rings", max_size=8)
    assert solid.features["ring={i ...}"].tolist() == [[1, 0, 0, 0, 0, 0]] * 4
    [tree] = lift_all([example(nx.path_graph(4))], "rings")
    assert tree.features["ring={i ...}"].shape == (0, 4)


def test_cliques_have_a_tensor_for_every_size():
    [one] = lift_all([example(nx.complete_graph(4))], "cliques", max_size=5)
    assert {key: list(x.shape) for key, x in one.features.items()} == {
        "i": [4, 2],
        "{i j}": [6, 1],
        "{i j k}": [4, 1],
        "{i j k l}": [1, 1],
        "{i j k l m}": [0, 1],
    }


@pytest.mark.parametrize("k", range(len(GRAPHS)))
def test_the_matrix_has_nodes_on_the_diagonal_and_edges_off_it(k):
    [lifted] = lift_all([EXAMPLES[k]], "matrix")
    edge_of = {tuple(pair): row for row, pair in enumerate(EXAMPLES[k].structure["{i j}"].T.tolist())}
    index, x = lifted.structure["i j"].T.tolist(), lifted.features["i j"]
    assert len(index) == len(GRAPHS[k]) + 2 * len(edge_of)
    for (i, j), row in zip(index, x.tolist(), strict=True):
        if i == j:
            assert row == [1, 0, *EXAMPLES[k].features["i"][i].tolist(), 0]
        else:
            assert row == [0, 1, 0, 0, *EXAMPLES[k].features["{i j}"][edge_of[min(i, j), max(i, j)]].tolist()]


@pytest.mark.parametrize("k", range(len(GRAPHS)))
def test_pairs_and_triples_are_complete_and_tell_edges(k):
    n, graph = len(GRAPHS[k]), GRAPHS[k]
    [lifted] = lift_all([EXAMPLES[k]], "triples", features=True)
    assert lifted.structure.num_entries("i j") == n**2
    assert lifted.structure.num_entries("i j k") == n**3
    for (i, j), row in zip(lifted.structure["i j"].T.tolist(), lifted.features["i j"].tolist(), strict=True):
        assert row == [i == j, graph.has_edge(i, j)]
    for (i, j, m), row in zip(lifted.structure["i j k"].T.tolist(), lifted.features["i j k"].tolist(), strict=True):
        assert row == [graph.has_edge(i, j), graph.has_edge(j, m), graph.has_edge(i, m), i == j, j == m, i == m]
    [plain] = lift_all([EXAMPLES[k]], "triples")
    assert plain.features["i j k"].tolist() == [[1]] * n**3


def test_graphs_without_features_have_a_matrix_too():
    [lifted] = lift_all([inc.Example(inc.Structure(2, {"{i j}": [[0], [1]]}))], "matrix")
    assert lifted.features["i j"].tolist() == [[1, 0], [1, 0], [0, 1], [0, 1]]


def test_wrong_lifts_are_refused():
    with pytest.raises(IncidenceError, match="no lift 'ring'; there are: none, rings"):
        lift_all(EXAMPLES, "ring")
    with pytest.raises(IncidenceError, match="the lift 'rings' has no option 'size': it takes max_size"):
        lift_all(EXAMPLES, "rings", size=3)
    with pytest.raises(IncidenceError, match="the lift 'pairs' has no option 'size': it takes no options"):
        lift_all(EXAMPLES, "pairs", size=3)
    directed = inc.Example(inc.Structure(2, {"(i j)": [[0], [1]]}))
    for name in ("matrix", "pairs", "triples"):
        with pytest.raises(IncidenceError, match=r"reads edges `\{i j\}`; the example has the tensors: `\(i j\)`"):
            lift_all([directed], name)
