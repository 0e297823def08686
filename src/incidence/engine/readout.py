"""One row for each structure: a pooling that autograd knows by its adjoint."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from incidence.engine.aggregate import Aggregation, LinearAggregation, assert_linear
from incidence.engine.bags import Bags, wide_of
from incidence.engine.gradient import with_gradient

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

    def run(x: Tensor) -> tuple[list[Tensor], list[Tensor]]:
        pooled = _pool(x.contiguous(), aggregations, bags)
        rows = [of_structures for of_structures, _ in pooled]
        return rows, [x, *rows, *(kept for _, kept in pooled)]

    def gradient(
        saved: Sequence[Tensor], grads: Sequence[Tensor], needs: Sequence[bool]
    ) -> tuple[Tensor]:
        return (_adjoint(saved, grads, aggregations, bags),)

    return with_gradient(run, gradient, x)


def _pool(
    x: Tensor, aggregations: Sequence[Aggregation], bags: Bags
) -> list[tuple[Tensor, Tensor]]:
    """Return what every aggregation pools, and what else its adjoint needs.

    Multiples of the sum share it.
    """
    sums: Tensor | None = None
    pooled = []
    for aggregation in aggregations:
        if not isinstance(aggregation, LinearAggregation):
            rows, kept = aggregation.pool(x, bags)
            pooled.append((bags.by_level(rows)[0], kept))
            continue
        if sums is None:
            [sums] = bags.pool_all(x.to(wide_of(x.dtype)))
        # a copy, as every output is a tensor of its own
        scaled = aggregation.scale(sums, bags, 0).to(x.dtype, copy=True)
        pooled.append((scaled, x.new_empty(0)))
    return pooled


def _adjoint(
    saved: Sequence[Tensor],
    grads: Sequence[Tensor],
    aggregations: Sequence[Aggregation],
    bags: Bags,
) -> Tensor:
    """Return the gradient of a pooling, which can be differentiated where the pooling is linear.

    Args:
        saved: The rows x, the outputs, and what else each aggregation needs.
        grads: The gradients of the outputs, (structures, orbits x channels) each.
        aggregations: The statistics.
        bags: The bags of the structures.
    """
    count = len(aggregations)

    def run(x: Tensor, *tensors: Tensor) -> tuple[list[Tensor], list[Tensor]]:
        x = x.contiguous()
        outputs, kept, grads = (tensors[k * count : (k + 1) * count] for k in range(3))
        # every process has a share of the gradients
        [whole] = bags.totals([torch.cat(grads, dim=1)])
        if bags.is_copy:
            return [torch.zeros_like(x)], []
        grads = whole.chunk(count, dim=1)
        d_x, d_sums = torch.zeros_like(x), None
        for k, aggregation in enumerate(aggregations):
            if isinstance(aggregation, LinearAggregation):
                scaled = aggregation.scale(grads[k].contiguous(), bags, 0)
                d_sums = scaled if d_sums is None else d_sums + scaled
            else:
                # (bags, channels)
                rows, of_bags = (part.reshape(-1, x.shape[1]) for part in (outputs[k], grads[k]))
                aggregation.add_adjoint(d_x, of_bags, x, (rows, kept[k]), bags)
        if d_sums is not None:
            d_x += bags.read(d_sums.view(-1, x.shape[1]))
        return [d_x], []

    def gradient(
        _: Sequence[Tensor], seconds: Sequence[Tensor], needs: Sequence[bool]
    ) -> list[Tensor | None]:
        assert_linear(aggregations)
        # x and what was saved do not matter to what is linear
        unread = [None] * (1 + 2 * count)
        return [*unread, *pool_structures(seconds[0], aggregations, bags)]

    [d_x] = with_gradient(run, gradient, *saved, *grads)
    return d_x
