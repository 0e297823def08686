r"""What shape faces make together: closed, pure, a manifold, orientable.

The link of a face s is what the faces that contain s look like from s; it is told by their ranks and containment alone. A manifold is a
complex in which the link of every face is a sphere, or a ball at the boundary.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from incidence.geometry.containment import is_simplicial
from incidence.geometry.orientation import agreeing_signs, between
from incidence.structure.ragged import distinct
from incidence.symmetry.orbits import connect

if TYPE_CHECKING:
    from incidence.geometry.ranks import Faces

__all__ = ["has_boundary_faces", "is_manifold", "is_orientable", "is_pure"]


def has_boundary_faces(faces: Faces, rank: int) -> bool:
    """Whether no face of a rank lacks a face of its boundary."""
    lower, upper = faces.of_rank(rank - 1), faces.of_rank(rank)
    found = faces.boundary(rank)
    if is_simplicial(lower, upper):
        return found.shape[1] == len(upper.lists.nodes)  # as many subfaces as nodes
    if rank > 1 and bool((between(faces, rank)[2] != 2).any()):
        return False
    node, which = lower.lists.take(found[0]).index
    return len(distinct(found[1, which] * lower.num_nodes + node)) == len(upper.lists.nodes)


def is_pure(faces: Faces) -> bool:
    """Whether every face lies in one of the highest rank; a face that lies in some higher face need not be asked again."""
    for rank in range(faces.top):
        is_in = torch.zeros(faces.of_rank(rank).count, dtype=torch.bool, device=faces.of_rank(rank).structure.device)
        for higher in range(rank + 1, faces.top + 1):
            if is_in.all():
                break
            is_in[faces.incidence(rank, higher)[0]] = True
        if not is_in.all():
            return False
    return True


def _is_thin(faces: Faces, rank: int) -> bool:
    """Whether boundaries look like those of cells: an edge has two nodes, and between faces two ranks apart there are two."""
    if rank == 1:
        return bool((faces.of_rank(1).lists.sizes == 2).all())
    return is_simplicial(faces.of_rank(rank - 1), faces.of_rank(rank)) or bool((between(faces, rank)[2] == 2).all())


def _is_pseudomanifold(faces: Faces) -> bool:
    if not faces.is_closed or not faces.is_pure or not all(_is_thin(faces, rank) for rank in range(1, faces.top + 1)):
        return False
    return faces.top == 0 or bool((_degrees(faces) <= 2).all())


def _degrees(faces: Faces) -> Tensor:
    """How many faces of the highest rank each face one below lies in."""
    return torch.bincount(faces.boundary(faces.top)[0], minlength=faces.of_rank(faces.top - 1).count)


def _neighbours(faces: Faces) -> tuple[Tensor, Tensor]:
    """Where the two pairs (ridge, facet) of every ridge in two facets stand in `boundary(top)`, shape [2, ridges]; and those ridges."""
    ridge, order = faces.boundary(faces.top)[0].sort(stable=True)
    first = (ridge[1:] == ridge[:-1]).nonzero()[:, 0]
    return torch.stack([order[first], order[first + 1]]), ridge[first]


def is_orientable(faces: Faces) -> bool:
    """Whether the facets can have signs that cancel on every ridge that two of them share."""
    if not _is_pseudomanifold(faces):
        return False
    if faces.top == 0:
        return True
    both, _ = _neighbours(faces)
    number = faces.signs(faces.top)
    facet = faces.boundary(faces.top)[1]
    _, is_fine = agreeing_signs(faces.of_rank(faces.top).count, facet[both], -number[both].prod(0))
    return bool(is_fine.all())


def is_manifold(faces: Faces) -> bool:
    """Whether links are spheres or balls, from ridges (asked by the pseudomanifold) down to the nodes."""
    if not _is_pseudomanifold(faces):
        return False
    for rank in range(faces.top - 2, -1, -1):
        codimension = faces.top - rank
        if codimension <= 3 and not _has_connected_links(faces, rank):
            return False
        if codimension == 3 and not _has_round_links(faces, rank):
            return False
        if codimension > 3 and not _has_homology_of_spheres(faces, rank):
            return False
    return True


def _has_connected_links(faces: Faces, rank: int) -> bool:
    """Whether one can walk between any two facets around a face across ridges that contain it."""
    face, facet = faces.incidence(rank, faces.top)
    stars = face * faces.of_rank(faces.top).count + facet
    ordered, order = stars.sort()
    both, ridges = _neighbours(faces)
    spot = torch.full((faces.of_rank(faces.top - 1).count,), -1, dtype=torch.long, device=face.device)
    spot[ridges] = torch.arange(len(ridges), device=face.device)
    face, ridge = faces.incidence(rank, faces.top - 1)
    inner = spot[ridge] >= 0
    facets = faces.boundary(faces.top)[1][both[:, spot[ridge[inner]]]]  # (2, pairs)
    ends = order[torch.searchsorted(ordered, face[inner] * faces.of_rank(faces.top).count + facets)]
    return len(connect(torch.arange(len(stars), device=face.device), *ends).unique()) == faces.of_rank(rank).count


def _is_at_boundary(faces: Faces, rank: int) -> Tensor:
    """Whether each face of a rank lies in a ridge that has one facet only."""
    face, ridge = faces.incidence(rank, faces.top - 1)
    found = torch.zeros(faces.of_rank(rank).count, dtype=torch.bool, device=face.device)
    found[face[_degrees(faces)[ridge] == 1]] = True
    return found


def _has_round_links(faces: Faces, rank: int) -> bool:
    """Whether links, connected surfaces, are spheres or discs: these alone have Euler characteristic 2, or 1 and a boundary."""
    count = faces.of_rank(rank).count
    above = [torch.bincount(faces.incidence(rank, higher)[0], minlength=count) for higher in range(rank + 1, faces.top + 1)]
    return bool((above[0] - above[1] + above[2] == 2 - _is_at_boundary(faces, rank).long()).all())


def _has_homology_of_spheres(faces: Faces, rank: int) -> bool:
    """Whether links have the homology of a sphere, or of a ball at the boundary, with coefficients mod 2."""
    at_boundary = _is_at_boundary(faces, rank).tolist()
    above = [_grouped(faces.incidence(rank, higher)) for higher in range(rank + 1, faces.top + 1)]
    boundaries = [_grouped(faces.boundary(higher).flip(0)) for higher in range(rank + 1, faces.top + 1)]
    for face, has_boundary in enumerate(at_boundary):
        betti = _betti([[face], *(level[face] for level in above)], boundaries)
        if betti != [0] * (len(betti) - 1) + [1 - has_boundary]:
            return False
    return True


def _grouped(found: Tensor) -> dict[int, list[int]]:
    """For every number of the first row the numbers below it."""
    groups: dict[int, list[int]] = {}
    for one, other in found.T.tolist():
        groups.setdefault(one, []).append(other)
    return groups


def _betti(levels: list[list[int]], boundaries: list[dict[int, list[int]]]) -> list[int]:
    """The reduced Betti numbers mod 2 of a link, whose faces are given rank by rank, the face itself first."""
    ranks = [0]
    for lower, upper, boundary in zip(levels, levels[1:], boundaries, strict=False):
        bit = {face: 1 << number for number, face in enumerate(lower)}
        ranks.append(_rank_mod_2(sum(bit.get(f, 0) for f in boundary[g]) for g in upper))
    ranks.append(0)
    return [len(level) - ranks[k] - ranks[k + 1] for k, level in enumerate(levels)]


def _rank_mod_2(columns: Iterable[int]) -> int:
    """The rank of a matrix mod 2, whose columns are the bits of integers."""
    pivots: dict[int, int] = {}
    for column in columns:
        while column and column.bit_length() in pivots:
            column ^= pivots[column.bit_length()]
        if column:
            pivots[column.bit_length()] = column
    return len(pivots)
