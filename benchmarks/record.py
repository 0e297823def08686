"""One JSON file for every run that measures what is learned; `docs/results.md` is made of them."""

from __future__ import annotations

import json
import platform
import re
import subprocess
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import torch

import incidence
from incidence.errors import IncidenceError
from incidence.files import whole_file

__all__ = ["RESULTS", "Result", "machine", "path_of", "read_all", "today", "version", "write"]

PROJECT = Path(__file__).parents[1]
RESULTS = PROJECT / "benchmarks" / "results"
"""Where the results are that come with the project."""


@dataclass(frozen=True)
class Result:
    """What one run measured.

    Attributes:
        task: The task of `./run bench learn`.
        row: Which row of the task; empty for the main one.
        run: The seed, split or fold, such as `seed 0`; empty for a summary of several runs.
        metric: What `value` is.
        value: The result, in the units of its row.
        data: The name of the data set.
        protocol: How the data is used.
        baselines: Results of other methods on the same parts, in the same run.
        more: Further numbers: the metric on the validation part, other metrics, curves.
        setting: The options of the run that are not the defaults of training.
        parameters: The number of weights.
        cpu_seconds: CPU time with everything: loading, training, baselines, evaluation.
        date: The day, in UTC.
        machine: Processor, cores and version of torch.
        version: The version of the library, with the commit if it is known.
        command: What repeats it.
        num_runs: How many runs the value is a mean of; 1 unless it is a summary.
        deviation: The deviation over these runs.
        note: What else to know.
    """

    task: str
    row: str
    run: str
    metric: str
    value: float
    data: str
    protocol: str
    baselines: Mapping[str, float] = field(default_factory=dict)
    more: Mapping[str, Any] = field(default_factory=dict)
    setting: Mapping[str, Any] = field(default_factory=dict)
    parameters: int | None = None
    cpu_seconds: float | None = None
    date: str = ""
    machine: str = ""
    version: str = ""
    command: str = ""
    num_runs: int = 1
    deviation: float | None = None
    note: str = ""

    @property
    def place(self) -> tuple[str, str]:
        """The task and the row."""
        return self.task, self.row


def path_of(folder: Path, task: str, row: str, run: str) -> Path:
    """Return the file of a result."""
    words = "-".join(word for word in (row, run) if word) or "all"
    return folder / task / f"{re.sub(r'[^a-z0-9.]+', '-', words.lower()).strip('-')}.json"


def write(result: Result, folder: Path = RESULTS) -> Path:
    """Write a result to its file, and return the path.

    A result of one run takes the place of a summary of the row, which was measured before.
    """
    path = path_of(folder, result.task, result.row, result.run)
    if result.run:
        path_of(folder, result.task, result.row, "").unlink(missing_ok=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    plain = {key: value for key, value in asdict(result).items() if value not in (None, "", {})}
    text = json.dumps(plain, indent=1, ensure_ascii=False, allow_nan=False)
    with whole_file(path) as file:
        file.write(f"{text}\n".encode())
    return path


def read(path: Path) -> Result:
    """Return the result in a file.

    Raises:
        IncidenceError: The file has no result.
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        names = {one.name for one in fields(Result)}
        missing = {"task", "metric", "value", "data", "protocol"} - content.keys()
        unknown = content.keys() - names
        if missing or unknown:
            raise ValueError(f"missing: {sorted(missing)}, unknown: {sorted(unknown)}")
        return Result(**{"row": "", "run": "", **content})
    except (ValueError, AttributeError, TypeError) as error:
        raise IncidenceError(
            f"{path} is no result of a run: {error}. Run its task again."
        ) from None


def read_all(folder: Path = RESULTS) -> list[Result]:
    """Return all results in a folder, sorted by the name of their file."""

    def by_number(path: Path) -> list[Any]:
        words = re.split(r"(\d+)", str(path.relative_to(folder)))
        return [int(word) if word.isdigit() else word for word in words]

    return [read(path) for path in sorted(folder.glob("*/*.json"), key=by_number)]


def today() -> str:
    """Return the day in UTC."""
    return datetime.now(timezone.utc).date().isoformat()


def machine() -> str:
    """Return the processor, the number of cores and the version of torch."""
    name = platform.processor() or platform.machine()
    cpus = Path("/proc/cpuinfo")
    cores = torch.get_num_threads()
    if cpus.exists():
        lines = cpus.read_text().splitlines()
        names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
        name, cores = names[0] if names else name, len(names) or cores
    return f"{name}, {cores} cores, one thread, torch {torch.__version__}"


def version() -> str:
    """Return the version of the library, with the commit if the project has one."""
    words = ["git", "-C", str(PROJECT), "rev-parse", "--short=8", "HEAD"]
    try:
        commit = subprocess.run(words, capture_output=True, text=True, check=True, timeout=10)
    except (OSError, subprocess.SubprocessError):
        return incidence.__version__
    return f"{incidence.__version__} ({commit.stdout.strip()})"
