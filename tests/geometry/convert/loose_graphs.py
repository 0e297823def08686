"""Graphs of PyG as they come: with loops, parallel edges, directions, and names of any kind."""

import pytest
import torch

data = pytest.importorskip("torch_geometric.data")
T = torch.tensor


def graph(pairs: list, values: list | None = None, **more: object) -> object:
    of_edges = {} if values is None else {"edge_attr": T(values)}
    return data.Data(
        **{"x": torch.ones(3, 2), "edge_index": T(pairs).T, "y": T([0.5]), **of_edges, **more}
    )


GRAPHS = {
    "loops": (graph([[0, 1], [1, 1], [1, 2]]), "{i j}", [[0, 1], [1, 2]]),
    "parallel edges": (graph([[0, 1], [0, 1], [1, 2]]), "{i j}", [[0, 1], [1, 2]]),
    "directions": (
        graph([[0, 1], [1, 0], [1, 2]], [1.0, 2.0, 3.0]),
        "(i j)",
        [[0, 1], [1, 0], [1, 2]],
    ),
    "all of it": (
        graph([[0, 1], [0, 1], [2, 2], [1, 0]], [1.0, 3.0, 9.0, 5.0]),
        "(i j)",
        [[0, 1], [1, 0]],
    ),
}


def drugs() -> object:
    graph = data.HeteroData()
    for number, sort in enumerate(["drug-a", "drug_a", "2", "side effect"]):
        graph[sort].x, graph[sort].pos = torch.full((2, 1), float(number)), torch.rand(2, 3)
    graph["drug-a", "is-a", "drug_a"].edge_index, graph["drug-a", "is-a", "drug_a"].edge_attr = (
        T([[0], [1]]),
        T([5.0]),
    )
    graph["drug_a", "is_a", "drug-a"].edge_index = T([[1], [1]])
    graph["2", "3 of", "2"].edge_index = T([[0], [1]])
    graph["2", "x", "side effect"].edge_index = T([[1], [0]])
    graph["drug-a"].y = T([0, 1])
    return graph
