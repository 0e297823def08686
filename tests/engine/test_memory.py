"""Memory that is freed and had again: kept where glibc is, and left alone elsewhere."""

from __future__ import annotations

import ctypes
import subprocess
import sys

import pytest

import incidence as inc
from incidence.engine import memory

ACCOUNT = """
import ctypes, incidence as inc, torch
{call}
class Info(ctypes.Structure):  # glibc's mallinfo2: what malloc has from the system
    _names = "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost"
    _fields_ = [(name, ctypes.c_size_t) for name in _names.split()]
info = ctypes.CDLL(None).mallinfo2
info.restype = Info
before = info()
tensor = torch.ones(1 << 26)  # 256 MiB
during = info()
del tensor
after = info()
print(during.hblkhd - before.hblkhd, after.arena - before.arena)
"""


def has_account() -> bool:
    try:
        return hasattr(ctypes.CDLL(None), "mallinfo2")
    except (OSError, TypeError):
        return False


def account(call: str) -> tuple[int, int]:
    """What a large tensor has in pages of its own while it is there, and what malloc still has of
    it when it is gone.
    """
    done = subprocess.run(
        [sys.executable, "-c", ACCOUNT.format(call=call)],
        check=True,
        capture_output=True,
        text=True,
    )
    own, kept = map(int, done.stdout.split())
    return own, kept


@pytest.mark.skipif(
    not has_account(), reason="asks glibc, from 2.33 on, what it has from the system"
)
def test_memory_of_a_large_tensor_is_kept_when_it_is_gone():
    own, kept = account("")
    assert (own >> 28, kept >> 28) == (1, 0)  # pages of its own, which go back
    own, kept = account("assert inc.keep_memory()")
    assert (own, kept >> 28) == (0, 1)


class Unknown:
    """A C library that is not glibc, with a function that must not be called."""

    def mallopt(self, name: int, value: int) -> int:
        raise AssertionError


@pytest.mark.parametrize(
    "error", [None, OSError, TypeError], ids=["another library", "none", "Windows"]
)
def test_without_glibc_nothing_is_changed_and_false_says_so(monkeypatch, error):
    def load(name: None) -> Unknown:
        if error is not None:
            raise error
        return Unknown()

    monkeypatch.setattr(ctypes, "CDLL", load)
    assert memory.keep_memory() is False


def test_a_setting_that_is_refused_is_told(monkeypatch):
    class Refusing:
        gnu_get_libc_version = None

        def mallopt(self, name: int, value: int) -> int:
            return int(name != -1)

    monkeypatch.setattr(ctypes, "CDLL", lambda name: Refusing())
    assert inc.keep_memory() is False
