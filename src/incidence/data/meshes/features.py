r"""Features of triangle meshes that do not change when the mesh is moved, turned, mirrored, scaled, or numbered anew.

Lengths are in units of the root of the total area of the mesh, areas in units of the area, angles in radians.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from torch import Tensor

from incidence.algebra.pattern import Pattern
from incidence.data.meshes.surface import Shape, surface_of
from incidence.errors import IncidenceError
from incidence.structure import Structure
from incidence.structure.example import Example

__all__ = ["COLUMNS", "apart", "features_of", "measured"]

COLUMNS: dict[str, tuple[str, ...]] = {
    "i": ("angle defect", "area", "mean curvature", "degree"),
    "{i j}": (
        "length", "dihedral angle", "is border", "is branching",
        "smaller opposite angle", "larger opposite angle", "smaller height ratio", "larger height ratio",
    ),
    "{i j k}": ("area", "smallest angle", "middle angle", "largest angle", "shortest side", "middle side", "longest side"),
}  # fmt: skip
"""The names of the columns of features, by tensor."""

_MAX_RATIO = 10.0  # of a height to its side: one sliver would else set the scale of the column


def features_of(example: Example) -> Example:
    """The same mesh, or batch of meshes, with features of its nodes, edges and triangles; see `COLUMNS`.

    Dihedral angles are 0 where the surface is flat, positive where it bulges out and negative where it folds in; where a part of the
    surface has no outside they have no sign. Edges at the border (in one face or none) and branching ones (in more than two) have 0.
    Nothing is ever NaN: a face without area has a height of 0, and a side without length the angle 0 at its ends.

    Args:
        example: With `{i j}`, `{i j k}` and the features `pos=i`, shape [nodes, 2 or 3].

    Raises:
        IncidenceError: One of them is missing, a side of a triangle is no edge, or a coordinate is not finite.

    Example:
        >>> from incidence import geometry
        >>> mesh = geometry.read_mesh(([[0.0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]], [[0, 1, 2], [0, 1, 3], [0, 2, 3], [1, 2, 3]]))
        >>> corner = features_of(Example(mesh.structure, {"pos=i": mesh.points}))
        >>> corner.features["i"][0, 0] / torch.pi  # three right angles of four: a quarter of a turn is missing
        tensor(0.5000)
    """
    keys = {example.structure.resolve(key): key for key in example.features}
    if Pattern("pos=i") not in keys:
        raise IncidenceError(
            f"a mesh needs the coordinates of its nodes: give features['pos=i']; got {sorted(example.features)}."
        )
    found = measured(example.structure, example.features[keys[Pattern("pos=i")]])
    kept = {
        key: example.features[key]
        for pattern, key in keys.items()
        if pattern not in map(Pattern, found)
    }
    return example.replace(features={**kept, **found})


def measured(
    structure: Structure, points: Tensor, signs: Tensor | None = None
) -> dict[str, Tensor]:
    """The features of a mesh, or of a batch of meshes, from coordinates of the shape [nodes, 2 or 3].

    The signs of the dihedral angles, shape [edges], may be known already: to find them takes longer than all the rest.
    """
    if points.shape[1] not in (2, 3):
        raise IncidenceError(
            f"a mesh lies in the plane or in space: pos=i has 2 or 3 columns; got {points.shape[1]}."
        )
    if not points.isfinite().all():
        bad = int((~points.isfinite()).any(1).nonzero()[0])
        raise IncidenceError(
            f"node {bad} is at {tuple(points[bad].tolist())}: coordinates must be finite numbers."
        )
    shape = Shape(structure, surface_of(structure), points)
    bends = shape.bends(signs)
    tables = {
        "i": _nodes(shape, bends),
        "{i j}": _edges(shape, bends),
        "{i j k}": _triangles(shape),
    }
    return {
        text: torch.stack([column.float() for column in columns], 1)
        for text, columns in tables.items()
    }


def _edges(shape: Shape, bends: Tensor) -> list[Tensor]:
    num_faces, rows = shape.surface.num_faces, shape.surface.sides.reshape(-1)
    root = shape.unit.sqrt()[shape.structure.batch("{i j}")]
    zeros = torch.zeros_like(bends)
    # One face at the border is both the smaller and the larger, and of many faces these are the first and the last.
    ends = [
        zeros.scatter_reduce(0, rows, values.reshape(-1), which, include_self=False)
        for values in (shape.angles, shape.heights.clamp(max=_MAX_RATIO))
        for which in ("amin", "amax")
    ]
    return [shape.lengths / root, bends, num_faces < 2, num_faces > 2, *ends]


def _triangles(shape: Shape) -> list[Tensor]:
    unit = shape.unit[shape.structure.batch("{i j k}")]
    sides = shape.lengths[shape.surface.sides] / unit.sqrt()
    return [shape.areas / unit, *_sorted(shape.angles), *_sorted(sides)]


def _sorted(three: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    one, two, other = three
    low, high = torch.minimum(one, two), torch.maximum(one, two)
    return (
        torch.minimum(low, other),
        torch.maximum(low, torch.minimum(high, other)),
        torch.maximum(high, other),
    )


def _nodes(shape: Shape, bends: Tensor) -> list[Tensor]:
    r"""Angle defect, area, mean curvature and degree.

    With $f_e$ faces at the edge $e$, the angle defect is $2\pi$ less all angles at the node and $\pi (2 - f_e)/2$ for each of its edges, so
    that its sum is $2\pi\chi$ for every complex of triangles, borders and branches included. Mean curvature is integrated as well: half the
    length times the dihedral angle for every edge, of which each end has half.
    """
    batch = shape.structure.batch("i")
    ends, corners = shape.structure["{i j}"].reshape(-1), shape.surface.faces.reshape(-1)

    def at(nodes: Tensor, values: Tensor) -> Tensor:
        return bends.new_zeros(len(batch)).index_add_(0, nodes, values)

    opening = at(ends, ((2 - shape.surface.num_faces).double() * (math.pi / 2)).repeat(2))
    defect = 2 * math.pi - opening - at(corners, shape.angles.reshape(-1))
    unit = shape.unit[batch]
    curvature = at(ends, (shape.lengths * bends / 4).repeat(2)) / unit.sqrt()
    return [
        defect,
        at(corners, (shape.areas / 3).repeat(3)) / unit,
        curvature,
        torch.bincount(ends, minlength=len(batch)),
    ]


def apart(batch: Structure, tables: Mapping[str, Tensor]) -> list[dict[str, Tensor]]:
    """The features of a batch for each of its meshes."""
    parts = {key: x.split(batch.entry_ptr(key).diff().tolist()) for key, x in tables.items()}
    return [{key: rows[k] for key, rows in parts.items()} for k in range(batch.num_structures)]
