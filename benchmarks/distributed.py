"""One structure over several processes: memory and time of each process, and bytes sent beside the
number of the plan.

The structure is a grid with shuffled edges. Every process makes its share of them, and `assemble`
puts them together, so no process ever holds the whole. With --blocks, `run_blocks` computes the
same bits for any number of processes; the lines then end with a hash of the gradients.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from benchmarks.speed.timing import peak_memory
from incidence.distributed import assemble, run_blocks, sum_gradients
from incidence.distributed.processes import as_world
from incidence.engine.plan import Plan
from incidence.errors import command
from incidence.nn import Linear
from incidence.structure.world import World

ROOT = Path(__file__).parents[1]  # where a fresh process finds this package
_STEPS = 3


def main(words: Sequence[str] = ()) -> int:
    """Run each number of processes, and print a line for each of them."""
    parser = ArgumentParser(prog=f"{command()} bench distributed", description=__doc__)
    parser.add_argument("--entries", type=int, default=10_000_000, help="directed edges")
    parser.add_argument("--channels", type=int, default=16)
    parser.add_argument("--processes", type=int, nargs="+", default=[1, 2, 4])
    parser.add_argument("--blocks", type=int, default=0, help="for run_blocks, for example 64")
    parser.add_argument("--of-process", nargs=3, help="rank, number and store of one process")
    options = parser.parse_args(words)
    if options.of_process is not None:
        rank, size, store = options.of_process
        _process(int(rank), int(size), store, options)
        return 0
    for size in options.processes:
        _print_results(size, _started(size, options))
    return 0


def _started(size: int, options: Namespace) -> list[list[str]]:
    """Return the numbers that every process prints, and its hash."""
    with tempfile.TemporaryDirectory() as folder:
        words = [sys.executable, "-m", "benchmarks", "distributed"]
        words += ["--entries", str(options.entries), "--channels", str(options.channels)]
        words += ["--blocks", str(options.blocks)]
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
    return [text.split() for text in printed]


def _print_results(size: int, results: Sequence[Sequence[str]]) -> None:
    numbers = [[float(word) for word in words[:-1]] for words in results]
    counts, assembling, planning, steps, clocks, peaks, sent, planned = zip(*numbers, strict=True)
    hashes = " ".join(sorted({words[-1] for words in results}))
    print(
        f"{size} process{'es' * (size > 1)}: {max(counts):,.0f} edges each,"
        f" assembled in {max(assembling):.1f} s, plan {max(planning):.1f} s,"
        f" step {max(steps):.2f} s ({max(clocks):.2f} s of the processor),"
        f" peak {max(peaks) / 2**30:.2f} GiB each;"
        f" sent {max(sent):,.0f} bytes a step, the plan says {max(planned):,.0f};"
        f" hash of the gradients {hashes}",
        flush=True,
    )


def _process(rank: int, size: int, store: str, options: Namespace) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=size)
    world = as_world(None)
    # the bytes sent and the time of the processor, before and after the steps of every block
    sent: list[int] = []
    clock: list[float] = []

    def note() -> None:
        sent.append(world.sent)
        clock.append(time.process_time())

    torch.manual_seed(0)
    layer = Linear("(i j) -> (i j)", options.channels, options.channels)

    def work(own: World) -> list[Any]:
        return _measured(layer, own, options.entries, note)

    blocks = options.blocks
    results = run_blocks(work, blocks=blocks) if blocks else [work(world)]
    counts, assembling, planning, steps, planned, hashes = zip(*results, strict=True)
    bytes_of_step = (sent[-1] - sent[0]) / _STEPS
    print(
        sum(counts),
        max(assembling),
        max(planning),
        max(steps),
        (max(clock) - min(clock)) / _STEPS,
        peak_memory(),
        bytes_of_step,
        sum(planned),
        *set(hashes),
    )
    dist.destroy_process_group()


def _measured(layer: Linear, world: World, entries: int, note: Callable[[], None]) -> list[Any]:
    """Compute some steps of a layer on a part, and return what they took."""
    side = round((entries / 4) ** 0.5)  # every node has about four directed edges
    start = time.perf_counter()
    part = assemble(side * side, {"(i j)": _share(side, world.rank, world.size)}, world=world)
    assembling = time.perf_counter() - start
    layer = deepcopy(layer)  # every block has gradients of its own
    start = time.perf_counter()
    plan: Plan = layer.plan(part)
    planning = time.perf_counter() - start
    draw = torch.Generator().manual_seed(world.rank)
    shape = part.num_entries("(i j)"), layer.in_channels[0]
    x = torch.randn(shape, generator=draw, requires_grad=True)
    grad = torch.randn(shape, generator=draw)
    times = []
    note()
    for _ in range(_STEPS):
        start = time.perf_counter()
        layer.zero_grad()
        layer(x, part).backward(grad)
        x.grad = None
        times.append(time.perf_counter() - start)
    note()
    sum_gradients(layer, world)
    return [shape[0], assembling, planning, min(times), plan.bytes_sent, _hash(layer)]


def _hash(layer: Linear) -> str:
    """Return a hash of the gradients of the weights."""
    bits = [p.grad.numpy().tobytes() for p in layer.parameters() if p.grad is not None]
    return hashlib.sha256(b"".join(bits)).hexdigest()[:8]


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
