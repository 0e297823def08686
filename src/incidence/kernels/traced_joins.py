"""Steps of products as an operator that tracing treats as one: `torch.compile` and `torch.export` see tensors and a text.

The lists of a step, in all roles, are plain tensors, so that one traced graph serves structures of any size.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import islice
from typing import Any

import torch
from torch import Tensor

from incidence.kernels.joins import run_join
from incidence.kernels.softmax import run_softmax
from incidence.plans.join_plan import JoinPlan, JoinStep, RoleLists
from incidence.structure.pytree import Flat

__all__ = ["flatten_joins", "flatten_step", "traced_join", "traced_product", "traced_softmax"]

_VERSION = 1  # of what the operator takes and gives: torch keeps compiled graphs on disk, which know it by name


def flatten_step(step: JoinStep) -> list[Tensor]:
    """The lists of a step, role by role: where rows start, the rows of the other roles, and signs, if it has some."""
    tensors: list[Tensor] = []
    for role in range(1 + len(step.sources)):
        ptr, columns, sign = step.lists(role)
        tensors += [ptr, *columns, *([] if sign is None else [sign])]
    return tensors


def flatten_joins(plan: JoinPlan) -> Flat:
    """The lists of all steps, and the factors of each as a text."""
    tensors = [tensor for step in plan.steps for tensor in flatten_step(step)]
    return Flat(tensors, json.dumps(plan.program))


def _restored(lists: Sequence[Tensor], num_factors: int, role: int) -> RoleLists:
    width = len(lists) // (num_factors + 1)
    ptr, *columns = lists[role * width : (role + 1) * width]
    return RoleLists(ptr, tuple(columns[:num_factors]), columns[num_factors] if len(columns) > num_factors else None)


@torch.library.custom_op(f"incidence::join_{_VERSION}", mutates_args=())
def _join(xs: list[Tensor], lists: list[Tensor], role: int, shape: list[int]) -> Tensor:
    return run_join(_restored(lists, len(xs), role), xs, shape)


@_join.register_fake
def _(xs: list[Tensor], lists: list[Tensor], role: int, shape: list[int]) -> Tensor:
    return xs[0].new_empty(_restored(lists, len(xs), role).ptr.shape[0] - 1, *shape)


def _setup(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    xs, lists, ctx.role, _ = inputs
    ctx.num_factors = len(xs)
    ctx.save_for_backward(*xs, *lists)


def _adjoint(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
    """The gradient of every factor: the step in its role."""
    saved = iter(ctx.saved_tensors)
    xs, lists = list(islice(saved, ctx.num_factors)), list(saved)
    by_role = [*xs[: ctx.role], grad, *xs[ctx.role :]]
    grads = []
    for other, x in enumerate(by_role):
        if other != ctx.role:
            grads.append(_join([*by_role[:other], *by_role[other + 1 :]], lists, other, list(x.shape[1:])))
    return grads, [None] * len(lists), None, None


_join.register_autograd(_adjoint, setup_context=_setup)


def traced_join(lists: list[Tensor], xs: list[Tensor], role: int = 0, shape: Sequence[int] | None = None) -> Tensor:
    """`joins.join` as one operator."""
    wide = torch.broadcast_shapes(*(x.shape[1:] for x in xs)) if shape is None else shape
    found: Tensor = _join(xs, lists, role, list(wide))
    return found


def _program(spec: str) -> tuple[tuple[tuple[int, ...], bool], ...]:
    """What a text says of the steps; a constant for tracing."""
    return tuple((tuple(sources), has_sign) for sources, has_sign in json.loads(spec))


_program._dynamo_marked_constant = True  # type: ignore[attr-defined]  # as `nn.tensors.keys_in_order`


def traced_product(flat: Flat, xs: Sequence[Tensor], shape: Sequence[int] | None = None) -> Tensor:
    """All steps of a product; the last one is summed to `shape`, if it is given."""
    values, start = list(xs), 0
    for sources, has_sign in _program(flat.spec):
        stop = start + (len(sources) + 1) * (len(sources) + 1 + has_sign)
        is_last = stop == len(flat.tensors)
        values.append(traced_join(flat.tensors[start:stop], [values[k] for k in sources], shape=shape if is_last else None))
        start = stop
    return values[-1]


@torch.library.custom_op(f"incidence::softmax_{_VERSION}", mutates_args=())
def _softmax(x: Tensor, lists: list[Tensor]) -> Tensor:
    return run_softmax(x, _restored(lists, 1, 0), _restored(lists, 1, 1))


@_softmax.register_fake
def _(x: Tensor, lists: list[Tensor]) -> Tensor:
    return torch.empty_like(x, memory_format=torch.contiguous_format)


def _setup_softmax(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    ctx.save_for_backward(output, *inputs[1])


def _softmax_adjoint(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
    y, *lists = ctx.saved_tensors
    weighted = y * grad
    sums = _join([weighted], lists, 0, list(y.shape[1:]))
    return weighted - y * _join([sums], lists, 1, list(y.shape[1:])), [None] * len(lists)


_softmax.register_autograd(_softmax_adjoint, setup_context=_setup_softmax)


def traced_softmax(flat: Flat, x: Tensor) -> Tensor:
    """`softmax_of_groups` as one operator."""
    found: Tensor = _softmax(x, flat.tensors)
    return found
