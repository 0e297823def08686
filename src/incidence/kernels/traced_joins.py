"""Steps of products as an operator that tracing treats as one: `torch.compile` and `torch.export` see tensors and a text.

The lists of a step, in all roles, are plain tensors, so that one traced graph serves structures of any size.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

import torch
from torch import Tensor

from incidence.errors import IncidenceError
from incidence.kernels.dense_joins import multiply_arrays
from incidence.kernels.joins import run_join
from incidence.kernels.plain_joins import GroupLists, StepLists, plain_product, plain_softmax
from incidence.kernels.softmax import run_softmax
from incidence.kernels.traced import PlainFlat
from incidence.plans.dense_join import DenseFactor, DenseStep
from incidence.plans.join_plan import JoinPlan, JoinStep, RoleLists
from incidence.structure.pytree import Flat

__all__ = [
    "flatten_joins",
    "flatten_step",
    "product_text",
    "traced_join",
    "traced_product",
    "traced_softmax",
]

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
    steps = (
        _flatten_dense(step) if isinstance(step, DenseStep) else flatten_step(step)
        for step in plan.steps
    )
    return Flat([tensor for tensors in steps for tensor in tensors], product_text(plan))


def product_text(plan: JoinPlan) -> str:
    """The factors of every step and its kind, as a text."""
    return json.dumps(plan.program)


def _flatten_dense(step: DenseStep) -> list[Tensor]:
    """The lists of a step by arrays, after a tensor whose shape tells their sizes and which takes no memory."""
    sizes = torch.zeros(*step.sizes.values(), 0, device=step.places.device)
    return [sizes, *(t for factor in step.factors for t in factor if t is not None), step.places]


def _restored(lists: Sequence[Tensor], num_factors: int, role: int) -> RoleLists:
    width = len(lists) // (num_factors + 1)
    ptr, *columns = lists[role * width : (role + 1) * width]
    return RoleLists(
        ptr,
        tuple(columns[:num_factors]),
        columns[num_factors] if len(columns) > num_factors else None,
    )


def _assert_rows(xs: Sequence[Tensor], lists: Sequence[Tensor], role: int) -> None:
    """Refuses factors that a step was not planned for: lists are followed without a look at how long a factor is."""
    width = len(lists) // (len(xs) + 1)
    counts = [lists[other * width].shape[0] - 1 for other in range(len(xs) + 1) if other != role]
    for x, count in zip(xs, counts, strict=True):
        if x.shape[0] != count:
            raise IncidenceError(
                f"features must have shape [{count}, channels], a row for each entry; got {list(x.shape)}."
            )


@torch.library.custom_op(
    f"incidence::join_{_VERSION}",
    mutates_args=(),
    schema="(Tensor[] xs, Tensor[] lists, int role, SymInt[] shape) -> Tensor",
)
def _join(xs: list[Tensor], lists: list[Tensor], role: int, shape: list[int]) -> Tensor:
    _assert_rows(xs, lists, role)
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
            grads.append(
                _join([*by_role[:other], *by_role[other + 1 :]], lists, other, list(x.shape[1:]))
            )
    return grads, [None] * len(lists), None, None


_join.register_autograd(_adjoint, setup_context=_setup)


def traced_join(
    lists: list[Tensor], xs: list[Tensor], role: int = 0, shape: Sequence[int] | None = None
) -> Tensor:
    """`joins.join` as one operator."""
    wide = torch.broadcast_shapes(*(x.shape[1:] for x in xs)) if shape is None else shape
    found: Tensor = _join(xs, lists, role, list(wide))
    return found


def _program(spec: str) -> tuple[tuple[tuple[int, ...], str, int], ...]:
    """For every step its factors, its kind, and how many lists it has; a constant for tracing."""
    found = []
    for sources, kind in json.loads(spec):
        roles = len(sources) + 1
        count = (
            2 + 2 * len(sources) + kind.count("1") if "->" in kind else roles * (roles + bool(kind))
        )
        found.append((tuple(sources), kind, count))
    return tuple(found)


_program._dynamo_marked_constant = True  # type: ignore[attr-defined]  # as `nn.tensors.keys_in_order`


def traced_product(flat: Flat, xs: Sequence[Tensor], shape: Sequence[int] | None = None) -> Tensor:
    """All steps of a product; the last one is summed to `shape`, if it is given. From plain lists it is plain steps."""
    if isinstance(flat, PlainFlat):
        return _plain_product(flat, xs, shape)
    values, start = list(xs), 0
    for sources, kind, count in _program(flat.spec):
        lists, factors = flat.tensors[start : start + count], [values[source] for source in sources]
        start += count
        last = shape if start == len(flat.tensors) else None
        values.append(
            _traced_arrays(lists, factors, kind, last)
            if "->" in kind
            else traced_join(lists, factors, shape=last)
        )
    return values[-1]


def _plain_product(flat: Flat, xs: Sequence[Tensor], shape: Sequence[int] | None) -> Tensor:
    program, tensors = json.loads(flat.spec), iter(flat.tensors)
    steps = [_next_step(tensors, len(sources), bool(kind)) for sources, kind in program]
    return plain_product(steps, [sources for sources, _ in program], xs, shape)


def _next_step(tensors: Iterator[Tensor], num_factors: int, is_signed: bool) -> StepLists:
    targets, sizes = islice(tensors, 2)
    return StepLists(
        targets, sizes, tuple(islice(tensors, num_factors)), next(tensors) if is_signed else None
    )


def _traced_arrays(
    lists: list[Tensor], xs: list[Tensor], kind: str, shape: Sequence[int] | None
) -> Tensor:
    """A step by arrays, which tracing sees through."""
    equation, signs = kind.split(" ")
    letters = dict.fromkeys(letter for letter in equation if letter not in "y,->")
    sizes = dict(zip(letters, lists[0].shape, strict=False))
    factors, at = [], 1
    for sign in signs:
        stop = at + 2 + (sign == "1")
        rows, places, *more = lists[at:stop]
        factors.append(DenseFactor(rows, places, more[0] if more else None))
        at = stop
    return multiply_arrays(equation, sizes, factors, lists[-1], xs, shape)


@torch.library.custom_op(
    f"incidence::softmax_{_VERSION}", mutates_args=(), schema="(Tensor x, Tensor[] lists) -> Tensor"
)
def _softmax(x: Tensor, lists: list[Tensor]) -> Tensor:
    _assert_rows([x], lists, 0)
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
    """`softmax_of_groups` as one operator; from plain lists, as plain steps."""
    if isinstance(flat, PlainFlat):
        return plain_softmax(x, GroupLists(*flat.tensors))
    found: Tensor = _softmax(x, flat.tensors)
    return found
