"""A process that is gone ends the others; one that is done, or slow, does not."""

from __future__ import annotations

import time
from typing import Any

import pytest

import incidence as inc
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


def _beats(
    store: Store, size: int, patience: float = 0.3, grace: float = 5.0
) -> tuple[list[Heartbeat], list[str]]:
    said: list[str] = []
    beats = [
        Heartbeat(lambda: store, rank, size, said.append, patience, pause=0.02, grace=grace)
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


def test_a_process_that_has_not_begun_is_waited_for() -> None:
    store, said = Store(), list[str]()
    beats = [
        Heartbeat(lambda: store, rank, 2, said.append, patience=0.3, pause=0.02, start=60)
        for rank in range(2)
    ]
    beats[0].start()
    time.sleep(0.9)  # it loads torch
    beats[1].start()
    time.sleep(0.2)
    assert said == []
    for beat in beats:
        beat.close()


def test_a_process_that_never_begins_is_named() -> None:
    said = list[str]()
    beat = Heartbeat(Store, 0, 2, said.append, patience=0.1, pause=0.02, start=0.4)
    beat.start()
    time.sleep(0.8)
    beat.close()
    [sentence] = said
    assert "process 1 has given no sign of life for 0.4 s" in sentence


def test_a_process_that_fails_ends_the_others_with_its_message() -> None:
    store = Store()
    beats, said = _beats(store, 2, patience=20, grace=0.2)
    time.sleep(0.2)
    beats[1].close(inc.IncidenceError("the disk is full"))
    time.sleep(0.6)
    beats[0].close()
    [sentence] = said
    assert "process 0 of 2 stops, as process 1 has failed: the disk is full" in sentence
    assert "incidence.train.resume" in sentence


def test_processes_that_fail_together_keep_their_own_messages() -> None:
    beats, said = _beats(Store(), 2, patience=20, grace=5)
    time.sleep(0.2)
    for beat in beats:
        beat.close(inc.IncidenceError("training has diverged"))
        time.sleep(0.3)  # the other one is not ended meanwhile
    assert said == []


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
