"""The edges that a lifting reads, as sorted lists of neighbours, with the joins that everything here is made of."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from incidence.algebra.pattern import Pattern
from incidence.errors import IncidenceError
from incidence.structure.ragged import ranges
from incidence.structure.structure import Structure

__all__ = ["Adjacency", "adjacency", "chunks", "edge_pattern", "is_directed", "is_edge", "later_in_group", "spread"]

CHUNK = 2**21
"""Candidates looked at together: enough to keep torch busy, few enough to stay in the cache of a large machine."""


@dataclass(frozen=True)
class Adjacency:
    """Neighbours of nodes: those of node v are `neighbour[ptr[v]:ptr[v + 1]]`, ascending, without v.

    Attributes:
        ptr: Where the neighbours of each node start, and the end; shape [nodes + 1].
        neighbour: The neighbours, shape [arcs].
    """

    ptr: Tensor
    neighbour: Tensor

    @classmethod
    def of(cls, source: Tensor, target: Tensor, num_nodes: int) -> Adjacency:
        """From pairs of nodes; loops are left out, and pairs that come twice count once."""
        apart = source != target
        codes = torch.unique(source[apart] * num_nodes + target[apart])
        source, neighbour = codes // max(num_nodes, 1), codes % max(num_nodes, 1)
        return cls(ranges(torch.bincount(source, minlength=num_nodes)), neighbour)

    @property
    def num_nodes(self) -> int:
        """The number of nodes."""
        return len(self.ptr) - 1

    @cached_property
    def degree(self) -> Tensor:
        """How many neighbours each node has, shape [nodes]."""
        return self.ptr.diff()

    @cached_property
    def source(self) -> Tensor:
        """The node whose neighbour each is, shape [arcs]."""
        return torch.repeat_interleave(torch.arange(self.num_nodes, device=self.ptr.device), self.degree)

    @cached_property
    def _codes(self) -> Tensor:
        return self.source * self.num_nodes + self.neighbour

    def has(self, source: Tensor, target: Tensor) -> Tensor:
        """Whether the second node is a neighbour of the first, for many pairs; there must be an arc, or no pair."""
        query = source * self.num_nodes + target
        return self._codes[torch.searchsorted(self._codes, query).clamp_(max=len(self._codes) - 1)] == query

    def grow(self, nodes: Tensor) -> tuple[Tensor, Tensor]:
        """All neighbours of given nodes: which of the nodes, and the neighbour."""
        which, place = spread(self.degree[nodes])
        return which, self.neighbour[self.ptr[nodes][which] + place]


def spread(counts: Tensor) -> tuple[Tensor, Tensor]:
    """For every row as many rows as its count: the number of the row, and 0, 1, 2, ... within it."""
    which = torch.repeat_interleave(torch.arange(len(counts), device=counts.device), counts)
    return which, torch.arange(len(which), device=counts.device) - (counts.cumsum(0) - counts)[which]


def later_in_group(group: Tensor) -> Tensor:
    """How many rows of the same group come after each row, for group numbers in ascending order."""
    _, lengths = torch.unique_consecutive(group, return_counts=True)
    ends = torch.repeat_interleave(lengths.cumsum(0), lengths)
    return ends - 1 - torch.arange(len(group), device=group.device)


def chunks(counts: Tensor, size: int | None = None) -> Iterator[slice]:
    """Consecutive rows whose counts add up to about a given size at most; a row that passes it comes alone."""
    ends = counts.cumsum(0)
    start, done = 0, 0
    while start < len(counts):
        stop = max(int(torch.searchsorted(ends, done + (size or CHUNK), right=True)), start + 1)
        yield slice(start, stop)
        start, done = stop, int(ends[stop - 1])


def is_directed(pattern: Pattern) -> bool:
    """Whether the two letters of an edge can be told apart."""
    return len(set(pattern.signatures.values())) == 2


def is_edge(pattern: Pattern) -> bool:
    """Whether the entries of a pattern are pairs of nodes of one sort."""
    plain = pattern.order == 1 or all(len(face.letters) == 1 for face in pattern.faces)
    return len(pattern.letters) == 2 and plain and not pattern.is_open and len(set(pattern.sorts.values())) == 1


def edge_pattern(structure: Structure, edges: str | None, who: str) -> Pattern:
    """The tensor whose entries are the edges: the one that is asked for, else the one there is, `{i j}` before others.

    Raises:
        IncidenceError: There is none, there are several, or the one asked for is no tensor of edges.
    """
    if not isinstance(structure, Structure):
        raise IncidenceError(f"{who} takes a Structure; got {type(structure).__name__}.")
    known = ", ".join(f"`{p}`" for p in structure.patterns) or "none"
    if edges is not None:
        found = structure.resolve(edges)
        if not is_edge(found):
            raise IncidenceError(f"{who} reads edges, two nodes of one sort as in `{{i j}}` or `(i j)`; `{found}` has none.")
        return next(p for p in structure.patterns if p == found)
    fit = [p for p in structure.patterns if is_edge(p) and p.name is None]
    if len(fit) != 1 and Pattern("{i j}") not in fit:
        several = f"there are {', '.join(f'`{p}`' for p in fit)}" if fit else f"there are no unnamed edges among the tensors ({known})"
        raise IncidenceError(f"{who} reads edges, as in `{{i j}}` or `(i j)`, and {several}: say which, as in edges='{{i j}}'.")
    return next((p for p in fit if p == Pattern("{i j}")), fit[0])


def adjacency(structure: Structure, edges: Pattern, directed: bool = False) -> Adjacency:
    """The neighbours by given edges, along both directions unless told otherwise."""
    source, target = structure.index(edges)[0]
    [sort] = set(edges.sorts.values())
    count = structure.counts[sort]
    if directed and is_directed(edges):
        return Adjacency.of(source, target, count)
    return Adjacency.of(torch.cat([source, target]), torch.cat([target, source]), count)
