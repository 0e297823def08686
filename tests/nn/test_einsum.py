"""Products on structures: the vectors, the definition, torch's own einsum, gradients, batches, and
what is refused.
"""

from random import Random

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from torch.autograd import gradcheck, gradgradcheck

from incidence.algebra.products import ProductText
from incidence.engine.products import contract
from incidence.engine.products.contract import join_plan_of
from incidence.errors import IncidenceError, TooLargeError
from incidence.nn import Product
from incidence.nn.functional import einsum
from incidence.structure import Structure, collate
from incidence.structure.data import support_of
from tests.cases import some
from tests.exact_numbers import load_vectors
from tests.nn.product_definition import product_by_definition
from tests.nn.product_texts import TEXTS, random_dense_text, random_text, structure_for, values_for

VECTORS = load_vectors("products.json")
CASES = [case for case in VECTORS["cases"] if case["kind"] == "einsum"]


def is_always_zero(text: str) -> bool:
    try:
        ProductText(text)
        return False
    except IncidenceError as error:
        assert "always 0" in str(error)
        return True


def structure_of(case: dict) -> Structure:
    return collate([Structure(part["num_nodes"], part["index"]) for part in case["structures"]])


@pytest.mark.parametrize("case", CASES, ids=[case["text"] for case in CASES])
def test_the_vectors_are_met_exactly(case):
    structure = structure_of(case)
    y = einsum(case["text"], *(torch.tensor(x, dtype=torch.float64) for x in case["x"]), structure)
    assert y.tolist() == case["y"]


@pytest.fixture
def _by_joins(monkeypatch):
    """No product by arrays, which would be taken where most entries are there."""
    monkeypatch.setattr(contract, "_FASTER", 0)


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("way", ["joins", "arrays"])
def test_a_product_is_the_sum_over_assignments(text, way, monkeypatch):
    monkeypatch.setattr(contract, "_FASTER", 0 if way == "joins" else 10**9)
    monkeypatch.setattr(contract, "_MOST_ABSENT", 10**9)
    seed = way == "arrays"
    structure = collate([structure_for(text, n, seed + n) for n in (4, 0, 3)])
    xs = values_for(text, structure)
    assert torch.equal(einsum(text, *xs, structure), product_by_definition(text, xs, structure))


@given(seed=st.integers(0, 10**6), num_nodes=st.integers(0, 4))
@settings(max_examples=60, deadline=None)
def test_a_random_product_is_the_sum_over_assignments(seed, num_nodes):
    text = random_text(Random(seed))
    assume(not is_always_zero(text))
    structure = structure_for(text, num_nodes, seed)
    xs = values_for(text, structure, seed)
    assert torch.equal(einsum(text, *xs, structure), product_by_definition(text, xs, structure))


def test_a_hundred_random_texts_agree_with_the_einsum_of_torch_on_complete_structures():
    random, generator = Random(0), torch.Generator().manual_seed(0)
    for _ in range(100):
        text = random_dense_text(random)
        product, n = ProductText(text), random.randint(1, 4)
        wanted = dict.fromkeys(" ".join("ijkl"[: len(p.faces)]) for p in product.tensors if p.faces)
        structure = (
            Structure.complete(n, [p for p in wanted if " " in p])
            if any(" " in p for p in wanted)
            else Structure(n)
        )
        arrays = [
            torch.randn((n,) * len(p.faces), generator=generator, dtype=torch.float64)
            for p in product.operands
        ]
        xs = [
            (
                array[tuple(structure[" ".join("ijkl"[: array.ndim])])][:, None]
                if array.ndim
                else array.view(1, 1)
            )
            for array in arrays
        ]
        order = len(product.output.faces)
        expected = torch.einsum(text.replace(" ", ""), *arrays)
        expected = (
            expected[tuple(structure[" ".join("ijkl"[:order])])] if order else expected.view(1)
        )
        torch.testing.assert_close(
            einsum(text, *xs, structure)[:, 0],
            expected,
            msg=lambda why, text=text: f"{text}: {why}",
        )


@pytest.mark.parametrize("text", some(TEXTS))
def test_the_order_of_entries_and_the_names_of_nodes_are_immaterial(text):
    structure = structure_for(text, 4, seed=3)
    xs = values_for(text, structure)
    y = einsum(text, *xs, structure)
    labels = {
        sort: torch.randperm(count, generator=torch.Generator().manual_seed(1))
        for sort, count in structure.counts.items()
    }
    moved, rows = structure.relabel(labels), {}
    for pattern in structure.patterns:
        rows[pattern] = torch.randperm(
            structure.num_entries(pattern), generator=torch.Generator().manual_seed(2)
        )
        moved = moved.select(pattern, rows[pattern])
    supports = [support_of(structure, pattern) for pattern in ProductText(text).tensors]
    order = [
        rows.get(
            p,
            (
                labels[next(iter(p.sorts.values()))].argsort()
                if p.faces
                else torch.zeros(1, dtype=torch.long)
            ),
        )
        for p in supports
    ]
    assert torch.equal(
        einsum(text, *(x[o] for x, o in zip(xs, order, strict=False)), moved), y[order[-1]]
    )


@pytest.mark.parametrize("text", some(TEXTS))
def test_a_batch_gives_what_its_structures_give_one_by_one(text):
    parts = [structure_for(text, n, seed=n) for n in (3, 0, 4, 1)]
    each = [values_for(text, part, seed=k) for k, part in enumerate(parts)]
    expected = torch.cat(
        [einsum(text, *xs, part) for xs, part in zip(each, parts, strict=True)]
    )  # leaves plans, which the batch is made of
    fresh = collate([structure_for(text, n, seed=n) for n in (3, 0, 4, 1)])
    xs = [torch.cat(parts) for parts in zip(*each, strict=True)]
    assert torch.equal(einsum(text, *xs, collate(parts)), expected)
    assert torch.equal(einsum(text, *xs, fresh), expected)


SMOOTH = [
    "i j, j k -> i k",
    "{i j}, {j k}, {i k} -> {i j k}",
    "i j, j k, k i -> i",
    "i, j -> {i j}",
    "{i j} -> i",
    ", i j -> i",
]


@pytest.mark.parametrize("channels", [(2, 2, 2), (1, 2, 2), (1, 1, 1)], ids=str)
@pytest.mark.parametrize(
    ("text", "way"), [*((text, "joins") for text in SMOOTH), ("i j, j k -> i k", "arrays")]
)
def test_gradients_of_first_and_second_order_are_right(text, channels, way, monkeypatch):
    monkeypatch.setattr(contract, "_FASTER", 0 if way == "joins" else 10**9)
    structure = structure_for(text, 3, seed=5, draws=6)
    wide = values_for(text, structure)
    xs = [(x[:, :c] + 0.5).requires_grad_() for x, c in zip(wide, channels, strict=False)]
    assert gradcheck(lambda *values: einsum(text, *values, structure), xs)
    assert gradgradcheck(lambda *values: einsum(text, *values, structure), xs)


@pytest.mark.usefixtures("_by_joins")
def test_only_the_gradients_that_are_asked_for_are_listed():
    structure = structure_for("i j, j k -> i k", 4, seed=0)
    x, y = values_for("i j, j k -> i k", structure)
    einsum("i j, j k -> i k", x.requires_grad_(), y, structure).sum().backward()
    [step] = join_plan_of(structure, ProductText("i j, j k -> i k")).steps
    assert sorted(step.orders) == [1]
    assert x.grad is not None


@pytest.mark.parametrize("text", ["i j, j k -> i k", "{i j}, j -> i", "i, j -> (i j)"])
def test_operands_with_one_channel_are_shared_by_all_channels(text):
    structure = structure_for(text, 4, seed=1)
    xs = values_for(text, structure, channels=3)
    narrow = [xs[0][:, :1], *xs[1:]]
    assert torch.equal(
        einsum(text, *narrow, structure),
        einsum(text, xs[0][:, :1].expand(-1, 3), *xs[1:], structure),
    )


def test_one_tensor_may_be_all_operands_and_gets_all_gradients():
    s = Structure.complete(3, "i j")
    x = torch.randn(9, 2, dtype=torch.float64, requires_grad=True)
    rows, columns = s["i j"]
    matrix = torch.zeros(2, 3, 3, dtype=torch.float64).index_put(
        (torch.arange(2)[:, None], rows, columns), x.T
    )
    y = einsum("i j, j k -> i k", x, x, s)
    expected = (matrix @ matrix)[:, rows, columns].T
    torch.testing.assert_close(y, expected)
    g = torch.randn_like(y)
    torch.testing.assert_close(torch.autograd.grad(y, x, g), torch.autograd.grad(expected, x, g))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("text", ["i j, j k -> i k", "{i j} -> i", "{i j}, j -> i"])
def test_every_floating_type_gives_its_own_type(text, dtype):
    structure = structure_for(text, 4, seed=2)
    xs = values_for(text, structure)  # whole numbers below 4, whose products are exact
    y = einsum(text, *(x.to(dtype) for x in xs), structure)
    assert y.dtype == dtype
    assert torch.equal(y.double(), einsum(text, *xs, structure))


def test_autocast_multiplies_in_its_own_type_and_leaves_doubles_alone():
    s = Structure.complete(3, "i j")
    x = torch.ones(9, 2)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert einsum("i j, j k -> i k", x, x.bfloat16(), s).dtype == torch.bfloat16
        assert einsum("i j, j k -> i k", x.double(), x.double(), s).dtype == torch.float64


@pytest.mark.usefixtures("_by_joins")
def test_long_lists_are_summed_in_blocks(monkeypatch):
    s = Structure.complete(5, "i j")
    x = torch.randn(25, 3, dtype=torch.float64)
    whole = einsum("i j, j k -> i k", x, x, s), einsum("i j, j k, k i -> ", x, x, x, s)
    monkeypatch.setattr("incidence.engine.products.join._BLOCK", 20)
    again = einsum("i j, j k -> i k", x, x, s), einsum("i j, j k, k i -> ", x, x, x, s)
    for one, other in zip(whole, again, strict=True):
        torch.testing.assert_close(one, other)


S = Structure(
    3,
    {
        "(i j)": [[0, 1], [1, 2]],
        "{i j}": [[0, 1], [1, 2]],
        "i j": [[0, 1], [1, 1]],
        "bond={i j}": [[0], [2]],
    },
)
X = torch.ones(2, 1)
BAD = [
    ("(i j), j -> i", (X, torch.ones(3, 1)), "the last argument is a Structure; got Tensor"),
    ("(i j), j -> i", (), "the last argument is a Structure; got NoneType"),
    ("(i j), j -> i", (X, S), "has 2 operands, and then comes the structure; got 1 before it"),
    ("(i j) -> i", (X, X, S), "has 1 operand, and then comes the structure; got 2 before it"),
    (
        "(i j), j -> i",
        (X, torch.ones(2, 1), S),
        "operand 1 of .* must have 3 rows, one for each entry of the structure; got 2",
    ),
    (
        "(i j), j -> i",
        (X[:, 0], torch.ones(3, 1), S),
        "must have shape .entries, channels.; got .2.. For one channel use x",
    ),
    (
        "(i j), j -> i",
        (X[None], torch.ones(3, 1), S),
        "must have shape .entries, channels.; got .1, 2, 1.",
    ),
    ("(i j), j -> i", (X, torch.ones(3, 1).long(), S), "must be of a floating type; got int64"),
    ("(i j), j -> i", (X, [1.0, 2.0, 3.0], S), "must be a tensor; got list"),
    ("(i j), j -> i", (X, torch.ones(3, 0), S), "have no channels"),
    ("(i j), j -> i", (X.to_sparse(), torch.ones(3, 1), S), "must be a dense tensor"),
    (
        "(i j), j -> i",
        (X.expand(2, 3), torch.ones(3, 2), S),
        "must have the same number of channels, or one; got 3, 2",
    ),
    (
        "(i j), j -> i",
        (X, torch.ones(3, 1).double(), S),
        "must be of one type; got torch.float32 and torch.float64",
    ),
    (
        "(i j), j -> i",
        (X.to("meta"), torch.ones(3, 1), S),
        "are on meta and the structure is on cpu",
    ),
    ("(i j), {j k l} -> i", (X, X, S), "no index for `{j k l}` here"),
    (
        "name=i j, j k -> i k",
        (X, X, S),
        "no tensor is called `name` here; there are: .*`bond={i j}`",
    ),
    ("bond=(i j) -> i", (X, S), "`bond` is `{i j}` here, which `.i j.` cannot read"),
    ("u:user -> ", (X, S), "needs nodes of sort `user`"),
    ("[i j] -> ", (X, S), r"no index for `\[i j\]` here"),
    ("(i j) -> (i j) (j k)", (X, S), "no index for `.i j. .j k.` here"),
]


@pytest.mark.parametrize(
    ("text", "given", "message"), BAD, ids=[f"{text}: {message}" for text, _, message in BAD]
)
def test_values_that_do_not_fit_are_refused_with_a_sentence(text, given, message):
    with pytest.raises(IncidenceError, match=message):
        einsum(text, *given)


@pytest.mark.parametrize(
    "case", [r for r in VECTORS["refused"] if r["kind"] == "einsum"], ids=lambda case: case["text"]
)
def test_the_refused_vectors_are_refused(case):
    structure = Structure(**VECTORS["refused_on"])
    with pytest.raises(IncidenceError):
        einsum(case["text"], *[torch.ones(2, 1)] * (case["text"].count(",") + 1), structure)


def test_a_text_that_two_tensors_could_mean_is_refused():
    s = Structure(3, {"i j k": [[0], [1], [2]], "i j j": [[0], [1]]})
    with pytest.raises(
        IncidenceError, match="`i i i` may read `i j k` or `i j j`: give one of them a name"
    ):
        einsum("i i i -> i", torch.ones(1, 1), s)


@pytest.mark.usefixtures("_by_joins")
def test_a_product_without_limit_to_its_rows_is_refused_before_they_are_made():
    s = Structure.complete(6, "i j")
    x = torch.ones(36, 1)
    with pytest.raises(
        TooLargeError,
        match=r"joins too many rows here: 216 combinations, and the limit is 215. Raise it",
    ):
        einsum("i j, j k -> i k", x, x, s, limit=215)
    assert einsum("i j, j k -> i k", x, x, s, limit=216).unique().tolist() == [6.0]


@pytest.mark.parametrize("limit", [-1, 2.5, True, None], ids=str)
def test_a_limit_is_a_number_of_rows(limit):
    with pytest.raises(IncidenceError, match="limit= is a number of joined rows"):
        einsum("(i j) -> i", X, S, limit=limit)
    with pytest.raises(IncidenceError, match="limit= is a number of joined rows"):
        Product("(i j) -> i", 1, 1, limit=limit)


def test_the_structure_may_be_named():
    assert torch.equal(einsum("(i j) -> i", X, structure=S), einsum("(i j) -> i", X, S))


def test_a_face_that_can_be_read_in_too_many_ways_is_refused():
    s = Structure(9, {"{a b c d e f g h}": torch.arange(8)[:, None]})
    with pytest.raises(
        TooLargeError,
        match=r"40,320 combinations, and the limit is 40,319. Raise limit=, or use smaller faces",
    ):
        einsum(
            "{a b c d e f g h}, a, b, c, d, e, f, g -> ",
            torch.ones(1, 1),
            *[torch.ones(9, 1)] * 7,
            s,
            limit=40_319,
        )


def test_a_structure_on_the_meta_device_has_no_products():
    with pytest.raises(
        IncidenceError, match="a structure on the meta device has no entries to plan with"
    ):
        einsum("(i j) -> i", X, S.to("meta"))
