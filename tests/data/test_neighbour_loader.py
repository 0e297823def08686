"""`NeighbourLoader`: every seed once an epoch, with its surroundings; what it takes, and what it
refuses.
"""

import pytest
import torch

import incidence as inc
from incidence.data import DataSet, NeighbourLoader, Split, Task
from incidence.errors import IncidenceError
from incidence.models import IncidenceNet
from tests.structure.random_structures import random_structure


def example() -> inc.Example:
    s = random_structure(40, ["{i j}"], seed=0, draws=60)
    x = {"i": torch.arange(40.0)[:, None], "{i j}": torch.ones(s.num_entries("{i j}"), 1)}
    return inc.Example(s, x, {"i": torch.arange(40) % 3})


def test_every_seed_comes_once_an_epoch_with_its_features_and_targets():
    whole, mask = example(), torch.arange(40) % 2 == 0
    batches = list(NeighbourLoader(whole, sizes=[2, 1], batch_size=8, shuffle=True, nodes=mask))
    assert [len(batch.seeds) for batch in batches] == [8, 8, 4]
    seen = torch.cat([batch.nodes[batch.seeds] for batch in batches])
    assert sorted(seen.tolist()) == list(range(0, 40, 2))
    assert seen.tolist() != sorted(seen.tolist())
    for batch in batches:
        assert torch.equal(batch.features["i"], whole.features["i"][batch.nodes])
        assert torch.equal(
            batch.target["i"][batch.seeds], whole.target["i"][batch.nodes[batch.seeds]]
        )
        assert bool((batch.target["i"][len(batch.seeds) :] == -1).all())


def test_a_network_trains_on_its_batches():
    torch.manual_seed(0)
    whole = example()
    whole = whole.replace(target={"i": (whole.features["i"][:, 0] > 20).long()})
    net = IncidenceNet(
        "i, {i j} -> i", 1, 2, hidden=8, depth=1, operations="local", norm="layer", dropout=0.0
    )
    net.calibrate(whole)
    optimizer, losses = torch.optim.Adam(net.parameters(), lr=0.03), []
    for _ in range(12):
        for batch in NeighbourLoader(whole, [4, 4, 4], batch_size=10, shuffle=True):
            loss = torch.nn.functional.cross_entropy(
                net(batch)[batch.seeds], batch.target["i"][batch.seeds]
            )
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(float(loss.detach()))
    assert sum(losses[-4:]) < 0.7 * sum(losses[:4])


def test_seeds_have_a_sort_and_data_sets_and_graphs_of_pyg_are_taken():
    s = random_structure({"movie": 6, "user": 9}, ["u:user m:movie"], seed=0, draws=20)
    two = inc.Example(s, {"u:user": torch.ones(9, 1)})
    assert [
        batch.seeds["user"].tolist()
        for batch in NeighbourLoader(two, [1], 5, nodes={"user": range(9)})
    ] == [
        list(range(5)),
        list(range(4)),
    ]
    data = DataSet(
        "x",
        [example()],
        Task("classification", ("a", "b", "c"), at="i"),
        (Split(*[torch.arange(3)] * 3),),
        "graph",
    )
    assert len(NeighbourLoader(data, [1], 4, nodes=data.split().train)) == 1
    pyg = pytest.importorskip("torch_geometric.data")
    graph = pyg.Data(x=torch.ones(3, 2), edge_index=torch.tensor([[0, 1], [1, 2]]))
    [batch] = NeighbourLoader(graph, [None], batch_size=3)
    assert batch.structure.num_nodes == 3


def test_the_word_of_pyg_for_sizes_is_the_same():
    ours, theirs = (
        next(iter(NeighbourLoader(example(), **sizes, batch_size=3)))
        for sizes in ({"sizes": [None, -1]}, {"num_neighbors": [-1, None]})
    )
    assert ours.nodes.tolist() == theirs.nodes.tolist()
    assert len(NeighbourLoader(example(), num_neighbors=(2, 1), batch_size=30)) == 2


@pytest.mark.filterwarnings("error")
def test_masks_of_a_graph_of_pyg_may_be_seeds():
    pyg = pytest.importorskip("torch_geometric.data")
    mask = torch.tensor([True, False, True])
    graph = pyg.Data(
        x=torch.ones(3, 2),
        edge_index=torch.tensor([[0, 1], [1, 2]]),
        train_mask=mask,
        y=torch.arange(3),
    )
    [batch] = NeighbourLoader(graph, [0], batch_size=3, nodes=graph.train_mask)
    assert batch.nodes.tolist() == [0, 2]


def test_processes_draw_too():
    batches = list(NeighbourLoader(example(), [2], batch_size=20, num_workers=1))
    assert [batch.seeds.tolist() for batch in batches] == [list(range(20))] * 2


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda e: NeighbourLoader([e, e], [1]),
            "takes one example with one structure; got 2 examples",
        ),
        (
            lambda e: NeighbourLoader(inc.collate([e, e]), [1]),
            "takes one example with one structure",
        ),
        (lambda e: NeighbourLoader("cora", [1]), "takes one example with one structure; got str"),
        (
            lambda e: NeighbourLoader(e, [1], nodes=[99]),
            "NeighbourLoader needs different numbers of 0 to 39",
        ),
        (lambda e: NeighbourLoader(e, 3), r"sample needs hops=2"),
        (
            lambda e: NeighbourLoader(e, [1], num_neighbors=[1]),
            r"takes sizes, or num_neighbors, which is the same, .*; got both\.",
        ),
        (lambda e: NeighbourLoader(e, batch_size=2), r"as in sizes=\[10, 10\]; got neither\."),
        (
            lambda e: NeighbourLoader(e, [1], nodes={}),
            "the seeds of a loader are of one sort.*got none",
        ),
    ],
)
def test_what_is_no_single_example_is_refused(call, message):
    with pytest.raises(IncidenceError, match=message):
        call(example())


def test_seeds_may_be_called_as_pyg_calls_them():
    ring = inc.Structure(6, {"{i j}": [[0, 1, 2, 3, 4, 5], [1, 2, 3, 4, 5, 0]]})
    example = inc.Example(ring, {"i": torch.ones(6, 1)})
    [batch] = NeighbourLoader(
        example, num_neighbors=[None], batch_size=4, input_nodes=torch.tensor([0, 3])
    )
    assert (
        batch.structure == next(iter(NeighbourLoader(example, [None], 4, nodes=[0, 3]))).structure
    )
