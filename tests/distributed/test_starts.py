"""Processes that torchrun starts again agree on the number of their start."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch.distributed as dist

import incidence as inc
from incidence.distributed.starts import Start, _agreed, _connected, agree, this_start


def _together(store: Any, restarts: list[int]) -> list[Start]:
    """What processes agree on, each of which counts some number of restarts."""
    size = len(restarts)
    with ThreadPoolExecutor(size) as threads:
        work = [threads.submit(agree, store, k, size, n, 20) for k, n in enumerate(restarts)]
        return [one.result() for one in work]


@pytest.fixture
def store() -> Any:
    return dist.HashStore()


def test_every_start_has_its_number_and_later_ones_are_restarts(store: Any) -> None:
    assert _together(store, [0, 0, 0]) == [Start(1, False)] * 3
    assert _together(store, [0, 0, 0]) == [Start(2, True)] * 3
    assert _together(store, [0, 1, 0]) == [Start(3, True)] * 3


def test_a_restart_on_one_machine_is_one_for_all(store: Any) -> None:
    assert _together(store, [0, 0, 1]) == [Start(1, True)] * 3


def test_words_and_numbers_of_dead_processes_are_not_taken(store: Any) -> None:
    with pytest.raises(inc.IncidenceError):  # the first process never came
        agree(store, 1, 2, 0, patience=0)
    with pytest.raises(inc.IncidenceError):  # it comes, and answers the word of a dead one
        agree(store, 0, 2, 0, patience=0.1)
    assert _together(store, [1, 1]) == [Start(2, True)] * 2


@pytest.mark.parametrize("rank", [0, 1])
def test_a_process_that_never_starts_is_named(rank: int, store: Any) -> None:
    message = f"within 0.1 s; process {rank} of 2 has no answer from process {1 - rank}: start all"
    with pytest.raises(inc.IncidenceError, match=message):
        agree(store, rank, 2, 0, patience=0.1)


def test_a_store_out_of_reach_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCHELASTIC_USE_AGENT_STORE", "True")
    with pytest.raises(inc.IncidenceError, match=r"reach the store of all processes at 127\.0\.0"):
        _connected("127.0.0.1", 9, rank=0, patience=0.2)


def test_a_lone_process_knows_whether_it_was_restarted(monkeypatch: pytest.MonkeyPatch) -> None:
    assert this_start() == Start(1, False)
    monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", "2")
    assert this_start() == Start(1, True)


def test_a_store_that_is_lost_meanwhile_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    class Lost:
        def set(self, key: str, value: str) -> None:
            raise RuntimeError("Broken pipe")

    monkeypatch.setattr("incidence.distributed.starts._connected", lambda *place: Lost())
    with pytest.raises(inc.IncidenceError, match="process 1 of 2 has lost the store"):
        _agreed("127.0.0.1", 1, 1, 2, 0)
