"""Real processes: every job is a function of this module's callers, run by `torch.distributed`."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

__all__ = ["ROOT", "run_processes", "start_processes"]

ROOT = Path(__file__).parents[2]
_PROGRAM = """
import sys, torch.distributed as dist
from importlib import import_module
module, name, rank, size, store = sys.argv[1:]
dist.init_process_group("gloo", init_method=f"file://{store}", rank=int(rank), world_size=int(size))
getattr(import_module(module), name)()
dist.destroy_process_group()
"""


def start_processes(size: int, job: str, **variables: str) -> list[subprocess.Popen[str]]:
    """Start processes that run a function, given as `module:function`."""
    module, _, name = job.partition(":")
    store = tempfile.mktemp(prefix="incidence-store-")
    environment = {**os.environ, "OMP_NUM_THREADS": "1", **variables}
    environment["PYTHONPATH"] = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    return [
        subprocess.Popen(
            [sys.executable, "-c", _PROGRAM, module, name, str(rank), str(size), store],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=environment,
            cwd=ROOT,
        )
        for rank in range(size)
    ]


def run_processes(size: int, job: str, timeout: float = 120, **variables: str) -> list[str]:
    """Return what every process has printed, after all of them have succeeded."""
    processes = start_processes(size, job, **variables)
    printed = [process.communicate(timeout=timeout)[0] for process in processes]
    for rank, process in enumerate(processes):
        assert process.returncode == 0, f"process {rank}:\n{printed[rank]}"
    return printed
