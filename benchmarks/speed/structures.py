"""Structures to measure on, from fixed seeds: made in canonical order; `shuffled` gives the order
that users have them in.
"""

from __future__ import annotations

import torch
from torch import Tensor

from incidence.structure import Structure

__all__ = [
    "half_reciprocal",
    "power_law",
    "random_graph",
    "random_triples",
    "ring",
    "shuffled",
    "small_graphs",
    "triangle_mesh",
    "with_diagonal",
]


def _generator() -> torch.Generator:
    return torch.Generator().manual_seed(0)


def shuffled(structure: Structure) -> Structure:
    """The same entries in a random order: what a user has, who knows of no order."""
    generator = _generator()
    for pattern in structure.patterns:
        rows = torch.randperm(structure.num_entries(pattern), generator=generator)
        structure = structure.select(pattern, rows)
    return structure


def _directed(num_nodes: int, edges: Tensor) -> Structure:
    edges = edges[:, edges[0] != edges[1]]
    code = torch.unique(edges[0] * num_nodes + edges[1])
    return Structure(
        num_nodes, {"(i j)": torch.stack([code // num_nodes, code % num_nodes])}
    ).canonical()[0]


def random_graph(num_edges: int, degree: int = 10) -> Structure:
    """A random graph `(i j)`, every edge with its reverse."""
    nodes = max(2, num_edges // degree)
    pairs = torch.randint(nodes, (2, num_edges // 2), generator=_generator())
    return _directed(nodes, torch.cat([pairs, pairs.flip(0)], dim=1))


def half_reciprocal(num_edges: int, degree: int = 10) -> Structure:
    """A random directed graph in which half of the edges have a reverse."""
    nodes = max(2, num_edges // degree)
    pairs = torch.randint(nodes, (2, 3 * num_edges // 4), generator=_generator())
    return _directed(nodes, torch.cat([pairs, pairs[:, : num_edges // 4].flip(0)], dim=1))


def power_law(num_edges: int, degree: int = 10, exponent: float = 2.5) -> Structure:
    """A graph whose degrees follow a power law, every edge with its reverse."""
    nodes = max(2, num_edges // degree)
    weights = torch.arange(1, nodes + 1, dtype=torch.float64) ** (-1 / (exponent - 1))
    ends = torch.multinomial(weights, num_edges, replacement=True, generator=_generator()).view(
        2, -1
    )
    return _directed(nodes, torch.cat([ends, ends.flip(0)], dim=1))


def with_diagonal(graph: Structure) -> Structure:
    """The edges of a graph and all pairs of equal nodes, as the entries of a sparse matrix
    `i j`.
    """
    diagonal = torch.arange(graph.total_nodes).expand(2, -1)
    return Structure(
        graph.total_nodes, {"i j": torch.cat([graph["(i j)"], diagonal], dim=1)}
    ).canonical()[0]


def _strip(num_triangles: int) -> tuple[int, Tensor]:
    """A triangulated grid: about two triangles for each node, three edges."""
    side = max(2, int((num_triangles / 2) ** 0.5) + 1)
    corner = (torch.arange(side - 1)[:, None] * side + torch.arange(side - 1)).flatten()
    lower = torch.stack([corner, corner + 1, corner + side])
    upper = torch.stack([corner + 1, corner + side, corner + side + 1])
    return side * side, torch.cat([lower, upper], dim=1)


def triangle_mesh(num_triangles: int) -> Structure:
    """The nodes, edges `{i j}` and triangles `{i j k}` of a triangulated grid."""
    nodes, faces = _strip(num_triangles)
    pairs = torch.cat([faces[[0, 1]], faces[[0, 2]], faces[[1, 2]]], dim=1)
    code = torch.unique(pairs[0] * nodes + pairs[1])
    edges = torch.stack([code // nodes, code % nodes])
    return Structure(nodes, {"{i j}": edges, "{i j k}": faces}).canonical()[0]


def random_triples(num_entries: int) -> Structure:
    """The triangles of a grid as ordered triples `(i j k)`, each in all six orders."""
    nodes, faces = _strip(num_entries // 6)
    orders = [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]]
    return Structure(nodes, {"(i j k)": torch.cat([faces[o] for o in orders], dim=1)}).canonical()[
        0
    ]


def small_graphs(count: int) -> list[Structure]:
    """Graphs of 8 to 20 nodes with about 30 directed edges, like molecules."""
    sizes = torch.randint(8, 21, (count,), generator=_generator()).tolist()
    return [ring(size) for size in sizes]


def ring(size: int) -> Structure:
    """A ring with a chord over every third node, every edge with its reverse."""
    around = torch.arange(size)
    chords = around[::3]
    pairs = torch.cat(
        [torch.stack([around, (around + 1) % size]), torch.stack([chords, (chords + 2) % size])],
        dim=1,
    )
    return _directed(size, torch.cat([pairs, pairs.flip(0)], dim=1))
