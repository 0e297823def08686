"""The engine as one operator: the same numbers as the engine itself, and what torch asks of an operator."""

import pytest
import torch
from torch import Tensor

from incidence.errors import IncidenceError
from incidence.kernels.traced import _layer, traced_apply
from incidence.nn import Linear
from incidence.structure import Structure, collate
from incidence.structure.data import cache_of
from incidence.structure.pytree import NO_PLAN, Flat, flat_of
from tests.nn.sparse_maps import (
    ALL,
    EVERY,
    IDS,
    features_for,
    gradients,
    layer_for,
    outputs,
    structure_for,
)


def operands(
    layer: Linear, structure: Structure
) -> tuple[list[Tensor], list[Tensor], list[Tensor | None]]:
    xs = [x.requires_grad_() for x in features_for(layer.map, structure).values()]
    weights = [
        p if p.ndim == 4 else p[None]
        for name, p in layer.named_parameters()
        if name.startswith("weight")
    ]
    biases = [p for name, p in layer.named_parameters() if name.startswith("bias")]
    return xs, weights, biases or [None] * len(layer.map.outputs)


@pytest.mark.parametrize("has_bias", [True, False], ids=["bias", "no bias"])
@pytest.mark.parametrize(("text", "max_overlap"), ALL, ids=IDS)
def test_the_operator_gives_values_and_gradients_of_the_engine(text, max_overlap, has_bias):
    layer = layer_for(text, max_overlap, EVERY if has_bias else "sum", bias=has_bias)
    structure = (
        collate([structure_for(layer.map, n, seed=n) for n in (4, 0, 3)])
        if has_bias
        else structure_for(layer.map, 4)
    )
    xs, weights, biases = operands(layer, structure)
    layer.plan(structure)
    [flat] = cache_of(structure, Flat).values()
    found = traced_apply(flat, xs, weights, biases)
    expected = outputs(
        layer(dict(zip(features_for(layer.map, structure), xs, strict=True)), structure)
    )
    leaves = [*xs, *layer.parameters()]
    for one, other in zip(found, expected, strict=True):
        assert torch.equal(one, other)
    for one, other in zip(gradients(found, leaves), gradients(expected, leaves), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(("text", "max_overlap"), ALL, ids=IDS)
def test_in_single_precision_too_where_it_is_compiled(text, max_overlap):
    layer = layer_for(text, max_overlap).float()
    structure = collate([structure_for(layer.map, n, seed=n, draws=20) for n in (4, 0, 3)])
    layer.plan(structure)
    [flat] = cache_of(structure, Flat).values()
    x = {key: v.float().requires_grad_() for key, v in features_for(layer.map, structure).items()}
    weights = [p for name, p in layer.named_parameters() if name.startswith("weight")]
    biases = [p for name, p in layer.named_parameters() if name.startswith("bias")]
    found, expected = (
        traced_apply(flat, list(x.values()), weights, biases),
        outputs(layer(x, structure)),
    )
    leaves = [*x.values(), *layer.parameters()]
    for one, other in zip(
        [*found, *gradients(found, leaves)], [*expected, *gradients(expected, leaves)], strict=True
    ):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("text", ["i, (i j) -> i, (i j)", "{i j} -> "])
def test_the_operator_keeps_the_contract_of_torch(text):
    layer = layer_for(text)
    structure = structure_for(layer.map, 4)
    xs, weights, biases = operands(layer, structure)
    layer.plan(structure)
    [flat] = cache_of(structure, Flat).values()
    detached = [w.detach().requires_grad_() for w in weights]
    checks = torch.library.opcheck(_layer, (xs, detached, biases, flat.tensors, flat.spec))
    assert set(checks.values()) == {"SUCCESS"}


def test_nothing_is_kept_for_the_way_back_where_the_compiled_library_is_not_used():
    layer = layer_for("i, (i j) -> i, (i j)")
    structure = structure_for(layer.map, 4)
    layer.plan(structure)
    [flat] = cache_of(structure, Flat).values()
    *ys, kept = _layer(*operands(layer, structure), flat.tensors, flat.spec)
    assert [len(y) for y in ys] == [structure.num_entries(p) for p in layer.map.outputs]
    assert kept.numel() == 0


def test_what_a_layer_left_nothing_of_is_refused_where_no_compiler_would_put_it_into_its_own_words():
    with pytest.raises(IncidenceError) as caught:
        flat_of(Structure(2), "no layer")
    assert str(caught.value) == NO_PLAN
