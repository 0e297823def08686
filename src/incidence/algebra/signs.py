r"""Signs of oriented faces (docs/math.md section 16).

Exchanging two nodes of a class multiplies a value by -1 if the class lies in an odd number of oriented faces, else by 1. All signs come
from this: values belong to lists of nodes, one for each class, and a list of an odd class may be rearranged at the price of the sign of
the permutation.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from math import prod
from typing import Any

from incidence.algebra.grammar import Face, Kind, Signature

__all__ = ["is_odd", "orientation_sign", "sorting_sign"]


def is_odd(kinds: Sequence[tuple[Kind, bool]], signature: Signature) -> bool:
    """Whether nodes with this signature stand in an odd number of oriented faces."""
    return sum(kinds[face][0].is_oriented for face, _ in signature) % 2 == 1


def sorting_sign(items: Sequence[Any]) -> int:
    """The sign of the permutation that sorts a list, and leaves equal things in their order.

    Example:
        >>> sorting_sign([0, 1, 2]), sorting_sign([0, 2, 1]), sorting_sign([2, 0, 1])
        (1, -1, 1)
    """
    return -1 if sum(one > other for one, other in combinations(items, 2)) % 2 else 1


def orientation_sign(faces: Iterable[Face], rank: Mapping[str, int]) -> int:
    """The sign that brings the letters of all oriented faces into the order of their ranks."""
    return prod(
        sorting_sign([rank[letter.name] for letter in face.letters])
        for face in faces
        if face.kind.is_oriented
    )
