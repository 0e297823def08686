"""The benchmarks. Each gives rows of figures; ratios are taken inside one run."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from copy import copy
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path

import torch
from torch import Tensor

from benchmarks.speed import structures
from benchmarks.speed.composition import Composition, Scatter
from benchmarks.speed.timing import Figure, Time, Timer, rates, ratio
from incidence.kernels.bags import bag_sum
from incidence.nn import Linear
from incidence.plans import Plan, plan_of
from incidence.structure import Structure, collate, pack

__all__ = ["BENCHMARKS", "Bench", "Work"]


@dataclass
class Bench:
    """How to measure.

    Attributes:
        is_quick: Whether to take a tenth of the size and one repeat, to see that it works.
        report: Told of progress.
        times: What the variants took, as they were measured.
    """

    is_quick: bool = False
    report: Callable[[str], None] = field(default=lambda _: None)
    times: list[Time] = field(default_factory=list)

    def size(self, number: int) -> int:
        """A size, or a tenth of it."""
        return number // 10 if self.is_quick else number

    def timer(self, name: str, rounds: int = 3, calls: int = 1) -> Timer:
        """A timer for this bench; the name tells its times from others."""

        def keep(time: Time) -> None:
            self.times.append(replace(time, name=f"{name}: {time.name}"))

        return Timer(1 if self.is_quick else rounds, 1 if self.is_quick else 3, calls, self.report, keep)


def _plan(layer: Linear, structure: Structure) -> Plan:
    """The index lists of a batch alone: `layer.plan` makes what tracing needs, too. With `bag_sum` all of the inside that is here."""
    return plan_of(structure, layer.map)


class Work:
    """A layer on a structure, forward and backward, ours and composed naively.

    Args:
        text: The map; every tensor has one orbit.
        structure: In canonical order.
        channels: In and out.
        aggr: The aggregation.
    """

    def __init__(self, text: str, structure: Structure, channels: int, aggr: str = "sum") -> None:
        self.layer = Linear(text, channels, channels, aggr=aggr)
        self.structure, self.channels = structure, channels
        self.layer.plan(structure)
        self.keys = [p.name or str(p) for p in self.layer.map.inputs]
        self.xs = [torch.randn(structure.num_entries(p), channels, requires_grad=True) for p in self.layer.map.inputs]
        self.grads = [torch.randn(structure.num_entries(p), channels) for p in self.layer.map.outputs]

    def _backward(self, ys: list[Tensor]) -> None:
        torch.autograd.backward(ys, self.grads)
        for leaf in (*self.xs, *self.layer.parameters()):
            leaf.grad = None

    def ours(self) -> None:
        """Forward and backward."""
        self._backward(self._forward())

    def _forward(self) -> list[Tensor]:
        x = self.xs[0] if len(self.xs) == 1 else dict(zip(self.keys, self.xs, strict=True))
        y = self.layer(x, self.structure)
        return list(y.values()) if isinstance(y, dict) else [y]

    def forward(self) -> None:
        """Forward alone."""
        with torch.no_grad():
            self._forward()

    @cached_property
    def composition(self) -> Composition:
        """The same layer from scatter and gather."""
        return Composition(self.layer, self.structure)

    def composed(self, at: str, scatter: Scatter | None = None) -> Callable[[], None]:
        """Forward and backward of the composition."""
        return partial(self._composed, self.composition, at, scatter)

    def _composed(self, composition: Composition, at: str, scatter: Scatter | None) -> None:
        self._backward(composition(self.xs, at, scatter))

    def bound(self) -> float:
        """The lower bound, in seconds: the flops that the layer truly needs, and reading and writing, at the best rates of this run."""
        flops = self.composition.flops * self.channels**2
        num_in, num_out = (sum(t.numel() for t in side) for side in (self.xs, self.grads))
        best = rates(self.channels)
        # Forward and backward are three products; X and dY are read, Y and dX written, X read once more.
        return 3 * flops / best.flops + 4 * (3 * num_in + 2 * num_out) / best.bandwidth


def limits(bench: Bench) -> list[Figure]:
    """The best rates of this machine: products of K x K matrices, and copies."""
    rows = []
    for channels in (16, 64):
        found = [rates(channels) for _ in range(3)]
        rows.append(Figure(f"product, K = {channels}", [r.flops / 1e9 for r in found], "GF/s"))
    rows.append(Figure("copy", [r.bandwidth / 1e9 for r in found], "GB/s"))
    return rows


def pool(bench: Bench) -> list[Figure]:
    """Sums over bags against `index_add_`."""
    rows = []
    for count, channels in ((1_000_000, 64), (1_000_000, 16), (10_000, 64)):
        n = bench.size(count)
        bags = torch.randint(n // 10, (n,), generator=torch.Generator().manual_seed(0))
        index = bags.sort(stable=True)[1].int()
        ptr = torch.cat([torch.zeros(1), torch.bincount(bags, minlength=n // 10).cumsum(0)]).int()
        x = torch.randn(n, channels)

        def add(x: Tensor = x, bags: Tensor = bags, n: int = n) -> None:
            torch.zeros(n // 10, x.shape[1]).index_add_(0, bags, x)

        work: dict[str, Callable[[], object]] = {"bags": partial(bag_sum, x, index, ptr), "index_add": add}
        times = bench.timer(f"n = {n:,}, K = {channels}", 5).run(work)
        rows.append(Figure(f"index_add_ over ours, n = {n:,}, K = {channels}, unsorted", ratio(times, "index_add", "bags")))
    return rows


def broadcast(bench: Bench) -> list[Figure]:
    """Sums of three bags for every entry against three `index_select`."""
    n, channels = bench.size(1_000_000), 64
    generator = torch.Generator().manual_seed(0)
    read = torch.randint(n // 10, (n, 3), generator=generator)
    z = torch.randn(n // 10, channels)
    flat, ptr = read.flatten().int(), torch.arange(0, 3 * n + 1, 3).int()

    def select() -> Tensor:
        return z.index_select(0, read[:, 0]) + z.index_select(0, read[:, 1]) + z.index_select(0, read[:, 2])

    times = bench.timer(f"n = {n:,}, K = {channels}", 5).run({"bags": lambda: bag_sum(z, flat, ptr), "select": select})
    return [Figure(f"index_select and add over ours, n = {n:,}, K = {channels}", ratio(times, "select", "bags"))]


def layer(bench: Bench) -> list[Figure]:
    """`(i j) -> (i j)` on random graphs, against the lower bound and the naive compositions."""
    rows = []
    graph = structures.random_graph(bench.size(1_000_000))
    for channels, bar in ((64, 5.5), (16, 8.0)):
        work = Work("(i j) -> (i j)", graph, channels)
        lowest = work.bound()
        variants = {"ours": work.ours, "forward": work.forward, "entries": work.composed("entries"), "keys": work.composed("keys")}
        times = bench.timer(f"K = {channels}").run(variants)
        assert all(f < both for f, both in zip(times["forward"], times["ours"], strict=True)), "forward took longer than both"
        if channels == 64:
            rows.append(Figure(f"over the lower bound, K = {channels}", [t / lowest for t in times["ours"]], bar=2.0))
        rows.append(Figure(f"composition over ours, K = {channels}", ratio(times, "entries", "ours"), bar=bar, is_least=True))
        rows.append(Figure(f"composition with products at the nodes over ours, K = {channels}", ratio(times, "keys", "ours")))
    for name, make in (("half reciprocal", structures.half_reciprocal), ("power law", structures.power_law)):
        work = Work("(i j) -> (i j)", make(bench.size(400_000)), 64)
        times = bench.timer(name).run({"ours": work.ours, "entries": work.composed("entries")})
        rows.append(Figure(f"composition over ours, {name}", ratio(times, "entries", "ours"), bar=4.5, is_least=True))
    both = {aggr: Work("(i j) -> (i j)", graph, 64, aggr).ours for aggr in ("sum", "max")}
    rows.append(Figure("max over sum", ratio(bench.timer("K = 64").run(both), "max", "sum"), bar=1.6))
    return [*rows, _planning(bench, graph)]


def _planning(bench: Bench, graph: Structure) -> Figure:
    work = Work("(i j) -> (i j)", graph, 64)

    def plan() -> None:
        work.layer.plan(copy(graph))  # which has no plans yet

    times = bench.timer("K = 64").run({"plan": plan, "step": work.ours})
    return Figure("plan over one step", ratio(times, "plan", "step"), bar=0.7)


def triangles(bench: Bench) -> list[Figure]:
    """`(i j k) -> (i j k)`, 34 operations, against one product for each."""
    rows = []
    triples = structures.random_triples(bench.size(200_000))
    for channels, bar in ((64, 8.0), (16, 10.0)):
        work = Work("(i j k) -> (i j k)", triples, channels)
        lowest = work.bound()
        times = bench.timer(f"K = {channels}").run({"ours": work.ours, "entries": work.composed("entries")})
        rows.append(Figure(f"composition over ours, K = {channels}", ratio(times, "entries", "ours"), bar=bar, is_least=True))
        if channels == 64:
            rows.append(Figure(f"over the lower bound, K = {channels}", [t / lowest for t in times["ours"]], bar=1.5))
    return rows


def mesh(bench: Bench) -> list[Figure]:
    """`i, {i j}, {i j k}` to itself on a triangulated grid."""
    rows = []
    grid = structures.triangle_mesh(bench.size(200_000))
    for channels, bar in ((64, 6.0), (16, 5.0)):
        work = Work("i, {i j}, {i j k} -> i, {i j}, {i j k}", grid, channels)
        times = bench.timer(f"K = {channels}").run({"ours": work.ours, "entries": work.composed("entries")})
        rows.append(Figure(f"composition over ours, K = {channels}", ratio(times, "entries", "ours"), bar=bar, is_least=True))
    return rows


def batch(bench: Bench) -> list[Figure]:
    """Ten rows, and 128 small graphs collated; on one thread, as two would wait for each other."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        return [*_ten_rows(bench), *_collating(bench)]
    finally:
        torch.set_num_threads(threads)


def _ten_rows(bench: Bench) -> list[Figure]:
    graph = structures.ring(5).select("(i j)", list(range(10))).canonical()[0]
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
        Figure("10 rows, K = 16: ours over one linear layer", ratio(times, "ours", "linear"), bar=7.0),
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

    in_turns = bench.timer("in turns", 10).run({"packed": batch_of(packed), "loose": batch_of(loose), "step": step.ours})
    in_rows = bench.timer("20 in a row", 5, calls=20).run({"packed": batch_of(packed), "step": step.ours})
    return [
        Figure("collate 128 packed graphs and their plans over one step, in turns", ratio(in_turns, "packed", "step"), bar=0.04),
        Figure("the same, 20 batches in a row", ratio(in_rows, "packed", "step"), bar=0.04),
        Figure("collate 128 graphs that are not packed over one step, in turns", ratio(in_turns, "loose", "step")),
    ]


def growth(bench: Bench) -> list[Figure]:
    """Four times the entries should take four times as long."""
    rows = []
    for n in (256_000, 512_000):
        work = {k: Work("(i j) -> (i j)", structures.random_graph(bench.size(k * n)), 64).ours for k in (1, 4)}
        times = bench.timer(f"n = {bench.size(n):,}").run({f"{k} n": f for k, f in work.items()})
        rows.append(Figure(f"time(4n) over time(n), n = {bench.size(n):,}", ratio(times, "4 n", "1 n"), bar=4.4))
    return rows


_ROOT = Path(__file__).parents[2]  # where a fresh process finds this package
_MEMORY = """
import torch
from benchmarks.speed.suite import Work
from benchmarks.speed.structures import random_graph
from benchmarks.speed.timing import peak_memory
torch.set_num_threads(2)
small = Work("(i j) -> (i j)", random_graph(2000), {channels})
small.ours()
work = Work("(i j) -> (i j)", random_graph({edges}), {channels})
torch.empty({edges} * {channels} * 2).fill_(0)
resident = int(open("/proc/self/statm").read().split()[1]) * 4096
open("/proc/self/clear_refs", "w").write("5")
work.ours()
peak = int([line for line in open("/proc/self/status") if line.startswith("VmHWM")][0].split()[1]) * 1024
print((peak - resident) / (4 * work.xs[0].numel()))
"""


def memory(bench: Bench) -> list[Figure]:
    """The peak of forward and backward above inputs and plan, in arrays of entries x channels; each in a fresh process."""
    values = []
    for repeat in range(1 if bench.is_quick else 3):
        bench.report(f"fresh process {repeat + 1}")
        code = _MEMORY.format(edges=bench.size(1_000_000), channels=64)
        done = subprocess.run([sys.executable, "-c", code], cwd=_ROOT, check=True, capture_output=True, text=True)
        values.append(float(done.stdout))
    return [Figure("peak above inputs, K = 64", values, "nK", bar=2.8)]


def peers(bench: Bench) -> list[Figure]:
    """PyTorch Geometric on the same graph, and a dense layer of fifteen operations."""
    from benchmarks.speed.peers import dense_fifteen, geometric

    return [*geometric(bench), *dense_fifteen(bench)]


BENCHMARKS: dict[str, Callable[[Bench], list[Figure]]] = {
    "limits": limits,
    "pool": pool,
    "broadcast": broadcast,
    "layer": layer,
    "triangles": triangles,
    "mesh": mesh,
    "batch": batch,
    "growth": growth,
    "memory": memory,
    "peers": peers,
}
