"""Lifts of graphs: the entries and features of every new tensor, against plain loops."""

from inspect import signature

import networkx as nx
import pytest
import torch

import incidence as inc
from incidence.data.lifts import LIFT_OPTIONS, LIFTS, lift_all
from incidence.errors import IncidenceError, TooLargeError
from tests.data.networkx_examples import example

BUILT_IN, BUILT_IN_OPTIONS = [*LIFTS.values()], {*LIFT_OPTIONS}  # pages register more


GRAPHS = [nx.gnp_random_graph(n, 0.5, seed=n) for n in (1, 4, 5, 7)] + [
    nx.empty_graph(3),
    nx.complete_graph(5),
    nx.cycle_graph(6),
]
EXAMPLES = [example(graph, k) for k, graph in enumerate(GRAPHS)]
EVERY = [
    ("none", {}),
    ("rings", {}),
    ("rings", {"max_size": 4}),
    ("cliques", {"max_size": 4}),
    ("matrix", {}),
    ("pairs", {}),
    ("hops", {}),
    ("hops", {"k": 4}),
    ("distances", {"k": 2}),
    ("walks", {"steps": 3}),
    ("rings+pairs", {"max_size": 5}),
    ("triples", {}),
    ("triples", {"features": True}),
]


@pytest.mark.parametrize(("name", "options"), EVERY)
def test_lifting_many_at_once_is_lifting_each(name, options):
    lifted = lift_all(EXAMPLES, name, **options)
    if name in LIFTS:
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
    monkeypatch.setattr(
        "incidence.data.lifts.collate", lambda part: batches.append(len(part)) or inc.collate(part)
    )
    assert lift_all(EXAMPLES, "pairs") == expected
    # of 1 and 4, 5, 7, 3, 5, 6 nodes; one that is too large comes alone
    assert batches == [2, 1, 1, 1, 1, 1]


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
    edge_of = {
        tuple(pair): row for row, pair in enumerate(EXAMPLES[k].structure["{i j}"].T.tolist())
    }
    index, x = lifted.structure["i j"].T.tolist(), lifted.features["i j"]
    assert len(index) == len(GRAPHS[k]) + 2 * len(edge_of)
    for (i, j), row in zip(index, x.tolist(), strict=True):
        if i == j:
            assert row == [1, 0, *EXAMPLES[k].features["i"][i].tolist(), 0]
        else:
            assert row == [
                0,
                1,
                0,
                0,
                *EXAMPLES[k].features["{i j}"][edge_of[min(i, j), max(i, j)]].tolist(),
            ]


@pytest.mark.parametrize("k", range(len(GRAPHS)))
def test_pairs_and_triples_are_complete_and_tell_edges(k):
    n, graph = len(GRAPHS[k]), GRAPHS[k]
    [lifted] = lift_all([EXAMPLES[k]], "triples", features=True)
    assert lifted.structure.num_entries("i j") == n**2
    assert lifted.structure.num_entries("i j k") == n**3
    for (i, j), row in zip(
        lifted.structure["i j"].T.tolist(), lifted.features["i j"].tolist(), strict=True
    ):
        assert row == [i == j, graph.has_edge(i, j)]
    for (i, j, m), row in zip(
        lifted.structure["i j k"].T.tolist(), lifted.features["i j k"].tolist(), strict=True
    ):
        assert row == [
            graph.has_edge(i, j),
            graph.has_edge(j, m),
            graph.has_edge(i, m),
            i == j,
            j == m,
            i == m,
        ]
    [plain] = lift_all([EXAMPLES[k]], "triples")
    assert plain.features["i j k"].tolist() == [[1]] * n**3


@pytest.mark.parametrize("k", [1, 2, 3])
@pytest.mark.parametrize("number", range(len(GRAPHS)))
def test_hops_are_the_pairs_within_a_distance_which_they_tell(number, k):
    graph = GRAPHS[number]
    [lifted] = lift_all([EXAMPLES[number]], "hops", k=k)
    far = dict(nx.all_pairs_shortest_path_length(graph, cutoff=k))
    expected = {
        (i, j): [distance == d for d in range(k + 1)]
        for i, reached in far.items()
        for j, distance in reached.items()
    }
    found = dict(
        zip(
            map(tuple, lifted.structure["near"].T.tolist()),
            lifted.features["near=i j"].tolist(),
            strict=True,
        )
    )
    assert found == expected


def test_lifts_one_after_the_other_add_all_their_tensors():
    twice = lift_all(lift_all(EXAMPLES, "rings", max_size=4), "hops", k=3)
    assert lift_all(EXAMPLES, "rings+hops", max_size=4, k=3) == twice


@pytest.mark.parametrize(
    ("name", "what"), [("pairs", "49 tuples of 2 nodes"), ("hops", r"\d+ pairs")]
)
def test_more_entries_than_the_limit_are_refused_before_they_are_made(name, what):
    with pytest.raises(
        TooLargeError, match=f"there are at least {what}, and limit=20. Lower k, or raise limit="
    ):
        lift_all([EXAMPLES[3]], name, limit=20)
    assert lift_all([EXAMPLES[3]], name, limit=49) == lift_all([EXAMPLES[3]], name)


def test_graphs_without_features_have_a_matrix_too():
    [lifted] = lift_all([inc.Example(inc.Structure(2, {"{i j}": [[0], [1]]}))], "matrix")
    assert lifted.features["i j"].tolist() == [[1, 0], [1, 0], [0, 1], [0, 1]]


def test_wrong_lifts_are_refused():
    with pytest.raises(IncidenceError, match="no lift 'ring'; there are: none, rings"):
        lift_all(EXAMPLES, "ring")
    with pytest.raises(
        IncidenceError, match="the lift 'rings' has no option 'size': it takes max_size"
    ):
        lift_all(EXAMPLES, "rings", size=3)
    with pytest.raises(
        IncidenceError, match="the lift 'matrix' has no option 'size': it takes no options"
    ):
        lift_all(EXAMPLES, "matrix", size=3)
    with pytest.raises(
        IncidenceError, match=r"the lift 'rings\+pairs' has no option 'k': it takes max_size, limit"
    ):
        lift_all(EXAMPLES, "rings+pairs", k=3)
    with pytest.raises(IncidenceError, match=r"no lift 'pear'; there are: .* as in 'rings\+pairs'"):
        lift_all(EXAMPLES, "rings+pear")
    with pytest.raises(
        IncidenceError, match="the lift 'hops': k is an integer of at least 1; got 0"
    ):
        lift_all(EXAMPLES, "hops", k=0)
    directed = inc.Example(inc.Structure(2, {"(i j)": [[0], [1]]}))
    for name in ("matrix", "pairs", "hops", "triples"):
        with pytest.raises(
            IncidenceError, match=r"reads edges `\{i j\}`; the example has the tensors: `\(i j\)`"
        ):
            lift_all([directed], name)


def test_a_column_for_every_size_there_could_be_is_refused_before_there_is_memory_for_it():
    with pytest.raises(
        TooLargeError,
        match="a column for every size of rings up to max_size=1000000000000 would take at least",
    ):
        lift_all(EXAMPLES, "rings", max_size=10**12)
    with pytest.raises(
        IncidenceError, match="cliques: max_size is an integer from 2 to 64; got 1000000000000"
    ):
        lift_all(EXAMPLES, "cliques", max_size=10**12)


def test_the_options_of_all_lifts_are_those_of_their_functions():
    taken = [list(signature(lift).parameters)[1:] for lift in BUILT_IN]
    assert {name for names in taken for name in names} == BUILT_IN_OPTIONS


def test_distances_are_those_of_networkx():
    graph = nx.gnp_random_graph(9, 0.2, seed=3)
    [lifted] = lift_all([example(graph)], "distances", k=3)
    lengths = dict(nx.all_pairs_shortest_path_length(graph))
    for (u, v), row in zip(lifted.structure["i j"].T.tolist(), lifted.features["i j"], strict=True):
        assert int(row.argmax()) == min(lengths[u].get(v, 4), 4)
        assert float(row.sum()) == 1


def test_walks_return_as_often_as_powers_of_the_matrix_say():
    graph = nx.gnp_random_graph(7, 0.4, seed=1)
    [lifted] = lift_all([example(graph)], "walks", steps=4)
    step = torch.tensor(nx.to_numpy_array(graph))
    step = step / step.sum(1, keepdim=True).clamp(min=1)
    returns = [torch.linalg.matrix_power(step, k).diagonal() for k in range(1, 5)]
    found = lifted.features["i"][:, -4:].double()
    torch.testing.assert_close(found, torch.stack(returns, 1), atol=1e-6, rtol=0)
