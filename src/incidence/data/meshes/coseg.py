"""COSEG aliens and vases: surfaces whose every edge belongs to one of four parts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path, PurePosixPath

import numpy as np
import torch
from torch import Tensor

from incidence.data.dataset import DataSet, Task
from incidence.data.meshes.archives import Archive, read_triangles
from incidence.data.meshes.files import examples_of
from incidence.data.meshes.splits import as_split, by_folder
from incidence.data.meshes.stretch import augment
from incidence.errors import IncidenceError
from incidence.geometry.meshes import Mesh
from incidence.structure.example import Example

__all__ = ["edge_areas", "load_coseg", "numbered_edges", "soft_accuracy", "soft_labels"]

_PARTS = 4
_ABOUT = (
    "COSEG (Wang et al. 2012) with the meshes, the labels of edges and the split of MeshCNN (Hanocka et al. 2019). No licence is stated "
    "for the shapes. The target is the part of every edge."
)


def load_coseg(name: str, folder: Path | None) -> DataSet:
    """Reads `coseg_aliens.zip` or `coseg_vases.zip`, for the names `coseg-aliens` and `coseg-vases`."""
    archive = _archive(name, folder)
    paths = archive.listed(".obj")
    split = as_split(by_folder(archive, paths))
    meshes = [read_triangles(archive, path) for path in paths]
    targets = [{"{i j}": _hard(archive, path, mesh)} for path, mesh in zip(paths, meshes, strict=True)]
    return DataSet(
        name=name,
        examples=examples_of(meshes, targets),
        task=Task("classification", tuple(f"part {k + 1}" for k in range(_PARTS)), at="{i j}"),
        splits=(split,),
        reader="mesh",
        about=_ABOUT,
        metric="accuracy",
        augment=augment,
    )


def soft_labels(name: str, folder: Path | None) -> list[Tensor]:
    """For every mesh of the data set, in its order, the weight of each part at each edge: [edges, parts], in the order of `{i j}`."""
    archive = _archive(name, folder)
    found = []
    for path in archive.listed(".obj"):
        mesh = read_triangles(archive, path)
        rows = numbered_edges(mesh)
        weights = _table(archive, path, "sseg", ".seseg", len(rows) * _PARTS).view(-1, _PARTS)
        found.append(torch.empty_like(weights).index_copy(0, rows, weights).float())
    return found


def edge_areas(example: Example) -> Tensor:
    """The share of every edge in the area of a mesh with features: a third of each of its faces; shape [edges]."""
    structure = example.structure
    areas = example.features["{i j k}"][:, 0]
    corners = structure["{i j k}"]
    sides = torch.cat([corners[[1, 2]], corners[[2, 0]], corners[[0, 1]]], 1)
    shares = areas.new_zeros(structure.num_entries("{i j}"))
    return shares.index_add_(0, structure.locate("{i j}", sides), (areas / 3).repeat(3))


def soft_accuracy(predicted: Sequence[Tensor], examples: Sequence[Example], soft: Sequence[Tensor]) -> float:
    """The accuracy that MeshCNN reports: a class is right where its soft label is positive, edges weigh by area, meshes all the same.

    Args:
        predicted: The class of every edge of every mesh, shapes [edges].
        examples: The meshes, with features.
        soft: Their soft labels, shapes [edges, parts].
    """
    rights = [(own > 0).gather(1, classes[:, None])[:, 0] for classes, own in zip(predicted, soft, strict=True)]
    shares = [edge_areas(example) for example in examples]
    return float(torch.stack([(share * right).sum() / share.sum() for share, right in zip(shares, rights, strict=True)]).mean())


def numbered_edges(mesh: Mesh) -> Tensor:
    """The row in `{i j}` of every edge as the labels number them.

    Faces are walked in the order of the file, and in each face the pairs of corners (0, 1), (1, 2), (2, 0): an edge has the next number
    when it is first met.
    """
    corners = mesh.faces.nodes.view(-1, 3)
    walked = torch.stack([corners, corners[:, [1, 2, 0]]]).view(2, -1)
    rows = mesh.structure.locate("{i j}", walked)
    first = torch.zeros(mesh.structure.num_entries("{i j}"), dtype=torch.long)
    first = first.scatter_reduce(0, rows, torch.arange(len(rows)), "amin", include_self=False)
    return first.argsort()


def _archive(name: str, folder: Path | None) -> Archive:
    file = f"{name.replace('-', '_')}.zip"
    return Archive(name, folder, (file, f"coseg_meshes/{file}"))


def _hard(archive: Archive, path: PurePosixPath, mesh: Mesh) -> Tensor:
    rows = numbered_edges(mesh)
    labels = _table(archive, path, "seg", ".eseg", len(rows)).long() - 1
    if not bool(((labels >= 0) & (labels < _PARTS)).all()):
        raise IncidenceError(f"{archive.path}: the labels of {path} are not all from 1 to {_PARTS}. Fetch the file again.")
    return torch.empty_like(labels).index_copy(0, rows, labels)


def _table(archive: Archive, path: PurePosixPath, kind: str, suffix: str, count: int) -> Tensor:
    """The numbers that belong to a mesh."""
    place = path.parent.parent / kind / f"{path.stem}{suffix}"
    try:
        values = np.array(archive.read(place).split()).astype(np.float64)
    except ValueError as error:
        if isinstance(error, IncidenceError):
            raise
        raise IncidenceError(f"{archive.path}: {place} has something other than numbers: {error}. Fetch the file again.") from None
    if len(values) != count or not np.isfinite(values).all():
        flaw = f"and its mesh needs {count}" if len(values) != count else "not all finite"
        raise IncidenceError(f"{archive.path}: {place} has {len(values)} numbers, {flaw}. Fetch the file again.")
    return torch.from_numpy(values)
