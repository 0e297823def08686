"""Relaxed symmetry: 2^D operations, each dimension permuted on its own."""

from itertools import permutations, product

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import incidence as inc
from incidence.errors import IncidenceError
from incidence.nn import Exchangeable
from incidence.structure import Structure, collate
from incidence.symmetry.relax import Relaxation
from incidence.testing import assert_equivariant, random_features, random_structure


def dimensions(order: int) -> str:
    return " ".join(f"{letter}:{letter}s" for letter in "abcd"[:order])


def ranks(sizes: tuple[int, ...]) -> tuple[int, int]:
    text = dimensions(len(sizes))
    structure = Structure.complete(
        {f"{letter}s": n for letter, n in zip("abcd", sizes, strict=False)}, [text]
    )
    layer = Exchangeable(text, 1, 1)
    operators = [
        layer.linear.operator(k, structure).to_dense().flatten()
        for k in range(layer.num_operations)
    ]
    return layer.num_operations, int(torch.linalg.matrix_rank(torch.stack(operators)))


@pytest.mark.parametrize("order", [1, 2, 3, 4])
def test_a_tensor_of_order_d_has_two_to_the_d_independent_operations(order):
    assert ranks((2, 3, 2, 2)[:order]) == (2**order, 2**order)


@pytest.mark.parametrize(
    "sizes", [(1,), (1, 3), (1, 1), (2, 1, 3), (1, 2, 1, 2), (1, 1, 1, 1)], ids=str
)
def test_a_dimension_of_size_one_has_one_operation_instead_of_two(sizes):
    expected = 1
    for n in sizes:
        expected *= min(2, n)
    assert ranks(sizes)[1] == expected


def pooled(x: torch.Tensor, index: torch.Tensor, kept: tuple[int, ...]) -> torch.Tensor:
    """The sum over the present entries that agree in some dimensions, entry by entry."""
    columns = list(zip(*index.tolist(), strict=True))
    rows = [
        [x[f] for f, other in enumerate(columns) if all(other[d] == own[d] for d in kept)]
        for own in columns
    ]
    return torch.stack([torch.stack(row).sum(0) for row in rows])


@pytest.mark.parametrize("order", [1, 2, 3])
def test_the_layer_is_the_sum_over_all_sets_of_dimensions_of_pool_and_broadcast(order):
    generator = torch.Generator().manual_seed(order)
    text = dimensions(order)
    structure = random_structure({"as": 3, "bs": 4, "cs": 2}, [text], 0.6, generator)
    layer = Exchangeable(text, 2, 3, dtype=torch.float64)
    x = torch.randn(structure.num_entries(text), 2, dtype=torch.float64, generator=generator)
    y = layer.linear.bias[0] + torch.zeros(len(x), 3, dtype=torch.float64)
    for operation, weight in zip(layer.linear.map.operations, layer.linear.weight, strict=True):
        kept = tuple(d for d in range(order) if operation.overlap[d][d])
        y = y + pooled(x, structure[text], kept) @ weight
    assert torch.allclose(layer(x, structure), y, atol=1e-12)


TENSORS = [
    "i {i j}",
    "i j",
    "{i j} {i k}",
    "i {i j k}",
    "(i j) (j k)",
    "i {i ...}",
    "[i j] i",
    "u:user m:movie",
    "i {i j} -> i",
    "i j -> ",
]


@pytest.mark.parametrize("text", TENSORS)
def test_layers_on_tensors_of_any_faces_respect_relabelling(text):
    layer = Exchangeable(text, 2, 3, dtype=torch.float64)
    structure = small(layer)
    assert_equivariant(layer, random_features(str(layer.map.inputs[0]), structure, 2), structure)


def small(layer: Exchangeable) -> Structure:
    texts = [
        str(p)
        for p in dict.fromkeys(layer.map.inputs + layer.map.outputs)
        if p.faces and str(p) != "i"
    ]
    if any("..." in text for text in texts):
        letters, members = (
            torch.tensor([[0, 1, 2, 0]]),
            torch.tensor([[0, 1, 0, 1, 2, 3, 0], [0, 0, 1, 1, 2, 2, 3]]),
        )
        return Structure(4, {texts[0]: (letters, members)})
    return random_structure(
        dict.fromkeys(layer.map.sorts, 4), texts, 0.6, torch.Generator().manual_seed(0)
    )


@pytest.mark.parametrize("text", ["i {i j}", "i j", "{i j} {i k}", "i {i j} {i j k}"])
def test_every_dimension_may_be_permuted_on_its_own(text):
    layer = Exchangeable(text, 2, 3, dtype=torch.float64)
    structure = random_structure(4, [text], 0.7, torch.Generator().manual_seed(1))
    assert_equivariant(layer.linear, random_features(text, structure, 2), layer.relax(structure))


def test_dimensions_of_the_same_faces_are_one_set_in_several_tensors():
    assert [str(p) for p in Exchangeable("i {i j}, {i j} {i j k}", 1, 1).linear.map.inputs] == [
        "d0 d1:dim1",
        "d1:dim1 d2:dim2",
    ]
    assert Exchangeable("i {i j}, {i j} {i j k}", 1, 1).num_operations == 4 + 2 + 2 + 4


def test_tables_keep_the_sorts_that_they_name():
    layer = Exchangeable("u:user m:movie, m:movie g:genre -> u:user m:movie", 4, 8)
    assert layer.num_operations == 4 + 2
    assert [p.sorts["m"] for p in layer.linear.map.inputs] == ["movie", "movie"]
    # one sort twice: permuted together
    assert Exchangeable("u:user v:user", 1, 1).num_operations == 15


def test_faces_are_numbered_as_the_structure_lists_them():
    s = Structure(
        3,
        {"i {i j}": torch.tensor([[0, 1, 1], [1, 0, 2]]), "{i j}": torch.tensor([[2, 0], [1, 1]])},
    )
    layer = Exchangeable("i {i j} -> {i j}", 1, 1, bias=False, dtype=torch.float64)
    # sum over the nodes of each edge
    layer.linear.weight.data = torch.tensor([[[0.0]], [[1.0]]], dtype=torch.float64)
    x = torch.tensor([[1.0], [10.0], [100.0]], dtype=torch.float64)
    assert layer(x, s)[:, 0].tolist() == [100.0, 11.0]


def test_open_faces_are_numbered_as_the_structure_lists_them():
    letters, members = (
        torch.tensor([[0, 1, 2, 0]]),
        torch.tensor([[0, 1, 0, 1, 2, 3, 0], [0, 0, 1, 1, 2, 2, 3]]),
    )
    s = Structure(
        4,
        {
            "i {i ...}": (letters, members),
            "{i ...}": torch.tensor([[2, 3, 0, 1, 0], [0, 0, 1, 1, 2]]),
        },
    )
    layer = Exchangeable("i {i ...} -> {i ...}", 1, 1, bias=False, dtype=torch.float64)
    layer.linear.weight.data = torch.tensor([[[0.0]], [[1.0]]], dtype=torch.float64)
    x = torch.tensor([[1.0], [10.0], [100.0], [1000.0]], dtype=torch.float64)
    assert layer(x, s)[:, 0].tolist() == [100.0, 11.0, 1000.0]


def test_a_face_that_the_structure_does_not_list_is_refused():
    s = Structure(3, {"i {i j}": torch.tensor([[0, 1], [1, 2]]), "{i j}": torch.tensor([[0], [1]])})
    with pytest.raises(
        IncidenceError,
        match=r"entry 1 of `i \{i j\}` has a face that is not among the entries of `\{i j\}`",
    ):
        Exchangeable("i {i j}", 1, 1)(torch.ones(2, 1), s)


def test_listed_nodes_may_be_fewer_than_all():
    s = Structure(4, {"i {i j}": torch.tensor([[0, 1, 3], [1, 0, 2]]), "i": torch.tensor([[3, 0]])})
    layer = Exchangeable("i {i j} -> i", 1, 1, bias=False, dtype=torch.float64)
    layer.linear.weight.data = torch.tensor([[[0.0]], [[1.0]]], dtype=torch.float64)
    assert layer(torch.tensor([[1.0], [2.0], [4.0]], dtype=torch.float64), s)[:, 0].tolist() == [
        4.0,
        1.0,
    ]


@settings(max_examples=10, deadline=None)
@given(
    st.sampled_from(["i {i j}", "{i j} {i k}", "i j", "i:a {i:a j:b}"]),
    st.lists(st.integers(0, 99), min_size=1, max_size=4),
)
def test_a_batch_gives_what_its_structures_give(text, seeds):
    layer = Exchangeable(text, 2, 3, dtype=torch.float64)
    counts = dict.fromkeys(layer.map.sorts, 4)
    parts = [
        random_structure(counts, [text], 0.4, torch.Generator().manual_seed(seed)) for seed in seeds
    ]
    xs = [random_features(text, s, 2, generator=torch.Generator().manual_seed(7)) for s in parts]
    together = layer(torch.cat(xs), collate(parts))
    assert torch.allclose(
        together, torch.cat([layer(x, s) for x, s in zip(xs, parts, strict=True)]), atol=1e-12
    )


@pytest.mark.parametrize("order", [1, 2, 3])
def test_a_number_of_dimensions_means_the_one_tensor_of_that_order(order):
    text = dimensions(order)
    structure = random_structure(
        {"as": 3, "bs": 4, "cs": 2}, [text], 0.6, torch.Generator().manual_seed(0)
    )
    layer, named = Exchangeable(order, 2, 3), Exchangeable(text, 2, 3)
    named.load_state_dict(layer.state_dict())
    x = torch.randn(structure.num_entries(text), 2)
    assert torch.equal(layer(x, structure), named(x, structure))


def test_rows_and_columns_of_a_matrix_over_one_set_are_told_apart():
    structure = Structure.complete(3, ["i j"])
    layer = Exchangeable(2, 1, 1, bias=False, dtype=torch.float64)
    layer.linear.weight.data = torch.tensor(
        [[[0.0]], [[0.0]], [[1.0]], [[0.0]]], dtype=torch.float64
    )
    x = torch.arange(9.0, dtype=torch.float64)[:, None]
    expected = torch.zeros(3, 3, dtype=torch.float64)
    expected[tuple(structure["i j"])] = x[:, 0]
    assert torch.equal(layer(x, structure)[:, 0], expected.sum(1)[structure["i j"][0]])


@pytest.mark.parametrize("wrong", [0, -1, 9, True, 2.0, None])
def test_numbers_of_dimensions_out_of_range_are_refused(wrong):
    with pytest.raises(
        IncidenceError, match="a number of dimensions, 1 to 8, or the tensors as text"
    ):
        Exchangeable(wrong, 1, 1)


def test_a_number_of_dimensions_needs_exactly_one_tensor_of_that_order():
    s = Structure.complete(3, ["i j", "i {i j}"])
    with pytest.raises(
        IncidenceError, match=r"one tensor of order 2; there are: `i j`, `i \{i j\}`"
    ):
        Exchangeable(2, 1, 1)(torch.ones(9, 1), s)


def test_a_sort_that_is_called_like_a_dimension_does_no_harm():
    s = Structure(
        {"dim0": 2, "dim1": 2}, {"i:dim0 {i:dim0 j:dim1}": torch.tensor([[0, 1], [0, 1]])}
    )
    assert Exchangeable("i:dim0 {i:dim0 j:dim1}", 1, 2)(torch.ones(2, 1), s).shape == (2, 2)


def test_gradients_reach_every_weight_and_the_input():
    structure = random_structure(4, ["i {i j}"], 0.7, torch.Generator().manual_seed(0))
    layer = Exchangeable("i {i j}", 1, 1, dtype=torch.float64)
    x = torch.randn(structure.num_entries("i {i j}"), 1, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda v: layer(v, structure), x)
    layer(x, structure).square().sum().backward()
    assert all(p.grad is not None and bool((p.grad != 0).any()) for p in layer.parameters())


def test_relaxed_structures_are_kept():
    structure = Structure.complete(3, ["i {i j}"])
    one, other = Exchangeable("i {i j}", 1, 1), Exchangeable("i {i j}", 2, 2)
    assert one.relax(structure) is other.relax(structure)


def test_relaxing_tables_changes_nothing():
    structure = random_structure({"user": 3, "movie": 2}, ["u:user m:movie"])
    assert Relaxation([inc.Pattern("u:user m:movie")]).apply(structure) is structure


def test_relaxed_maps_lie_among_the_exact_ones_and_the_product_does_not_keep_incidence():
    """Of the pairs of permutations of nodes and edges of K_3 only 3! keep which node is in which
    edge.
    """
    incidence = Structure.complete(3, ["i {i j}"])
    relaxed = Exchangeable("i {i j}", 1, 1).relax(incidence)
    [pattern] = relaxed.patterns
    present = set(map(tuple, relaxed[pattern].T.tolist()))
    kept = [
        (g, h)
        for g, h in product(list(permutations_of(3)), repeat=2)
        if {(g[a], h[b]) for a, b in present} == present
    ]
    assert len(kept) == 6


def permutations_of(n: int) -> list[tuple[int, ...]]:
    return list(permutations(range(n)))


def test_layers_on_tables_are_traced():
    ratings = random_structure(
        {"user": 4, "movie": 3}, ["u:user m:movie"], 0.7, torch.Generator().manual_seed(0)
    )
    layer = Exchangeable("u:user m:movie", 2, 3)
    layer.plan(ratings)
    x = torch.randn(ratings.num_entries("u:user m:movie"), 2)
    traced = torch.compile(layer, fullgraph=True, backend="eager")
    assert torch.allclose(traced(x, ratings), layer(x, ratings), atol=1e-6)
