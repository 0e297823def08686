"""Signs of life: a process that is killed, or whose machine is unplugged, ends all others.

An exchange waits as long as its timeout, as slow machines must not end a run. So every process
counts up a number in the store of torchrun, and looks at those of the others. A process that
computes, or loads data, for long still counts; one that is gone does not. A process that fails says
so, as the others may wait for it where no timeout is short.
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

from incidence.distributed.starts import this_start
from incidence.errors import spelled

__all__ = ["Heartbeat", "watched"]

_PAUSE = 2.0  # seconds between signs of life
_PATIENCE = 20.0  # seconds without one
_START = 300.0  # seconds until the first one: a slow machine needs long to load torch
_GRACE = 6.0  # seconds after another one has failed, as the same error may be on its way here
_ANSWER = 5.0  # seconds to wait for the store
_DONE, _FAILED = b"done", b"failed: "
_LONGEST = 500  # characters of a message that are passed on


class Heartbeat(threading.Thread):
    """A thread that gives signs of life, and ends the process where another one gives none.

    Args:
        connect: Opens a connection to the store.
        rank: The number of this process.
        size: The number of processes.
        end: Called with a sentence when another process is gone.
        patience: The seconds without a sign of life after which a process is gone.
        pause: The seconds between signs of life.
        start: The seconds after which a process is gone that has given none.
        grace: The seconds after which a failure of another process ends this one.
        number: Which start of the processes this is.
    """

    def __init__(
        self,
        connect: Callable[[], Any],
        rank: int,
        size: int,
        end: Callable[[str], None],
        patience: float = _PATIENCE,
        pause: float = _PAUSE,
        start: float = _START,
        grace: float = _GRACE,
        number: int = 1,
    ) -> None:
        super().__init__(name="incidence heartbeat", daemon=True)
        self._connect, self._rank, self._size, self._end = connect, rank, size, end
        self._patience, self._pause = patience, pause
        self._begin_patience, self._grace = max(start, patience), grace
        # other threads do not know how the user types
        self._remedy = spelled(
            "Start all of them again; a run that has begun continues with:"
            " incidence train --resume RUN"
        )
        self._is_over = threading.Event()
        self._last_word = _DONE
        self._answered = time.monotonic()
        # torchrun makes its store before the processes; without it the first process makes one
        self._has_answered = os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"
        self._seen = {k: (b"", self._answered) for k in range(size) if k != rank}
        self._prefix = f"incidence/{number}"

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
                self._answered, self._has_answered = time.monotonic(), True
            except (RuntimeError, OSError):  # the machine of the store does not answer
                store = None
            self._is_over.wait(self._pause)
        with suppress(RuntimeError, OSError):  # all others have ended
            store = self._connect() if store is None else store  # closed before the first sign
            store.set(self._key(self._rank), self._last_word.decode())

    def _key(self, rank: int) -> str:
        return f"{self._prefix}/{rank}"

    def _look(self, store: Any) -> None:
        """Note which processes have given a sign of life."""
        for rank, (before, _) in self._seen.items():
            key = self._key(rank)
            value = store.get(key) if store.check([key]) else b""
            if value != before or value == _DONE:
                self._seen[rank] = value, time.monotonic()

    def _silent(self) -> str | None:
        """Return a sentence about a process that is gone, if there is one."""
        now = time.monotonic()
        patience = self._patience if self._has_answered else self._begin_patience
        if now - self._answered > patience:
            return self._sentence("the first machine", patience)
        for rank, (value, last) in self._seen.items():
            if value.startswith(_FAILED):
                if now - last > self._grace:
                    return self._failure(rank, value)
                continue
            patience = self._patience if value else self._begin_patience
            # of processes nothing is known after the last answer of the store
            if self._answered - last > patience:
                return self._sentence(f"process {rank}", patience)
        return None

    def _sentence(self, who: str, patience: float) -> str:
        return (
            f"process {self._rank} of {self._size} stops: {who} has given no sign of life for"
            f" {patience:g} s, so it was killed or its machine was unplugged."
            f" {self._remedy}"
        )

    def _failure(self, rank: int, value: bytes) -> str:
        message = value.removeprefix(_FAILED).decode(errors="replace")
        return (
            f"process {self._rank} of {self._size} stops, as process {rank} has failed: {message}"
            f" {self._remedy}"
        )

    def close(self, error: BaseException | None = None) -> None:
        """Say that this process is done, or has failed, so that the others do not wait for it."""
        if error is not None:
            text = " ".join(str(error).split()) or type(error).__name__
            self._last_word = _FAILED + text[:_LONGEST].encode()
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
def watched() -> Iterator[None]:
    """Give signs of life inside of the block, if torchrun started several processes."""
    start = this_start()
    if start.store is None:
        yield
        return
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    heartbeat = Heartbeat(_store, rank, size, _end, number=start.number)
    heartbeat.start()
    try:
        yield
    except BaseException as error:
        heartbeat.close(error)
        raise
    heartbeat.close()
