"""Forecasts on relational databases: the tables as they come, and a task table for each part."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.sets.files import find
from benchmarks.tasks.bench import Bench
from benchmarks.tasks.molecules import Measure
from benchmarks.tasks.task import Goal, Outcome, Row, Task, at_least, at_most

__all__ = ["TASKS"]

_GROUP = "Databases"
_ROC = "area under the ROC curve, %"
_LAST_DAY = "2010-01-01"
"""RelBench hands out the database up to this day; test times go on to 2013 and later."""


def of_driver(name: str, metric: str, scale: float) -> Measure:
    """Return a measure of a task of rel-f1, with the database cut at 2010.

    Args:
        name: The name of the task table.
        metric: The metric of the task.
        scale: What the metric is multiplied by.
    """

    def measure(bench: Bench, seed: int) -> Iterator[Outcome]:
        races = find("rel-f1", bench.folder, "rel_f1", "tables/races.csv.gz")
        parts = ("train", "val", "test")
        tables = tuple(
            str(find("rel-f1", bench.folder, "rel_f1", f"tasks/{name}.{part}.csv.gz"))
            for part in parts
        )
        options = {"task_table": tables, "data_options": (f"until={_LAST_DAY}",), "seed": seed}
        run = bench.train(str(races.parent), f"seed {seed}", **options)
        scored = run.evaluation.parts["test"]
        yield Outcome(
            scale * bench.test(run, metric),
            run=run,
            baselines={"constant": scale * scored.baseline[metric]},
            more={"validation": scale * bench.validation(run, metric)},
            data="rel-f1",
        )

    return measure


def _rows(title: str, metric: str, published: str, goal: Goal, digits: int) -> dict[str, Row]:
    protocol = "published times of the parts, database cut at 2010, no options"
    return {"": Row(title, protocol, metric, published, goal, digits=digits)}


TASKS = {
    "f1-dnf": Task(
        _GROUP,
        of_driver("driver-dnf", "auc", 100),
        _rows(
            "rel-f1, a driver does not finish",
            _ROC,
            "last 20 races 67.3, LightGBM 68.6, RDL 72.6, RelGNN 75.3",
            at_least(75.3),
            1,
        ),
    ),
    "f1-top3": Task(
        _GROUP,
        of_driver("driver-top3", "auc", 100),
        _rows(
            "rel-f1, a driver is among the first three",
            _ROC,
            "last 20 races 78.6, LightGBM 73.9, RDL 75.5, RelGNN 85.7",
            at_least(85.7),
            1,
        ),
    ),
    "f1-position": Task(
        _GROUP,
        of_driver("driver-position", "mae", 1),
        _rows(
            "rel-f1, mean position of a driver",
            "mean absolute error",
            "last 20 races 3.95, LightGBM 4.17, RDL 4.02, RelGNN 3.80",
            at_most(3.80),
            3,
        ),
    ),
}
