"""Timing in rounds: every variant once a round, after two rounds to warm up."""

from __future__ import annotations

import resource
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

__all__ = ["Row", "Timer", "peak_memory", "ratio"]


@dataclass(frozen=True)
class Row:
    """One figure: a value for each repeat, and the bar that their median should meet.

    Attributes:
        name: What was measured.
        values: One value for each repeat.
        unit: `x` for ratios, else the unit.
        bar: What to reach; None where there is nothing to reach.
        is_least: Whether the bar is the least that will do, and not the most.
    """

    name: str
    values: Sequence[float]
    unit: str = "x"
    bar: float | None = None
    is_least: bool = False

    @property
    def median(self) -> float:
        """The median of the repeats."""
        return statistics.median(self.values)

    @property
    def is_met(self) -> bool | None:
        """Whether the median meets the bar; None where there is none."""
        if self.bar is None:
            return None
        return self.median >= self.bar if self.is_least else self.median <= self.bar


@dataclass
class Timer:
    """Runs variants in rounds and takes the best time of each in every repeat.

    Attributes:
        rounds: How often each variant runs in a repeat.
        repeats: How often the whole is repeated; each repeat gives one value of a ratio.
        report: Told of progress.
    """

    rounds: int = 4
    repeats: int = 3
    report: Callable[[str], None] = field(default=lambda _: None)

    def run(self, variants: Mapping[str, Callable[[], object]]) -> dict[str, list[float]]:
        """The best time of every variant in each repeat, in seconds of wall clock."""
        best: dict[str, list[float]] = {name: [] for name in variants}
        for name, work in variants.items():
            self.report(f"warming up: {name}")
            for _ in range(2):
                work()
        for repeat in range(self.repeats):
            times: dict[str, list[float]] = {name: [] for name in variants}
            for number in range(self.rounds):
                self.report(f"repeat {repeat + 1} of {self.repeats}, round {number + 1} of {self.rounds}")
                for name, work in variants.items():
                    start = time.perf_counter()
                    work()
                    times[name].append(time.perf_counter() - start)
            for name, found in times.items():
                best[name].append(min(found))
        return best


def ratio(times: Mapping[str, list[float]], over: str, under: str) -> list[float]:
    """How much longer one variant takes than another, repeat by repeat."""
    return [a / b for a, b in zip(times[over], times[under], strict=True)]


def peak_memory() -> int:
    """The largest memory of this process so far, in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
