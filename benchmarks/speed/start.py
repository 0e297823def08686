"""How long it takes until one can begin."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable

from benchmarks.speed.bench import Bench
from benchmarks.speed.timing import Figure, ratio

__all__ = ["start"]


def start(bench: Bench) -> list[Figure]:
    """`import incidence.nn` against `import torch`, which it cannot do without: whole processes, in turns."""
    times = bench.timer("a fresh process").run({name: _importing(name) for name in ("incidence.nn", "torch")})
    return [Figure("import incidence.nn over import torch", ratio(times, "incidence.nn", "torch"), bar=1.1)]


def _importing(name: str) -> Callable[[], object]:
    # Modules are compiled once and kept, as torch's were when it was installed; some environments forbid to keep ours.
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    return lambda: subprocess.run([sys.executable, "-c", f"import {name}"], check=True, env=environment)
