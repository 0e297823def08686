"""What a careless caller may do to a layer."""

import pytest
import torch

import incidence as inc
from incidence.errors import IncidenceError
from incidence.nn import Linear, Residual, Sequential
from incidence.structure import Structure

EDGES = torch.tensor([[0, 2], [1, 3]])


@pytest.fixture(params=[0, 1 << 17], ids=["engine", "small"])
def path(request, monkeypatch):
    monkeypatch.setattr("incidence.kernels.small.MAX_SIZE", request.param)


@pytest.mark.usefixtures("path")
def test_evaluating_in_inference_mode_leaves_a_structure_fit_for_training():
    s = Structure(4, {"{i j}": EDGES, "i j": EDGES})
    net = Sequential(Linear("i -> i, {i j}, i j", 2, 4), inc.nn.BatchNorm("i, {i j}, i j", 4), Linear("i, {i j}, i j -> i j", 4, 1))
    net.append(inc.nn.Readout("i j", ["sum", "max"]))
    x = torch.randn(4, 2, requires_grad=True)
    with torch.inference_mode():
        net(x, s)
    net(x, s).sum().backward()
    assert x.grad is not None


@pytest.mark.usefixtures("path")
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
    for call in (lambda: layer(torch.ones(2, 1), wrong), lambda: layer.plan(wrong), lambda: layer.operator(0, wrong)):
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
        assert compiled(torch.ones(2, 1), s).dtype == layer(torch.ones(2, 1), s).dtype == torch.bfloat16


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
    assert layer.plan(both).num_keys[1] == 6


REFUSED = {
    "no aggregation": (lambda: Linear("i -> i", 1, 1, aggr=None), "aggr is one of"),
    "operations that are no function": (lambda: Linear("i -> i", 1, 1, operations=[0]), "operations= is a function"),
    "parameters of integers": (lambda: Linear("i -> i", 1, 1, dtype=torch.long), "parameters of a floating type"),
    "an operation that is not there": (lambda: Linear("i -> i", 1, 1).operator(99, Structure(2)), "operations are numbered 0 to 1; got 99"),
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
    "a sparse index": (lambda: Structure(3, {"i j": torch.eye(3).long().to_sparse()}), "must be a dense tensor"),
    "sparse features": (lambda: Linear("i -> i", 3, 1)(torch.eye(3).to_sparse(), Structure(3)), "must be a dense tensor"),
    "no channels": (lambda: Linear("i -> i", -1, 1)(torch.zeros(3, 0), Structure(3)), "have no channels"),
    "a norm of another type": (lambda: inc.nn.LayerNorm("i", 2)(torch.zeros(3, 2).double(), Structure(3)), "the norm is torch.float32"),
}


@pytest.mark.parametrize(("call", "sentence"), REFUSED.values(), ids=REFUSED)
def test_careless_input_gets_its_sentence(call, sentence):
    with pytest.raises(IncidenceError, match=sentence):
        call()
