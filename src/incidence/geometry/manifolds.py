r"""What shape faces make together: closed, pure, a manifold, orientable; and the incidence numbers of their boundaries.

The link of a face s is what the faces that contain s look like from s; it is told by their ranks and containment alone. A manifold is a
complex in which the link of every face is a sphere, or a ball at the boundary.

Incidence numbers are signs of the pairs (face, face of its boundary) with which the boundary of a boundary vanishes. For simplices there is
a formula. For other faces the signs follow rank by rank: two faces f, f' in the boundary of g that meet in h (one rank below) have
s(f,g) s(h,f) + s(f',g) s(h,f') = 0, which fixes the signs around g once one is chosen.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from incidence.errors import IncidenceError
from incidence.geometry.containment import is_simplicial, subfaces
from incidence.structure.ragged import MAX_ENTRIES, distinct, pairs
from incidence.symmetry.orbits import connect

if TYPE_CHECKING:
    from incidence.geometry.ranks import Faces

__all__ = [
    "agreeing_signs",
    "has_boundary_faces",
    "is_manifold",
    "is_orientable",
    "is_pure",
    "signs",
]


def signs(faces: Faces, rank: int) -> Tensor:
    """The sign of every pair of `faces.boundary(rank)`."""
    lower, upper = faces.of_rank(rank - 1), faces.of_rank(rank)
    if not upper.count or not lower.count:
        return faces.boundary(rank).new_zeros(0)
    # The formula asks for faces below that are oriented by it too.
    if all(is_simplicial(faces.of_rank(k - 1), faces.of_rank(k)) for k in range(1, rank + 1)):
        found = subfaces(lower, upper)  # the last position is left out first
        position = torch.arange(found.shape[1] - 1, -1, -1, device=found.device).expand_as(found)
        number = (1 - 2 * (position % 2))[found >= 0]
        for level, which in zip((lower, upper), faces.boundary(rank), strict=True):
            number = number if level.orientation is None else number * level.orientation[which]
        return number
    if rank > 1:
        return _propagated(faces, rank)
    _, edge = faces.boundary(1)
    is_bad = torch.bincount(edge, minlength=upper.count) != 2
    if is_bad.any():
        raise IncidenceError(
            f"{_name(faces, 1, is_bad)} does not have two nodes: only then it has an orientation."
        )
    return torch.tensor([-1, 1], device=edge.device).repeat(len(edge) // 2)


def _name(faces: Faces, rank: int, is_bad: Tensor) -> str:
    return f"face {int(is_bad.nonzero()[0])} of rank {rank} (`{faces.tensors[rank]}`)"


def _between(faces: Faces, rank: int) -> tuple[Tensor, Tensor, Tensor]:
    """All chains h < f < g of faces of three consecutive ranks, g of the given rank, by g and h.

    Returns:
        For every chain the place of (f, g) in `boundary(rank)` and of (h, f) in `boundary(rank - 1)`; and how many chains
        each pair h < g has.
    """
    lower, upper = faces.boundary(rank - 1), faces.boundary(rank)
    one, other = pairs(
        upper[0], lower[1], MAX_ENTRIES, f"there are too many chains of faces up to rank {rank}"
    )
    ends = upper[1, one] * max(faces.of_rank(rank - 2).count, 1) + lower[0, other]
    ordered, order = ends.sort(stable=True)
    return one[order], other[order], torch.unique_consecutive(ordered, return_counts=True)[1]


def _propagated(faces: Faces, rank: int) -> Tensor:
    below, upper = signs(faces, rank - 1), faces.boundary(rank)
    place, place_below, counts = _between(faces, rank)
    if (counts != 2).any():
        odd = place[(counts != 2).repeat_interleave(counts)]
        is_open = torch.bincount(upper[1, odd], minlength=faces.of_rank(rank).count) > 0
        found, times = place[(counts > 2).repeat_interleave(counts)].unique(return_counts=True)
        if (
            rank == 2 and (times == 2).any()
        ):  # edges of a polygon both of whose nodes have more than two edges there
            edges, owner = faces.boundary(2)[:, found[times == 2]]
            ends = [
                faces.of_rank(1).lists[edge].tolist() for edge in edges[owner == owner[0]].tolist()
            ]
            names = [f"{{{one} {other}}}" for one, other in ends]
            what = (
                f"the edge {names[0]} is a chord"
                if len(names) == 1
                else f"some of the edges {', '.join(names)} are chords"
            )
            raise IncidenceError(
                f"{what} of face {int(owner[0])} of rank 2 (`{faces.tensors[2]}`): its node set contains it, and does not tell it from a "
                f"side, so it has no orientation. Cut the face in two along the chord."
            )
        raise IncidenceError(
            f"{_name(faces, rank, is_open)} has no closed boundary: a face of rank {rank - 2} in it lies in other than two of its faces of "
            f"rank {rank - 1}. Add what is missing."
        )
    edges = place.view(-1, 2).T
    joined = connect(torch.arange(upper.shape[1], device=edges.device), *edges)
    is_split = torch.bincount(upper[1, joined.unique()], minlength=faces.of_rank(rank).count) > 1
    if is_split.any():
        raise IncidenceError(
            f"{_name(faces, rank, is_split)} has a boundary in several parts, so it has no orientation."
        )
    found, is_fine = agreeing_signs(upper.shape[1], edges, -below[place_below].view(-1, 2).prod(1))
    if not is_fine.all():
        is_bad = torch.bincount(upper[1, ~is_fine], minlength=faces.of_rank(rank).count) > 0
        raise IncidenceError(
            f"{_name(faces, rank, is_bad)} has a boundary that cannot be oriented."
        )
    return found


def agreeing_signs(num_nodes: int, edges: Tensor, products: Tensor) -> tuple[Tensor, Tensor]:
    """Signs of nodes whose product along every edge is as told; the smallest node of each component has +1.

    Two copies of every node, one for each sign, are joined where the signs go together. The component of a node has such signs
    iff the two copies of it are apart.

    Args:
        num_nodes: The number of nodes.
        edges: Shape [2, edges].
        products: +1 or -1 for every edge.

    Returns:
        The signs, shape [nodes], and whether each node has one.

    Example:
        >>> path = torch.tensor([[0, 1], [1, 2]])
        >>> agreeing_signs(3, path, torch.tensor([-1, -1]))[0].tolist()
        [1, -1, 1]
        >>> triangle = torch.tensor([[0, 1, 2], [1, 2, 0]])
        >>> agreeing_signs(3, triangle, torch.tensor([-1, -1, -1]))[1].tolist()
        [False, False, False]
    """
    shift = (products < 0).long() * num_nodes
    straight = torch.stack([edges[0], edges[1] + shift])
    mirrored = torch.stack([edges[0] + num_nodes, edges[1] + num_nodes - shift])
    plus, minus = connect(
        torch.arange(2 * num_nodes, device=edges.device), *torch.cat([straight, mirrored], dim=1)
    ).view(2, num_nodes)
    return torch.where(plus <= minus, 1, -1), plus != minus


def has_boundary_faces(faces: Faces, rank: int) -> bool:
    """Whether no face of a rank lacks a face of its boundary."""
    lower, upper = faces.of_rank(rank - 1), faces.of_rank(rank)
    found = faces.boundary(rank)
    if is_simplicial(lower, upper):
        return found.shape[1] == len(upper.lists.nodes)  # as many subfaces as nodes
    if rank > 1 and bool((_between(faces, rank)[2] != 2).any()):
        return False
    node, which = lower.lists.take(found[0]).index
    return len(distinct(found[1, which] * lower.num_nodes + node)) == len(upper.lists.nodes)


def is_pure(faces: Faces) -> bool:
    """Whether every face lies in one of the highest rank; a face that lies in some higher face need not be asked again."""
    for rank in range(faces.top):
        is_in = torch.zeros(
            faces.of_rank(rank).count, dtype=torch.bool, device=faces.of_rank(rank).structure.device
        )
        for higher in range(rank + 1, faces.top + 1):
            if is_in.all():
                break
            is_in[faces.incidence(rank, higher)[0]] = True
        if not is_in.all():
            return False
    return True


def _is_pseudomanifold(faces: Faces) -> bool:
    if not faces.is_closed or not faces.is_pure:
        return False
    # Boundaries must look like those of cells: an edge has two nodes, and between faces two ranks apart there are two.
    if faces.top and not bool((faces.of_rank(1).lists.sizes == 2).all()):
        return False
    for rank in range(2, faces.top + 1):
        if not is_simplicial(faces.of_rank(rank - 1), faces.of_rank(rank)) and bool(
            (_between(faces, rank)[2] != 2).any()
        ):
            return False
    return faces.top == 0 or bool((_degrees(faces) <= 2).all())


def _degrees(faces: Faces) -> Tensor:
    """How many faces of the highest rank each face one below lies in."""
    return torch.bincount(
        faces.boundary(faces.top)[0], minlength=faces.of_rank(faces.top - 1).count
    )


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
        if (
            codimension == 3
        ):  # links are connected surfaces, of which spheres alone have Euler characteristic 2, and discs 1 and a boundary
            up = [
                torch.bincount(faces.incidence(rank, k)[0], minlength=faces.of_rank(rank).count)
                for k in range(rank + 1, faces.top + 1)
            ]
            if bool((up[0] - up[1] + up[2] != 2 - _is_at_boundary(faces, rank).long()).any()):
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
    spot = torch.full(
        (faces.of_rank(faces.top - 1).count,), -1, dtype=torch.long, device=face.device
    )
    spot[ridges] = torch.arange(len(ridges), device=face.device)
    face, ridge = faces.incidence(rank, faces.top - 1)
    inner = spot[ridge] >= 0
    facets = faces.boundary(faces.top)[1][both[:, spot[ridge[inner]]]]  # (2, pairs)
    ends = order[torch.searchsorted(ordered, face[inner] * faces.of_rank(faces.top).count + facets)]
    return (
        len(connect(torch.arange(len(stars), device=face.device), *ends).unique())
        == faces.of_rank(rank).count
    )


def _is_at_boundary(faces: Faces, rank: int) -> Tensor:
    """Whether each face of a rank lies in a ridge that has one facet only."""
    face, ridge = faces.incidence(rank, faces.top - 1)
    found = torch.zeros(faces.of_rank(rank).count, dtype=torch.bool, device=face.device)
    found[face[_degrees(faces)[ridge] == 1]] = True
    return found


def _has_homology_of_spheres(faces: Faces, rank: int) -> bool:
    """Whether links have the homology of a sphere, or of a ball at the boundary, with coefficients mod 2."""
    at_boundary = _is_at_boundary(faces, rank).tolist()
    above = [_grouped(faces.incidence(rank, higher)) for higher in range(rank + 1, faces.top + 1)]
    boundaries = [
        _grouped(faces.boundary(higher).flip(0)) for higher in range(rank + 1, faces.top + 1)
    ]
    for face, has_boundary in enumerate(at_boundary):
        levels, ranks = (
            [[face], *(level[face] for level in above)],
            [0],
        )  # of the link, the face itself first
        for lower, upper, boundary in zip(levels, levels[1:], boundaries, strict=False):
            bit = {own: 1 << number for number, own in enumerate(lower)}
            ranks.append(_rank_mod_2(sum(bit.get(own, 0) for own in boundary[g]) for g in upper))
        betti = [
            len(level) - one - other
            for level, one, other in zip(levels, ranks, [*ranks[1:], 0], strict=True)
        ]  # reduced
        if betti != [0] * (len(betti) - 1) + [1 - has_boundary]:
            return False
    return True


def _grouped(found: Tensor) -> dict[int, list[int]]:
    """For every number of the first row the numbers below it."""
    groups: dict[int, list[int]] = {}
    for one, other in found.T.tolist():
        groups.setdefault(one, []).append(other)
    return groups


def _rank_mod_2(columns: Iterable[int]) -> int:
    """The rank of a matrix mod 2, whose columns are the bits of integers."""
    pivots: dict[int, int] = {}
    for column in columns:
        while column and column.bit_length() in pivots:
            column ^= pivots[column.bit_length()]
        if column:
            pivots[column.bit_length()] = column
    return len(pivots)
