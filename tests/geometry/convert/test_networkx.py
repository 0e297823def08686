"""NetworkX: graphs of every kind, with order and attributes."""

import networkx as nx
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import incidence as inc
from incidence.errors import IncidenceError
from incidence.geometry.convert import from_networkx, to_networkx
from incidence.structure import Example, Structure
from tests.geometry.convert.random_examples import random_example, random_rows, seeds

T = torch.tensor
few = settings(max_examples=40, deadline=None)


@few
@given(st.sampled_from(["{i j}", "(i j)", "[i j]", "i j"]), st.integers(0, 6), seeds)
def test_graphs_come_back_with_features_and_order(text, num_nodes, seed):
    example = random_example(num_nodes, [text], ["i", "pos=i", text], seed)
    if not num_nodes or not example.structure.num_entries(text):  # nothing has no attributes
        example = example.replace(features={})
    graph = to_networkx(example)
    assert graph.is_directed() == (text in ("(i j)", "i j"))
    assert len(graph) == num_nodes
    assert from_networkx(graph) == example


@few
@given(
    st.sampled_from(["{i j} e:edge", "(i j) e:edge", "[i j] e:edge", "i j e:edge"]),
    st.integers(2, 5),
    st.integers(1, 8),
    seeds,
)
def test_parallel_edges_come_back_as_nodes_of_their_own(text, num_nodes, num_edges, seed):
    generator = torch.Generator().manual_seed(seed)
    first = torch.randint(num_nodes, (num_edges,), generator=generator)
    second = (first + torch.randint(1, num_nodes, (num_edges,), generator=generator)) % num_nodes
    structure = Structure(
        {"node": num_nodes, "edge": num_edges},
        {text: torch.stack([first, second, torch.arange(num_edges)])},
    )
    example = Example(structure, {text: random_rows(num_edges, 2, seed)})
    graph = to_networkx(example)
    assert graph.is_multigraph()
    assert graph.number_of_edges() == num_edges
    assert from_networkx(graph) == example


def test_nodes_may_be_called_anything_and_keep_their_order():
    graph = nx.Graph([("b", "a"), ("a", (1, 2))])
    example = from_networkx(graph)
    assert example.structure["{i j}"].tolist() == [[0, 1], [1, 2]]
    assert list(graph) == ["b", "a", (1, 2)]


def test_attributes_are_joined_as_channels():
    graph = nx.path_graph(3)
    nx.set_node_attributes(graph, {0: 1.0, 1: 2.0, 2: 3.0}, "mass")
    nx.set_node_attributes(graph, [0.0, 1.0], "spin")
    nx.set_node_attributes(graph, nx.spring_layout(graph, seed=0), "pos")
    nx.set_edge_attributes(graph, 7, "weight")
    example = from_networkx(graph, node_features=["mass", "spin"], edge_features=["weight"])
    assert example.features["i"].tolist() == [[1.0, 0.0, 1.0], [2.0, 0.0, 1.0], [3.0, 0.0, 1.0]]
    assert example.features["pos=i"].shape == (3, 2)
    assert example.features["{i j}"].tolist() == [[7], [7]]
    assert set(from_networkx(graph).features) == {"pos=i"}


def test_a_target_for_the_whole_goes_along():
    example = Example(Structure(2, {"{i j}": [[0], [1]]}), {}, T([1.0, 2.0]))
    assert from_networkx(to_networkx(example)) == example


def test_a_batch_of_one_is_one_graph():
    example = Example(Structure(2, {"{i j}": [[0], [1]]}), {}, T([1.0, 2.0]))
    assert from_networkx(to_networkx(inc.collate([example]))) == example


def test_a_graph_with_loops_is_read_when_asked_for():
    graph = nx.Graph([(0, 0), (0, 1)])
    with pytest.raises(IncidenceError, match=r"Remove the self-loop, or use `\[i j\]`"):
        from_networkx(graph)
    assert from_networkx(graph, "[i j]").structure.num_entries("[i j]") == 2


@pytest.mark.parametrize(
    ("read", "message"),
    [
        (lambda: from_networkx([(0, 1)]), "from_networkx takes a graph of NetworkX; got list"),
        (
            lambda: from_networkx(nx.DiGraph([(0, 1)]), "{i j}"),
            r"the edges of a DiGraph are read as `\(i j\)`, for example; got `{i j}`",
        ),
        (
            lambda: from_networkx(nx.Graph([(0, 1)]), "{i j k}"),
            "the edges of a Graph are read as `{i j}`",
        ),
        (
            lambda: from_networkx(nx.MultiGraph([(0, 1)]), "{i j}"),
            "the edges of a MultiGraph are read as `{i j} e:edge`",
        ),
        (
            lambda: from_networkx(nx.Graph([(0, 1, {"w": 1}), (1, 2)]), edge_features=["w"]),
            "1 of 2 edges have no attribute `w`",
        ),
        (
            lambda: from_networkx(nx.Graph([(0, 1, {"w": "x"})]), edge_features=["w"]),
            "the values of `w` are not numbers of one shape",
        ),
        (
            lambda: to_networkx(Structure(3, {"{i j k}": [[0], [1], [2]]})),
            "a graph holds edges such as .*; not `{i j k}`",
        ),
        (
            lambda: to_networkx(Structure(2, {"{i j}": [[0], [1]], "(i j)": [[0], [1]]})),
            r"networkx has no place for `\(i j\)`",
        ),
        (
            lambda: to_networkx(
                Example(Structure(2, {"{i j}": [[0], [1]]}), {"mass=i": torch.zeros(2, 1)})
            ),
            "features of `mass=i`",
        ),
        (
            lambda: to_networkx(
                Example(Structure(2, {"{i j}": [[0], [1]]}), {}, {"i": torch.zeros(2)})
            ),
            "no place for a target",
        ),
        (
            lambda: to_networkx(
                Structure({"node": 2, "edge": 2}, {"{i j} e:edge": [[0, 0], [1, 1], [1, 0]]})
            ),
            "in their order",
        ),
        (
            lambda: to_networkx(Structure({"a": 2}, {"{i:a j:a}": [[0], [1]]})),
            "a graph holds edges such as",
        ),
        (lambda: to_networkx(inc.collate([Structure(1)] * 2)), "this is a batch of 2"),
        (lambda: to_networkx(Structure(2)), "no index for `{i j}` here"),
    ],
)
def test_what_does_not_fit_is_refused(read, message):
    with pytest.raises(IncidenceError, match=message):
        read()


def test_one_tensor_of_many_is_written_when_asked_for():
    s = Structure(3, {"{i j}": [[0], [1]], "{i j k}": [[0], [1], [2]], "contact={i j}": [[1], [2]]})
    assert list(to_networkx(s, "{i j}").edges) == [(0, 1)]
    assert list(to_networkx(s, "contact").edges) == [(1, 2)]
