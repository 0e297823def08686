"""Networks on parts: values, gradients and whole training runs are those of one process."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any

import pytest
import torch
from torch import nn

import incidence as inc
from incidence.distributed import rows, split, sum_gradients
from incidence.models.query_head import PairProducts
from incidence.structure.world import World
from tests.cases import some
from tests.distributed.cases import STRUCTURES, assert_equal_on_parts, features
from tests.distributed.thread_world import run_threads


def _net(text: str, *channels: int, **settings: Any) -> Any:
    return inc.models.IncidenceNet(text, *channels, hidden=4, depth=2, dropout=0.0, **settings)


NETS: dict[str, tuple[str, str, Callable[[], nn.Module]]] = {
    "labels of nodes": (
        "graph",
        "i",
        lambda: _net("i, {i j} -> i", 2, 3),
    ),
    "whole structures": (
        "batch",
        "",
        lambda: _net("i, {i j} -> ", 2, 3),
    ),
    "flows": (
        "graph",
        "flow=<i j>",
        lambda: _net("flow=<i j>, i -> flow=<i j>", 2, 1),
    ),
    "hypergraph": (
        "hypergraph",
        "i",
        lambda: _net("i, {i ...} -> i", 2, 3),
    ),
    "local": (
        "graph",
        "i",
        lambda: _net("i, (i j) -> i", 2, 3, operations="local"),
    ),
}


@pytest.mark.parametrize(
    ("name", "size"), some([(name, size) for name in NETS for size in (2, 3)], share=3)
)
def test_a_network_on_parts_is_the_network_on_the_whole(name: str, size: int) -> None:
    of_structure, output, make = NETS[name]
    structure = STRUCTURES[of_structure]()
    torch.manual_seed(0)
    net: Any = make().double()
    xs = features(structure, net.map.inputs)
    run_threads(size, lambda w: assert_equal_on_parts(net, xs, structure, [output], w, 1e-8))


def _train(
    net: nn.Module, xs: Any, wanted: Any, structure: Any, world: World | None
) -> list[float]:
    optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
    losses = []
    for _ in range(5):
        optimizer.zero_grad()
        error = (net(xs, structure) - wanted["y"]).square().sum() / wanted["count"]
        error.backward()
        if world is not None:
            sum_gradients(net, world)
            error = world.reduce(error.detach())
        optimizer.step()
        losses.append(float(error.detach()))
    return losses


@pytest.mark.parametrize("size", [2, 4])
def test_training_on_parts_is_training_on_the_whole(size: int) -> None:
    structure = STRUCTURES["graph"]()
    torch.manual_seed(0)
    net = _net("i, (i j) -> i", 2, 1).double()
    xs, y = features(structure, net.map.inputs), torch.randn(24, 1, dtype=torch.float64)
    whole = deepcopy(net)
    losses = _train(whole, xs, {"y": y, "count": 24}, structure, None)
    assert losses[-1] < losses[0]

    def work(world: World) -> None:
        own = deepcopy(net)
        part = split(structure, world=world)
        here = {key: x[rows(part, key)] for key, x in xs.items()}
        wanted = {"y": y[rows(part, "i")], "count": 24}
        assert _train(own, here, wanted, part, world) == pytest.approx(losses, rel=1e-6)
        for p, q in zip(own.parameters(), whole.parameters(), strict=True):
            torch.testing.assert_close(p, q, rtol=1e-5, atol=1e-6)

    run_threads(size, work)


def test_queries_are_refused_on_a_part() -> None:
    structure = inc.Structure(3, {"{i j}": [[0, 1], [1, 2]], "asked={i j}": [[0], [2]]})
    head = PairProducts("i", structure.resolve("asked"), 2)

    def work(world: World) -> None:
        part = split(structure, world=world)
        head({"i": torch.ones(part.num_entries("i"), 2)}, part)

    with pytest.raises(inc.IncidenceError, match="queries of entries are not computed on a part"):
        run_threads(1, work)
