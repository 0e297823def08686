"""Loaders give batches of whatever makes batches, read once."""

import pytest
import torch

import incidence as inc
from incidence.errors import IncidenceError
from incidence.geometry.convert import from_pyg
from tests.train.small_runs import graphs

pyg = pytest.importorskip("torch_geometric.data")


def pyg_graphs(count: int) -> list:
    ring = torch.tensor([[0, 1, 2, 1, 2, 0], [1, 2, 0, 0, 1, 2]])
    return [
        pyg.Data(x=torch.rand(3 + k % 2, 2), edge_index=ring, y=torch.tensor([float(k)]))
        for k in range(count)
    ]


def test_a_loader_gives_the_batches_that_collate_gives():
    examples = graphs(7)
    loader = inc.data.DataLoader(examples, batch_size=3)
    assert len(loader) == 3
    assert list(loader) == [
        inc.collate(examples[:3]),
        inc.collate(examples[3:6]),
        inc.collate(examples[6:]),
    ]


def test_a_loader_shuffles_by_its_generator_and_takes_the_options_of_torch():
    generator = torch.Generator().manual_seed(3)
    loader = inc.data.DataLoader(
        pyg_graphs(9), batch_size=4, shuffle=True, drop_last=True, generator=generator
    )
    first, second = ([batch.target.flatten().tolist() for batch in loader] for _ in range(2))
    assert [len(batch) for batch in first] == [4, 4]
    assert first != second
    assert len({value for batch in first for value in batch}) == 8


def test_graphs_of_pyg_are_read_once(monkeypatch):
    items = pyg_graphs(6)
    exact = inc.collate(from_pyg(items[:4]))
    expected = exact.replace(
        features={"{i j}": torch.ones(exact.structure.num_entries("{i j}"), 1), **exact.features}
    )
    loader = inc.data.DataLoader(items, batch_size=4)
    monkeypatch.setattr("incidence.geometry.convert.pyg.read_graph", None)
    assert next(iter(loader)) == expected
    assert next(iter(loader)).structure._origin is not None  # taken from a store


@pytest.mark.parametrize("kind", ["a batch", "structures", "a data set", "an example"])
def test_a_loader_takes_what_makes_batches(kind):
    examples = graphs(4)
    data = {
        "a batch": inc.collate(examples),
        "structures": [e.structure for e in examples],
        "a data set": inc.data.load(examples),
        "an example": examples[0],
    }[kind]
    [batch] = inc.data.DataLoader(data, batch_size=4)
    count = 1 if kind == "an example" else 4
    expected = inc.collate([e.structure for e in examples[:count]])
    assert (batch if kind == "structures" else batch.structure) == expected


@pytest.mark.parametrize("kind", ["graphs of PyG", "examples"])
def test_what_torch_drew_of_a_list_is_taken_by_loaders_and_by_load(kind):
    items = pyg_graphs(9) if kind == "graphs of PyG" else graphs(9)
    part, rest = torch.utils.data.random_split(
        items, [6, 3], generator=torch.Generator().manual_seed(0)
    )
    chosen = [items[k] for k in part.indices]
    [batch] = inc.data.DataLoader(part, batch_size=6)
    assert batch == inc.collate(chosen)
    assert inc.data.load(part).examples == inc.data.load(chosen).examples
    both = torch.utils.data.ConcatDataset([part, rest])
    assert len(inc.data.load(both).examples) == 9
    [one] = inc.data.NeighbourLoader(torch.utils.data.Subset(items, [4]), [None], batch_size=9)
    assert one.structure.num_nodes == inc.collate([items[4]]).structure.num_nodes


def test_part_of_a_data_set_of_pyg_is_taken():
    class Rings(pyg.InMemoryDataset):
        def __init__(self, items):
            super().__init__(None)
            self.data, self.slices = self.collate(items)

    items = pyg_graphs(6)
    part = torch.utils.data.Subset(Rings(items), [4, 1])
    assert inc.data.load(part).examples == inc.data.load([items[4], items[1]]).examples
    assert next(iter(inc.data.DataLoader(part, batch_size=2))) == inc.collate([items[4], items[1]])


def test_a_loader_in_processes_of_its_own_gives_the_same():
    examples = graphs(5)
    assert list(inc.data.DataLoader(examples, batch_size=2, num_workers=1)) == list(
        inc.data.DataLoader(examples, batch_size=2)
    )


@pytest.mark.parametrize(("data", "came"), [([], "nothing"), ([3], "int"), ("solubility", "str")])
def test_a_loader_refuses_what_makes_no_batches(data, came):
    with pytest.raises(
        IncidenceError,
        match=rf"a loader takes examples, structures or graphs of PyG; got {came}\. `inc.data.load",
    ):
        inc.data.DataLoader(data)
