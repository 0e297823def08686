"""Data sets of PyG, made in memory."""

import pytest
import torch

from incidence.data import load
from incidence.errors import IncidenceError

pyg = pytest.importorskip("torch_geometric.data")


def path(n, y, **more):
    pairs = torch.stack([torch.arange(n - 1), torch.arange(1, n)])
    return pyg.Data(edge_index=torch.cat([pairs, pairs.flip(0)], dim=1), num_nodes=n, y=y, **more)


class Paths(pyg.InMemoryDataset):
    def __init__(self, items):
        super().__init__(None)
        self.data, self.slices = self.collate(items)


def test_a_data_set_in_memory_is_ready_for_training():
    items = [path(n, torch.tensor([n % 3]), x=torch.full((n, 4), n, dtype=torch.long)) for n in range(2, 22)]
    data = load(Paths(items), name="paths")
    assert (data.name, data.task.kind, data.task.names, data.metric) == (
        "paths",
        "classification",
        ("class 0", "class 1", "class 2"),
        "accuracy",
    )
    assert [len(part) for part in data.splits[0]] == [16, 2, 2]
    assert data.examples[3].features["i"].tolist() == [[5.0] * 4] * 5
    assert data.examples[3].features["{i j}"].tolist() == [[1.0]] * 4
    assert int(data.examples[3].target) == 2
    assert len(data.parts().train) == 16


def test_nodes_without_features_get_their_degrees():
    data = load([path(3, torch.tensor([0.5]))])
    assert torch.allclose(data.examples[0].features["i"][:, 0].exp(), torch.tensor([2.0, 3.0, 2.0]))
    assert data.task.kind == "regression"
    assert data.examples[0].target.tolist() == [0.5]


def test_a_column_of_several_targets_may_be_chosen():
    items = [path(n, torch.tensor([[n, 2.0 * n]])) for n in range(2, 8)]
    assert load(items).task.names == ("target 0", "target 1")
    data = load(items, target=1)
    assert data.task.names == ("target",)
    assert data.examples[0].target.tolist() == [4.0]
    with pytest.raises(IncidenceError, match=r"shape \[2\], so there is no column 2"):
        load(items, target=2)


def test_whole_numbers_may_be_targets_of_regression():
    items = [path(n, torch.tensor([n])) for n in range(2, 8)]
    assert load(items, task="regression").examples[2].target.tolist() == [4.0]


def test_masks_are_splits_of_the_nodes():
    masks = torch.eye(3, dtype=torch.bool).repeat_interleave(2, 0)
    data = load([path(6, torch.tensor([0, 1, 0, 1, 0, -1]), train_mask=masks[:, 0], val_mask=masks[:, 1], test_mask=masks[:, 2])])
    assert data.is_transductive
    assert data.task.at == "i"
    assert [part.tolist() for part in data.splits[0]] == [[0, 1], [2, 3], [4, 5]]
    assert data.parts().validation[0].target["i"].tolist() == [-1, -1, 0, 1, -1, -1]
    table = torch.stack([masks[:, 0], masks[:, 1]], dim=1)
    two = load([path(6, torch.arange(6) % 2, train_mask=table, test_mask=masks[:, 2])])
    assert [split.train.tolist() for split in two.splits] == [[0, 1], [2, 3]]
    assert [len(split.validation) for split in two.splits] == [0, 0]


def test_given_splits_are_kept():
    items = [path(3, torch.tensor([k % 2])) for k in range(4)]
    data = load(items, splits=[(torch.tensor([0, 1]), torch.tensor([2]), torch.tensor([3]))])
    assert data.splits[0].train.tolist() == [0, 1]


def test_what_cannot_be_learned_from_is_refused(tmp_path):
    with pytest.raises(IncidenceError, match="'pyg' is empty"):
        load(Paths([path(3, torch.tensor([0]))])[:0])
    with pytest.raises(IncidenceError, match="an example has no target"):
        load([path(3, None)])
    with pytest.raises(IncidenceError, match="pyg 1 has 2 features"):
        load([path(3, torch.tensor([k]), x=torch.zeros(3, 1 + k)) for k in range(2)])
    with pytest.raises(IncidenceError, match="no finite numbers"):
        load([path(3, torch.tensor([0]), x=torch.full((3, 1), torch.nan))])
    with pytest.raises(IncidenceError, match="PyG has no data set 'Nothing'"):
        load("pyg:Nothing/X", folder=tmp_path)
    with pytest.raises(IncidenceError, match="PyG has no data set 'os'"):
        load("pyg:os", folder=tmp_path)
    with pytest.raises(IncidenceError, match="give the folder for them"):
        load("pyg:TUDataset/MUTAG")


def test_a_data_set_is_made_by_the_class_of_its_name(monkeypatch, tmp_path):
    datasets = pytest.importorskip("torch_geometric.datasets")
    asked = []

    class Named(Paths):
        def __init__(self, root, name):
            asked.append((root, name))
            super().__init__([path(n, torch.tensor([n % 2])) for n in range(2, 8)])

    class Greedy(Paths):
        def __init__(self, root, more):
            raise AssertionError

    monkeypatch.setattr(datasets, "Named", Named, raising=False)
    monkeypatch.setattr(datasets, "Greedy", Greedy, raising=False)
    data = load("pyg:Named/short", folder=tmp_path, seed=1)
    assert asked == [(str(tmp_path), "short")]
    assert (data.name, len(data.examples)) == ("pyg:Named/short", 6)
    with pytest.raises(IncidenceError, match=r"Greedy takes more than folder and name .*give it to `inc.data.load`"):
        load("pyg:Greedy", folder=tmp_path)


def test_data_that_pyg_cannot_fetch_is_told_with_its_place(monkeypatch, tmp_path):
    class Far(Paths):
        def __init__(self, root, name):
            (tmp_path / "MUTAG" / "raw").mkdir(parents=True)
            raise ConnectionError("no network")

    monkeypatch.setattr(pytest.importorskip("torch_geometric.datasets"), "Far", Far, raising=False)
    with pytest.raises(IncidenceError, match=r"PyG could not fetch 'pyg:Far/MUTAG', .*no network.* into .*MUTAG/raw yourself"):
        load("pyg:Far/MUTAG", folder=tmp_path)


def test_graphs_of_a_batch_are_examples_of_their_own():
    graphs = [path(k + 2, torch.tensor([k % 2])) for k in range(4)]
    batch = pyg.Batch.from_data_list(graphs)
    plain = pyg.Data(edge_index=batch.edge_index, num_nodes=batch.num_nodes, y=batch.y, batch=batch.batch)
    for given in (batch, plain, [batch], [plain]):
        assert load(given).examples == load(graphs).examples
