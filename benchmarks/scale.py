"""Ten million directed edges in a user's order, 16 channels: memory, and time per edge against one
million, each in a fresh process.
"""

import subprocess
import sys
import time
from argparse import ArgumentParser
from collections.abc import Sequence
from pathlib import Path

from incidence.errors import command

ROOT = Path(__file__).parents[1]  # where a fresh process finds this package
CODE = """
import time, torch
from benchmarks.speed.structures import random_graph, shuffled
from benchmarks.speed.timing import peak_memory
from incidence.nn import Linear
torch.set_num_threads(2)
structure = shuffled(random_graph({edges}))
layer = Linear("(i j) -> (i j)", 16, 16)
start = time.perf_counter()
layer.plan(structure)
plan = time.perf_counter() - start
rows = structure.num_entries("(i j)")
x, grad = torch.randn(rows, 16, requires_grad=True), torch.randn(rows, 16)
times = []
for _ in range(5):
    start = time.perf_counter()
    layer(x, structure).backward(grad)
    x.grad = None
    times.append(time.perf_counter() - start)
print(rows, min(times), plan, peak_memory())
"""


def main(words: Sequence[str] = ()) -> int:
    ArgumentParser(prog=f"{command()} bench scale", description=__doc__).parse_args(words)
    per_edge = {}
    for edges in (1_000_000, 10_000_000):
        start = time.perf_counter()
        done = subprocess.run(
            [sys.executable, "-c", CODE.format(edges=edges)],
            cwd=ROOT,
            check=True,
            capture_output=True,
            text=True,
        )
        rows, step, plan, peak = map(float, done.stdout.split())
        per_edge[edges] = step / rows
        print(
            f"{int(rows):>10,} edges: {per_edge[edges] * 1e9:.0f} ns per edge forward and backward,"
            f" plan {plan:.1f} s, peak {peak / 2**30:.1f} GiB ({time.perf_counter() - start:.0f} s"
            " in all)"
        )
    print(
        "time per edge at 10 million over that at 1 million:"
        f" {per_edge[10_000_000] / per_edge[1_000_000]:.2f} (bar 1.2)"
    )
    return 0
