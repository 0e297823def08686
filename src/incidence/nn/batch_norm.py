"""Batch normalisation of rows that may be few, or spread over several processes."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

__all__ = ["RowNorm", "RowRms", "is_spread"]


_LEAST = 1e-8
"""The mean square up to which values are rounding: a norm would blow them up, and the next one
again, until they count.
"""


class RowNorm(nn.BatchNorm1d):
    """Batch normalisation over rows, (rows, channels).

    A channel that is the same in all rows, as where all nodes look alike, would be centred to its
    rounding: it is divided by its size and not centred. The running statistics are those that rows
    were normalised by, plain means over the first batches, so that nothing is left of what they
    started from. They serve where there is one row, which has no spread, or none. Set `is_shared`
    to take the statistics over the rows of all processes, as one process would; torch's own module
    for that needs GPUs.
    """

    is_shared = False

    def forward(self, x: Tensor) -> Tensor:
        """The normalised rows."""
        if self.training and is_spread(self):
            return self._over_all(x)
        if self.training and len(x) > 1:
            return self._over_these(x)
        return self._by_running(x)

    def _over_these(self, x: Tensor) -> Tensor:
        if _can_ask(x):
            y, mean, inverse = torch.native_batch_norm(
                x, self.weight, self.bias, None, None, True, 0.0, self.eps
            )
            variance = inverse.detach().pow(-2).sub_(self.eps)
            if bool(_varies(variance, mean).all()):  # as nearly always
                self._learn(variance.mul_(len(x) / (len(x) - 1)), mean)
                return y
        return self._scaled(x, *torch.var_mean(x, 0, correction=0), len(x))

    def _over_all(self, x: Tensor) -> Tensor:
        count = x.new_full((1,), len(x))
        dist.all_reduce(count)
        mean = _all_sum(x.sum(0)) / count.clamp(min=1)
        variance = _all_sum((x - mean).square().sum(0)) / count.clamp(min=1)
        return self._scaled(x, variance, mean, count) if count > 1 else self._by_running(x)

    def _scaled(self, x: Tensor, variance: Tensor, mean: Tensor, count: int | Tensor) -> Tensor:
        varies = _varies(variance.detach(), mean.detach())
        square, unbiased = (
            torch.where(varies, v, mean.square())
            for v in (variance, variance.detach() * (count / (count - 1)))
        )
        mean = torch.where(varies, mean, 0.0)
        self._learn(unbiased.detach(), mean.detach())
        return (x - mean) * ((square + self.eps).rsqrt() * self._kept_weight(square)) + self.bias

    def _by_running(self, x: Tensor) -> Tensor:
        assert self.running_var is not None
        weight = self._kept_weight(self.running_var)
        return torch.batch_norm(
            x, weight, self.bias, self.running_mean, self.running_var, False, 0.0, self.eps, True
        )

    def _kept_weight(self, square: Tensor) -> Tensor:
        """The weight, but 0 for channels of nothing but rounding."""
        return self.weight * (square > _LEAST)

    @torch.no_grad()
    def _learn(self, square: Tensor, mean: Tensor) -> None:
        assert self.running_mean is not None
        assert self.running_var is not None
        assert self.num_batches_tracked is not None
        count, least = self.num_batches_tracked.add_(1), self.momentum or 0.0
        rate: Any = (
            max(least, 1 / int(count))
            if _can_ask(mean)
            else (1 / count).to(self.running_mean).clamp(min=least)
        )
        self.running_mean.lerp_(mean.to(self.running_mean), rate)
        self.running_var.lerp_(square.to(self.running_var), rate)


class RowRms(nn.Module):
    r"""Values divided by their root mean square over rows, (rows, channels), and scaled: $y = x\, w
    / \sqrt{\overline{x^2} + \epsilon}$.

    It is what batch normalisation is for values with a sign, whose mean over rows means nothing.
    What is 0 but for rounding becomes 0. No row has no root mean square: then the running mean
    square serves. One row has one, but would only learn its sign: there it serves, too.
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
        square = self._square(x)
        return x * (square + self.eps).rsqrt() * (self.weight * (square > _LEAST))

    def _square(self, x: Tensor) -> Tensor:
        """The mean square of these rows, which is learned, or the running one."""
        if not self.training:
            return self.running_square
        count, total = len(x), x.square().sum(0)
        if is_spread(self):
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


def is_spread(norm: RowNorm | RowRms) -> bool:
    """Return whether a norm takes its statistics over the rows of several processes."""
    is_running = norm.is_shared and dist.is_available() and dist.is_initialized()
    return is_running and dist.get_world_size() > 1


def _can_ask(x: Tensor) -> bool:
    """Whether numbers of a tensor can be looked at at once; elsewhere that takes longer than to
    compute something twice.
    """
    return x.device.type == "cpu" and not torch.compiler.is_compiling()


def _varies(variance: Tensor, mean: Tensor) -> Tensor:
    """Which channels are not the same in all rows, but for rounding."""
    return variance.addcmul(mean, mean, value=-_LEAST) > _LEAST


def _all_sum(x: Tensor) -> Tensor:
    total: Tensor = _AllSum.apply(x)  # type: ignore[no-untyped-call]
    return total


class _AllSum(torch.autograd.Function):
    """The sum over all processes; the gradient of a sum of their losses is the sum of their
    gradients.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        total = x.clone(memory_format=torch.contiguous_format)
        dist.all_reduce(total)
        return total

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        return _all_sum(grad)
