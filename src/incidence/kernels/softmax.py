"""The softmax over groups of rows, by its adjoint: gradients of any order are sums over groups again."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from incidence.kernels.bags import wide_of
from incidence.kernels.joins import join, run_join
from incidence.plans.join_plan import JoinStep, RoleLists

__all__ = ["run_softmax", "softmax_of_groups"]


def softmax_of_groups(x: Tensor, step: JoinStep) -> Tensor:
    """Every row as a share of its group, channel by channel; `step` adds up the rows of every group."""
    found: Tensor = _Softmax.apply(x, step)  # type: ignore[no-untyped-call]
    return found


def run_softmax(x: Tensor, groups: RoleLists, rows: RoleLists) -> Tensor:
    """The exponential of x over its sum in every group; the largest of the group is taken off first, so that nothing overflows."""
    if not x.numel():
        return x.clone()
    wide, [group] = x.to(wide_of(x.dtype)), rows.columns
    index = group.long()[:, None].expand_as(wide)
    most = wide.new_full((groups.num_rows, wide.shape[1]), -torch.inf).scatter_reduce_(
        0, index, wide, "amax"
    )
    y = (wide - most.index_select(0, group)).exp_()
    return (y / run_join(groups, [y], y.shape[1:]).index_select(0, group)).to(x.dtype)


class _Softmax(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, step: JoinStep) -> Tensor:
        ctx.step = step
        y = run_softmax(x, step.lists(0), step.lists(1))
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        [y] = ctx.saved_tensors
        weighted = y * grad
        return weighted - y * join(ctx.step, [join(ctx.step, [weighted])], role=1), None
