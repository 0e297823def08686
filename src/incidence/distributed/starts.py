"""Which start of the processes this is: `torchrun --max-restarts` starts them again.

The store of torchrun outlives the processes. After a restart it still has the addresses of those
that are dead, and torch would connect to them. So the processes of each start agree on a number,
and the names of all their keys begin with it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from functools import cache
from typing import Any
from uuid import uuid4

import torch.distributed as dist

from incidence.distributed.processes import DEFAULT_TIMEOUT
from incidence.errors import IncidenceError

__all__ = ["Start", "agree", "this_start"]

_PATIENCE = 300.0  # seconds until all processes have started: a slow machine needs long for torch
_PAUSE = 0.05  # seconds between looks at the store


@dataclass(frozen=True)
class Start:
    """One start of the processes.

    Attributes:
        number: Which start it is, from 1; the same on all processes.
        is_restart: Whether an earlier start has failed.
        store: A store with the keys of this start alone, where torchrun started several processes.
    """

    number: int
    is_restart: bool
    store: Any = None


def this_start() -> Start:
    """Return which start of the processes this is. The first call waits for all of them.

    Raises:
        IncidenceError: Some process did not start.
    """
    restarts = int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0"))
    size = int(os.environ.get("WORLD_SIZE", "1"))
    if size == 1 or not os.environ.keys() >= {"TORCHELASTIC_RUN_ID", "MASTER_ADDR"}:
        return Start(1, restarts > 0)
    rank = int(os.environ.get("RANK", "0"))
    return _agreed(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), rank, size, restarts)


@cache
def _agreed(address: str, port: int, rank: int, size: int, restarts: int) -> Start:
    store = _connected(address, port, rank)
    try:
        start = agree(store, rank, size, restarts)
    except RuntimeError as error:  # of torch: the process that has the store is gone
        raise IncidenceError(
            f"process {rank} of {size} has lost the store of all processes while they began: the"
            " first process has ended, and its own message says why."
        ) from error
    distributed: Any = dist  # the type hints of torch leave the store out
    own = distributed.PrefixStore(f"incidence/{start.number}/group", store)
    return Start(start.number, start.is_restart, own)


def _connected(address: str, port: int, rank: int, patience: float = _PATIENCE) -> Any:
    """Return the store of torchrun, or one that the first process makes if there is none."""
    has_store = os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"
    distributed: Any = dist
    try:
        store = distributed.TCPStore(
            address,
            port,
            is_master=rank == 0 and not has_store,
            timeout=timedelta(seconds=patience),
            wait_for_workers=False,
            multi_tenant=True,
        )
    except RuntimeError as error:
        raise IncidenceError(
            f"process {rank} must reach the store of all processes at {address}:{port}, and could"
            f" not within {patience:g} s: start all of them again. ({str(error)[:160]})"
        ) from error
    store.set_timeout(timedelta(seconds=DEFAULT_TIMEOUT))
    return store


def agree(store: Any, rank: int, size: int, restarts: int, patience: float = _PATIENCE) -> Start:
    """Agree with the other processes on the number of this start.

    What stands in the store may be from processes that are dead, and torchrun counts restarts only
    on the machine of the failure. So each process writes a random word, and takes the number that
    the first process answers to this word.

    Args:
        store: The store of all processes.
        rank: The number of this process.
        size: The number of processes.
        restarts: How often torchrun has counted a restart on this machine.
        patience: The seconds to wait for the others.

    Raises:
        IncidenceError: Some process did not start.
    """
    deadline = time.monotonic() + patience

    def wait(is_there: Callable[[], bool], other: int) -> None:
        while not is_there():
            if time.monotonic() > deadline:
                raise IncidenceError(
                    f"all processes must start within {patience:g} s; process {rank} of {size} has"
                    f" no answer from process {other}: start all of them again."
                )
            time.sleep(_PAUSE)

    if rank > 0:
        word = uuid4().hex
        store.set(f"incidence/word/{rank}", word)
        wait(lambda: bool(store.check([f"incidence/number/{word}"])), 0)
        number = int(store.get(f"incidence/number/{word}"))
        store.set(f"incidence/{number}/restarts/{rank}", str(restarts))
        wait(lambda: bool(store.check([f"incidence/{number}/is_restart"])), 0)
        return Start(number, store.get(f"incidence/{number}/is_restart") == b"1")
    number = store.add("incidence/starts", 1)

    def has_number(other: int) -> bool:
        if store.check([f"incidence/{number}/restarts/{other}"]):
            return True
        if store.check([f"incidence/word/{other}"]):  # that of a dead process may come first
            word = store.get(f"incidence/word/{other}").decode()
            store.set(f"incidence/number/{word}", str(number))
        return False

    for other in range(1, size):
        wait(lambda other=other: has_number(other), other)  # type: ignore[misc]
    counts = [int(store.get(f"incidence/{number}/restarts/{k}")) for k in range(1, size)]
    is_restart = max(number - 1, restarts, *counts) > 0
    store.set(f"incidence/{number}/is_restart", str(int(is_restart)))
    return Start(number, is_restart)
