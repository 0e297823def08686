"""The same with processes of `torch.distributed`, and what happens when one of them fails."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
import torch.distributed as dist

import incidence as inc
from incidence.distributed.processes import TorchWorld, is_lost_connection
from tests.distributed.processes import run_processes, start_processes

JOBS = "tests.distributed.jobs:"


def test_layers_on_two_processes_are_those_on_one() -> None:
    assert all("done" in text for text in run_processes(2, JOBS + "every_case", INCIDENCE_STEP="9"))


@pytest.mark.exhaustive
@pytest.mark.parametrize("size", [2, 3])
def test_all_layers_on_processes_are_those_on_one(size: int) -> None:
    assert all("done" in text for text in run_processes(size, JOBS + "every_case", timeout=400))


def test_what_does_not_fit_is_refused_by_all_processes(tmp_path: Path) -> None:
    printed = run_processes(3, JOBS + "refusals", INCIDENCE_FOLDER=str(tmp_path))
    assert all("done" in text for text in printed)


@pytest.mark.exhaustive
def test_the_bytes_of_the_plan_are_sent() -> None:
    assert len(run_processes(3, JOBS + "bytes_sent")) == 3  # each compares, and has succeeded


def _failed(size: int, job: str) -> tuple[list[str], float]:
    """What processes print that fail, and the seconds that they take."""
    start = time.monotonic()
    processes = start_processes(size, JOBS + job)
    printed = [process.communicate(timeout=60)[0] for process in processes]
    return printed, time.monotonic() - start


@pytest.mark.exhaustive
def test_a_process_that_calls_a_layer_more_often_is_an_error_on_all() -> None:
    printed, seconds = _failed(3, "one_layer_more")
    for text in printed:
        assert "must call the same layers in the same order" in text
    assert seconds < 40


@pytest.mark.exhaustive
def test_a_killed_process_ends_the_others_with_a_sentence() -> None:
    (one, _, three), seconds = _failed(3, "killed")
    for text in (one, three):
        assert "one of them has ended" in text
        assert "incidence.train.resume" in text
    assert seconds < 40


@pytest.mark.exhaustive
def test_a_process_that_does_not_answer_is_an_error_that_names_the_timeout() -> None:
    printed, seconds = _failed(2, "asleep")
    assert "did not answer within the timeout of 3 s" in printed[0]
    assert seconds < 40


@pytest.mark.exhaustive
def test_different_data_is_an_error_on_all() -> None:
    printed, _ = _failed(2, "different_data")
    for text in printed:
        assert "the structure must be the same on all processes" in text


@pytest.mark.parametrize(
    ("message", "is_lost"),
    [
        ("[pair.cc:550] Connection closed by peer [10.91.7.2]:4021", True),
        ("Timed out waiting 3000ms for recv operation to complete", True),
        ("Failed to recv, got 0 bytes. Connection was likely closed. Did the server crash?", True),
        ("The client socket has timed out after 5000ms while trying to connect", True),
        ("mat1 and mat2 shapes cannot be multiplied", False),
    ],
)
def test_errors_of_lost_processes_are_known(message: str, is_lost: bool) -> None:
    assert is_lost_connection(RuntimeError(message)) == is_lost


@pytest.mark.parametrize("timeout", [0, -1.0, "soon"])
def test_a_timeout_is_a_number_of_seconds(timeout: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TorchWorld, "is_there", staticmethod(lambda: True))
    with pytest.raises(inc.IncidenceError, match="timeout= is a number of seconds above 0"):
        TorchWorld(timeout)


def test_without_processes_there_is_nothing_to_split() -> None:
    assert not dist.is_initialized()
    with pytest.raises(inc.IncidenceError, match="there are no processes yet"):
        inc.distributed.split(inc.Structure(2))
