"""Large layers against the lower bound and the usual compositions; entries in the order of the
user, unless named otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy

from benchmarks.speed import structures
from benchmarks.speed.bench import Bench, Bounds, Work
from benchmarks.speed.timing import Figure, ratio
from incidence.structure import Structure

__all__ = ["layer", "mesh", "triangles"]

_EDGES = "(i j) -> (i j)"
_MESH = "i, {i j}, {i j k} -> i, {i j}, {i j k}"


def layer(bench: Bench) -> list[Figure]:
    """`(i j) -> (i j)` on random graphs, against the lower bound, the naive compositions and
    canonical order.
    """
    ordered = structures.random_graph(bench.size(1_000_000))
    graph = structures.shuffled(ordered)
    return [
        *_against_compositions(bench, graph, ordered, 64, bar=5.5),
        *_against_compositions(bench, graph, ordered, 16, bar=8.0),
        *_other_graphs(bench),
        _maximum(bench, graph),
        _planning(bench, graph),
        _construction(bench, graph),
    ]


def _against_compositions(
    bench: Bench, graph: Structure, ordered: Structure, channels: int, bar: float
) -> list[Figure]:
    work, canonical = Work(_EDGES, graph, channels), Work(_EDGES, ordered, channels)
    bounds = work.bounds()
    ways = {"ours": work.ours, "forward": work.without_gradients, "canonical order": canonical.ours}
    times = bench.timer(f"K = {channels}").run(
        {**ways, "entries": work.composed("entries"), "keys": work.composed("keys")}
    )
    if any(forward > both for forward, both in zip(times["forward"], times["ours"], strict=True)):
        bench.notes.append(
            f"forward alone took longer than forward and backward at K = {channels}: these times"
            " mean nothing"
        )
    rows = [
        Figure(
            f"user's order over canonical order, time, K = {channels}",
            ratio(times, "ours", "canonical order"),
            bar=1.2,
        ),
        Figure(
            f"composition over ours, K = {channels}",
            ratio(times, "entries", "ours"),
            bar=bar,
            is_least=True,
        ),
        Figure(
            f"composition with products at the nodes over ours, K = {channels}",
            ratio(times, "keys", "ours"),
        ),
    ]
    return [*rows, *_over_bounds(times, bounds, channels, bar=2.0)] if channels == 64 else rows


def _over_bounds(
    times: Mapping[str, list[float]], bounds: Bounds, channels: int, bar: float
) -> list[Figure]:
    """The lower bound is a yardstick for wide channels: with few, products are a small part of a
    layer.
    """
    over = f"over the lower bound, K = {channels}"
    return [
        Figure(
            f"{over}, products at the rate in the cache",
            [t / bounds.cached for t in times["ours"]],
            bar=bar,
        ),
        Figure(
            f"{over}, products at the rate from memory", [t / bounds.cold for t in times["ours"]]
        ),
    ]


def _other_graphs(bench: Bench) -> list[Figure]:
    rows = []
    for name, make in (
        ("half reciprocal", structures.half_reciprocal),
        ("power law", structures.power_law),
    ):
        work = Work(_EDGES, structures.shuffled(make(bench.size(400_000))), 64)
        times = bench.timer(name).run({"ours": work.ours, "entries": work.composed("entries")})
        rows.append(
            Figure(
                f"composition over ours, {name}",
                ratio(times, "entries", "ours"),
                bar=4.5,
                is_least=True,
            )
        )
    return rows


def _maximum(bench: Bench, graph: Structure) -> Figure:
    both = {aggr: Work(_EDGES, graph, 64, aggr).ours for aggr in ("sum", "max")}
    return Figure("max over sum", ratio(bench.timer("K = 64").run(both), "max", "sum"), bar=1.6)


def _planning(bench: Bench, graph: Structure) -> Figure:
    work = Work(_EDGES, graph, 64)

    def plan() -> None:
        work.layer.plan(copy(graph))  # which has no plans yet

    times = bench.timer("K = 64").run({"plan": plan, "step": work.ours})
    return Figure("plan over one step", ratio(times, "plan", "step"), bar=0.7)


def _construction(bench: Bench, graph: Structure) -> Figure:
    edges = graph["(i j)"]
    name = f"constructing a structure of {edges.shape[1]:,} edges"
    times = bench.timer("index data alone").run(
        {name: lambda: Structure(graph.num_nodes, {"(i j)": edges})}
    )
    return Figure(name, times[name], "s", bar=0.3)


def triangles(bench: Bench) -> list[Figure]:
    """`(i j k) -> (i j k)`, 34 operations, against one product for each."""
    rows = []
    triples = structures.shuffled(structures.random_triples(bench.size(200_000)))
    for channels, bar in ((64, 8.0), (16, 10.0)):
        work = Work("(i j k) -> (i j k)", triples, channels)
        bounds = work.bounds()
        times = bench.timer(f"K = {channels}").run(
            {"ours": work.ours, "entries": work.composed("entries")}
        )
        rows.append(
            Figure(
                f"composition over ours, K = {channels}",
                ratio(times, "entries", "ours"),
                bar=bar,
                is_least=True,
            )
        )
        if channels == 64:
            rows += _over_bounds(times, bounds, channels, bar=1.5)
    return rows


def mesh(bench: Bench) -> list[Figure]:
    """`i, {i j}, {i j k}` to itself on a triangulated grid; and `<i j>, <i j k>` beside `{i j}, {i
    j k}`.
    """
    rows = []
    grid = structures.shuffled(structures.triangle_mesh(bench.size(200_000)))
    for channels, bar in ((64, 6.0), (16, 5.0)):
        work = Work(_MESH, grid, channels)
        times = bench.timer(f"K = {channels}").run(
            {"ours": work.ours, "entries": work.composed("entries")}
        )
        rows.append(
            Figure(
                f"composition over ours, K = {channels}",
                ratio(times, "entries", "ours"),
                bar=bar,
                is_least=True,
            )
        )
    return [*rows, *(_orientation(bench, grid, channels) for channels in (64, 16))]


def _orientation(bench: Bench, grid: Structure, channels: int) -> Figure:
    """What signs cost: the same edges and triangles with and without an orientation."""
    oriented = Structure(grid.total_nodes, {"<i j>": grid["{i j}"], "<i j k>": grid["{i j k}"]})
    sides = {"unoriented": ("{i j}, {i j k}", grid), "oriented": ("<i j>, <i j k>", oriented)}
    ways = {
        name: Work(f"{side} -> {side}", structure, channels).ours
        for name, (side, structure) in sides.items()
    }
    times = bench.timer(f"K = {channels}, with and without orientation").run(ways)
    return Figure(
        f"oriented over unoriented faces, K = {channels}",
        ratio(times, "oriented", "unoriented"),
        bar=1.2,
    )
