"""Weights shared along orbits of pairs: which inputs each output adds up for each orbit, and how to do it for all at once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any

import torch
from torch import Tensor

from incidence.kernels.bags import bag_sum
from incidence.structure.ragged import code, ranges
from incidence.structure.ragged import group as equal_rows
from incidence.symmetry.pairs import PairOrbits

__all__ = ["Lists", "make_lists", "moved"]


@dataclass(frozen=True)
class _Block:
    """Output orbits with the same numbers of entries and of pair orbits: their sums are one batch of products."""

    num_orbits: int
    num_entries: int
    num_slots: int
    weights: Tensor  # rows of the weight, orbit by orbit


@dataclass(frozen=True)
class Lists:
    """Which inputs each output adds up, for each orbit of pairs: a bag for every output and orbit.

    Attributes:
        pool, pool_ptr: The inputs of every bag.
        read, read_ptr: The bags of every input: the transpose.
        blocks: The bags by orbits of outputs.
        place: Where each output stands among the blocks.
    """

    pool: Tensor
    pool_ptr: Tensor
    read: Tensor
    read_ptr: Tensor
    blocks: tuple[_Block, ...]
    place: Tensor

    def transposed(self) -> Lists:
        """With the bags of every input in the place of the inputs of every bag."""
        return replace(self, pool=self.read, pool_ptr=self.read_ptr, read=self.pool, read_ptr=self.pool_ptr)

    def apply(self, x: Tensor, weight: Tensor, copies: int) -> Tensor:
        """The sums of every bag, times the weights; shape (outputs, copies, out)."""
        sums: Tensor = _BagSum.apply(x, self)  # type: ignore[no-untyped-call]
        num_in, num_out = weight.shape[1:]
        parts, start = [sums.new_zeros(0, copies, num_out)], 0
        for block in self.blocks:
            stop = start + block.num_orbits * block.num_entries * block.num_slots
            bags = sums[start:stop].view(block.num_orbits, block.num_entries, block.num_slots, copies, num_in)
            rows = bags.transpose(2, 3).reshape(block.num_orbits, block.num_entries * copies, block.num_slots * num_in)
            matrices = weight.index_select(0, block.weights).view(block.num_orbits, block.num_slots * num_in, num_out)
            parts.append(torch.bmm(rows, matrices).view(-1, copies, num_out))
            start = stop
        return torch.cat(parts).index_select(0, self.place)


class _BagSum(torch.autograd.Function):
    """Sums over bags. Their gradient is one too, of the transposed lists, so that all derivatives are there."""

    @staticmethod
    def forward(x: Tensor, lists: Lists) -> Tensor:
        return bag_sum(x.contiguous(), lists.pool, lists.pool_ptr)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Lists], output: Tensor) -> None:
        ctx.lists = inputs[1]

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        return _BagSum.apply(grad, ctx.lists.transposed()), None  # type: ignore[no-untyped-call]

    @staticmethod
    def jvp(ctx: Any, tangent: Tensor, _: None) -> Tensor:
        return _BagSum.apply(tangent, ctx.lists)  # type: ignore[no-untyped-call, no-any-return]

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int, None], x: Tensor, lists: Lists) -> tuple[Tensor, int]:
        # What is mapped over becomes channels.
        wide = x.movedim(in_dims[0], 1)
        sums: Tensor = _BagSum.apply(wide.flatten(1), lists)  # type: ignore[no-untyped-call]
        return sums.view(-1, *wide.shape[1:]), 1


def make_lists(orbits: PairOrbits, entry_orbit: Tensor) -> Lists:
    """The bags of the pairs, arranged so that output orbits of one shape lie side by side."""
    num_y, num_x = orbits.number.shape
    device = entry_orbit.device
    home = entry_orbit[orbits.ys]
    count = int(entry_orbit.max()) + 1 if num_y else 0
    entries, slots = torch.bincount(entry_orbit, minlength=count), torch.bincount(home, minlength=count)
    first_slot = slots.cumsum(0) - slots
    blocks, bag_start, rank_start = (
        [],
        torch.zeros(count, dtype=torch.long, device=device),
        torch.zeros(count, dtype=torch.long, device=device),
    )
    bags = ranks = 0
    for _, which in equal_rows(code([entries, slots], [num_y + 1, len(orbits) + 1])[0]) if count else ():
        n, size, width = len(which), int(entries[which[0]]), int(slots[which[0]])
        weights = (first_slot[which, None] + torch.arange(width, device=device)).flatten()
        blocks.append(_Block(n, size, width, weights))
        bag_start[which] = bags + torch.arange(n, device=device) * (size * width)
        rank_start[which] = ranks + torch.arange(n, device=device) * size
        bags, ranks = bags + n * size * width, ranks + n * size
    order = entry_orbit.sort(stable=True)[1]
    position = torch.empty_like(order)
    position[order] = torch.arange(num_y, device=device) - torch.repeat_interleave(entries.cumsum(0) - entries, entries)
    bag = (bag_start[entry_orbit] + position * slots[entry_orbit] - first_slot[entry_orbit])[:, None] + orbits.number
    x = torch.arange(num_x, device=device).expand(num_y, num_x)
    by_bag = bag.flatten().sort(stable=True)[1]
    pool_ptr = ranges(torch.bincount(bag.flatten(), minlength=bags))
    read_ptr = torch.arange(num_x + 1, device=device) * num_y
    return Lists(x.flatten()[by_bag], pool_ptr, bag.T.flatten(), read_ptr, tuple(blocks), rank_start[entry_orbit] + position)


def moved(value: Any, device: torch.device) -> Any:
    """Tensors in lists, mappings and frozen dataclasses, on another device."""
    if isinstance(value, Tensor):
        return value.to(device)
    if isinstance(value, Mapping):
        return {key: moved(item, device) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(moved(item, device) for item in value)
    if is_dataclass(value) and not isinstance(value, type):
        return replace(value, **{field.name: moved(getattr(value, field.name), device) for field in fields(value)})
    return value
