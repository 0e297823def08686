"""Adjacent faces as a tensor of their own."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from incidence.algebra.pattern import Pattern
from incidence.errors import IncidenceError
from incidence.geometry.containment import Level
from incidence.geometry.ranks import faces
from incidence.structure import Structure
from incidence.structure.entries_from_faces import attach

__all__ = ["with_adjacency"]


def with_adjacency(structure: Structure, rank: int, name: str = "adjacent", ranks: Mapping[int, str] | None = None) -> Structure:
    r"""The same structure with a named tensor of adjacent faces: pairs of different faces of a rank that share a face one rank below.

    The pattern is `{i ...} {i ...}` for faces of mixed size, and for faces of m nodes that with m - 1 letters in common: `{i j k} {i j l}`.

    Args:
        structure: The structure, or a batch.
        rank: The rank of the faces, from 1.
        name: The name of the new tensor.
        ranks: As in `faces`.

    Example:
        >>> from incidence.geometry import simplicial_complex
        >>> with_adjacency(simplicial_complex([[0, 1, 2], [1, 2, 3], [3, 4, 5]]), rank=2)["adjacent"].T.tolist()
        [[1, 2, 0, 3], [1, 2, 3, 0]]
    """
    found = faces(structure, ranks)
    found.assert_above(rank)
    level = found.level(rank)
    if level.pattern is None or level.is_ordered or (level.columns is None and not level.pattern.is_open):
        raise IncidenceError(f"adjacent faces are undirected; those of rank {rank} are `{level.pattern}`. Use `with_pattern`.")
    other, one = found.adjacency(rank)
    if level.columns is None:
        pattern, letters = Pattern(f"{name}={{i ...}} {{i ...}}"), structure.empty_index(0)
    else:
        pattern, letters = _sharing(level, name, one, other)
    return attach(structure, pattern, letters, [(level.pattern, one), (level.pattern, other)])


def _sharing(level: Level, name: str, one: Tensor, other: Tensor) -> tuple[Pattern, Tensor]:
    """Two faces of m nodes on the letters of a pattern in which they share m - 1."""
    assert level.columns is not None
    assert level.pattern is not None
    own, others = level.columns[:, one], level.columns[:, other]
    is_same = own[:, None] == others[None]
    if bool((is_same.sum((0, 1)) != len(own) - 1).any()):
        raise IncidenceError(
            f"faces `{level.pattern}` are adjacent where they share all nodes but one: rank {len(own) - 2} has other faces."
        )
    shared_first = [(~is_same.any(dim)).long().argsort(dim=0, stable=True) for dim in (1, 0)]
    letters = torch.cat([own.gather(0, shared_first[0]), others.gather(0, shared_first[1])[-1:]])
    names = [*level.pattern.letters, next(x for x in "lmnopqrstuvwxyzabcdefghijk" if x not in level.pattern.letters)]
    sort = level.pattern.sorts[names[0]]
    written = [f"{x}:{sort}" for x in names]
    return Pattern(f"{name}={{{' '.join(written[:-1])}}} {{{' '.join([*written[:-2], written[-1]])}}}"), letters
