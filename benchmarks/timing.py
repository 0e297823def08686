"""Timing in rounds: every variant once a round, after two rounds to warm up."""

from __future__ import annotations

import resource
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

__all__ = ["Timer", "peak_memory", "ratio"]


@dataclass
class Timer:
    """Runs variants in rounds and keeps the shortest time of each.

    Attributes:
        rounds: How often each variant runs.
        repeats: How often the whole is repeated; each repeat gives one value of a ratio.
        report: Told of progress.
    """

    rounds: int = 5
    repeats: int = 3
    report: Callable[[str], None] = field(default=lambda _: None)

    def run(self, variants: Mapping[str, Callable[[], object]]) -> dict[str, list[float]]:
        """The best time of every variant in each repeat, in seconds of wall clock."""
        best: dict[str, list[float]] = {name: [] for name in variants}
        for name, work in variants.items():
            self.report(f"warming up {name}")
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


def ratio(times: Mapping[str, list[float]], over: str, under: str) -> tuple[float, ...]:
    """How much longer one variant takes than another, repeat by repeat."""
    return tuple(a / b for a, b in zip(times[over], times[under], strict=True))


def peak_memory() -> int:
    """The largest memory of this process so far, in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
