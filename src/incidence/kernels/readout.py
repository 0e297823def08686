"""One row for each structure: a pooling that autograd knows by its adjoint."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from incidence.kernels.aggregate import Aggregation, Pooled, assert_linear
from incidence.plans.orbit_plan import OrbitPlan

__all__ = ["pool_structures"]


def pool_structures(x: Tensor, aggregation: Aggregation, orbit: OrbitPlan) -> Tensor:
    """The statistic of the entries of every structure; from (rows, channels) to (structures, channels). The orbit has no other bags."""
    result: Tensor = _PoolStructures.apply(x, aggregation, orbit)  # type: ignore[no-untyped-call]
    return result


class _PoolStructures(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, aggregation: Aggregation, orbit: OrbitPlan) -> Tensor:
        [rows], kept = aggregation.pool(x.contiguous(), orbit)
        ctx.aggregation, ctx.orbit = aggregation, orbit
        ctx.save_for_backward(x, rows, kept)
        return rows

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        return _Adjoint.apply(grad, *ctx.saved_tensors, ctx.aggregation, ctx.orbit), None, None  # type: ignore[no-untyped-call]


class _Adjoint(torch.autograd.Function):
    """The gradient of a pooling; of a linear one it is linear, and its own gradient is the pooling."""

    @staticmethod
    def forward(ctx: Any, grad: Tensor, x: Tensor, rows: Tensor, kept: Tensor, aggregation: Aggregation, orbit: OrbitPlan) -> Tensor:
        ctx.aggregation, ctx.orbit = aggregation, orbit
        x = x.contiguous()
        d_x = torch.zeros_like(x)
        aggregation.add_adjoint(d_x, grad, x, Pooled([rows], kept), orbit)
        return d_x

    @staticmethod
    def backward(ctx: Any, second: Tensor) -> tuple[Tensor | None, ...]:
        assert_linear([ctx.aggregation])
        return pool_structures(second, ctx.aggregation, ctx.orbit), None, None, None, None, None
