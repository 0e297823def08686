"""`./run kill`: kills training at random moments, resumes it, and compares the bits of what it ends
with.

Runs are forked from a process that has loaded everything, and get SIGKILL after a random time,
again and again until one gets through. Its weights, history and predictions must be those of a run
that nobody disturbed, bit by bit.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from typing import Any

from attacks.journal import Journal

__all__ = ["kill_once", "main", "same_bits"]

ROOT = Path(__file__).parents[1]
_OPTIONS: dict[str, Any] = {
    "model": "i, {i j}",
    "epochs": 6,
    "batch_size": 8,
    "hidden": 6,
    "depth": 1,
    "dropout": 0.2,
    "validation": 0.1,
}
_FILES = ("model.safetensors", "history.csv", "predictions.csv")


def same_bits(one: Path, other: Path) -> bool:
    """Whether two runs ended with the same files."""
    return all((one / name).read_bytes() == (other / name).read_bytes() for name in _FILES)


def _killed_after(seconds: float | None, work: Callable[[], object]) -> bool:
    """Runs something in a process of its own, and kills it after a time; whether the kill came
    before its end.
    """
    child = os.fork()
    if not child:
        try:
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
            work()
            os._exit(0)
        except BaseException:
            os._exit(1)
    until = None if seconds is None else time.monotonic() + seconds
    while True:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            code = os.waitstatus_to_exitcode(status)
            if code not in (0, -signal.SIGKILL):
                raise RuntimeError(f"a run ended by itself with the exit code {code}")
            return code != 0
        if until is not None and time.monotonic() > until:
            os.kill(child, signal.SIGKILL)
            until = None
        time.sleep(0.002)


def kill_once(data: Path, whole: Path, out: Path, moments: Sequence[float]) -> tuple[int, bool]:
    """How many of the kills hit a run that was going on, and whether it ended with the bits of the
    whole run after that.
    """
    from incidence.train import resume, train

    def go_on() -> object:
        if (out / "config.yaml").is_file() and (out / "model.json").is_file():
            return resume(out)
        # a run that was killed before it began is begun anew
        shutil.rmtree(out, ignore_errors=True)
        return train({**_OPTIONS, "data": str(data), "out": str(out)})

    hits = sum(_killed_after(moment, go_on) for moment in moments)
    _killed_after(None, go_on)
    return hits, same_bits(out, whole)


def main(words: Sequence[str]) -> int:
    """Kills until so many runs were hit, each once or more; tells how many ended with the same
    bits.
    """
    parser = argparse.ArgumentParser(
        prog="./run kill", description=(__doc__ or "").partition("\n")[2]
    )
    parser.add_argument(
        "--count",
        type=int,
        default=100,
        help="how many runs are hit, each by up to three kills (default 100)",
    )
    parser.add_argument("--seed", type=int, default=0, help="of the moments")
    arguments = parser.parse_args(words)
    journal = Journal(ROOT / "build" / "attacks" / f"kills-{arguments.seed}.jsonl")
    random = Random(f"{arguments.seed} {len(journal)}")
    with tempfile.TemporaryDirectory() as name:
        data, whole = Path(name, "graphs.npz"), Path(name, "whole")
        seconds = _undisturbed(data, whole)
        while sum(record["kills"] > 0 for _, record in journal) < arguments.count:
            moments = [random.uniform(0, seconds) for _ in range(random.randint(1, 3))]
            kills, is_same = kill_once(data, whole, Path(name, f"run {len(journal)}"), moments)
            journal.add(
                str(len(journal)),
                {"kills": kills, "same": is_same, "moments": [round(m, 3) for m in moments]},
            )
            print(f"{kills} kills, {'the same bits' if is_same else 'OTHER BITS'}", file=sys.stderr)
    hit = [record for _, record in journal if record["kills"]]
    kills, other = sum(record["kills"] for record in hit), sum(not record["same"] for record in hit)
    print(
        f"{kills} kills in {len(hit)} runs; {len(hit) - other} ended with the bits of a run that"
        f" nobody disturbed, {other} with others."
    )
    return int(other > 0)


def _undisturbed(data: Path, out: Path) -> float:
    """Trains once, and tells how long it took."""
    import incidence as inc
    from incidence.train import train
    from tests.train.small_runs import graphs

    inc.collate(graphs(40)).save(data)
    # what is loaded late is loaded now
    train({**_OPTIONS, "data": str(data), "out": str(out) + " first"})
    begun = time.monotonic()
    train({**_OPTIONS, "data": str(data), "out": str(out)})
    return time.monotonic() - begun
