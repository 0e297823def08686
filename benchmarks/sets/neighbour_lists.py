"""Graphs as text lists of neighbours: a line `n y` for each, then for each node its label, its
degree and its neighbours.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from benchmarks.sets.files import damaged, integers
from incidence.structure.ragged import ranges

__all__ = ["NeighbourLists", "read_neighbour_lists"]


class NeighbourLists(NamedTuple):
    """Many graphs; nodes are numbered through.

    Attributes:
        sizes: The number of nodes of each, [graphs].
        classes: The class symbol of each, as written; [graphs].
        labels: The label of every node, as written; [nodes].
        edges: Each edge once, [2, edges].
    """

    sizes: Tensor
    classes: Tensor
    labels: Tensor
    edges: Tensor


def read_neighbour_lists(path: Path) -> NeighbourLists:
    """Reads a file of graphs.

    Raises:
        IncidenceError: It ends early or late, a neighbour is no node of the graph, or an edge has
            one direction only.
    """
    numbers = integers(path)
    heads, nodes = _walk(path, numbers)
    sizes, classes = torch.from_numpy(numbers[heads]), torch.from_numpy(numbers[heads + 1])
    degrees = torch.from_numpy(numbers[nodes + 1])
    graph = torch.repeat_interleave(torch.arange(len(sizes)), sizes)
    source = torch.repeat_interleave(torch.arange(len(nodes)), degrees)
    place = (
        torch.arange(len(source))
        - ranges(degrees)[:-1][source]
        + torch.from_numpy(nodes)[source]
        + 2
    )
    near = torch.from_numpy(numbers)[place]
    if bool(((near < 0) | (near >= sizes[graph[source]])).any()):
        raise damaged(path, "a neighbour is no node of its graph")
    return NeighbourLists(
        sizes,
        classes,
        torch.from_numpy(numbers[nodes]),
        _edges(path, source, near + ranges(sizes)[graph[source]], len(nodes)),
    )


def _walk(path: Path, numbers: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Where the lines of graphs and of nodes start: one has to be read to know where the
    next is.
    """
    values = numbers.tolist()
    heads, nodes, at = [], [], 1
    try:
        for _ in range(values[0]):
            heads.append(at)
            count, at = values[at], at + 2
            for _ in range(count):
                nodes.append(at)
                at += 2 + max(values[at + 1], 0)
    except IndexError:
        at = -1
    if at != len(values):
        raise damaged(path, "it does not have as many graphs, nodes and neighbours as it says")
    return np.array(heads, dtype=np.int64), np.array(nodes, dtype=np.int64)


def _edges(path: Path, source: Tensor, target: Tensor, num_nodes: int) -> Tensor:
    """Each edge once, from both directions, which must agree."""
    there = (source * num_nodes + target).sort().values
    back = (target * num_nodes + source).sort().values
    if (
        bool((there != back).any())
        or bool((there[1:] == there[:-1]).any())
        or bool((source == target).any())
    ):
        raise damaged(
            path, "its lists of neighbours have loops, repeats, or edges in one direction only"
        )
    return torch.stack([source, target])[:, source < target]
