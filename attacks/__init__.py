"""What is broken, mangled and killed on purpose, and must be noticed, refused or survived: `./run mutate`, `./run fuzz`, `./run kill`.

    mutate    breaks the code, one small change at a time, and looks whether a test notices
    fuzz      mangles files, which must be refused in a sentence or read; and puts random cases to properties that always hold
    kill      kills training at random moments, and compares the bits of what the resumed run ends with

Every job is seeded, and writes what it has done to a journal: started again, it goes on from there. The figures are in
`docs/reliability.md`.
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
