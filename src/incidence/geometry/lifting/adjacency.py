"""What liftings share: edges as sorted lists of neighbours, and limits of what they make."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from incidence.algebra.pattern import Pattern
from incidence.errors import IncidenceError, TooLargeError
from incidence.geometry.assembly import assert_structure, is_directed, is_edge
from incidence.geometry.node_lists import as_integer
from incidence.structure import Structure
from incidence.structure.ragged import expand, ranges

__all__ = [
    "LIMIT",
    "Adjacency",
    "Bound",
    "adjacency",
    "chunks",
    "edge_pattern",
    "pairs_in_groups",
    "read_edges",
]

CHUNK = 2**21
"""Candidates tested together: enough to use torch well, and few enough for the cache of a machine.
"""


@dataclass(frozen=True)
class Adjacency:
    """Neighbours of nodes: those of node v are `neighbour[ptr[v]:ptr[v + 1]]`, ascending, without
    v.

    Attributes:
        ptr: Where the neighbours of each node start, and the end; shape [nodes + 1].
        neighbour: The neighbours, shape [arcs].
    """

    ptr: Tensor
    neighbour: Tensor

    @classmethod
    def of(cls, source: Tensor, target: Tensor, num_nodes: int) -> Adjacency:
        """Build the neighbours from pairs of nodes, without loops; equal pairs count once."""
        apart = source != target
        # sorted by source, then target
        codes = torch.unique(source[apart] * num_nodes + target[apart])
        source = codes // max(num_nodes, 1)
        neighbour = codes % max(num_nodes, 1)
        return cls(ranges(torch.bincount(source, minlength=num_nodes)), neighbour)

    @property
    def num_nodes(self) -> int:
        return len(self.ptr) - 1

    @cached_property
    def degree(self) -> Tensor:
        """How many neighbours each node has, shape [nodes]."""
        return self.ptr.diff()

    @cached_property
    def source(self) -> Tensor:
        """The node whose neighbour each is, shape [arcs]."""
        return torch.repeat_interleave(
            torch.arange(self.num_nodes, device=self.ptr.device), self.degree
        )

    @cached_property
    def _codes(self) -> Tensor:
        return self.source * self.num_nodes + self.neighbour

    def has(self, source: Tensor, target: Tensor) -> Tensor:
        """Return whether the second node is a neighbour of the first, for many pairs; there must be
        an arc, or no pair.
        """
        query = source * self.num_nodes + target
        spot = torch.searchsorted(self._codes, query).clamp_(max=len(self._codes) - 1)
        return self._codes[spot] == query

    def grow(self, nodes: Tensor) -> tuple[Tensor, Tensor]:
        """Return all neighbours of given nodes: which of the nodes, and the neighbour."""
        which, spot = expand(self.ptr[nodes], self.degree[nodes])
        return which, self.neighbour[spot]


def pairs_in_groups(
    group: Tensor, check: Callable[[int, str], None], what: str
) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield all pairs of a row and a later row of its group, some at a time; group numbers ascend.

    Args:
        group: The group of every row.
        check: Refuses too many pairs: a method of `Bound`.
        what: The plural of the pairs, for errors.
    """
    _, lengths = torch.unique_consecutive(group, return_counts=True)
    rows = torch.arange(len(group), device=group.device)
    later = torch.repeat_interleave(lengths.cumsum(0), lengths) - 1 - rows  # of the same group
    check(int(later.sum()), what)
    for chunk in chunks(later):
        which, other = expand(rows[chunk] + 1, later[chunk])
        yield rows[chunk][which], other


def chunks(counts: Tensor, size: int | None = None) -> Iterator[slice]:
    """Yield consecutive rows whose counts add up to at most about a given size; a row with more
    comes alone.
    """
    ends = counts.cumsum(0)
    start, done = 0, 0
    while start < len(counts):
        # at least one row
        stop = max(int(torch.searchsorted(ends, done + (size or CHUNK), right=True)), start + 1)
        yield slice(start, stop)
        start = stop
        done = int(ends[stop - 1])


def edge_pattern(structure: Structure, edges: str | None, who: str) -> Pattern:
    """Return the tensor whose entries are the edges: the one that is named, else the only one there
    is, `{i j}` before others.
    """
    assert_structure(who, structure)
    known = ", ".join(f"`{p}`" for p in structure.patterns) or "none"
    if edges is not None:
        pattern = structure.resolve(edges)
        if not is_edge(pattern):
            raise IncidenceError(
                f"{who} reads edges, two nodes of one sort as in `{{i j}}` or `(i j)`; `{pattern}`"
                " has none."
            )
        return pattern
    fitting = [p for p in structure.patterns if is_edge(p) and p.name is None]
    undirected = [p for p in fitting if p == Pattern("{i j}")]
    if len(fitting) != 1 and not undirected:
        problem = f"there are no unnamed edges among the tensors ({known})"
        if fitting:
            problem = f"there are {', '.join(f'`{p}`' for p in fitting)}"
        raise IncidenceError(
            f"{who} reads edges, as in `{{i j}}` or `(i j)`, and {problem}: say which, as in"
            " edges='{i j}'."
        )
    return (undirected or fitting)[0]


def read_edges(
    structure: Structure, edges: str | None, who: str, directed: bool = False
) -> tuple[Pattern, str, Adjacency]:
    """Return the tensor of the edges, the sort of its nodes, and their neighbours, along both
    directions by default.
    """
    pattern = edge_pattern(structure, edges, who)
    [sort] = set(pattern.sorts.values())
    return pattern, sort, adjacency(structure, pattern, directed)


def adjacency(structure: Structure, edges: Pattern, directed: bool = False) -> Adjacency:
    """Return the neighbours by given edges."""
    source, target = structure[edges]
    count = structure.counts[edges.sorts[edges.letters[0]]]
    if directed and is_directed(edges):
        return Adjacency.of(source, target, count)
    return Adjacency.of(torch.cat([source, target]), torch.cat([target, source]), count)


LIMIT = 10_000_000
"""The default limit of entries of a lifting: about what fits in memory beside the data."""

WORK = 100
"""Candidates that a lifting tests for each entry of its limit: some seconds for every million."""


class Bound:
    """The limit of one lifting: `assert_room` checks numbers of entries, `assert_time` numbers of
    candidates.
    """

    def __init__(self, lifting: str, limit: int | None, remedy: str) -> None:
        self.lifting = lifting
        self.limit = None if limit is None else as_integer(lifting, "limit", limit, 0)
        self.remedy = remedy

    def assert_room(self, count: int, what: str) -> None:
        """Check that there are no more entries than the limit."""
        if self.limit is not None and count > self.limit:
            raise TooLargeError(
                f"{self.lifting}: there are at least {count:,} {what}, and limit={self.limit:,}."
                f" {self.remedy}, or raise limit=."
            )

    def assert_time(self, count: int, what: str) -> None:
        """Check that there are not many more candidates than the limit."""
        if self.limit is not None and count > WORK * max(self.limit, 1):
            raise TooLargeError(
                f"{self.lifting}: {count:,} {what} would have to be tested, more than {WORK} for"
                f" each of limit={self.limit:,} entries. {self.remedy}, or raise limit=."
            )
