"""Witnesses of operations: one pair of entries for each, where the value of any equivariant map tells its weights."""

from __future__ import annotations

import torch
from torch import Tensor

from incidence.algebra.basis import orbit_to_pool
from incidence.algebra.maps import EquivariantMap, Operation
from incidence.algebra.orbit import placements
from incidence.algebra.pattern import Pattern
from incidence.structure.structure import Structure

__all__ = ["OperationWitnesses"]


class OperationWitnesses:
    """For every operation from one tensor to another, a pair of entries with exactly its overlap, all on different nodes.

    Attributes:
        map: The map, with the two tensors named.
        structure: The entries.
        ys, xs: The rows of the pair of every operation.
        orbits: The output orbit of every operation.
    """

    def __init__(self, source: Pattern, target: Pattern) -> None:
        sides = [
            Pattern(f"{name}={p.unnamed()}") for name, p in (("source", source), ("target", target))
        ]
        self.map = EquivariantMap.between(sides[:1], sides[1:])
        operations = list(self.map.operations)
        self.orbits = torch.tensor([operation.target.number for operation in operations])
        counts = dict.fromkeys(self.map.sorts or ("node",), 0)
        columns: tuple[list[list[int]], list[list[int]]] = [], []
        for operation in operations:
            orbits = operation.source.orbit, operation.target.orbit
            for column, pattern, orbit, nodes in zip(
                columns, sides, orbits, _nodes(operation, counts), strict=True
            ):
                column.append([nodes[k] for k in next(placements(pattern, orbit))])
        index = {
            str(p): torch.tensor(c).view(len(c), -1).T
            for p, c in zip(sides, columns, strict=True)
            if p.faces
        }
        self.structure = Structure(counts, index)
        rows = torch.arange(len(operations))
        self.xs, self.ys = (rows if p.faces else torch.zeros_like(rows) for p in sides)

    def to_pool(self) -> Tensor:
        """The orbit basis in the pool-broadcast basis, which layers have; shape (operations, operations)."""
        change = torch.zeros(len(self.orbits), len(self.orbits), dtype=torch.float64)
        for number in range(len(self.orbits)):
            for k, value in orbit_to_pool(self.map, number).items():
                change[k, number] = value
        return change


def _nodes(operation: Operation, counts: dict[str, int]) -> tuple[list[int], list[int]]:
    """New nodes, class by class, for an input and an output entry that overlap as an operation says."""
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
                add(source[i].sort, xs[i], ys[j])
    for side, found in ((source, xs), (target, ys)):
        for c, nodes in zip(side, found, strict=True):
            while len(nodes) < (c.size or 0):
                add(c.sort, nodes)
    return [v for nodes in xs for v in nodes], [v for nodes in ys for v in nodes]
