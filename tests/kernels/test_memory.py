"""Memory that is freed and had again: kept where glibc is, and left alone elsewhere."""

from __future__ import annotations

import ctypes
import platform
import subprocess
import sys

import pytest

import incidence as inc
from incidence.kernels import memory

STEPS = """
import resource, statistics, incidence as inc
{call}
import torch
def num_faults():  # of a step: tensors of several sizes that come and go
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    sum(float(torch.ones(n << 18).sum()) for n in (8, 32, 16))
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
print(statistics.median_low(num_faults() for _ in range(13)))
"""


def usual_faults(call: str) -> int:
    """Page faults of the median step: a size may find its place late, and a system may take back pages that were idle, in a few of them."""
    return int(subprocess.run([sys.executable, "-c", STEPS.format(call=call)], check=True, capture_output=True, text=True).stdout)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="keep_memory knows glibc alone")
def test_kept_memory_is_used_again_without_asking_the_system():
    assert usual_faults("assert inc.keep_memory()") < usual_faults("") / 20


class Unknown:
    """A C library that is not glibc, with a function that must not be called."""

    def mallopt(self, name: int, value: int) -> int:
        raise AssertionError


@pytest.mark.parametrize("error", [None, OSError, TypeError], ids=["another library", "none", "Windows"])
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
