"""Jobs that attack the project on purpose: `./run mutate`, `./run fuzz`, `./run kill`.

    mutate    breaks the code, one small change at a time; a test must notice
    fuzz      mangles files, which must be read or refused in a sentence; and tests properties on
              random cases
    kill      kills training at random moments; the resumed run must end with the same bits

Every job is seeded, and writes a journal. A job that is started again continues from its journal.
`docs/reliability.md` has the figures.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module

__all__ = ["main"]

JOBS = ("mutate", "fuzz", "kill")


def main(words: Sequence[str]) -> int:
    """Runs a job and returns the exit code: 0, or 1 if something was found."""
    if not words or words[0] not in JOBS:
        print(f"usage: python -m attacks {{{','.join(JOBS)}}} ...")
        return 2
    run: Callable[[Sequence[str]], int] = import_module(f"attacks.{words[0]}").main
    return run(words[1:])
