"""SHREC'11: 600 closed surfaces of 30 classes, each with 500 triangles."""

from __future__ import annotations

from pathlib import Path

import torch

from incidence.data.dataset import DataSet, Task
from incidence.data.meshes.archives import Archive, read_triangles
from incidence.data.meshes.files import examples_of
from incidence.data.meshes.splits import as_split, by_folder, drawn
from incidence.data.meshes.stretch import augment
from incidence.errors import IncidenceError

__all__ = ["load_shrec11"]

_ABOUT = (
    "SHREC 2011 track of non-rigid shapes (Lian et al.), simplified to 500 faces and split 16 / 4 for each class by the authors of MeshCNN "
    "(Hanocka et al. 2019). No licence is stated for the shapes. The target is the class."
)


def load_shrec11(name: str, folder: Path | None, split: str | int | None = None, seed: int = 0) -> DataSet:
    """Reads `shrec_16.zip`.

    Args:
        name: What the data set is called.
        folder: Where the file is, or the folder above.
        split: `16` is the fixed split into 16 training and 4 test meshes for each class; `10` draws 10 training meshes for each class at
            random from all, and tests on the others. By default what the name says: `shrec11` or `shrec11-10`.
        seed: Of that draw.
    """
    split = split or ("10" if name.endswith("-10") else "16")
    if str(split) not in ("16", "10"):
        raise IncidenceError(f"the split of {name!r} is 16 or 10, the number of training meshes of a class; got {split!r}.")
    archive = Archive(name, folder, ("shrec_16.zip", "shrec11_meshes/shrec_16.zip"))
    paths = archive.listed(".obj")
    is_train = by_folder(archive, paths)
    classes = sorted({path.parts[-3] for path in paths})
    labels = torch.tensor([classes.index(path.parts[-3]) for path in paths])
    return DataSet(
        name=name,
        examples=examples_of([read_triangles(archive, path) for path in paths], labels.unbind()),
        task=Task("classification", tuple(classes)),
        splits=(as_split(is_train if str(split) == "16" else drawn(labels, 10, seed)),),
        reader="mesh",
        about=_ABOUT,
        metric="accuracy",
        augment=augment,
    )
