"""Maps of all kinds to try on sparse structures, and what tests do with them over and over."""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from incidence.algebra import EquivariantMap
from incidence.engine.aggregate import AGGREGATIONS
from incidence.nn import Linear
from incidence.structure import Structure
from tests.nn import range_aggregation as range_aggregation
from tests.structure.random_structures import random_structure

EVERY = [*AGGREGATIONS]  # the last, `range`, is the tests' own

FIXED = [
    "i -> i",
    "i j -> i j",
    "(i j) -> (i j)",
    "(i j) -> i",
    "{i j} -> {i j}",
    "{i j} -> (i j)",
    "[i j] -> [i j]",
    "[i j k] -> [i j]",
    "i {i j} -> i {i j}",
    "i {j k} -> {i j}",
    "{i j} {i k} -> {i j} {i k}",
    "(i j) (j k) -> (i j)",
    "(i j k) -> (i j k)",
    "{i j k} -> {i j}",
    "i j k -> i",
    "i i j -> i i",
    "i, (i j) -> i, (i j)",
    "i, {i j}, {i j k} -> i, {i j}, {i j k}",
    "old={i j} -> new={i j}",
    "bond={i j}, contact={i j} -> i, bond={i j}",
    "i:a j:b -> i:a j:b",
    "{i:a j:a k:b} -> i:a, k:b",
    "(u:a m:b), u:a -> (u:a m:b) (u:a n:b)",
    "(i j) e:edge -> i, e:edge",
    " -> {i j}",
    "{i j} -> ",
    "state=, i -> state=, i",
]

ORIENTED = [
    "<i j k> -> (i j k)",
    "i, <i j>, <i j k> -> i, <i j>, <i j k>",
    "i <j i>, i <i j> -> i <i j>",
    "<i j> <j k> -> <i j>, {i j}",
    "i <j k> -> i <j k>",
    "<i:a j:a k:b> -> <i:a j:a> k:b, k:b",
    " -> i <i j>",
]

OPEN = [
    ("{i ...} -> {i ...}", 0),
    ("{i ...} -> {i ...}", 2),
    ("{i ...} -> i, {i j}", 2),
    ("i, {i j} -> {i ...}", 1),
    ("i {i ...} -> i {i ...}", 2),
    ("i {j ...} -> i", 1),
    ("{i ...} {i ...} -> {i ...}", 1),
    ("{i j} {i ...} -> (i j)", 2),
    ("{i j ...} -> {i j ...}", 3),
    ("{i:a ...} j:b -> i:a j:b", 1),
    ("{i ...} -> ", 1),
]

# The others are numbered by some tests, so these come last.
ALL = (
    [(text, 1) for text in FIXED]
    + OPEN
    + [(text, 1) for text in ORIENTED]
    + [("<i j> {i ...} -> <i j>, {i ...}", 1)]
)
IDS = [text.strip() if (text, 1) in ALL else f"{text.strip()}, max_overlap={k}" for text, k in ALL]


def allowed(text: str, aggr: str | list[str]) -> str | list[str]:
    """The aggregations that a map may have: of oriented faces, sums and means."""
    if not any(p.is_oriented for p in EquivariantMap(text).inputs):
        return aggr
    if isinstance(aggr, str):
        return aggr if aggr == "mean" else "sum"
    return [name for name in aggr if name in ("sum", "mean")] or ["sum"]


def structure_for(
    m: EquivariantMap, num_nodes: int | Mapping[str, int], seed: int = 0, draws: int = 8
) -> Structure:
    return random_structure(num_nodes, [str(p) for p in m.inputs + m.outputs], seed, draws)


def layer_for(
    text: str,
    max_overlap: int = 1,
    aggr: str | list[str] = "sum",
    channels: tuple[int, int] = (2, 2),
    **options: object,
) -> Linear:
    """A layer with all parameters drawn at random, biases included; of oriented faces with those of
    the aggregations that they may have.
    """
    torch.manual_seed(0)
    layer = Linear(
        text,
        *channels,
        aggr=allowed(text, aggr),
        max_overlap=max_overlap,
        dtype=torch.float64,
        **options,
    )
    for parameter in layer.parameters():
        parameter.data.normal_()
    return layer


def features_for(
    m: EquivariantMap,
    structure: Structure,
    seed: int = 0,
    channels: int = 2,
    is_whole: bool = False,
) -> dict[str, Tensor]:
    """Random features by tensor; `is_whole` gives small whole numbers, with many ties."""
    generator = torch.Generator().manual_seed(seed)
    shapes = {p.name or str(p): (structure.num_entries(p), channels) for p in m.inputs}
    if is_whole:
        return {
            key: torch.randint(-2, 3, shape, generator=generator).double()
            for key, shape in shapes.items()
        }
    return {
        key: torch.randn(shape, generator=generator, dtype=torch.float64)
        for key, shape in shapes.items()
    }


def outputs(y: Tensor | dict[str, Tensor]) -> list[Tensor]:
    return list(y.values()) if isinstance(y, dict) else [y]


def gradients(ys: Sequence[Tensor], wanted: Sequence[Tensor], seed: int = 0) -> tuple[Tensor, ...]:
    """The gradients of a fixed random combination of the outputs."""
    generator = torch.Generator().manual_seed(seed)
    loss = sum((y * torch.randn(y.shape, generator=generator, dtype=y.dtype)).sum() for y in ys)
    return torch.autograd.grad(loss, wanted, allow_unused=True, materialize_grads=True)


def parts_for(m: EquivariantMap, sizes: tuple[int, ...] = (4, 0, 5, 1)) -> list[Structure]:
    """Structures for a map, to put into a batch."""
    return [structure_for(m, n, seed=n) for n in sizes]
