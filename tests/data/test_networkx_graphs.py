"""Graphs of networkx as data: a target for each graph, or labels of the nodes of one."""

import pytest
import torch

import incidence as inc
from incidence import IncidenceError

nx = pytest.importorskip("networkx")

SMALL = {"epochs": 1, "hidden": 4, "depth": 1}


def cycles(count, **target):
    """Cycles of 3 to 6 nodes, with one of the given values as an attribute of each."""
    graphs = []
    for k in range(count):
        graph = nx.cycle_graph(3 + k % 4)
        nx.set_node_attributes(graph, {v: float(v % 2) for v in graph}, "weight")
        graph.graph.update({name: values[k % len(values)] for name, values in target.items()})
        graphs.append(graph)
    return graphs


@pytest.mark.parametrize(
    ("values", "kind", "names", "expected"),
    [
        ([0, 1], "classification", ("class 0", "class 1"), [0, 1]),
        ([True, False], "classification", ("class 0", "class 1"), [1, 0]),
        (["b", "a"], "classification", ("a", "b"), [1, 0]),
        ([0.5, 2.0], "regression", ("target",), [0.5, 2.0]),
    ],
)
@pytest.mark.parametrize("name", ["y", "target", "label"])
def test_a_list_has_a_target_in_every_graph(name, values, kind, names, expected):
    data = inc.data.load(cycles(8, **{name: values}))
    assert (data.task.kind, data.task.names) == (kind, names)
    assert [example.target.item() for example in data.examples[:2]] == expected
    assert data.examples[0].features["i"].flatten().tolist() == [0.0, 1.0, 0.0]


def test_a_target_is_named():
    data = inc.data.load(cycles(8, y=[1.5, 2.5], size=[7.5, 8.5]), target="size")
    assert [example.target.item() for example in data.examples[:2]] == [7.5, 8.5]
    with pytest.raises(IncidenceError, match=r"no target 'area', .* are y.*graph\['area'\] = 1"):
        inc.data.load(cycles(2, y=[1.5, 2.5]), target="area")


def test_attributes_that_are_no_numbers_are_named():
    graphs = cycles(8, y=[0, 1])
    nx.set_node_attributes(graphs[0], "C", "symbol")
    with pytest.warns(UserWarning, match="of nodes are features if .* left out: symbol"):
        assert inc.data.load(graphs).examples[1].features["i"].shape == (4, 1)


@pytest.mark.filterwarnings("ignore")
def test_a_model_of_graphs_predicts_for_graphs(tmp_path):
    graphs = cycles(12, target=["a", "b"])
    inc.train.train({**SMALL, "out": str(tmp_path / "run")}, inc.data.load(graphs))
    model = inc.load(tmp_path / "run")
    found = model.predict(graphs[:3])
    assert (found.task.names, list(found.names)) == (("a", "b"), ["graph 0", "graph 1", "graph 2"])
    torch.testing.assert_close(found.values[:1], model.predict(graphs[0]).values)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", [nx.Graph, nx.DiGraph])
def test_one_graph_has_labels_of_its_nodes(tmp_path, kind):
    graph = kind(nx.path_graph(list("abcdefghij")).edges)
    nx.set_node_attributes(graph, {v: "xy"[k % 2] for k, v in enumerate(graph)}, "side")
    nx.set_node_attributes(graph, {v: float(k) ** 2 for k, v in enumerate(graph)}, "height")
    data = inc.data.load(graph, target="side")
    edges = "(i j)" if graph.is_directed() else "{i j}"
    assert (data.task.at, data.task.names, data.names) == ("i", ("x", "y"), list("abcdefghij"))
    assert data.examples[0].structure.num_entries(edges) == 9
    assert data.examples[0].target["i"].tolist() == [0, 1] * 5
    inc.train.train({**SMALL, "out": str(tmp_path / "run")}, data)
    found = inc.load(tmp_path / "run").predict(graph)
    assert found.values.shape == (10, 2)
