"""Layers with an output mask that depends on the input."""

import pytest
import torch

from incidence.errors import IncidenceError
from incidence.nn import Linear, MaskedLinear
from incidence.structure import Structure, collate
from incidence.testing import assert_equivariant, random_features, random_structure


def sparse_features(structure: Structure, text: str, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(structure.num_entries(text), 2, dtype=torch.float64, generator=generator)
    return x * (torch.rand(len(x), 1, generator=generator) < 0.5)


@pytest.mark.parametrize("text", ["{i j}", "i j", "i", "(i j)"])
def test_the_layer_is_the_linear_one_times_the_mask(text):
    structure = random_structure(
        5, [text] if text != "i" else [], 0.7, torch.Generator().manual_seed(0)
    )
    layer, plain = (
        MaskedLinear(f"{text} -> {text}", 2, 3, dtype=torch.float64),
        Linear(f"{text} -> {text}", 2, 3, dtype=torch.float64),
    )
    plain.load_state_dict(layer.linear.state_dict())
    x = sparse_features(structure, text)
    mask = (x != 0).any(1, keepdim=True)
    assert 0 < int(mask.sum()) < len(mask)
    assert torch.allclose(layer(x, structure), plain(x, structure) * mask, atol=1e-12)


def test_the_layer_keeps_the_support_of_its_input_through_a_network():
    structure = Structure.complete(4, ["{i j}"])
    layers = [MaskedLinear("{i j} -> {i j}", 2, 2, dtype=torch.float64) for _ in range(3)]
    x = sparse_features(structure, "{i j}")
    y = x
    for layer in layers:
        y = layer(y, structure)
    assert torch.equal((y != 0).any(1), (x != 0).any(1))


def test_the_layer_is_equivariant_and_not_linear():
    structure = Structure.complete(4, ["{i j}"])
    layer = MaskedLinear("{i j} -> {i j}", 2, 2, bias=False, dtype=torch.float64)
    x, z = sparse_features(structure, "{i j}", 0), sparse_features(structure, "{i j}", 1)
    assert_equivariant(layer, x, structure)
    assert not torch.allclose(layer(x, structure) + layer(z, structure), layer(x + z, structure))


def strong_edges(x, structure):
    return {
        "{i j}": x["{i j}"].norm(dim=1) > 1,
        "i": torch.ones(structure.num_entries("i"), dtype=torch.bool),
    }


def test_a_mask_of_ones_own_may_speak_of_other_tensors():
    structure = Structure.complete(4, ["{i j}"])
    layer = MaskedLinear("i, {i j} -> {i j}, i", 2, 3, mask=strong_edges, dtype=torch.float64)
    x = random_features("i, {i j}", structure, 2, generator=torch.Generator().manual_seed(1))
    y = layer(x, structure)
    assert torch.equal((y["{i j}"] != 0).any(1), x["{i j}"].norm(dim=1) > 1)
    assert_equivariant(layer, x, structure)
    assert "mask: strong_edges" in repr(layer)


def test_batches_are_masked_structure_by_structure():
    parts = [Structure.complete(n, ["{i j}"]) for n in (3, 4, 2)]
    layer = MaskedLinear("{i j} -> {i j}", 2, 3, dtype=torch.float64)
    xs = [sparse_features(s, "{i j}", k) for k, s in enumerate(parts)]
    together = layer(torch.cat(xs), collate(parts))
    assert torch.allclose(
        together, torch.cat([layer(x, s) for x, s in zip(xs, parts, strict=True)]), atol=1e-12
    )


def test_gradients_flow_where_the_mask_lets_them():
    structure = Structure.complete(4, ["{i j}"])
    layer = MaskedLinear("{i j} -> {i j}", 2, 3, dtype=torch.float64)
    x = sparse_features(structure, "{i j}").requires_grad_()
    layer(x, structure).sum().backward()
    assert bool((x.grad != 0).any())
    assert layer.linear.weight.grad is not None


def test_masks_that_do_not_fit_are_refused():
    structure = Structure.complete(3, ["{i j}"])
    with pytest.raises(
        IncidenceError,
        match=r"`i` is no input of `\{i j\} -> i`, so it has no support to keep: give a mask",
    ):
        MaskedLinear("{i j} -> i", 1, 1)
    with pytest.raises(IncidenceError, match="mask= is a function of the input and the structure"):
        MaskedLinear("i -> i", 1, 1, mask=torch.ones(3))
    layer = MaskedLinear("{i j} -> i", 1, 1, mask=lambda x, s: x[:, 0])
    with pytest.raises(
        IncidenceError,
        match=r"masked needs a mask of the 3 entries of `i`.* got torch.float32 of shape \[3\]",
    ):
        layer(torch.ones(3, 1), structure)
    layer = MaskedLinear("{i j} -> i", 1, 1, mask=lambda x, s: None)
    with pytest.raises(
        IncidenceError, match=r"masked needs a mask of the 3 entries of `i`.* got None"
    ):
        layer(torch.ones(3, 1), structure)


def test_a_mask_may_be_a_list():
    structure = Structure.complete(3, ["{i j}"])
    layer = MaskedLinear("{i j} -> i", 1, 1, mask=lambda x, s: [True, False, True])
    assert (layer(torch.randn(3, 1), structure)[:, 0] != 0).tolist() == [True, False, True]


def test_strange_options_are_refused_in_the_name_of_the_layer():
    with pytest.raises(TypeError, match="MaskedLinear got an unexpected keyword argument 'foo'"):
        MaskedLinear("i -> i", 2, 2, foo=1)
