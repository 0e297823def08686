"""`IncidenceConv` in models of PyG: edges as they come, batches, features of edges in and out, and
graphs that are kept and let go.
"""

import gc

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch._dynamo.testing import CompileCounterWithBackend

import incidence as inc
from incidence.errors import IncidenceError
from incidence.geometry.convert import from_pyg
from incidence.pyg import IncidenceConv
from incidence.pyg.graphs import _GRAPHS, graph_of

data = pytest.importorskip("torch_geometric.data")
T = torch.tensor
EDGES = ["i j", "(i j)", "{i j}", "[i j]"]
seeds = st.integers(0, 2**20)


def random_pairs(
    count: int, seed: int, is_directed: bool = True, has_loops: bool = True
) -> torch.Tensor:
    """Edges in a random order; undirected ones in one direction or in both."""
    random = torch.Generator().manual_seed(seed)
    present = torch.rand(count, count, generator=random) < 0.5
    if not has_loops:
        present.fill_diagonal_(False)
    if not is_directed:
        present = present | present.T if seed % 2 else present.triu()
    pairs = present.nonzero().T
    return pairs[:, torch.randperm(pairs.shape[1], generator=random)]


def pairs_for(edges: str, count: int, seed: int) -> torch.Tensor:
    return random_pairs(
        count, seed, is_directed=edges in ("i j", "(i j)"), has_loops=edges in ("i j", "[i j]")
    )


def double(conv: IncidenceConv) -> IncidenceConv:
    return conv.double().eval()


@settings(max_examples=25, deadline=None)
@given(st.sampled_from(EDGES), st.integers(1, 5), seeds)
def test_a_convolution_respects_relabelling_of_nodes_and_the_order_of_edges(edges, count, seed):
    torch.manual_seed(seed)
    conv = double(IncidenceConv(2, 3, edge_dim=2, edge_out=2, edges=edges))
    pairs = pairs_for(edges, count, seed)
    x, e = (
        torch.randn(count, 2, dtype=torch.float64),
        torch.randn(pairs.shape[1], 2, dtype=torch.float64),
    )
    nodes, order = torch.randperm(count), torch.randperm(pairs.shape[1])
    y, f = conv(x, pairs, e)
    moved = torch.empty_like(x).index_copy(0, nodes, x)
    z, g = conv(moved, nodes[pairs][:, order], e[order])
    torch.testing.assert_close(z[nodes], y)
    torch.testing.assert_close(g, f[order])


@settings(max_examples=25, deadline=None)
@given(st.sampled_from(EDGES), st.lists(st.integers(1, 4), min_size=1, max_size=4), seeds)
def test_graphs_of_a_batch_do_not_see_each_other_however_its_edges_are_mixed(edges, counts, seed):
    torch.manual_seed(seed)
    whole = "mean" if seed % 3 else None
    conv = double(
        IncidenceConv(2, 3, edge_dim=1, edge_out=2, edges=edges, aggr="mean", whole=whole)
    )
    graphs = [
        data.Data(x=torch.randn(n, 2).double(), edge_index=pairs_for(edges, n, seed + k))
        for k, n in enumerate(counts)
    ]
    for graph in graphs:
        graph.edge_attr = torch.randn(graph.edge_index.shape[1], 1).double()
    batch = data.Batch.from_data_list(graphs)
    order = torch.randperm(batch.edge_index.shape[1])
    y, f = conv(batch.x, batch.edge_index[:, order], batch.edge_attr[order], batch.batch)
    if whole is None:  # as in any convolution of PyG, `batch` changes nothing
        z, g = conv(batch.x, batch.edge_index[:, order], batch.edge_attr[order])
        torch.testing.assert_close(z, y)
        torch.testing.assert_close(g, f)
    homes = [torch.zeros(n, dtype=torch.long) for n in counts]
    alone = [
        conv(g.x, g.edge_index, g.edge_attr, home) for g, home in zip(graphs, homes, strict=True)
    ]
    torch.testing.assert_close(y, torch.cat([nodes for nodes, _ in alone]))
    torch.testing.assert_close(f, torch.cat([own for _, own in alone])[order])


def test_graphs_without_batch_do_not_mix_unless_a_layer_pools_over_whole_graphs():
    torch.manual_seed(0)
    x = torch.randn(4, 2).double()
    conv, pairs = double(IncidenceConv(2, 3)), T([[0, 2], [1, 3]])
    changed = torch.cat([x[:2], x[2:] + 1])
    assert torch.equal(conv(x, pairs)[:2], conv(changed, pairs)[:2])
    pooling, homes = double(IncidenceConv(2, 3, whole="mean")), T([0, 0, 1, 1])
    one = torch.zeros(4, dtype=torch.long)
    assert torch.equal(pooling(x, pairs, batch=homes)[:2], pooling(changed, pairs, batch=homes)[:2])
    assert not torch.allclose(
        pooling(x, pairs, batch=one)[:2], pooling(changed, pairs, batch=one)[:2]
    )
    with pytest.raises(IncidenceError, match=r"pass batch=data.batch, or for a single graph "):
        pooling(x, pairs)


def test_a_convolution_is_two_complete_layers_with_a_function_between():
    torch.manual_seed(0)
    conv = IncidenceConv(2, 4, edge_dim=3, hidden=5, edges="(i j)")
    pairs, x, e = T([[0, 1, 2], [1, 2, 0]]), torch.randn(3, 2), torch.randn(3, 3)
    s = inc.Structure(3, {"(i j)": pairs})
    inner = torch.relu(conv.to_edges({"i": x, "(i j)": e}, s))
    assert inner.shape == (3, 5)
    torch.testing.assert_close(conv(x, pairs, e), conv.to_nodes({"i": x, "(i j)": inner}, s))
    # without a mean of all nodes, and one of all edges
    kept = [len(conv.to_edges.operations_of(k, 0)) for k in (0, 1)]
    assert kept == [2, 6]
    assert [len(conv.to_nodes.operations_of(k, 0)) for k in (0, 1)] == [1, 2]
    assert (conv.to_edges.map.dimension, conv.to_nodes.map.dimension) == (3 + 7, 2 + 3)


def test_neighbours_count_whatever_the_direction_and_loops_count_too():
    """What a node gives to its neighbours comes by the edge alone."""
    torch.manual_seed(0)
    for pairs in (T([[0], [1]]), T([[1], [0]]), T([[0, 1], [1, 0]])):
        conv = double(IncidenceConv(1, 3))
        x = torch.ones(3, 1, dtype=torch.float64, requires_grad=True)
        (seen,) = torch.autograd.grad(conv(x, pairs)[1].sum(), x)
        assert seen[0].abs() > 1e-9
        assert seen[2] == 0
    conv = double(IncidenceConv(1, 3))
    x = torch.ones(2, 1, dtype=torch.float64)
    assert not torch.allclose(conv(x, T([[0, 0], [1, 0]])), conv(x, T([[0], [1]])))


def test_undirected_edges_may_come_once_or_both_ways():
    torch.manual_seed(0)
    conv = IncidenceConv(2, 3, edge_dim=1, edge_out=2, edges="{i j}")
    x, e = torch.randn(3, 2), torch.randn(2, 1)
    once, both = T([[0, 1], [1, 2]]), T([[0, 2, 1, 1], [1, 1, 0, 2]])
    y, f = conv(x, once, e)
    z, g = conv(x, both, e[[0, 1, 0, 1]])
    torch.testing.assert_close(y, z)
    torch.testing.assert_close(g, f[[0, 1, 0, 1]])
    uneven, _ = conv(x, both, torch.stack([e[0] - 1, e[1] + 2, e[0] + 1, e[1] - 2]))
    torch.testing.assert_close(uneven, y)  # the mean of both directions


@settings(max_examples=25, deadline=None)
@given(st.sampled_from(EDGES), st.lists(st.integers(1, 4), min_size=1, max_size=3), seeds)
def test_parallel_edges_are_one_with_the_mean_of_their_features(edges, counts, seed):
    torch.manual_seed(seed)
    conv = double(IncidenceConv(2, 3, edge_dim=2, edge_out=2, edges=edges))
    firsts = [sum(counts[:k]) for k in range(len(counts))]
    pairs = torch.cat(
        [
            first + pairs_for(edges, count, seed + k)
            for k, (first, count) in enumerate(zip(firsts, counts, strict=True))
        ],
        1,
    )
    batch = torch.repeat_interleave(torch.arange(len(counts)), T(counts))
    x, e = (
        torch.randn(len(batch), 2, dtype=torch.float64),
        torch.randn(pairs.shape[1], 2, dtype=torch.float64),
    )
    y, f = conv(x, pairs, e, batch)
    # every column three times
    again = torch.arange(pairs.shape[1]).repeat(3)[torch.randperm(3 * pairs.shape[1])]
    spread = torch.randn(len(again), 2, dtype=torch.float64)
    spread -= torch.zeros_like(e).index_add(0, again, spread)[again] / 3
    z, g = conv(x, pairs[:, again], e[again] + spread, batch)
    torch.testing.assert_close(z, y)
    torch.testing.assert_close(g, f[again])


def test_a_weight_for_every_edge_may_have_one_dimension():
    conv = IncidenceConv(2, 3, edge_dim=1)
    x, pairs, weight = torch.randn(3, 2), T([[0, 1], [1, 2]]), torch.rand(2)
    assert torch.equal(conv(x, pairs, weight), conv(x, pairs, weight[:, None]))


def test_a_structure_may_take_the_place_of_edge_index():
    graph = data.Data(
        x=torch.randn(4, 2), edge_index=T([[0, 1, 2], [1, 2, 3]]), edge_attr=torch.randn(3, 1)
    )
    conv = IncidenceConv(2, 3, edge_dim=1, edges="{i j}")
    example = from_pyg(graph)
    found = conv(example.features["i"], example.structure, example.features["{i j}"])
    torch.testing.assert_close(found, conv(graph.x, graph.edge_index, graph.edge_attr))


def test_a_model_of_pyg_learns_with_it():
    pyg = pytest.importorskip("torch_geometric.nn")
    torch.manual_seed(0)
    steps = [
        (IncidenceConv(1, 8), "x, edge_index -> x"),
        nn.ReLU(),
        (IncidenceConv(8, 8), "x, edge_index -> x"),
        (pyg.global_add_pool, "x, batch -> x"),
        nn.Linear(8, 1),
    ]
    model = pyg.Sequential("x, edge_index, batch", steps)
    graphs = [data.Data(x=torch.ones(4, 1), edge_index=pairs_for("{i j}", 4, k)) for k in range(12)]
    batch = data.Batch.from_data_list(graphs)
    target = T([[float(g.edge_index.shape[1])] for g in graphs])
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    losses = []
    for _ in range(80):
        loss = nn.functional.mse_loss(model(batch.x, batch.edge_index, batch.batch), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.05 * losses[0]


# ---- graphs that are kept


def test_layers_share_the_graph_of_a_batch_and_its_plans(monkeypatch):
    batch = data.Batch.from_data_list(
        [data.Data(x=torch.randn(3, 2), edge_index=T([[0], [1]])) for _ in range(2)]
    )
    kept = graph_of(batch.edge_index, 6, batch.batch, "i j")
    monkeypatch.setattr("incidence.pyg.graphs._graph", None)
    for conv in (IncidenceConv(2, 2), IncidenceConv(2, 5)):
        conv(batch.x, batch.edge_index, batch=batch.batch)
    assert graph_of(batch.edge_index, 6, batch.batch, "i j") is kept


def test_a_graph_goes_with_its_edge_index():
    gc.collect()
    before = len(_GRAPHS)
    pairs = T([[0, 1], [1, 2]])
    IncidenceConv(1, 1)(torch.ones(3, 1), pairs)
    assert len(_GRAPHS) == before + 1
    del pairs
    gc.collect()
    assert len(_GRAPHS) == before


def test_tensors_that_were_changed_in_place_make_another_graph():
    pairs, homes = T([[0], [1]]), T([0, 0, 0])
    first = graph_of(pairs, 3, homes, "i j")
    pairs[1, 0] = 2
    second = graph_of(pairs, 3, homes, "i j")
    assert second.structure["i j"].tolist() == [[0], [2]]
    homes[1:] = 1
    with pytest.raises(IncidenceError, match="node"):
        graph_of(pairs, 3, homes, "i j")
    assert first.structure["i j"].tolist() == [[0], [1]]


def test_other_sizes_other_batches_and_other_patterns_make_other_graphs():
    pairs, homes = T([[0], [1]]), T([0, 0, 1])
    found = [
        graph_of(pairs, 3, None, "i j"),
        graph_of(pairs, 4, None, "i j"),
        graph_of(pairs, 3, homes, "i j"),
        graph_of(pairs, 3, None, "{i j}"),
    ]
    assert len({id(graph) for graph in found}) == 4
    for _ in range(20):  # a new tensor may get the number of one that is gone
        homes = T([0, 0, 0])
        assert graph_of(pairs, 3, homes, "i j").structure.num_structures == 1
        homes = T([0, 0, 1])
        assert graph_of(pairs, 3, homes, "i j").structure.num_structures == 2


def test_graphs_made_without_gradients_serve_training():
    conv, pairs = IncidenceConv(1, 1), T([[0], [1]])
    with torch.inference_mode():
        conv(torch.ones(2, 1), pairs)
        conv(torch.ones(2, 1), T([[0], [1]]))
    conv(torch.ones(2, 1), pairs).sum().backward()
    assert all(p.grad is not None for p in conv.parameters())


# ---- what it is, and what it refuses


def test_a_convolution_says_what_it_is_and_draws_its_weights_anew():
    conv = IncidenceConv(2, 3, edge_dim=4, edge_out=5, edges="{a b}")
    assert repr(conv).startswith("IncidenceConv(\n  2, 3, edge_dim=4, edge_out=5, edges='{a b}'")
    before = conv.to_nodes.weight_0_0.clone()
    conv.reset_parameters()
    assert not torch.equal(before, conv.to_nodes.weight_0_0)
    assert "whole" not in repr(conv)
    assert ", whole='mean'" in repr(IncidenceConv(2, 3, whole="mean"))
    assert len(IncidenceConv(2, 3, operations="boundary").to_edges.operations_of(0, 0)) == 3


PAIRS = T([[0], [1]])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: IncidenceConv(1, 1, edges="{i j k}"),
            r"edges are `i j`, `\(i j\)`, `\{i j\}` or `\[i j\]`; got `\{i j k\}`",
        ),
        (lambda: IncidenceConv(1, 0), "is a number of channels, at least 1"),
        (
            lambda: IncidenceConv(1, 1, operations="all"),
            r"operations='all' keeps operations of `i -> i j` that pool .*: add whole='mean'",
        ),
        (
            lambda: IncidenceConv(1, 1)(torch.ones(2, 1), PAIRS, torch.ones(1, 3)),
            r"made for no edge_attr \(edge_dim=None\); got \[1, 3\]. Make it with edge_dim=3",
        ),
        (
            lambda: IncidenceConv(1, 1)(torch.ones(2, 1), PAIRS, T([0, 0])),
            r"for no edge_attr .*; got \[2\]. Graphs of nodes are batch=data.batch",
        ),
        (
            lambda: IncidenceConv(1, 1, edge_dim=3)(torch.ones(2, 1), PAIRS),
            "made for edge_attr with 3 channels; got none. Pass data.edge_attr",
        ),
        (
            lambda: IncidenceConv(1, 1)((torch.ones(2, 1), torch.ones(2, 1)), PAIRS),
            "got tuple .nodes of two kinds are sorts",
        ),
        (
            lambda: IncidenceConv(1, 1)(torch.ones(2, 1), torch.ones(2, 1)),
            r"edge_index has integers of shape \[2, edges\].*got \[2, 1\]",
        ),
        (
            lambda: IncidenceConv(1, 1)(torch.ones(2, 1), [[0], [1]]),
            r"edge_index has integers.*got list",
        ),
        (lambda: IncidenceConv(1, 1)(torch.ones(2, 1), T([[0], [2]])), "nodes are numbered 0 to 1"),
        (
            lambda: IncidenceConv(1, 1, edges="(i j)")(torch.ones(2, 1), T([[0], [0]])),
            "Remove the self-loop",
        ),
        (
            lambda: IncidenceConv(1, 1)(torch.ones(3, 1), T([[0], [2]]), batch=T([0, 0, 1])),
            "more than one structure of the batch",
        ),
    ],
)
def test_what_does_not_fit_is_refused(call, message):
    with pytest.raises(IncidenceError, match=message):
        call()


def test_rows_of_edge_attr_that_do_not_fit_parallel_edges_are_refused():
    edges = torch.tensor([[0, 1, 0, 2], [1, 0, 1, 1]])
    with pytest.raises(
        IncidenceError, match="edge_attr has a row for each of the 4 columns of edge_index; got 3"
    ):
        IncidenceConv(4, 6, edge_dim=3)(torch.ones(3, 4), edges, torch.ones(3, 3))
    with pytest.raises(IncidenceError, match="out_channels"):
        IncidenceConv(4, 0)


class Model(nn.Module):
    """A user's model with two layers of ours."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = IncidenceConv(3, 4), IncidenceConv(4, 2)

    def forward(self, x: torch.Tensor, edge_index: torch.Tensor) -> torch.Tensor:
        hidden = torch.relu(self.first(x, edge_index))
        return torch.tanh(self.second(hidden, edge_index))


# torch looks at the gradient of what a graph takes from the part before
@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor:UserWarning")
def test_a_compiled_model_runs_the_layers_between_its_graphs_for_any_size():
    torch._dynamo.reset()
    counter = CompileCounterWithBackend("eager")
    model = Model()
    compiled = torch.compile(model, backend=counter)
    for count in (5, 8, 12, 20):
        x, pairs = torch.randn(count, 3), random_pairs(count, count)
        torch.testing.assert_close(compiled(x, pairs), model(x, pairs))
        if count == 8:
            frames = counter.frame_count
    assert counter.frame_count == frames  # none after the second size
    torch._dynamo.reset()


def test_a_layer_on_a_planned_structure_is_one_graph():
    torch._dynamo.reset()
    layer = IncidenceConv(3, 4)
    structure = inc.Structure(4, {"i j": [[0, 1, 2], [1, 2, 3]]})
    layer.plan(structure)
    x = torch.randn(4, 3)
    compiled = torch.compile(layer, fullgraph=True, backend="eager")
    torch.testing.assert_close(compiled(x, structure), layer(x, structure))
    torch._dynamo.reset()
