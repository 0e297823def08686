"""A map compiled for a layer: where the rows of weights stand in the matrices, by a loop over their blocks."""

import pytest
import torch

from incidence.plans.layout import layout_of
from incidence.plans.program import Products
from tests.nn.sparse_maps import ALL, IDS, layer_for

CPU = torch.device("cpu")


def products_of(text: str, max_overlap: int = 1) -> Products:
    layer = layer_for(text, max_overlap, ["sum", "mean"])
    return layer._weight_layout.products(layout_of(layer.map), layer._aggregations)


@pytest.mark.parametrize("num_in", [1, 3])
@pytest.mark.parametrize(("text", "max_overlap"), ALL, ids=IDS)
def test_every_block_of_a_matrix_is_the_weight_of_its_operation_with_its_sign(
    text, max_overlap, num_in
):
    for pair in products_of(text, max_overlap).stack_pairs.values():
        index, rows, signs = pair.index(num_in, 2, CPU), [], []
        total = pair.num_operations * num_in
        for table, sign in zip(pair.tables, pair.signs, strict=True):
            for u, channel, w in torch.cartesian_prod(
                *map(torch.arange, (table.shape[0], num_in, table.shape[1]))
            ).tolist():
                rows.append(table[u, w] * num_in + channel if table[u, w] >= 0 else total)
                signs.append(sign[u, w])
        assert index.weight_rows.tolist() == rows
        assert (index.row_signs is None) == all(sign == 1 for sign in signs)
        assert index.row_signs is None or index.row_signs.tolist() == signs
        assert index.lengths == [table.size * num_in for table in pair.tables]
        assert index.shapes == [
            (table.shape[0] * num_in, table.shape[1] * 2) for table in pair.tables
        ]
        assert index.is_full == (total not in rows)
        assert index.is_plain == (rows == list(range(total)) and index.row_signs is None)


@pytest.mark.parametrize(("text", "max_overlap"), ALL, ids=IDS)
def test_every_row_of_a_weight_knows_where_it_stands_in_the_matrices(text, max_overlap):
    for pair in products_of(text, max_overlap).stack_pairs.values():
        index = pair.index(3, 2, CPU)
        places = [
            (index.weight_rows == row).nonzero()[:, 0] for row in range(pair.num_operations * 3)
        ]
        assert index.block_ptr.tolist() == [
            0,
            *torch.tensor([len(p) for p in places]).cumsum(0).tolist(),
        ]
        assert index.block_rows.tolist() == [place for p in places for place in p.tolist()]
        assert (index.block_signs is None) == (index.row_signs is None)
        assert index.block_signs is None or torch.equal(
            index.block_signs, index.row_signs[index.block_rows]
        )
