"""`WarmTests`: pytest in fresh processes that have torch loaded already, as a mutant needs a new
process for each try, and little else.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import NamedTuple

__all__ = ["Outcome", "WarmTests"]

_OPTIONS = (
    *("-x", "-p", "no:cacheprovider", "--hypothesis-seed=0", "--no-header", "--tb=no", "-rfE"),
    *("-m", "not slow and not browser"),  # exhaustive cases may notice a mutant, too
)
_NO_TESTS = 5  # what pytest ends with
_WAITING = 30  # times the seconds of work that a run of tests may take: it may also wait
_MEMORY = 16 << 30  # bytes of addresses, for mutants that would take all there is


class Outcome(NamedTuple):
    """Whether a test failed, and which, as far as that is known."""

    has_failed: bool
    by: str


class WarmTests:
    """A process that has loaded what tests need, other than the project, and forks for every run of
    tests of the project in a folder.
    """

    def __init__(self, folder: Path, **environment: str) -> None:
        self._folder, self._environment = folder, environment
        self._server = self._started()

    def _started(self) -> subprocess.Popen[str]:
        paths = os.pathsep.join(
            map(str, (self._folder / "src", self._folder, Path(__file__).parents[1]))
        )
        own = {
            "PYTHONPATH": paths,
            "OMP_NUM_THREADS": "1",
            "OMP_WAIT_POLICY": "PASSIVE",
            "XDG_CACHE_HOME": str(self._folder / ".cache"),
        }
        command = [sys.executable, "-m", "attacks.warm"]
        return subprocess.Popen(
            command,
            cwd=self._folder,
            env={**os.environ, **own, **self._environment},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def __enter__(self) -> WarmTests:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._end()

    def _end(self) -> None:
        self._server.kill()
        self._server.communicate()

    def run(self, tests: list[str], seconds: float) -> Outcome:
        """Runs tests until one fails. What does not end within so many seconds of work, dies or
        cannot be loaded has failed.
        """
        for _ in range(3):
            answer = self._asked(json.dumps([tests, seconds]) + "\n")
            if answer:
                return Outcome(*json.loads(answer))
            self._end()  # some tests have ended the server itself
            self._server = self._started()
        return Outcome(True, "the process of tests ended three times")

    def _asked(self, line: str) -> str:
        assert self._server.stdin is not None
        assert self._server.stdout is not None
        try:
            self._server.stdin.write(line)
            self._server.stdin.flush()
            return self._server.stdout.readline()
        except OSError:
            return ""


def _serve() -> None:
    import numpy as np  # noqa: F401
    import pytest  # noqa: F401
    import sympy  # noqa: F401
    import torch

    torch.set_num_threads(1)
    for line in sys.stdin:
        tests, seconds = json.loads(line)
        with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as said:
            code = _forked(tests, seconds, said.fileno())
            said.seek(0)
            failed = [
                line for line in said.read().splitlines() if line.startswith(("FAILED", "ERROR"))
            ]
        by = (
            failed[0].partition(" - ")[0]
            if failed
            else "no end"
            if code in (-signal.SIGKILL, -signal.SIGXCPU)
            else f"exit code {code}"
        )
        print(json.dumps([code not in (0, _NO_TESTS), by]), flush=True)


def _forked(tests: list[str], seconds: float, said: int) -> int:
    """What pytest ends with in a process of its own; minus a signal if that is what ended it."""
    child = os.fork()
    if not child:
        os.setsid()
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)  # what is asked next is for the server alone
        os.dup2(said, 1)
        os.dup2(said, 2)
        resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
        # of work, however busy the machine is
        resource.setrlimit(resource.RLIMIT_CPU, (int(seconds) + 1, int(seconds) + 2))
        try:
            os._exit(_pytest([*_OPTIONS, *tests]))
        finally:  # whatever it raised, it must not go on as a second server
            os._exit(1)
    until = time.monotonic() + _WAITING * seconds
    while True:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        if time.monotonic() > until:
            with suppress(ProcessLookupError):
                os.killpg(child, signal.SIGKILL)
        time.sleep(0.02)


def _pytest(words: list[str]) -> int:
    import pytest

    code = int(pytest.main(words))
    sys.stdout.flush()
    return code


if __name__ == "__main__":
    _serve()
