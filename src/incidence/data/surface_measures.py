r"""How the triangles of a mesh hang together: sides, windings, angles, heights and areas.

A structure stores a face as a set of nodes, without the winding of a file. `surface_of` computes
the winding again: neighbours agree along the edges between exactly two faces. That leaves two
windings for each part; the right one encloses a positive volume, so that its normals point out.
Coordinates come first, [3, ...], so that sums over them are fast.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from incidence.data.lifts import edge_rows
from incidence.errors import IncidenceError
from incidence.geometry.manifolds import agreeing_signs
from incidence.structure import Structure
from incidence.symmetry.group import connect

__all__ = ["Surface", "SurfaceMeasures", "surface_of"]

# A volume below this part of the area to the power 3/2 is rounding: it decides no side.
_NO_SIDE = 1e-6
# A face with less than this part of the square of its longest side is a line: the direction of its
# normal is rounding.
_FLAT = 1e-9
# A mesh with less area than this part of the squares of its edges has these for its unit.
_THIN = 1e-6


@dataclass(frozen=True)
class Surface:
    """The triangles of a structure, or of a batch, in the order of its entries.

    Attributes:
        faces: The corners of every face, [3, faces].
        sides: The row in `{i j}` of the side opposite to each corner, [3, faces].
        num_faces: How many faces every edge is in, [edges].
        inner: The rows of the edges that are in exactly two faces, [inner].
        places: The two places of such an edge in `sides`, read row by row, [2, inner].
        turns: For every place of `sides`, +1 if its face is walked towards the larger node, else
            -1; [3, faces].
    """

    faces: Tensor
    sides: Tensor
    num_faces: Tensor
    inner: Tensor
    places: Tensor
    turns: Tensor

    @property
    def neighbours(self) -> Tensor:
        """The two faces at every inner edge, [2, inner]."""
        return self.places % max(self.faces.shape[1], 1)

    @property
    def products(self) -> Tensor:
        """+1 for every inner edge whose two faces wind alike, -1 for the others; [inner]."""
        turns = self.turns.view(-1)[self.places]
        return -turns[0] * turns[1]


def surface_of(structure: Structure) -> Surface:
    """Return the triangles of a structure.

    Raises:
        IncidenceError: A side of a triangle is no edge.
    """
    edges, faces = structure["{i j}"], structure["{i j k}"]
    tails, heads = faces[[1, 2, 0]], faces[[2, 0, 1]]  # (3, faces), side k opposite to corner k
    sides = edge_rows(structure, tails, heads)  # (3, faces)
    if bool((sides < 0).any()):
        one, other = (int(ends[sides < 0][0]) for ends in (tails, heads))
        raise IncidenceError(
            f"a triangle has the side {{{one} {other}}}, which is no entry of `{{i j}}`: all sides"
            " must be there. Build the structure with `geometry.mesh`."
        )
    flat = sides.reshape(-1)
    num_faces = torch.bincount(flat, minlength=edges.shape[1])
    inner = (num_faces == 2).nonzero()[:, 0]
    place = torch.arange(len(flat), device=flat.device)
    # The two places of an inner edge are the smallest and the largest: no sort is needed.
    first, last = (
        torch.zeros_like(num_faces).scatter_reduce(0, flat, place, which, include_self=False)
        for which in ("amin", "amax")
    )
    places = torch.stack([first[inner], last[inner]])
    return Surface(faces, sides, num_faces, inner, places, torch.where(tails < heads, 1, -1))


def _outward(surface: Surface, normals: Tensor, centres: Tensor) -> tuple[Tensor, Tensor]:
    """Return the sign that turns every normal out of its part of the surface, and if there is one.

    A part reaches across edges in two faces. Its volume is computed about its centre, so that a
    part with a border counts too: a bowl has its normals on the side that bulges. A part that
    cannot be oriented, or that is as much on one side as on the other, has no outside.

    Args:
        surface: The triangles.
        normals: Normals as the corners are listed, as long as the area, [3, faces].
        centres: The centres of the faces, [3, faces].

    Returns:
        The signs, and whether there is an outside, [faces] each.
    """
    num_faces = surface.faces.shape[1]
    signs, can_be_oriented = agreeing_signs(num_faces, surface.neighbours, surface.products)
    part = connect(torch.arange(num_faces), *surface.neighbours)  # the part of every face
    areas = normals.norm(dim=0)
    weighted = torch.cat([centres * areas, areas[None]])  # (4, faces)
    sums = areas.new_zeros(4, num_faces).index_add_(1, part, weighted)
    middle = sums[:3] / sums[3].clamp_min(torch.finfo(areas.dtype).tiny)
    # three times the volume of a cone
    inside = ((centres - middle[:, part]) * normals).sum(0) * signs
    volume = torch.zeros_like(areas).index_add_(0, part, inside)
    has_outside = can_be_oriented & (volume.abs() > _NO_SIDE * sums[3].pow(1.5))[part]
    return torch.where(volume[part] < 0, -signs, signs), has_outside


class SurfaceMeasures:
    """Measures of a surface that several features need.

    Args:
        structure: A mesh or a batch of meshes.
        surface: Its triangles.
        points: The coordinates, [nodes, 2 or 3].

    Attributes:
        areas: The areas of the faces, [faces]; 0 for a face that is a line.
        angles: The angle at every corner, [3, faces].
        heights: The height of every corner over the side opposite to it, as a part of that side,
            [3, faces]; 0 over a side without length.
        lengths: The lengths of the edges, [edges].
        unit: The area of every mesh, [meshes]; if it has next to none, the squares of its edges.
    """

    def __init__(self, structure: Structure, surface: Surface, points: Tensor) -> None:
        self.structure, self.surface = structure, surface
        at = _scaled(structure, points)
        self._corners = _pick(at, surface.faces)  # (3, 3, faces): coordinate, corner, face
        one, two, three = self._corners.unbind(1)
        sides = (three - two, one - three, two - one)  # side k is opposite to corner k
        squares = [_dot(side, side) for side in sides]
        normals = _cross(sides[0], sides[1])  # (3, faces)
        double = _dot(normals, normals).sqrt()  # twice the area
        longest = torch.maximum(torch.maximum(squares[0], squares[1]), squares[2])
        is_line = double <= _FLAT * longest
        double = double.masked_fill(is_line, 0.0)
        self._normals = normals.masked_fill(is_line, 0.0) / 2
        self.areas = double / 2
        self.angles = torch.stack(
            # atan2 stays exact near 0 and pi, where the arc cosine loses half of its digits.
            [torch.atan2(double, -_dot(sides[k - 2], sides[k - 1])) for k in range(3)]
        )
        self.heights = torch.stack(
            [double / torch.where(square > 0, square, 1.0) for square in squares]
        )
        tails, heads = _pick(at, structure["{i j}"]).unbind(1)
        self._along = heads - tails
        self.lengths = _dot(self._along, self._along).sqrt()
        zeros = self.areas.new_zeros(structure.num_structures)
        area = zeros.index_add(0, structure.batch("{i j k}"), self.areas)  # (meshes,)
        squares_of_edges = zeros.index_add(0, structure.batch("{i j}"), self.lengths.square())
        unit = torch.maximum(area, _THIN * squares_of_edges)
        self.unit = torch.where(unit > 0, unit, 1.0)

    def dihedral_angles(self, signs: Tensor | None = None) -> Tensor:
        """Return the dihedral angle at every edge, [edges].

        Args:
            signs: The signs of the angles, if they are known: stretching does not change them.
        """
        surface = self.surface
        one, other = surface.neighbours
        ends = self.structure["{i j}"][:, surface.inner]
        # The edge as the first face walks it, and the second face turned to be walked the other way
        # along it.
        towards_larger = torch.where(ends[0] < ends[1], 1, -1)
        turns = surface.turns.view(-1)[surface.places[0]] * towards_larger
        lengths = self.lengths[surface.inner].clamp_min(torch.finfo(torch.float64).tiny)
        axis = self._along[:, surface.inner] / lengths * turns
        ours, theirs = self._normals[:, one], self._normals[:, other] * surface.products
        angles = torch.atan2(_dot(_cross(ours, theirs), axis), _dot(ours, theirs))  # (inner,)
        if signs is None:
            out, has_outside = _outward(surface, self._normals, self._corners.sum(1) / 3)
            angles = torch.where(has_outside[one], angles * out[one], angles.abs())
        else:
            angles = angles.abs() * signs[surface.inner]
        return torch.zeros_like(self.lengths).index_copy_(0, surface.inner, angles)


def _scaled(structure: Structure, points: Tensor) -> Tensor:
    """Return coordinates about the middle of each mesh, none beyond 1, [3, nodes].

    Their squares neither overflow nor vanish.
    """
    at = torch.nn.functional.pad(points.double(), (0, 3 - points.shape[1])).T.contiguous()
    batch = structure.batch("i")
    rows, zeros = batch.expand(3, -1), at.new_zeros(3, structure.num_structures)
    low, high = (
        zeros.scatter_reduce(1, rows, at, which, include_self=False) for which in ("amin", "amax")
    )
    # Halves first: the difference of two large numbers could overflow.
    size = (high / 2 - low / 2).amax(0)
    return (at - (low / 2 + high / 2)[:, batch]) / torch.where(size > 0, size, 1.0)[batch]


def _pick(at: Tensor, nodes: Tensor) -> Tensor:
    return at.index_select(1, nodes.reshape(-1)).view(3, *nodes.shape)


def _dot(a: Tensor, b: Tensor) -> Tensor:
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]


def _cross(a: Tensor, b: Tensor) -> Tensor:
    return torch.stack([a[k - 2] * b[k - 1] - a[k - 1] * b[k - 2] for k in range(3)])
