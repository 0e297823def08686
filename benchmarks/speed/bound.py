"""The lower bound of a layer: the flops it truly needs at the best rate of this run, plus reading and writing at the best bandwidth."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import torch

from incidence.kernels.engine import Program

__all__ = ["Rates", "flops_of", "measure"]


@dataclass(frozen=True)
class Rates:
    """The best rates seen in this run.

    Attributes:
        flops: Of a K x K product, per second.
        bandwidth: Of a copy, bytes read and written per second.
    """

    flops: float
    bandwidth: float

    def bound(self, flops: float, num_in: int, num_out: int) -> float:
        """The least time of forward and backward: three products, and X, dY read, Y, dX written, X read once more."""
        return 3 * flops / self.flops + 4 * (3 * num_in + 2 * num_out) / self.bandwidth


def measure(channels: int, rows: int = 1 << 15, repeats: int = 12) -> Rates:
    """Takes the best of several products and copies."""
    a, b = torch.randn(rows, channels), torch.randn(channels, channels)
    out = torch.empty(rows, channels)
    product = min(_time(lambda: torch.mm(a, b, out=out)) for _ in range(repeats))
    source = torch.randn(1 << 26)
    target = torch.empty_like(source)
    copy = min(_time(lambda: target.copy_(source)) for _ in range(repeats))
    return Rates(2 * rows * channels * channels / product, 2 * 4 * source.numel() / copy)


def _time(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def flops_of(program: Program, channels: int) -> float:
    """The flops of one forward pass: for every level, keys x words x words; for blocks, entries x words."""
    total = 0
    for term in program.terms.all:
        s, a = term.source
        lists = program.inputs[s].orbits[a]
        for i, _, table in term.levels:
            num_keys = (lists.offsets[i + 1] - lists.offsets[i]) // max(lists.num_slots[i], 1)
            total += 2 * num_keys * int((table.operations >= 0).sum()) * channels**2
        for num_sets, table in zip(lists.num_sets, term.blocks or (), strict=term.blocks is not None):
            total += 2 * num_sets * int((table.operations >= 0).sum()) * channels**2
    return float(total)
