"""The weights of a layer as matrices: where their rows stand, by a loop over their blocks."""

import pytest
import torch

from incidence.engine.weights import Products, empty_matrices, gathered, weight_gradients
from tests.cases import some
from tests.nn.sparse_maps import ALL, IDS, layer_for

CPU = torch.device("cpu")


def drawn_weights(products: Products, num_in: int, num_out: int) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    return [
        torch.randn(products.weights.num_rows(pair), num_in, num_out, generator=generator)
        for pair in products.weights.pairs
    ]


def by_hand(products: Products, weights: list[torch.Tensor]) -> list[torch.Tensor]:
    """Every matrix block by block; a block is the weight of its operation with its sign, or 0."""
    matrices = []
    for table in products.tables:
        weight = weights[table.weight]
        blocks = [
            [
                weight[row] * sign if row >= 0 else torch.zeros_like(weight[0])
                for row, sign in zip(rows, signs, strict=True)
            ]
            for rows, signs in zip(table.rows.tolist(), table.signs.tolist(), strict=True)
        ]
        matrices.append(torch.cat([torch.cat(row, dim=1) for row in blocks]))
    return matrices


@pytest.mark.parametrize("num_in", [1, 3])
@pytest.mark.parametrize(("text", "max_overlap"), some(ALL), ids=IDS)
def test_every_block_of_a_matrix_is_the_weight_of_its_operation_with_its_sign(
    text, max_overlap, num_in
):
    layer = layer_for(text, max_overlap, ["sum", "mean"])
    products, num_inputs = layer._products, len(layer.map.inputs)
    gathering = products.matrices([num_in] * num_inputs, [2] * len(layer.map.outputs), CPU)
    weights = drawn_weights(products, num_in, 2)
    for one, other in zip(gathered(gathering, weights), by_hand(products, weights), strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize("widths", [(2, 2), (2, 5)], ids=["as many channels", "different channels"])
@pytest.mark.parametrize(("text", "max_overlap"), some(ALL), ids=IDS)
def test_gradients_go_back_to_the_rows_that_blocks_came_from(text, max_overlap, widths):
    layer = layer_for(text, max_overlap, ["sum", "mean"])
    products, num_outputs = layer._products, len(layer.map.outputs)
    num_out = [*widths, *[2] * num_outputs][:num_outputs]
    gathering = products.matrices([3] * len(layer.map.inputs), num_out, CPU)
    weights = [
        torch.randn(products.weights.num_rows((s, t)), 3, num_out[t], requires_grad=True)
        for s, t in products.weights.pairs
    ]
    gradients, arrays = empty_matrices(gathering, weights)
    for gradient in gradients:
        gradient.normal_()
    total = sum((m * g).sum() for m, g in zip(by_hand(products, weights), gradients, strict=True))
    expected = torch.autograd.grad(total, weights, materialize_grads=True)
    for one, other in zip(weight_gradients(gathering, arrays, weights), expected, strict=True):
        torch.testing.assert_close(one, other)
