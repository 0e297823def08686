"""Batch normalisation of rows that may be few, or spread over several processes."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

__all__ = ["RowNorm"]


class RowNorm(nn.BatchNorm1d):
    """Batch normalisation over rows, (rows, channels).

    One row has no spread, and none has no mean: then the running statistics serve. Set `is_shared` to take the statistics over the rows of
    all processes, as one process would; torch's own module for that needs GPUs.
    """

    is_shared = False

    def forward(self, x: Tensor) -> Tensor:
        """The normalised rows."""
        if self.training and self.is_shared and dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1:
            return self._over_all(x)
        if self.training and len(x) > 1:
            return self._normalise(x, True)
        return self._normalise(x, False)

    def _normalise(self, x: Tensor, is_learning: bool) -> Tensor:
        """By the statistics of these rows, which are learned, or by the running ones."""
        if is_learning and self.num_batches_tracked is not None:
            self.num_batches_tracked.add_(1)
        statistics = self.running_mean, self.running_var
        return torch.batch_norm(x, self.weight, self.bias, *statistics, is_learning, self.momentum or 0.0, self.eps, True)

    def _over_all(self, x: Tensor) -> Tensor:
        count = x.new_full((1,), len(x))
        dist.all_reduce(count)
        mean = _all_sum(x.sum(0)) / count.clamp(min=1)
        variance = _all_sum((x - mean).square().sum(0)) / count.clamp(min=1)
        assert self.running_mean is not None
        assert self.running_var is not None
        assert self.num_batches_tracked is not None
        if count > 1:
            with torch.no_grad():
                self.num_batches_tracked += 1
                self.running_mean.lerp_(mean, self.momentum or 0.0)
                self.running_var.lerp_(variance * count / (count - 1), self.momentum or 0.0)
        else:
            mean, variance = self.running_mean, self.running_var
        return (x - mean) * (variance + self.eps).rsqrt() * self.weight + self.bias


def _all_sum(x: Tensor) -> Tensor:
    total: Tensor = _AllSum.apply(x)  # type: ignore[no-untyped-call]
    return total


class _AllSum(torch.autograd.Function):
    """The sum over all processes; the gradient of a sum of their losses is the sum of their gradients."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        total = x.clone(memory_format=torch.contiguous_format)
        dist.all_reduce(total)
        return total

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        return _all_sum(grad)
