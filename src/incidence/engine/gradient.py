"""Functions whose gradients are written out: the only step of autograd that the engine defines.

torch's own gradients of sums over bags are several times slower than sums over the transposed bags.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

__all__ = ["linear_map", "with_gradient"]

Run = Callable[..., tuple[Sequence[Tensor], Sequence[Tensor]]]
"""From tensors to the outputs, and to the tensors that the gradient reads."""

Gradient = Callable[[Sequence[Tensor], Sequence[Tensor], Sequence[bool]], Sequence[Tensor | None]]
"""From what `Run` saved, the gradients of the outputs, and which tensors need a gradient, to the
gradients of all tensors."""


def with_gradient(run: Run, gradient: Gradient, *tensors: Tensor | None) -> Sequence[Tensor]:
    """Return the outputs of a function, with a gradient that is written out.

    A gradient that is made of such functions has a gradient in turn.

    Args:
        run: The function. It must not keep tensors: those that it returns for the gradient are
            freed after the backward pass.
        gradient: Its gradient.
        tensors: What the function gets.
    """
    outputs: Sequence[Tensor] = _WithGradient.apply(run, gradient, *tensors)  # type: ignore[no-untyped-call]
    return outputs


def linear_map(
    x: Tensor, forward: Callable[[Tensor], Tensor], adjoint: Callable[[Tensor], Tensor]
) -> Tensor:
    """Return a linear map of x. Its gradient is the adjoint map, whose gradient is the map."""

    def run(x: Tensor) -> tuple[tuple[Tensor], tuple[()]]:
        return (forward(x.contiguous()),), ()  # nothing is saved: the adjoint does not read x

    def gradient(_: Any, grads: Sequence[Tensor], needs: Sequence[bool]) -> tuple[Tensor]:
        return (linear_map(grads[0], adjoint, forward),)

    [y] = with_gradient(run, gradient, x)
    return y


class _WithGradient(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, run: Run, gradient: Gradient, *tensors: Tensor) -> tuple[Tensor, ...]:
        outputs, saved = run(*tensors)
        ctx.gradient = gradient
        ctx.save_for_backward(*saved)
        return tuple(outputs)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        needs = ctx.needs_input_grad[2:]  # the first two are no tensors
        return None, None, *ctx.gradient(ctx.saved_tensors, grads, needs)
