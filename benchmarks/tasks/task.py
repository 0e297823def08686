"""What a task of the literature is: its rows with goals, and a function that measures one run."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from benchmarks.record import Result
from benchmarks.tasks.bench import Bench
from incidence.train import Run

__all__ = [
    "Goal",
    "Outcome",
    "Row",
    "Summary",
    "Task",
    "at_least",
    "at_most",
    "best_by_validation",
    "best_epoch_of_all",
    "mean",
]


class Outcome(NamedTuple):
    """One result of a run, before it is dated and written.

    Attributes:
        value: The result, in the units of its row.
        row: Which row; empty for the main one.
        run: The run of training, for its options and weights.
        baselines: Results of other methods on the same parts.
        more: Further numbers.
        data: The name of the data set, if there is no run.
        note: What else to know.
    """

    value: float
    row: str = ""
    run: Run | None = None
    baselines: Mapping[str, float] = {}
    more: Mapping[str, Any] = {}
    data: str = ""
    note: str = ""


class Summary(NamedTuple):
    """The results of a row as one number.

    Attributes:
        value: The number.
        deviation: Its deviation over the runs, if that means something.
        num_runs: How many runs there are.
    """

    value: float
    deviation: float | None
    num_runs: int


def mean(results: Sequence[Result]) -> Summary:
    """Return the mean and the deviation over the runs, or the one summary that there is."""
    if len(results) == 1:
        [only] = results
        return Summary(only.value, only.deviation, only.num_runs)
    values = [one.value for one in results]
    return Summary(statistics.mean(values), statistics.stdev(values), len(values))


def best_by_validation(results: Sequence[Result]) -> Summary:
    """Return the run with the smallest `validation` of its further numbers."""
    known = [one for one in results if "validation" in one.more]
    best = min(known or results, key=lambda one: one.more.get("validation", one.value))
    return Summary(best.value, None, sum(one.num_runs for one in results))


def best_epoch_of_all(results: Sequence[Result]) -> Summary:
    """Return the mean over folds of the epoch that is best on average: the curves are `curve`."""
    curves = [one.more["curve"] for one in results if "curve" in one.more]
    if len(curves) < len(results):
        return mean(results)
    means = [statistics.mean(values) for values in zip(*curves, strict=True)]
    best = max(range(len(means)), key=means.__getitem__)
    values = [curve[best] for curve in curves]
    deviation = statistics.stdev(values) if len(values) > 1 else None
    return Summary(means[best], deviation, len(values))


class Goal(NamedTuple):
    """A number to reach.

    Attributes:
        value: The number.
        is_least: Whether results are to be at least that, not at most.
    """

    value: float
    is_least: bool

    def is_met(self, value: float) -> bool:
        """Return whether a result reaches it."""
        return value >= self.value if self.is_least else value <= self.value

    def __str__(self) -> str:
        """Return it in words."""
        return f"at {'least' if self.is_least else 'most'} {self.value:,g}"


def at_least(value: float) -> Goal:
    """Return a goal for results that are better the higher they are."""
    return Goal(value, True)


def at_most(value: float) -> Goal:
    """Return a goal for results that are better the lower they are."""
    return Goal(value, False)


@dataclass(frozen=True)
class Row:
    """A row of the tables.

    Attributes:
        title: What is measured, on which data.
        protocol: How the data is used, and how many runs there are.
        metric: What the number is, with its unit.
        published: Published figures.
        goal: The number to reach; None for rows that are there for comparison.
        runs: How many runs there are to be; None for as many as the task has.
        only: The number of the one run that has a result for it, if it is one.
        digits: Digits after the point; negative for significant digits.
        summary: How the results of all runs become one number.
        reason: Why the goal is missed.
        is_for_every_run: Whether every run is to reach the goal, and its `worst` if it has one,
            and not only their mean.
    """

    title: str
    protocol: str
    metric: str
    published: str = ""
    goal: Goal | None = None
    runs: int | None = None
    only: int | None = None
    digits: int = 3
    summary: Callable[[Sequence[Result]], Summary] = mean
    reason: str = ""
    is_for_every_run: bool = False

    def is_met(self, results: Sequence[Result]) -> bool:
        """Return whether results reach the goal."""
        assert self.goal is not None
        if self.is_for_every_run:
            return all(self.goal.is_met(one.more.get("worst", one.value)) for one in results)
        return self.goal.is_met(self.summary(results).value)


@dataclass(frozen=True)
class Task:
    """A task of the literature.

    Attributes:
        group: The heading under which its rows stand.
        measure: Measures one run, given its number, and yields a result for each row.
        rows: The rows by name; the main one has the empty name.
        runs: How many runs there are to be.
        run_is: What the number of a run is: `seed`, `split`, `fold`.
        data: The folders of data that it reads.
    """

    group: str
    measure: Callable[[Bench, int], Iterator[Outcome]]
    rows: Mapping[str, Row] = field(default_factory=dict)
    runs: int = 1
    run_is: str = "seed"

    def names_of(self, number: int) -> list[str]:
        """Return the rows that a run has a result for."""
        return [name for name, row in self.rows.items() if number in self.runs_of(row)]

    def runs_of(self, row: Row) -> range:
        """Return the numbers of the runs that have a result for a row."""
        if row.only is not None:
            return range(row.only, row.only + 1)
        return range(self.runs if row.runs is None else row.runs)

    def label(self, number: int) -> str:
        """Return what a run is called."""
        return f"{self.run_is} {number}"
