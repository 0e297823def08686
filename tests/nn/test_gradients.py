"""Gradients by finite differences. That they agree with the definition and the dense twin is shown
elsewhere.
"""

import pytest
import torch
from torch.func import functional_call

from incidence.algebra import EquivariantMap
from incidence.engine.aggregate import AGGREGATIONS
from incidence.engine.plan import plan_of
from incidence.engine.readout import pool_structures
from incidence.errors import IncidenceError
from incidence.nn import Readout
from incidence.structure import Structure, collate
from tests.nn.sparse_maps import ALL, EVERY, IDS, features_for, layer_for, outputs, structure_for


def assert_gradients(
    layer: torch.nn.Module, x: dict[str, torch.Tensor], structure: Structure, second: bool = False
) -> None:
    keys, names = list(x), [name for name, _ in layer.named_parameters()]

    def run(*tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        given = dict(zip(keys, tensors, strict=False))
        parameters = dict(zip(names, tensors[len(keys) :], strict=True))
        return tuple(outputs(functional_call(layer, parameters, (given, structure))))

    leaves = [value.detach().requires_grad_() for value in (*x.values(), *layer.parameters())]
    assert (torch.autograd.gradgradcheck if second else torch.autograd.gradcheck)(
        run, leaves, fast_mode=True
    )


@pytest.mark.parametrize("aggr", [*EVERY, EVERY], ids=[*EVERY, "list"])
@pytest.mark.parametrize(
    "text",
    [
        "i j -> i j",
        "i, {i j} -> i, {i j}",
        "{i j} {i k} -> i {i j}",
        "(i j k) -> [i j]",
        "i:a j:b -> j:b",
    ],
)
def test_gradients_of_every_aggregation_are_those_of_finite_differences(text, aggr):
    layer = layer_for(text, 1, aggr)
    structure = structure_for(layer.map, 4, seed=1)
    assert_gradients(layer, features_for(layer.map, structure), structure)


@pytest.mark.parametrize(("text", "max_overlap"), ALL, ids=IDS)
def test_gradients_of_every_map_are_those_of_finite_differences(text, max_overlap):
    layer = layer_for(text, max_overlap, ["sum", "std"])
    structure = collate([structure_for(layer.map, n, seed=n) for n in (3, 0, 4)])
    assert_gradients(layer, features_for(layer.map, structure), structure)


def test_no_gradient_is_computed_for_an_input_that_needs_none():
    layer = layer_for("i, (i j) -> i")
    structure = structure_for(layer.map, 3)
    x = features_for(layer.map, structure)
    x["i"].requires_grad_()
    layer(x, structure).sum().backward()
    assert x["i"].grad is not None
    assert x["(i j)"].grad is None


def test_frozen_parameters_get_no_gradient():
    layer = layer_for("i -> i").requires_grad_(False)
    x = torch.randn(3, 2, dtype=torch.float64, requires_grad=True)
    layer(x, Structure(3)).sum().backward()
    assert layer.weight.grad is None
    assert x.grad is not None


@pytest.mark.parametrize("aggr", ["sum", "mean", ["sum", "mean"]], ids=["sum", "mean", "list"])
@pytest.mark.parametrize(
    "text",
    [
        "i j -> i j",
        "i, {i j} -> i, {i j}",
        "{i ...} -> i",
        "(i j k) -> [i j]",
        "i:a j:b -> j:b",
        "left=(i j) -> right=(i j), i",
        "i, <i j> -> i, <i j>",
    ],
)
def test_second_derivatives_are_those_of_finite_differences(text, aggr):
    layer = layer_for(text, 1, aggr)
    structure = collate([structure_for(layer.map, n, seed=n) for n in (3, 2)])
    assert_gradients(layer, features_for(layer.map, structure), structure, second=True)


def test_a_third_derivative_is_that_of_the_dense_twin():
    layer = layer_for("i j -> i j")
    structure, x = (
        Structure.complete(3, "i j"),
        torch.randn(9, 2, dtype=torch.float64, requires_grad=True),
    )

    def third(y: torch.Tensor) -> torch.Tensor:
        total = y.pow(4).sum()
        for _ in range(2):
            [d] = torch.autograd.grad(total, x, create_graph=True)
            total = d.pow(2).sum()
        return torch.autograd.grad(total, x)[0]

    i, j = structure["i j"]
    dense = layer.dense(torch.zeros(3, 3, 2, dtype=torch.float64).index_put((i, j), x)[None])[0]
    torch.testing.assert_close(third(layer(x, structure)), third(dense[i, j]))


@pytest.mark.parametrize(
    "aggr", ["max", "min", "std", ["sum", "max"]], ids=["max", "min", "std", "list"]
)
def test_a_second_derivative_of_other_statistics_is_refused_and_not_wrong(aggr):
    layer = layer_for("i, (i j) -> i", 1, aggr)
    structure = structure_for(layer.map, 3)
    x = {key: value.requires_grad_() for key, value in features_for(layer.map, structure).items()}
    [first] = torch.autograd.grad(layer(x, structure).square().sum(), x["i"], create_graph=True)
    assert first.isfinite().all()
    with pytest.raises(
        IncidenceError,
        match=r"aggr='(max|min|std)' has no second derivative; 'sum' and 'mean' have one",
    ):
        first.sum().backward()


@pytest.mark.parametrize("aggr", ["sum", "mean"])
def test_pooling_over_structures_has_a_second_derivative(aggr):
    batch = collate([Structure(n) for n in (2, 0, 3)])
    pool = Readout("i", aggr)
    x = torch.randn(5, 2, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradgradcheck(lambda x: pool(x, batch).pow(3), x)


def test_a_statistic_that_is_pooled_twice_is_two_tensors_with_both_gradients():
    batch = collate([Structure(n) for n in (2, 3)])
    [stack] = plan_of(batch, EquivariantMap("i -> ")).inputs
    x = torch.randn(5, 2, dtype=torch.float64, requires_grad=True)
    one, other = pool_structures(x, [AGGREGATIONS["sum"]] * 2, stack)
    [grad] = torch.autograd.grad(one.sum() + 3 * other.sum(), x)
    assert grad.eq(4).all()
    before = other.detach().clone()
    one.detach().zero_()
    assert torch.equal(other, before)


def test_pooling_by_other_statistics_refuses_a_second_derivative():
    batch = collate([Structure(n) for n in (2, 3)])
    x = torch.randn(5, 2, dtype=torch.float64, requires_grad=True)
    [first] = torch.autograd.grad(
        Readout("i", "max")(x, batch).square().sum(), x, create_graph=True
    )
    with pytest.raises(IncidenceError, match="'sum' and 'mean' have one"):
        first.sum().backward()
