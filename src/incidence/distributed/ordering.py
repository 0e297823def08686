"""Which process a node and an entry go to: blocks of an order in which neighbours stand together.

An entry goes with one of its nodes. Which one depends on the set of its nodes alone, so entries on
one node set stay together.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from incidence.errors import MissingExtraError, need
from incidence.structure.arrange import arranged
from incidence.structure.data import StructureData

__all__ = [
    "Assignment",
    "NodeAssignment",
    "assignment_by_parts",
    "best_assignment",
    "block_assignments",
    "node_sets",
    "num_shared",
]


class Assignment(ABC):
    """Where everything goes.

    Attributes:
        parts: The process of every node, shape (nodes of all sorts,).
    """

    parts: Tensor

    @abstractmethod
    def of_sets(self, nodes: Tensor) -> Tensor:
        """Return the process of entries, from their nodes, shape (entries, nodes)."""


@dataclass(frozen=True)
class NodeAssignment(Assignment):
    """Entries go with one of their nodes.

    Attributes:
        parts: The process of every node, shape (nodes of all sorts,).
        first: An entry goes with its node that has the least number here, shape (nodes,).
    """

    parts: Tensor
    first: Tensor

    def of_sets(self, nodes: Tensor) -> Tensor:
        """Return the process of entries, from their nodes, shape (entries, nodes)."""
        if not nodes.shape[1]:
            return torch.zeros(len(nodes), dtype=torch.long)
        return self.parts[self._chosen(nodes)]

    def _chosen(self, nodes: Tensor) -> Tensor:
        """Return the node that every entry goes with."""
        return nodes.gather(1, self.first[nodes].argmin(1, keepdim=True))[:, 0]


def node_sets(structure: StructureData) -> list[Tensor]:
    """Return the nodes of the entries of all tensors, (entries, nodes) each."""
    return [
        own.bucket.nodes
        for pattern in structure.patterns
        for own in arranged(structure, pattern)
        if own.bucket.nodes.shape[1]
    ]


def best_assignment(structure: StructureData, num_parts: int) -> Assignment:
    """Return where entries go so that few keys are shared.

    The candidates are blocks of an order that keeps neighbours together, where entries go with
    their first node or that of lowest degree; and a hash of nodes for heavy tails. Counting
    decides.
    """
    sets, num_nodes = node_sets(structure), structure.total_nodes
    everything = torch.arange(num_nodes)
    if num_parts == 1:
        return NodeAssignment(torch.zeros(num_nodes, dtype=torch.long), everything)
    candidates = block_assignments(structure, num_parts)
    by_degree = candidates[-1].first
    candidates.append(NodeAssignment((everything * 2654435761 >> 16) % num_parts, by_degree))
    return min(candidates, key=lambda option: num_shared(sets, option, num_parts))


def block_assignments(structure: StructureData, num_parts: int) -> list[NodeAssignment]:
    """Return blocks of an order that keeps neighbours together.

    Entries go with their first node in it, and in the second assignment with their node of lowest
    degree.
    """
    sets, num_nodes = node_sets(structure), structure.total_nodes
    places = _order_places(sets, num_nodes)  # the place of every node
    degrees = _degrees(sets, num_nodes)
    by_degree = torch.empty_like(places)
    order = torch.from_numpy(np.lexsort((places.numpy(), degrees.numpy())))
    by_degree[order] = torch.arange(num_nodes)
    return [_blocks(sets, places, first, num_parts) for first in (places, by_degree)]


def assignment_by_parts(structure: StructureData, parts: Tensor) -> Assignment:
    """Return where entries go when the process of every node is given."""
    degrees = _degrees(node_sets(structure), structure.total_nodes)
    first = torch.empty_like(parts)
    first[degrees.argsort(stable=True)] = torch.arange(len(parts))
    return NodeAssignment(parts, first)


def num_shared(sets: list[Tensor], assignment: Assignment, num_parts: int) -> int:
    """Return how many copies of nodes there are beyond the first: what has to travel."""
    num_nodes = len(assignment.parts)
    pairs = [torch.arange(num_nodes) * num_parts + assignment.parts]
    for nodes in sets:
        pairs.append((nodes * num_parts + assignment.of_sets(nodes)[:, None]).flatten())
    is_used = torch.zeros(num_nodes * num_parts, dtype=torch.bool)
    for pair in pairs:
        is_used[pair] = True
    return int(is_used.sum()) - num_nodes


def _degrees(sets: list[Tensor], num_nodes: int) -> Tensor:
    degrees = torch.zeros(num_nodes, dtype=torch.long)
    for nodes in sets:
        degrees += torch.bincount(nodes.flatten(), minlength=num_nodes)
    return degrees


def _blocks(sets: list[Tensor], places: Tensor, first: Tensor, num_parts: int) -> NodeAssignment:
    """Return blocks of an order with about as many entries each."""
    loads = torch.ones(len(places), dtype=torch.long)  # by node: itself, and entries that follow it
    whole = NodeAssignment(places, first)
    for nodes in sets:
        loads += torch.bincount(whole._chosen(nodes), minlength=len(places))
    in_order = torch.empty_like(loads)
    in_order[places] = loads
    before = in_order.cumsum(0) - in_order
    of_places = before * num_parts // max(int(in_order.sum()), 1)
    return NodeAssignment(of_places[places], first)


def _order_places(sets: list[Tensor], num_nodes: int) -> Tensor:
    """Return the place of every node in an order that keeps neighbours together."""
    ends = [torch.stack([nodes[:, k], nodes[:, k + 1]])
            for nodes in sets for k in range(nodes.shape[1] - 1)]  # fmt: skip
    edges = torch.cat(ends, dim=1) if ends else torch.zeros(2, 0, dtype=torch.long)
    try:
        sparse: Any = need("scipy.sparse", "a reverse Cuthill-McKee order", "geometry")
        graphs: Any = need("scipy.sparse.csgraph", "a reverse Cuthill-McKee order", "geometry")
    except MissingExtraError:
        order = _breadth_first(edges, num_nodes)
    else:
        one, other = edges.numpy()
        ones = np.ones(2 * edges.shape[1], dtype=np.int8)
        ij = np.concatenate([one, other]), np.concatenate([other, one])
        matrix = sparse.csr_matrix((ones, ij), shape=(num_nodes, num_nodes))
        order = torch.from_numpy(
            graphs.reverse_cuthill_mckee(matrix, symmetric_mode=True).astype(np.int64)
        )
    places = torch.empty(num_nodes, dtype=torch.long)
    places[order] = torch.arange(num_nodes)
    return places


def _breadth_first(edges: Tensor, num_nodes: int) -> Tensor:
    """Return the nodes ring by ring around a node of lowest degree, component by component."""
    both = torch.cat([edges, edges.flip(0)], dim=1)
    order = both[0].argsort(stable=True)
    neighbours, degrees = both[1][order], torch.bincount(both[0], minlength=num_nodes)
    starts = (degrees.cumsum(0) - degrees).tolist()
    by_degree = degrees.argsort(stable=True).tolist()
    lists, counts = neighbours.tolist(), degrees.tolist()
    seen = bytearray(num_nodes)
    listed: list[int] = []
    for start in by_degree:
        if seen[start]:
            continue
        seen[start] = 1
        at = len(listed)
        listed.append(start)
        while at < len(listed):
            node = listed[at]
            at += 1
            for other in lists[starts[node] : starts[node] + counts[node]]:
                if not seen[other]:
                    seen[other] = 1
                    listed.append(other)
    return torch.tensor(listed, dtype=torch.long)
