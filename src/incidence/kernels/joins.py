r"""Products of rows, added up where they belong: the one primitive behind products, their gradients, and gradients of those.

    z[t] = sum over the joined rows p of t:  s_p x_1[r_1p] ... x_m[r_mp]

Each factor has rows of shape (groups, channels) or smaller, 1 where values are shared; the result is summed over what its own shape has
not. The gradient of a factor is the same sum in another role (`plans/join_plan.py`), so gradients of any order are this function again.
Rows are taken in blocks that stay in the cache: no array of joined rows times channels is ever made.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import torch
from torch import Tensor

from incidence.kernels.bags import bag_sum, wide_of
from incidence.kernels.native_joins import native_join
from incidence.plans.join_plan import JoinStep, RoleLists

__all__ = ["join", "run_join"]

_BLOCK = 1 << 17  # elements of the products that are made at a time


def join(
    step: JoinStep, xs: Sequence[Tensor], shape: Sequence[int] | None = None, role: int = 0
) -> Tensor:
    """One step of a product.

    Args:
        step: Which rows are multiplied.
        xs: What has the other roles, in order, (rows, *shape of a row); the shapes of rows can be broadcast.
        shape: The shape of a row of the result, 1 where it is summed; all of it, if not given.
        role: What is computed: the target, or what goes to a factor when the target is given in its place.
    """
    wide = torch.broadcast_shapes(*(x.shape[1:] for x in xs))
    found: Tensor = _Join.apply(step, role, tuple(wide if shape is None else shape), *xs)  # type: ignore[no-untyped-call]
    return found


class _Join(torch.autograd.Function):
    """A step in one role, as a function of what has the other roles; its gradients are the step in those roles."""

    @staticmethod
    def forward(ctx: Any, step: JoinStep, role: int, shape: tuple[int, ...], *xs: Tensor) -> Tensor:
        ctx.step, ctx.role = step, role
        ctx.save_for_backward(*xs)
        return run_join(step.lists(role), xs, shape)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
        step, role, xs = ctx.step, ctx.role, list(ctx.saved_tensors)
        by_role = [*xs[:role], grad, *xs[role:]]
        grads: list[Tensor | None] = []
        for other, x in enumerate(by_role):
            if other == role:
                continue
            is_asked = ctx.needs_input_grad[3 + len(grads)]
            given = [*by_role[:other], *by_role[other + 1 :]]
            grads.append(_Join.apply(step, other, tuple(x.shape[1:]), *given) if is_asked else None)  # type: ignore[no-untyped-call]
        return None, None, None, *grads


def run_join(lists: RoleLists, xs: Sequence[Tensor], shape: Sequence[int]) -> Tensor:
    """The sums of one role, (rows of the role, *shape); what no factor tells apart is copied."""
    wide = torch.broadcast_shapes(*(x.shape[1:] for x in xs))
    if not lists.columns[0].numel() or not prod(wide):
        return xs[0].new_zeros(lists.num_rows, *shape)
    own = [
        min(n, size) for n, size in zip(shape, wide, strict=True)
    ]  # 1 where it is summed, or copied
    vectors = [k for k, x in enumerate(xs) if prod(x.shape[1:]) > 1]
    if len(vectors) <= 1 and own == list(wide):
        found = _weighted_sums(lists, xs, next(iter(vectors), 0))
    else:
        native = native_join(lists, xs, own)
        found = _sums_in_blocks(lists, xs, own) if native is None else native
    found = found.view(lists.num_rows, *own)
    return found if own == list(shape) else found.expand(-1, *shape).contiguous()


def _weighted_sums(lists: RoleLists, xs: Sequence[Tensor], vector: int) -> Tensor:
    """Sums of rows of one factor, where all others have one value a row; (rows of the role, channels)."""
    others = [
        (x, column)
        for k, (x, column) in enumerate(zip(xs, lists.columns, strict=True))
        if k != vector
    ]
    weights = None if lists.sign is None else lists.sign.to(wide_of(xs[vector].dtype))
    for x, column in others:
        more = x.reshape(-1).index_select(0, column).to(wide_of(x.dtype))
        weights = more if weights is None else weights * more
    return bag_sum(
        xs[vector].reshape(len(xs[vector]), -1), lists.columns[vector], lists.ptr, weights
    )


def _sums_in_blocks(lists: RoleLists, xs: Sequence[Tensor], shape: Sequence[int]) -> Tensor:
    """The same where several factors have channels; (rows of the role, channels)."""
    wide = torch.broadcast_shapes(*(x.shape[1:] for x in xs))
    out = torch.zeros(lists.num_rows, prod(shape), dtype=wide_of(xs[0].dtype), device=xs[0].device)
    total, step = len(lists.columns[0]), max(1, _BLOCK // prod(wide))
    starts = [*range(0, total, step), total]
    bounds = torch.tensor(starts, dtype=lists.ptr.dtype, device=out.device)
    rows = (
        torch.searchsorted(lists.ptr, bounds, right=True) - 1
    ).tolist()  # whose joined rows a block starts with
    for a, b, first, last in zip(starts, starts[1:], rows, rows[1:], strict=False):
        stop = min(last + 1, lists.num_rows)
        products = _products(lists, xs, slice(a, b)).sum_to_size(b - a, *shape).reshape(b - a, -1)
        ptr = (lists.ptr[first : stop + 1] - a).clamp(0, b - a)
        out[first:stop] += bag_sum(
            products, torch.arange(b - a, device=ptr.device, dtype=ptr.dtype), ptr
        )
    return out.to(xs[0].dtype)


def _products(lists: RoleLists, xs: Sequence[Tensor], part: slice) -> Tensor:
    """The products of some joined rows, (joined rows, *shape of a row)."""
    columns = [column[part] for column in lists.columns]
    found = xs[0].index_select(0, columns[0]).to(wide_of(xs[0].dtype))
    for x, column in zip(xs[1:], columns[1:], strict=True):
        found = found * x.index_select(0, column)
    if lists.sign is None:
        return found
    return found * lists.sign[part].to(found.dtype).view(-1, *[1] * (found.ndim - 1))
