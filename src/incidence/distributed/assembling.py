"""`assemble`: a structure of what every process has read. No process ever holds the whole."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from incidence.algebra.pattern import Pattern
from incidence.distributed.agreement import agreed, assert_same
from incidence.distributed.part import Part, make_part
from incidence.distributed.processes import DEFAULT_TIMEOUT, as_world
from incidence.errors import IncidenceError
from incidence.structure import Structure
from incidence.structure.arrange import arranged
from incidence.structure.data import IndexData
from incidence.structure.world import World

__all__ = ["assemble"]

_BLOCK = 1 << 22  # nodes whose processes are looked up at a time

NodeParts = Callable[[str, Tensor], Tensor]
"""From a sort and the numbers of nodes to their processes."""


def assemble(
    num_nodes: int | Mapping[str, int],
    index: Mapping[str, object],
    parts: Any = None,
    timeout: float = DEFAULT_TIMEOUT,
    world: World | None = None,
) -> Part:
    """Return the part of this process of a structure, of whose entries every process gives some.

    Entries travel to the process of their first node. The rows of the whole structure are those of
    process 0, then those of process 1, and so on. `part.bring(x, text)` brings features along.

    Args:
        num_nodes: The number of nodes of the whole structure, the same on all processes; with
            several sorts, a mapping.
        index: The entries that this process has read, with the nodes numbered as in the whole
            structure. All processes give the same patterns, with no entries where they have none.
        parts: The process of every node: a function from a tensor of nodes to their processes, a
            tensor, or a dict of these by sort. If not given, every process gets a range of nodes.
        timeout: The seconds after which a process stops waiting for the others.
        world: The processes; those of `torch.distributed` if not given.

    Raises:
        IncidenceError: The entries of some process are invalid; all processes raise it.
    """
    processes = as_world(world, timeout)
    given = agreed(processes, lambda: Structure(num_nodes, index))
    assert_same(processes, "the number of nodes and the patterns", *_described(given))
    lookup = agreed(processes, lambda: _lookup(parts, given, processes.size))
    homes = agreed(processes, lambda: [_homes(given, p, lookup) for p in given.patterns])
    pieces = [
        _travelled(given, pattern, own, processes)
        for pattern, own in zip(given.patterns, homes, strict=True)
    ]
    taken = dict(zip(given.patterns, pieces, strict=True))
    index_here: IndexData = {pattern: piece.index for pattern, piece in taken.items()}
    held = agreed(
        processes,
        lambda: {
            sort: _held(sort, count, lookup, processes.rank) for sort, count in given.counts.items()
        },
    )
    nodes = {sort: _used(sort, own, index_here) for sort, own in held.items()}
    whole_counts: dict[str | Pattern, int] = {}
    whole_counts.update(given.counts.items())
    whole_counts |= {pattern: piece.total for pattern, piece in taken.items()}
    none = torch.zeros(1, dtype=torch.long)
    part = make_part(
        processes,
        nodes,
        held,
        given._node_ptr,
        dict(index_here),
        {pattern: piece.rows for pattern, piece in taken.items()},
        {p: torch.cat([none, none + len(piece.rows)]) for p, piece in taken.items()},
        whole_counts,
    )
    part._routes = {pattern: piece.sends for pattern, piece in taken.items()}
    agreed(processes, lambda: [arranged(part, pattern) for pattern in part.patterns])
    return part


def _described(given: Structure) -> list[Any]:
    return [sorted(given.counts.items()), *map(str, given.patterns)]


def _lookup(parts: Any, given: Structure, size: int) -> NodeParts:
    """Return a function that looks up the process of nodes."""

    def of_sort(sort: str, nodes: Tensor) -> Tensor:
        own = parts.get(sort) if isinstance(parts, Mapping) else parts
        if own is None:
            return nodes * size // max(given.counts[sort], 1)
        homes = own[nodes] if isinstance(own, Tensor) else own(nodes)
        is_fine = isinstance(homes, Tensor) and homes.shape == nodes.shape
        is_fine = is_fine and not homes.is_floating_point()
        if not is_fine or (len(homes) and not 0 <= int(homes.min()) <= int(homes.max()) < size):
            raise IncidenceError(
                f"parts= gives for every node the number of a process, from 0 to {size - 1}, as"
                f" integers of the shape of the nodes; for nodes of sort `{sort}` it does not."
            )
        of_nodes: Tensor = homes.long()
        return of_nodes

    if isinstance(parts, (int, str, list)):
        raise IncidenceError(
            f"parts= is a function of nodes, a tensor, or a dict of these by sort; got {parts!r}."
        )
    return of_sort


def _held(sort: str, count: int, lookup: NodeParts, rank: int) -> Tensor:
    """Return the nodes of a process."""
    held = [torch.zeros(0, dtype=torch.long)]
    for start in range(0, count, _BLOCK):
        nodes = torch.arange(start, min(start + _BLOCK, count))
        held.append(nodes[lookup(sort, nodes) == rank])
    return torch.cat(held)


@dataclass(frozen=True)
class _Travelled:
    """The entries of a tensor after they have travelled.

    Attributes:
        index: Those that came, with nodes of the whole structure.
        rows: Their rows in the whole structure.
        sends: For every process, which of the entries given here went there.
        total: The number of entries of all processes.
    """

    index: tuple[Tensor, ...]
    rows: Tensor
    sends: list[Tensor]
    total: int


def _travelled(given: Structure, pattern: Pattern, homes: Tensor, world: World) -> _Travelled:
    """Send the entries of a tensor to their processes."""
    counts = torch.cat(world.gather(torch.tensor([len(homes)])))
    first = int(counts[: world.rank].sum())
    sends = [(homes == rank).nonzero()[:, 0] for rank in range(world.size)]
    rows = torch.cat(world.swap_any([own + first for own in sends]))
    letters, *members = given._stored(pattern)
    height = len(letters)
    came = world.swap_any([letters[:, own].T.flatten() if height else own[:0] for own in sends])
    moved = [torch.cat(came).view(-1, height).T.contiguous() if height else letters[:, :0]]
    for pairs in members:
        moved.append(_travelled_members(pairs, homes, sends, world))
    return _Travelled(tuple(moved), rows, sends, int(counts.sum()))


def _homes(given: Structure, pattern: Pattern, lookup: NodeParts) -> Tensor:
    """Return the process of every entry: that of its first node."""
    homes = torch.zeros(given.num_entries(pattern), dtype=torch.long)
    offsets = sorted(given._node_offsets.items(), key=lambda item: item[1])
    for own in arranged(given, pattern):
        if not own.bucket.nodes.shape[1]:
            continue
        first = own.bucket.nodes.amin(1)
        of_first = torch.zeros_like(first)
        for sort, offset in offsets:
            is_own = (first >= offset) & (first < offset + given.counts[sort])
            of_first[is_own] = lookup(sort, first[is_own] - offset)
        homes[own.bucket.rows] = of_first
    return homes


def _travelled_members(pairs: Tensor, homes: Tensor, sends: list[Tensor], world: World) -> Tensor:
    """Send the nodes of open faces along with their entries."""
    place = torch.zeros_like(homes)  # of every entry among those that go to its process
    for own in sends:
        place[own] = torch.arange(len(own))
    home = homes[pairs[1]]
    chosen = [pairs[:, home == rank] for rank in range(world.size)]
    came = world.swap_any([torch.stack([own[0], place[own[1]]]).T.flatten() for own in chosen])
    lengths = torch.cat(world.swap_any([torch.tensor([len(own)]) for own in sends]))
    starts = lengths.cumsum(0) - lengths
    moved = [flat.view(-1, 2).T for flat in came]
    return torch.cat(
        [torch.stack([own[0], own[1] + start]) for own, start in zip(moved, starts, strict=True)],
        dim=1,
    )


def _used(sort: str, held: Tensor, index: IndexData) -> Tensor:
    """Return the nodes of a sort that a process has: its own, and those of its entries."""
    nodes: Tensor = torch.cat([held, *_places(sort, index)]).unique()
    return nodes


def _places(sort: str, index: IndexData) -> Iterator[Tensor]:
    for pattern, (letters, *members) in index.items():
        for name, row in zip(pattern.fixed_letters, letters, strict=True):
            if pattern.sorts[name] == sort:
                yield row
        open_faces = [face for face in pattern.faces if face.is_open]
        for face, pairs in zip(open_faces, members, strict=True):
            if face.letters[0].sort == sort:
                yield pairs[0]
