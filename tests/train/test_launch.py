"""How a process of training starts: what it says, and that loading leaves the process as it was."""

from __future__ import annotations

import gc
import subprocess
import sys

import pytest

from incidence.train import launch


def test_a_run_says_what_it_does_before_torch_is_loaded():
    code = (
        "import sys; sys.modules['torch'] = sys.modules['numpy'] = None; from incidence.cli import"
        " main; main(['train'])"
    )
    told = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stderr.splitlines()
    assert told[:2] == [
        "Training on solubility (options: incidence train --help)",
        "Loading torch and Lightning ...",
    ]


def test_a_run_that_goes_on_says_so_before_torch_is_loaded():
    code = (
        "import sys; sys.modules['torch'] = None; from incidence.cli import main; main(['train',"
        " '--resume', 'runs/a'])"
    )
    told = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stderr.splitlines()
    assert told[:2] == ["Resuming runs/a", "Loading torch and Lightning ..."]


def test_the_first_process_is_told_by_what_started_it(monkeypatch):
    for variable in ("RANK", "LOCAL_RANK", "NODE_RANK"):
        monkeypatch.delenv(variable, raising=False)
    assert launch.is_first()
    monkeypatch.setenv("LOCAL_RANK", "1")
    assert not launch.is_first()


def loads(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Whether garbage is looked for while a module loads, what is done about it after that, and
    whether it is looked for in the end.
    """
    told: list[object] = []
    monkeypatch.setattr(gc, "freeze", lambda: told.append("frozen"))
    with launch.loading("a test"):
        told.append(gc.isenabled())
    return [*told, gc.isenabled()]


def test_a_process_that_has_only_begun_never_looks_for_garbage_among_modules(monkeypatch):
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    assert loads(monkeypatch) == [False, "frozen", True]


def test_a_process_that_has_torch_already_is_left_alone(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    assert loads(monkeypatch) == [True, True]


def test_a_process_that_looks_for_no_garbage_is_left_alone(monkeypatch):
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    gc.disable()
    try:
        assert loads(monkeypatch) == [False, False]
    finally:
        gc.enable()
