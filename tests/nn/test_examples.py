"""Layers of all kinds take an example in place of features and their structure, as networks do."""

import pytest
import torch

import incidence as inc
from incidence import nn

_SQUARE = [[0, 1, 2, 0], [1, 2, 3, 3]]
_KEYS = {"{i j}": _SQUARE, "(i j)": _SQUARE, "<i j>": _SQUARE}
_PAIRS = inc.Structure.complete(4, "i j").with_index(_KEYS)
_X = {
    "i": torch.randn(4, 4, generator=torch.Generator().manual_seed(0)),
    "i j": torch.randn(16, 4, generator=torch.Generator().manual_seed(1)),
    **{key: torch.randn(4, 4, generator=torch.Generator().manual_seed(2)) for key in _KEYS},
}

LAYERS = {
    "Activation": lambda: (nn.Activation(torch.relu), [*_X]),
    "Attention": lambda: (nn.Attention("(i j)", "j", 4, 8), ["i"]),
    "AutomorphismLinear": lambda: (nn.AutomorphismLinear(_PAIRS, "i -> i", 4, 2), ["i"]),
    "BatchNorm": lambda: (nn.BatchNorm("i j", 4), ["i j"]),
    "Diffusion": lambda: (nn.Diffusion("i, {i j}"), ["i", "{i j}"]),
    "Dropout": lambda: (nn.Dropout(0.0), [*_X]),
    "Exchangeable": lambda: (nn.Exchangeable("i j -> i", 4, 2), ["i j"]),
    "Harmonic": lambda: (nn.Harmonic("<i j>"), ["<i j>"]),
    "HarmonicRanks": lambda: (nn.HarmonicRanks("i, {i j}", columns=2), ["i", "{i j}"]),
    "HarmonicReadout": lambda: (nn.HarmonicReadout("{i j}", 4, columns=2), ["{i j}"]),
    "HarmonicTerm": lambda: (nn.HarmonicTerm("{i j}", 4, columns=2), ["{i j}"]),
    "LayerNorm": lambda: (nn.LayerNorm("i, i j", 4), ["i", "i j"]),
    "Linear": lambda: (nn.Linear("i j -> i", 4, 2), ["i j"]),
    "MaskedLinear": lambda: (nn.MaskedLinear("{i j} -> {i j}", 4, 2), ["{i j}"]),
    "Multilinear": lambda: (nn.Multilinear("i * i -> i", 4, 2), ["i"]),
    "Neighbours": lambda: (nn.Neighbours("i, {i j}"), ["i"]),
    "Product": lambda: (nn.Product("i j, j k -> i k", 4, 2), ["i j"]),
    "Readout": lambda: (nn.Readout("i, i j"), ["i", "i j"]),
    "Residual": lambda: (nn.Residual(nn.Linear("i -> i", 4, 4)), ["i"]),
    "Sequential": lambda: (
        nn.Sequential(nn.Linear("i j -> i", 4, 2), nn.Activation(torch.relu)),
        ["i j"],
    ),
}
"""By name, a layer and the tensors that it reads of the example."""
_OTHERS = {"Aggregation", "Gate", "register_aggregation"}  # which have no structure


def by_key(y: torch.Tensor | dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    return y if isinstance(y, dict) else {"": y}


def test_all_layers_are_tried():
    assert {*LAYERS} | _OTHERS == {*nn.__all__}


@pytest.mark.parametrize("name", LAYERS)
def test_a_layer_of_an_example_reads_its_inputs_and_ignores_other_features(name):
    torch.manual_seed(0)
    layer, reads = LAYERS[name]()
    layer = layer.eval()
    x = {key: _X[key] for key in reads} if len(reads) > 1 else _X[reads[0]]
    expected = by_key(layer(x, _PAIRS))
    found = by_key(layer(inc.Example(_PAIRS, _X)))
    assert {*found} - {""} == {*expected} - {""} or len(found) == len(expected) == 1
    for one, other in zip(found.values(), expected.values(), strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=0)


@pytest.mark.parametrize("name", LAYERS)
def test_features_without_a_structure_are_refused(name):
    layer, reads = LAYERS[name]()
    with pytest.raises(inc.IncidenceError, match=r"call it with an example|Call layer"):
        layer({key: _X[key] for key in reads})
