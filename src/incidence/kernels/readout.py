"""One row for each structure: a pooling that autograd knows by its adjoint."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from incidence.kernels.aggregate import (
    Aggregation,
    LinearAggregation,
    Pooled,
    assert_linear,
    pool_sum,
    read_back,
    wide_of,
)
from incidence.plans.stack import StackPlan

__all__ = ["pool_structures"]


def pool_structures(
    x: Tensor, aggregations: Sequence[Aggregation], stack: StackPlan
) -> Sequence[Tensor]:
    """The statistics of the rows of every structure, orbit by orbit; from (rows, channels) to (structures, orbits x channels) each.

    The stack has no other bags.
    """
    found: Sequence[Tensor] = _PoolStructures.apply(x, tuple(aggregations), stack)  # type: ignore[no-untyped-call]
    return found


def _pool(x: Tensor, aggregations: Sequence[Aggregation], stack: StackPlan) -> list[Pooled]:
    """What every aggregation gives; those that are multiples of the sum have it in common."""
    [sums] = (
        pool_sum(x.to(wide_of(x.dtype)), stack)
        if any(isinstance(a, LinearAggregation) for a in aggregations)
        else [x]
    )
    return [
        Pooled([a.scale(sums, stack, 0).to(x.dtype, copy=True)], x.new_empty(0))
        if isinstance(a, LinearAggregation)
        else a.pool(x, stack)
        for a in aggregations
    ]


class _PoolStructures(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x: Tensor, aggregations: tuple[Aggregation, ...], stack: StackPlan
    ) -> tuple[Tensor, ...]:
        pooled = _pool(x.contiguous(), aggregations, stack)
        ctx.aggregations, ctx.stack = aggregations, stack
        ctx.save_for_backward(x, *(part for [rows], kept in pooled for part in (rows, kept)))
        return tuple(rows for [rows], _ in pooled)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None]:
        x, *saved = ctx.saved_tensors
        return _Adjoint.apply(ctx.aggregations, ctx.stack, x, *saved, *grads), None, None  # type: ignore[no-untyped-call]


class _Adjoint(torch.autograd.Function):
    """The gradient of a pooling; of a linear one it is linear, and its own gradient is the pooling."""

    @staticmethod
    def forward(
        ctx: Any,
        aggregations: tuple[Aggregation, ...],
        stack: StackPlan,
        x: Tensor,
        *tensors: Tensor,
    ) -> Tensor:
        ctx.aggregations, ctx.stack = aggregations, stack
        x = x.contiguous()
        flat = iter(tensors)
        pooled = [Pooled([next(flat)], next(flat)) for _ in aggregations]
        d_x, d_sums = torch.zeros_like(x), None
        for aggregation, one, grad in zip(aggregations, pooled, flat, strict=True):
            if isinstance(aggregation, LinearAggregation):
                scaled = aggregation.scale(grad.contiguous(), stack, 0)
                d_sums = scaled if d_sums is None else d_sums + scaled
            else:
                aggregation.add_adjoint(d_x, grad.reshape(-1, x.shape[1]), x, one, stack)
        return d_x if d_sums is None else d_x + read_back(d_sums.view(-1, x.shape[1]), stack)

    @staticmethod
    def backward(ctx: Any, second: Tensor) -> tuple[Tensor | None, ...]:
        assert_linear(ctx.aggregations)
        seconds = pool_structures(second, ctx.aggregations, ctx.stack)
        return None, None, None, *[None] * (2 * len(seconds)), *seconds
