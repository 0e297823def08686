"""Areas, angles, heights and bends of a surface in space; coordinates stand first, [3, ...], so that sums over them are fast."""

from __future__ import annotations

import torch
from torch import Tensor

from incidence.data.meshes.surface import Surface, outward
from incidence.structure import Structure

__all__ = ["Shape"]

_FLAT = 1e-9  # a face with less than this part of the square of its longest side is a line: the direction of its normal is rounding
_THIN = 1e-6  # a mesh with less area than this part of the squares of its edges has these for its unit


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
        self.angles = torch.stack([torch.atan2(double, -_dot(sides[k - 2], sides[k - 1])) for k in range(3)])
        self.heights = torch.stack([double / torch.where(square > 0, square, 1.0) for square in squares])
        tails, heads = _pick(at, structure["{i j}"]).unbind(1)
        self._along = heads - tails
        self.lengths = _dot(self._along, self._along).sqrt()
        self.unit = self._unit()

    def _unit(self) -> Tensor:
        structure = self.structure
        zeros = self.areas.new_zeros(structure.num_structures)
        area = zeros.index_add(0, structure.batch("{i j k}"), self.areas)
        squares = zeros.index_add(0, structure.batch("{i j}"), self.lengths.square())
        unit = torch.maximum(area, _THIN * squares)
        return torch.where(unit > 0, unit, 1.0)

    def bends(self, signs: Tensor | None = None) -> Tensor:
        """The dihedral angle at every edge, shape [edges]; `signs` may be known already, as they stay when a mesh is stretched."""
        surface = self.surface
        one, other = surface.neighbours
        ends = self.structure["{i j}"][:, surface.inner]
        # The edge as the first face walks it, and the second face turned to be walked the other way along it.
        turns = surface.turns.view(-1)[surface.places[0]] * torch.where(ends[0] < ends[1], 1, -1)
        axis = self._along[:, surface.inner] / self.lengths[surface.inner].clamp_min(torch.finfo(torch.float64).tiny) * turns
        ours, theirs = self._normals[:, one], self._normals[:, other] * surface.products
        angles = torch.atan2(_dot(_cross(ours, theirs), axis), _dot(ours, theirs))
        if signs is None:
            out, has_out = outward(surface, self._normals, self._corners.sum(1) / 3)
            angles = torch.where(has_out[one], angles * out[one], angles.abs())
        else:
            angles = angles.abs() * signs[surface.inner]
        return torch.zeros_like(self.lengths).index_copy_(0, surface.inner, angles)


def _scaled(structure: Structure, points: Tensor) -> Tensor:
    """Coordinates in space about the middle of each mesh, none beyond 1, shape [3, nodes]: their squares neither overflow nor vanish."""
    at = torch.nn.functional.pad(points.double(), (0, 3 - points.shape[1])).T.contiguous()
    batch = structure.batch("i")
    rows, zeros = batch.expand(3, -1), at.new_zeros(3, structure.num_structures)
    low, high = (zeros.scatter_reduce(1, rows, at, which, include_self=False) for which in ("amin", "amax"))
    size = (high / 2 - low / 2).amax(0)
    return (at - (low / 2 + high / 2)[:, batch]) / torch.where(size > 0, size, 1.0)[batch]


def _pick(at: Tensor, nodes: Tensor) -> Tensor:
    return at.index_select(1, nodes.reshape(-1)).view(3, *nodes.shape)


def _dot(a: Tensor, b: Tensor) -> Tensor:
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]


def _cross(a: Tensor, b: Tensor) -> Tensor:
    return torch.stack([a[k - 2] * b[k - 1] - a[k - 1] * b[k - 2] for k in range(3)])
