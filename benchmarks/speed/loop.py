"""What a training loop costs besides its arithmetic: threads that wait, plans of batches, and the
loop of `incidence train`.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from itertools import pairwise
from typing import Any
from unittest.mock import patch

import torch
from torch import nn

from benchmarks.speed.bench import Bench, one_thread
from benchmarks.speed.stand_ins import molecules, random_molecules
from benchmarks.speed.timing import Figure, ratio
from incidence.models import IncidenceNet, Predictor, make, read_channels
from incidence.structure import Example, Structure, collate, pack

__all__ = ["loop", "threads"]

_BATCH, _STEPS = 64, 20
_SPIN = "while True: pass"


def threads(bench: Bench) -> list[Figure]:
    """A training step of the preset `graph` with two threads over one, on an idle machine and with
    one core busy.
    """
    step = _stepper(pack(molecules(bench)), bench.size(_STEPS))
    before = torch.get_num_threads()

    def with_threads(count: int) -> Callable[[], None]:
        def run() -> None:
            torch.set_num_threads(count)
            step()

        return run

    figures = []
    variants = {"one": with_threads(1), "two": with_threads(2)}
    try:
        for name, is_busy in (("idle", False), ("one core busy", True)):
            with _busy_core(is_busy):
                timer = bench.timer(f"a step, {name}", 5, calls=bench.size(_STEPS))
                times = timer.run(variants)
            figure = f"a step with two threads over one, {name}"
            figures.append(Figure(figure, ratio(times, "two", "one"), bar=1.1))
    finally:
        torch.set_num_threads(before)
    return figures


@contextmanager
def _busy_core(is_busy: bool) -> Iterator[None]:
    if not is_busy:
        yield
        return
    process = subprocess.Popen([sys.executable, "-c", _SPIN])
    try:
        yield
    finally:
        process.kill()
        process.wait()


def loop(bench: Bench) -> list[Figure]:
    """What a batch needs before its first step: collating, plans, tables and program; and what the
    loop of `incidence train` adds to a step of a plain loop; on one thread.
    """
    with one_thread():
        return [*_batch(bench), _training(bench)]


def _predictor(examples: list[Example]) -> Predictor:
    widths = read_channels("graph", {key: x.shape[1] for key, x in examples[0].features.items()})
    torch.manual_seed(0)
    net = Predictor(make("graph", widths, 2), "classification")
    first = collate(examples[:_BATCH])
    net.calibrate(first.features, first.structure)
    return net


def _stepper(examples: list[Example], count: int) -> Callable[[], None]:
    """One step of training after the other, over batches at random."""
    net = _predictor(examples)
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3, fused=True)
    order = torch.Generator().manual_seed(0)

    def step() -> None:
        numbers = torch.randperm(len(examples), generator=order)[:_BATCH].tolist()
        batch = collate([examples[k] for k in numbers])
        loss = nn.functional.cross_entropy(net(batch.features, batch.structure), batch.target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    return step


def _batch(bench: Bench) -> list[Figure]:
    examples = pack(molecules(bench))
    net: IncidenceNet = _predictor(examples).net
    batch = collate(examples[:_BATCH])
    net(batch.features, batch.structure)
    network = net._slot.network
    if network is None:
        bench.notes.append("networks are not compiled here: no plan of a batch is measured")
        return []
    order = torch.Generator().manual_seed(0)

    def collated() -> Structure:
        numbers = torch.randperm(len(examples), generator=order)[:_BATCH].tolist()
        structure: Structure = collate([examples[k] for k in numbers]).structure
        return structure

    variants = {"collate": collated, "both": lambda: network.binding(collated())}
    times = bench.timer("a batch", 5, calls=bench.size(100)).run(variants)
    pairs = zip(times["both"], times["collate"], strict=True)
    return [
        Figure(
            "plan, tables and program of a batch of 64",
            [1e3 * (a - b) for a, b in pairs],
            "ms",
            0.3,
        ),
        Figure("collating it", [1e3 * a for a in times["collate"]], "ms"),
    ]


def _training(bench: Bench) -> Figure:
    """The median step of `incidence.train`, from when one begins to when the next begins, over that
    of a plain loop on the same data.
    """
    examples = random_molecules(bench.size(2560))
    added = []
    for _ in range(bench.repeats):
        starts = _training_starts(examples)
        step, plain = _stepper(pack(examples), 0), list[float]()
        for _ in range(len(starts)):
            plain.append(time.perf_counter())
            step()
        added.append(1e3 * (_median_gap(starts) - _median_gap(plain)))
    return Figure("what `incidence train` adds to a step", added, "ms", 0.3)


def _training_starts(examples: list[Example]) -> list[float]:
    """Return when each step of a run starts."""
    # here, as Lightning takes seconds
    train = import_module("incidence.train").train
    training = import_module("incidence.train.steps").Training
    original, starts = training.take_step, list[float]()

    def timed(self: Any, batch: Example, optimizer: Any, number: int) -> None:
        starts.append(time.perf_counter())
        original(self, batch, optimizer, number)

    options: dict[str, Any] = {"model": "graph", "epochs": 3, "batch_size": _BATCH, "threads": 1}
    with (
        tempfile.TemporaryDirectory() as folder,
        patch.object(training, "take_step", timed),
    ):
        train({**options, "out": folder}, examples)
    return starts


def _median_gap(starts: list[float]) -> float:
    gaps = sorted(b - a for a, b in pairwise(starts))
    return gaps[len(gaps) // 2]
