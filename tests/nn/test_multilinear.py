"""The complete multilinear layer: Theorem 5 by ranks, its weights, and what it shares with all
layers.
"""

import pytest
import torch
from torch import Tensor

from incidence.algebra import EquivariantMap, MultilinearMap, explain
from incidence.algebra.products import needs_join
from incidence.errors import IncidenceError
from incidence.nn import Linear, Multilinear
from incidence.nn.functional import einsum
from incidence.structure import Structure, collate
from incidence.testing import assert_equivariant
from tests.structure.random_structures import random_structure


def complete(m: MultilinearMap, num_nodes: int) -> Structure:
    texts = [str(p) for p in dict.fromkeys((*m.operands, m.output)) if len(p.letters) > 1]
    return Structure.complete(num_nodes, texts) if texts else Structure(num_nodes)


def samples(m: MultilinearMap, structure: Structure, count: int) -> list[Tensor]:
    """Random values of the operands, each channel a sample."""
    generator = torch.Generator().manual_seed(0)
    return [
        torch.randn(structure.num_entries(p), count, generator=generator, dtype=torch.float64)
        for p in m.operands
    ]


def rank(functions: list[Tensor]) -> int:
    """How many of these are independent; each is a function by its values."""
    table = torch.stack(functions)
    return int(
        torch.linalg.matrix_rank(table / table.norm(dim=1, keepdim=True).clamp(min=1e-9), rtol=1e-9)
    )


SPANS = [
    ("i * i -> i", (1, 2, 3)),
    ("i j * i -> i j", (1, 2, 5)),
    ("{i j} * {i j} -> {i j}", (2, 3, 4, 6)),
    ("{i j} * {i j} -> i", (2, 3, 5)),
    ("(i j) * (i j) -> i", (2, 3, 4)),
    ("<i j> * <i j> -> <i j>", (2, 3, 4, 6)),
    ("<i j> * <i j> -> i", (2, 3, 4, 5)),
    ("i * <i j> -> (i j)", (2, 3, 4)),
    ("i * i * i -> ", (1, 2, 3)),
]


@pytest.mark.parametrize(("text", "num_nodes"), [(text, n) for text, sizes in SPANS for n in sizes])
def test_the_products_span_a_space_of_the_exact_dimension_on_complete_structures(text, num_nodes):
    m = MultilinearMap(text)
    s = complete(m, num_nodes)
    xs = samples(m, s, 3 * m.dimension // max(1, s.num_entries(m.output)) + 12)
    values = [einsum(str(p), *xs, s).flatten() for p in m.products]
    assert rank(values) == m.dimension_at(num_nodes)


def test_all_203_products_of_two_matrices_are_independent_and_195_need_no_join():
    m = MultilinearMap("i j * i j -> i j")
    s = complete(m, 6)
    xs = samples(m, s, 24)
    values = torch.stack([einsum(str(p), *xs, s).flatten() for p in m.products])
    assert rank(list(values)) == 203
    layer = Linear("i j -> i j", 1, 1)
    # (operations, entries, entries)
    operators = torch.stack([layer.operator(k, s).to_dense() for k in range(15)])
    one, two = (operators @ x for x in xs)  # (operations, entries, samples)
    # (15 x 15 x 15, values)
    layered = torch.einsum("oab,pbs,qbs->opqas", operators, one, two).flatten(3).flatten(0, 2)
    # as many as can matter
    layered = (
        torch.randn(250, 3375, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
        @ layered
    )
    assert rank(list(layered)) == 195
    assert rank([*layered, *values]) == 203
    assert (
        rank([*layered, *(v for v, p in zip(values, m.products, strict=True) if not needs_join(p))])
        == 195
    )


@pytest.mark.parametrize("rank", [None, 3])
def test_the_layer_is_the_weighted_sum_of_its_products(rank):
    torch.manual_seed(0)
    layer = Multilinear("{i j} * i -> i", {"{i j}": 2, "i": 3}, 4, rank=rank, dtype=torch.float64)
    s = random_structure(5, ["{i j}"], seed=0)
    x, y = (
        torch.randn(s.num_entries("{i j}"), 2, dtype=torch.float64),
        torch.randn(5, 3, dtype=torch.float64),
    )
    expected = torch.zeros(5, 4, dtype=torch.float64)
    for number, product in enumerate(layer.products):
        if rank is None:
            for a in range(2):
                for b in range(3):
                    expected += (
                        einsum(str(product), x[:, a : a + 1], y[:, b : b + 1], s)
                        @ layer.weight[number, a, b][None]
                    )
        else:
            first, second = (w[number] for w in layer.weights)
            expected += einsum(str(product), x @ first, y @ second, s) @ layer.weight[number]
    for given in ((x, y), [x, y], {"i": y, "{a b}": x}):
        torch.testing.assert_close(layer(given, s), expected)


@pytest.mark.parametrize("rank", [None, 2])
@pytest.mark.parametrize(
    "text", ["i j * i j -> i j", "{i j} * {i j} -> i", "i * (i j) -> ", "u:a m:b * m:b -> u:a"]
)
def test_the_layer_is_equivariant_in_batches(text, rank):
    torch.manual_seed(0)
    layer = Multilinear(
        text,
        2,
        3,
        rank=rank,
        products=lambda p: len(p.letters) < 3 or needs_join(p),
        dtype=torch.float64,
    )
    texts = [str(p) for p in (*layer.map.inputs, layer.map.output)]
    s = collate([random_structure(n, texts, seed=n) for n in (4, 3)])
    x = {
        p.name or str(p): torch.randn(s.num_entries(p), 2, dtype=torch.float64)
        for p in layer.map.inputs
    }
    assert_equivariant(layer, x, s, outputs=str(layer.map.output))


@pytest.mark.parametrize("rank", [None, 2])
def test_a_structure_without_nodes_has_no_outputs(rank):
    s = Structure.complete(0, "i j")
    assert Multilinear("i j * i j -> i j", 2, 3, rank)(torch.zeros(0, 2), s).shape == (0, 3)


def test_calibration_gives_every_product_unit_scale():
    torch.manual_seed(0)
    layer = Multilinear("{i j} * {i j} -> {i j}", 1, 8)
    s = Structure.complete(12, "{i j}")
    x = torch.randn(66, 1) + 2
    assert layer(x, s).std() > 100
    before = layer.weight.detach().clone()
    assert 0.3 < layer.calibrate(x, s)(x, s).std() < 3
    assert (layer.weight.abs() <= before.abs().amax((1, 2, 3), keepdim=True) * 2).all()


@pytest.mark.parametrize("rank", [None, 60])
def test_weights_are_drawn_so_that_outputs_have_the_scale_of_the_products(rank):
    torch.manual_seed(0)
    layer = Multilinear("one=i * two=i -> i", {"one": 30, "two": 20}, 400, rank)
    count = len(layer.products)
    stds = [
        1 / (count * (600 if rank is None else 60)) ** 0.5,
        *([] if rank is None else [30**-0.5, 20**-0.5]),
    ]
    assert [float(weight.detach().std()) for weight in layer.parameters()] == pytest.approx(
        stds, rel=0.05
    )


def test_products_may_be_left_out():
    layer = Multilinear("i j * i j -> i j", 2, 2, products=needs_join)
    assert layer.weight.shape == (8, 2, 2, 2)
    assert "products=8" in repr(layer)
    assert (
        str(explain(layer)).splitlines()[1] == "Multilinear, 'i j * i j -> i j', 2, 2, products=8."
    )
    assert len(explain(layer).data()["products"]) == 8
    assert "Multilinear" in str(explain(torch.nn.Sequential(layer)))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Multilinear("i * i -> i", 0, 2), "in_channels is a number of channels"),
        (lambda: Multilinear("i * i -> i", 2, 0), "out_channels is a number of channels"),
        (lambda: Multilinear("i * i -> i", 2, 2, rank=0), "rank is a number of channels"),
        (
            lambda: Multilinear("i * i -> i", {"i": 2, "j k": 3}, 2),
            "in_channels has no tensor 'j k'",
        ),
        (
            lambda: Multilinear("i * i -> i", 2, 2, products=3),
            "products= is a function that says which products to keep; got 3",
        ),
        (
            lambda: Multilinear("i * i -> i", 2, 2, products=lambda p: False),
            "no product is left of the 5",
        ),
        (lambda: Multilinear("<i j> -> ", 2, 2), "no product is left of the 0"),
        (
            lambda: Multilinear("i * i -> i", 2, 2)((torch.ones(3, 2),), Structure(3)),
            "has 2 operands; got 1",
        ),
        (
            lambda: Multilinear("i * -> i", 2, 2)(torch.ones(3, 2), Structure(3)),
            "are different tensors: pass one for each, or a dict",
        ),
        (
            lambda: Multilinear("i * i -> i", 2, 2)(torch.ones(3, 4), Structure(3)),
            "must have 2 channels, as the layer was made for; got 4",
        ),
        (
            lambda: Multilinear("i * i -> i", 2, 2)(torch.ones(2, 2), Structure(3)),
            "must have 3 rows",
        ),
        (
            lambda: Multilinear("i * i -> i", 2, 2).calibrate(torch.ones(3, 4), Structure(3)),
            "must have 2 channels, as the layer",
        ),
        (
            lambda: Multilinear("i * i -> i", 2, 2).calibrate(torch.ones(2, 2), Structure(3)),
            "must have 3 rows",
        ),
        (lambda: Multilinear("i * i -> i", 2, 2)(torch.ones(3, 2), 3), "is a Structure; got int"),
        (
            lambda: Multilinear("i * i -> i", 2, 2)({"j k": torch.ones(3, 2)}, Structure(3)),
            "the input has no tensor 'j k'",
        ),
    ],
)
def test_what_does_not_fit_is_refused_with_a_sentence(make, message):
    with pytest.raises(IncidenceError, match=message):
        make()


def test_linear_maps_are_the_multilinear_ones_of_one_operand():
    assert MultilinearMap("i j -> i j").dimension == EquivariantMap("i j -> i j").dimension
