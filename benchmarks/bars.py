"""`incidence bench bars FILE`: every figure of docs/benchmarks.md that has a goal for steps, epochs
and products, one benchmark after the other.

Each runs in a process of its own. Its figures are written to the file as soon as they are there. A
second run with the same file measures only what is missing.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

from incidence.errors import IncidenceError, command
from incidence.files import whole_file

__all__ = ["main"]

_THREADS = {
    "steps": 1,
    "epochs": 1,
    "versions": 1,
    "loop": 1,
    "complete": 1,
    "hypergraph": 1,
    "topomodelx": 1,
    "start": 1,
    "threads": 2,
}
"""The benchmarks, each with its number of threads."""


def main(words: Sequence[str]) -> int:
    """Measure what the file lacks, and print all figures that have a goal as a table."""
    parser = argparse.ArgumentParser(prog=f"{command()} bench bars", description=__doc__)
    parser.add_argument("file", type=Path, metavar="FILE", help="JSON; figures are added to it")
    parser.add_argument("--folder", default=os.environ.get("INCIDENCE_DATA"), help="data sets")
    parser.add_argument("--before", metavar="SRC", help="`src` of another version, for `versions`")
    parser.add_argument("--again", nargs="*", default=[], metavar="NAME", help="measure these anew")
    parser.add_argument("--quick", action="store_true", help="a tenth of the size, once")
    arguments = parser.parse_args(words)
    results: dict[str, Any] = {}
    if arguments.file.exists():
        results = json.loads(arguments.file.read_text(encoding="utf-8"))
    for name in [name for name in _THREADS if name not in results or name in arguments.again]:
        start = time.monotonic()
        print(f"{name} ...", file=sys.stderr, flush=True)
        results[name] = _measured(name, arguments)
        results[name]["seconds"] = round(time.monotonic() - start)
        with whole_file(arguments.file) as file:
            file.write(json.dumps(results, indent=1).encode())
    print(table(results))
    return 0


def _measured(name: str, arguments: argparse.Namespace) -> dict[str, Any]:
    options = [f"--threads={_THREADS[name]}", "--json"]
    options += [f"--folder={arguments.folder}"] * (arguments.folder is not None)
    options += [f"--before={arguments.before}"] * (arguments.before is not None)
    options += ["--quick"] * arguments.quick
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks", name, *options],
        cwd=Path(__file__).parents[1],
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    if done.returncode:
        raise IncidenceError(f"the benchmark {name!r} stopped; run it alone to see why.")
    measured: dict[str, Any] = json.loads(done.stdout)
    return measured


def table(results: dict[str, Any]) -> str:
    """Return the figures that have a goal, as a table of Markdown."""
    lines = ["| goal | median (spread) | command |", "|---|---|---|"]
    for name, measured in results.items():
        for figure in measured["results"][name]:
            if figure["bar"] is not None:
                lines.append(f"| {_goal(figure)} | {_values(figure)} | `bench {name}` |")
    return "\n".join(lines)


def _goal(figure: dict[str, Any]) -> str:
    word = "at least" if figure["is_least"] else "at most"
    unit = "" if figure["unit"] == "x" else f" {figure['unit']}"
    return f"{figure['name']}: {word} {figure['bar']:g}{unit}"


def _values(figure: dict[str, Any]) -> str:
    values, bar = figure["values"], figure["bar"]
    middle = median(values)
    is_met = middle >= bar if figure["is_least"] else middle <= bar
    spread = f"{middle:.3g} ({min(values):.3g} to {max(values):.3g})"
    return spread if is_met else f"{spread}: NOT MET"
