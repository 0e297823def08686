"""Runs side by side: how well each does, what it cost, and in which options they differ."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from math import isfinite, nan
from pathlib import Path
from statistics import fmean, stdev
from textwrap import wrap
from typing import Any

from incidence import plot
from incidence.errors import IncidenceError
from incidence.files import disk_trouble
from incidence.train.config import Config
from incidence.train.evaluation import PARTS
from incidence.train.metrics import HIGHER, format_metric
from incidence.train.run_folder import RunFolder, csv_text, write

__all__ = ["Result", "RunComparison", "compare", "read_result", "repeated"]

_BAR = 24  # columns of the longest bar
_INDENT = " " * 11
_AT_RANDOM = ("seed", "data_seed", "split")
_OF_MACHINE = (
    "out",
    "data",
    "folder",
    "threads",
    "devices",
    "machines",
    "split_structure",
    "logger",
    "accelerator",
)


@dataclass(frozen=True)
class Result:
    """A finished run, as its files describe it.

    Attributes:
        path: Its folder.
        config: Its options.
        metric: The main metric.
        metrics: What it measured, as in `metrics.json`.
        history: A row of metrics for each epoch.
    """

    path: Path
    config: Config
    metric: str
    metrics: dict[str, Any]
    history: list[dict[str, float]]

    def __repr__(self) -> str:
        """Return how well it does, and its folder."""
        return f"Result({str(self.path)!r}: {self.part} {self.metric} {self.formatted})"

    @property
    def part(self) -> str:
        """The part that counts: the first of test, validation and train that there is."""
        return next((name for name in PARTS if name in self.metrics), "train")

    @property
    def value(self) -> float:
        """The main metric; NaN if it is undefined."""
        return _as_number(self.metrics.get(self.part, {}).get(self.metric))

    @property
    def baseline(self) -> float:
        """The main metric of the baseline; NaN if it is undefined."""
        return _as_number(self.metrics.get(self.part, {}).get("baseline", {}).get(self.metric))

    @property
    def formatted(self) -> str:
        """The main metric as text."""
        return format_metric(self.value, self.metric)

    @property
    def baseline_name(self) -> str:
        """What the baseline predicts."""
        return str(self.metrics.get("baseline", "the baseline"))

    @property
    def data_name(self) -> str:
        """The name of the data, or of its file."""
        return Path(self.config.data).name or self.config.data

    @property
    def fingerprint(self) -> str:
        """The fingerprint of the data, with its targets."""
        return str(self.metrics.get("fingerprint"))

    @property
    def length(self) -> float:
        """The main metric as the length of a bar."""
        return self.value if isfinite(self.value) else 0.0

    @property
    def badness(self) -> float:
        """A number that is lower the better the run is."""
        if not isfinite(self.value):
            return float("inf")
        return -self.value if self.metric in HIGHER else self.value

    def options(self, names: Sequence[str]) -> str:
        """Return some options as text."""
        return ", ".join(f"{name}={_as_text(getattr(self.config, name))}" for name in names)


def _as_number(value: Any) -> float:
    return nan if value is None else float(value)


def read_result(path: Path) -> Result:
    """Return a finished run from its folder.

    Raises:
        IncidenceError: It is no folder of a run, or the run is not finished.
    """
    if path.is_file():
        raise IncidenceError(
            f"{path} is a file, and no folder of a run. `incidence train` makes one."
        )
    folder = RunFolder.open(path)
    try:
        metrics = json.loads(folder.metrics.read_text(encoding="utf-8"))
        with folder.history.open(encoding="utf-8", newline="") as file:
            history = [
                {key: float(value) for key, value in row.items() if value}
                for row in csv.DictReader(file)
            ]
    except (OSError, ValueError) as error:
        raise IncidenceError(
            f"the run in {path} is not finished: continue it with `incidence train --resume"
            f" {path}`."
        ) from error
    return Result(folder.path, folder.read_config(), folder.read_spec().metric, metrics, history)


def compare(runs: Iterable[Path | str]) -> RunComparison:
    """Return finished runs side by side.

    Args:
        runs: Their folders, or folders of such, as that of a sweep. Files beside them are ignored.

    Raises:
        IncidenceError: None of them is a finished run.
    """
    results, skipped = [], []
    for path in (one for given in map(Path, runs) for one in _runs_of(given)):
        try:
            results.append(read_result(path))
        except IncidenceError as error:
            skipped.append(error)
    if results:
        return RunComparison(results, skipped)
    if skipped:
        raise skipped[0]
    raise IncidenceError("there is no run to compare: `incidence train` makes one.")


def _runs_of(path: Path) -> list[Path]:
    """Return the run of a path, or the runs in it; none for a file beside runs."""
    inside = sorted(file.parent for file in path.glob("*/config.yaml"))
    if path.is_file():
        has_runs_beside = any(path.parent.glob("*/config.yaml"))  # as in `runs/*`
        return [] if has_runs_beside else [path]
    if RunFolder(path).config.is_file() or not inside:
        return [path]
    return inside


@dataclass(frozen=True)
class RunComparison:
    """Runs side by side: `print` it, or `save` a picture or a table of it.

    Attributes:
        results: The runs.
        passed_over: Why folders were skipped.
    """

    results: Sequence[Result]
    passed_over: Sequence[IncidenceError] = ()

    @cached_property
    def groups(self) -> list[list[Result]]:
        """The runs on the same data by the same metric, the best first."""
        groups: dict[tuple[object, ...], list[Result]] = {}
        for result in self.results:
            key = (result.fingerprint, result.part, result.metric)
            groups.setdefault(key, []).append(result)
        return [sorted(group, key=lambda result: result.badness) for group in groups.values()]

    @cached_property
    def differing(self) -> list[str]:
        """The options in which runs differ, without those of the machine."""
        return _differing(self.results)

    def row(self, result: Result) -> dict[str, Any]:
        """Return one run as plain values, for JSON and tables."""
        row: dict[str, Any] = {
            "run": str(result.path),
            "data": result.config.data,
            "part": result.part,
            "metric": result.metric,
            "value": result.value if isfinite(result.value) else None,
            "baseline": result.baseline if isfinite(result.baseline) else None,
        }
        for key in ("parameters", "epochs", "seconds"):
            row[key] = result.metrics.get(key)
        for name in self.differing:
            value = getattr(result.config, name)
            row[name] = list(value) if isinstance(value, tuple) else value
        return row

    def data(self) -> list[dict[str, Any]]:
        """Return all runs as plain values, group by group, the best first."""
        return [self.row(result) for group in self.groups for result in group]

    def __repr__(self) -> str:
        """Return a table for each group."""
        return "\n\n".join("\n".join(self._lines(group)) for group in self.groups)

    def title(self, group: Sequence[Result]) -> str:
        """Return the name of the data of a group, with more if other data has the same name."""
        first, title = group[0], group[0].data_name
        namesakes = [
            other[0]
            for other in self.groups
            if other[0].data_name == title and other[0].fingerprint != first.fingerprint
        ]
        if namesakes and first.config.target is not None:
            title += f", {first.config.target}"
        if any(
            (one.config.target, one.metric) == (first.config.target, first.metric)
            for one in namesakes
        ):
            title += f", as it was for {first.path}"
        return title

    def _lines(self, group: Sequence[Result]) -> list[str]:
        first, differing = group[0], _differing(group)
        longest = max(result.length for result in group)
        baselines = [format_metric(result.baseline, result.metric) for result in group]
        has_one_baseline = len(set(baselines)) == 1
        against = f"in brackets that of {first.baseline_name}, as parts differ"
        if has_one_baseline:
            against = f"against {baselines[0]} for {first.baseline_name}"
        lines = [f"{self.title(group)}: {first.part} {first.metric}, {against}", ""]
        for result, baseline in zip(group, baselines, strict=True):
            bar = ""
            if longest:
                bar = "█" * max(1, round(_BAR * result.length / longest))
            lines.append(f"{result.formatted:>9}  {bar:<{_BAR}}  {result.path}")
            about = [] if has_one_baseline else [f"({baseline})"]
            about += [text for text in (result.options(differing), _cost(result)) if text]
            lines += wrap("; ".join(about), 80, initial_indent=_INDENT, subsequent_indent=_INDENT)
        return [*lines, *_mean_lines(group)]

    def save(self, path: Path) -> Path:
        """Write a table (`.csv`), or a picture (`.png`, `.svg`, `.pdf`) of curves and bars.

        Raises:
            IncidenceError: The suffix is none of these, or the file cannot be written.
        """
        if path.suffix == ".csv":
            rows = self.data()
            columns = list(dict.fromkeys(key for row in rows for key in row))
            cells = ([_as_text(row.get(key)) for key in columns] for row in rows)
            write(path, csv_text([columns, *cells]))
            return path
        if path.suffix not in (".png", ".svg", ".pdf"):
            raise IncidenceError(
                f"a comparison is written as .csv, .png, .svg or .pdf; got {path}."
            )
        figure = plot.comparison([self._panel(group) for group in self.groups])
        try:
            return plot.save(figure, path)
        except OSError as error:
            raise IncidenceError(disk_trouble(path, error)) from error

    def _panel(self, group: Sequence[Result]) -> plot.Compared:
        differing = _differing(group)
        return plot.Compared(
            f"{self.title(group)}: {group[0].part} {group[0].metric}",
            [result.history for result in group],
            [result.value for result in group],
            [result.options(differing) or result.path.name for result in group],
            group[0].metric,
            [result.baseline for result in group],
        )


def _cost(result: Result) -> str:
    about = result.metrics
    return (
        f"{about.get('parameters', 0):,} parameters, {about.get('epochs', 0)} epochs,"
        f" {about.get('seconds', 0):.0f} s"
    )


def _mean_lines(group: Sequence[Result]) -> list[str]:
    """Return the means of runs that differ only in seeds and parts."""
    differing = [name for name in _differing(group) if name not in _AT_RANDOM]
    lines = []
    for mean, deviation, same in repeated(group):
        if len(same) < 2:
            continue
        values = []
        for name in _differing(same):
            different = sorted({getattr(result.config, name) for result in same})
            values.append(f"{name} {', '.join(map(_as_text, different))}")
        metric = same[0].metric
        text = f"{format_metric(mean, metric)} ± {format_metric(deviation, metric)} over"
        text += f" {len(same)} runs: {' and '.join(values)}"
        if differing:
            text += f" ({same[0].options(differing)})"
        lines += wrap(text, 80, subsequent_indent=_INDENT)
    return ["", *lines] if lines else []


def repeated(group: Sequence[Result]) -> list[tuple[float, float, list[Result]]]:
    """Return runs that differ only in seeds and parts, together.

    Returns:
        The mean of the metric, its standard deviation as a sample, and the runs.
    """
    kinds: dict[tuple[object, ...], list[Result]] = {}
    names = [f.name for f in fields(Config) if f.name not in (*_OF_MACHINE, *_AT_RANDOM)]
    for result in group:
        kinds.setdefault(tuple(getattr(result.config, name) for name in names), []).append(result)
    means = []
    for same in kinds.values():
        values = [result.value for result in same]
        deviation = stdev(values) if len(values) > 1 else 0.0
        means.append((fmean(values), deviation, same))
    return means


def _differing(results: Sequence[Result]) -> list[str]:
    """Return the options in which runs differ, without those of the machine."""
    names = [f.name for f in fields(Config) if f.name not in _OF_MACHINE]
    return [name for name in names if len({getattr(one.config, name) for one in results}) > 1]


def _as_text(value: Any) -> str:
    if value is None:
        return ""
    return "+".join(map(str, value)) if isinstance(value, (tuple, list)) else str(value)
