"""Orbits of many things at once: what permutations join, by whole arrays."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import torch
from torch import Tensor

__all__ = ["connect", "number_orbits", "orbit_labels"]


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


def orbit_labels(count: int, permutations: Callable[[], Iterable[Tensor]], device: torch.device | None = None) -> Tensor:
    """The smallest member of the orbit of each of `count` things; memory is linear in them.

    Args:
        count: How many things there are.
        permutations: Gives the permutations, one after the other, each time it is called: thing k goes to `permutation[k]`.
        device: Where to work.

    Example:
        >>> orbit_labels(5, lambda: [torch.tensor([1, 0, 2, 3, 4]), torch.tensor([0, 2, 1, 3, 4])]).tolist()
        [0, 0, 0, 3, 4]
    """
    label = torch.arange(count, device=device)
    for permutation in permutations():
        label = connect(label, slice(None), permutation)
    return label


def number_orbits(label: Tensor) -> tuple[Tensor, Tensor]:
    """The orbits numbered by first member: the number of every thing, and the first member of every orbit."""
    first, number = torch.unique(label, return_inverse=True)
    return number, first
