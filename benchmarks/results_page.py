"""The page of results: all rows, with those that were never run, made of the files of results.

    ./run bench results [--check]

Writes `docs/results.md`. With --check it only says whether the page is what the results give.
"""

from __future__ import annotations

import argparse
import sys
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from benchmarks import record
from benchmarks.record import Result
from benchmarks.tasks import TASKS, WAITING
from benchmarks.tasks.task import Row, Summary, Task
from incidence.files import whole_file

__all__ = ["PAGE", "main", "page"]

PAGE = record.PROJECT / "docs" / "results.md"
_HEAD = """# Results

This page has every task of the literature that the project measures, with published figures and
goals. A program writes it: `./run bench results` reads one JSON file for every run, in
`benchmarks/results`. So no figure here was typed.

- Each training is a run of `incidence train` with the recipe of its data.
- Settings are chosen on validation parts. Test data serves for the last line of each run.
- Values are the mean over the runs, and their deviation. One run alone is marked "one run".
- Baselines ran on the same parts, in the same command. GIN is that of PyG, with about as many
  weights, and with the batches, epochs and schedule of our run.
- CPU time is that of one thread, with loading, baselines and evaluation.
- `benchmarks/NOTES.md` has the notes: how settings were chosen, and what else was tried.
- [What it learns](learning.md) explains the protocols. [The literature](literature.md) has the
  data.

Every row is repeated by `./run bench learn TASK --folder DATA --again`. Without `--again`, runs
that have a result are left out, and runs that were interrupted continue. The option `--jobs 2` does
two runs side by side.
"""


class Filled:
    """A row of the tables with its results.

    Args:
        name: The name of the task.
        row_name: The name of the row.
        results: The results of the row.
    """

    def __init__(self, name: str, row_name: str, results: Sequence[Result]) -> None:
        self.name, self.results = name, results
        self.task: Task = TASKS[name]
        self.row: Row = self.task.rows[row_name]
        self.summary: Summary | None = self.row.summary(results) if results else None

    @property
    def num_planned(self) -> int:
        """How many runs there are to be."""
        return len(self.task.runs_of(self.row))

    @property
    def is_complete(self) -> bool:
        """Return whether all runs have a result."""
        return self.summary is not None and self.summary.num_runs >= self.num_planned

    def value(self) -> str:
        """Return the result in words, with a mark if there are fewer runs than planned."""
        if self.summary is None:
            return "not run"
        words = _number(self.summary.value, self.row.digits)
        if self.summary.deviation is not None and self.summary.num_runs > 1:
            words += f" ± {_number(self.summary.deviation, self.row.digits)}"
        if self.summary.num_runs == 1 and self.num_planned > 1:
            return f"{words} (one run)"
        if not self.is_complete:
            return f"{words} ({self.summary.num_runs} of {self.num_planned} runs)"
        return words

    def goal(self) -> str:
        """Return the goal, and whether it is reached."""
        goal = self.row.goal
        if goal is None:
            return ""
        words = f"{goal} in every run" if self.row.is_for_every_run else f"{goal}"
        if self.summary is None:
            return words
        if self.is_missed():
            return f"{words}: **missed**"
        return f"{words}: {'reached' if self.is_complete else 'reached so far'}"

    def baselines(self) -> str:
        """Return the means of other methods on the same parts."""
        names = list(dict.fromkeys(name for one in self.results for name in one.baselines))
        words = []
        for name in names:
            values = [one.baselines[name] for one in self.results if name in one.baselines]
            words.append(f"{name} {_number(sum(values) / len(values), self.row.digits)}")
        return ", ".join(words)

    def protocol(self) -> str:
        """Return how the data was used, which may differ from what the row is to be."""
        used = dict.fromkeys(one.protocol for one in self.results)
        return "; ".join(used) if used else self.row.protocol

    def is_missed(self) -> bool:
        """Return whether there is a result that misses the goal."""
        if self.row.goal is None or self.summary is None:
            return False
        return not self.row.is_met(self.results)


def _number(value: float, digits: int) -> str:
    """Return a number with so many digits after the point, or, if negative, significant digits."""
    return f"{value:.{-digits}g}" if digits < 0 else f"{value:,.{digits}f}"


def page(results: Sequence[Result]) -> str:
    """Return the page in Markdown."""
    by_place: dict[tuple[str, str], list[Result]] = {}
    for result in results:
        by_place.setdefault(result.place, []).append(result)
    rows = [
        Filled(name, row_name, by_place.get((name, row_name), []))
        for name, task in TASKS.items()
        for row_name in task.rows
    ]
    groups: dict[str, list[Filled]] = {}
    for row in rows:
        groups.setdefault(row.task.group, []).append(row)
    parts = [_HEAD, *_summary(rows, results)]
    for group, filled in groups.items():
        parts.append(_group(group, filled))
    return "\n".join([*parts, *_missed(rows), *_open(rows)])


def _summary(rows: Sequence[Filled], results: Sequence[Result]) -> Iterator[str]:
    aims = [row for row in rows if row.row.goal is not None]
    measured = [row for row in aims if row.summary is not None]
    missed = [row for row in measured if row.is_missed()]
    hours = sum(one.cpu_seconds or 0.0 for one in results) / 3600
    yield (
        f"Of {len(rows)} rows, {sum(row.summary is not None for row in rows)} have results, and"
        f" {sum(row.is_complete for row in rows)} have all their runs."
    )
    yield (
        f"Of {len(aims)} goals, {len(measured) - len(missed)} are reached, {len(missed)} are"
        f" missed, and {len(aims) - len(measured)} are open."
    )
    yield f"The recorded runs took {hours:.1f} hours of CPU.\n"


def _group(name: str, rows: Sequence[Filled]) -> str:
    results = [
        "| what is measured | ours | in the same run | published | goal |",
        "|---|---|---|---|---|",
    ]
    runs = ["| what is measured | protocol | metric |", "|---|---|---|"]
    commands = ["| task | CPU time | date | machine |", "|---|---|---|---|"]
    for row in rows:
        cells = [row.row.title, row.value(), row.baselines(), row.row.published, row.goal()]
        results.append(_line(cells))
        runs.append(_line([row.row.title, row.protocol(), row.row.metric]))
    for task in dict.fromkeys(row.name for row in rows):
        own = [one for row in rows if row.name == task for one in row.results]
        known = [one.cpu_seconds for one in own if one.cpu_seconds is not None]
        time = f"{sum(known) / 60:.1f} min" if known else "not recorded" if own else ""
        dates = ", ".join(sorted({one.date for one in own}))
        machines = "; ".join(sorted({one.machine for one in own}))
        commands.append(_line([f"`./run bench learn {task}`", time, dates, machines]))
    notes = sorted({one.note for row in rows for one in row.results if one.note})
    parts = [f"## {name}\n", *results, "", *runs, "", *commands, ""]
    return "\n".join([*parts, *map(_item, notes), *([""] if notes else [])])


def _item(text: str) -> str:
    """Return an item of a list in lines of 100 characters."""
    return textwrap.fill(
        text,
        100,
        initial_indent="- ",
        subsequent_indent="  ",
        break_long_words=False,
        break_on_hyphens=False,
    )


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |".replace("|  |", "| |").replace("|  |", "| |")


def _missed(rows: Sequence[Filled]) -> Iterator[str]:
    missed = [row for row in rows if row.is_missed()]
    if missed:
        yield "## Goals that are missed\n"
        for row in missed:
            reason = row.row.reason or "The reason is not known yet."
            yield _item(f"{row.row.title}: {row.value()}, {row.row.goal}. {reason}")
        yield ""


def _open(rows: Sequence[Filled]) -> Iterator[str]:
    yield "## What has no task yet\n"
    yield "| what is to be measured | published | what is missing |"
    yield "|---|---|---|"
    yield from (_line([what, *cells]) for what, cells in WAITING.items())
    yield ""
    left: Mapping[str, None] = dict.fromkeys(row.name for row in rows if not row.is_complete)
    if left:
        yield "## What is left to run\n"
        yield "```"
        yield from (f"./run bench learn {name} --folder DATA" for name in left)
        yield "```\n"


def main(words: Sequence[str] = ()) -> int:
    """Write the page, or say whether it is up to date, and return the exit code."""
    parser = argparse.ArgumentParser(
        prog="incidence bench results", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("--check", action="store_true", help="write nothing; fail if it differs")
    parser.add_argument(
        "--results", type=Path, default=record.RESULTS, help="folder with the results"
    )
    parser.add_argument(
        "--page", type=Path, default=PAGE, help="the page; default: docs/results.md"
    )
    arguments = parser.parse_args(words)
    text = page(record.read_all(arguments.results))
    if arguments.check:
        is_same = arguments.page.exists() and arguments.page.read_text(encoding="utf-8") == text
        print("the page is what the results give" if is_same else "the page is out of date")
        return int(not is_same)
    with whole_file(arguments.page) as file:
        file.write(text.encode())
    print(f"{arguments.page} is written", file=sys.stderr)
    return 0
