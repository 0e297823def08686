"""Splits of mesh data sets: the folders `train` and `test` of an archive, or a draw."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePosixPath

import torch
from torch import Tensor

from incidence.data.dataset import Split
from incidence.data.meshes.archives import Archive
from incidence.errors import IncidenceError

__all__ = ["as_split", "by_folder", "drawn"]


def by_folder(archive: Archive, paths: Sequence[PurePosixPath]) -> Tensor:
    """Whether each file is for training, by its folder; shape [files].

    Raises:
        IncidenceError: A file is in another folder than `.../train` and `.../test`.
    """
    stray = next((path for path in paths if len(path.parts) < 3 or path.parts[-2] not in ("train", "test")), None)
    if stray is not None:
        raise IncidenceError(f"{archive.path} has {stray}, but meshes belong into .../train and .../test. Fetch the file again.")
    return torch.tensor([path.parts[-2] == "train" for path in paths])


def drawn(labels: Tensor, count: int, seed: int) -> Tensor:
    """Whether each example is for training: as many of every class, drawn at random; shape [examples]."""
    generator = torch.Generator().manual_seed(seed)
    is_train = torch.zeros(len(labels), dtype=torch.bool)
    for label in labels.unique():
        own = (labels == label).nonzero()[:, 0]
        is_train[own[torch.randperm(len(own), generator=generator)[:count]]] = True
    return is_train


def as_split(is_train: Tensor) -> Split:
    """Training and test, and nothing for validation: the literature has no such part here."""
    return Split(is_train.nonzero()[:, 0], torch.zeros(0, dtype=torch.long), (~is_train).nonzero()[:, 0])
