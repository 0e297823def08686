"""How to measure: sizes, timers, and a layer with its composition and its lower bound."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

import incidence
from benchmarks.speed.composition import Composition, Scatter
from benchmarks.speed.load import Time
from benchmarks.speed.timing import Figure, Timer, rates
from incidence.errors import IncidenceError
from incidence.nn import Linear
from incidence.structure import Structure

__all__ = ["ROOT", "Bench", "Bounds", "Work", "one_thread"]

ROOT = Path(__file__).parents[2]
"""The project's folder, where a fresh process finds what measures."""


@dataclass
class Bench:
    """How to measure.

    Attributes:
        is_quick: Whether to take a tenth of the size and one repeat, to see that it works.
        report: Told of progress.
        folder: Where the data sets of the literature are, if they are there.
        is_kept: Whether memory is kept between steps.
        may_install: Whether peers may be installed, in environments of their own.
        before: The source of another version, to be compared with.
        times: What the variants took, as they were measured.
        notes: What the reader of the figures has to know, as it was found out.
    """

    is_quick: bool = False
    report: Callable[[str], None] = field(default=lambda _: None)
    folder: Path | None = None
    is_kept: bool = False
    may_install: bool = False
    before: Path | None = None
    times: list[Time] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def size(self, number: int) -> int:
        """A size, or a tenth of it."""
        return number // 10 if self.is_quick else number

    def timer(self, name: str, rounds: int = 3, calls: int = 1) -> Timer:
        """A timer for this bench; the name tells its times from others."""

        def keep(time: Time) -> None:
            self.times.append(replace(time, name=f"{name}: {time.name}"))

        return Timer(1 if self.is_quick else rounds, self.repeats, calls, self.report, keep)

    @property
    def repeats(self) -> int:
        """How many values a figure has."""
        return 1 if self.is_quick else 3

    def in_fresh_process(
        self, name: str, *options: str, python: str = sys.executable
    ) -> list[Figure]:
        """The figures of a benchmark that another process measures, with other options or another
        interpreter.

        Raises:
            IncidenceError: It could not; the message is its own.
        """
        self.report("in a process of its own")
        words = [
            python,
            "-m",
            "benchmarks",
            name,
            "--json",
            f"--threads={torch.get_num_threads()}",
            *options,
        ]
        path = os.pathsep.join(
            filter(
                None, [str(Path(incidence.__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
            )
        )
        done = subprocess.run(
            words + ["--quick"] * self.is_quick,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": path},
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise IncidenceError(done.stderr.strip().splitlines()[-1].removeprefix("incidence: "))
        found = json.loads(done.stdout)
        self.times += [Time(**own) for own in found["times"][name]]
        self.notes += found["notes"][name]
        return [
            Figure(**{key: own[key] for key in Figure.__dataclass_fields__})
            for own in found["results"][name]
        ]


@contextmanager
def one_thread() -> Iterator[None]:
    """Small work on one thread: two would wait for each other longer than they work."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


class Bounds(NamedTuple):
    """How long a layer takes at least, in seconds, with products at the rate of rows in the cache,
    and of rows in memory.

    The second counts the reading of rows with the products and with the copies, so a layer may come
    below it.
    """

    cached: float
    cold: float


class Work:
    """A layer on a structure, forward and backward, ours and composed naively.

    Args:
        text: The map; every tensor has one orbit.
        structure: One, in any order.
        channels: In and out.
        aggr: The aggregation.
    """

    def __init__(self, text: str, structure: Structure, channels: int, aggr: str = "sum") -> None:
        self.layer = Linear(text, channels, channels, aggr=aggr)
        self.structure, self.channels = structure, channels
        self.layer.plan(structure)
        self.keys = [p.name or str(p) for p in self.layer.map.inputs]
        self.xs = [
            torch.randn(structure.num_entries(p), channels, requires_grad=True)
            for p in self.layer.map.inputs
        ]
        self.grads = [
            torch.randn(structure.num_entries(p), channels) for p in self.layer.map.outputs
        ]

    def backward(self, ys: list[Tensor]) -> None:
        """Backward from outputs of ours, or of another way from the same inputs."""
        torch.autograd.backward(ys, self.grads)
        for leaf in (*self.xs, *self.layer.parameters()):
            leaf.grad = None

    def ours(self) -> None:
        """Forward and backward."""
        self.backward(self.forward())

    def forward(self) -> list[Tensor]:
        """The outputs."""
        x = self.xs[0] if len(self.xs) == 1 else dict(zip(self.keys, self.xs, strict=True))
        y = self.layer(x, self.structure)
        return list(y.values()) if isinstance(y, dict) else [y]

    def without_gradients(self) -> None:
        """Forward alone."""
        with torch.no_grad():
            self.forward()

    @cached_property
    def composition(self) -> Composition:
        """The same layer from scatter and gather."""
        return Composition(self.layer, self.structure)

    def composed(self, at: str, scatter: Scatter | None = None) -> Callable[[], None]:
        """Forward and backward of the composition."""
        return partial(self._composed, self.composition, at, scatter)

    def _composed(self, composition: Composition, at: str, scatter: Scatter | None) -> None:
        self.backward(composition(self.xs, at, scatter))

    def bounds(self) -> Bounds:
        """The flops that the layer truly needs, and reading and writing, at the best rates of this
        run.
        """
        flops = self.composition.flops * self.channels**2
        num_in, num_out = (sum(t.numel() for t in side) for side in (self.xs, self.grads))
        best = rates(self.channels)
        # Forward and backward are three products; X and dY are read, Y and dX written, X read once
        # more.
        traffic = 4 * (3 * num_in + 2 * num_out) / best.bandwidth
        return Bounds(3 * flops / best.cached + traffic, 3 * flops / best.cold + traffic)
