"""Products and softmax under `torch.compile`: one graph serves structures of any size, and gives
what the functions give.
"""

import pytest
import torch
from torch import Tensor
from torch._dynamo.testing import CompileCounterWithBackend

from incidence.engine.products import contract
from incidence.errors import IncidenceError
from incidence.nn.functional import einsum, plan_einsum, plan_softmax, softmax
from incidence.structure import Structure
from tests.structure.random_structures import random_structure

# inductor imports torch.jit
TORCH_ITSELF = "ignore:`torch.jit.script_method` is deprecated:DeprecationWarning"


@pytest.fixture(autouse=True)
def _fresh_compiler():
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


PRODUCTS = [
    "i j, j k -> i k",
    "i, (i j), j -> ",
    "(i j), <j k> -> <i k>",
    pytest.param("(i j), (j k), (k l), (l i) -> i", marks=pytest.mark.slow),
    pytest.param("i, j -> (i j)", marks=pytest.mark.slow),
]


def example(text: str, num_nodes: int) -> tuple[list[Tensor], Structure]:
    operands = text.split(" ->")[0].split(", ")
    structure = random_structure(num_nodes, ["(i j)", "<i j>"], seed=num_nodes, draws=4 * num_nodes)
    structure = structure.with_index({"i j": Structure.complete(num_nodes, "i j")["i j"]})
    plan_einsum(text, structure)
    shapes = [(structure.num_entries(operand), 3) for operand in operands]
    return [
        torch.randn(shape, dtype=torch.float64, requires_grad=True) for shape in shapes
    ], structure


def assert_same(function, traced, xs: list[Tensor], structure: Structure) -> None:
    found, expected = traced(*xs, structure), function(*xs, structure)
    torch.testing.assert_close(found, expected)
    weight = torch.randn_like(expected)
    torch.testing.assert_close(
        torch.autograd.grad(found, xs, weight), torch.autograd.grad(expected, xs, weight)
    )


@pytest.mark.parametrize("text", PRODUCTS)
def test_a_compiled_product_gives_values_and_gradients_of_the_product(text):
    def function(*given):
        return einsum(text, *given)

    compiled = torch.compile(function, fullgraph=True, backend="aot_eager")
    assert_same(function, compiled, *example(text, 5))


@pytest.mark.slow
@pytest.mark.filterwarnings(TORCH_ITSELF)
def test_attention_compiles_to_fast_code():
    def attention(q, k, v, structure):
        weights = softmax(einsum("i, j -> (i j)", q, k, structure), "(i j)", "j", structure)
        return einsum("(i j), j -> i", weights, v, structure)

    compiled = torch.compile(attention, fullgraph=True)
    for num_nodes in (4, 7):
        structure = random_structure(num_nodes, ["(i j)"], seed=0, draws=20)
        for text in ("i, j -> (i j)", "(i j), j -> i"):
            plan_einsum(text, structure)
        plan_softmax("(i j)", "j", structure)
        xs = [torch.randn(num_nodes, 2, dtype=torch.float64, requires_grad=True) for _ in range(3)]
        assert_same(attention, compiled, xs, structure)


@pytest.mark.parametrize("way", ["joins", "arrays"])
def test_sizes_that_change_do_not_compile_again_and_again(way, monkeypatch):
    monkeypatch.setattr(contract, "_FASTER", 0 if way == "joins" else 10**9)
    monkeypatch.setattr(contract, "_MOST_ABSENT", 10**9)

    def function(*given):
        return einsum("(i j), (j k) -> (i k)", *given)

    counter = CompileCounterWithBackend("aot_eager")
    compiled = torch.compile(function, fullgraph=True, backend=counter)
    for num_nodes in (5, 8, 12):
        assert_same(function, compiled, *example("(i j), (j k) -> (i k)", num_nodes))
    assert counter.frame_count <= 2  # the first, and one for any size


def test_tracing_without_a_plan_says_what_to_do():
    s = Structure(3, {"(i j)": [[0, 1], [1, 2]]})
    compiled = torch.compile(
        lambda x, s: einsum("(i j) -> i", x, s), fullgraph=True, backend="aot_eager"
    )
    with pytest.raises(
        IncidenceError,
        match=r"^call layer\.plan\(structure\), or net\.plan\(structure\), before tracing",
    ):
        compiled(torch.ones(2, 1), s)


def test_values_that_a_compiled_graph_was_not_planned_for_are_refused():
    s = Structure(3, {"(i j)": [[0, 1], [1, 2]]})
    plan_einsum("(i j), j -> i", s)
    plan_softmax("(i j)", "j", s)
    product = torch.compile(
        lambda x, y, s: einsum("(i j), j -> i", x, y, s), fullgraph=True, backend="aot_eager"
    )
    with pytest.raises(
        IncidenceError,
        match=r"features must have shape \[3, channels\], a row for each entry; got \[2, 4\]",
    ):
        product(torch.ones(2, 4), torch.ones(2, 4), s)
    shares = torch.compile(
        lambda x, s: softmax(x, "(i j)", "j", s), fullgraph=True, backend="aot_eager"
    )
    with pytest.raises(
        IncidenceError,
        match=r"features must have shape \[2, channels\], a row for each entry; got \[3, 4\]",
    ):
        shares(torch.ones(3, 4), s)
