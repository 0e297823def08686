"""Timing in rounds: every variant once a round, after two rounds to warm up; and what this machine
can do at best.
"""

from __future__ import annotations

import resource
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import torch

from benchmarks.speed.load import Time, of_threads

__all__ = ["Figure", "Rates", "Timer", "peak_memory", "rates", "ratio"]


@dataclass(frozen=True)
class Figure:
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

    def over_bar(self, value: float) -> float:
        """How far a value is over the bar: 1 at the bar, more where it is better."""
        return value / (self.bar or 1) if self.is_least else (self.bar or 1) / value


@dataclass
class Timer:
    """Runs variants in rounds and takes the best time of each in every repeat.

    Attributes:
        rounds: How often each variant runs in a repeat.
        repeats: How often the whole is repeated; each repeat gives one value of a ratio.
        calls: How often it is called each time, where one call is too short to be timed.
        report: Told of progress.
        keep: Given the best time of every variant.
    """

    rounds: int = 4
    repeats: int = 3
    calls: int = 1
    report: Callable[[str], None] = field(default=lambda _: None)
    keep: Callable[[Time], None] = field(default=lambda _: None)

    def run(self, variants: Mapping[str, Callable[[], object]]) -> dict[str, list[float]]:
        """The best time of a call of every variant in each repeat, in seconds of wall clock."""
        kept: dict[str, Time] = {}
        best: dict[str, list[float]] = {name: [] for name in variants}
        for name, work in variants.items():
            self.report(f"warming up: {name}")
            for _ in range(2):
                work()
        for repeat in range(self.repeats):
            times: dict[str, list[float]] = {name: [] for name in variants}
            for number in range(self.rounds):
                self.report(
                    f"repeat {repeat + 1} of {self.repeats}, round {number + 1} of {self.rounds}"
                )
                for name, work in variants.items():
                    threads, own, start = of_threads(), time.thread_time(), time.perf_counter()
                    for _ in range(self.calls):
                        work()
                    wall, own = (time.perf_counter() - start) / self.calls, time.thread_time() - own
                    times[name].append(wall)
                    if name not in kept or wall < kept[name].wall:
                        busiest = max(
                            own,
                            *(
                                ran - threads.get(thread, 0.0)
                                for thread, ran in of_threads().items()
                            ),
                        )
                        kept[name] = Time(name, wall, busiest / self.calls)
            for name, found in times.items():
                best[name].append(min(found))
        for found_time in kept.values():
            self.keep(found_time)
        return best


def ratio(times: Mapping[str, list[float]], over: str, under: str) -> list[float]:
    """How much longer one variant takes than another, repeat by repeat."""
    return [a / b for a, b in zip(times[over], times[under], strict=True)]


class Rates(NamedTuple):
    """The best rates seen, a second.

    Attributes:
        cached: Flops of a product with a K x K matrix whose rows stay in the cache.
        cold: The same where rows come from memory, block by block, as those of a large layer do.
        bandwidth: Bytes read and written by a copy.
    """

    cached: float
    cold: float
    bandwidth: float


def rates(channels: int, rows: int = 1 << 15, repeats: int = 12) -> Rates:
    """Takes the best of several products and copies."""
    source = torch.randn(1 << 26)  # 256 MiB: far more than any cache
    target = torch.empty_like(source)
    blocks, weight, out = (
        source.view(-1, channels).split(rows),
        torch.randn(channels, channels),
        torch.empty(rows, channels),
    )

    def stream() -> None:
        for block in blocks:
            torch.mm(block, weight, out=out)

    product = min(_seconds(lambda: torch.mm(blocks[0], weight, out=out)) for _ in range(repeats))
    products = min(_seconds(stream) for _ in range(max(repeats // 4, 1)))
    copy = min(_seconds(lambda: target.copy_(source)) for _ in range(repeats))
    return Rates(
        2 * rows * channels**2 / product,
        2 * source.numel() * channels / products,
        2 * 4 * source.numel() / copy,
    )


def _seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def peak_memory() -> int:
    """The largest memory of this process so far, in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
