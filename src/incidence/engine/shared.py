r"""Sums over the bags of all processes that hold parts of one structure (docs/math.md section 18).

Every process pools its own rows. A key that several processes use has a partial sum on each of
them. The exchange turns partial sums into full sums on every process that uses the key. It is a
symmetric linear map, so the same exchange carries gradients back.

A key of few processes goes from each to each. A key of many, such as the empty key, takes part in
one sum over all processes. Who shares what is computed with the plan.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod

import torch
from torch import Tensor

from incidence.engine.gradient import linear_map
from incidence.structure.ragged import expand, ranges, rank_rows
from incidence.structure.world import World

__all__ = ["SharedKeys", "all_shared", "exchanged", "shared_keys"]


@dataclass(frozen=True, eq=False)
class SharedKeys:
    """The keys of one level that other processes use too.

    Attributes:
        world: The processes.
        sends: For every process the keys that are exchanged with it, ascending. Both sides list
            them in the same order.
        summed: The keys here that take part in the sum over all processes.
        places: Their places in that sum.
        num_summed: The number of keys in that sum.
        has_pairs: Whether any two processes exchange keys.
    """

    world: World
    sends: tuple[Tensor, ...]
    summed: Tensor
    places: Tensor
    num_summed: int
    has_pairs: bool

    @property
    def is_idle(self) -> bool:
        """Whether nothing is sent, by any process."""
        return not self.has_pairs and not self.num_summed

    @property
    def tensors(self) -> list[Tensor]:
        """The lists."""
        return [*self.sends, self.summed, self.places]

    def num_sent(self) -> int:
        """Return how many keys this process sends: to each process, and to the common sum."""
        return sum(map(len, self.sends)) + self.num_summed

    def numbered(self, keys: Tensor) -> SharedKeys:
        """Return the same for keys under other numbers, which must ascend."""
        sends = tuple(keys[own] for own in self.sends)
        return replace(self, sends=sends, summed=keys[self.summed])

    def total(self, x: Tensor, op: str = "sum") -> Tensor:
        """Return values over all processes without gradients, (keys, *shape of a row)."""
        # the size in full: it does not follow from a tensor without rows
        [full] = exchanged([self], [x.reshape(len(x), prod(x.shape[1:]))], op)
        return full.view(x.shape)

    def complete(self, x: Tensor) -> Tensor:
        """Return sums over all processes, differentiably, (keys, *shape of a row)."""
        # the exchange is symmetric: it is its own adjoint
        return linear_map(x, self.total, self.total)


def all_shared(count: int, world: World) -> SharedKeys:
    """Return the schedule of keys that all processes have under the same numbers."""
    keys = torch.arange(count)
    num_summed = count if world.size > 1 else 0
    nobody = (keys[:0],) * world.size
    return SharedKeys(world, nobody, keys[:num_summed], keys[:num_summed], num_summed, False)


def shared_keys(keys: Tensor, world: World) -> SharedKeys:
    """Return who shares which keys. All processes call this together.

    Every key has a process that looks it up, by a hash of its nodes. So no process sees all keys.

    Args:
        keys: The nodes of every key as numbers in the whole structure, shape (keys, nodes); in
            lexicographic order, each once. Without columns, the keys are the structures of a batch.
        world: The processes.
    """
    size = keys.shape[1]
    if not size:
        return all_shared(len(keys), world)
    none = keys.new_zeros(0)
    if world.size == 1:
        return SharedKeys(world, (none,), none, none, 0, False)
    home = _hashed(keys) % world.size
    asked = [(home == rank).nonzero()[:, 0] for rank in range(world.size)]
    came = world.swap_any([keys[own].flatten() for own in asked])
    pairs, summed, num_summed = _looked_up([part.view(-1, size) for part in came], world)
    # of the keys asked for at each process: their place in the question, and with whom
    answers = [part.view(-1, 2) for part in world.swap_any(pairs)]
    keys_of = torch.cat([own[a[:, 0]] for own, a in zip(asked, answers, strict=True)])
    others = torch.cat([a[:, 1] for a in answers])
    sends = tuple(keys_of[others == rank].sort()[0] for rank in range(world.size))
    sums = [part.view(-1, 2) for part in world.swap_any(summed)]
    in_sum = torch.cat([own[a[:, 0]] for own, a in zip(asked, sums, strict=True)])
    places = torch.cat([a[:, 1] for a in sums])
    has_pairs = int(world.reduce(torch.tensor([len(keys_of)]))) > 0
    return SharedKeys(world, sends, in_sum, places, num_summed, has_pairs)


def _hashed(keys: Tensor) -> Tensor:
    """Return a number from 0 for every key."""
    total = torch.zeros_like(keys[:, 0])
    for column in keys.unbind(1):
        total = (total * 31 + column) % (1 << 40)
    return total


def _looked_up(came: Sequence[Tensor], world: World) -> tuple[list[Tensor], list[Tensor], int]:
    """Return the answers to the questions of every process.

    Args:
        came: The keys that each process asks for, shape (keys, nodes) each.
        world: The processes.

    Returns:
        For every process pairs (place in its question, another process with that key); and pairs
        (place in its question, place in the sum over all processes); and how many keys that has.
    """
    rows, device = torch.cat(list(came)), came[0].device
    counts = torch.tensor([len(part) for part in came], device=device)
    senders = torch.repeat_interleave(torch.arange(world.size, device=device), counts)
    place = torch.arange(len(rows), device=device) - ranges(counts)[senders]
    bound = int(rows.max()) + 1 if rows.numel() else 1
    number, num_keys = rank_rows(rows.unbind(1), [bound] * rows.shape[1])
    sharers = torch.bincount(number, minlength=num_keys)
    # From each to each of q processes takes q (q - 1) messages, the sum over p takes 2 (p - 1).
    is_summed = sharers * (sharers - 1) > 2 * (world.size - 1)
    is_paired = (sharers > 1) & ~is_summed
    order = number.sort(stable=True)[1]
    mine = is_paired[number].nonzero()[:, 0]
    which, spots = expand(ranges(sharers)[number[mine]], sharers[number[mine]])
    one, other = mine[which], order[spots]
    differs = one != other
    one, other = one[differs], other[differs]
    pairs = torch.stack([place[one], senders[other]], dim=1)
    firsts = ranges(torch.cat(world.gather(is_summed.sum()[None])))
    names = is_summed.long().cumsum(0) - 1 + firsts[world.rank]
    mine = is_summed[number].nonzero()[:, 0]
    sums = torch.stack([place[mine], names[number[mine]]], dim=1)
    return (
        _by_process(pairs, senders[one], world),
        _by_process(sums, senders[mine], world),
        int(firsts[-1]),
    )


def _by_process(answers: Tensor, processes: Tensor, world: World) -> list[Tensor]:
    return [answers[processes == rank].flatten() for rank in range(world.size)]


def exchanged(
    shared: Sequence[SharedKeys],
    values: Sequence[Tensor],
    op: str = "sum",
    is_copy: bool = False,
) -> list[Tensor]:
    """Return the values of keys over all processes, from what each process has.

    Args:
        shared: Who shares which keys, for each of several levels.
        values: The values of the keys, (keys, numbers each), of one type.
        op: `sum`, `max` or `min`.
        is_copy: Whether another process counts the values that are here.
    """
    if is_copy:
        values = [torch.full_like(value, _NEUTRAL[op]) for value in values]
    if all(level.is_idle for level in shared):
        return list(values)
    full = [
        value if level.is_idle else value.clone()
        for level, value in zip(shared, values, strict=True)
    ]
    _swap_pairs(shared, values, full, op)
    _sum_all(shared, values, full, op)
    return full


def _swap_pairs(
    shared: Sequence[SharedKeys], values: Sequence[Tensor], full: Sequence[Tensor], op: str
) -> None:
    """Exchange the keys that few processes share."""
    if not any(level.has_pairs for level in shared):
        return
    world = shared[0].world
    both = list(zip(shared, values, strict=True))
    parts = [
        torch.cat([value.index_select(0, level.sends[rank]).flatten() for level, value in both])
        for rank in range(world.size)
    ]
    came = world.swap(parts, [len(part) for part in parts])
    starts = [0] * world.size
    for level, value, into in zip(shared, values, full, strict=True):
        mine = torch.cat(level.sends).unique()
        # Sums are added in the order of processes, so that they are the same bits everywhere.
        if op == "sum":
            into.index_fill_(0, mine, 0)
        for rank in range(world.size):
            keys = level.sends[rank]
            if rank == world.rank:
                _put(into, mine, value.index_select(0, mine), op)
                continue
            length = len(keys) * value.shape[1]
            flat = came[rank][starts[rank] : starts[rank] + length]
            starts[rank] += length
            if length:
                _put(into, keys, flat.view(len(keys), value.shape[1]), op)


def _put(into: Tensor, keys: Tensor, values: Tensor, op: str) -> None:
    """Combine values of other processes with those of some keys, each at most once."""
    if op == "sum":
        into.index_add_(0, keys, values)
        return
    combine = torch.maximum if op == "max" else torch.minimum
    into.index_copy_(0, keys, combine(into.index_select(0, keys), values))


_NEUTRAL = {"sum": 0.0, "max": float("-inf"), "min": float("inf")}


def _sum_all(
    shared: Sequence[SharedKeys], values: Sequence[Tensor], full: Sequence[Tensor], op: str
) -> None:
    """Exchange the keys that many processes share."""
    if not any(level.num_summed for level in shared):
        return
    tables = []
    for level, value in zip(shared, values, strict=True):
        table = value.new_full((level.num_summed, value.shape[1]), _NEUTRAL[op])
        tables.append(table.index_copy_(0, level.places, value.index_select(0, level.summed)))
    total = shared[0].world.reduce(torch.cat([table.flatten() for table in tables]), op)
    pieces = total.split([table.numel() for table in tables])
    for level, table, piece, into in zip(shared, tables, pieces, full, strict=True):
        if len(level.summed):
            rows = piece.view(table.shape).index_select(0, level.places)
            into.index_copy_(0, level.summed, rows)
