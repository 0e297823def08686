r"""The shape that faces make together: closed, pure, a manifold, orientable; and the incidence
numbers of their boundaries.

The link of a face s is what the faces that contain s look like from s. Their ranks and containment
determine it. A manifold is a complex in which the link of every face is a sphere, or a
ball at the boundary.

Incidence numbers are signs of the pairs (face, face of its boundary) with which the boundary of a
boundary vanishes. For simplices there is a formula. For other faces the signs follow rank by rank:
two faces f, f' in the boundary of g that meet in h (one rank below) have s(f,g) s(h,f) + s(f',g)
s(h,f') = 0, which fixes the signs around g once one is chosen.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, NoReturn

import torch
from torch import Tensor

from incidence.errors import IncidenceError
from incidence.structure.ragged import MAX_ENTRIES, distinct, pairs
from incidence.symmetry.group import connect

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
    """Return the sign of every pair of `faces.boundary(rank)`."""
    lower = faces.of_rank(rank - 1)
    upper = faces.of_rank(rank)
    if not upper.count or not lower.count:
        return faces.boundary(rank).new_zeros(0)
    # The formula needs faces below that it orients, too.
    if all(_is_simplicial(faces, k) for k in range(1, rank + 1)):
        rows = upper.subfaces(lower)  # (faces, subfaces); the first lacks the last position
        position = torch.arange(rows.shape[1] - 1, -1, -1, device=rows.device).expand_as(rows)
        numbers = (1 - 2 * (position % 2))[rows >= 0]  # (pairs,), as `boundary` lists them
        for level, which in zip((lower, upper), faces.boundary(rank), strict=True):
            if level.orientation is not None:
                numbers = numbers * level.orientation[which]
        return numbers
    if rank > 1:
        return _propagated(faces, rank)
    _, edge = faces.boundary(1)
    is_bad = torch.bincount(edge, minlength=upper.count) != 2
    if is_bad.any():
        raise IncidenceError(
            f"{_name(faces, 1, is_bad)} does not have two nodes, so it has no orientation. Remove"
            " it."
        )
    # from the smaller node to the larger
    return torch.tensor([-1, 1], device=edge.device).repeat(len(edge) // 2)


def _is_simplicial(faces: Faces, rank: int) -> bool:
    return faces.of_rank(rank).is_simplicial_over(faces.of_rank(rank - 1))


def _name(faces: Faces, rank: int, is_bad: Tensor) -> str:
    return f"face {int(is_bad.nonzero()[0])} of rank {rank} (`{faces.tensors[rank]}`)"


def _between(faces: Faces, rank: int) -> tuple[Tensor, Tensor, Tensor]:
    """All chains h < f < g of faces of three consecutive ranks, g of the given rank, by g and h.

    Returns:
        For every chain the place of (f, g) in `boundary(rank)` and of (h, f) in `boundary(rank -
        1)`; and how many chains each pair h < g has.
    """
    lower = faces.boundary(rank - 1)
    upper = faces.boundary(rank)
    problem = f"there are too many chains of faces up to rank {rank}"
    one, other = pairs(upper[0], lower[1], MAX_ENTRIES, problem)
    ends = upper[1, one] * max(faces.of_rank(rank - 2).count, 1) + lower[0, other]
    ordered, order = ends.sort(stable=True)
    return one[order], other[order], torch.unique_consecutive(ordered, return_counts=True)[1]


def _propagated(faces: Faces, rank: int) -> Tensor:
    """The signs of a rank from those of the rank below."""
    below = signs(faces, rank - 1)
    upper = faces.boundary(rank)
    num_pairs = upper.shape[1]
    place, place_below, counts = _between(faces, rank)
    if (counts != 2).any():
        _refuse_open(faces, rank, place, counts)
    edges = place.view(-1, 2).T  # (2, chains)
    joined = connect(torch.arange(num_pairs, device=edges.device), *edges)
    is_split = _faces_with(faces, rank, joined.unique()) > 1
    if is_split.any():
        raise IncidenceError(
            f"{_name(faces, rank, is_split)} has a boundary in several parts, so it has no"
            " orientation. Split the face."
        )
    products = -below[place_below].view(-1, 2).prod(1)  # (chains / 2,)
    found, is_fine = agreeing_signs(num_pairs, edges, products)
    if not is_fine.all():
        is_bad = _faces_with(faces, rank, ~is_fine) > 0
        raise IncidenceError(
            f"{_name(faces, rank, is_bad)} has a boundary that cannot be oriented."
        )
    return found


def _faces_with(faces: Faces, rank: int, pairs_of_boundary: Tensor) -> Tensor:
    """How many of some pairs of `boundary(rank)` belong to each face of the rank."""
    owners = faces.boundary(rank)[1, pairs_of_boundary]
    return torch.bincount(owners, minlength=faces.of_rank(rank).count)


def _refuse_open(faces: Faces, rank: int, place: Tensor, counts: Tensor) -> NoReturn:
    """Name a face whose boundary is not closed, and its chords if it is a polygon."""
    chains = counts.repeat_interleave(counts)
    spots, times = place[chains > 2].unique(return_counts=True)
    # Both nodes of a chord have more than two edges in the polygon.
    if rank == 2 and (times == 2).any():
        edges, owner = faces.boundary(2)[:, spots[times == 2]]
        chords = edges[owner == owner[0]].tolist()
        ends = [faces.of_rank(1).lists[edge].tolist() for edge in chords]
        names = [f"{{{one} {other}}}" for one, other in ends]
        what = f"some of the edges {', '.join(names)} are chords"
        if len(names) == 1:
            what = f"the edge {names[0]} is a chord"
        raise IncidenceError(
            f"{what} of face {int(owner[0])} of rank 2 (`{faces.tensors[2]}`): a node set does not"
            " show which edges are sides, so it has no orientation. Cut the face in two along the"
            " chord."
        )
    is_open = _faces_with(faces, rank, place[chains != 2]) > 0
    raise IncidenceError(
        f"{_name(faces, rank, is_open)} has no closed boundary: a face of rank {rank - 2} in it"
        f" lies in other than two of its faces of rank {rank - 1}. Add what is missing."
    )


def agreeing_signs(num_nodes: int, edges: Tensor, products: Tensor) -> tuple[Tensor, Tensor]:
    """Return signs of nodes with given products along edges; the smallest node of each component
    has +1.

    Two copies of every node, one for each sign, are joined where the signs go together. The
    component of a node has such signs iff the two copies of it are apart.

    Args:
        num_nodes: The number of nodes.
        edges: Shape [2, edges].
        products: The product of the signs of its ends, +1 or -1, for every edge.

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
    # Ends with equal signs join plus to plus; with opposite signs, plus to minus.
    shift = (products < 0).long() * num_nodes
    straight = torch.stack([edges[0], edges[1] + shift])
    mirrored = torch.stack([edges[0] + num_nodes, edges[1] + num_nodes - shift])
    copies = torch.arange(2 * num_nodes, device=edges.device)
    components = connect(copies, *torch.cat([straight, mirrored], dim=1))
    plus, minus = components.view(2, num_nodes)  # the component of both copies of each node
    return torch.where(plus <= minus, 1, -1), plus != minus


def has_boundary_faces(faces: Faces, rank: int) -> bool:
    """Return whether no face of a rank lacks a face of its boundary."""
    lower = faces.of_rank(rank - 1)
    upper_nodes = faces.of_rank(rank).lists.nodes
    below, owner = faces.boundary(rank)
    if _is_simplicial(faces, rank):
        return len(below) == len(upper_nodes)  # as many subfaces as nodes
    if rank > 1 and not _has_diamonds(faces, rank):
        return False
    node, which = lower.lists.take(below).index
    return len(distinct(owner[which] * lower.num_nodes + node)) == len(upper_nodes)


def _has_diamonds(faces: Faces, rank: int) -> bool:
    """Whether there are two faces between any two that differ by two ranks."""
    _, _, counts = _between(faces, rank)
    return bool((counts == 2).all())


def is_pure(faces: Faces) -> bool:
    """Return whether every face lies in one of the highest rank."""
    for rank in range(faces.top):
        level = faces.of_rank(rank)
        is_in = torch.zeros(level.count, dtype=torch.bool, device=level.structure.device)
        # That higher face lies in one of the highest rank, as later rounds show.
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
    # Boundaries must look like those of cells: an edge has two nodes, and between faces two ranks
    # apart there are two.
    if faces.top and not bool((faces.of_rank(1).lists.sizes == 2).all()):
        return False
    for rank in range(2, faces.top + 1):
        if not _is_simplicial(faces, rank) and not _has_diamonds(faces, rank):
            return False
    return faces.top == 0 or bool((_degrees(faces) <= 2).all())


def _degrees(faces: Faces) -> Tensor:
    """How many faces of the highest rank each face one below lies in."""
    ridges = faces.boundary(faces.top)[0]
    return torch.bincount(ridges, minlength=faces.of_rank(faces.top - 1).count)


def _neighbours(faces: Faces) -> tuple[Tensor, Tensor]:
    """The places in `boundary(top)` of the two pairs (ridge, facet) of every ridge in two facets,
    shape [2, ridges]; and these ridges.
    """
    ridge, order = faces.boundary(faces.top)[0].sort(stable=True)
    first = (ridge[1:] == ridge[:-1]).nonzero()[:, 0]
    return torch.stack([order[first], order[first + 1]]), ridge[first]


def is_orientable(faces: Faces) -> bool:
    """Return whether facets can have signs that cancel on every ridge that two of them share."""
    if not _is_pseudomanifold(faces):
        return False
    if faces.top == 0:
        return True
    both, _ = _neighbours(faces)
    number = faces.signs(faces.top)
    facet = faces.boundary(faces.top)[1]
    products = -number[both].prod(0)
    _, is_fine = agreeing_signs(faces.of_rank(faces.top).count, facet[both], products)
    return bool(is_fine.all())


def is_manifold(faces: Faces) -> bool:
    """Return whether links are spheres or balls, from ridges (those of a pseudomanifold) down to
    nodes.
    """
    if not _is_pseudomanifold(faces):
        return False
    for rank in range(faces.top - 2, -1, -1):
        codimension = faces.top - rank
        if codimension <= 3 and not _has_connected_links(faces, rank):
            return False
        # Links are connected surfaces. Of these only spheres have Euler characteristic 2, and only
        # discs 1 and a boundary.
        if codimension == 3:
            nodes, edges, polygons = (
                torch.bincount(faces.incidence(rank, k)[0], minlength=faces.of_rank(rank).count)
                for k in range(rank + 1, faces.top + 1)
            )
            expected = 2 - _is_at_boundary(faces, rank).long()
            if bool((nodes - edges + polygons != expected).any()):
                return False
        if codimension > 3 and not _has_homology_of_spheres(faces, rank):
            return False
    return True


def _has_connected_links(faces: Faces, rank: int) -> bool:
    """Whether one can walk between any two facets around a face across ridges that contain it."""
    num_facets = faces.of_rank(faces.top).count
    face, facet = faces.incidence(rank, faces.top)
    stars, order = (face * num_facets + facet).sort()  # pairs (face, facet) as codes
    both, ridges = _neighbours(faces)
    spot = torch.full_like(_degrees(faces), -1)  # of every ridge in `both`
    spot[ridges] = torch.arange(len(ridges), device=face.device)
    face, ridge = faces.incidence(rank, faces.top - 1)
    is_inner = spot[ridge] >= 0
    facets = faces.boundary(faces.top)[1][both[:, spot[ridge[is_inner]]]]  # (2, pairs)
    ends = order[torch.searchsorted(stars, face[is_inner] * num_facets + facets)]
    components = connect(torch.arange(len(stars), device=face.device), *ends)
    return len(components.unique()) == faces.of_rank(rank).count


def _is_at_boundary(faces: Faces, rank: int) -> Tensor:
    """Whether each face of a rank lies in a ridge that has one facet only."""
    face, ridge = faces.incidence(rank, faces.top - 1)
    is_at = torch.zeros(faces.of_rank(rank).count, dtype=torch.bool, device=face.device)
    is_at[face[_degrees(faces)[ridge] == 1]] = True
    return is_at


def _has_homology_of_spheres(faces: Faces, rank: int) -> bool:
    """Whether links have the homology of a sphere, or of a ball at the boundary, with coefficients
    mod 2.
    """
    higher = range(rank + 1, faces.top + 1)
    above = [_grouped(faces.incidence(rank, k)) for k in higher]
    boundaries = [_grouped(faces.boundary(k).flip(0)) for k in higher]
    for face, is_at_boundary in enumerate(_is_at_boundary(faces, rank).tolist()):
        # the faces of the link by rank, the face itself first
        levels = [[face], *(level[face] for level in above)]
        ranks = [0]
        for lower, upper, boundary in zip(levels, levels[1:], boundaries, strict=False):
            bit = {f: 1 << number for number, f in enumerate(lower)}
            columns = (sum(bit.get(f, 0) for f in boundary[g]) for g in upper)
            ranks.append(_rank_mod_2(columns))
        rows = zip(levels, ranks, [*ranks[1:], 0], strict=True)
        betti = [len(level) - below - up for level, below, up in rows]  # reduced
        if betti != [0] * (len(betti) - 1) + [0 if is_at_boundary else 1]:
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
