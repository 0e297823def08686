"""Signs of life: a process that is killed, or whose machine is unplugged, ends all others.

An exchange waits as long as its timeout, as slow machines must not end a run. So every process
counts up a number in the store of `torch.distributed`, and looks at those of the others. A process
that computes for long still counts; one that is gone does not.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import Any

import torch.distributed as dist

from incidence.errors import spelled

__all__ = ["Heartbeat", "watched"]

_PAUSE = 2.0  # seconds between signs of life
_PATIENCE = 20.0  # seconds without one
_ANSWER = 5.0  # seconds to wait for the store


class Heartbeat(threading.Thread):
    """A thread that gives signs of life, and ends the process where another one gives none.

    Args:
        connect: Opens a connection to the store.
        rank: The number of this process.
        size: The number of processes.
        end: Called with a sentence when another process is gone.
        patience: The seconds without a sign of life after which a process is gone.
        pause: The seconds between signs of life.
    """

    def __init__(
        self,
        connect: Callable[[], Any],
        rank: int,
        size: int,
        end: Callable[[str], None],
        patience: float = _PATIENCE,
        pause: float = _PAUSE,
    ) -> None:
        super().__init__(name="incidence heartbeat", daemon=True)
        self._connect, self._rank, self._size, self._end = connect, rank, size, end
        self._patience, self._pause = patience, pause
        # other threads do not know how the user types
        self._remedy = spelled("Start all of them again with: incidence train --resume RUN")
        self._is_over = threading.Event()
        self._answered = time.monotonic()
        self._seen = {k: (b"", self._answered) for k in range(size) if k != rank}
        self._prefix = f"incidence/{os.environ.get('TORCHELASTIC_RESTART_COUNT', '0')}"

    def run(self) -> None:
        """Look at what the store has answered, until `close`.

        Another thread talks to the store, as a store out of reach may never answer.
        """
        talk = threading.Thread(target=self._talk, daemon=True)
        talk.start()
        while not self._is_over.wait(self._pause):
            silent = self._silent()
            if silent is not None:
                self._end(silent)
                return
        talk.join(_ANSWER)

    def _talk(self) -> None:
        """Count, and read the numbers of the others."""
        store, count = None, 0
        while not self._is_over.is_set():
            try:
                store = self._connect() if store is None else store
                count += 1
                store.set(self._key(self._rank), str(count))
                self._look(store)
                self._answered = time.monotonic()
            except (RuntimeError, OSError):  # the machine of the store does not answer
                store = None
            self._is_over.wait(self._pause)
        with suppress(RuntimeError, OSError):  # all others have ended
            store = self._connect() if store is None else store  # closed before the first sign
            store.set(self._key(self._rank), "done")

    def _key(self, rank: int) -> str:
        return f"{self._prefix}/{rank}"

    def _look(self, store: Any) -> None:
        """Note which processes have given a sign of life."""
        for rank, (before, _) in self._seen.items():
            key = self._key(rank)
            value = store.get(key) if store.check([key]) else b""
            if value != before or value == b"done":
                self._seen[rank] = value, time.monotonic()

    def _silent(self) -> str | None:
        """Return a sentence about a process that is gone, if there is one."""
        now = time.monotonic()
        if now - self._answered > self._patience:
            return self._sentence("the first machine")
        for rank, (_, last) in self._seen.items():
            # of processes nothing is known after the last answer of the store
            if self._answered - last > self._patience:
                return self._sentence(f"process {rank}")
        return None

    def _sentence(self, who: str) -> str:
        return (
            f"process {self._rank} of {self._size} stops: {who} has given no sign of life for"
            f" {self._patience:g} s, so it was killed or its machine was unplugged."
            f" {self._remedy}"
        )

    def close(self) -> None:
        """Say that this process is done, so that the others do not miss it."""
        self._is_over.set()
        self.join(2 * _ANSWER)


def _end(sentence: str) -> None:
    """End the process. An exchange that waits for another process cannot be interrupted."""
    print(sentence, file=sys.stderr, flush=True)
    os._exit(1)


def _store() -> Any:
    """Return a new connection to the store of the processes."""
    distributed: Any = dist  # the type hints of torch leave the store out
    return distributed.TCPStore(
        os.environ["MASTER_ADDR"],
        int(os.environ["MASTER_PORT"]),
        is_master=False,
        timeout=timedelta(seconds=_ANSWER),
    )


@contextmanager
def watched(rank: int, size: int) -> Iterator[None]:
    """Give signs of life inside of the block, if torchrun started several processes."""
    if size == 1 or "TORCHELASTIC_RUN_ID" not in os.environ:
        yield
        return
    heartbeat = Heartbeat(_store, rank, size, _end)
    heartbeat.start()
    try:
        yield
    finally:
        heartbeat.close()
