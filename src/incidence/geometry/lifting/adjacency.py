"""What liftings share: the edges they read as sorted lists of neighbours, and how much they may find."""

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
        """Whether the second node is a neighbour of the first, for many pairs; there must be an arc, or no pair."""
        query = source * self.num_nodes + target
        return (
            self._codes[torch.searchsorted(self._codes, query).clamp_(max=len(self._codes) - 1)]
            == query
        )

    def grow(self, nodes: Tensor) -> tuple[Tensor, Tensor]:
        """All neighbours of given nodes: which of the nodes, and the neighbour."""
        which, spot = expand(self.ptr[nodes], self.degree[nodes])
        return which, self.neighbour[spot]


def pairs_in_groups(
    group: Tensor, check: Callable[[int, str], None], what: str
) -> Iterator[tuple[Tensor, Tensor]]:
    """All pairs of a row and a later row of its group, for group numbers in ascending order, some at a time.

    Args:
        group: The group of every row.
        check: Refuses too many pairs: a method of `Bound`.
        what: How it calls them.
    """
    _, lengths = torch.unique_consecutive(group, return_counts=True)
    rows = torch.arange(len(group), device=group.device)
    later = torch.repeat_interleave(lengths.cumsum(0), lengths) - 1 - rows  # of the same group
    check(int(later.sum()), what)
    for chunk in chunks(later):
        which, other = expand(rows[chunk] + 1, later[chunk])
        yield rows[chunk][which], other


def chunks(counts: Tensor, size: int | None = None) -> Iterator[slice]:
    """Consecutive rows whose counts add up to about a given size at most; a row that passes it comes alone."""
    ends = counts.cumsum(0)
    start, done = 0, 0
    while start < len(counts):
        stop = max(int(torch.searchsorted(ends, done + (size or CHUNK), right=True)), start + 1)
        yield slice(start, stop)
        start, done = stop, int(ends[stop - 1])


def edge_pattern(structure: Structure, edges: str | None, who: str) -> Pattern:
    """The tensor whose entries are the edges: the one that is asked for, else the only one there is, `{i j}` before others."""
    assert_structure(who, structure)
    known = ", ".join(f"`{p}`" for p in structure.patterns) or "none"
    if edges is not None:
        found = structure.resolve(edges)
        if not is_edge(found):
            raise IncidenceError(
                f"{who} reads edges, two nodes of one sort as in `{{i j}}` or `(i j)`; `{found}` has none."
            )
        return found
    fit = [p for p in structure.patterns if is_edge(p) and p.name is None]
    if len(fit) != 1 and Pattern("{i j}") not in fit:
        several = (
            f"there are {', '.join(f'`{p}`' for p in fit)}"
            if fit
            else f"there are no unnamed edges among the tensors ({known})"
        )
        raise IncidenceError(
            f"{who} reads edges, as in `{{i j}}` or `(i j)`, and {several}: say which, as in edges='{{i j}}'."
        )
    return next((p for p in fit if p == Pattern("{i j}")), fit[0])


def read_edges(
    structure: Structure, edges: str | None, who: str, directed: bool = False
) -> tuple[Pattern, str, Adjacency]:
    """The tensor of the edges, the sort of its nodes, and their neighbours, along both directions unless told otherwise."""
    pattern = edge_pattern(structure, edges, who)
    [sort] = set(pattern.sorts.values())
    return pattern, sort, adjacency(structure, pattern, directed)


def adjacency(structure: Structure, edges: Pattern, directed: bool = False) -> Adjacency:
    """The neighbours by given edges."""
    source, target = structure[edges]
    count = structure.counts[edges.sorts[edges.letters[0]]]
    if directed and is_directed(edges):
        return Adjacency.of(source, target, count)
    return Adjacency.of(torch.cat([source, target]), torch.cat([target, source]), count)


LIMIT = 10_000_000
"""Entries a lifting finds by default before it stops: about what fits in memory beside the data."""

WORK = 100
"""Candidates a lifting looks at for each entry that its limit allows: some seconds for every million."""


class Bound:
    """The limit of one lifting: `assert_room` where entries are found, `assert_time` before candidates are looked at."""

    def __init__(self, lifting: str, limit: int | None, remedy: str) -> None:
        self.lifting, self.limit, self.remedy = (
            lifting,
            None if limit is None else as_integer(lifting, "limit", limit, 0),
            remedy,
        )

    def assert_room(self, count: int, what: str) -> None:
        """Refuses more entries than the limit."""
        if self.limit is not None and count > self.limit:
            raise TooLargeError(
                f"{self.lifting}: there are at least {count:,} {what}, and limit={self.limit:,}. {self.remedy}, or raise limit=."
            )

    def assert_time(self, count: int, what: str) -> None:
        """Refuses to look at many more candidates than the limit."""
        if self.limit is not None and count > WORK * max(self.limit, 1):
            raise TooLargeError(
                f"{self.lifting}: {count:,} {what} would have to be looked at, more than {WORK} for each of limit={self.limit:,} entries. "
                f"{self.remedy}, or raise limit=."
            )
