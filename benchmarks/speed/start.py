"""How long it takes until one can begin."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import incidence
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
    name = "import incidence.nn over import torch"
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder, "src", "incidence")
        shutil.copytree(
            Path(incidence.__file__).parent, copy, ignore=shutil.ignore_patterns("__pycache__")
        )
        times = bench.timer("a fresh process").run(
            {
                "incidence.nn": _importing("incidence.nn"),
                "from source": _importing("incidence.nn", copy.parent),
                "torch": _importing("torch"),
            }
        )
    return [
        Figure(name, ratio(times, "incidence.nn", "torch"), bar=1.05),
        Figure(f"{name}, no byte code", ratio(times, "from source", "torch"), bar=1.15),
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


def _importing(name: str, source: Path | None = None) -> Callable[[], object]:
    """Import a package in a process of its own.

    Modules are compiled once and stored, as torch's were when it was installed; some environments
    forbid to store ours. With `source` they are compiled every time.
    """
    environment = {
        key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"
    }
    if source is not None:
        environment |= {"PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": str(source)}
    return lambda: subprocess.run(
        [sys.executable, "-c", f"import {name}"], check=True, env=environment
    )
