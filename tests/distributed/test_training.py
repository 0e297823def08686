"""Gradients of all processes are added."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from incidence.distributed import sum_gradients
from incidence.structure.world import World
from tests.distributed.thread_world import run_threads


def test_gradients_that_some_processes_lack_are_those_of_the_others() -> None:
    def work(world: World) -> Any:
        module = nn.ModuleList([nn.Linear(1, 1, bias=False) for _ in range(2)])
        if world.rank == 1:
            module[0].weight.grad = torch.full((1, 1), 3.0)
        sum_gradients(module, world)
        return module[0].weight.grad.item(), module[1].weight.grad

    assert run_threads(2, work) == [(3.0, None), (3.0, None)]
