"""SHREC'11: 600 closed surfaces of 30 classes, each with 500 triangles."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor

from incidence.data.dataset import DataSet, Split, Task
from incidence.data.meshes.archives import Archive, read_triangles
from incidence.data.meshes.files import examples_of
from incidence.errors import IncidenceError

__all__ = ["load_shrec11"]

_ABOUT = (
    "SHREC 2011 track of non-rigid shapes (Lian et al.), simplified to 500 faces and split 16 / 4 for each class by the authors of MeshCNN "
    "(Hanocka et al. 2019). No licence is stated for the shapes. The target is the class."
)


def load_shrec11(name: str, folder: Path | None, split: str | int = "16", seed: int = 0) -> DataSet:
    """Reads `shrec_16.zip`.

    Args:
        name: What the data set is called.
        folder: Where the file is, or the folder above.
        split: `16` is the fixed split into 16 training and 4 test meshes for each class; `10` draws 10 training meshes for each class at
            random from all, and tests on the others.
        seed: Of that draw.
    """
    if str(split) not in _SPLITS:
        raise IncidenceError(f"the split of {name!r} is one of {', '.join(_SPLITS)}; got {split!r}.")
    archive = Archive(name, folder, ("shrec_16.zip", "shrec11_meshes/shrec_16.zip"))
    paths = archive.listed(".obj")
    stray = next((path for path in paths if path.parts[-2] not in ("train", "test") or len(path.parts) < 3), None)
    if stray is not None:
        raise IncidenceError(f"{archive.path} has {stray}, where <class>/train/*.obj and <class>/test/*.obj belong. Fetch the file again.")
    classes = sorted({path.parts[-3] for path in paths})
    labels = torch.tensor([classes.index(path.parts[-3]) for path in paths])
    is_train = torch.tensor([path.parts[-2] == "train" for path in paths])
    return DataSet(
        name=name,
        examples=examples_of([read_triangles(archive, path) for path in paths], labels.unbind()),
        task=Task("classification", tuple(classes)),
        splits=(_SPLITS[str(split)](labels, is_train, seed),),
        reader="mesh",
        about=_ABOUT,
        metric="accuracy",
    )


def _fixed(labels: Tensor, is_train: Tensor, seed: int) -> Split:
    return _split(is_train)


def _ten(labels: Tensor, is_train: Tensor, seed: int) -> Split:
    generator = torch.Generator().manual_seed(seed)
    drawn = torch.zeros_like(is_train)
    for label in labels.unique():
        own = (labels == label).nonzero()[:, 0]
        drawn[own[torch.randperm(len(own), generator=generator)[:10]]] = True
    return _split(drawn)


def _split(is_train: Tensor) -> Split:
    return Split(is_train.nonzero()[:, 0], torch.zeros(0, dtype=torch.long), (~is_train).nonzero()[:, 0])


_SPLITS = {"16": _fixed, "10": _ten}
