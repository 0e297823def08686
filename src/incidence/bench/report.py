"""Figures as a table, as data, and as a picture."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any

import torch

from incidence import __version__
from incidence.bench.timing import Row
from incidence.errors import IncidenceError

__all__ = ["as_data", "machine", "plot", "table"]


def machine() -> str:
    """Where and when this was measured."""
    cores, threads = os.cpu_count(), torch.get_num_threads()
    return f"incidence {__version__}, torch {torch.__version__}, {platform.machine()}, {cores} cores, {threads} threads, {date.today()}"


def table(name: str, rows: Sequence[Row]) -> str:
    """The figures of one benchmark: the median, the spread, the bar and whether it is met."""
    lines = [f"\n{name}"]
    for row in rows:
        low, high = min(row.values), max(row.values)
        bar = "" if row.bar is None else f"  bar {'>=' if row.is_least else '<='} {row.bar:g}: {'met' if row.is_met else 'NOT MET'}"
        lines.append(f"  {row.name:62} {row.median:8.3g} {row.unit:4} ({low:.3g} to {high:.3g}){bar}")
    return "\n".join(lines)


def as_data(results: Mapping[str, Sequence[Row]]) -> dict[str, Any]:
    """The figures as plain data, for JSON."""
    return {
        "machine": machine(),
        "results": {
            name: [
                {"name": r.name, "unit": r.unit, "median": r.median, "values": list(r.values), "bar": r.bar, "is_met": r.is_met}
                for r in rows
            ]
            for name, rows in results.items()
        },
    }


def plot(results: Mapping[str, Sequence[Row]], path: Path) -> None:
    """The ratios with a bar as a picture, each as a share of its bar."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise IncidenceError("a picture needs matplotlib: pip install 'incidence[bench]'.") from None
    rows = [(f"{name}: {row.name}", row) for name, found in results.items() for row in found if row.bar]
    figure = Figure(figsize=(10, 1 + 0.4 * len(rows)), layout="constrained")
    axes = figure.subplots()
    for place, (_, row) in enumerate(reversed(rows)):
        share = [value / (row.bar or 1) for value in row.values]
        median = row.median / (row.bar or 1)
        color = "#2e7d32" if row.is_met else "#c62828"
        axes.barh(place, median, color=color, alpha=0.8)
        axes.plot([min(share), max(share)], [place, place], color="black")
    axes.axvline(1.0, color="gray", linestyle="--")
    axes.set_yticks(range(len(rows)), [name for name, _ in reversed(rows)])
    axes.set_xlabel("median over its bar, with the spread; green where the bar is met")
    figure.savefig(path)
