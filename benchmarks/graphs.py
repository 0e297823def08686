"""Graphs to measure on."""

import torch

from incidence import Structure

__all__ = ["random_graph"]


def random_graph(num_edges: int, degree: int = 10) -> Structure:
    """A random directed graph, every edge with its reverse, in canonical order; about `num_edges` entries `(i j)`."""
    generator = torch.Generator().manual_seed(0)
    nodes = num_edges // degree
    pairs = torch.randint(nodes, (2, num_edges // 2), generator=generator)
    pairs = pairs[:, pairs[0] != pairs[1]]
    both = torch.cat([pairs, pairs.flip(0)], dim=1)
    code = torch.unique(both[0] * nodes + both[1])
    return Structure(nodes, {"(i j)": torch.stack([code // nodes, code % nodes])}).canonical()[0]
