"""What a careless caller may do to a layer."""

import pickle

import pytest
import torch

import incidence as inc
from incidence.errors import IncidenceError
from incidence.nn import Linear, Residual, Sequential
from incidence.structure import Structure

EDGES = torch.tensor([[0, 2], [1, 3]])


def test_evaluating_in_inference_mode_leaves_a_structure_fit_for_training():
    s = Structure(4, {"{i j}": EDGES, "i j": EDGES})
    net = Sequential(
        Linear("i -> i, {i j}, i j", 2, 4),
        inc.nn.BatchNorm("i, {i j}, i j", 4),
        Linear("i, {i j}, i j -> i j", 4, 1),
    )
    net.append(inc.nn.Readout("i j", ["sum", "max"]))
    x = torch.randn(4, 2, requires_grad=True)
    with torch.inference_mode():
        net(x, s)
    net(x, s).sum().backward()
    assert x.grad is not None


def test_what_is_not_finite_stays_where_it_is_read():
    s = Structure(4, {"(i j)": EDGES})
    x = torch.ones(4, 1)
    x[0] = float("inf")
    y = Linear("i -> (i j)", 1, 1, operations=lambda o: any(map(any, o.overlap)))(x, s)
    assert not y[0].isfinite().any()
    assert y[1].isfinite().all()


@pytest.mark.parametrize("wrong", [None, 3, torch.zeros(2), {}], ids=str)
def test_what_is_no_structure_is_refused(wrong):
    layer = Linear("i -> i", 1, 1)
    for call in (
        lambda: layer(torch.ones(2, 1), wrong),
        lambda: layer.plan(wrong),
        lambda: layer.operator(0, wrong),
    ):
        with pytest.raises(IncidenceError, match="the second argument is a Structure"):
            call()


def test_a_structure_does_not_follow_the_tensor_it_was_made_from():
    index = EDGES.clone()
    s = Structure(4, {"(i j)": index})
    index[0, 0] = 3
    assert torch.equal(s["(i j)"], EDGES)
    array = EDGES.numpy().copy()
    s = Structure(4, {"(i j)": array})
    array[0, 0] = 99
    assert torch.equal(s["(i j)"], EDGES)


def test_an_index_may_come_as_rows_or_as_any_array():
    rows = Structure(4, {"(i j)": (EDGES[0], EDGES[1])})
    turned = Structure(4, {"(i j)": EDGES.numpy()[:, ::-1]})
    assert torch.equal(rows["(i j)"], EDGES)
    assert torch.equal(turned["(i j)"], EDGES.flip(1))


def test_a_refused_first_input_leaves_a_lazy_layer_open():
    layer = Linear("i -> i", -1, 3)
    with pytest.raises(IncidenceError, match="convert one"):
        layer(torch.ones(2, 5, dtype=torch.float64), Structure(2))
    assert layer(torch.ones(2, 4), Structure(2)).shape == (2, 3)


def test_a_layer_without_weights_cannot_be_saved_yet():
    with pytest.raises(IncidenceError, match="run it once"):
        Linear("i -> i", -1, 3).state_dict()


def test_a_traced_layer_refuses_rows_that_do_not_fit():
    s = Structure(3, {"(i j)": torch.tensor([[0, 1], [1, 2]])})
    layer = Linear("(i j) -> i", 1, 1)
    layer.plan(s)
    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
    with pytest.raises(IncidenceError, match=r"features must have shape \[2, channels\]"):
        compiled(torch.ones(5, 1), s)


def test_a_traced_layer_follows_autocast():
    s = Structure(3, {"(i j)": torch.tensor([[0, 1], [1, 2]])})
    layer = Linear("(i j) -> i", 1, 1)
    layer.plan(s)
    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
    with torch.autocast("cpu", torch.bfloat16):
        assert (
            compiled(torch.ones(2, 1), s).dtype
            == layer(torch.ones(2, 1), s).dtype
            == torch.bfloat16
        )


class Doubles(torch.nn.Module):
    """A module of the user's own that knows nothing of structures."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return 2 * x


def test_modules_of_the_user_and_wrapped_layers_fit_into_a_sequence():
    s = Structure(3)
    layer = Linear("i -> i", 2, 2)
    layer.plan(s)
    compiled = torch.compile(layer, backend="aot_eager")
    x = torch.randn(3, 2)
    torch.testing.assert_close(Sequential(compiled, Doubles())(x, s), 2 * layer(x, s))
    with pytest.raises(IncidenceError, match=r"use inc\.nn\.Sequential inside as well"):
        Sequential(torch.nn.Sequential(layer))
    with pytest.raises(IncidenceError, match="a residual is made of modules"):
        Residual(torch.relu)


def test_few_entries_among_very_many_nodes_are_a_small_structure():
    far = torch.tensor([[0, 10**12], [10**12, 7]])
    near = torch.tensor([[0, 2], [2, 1]])
    layer = Linear("(i j) -> (i j)", 2, 2, dtype=torch.float64)
    x = torch.randn(2, 2, dtype=torch.float64)
    wide = Structure(2**60, {"(i j)": far})
    torch.testing.assert_close(layer(x, wide), layer(x, Structure(3, {"(i j)": near})))
    both = inc.collate([wide, wide])
    assert layer.plan(both).num_keys[1].tolist() == [3, 3]


REFUSED = {
    "no aggregation": (lambda: Linear("i -> i", 1, 1, aggr=None), "aggr is one of"),
    "operations that there are not": (
        lambda: Linear("i -> i", 1, 1, operations=[2]),
        "numbers from 0 to 1 or formulas.*got 2",
    ),
    "parameters of integers": (
        lambda: Linear("i -> i", 1, 1, dtype=torch.long),
        "parameters of a floating type",
    ),
    "an operation that is not there": (
        lambda: Linear("i -> i", 1, 1).operator(99, Structure(2)),
        "operations are numbered 0 to 1; got 99",
    ),
    "max_overlap beside a map": (
        lambda: Linear(inc.EquivariantMap("{i ...} -> i"), 1, 1, max_overlap=2),
        "the map has max_overlap=1, and 2 is given",
    ),
    "too many nodes": (lambda: Structure(2**63), "fewer than 2"),
    "identifiers for entry numbers": (
        lambda: Structure(3, {"{i ...}": torch.tensor([[0, 1], [0, 10**12]])}),
        "2 incidences cannot make 1,000,000,000,001 faces",
    ),
    "an index without values": (lambda: Structure(3, {"(i j)": EDGES.to("meta")}), "meta device"),
    "a sparse index": (
        lambda: Structure(3, {"i j": torch.eye(3).long().to_sparse()}),
        "must be a dense tensor",
    ),
    "sparse features": (
        lambda: Linear("i -> i", 3, 1)(torch.eye(3).to_sparse(), Structure(3)),
        "must be a dense tensor",
    ),
    "no channels": (
        lambda: Linear("i -> i", -1, 1)(torch.zeros(3, 0), Structure(3)),
        "have no channels",
    ),
    "a norm of another type": (
        lambda: inc.nn.LayerNorm("i", 2)(torch.zeros(3, 2).double(), Structure(3)),
        "the norm is torch.float32",
    ),
}


@pytest.mark.parametrize(("call", "sentence"), REFUSED.values(), ids=REFUSED)
def test_careless_input_gets_its_sentence(call, sentence):
    with pytest.raises(IncidenceError, match=sentence):
        call()


def only_global(operation) -> bool:
    return not any(map(any, operation.overlap))


@pytest.mark.parametrize("aggr", ["max", "min"])
@pytest.mark.parametrize(
    "values", [[1.0, float("nan"), 3.0], [float("nan")] * 3, [float("inf"), 1.0, float("-inf")]]
)
def test_what_is_not_a_number_shows_in_an_extremum_alone_as_in_a_batch(aggr, values):
    path = Structure(5, {"{i j}": [[0, 1, 2], [1, 2, 3]]})
    layer = Linear(
        "{i j} -> i", 1, 1, aggr=aggr, bias=False, operations=only_global, dtype=torch.float64
    )
    torch.nn.init.ones_(layer.weight)
    x = torch.tensor(values, dtype=torch.float64)[:, None]
    expected = x.amax() if aggr == "max" else x.amin()
    for found in (layer(x, path), layer(torch.cat([x, x]), inc.collate([path, path]))):
        torch.testing.assert_close(found, expected.expand_as(found), equal_nan=True)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("value", [0.1, 1 / 3, 0.7])
@pytest.mark.parametrize("count", [7, 11, 19])
def test_the_deviation_of_equal_values_is_0_with_gradient_0(dtype, value, count):
    layer = Linear("i -> ", 1, 1, aggr="std", bias=False, dtype=dtype)
    torch.nn.init.ones_(layer.weight)
    x = torch.full((count, 1), value, dtype=dtype, requires_grad=True)
    y = layer(x, Structure(count))
    y.sum().backward()
    assert (y == 0).all()
    assert (x.grad == 0).all()


@pytest.mark.parametrize(
    ("aggr", "scale", "expected"),
    [("mean", 1.0, 1.0), ("sum", 0.9, 40352.0), ("std", 300.0, 300.0), ("std", 1e-4, 1e-4)],
)
def test_half_precision_overflows_only_where_the_result_does(aggr, scale, expected):
    complete = Structure.complete(300, ["{i j}"])
    layer = Linear("{i j} -> ", 1, 1, aggr=aggr, bias=False, dtype=torch.float16)
    torch.nn.init.ones_(layer.weight)
    spread = (
        torch.ones(44850, 1) if aggr != "std" else torch.tensor([1.0, -1.0]).repeat(22425)[:, None]
    )
    x = (spread * scale).half()
    for found in (
        layer(x, complete),
        layer(torch.cat([x, x]), inc.collate([complete, complete]))[:1],
    ):
        torch.testing.assert_close(found.float(), torch.tensor([[expected]]), rtol=2e-3, atol=0)


@pytest.mark.parametrize("aggr", ["sum", "mean", "max", "min", "std"])
def test_a_dense_layer_of_no_nodes_gives_the_bias(aggr):
    layer = Linear("i -> ", 2, 3, aggr=aggr)
    torch.nn.init.ones_(layer.bias)
    assert torch.equal(layer.dense(torch.randn(2, 0, 2)), torch.ones(2, 3))


def test_a_layer_that_met_many_structures_stays_small():
    layer = Linear("(i j k) -> (i j k)", 1, 1)
    before = len(pickle.dumps(layer))
    for seed in range(80):
        s = inc.testing.random_structure(
            4, ["(i j k)"], density=0.2 + seed / 200, generator=torch.Generator().manual_seed(seed)
        )
        layer(torch.ones(s.num_entries("(i j k)"), 1), s)
    assert len(pickle.dumps(layer)) == before
