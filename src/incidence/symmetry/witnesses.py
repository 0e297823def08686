"""Witnesses of operations: a pair of entries for each operation.

The values of an equivariant map at these pairs determine its weights.
"""

from __future__ import annotations

import torch
from torch import Tensor

from incidence.algebra.composition import orbit_to_pool
from incidence.algebra.maps import EquivariantMap, Operation
from incidence.algebra.orbit import placements
from incidence.algebra.pattern import Pattern
from incidence.structure.structure import Structure

__all__ = ["OperationWitnesses"]


class OperationWitnesses:
    """For every operation between two tensors, a pair of entries with exactly its overlap.

    Different pairs have different nodes.

    Attributes:
        map: The map, with the two tensors named.
        structure: The entries.
        ys, xs: The rows of the pair of every operation.
        orbits: The output orbit of every operation.
    """

    def __init__(self, source: Pattern, target: Pattern) -> None:
        sides = Pattern(f"source={source.unnamed()}"), Pattern(f"target={target.unnamed()}")
        self.map = EquivariantMap.between(sides[:1], sides[1:])
        operations = list(self.map.operations)
        self.orbits = torch.tensor([operation.target.number for operation in operations])
        counts = dict.fromkeys(self.map.sorts or ("node",), 0)
        entries: tuple[list[list[int]], list[list[int]]] = [], []  # of the source, of the target
        for operation in operations:
            orbits = operation.source.orbit, operation.target.orbit
            for side, nodes in enumerate(_nodes(operation, counts)):
                placed = next(placements(sides[side], orbits[side]))
                entries[side].append([nodes[k] for k in placed])
        index = {
            str(p): torch.tensor(listed).view(len(listed), -1).T  # (letters, entries)
            for p, listed in zip(sides, entries, strict=True)
            if p.faces
        }
        self.structure = Structure(counts, index)
        rows = torch.arange(len(operations))
        self.xs, self.ys = (rows if p.faces else torch.zeros_like(rows) for p in sides)

    def to_pool(self) -> Tensor:
        """Return the change from the orbit basis to the pool-broadcast basis, which layers have.

        The result has the shape (operations, operations).
        """
        change = torch.zeros(len(self.orbits), len(self.orbits), dtype=torch.float64)
        for number in range(len(self.orbits)):
            for k, value in orbit_to_pool(self.map, number).items():
                change[k, number] = value
        return change


def _nodes(operation: Operation, counts: dict[str, int]) -> tuple[list[int], list[int]]:
    """Return new nodes, class by class, for an input and an output entry of an operation.

    Args:
        operation: The operation, which says how the entries overlap.
        counts: The number of nodes of every sort so far, which grows.
    """
    source, target = operation.source.orbit.classes, operation.target.orbit.classes
    xs: list[list[int]] = [[] for _ in source]
    ys: list[list[int]] = [[] for _ in target]

    def add(sort: str, *classes: list[int]) -> None:
        for nodes in classes:
            nodes.append(counts[sort])
        counts[sort] += 1

    for i, row in enumerate(operation.overlap):
        for j, shared in enumerate(row):
            for _ in range(shared):
                add(source[i].sort, xs[i], ys[j])  # one node for both entries: it is matched
    for side, entry in ((source, xs), (target, ys)):
        for c, nodes in zip(side, entry, strict=True):
            while len(nodes) < (c.size or 0):
                add(c.sort, nodes)  # and new nodes for all that are not matched
    return [v for nodes in xs for v in nodes], [v for nodes in ys for v in nodes]
