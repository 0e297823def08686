"""Runs side by side: how well each does, what it cost, and in which options they differ; a sweep over options ends with that."""

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
from incidence.train.config import Config
from incidence.train.evaluate import HIGHER, PARTS, number
from incidence.train.folder import RunFolder, csv_text, disk_trouble, write

__all__ = ["Comparison", "Result", "compare", "read_result", "repeated"]

_BAR = 24  # columns of the longest bar
_BY_CHANCE = ("seed", "data_seed", "split")
_OF_PLACE = ("out", "data", "folder", "threads", "devices", "machines", "logger", "accelerator")


@dataclass(frozen=True)
class Result:
    """A finished run, as its files tell it.

    Attributes:
        path: Its folder.
        config: Its options.
        metric: The one that counts.
        metrics: What it measured, as in `metrics.json`.
        history: A row of metrics for each epoch.
    """

    path: Path
    config: Config
    metric: str
    metrics: dict[str, Any]
    history: list[dict[str, float]]

    def __repr__(self) -> str:
        """How well it does, and where it is."""
        return f"Result({str(self.path)!r}: {self.part} {self.metric} {number(self.value, self.metric)})"

    @property
    def part(self) -> str:
        """The part that counts: the first of test, validation and train that is there."""
        return next((name for name in PARTS if name in self.metrics), "train")

    @property
    def value(self) -> float:
        """The metric that counts; not a number if it was none."""
        found = self.metrics.get(self.part, {}).get(self.metric)
        return nan if found is None else float(found)

    @property
    def baseline(self) -> float:
        """The same of a predictor that looks at nothing."""
        found = self.metrics.get(self.part, {}).get("baseline", {}).get(self.metric)
        return nan if found is None else float(found)

    @property
    def blind(self) -> str:
        """What that predictor is called; runs did not always keep it."""
        return str(self.metrics.get("baseline", "the baseline"))

    @property
    def called(self) -> str:
        """The name of the data, or of its file."""
        return Path(self.config.data).name or self.config.data

    @property
    def on(self) -> tuple[str | None, ...]:
        """Which data it is: by its fingerprint, which has the targets too; runs that did not keep it say where it was."""
        kept = self.metrics.get("fingerprint")
        return (self.config.data, self.config.target) if kept is None else (str(kept),)


def read_result(path: Path) -> Result:
    """A finished run from its folder.

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
            f"the run in {path} is not finished: go on with `incidence train --resume {path}`."
        ) from error
    return Result(folder.path, folder.read_config(), folder.read_spec().metric, metrics, history)


def compare(runs: Iterable[Path | str]) -> Comparison:
    """Finished runs side by side.

    Args:
        runs: Their folders, or folders that have such, as that of a sweep; files beside them are left alone.

    Raises:
        IncidenceError: None of them is a finished run.
    """
    found, passed_over = [], []
    for path in (one for given in map(Path, runs) for one in _inside(given)):
        try:
            found.append(read_result(path))
        except IncidenceError as error:
            passed_over.append(error)
    if not found:
        raise (
            passed_over[0]
            if passed_over
            else IncidenceError("there is no run to compare: `incidence train` makes one.")
        )
    return Comparison(found, passed_over)


def _inside(path: Path) -> list[Path]:
    """The runs that a path means: a run itself, or those in a folder; none for a file that stands beside runs, as in `runs/*`."""
    if path.is_file():
        return [] if any(path.parent.glob("*/config.yaml")) else [path]
    below = (
        []
        if RunFolder(path).config.is_file()
        else sorted(file.parent for file in path.glob("*/config.yaml"))
    )
    return below or [path]


@dataclass(frozen=True)
class Comparison:
    """Runs side by side: `print` it; `save` a picture or a table of it.

    Attributes:
        results: The runs.
        passed_over: Folders that are no finished runs.
    """

    results: Sequence[Result]
    passed_over: Sequence[IncidenceError] = ()

    @cached_property
    def groups(self) -> list[list[Result]]:
        """The runs on the same data by the same metric, the best first."""
        kinds: dict[tuple[object, ...], list[Result]] = {}
        for result in self.results:
            kinds.setdefault((*result.on, result.part, result.metric), []).append(result)
        return [sorted(group, key=_badness) for group in kinds.values()]

    @cached_property
    def differing(self) -> list[str]:
        """The options in which runs differ, but for where they are."""
        return _differing(self.results)

    def told(self, result: Result) -> dict[str, Any]:
        """One run as plain values, for JSON and tables."""
        options = {name: _plain(getattr(result.config, name)) for name in self.differing}
        about = {key: result.metrics.get(key) for key in ("parameters", "epochs", "seconds")}
        value, baseline = (x if isfinite(x) else None for x in (result.value, result.baseline))
        place = {
            "run": str(result.path),
            "data": result.config.data,
            "part": result.part,
            "metric": result.metric,
        }
        return {**place, "value": value, "baseline": baseline, **about, **options}

    def data(self) -> list[dict[str, Any]]:
        """All runs as plain values, group by group, the best first."""
        return [self.told(result) for group in self.groups for result in group]

    def __repr__(self) -> str:
        """The table that it is printed as."""
        return "\n\n".join("\n".join(self._lines(group)) for group in self.groups)

    def title(self, group: Sequence[Result]) -> str:
        """The data of a group by name; where others are called so, also what is predicted, or whose it is."""
        first = group[0]
        namesakes = [
            one[0] for one in self.groups if one[0].called == first.called and one[0].on != first.on
        ]
        target = f", {first.config.target}" if namesakes and first.config.target is not None else ""
        is_same = any(
            (one.config.target, one.metric) == (first.config.target, first.metric)
            for one in namesakes
        )
        return f"{first.called}{target}{f', as it was for {first.path}' if is_same else ''}"

    def _lines(self, group: Sequence[Result]) -> list[str]:
        first, longest, differing = (
            group[0],
            max(_length(result) for result in group),
            _differing(group),
        )
        blind = {number(result.baseline, result.metric) for result in group}
        against = (
            f"against {blind.pop()} for {first.blind}"
            if len(blind) == 1
            else f"in brackets that of {first.blind}, as parts differ"
        )
        lines = [f"{self.title(group)}: {first.part} {first.metric}, {against}", ""]
        for result in group:
            about = result.metrics
            bar = "█" * max(1, round(_BAR * _length(result) / longest)) if longest else ""
            lines.append(f"{number(result.value, result.metric):>9}  {bar:<{_BAR}}  {result.path}")
            options = ", ".join(f"{key}={_shown(getattr(result.config, key))}" for key in differing)
            cost = f"{about.get('parameters', 0):,} parameters, {about.get('epochs', 0)} epochs, {about.get('seconds', 0):.0f} s"
            own = f"({number(result.baseline, result.metric)})" if blind else ""
            lines += wrap(
                "; ".join(filter(None, (own, options, cost))),
                80,
                initial_indent=" " * 11,
                subsequent_indent=" " * 11,
            )
        return [*lines, *_mean_lines(group)]

    def save(self, path: Path) -> Path:
        """Writes a table (`.csv`) or a picture (`.png`, `.svg`, `.pdf`): learning curves, and the metric of every run.

        Raises:
            IncidenceError: The suffix is none of these, or the file cannot be written.
        """
        if path.suffix == ".csv":
            rows = self.data()
            columns = list(dict.fromkeys(key for row in rows for key in row))
            write(
                path,
                csv_text([columns, *([_shown(row.get(key)) for key in columns] for row in rows)]),
            )
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
        options = [
            ", ".join(f"{key}={_shown(getattr(r.config, key))}" for key in _differing(group))
            for r in group
        ]
        labels = [told or result.path.name for told, result in zip(options, group, strict=True)]
        values, baselines = (
            [result.value for result in group],
            [result.baseline for result in group],
        )
        title = f"{self.title(group)}: {group[0].part} {group[0].metric}"
        return plot.Compared(
            title, [result.history for result in group], values, labels, group[0].metric, baselines
        )


def _mean_lines(group: Sequence[Result]) -> list[str]:
    """Means and deviations of runs that differ by chance alone: in their seeds and parts."""
    found = [(mean, deviation, same) for mean, deviation, same in repeated(group) if len(same) > 1]
    differing = [name for name in _differing(group) if name not in _BY_CHANCE]
    lines = []
    for mean, deviation, same in found:
        options = ", ".join(f"{key}={_shown(getattr(same[0].config, key))}" for key in differing)
        by = " and ".join(
            f"{name} {', '.join(map(_shown, sorted({getattr(r.config, name) for r in same})))}"
            for name in _differing(same)
        )
        value = f"{number(mean, same[0].metric)} ± {number(deviation, same[0].metric)}"
        lines += wrap(
            f"{value} over {len(same)} runs: {by}{f' ({options})' if options else ''}",
            80,
            subsequent_indent=" " * 11,
        )
    return ["", *lines] if lines else []


def repeated(group: Sequence[Result]) -> list[tuple[float, float, list[Result]]]:
    """Runs that differ in nothing but their seeds and parts: the mean of the metric, its deviation as a sample, and which they are."""
    kinds: dict[tuple[object, ...], list[Result]] = {}
    names = [f.name for f in fields(Config) if f.name not in (*_OF_PLACE, *_BY_CHANCE)]
    for result in group:
        kinds.setdefault(tuple(getattr(result.config, name) for name in names), []).append(result)
    values = [[result.value for result in same] for same in kinds.values()]
    return [
        (fmean(own), stdev(own) if len(own) > 1 else 0.0, same)
        for own, same in zip(values, kinds.values(), strict=True)
    ]


def _differing(results: Sequence[Result]) -> list[str]:
    """The options in which runs differ, but for where they are."""
    names = [f.name for f in fields(Config) if f.name not in _OF_PLACE]
    return [name for name in names if len({getattr(result.config, name) for result in results}) > 1]


def _badness(result: Result) -> float:
    value = result.value if isfinite(result.value) else float("inf")
    return -value if result.metric in HIGHER and isfinite(result.value) else value


def _length(result: Result) -> float:
    return result.value if isfinite(result.value) else 0.0


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def _shown(value: Any) -> str:
    return (
        ""
        if value is None
        else "+".join(map(str, value))
        if isinstance(value, (tuple, list))
        else str(value)
    )
