"""Orbits of permutations on many things at once, by whole arrays: what is joined gets one label."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

__all__ = ["connect", "number_orbits"]


def connect(label: Tensor, one: Tensor | slice, other: Tensor) -> Tensor:
    """Joins pairs of things: labels are the smallest thing joined to each, before and after.

    Example:
        >>> connect(torch.arange(5), torch.tensor([0, 3]), torch.tensor([4, 4])).tolist()
        [0, 1, 2, 0, 0]
    """
    while not torch.equal(a := label[one], b := label[other]):
        differs = a != b
        low, high = torch.minimum(a, b)[differs], torch.maximum(a, b)[differs]
        # Every larger root goes to the smallest root it is to be joined with; then paths to roots are shortened.
        parent = torch.arange(len(label), device=label.device).scatter_reduce_(0, high, low, "amin")
        while not torch.equal(shorter := parent[parent], parent):
            parent = shorter
        label = parent[label]
    return label


def number_orbits(
    count: int, permutations: Iterable[Tensor], device: torch.device | None = None
) -> tuple[Tensor, Tensor]:
    """The orbits of `count` things, numbered by first member; memory is linear in them.

    Args:
        count: How many things there are.
        permutations: Thing k goes to `permutation[k]`.
        device: Where to work.

    Returns:
        The number of the orbit of every thing, and the first member of every orbit.

    Example:
        >>> number, first = number_orbits(5, [torch.tensor([1, 0, 2, 3, 4]), torch.tensor([0, 2, 1, 3, 4])])
        >>> number.tolist(), first.tolist()
        ([0, 0, 0, 1, 2], [0, 3, 4])
    """
    label = torch.arange(count, device=device)
    for permutation in permutations:
        label = connect(label, slice(None), permutation)
    first, number = torch.unique(label, return_inverse=True)
    return number, first
