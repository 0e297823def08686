"""SHREC'11, 600 closed surfaces of 30 classes; COSEG aliens and vases, surfaces whose every edge
belongs to one of four parts.

Both are the zip files of MeshCNN (Hanocka et al. 2019), whose folders `train` and `test` are the
split. There is no part for validation: the literature has none.
"""

from __future__ import annotations

from collections.abc import Sequence
from io import BytesIO
from pathlib import Path, PurePosixPath

import numpy as np
import torch
from torch import Tensor

from benchmarks.sets.files import choose, damaged, find, unzip
from incidence.data import DataSet, Split, Task
from incidence.data.meshes import augment, examples_of
from incidence.geometry.meshes import Mesh, read_mesh
from incidence.structure.example import Example

__all__ = [
    "edge_areas",
    "load_coseg",
    "load_shrec11",
    "numbered_edges",
    "soft_accuracy",
    "soft_labels",
]

_PARTS = 4
_ABOUT_SHREC = (
    "SHREC 2011 track of non-rigid shapes (Lian et al.), simplified to 500 faces and split 16 / 4"
    " for each class by the authors of MeshCNN (Hanocka et al. 2019). No licence is stated for the"
    " shapes. The target is the class."
)
_ABOUT_COSEG = (
    "COSEG (Wang et al. 2012) with the meshes, the labels of edges and the split of MeshCNN"
    " (Hanocka et al. 2019). No licence is stated for the shapes. The target is the part of every"
    " edge."
)


class _Archive:
    """The meshes of a zip file in folders `train` and `test`, sorted by folder and then by number
    or name.

    Args:
        name: What users call the data set.
        folder: Where to look; None is refused.
        below: The folder that may hold the file.
        file: The file.

    Raises:
        IncidenceError: There is none, it is no zip file, or a mesh is in another folder.
    """

    def __init__(self, name: str, folder: Path | None, below: str, file: str) -> None:
        self.path = find(name, folder, below, file)
        self._files = unzip(self.path)
        self.meshes = sorted(
            (p for p in self._files if p.suffix == ".obj"),
            key=lambda p: (p.parent, len(p.stem), p.stem),
        )
        if not self.meshes:
            raise damaged(self.path, "it has no files *.obj")
        stray = next(
            (
                path
                for path in self.meshes
                if len(path.parts) < 3 or path.parts[-2] not in ("train", "test")
            ),
            None,
        )
        if stray is not None:
            raise damaged(
                self.path, f"it has {stray}, but meshes belong into .../train and .../test"
            )
        self.is_train = torch.tensor([path.parts[-2] == "train" for path in self.meshes])

    def read(self, path: PurePosixPath) -> bytes:
        """A file of the archive."""
        if path not in self._files:
            raise damaged(self.path, f"it lacks {path}")
        return self._files[path]

    def mesh(self, path: PurePosixPath) -> Mesh:
        """A mesh of the archive, all of triangles."""
        file = BytesIO(self.read(path))
        file.name = f"{self.path}, {path}"  # what messages call it
        mesh = read_mesh(file, format=path.suffix)
        if mesh.face_pattern != "{i j k}":
            raise damaged(self.path, f"{path} has faces other than triangles")
        return mesh


def _data_set(
    name: str, examples: list[Example], task: Task, is_train: Tensor, about: str
) -> DataSet:
    split = Split(
        is_train.nonzero()[:, 0], torch.zeros(0, dtype=torch.long), (~is_train).nonzero()[:, 0]
    )
    return DataSet(
        name,
        examples,
        task,
        (split,),
        reader="mesh",
        about=about,
        metric="accuracy",
        augment=augment,
    )


def load_shrec11(
    name: str, folder: Path | None, split: str | int | None = None, seed: int = 0
) -> DataSet:
    """Reads `shrec_16.zip`.

    Args:
        name: What the data set is called.
        folder: Where the file is, or the folder above.
        split: `16` is the fixed split into 16 training and 4 test meshes for each class; `10` draws
            10 training meshes for each class at random from all, and tests on the others. By
            default what the name says: `shrec11` or `shrec11-10`.
        seed: Of that draw.
    """
    wanted = choose(
        name, "split", str(split or ("10" if name.endswith("-10") else "16")), ("16", "10")
    )
    archive = _Archive(name, folder, "shrec11_meshes", "shrec_16.zip")
    of_mesh = [path.parts[-3] for path in archive.meshes]
    classes = sorted(set(of_mesh))
    labels = torch.tensor([classes.index(one) for one in of_mesh])
    examples = examples_of([archive.mesh(path) for path in archive.meshes], labels.unbind())
    is_train = archive.is_train if wanted == "16" else _drawn(labels, 10, seed)
    return _data_set(name, examples, Task("classification", tuple(classes)), is_train, _ABOUT_SHREC)


def _drawn(labels: Tensor, count: int, seed: int) -> Tensor:
    """Whether each example is for training: as many of every class, drawn at random; shape
    [examples].
    """
    generator = torch.Generator().manual_seed(seed)
    is_train = torch.zeros(len(labels), dtype=torch.bool)
    for label in labels.unique():
        own = (labels == label).nonzero()[:, 0]
        is_train[own[torch.randperm(len(own), generator=generator)[:count]]] = True
    return is_train


def load_coseg(name: str, folder: Path | None) -> DataSet:
    """Reads `coseg_aliens.zip` or `coseg_vases.zip`, for the names `coseg-aliens` and
    `coseg-vases`.
    """
    archive = _coseg(name, folder)
    meshes = [archive.mesh(path) for path in archive.meshes]
    targets = [
        {"{i j}": _hard(archive, path, mesh)}
        for path, mesh in zip(archive.meshes, meshes, strict=True)
    ]
    task = Task("classification", tuple(f"part {k + 1}" for k in range(_PARTS)), at="{i j}")
    return _data_set(name, examples_of(meshes, targets), task, archive.is_train, _ABOUT_COSEG)


def _coseg(name: str, folder: Path | None) -> _Archive:
    return _Archive(name, folder, "coseg_meshes", f"{name.replace('-', '_')}.zip")


def _hard(archive: _Archive, path: PurePosixPath, mesh: Mesh) -> Tensor:
    rows = numbered_edges(mesh)
    labels = _numbers(archive, path, "seg", ".eseg", len(rows)).long() - 1
    if not bool(((labels >= 0) & (labels < _PARTS)).all()):
        raise damaged(archive.path, f"the labels of {path} are not all from 1 to {_PARTS}")
    return torch.empty_like(labels).index_copy(0, rows, labels)


def _numbers(archive: _Archive, path: PurePosixPath, kind: str, suffix: str, count: int) -> Tensor:
    """The numbers that belong to a mesh."""
    place = path.parent.parent / kind / f"{path.stem}{suffix}"
    words = archive.read(place).split()
    try:
        values = np.array(words).astype(np.float64)
    except ValueError as error:
        raise damaged(archive.path, f"{place} has something other than numbers: {error}") from None
    if len(values) != count or not np.isfinite(values).all():
        flaw = f"and its mesh needs {count}" if len(values) != count else "not all finite"
        raise damaged(archive.path, f"{place} has {len(values)} numbers, {flaw}")
    return torch.from_numpy(values)


def numbered_edges(mesh: Mesh) -> Tensor:
    """The row in `{i j}` of every edge as the labels number them.

    Faces are walked in the order of the file, and in each face the pairs of corners (0, 1), (1, 2),
    (2, 0): an edge has the next number when it is first met.
    """
    corners = mesh.faces.nodes.view(-1, 3)
    walked = torch.stack([corners, corners[:, [1, 2, 0]]]).view(2, -1)
    rows = mesh.structure.locate("{i j}", walked)
    first = torch.zeros(mesh.structure.num_entries("{i j}"), dtype=torch.long)
    first = first.scatter_reduce(0, rows, torch.arange(len(rows)), "amin", include_self=False)
    return first.argsort()


# ---- the accuracy that MeshCNN reports


def soft_labels(name: str, folder: Path | None) -> list[Tensor]:
    """For every mesh of the data set, in its order, the weight of each part at each edge: [edges,
    parts], in the order of `{i j}`.
    """
    archive = _coseg(name, folder)
    found = []
    for path in archive.meshes:
        rows = numbered_edges(archive.mesh(path))
        weights = _numbers(archive, path, "sseg", ".seseg", len(rows) * _PARTS).view(-1, _PARTS)
        found.append(torch.empty_like(weights).index_copy(0, rows, weights).float())
    return found


def edge_areas(example: Example) -> Tensor:
    """The share of every edge in the area of a mesh with features: a third of each of its faces;
    shape [edges].
    """
    structure = example.structure
    areas = example.features["{i j k}"][:, 0]
    corners = structure["{i j k}"]
    sides = torch.cat([corners[[1, 2]], corners[[2, 0]], corners[[0, 1]]], 1)
    shares = areas.new_zeros(structure.num_entries("{i j}"))
    return shares.index_add_(0, structure.locate("{i j}", sides), (areas / 3).repeat(3))


def soft_accuracy(
    predicted: Sequence[Tensor], examples: Sequence[Example], soft: Sequence[Tensor]
) -> float:
    """The accuracy that MeshCNN reports: a class is right where its soft label is positive, edges
    weigh by area, meshes all the same.

    Args:
        predicted: The class of every edge of every mesh, shapes [edges].
        examples: The meshes, with features.
        soft: Their soft labels, shapes [edges, parts].
    """
    rights = [
        (own > 0).gather(1, classes[:, None])[:, 0]
        for classes, own in zip(predicted, soft, strict=True)
    ]
    shares = [edge_areas(example) for example in examples]
    return float(
        torch.stack(
            [
                (share * right).sum() / share.sum()
                for share, right in zip(shares, rights, strict=True)
            ]
        ).mean()
    )
