"""One row for each structure: a pooling that autograd knows by its adjoint."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from incidence.kernels.aggregate import Aggregation
from incidence.structure.lists import OrbitPlan

__all__ = ["pool_structures"]


def pool_structures(x: Tensor, aggregation: Aggregation, lists: OrbitPlan) -> Tensor:
    """The statistic of the entries of every structure; shape (structures, channels). The lists have no other bags."""
    result: Tensor = _PoolStructures.apply(x, aggregation, lists)  # type: ignore[no-untyped-call]
    return result


class _PoolStructures(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, aggregation: Aggregation, lists: OrbitPlan) -> Tensor:
        x = x.contiguous()
        [rows], kept = aggregation.pool(x, lists)
        ctx.aggregation, ctx.lists = aggregation, lists
        ctx.save_for_backward(x, rows, kept)
        return rows

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        x, rows, kept = ctx.saved_tensors
        d_x = torch.zeros_like(x)
        ctx.aggregation.add_adjoint(d_x, grad, x, ([rows], kept), ctx.lists)
        return d_x, None, None
