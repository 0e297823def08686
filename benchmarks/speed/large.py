"""How time and memory grow with the number of entries."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from typing import NamedTuple

from benchmarks.speed import structures
from benchmarks.speed.bench import ROOT, Bench, Work
from benchmarks.speed.timing import Figure, ratio
from incidence.errors import IncidenceError

__all__ = ["growth", "memory"]


def growth(bench: Bench) -> list[Figure]:
    """Four times the entries should take four times as long: with stock malloc, and with memory
    kept between steps.
    """
    rows = [row for n in (256_000, 512_000, 1_000_000) for row in _fourfold(bench, bench.size(n))]
    return rows if bench.is_kept else rows + _with_memory_kept(bench)


def _fourfold(bench: Bench, n: int) -> list[Figure]:
    """Two sizes at a time: all of them together would need more memory than the largest layer
    alone.
    """
    graphs = {f"{k} n": structures.shuffled(structures.random_graph(k * n)) for k in (1, 4)}
    rows = []
    for channels in (64, 16):
        work = {
            name: Work("(i j) -> (i j)", graph, channels).ours for name, graph in graphs.items()
        }
        times = bench.timer(f"n = {n:,}, K = {channels}").run(work)
        del work  # before that with other channels is made
        rows.append(
            Figure(
                f"time(4n) over time(n), n = {n:,}, K = {channels}",
                ratio(times, "4 n", "1 n"),
                bar=4.3,
            )
        )
    return rows


def _with_memory_kept(bench: Bench) -> list[Figure]:
    """A process cannot go back to stock malloc, so it is another that keeps its memory."""
    known = len(bench.times)
    try:
        rows = bench.in_fresh_process("growth", "--keep-memory")
    except IncidenceError as error:
        bench.notes.append(f"memory kept between steps is not measured: {error}")
        return []
    bench.times[known:] = [
        replace(own, name=f"memory kept, {own.name}") for own in bench.times[known:]
    ]
    return [replace(row, name=f"{row.name}, memory kept", bar=None) for row in rows]


_MEMORY = """
import time, torch, incidence
{call}
from benchmarks.speed.bench import Work
from benchmarks.speed.structures import random_graph, shuffled
torch.set_num_threads(2)
small = Work("(i j) -> (i j)", random_graph(2000), {channels})
small.ours()
work = Work("(i j) -> (i j)", shuffled(random_graph({edges})), {channels})
torch.empty({edges} * {channels} * 2).fill_(0)
resident = int(open("/proc/self/statm").read().split()[1]) * 4096
open("/proc/self/clear_refs", "w").write("5")
work.ours()
def peak():
    [line] = [line for line in open("/proc/self/status") if line.startswith("VmHWM")]
    return int(line.split()[1]) * 1024
above = (peak() - resident) / (4 * work.xs[0].numel())
def step():
    begin = time.perf_counter()
    work.ours()
    return time.perf_counter() - begin
print(above, min(step() for _ in range(5)), peak())
"""


def memory(bench: Bench) -> list[Figure]:
    """The peak of forward and backward above inputs and plan, in arrays of entries x channels, and
    what `keep_memory` costs and gains.
    """
    calls = {"stock malloc": "", "memory kept": "incidence.keep_memory()"}
    found = {
        name: [_in_process(bench, name, call) for _ in range(bench.repeats)]
        for name, call in calls.items()
    }
    pairs = list(zip(found["memory kept"], found["stock malloc"], strict=True))
    return [
        Figure("peak above inputs, K = 64", [stock.above for _, stock in pairs], "nK", bar=2.8),
        Figure(
            "a step with memory kept over one with stock malloc",
            [kept.step / stock.step for kept, stock in pairs],
        ),
        Figure(
            "peak of the process with memory kept over stock malloc",
            [kept.peak / stock.peak for kept, stock in pairs],
        ),
    ]


class _Memory(NamedTuple):
    """The first step's peak above the inputs, the time of the best of five more, and the peak of
    the whole process.
    """

    above: float
    step: float
    peak: float


def _in_process(bench: Bench, name: str, call: str) -> _Memory:
    bench.report(f"fresh process, {name}")
    code = _MEMORY.format(edges=bench.size(1_000_000), channels=64, call=call)
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, check=True, capture_output=True, text=True
    )
    return _Memory(*map(float, done.stdout.split()))
