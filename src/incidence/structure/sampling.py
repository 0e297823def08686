"""The surroundings of some nodes of one large structure, as mini-batches for local networks.

Two nodes are neighbours if they have an entry of some tensor in common. After l local layers the
value of an entry e depends only on entries within l steps of its nodes: every key of e that is not
empty lies in e, the entries that contain it meet e, and so on. So with all neighbours of h steps,
an entry whose nodes are at most h - l steps from the seeds has exactly the value that it has in the
whole structure. This holds for sums, means and extrema alike, as none of the bags that matter has
lost a row.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import torch
from torch import Tensor

from incidence.algebra.pattern import Pattern
from incidence.errors import IncidenceError
from incidence.structure.arguments import as_nodes
from incidence.structure.data import StructureData, cache_of
from incidence.structure.edit import Rows, rename
from incidence.structure.incidences import Incidences, incidences
from incidence.structure.ragged import by_entry, expand

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["Sample", "Sampling", "as_sizes", "prepare_samples"]

S = TypeVar("S", bound=StructureData)


@dataclass(frozen=True)
class Sample(Generic[S]):
    """A part of a structure around some of its nodes, the seeds.

    Attributes:
        structure: The entries that have only drawn nodes. The seeds come first, in the order of the
            caller, then the other nodes by their old numbers. Entries keep their order.
        seeds: The new numbers of the seeds; by sort, if the caller gave them by sort.
        kept: For every sort the old numbers of the nodes, for every tensor the old rows of the
            entries.

    Example:
        >>> from incidence import Structure
        >>> path = Structure(5, {"{i j}": [[0, 1, 2, 3], [1, 2, 3, 4]]})
        >>> sample = path.sample([3], hops=1)
        >>> sample.structure["{i j}"].tolist()
        [[1, 0], [0, 2]]
        >>> sample.nodes.tolist(), sample.rows("{i j}").tolist()
        ([3, 2, 4], [2, 3])
    """

    structure: S
    seeds: Any
    kept: Rows

    @property
    def nodes(self) -> Any:
        """The old number of every node; with several sorts (or one that is not `node`), by sort."""
        by_sort = {sort: self.kept[sort] for sort in self.structure.counts}
        return by_sort["node"] if set(by_sort) == {"node"} else by_sort

    def rows(self, text: str | Pattern) -> Tensor:
        """Return the old row of every entry of a tensor, to take features by."""
        pattern = self.structure.resolve(text)
        if pattern in self.structure.patterns:
            return self.kept[pattern]
        if not pattern.faces:
            return torch.zeros(1, dtype=torch.long, device=self.structure.device)
        [sort] = pattern.sorts.values()
        return self.kept[sort]


class Sampling(StructureData):
    """The method of a structure that takes the surroundings of some nodes."""

    def sample(
        self,
        nodes: object,
        hops: int | None = None,
        sizes: object = None,
        generator: torch.Generator | None = None,
    ) -> Sample[Self]:
        """Return the surroundings of some nodes, the seeds, with all old numbers.

        Nodes are neighbours if they have an entry in common. If all neighbours are taken for as
        many hops as a network without global operations has layers (`net.reach`), its outputs for
        the seeds are those on the whole structure.

        Args:
            nodes: The seeds: numbers or a mask; by sort, if there are several.
            hops: The number of steps.
            sizes: The number of neighbours to draw for each node, for all steps at once or for
                every one of them; None or -1 for all.
            generator: The generator of the random choice.

        Raises:
            IncidenceError: This is a batch, there are no such nodes, or hops and sizes do not say
                how far to go.

        Example:
            >>> from incidence import Structure
            >>> star = Structure(6, {"{i j}": [[0, 0, 0, 0, 4], [1, 2, 3, 4, 5]]})
            >>> star.sample([0], hops=1).structure.num_nodes
            5
            >>> star.sample([0], sizes=[2, None]).structure.num_nodes <= 4
            True
        """
        if self.num_structures != 1:
            raise IncidenceError(
                "sample is for one structure: index the batch first, as in batch[0].sample(nodes,"
                " hops=2)."
            )
        steps, seeds = as_sizes(hops, sizes), as_nodes(self, nodes, "sample")
        offsets, sorts = self._node_offsets, sorted(self.counts)
        first = torch.cat([seeds[sort] + offsets[sort] for sort in sorted(seeds)])
        drawn = _reached(self, first, steps, generator)  # numbered through all sorts
        starts = [offsets[sort] for sort in sorts[1:]]
        ends = torch.tensor(starts, dtype=torch.long, device=drawn.device)
        by_sort = drawn.tensor_split(torch.searchsorted(drawn, ends).cpu())
        rows: Rows = {}
        for sort, others in zip(sorts, by_sort, strict=True):
            rows[sort] = others - offsets[sort]
            if sort in seeds:
                rows[sort] = torch.cat([seeds[sort], rows[sort]])
        new_seeds: Any = {
            sort: torch.arange(len(given), device=self.device) for sort, given in seeds.items()
        }
        if not isinstance(nodes, Mapping):
            [new_seeds] = new_seeds.values()
        return Sample(_induced(self, rows), new_seeds, rows)


def as_sizes(hops: int | None, sizes: Any) -> list[int | None]:
    """Return how many neighbours of each node to draw at every step, None for all.

    Raises:
        IncidenceError: The arguments of `sample` say nothing, or contradict each other.
    """
    if hops is not None and not _is_count(hops):
        raise IncidenceError(f"hops counts steps from the seeds, from 0; got {hops!r}.")
    if not isinstance(sizes, Sequence) or isinstance(sizes, str):
        if hops is None:
            raise IncidenceError(
                "sample needs hops=2, for all neighbours, or sizes=[10, 10], a number for every"
                f" hop; got sizes={sizes!r}."
            )
        sizes = [sizes] * hops
    if hops is not None and len(sizes) != hops:
        raise IncidenceError(
            f"sizes has a number for every hop: {hops} of them; got {list(sizes)!r}."
        )
    numbers = [None if size == -1 else size for size in sizes]
    for size in numbers:
        if size is not None and not _is_count(size):
            raise IncidenceError(
                "sizes are numbers of neighbours, from 0, and None or -1 for all of them; got"
                f" {size!r}."
            )
    return numbers


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def prepare_samples(structure: StructureData) -> None:
    """Compute the lists that every sample needs; they are cached on the structure."""
    _lists(structure)
    for pattern in structure.patterns:
        _members(structure, pattern)


def _lists(structure: StructureData) -> Incidences:
    return incidences(structure, structure.patterns)


def _reached(
    structure: StructureData,
    seeds: Tensor,
    sizes: Sequence[int | None],
    generator: torch.Generator | None,
) -> Tensor:
    """Return the nodes reached from the seeds, without the seeds, ascending.

    Every node is left only once, in the step after it was reached.
    """
    is_reached = torch.zeros(structure.total_nodes, dtype=torch.bool, device=structure.device)
    is_reached[seeds] = True  # a node is drawn once, at the hop that reaches it first
    latest, reached = seeds, [seeds[:0]]
    for size in sizes:
        near = _neighbours(_lists(structure), latest, structure.total_nodes, size, generator)
        latest = near[~is_reached[near]].unique()
        is_reached[latest] = True
        reached.append(latest)
    return torch.cat(reached).sort().values  # ascending: the order of draws must not matter


def _neighbours(
    lists: Incidences,
    nodes: Tensor,
    num_nodes: int,
    size: int | None,
    generator: torch.Generator | None,
) -> Tensor:
    """Return the nodes that have an entry in common with given ones.

    For each given node at most `size` neighbours are drawn, all with equal probability.
    """
    of_node, spot = expand(lists.node_ptr[nodes], lists.node_ptr.diff()[nodes])
    entries = lists.entries[spot]
    of_entry, spot = expand(lists.entry_ptr[entries], lists.entry_ptr.diff()[entries])
    which, near = of_node[of_entry], lists.nodes[spot]  # (pairs of a given node and a neighbour,)
    if size is None:
        return near
    # A node is in all its entries, but no neighbour of itself.
    is_other = near != nodes[which]
    # A neighbour counts once, however many entries it shares with the node.
    pairs = (which[is_other] * num_nodes + near[is_other]).unique()
    given = pairs.div(num_nodes, rounding_mode="floor")
    drawn: Tensor = _draw(pairs, given, size, generator) % num_nodes
    return drawn


def _draw(values: Tensor, group: Tensor, size: int, generator: torch.Generator | None) -> Tensor:
    """Draw at most `size` values of every group; groups ascend."""
    # on the CPU, so that a seed draws the same on all devices
    random = torch.rand(len(values), generator=generator, device="cpu")
    mixed = random.to(values.device).argsort()
    by_group, order = group[mixed].sort(stable=True)
    first = torch.searchsorted(by_group, by_group)
    place = torch.arange(len(by_group), device=by_group.device) - first  # in its group
    return values[mixed[order[place < size]]]


def _induced(structure: S, rows: Rows) -> S:
    """Return the entries that have only given nodes, and add their rows to those of the nodes.

    The time grows with the entries at these nodes only, and not with the structure.
    """
    device, offsets, sorts = structure.device, structure._node_offsets, sorted(structure.counts)
    maps = {}  # from old numbers to new ones, or -1
    for sort, count in structure.counts.items():
        maps[sort] = torch.full((count,), -1, device=device)
        maps[sort][rows[sort]] = torch.arange(len(rows[sort]), device=device)
    lists = _lists(structure)
    nodes = torch.cat([rows[sort] + offsets[sort] for sort in sorts])
    _, spots = expand(lists.node_ptr[nodes], lists.node_ptr.diff()[nodes])
    # An entry is listed once for each of its nodes that stays.
    entries, counts = lists.entries[spots].unique(return_counts=True)
    whole = entries[counts == lists.entry_ptr.diff()[entries]]  # that lost no node, ascending
    index, entry_ptr = {}, {}
    starts = [0, *accumulate(map(structure.num_entries, structure.patterns))]
    bounds = torch.searchsorted(whole, torch.tensor(starts, device=device)).tolist()
    for k, pattern in enumerate(structure.patterns):
        chosen = whole[bounds[k] : bounds[k + 1]] - starts[k]
        rows[pattern] = chosen
        index[pattern] = rename(pattern, _taken(structure, pattern, chosen), maps)
        entry_ptr[pattern] = torch.tensor([0, len(chosen)], device=device)
    node_ptr = {
        sort: torch.tensor([0, len(rows[sort])], device=device) for sort in structure.counts
    }
    return structure._of(node_ptr, index, entry_ptr)


def _taken(structure: StructureData, pattern: Pattern, rows: Tensor) -> tuple[Tensor, ...]:
    """Return the index of some entries of a tensor."""
    letters, *_ = structure._index[pattern]
    if pattern.fixed_letters or not pattern.is_open:
        letters = letters[:, rows]
    taken = []
    for nodes, ptr in _members(structure, pattern):
        which, spot = expand(ptr[rows], ptr.diff()[rows])
        taken.append(torch.stack([nodes[spot], which]))
    return letters, *taken


@torch.inference_mode(False)
def _members(structure: StructureData, pattern: Pattern) -> list[tuple[Tensor, Tensor]]:
    """Return the nodes of every open face by entry, and where those of each entry start; cached."""
    cache: dict[Pattern, list[tuple[Tensor, Tensor]]] = cache_of(structure, "members")
    if pattern not in cache:
        count = structure.num_entries(pattern)
        cache[pattern] = [by_entry(members, count) for members in structure._index[pattern][1:]]
    return cache[pattern]
