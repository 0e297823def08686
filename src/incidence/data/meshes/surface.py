"""How the triangles of a surface hang together: sides, neighbours across edges, and which side is out.

A structure knows a face by its nodes alone, so the winding of a file is gone. It is found again: neighbours agree along the edges between
exactly two faces, and of the two ways that leaves for each part, the one that encloses a positive volume has its normals point out.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from incidence.data.lifts import edge_rows
from incidence.errors import IncidenceError
from incidence.geometry.orientation import agreeing_signs
from incidence.structure import Structure
from incidence.symmetry.orbits import connect

__all__ = ["Surface", "outward", "surface_of"]

_NO_SIDE = 1e-6  # of the area to the power 3/2: a smaller volume is rounding, and tells no side


@dataclass(frozen=True)
class Surface:
    """The triangles of a structure, or of a batch, in the order of its entries.

    Attributes:
        faces: The corners of every face, shape [3, faces].
        sides: The row in `{i j}` of the side opposite to each corner, shape [3, faces].
        num_faces: In how many faces every edge is, shape [edges].
        inner: The rows of the edges that are in exactly two faces, shape [inner].
        places: Where in `sides`, read row by row, the two sides that are such an edge stand, shape [2, inner].
        turns: +1 or -1 for every place of `sides`, whether it runs to the larger node as its face is walked; shape [3, faces].
    """

    faces: Tensor
    sides: Tensor
    num_faces: Tensor
    inner: Tensor
    places: Tensor
    turns: Tensor

    @property
    def neighbours(self) -> Tensor:
        """The two faces at every inner edge, shape [2, inner]."""
        return self.places % max(self.faces.shape[1], 1)

    @property
    def products(self) -> Tensor:
        """+1 for every inner edge whose two faces list their corners the same way round, -1 for the others; shape [inner]."""
        turns = self.turns.view(-1)[self.places]
        return -turns[0] * turns[1]


def surface_of(structure: Structure) -> Surface:
    """The triangles of a structure and their sides.

    Raises:
        IncidenceError: The structure has no `{i j}` or no `{i j k}`, or a side of a triangle is no edge.
    """
    edges, faces = structure["{i j}"], structure["{i j k}"]
    tails, heads = faces[[1, 2, 0]], faces[[2, 0, 1]]  # (3, faces), side k opposite to corner k
    sides = edge_rows(structure, tails, heads)  # (3, faces)
    if bool((sides < 0).any()):
        one, other = (int(ends[sides < 0][0]) for ends in (tails, heads))
        raise IncidenceError(
            f"a triangle has the side {{{one} {other}}}, which is no entry of `{{i j}}`: all sides must be there. "
            f"Build the structure with `geometry.mesh`."
        )
    flat = sides.reshape(-1)
    num_faces = torch.bincount(flat, minlength=edges.shape[1])
    inner = (num_faces == 2).nonzero()[:, 0]
    place = torch.arange(len(flat), device=flat.device)
    first, last = (torch.zeros_like(num_faces).scatter_reduce(0, flat, place, which, include_self=False) for which in ("amin", "amax"))
    places = torch.stack([first[inner], last[inner]])
    return Surface(faces, sides, num_faces, inner, places, torch.where(tails < heads, 1, -1))


def outward(surface: Surface, normals: Tensor, centres: Tensor) -> tuple[Tensor, Tensor]:
    """The sign that turns the normal of every face out of its part of the surface, and whether there is an out; shape [faces].

    A part reaches across edges in two faces. Its volume is taken over its own centre, so that a part with a border counts too: a bowl has
    its normals on the side that bulges. A part that cannot be oriented, or that is as much on one side as on the other, has no out.

    Args:
        surface: The triangles.
        normals: As the corners are listed, as long as the area, shape [3, faces].
        centres: Of the faces, shape [3, faces].
    """
    num_faces = surface.faces.shape[1]
    signs, is_fine = agreeing_signs(num_faces, surface.neighbours, surface.products)
    part = connect(torch.arange(num_faces), *surface.neighbours)
    areas = normals.norm(dim=0)
    sums = areas.new_zeros(4, num_faces).index_add_(1, part, torch.cat([centres * areas, areas[None]]))
    middle = sums[:3] / sums[3].clamp_min(torch.finfo(areas.dtype).tiny)
    inside = ((centres - middle[:, part]) * normals).sum(0) * signs
    volume = torch.zeros_like(areas).index_add_(0, part, inside)
    has_out = is_fine & (volume.abs() > _NO_SIDE * sums[3].pow(1.5))[part]
    return torch.where(volume[part] < 0, -signs, signs), has_out
