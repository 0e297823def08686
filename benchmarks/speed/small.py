"""Small structures, where calls weigh more than arithmetic."""

from __future__ import annotations

from collections.abc import Callable

import torch

from benchmarks.speed import structures
from benchmarks.speed.bench import Bench, Work, one_thread
from benchmarks.speed.timing import Figure, ratio
from incidence.engine.plan import Plan, plan_of
from incidence.nn import Linear
from incidence.structure import Structure, collate, pack

__all__ = ["batch"]


def _plan(layer: Linear, structure: Structure) -> Plan:
    """The index lists of a batch alone: `layer.plan` makes what tracing needs, too. With `bag_sum`
    all of the inside that is here.
    """
    return plan_of(structure, layer.map)


def batch(bench: Bench) -> list[Figure]:
    """Ten rows, and 128 small graphs collated; on one thread."""
    with one_thread():
        return [*_ten_rows(bench), *_collating(bench)]


def _ten_rows(bench: Bench) -> list[Figure]:
    graph = structures.shuffled(structures.ring(5).select("(i j)", list(range(10))))
    x, grad = torch.randn(10, 16, requires_grad=True), torch.randn(10, 16)

    def step(module: torch.nn.Module, *structure: Structure) -> Callable[[], None]:
        def run() -> None:
            module(x, *structure).backward(grad)
            for leaf in (x, *module.parameters()):
                leaf.grad = None

        return run

    ours, linear = step(Linear("(i j) -> (i j)", 16, 16), graph), step(torch.nn.Linear(16, 16))
    times = bench.timer("10 rows", 10, calls=50).run({"ours": ours, "linear": linear})
    return [
        Figure(
            "10 rows, K = 16: ours over one linear layer", ratio(times, "ours", "linear"), bar=4.0
        ),
        Figure("10 rows, K = 16: ours", [t * 1e6 for t in times["ours"]], "us", bar=300),
    ]


def _collating(bench: Bench) -> list[Figure]:
    loose = structures.small_graphs(128)
    step = Work("(i j) -> (i j)", collate(loose), 64)
    for sample in loose:
        step.layer.plan(sample)
    packed = pack(loose)
    _plan(step.layer, collate(packed))  # once for a data set
    shuffled = torch.randperm(len(packed), generator=torch.Generator().manual_seed(0)).tolist()

    def batch_of(samples: list[Structure]) -> Callable[[], object]:
        chosen = [samples[k] for k in shuffled]
        return lambda: _plan(step.layer, collate(chosen))

    in_turns = bench.timer("in turns", 10).run(
        {"packed": batch_of(packed), "loose": batch_of(loose), "step": step.ours}
    )
    in_rows = bench.timer("20 in a row", 5, calls=20).run(
        {"packed": batch_of(packed), "step": step.ours}
    )
    return [
        Figure(
            "collate 128 packed graphs and their plans over one step, in turns",
            ratio(in_turns, "packed", "step"),
            bar=0.04,
        ),
        Figure("the same, 20 batches in a row", ratio(in_rows, "packed", "step"), bar=0.04),
        Figure(
            "collate 128 graphs that are not packed over one step, in turns",
            ratio(in_turns, "loose", "step"),
        ),
    ]
