"""Norms of the tensors of one side; their rows may be few, or spread over several processes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from incidence.algebra.pattern import Pattern
from incidence.engine.gradient import linear_map
from incidence.engine.plain import refused
from incidence.errors import IncidenceError
from incidence.nn.composition import Planned, Side
from incidence.nn.steps import CannotCompileError, writes
from incidence.nn.tensors import (
    Values,
    as_channels,
    as_list,
    as_side,
    fitting,
    key_of,
    per_tensor,
    takes_examples,
)
from incidence.structure import Structure
from incidence.structure.arrange import orbit_rows
from incidence.structure.pytree import Recorded, recorded, traced
from incidence.structure.world import World

__all__ = ["BatchNorm", "LayerNorm", "Norm", "RowNorm", "RowRms", "is_spread"]


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

    def forward(self, x: Tensor, world: World | None = None) -> Tensor:
        """Return the normalised rows; those of a part of a structure over its processes."""
        if self.training and (world is not None or is_spread(self)):
            return self._over_all(x, world)
        if self.training and len(x) > 1:
            return self._over_these(x)
        return self._by_running(x)

    def _over_these(self, x: Tensor) -> Tensor:
        if _can_ask(x):
            y, mean, inverse = torch.native_batch_norm(
                x, self.weight, self.bias, None, None, True, 0.0, self.eps
            )
            # (channels,), from 1 / sqrt(variance + eps)
            variance = inverse.detach().pow(-2).sub_(self.eps)
            if bool(_varies(variance, mean).all()):  # as nearly always
                self._learn(variance.mul_(len(x) / (len(x) - 1)), mean)
                return y
        return self._scaled(x, *torch.var_mean(x, 0, correction=0), len(x))

    def _over_all(self, x: Tensor, world: World | None) -> Tensor:
        count = _all_sum(torch.tensor([float(len(x))], dtype=torch.float64), world).to(x)
        mean = _all_sum(x.sum(0), world) / count.clamp(min=1)
        variance = _all_sum((x - mean).square().sum(0), world) / count.clamp(min=1)
        return self._scaled(x, variance, mean, count) if count > 1 else self._by_running(x)

    def _scaled(self, x: Tensor, variance: Tensor, mean: Tensor, count: int | Tensor) -> Tensor:
        varies = _varies(variance.detach(), mean.detach())
        square, unbiased = (
            torch.where(varies, v, mean.square())
            for v in (variance, variance.detach() * (count / (count - 1)))
        )
        # constant channels are divided by their size instead of centred
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
        """Return the weight, but 0 for channels of nothing but rounding."""
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
        # the plain mean of the first batches, then an exponential one
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
        """Forget the rows seen so far."""
        self.running_square.fill_(1)

    def forward(self, x: Tensor, world: World | None = None) -> Tensor:
        """Return the scaled rows; those of a part of a structure over its processes."""
        square = self._square(x, world)
        return x * (square + self.eps).rsqrt() * (self.weight * (square > _LEAST))

    def _square(self, x: Tensor, world: World | None) -> Tensor:
        """Return the mean square of these rows, which is learned, or the running one."""
        if not self.training:
            return self.running_square
        count, total = len(x), x.square().sum(0)  # total: (channels,)
        if world is not None or is_spread(self):
            counts = _all_sum(torch.tensor([float(count)], dtype=torch.float64), world)
            count, total = int(counts), _all_sum(total, world)
        if count <= 1:  # one row has no statistics of its own
            return self.running_square
        square = total / count
        with torch.no_grad():
            self.running_square.lerp_(square.to(self.running_square.dtype), self.momentum)
        return square

    def extra_repr(self) -> str:
        """Return the number of channels."""
        return f"{self.num_features}, eps={self.eps}, momentum={self.momentum}"


def is_spread(norm: RowNorm | RowRms) -> bool:
    """Return whether a norm takes its statistics over the rows of several processes."""
    is_running = norm.is_shared and dist.is_available() and dist.is_initialized()
    return is_running and dist.get_world_size() > 1


def _can_ask(x: Tensor) -> bool:
    """Return whether numbers of a tensor can be looked at at once; elsewhere that takes longer than
    to compute something twice.
    """
    return x.device.type == "cpu" and not torch.compiler.is_compiling()


def _varies(variance: Tensor, mean: Tensor) -> Tensor:
    """Return which channels are not the same in all rows, but for rounding."""
    return variance.addcmul(mean, mean, value=-_LEAST) > _LEAST


def _all_sum(x: Tensor, world: World | None) -> Tensor:
    """Return the sum over all processes.

    The gradient of a sum of their losses is the sum of their gradients: the map is its own adjoint.
    """

    def total(x: Tensor) -> Tensor:
        if world is not None:
            return world.reduce(x)
        y = x.clone(memory_format=torch.contiguous_format)
        dist.all_reduce(y)
        return y

    return linear_map(x, total, total)


def _on(structure: Structure, pattern: Pattern) -> Callable[[nn.Module, Tensor], Tensor]:
    """Return how a norm is called on rows of a structure: over all processes, if it is a part.

    Values of whole structures are on every process already.
    """
    world = structure.world if pattern.faces else None
    if world is None:
        return lambda norm, x: norm(x)
    return lambda norm, x: norm(x, world) if isinstance(norm, (RowNorm, RowRms)) else norm(x)


class Norm(Planned):
    """A norm for every orbit of every tensor.

    A diagonal and the rest of a matrix have little to do with each other.

    Args:
        text: The tensors.
        channels: For all, or a dict by tensor.
        make: Makes the norm of an orbit, of its channels and whether its values have a sign. Of
            those no mean over entries may be subtracted, and nothing may be added to them.
    """

    def __init__(
        self, text: str, channels: int | Mapping[str, int], make: Callable[[int, bool], nn.Module]
    ) -> None:
        super().__init__()
        self.patterns = as_side(text)
        self.channels = [
            as_channels(c, "channels", 1) for c in per_tensor(self.patterns, channels, "channels")
        ]
        self.norms = nn.ModuleList(
            nn.ModuleList(make(width, pattern.is_oriented) for _ in pattern.orbits)
            for pattern, width in zip(self.patterns, self.channels, strict=True)
        )
        self._keys = [key_of(p) for p in self.patterns]
        self._by_key = dict(zip(self._keys, self.patterns, strict=True))

    @takes_examples
    def forward(self, x: Values, structure: Structure) -> Any:
        """Normalise every orbit of every tensor."""
        if torch.compiler.is_compiling():
            xs = [x] if isinstance(x, Tensor) else [x[key] for key in self._keys]
        else:
            xs = self._checked(x, structure)
        ys = [
            self._one(v, number, norms, structure)
            for number, (v, norms) in enumerate(zip(xs, self.norms, strict=True))
        ]
        return ys[0] if len(ys) == 1 else dict(zip(self._keys, ys, strict=True))

    def _checked(self, x: Any, structure: Structure) -> list[Tensor]:
        """Return the inputs after a look at them, a short one if they are as they should be."""
        like = next(self.parameters())
        xs = fitting(self._by_key, x, structure, self.channels, like)
        if xs is not None:
            return xs
        xs = as_list(self.patterns, x, structure, self.channels)
        for value in xs:
            if value.dtype != like.dtype and not torch.is_autocast_enabled(value.device.type):
                raise IncidenceError(
                    f"the features are {value.dtype} and the norm is {like.dtype}: convert one,"
                    f" for example with .to({like.dtype})."
                )
        return xs

    def _one(self, x: Tensor, number: int, norms: Any, structure: Structure) -> Tensor:
        run = _on(structure, self.patterns[number])
        if len(norms) == 1:
            return run(norms[0], x)
        rows = self._rows(number, structure, x)
        # (rows of the orbit, channels) each
        parts = [run(norm, x[r]) for norm, r in zip(norms, rows, strict=True)]
        # In the shape of x: one after the other they have as many rows, but a graph that is
        # recorded asks for two of every orbit then.
        start: Tensor = parts[0].new_zeros(x.shape)
        return start.index_copy(0, torch.cat(rows), torch.cat(parts))

    def _rows(self, number: int, structure: Structure, x: Tensor) -> list[Tensor]:
        """Return the rows of every orbit of a tensor: while tracing, as `plan` left them on the
        structure.
        """
        if torch.compiler.is_compiling():
            lists = traced(structure, f"rows {self._keys[number]}")
            if lists is not None:
                return lists.tensors
            # (rows,), and an error when the graph runs
            rows = refused(None, x, x.shape[0], 1)[:, 0].long()
            return [rows, *(rows[:0] for _ in self.patterns[number].orbits[1:])]
        return orbit_rows(structure, self.patterns[number])

    def plan(self, structure: Structure) -> None:
        """Find the orbits of tensors that have several, which tracing needs."""
        for pattern, key in zip(self.patterns, self._keys, strict=True):
            if len(pattern.orbits) > 1:
                recorded(structure)[f"rows {key}"] = Recorded(orbit_rows(structure, pattern))

    def follow(self, side: Side | None) -> Side | None:
        """Return the same tensors."""
        return Side(self.patterns, tuple(self.channels))

    def extra_repr(self) -> str:
        """Return the tensors."""
        return repr(", ".join(map(str, self.patterns)))


class BatchNorm(Norm):
    """Batch normalisation of every orbit of every tensor, over all its entries in the batch.

    Values of oriented faces are divided by their root mean square, and scaled: a mean over entries
    depends on their orientations.

    Args:
        text: The tensors, for example `i, {i j}`.
        channels: For all, or a dict by tensor.
        momentum: Of the running statistics.
        eps: Added to the variance.
    """

    def __init__(
        self, text: str, channels: int | Mapping[str, int], momentum: float = 0.1, eps: float = 1e-5
    ) -> None:
        super().__init__(
            text,
            channels,
            lambda width, is_signed: (RowRms if is_signed else RowNorm)(
                width, eps=eps, momentum=momentum
            ),
        )


class LayerNorm(Norm):
    """Normalisation of every entry over its channels, with a scale and a shift for every orbit of
    every tensor.

    Oriented tensors have no shift, which would not change sign with their values.
    """

    def __init__(self, text: str, channels: int | Mapping[str, int], eps: float = 1e-5) -> None:
        super().__init__(
            text,
            channels,
            lambda width, is_signed: nn.LayerNorm(width, eps=eps, bias=not is_signed),
        )


@writes(BatchNorm)
@writes(LayerNorm)
def _write_norm(program: Any, module: Norm, x: Any) -> Any:
    values = x if isinstance(x, dict) else {module._keys[0]: x}
    written = {}
    for key, pattern, of_orbits in zip(module._keys, module.patterns, module.norms, strict=True):
        norms = list(of_orbits.children())
        kinds = {_NORM_KINDS.get(type(norm)) for norm in norms}
        if len(kinds) > 1 or None in kinds:
            raise CannotCompileError("a norm of another kind")
        written[key] = program.norm(values[key], kinds.pop(), norms, pattern)
    return written if isinstance(x, dict) else written[module._keys[0]]


_NORM_KINDS = {RowNorm: "batch", RowRms: "square", nn.LayerNorm: "layer"}
