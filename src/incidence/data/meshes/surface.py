"""How the triangles of a surface hang together, and their areas, angles, heights and bends in space.

A structure knows a face by its nodes alone, so the winding of a file is gone. It is found again: neighbours agree along the edges between
exactly two faces, and of the two ways that leaves for each part, the one that encloses a positive volume has its normals point out.
Coordinates stand first, [3, ...], so that sums over them are fast.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from incidence.data.lifts import edge_rows
from incidence.errors import IncidenceError
from incidence.geometry.manifolds import agreeing_signs
from incidence.structure import Structure
from incidence.symmetry.orbits import connect

__all__ = ["Shape", "Surface", "surface_of"]

_NO_SIDE = 1e-6  # of the area to the power 3/2: a smaller volume is rounding, and tells no side
_FLAT = 1e-9  # a face with less than this part of the square of its longest side is a line: the direction of its normal is rounding
_THIN = (
    1e-6  # a mesh with less area than this part of the squares of its edges has these for its unit
)


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
    """The triangles of a structure and their sides, which must be edges."""
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
    first, last = (
        torch.zeros_like(num_faces).scatter_reduce(0, flat, place, which, include_self=False)
        for which in ("amin", "amax")
    )
    places = torch.stack([first[inner], last[inner]])
    return Surface(faces, sides, num_faces, inner, places, torch.where(tails < heads, 1, -1))


def _outward(surface: Surface, normals: Tensor, centres: Tensor) -> tuple[Tensor, Tensor]:
    """The sign that turns the normal of every face out of its part of the surface, and whether there is an out; shape [faces].

    A part reaches across edges in two faces. Its volume is taken over its own centre, so that a part with a border counts too: a bowl has
    its normals on the side that bulges. A part that cannot be oriented, or that is as much on one side as on the other, has no out.
    Normals are as the corners are listed, and as long as the area; they and the centres of the faces have the shape [3, faces].
    """
    num_faces = surface.faces.shape[1]
    signs, is_fine = agreeing_signs(num_faces, surface.neighbours, surface.products)
    part = connect(torch.arange(num_faces), *surface.neighbours)
    areas = normals.norm(dim=0)
    sums = areas.new_zeros(4, num_faces).index_add_(
        1, part, torch.cat([centres * areas, areas[None]])
    )
    middle = sums[:3] / sums[3].clamp_min(torch.finfo(areas.dtype).tiny)
    inside = ((centres - middle[:, part]) * normals).sum(0) * signs
    volume = torch.zeros_like(areas).index_add_(0, part, inside)
    has_out = is_fine & (volume.abs() > _NO_SIDE * sums[3].pow(1.5))[part]
    return torch.where(volume[part] < 0, -signs, signs), has_out


class Shape:
    """What several features need, measured once.

    Args:
        structure: A mesh or a batch of meshes.
        surface: Its triangles.
        points: Shape [nodes, 2 or 3].

    Attributes:
        areas: Of the faces, shape [faces]; 0 for a face that is a line.
        angles: At every corner, shape [3, faces].
        heights: Of every corner over the side opposite to it, as a part of that side, shape [3, faces]; 0 over a side without length.
        lengths: Of the edges, shape [edges].
        unit: The area of every mesh, shape [meshes]; or if it has next to none, what the squares of its edges make of it.
    """

    def __init__(self, structure: Structure, surface: Surface, points: Tensor) -> None:
        self.structure, self.surface = structure, surface
        at = _scaled(structure, points)
        self._corners = _pick(at, surface.faces)  # (3, 3, faces): coordinate, corner, face
        one, two, three = self._corners.unbind(1)
        sides = (three - two, one - three, two - one)  # side k is opposite to corner k
        squares = [_dot(side, side) for side in sides]
        normals = _cross(sides[0], sides[1])
        double = _dot(normals, normals).sqrt()
        is_line = double <= _FLAT * torch.maximum(torch.maximum(squares[0], squares[1]), squares[2])
        double = double.masked_fill(is_line, 0.0)
        self._normals = normals.masked_fill(is_line, 0.0) / 2
        self.areas = double / 2
        self.angles = torch.stack(
            [torch.atan2(double, -_dot(sides[k - 2], sides[k - 1])) for k in range(3)]
        )
        self.heights = torch.stack(
            [double / torch.where(square > 0, square, 1.0) for square in squares]
        )
        tails, heads = _pick(at, structure["{i j}"]).unbind(1)
        self._along = heads - tails
        self.lengths = _dot(self._along, self._along).sqrt()
        zeros = self.areas.new_zeros(structure.num_structures)
        area = zeros.index_add(0, structure.batch("{i j k}"), self.areas)
        unit = torch.maximum(
            area, _THIN * zeros.index_add(0, structure.batch("{i j}"), self.lengths.square())
        )
        self.unit = torch.where(unit > 0, unit, 1.0)

    def bends(self, signs: Tensor | None = None) -> Tensor:
        """The dihedral angle at every edge, shape [edges]; `signs` may be known already, as they stay when a mesh is stretched."""
        surface = self.surface
        one, other = surface.neighbours
        ends = self.structure["{i j}"][:, surface.inner]
        # The edge as the first face walks it, and the second face turned to be walked the other way along it.
        turns = surface.turns.view(-1)[surface.places[0]] * torch.where(ends[0] < ends[1], 1, -1)
        axis = (
            self._along[:, surface.inner]
            / self.lengths[surface.inner].clamp_min(torch.finfo(torch.float64).tiny)
            * turns
        )
        ours, theirs = self._normals[:, one], self._normals[:, other] * surface.products
        angles = torch.atan2(_dot(_cross(ours, theirs), axis), _dot(ours, theirs))
        if signs is None:
            out, has_out = _outward(surface, self._normals, self._corners.sum(1) / 3)
            angles = torch.where(has_out[one], angles * out[one], angles.abs())
        else:
            angles = angles.abs() * signs[surface.inner]
        return torch.zeros_like(self.lengths).index_copy_(0, surface.inner, angles)


def _scaled(structure: Structure, points: Tensor) -> Tensor:
    """Coordinates in space about the middle of each mesh, none beyond 1, shape [3, nodes]: their squares neither overflow nor vanish."""
    at = torch.nn.functional.pad(points.double(), (0, 3 - points.shape[1])).T.contiguous()
    batch = structure.batch("i")
    rows, zeros = batch.expand(3, -1), at.new_zeros(3, structure.num_structures)
    low, high = (
        zeros.scatter_reduce(1, rows, at, which, include_self=False) for which in ("amin", "amax")
    )
    size = (high / 2 - low / 2).amax(0)
    return (at - (low / 2 + high / 2)[:, batch]) / torch.where(size > 0, size, 1.0)[batch]


def _pick(at: Tensor, nodes: Tensor) -> Tensor:
    return at.index_select(1, nodes.reshape(-1)).view(3, *nodes.shape)


def _dot(a: Tensor, b: Tensor) -> Tensor:
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]


def _cross(a: Tensor, b: Tensor) -> Tensor:
    return torch.stack([a[k - 2] * b[k - 1] - a[k - 1] * b[k - 2] for k in range(3)])
