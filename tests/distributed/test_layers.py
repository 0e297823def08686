"""Layers on a part give what one process gives: values, gradients of inputs and of weights."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import incidence as inc
from incidence.structure.world import World
from tests.cases import some
from tests.distributed.cases import (
    MAPS,
    NETWORKS,
    STRUCTURES,
    assert_equal_on_parts,
    features,
    outputs_of,
)
from tests.distributed.thread_world import run_threads


@pytest.mark.parametrize(
    ("case", "size"), some([(case, size) for case in MAPS for size in (1, 2, 3, 4)])
)
def test_a_layer_on_parts_is_the_layer_on_the_whole(case: Any, size: int) -> None:
    name, text, aggr = case
    structure = STRUCTURES[name]()
    layer = inc.nn.Linear(text, 2, 3, aggr=aggr).double()
    xs = features(structure, layer.map.inputs)
    outputs = [str(p) for p in layer.map.outputs]
    run_threads(size, lambda w: assert_equal_on_parts(layer, xs, structure, outputs, w))


@pytest.mark.parametrize("size", [2, 3])
@pytest.mark.parametrize("name", list(NETWORKS))
def test_a_module_on_parts_is_the_module_on_the_whole(name: str, size: int) -> None:
    of_structure, inputs, make = NETWORKS[name]
    structure = STRUCTURES[of_structure]()
    torch.manual_seed(0)
    module = make().double()
    texts = [text.strip() for text in inputs.split(",")]
    xs = features(structure, [structure.resolve(text) for text in texts])
    outputs = outputs_of(name, texts)
    run_threads(size, lambda w: assert_equal_on_parts(module, xs, structure, outputs, w))


PRODUCTS = {
    "i, (i j), j -> i": "graph",
    "(i j), j -> i": "graph",
    "{i j}, j -> i": "graph",
    "i, j -> i j": "graph",
    "i j, j k -> i": "graph",
    "i, {i j k} -> i": "graph",
    "(i j), (j i) -> (i j)": "graph",
    "i j, i -> ": "batch",
    "i i, i -> i": "graph",
    "flow=<i j>, j -> i": "graph",
    "u:user f:film, f:film t:tag, t:tag -> u:user": "sorts",
    "i, i -> i": "graph",
}


@pytest.mark.parametrize("size", [2, 3])
@pytest.mark.parametrize("text", list(PRODUCTS))
def test_a_tree_shaped_product_on_parts_is_that_on_the_whole(text: str, size: int) -> None:
    structure = STRUCTURES[PRODUCTS[text]]()

    class Product(torch.nn.Module):
        def forward(self, x: Any, structure: inc.Structure) -> Any:
            return inc.einsum(text, *[x[key] for key in keys], structure)

    texts, _, output = text.partition(" -> ")
    operands = [one.strip() for one in texts.split(",")]
    stored = [inc.Pattern("i j") if one == "i i" else inc.Pattern(one) for one in operands]
    patterns = [structure._as_spelt(p) for p in stored]
    keys = [str(p) for p in patterns]
    xs = features(structure, patterns)
    product = Product()
    if len(xs) == 1:
        run_threads(size, lambda w: _assert_lone(text, keys, xs, structure, output, w))
        return
    run_threads(size, lambda w: assert_equal_on_parts(product, xs, structure, [output], w))


def _assert_lone(text: str, keys: Any, xs: Any, structure: Any, output: str, world: Any) -> None:
    class Square(torch.nn.Module):
        def forward(self, x: Any, structure: inc.Structure) -> Any:
            return inc.einsum(text, *[x for _ in keys], structure)

    assert_equal_on_parts(Square(), xs, structure, [output], world)


@pytest.mark.parametrize("over", ["j", "i", "i j"])
@pytest.mark.parametrize("size", [2, 3])
def test_a_softmax_on_parts_is_that_on_the_whole(over: str, size: int) -> None:
    structure = STRUCTURES["batch"]()

    class Softmax(torch.nn.Module):
        def forward(self, x: Any, structure: inc.Structure) -> Any:
            return inc.softmax(x, "(i j)", over=over, structure=structure)

    xs = features(structure, [inc.Pattern("(i j)")])
    run_threads(size, lambda w: assert_equal_on_parts(Softmax(), xs, structure, ["(i j)"], w))


CIRCLES = ["{i j}, {j k}, {i k} -> i", "i j, j k -> i k", "(i j), (j k), i -> {i k}"]


@pytest.mark.parametrize("size", [2, 3])
@pytest.mark.parametrize("text", CIRCLES)
def test_a_small_product_that_joins_in_a_circle_is_copied(text: str, size: int) -> None:
    structure = STRUCTURES["graph"]()
    texts, _, output = text.partition(" -> ")
    patterns = [structure.resolve(inc.Pattern(one.strip())) for one in texts.split(", ")]
    patterns = [structure._as_spelt(p) for p in patterns]
    keys = [str(p) for p in patterns]
    xs = features(structure, dict.fromkeys(patterns))

    class Product(torch.nn.Module):
        def forward(self, x: Any, structure: inc.Structure) -> Any:
            values = x if isinstance(x, dict) else dict.fromkeys(keys, x)
            return inc.einsum(text, *[values[key] for key in keys], structure)

    run_threads(size, lambda w: assert_equal_on_parts(Product(), xs, structure, [output], w))


def test_a_large_product_that_joins_in_a_circle_is_refused_with_the_rows_that_would_travel(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from incidence.engine.products import contract

    monkeypatch.setattr(contract, "_MOST_COPIED", 100)
    structure = STRUCTURES["graph"]()
    edges = torch.ones(structure.num_entries("{i j}"), 1)

    def work(world: World) -> None:
        part = inc.distributed.split(structure, world=world)
        own = edges[inc.distributed.rows(part, "{i j}")]
        inc.einsum("{i j}, {j k}, {i k} -> i", own, own, own, part)

    with pytest.raises(inc.TooLargeError, match=r"would have to travel .*: 120 rows in every"):
        run_threads(2, work)
