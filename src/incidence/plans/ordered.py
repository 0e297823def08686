"""A structure with the rows of every tensor in the order of its plans, so that no layer of a network permutes them."""

from __future__ import annotations

import weakref
from dataclasses import replace

import torch
from torch import Tensor

from incidence.algebra.maps import EquivariantMap
from incidence.algebra.pattern import Pattern
from incidence.plans.orbit_plan import order_of
from incidence.plans.plan import Plan
from incidence.structure.structure import Structure

__all__ = ["Ordered", "ordered"]


def ordered(structure: Structure, equivariant_map: EquivariantMap) -> Structure:
    """The structure in the order of the plan of a map: itself, if it is in that order."""
    if structure.in_order is None and any(order is not None for order in structure.plan(equivariant_map).orders):
        structure.in_order = Ordered(structure, equivariant_map)
    return structure if structure.in_order is None else structure.in_order


class Ordered(Structure):
    """A structure as its layers see it.

    A plan has the entries of one mask side by side, those of all structures of a batch together; a batch has those of one structure
    side by side. So the layers of a network work on this, and features are permuted once on the way in and once on the way out. It is for
    layers, norms and readouts: `batch` and `entry_ptr` are still those of the structure it is made of.

    Args:
        structure: The structure.
        equivariant_map: A map, whose tensors are known from the start.
    """

    def __init__(self, structure: Structure, equivariant_map: EquivariantMap) -> None:
        self._set(structure._node_ptr, structure._index, structure._entry_ptr)
        self._lengths = structure._lengths
        self._base = weakref.ref(structure)  # which keeps this: batches would wait for the garbage collector otherwise
        self._orders: dict[Pattern, Tensor | None] = {}
        self._ranges: dict[Pattern, list[range]] = {}
        self.plan(equivariant_map)

    def order(self, pattern: Pattern) -> Tensor | None:
        """The rows of a tensor of the structure in the order of this; None if they are."""
        self._look_at(pattern)
        return self._orders[pattern]

    @torch.inference_mode(False)
    def orbit_rows(self, text: str | Pattern) -> list[Tensor]:
        """The rows of every orbit of a tensor: they follow each other."""
        pattern = self.resolve(text)
        self._look_at(pattern)
        return [torch.arange(own.start, own.stop, device=self.device) for own in self._ranges[pattern]]

    def _look_at(self, pattern: Pattern) -> None:
        if pattern not in self._orders:
            self.plan(EquivariantMap.between([pattern], [Pattern("")]))

    @torch.inference_mode(False)
    def _make_plan(self, equivariant_map: EquivariantMap) -> Plan:
        structure = self._base()
        assert structure is not None, "it is used inside of a network only, which holds the structure"
        plan = structure.plan(equivariant_map)
        for pattern, order, orbits in zip(plan.tensors, plan.orders, plan.orbits, strict=True):
            if pattern not in self._orders:
                self._orders[pattern] = order
                self._ranges[pattern] = [range(own.start, own.stop) for own in orbits]
        orders = tuple(self._rest(pattern, order) for pattern, order in zip(plan.tensors, plan.orders, strict=True))
        self._plans[equivariant_map] = replace(plan, orders=orders, programs={})
        return self._plans[equivariant_map]

    def _rest(self, pattern: Pattern, order: Tensor | None) -> Tensor | None:
        """What is left to permute for a plan: nothing, unless it was made in another way than the first that had the tensor."""
        first = self._orders[pattern]
        if order is first:
            return None
        every = torch.arange(self.num_entries(pattern), device=self.device)
        place = every if first is None else torch.empty_like(every).index_copy_(0, first, every)
        return order_of([place if order is None else place.index_select(0, order)])
