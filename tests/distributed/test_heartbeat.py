"""A process that is gone ends the others; one that is done, or slow, does not."""

from __future__ import annotations

import time
from typing import Any

import pytest

from incidence.distributed.heartbeat import Heartbeat


class Store:
    """A store in memory, which may be out of reach."""

    def __init__(self) -> None:
        self.values: dict[str, bytes] = {}
        self.is_reached = True

    def set(self, key: str, value: str) -> None:
        if not self.is_reached:
            raise RuntimeError("no route to host")
        self.values[key] = value.encode()

    def check(self, keys: list[str]) -> bool:
        return all(key in self.values for key in keys)

    def get(self, key: str) -> bytes:
        return self.values[key]


def _beats(store: Store, size: int, patience: float = 0.3) -> tuple[list[Heartbeat], list[str]]:
    said: list[str] = []
    beats = [
        Heartbeat(lambda: store, rank, size, said.append, patience=patience, pause=0.02)
        for rank in range(size)
    ]
    for beat in beats:
        beat.start()
    return beats, said


def test_processes_that_live_or_are_done_end_nobody() -> None:
    beats, said = _beats(Store(), 3, patience=1.5)
    beats[2].close()
    time.sleep(2.5)  # longer than they wait
    for beat in beats:
        beat.close()
    assert said == []


@pytest.mark.parametrize("gone", [0, 1])
def test_a_process_that_is_gone_is_named(gone: int) -> None:
    store = Store()
    beats, said = _beats(store, 2)
    time.sleep(0.1)
    original: Any = beats[gone]._key

    def frozen(rank: int) -> str:  # its signs go elsewhere
        return "elsewhere" if rank == gone else str(original(rank))

    beats[gone]._key = frozen  # type: ignore[method-assign]
    time.sleep(0.8)
    beats[gone].close()
    assert any(f"process {gone} has given no sign of life for 0.3 s" in text for text in said)
    assert all("incidence.train.resume" in text for text in said)


def test_a_store_out_of_reach_ends_the_process() -> None:
    store = Store()
    beats, said = _beats(store, 2)
    time.sleep(0.1)
    store.is_reached = False
    time.sleep(0.8)
    for beat in beats:
        beat.close()
    assert len(said) == 2
    assert "the first machine has given no sign of life" in said[0]
