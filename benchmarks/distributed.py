"""One structure over several processes: memory and time of each process, and bytes sent beside the
number of the plan.

The structure is a grid with shuffled edges. Every process makes its share of them, and `assemble`
puts them together, so no process ever holds the whole.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from argparse import ArgumentParser
from collections.abc import Sequence
from pathlib import Path

import torch
import torch.distributed as dist
from torch import Tensor

from benchmarks.speed.timing import peak_memory
from incidence.distributed import assemble
from incidence.distributed.processes import as_world
from incidence.engine.plan import Plan
from incidence.errors import command
from incidence.nn import Linear

ROOT = Path(__file__).parents[1]  # where a fresh process finds this package
_STEPS = 3


def main(words: Sequence[str] = ()) -> int:
    """Run each number of processes, and print a line for each of them."""
    parser = ArgumentParser(prog=f"{command()} bench distributed", description=__doc__)
    parser.add_argument("--entries", type=int, default=10_000_000, help="directed edges")
    parser.add_argument("--channels", type=int, default=16)
    parser.add_argument("--processes", type=int, nargs="+", default=[1, 2, 4])
    parser.add_argument("--of-process", nargs=3, help="rank, number and store of one process")
    options = parser.parse_args(words)
    if options.of_process is not None:
        rank, size, store = options.of_process
        _process(int(rank), int(size), store, options.entries, options.channels)
        return 0
    for size in options.processes:
        _print_results(size, _started(size, options.entries, options.channels))
    return 0


def _started(size: int, entries: int, channels: int) -> list[list[float]]:
    """Return the numbers that every process prints."""
    with tempfile.TemporaryDirectory() as folder:
        words = [sys.executable, "-m", "benchmarks", "distributed"]
        words += ["--entries", str(entries), "--channels", str(channels)]
        processes = [
            subprocess.Popen(
                [*words, "--of-process", str(rank), str(size), str(Path(folder, "store"))],
                cwd=ROOT,
                stdout=subprocess.PIPE,
                text=True,
                env={**os.environ, "OMP_NUM_THREADS": "1"},
            )
            for rank in range(size)
        ]
        printed = [process.communicate()[0] for process in processes]
    return [[float(word) for word in text.split()] for text in printed]


def _print_results(size: int, results: Sequence[Sequence[float]]) -> None:
    counts, assembling, planning, steps, peaks, sent, planned = zip(*results, strict=True)
    print(
        f"{size} process{'es' * (size > 1)}: {max(counts):,.0f} edges each,"
        f" assembled in {max(assembling):.1f} s, plan {max(planning):.1f} s,"
        f" step {max(steps):.2f} s, peak {max(peaks) / 2**30:.2f} GiB each;"
        f" sent {max(sent):,.0f} bytes a step, the plan says {max(planned):,.0f}",
        flush=True,
    )


def _process(rank: int, size: int, store: str, entries: int, channels: int) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=size)
    side = round((entries / 4) ** 0.5)  # every node has about four directed edges
    start = time.perf_counter()
    part = assemble(side * side, {"(i j)": _share(side, rank, size)})
    assembling = time.perf_counter() - start
    layer = Linear("(i j) -> (i j)", channels, channels)
    start = time.perf_counter()
    plan: Plan = layer.plan(part)
    planning = time.perf_counter() - start
    assert plan.traffic is not None
    rows, world = part.num_entries("(i j)"), as_world(None)
    x, grad = torch.randn(rows, channels, requires_grad=True), torch.randn(rows, channels)
    times = []
    before = world.sent
    for _ in range(_STEPS):
        start = time.perf_counter()
        layer(x, part).backward(grad)
        x.grad = None
        times.append(time.perf_counter() - start)
    sent = (world.sent - before) / _STEPS
    numbers = rows, assembling, planning, min(times), peak_memory(), sent, plan.traffic.num_bytes
    print(*numbers)
    dist.destroy_process_group()


def _share(side: int, rank: int, size: int) -> Tensor:
    """Return the edges of some rows of a grid, both ways, in a random order."""
    first, last = side * rank // size, side * (rank + 1) // size
    rows = torch.arange(first, last)[:, None]
    nodes = rows * side + torch.arange(side)  # (rows, columns)
    across = torch.stack([nodes[:, :-1].flatten(), nodes[:, 1:].flatten()])
    below = nodes[: len(nodes) - (last == side)]
    down = torch.stack([below.flatten(), (below + side).flatten()])
    edges = torch.cat([across, down], dim=1)
    edges = torch.cat([edges, edges.flip(0)], dim=1)
    draw = torch.Generator().manual_seed(rank)
    return edges[:, torch.randperm(edges.shape[1], generator=draw)]
