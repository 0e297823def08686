r"""Products and softmax as steps that every runtime knows: `kernels/plain.py` for what joins rows.

Every factor is read at all joined rows, their products are added up at the targets: arrays of joined rows times channels are made, which
`kernels/joins.py` avoids. The program of a product, which the text alone decides, is in the graph; lists are its inputs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from incidence.plans.join_plan import JoinPlan, JoinStep

__all__ = ["GroupLists", "StepLists", "group_lists", "plain_product", "plain_softmax", "step_lists"]


class StepLists(NamedTuple):
    """The joined rows of one step of a product, in any order.

    Attributes:
        targets: Where the product of every joined row is added, shape (joined rows,).
        sizes: How many are added at every target, shape (targets,).
        rows: For every factor its row of every joined row, shape (joined rows,) each.
        signs: 1 or -1 for every joined row, shape (joined rows,); None where no tensor of the product has an oriented face.
    """

    targets: Tensor
    sizes: Tensor
    rows: tuple[Tensor, ...]
    signs: Tensor | None = None


class GroupLists(NamedTuple):
    """Which entries a softmax takes together.

    Attributes:
        groups: The group of every entry, shape (entries,).
        sizes: How many entries each group has, shape (groups,).
    """

    groups: Tensor
    sizes: Tensor


def step_lists(plan: JoinPlan) -> Iterator[StepLists]:
    """The lists of all steps of a plan, none of which is by arrays."""
    for step in plan.steps:
        assert isinstance(step, JoinStep)
        rows = tuple(column.long() for column in step.rows)
        yield StepLists(
            step.targets.long(),
            step.ptr.diff().long(),
            rows,
            None if step.sign is None else step.sign.float(),
        )


def group_lists(plan: JoinPlan) -> GroupLists:
    """The lists of a softmax, whose plan adds up the entries of every group."""
    [step] = plan.steps
    assert isinstance(step, JoinStep)
    [groups] = step.lists(1).columns
    return GroupLists(groups.long(), step.ptr.diff().long())


def plain_product(
    steps: Sequence[StepLists],
    sources: Sequence[Sequence[int]],
    xs: Sequence[Tensor],
    shape: Sequence[int] | None = None,
) -> Tensor:
    """All steps of a product.

    Args:
        steps: The lists of every step.
        sources: The factors of every step, by number: operands first, then the results of the steps before.
        xs: The operands, (entries, *shape of a row); the shapes of rows can be broadcast.
        shape: The shape of a row of the result, 1 where it is summed; all of it, if not given.
    """
    values = list(xs)
    for number, (lists, factors) in enumerate(zip(steps, sources, strict=True)):
        values.append(
            _join(lists, [values[k] for k in factors], shape if number + 1 == len(steps) else None)
        )
    return values[-1]


def _join(lists: StepLists, xs: Sequence[Tensor], shape: Sequence[int] | None) -> Tensor:
    found = _at_rows(xs[0], lists.rows[0], lists.signs)  # (joined rows, *shape of a row)
    for x, rows in zip(xs[1:], lists.rows[1:], strict=True):
        found = found * x.index_select(0, rows)
    if shape is not None:
        found = found.sum_to_size(found.shape[0], *shape)
    return found.new_zeros(lists.sizes.shape[0], *found.shape[1:]).index_add(
        0, lists.targets, found
    )


def _at_rows(x: Tensor, rows: Tensor, signs: Tensor | None) -> Tensor:
    taken = x.index_select(0, rows)
    return taken if signs is None else taken * signs.to(x.dtype).view(-1, *[1] * (x.ndim - 1))


def plain_softmax(x: Tensor, lists: GroupLists) -> Tensor:
    """Every row as a share of its group, channel by channel; the largest of the group is taken off first, so that nothing overflows."""
    groups, num_groups = lists.groups, lists.sizes.shape[0]
    start = x.new_full((num_groups, x.shape[1]), -torch.inf)
    most = start.scatter_reduce(0, groups[:, None].expand(-1, x.shape[1]), x, "amax")
    y = (x - most.index_select(0, groups)).exp()
    sums = x.new_zeros(num_groups, x.shape[1]).index_add(0, groups, y)
    return y / sums.index_select(0, groups)
