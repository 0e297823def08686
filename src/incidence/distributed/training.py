"""Gradients of all processes."""

from __future__ import annotations

import torch
from torch import nn

from incidence.distributed.processes import as_world
from incidence.structure.world import World

__all__ = ["sum_gradients"]


def sum_gradients(module: nn.Module, world: World | None = None) -> None:
    """Add the gradients of the parameters over all processes. Call it after `backward`.

    The loss that is differentiated is the sum of the losses of all processes. So add up over the
    entries that this process holds, and divide by the number of all. A loss of whole structures,
    which every process computes, is divided by the number of processes.

    Args:
        module: The module. All processes must have the same one.
        world: The processes; those of `torch.distributed` if not given.
    """
    processes = as_world(world)
    if processes.size == 1:
        return
    parameters = [p for p in module.parameters() if p.requires_grad]
    if not parameters:
        return
    has = torch.tensor([p.grad is not None for p in parameters], dtype=torch.long)
    is_used = (processes.reduce(has) > 0).tolist()
    used = [p for p, is_in in zip(parameters, is_used, strict=True) if is_in]
    for dtype in dict.fromkeys(p.dtype for p in used):
        own = [p for p in used if p.dtype == dtype]
        flat = [torch.zeros_like(p) if p.grad is None else p.grad for p in own]
        total = processes.reduce(torch.cat([g.detach().flatten() for g in flat]))
        pieces = total.split([p.numel() for p in own])
        for p, piece in zip(own, pieces, strict=True):
            p.grad = piece.view(p.shape).clone()
