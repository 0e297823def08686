"""Reading back on the way to gradients: those of the weights alone are those that come with the
gradients of the inputs.
"""

import pytest
import torch
from torch import Tensor

from tests.cases import some
from tests.nn.sparse_maps import (
    ALL,
    IDS,
    features_for,
    gradients,
    layer_for,
    outputs,
    structure_for,
)


def of_weights(text: str, max_overlap: int, needs_x: bool) -> tuple[Tensor, ...]:
    layer = layer_for(text, max_overlap, ["sum", "mean"])
    structure = structure_for(layer.map, 5, seed=1, draws=20)
    x = {
        key: value.requires_grad_(needs_x)
        for key, value in features_for(layer.map, structure).items()
    }
    return gradients(outputs(layer(x, structure)), list(layer.parameters()))


@pytest.mark.parametrize(
    "most_rows", [0, 2, 10**12], ids=["partners by pairs", "as it is", "partners for all rows"]
)
@pytest.mark.parametrize("block", [5, 1 << 19])
@pytest.mark.parametrize(("text", "max_overlap"), some(ALL), ids=IDS)
def test_gradients_of_weights_are_the_same_where_nobody_asks_for_those_of_inputs(
    text, max_overlap, block, most_rows, monkeypatch
):
    expected = of_weights(text, max_overlap, needs_x=True)
    monkeypatch.setattr("incidence.engine.gather._BLOCK", block)
    monkeypatch.setattr("incidence.engine.partners._MOST_ROWS", most_rows)
    for one, other in zip(of_weights(text, max_overlap, needs_x=False), expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-12)
