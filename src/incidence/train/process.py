"""What holds while a run is on, and ends with it: which process this is, its lock, its threads, and silence."""

from __future__ import annotations

import logging
import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch

from incidence.errors import IncidenceError

try:
    import fcntl
except ImportError:  # a system without such locks
    fcntl = None  # type: ignore[assignment]

__all__ = ["is_first", "locked", "quiet", "threads"]


def is_first() -> bool:
    """Whether this is the first of several processes, as Lightning or torchrun started them.

    Ours, as Lightning knows it when its trainer is made, and the folder of the run is made before.
    """
    return int(os.environ.get("RANK", os.environ.get("LOCAL_RANK", "0"))) == 0 and int(os.environ.get("NODE_RANK", "0")) == 0


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Holds a lock on a file that no run replaces; the kernel gives it back however the process ends.

    Raises:
        IncidenceError: Another process has it, or the folder cannot be written to.
    """
    try:
        file = path.open("ab")
    except OSError as error:
        raise IncidenceError(f"{path} cannot be written: {error}.") from error
    with file:
        try:
            if fcntl is not None:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise IncidenceError(f"another process trains in {path.parent}: wait for its end, or start a run of its own.") from error
        except OSError:  # a disk without locks
            pass
        yield


@contextmanager
def threads(count: int) -> Iterator[None]:
    """Lets torch use so many threads, and as many as before in the end."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def quiet() -> Iterator[None]:
    """Lightning tells much that is of no use to the person who trains."""
    loggers = [logging.getLogger(f"lightning.{name}") for name in ("pytorch", "fabric", "pytorch.utilities.rank_zero")]
    levels = [one.level for one in loggers]
    for one in loggers:
        one.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for one, level in zip(loggers, levels, strict=True):
            one.setLevel(level)
