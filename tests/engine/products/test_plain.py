"""Products and softmax in plain steps, which is what is exported: they give what the functions
give, on structures of any size.
"""

import pytest
import torch

from incidence.algebra.products import ProductText
from incidence.engine.products.contract import join_plan_of
from incidence.engine.products.plain import (
    group_lists,
    plain_product,
    plain_softmax,
    product_lists,
    product_program,
)
from incidence.engine.products.softmax import groups_of
from incidence.nn.functional import einsum, linked, softmax
from incidence.structure import Structure, collate
from tests.nn.product_texts import TEXTS, structure_for, values_for
from tests.structure.random_structures import random_structure


def plain(
    text: str, xs: list[torch.Tensor], structure: Structure, shape: tuple[int, ...] | None = None
) -> torch.Tensor:
    plan = join_plan_of(structure, ProductText(text), is_fixed=True)
    return plain_product(product_program(plan), product_lists(plan), xs, shape)


@pytest.mark.parametrize("text", TEXTS)
def test_a_product_in_plain_steps_is_the_product(text):
    for parts in ([0], [1], [4, 0, 3], [5, 6]):
        structure = collate([structure_for(text, n, seed=n, draws=12) for n in parts])
        xs = values_for(text, structure)
        assert torch.equal(plain(text, xs, structure), einsum(text, *xs, structure))


def test_rows_of_any_shape_are_broadcast_and_summed():
    structure = random_structure(6, ["(i j)"], seed=0, draws=20)
    q, k = torch.randn(2, 6, 3, 4, dtype=torch.float64)
    found = plain("i, j -> (i j)", [q, k], structure, (3, 1))
    assert found.shape == (structure.num_entries("(i j)"), 3, 1)
    torch.testing.assert_close(found, linked("i, j -> (i j)", [q, k], structure, (3, 1)))
    weights = torch.randn(structure.num_entries("(i j)"), 3, 1, dtype=torch.float64)
    torch.testing.assert_close(
        plain("(i j), j -> i", [weights, k], structure),
        linked("(i j), j -> i", [weights, k], structure),
    )


@pytest.mark.parametrize(
    ("pattern", "over"), [("(i j)", "j"), ("i", "i"), ("{i j}", "i j"), ("i {i j}", "j")]
)
@pytest.mark.parametrize("sizes", [[0], [1], [5, 0, 4]], ids=str)
def test_a_softmax_in_plain_steps_is_the_softmax_whatever_the_size_of_values(pattern, over, sizes):
    structure = collate([random_structure(n, [pattern], seed=n, draws=9) for n in sizes])
    x = 1000 * torch.randn(structure.num_entries(pattern), 2)
    found = plain_softmax(x, *group_lists(groups_of(structure, pattern, over)))
    torch.testing.assert_close(found, softmax(x, pattern, over, structure))
