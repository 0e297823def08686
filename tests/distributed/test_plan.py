"""What plans say they send is what is sent."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import incidence as inc
from incidence.distributed import rows, split
from incidence.structure.world import World
from tests.distributed.cases import STRUCTURES, features
from tests.distributed.thread_world import run_threads


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("graph", "i, (i j) -> i, (i j)"),
        ("batch", "{i j} -> {i j}, "),
        ("hypergraph", "{i ...} -> i"),
        ("graph", "i, flow=<i j>, <i j k> -> i, flow=<i j>, <i j k>"),
    ],
)
@pytest.mark.parametrize("size", [1, 2, 4])
def test_a_plan_says_how_many_bytes_are_sent(
    name: str, text: str, size: int, dtype: torch.dtype
) -> None:
    structure = STRUCTURES[name]()
    layer = inc.nn.Linear(text, 3, 5).to(dtype)
    xs = features(structure, layer.map.inputs, channels=3)

    def work(world: World) -> None:
        part = split(structure, world=world)
        plan: Any = layer.plan(part)
        here = {k: x[rows(part, k)].to(dtype).requires_grad_() for k, x in xs.items()}
        before = world.sent
        ys = layer(here if len(here) > 1 else next(iter(here.values())), part)
        forward = world.sent - before
        values = ys.values() if isinstance(ys, dict) else [ys]
        torch.stack([y.sum() for y in values]).sum().backward()
        backward = world.sent - before - forward
        assert forward == sum(plan.sent_forward.values())
        assert backward == sum(plan.sent_backward.values())
        assert (forward > 0) == (world.size > 1)
        assert f"sent forward, `{layer.map.inputs[0]}`: " in repr(plan)

    run_threads(size, work)


def test_gradients_of_inputs_that_nobody_needs_are_not_sent() -> None:
    structure = STRUCTURES["graph"]()
    layer = inc.nn.Linear("{i j} -> {i j}", 1, 1)

    def work(world: World) -> None:
        part = split(structure, world=world)
        y = layer(torch.ones(part.num_entries("{i j}"), 1), part)
        before = world.sent
        torch.autograd.grad(y.sum(), layer.weight)
        assert world.sent == before

    run_threads(2, work)
