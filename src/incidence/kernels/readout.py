"""One row for each structure: a pooling that autograd knows by its adjoint."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from incidence.errors import IncidenceError
from incidence.kernels.aggregate import Aggregation
from incidence.plans.orbit_plan import OrbitPlan

__all__ = ["pool_structures"]


def pool_structures(x: Tensor, aggregation: Aggregation, lists: OrbitPlan) -> Tensor:
    """The statistic of the entries of every structure; shape (structures, channels). The lists have no other bags."""
    result: Tensor = _PoolStructures.apply(x, aggregation, lists)  # type: ignore[no-untyped-call]
    return result


class _PoolStructures(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, aggregation: Aggregation, lists: OrbitPlan) -> Tensor:
        [rows], kept = aggregation.pool(x.contiguous(), lists)
        ctx.aggregation, ctx.lists = aggregation, lists
        ctx.save_for_backward(x, rows, kept)
        return rows

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        return _Adjoint.apply(grad, *ctx.saved_tensors, ctx.aggregation, ctx.lists), None, None  # type: ignore[no-untyped-call]


class _Adjoint(torch.autograd.Function):
    """The gradient of a pooling; of a linear one it is linear, and its own gradient is the pooling."""

    @staticmethod
    def forward(ctx: Any, grad: Tensor, x: Tensor, rows: Tensor, kept: Tensor, aggregation: Aggregation, lists: OrbitPlan) -> Tensor:
        ctx.aggregation, ctx.lists = aggregation, lists
        x = x.contiguous()
        d_x = torch.zeros_like(x)
        aggregation.add_adjoint(d_x, grad, x, ([rows], kept), lists)
        return d_x

    @staticmethod
    def backward(ctx: Any, second: Tensor) -> tuple[Tensor | None, ...]:
        if not ctx.aggregation.is_linear:
            raise IncidenceError("only sums and means over structures have a second derivative; this is another statistic.")
        return pool_structures(second, ctx.aggregation, ctx.lists), None, None, None, None, None
