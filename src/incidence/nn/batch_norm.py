"""Batch normalisation of rows that may be few, or spread over several processes."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

__all__ = ["RowNorm", "RowRms"]


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


class RowRms(nn.Module):
    r"""Values divided by their root mean square over rows, (rows, channels), and scaled: $y = x\, w / \sqrt{\overline{x^2} + \epsilon}$.

    It is what batch normalisation is for values with a sign, whose mean over rows means nothing. No row has no root mean square: then the
    running mean square serves. One row has one, but would only learn its sign, so there it serves too.
    """

    is_shared = False

    def __init__(self, num_features: int, eps: float = 1e-5, momentum: float = 0.1) -> None:
        super().__init__()
        self.num_features, self.eps, self.momentum = num_features, eps, momentum
        self.weight = nn.Parameter(torch.ones(num_features))
        self.register_buffer("running_square", torch.ones(num_features))

    running_square: Tensor

    def reset_running_stats(self) -> None:
        """Forgets the rows seen so far."""
        self.running_square.fill_(1)

    def forward(self, x: Tensor) -> Tensor:
        """The scaled rows."""
        return x * (self._square(x) + self.eps).rsqrt() * self.weight

    def _square(self, x: Tensor) -> Tensor:
        """The mean square of these rows, which is learned, or the running one."""
        if not self.training:
            return self.running_square
        is_spread = self.is_shared and dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1
        count, total = len(x), x.square().sum(0)
        if is_spread:
            counts = x.new_full((1,), count)
            dist.all_reduce(counts)
            count, total = int(counts), _all_sum(total)
        if count <= 1:
            return self.running_square
        square = total / count
        with torch.no_grad():
            self.running_square.lerp_(square.to(self.running_square.dtype), self.momentum)
        return square

    def extra_repr(self) -> str:
        """The number of channels."""
        return f"{self.num_features}, eps={self.eps}, momentum={self.momentum}"


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
