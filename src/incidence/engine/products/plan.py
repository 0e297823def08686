r"""The plan of a product: in steps, which rows are multiplied, and where the result is added up.

A step joins some tensors. With p running over its joined rows,

    z[t_p] += s_p x_1[r_1p] ... x_m[r_mp]

The gradient of one factor is the same sum with its rows and the targets in exchanged *roles*. So a
step lists its joined rows by the rows of every role. Role 0 is the target, role k the k-th factor.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeAlias

import numpy as np
import torch
from torch import Tensor

from incidence.algebra.products import parse_product
from incidence.engine.bags import Lists
from incidence.engine.products.dense import DenseStep
from incidence.engine.shared import SharedKeys
from incidence.engine.store import Batchable, Listed
from incidence.structure.data import Array, StructureData, support_of
from incidence.structure.ragged import are_short, ranges, sort_few

__all__ = ["JoinPlan", "JoinStep", "Step", "step_of"]


@dataclass(frozen=True, eq=False)
class JoinStep:
    """One step of a product.

    Attributes:
        sources: The numbers of the factors: operands first, then the results of the steps before.
        num_rows: How many rows the target and each factor have.
        ptr: Where the joined rows of each target start, and the end.
        rows: For every factor its row of every joined row, by target.
        sign: 1 or -1 for every joined row, by target; None where all are 1.
        num_joined, num_targets: How many joined rows, and targets, each structure has; on the host.
        orders: For a factor the joined rows by its rows: their order, and where each row starts,
            with the end. Made when it is needed.
        shared: On a part of a structure, the targets at which the sums of other processes are
            added; None where the sums are complete.
    """

    sources: tuple[int, ...]
    num_rows: tuple[int, ...]
    ptr: Tensor
    rows: tuple[Tensor, ...]
    sign: Tensor | None
    num_joined: Array
    num_targets: Array
    orders: dict[int, tuple[Tensor, Tensor]] = field(default_factory=dict, repr=False)
    shared: SharedKeys | None = None
    _lists: dict[int, tuple[Lists, ...]] = field(default_factory=dict, repr=False)

    @property
    def kind(self) -> str:
        """What plans of a batch must share besides the factors."""
        return "" if self.sign is None else "signed"

    @property
    def num_products(self) -> int:
        """How many products of rows are taken."""
        return int(self.num_joined.sum())

    @property
    def cost(self) -> str:
        """What it costs, in words."""
        what = "joined rows" if len(self.sources) > 1 else "reads"
        cost = f"{self.num_products:,} {what} into {self.num_rows[0]:,}"
        return cost if self.shared is None else f"{cost}, {self.shared.num_sent():,} keys sent"

    def lists(self, role: int) -> tuple[Lists, ...]:
        """Return the joined rows in the order of a role; made once.

        For every other role, in order, these are its rows for each row of this role.
        """
        if role not in self._lists:
            self._lists[role] = self._new_lists(role)
        return self._lists[role]

    @torch.inference_mode(False)
    def _new_lists(self, role: int) -> tuple[Lists, ...]:
        if role == 0:
            return tuple(Lists(column, self.ptr, self.sign) for column in self.rows)
        order, ptr = self.order(role)
        sign = None if self.sign is None else self.sign[order]
        others = [column for k, column in enumerate((self.targets, *self.rows)) if k != role]
        return tuple(Lists(column[order], ptr, sign) for column in others)

    @cached_property
    def targets(self) -> Tensor:
        """The target of every joined row."""
        numbers = torch.arange(self.num_rows[0], device=self.ptr.device, dtype=self.ptr.dtype)
        return numbers.repeat_interleave(self.ptr.diff(), output_size=len(self.rows[0]))

    def order(self, role: int) -> tuple[Tensor, Tensor]:
        """The joined rows by the rows of a factor; made once."""
        if role not in self.orders:
            rows, count = self.rows[role - 1], self.num_rows[role]
            order = sort_few(rows, count)[1].to(rows.dtype)
            ptr = ranges(torch.bincount(rows, minlength=count)).to(rows.dtype)
            self.orders[role] = order, ptr
        return self.orders[role]

    @property
    def tensors(self) -> list[Tensor]:
        """The lists that are there."""
        held = [self.ptr, *self.rows, self.sign]
        held += [part for order in self.orders.values() for part in order]
        for role, lists in self._lists.items():
            if role:
                held += [*(own.members for own in lists), lists[0].signs]
        if self.shared is not None:
            held += self.shared.tensors
        return [part for part in held if part is not None]

    @property
    def device(self) -> torch.device:
        """Where the lists live."""
        return self.ptr.device

    # ---- batches: see `engine/store.py`. The last space is that of the targets.

    def spaces(self) -> list[Array]:
        """Return the spaces of the step: its joined rows, and its targets."""
        return [self.num_joined[None], self.num_targets[None]]

    def batched_lists(self, first: int, factors: Sequence[int]) -> Iterator[Listed]:
        """Return the lists, given the number of the first space and those of the factors."""
        joined, result = first, first + 1
        yield Listed(self.ptr, result, joined, has_end=True)
        if self.sign is not None:
            yield Listed(self.sign, joined, None)
        for role, (factor, rows) in enumerate(zip(factors, self.rows, strict=True), 1):
            order, ptr = self.order(role)
            yield Listed(rows, joined, factor)
            yield Listed(order, joined, joined)
            yield Listed(ptr, factor, joined, has_end=True)

    def remade(
        self, spaces: Sequence[Array], num_rows: Sequence[int], tensors: Iterator[Tensor]
    ) -> JoinStep:
        """Return the step of other structures, from the sizes of its spaces and its lists."""
        ptr = next(tensors)
        sign = None if self.sign is None else next(tensors).to(torch.int8)
        rows, orders = [], {}
        for role in range(1, len(self.sources) + 1):
            rows.append(next(tensors))
            orders[role] = next(tensors), next(tensors)
        counts = spaces[0][0], spaces[1][0]
        return JoinStep(self.sources, tuple(num_rows), ptr, tuple(rows), sign, *counts, orders)


_SOFTMAX = " over "  # in the text of a plan of `softmax`

Step: TypeAlias = JoinStep | DenseStep
"""A step of a product."""


@dataclass(frozen=True, eq=False)
class JoinPlan(Batchable):
    """What a product needs to know of a structure. Prints its cost.

    Attributes:
        text: The product.
        steps: What is joined, one after the other; the last step gives the output.
        num_entries: How many entries each operand, and the output, have in each structure, shape
            (operands + 1, structures); on the host.
    """

    text: str
    steps: tuple[Step, ...]
    num_entries: Array

    @cached_property
    def num_rows(self) -> tuple[int, ...]:
        """How many rows each operand has, and the output."""
        return tuple(self.num_entries.sum(1).tolist())

    @property
    def program(self) -> tuple[tuple[tuple[int, ...], str], ...]:
        """What is static: the factors of every step, and its kind. Plans with the same program can
        be put side by side.
        """
        return tuple((step.sources, step.kind) for step in self.steps)

    def _spaces_of(self) -> tuple[list[int], list[int]]:
        """Return the space of the rows of every value, operands first, and the first space of every
        step. The output of the product comes after the operands.
        """
        num_operands = len(self.num_entries) - 1
        rows, firsts, number = list(range(num_operands)), [], num_operands + 1
        for step in self.steps:
            firsts.append(number)
            number += len(step.spaces())
            rows.append(number - 1)
        return rows, firsts

    def fits(self, structure: StructureData) -> bool:
        """Return whether it is for as many entries as a structure has."""
        if _SOFTMAX in self.text:
            return False  # its groups are no entries of a tensor
        supports = [support_of(structure, p) for p in parse_product(self.text).tensors]
        lengths = np.stack([structure._lengths_of(one) for one in supports])
        return np.array_equal(self.num_entries, lengths)

    def spaces(self) -> list[Array]:
        """Return the spaces of a plan: rows of every operand and of the output, and those of every
        step.
        """
        of_steps = (space for step in self.steps for space in step.spaces())
        return [*self.num_entries[:, None], *of_steps]

    def lists(self) -> list[Listed]:
        """Return the lists of all steps, for all roles."""
        rows, firsts = self._spaces_of()
        return [
            listed
            for step, first in zip(self.steps, firsts, strict=True)
            for listed in step.batched_lists(first, [rows[source] for source in step.sources])
        ]

    def remade(self, sizes: Sequence[Array], tensors: Iterator[Tensor]) -> JoinPlan:
        """Return the plan of other structures, from the sizes of its spaces and its lists."""
        rows, firsts = self._spaces_of()
        totals = [int(sizes[space].sum()) for space in rows]
        num_operands = len(self.num_entries) - 1
        steps = []
        for number, (known, first) in enumerate(zip(self.steps, firsts, strict=True), num_operands):
            num_rows = totals[number], *(totals[source] for source in known.sources)
            steps.append(known.remade(sizes[first:], num_rows, tensors))
        return JoinPlan(self.text, tuple(steps), np.concatenate(sizes[: num_operands + 1]))

    @property
    def num_joined(self) -> int:
        """How many products of rows are taken in all."""
        return sum(step.num_products for step in self.steps)

    @property
    def device(self) -> torch.device:
        """Where the lists live."""
        return self.steps[0].device

    @property
    def names(self) -> tuple[str, ...]:
        """What is multiplied, by number: operands are x0, x1, ..., results of steps z0, z1, ...,
        and the output is y.
        """
        results = (f"z{number}" for number in range(len(self.steps) - 1))
        return *(f"x{number}" for number in range(len(self.num_rows) - 1)), *results, "y"

    @property
    def formulas(self) -> tuple[str, ...]:
        """What every step computes."""
        results = self.names[len(self.num_rows) - 1 :]
        factors = (" * ".join(self.names[source] for source in step.sources) for step in self.steps)
        return tuple(
            f"{result} = sum {product}" for result, product in zip(results, factors, strict=True)
        )

    def __repr__(self) -> str:
        lines = [
            f"  {formula}: {step.cost}"
            for formula, step in zip(self.formulas, self.steps, strict=True)
        ]
        held = sum(t.numel() * t.element_size() for step in self.steps for t in step.tensors)
        memory = f"  memory: {held / 2**20:,.1f} MiB"
        return "\n".join([f"JoinPlan `{self.text}`", *lines, memory])


def step_of(
    sources: tuple[int, ...],
    num_rows: tuple[int, ...],
    targets: Tensor,
    rows: tuple[Tensor, ...],
    sign: Tensor | None,
    homes: tuple[Tensor, Tensor],
    num_structures: int,
) -> JoinStep:
    """A step from its joined rows in any order, and the structures of these and of the targets."""
    dtype = torch.int32 if are_short(*num_rows, len(targets)) else torch.long
    order = sort_few(targets, num_rows[0])[1]
    ptr = ranges(torch.bincount(targets, minlength=num_rows[0])).to(dtype)
    counts = (torch.bincount(home, minlength=num_structures).cpu().numpy() for home in homes)
    num_joined, num_targets = (np.asarray(count, dtype=np.int64) for count in counts)
    listed = tuple(column[order].to(dtype) for column in rows)
    return JoinStep(
        sources,
        num_rows,
        ptr,
        listed,
        None if sign is None else sign[order],
        num_joined,
        num_targets,
    )
