"""How long it takes until one can begin."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable

from benchmarks.speed.bench import ROOT, Bench
from benchmarks.speed.timing import Figure, ratio

__all__ = ["start"]


_LAYERS = """
import time, torch, incidence as inc
import incidence.nn
torch.set_num_threads(1)
edges = torch.combinations(torch.arange(30)).T
def layer():  # a structure, its plan, a layer, forward and backward
    begin = time.perf_counter()
    graph = inc.Structure(num_nodes=30, index={"{i j}": edges})
    x = {"i": torch.ones(30, 16), "{i j}": torch.ones(len(edges.T), 16)}
    y = inc.nn.Linear("i, {i j} -> i, {i j}", 16, 16)(x, graph)
    (y["i"].sum() + y["{i j}"].sum()).backward()
    return 1e3 * (time.perf_counter() - begin)
times = [layer() for _ in range(10)]
print(times[0], times[-1])
"""


def start(bench: Bench) -> list[Figure]:
    """`import incidence.nn` against `import torch`, which it cannot do without, and the first layer
    of a process: whole processes.
    """
    times = bench.timer("a fresh process").run(
        {name: _importing(name) for name in ("incidence.nn", "torch")}
    )
    return [
        Figure(
            "import incidence.nn over import torch", ratio(times, "incidence.nn", "torch"), bar=1.1
        ),
        *_first_layer(bench),
    ]


def _first_layer(bench: Bench) -> list[Figure]:
    """The first layer of a process with all that it needs, beside the tenth: what a text means is
    found out once.
    """
    found = []
    for repeat in range(bench.repeats):
        bench.report(f"the first layer, process {repeat + 1}")
        done = subprocess.run(
            [sys.executable, "-c", _LAYERS], cwd=ROOT, check=True, capture_output=True, text=True
        )
        found.append([float(word) for word in done.stdout.split()])
    first, tenth = zip(*found, strict=True)
    return [
        Figure("structure, plan, layer, forward and backward: the first of a process", first, "ms"),
        Figure("the same, the tenth", tenth, "ms"),
    ]


def _importing(name: str) -> Callable[[], object]:
    # Modules are compiled once and kept, as torch's were when it was installed; some environments
    # forbid to keep ours.
    environment = {
        key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"
    }
    return lambda: subprocess.run(
        [sys.executable, "-c", f"import {name}"], check=True, env=environment
    )
