"""What is learned on real data: every task with its protocol, published figures beside ours,
nothing tuned on test data.

    ./run bench learn [TASK ...] [--folder DATA] [--out FOLDER] [--jobs N] [--runs N] [--again]

Each training is a run of `incidence train` with the recipe of its data set, in a folder of its own.
Each result is one JSON file, of which `./run bench results` makes the page `docs/results.md`. Runs
that have a result are not repeated, unless --again says so, and runs that were interrupted
continue.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks import record
from benchmarks.record import Result
from benchmarks.tasks import TASKS
from benchmarks.tasks.bench import Bench
from benchmarks.tasks.task import Outcome
from incidence.errors import command
from incidence.train import Config, Run

__all__ = ["Job", "main", "measure"]

_SHOWN = ("solubility", "csl", "counting", "sr", "shrec11", "mutag")
_OUT = Path("runs") / "learn"
# they say where a run is, and not what it does
_PLACES = {"data", "folder", "out", "threads", "tables", "split", "seed"}


class Job(NamedTuple):
    """One run of a task.

    Attributes:
        task: The name of the task.
        number: The number of the run.
        folder: The folder with the data.
        out: The folder for runs of training.
        results: The folder for results.
        is_again: Whether to repeat a run that has a result.
    """

    task: str
    number: int
    folder: Path | None
    out: Path
    results: Path
    is_again: bool

    def is_done(self) -> bool:
        """Return whether every row of the run has a result."""
        task = TASKS[self.task]
        label = task.label(self.number)
        rows = task.names_of(self.number)
        return all(record.path_of(self.results, self.task, row, label).exists() for row in rows)


def measure(job: Job) -> list[Path]:
    """Measure one run, write a file for every result, and return their paths."""
    task = TASKS[job.task]
    bench = Bench(job.task, job.folder, job.out, job.is_again)
    written = []
    start = time.process_time()
    for outcome in task.measure(bench, job.number):
        seconds = time.process_time() - start + bench.earlier_seconds
        result = _result(job, outcome, seconds)
        written.append(record.write(result, job.results))
        print(f"  {_in_words(result)}", file=sys.stderr, flush=True)
        start, bench.earlier_seconds = time.process_time(), 0.0
    return written


def _result(job: Job, outcome: Outcome, seconds: float) -> Result:
    task, run = TASKS[job.task], outcome.run
    row = task.rows[outcome.row]
    predictor = None if run is None else run.predictor
    return Result(
        task=job.task,
        row=outcome.row,
        run=task.label(job.number),
        metric=row.metric,
        value=outcome.value,
        data=outcome.data or ("" if run is None else run.experiment.data.name),
        protocol=row.protocol,
        baselines=dict(outcome.baselines),
        more=dict(outcome.more),
        setting={} if run is None else _setting(run),
        parameters=None if predictor is None else sum(p.numel() for p in predictor.parameters()),
        cpu_seconds=round(seconds, 1),
        date=record.today(),
        machine=record.machine(),
        version=record.version(),
        command=f"./run bench learn {job.task}",
        note=outcome.note,
    )


def _setting(run: Run) -> Mapping[str, Any]:
    """Return the options of a run that are not the defaults of all runs."""
    usual = Config()
    options = run.experiment.config.given()
    return {
        key: list(value) if isinstance(value, tuple) else value
        for key, value in options.items()
        if key not in _PLACES and value != getattr(usual, key)
    }


def _in_words(result: Result) -> str:
    others = [f"{name} {value:.4g}" for name, value in result.baselines.items()]
    words = f"{result.task} {result.row} {result.run}: {result.metric} {result.value:.5g}"
    return ", ".join([" ".join(words.split()), *others, f"{result.cpu_seconds:.0f} s"])


def _jobs(arguments: argparse.Namespace) -> Iterator[Job]:
    folder = None if arguments.folder is None else Path(arguments.folder)
    for name in arguments.tasks or _SHOWN:
        task = TASKS[name]
        runs = task.runs if arguments.runs is None else min(arguments.runs, task.runs)
        print(f"{name}: {', '.join(row.title for row in task.rows.values())}", file=sys.stderr)
        for number in range(runs):
            job = Job(name, number, folder, arguments.out, arguments.results, arguments.again)
            if job.is_done() and not job.is_again:
                print(f"  {task.label(number)} has a result; --again repeats it", file=sys.stderr)
            else:
                yield job


def main(words: Sequence[str] = ()) -> int:
    """Run tasks, one after the other or side by side, and return the exit code."""
    parser = argparse.ArgumentParser(
        prog=f"{command()} bench learn", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument(
        "tasks",
        nargs="*",
        metavar="TASK",
        help=f"which: {', '.join(TASKS)}; by default {', '.join(_SHOWN)}",
    )
    parser.add_argument(
        "--folder",
        type=Path,
        default=os.environ.get("INCIDENCE_DATA"),
        help="the data; default: INCIDENCE_DATA",
    )
    parser.add_argument(
        "--out", type=Path, default=_OUT, help="folder for runs; default: runs/learn"
    )
    parser.add_argument(
        "--results",
        type=Path,
        default=record.RESULTS,
        help="folder for results; default: benchmarks/results of the project",
    )
    parser.add_argument("--jobs", type=int, default=1, help="runs side by side, one thread each")
    parser.add_argument("--runs", type=int, help="only the first runs of each task")
    parser.add_argument("--again", action="store_true", help="repeat runs that have a result")
    arguments = parser.parse_args(words)
    unknown = [name for name in arguments.tasks if name not in TASKS]
    if unknown:
        parser.error(f"no task {unknown[0]!r}; there are: {', '.join(TASKS)}")
    jobs = _jobs(arguments)
    if arguments.jobs == 1:
        for job in jobs:
            measure(job)
        return 0
    with ProcessPoolExecutor(arguments.jobs, mp_context=get_context("spawn")) as pool:
        for future in as_completed([pool.submit(measure, job) for job in jobs]):
            future.result()
    return 0
