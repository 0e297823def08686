"""Complete structures: every entry present."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

import torch
from torch import Tensor

from incidence.algebra.orbit import Orbit, placements
from incidence.algebra.pattern import Pattern
from incidence.errors import IncidenceError, TooLargeError
from incidence.structure.validate import as_num_nodes

__all__ = ["complete_index"]

_MAX_TUPLES = 2**28


def complete_index(
    num_nodes: int | Mapping[str, int], patterns: Sequence[str]
) -> tuple[dict[str, int], dict[str, Tensor]]:
    """The number of nodes of every sort, and every entry of the patterns."""
    wanted = [Pattern(text) for text in patterns]
    counts = as_num_nodes(num_nodes, wanted)
    index = {}
    for pattern in wanted:
        if pattern.is_open:
            raise IncidenceError(
                f"`{pattern}` has open faces: there is no complete structure for it. List the faces instead."
            )
        if pattern.faces:
            index[str(pattern)] = torch.cat(
                [_entries(pattern, orbit, counts) for orbit in pattern.orbits], dim=1
            )
    return counts, index


def _entries(pattern: Pattern, orbit: Orbit, counts: Mapping[str, int]) -> Tensor:
    """One assignment for every entry of an orbit: all lists of disjoint class sets, turned into letters."""
    if (
        prod(max(counts[c.sort], 1) for c in orbit.classes for _ in range(c.size or 0))
        > _MAX_TUPLES
    ):
        raise TooLargeError(
            f"`{pattern}` on {dict(counts)} nodes has too many entries to list: more than {_MAX_TUPLES:,} tuples of nodes."
        )
    nodes = torch.zeros(1, 0, dtype=torch.long)
    labels: list[int] = []
    for label, c in enumerate(orbit.classes):
        for place in range(c.size or 0):
            count = counts[c.sort]
            more = torch.arange(count).repeat(len(nodes))
            nodes = torch.cat([nodes.repeat_interleave(count, dim=0), more[:, None]], dim=1)
            others = [i for i, other in enumerate(labels) if orbit.classes[other].sort == c.sort]
            is_new = (nodes[:, others] != nodes[:, -1:]).all(1)
            if place:
                is_new &= nodes[:, -2] < nodes[:, -1]
            nodes = nodes[is_new]
            labels.append(label)
    return nodes[:, next(placements(pattern, orbit))].T.contiguous()
