"""Checkpoints that are whole or not there at all, and that are read without executing anything."""

from __future__ import annotations

import pickle
import warnings
import zipfile
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

import torch
from lightning.pytorch.plugins.io import TorchCheckpointIO

from incidence.errors import IncidenceError
from incidence.files import regular_file, whole_file
from incidence.limits import assert_unzipped
from incidence.train.folder import disk_trouble, is_plain, unsound

__all__ = ["RESUMABLE", "AtomicCheckpointIO", "read"]

RESUMABLE = (
    "incidence",
    "state_dict",
    "loops",
    "callbacks",
    "optimizer_states",
    "lr_schedulers",
    "epoch",
    "global_step",
)
"""What a checkpoint has that a run goes on from; Lightning goes on without some of it, from another place."""


class AtomicCheckpointIO(TorchCheckpointIO):
    """Writes a checkpoint beside the old one, then lets it take its place: a kill at any moment leaves one of the two.

    Ours, as Lightning's own writes to the place itself, syncs nothing to the disk, and reads without looking at checksums.
    """

    def save_checkpoint(
        self, checkpoint: dict[str, Any], path: Any, storage_options: Any = None
    ) -> None:
        """Writes a checkpoint."""
        try:
            with whole_file(path) as file:
                torch.save(checkpoint, file)
        except (OSError, RuntimeError) as error:  # torch wraps what it met while it wrote
            cause: BaseException | None = error
            while cause is not None:
                if isinstance(cause, OSError):
                    raise IncidenceError(disk_trouble(Path(path), cause)) from error
                if isinstance(cause, KeyboardInterrupt):
                    raise cause from None
                cause = cause.__cause__ or cause.__context__
            raise

    def load_checkpoint(
        self, path: Any, map_location: Any = None, weights_only: bool | None = None
    ) -> dict[str, Any]:
        """Reads a checkpoint: tensors and plain values only."""
        return read(Path(path))


def read(path: Path, needs: Collection[str] = ()) -> dict[str, Any]:
    """The content of a checkpoint, which holds nothing but tensors and plain values, and must have what is needed."""
    regular_file(path, "a checkpoint")
    try:
        with zipfile.ZipFile(path) as archive:
            assert_unzipped(archive, path)
            broken = archive.testzip()  # torch does not look at the checksums
        if broken is not None:
            raise ValueError(f"{broken} does not match its checksum")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about what is refused in a moment
            content: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
    except IncidenceError:
        raise
    except pickle.UnpicklingError as error:  # torch would advise to execute it
        raise IncidenceError(
            f"{path} is no checkpoint of a run: it has something other than tensors and plain values, and was not read."
        ) from error
    except Exception as error:  # of libraries that read what may be anything
        raise IncidenceError(
            f"{path} is no checkpoint, or is damaged: {(str(error).splitlines() or ['it is empty'])[0]}"
        ) from error
    if not isinstance(content, dict):
        raise IncidenceError(
            f"{path} is no checkpoint: it holds something of type {type(content).__name__}."
        )
    missing = [key for key in needs if content.get(key, ()) in ((), [], {})]
    if missing:
        raise IncidenceError(
            f"{path} is no checkpoint of a run, or is damaged: it has no {missing[0]!r}."
        )
    state = content.get("state_dict")
    wrong = unsound(state) if isinstance(state, dict) else None
    if wrong is None and not all(map(is_plain, _tensors(content))):
        wrong = "a tensor has no ordinary numbers, one for each of its entries"
    if wrong is not None:
        raise IncidenceError(f"{path} is damaged: {wrong}. Start a new run.")
    return content


def _tensors(content: Any) -> Iterator[torch.Tensor]:
    """All tensors, in whatever they lie."""
    waiting, seen = [content], set[int]()
    while waiting:
        one = waiting.pop()
        if isinstance(one, torch.Tensor):
            yield one
        elif isinstance(one, (dict, list, tuple, set)) and id(one) not in seen:
            seen.add(id(one))  # a list may hold itself
            waiting += [*one, *one.values()] if isinstance(one, dict) else one
