"""Graphs of PyG as they come: all doors read them alike, leave out and join the same edges, and say
so.
"""

import pytest
import torch

import incidence as inc
from incidence.data import DataLoader, NeighbourLoader, load
from incidence.errors import IncidenceError
from incidence.geometry.convert import from_pyg
from tests.geometry.convert.loose_graphs import GRAPHS, drugs, graph

data = pytest.importorskip("torch_geometric.data")
loaders = pytest.importorskip("torch_geometric.loader")
T = torch.tensor
NO_EDGES = torch.zeros(2, 0, dtype=torch.long)


@pytest.fixture(autouse=True)
def nothing_was_said(monkeypatch):
    monkeypatch.setattr("incidence.geometry.convert.pyg_lenient._WARNED", set())


def by_the_loader_of_pyg(items: list) -> inc.Example:
    loader = loaders.DataLoader(items, batch_size=len(items))
    loader.collate_fn = inc.collate
    return next(iter(loader))


def by_neighbours(items: list) -> inc.Example:
    found = [next(iter(NeighbourLoader(item, [None], batch_size=3))) for item in items]
    return inc.collate([inc.Example(one.structure, one.features, one.target) for one in found])


DOORS = {
    "load": lambda items: inc.collate(load(items).examples),
    "DataLoader": lambda items: next(iter(DataLoader(items, batch_size=len(items)))),
    "collate": inc.collate,
    "PyG's loader": by_the_loader_of_pyg,
    "NeighbourLoader": by_neighbours,
}


@pytest.mark.parametrize("count", [1, 9])
@pytest.mark.parametrize("kind", GRAPHS)
@pytest.mark.parametrize("door", DOORS)
def test_every_door_reads_edges_alike_and_says_so(door, kind, count):
    one, edges, pairs = GRAPHS[kind]
    with pytest.warns(UserWarning, match=r"^edges are read as `[{(]i j[)}]`: ") as seen:
        batch = DOORS[door]([one] * count)
    assert {str(warning.message).partition(":")[0] for warning in seen} == {
        f"edges are read as `{edges}`"
    }
    # whose own code calls it
    assert {warning.filename for warning in seen} == {__file__} or door == "PyG's loader"
    assert [sorted(found.structure[edges].T.tolist()) for found in batch] == [pairs] * count


@pytest.mark.parametrize("count", [2, 9])
@pytest.mark.parametrize("door", [door for door in DOORS if door != "NeighbourLoader"])
def test_one_graph_with_directions_makes_all_of_a_list_directed(door, count):
    items = [graph([[0, 1], [1, 0]], [4.0, 4.0])] * (count - 1) + [
        graph([[0, 1], [1, 0]], [1.0, 2.0])
    ]
    with pytest.warns(
        UserWarning, match=r"read as `\(i j\)`: features of an edge and of its reverse differ\."
    ):
        batch = DOORS[door](items)
    assert batch.structure.num_entries("(i j)") == 2 * count
    assert batch[0].features["(i j)"].tolist() == [[4.0], [4.0]]


@pytest.mark.parametrize("door", ["load", "DataLoader", "collate", "PyG's loader"])
def test_a_graph_without_edges_may_lack_what_edges_have(door):
    full = graph([[0, 1], [1, 2]], [[1.0, 2.0], [3.0, 4.0]])
    bare = data.Data(x=torch.ones(1, 2), y=T([1.5]))
    empty = data.Data(x=torch.ones(1, 2), edge_index=NO_EDGES, y=T([1.5]))
    flat = data.Data(x=torch.zeros(0, 2), edge_index=NO_EDGES, edge_attr=torch.zeros(0), y=T([1.5]))
    nobody = data.Data(num_nodes=0, edge_index=NO_EDGES, y=T([1.5]))
    batch = DOORS[door]([full, bare, empty, flat, nobody])
    assert [one.structure.num_entries("{i j}") for one in batch] == [2, 0, 0, 0, 0]
    assert [one.structure.num_nodes for one in batch] == [3, 1, 1, 0, 0]
    assert batch.features["{i j}"].tolist() == [[1.0, 2.0], [3.0, 4.0]]


@pytest.mark.parametrize("door", ["load", "DataLoader", "collate"])
@pytest.mark.filterwarnings("ignore:edges are read as")
def test_features_that_only_some_graphs_have_are_refused(door):
    some = [graph([[0, 1]], [1.0]), graph([[0, 1]])]
    with pytest.raises(
        IncidenceError,
        match=(
            r"number 1 has none of `\{i j\}`, and others have some: set `x`, `edge_attr` and the"
            r" like"
        ),
    ):
        DOORS[door](some)
    directed = [graph([[0, 1], [1, 0]], [1.0, 2.0]), graph([[0, 1]])]
    with pytest.raises(IncidenceError, match=r"number 1 has none of `\(i j\)`"):
        DOORS[door](directed)
    # as many as degrees would have
    two_columns = [graph([[0, 1]]), data.Data(num_nodes=3, edge_index=T([[0], [1]]), y=T([0.5]))]
    with pytest.raises(IncidenceError, match="number 1 has none of `i`"):
        DOORS[door](two_columns)


@pytest.mark.filterwarnings("error")
def test_other_names_are_told_once_by_every_door(monkeypatch):
    for door in (
        from_pyg,
        inc.data.load,
        lambda graph: inc.collate([graph, graph]),
        inc.data.DataLoader,
    ):
        monkeypatch.setattr("incidence.geometry.convert.pyg._WARNED", set())
        with pytest.warns(UserWarning, match="`is-a` is `is_a_2`") as seen:
            door(drugs())
        assert [warning.filename for warning in seen] == [__file__]
        door(drugs())


@pytest.mark.parametrize("door", ["DataLoader", "collate", "PyG's loader", "NeighbourLoader"])
def test_graphs_without_features_get_those_that_data_sets_give_them(door):
    items = [data.Data(edge_index=T([[0, 1, 1, 2], [1, 0, 2, 1]]), num_nodes=3, y=T([0.5]))] * 4
    batch, expected = DOORS[door](items), DOORS["load"](items)
    assert batch.features.keys() == expected.features.keys()
    assert all(
        torch.equal(batch.features[key], expected.features[key]) for key in expected.features
    )
    net = inc.models.make("graph", {key: x.shape[1] for key, x in batch.features.items()})
    assert net(batch).shape == (4, 1)
