r"""A structure as a graph with coloured vertices, whose symmetries are those of the structure.

The first vertices are the nodes, coloured by sort. An entry is a list of class sets (see `entries.py`), so it becomes a vertex that is
joined to the nodes of its first class, and to one further vertex for each other class, which is joined to the nodes of that class;
their colours say the tensor, the orbit, the sizes and the class. Two short cuts keep graphs small: an entry with one node is a colour
of that node, and the first tensor of plain undirected pairs gives edges between nodes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from incidence.structure.data import Array, arranged
from incidence.structure.structure import Structure

__all__ = ["ColouredGraph", "coloured_graph"]


@dataclass(frozen=True)
class ColouredGraph:
    """An undirected graph with coloured vertices.

    Attributes:
        num_nodes: The first vertices, which are the nodes of the structure. The others follow from them: a symmetry that fixes all
            nodes fixes everything.
        colours: The colour of every vertex; those of nodes are the smallest.
        edges: Pairs of vertices, each edge once, shape (2, edges).
    """

    num_nodes: int
    colours: Array
    edges: Array

    @property
    def num_vertices(self) -> int:
        """The number of vertices."""
        return len(self.colours)

    def neighbours(self) -> list[list[int]]:
        """The neighbours of every vertex."""
        ends = np.concatenate([self.edges, self.edges[::-1]], axis=1)
        order = np.argsort(ends[0], kind="stable")
        bounds = np.searchsorted(ends[0][order], np.arange(1, self.num_vertices))
        return (
            [part.tolist() for part in np.split(ends[1][order], bounds)]
            if self.num_vertices
            else []
        )

    def cells(self) -> list[list[int]]:
        """The vertices of every colour."""
        order = np.argsort(self.colours, kind="stable")
        bounds = np.flatnonzero(np.diff(self.colours[order])) + 1
        return [part.tolist() for part in np.split(order, bounds)] if self.num_vertices else []


def coloured_graph(structure: Structure) -> ColouredGraph:
    """The graph of one structure.

    Example:
        >>> import torch
        >>> triangle = Structure(3, {"(i j)": torch.tensor([[0, 1, 2], [1, 2, 0]])})
        >>> coloured_graph(triangle).num_vertices  # three nodes, and two vertices for each directed edge
        9
    """
    num_nodes = structure.total_nodes
    sorts = np.repeat(
        np.arange(len(structure.counts)),
        [structure.counts[sort] for sort in sorted(structure.counts)],
    )
    marks, edges, colours = [sorts], [], []
    total, colour, has_pairs = num_nodes, 0, False
    for bucket in (
        found.bucket for pattern in structure.patterns for found in arranged(structure, pattern)
    ):
        sizes = [size for size in bucket.sizes if size]
        nodes = bucket.nodes.cpu().numpy()
        if sizes == [1]:
            marks.append(np.isin(np.arange(num_nodes), nodes).astype(np.int64))
        elif sizes == [2] and not has_pairs:
            has_pairs = True
            edges.append(nodes.T)
        elif sizes:
            own = total + np.arange(len(nodes))
            total += len(nodes)
            colours.append(np.full(len(nodes), colour))
            for number, part in enumerate(np.split(nodes, np.cumsum(sizes)[:-1], axis=1)):
                centre = own
                if number:
                    centre = total + np.arange(len(nodes))
                    total += len(nodes)
                    colours.append(np.full(len(nodes), colour + number))
                    edges.append(np.stack([own, centre]))
                edges.append(np.stack([np.repeat(centre, part.shape[1]), part.ravel()]))
            colour += len(sizes)
    _, of_nodes = np.unique(np.stack(marks), axis=1, return_inverse=True)
    first = int(of_nodes.max(initial=-1)) + 1
    joined = np.concatenate(edges, axis=1) if edges else np.zeros((2, 0), dtype=np.int64)
    return ColouredGraph(
        num_nodes, np.concatenate([of_nodes.ravel(), *(first + c for c in colours)]), joined
    )
