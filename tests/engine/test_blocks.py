"""Work is done in blocks that fit the cache; tests are too small for more than one, so here blocks
are made tiny.
"""

import pytest
import torch

from tests.cases import some
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


def run(text: str, max_overlap: int) -> list[torch.Tensor]:
    layer = layer_for(text, max_overlap, EVERY)
    structure = structure_for(layer.map, 5, seed=1, draws=20)
    x = {key: v.requires_grad_() for key, v in features_for(layer.map, structure).items()}
    ys = outputs(layer(x, structure))
    return [*ys, *gradients(ys, [*x.values(), *layer.parameters()])]


@pytest.mark.parametrize("block", [1, 9])
@pytest.mark.parametrize(("text", "max_overlap"), some(ALL), ids=IDS)
def test_the_size_of_blocks_changes_nothing(text, max_overlap, block, monkeypatch):
    expected = run(text, max_overlap)
    for module in ("bags", "gather", "aggregate"):
        monkeypatch.setattr(f"incidence.engine.{module}._BLOCK", block)
    for one, other in zip(run(text, max_overlap), expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-12)
