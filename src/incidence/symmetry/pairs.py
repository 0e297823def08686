r"""Orbits of a group on pairs of entries: the 0/1 basis of the maps that are equivariant to it, and the bags these maps add up."""

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
from incidence.symmetry.group import Group
from incidence.symmetry.orbits import number_orbits

__all__ = ["PairBags", "PairOrbits", "pair_bags", "pair_orbits"]

_MAX_PAIRS = 2**30
_MIXED = 4


class PairOrbits(NamedTuple):
    """The orbits of pairs of an output entry y and an input entry x.

    They are numbered by their first pair, row by row; so those with one orbit of output entries stand side by side.

    Attributes:
        number: The orbit of every pair, shape (outputs, inputs).
        sizes: How many pairs each orbit has.
        ys, xs: The first pair of each orbit.
    """

    number: Tensor
    sizes: Tensor
    ys: Tensor
    xs: Tensor


def pair_orbits(
    group: Group, source: str | Pattern, target: str | Pattern, structure: Structure | None = None
) -> PairOrbits:
    """The orbits of a group on pairs of entries of two tensors; time and memory are linear in the pairs, for each generator.

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
            f"`{source}` and `{target}` have {num_x * num_y:,} pairs of entries here; at most {_MAX_PAIRS:,} are numbered."
        )
    moved = list(
        zip(
            group.permutations(target, structure),
            group.permutations(source, structure),
            strict=True,
        )
    )
    on_pairs = ((y[:, None] * num_x + x).flatten() for y, x in [*_mixed(moved), *moved])
    number, first = number_orbits(num_y * num_x, on_pairs, structure.device)
    sizes = torch.bincount(number, minlength=len(first))
    return PairOrbits(
        number.view(num_y, num_x), sizes, first // max(num_x, 1), first % max(num_x, 1)
    )


def _mixed(moved: list[tuple[Tensor, Tensor]]) -> Iterator[tuple[Tensor, Tensor]]:
    """A few random products of many generators: they join nearly all that is to be joined, so that the rest is soon seen to be done."""
    random = Random(0)
    for _ in range(_MIXED if len(moved) > _MIXED else 0):
        y, x = moved[0]
        for other_y, other_x in random.sample(moved, len(moved) // 2):
            y, x = other_y[y], other_x[x]
        yield y, x


class AlikeOrbits(NamedTuple):
    """Orbits of outputs with the same numbers of entries and of pair orbits: what they add up is one batch of matrix products."""

    num_orbits: int
    num_entries: int
    num_slots: int
    weights: Tensor  # rows of the weight, orbit by orbit, (num_orbits * num_slots)


class PairBags(NamedTuple):
    """Which inputs each output adds up, for each orbit of pairs: a bag for every output and orbit.

    Attributes:
        members, members_ptr: The inputs of every bag.
        bags, bags_ptr: The bags of every input: the transpose.
        alike: The bags by orbits of outputs, in this order.
        place: Where each output stands among them.
    """

    members: Tensor
    members_ptr: Tensor
    bags: Tensor
    bags_ptr: Tensor
    alike: tuple[AlikeOrbits, ...]
    place: Tensor

    def transposed(self) -> PairBags:
        """With the bags of every input in the place of the inputs of every bag."""
        return PairBags(
            self.bags, self.bags_ptr, self.members, self.members_ptr, self.alike, self.place
        )


def pair_bags(orbits: PairOrbits, entry_orbit: Tensor) -> PairBags:
    """The bags of the pairs, arranged so that output orbits of one shape lie side by side.

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
    slots = torch.bincount(entry_orbit[orbits.ys], minlength=len(entries))
    first_slot = slots.cumsum(0) - slots
    alike, num_bags, num_placed = [], 0, 0
    first_bag, first_place = torch.zeros_like(entries), torch.zeros_like(entries)
    for _, which in equal_rows(code([entries, slots], [num_y + 1, len(orbits.sizes) + 1])[0]):
        n, size, width = len(which), int(entries[which[0]]), int(slots[which[0]])
        alike.append(
            AlikeOrbits(
                n,
                size,
                width,
                (first_slot[which, None] + torch.arange(width, device=device)).flatten(),
            )
        )
        first_bag[which] = num_bags + torch.arange(n, device=device) * (size * width)
        first_place[which] = num_placed + torch.arange(n, device=device) * size
        num_bags, num_placed = num_bags + n * size * width, num_placed + n * size
    order = entry_orbit.sort(stable=True)[1]
    position = torch.empty_like(order)  # of every output in its orbit
    position[order] = torch.arange(num_y, device=device) - torch.repeat_interleave(
        entries.cumsum(0) - entries, entries
    )
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
