r"""Triangle meshes: features, random stretching, reading of files, and how triangles hang together.

No feature changes when the mesh is moved, turned, mirrored, scaled, or numbered anew. Lengths are
in units of the root of the total area of the mesh, areas in units of the area, angles in radians.

A structure stores a face as a set of nodes, without the winding of a file. `surface_of` computes
the winding again: neighbours agree along the edges between exactly two faces. That leaves two
windings for each part; the right one encloses a positive volume, so that its normals point out.
Coordinates come first, [3, ...], so that sums over them are fast.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from incidence.algebra.pattern import Pattern
from incidence.data.dataset import Record
from incidence.data.lifts import edge_rows
from incidence.errors import IncidenceError
from incidence.geometry.manifolds import agreeing_signs
from incidence.geometry.meshes import Mesh, read_mesh
from incidence.geometry.node_lists import NodeLists
from incidence.structure import Structure
from incidence.structure.collate import collate, pack
from incidence.structure.example import Example
from incidence.structure.ragged import expand
from incidence.symmetry.group import connect

__all__ = [
    "COLUMNS",
    "Surface",
    "SurfaceMeasures",
    "augment",
    "examples_of",
    "features_of",
    "stretch",
    "surface_of",
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
    root = measures.unit.sqrt()[measures.structure.batch("{i j}")]
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
    opening = sum_at(ends, openings.repeat(2))
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
    signs = torch.cat([e.features["{i j}"][:, _DIHEDRAL] for e in examples]).sign()
    batch = collate([e.structure for e in examples])
    shape = (len(examples), points.shape[1])
    normal = torch.randn(shape, generator=generator, dtype=points.dtype)
    moved = points * (amount * normal).exp()[batch.batch("i")]
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
    part = connect(torch.arange(num_faces), *surface.neighbours)
    areas = normals.norm(dim=0)
    weighted = torch.cat([centres * areas, areas[None]])  # (4, faces)
    sums = areas.new_zeros(4, num_faces).index_add_(1, part, weighted)
    middle = sums[:3] / sums[3].clamp_min(torch.finfo(areas.dtype).tiny)
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
        normals = _cross(sides[0], sides[1])
        double = _dot(normals, normals).sqrt()  # twice the area
        longest = torch.maximum(torch.maximum(squares[0], squares[1]), squares[2])
        is_line = double <= _FLAT * longest
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
        angles = torch.atan2(_dot(_cross(ours, theirs), axis), _dot(ours, theirs))
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
    size = (high / 2 - low / 2).amax(0)
    return (at - (low / 2 + high / 2)[:, batch]) / torch.where(size > 0, size, 1.0)[batch]


def _pick(at: Tensor, nodes: Tensor) -> Tensor:
    return at.index_select(1, nodes.reshape(-1)).view(3, *nodes.shape)


def _dot(a: Tensor, b: Tensor) -> Tensor:
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]


def _cross(a: Tensor, b: Tensor) -> Tensor:
    return torch.stack([a[k - 2] * b[k - 1] - a[k - 1] * b[k - 2] for k in range(3)])
