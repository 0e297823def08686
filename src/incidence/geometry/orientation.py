r"""Incidence numbers: signs of the pairs (face, face of its boundary) with which the boundary of a boundary vanishes.

For simplices there is a formula. For other faces the signs follow rank by rank: two faces f, f' in the boundary of g that meet in h (one
rank below) have s(f,g) s(h,f) + s(f',g) s(h,f') = 0, which fixes the signs around g once one is chosen.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from incidence.errors import IncidenceError
from incidence.geometry.containment import is_simplicial, subfaces
from incidence.structure.ragged import MAX_ENTRIES, pairs
from incidence.symmetry.orbits import connect

if TYPE_CHECKING:
    from incidence.geometry.ranks import Faces

__all__ = ["agreeing_signs", "between", "signs"]


def signs(faces: Faces, rank: int) -> Tensor:
    """The sign of every pair of `faces.boundary(rank)`."""
    lower, upper = faces.of_rank(rank - 1), faces.of_rank(rank)
    if not upper.count or not lower.count:
        return faces.boundary(rank).new_zeros(0)
    # The formula asks for faces below that are oriented by it too.
    if all(is_simplicial(faces.of_rank(k - 1), faces.of_rank(k)) for k in range(1, rank + 1)):
        found = subfaces(lower, upper)  # the last position is left out first
        position = torch.arange(found.shape[1] - 1, -1, -1, device=found.device).expand_as(found)
        return 1 - 2 * (position[found >= 0] % 2)
    if rank == 1:
        return _ends(faces)
    return _propagated(faces, rank)


def _ends(faces: Faces) -> Tensor:
    _, edge = faces.boundary(1)
    is_bad = torch.bincount(edge, minlength=faces.of_rank(1).count) != 2
    if is_bad.any():
        raise IncidenceError(f"{_name(faces, 1, is_bad)} does not have two nodes: only then it has an orientation.")
    return torch.tensor([-1, 1], device=edge.device).repeat(len(edge) // 2)


def _name(faces: Faces, rank: int, is_bad: Tensor) -> str:
    return f"face {int(is_bad.nonzero()[0])} of rank {rank} (`{faces.tensors[rank]}`)"


def between(faces: Faces, rank: int) -> tuple[Tensor, Tensor, Tensor]:
    """All chains h < f < g of faces of three consecutive ranks, g of the given rank, by g and h.

    Returns:
        For every chain the place of (f, g) in `boundary(rank)` and of (h, f) in `boundary(rank - 1)`; and how many chains
        each pair h < g has.
    """
    lower, upper = faces.boundary(rank - 1), faces.boundary(rank)
    one, other = pairs(upper[0], lower[1], MAX_ENTRIES, f"there are too many chains of faces up to rank {rank}")
    ends = upper[1, one] * max(faces.of_rank(rank - 2).count, 1) + lower[0, other]
    ordered, order = ends.sort(stable=True)
    return one[order], other[order], torch.unique_consecutive(ordered, return_counts=True)[1]


def _refuse_chord(faces: Faces, rank: int, crowded: Tensor) -> None:
    """Names the edges of a polygon both of whose nodes have more than two edges there; given are places in the boundary, one a node."""
    found, times = crowded.unique(return_counts=True)
    if rank != 2 or not (times == 2).any():
        return
    edges, owner = faces.boundary(2)[:, found[times == 2]]
    ends = [faces.of_rank(1).lists[edge].tolist() for edge in edges[owner == owner[0]].tolist()]
    names = [f"{{{one} {other}}}" for one, other in ends]
    what = f"the edge {names[0]} is a chord" if len(names) == 1 else f"some of the edges {', '.join(names)} are chords"
    raise IncidenceError(
        f"{what} of face {int(owner[0])} of rank 2 (`{faces.tensors[2]}`): its node set contains it, and does not tell it from a "
        f"side, so it has no orientation. Cut the face in two along the chord."
    )


def _propagated(faces: Faces, rank: int) -> Tensor:
    below, upper = signs(faces, rank - 1), faces.boundary(rank)
    place, place_below, counts = between(faces, rank)
    if (counts != 2).any():
        odd = place[(counts != 2).repeat_interleave(counts)]
        is_open = torch.bincount(upper[1, odd], minlength=faces.of_rank(rank).count) > 0
        _refuse_chord(faces, rank, place[(counts > 2).repeat_interleave(counts)])
        raise IncidenceError(
            f"{_name(faces, rank, is_open)} has no closed boundary: a face of rank {rank - 2} in it lies in other than two of its faces of "
            f"rank {rank - 1}. Add what is missing."
        )
    edges = place.view(-1, 2).T
    joined = connect(torch.arange(upper.shape[1], device=edges.device), *edges)
    is_split = torch.bincount(upper[1, joined.unique()], minlength=faces.of_rank(rank).count) > 1
    if is_split.any():
        raise IncidenceError(f"{_name(faces, rank, is_split)} has a boundary in several parts, so it has no orientation.")
    found, is_fine = agreeing_signs(upper.shape[1], edges, -below[place_below].view(-1, 2).prod(1))
    if not is_fine.all():
        is_bad = torch.bincount(upper[1, ~is_fine], minlength=faces.of_rank(rank).count) > 0
        raise IncidenceError(f"{_name(faces, rank, is_bad)} has a boundary that cannot be oriented.")
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
    plus, minus = connect(torch.arange(2 * num_nodes, device=edges.device), *torch.cat([straight, mirrored], dim=1)).view(2, num_nodes)
    return torch.where(plus <= minus, 1, -1), plus != minus
