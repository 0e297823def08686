"""Gradients by finite differences. That they agree with the definition and the dense twin is shown elsewhere."""

import pytest
import torch
from torch.func import functional_call

from incidence.structure import Structure, collate
from tests.nn.sparse_maps import ALL, EVERY, IDS, features_for, layer_for, outputs, structure_for


def assert_gradients(layer: torch.nn.Module, x: dict[str, torch.Tensor], structure: Structure) -> None:
    keys, names = list(x), [name for name, _ in layer.named_parameters()]

    def run(*tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        given = dict(zip(keys, tensors, strict=False))
        parameters = dict(zip(names, tensors[len(keys) :], strict=True))
        return tuple(outputs(functional_call(layer, parameters, (given, structure))))

    leaves = [value.detach().requires_grad_() for value in (*x.values(), *layer.parameters())]
    assert torch.autograd.gradcheck(run, leaves, fast_mode=True)


@pytest.mark.parametrize("aggr", [*EVERY, EVERY], ids=[*EVERY, "list"])
@pytest.mark.parametrize("text", ["i j -> i j", "i, {i j} -> i, {i j}", "{i j} {i k} -> i {i j}", "(i j k) -> [i j]", "i:a j:b -> j:b"])
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


def test_a_second_derivative_is_refused_and_not_wrong():
    layer = layer_for("i -> i")
    x = torch.randn(3, 2, dtype=torch.float64, requires_grad=True)
    [first] = torch.autograd.grad(layer(x, Structure(3)).square().sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        first.sum().backward()
