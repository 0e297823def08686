"""`Bench`: what a task needs to measure a run: data, training that resumes, baselines."""

from __future__ import annotations

import json
import re
import shutil
import sys
import time
from functools import lru_cache
from pathlib import Path
from typing import Any

from benchmarks.sets import load
from incidence.data import DataSet
from incidence.train import Run, RunFolder, resume, train

__all__ = ["Bench"]


@lru_cache(maxsize=16)
def _loaded(name: str, folder: Path | None, options: tuple[tuple[str, Any], ...]) -> DataSet:
    """Return a data set; the runs of a task follow each other, and mostly read the same data."""
    return load(name, folder, **dict(options))


def _seconds(path: Path) -> float:
    """Return how long a run took, if it has finished."""
    metrics = RunFolder(path).metrics
    return float(json.loads(metrics.read_text())["seconds"]) if metrics.exists() else 0.0


class Bench:
    """Where a task finds its data, and where its runs are stored.

    Args:
        task: The name of the task.
        folder: The folder with the data.
        out: The folder for the runs of all tasks.
        is_again: Whether finished runs are repeated.
    """

    def __init__(self, task: str, folder: Path | None, out: Path, is_again: bool = False) -> None:
        self.task, self.folder, self.out, self.is_again = task, folder, out, is_again
        self.earlier_seconds = 0.0

    def load(self, name: str, **options: Any) -> DataSet:
        """Return a data set by name, with options of its loader."""
        return _loaded(name, self.folder, tuple(sorted(options.items())))

    def path(self, label: str) -> Path:
        """Return the folder of a run."""
        return self.out / self.task / re.sub(r"[^a-z0-9.]+", "-", label.lower())

    def train(self, data: DataSet | str, label: str, **options: Any) -> Run:
        """Train with the recipe of the data, or continue a run that was interrupted.

        Args:
            data: The data set, or the path of a file.
            label: What the run is called; its folder.
            **options: Options of training that win over the recipe.
        """
        name, at_hand = (data, None) if isinstance(data, str) else (data.name, data)
        path = self.path(label)
        if self.is_again:
            shutil.rmtree(path, ignore_errors=True)
        if (path / "config.yaml").exists() and (path / "model.json").exists():
            start, before = time.monotonic(), _seconds(path)
            run = resume(path, at_hand)
            elapsed = time.monotonic() - start
            self.earlier_seconds += before or max(0.0, _seconds(path) - elapsed)
        else:
            shutil.rmtree(path, ignore_errors=True)
            path.parent.mkdir(parents=True, exist_ok=True)
            run = train({"data": name, "out": str(path), **options}, at_hand)
        assert run is not None
        metric = run.experiment.data.metric
        part = run.evaluation.parts.get("test") or run.evaluation.parts["validation"]
        print(
            f"  {self.task} {label}: {metric} {part.metrics[metric]:.4f}",
            file=sys.stderr,
            flush=True,
        )
        return run

    @staticmethod
    def test(run: Run, metric: str) -> float:
        """Return a metric on the test part."""
        return run.evaluation.parts["test"].metrics[metric]

    @staticmethod
    def validation(run: Run, metric: str) -> float:
        """Return a metric on the validation part."""
        return run.evaluation.parts["validation"].metrics[metric]
