"""The last step of every builder: entries that are known to be right become a structure in the preferred order."""

from __future__ import annotations

from functools import lru_cache

import torch
from torch import Tensor

from incidence.algebra.grammar import KINDS, Letter, TensorSyntax, make_face
from incidence.algebra.pattern import Pattern
from incidence.errors import IncidenceError
from incidence.structure import Structure
from incidence.structure.entries import count_entries

__all__ = ["assemble", "assert_structure", "lone_face"]

_LETTERS = "ijklmnopqrstuvwxyzabcdefgh"


@lru_cache(maxsize=256)
def lone_face(size: int, opening: str = "{") -> Pattern:
    """The pattern of one face of a given size.

    Example:
        >>> str(lone_face(3)), str(lone_face(2, "("))
        ('{i j k}', '(i j)')
    """
    names = [f"{_LETTERS[p % 26]}{p // 26 + 1 if p >= 26 else ''}" for p in range(size)]
    return Pattern._of(TensorSyntax(None, (make_face(KINDS[opening], tuple(Letter(name, "node") for name in names)),)))


def assert_structure(who: str, given: object) -> None:
    """Refuses what is no structure."""
    if not isinstance(given, Structure):
        raise IncidenceError(f"{who} takes a Structure; got {type(given).__name__}.")


def assemble(num_nodes: int, index: dict[Pattern, tuple[Tensor, ...]], is_preferred: bool = False) -> Structure:
    """A structure of distinct entries over nodes 0 to num_nodes - 1, sorted into the preferred order unless they are in it."""
    device = next((parts[-1].device for parts in index.values()), None)
    entry_ptr = {p: torch.tensor([0, count_entries(p, parts)], device=device) for p, parts in index.items()}
    structure = Structure._of({"node": torch.tensor([0, num_nodes], device=device)}, index, entry_ptr)
    return structure if is_preferred else structure.canonical()[0]
