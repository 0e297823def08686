"""What a structure adds to a program: numbers of rows, and the addresses of index lists."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from incidence.engine.bags import Bags
from incidence.engine.compiled.program import Program
from incidence.engine.compiled.values import JoinUse, PlanUse
from incidence.engine.partners import Partners
from incidence.engine.plan import plan_of
from incidence.engine.products.dense import DenseStep
from incidence.structure.arrange import orbit_rows
from incidence.structure.data import Array, StructureData

__all__ = ["Binding"]

_ITSELF, _OF_ALL, _OF_SOME = range(3)  # as network.c calls them
_SCRATCH = 6  # times the largest value: rows of partners on either side, and products of them
_LINE = 16  # floats between which values start: a cache line


class Binding:
    """A program on a structure.

    Attributes:
        rows, widths: The number of rows, and of channels, of every value.
        sizes: The number of floats of every value, in whole cache lines.
        numbers, addresses: The tables of `network.c`, as far as the structure decides them.
        num_indices: The largest number of keys.
        num_scratch: How many floats steps need besides their values, but for packed matrices.
        value_places, grad_places: Where values are in an arena, and their gradients.
        num_values, num_grads: How many floats these arenas have.
        structure: The structure.
        can_run: Whether the code can run: all lists are of the type that it reads, and every
            product is one step.
    """

    def __init__(self, program: Program, structure: StructureData) -> None:
        self.numbers = np.zeros(program.num_numbers, dtype=np.int64)
        num_ends = 2 * len(program.inputs) + len(program.outputs)  # and gradients of inputs
        self.addresses = np.zeros(program.num_addresses + num_ends, dtype=np.int64)
        self.num_indices = 1
        self.can_run = structure.device.type == "cpu"
        self._kept: list[Any] = []  # what addresses point to
        kinds, of_values, self.widths = program.rows_of_values
        # counts of rows, by number; -1 where none of the plans says it
        counts = [of if kind == "fixed" else -1 for kind, of in kinds]
        counts[program.count("structures")] = structure.num_structures
        for use in program.plans.values():
            seen = structure if use.view is None else use.view(structure)
            plan = plan_of(seen, use.layout)
            self._kept.append(plan)
            for k, bags in enumerate(plan.bags):
                counts[use.rows[k]], counts[use.bags[k]] = bags.num_rows, bags.num_bags
                self._bind_bags(use, k, bags)
            for key, (number, lists) in use.partners.items():
                self._bind_partners(plan.partners[key], number, lists)
        for join in program.joins.values():
            self._bind_join(join, structure, counts)
        for pattern, places in program.orbits.items():
            for (address, number), rows in zip(places, orbit_rows(structure, pattern), strict=True):
                self._kept.append(rows)
                self.addresses[address] = rows.data_ptr()
                self.numbers[number] = len(rows)
        self.rows = np.array(counts, dtype=np.int64)[of_values]  # (values,)
        self.sizes = -(-self.rows * self.widths // _LINE) * _LINE + _LINE
        self.num_scratch = _SCRATCH * (int(self.sizes.max(initial=0)) + _LINE)
        ends = [value.number for value in (*program.inputs, *program.outputs)]
        inputs = [value.number for value in program.inputs]
        is_inner = np.ones(len(self.sizes), dtype=bool)
        is_inner[ends] = False
        self.value_places, self.num_values = self._arena(is_inner)
        # those of inputs and outputs are at addresses of their own
        self.value_places[ends] = -1 - program.num_addresses - np.arange(len(ends))
        is_inner[:] = True
        is_inner[inputs] = False
        self.grad_places, self.num_grads = self._arena(is_inner)

    def _bind_bags(self, use: PlanUse, number: int, bags: Bags) -> None:
        start, lists = use.numbers[number], use.lists[number]
        words = [bags.num_rows, bags.num_bags, *bags.level_ptr]
        self.numbers[start : start + len(words)] = words
        self.num_indices = max(self.num_indices, bags.num_bags)
        self._check(bags.of_rows.members, bags.of_rows.ptr, bags.of_bags.members, bags.of_bags.ptr)
        addresses = [_address(t) for t in (*bags.of_rows, *bags.of_bags)]
        self.addresses[lists : lists + len(addresses)] = addresses

    def _bind_partners(self, partners: Partners, number: int, lists: int) -> None:
        is_for_all = partners.targets is None
        kind = _OF_SOME
        if is_for_all:
            kind = _ITSELF if partners.sources is None else _OF_ALL
        self.numbers[number : number + 2] = [kind, int(partners.counts.sum())]
        tensors = partners.targets, partners.sources, partners.signs
        self._check(*(t for t in tensors[:2] if t is not None))
        self.addresses[lists : lists + 3] = [_address(t) for t in tensors]

    def _bind_join(self, use: JoinUse, structure: StructureData, counts: list[int]) -> None:
        plan_of_join, first_list, first_number, rows, has_factors = use
        plan = plan_of_join(structure)
        step = plan.steps[0]
        self._kept.append(plan)
        if has_factors and (len(plan.steps) > 1 or step.sources != (0, 1)):
            self.can_run = False
            return
        if counts[rows] < 0:
            counts[rows] = plan.num_rows[-1]
        if isinstance(step, DenseStep):
            tensors: list[Tensor | None] = [*step.rows, *step.signs]
            sizes = np.ascontiguousarray(step.sizes)
            self._kept.append(sizes)
            numbers = [1, sizes.shape[1], *step.num_rows]
            self._check(*step.rows)
            self.addresses[first_list + 6] = sizes.__array_interface__["data"][0]
        elif has_factors:
            tensors = []
            for role in range(3):
                one, other = step.lists(role)
                tensors += [one.ptr, one.members, other.members, one.signs]
                self._check(one.ptr, one.members, other.members)
            numbers = [0, 1, *step.num_rows]
        else:
            [groups] = step.lists(0)
            tensors = [groups.ptr, groups.members]
            self._check(groups.ptr, groups.members)
            numbers = [groups.num_lists]
        self.numbers[first_number : first_number + len(numbers)] = numbers
        addresses = [_address(t) for t in tensors]
        self.addresses[first_list : first_list + len(addresses)] = addresses

    def _check(self, *lists: Tensor) -> None:
        for own in lists:
            if own.dtype != torch.int32:
                self.can_run = False

    def _arena(self, is_inner: Array) -> tuple[Array, int]:
        """Return where values are in an arena, and how many floats it has.

        Args:
            is_inner: Whether each value is in the arena; others get the smallest integer.
        """
        sizes = np.where(is_inner, self.sizes, 0)
        ends = sizes.cumsum()
        places = np.where(is_inner, ends - sizes, np.iinfo(np.int64).min)
        return places, int(ends[-1])


def _address(tensor: Tensor | None) -> int:
    return 0 if tensor is None else tensor.data_ptr()
