"""`(i j) -> (i j)` on a random graph: forward and backward against the lower bound and against the naive compositions."""

import torch

from benchmarks.bound import flops_of, measure
from benchmarks.graphs import random_graph
from benchmarks.naive import NaiveLayer
from benchmarks.timing import Timer, ratio
from incidence.nn import Linear
from incidence.nn.program import make_program


def main(num_edges: int = 1_000_000, channels: int = 64) -> None:
    torch.set_num_threads(2)
    structure = random_graph(num_edges)
    layer = Linear("(i j) -> (i j)", channels, channels)
    plan = layer.plan(structure)
    rows = structure.num_entries("(i j)")
    x, grad = torch.randn(rows, channels, requires_grad=True), torch.randn(rows, channels)
    naive = {at: NaiveLayer(layer, structure, at=at) for at in ("entries", "keys")}

    def ours() -> None:
        layer(x, structure).backward(grad)
        x.grad = None

    def forward() -> None:
        with torch.no_grad():
            layer(x, structure)

    def composed(at: str) -> None:
        naive[at]([x])[0].backward(grad)
        x.grad = None

    flops = flops_of(make_program(layer._layout, plan, layer.aggr), channels)
    bound = measure(channels).bound(flops, rows * channels, rows * channels)
    work = {"ours": ours, "forward": forward, "entries": lambda: composed("entries"), "keys": lambda: composed("keys")}
    times = Timer(rounds=3, repeats=3).run(work)
    assert all(f < both for f, both in zip(times["forward"], times["ours"], strict=True))
    print(f"(i j) -> (i j), {rows:,} entries, {channels} channels, forward and backward, 2 threads")
    print(f"  over the lower bound: {spread([t / bound for t in times['ours']])}")
    for at in ("entries", "keys"):
        print(f"  index_add, one product per operation at the {at}, takes {spread(ratio(times, at, 'ours'))} times as long")


def spread(values: list[float] | tuple[float, ...]) -> str:
    ordered = sorted(values)
    return f"{ordered[len(ordered) // 2]:.2f} ({ordered[0]:.2f} to {ordered[-1]:.2f})"
