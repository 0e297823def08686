"""The faces of one rank, and which faces contain which."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import combinations

import torch
from torch import Tensor

from incidence.algebra.pattern import Pattern
from incidence.geometry.node_lists import NodeLists
from incidence.structure import Structure
from incidence.structure.data import orientations
from incidence.structure.ragged import (
    MAX_ENTRIES,
    assert_few,
    by_entry,
    distinct,
    expand,
    is_among,
    pairs,
    ranges,
)

__all__ = ["RankedFaces", "contained"]


@dataclass(frozen=True)
class RankedFaces:
    """The faces of one rank: the entries of one tensor of a structure that has one face.

    Attributes:
        structure: The structure.
        pattern: The tensor; None for a rank that has no faces.
    """

    structure: Structure
    pattern: Pattern | None

    @cached_property
    def count(self) -> int:
        return 0 if self.pattern is None else self.structure.num_entries(self.pattern)

    @cached_property
    def columns(self) -> Tensor | None:
        """The nodes of faces of one size, shape [size, faces], ascending where their order means nothing; None for mixed sizes."""
        if (
            self.pattern is None
            or self.pattern.is_open
            or not self.pattern.faces[0].kind.is_distinct
        ):
            return None
        columns: Tensor = self.structure[self.pattern]
        return columns if self.is_ordered else columns.sort(dim=0)[0]

    @cached_property
    def orientation(self) -> Tensor | None:
        """By which sign the reference orientation of every face differs from ascending nodes; None where there is no orientation."""
        if self.pattern is None or not self.pattern.is_oriented:
            return None
        return orientations(self.structure, self.pattern)

    @property
    def is_ordered(self) -> bool:
        """Whether a face is a sequence, and contains its subsequences only."""
        return self.pattern is not None and self.pattern.faces[0].kind.opening == "("

    @cached_property
    def num_nodes(self) -> int:
        """A bound on the numbers of nodes, at least 1."""
        return max(self.structure.counts.values(), default=0) or 1

    @cached_property
    def lists(self) -> NodeLists:
        """The nodes of every face, ascending."""
        if self.pattern is None:
            return NodeLists.of_rows(
                torch.zeros(0, 0, dtype=torch.long, device=self.structure.device)
            )
        index = self.structure[self.pattern]
        if self.pattern.is_open:
            nodes, ptr = by_entry(index, self.count)
            return NodeLists(ptr, nodes)
        keys = (torch.arange(self.count, device=index.device) * self.num_nodes + index).flatten()
        keys = keys[distinct(keys)]  # a symmetric face may repeat a node
        return NodeLists(
            ranges(torch.bincount(keys // self.num_nodes, minlength=self.count)),
            keys % self.num_nodes,
        )


def contained(lower: RankedFaces, upper: RankedFaces) -> Tensor:
    """All pairs of faces, the first in the second: rows (face of the lower rank, face of the upper rank), by the latter."""
    if not lower.count or not upper.count:
        return torch.zeros(2, 0, dtype=torch.long, device=lower.structure.device)
    if is_alike(lower, upper):
        found = subfaces(lower, upper)
        upper_face = torch.arange(upper.count, device=found.device).repeat_interleave(
            found.shape[1]
        )
        both = torch.stack([found.flatten(), upper_face])
        return both[:, both[0] >= 0]
    # Every lower face looks for partners at the one of its nodes that fewest upper faces have, and asks them for the others.
    nodes, theirs, owner, total = (
        lower.lists.nodes,
        upper.lists.nodes,
        upper.lists.numbers,
        lower.num_nodes,
    )
    degree = torch.bincount(theirs, minlength=total)
    rarest = torch.full((lower.count,), total * (upper.count + 1), device=nodes.device)
    rarest.scatter_reduce_(0, lower.lists.numbers, degree[nodes] * total + nodes, "amin")
    one, spot = pairs(rarest % total, theirs, MAX_ENTRIES, "too many faces have nodes in common")
    other = owner[spot]
    sizes = lower.lists.sizes[one]
    assert_few(int(sizes.sum()), MAX_ENTRIES, "too many faces have nodes in common")
    which, place = expand(lower.lists.ptr[one], sizes)
    is_in = is_among(other[which] * total + nodes[place], owner * total + theirs)
    is_kept = torch.ones_like(one, dtype=torch.bool)
    is_kept[which[~is_in]] = False
    both = torch.stack([one, other])[:, is_kept]
    return both[:, (both[1] * lower.count + both[0]).sort()[1]]


def is_alike(lower: RankedFaces, upper: RankedFaces) -> bool:
    """Whether the subfaces of a face are told by its positions: both ranks have faces of one size, and the same kind of faces."""
    if lower.columns is None or upper.columns is None:
        return False
    return len(lower.columns) <= len(upper.columns) and (
        len(lower.columns) == 1 or lower.is_ordered == upper.is_ordered
    )


def is_simplicial(lower: RankedFaces, upper: RankedFaces) -> bool:
    """Whether the boundary of a face is what is left without one of its nodes."""
    return is_alike(lower, upper) and len(lower.columns) + 1 == len(upper.columns)  # type: ignore[arg-type]


def subfaces(lower: RankedFaces, upper: RankedFaces) -> Tensor:
    """For every face the rows of its subfaces, -1 where one is absent; shape [faces, subfaces], positions in lexicographic order."""
    assert lower.columns is not None
    assert upper.columns is not None
    assert lower.pattern is not None
    chosen = list(combinations(range(len(upper.columns)), len(lower.columns)))
    asked = torch.cat([upper.columns[list(kept)] for kept in chosen], dim=1)
    return lower.structure.locate(lower.pattern, asked).view(len(chosen), upper.count).T
