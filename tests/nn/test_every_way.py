"""Sizes decide how a layer or a product is computed. Here every way is forced on small structures,
and gives what the definition says; and on both sides of every switch the ways give the same.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache

import pytest
import torch
from torch import Tensor

import incidence as inc
from incidence.algebra.products import ProductText
from incidence.engine import bags
from incidence.engine import layer as engine_layer
from incidence.engine.bags import bag_sum
from incidence.engine.plan import plan_of
from incidence.nn import Linear
from incidence.nn.functional import einsum
from incidence.structure import Structure, collate
from tests.cases import some
from tests.nn.definition import by_definition
from tests.nn.product_definition import product_by_definition
from tests.nn.sparse_maps import features_for, gradients, layer_for, outputs, structure_for
from tests.structure.random_structures import random_structure

HUGE = 10**12

KERNELS, PLANS, STRUCTURE = "incidence.engine", "incidence.engine", "incidence.structure"
FEW = f"{KERNELS}.bags._FEW"
BLOCKS = [f"{KERNELS}.{module}._BLOCK" for module in ("aggregate", "bags", "gather")]
PARTNERS, CHUNKS = (
    f"{KERNELS}.partners._MOST_ROWS",
    {
        f"{KERNELS}.bags._LEAST_CHUNK": 1,
        f"{KERNELS}.bags._CHUNKS": 2,
    },
)
READ = f"{KERNELS}.layer.READ_COST"
SPARSE, BUFFERS = f"{PLANS}.keys._SPARSE_NODES", f"{PLANS}.memory._LEAST"
CODES = [f"{STRUCTURE}.ragged.LIMIT", f"{STRUCTURE}.arrange.LIMIT"]
BITS, COLUMNS, SHORT = (
    f"{STRUCTURE}.arrange._BITS",
    f"{STRUCTURE}.ragged._FEW_COLUMNS",
    f"{STRUCTURE}.ragged._MOST_SHORT",
)

WAYS = {
    "all bags in one call": {FEW: HUGE},
    "structures apart from other bags": {FEW: 0},
    "blocks of one row": dict.fromkeys(BLOCKS, 1),
    "blocks of some rows": dict.fromkeys(BLOCKS, 7),
    "partners for all rows": {PARTNERS: HUGE},
    "partners by pairs": {PARTNERS: 0},
    "partners for all rows, in blocks": {PARTNERS: HUGE, **dict.fromkeys(BLOCKS, 5)},
    "partners by pairs, in blocks": {PARTNERS: 0, **dict.fromkeys(BLOCKS, 5)},
    "products in chunks": CHUNKS,
    "products at the side with fewer rows": {READ: 0},
    "products at the keys": {READ: HUGE},
    "nodes by number": {SPARSE: HUGE},
    "nodes by rank": {SPARSE: -HUGE},
    "memory that is kept": {BUFFERS: 1, BLOCKS[2]: 1},
    "codes by rank": dict.fromkeys(CODES, 4),
    "words some at a time": {BITS: 3},
    "nodes of entries sorted by rows": {COLUMNS: 0},
    "lists of eight bytes": {SHORT: 0},
    "everything large": {
        FEW: 0,
        BUFFERS: 1,
        SHORT: 0,
        SPARSE: -HUGE,
        READ: 0,
        **CHUNKS,
        **dict.fromkeys(BLOCKS, 7),
    },
}

MAPS = [
    ("i j -> i j", 1),
    ("i, (i j) -> i, (i j)", 1),
    ("i i j, {i j} -> i i, {i j}", 1),
    ("(i j k) -> (i j k)", 1),
    ("{i j} {i k} -> {i j}", 1),
    ("u:a m:b, u:a -> m:b, u:a m:b", 1),
    ("i {i ...} -> i {i ...}, i", 2),
    ("i, <i j>, i <i j> -> i <i j>, <i j>", 1),
]
AGGR = ("sum", "mean", "max", "std", "range")  # the last is the tests' own
OURS = ("sum", "mean", "max", "min", "std")


@contextmanager
def taken(way: dict[str, int]) -> Iterator[None]:
    """Lets sizes decide for one way."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in way.items():
            patch.setattr(name, value)
        yield


def fresh(
    text: str, max_overlap: int, aggr: tuple[str, ...]
) -> tuple[Linear, Structure, dict[str, Tensor]]:
    """A layer, with a structure on which nothing was found out yet: that depends on sizes too."""
    layer = layer_for(text, max_overlap, list(aggr))
    structure = structure_for(layer.map, 5, seed=1, draws=12)
    return (
        layer,
        structure,
        {key: v.requires_grad_() for key, v in features_for(layer.map, structure).items()},
    )


@lru_cache
def defined(text: str, max_overlap: int, aggr: tuple[str, ...] = AGGR) -> list[Tensor]:
    """Values and gradients by the definition."""
    layer, structure, x = fresh(text, max_overlap, aggr)
    ys = by_definition(layer, x, structure)
    return [*(y.detach() for y in ys), *gradients(ys, [*x.values(), *layer.parameters()])]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(("text", "max_overlap"), some(MAPS), ids=[text for text, _ in MAPS])
def test_every_way_of_computing_a_layer_gives_what_the_definition_says(text, max_overlap, way):
    with taken(WAYS[way]):
        layer, structure, x = fresh(text, max_overlap, AGGR)
        ys = outputs(layer(x, structure))
        found = [*ys, *gradients(ys, [*x.values(), *layer.parameters()])]
    for one, other in zip(found, defined(text, max_overlap), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("way", ["all bags in one call", "lists of eight bytes"])
@pytest.mark.parametrize(("text", "max_overlap"), some(MAPS), ids=[text for text, _ in MAPS])
def test_what_tracing_sees_gives_what_the_definition_says(text, max_overlap, way):
    with taken(WAYS[way]):
        layer, structure, x = fresh(text, max_overlap, OURS)
        layer.plan(structure)
        ys = outputs(layer._traced(x if len(x) > 1 else next(iter(x.values())), structure))
        found = [*ys, *gradients(ys, [*x.values(), *layer.parameters()])]
    for one, other in zip(found, defined(text, max_overlap, OURS), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(
    "way", ["all bags in one call", "structures apart from other bags", "lists of eight bytes"]
)
@pytest.mark.parametrize(("text", "max_overlap"), some(MAPS), ids=[text for text, _ in MAPS])
def test_single_precision_gives_what_the_definition_says(text, max_overlap, way):
    with taken(WAYS[way]):
        layer, structure, x = fresh(text, max_overlap, ("sum",))
        expected = by_definition(layer, x, structure)
        expected = [*expected, *gradients(expected, [*x.values(), *layer.parameters()])]
        layer = layer.float()
        single = {key: v.detach().float().requires_grad_() for key, v in x.items()}
        ys = outputs(layer(single, structure))
        wide = [y.double() for y in ys]
        found = [*wide, *gradients(wide, [*single.values(), *layer.parameters()])]
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one.double(), other, rtol=1e-3, atol=1e-3)


# Few entries with many nodes each: every level of single nodes has more keys than there are rows.
SPREAD = [
    ("i, {i ...} -> i, {i ...}", AGGR),
    ("{i j k} -> i, {i j k}", AGGR),
    ("i, <i j k>, <i j> -> i, <i j k>, <i j>", ("sum", "mean")),
    ("(i j k) -> {i j k}, [i j]", AGGR),
]
SPREAD_IDS = [text for text, _ in SPREAD]
AT_ROWS, AT_KEYS = {READ: 0}, {READ: HUGE}


def spread(text: str, aggr: tuple[str, ...]) -> tuple[Linear, Structure, dict[str, Tensor]]:
    layer = layer_for(text, 1, list(aggr))
    structure = structure_for(layer.map, 13, seed=1, draws=3)
    x = features_for(layer.map, structure)
    return layer, structure, {key: v.requires_grad_() for key, v in x.items()}


def places_of(text: str) -> set[int]:
    """Where the products of a layer are taken."""
    layer, structure, x = spread(text, ("sum",))
    plan = plan_of(structure, layer.map)
    call = engine_layer.LayerCall(
        layer._products, layer._aggregations, plan, list(x.values()), layer._weights()
    )
    return set(call.places.values())


@pytest.mark.parametrize(("text", "aggr"), SPREAD, ids=SPREAD_IDS)
def test_products_at_the_side_with_fewer_rows_give_what_the_definition_says(text, aggr):
    with taken(AT_KEYS):
        assert places_of(text) == {0}
    with taken(AT_ROWS):
        assert len(places_of(text)) > 1
        layer, structure, x = spread(text, aggr)
        ys = outputs(layer(x, structure))
        found = [*ys, *gradients(ys, [*x.values(), *layer.parameters()])]
    ys = by_definition(layer, x, structure)
    expected = [*ys, *gradients(ys, [*x.values(), *layer.parameters()])]
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-9)


def second_derivatives(text: str) -> list[Tensor]:
    layer, structure, x = spread(text, ("sum", "mean"))
    leaves = [*x.values(), *layer.parameters()]
    firsts = torch.autograd.grad(
        sum((y**3).sum() for y in outputs(layer(x, structure))), leaves, create_graph=True
    )
    return list(torch.autograd.grad(sum((d**2).sum() for d in firsts), leaves))


@pytest.mark.parametrize("text", SPREAD_IDS)
def test_second_derivatives_are_the_same_on_both_sides_of_the_switch(text):
    with taken(AT_ROWS):
        found = second_derivatives(text)
    with taken(AT_KEYS):
        expected = second_derivatives(text)
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-9)


def test_the_side_with_fewer_rows_is_taken_once_the_products_cost_more_than_the_reads():
    layer = layer_for("{i j k} -> {i j k}")
    triangles = torch.arange(60).view(3, 20)
    structure = Structure(60, {"{i j k}": triangles})
    [bags] = plan_of(structure, layer.map).inputs

    def place(channels: int) -> int:
        return engine_layer.place_of(bags, 1, bags, 1, (channels, channels))

    # 60 keys or 20 rows: 40 products of k^2 numbers are saved for 60 reads of k numbers
    assert [place(k) for k in (1, 23, 24, 25, 64)] == [0, 0, 0, 1, 1]


LARGE = [
    ("i j -> i", 95),
    ("i j, {i j} -> i", 95),
    ("{i j} -> i", 130),
    ("[i j k] -> i", 37),
    ("i, (i j), i i j -> i", 95),
    ("<i j> -> i", 130),
    ("{i j} {k l} -> i", 15),
]


@pytest.mark.parametrize("more", [0, 1], ids=["few rows", "one row more"])
@pytest.mark.parametrize(("text", "num_nodes"), LARGE, ids=[text for text, _ in LARGE])
def test_sums_of_one_structure_are_those_of_its_bags_on_both_sides_of_the_switch(
    text, num_nodes, more
):
    """In the size that switches: more than 8,192 rows are summed over the structure by way of its
    nodes.
    """
    m = inc.EquivariantMap(text)
    structure = Structure.complete(num_nodes, [str(p) for p in m.inputs if str(p) != "i"])
    largest = max(structure.patterns, key=structure.num_entries)
    surplus = structure.num_entries(largest) - bags._FEW - more
    kept = torch.randperm(
        structure.num_entries(largest), generator=torch.Generator().manual_seed(1)
    )[surplus:]
    own = plan_of(structure.select(largest, kept), m).inputs[m.inputs.index(largest)]
    assert own.num_rows == bags._FEW + more
    generator = torch.Generator().manual_seed(0)
    whole = torch.randint(-3, 4, (own.num_rows, 2), generator=generator).double()
    expected = bag_sum(whole, *own.of_bags)
    for dtype, relative in ((torch.float64, 0), (torch.float32, 0), (torch.bfloat16, 1e-2)):
        found = torch.cat([level.reshape(-1, 2) for level in own.pool(whole.to(dtype))])
        torch.testing.assert_close(found.double(), expected, rtol=relative, atol=0)


PRODUCTS = [
    "i j, j k -> i k",
    "i j, j k, k i -> i",
    "(i j), (j k) -> (i k)",
    "{i j}, {j k}, {i k} -> {i j k}",
    "{i j k}, {i j l} -> {k l}",
    "<i j>, <j k> -> <i k>",
    "i j, i, j -> i j",
    "u:a m:b, v:a m:b -> u:a v:a",
    "i j, j k, k l -> i l",
]
CONTRACT = f"{PLANS}.products.contract"
ARRAYS = {f"{CONTRACT}._FASTER": HUGE, f"{CONTRACT}._MOST_ABSENT": HUGE}
JOINS = {f"{CONTRACT}._FASTER": 0}
TABLES, JOINED, SHARED = (
    f"{PLANS}.products.tables._FEW",
    f"{KERNELS}.products.join._BLOCK",
    f"{KERNELS}.products.join._LEAST_SHARED",
)
PRODUCT_WAYS = {
    "joins": JOINS,
    "arrays": ARRAYS,
    "rows by number": {**JOINS, TABLES: HUGE},
    "rows by search": {**JOINS, TABLES: 0},
    "arrays, rows by search": {**ARRAYS, TABLES: 0},
    "blocks of one joined row": {**JOINS, JOINED: 1},
    "blocks of some joined rows": {**JOINS, JOINED: 10},
    "lists of eight bytes": {**JOINS, SHORT: 0},
    "codes by rank": {**JOINS, CODES[0]: 4},
    "shared by threads": {**JOINS, SHARED: 1},
    "plans of parts are not stored": {**JOINS, f"{PLANS}.products.contract._MOST_STORED": 0},
}


@lru_cache
def defined_product(text: str) -> Tensor:
    structure, xs = product_case(text)
    return product_by_definition(text, xs, structure)


def product_case(text: str) -> tuple[Structure, list[Tensor]]:
    texts = [str(p) for p in dict.fromkeys(ProductText(text).tensors) if p.faces]
    canonical = list(dict.fromkeys(str(inc.Pattern(t)) for t in texts))
    structure = collate([random_structure(n, canonical, seed=n, draws=3 * n) for n in (4, 0, 3)])
    generator = torch.Generator().manual_seed(0)
    xs = [
        torch.randint(-3, 4, (structure.num_entries(p), 3), generator=generator).double()
        for p in ProductText(text).operands
    ]
    return structure, xs


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
@pytest.mark.parametrize("way", PRODUCT_WAYS)
@pytest.mark.parametrize("text", some(PRODUCTS))
def test_every_way_of_computing_a_product_gives_what_the_definition_says(
    text, way, dtype, monkeypatch
):
    monkeypatch.setattr(torch, "get_num_threads", lambda: 3 if way == "shared by threads" else 1)
    with taken(PRODUCT_WAYS[way]):
        structure, xs = product_case(text)
        y = einsum(text, *(x.to(dtype) for x in xs), structure)
    assert torch.equal(y.double(), defined_product(text))
