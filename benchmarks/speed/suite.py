"""The benchmarks by name. Each gives rows of figures; ratios are taken inside one run."""

from __future__ import annotations

from collections.abc import Callable

from benchmarks.speed.bench import Bench
from benchmarks.speed.epochs import epochs, versions
from benchmarks.speed.large import growth, memory
from benchmarks.speed.layers import layer, mesh, triangles
from benchmarks.speed.loop import loop, threads
from benchmarks.speed.peers import hypergraph_layer, peers
from benchmarks.speed.primitives import broadcast, limits, pool
from benchmarks.speed.products import complete, products
from benchmarks.speed.small import batch
from benchmarks.speed.start import start
from benchmarks.speed.steps import compiled, steps
from benchmarks.speed.timing import Figure
from benchmarks.speed.topomodelx import topomodelx

__all__ = ["BENCHMARKS"]

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
    "steps": steps,
    "epochs": epochs,
    "versions": versions,
    "compiled": compiled,
    "loop": loop,
    "threads": threads,
    "peers": peers,
    "hypergraph": hypergraph_layer,
    "products": products,
    "complete": complete,
    "topomodelx": topomodelx,
    "start": start,
}
