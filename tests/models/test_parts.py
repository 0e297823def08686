"""Networks on parts: values, gradients and whole training runs are those of one process."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import incidence as inc
from incidence.distributed import rows, split, sum_gradients
from incidence.models import PRESETS
from incidence.structure.world import World
from tests.cases import some
from tests.distributed.cases import STRUCTURES, assert_equal_on_parts, features
from tests.distributed.thread_world import run_threads
from tests.models.small import for_preset
from tests.structure.random_structures import random_structure


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


QUERIES = {
    "pairs": "i, known={i j}, query={i j}",
    "sets": "i, known={i ...}, query={i ...}",
    "sorts": "u:user, m:movie, {u:user v:user}, known=u:user m:movie, query=u:user m:movie",
}


@pytest.mark.parametrize("size", [1, 2, 3])
@pytest.mark.parametrize("side", list(QUERIES))
def test_queries_on_parts_are_those_on_the_whole(side: str, size: int) -> None:
    texts = [text.strip() for text in QUERIES[side].split(",")]
    structure = random_structure(7, texts, 0)
    torch.manual_seed(0)
    net: Any = inc.models.make(
        "completion", dict.fromkeys(texts, 2), 2, texts[-1], hidden=4, depth=1, dropout=0.0
    )
    for parameter in net.parameters():
        nn.init.normal_(parameter, std=0.5)  # heads start with zeros
    xs = features(structure, [structure.resolve(text) for text in texts])
    net = net.double()
    run_threads(
        size, lambda w: assert_equal_on_parts(net, xs, structure, [texts[-1]], w, tolerance=1e-8)
    )


_SMALL: dict[str, Any] = {"hidden": 4, "depth": 1, "heads": 2, "dropout": 0.0}
REFUSED = {"topology": "around holes needs the whole structure"}
_AT = {"relational": "u:user"}  # others have outputs at nodes
# the test of queries has the preset for completion
_CASES = [(name, size) for name in PRESETS if name != "completion" for size in (2, 4)]


def _preset(name: str, at: str) -> tuple[Any, dict[str, Tensor], inc.Structure]:
    """A network without dropout, features of what it reads, and a structure."""
    example = for_preset(name)
    widths = {key: x.shape[1] for key, x in example.features.items()}
    torch.manual_seed(0)
    settings = dict.fromkeys(("in_dropout", "head_dropout"), 0.0)
    channels = inc.models.read_channels(name, widths)
    net: Any = inc.models.make(name, channels, 2, at, **_SMALL, **settings).double()
    net.train()
    xs = {
        str(p): x.double()
        for p, x in zip(net.map.inputs, net.select(example.features), strict=True)
    }
    return net, xs, example.structure


@pytest.mark.parametrize(("name", "size"), some(_CASES, share=2))
@pytest.mark.parametrize("is_whole", [True, False])
def test_every_preset_on_parts_is_that_on_the_whole(name: str, size: int, is_whole: bool) -> None:
    at = "" if is_whole else _AT.get(name, "i")
    net, xs, structure = _preset(name, at)
    if name in REFUSED:
        with pytest.raises(inc.IncidenceError, match=REFUSED[name]):
            run_threads(size, lambda w: assert_equal_on_parts(net, xs, structure, [at], w, 1e-7))
        return
    run_threads(size, lambda w: assert_equal_on_parts(net, xs, structure, [at], w, 1e-7))
