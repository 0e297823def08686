r"""Plans of batches, with nothing looked up again.

The numbers of a plan are one list in pieces, one for each part and structure. The numbers of a part count things of one kind: the
bags of a level, the entries of an orbit, the members of bags. A batch of some structures has the pieces of those, in the same order,
and the numbers in a piece move by one amount, as far as what they count has moved. So a batch is one gathering of ranges and one
sum, whatever the map is. What is small, a number for each piece, is done on the host, where sizes are needed anyway.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from incidence.structure.arrange import Mask
from incidence.structure.lists import Array, OrbitPlan, Table, flatten, mask_lists, offsets_of, order_of, whole_lists
from incidence.structure.plan import Plan

__all__ = ["join_plans", "spans", "starts_of"]


def starts_of(lengths: Array) -> Array:
    """Where pieces start that follow each other."""
    ends: Array = lengths.cumsum()
    return ends - lengths


def spans(starts: Array, lengths: Array) -> Array:
    """The numbers of several ranges, one range after the other."""
    found: Array = np.arange(int(lengths.sum())) + np.repeat(starts - starts_of(lengths), lengths)
    return found


def join_plans(plans: Sequence[Plan], numbers: Array | None = None) -> Plan:
    """The plan of a batch.

    Args:
        plans: The plans of one map on several structures or batches.
        numbers: Which structures to take, counted through all of them; all of them if not given.
    """
    first = plans[0]
    chosen = _Chosen([plan.keys.shape[1] for plan in plans], numbers)
    keys = _beside([plan.keys for plan in plans])
    orbits = [[_Orbit([plan.orbits[t][o] for plan in plans], chosen, keys) for o in range(len(own))] for t, own in enumerate(first.orbits)]
    parts = [part for own in orbits for orbit in own for part in orbit.parts]
    pieces = chosen.pieces(np.concatenate([lengths for lengths, _ in parts]))
    device = first.flat.device
    values = _cat([plan.flat for plan in plans]).index_select(0, pieces.places().to(device))
    values += pieces.repeat(np.concatenate([shift for _, shift in parts])).to(device)
    split = iter(values.split([int(chosen.of(lengths).sum()) for lengths, _ in parts]))
    entries = _beside([plan.entries for plan in plans])
    lists, orders = [], []
    for t, own in enumerate(orbits):
        start, made = 0, []
        for orbit in own:
            made.append(orbit.lists(split, start))
            start = made[-1].stop
        lists.append(tuple(made))
        orders.append(_join_orders([plan.orders[t] for plan in plans], own, entries[t], chosen))
    return Plan(first.tensors, first.levels, chosen.of(keys), chosen.of(entries), tuple(lists), tuple(orders))


class _Chosen:
    """Which structures of several plans make the batch.

    Args:
        counts: How many structures each plan has.
        numbers: Which to take, counted through; None for all.
    """

    def __init__(self, counts: Sequence[int], numbers: Array | None) -> None:
        self.counts, self._numbers = np.array(counts), numbers
        self.size = sum(counts) if numbers is None else len(numbers)
        self.plan = np.repeat(np.arange(len(counts)), self.counts)
        self._first = starts_of(self.counts)

    def of(self, table: Array) -> Array:
        """The columns of the chosen structures, from a table with a column for each."""
        return table if self._numbers is None else table[..., self._numbers]

    def pieces(self, lengths: Array) -> _Pieces:
        """The chosen pieces of a list.

        Args:
            lengths: Of all pieces, shape (parts, structures); in the list of a plan they come by part, then by structure.
        """
        if len(self.counts) == 1:
            starts = origin = starts_of(lengths.ravel()).reshape(lengths.shape)
        else:
            before = lengths.cumsum(axis=1) - lengths  # in the same part, through all plans
            totals = np.add.reduceat(lengths, self._first, axis=1) if len(lengths) else lengths[:, : len(self.counts)]
            parts = totals.cumsum(axis=0) - totals  # where every part starts in its plan
            origin = before + (parts - before[:, self._first])[:, self.plan]
            starts = origin + starts_of(totals.sum(axis=0))[self.plan]
        return _Pieces(self.of(lengths), self.of(starts), self.of(origin))


class _Pieces:
    """Pieces of a list, shape (parts, structures) of the batch each.

    Attributes:
        lengths: Of the pieces.
        shift: From the place of a piece in the list of its plan to that in the list of the batch.
        total: The length of all.
    """

    def __init__(self, lengths: Array, starts: Array, origin: Array) -> None:
        self.lengths, self._starts = lengths, starts
        now = starts_of(lengths.ravel()).reshape(lengths.shape)
        self.shift: Array = now - origin
        self.total = int(lengths.sum())

    def places(self) -> Tensor:
        """Where the members of all pieces are in the lists of all plans, one list after the other."""
        return torch.from_numpy(spans(self._starts.ravel(), self.lengths.ravel()))

    def repeat(self, table: Array) -> Tensor:
        """A number for each piece, repeated for its members."""
        return torch.from_numpy(np.repeat(table.ravel().astype(np.int32 if self.total < 2**31 else np.int64), self.lengths.ravel()))

    def structure(self) -> Array:
        """The structure of every member."""
        found: Array = np.repeat(np.tile(np.arange(self.lengths.shape[1]), len(self.lengths)), self.lengths.ravel())
        return found


class _Orbit:
    """An orbit in a batch.

    Attributes:
        old: The lists of the plans.
        entries: The pieces of its entries, by mask and structure.
        parts: Of the list of all numbers, those of this orbit: lengths in all plans, and how far the numbers move in the batch. For
            every mask the bags of its entries, column by column; the members of bags; where those start.
    """

    def __init__(self, old: Sequence[OrbitPlan], chosen: _Chosen, keys: Array) -> None:
        self.old, self._chosen, first = old, chosen, old[0]
        self._keys = chosen.of(keys)
        self._runs = _runs(old, chosen)
        bags = np.array(first.num_slots)[:, None] * keys[list(first.levels)]
        members = np.zeros_like(bags[1:])
        for run in self._runs:
            members += np.array(run.widths[1:], dtype=np.int64)[:, None] * run.lengths.sum(axis=0)
        lengths = np.concatenate([run.lengths for run in self._runs] or [np.zeros((0, keys.shape[1]), dtype=np.int64)])
        self.entries = chosen.pieces(lengths)
        self._members = chosen.pieces(members)
        by_level = chosen.pieces(bags).shift
        self.parts: list[tuple[Array, Array]] = []
        for run in self._runs:
            moved = np.repeat(by_level, run.widths, axis=0)  # (bags of an entry, structures)
            self.parts += [(np.repeat(own[None], len(moved), axis=0), moved) for own in run.lengths]
        self.parts.append((members, np.broadcast_to(self._entry_shift(), self._members.shift.shape)))
        self.parts.append((bags[1:], self._members.shift))

    def _entry_shift(self) -> Array:
        """How far the entries of a structure move, where there is one mask; where there are several, `_moved` sees to it."""
        return self.entries.shift if len(self.entries.lengths) == 1 else np.zeros_like(self._members.shift)

    def _moved(self, pool: Tensor) -> Tensor:
        """The places of members, each moved with the entries of its mask and structure."""
        base = self._members.repeat(np.broadcast_to(self._base(), self._members.lengths.shape)).to(pool.device)
        structure = torch.from_numpy(self._members.structure()).to(pool.device)
        run = self._run_of_entry().index_select(0, pool + base).long()
        shift = torch.from_numpy(self.entries.shift).to(pool.device, pool.dtype)
        return pool + shift.flatten().index_select(0, run * self._chosen.size + structure)

    def _base(self) -> Array:
        """What to add to the entries of a plan so that they are counted through all plans, for every structure of the batch."""
        counts = np.array([lists.stop - lists.start for lists in self.old])
        return self._chosen.of(starts_of(counts)[self._chosen.plan])

    def _run_of_entry(self) -> Tensor:
        """The number of the mask of every entry of all plans, among the masks of the batch."""
        if len(self.old) == 1:
            return self.old[0].mask_of_entry
        totals = np.add.reduceat(np.concatenate([run.lengths for run in self._runs]), starts_of(self._chosen.counts), axis=1)
        found = np.repeat(np.tile(np.arange(len(totals)), len(self.old)), totals.T.ravel())
        return torch.from_numpy(found).to(self.old[0].read.device)

    @cached_property
    def place(self) -> Tensor:
        """Where every entry was, through all plans."""
        return self.entries.places().to(self.old[0].read.device)

    @cached_property
    def structure(self) -> Tensor:
        """The structure of every entry."""
        return torch.from_numpy(self.entries.structure()).to(self.old[0].read.device)

    def lists(self, parts: Iterator[Tensor], start: int) -> OrbitPlan:
        """The lists, from the numbers of the batch."""
        first = self.old[0]
        dtype, device = first.read.dtype, first.read.device
        tables = []
        for run in self._runs:
            width = sum(run.widths)
            bags = _cat([next(parts).view(width, -1).t() for _ in run.masks]).contiguous()
            tables.append(Table(run.sizes, run.widths, bags, run.masks, self._chosen.of(run.sets)))
        read, read_ptr = flatten([table.bags for table in tables], dtype, device)
        pool, ptr = next(parts), next(parts)
        pool = self._moved(pool) if len(self.entries.lengths) > 1 else pool
        pool_ptr = torch.cat([ptr, ptr.new_tensor([self._members.total])])
        whole = self._whole(dtype, device)
        shape = first.levels, first.num_slots, offsets_of(first.levels, first.num_slots, self._keys)
        stop = start + self.entries.total
        lists = read, read_ptr, pool, pool_ptr, *whole
        return OrbitPlan(start, stop, *shape, *lists, *mask_lists(tables), first.nodes_at, tuple(tables))

    def _whole(self, dtype: torch.dtype, device: torch.device) -> tuple[Tensor, Tensor]:
        """The entries of every structure."""
        if len(self.entries.lengths) != 1 or self._chosen.size == 1:
            return whole_lists(self.structure, self._chosen.size, dtype)
        ptr = torch.from_numpy(np.concatenate([[0], self.entries.lengths[0].cumsum()])).to(device, dtype)
        return torch.arange(self.entries.total, dtype=dtype, device=device), ptr


class _Run:
    """A bucket in all plans.

    Attributes:
        tables: The tables of the plans that have it.
        sizes, widths: See `Table`.
        masks: All masks, ascending.
        sets: How many sets of each the structures have, shape (masks, structures).
        lengths: And how many entries.
    """

    def __init__(self, tables: Sequence[Table], masks: tuple[Mask, ...], sets: Array) -> None:
        self.tables, self.masks, self.sets = tables, masks, sets
        self.sizes, self.widths = tables[0].sizes, tables[0].widths
        self.lengths: Array = sets * np.array([len(mask) for mask in masks])[:, None]


def _runs(old: Sequence[OrbitPlan], chosen: _Chosen) -> list[_Run]:
    """The buckets of an orbit; masks that some plans lack are there with no set."""
    by_sizes: dict[tuple[int, ...], dict[int, Table]] = {}
    for number, lists in enumerate(old):
        for table in lists.tables:
            by_sizes.setdefault(table.sizes, {})[number] = table
    runs, first = [], starts_of(chosen.counts)
    for _, tables in sorted(by_sizes.items()):
        listed = list(tables.values())
        masks = listed[0].masks
        if len(listed) == len(old) and all(table.masks == masks for table in listed):
            runs.append(_Run(listed, masks, _beside([table.sets for table in listed])))
            continue
        masks = tuple(sorted({mask for table in listed for mask in table.masks}))
        sets = np.zeros((len(masks), int(chosen.counts.sum())), dtype=np.int64)
        for number, table in tables.items():
            sets[[masks.index(mask) for mask in table.masks], first[number] : first[number] + chosen.counts[number]] = table.sets
        runs.append(_Run(listed, masks, sets))
    return runs


def _join_orders(old: Sequence[Tensor | None], parts: Sequence[_Orbit], entries: Array, chosen: _Chosen) -> Tensor | None:
    """The rows of a tensor in canonical order; None if they are."""
    if all(order is None for order in old) and sum(len(part.entries.lengths) for part in parts) <= 1:
        return None
    shift = chosen.pieces(entries[None]).shift[0]
    rows = []
    for part in parts:
        pieces = [
            torch.arange(lists.start, lists.stop, device=lists.read.device) if order is None else order[lists.start : lists.stop]
            for order, lists in zip(old, part.old, strict=True)
        ]
        rows.append(_cat(pieces).index_select(0, part.place) + torch.from_numpy(shift).to(part.place.device)[part.structure])
    return order_of(rows)


def _cat(parts: Sequence[Tensor]) -> Tensor:
    return parts[0] if len(parts) == 1 else torch.cat(list(parts))


def _beside(tables: Sequence[Array]) -> Array:
    return tables[0] if len(tables) == 1 else np.concatenate(tables, axis=1)
