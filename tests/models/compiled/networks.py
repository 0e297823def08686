"""Networks, batches, and how the compiled way is compared with modules."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import pytest
import torch
from torch import Tensor, nn

import incidence as inc
from incidence.engine.compiled import node
from incidence.engine.compiled.node import by_modules

needs_compiler = pytest.mark.skipif(
    node._library() is None, reason="there is no C compiler here, so nothing is compiled"
)


class Outcome(NamedTuple):
    """What one pass gives: outputs, gradients of features and parameters, and buffers after it."""

    outputs: list[Tensor]
    gradients: list[Tensor]
    buffers: list[Tensor]


def outputs_of(y) -> list[Tensor]:
    return list(y.values()) if isinstance(y, dict) else [y]


def is_compiled(y) -> bool:
    """Whether a compiled network made an output, and no module."""
    gradient = getattr(outputs_of(y)[0].grad_fn, "gradient", None)
    return getattr(gradient, "__qualname__", "").startswith("Network.run")


def one_pass(net: nn.Module, x, structure: inc.Structure, seed: int = 0) -> tuple[Outcome, bool]:
    """One forward and backward pass; and whether it was compiled."""
    leaves = {key: value.clone().requires_grad_() for key, value in x.items()}
    torch.manual_seed(seed)
    y = net(leaves if len(leaves) > 1 else next(iter(leaves.values())), structure)
    ys = outputs_of(y)
    generator = torch.Generator().manual_seed(seed)
    grads = [torch.randn(v.shape, generator=generator, dtype=torch.float64).to(v.dtype) for v in ys]
    wanted = [*leaves.values(), *net.parameters()]
    gradients = torch.autograd.grad(ys, wanted, grads, allow_unused=True, materialize_grads=True)
    buffers = [b.detach().clone() for b in net.buffers()]
    return Outcome([v.detach() for v in ys], list(gradients), buffers), is_compiled(y)


def distance(one: list[Tensor], other: list[Tensor], least: float = 1e-3) -> float:
    """The largest difference, relative to the size of each tensor."""
    largest = 0.0
    for a, b in zip(one, other, strict=True):
        if a.numel():
            size = max(float(b.double().abs().max()), least)
            largest = max(largest, float((a.double() - b.double()).abs().max()) / size)
    return largest


@contextmanager
def modules_alone() -> Iterator[None]:
    with by_modules():
        yield


def assert_as_modules(net: nn.Module, x, structure: inc.Structure, times: float = 8.0) -> None:
    """The compiled network is as near to float64 as modules are, up to a factor and rounding."""
    twin, exact = copy.deepcopy(net), copy.deepcopy(net).double()
    ours, was_compiled = one_pass(net, x, structure)
    assert was_compiled
    with by_modules():
        theirs, _ = one_pass(twin, x, structure)
        wide = {key: value.double() for key, value in x.items()}
        truth, _ = one_pass(exact, wide, structure)
    for a, b, c in zip(ours, theirs, truth, strict=True):
        allowed = times * distance(b, c) + 2e-5
        assert distance(a, c) <= allowed, (distance(a, c), distance(b, c))
