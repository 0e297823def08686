"""Questions on which all processes must agree: an error of one is an error of all."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable
from typing import Any, TypeVar

import torch
from torch import Tensor

from incidence.errors import IncidenceError
from incidence.structure.world import World

__all__ = ["agreed", "assert_same"]

T = TypeVar("T")


def agreed(world: World, run: Callable[[], T]) -> T:
    """Return what a function returns. If it raises an error on some process, raise it on all."""
    result, message = None, ""
    try:
        result = run()
    except IncidenceError as error:
        message = str(error) or type(error).__name__
    texts = world.gather(torch.tensor(list(message.encode()), dtype=torch.uint8))
    for rank, text in enumerate(texts):
        if len(text):
            said = bytes(text.tolist()).decode()
            raise IncidenceError(f"process {rank}: {said}")
    return result  # type: ignore[return-value]


def assert_same(world: World, what: str, *values: Any) -> None:
    """Raise an error on all processes where they have different versions or values.

    Args:
        world: The processes.
        what: The name of the values, for the message.
        values: Texts and tensors.
    """
    version = sys.modules["incidence"].__version__  # the front door imports what is above
    mine = torch.tensor([_digest(version), _digest(*values)])
    every = torch.stack(world.gather(mine))
    is_different = every != every[0]
    if is_different[:, 0].any():
        raise IncidenceError(
            f"the processes run different versions of incidence; process {world.rank} runs"
            f" {version}. Install one version everywhere."
        )
    if is_different[:, 1].any():
        others = is_different[:, 1].nonzero()[:, 0].tolist()
        raise IncidenceError(
            f"{what} must be the same on all processes; process 0 differs from"
            f" {', '.join(map(str, others[:8]))}. Load the same data everywhere, with the same"
            " options and seeds."
        )


def _digest(*values: Any) -> int:
    """Return a number of 56 bits that differs where values differ."""
    digest = hashlib.sha256()
    for value in values:
        if isinstance(value, Tensor):
            digest.update(f"{value.dtype} {tuple(value.shape)}".encode())
            digest.update(value.detach().cpu().contiguous().numpy().data)
        else:
            digest.update(f"{value!r};".encode())
    return int.from_bytes(digest.digest()[:7], "big")
