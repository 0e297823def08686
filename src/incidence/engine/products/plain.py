r"""Products and softmax in steps that every runtime knows; see `engine/plain.py`.

Every factor is read at all joined rows, and their products are added up at the targets. That makes
arrays of joined rows times channels, which `join.py` avoids. The steps of a product are in the
graph; lists are its inputs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from incidence.engine.bags import Pairs
from incidence.engine.products.dense import DENSE, multiply_arrays
from incidence.engine.products.plan import JoinPlan, JoinStep

__all__ = [
    "group_lists",
    "plain_product",
    "plain_softmax",
    "product_lists",
    "product_program",
    "step_pairs",
]


def product_program(plan: JoinPlan) -> str:
    """Return the steps of a plan as a text: of each the numbers of its factors, and its kind."""
    steps = (f"{' '.join(map(str, step.sources))}|{step.kind}" for step in plan.steps)
    return ";".join(steps)


def product_lists(plan: JoinPlan) -> list[Tensor]:
    """Return the lists of all steps of a plan, as `plain_product` reads them."""
    tensors: list[Tensor] = []
    for step in plan.steps:
        if isinstance(step, JoinStep):
            factors = step_pairs(step)
            first = factors[0]
            listed = [first.targets, first.sizes, *(own.sources for own in factors), first.signs]
        else:
            # sizes, as those of arrays that take no memory
            listed = [step.rows[0].new_zeros(*step.shape, 0)]
            listed.append(step.rows[0].new_zeros(step.num_rows[0], 0))
            for own in map(step.readings, (1, 2, 0)):
                listed += [own.sources, own.targets, own.signs]
        tensors += [t for t in listed if t is not None]
    return tensors


def step_pairs(step: JoinStep) -> list[Pairs]:
    """Return the joined rows of a step, pair by pair: the rows of each of its factors."""
    targets, sizes = step.targets.long(), step.ptr.diff().long()
    signs = None if step.sign is None else step.sign.float()
    return [Pairs(targets, rows.long(), sizes, signs) for rows in step.rows]


def group_lists(plan: JoinPlan) -> list[Tensor]:
    """Return the lists of a softmax, whose plan adds up the entries of every group.

    These are the group of every entry, and how many entries each group has.
    """
    [step] = plan.steps
    assert isinstance(step, JoinStep)
    [groups] = step.lists(1)
    return [groups.members.long(), step.ptr.diff().long()]


def plain_product(
    program: str,
    tensors: Sequence[Tensor],
    xs: Sequence[Tensor],
    shape: Sequence[int] | None = None,
) -> Tensor:
    """Return a product, from its steps.

    Args:
        program: What `product_program` returned.
        tensors: What `product_lists` returned.
        xs: The operands, (entries, *shape of a row); the shapes of rows can be broadcast.
        shape: The shape of a row of the result, 1 where it is summed; all of it, if not given.
    """
    values, lists = list(xs), iter(tensors)
    steps = program.split(";")
    for number, step in enumerate(steps):
        sources, _, kind = step.partition("|")
        factors = [values[int(k)] for k in sources.split()]
        last = shape if number + 1 == len(steps) else None
        if kind.startswith(DENSE):
            values.append(_multiply(kind, lists, factors, last))
        else:
            pairs = _next_step(lists, len(factors), kind == "signed")
            values.append(_join(pairs, factors, last))
    return values[-1]


def _next_step(lists: Iterator[Tensor], num_factors: int, is_signed: bool) -> list[Pairs]:
    targets, sizes = next(lists), next(lists)
    rows = [next(lists) for _ in range(num_factors)]
    signs = next(lists) if is_signed else None
    return [Pairs(targets, own, sizes, signs) for own in rows]


def _multiply(
    kind: str, lists: Iterator[Tensor], xs: Sequence[Tensor], shape: Sequence[int] | None
) -> Tensor:
    """Return a step by arrays, whose kind says which tensors have signs."""
    sizes, num_rows = next(lists).shape[:-1], next(lists).shape[0]
    has_signs = [letter == "1" for letter in kind.removeprefix(DENSE)]
    readings = []
    for has_sign in (*has_signs[1:], has_signs[0]):
        rows, places = next(lists), next(lists)
        readings.append(Pairs(places, rows, signs=next(lists) if has_sign else None))
    wide = torch.broadcast_shapes(*(x.shape[1:] for x in xs))
    flat = [x.expand(-1, *wide).flatten(1) for x in xs]
    y = multiply_arrays(0, sizes, readings, flat, num_rows).view(num_rows, *wide)
    return y if shape is None else y.sum_to_size(num_rows, *shape)


def _join(factors: Sequence[Pairs], xs: Sequence[Tensor], shape: Sequence[int] | None) -> Tensor:
    """Return the sums at the targets, from the rows of every factor."""
    first = factors[0]
    assert first.sizes is not None
    joined = first.signed(xs[0].index_select(0, first.sources))  # (joined rows, *shape of a row)
    for x, own in zip(xs[1:], factors[1:], strict=True):
        joined = joined * x.index_select(0, own.sources)
    if shape is not None:
        joined = joined.sum_to_size(joined.shape[0], *shape)
    start = joined.new_zeros(first.sizes.shape[0], *joined.shape[1:])
    return start.index_add(0, first.targets, joined)


def plain_softmax(x: Tensor, groups: Tensor, sizes: Tensor) -> Tensor:
    """Return every row as a share of its group, channel by channel.

    The largest of the group is subtracted first, so that nothing overflows.

    Args:
        x: The rows, shape (entries, channels).
        groups: The group of every row, shape (entries,).
        sizes: The number of rows of every group, shape (groups,).
    """
    num_groups = sizes.shape[0]
    start = x.new_full((num_groups, x.shape[1]), -torch.inf)
    most = start.scatter_reduce(0, groups[:, None].expand(-1, x.shape[1]), x, "amax")
    y = (x - most.index_select(0, groups)).exp()
    sums = x.new_zeros(num_groups, x.shape[1]).index_add(0, groups, y)
    return y / sums.index_select(0, groups)
