"""Figures as a table, as data, and as a picture."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import date
from pathlib import Path
from typing import Any

import torch

from benchmarks.speed.load import Load, Time
from benchmarks.speed.timing import Figure
from incidence import __version__
from incidence.errors import need

__all__ = ["Result", "as_data", "chart", "machine", "plot", "text"]

_MOST = 3
_ALLOCATORS = "jemalloc", "tcmalloc", "mimalloc"
_INSTRUCTIONS = {"AVX512": "AVX-512", "DEFAULT": "no AVX2"}


@dataclass(frozen=True)
class Result:
    """What a benchmark found.

    Attributes:
        figures: Its figures.
        times: What the variants took.
        notes: What else there is to know, a sentence each.
        load: What else the machine did meanwhile.
    """

    figures: Sequence[Figure]
    times: Sequence[Time] = ()
    notes: Sequence[str] = ()
    load: Load = field(default_factory=Load)


def machine(is_kept: bool = False) -> str:
    """Where and when this was measured; `is_kept` says that memory is kept between steps."""
    versions = (
        f"incidence {__version__}, torch {torch.__version__}, Python {platform.python_version()}"
    )
    capability = torch.backends.cpu.get_cpu_capability()
    kind = f"{platform.machine()}, {_processor()}, {_INSTRUCTIONS.get(capability, capability)}"
    return (
        f"{versions}, {kind}, {os.cpu_count()} cores, {torch.get_num_threads()} threads,"
        f" {_malloc(is_kept)}, {date.today()}"
    )


def _processor() -> str:
    """The model and the family of the processor, as far as the system tells: figures of one kind do
    not hold for another.
    """
    path = Path("/proc/cpuinfo")
    lines = path.read_text().split("\n\n")[0].splitlines() if path.exists() else []
    told = {key.strip(): value.strip() for key, _, value in (line.partition(":") for line in lines)}
    if "model name" not in told:
        return platform.processor() or "unknown processor"
    return (
        f"{told['model name']} (family {told.get('cpu family', '?')}, model"
        f" {told.get('model', '?')})"
    )


def _malloc(is_kept: bool) -> str:
    """Which allocator this process has: page faults of large arrays are a good part of a layer
    under the stock one.
    """
    maps = Path("/proc/self/maps")
    loaded = maps.read_text() if maps.exists() else ""
    name = next((name for name in _ALLOCATORS if name in loaded), "stock malloc")
    is_set = any(key.startswith("MALLOC_") or key == "GLIBC_TUNABLES" for key in os.environ)
    setting = " set by the environment" if is_set else ""
    memory = ", memory kept between steps" if is_kept else ""
    return name + setting + memory


def text(name: str, result: Result, is_quick: bool = False) -> str:
    """The figures of one benchmark: the median, the spread, the bar and whether it is met; then
    what each variant took.

    The bars are for full sizes: with `is_quick` nothing is said of them.
    """
    lines = [f"\n{name}", *(f"  {note}" for note in result.notes)]
    if result.load.reason:
        lines.append(f"  busy: {result.load.reason} meanwhile; the figures are no verdict")
    for row in result.figures:
        bar = (
            ""
            if row.bar is None or is_quick
            else f"  bar {'>=' if row.is_least else '<='} {row.bar:g}: {_verdict(row, result.load)}"
        )
        lines.append(
            f"  {row.name:66} {row.median:8.3g} {row.unit:4} ({min(row.values):.3g} to"
            f" {max(row.values):.3g}){bar}"
        )
    if result.times:
        lines.append(
            "  best time of one call, forward and backward unless named otherwise, in ms: by the"
            " clock, of the busiest thread"
        )
    lines += [
        f"    {own.name:64} {own.wall * 1e3:8.4g} {own.busiest * 1e3:8.4g}" for own in result.times
    ]
    return "\n".join(lines)


def _verdict(row: Figure, load: Load) -> str:
    return "busy: no verdict" if load.reason else "met" if row.is_met else "NOT MET"


def _with_bar(results: Mapping[str, Result]) -> list[tuple[str, Figure]]:
    """The figures that something can be said of."""
    return [
        (f"{name}: {row.name}", row)
        for name, found in results.items()
        if not found.load.reason
        for row in found.figures
        if row.bar
    ]


def chart(results: Mapping[str, Result], width: int = 12) -> str:
    """All figures that have a bar as lines of a length that says how far they are over it: a line
    that passes the mark has met it.

    Benchmarks during which the machine was busy are left out.
    """
    rows = _with_bar(results)
    lines = (
        [f"\nhow far over the bar (the mark is the bar, and lines end at {_MOST} times it)"]
        if rows
        else []
    )
    for name, row in rows:
        times = row.over_bar(row.median)
        line = f"{'=' * round(width * min(times, _MOST)):{_MOST * width}}"
        lines.append(f"  {name[:66]:66} {line[:width]}|{line[width:].rstrip()} {times:.2f}")
    return "\n".join(lines)


def as_data(results: Mapping[str, Result], is_kept: bool = False) -> dict[str, Any]:
    """The figures as plain data, for JSON; times in seconds."""
    return {
        "machine": machine(is_kept),
        "times": {name: _plain(found.times) for name, found in results.items()},
        "notes": {name: list(found.notes) for name, found in results.items()},
        "load": {
            name: {**asdict(found.load), "busy": found.load.reason}
            for name, found in results.items()
        },
        "results": {
            name: [
                {**own, "median": row.median, "is_met": None if found.load.reason else row.is_met}
                for own, row in zip(_plain(found.figures), found.figures, strict=True)
            ]
            for name, found in results.items()
        },
    }


def _plain(rows: Iterable[Any]) -> list[dict[str, Any]]:
    return [asdict(row) for row in rows]


def plot(results: Mapping[str, Result], path: Path) -> None:
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
