"""One row for each structure: a pooling that autograd knows by its adjoint."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from incidence.engine.aggregate import Aggregation, LinearAggregation, Pooled, assert_linear
from incidence.engine.bags import Bags, wide_of

__all__ = ["pool_structures"]


def pool_structures(x: Tensor, aggregations: Sequence[Aggregation], bags: Bags) -> Sequence[Tensor]:
    """Return the statistics of the rows of every structure, one for each aggregation.

    Args:
        x: The rows, shape (rows, channels).
        aggregations: The statistics.
        bags: The bags of the tensor, which are those of structures alone.

    Returns:
        For each aggregation the orbits side by side, shape (structures, orbits x channels).
    """
    pooled: Sequence[Tensor] = _PoolStructures.apply(x, tuple(aggregations), bags)  # type: ignore[no-untyped-call]
    return pooled


def _pool(x: Tensor, aggregations: Sequence[Aggregation], bags: Bags) -> list[Pooled]:
    """Return what every aggregation pools; multiples of the sum share it."""
    sums: Tensor | None = None
    pooled = []
    for aggregation in aggregations:
        if not isinstance(aggregation, LinearAggregation):
            pooled.append(aggregation.pool(x, bags))
            continue
        if sums is None:
            [sums] = bags.pool(x.to(wide_of(x.dtype)))
        scaled = aggregation.scale(sums, bags, 0).to(x.dtype, copy=True)
        pooled.append(Pooled([scaled], x.new_empty(0)))
    return pooled


class _PoolStructures(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x: Tensor, aggregations: tuple[Aggregation, ...], bags: Bags
    ) -> tuple[Tensor, ...]:
        pooled = _pool(x.contiguous(), aggregations, bags)
        ctx.aggregations, ctx.bags = aggregations, bags
        ctx.save_for_backward(x, *(part for [rows], kept in pooled for part in (rows, kept)))
        return tuple(rows for [rows], _ in pooled)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None]:
        x, *saved = ctx.saved_tensors
        return _Adjoint.apply(ctx.aggregations, ctx.bags, x, *saved, *grads), None, None  # type: ignore[no-untyped-call]


class _Adjoint(torch.autograd.Function):
    """The gradient of a pooling; of a linear one it is linear, and its own gradient is the
    pooling.
    """

    @staticmethod
    def forward(
        ctx: Any, aggregations: tuple[Aggregation, ...], bags: Bags, x: Tensor, *tensors: Tensor
    ) -> Tensor:
        ctx.aggregations, ctx.bags = aggregations, bags
        x = x.contiguous()
        flat = iter(tensors)
        pooled = [Pooled([next(flat)], next(flat)) for _ in aggregations]
        d_x, d_sums = torch.zeros_like(x), None
        for aggregation, one, grad in zip(aggregations, pooled, flat, strict=True):
            if isinstance(aggregation, LinearAggregation):
                scaled = aggregation.scale(grad.contiguous(), bags, 0)
                d_sums = scaled if d_sums is None else d_sums + scaled
            else:
                aggregation.add_adjoint(d_x, grad.reshape(-1, x.shape[1]), x, one, bags)
        return d_x if d_sums is None else d_x + bags.read(d_sums.view(-1, x.shape[1]))

    @staticmethod
    def backward(ctx: Any, second: Tensor) -> tuple[Tensor | None, ...]:
        assert_linear(ctx.aggregations)
        seconds = pool_structures(second, ctx.aggregations, ctx.bags)
        return None, None, None, *[None] * (2 * len(seconds)), *seconds
