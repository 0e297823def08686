"""Meshes as examples with features: those at hand, stretched at random, and of files, by the reader `mesh`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from incidence.data.meshes.features import COLUMNS, apart, measured
from incidence.data.readers import Read, Reader
from incidence.errors import IncidenceError
from incidence.geometry.meshes import Mesh, read_mesh
from incidence.geometry.node_lists import NodeLists
from incidence.structure.example import Example
from incidence.structure.examples import collate, pack
from incidence.structure.ragged import expand

__all__ = ["MESH", "augment", "examples_of", "stretch", "triangulated"]

_BEND = COLUMNS["{i j}"].index("dihedral angle")


def examples_of(
    meshes: Sequence[Mesh], targets: Sequence[Tensor | Mapping[str, Tensor] | None] | None = None
) -> list[Example]:
    """Triangle meshes with their features, all measured at once, and the coordinates about the middle of each mesh as `pos=i`."""
    # In double precision first: of coordinates far from the origin nothing would be left.
    points = [mesh.points - mesh.points.mean(0) for mesh in meshes]
    structures = [mesh.structure for mesh in meshes]
    batch = collate(structures)
    parts = apart(batch, measured(batch, torch.cat(points)))
    wanted = [None] * len(meshes) if targets is None else targets
    return pack(
        [
            Example(s, {"pos=i": at.float(), **part}, y)
            for s, at, part, y in zip(structures, points, parts, wanted, strict=True)
        ]
    )


def triangulated(mesh: Mesh) -> Mesh:
    """The mesh with every polygon cut into triangles that meet in the first of its corners; triangles stay as they are."""
    if mesh.face_pattern == "{i j k}":
        return mesh
    starts = mesh.faces.ptr[:-1]
    polygon, second = expand(starts + 1, mesh.faces.sizes - 2)
    corners = torch.stack([starts[polygon], second, second + 1], 1)
    return read_mesh((mesh.points, NodeLists.of_rows(mesh.faces.nodes[corners])), repair=True)


def stretch(example: Example, generator: torch.Generator, amount: float = 0.1) -> Example:
    r"""The mesh with every axis scaled by its own random factor $e^{a z}$, $a$ the amount and $z$ normal, and features anew.

    Args:
        example: With the raw features of `features_of`: dihedral angles keep their signs, which no such map changes.
        generator: Of the factors.
        amount: 0 leaves the mesh as it is.
    """
    return augment([example], generator, amount)[0]


def augment(
    examples: Sequence[Example], generator: torch.Generator, amount: float = 0.1
) -> list[Example]:
    """Meshes as `stretch` changes each of them, all measured at once; structures and targets stay what they are."""
    for number, example in enumerate(examples):
        if not {"pos=i", *COLUMNS} <= example.features.keys():
            raise IncidenceError(
                f"example {number} of those to stretch has no features of a mesh: give it to `features_of` first."
            )
    points = torch.cat([e.features["pos=i"] for e in examples])
    signs = torch.cat([e.features["{i j}"][:, _BEND] for e in examples]).sign()
    batch = collate([e.structure for e in examples])
    factors = (
        torch.randn(len(examples), points.shape[1], generator=generator, dtype=points.dtype)
        .mul_(amount)
        .exp_()
    )
    moved = points * factors[batch.batch("i")]
    parts = apart(batch, {"pos=i": moved, **measured(batch, moved, signs)})
    # Known to fit, and not checked again: that would take a fifth of the time.
    return [
        Example._of(e.structure, {**e.features, **part}, e.target, e.is_batch)
        for e, part in zip(examples, parts, strict=True)
    ]


def _read(path: Any, errors: list[Any]) -> Iterator[Read]:
    """The mesh of a file. Faces that name a point twice, or that stand there twice, are dropped; polygons are cut into triangles."""
    mesh = triangulated(read_mesh(path, repair=True))
    if not len(mesh.faces):
        raise IncidenceError(
            f"{path} has no face with three different points: features are those of a surface."
        )
    if not mesh.points.float().isfinite().all():
        raise IncidenceError(f"{path} has coordinates beyond 3e38: scale the mesh down.")
    # OBJ files count points from 1.
    names = (
        tuple(str(k + 1) for k in range(len(mesh.points)))
        if Path(path).suffix.lower() == ".obj"
        else None
    )
    yield Read(Path(path).name, examples_of([mesh])[0], names)


MESH = Reader(suffixes=(".obj", ".off", ".ply", ".stl"), read=_read)
