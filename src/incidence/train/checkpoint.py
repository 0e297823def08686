"""Checkpoints that are whole or not there at all, and that are read without executing anything."""

from __future__ import annotations

import pickle
import re
import warnings
from pathlib import Path
from typing import Any

import torch
from lightning.pytorch.plugins.io import TorchCheckpointIO

from incidence.errors import IncidenceError
from incidence.structure.storage import whole_file
from incidence.train.folder import disk_trouble

__all__ = ["WholeFiles", "clean", "read"]


class WholeFiles(TorchCheckpointIO):
    """Writes a checkpoint beside the old one, then lets it take its place: a kill at any moment leaves one of the two."""

    def save_checkpoint(self, checkpoint: dict[str, Any], path: Any, storage_options: Any = None) -> None:
        """Writes a checkpoint."""
        try:
            with whole_file(path) as file:
                torch.save(checkpoint, file)
        except (OSError, RuntimeError) as error:
            cause = error if isinstance(error, OSError) else error.__context__
            if isinstance(cause, OSError):
                raise IncidenceError(disk_trouble(Path(path), cause)) from error
            raise

    def load_checkpoint(self, path: Any, map_location: Any = None, weights_only: bool | None = None) -> dict[str, Any]:
        """Reads a checkpoint: tensors and plain values only."""
        return read(Path(path))


def read(path: Path) -> dict[str, Any]:
    """The content of a checkpoint.

    Raises:
        IncidenceError: It is damaged, or holds something other than tensors and plain values.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about what is refused in a moment
            content: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
    except (OSError, RuntimeError, EOFError, ValueError, KeyError, pickle.UnpicklingError) as error:
        raise IncidenceError(f"{path} is no checkpoint, or is damaged: {(str(error).splitlines() or ['it is empty'])[0]}") from error
    if not isinstance(content, dict):
        raise IncidenceError(f"{path} is no checkpoint: it holds something of type {type(content).__name__}.")
    return content


_HALF = re.compile(r"\.[\w-]+\.(yaml|json|csv|html|txt|png|safetensors|ckpt)\.[a-z0-9_]{8}")  # as `whole_file` names them


def clean(folder: Path) -> None:
    """Removes what a killed process left half written in the folder of a run."""
    for place in (folder, folder / "checkpoints", folder / "plots"):
        for rest in place.glob(".*"):
            if _HALF.fullmatch(rest.name):
                rest.unlink(missing_ok=True)
