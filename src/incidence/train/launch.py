"""How a process of training starts: which of several it is, what it prints, and how it loads torch.

This module itself needs no torch.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from incidence.errors import as_called, optional

__all__ = ["is_first", "loading", "say", "started_processes"]


def is_first() -> bool:
    """Return whether this is the first of the processes that Lightning or torchrun started.

    Lightning knows that only when its trainer is made. The folder of the run is made before.
    """
    local = os.environ.get("RANK", os.environ.get("LOCAL_RANK", "0"))
    return int(local) == 0 and int(os.environ.get("NODE_RANK", "0")) == 0


def started_processes() -> tuple[int, int] | None:
    """Return how many processes torchrun started on each machine, and on how many machines.

    Returns:
        None if torchrun did not start this process.
    """
    if "TORCHELASTIC_RUN_ID" not in os.environ:
        return None
    world = int(os.environ.get("WORLD_SIZE", "1"))
    of_machine = int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
    return of_machine, max(1, world // of_machine)


def say(text: str) -> None:
    """Print what is about to happen, and whether torch and Lightning have to be loaded for it."""
    print(as_called(text), file=sys.stderr, flush=True)
    if "lightning" not in sys.modules:  # which takes seconds
        print("Loading torch and Lightning ...", file=sys.stderr, flush=True)


@contextmanager
def loading(purpose: str) -> Iterator[None]:
    """Import modules of this package, inside of the block.

    In a process that has only begun, no garbage is collected meanwhile, nor among the modules ever
    after: looking through the million objects that torch makes takes a fifth of the time.

    Args:
        purpose: What needs the modules.

    Raises:
        MissingExtraError: An optional library is not installed.
    """
    with optional(purpose, "train"):
        # another program may have objects of its own, or may have disabled the collection
        if "torch" in sys.modules or not gc.isenabled():
            yield
            return
        gc.disable()
        try:
            yield
        finally:
            gc.freeze()
            gc.enable()
