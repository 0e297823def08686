"""How many nodes the parts of a structure share: a hash, blocks of an order, and mtkahypar.

A shared node counts once for every process beyond the first that has entries on it. The structures
are a mesh of triangles and a graph whose degrees follow a power law, both with shuffled nodes.
"""

from __future__ import annotations

import time
from argparse import ArgumentParser
from collections.abc import Callable, Iterator, Sequence

import torch
from torch import Tensor

from incidence.distributed.ordering import (
    Assignment,
    assignment_by_parts,
    best_assignment,
    block_assignments,
    node_sets,
    num_shared,
)
from incidence.distributed.partitioning import partitioned
from incidence.errors import MissingExtraError, command
from incidence.structure import Structure
from incidence.structure.world import World

_SEED = 0


class _OneProcess(World):
    """The first of several processes, where it alone computes something.

    Args:
        size: The number of processes.
    """

    rank = 0

    def __init__(self, size: int) -> None:
        self.size = size

    def swap(self, parts: Sequence[Tensor], sizes: Sequence[int]) -> list[Tensor]:
        """Return what this process sends to itself, and nothing from the others."""
        return [parts[0], *(part[:0] for part in parts[1:])]

    def swap_any(self, parts: Sequence[Tensor]) -> list[Tensor]:
        """Return what this process sends to itself, and nothing from the others."""
        return self.swap(parts, [])

    def reduce(self, x: Tensor, op: str = "sum") -> Tensor:
        """Return the value of this process."""
        return x.clone()


class _Hash(Assignment):
    """Every node set goes where a hash of its nodes says.

    Args:
        num_nodes: The number of nodes.
        size: The number of processes.
    """

    def __init__(self, num_nodes: int, size: int) -> None:
        self.size = size
        self.parts = self.of_sets(torch.arange(num_nodes)[:, None])

    def of_sets(self, nodes: Tensor) -> Tensor:
        """Return the process of entries, from their nodes."""
        total = torch.zeros(len(nodes), dtype=torch.long)
        for column in nodes.unbind(1):
            total = (total * 1000003 + column + 1) * 2654435761 % (1 << 31)
        return (total >> 8) % self.size


def main(words: Sequence[str] = ()) -> int:
    """Print a line for every structure and every way to deal it out."""
    parser = ArgumentParser(prog=f"{command()} bench parts", description=__doc__)
    parser.add_argument("--processes", type=int, default=4)
    parser.add_argument("--side", type=int, default=300, help="nodes on a side of the mesh")
    parser.add_argument("--edges", type=int, default=500_000, help="edges of the graph")
    options = parser.parse_args(words)
    mesh, graph = mesh_of_triangles(options.side), power_law_graph(options.edges)
    for name, structure in (("mesh", mesh), ("power law", graph)):
        count = sum(structure.num_entries(p) for p in structure.patterns)
        print(f"{name}: {structure.total_nodes:,} nodes, {count:,} entries", flush=True)
        for line in _lines(structure, options.processes):
            print(f"  {line}", flush=True)
    return 0


def _lines(structure: Structure, size: int) -> Iterator[str]:
    sets, num_nodes = node_sets(structure), structure.total_nodes
    for name, make in _ways(structure, size).items():
        start = time.perf_counter()
        try:
            assignment = make()
        except MissingExtraError as error:
            yield f"{name}: {error}"
            continue
        seconds = time.perf_counter() - start
        loads = torch.zeros(size, dtype=torch.long)
        for nodes in sets:
            loads += torch.bincount(assignment.of_sets(nodes), minlength=size)
        yield (
            f"{name}: {num_shared(sets, assignment, size):,} shared, of entries alone"
            f" {_shared_by_entries(sets, assignment, size, num_nodes):,}; the largest part has"
            f" {int(loads.max()) * size / int(loads.sum()):.3f} of the mean; {seconds:.1f} s"
        )


def _ways(structure: Structure, size: int) -> dict[str, Callable[[], Assignment]]:
    num_nodes = structure.total_nodes
    hashed = torch.arange(num_nodes) * 2654435761 % (1 << 31) >> 8
    blocks = block_assignments
    return {
        "hash of entries": lambda: _Hash(num_nodes, size),
        "hash of nodes, lower degree": lambda: assignment_by_parts(structure, hashed % size),
        "blocks of the order, first node": lambda: blocks(structure, size)[0],
        "blocks of the order, lower degree": lambda: blocks(structure, size)[1],
        "the default": lambda: best_assignment(structure, size),
        "mtkahypar": lambda: partitioned(structure, _OneProcess(size)),
    }


def _shared_by_entries(
    sets: Sequence[Tensor], assignment: Assignment, size: int, num_nodes: int
) -> int:
    """Return the shared nodes of entries of two and more nodes; features of nodes do not count."""
    is_used = torch.zeros(num_nodes * size, dtype=torch.bool)
    for nodes in sets:
        is_used[(nodes * size + assignment.of_sets(nodes)[:, None]).flatten()] = True
    by_node = is_used.view(num_nodes, size).sum(1)
    return int((by_node - 1).clamp(min=0).sum())


def mesh_of_triangles(side: int) -> Structure:
    """Return a square mesh with two triangles for every cell, and shuffled nodes."""
    nodes = torch.arange(side * side).view(side, side)
    corners = nodes[:-1, :-1], nodes[:-1, 1:], nodes[1:, :-1], nodes[1:, 1:]
    one, two, three, four = (corner.flatten() for corner in corners)
    halves = [torch.stack([one, two, four]), torch.stack([one, three, four])]
    return Structure(side * side, {"{i j k}": _shuffled(torch.cat(halves, dim=1), side * side)})


def power_law_graph(num_edges: int, exponent: float = 2.3) -> Structure:
    """Return a graph whose expected degrees follow a power law, with four edges a node."""
    num_nodes = num_edges // 4
    draw = torch.Generator().manual_seed(_SEED)
    weights = torch.arange(1, num_nodes + 1, dtype=torch.float64) ** (-1 / (exponent - 1))
    steps = weights.cumsum(0) / weights.sum()
    ends = torch.rand(2, 2 * num_edges, generator=draw, dtype=torch.float64)
    pairs = torch.searchsorted(steps, ends).clamp(max=num_nodes - 1)
    pairs = pairs[:, pairs[0] != pairs[1]].sort(dim=0)[0]
    edges = torch.unique(pairs, dim=1)
    kept = torch.randperm(edges.shape[1], generator=draw)[:num_edges]
    return Structure(num_nodes, {"{i j}": _shuffled(edges[:, kept], num_nodes)})


def _shuffled(index: Tensor, num_nodes: int) -> Tensor:
    order = torch.randperm(num_nodes, generator=torch.Generator().manual_seed(_SEED))
    return order[index]
