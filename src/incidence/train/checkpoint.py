"""Checkpoints, written atomically and read without executing anything."""

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
from incidence.files import disk_trouble, regular_file, whole_file
from incidence.limits import assert_unzipped
from incidence.train.model_spec import are_plain_numbers, problem_of

__all__ = ["RESUMABLE", "AtomicCheckpointIO", "read"]

RESUMABLE = (
    "incidence",
    "state_dict",
    "loops",
    "callbacks",
    "optimizer_states",
    "epoch",
    "global_step",
)
"""What a checkpoint must have for a run to resume.

Without some of it, Lightning would resume from another place.
"""


class AtomicCheckpointIO(TorchCheckpointIO):
    """Writes a checkpoint beside the old one, and replaces the old one when it is complete.

    A kill at any moment leaves one of the two. Lightning writes over the old one, does not sync to
    the disk, and checks no checksums when it reads.
    """

    def save_checkpoint(
        self, checkpoint: dict[str, Any], path: Any, storage_options: Any = None
    ) -> None:
        """Write a checkpoint."""
        try:
            with whole_file(path) as file:
                torch.save(checkpoint, file)
        except (OSError, RuntimeError) as error:
            # torch wraps the errors of the disk, and the interrupts of the user
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
        """Read a checkpoint of tensors and plain values."""
        return read(Path(path))


def read(path: Path, needs: Collection[str] = ()) -> dict[str, Any]:
    """Return the content of a checkpoint: tensors and plain values.

    Args:
        path: The file.
        needs: The keys that it must have.

    Raises:
        IncidenceError: It is damaged, has something else, or lacks a key.
    """
    regular_file(path, "a checkpoint")
    try:
        with zipfile.ZipFile(path) as archive:
            assert_unzipped(archive, path)
            broken = archive.testzip()  # torch does not check the checksums
        if broken is not None:
            raise ValueError(f"{broken} does not match its checksum")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about files that are refused below
            content: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
    except IncidenceError:
        raise
    except pickle.UnpicklingError as error:  # whose message advises to execute the file
        raise IncidenceError(
            f"{path} is no checkpoint of a run: it has something other than tensors and plain"
            " values, and was not read."
        ) from error
    except Exception as error:  # a damaged file makes libraries raise anything
        first = (str(error).splitlines() or ["it is empty"])[0]
        raise IncidenceError(f"{path} is no checkpoint, or is damaged: {first}") from error
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
    problem = problem_of(state) if isinstance(state, dict) else None
    if problem is None and not all(map(are_plain_numbers, _tensors(content))):
        problem = "a tensor has no ordinary numbers, one for each of its entries"
    if problem is not None:
        raise IncidenceError(f"{path} is damaged: {problem}. Start a new run.")
    return content


def _tensors(content: Any) -> Iterator[torch.Tensor]:
    """Yield all tensors in nested containers."""
    waiting, seen = [content], set[int]()
    while waiting:
        one = waiting.pop()
        if isinstance(one, torch.Tensor):
            yield one
        elif isinstance(one, (dict, list, tuple, set)) and id(one) not in seen:
            seen.add(id(one))  # a list may hold itself
            waiting += [*one, *one.values()] if isinstance(one, dict) else one
