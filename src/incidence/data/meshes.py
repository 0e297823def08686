r"""Triangle meshes: their features, random stretching, and reading of files.

No feature changes when the mesh is moved, turned, mirrored, scaled, or numbered anew. Lengths are
in units of the root of the total area of the mesh, areas in units of the area, angles in radians.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from incidence.algebra.pattern import Pattern
from incidence.data.dataset import Record
from incidence.data.surface_measures import SurfaceMeasures, surface_of
from incidence.errors import IncidenceError
from incidence.geometry.meshes import Mesh, read_mesh
from incidence.geometry.node_lists import NodeLists
from incidence.structure import Structure
from incidence.structure.collate import collate, pack
from incidence.structure.example import Example
from incidence.structure.ragged import expand

__all__ = [
    "COLUMNS",
    "augment",
    "examples_of",
    "features_of",
    "stretch",
    "triangulated",
]

COLUMNS: dict[str, tuple[str, ...]] = {
    "i": ("angle defect", "area", "mean curvature", "degree"),
    "{i j}": (
        "length",
        "dihedral angle",
        "is border",
        "is branching",
        "smaller opposite angle",
        "larger opposite angle",
        "smaller height ratio",
        "larger height ratio",
    ),
    "{i j k}": (
        "area",
        "smallest angle",
        "middle angle",
        "largest angle",
        "shortest side",
        "middle side",
        "longest side",
    ),
}
"""The names of the columns of features, by tensor."""

_DIHEDRAL = COLUMNS["{i j}"].index("dihedral angle")
_MAX_RATIO = 10.0  # of a height to its side: one sliver would else set the scale of the column


def features_of(example: Example) -> Example:
    """Return a mesh, or a batch of meshes, with features of nodes, edges and triangles.

    `COLUMNS` lists the features. Dihedral angles are 0 where the surface is flat, positive where it
    bulges out and negative where it folds in. Where a part of the surface has no outside they have
    no sign. Edges at the border (in one face or none) and branching ones (in more than two) have 0.
    No feature is ever NaN: a face without area has a height of 0, and a side without length the
    angle 0 at its ends.

    Args:
        example: With `{i j}`, `{i j k}` and the features `pos=i`, shape [nodes, 2 or 3].

    Raises:
        IncidenceError: One of them is missing, a side of a triangle is no edge, or a coordinate is
            not finite.

    Example:
        >>> from incidence import geometry
        >>> points = [[0.0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]]
        >>> mesh = geometry.read_mesh((points, [[0, 1, 2], [0, 1, 3], [0, 2, 3], [1, 2, 3]]))
        >>> corner = features_of(Example(mesh.structure, {"pos=i": mesh.points}))
        >>> corner.features["i"][0, 0] / torch.pi  # three right angles: a quarter of a turn less
        tensor(0.5000)
    """
    keys = {example.structure.resolve(key): key for key in example.features}
    if Pattern("pos=i") not in keys:
        raise IncidenceError(
            "a mesh needs the coordinates of its nodes: give features['pos=i']; got"
            f" {sorted(example.features)}."
        )
    features = measured(example.structure, example.features[keys[Pattern("pos=i")]])
    new = {Pattern(key) for key in features}
    others = {key: example.features[key] for pattern, key in keys.items() if pattern not in new}
    return example.replace(features={**others, **features})


def measured(
    structure: Structure, points: Tensor, signs: Tensor | None = None
) -> dict[str, Tensor]:
    """Return the features of a mesh, or of a batch of meshes.

    Args:
        structure: The mesh.
        points: The coordinates, [nodes, 2 or 3].
        signs: The signs of the dihedral angles, [edges], if they are known: computing them takes
            longer than all the rest.
    """
    if points.shape[1] not in (2, 3):
        raise IncidenceError(
            "a mesh lies in the plane or in space: pos=i has 2 or 3 columns; got"
            f" {points.shape[1]}."
        )
    if not points.isfinite().all():
        node = int((~points.isfinite()).any(1).nonzero()[0])
        raise IncidenceError(
            f"node {node} is at {tuple(points[node].tolist())}: coordinates must be finite numbers."
        )
    measures = SurfaceMeasures(structure, surface_of(structure), points)
    angles = measures.dihedral_angles(signs)
    tables = {
        "i": _node_columns(measures, angles),
        "{i j}": _edge_columns(measures, angles),
        "{i j k}": _triangle_columns(measures),
    }
    return {
        text: torch.stack([column.float() for column in columns], 1)
        for text, columns in tables.items()
    }


def _edge_columns(measures: SurfaceMeasures, angles: Tensor) -> list[Tensor]:
    surface = measures.surface
    num_faces, rows = surface.num_faces, surface.sides.reshape(-1)
    root = measures.unit.sqrt()[measures.structure.batch("{i j}")]  # (edges,)
    zeros = torch.zeros_like(angles)
    # One face at the border is both the smaller and the larger, and of many faces these are the
    # first and the last.
    extremes = [
        zeros.scatter_reduce(0, rows, values.reshape(-1), which, include_self=False)
        for values in (measures.angles, measures.heights.clamp(max=_MAX_RATIO))
        for which in ("amin", "amax")
    ]
    return [measures.lengths / root, angles, num_faces < 2, num_faces > 2, *extremes]


def _triangle_columns(measures: SurfaceMeasures) -> list[Tensor]:
    unit = measures.unit[measures.structure.batch("{i j k}")]
    sides = measures.lengths[measures.surface.sides] / unit.sqrt()
    return [measures.areas / unit, *_sorted(measures.angles), *_sorted(sides)]


def _sorted(three: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return three rows with each column sorted."""
    # Three values need no sort along an axis, which takes several times as long.
    one, two, other = three
    low, high = torch.minimum(one, two), torch.maximum(one, two)
    return (
        torch.minimum(low, other),
        torch.maximum(low, torch.minimum(high, other)),
        torch.maximum(high, other),
    )


def _node_columns(measures: SurfaceMeasures, angles: Tensor) -> list[Tensor]:
    r"""Return angle defect, area, mean curvature and degree.

    With $f_e$ faces at the edge $e$, the angle defect is $2\pi$ less all angles at the node and
    $\pi (2 - f_e)/2$ for each of its edges. Its sum is $2\pi\chi$ for every complex of triangles,
    borders and branches included. Mean curvature is integrated as well: half the length times the
    dihedral angle for every edge, of which each end has half.
    """
    surface, batch = measures.surface, measures.structure.batch("i")
    ends = measures.structure["{i j}"].reshape(-1)
    corners = surface.faces.reshape(-1)

    def sum_at(nodes: Tensor, values: Tensor) -> Tensor:
        return angles.new_zeros(len(batch)).index_add_(0, nodes, values)

    openings = (2 - surface.num_faces).double() * (math.pi / 2)
    opening = sum_at(ends, openings.repeat(2))  # each edge at both of its ends
    defect = 2 * math.pi - opening - sum_at(corners, measures.angles.reshape(-1))
    unit = measures.unit[batch]
    area = sum_at(corners, (measures.areas / 3).repeat(3)) / unit
    curvature = sum_at(ends, (measures.lengths * angles / 4).repeat(2)) / unit.sqrt()
    return [defect, area, curvature, torch.bincount(ends, minlength=len(batch))]


def _split_by_mesh(batch: Structure, tables: Mapping[str, Tensor]) -> list[dict[str, Tensor]]:
    """Return the features of a batch for each of its meshes."""
    parts = {key: x.split(batch.entry_ptr(key).diff().tolist()) for key, x in tables.items()}
    return [{key: rows[k] for key, rows in parts.items()} for k in range(batch.num_structures)]


def examples_of(
    meshes: Sequence[Mesh], targets: Sequence[Tensor | Mapping[str, Tensor] | None] | None = None
) -> list[Example]:
    """Return triangle meshes as examples with features, all measured at once.

    The features `pos=i` are the coordinates about the middle of each mesh.

    Args:
        meshes: The meshes.
        targets: A target for each mesh.
    """
    # In double precision first: of coordinates far from the origin nothing would be left.
    points = [mesh.points - mesh.points.mean(0) for mesh in meshes]
    structures = [mesh.structure for mesh in meshes]
    batch = collate(structures)
    features = _split_by_mesh(batch, measured(batch, torch.cat(points)))
    if targets is None:
        targets = [None] * len(meshes)
    examples = [
        Example(structure, {"pos=i": at.float(), **x}, target)
        for structure, at, x, target in zip(structures, points, features, targets, strict=True)
    ]
    return pack(examples)


def triangulated(mesh: Mesh) -> Mesh:
    """Return the mesh with every polygon cut into triangles that meet in its first corner."""
    if mesh.face_pattern == "{i j k}":
        return mesh
    starts = mesh.faces.ptr[:-1]
    polygon, second = expand(starts + 1, mesh.faces.sizes - 2)
    corners = torch.stack([starts[polygon], second, second + 1], 1)  # (triangles, 3)
    return read_mesh((mesh.points, NodeLists.of_rows(mesh.faces.nodes[corners])), repair=True)


def stretch(example: Example, generator: torch.Generator, amount: float = 0.1) -> Example:
    r"""Return the mesh with every axis scaled by a random factor, and with new features.

    Args:
        example: With the raw features of `features_of`. Dihedral angles keep their signs, which no
            such scaling changes.
        generator: Draws the factors $e^{a z}$, $a$ the amount and $z$ normal.
        amount: 0 leaves the mesh as it is.
    """
    return augment([example], generator, amount)[0]


def augment(
    examples: Sequence[Example], generator: torch.Generator, amount: float = 0.1
) -> list[Example]:
    """Return meshes as `stretch` changes each of them, all measured at once."""
    for number, example in enumerate(examples):
        if not {"pos=i", *COLUMNS} <= example.features.keys():
            raise IncidenceError(
                f"example {number} of those to stretch has no features of a mesh: give it to"
                " `features_of` first."
            )
    points = torch.cat([e.features["pos=i"] for e in examples])
    signs = torch.cat([e.features["{i j}"][:, _DIHEDRAL] for e in examples]).sign()  # (edges,)
    batch = collate([e.structure for e in examples])
    shape = (len(examples), points.shape[1])
    normal = torch.randn(shape, generator=generator, dtype=points.dtype)  # (meshes, 3)
    moved = points * (amount * normal).exp()[batch.batch("i")]  # (nodes, 3)
    features = _split_by_mesh(batch, {"pos=i": moved, **measured(batch, moved, signs)})
    # They fit, and are not checked again: that would take a fifth of the time.
    return [
        Example._of(e.structure, {**e.features, **x}, e.target, e.is_batch)
        for e, x in zip(examples, features, strict=True)
    ]


def read_meshes(path: Any, errors: list[IncidenceError]) -> Iterator[Record]:
    """Read the mesh of a file, with features.

    Faces that name a point twice, or that come twice, are dropped; polygons are cut into triangles.

    Raises:
        IncidenceError: The file cannot be read, or has no surface.
    """
    mesh = triangulated(read_mesh(path, repair=True))
    if not len(mesh.faces):
        raise IncidenceError(
            f"{path} has no face with three different points: features are those of a surface."
        )
    if not mesh.points.float().isfinite().all():
        raise IncidenceError(f"{path} has coordinates beyond 3e38: scale the mesh down.")
    names = None
    if Path(path).suffix.lower() == ".obj":  # which counts points from 1
        names = tuple(str(k + 1) for k in range(len(mesh.points)))
    yield Record(Path(path).name, examples_of([mesh])[0], names)
