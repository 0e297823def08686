"""The surroundings of some nodes of one large structure: mini-batches for networks that only look near by.

Two nodes are neighbours if they have an entry of some tensor in common. After l local layers the value of an entry e depends on nothing
but the entries within l steps of its nodes: every key of e that is not empty lies in e, the entries that contain it meet e, and so on. So
with all neighbours of h steps, the values of an entry whose nodes are at most h - l steps from the seeds are exactly those of the whole,
sums, means and extrema alike, as none of the bags that count has lost a row.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor

from incidence.algebra.pattern import Pattern
from incidence.errors import IncidenceError
from incidence.structure.data import StructureData, cache_of
from incidence.structure.edit import Rows, as_nodes, rename
from incidence.structure.incidences import Incidences, incidences
from incidence.structure.ragged import by_entry, expand

__all__ = ["Sample", "as_sizes", "prepare_samples", "sample"]

S = TypeVar("S", bound=StructureData)


@dataclass(frozen=True)
class Sample(Generic[S]):
    """A part of a structure around some of its nodes, the seeds.

    Attributes:
        structure: The entries all of whose nodes were drawn, over these nodes: the seeds first, as they were given, then the others by
            their numbers. Entries keep their order.
        seeds: The seeds by their new numbers; by sort, if they were given by sort.
        kept: For every sort the old numbers of the nodes, for every tensor the old rows of the entries.

    Example:
        >>> from incidence import Structure
        >>> path = Structure(5, {"{i j}": [[0, 1, 2, 3], [1, 2, 3, 4]]})
        >>> found = path.sample([3], hops=1)
        >>> found.structure["{i j}"].tolist(), found.nodes.tolist(), found.rows("{i j}").tolist()
        ([[1, 0], [0, 2]], [3, 2, 4], [2, 3])
    """

    structure: S
    seeds: Any
    kept: Rows

    @property
    def nodes(self) -> Any:
        """The old number of every node; with several sorts (or one that is not `node`), for each sort."""
        of_sorts = {sort: self.kept[sort] for sort in self.structure.counts}
        return of_sorts["node"] if set(of_sorts) == {"node"} else of_sorts

    def rows(self, text: str | Pattern) -> Tensor:
        """The old row of every entry of a tensor: `x[sample.rows("{i j}")]` are its features."""
        pattern = self.structure.resolve(text)
        if pattern in self.structure.patterns:
            return self.kept[pattern]
        if not pattern.faces:
            return torch.zeros(1, dtype=torch.long, device=self.structure.device)
        [sort] = pattern.sorts.values()
        return self.kept[sort]


def sample(
    structure: S, nodes: Any, hops: int | None, sizes: Any, generator: torch.Generator | None
) -> Sample[S]:
    """The part of a structure around some nodes."""
    if structure.num_structures != 1:
        raise IncidenceError(
            "sample is for one structure: index the batch first, as in batch[0].sample(nodes, hops=2)."
        )
    steps, seeds = as_sizes(hops, sizes), as_nodes(structure, nodes, "sample")
    offsets = structure._node_offsets
    first = torch.cat(
        [seeds[sort] + offsets[sort] for sort in sorted(seeds)]
    )  # numbered through all sorts
    drawn = _surroundings(structure, first, steps, generator)
    ends = [offsets[sort] for sort in sorted(offsets)][1:]
    others = drawn.tensor_split(
        torch.searchsorted(drawn, torch.tensor(ends, dtype=torch.long, device=drawn.device)).cpu()
    )
    rows: Rows = {}
    for sort, found in zip(sorted(offsets), others, strict=True):
        rows[sort] = (
            torch.cat([seeds[sort], found - offsets[sort]])
            if sort in seeds
            else found - offsets[sort]
        )
    told = {
        sort: torch.arange(len(found), device=structure.device) for sort, found in seeds.items()
    }
    return Sample(
        _induced(structure, rows),
        told if isinstance(nodes, Mapping) else next(iter(told.values())),
        rows,
    )


def as_sizes(hops: int | None, sizes: Any) -> list[int | None]:
    """How many neighbours of each node to draw at every step, None for all, from what was asked for.

    Raises:
        IncidenceError: They say nothing, or not the same.
    """
    if hops is not None and (isinstance(hops, bool) or not isinstance(hops, int) or hops < 0):
        raise IncidenceError(f"hops counts steps from the seeds, from 0; got {hops!r}.")
    if not isinstance(sizes, Sequence) or isinstance(sizes, str):
        if hops is None:
            raise IncidenceError(
                f"sample needs hops=2, for all neighbours, or sizes=[10, 10], a number for every hop; got sizes={sizes!r}."
            )
        sizes = [sizes] * hops
    if hops is not None and len(sizes) != hops:
        raise IncidenceError(
            f"sizes has a number for every hop: {hops} of them; got {list(sizes)!r}."
        )
    wrong = [
        k
        for k in sizes
        if k is not None and (isinstance(k, bool) or not isinstance(k, int) or k < -1)
    ]
    if wrong:
        raise IncidenceError(
            f"sizes are numbers of neighbours, from 0, and None or -1 for all of them; got {wrong[0]!r}."
        )
    return [None if k == -1 else k for k in sizes]


def prepare_samples(structure: StructureData) -> None:
    """Makes the lists that every sample needs; they are kept with the structure."""
    _lists(structure)
    for pattern in structure.patterns:
        _members(structure, pattern)


def _lists(structure: StructureData) -> Incidences:
    return incidences(structure, structure.patterns)


def _surroundings(
    structure: StructureData,
    seeds: Tensor,
    sizes: Sequence[int | None],
    generator: torch.Generator | None,
) -> Tensor:
    """The nodes that are reached from the seeds, without these, ascending; every node is left once, when it was reached."""
    is_reached = torch.zeros(structure.total_nodes, dtype=torch.bool, device=structure.device)
    is_reached[seeds] = True
    latest, found = seeds, [seeds[:0]]
    for size in sizes:
        near = _neighbours(_lists(structure), latest, structure.total_nodes, size, generator)
        latest = near[~is_reached[near]].unique()
        is_reached[latest] = True
        found.append(latest)
    return torch.cat(found).sort().values


def _neighbours(
    lists: Incidences,
    nodes: Tensor,
    num_nodes: int,
    size: int | None,
    generator: torch.Generator | None,
) -> Tensor:
    """The nodes that have an entry in common with given ones; of each of these at most `size` of its neighbours, every one as likely."""
    of_node, spot = expand(lists.node_ptr[nodes], lists.node_ptr.diff()[nodes])
    entries = lists.entries[spot]
    of_entry, spot = expand(lists.entry_ptr[entries], lists.entry_ptr.diff()[entries])
    which, near = of_node[of_entry], lists.nodes[spot]
    if size is None:
        return near
    is_other = near != nodes[which]
    pairs = (
        which[is_other] * num_nodes + near[is_other]
    ).unique()  # each neighbour once, however many entries it shares
    drawn: Tensor = (
        _some(pairs, pairs.div(num_nodes, rounding_mode="floor"), size, generator) % num_nodes
    )
    return drawn


def _some(values: Tensor, group: Tensor, size: int, generator: torch.Generator | None) -> Tensor:
    """Of the values of every group at most `size`, at random; groups ascend."""
    mixed = torch.rand(len(values), generator=generator).to(values.device).argsort()
    by_group, order = group[mixed].sort(stable=True)
    rank = torch.arange(len(by_group), device=by_group.device) - torch.searchsorted(
        by_group, by_group
    )
    return values[mixed[order[rank < size]]]


def _induced(structure: S, rows: Rows) -> S:
    """The entries all of whose nodes are kept; their rows are added to those of the nodes. Time grows with these entries alone."""
    device, offsets = structure.device, structure._node_offsets
    maps = {
        sort: torch.full((n,), -1, dtype=torch.long, device=device)
        for sort, n in structure.counts.items()
    }
    for sort, new in maps.items():
        new[rows[sort]] = torch.arange(len(rows[sort]), device=device)
    lists, nodes = (
        _lists(structure),
        torch.cat([rows[sort] + offsets[sort] for sort in sorted(offsets)]),
    )
    entries, counts = lists.entries[
        expand(lists.node_ptr[nodes], lists.node_ptr.diff()[nodes])[1]
    ].unique(return_counts=True)
    whole = entries[
        counts == lists.entry_ptr.diff()[entries]
    ]  # those that have lost no node, ascending
    ends = torch.tensor(
        [structure.num_entries(p) for p in structure.patterns], dtype=torch.long
    ).cumsum(0)
    index: dict[Pattern, tuple[Tensor, ...]] = {}
    for pattern, end, part in zip(
        structure.patterns, ends.tolist(), _parts(whole, ends), strict=True
    ):
        rows[pattern] = part - (end - structure.num_entries(pattern))
        index[pattern] = rename(pattern, _taken(structure, pattern, rows[pattern]), maps)
    node_ptr = {
        sort: torch.tensor([0, len(rows[sort])], device=device) for sort in structure.counts
    }
    return structure._of(
        node_ptr, index, {p: torch.tensor([0, len(rows[p])], device=device) for p in index}
    )


def _parts(entries: Tensor, ends: Tensor) -> Sequence[Tensor]:
    """Entries that are numbered through several tensors, by tensor."""
    return (
        entries.tensor_split(torch.searchsorted(entries, ends[:-1].to(entries.device)).cpu())
        if len(ends)
        else ()
    )


def _taken(structure: StructureData, pattern: Pattern, rows: Tensor) -> tuple[Tensor, ...]:
    """The index of some entries of a tensor."""
    letters, *_ = structure._index[pattern]
    taken = []
    for nodes, ptr in _members(structure, pattern):
        which, spot = expand(ptr[rows], ptr.diff()[rows])
        taken.append(torch.stack([nodes[spot], which]))
    return letters[:, rows] if pattern.fixed_letters or not pattern.is_open else letters, *taken


class _Members(tuple[tuple[Tensor, Tensor], ...]):
    """For every open face of a tensor: the nodes of its entries, one entry after the other, and where those of each start."""

    __slots__ = ()


@torch.inference_mode(False)
def _members(structure: StructureData, pattern: Pattern) -> _Members:
    cache = cache_of(structure, _Members)
    if pattern not in cache:
        count = structure.num_entries(pattern)
        cache[pattern] = _Members(
            by_entry(members, count) for members in structure._index[pattern][1:]
        )
    return cache[pattern]
