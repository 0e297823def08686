r"""Orbits of a group on pairs of entries, which are a 0/1 basis of the maps equivariant to it, and
the bags that these maps sum.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import NamedTuple

import torch
from torch import Tensor

from incidence.algebra.pattern import Pattern
from incidence.errors import TooLargeError
from incidence.structure.ragged import code, ranges
from incidence.structure.ragged import group as equal_rows
from incidence.structure.structure import Structure
from incidence.symmetry.group import Group, number_orbits

__all__ = ["PairBags", "PairOrbits", "pair_bags", "pair_orbits"]

_MAX_PAIRS = 2**30
_NUM_MIXED = 4  # random products of generators


class PairOrbits(NamedTuple):
    """The orbits of pairs of an output entry y and an input entry x.

    They are numbered by their first pair, row by row; so those of one orbit of output entries stand
    side by side.

    Attributes:
        number: The orbit of every pair, shape (outputs, inputs).
        sizes: The number of pairs of each orbit.
        ys, xs: The first pair of each orbit.
    """

    number: Tensor
    sizes: Tensor
    ys: Tensor
    xs: Tensor


def pair_orbits(
    group: Group, source: str | Pattern, target: str | Pattern, structure: Structure | None = None
) -> PairOrbits:
    """Return the orbits of a group on pairs of entries of two tensors.

    Time and memory are linear in the pairs, for each generator.

    Raises:
        TooLargeError: There are too many pairs to number.

    Example:
        >>> turn = Group(5, [[1, 2, 3, 4, 0]])
        >>> pair_orbits(turn, "i", "i").sizes.tolist()  # circulant matrices
        [5, 5, 5, 5, 5]
    """
    structure = structure or group.structure
    num_x, num_y = structure.num_entries(source), structure.num_entries(target)
    if num_x * num_y > _MAX_PAIRS:
        raise TooLargeError(
            f"`{source}` and `{target}` have {num_x * num_y:,} pairs of entries here; at most"
            f" {_MAX_PAIRS:,} are numbered."
        )
    ys, xs = group.permutations(target, structure), group.permutations(source, structure)
    moved = list(zip(ys, xs, strict=True))
    products = [*_mixed(moved), *moved]  # mixed ones first: they join most orbits at once
    on_pairs = ((y[:, None] * num_x + x).flatten() for y, x in products)  # (num_y x num_x,) each
    number, first = number_orbits(num_y * num_x, on_pairs, structure.device)
    sizes = torch.bincount(number, minlength=len(first))
    width = max(num_x, 1)
    return PairOrbits(number.view(num_y, num_x), sizes, first // width, first % width)


def _mixed(moved: list[tuple[Tensor, Tensor]]) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield a few random products of many generators.

    They join nearly all pairs of an orbit, so that each generator has little left to do.
    """
    random = Random(0)
    for _ in range(_NUM_MIXED if len(moved) > _NUM_MIXED else 0):
        y, x = moved[0]
        for other_y, other_x in random.sample(moved, len(moved) // 2):
            y, x = other_y[y], other_x[x]
        yield y, x


class AlikeOrbits(NamedTuple):
    """Orbits of outputs with equal numbers of entries and of pair orbits.

    Their sums are one batch of matrix products.

    Attributes:
        num_orbits: The number of these orbits.
        num_entries: The number of entries in each.
        num_slots: The number of orbits of pairs for each.
        weights: The rows of the weight, orbit by orbit, shape (num_orbits * num_slots,).
    """

    num_orbits: int
    num_entries: int
    num_slots: int
    weights: Tensor


class PairBags(NamedTuple):
    """The inputs that each output sums: one bag for every output and orbit of pairs.

    Attributes:
        members, members_ptr: The inputs of every bag.
        bags, bags_ptr: The bags of every input: the transpose.
        alike: The bags by orbits of outputs, in this order.
        place: The place of each output among them.
    """

    members: Tensor
    members_ptr: Tensor
    bags: Tensor
    bags_ptr: Tensor
    alike: tuple[AlikeOrbits, ...]
    place: Tensor

    def transposed(self) -> PairBags:
        """Return the transpose: the bags of every input in place of the inputs of every bag."""
        return PairBags(
            self.bags, self.bags_ptr, self.members, self.members_ptr, self.alike, self.place
        )


def pair_bags(orbits: PairOrbits, entry_orbit: Tensor) -> PairBags:
    """Return the bags of pairs, with output orbits of one shape side by side.

    Args:
        orbits: The orbits of pairs.
        entry_orbit: The orbit of every output entry, shape (outputs,).

    Example:
        >>> turn = Group(3, [[1, 2, 0]])
        >>> bags = pair_bags(pair_orbits(turn, "i", "i"), turn.orbits("i"))
        >>> bags.members.tolist()  # of each node itself, the next one, and the one after
        [0, 1, 2, 1, 2, 0, 2, 0, 1]
    """
    num_y, num_x = orbits.number.shape
    device = entry_orbit.device
    entries = torch.bincount(entry_orbit)  # (output orbits,)
    # pair orbits of every output orbit
    slots = torch.bincount(entry_orbit[orbits.ys], minlength=len(entries))
    first_slot = slots.cumsum(0) - slots
    alike, num_bags, num_placed = [], 0, 0
    first_bag, first_place = torch.zeros_like(entries), torch.zeros_like(entries)
    shapes, _ = code([entries, slots], [num_y + 1, len(orbits.sizes) + 1])
    for _, which in equal_rows(shapes):
        first = which[0]
        n, size, width = len(which), int(entries[first]), int(slots[first])
        weights = first_slot[which, None] + torch.arange(width, device=device)  # (orbits, slots)
        alike.append(AlikeOrbits(n, size, width, weights.flatten()))
        first_bag[which] = num_bags + torch.arange(n, device=device) * (size * width)
        first_place[which] = num_placed + torch.arange(n, device=device) * size
        num_bags, num_placed = num_bags + n * size * width, num_placed + n * size
    order = entry_orbit.sort(stable=True)[1]
    first_entry = torch.repeat_interleave(entries.cumsum(0) - entries, entries)
    position = torch.empty_like(order)  # of every output in its orbit
    position[order] = torch.arange(num_y, device=device) - first_entry
    start = first_bag[entry_orbit] + position * slots[entry_orbit] - first_slot[entry_orbit]
    bag = start[:, None] + orbits.number  # (outputs, inputs)
    inputs = torch.arange(num_x, device=device).repeat(num_y)
    return PairBags(
        members=inputs[bag.flatten().sort(stable=True)[1]],
        members_ptr=ranges(torch.bincount(bag.flatten(), minlength=num_bags)),
        bags=bag.T.flatten(),
        bags_ptr=torch.arange(num_x + 1, device=device) * num_y,
        alike=tuple(alike),
        place=first_place[entry_orbit] + position,
    )
