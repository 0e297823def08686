"""Figures as a table, as data, and as a picture."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import date
from pathlib import Path
from typing import Any

import torch

from benchmarks.speed.timing import Figure, Time
from incidence import __version__
from incidence.errors import need

__all__ = ["as_data", "chart", "machine", "plot", "text"]

_MOST = 3
_ALLOCATORS = "jemalloc", "tcmalloc", "mimalloc"


def machine() -> str:
    """Where and when this was measured."""
    cores, threads = os.cpu_count(), torch.get_num_threads()
    versions = f"incidence {__version__}, torch {torch.__version__}"
    return f"{versions}, {platform.machine()}, {cores} cores, {threads} threads, {_malloc()}, {date.today()}"


def _malloc() -> str:
    """Which allocator this process has: page faults of large arrays are a good part of a layer under the stock one."""
    maps = Path("/proc/self/maps")
    loaded = maps.read_text() if maps.exists() else ""
    return next((name for name in _ALLOCATORS if name in loaded), "stock malloc")


def text(name: str, rows: Sequence[Figure], times: Sequence[Time] = (), is_quick: bool = False) -> str:
    """The figures of one benchmark: the median, the spread, the bar and whether it is met; then what each variant took.

    The bars are for full sizes: with `is_quick` nothing is said of them.
    """
    lines = [f"\n{name}"]
    for row in rows:
        low, high = min(row.values), max(row.values)
        judged = f"  bar {'>=' if row.is_least else '<='} {row.bar or 0:g}: {'met' if row.is_met else 'NOT MET'}"
        bar = "" if row.bar is None or is_quick else judged
        lines.append(f"  {row.name:66} {row.median:8.3g} {row.unit:4} ({low:.3g} to {high:.3g}){bar}")
    if times:
        lines.append("  best time of one call, forward and backward unless named otherwise, in ms: by the clock, of the busiest thread")
    lines += [f"    {own.name:64} {own.wall * 1e3:8.4g} {own.busiest * 1e3:8.4g}" for own in times]
    return "\n".join(lines)


def _with_bar(results: Mapping[str, Sequence[Figure]]) -> list[tuple[str, Figure]]:
    return [(f"{name}: {row.name}", row) for name, found in results.items() for row in found if row.bar]


def chart(results: Mapping[str, Sequence[Figure]], width: int = 12) -> str:
    """All figures that have a bar as lines of a length that says how far they are over it: a line that passes the mark has met it."""
    rows = _with_bar(results)
    lines = [f"\nhow far over the bar (the mark is the bar, and lines end at {_MOST} times it)"] if rows else []
    for name, row in rows:
        times = row.over_bar(row.median)
        line = f"{'=' * round(width * min(times, _MOST)):{_MOST * width}}"
        lines.append(f"  {name[:66]:66} {line[:width]}|{line[width:].rstrip()} {times:.2f}")
    return "\n".join(lines)


def as_data(results: Mapping[str, Sequence[Figure]], times: Mapping[str, Sequence[Time]] | None = None) -> dict[str, Any]:
    """The figures as plain data, for JSON; times in seconds."""
    return {
        "machine": machine(),
        "times": {name: [asdict(own) for own in found] for name, found in (times or {}).items()},
        "results": {
            name: [
                {"name": r.name, "unit": r.unit, "median": r.median, "values": list(r.values), "bar": r.bar, "is_met": r.is_met}
                for r in rows
            ]
            for name, rows in results.items()
        },
    }


def plot(results: Mapping[str, Sequence[Figure]], path: Path) -> None:
    """The ratios with a bar as a picture, each as a share of its bar."""
    library = need("matplotlib.figure", "a picture", "bench")
    rows = _with_bar(results)
    picture = library.Figure(figsize=(10, 1 + 0.4 * len(rows)), layout="constrained")
    axes = picture.subplots()
    for place, (_, row) in enumerate(reversed(rows)):
        over = [row.over_bar(value) for value in row.values]
        color = "#2e7d32" if row.is_met else "#c62828"
        axes.barh(place, row.over_bar(row.median), color=color, alpha=0.8)
        axes.plot([min(over), max(over)], [place, place], color="black")
    axes.axvline(1.0, color="gray", linestyle="--")
    axes.set_yticks(range(len(rows)), [name for name, _ in reversed(rows)])
    axes.set_xlabel("times over the bar: the median, and the spread")
    picture.savefig(path)
