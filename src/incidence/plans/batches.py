r"""Plans of batches, with nothing looked up again.

The numbers of a plan are one list in pieces, one for each part and structure. The numbers of a piece count things of one kind: the
bags of a level, the entries of a mask, the members of bags. A batch of some structures has the pieces of those, in the same order,
and the numbers in a piece move as far as what they count has moved. So a batch is one gathering of ranges and one sum, whatever the
map is. All this is on the host, where sizes are needed anyway, and goes to the device in one piece.

Every batch is closed by one structure more, which has nothing but the ends of lists: whatever starts there ends there.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from itertools import accumulate
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from incidence.plans.orbit_plan import Array, OrbitPlan, Table, order_of, read_ptr_of
from incidence.plans.plan import Plan
from incidence.structure.arrange import Mask

__all__ = ["Stock", "join_plans", "spans", "starts_of"]


def starts_of(lengths: Array) -> Array:
    """Where pieces start that follow each other."""
    ends: Array = lengths.cumsum()
    return ends - lengths


_NUMBERS = np.arange(1 << 16)  # batches are made of short lists again and again


def spans(starts: Array, lengths: Array) -> Array:
    """The numbers of several ranges, one range after the other."""
    ends = lengths.cumsum()
    found: Array = (starts - ends + lengths).repeat(lengths)
    found += _NUMBERS[: len(found)] if len(found) <= len(_NUMBERS) else np.arange(len(found))
    return found


def join_plans(plans: Sequence[Plan], numbers: Array | None = None) -> Plan:
    """The plan of a batch.

    Args:
        plans: The plans of one map on several structures or batches.
        numbers: Which structures to take, counted through all of them; all of them if not given.
    """
    stock: Stock = plans[0].stock if len(plans) == 1 else Stock(plans)
    return stock.take(numbers)


def _counted(sizes: Array, first_row: Array) -> tuple[Array, Array]:
    """How many things of every kind a batch has, and where those of every structure start in the list that they are counted in."""
    starts = sizes.cumsum(axis=1)
    totals = starts[:, -1].copy()
    starts -= sizes
    above = starts_of(totals)
    starts += (above - above.take(first_row))[:, None]
    return totals, starts


def _starts(sizes: Array, first_row: Array, first: Array, plan: Array) -> Array:
    """The same in several plans, each of which counts its own.

    Args:
        sizes: How many there are, shape (kinds, structures). In the list of a plan they come by kind, then by structure.
        first_row: For every kind, the first kind of the list.
        first: The first structure of every plan.
        plan: The plan of every structure.
    """
    before = sizes.cumsum(axis=1) - sizes
    totals = np.add.reduceat(sizes, first, axis=1)
    above = totals.cumsum(axis=0) - totals
    found: Array = before + (above - above[first_row] - before[:, first])[:, plan]
    return found


class _Run(NamedTuple):
    """A bucket of an orbit in all plans: see `Table`. Masks that some plans lack are there with no set.

    Attributes:
        first: The first structure of every plan.
    """

    sizes: tuple[int, ...]
    widths: tuple[int, ...]
    masks: tuple[Mask, ...]
    sets: Array
    first: Array

    @property
    def totals(self) -> Array:
        """How many entries of each mask the plans have."""
        found: Array = np.add.reduceat(self.entries, self.first, axis=1)
        return found

    @property
    def entries(self) -> Array:
        """How many entries of each mask the structures have."""
        found: Array = self.sets * np.array([len(mask) for mask in self.masks])[:, None]
        return found


class _Orbit:
    """An orbit in all plans.

    Attributes:
        old: Its lists there.
        before: What to add to the entries of each plan so that they are counted through all plans.
        runs: Its buckets; `masks` those of all.
        bags, members, end, entries: The rows of the stock that tell how many there are: by level, by level, for the end, and by mask.
        columns: For every mask the rows of the bags of an entry.
    """

    def __init__(self, old: Sequence[OrbitPlan], orders: Sequence[Tensor | None], runs: Sequence[_Run], row: int) -> None:
        self.old, self.runs, self._orders = old, runs, orders
        self.before = starts_of(np.array([lists.stop - lists.start for lists in old]))
        self.masks = tuple(mask for run in runs for mask in run.masks)
        num_levels = len(old[0].levels)
        self.bags, self.members = range(row, row + num_levels), range(row + num_levels, row + 2 * num_levels)
        self.end = self.members.stop
        self.entries = range(self.end + 1, self.end + 1 + len(self.masks))
        self.columns = [np.repeat(self.bags, run.widths) for run in runs for _ in run.masks]

    def sizes(self, keys: Array) -> list[Array]:
        """How many bags, members of bags, ends and entries there are, each by structure."""
        bags = np.array(self.old[0].num_slots)[:, None] * keys[list(self.old[0].levels)]
        members = np.zeros_like(bags)
        for run in self.runs:
            members += np.array(run.widths)[:, None] * run.entries.sum(axis=0)
        return [bags, members, np.zeros_like(bags[:1]), *(run.entries for run in self.runs)]

    @cached_property
    def mask_of_entry(self) -> Array:
        """The number of the mask of every entry of all plans."""
        totals = np.concatenate([np.zeros((0, len(self.old)), dtype=np.int64), *(run.totals for run in self.runs)])
        return np.repeat(np.tile(np.arange(len(totals)), len(self.old)), totals.T.ravel())

    @cached_property
    def rows(self) -> Array:
        """The row of every entry of all plans in the order of its plan."""
        parts = [
            np.arange(lists.start, lists.stop) if order is None else order[lists.start : lists.stop].cpu().numpy()
            for order, lists in zip(self._orders, self.old, strict=True)
        ]
        return np.concatenate(parts)


class _Batch(NamedTuple):
    """A batch: which structures it has, how many things of each kind they have, how far those have moved; and how many there are in all.

    Sizes and shifts have one column more than there are numbers, for the structure that closes the batch.
    """

    numbers: Array
    sizes: Array
    shift: Array
    totals: list[int]

    def structure(self, rows: Sequence[int]) -> Array:
        """The structure of all things of some kinds."""
        count = self.sizes.shape[1]
        found: Array = np.repeat(np.tile(np.arange(count), len(rows)), self.sizes[rows].ravel())
        return found


class Stock:
    """The numbers of several plans, ready to make batches of.

    Args:
        plans: The plans of one map on several structures or batches.
    """

    def __init__(self, plans: Sequence[Plan]) -> None:
        self._plans, self._device = plans, plans[0].orbits[0][0].read.device
        counts = np.array([plan.keys.shape[1] for plan in plans])
        self._first, self._plan = starts_of(counts), np.repeat(np.arange(len(counts)), counts)
        keys, entries = (np.concatenate(tables, axis=1) for tables in ([p.keys for p in plans], [p.entries for p in plans]))
        sizes = [keys, entries]
        lists = [*range(len(keys) + len(entries))]  # for every row the first row of its list; these are lists of their own
        self._keys, self._entries = range(len(keys)), range(len(keys), len(lists))
        self._is_ordered = [all(plan.orders[t] is None for plan in plans) for t in range(len(entries))]
        self._orbits: list[list[_Orbit]] = []
        for t, own in enumerate(plans[0].orbits):
            self._orbits.append([])
            for o in range(len(own)):
                old = [plan.orbits[t][o] for plan in plans]
                orbit = _Orbit(old, [plan.orders[t] for plan in plans], _runs(old, counts), len(lists))
                sizes += orbit.sizes(keys)
                lists += [rows[0] for rows in (orbit.bags, orbit.members, [orbit.end], orbit.entries) for _ in rows]
                self._orbits[-1].append(orbit)
        self._nothing = len(lists)  # a kind of which there is none, and which does not move
        self._lists = np.array([*lists, self._nothing])
        every = np.concatenate([*sizes, np.zeros((1, len(self._plan)), dtype=np.int64)])
        self._set_parts([orbit for own in self._orbits for orbit in own], every)

    def _set_parts(self, orbits: Sequence[_Orbit], sizes: Array) -> None:
        """The parts of the list of all numbers, see `Plan.flat`: what there is of each, and with what its numbers move."""
        self._reads = [(row, columns) for orbit in orbits for row, columns in zip(orbit.entries, orbit.columns, strict=True)]
        pooled, moves = [], []
        for orbit in orbits:
            pooled += [*orbit.members, *orbit.bags, orbit.end]
            by = orbit.entries[0] if len(orbit.entries) == 1 else self._nothing  # where there are several masks see `_move`
            moves += [*(by for _ in orbit.members), *orbit.members, orbit.members[-1]]
        self._pooled, self._moves = np.array(pooled), np.array(moves)
        self._rows = np.array([row for row, _ in self._reads] + pooled)
        self._widths = np.array([len(columns) for _, columns in self._reads] + [1] * len(pooled))[:, None]
        flats = [plan.flat for plan in self._plans]
        self._flat = np.concatenate([*flats, np.zeros(1, dtype=flats[0].dtype)])  # the last for the ends
        before = starts_of(np.array([len(flat) for flat in flats]))
        lengths = sizes[self._rows] * self._widths
        places = _starts(lengths, np.zeros(len(lengths), dtype=np.int64), self._first, self._plan) + before[self._plan]
        self._sizes, self._origin, self._places = (
            np.pad(table, [(0, 0), (0, 1)], constant_values=value)
            for table, value in (
                (sizes, 0),
                (_starts(sizes, self._lists, self._first, self._plan), 0),
                (places, len(self._flat) - 1),
            )
        )
        self._sizes[[orbit.end for orbit in orbits], -1] = 1
        self._closing = np.array([len(self._plan)])

    def take(self, numbers: Array | None = None) -> Plan:
        """The plan of some structures, or of all."""
        numbers = np.arange(len(self._plan)) if numbers is None else numbers
        closed = np.concatenate([numbers, self._closing])
        sizes, origin, places = (table.take(closed, axis=1) for table in (self._sizes, self._origin, self._places))
        totals, shift = _counted(sizes, self._lists)
        shift -= origin
        lengths = sizes.take(self._rows, axis=0) * self._widths
        values = self._flat.take(spans(places.ravel(), lengths.ravel()), mode="clip")  # twice as fast as with a check of bounds
        self._shift(values, sizes, shift.astype(values.dtype))
        return self._plan_of(_Batch(numbers, sizes, shift, totals.tolist()), values)

    def _shift(self, values: Array, sizes: Array, shift: Array) -> None:
        """Moves all numbers. The bags of an entry are side by side, and each moves with its level."""
        parts = [shift.take(columns, axis=0).T.repeat(sizes[row], axis=0).ravel() for row, columns in self._reads]
        parts.append(shift.take(self._moves, axis=0).ravel().repeat(sizes.take(self._pooled, axis=0).ravel()))
        start = 0
        for part in parts:
            values[start : start + len(part)] += part
            start += len(part)

    def _plan_of(self, batch: _Batch, values: Array) -> Plan:
        count, orbits = batch.totals.__getitem__, [orbit for own in self._orbits for orbit in own]
        lengths = [sum(len(c) * count(row) for row, c in zip(orbit.entries, orbit.columns, strict=True)) for orbit in orbits]
        at = sum(lengths)
        for orbit in orbits:
            lengths += sum(map(count, orbit.members)), sum(map(count, orbit.bags)) + 1
            if len(orbit.masks) > 1:
                self._move(orbit, batch, values[at : at + lengths[-2]])
            at += lengths[-2] + lengths[-1]
        parts = torch.from_numpy(values).to(self._device).split_with_sizes(lengths)
        reads, pooled = iter(parts[: len(orbits)]), iter(parts[len(orbits) :])
        lists, orders = [], []
        for t, own in enumerate(self._orbits):
            start, made = 0, []
            for orbit in own:
                made.append(self._orbit_plan(orbit, batch, start, next(reads), next(pooled), next(pooled)))
                start = made[-1].stop
            lists.append(tuple(made))
            orders.append(self._order(t, batch))
        first = self._plans[0]
        keys, entries = (batch.sizes[rows.start : rows.stop, :-1] for rows in (self._keys, self._entries))
        return Plan(first.tensors, first.levels, keys, entries, tuple(lists), tuple(orders))

    def _orbit_plan(self, orbit: _Orbit, batch: _Batch, start: int, read: Tensor, pool: Tensor, ptr: Tensor) -> OrbitPlan:
        first, counts = orbit.old[0], [batch.totals[row] for row in orbit.entries]
        stop = start + sum(counts)
        offsets = 0, *accumulate(batch.totals[row] for row in orbit.bags)
        lists = read, _read_ptr(orbit, counts, read), pool, ptr
        num_sets = tuple(n // len(mask) for n, mask in zip(counts, orbit.masks, strict=True))
        tables = tuple(Table(run.sizes, run.widths, run.masks, run.sets.take(batch.numbers, axis=1)) for run in orbit.runs)
        return OrbitPlan(start, stop, first.levels, first.num_slots, offsets, *lists, orbit.masks, num_sets, first.nodes_at, tables)

    def _move(self, orbit: _Orbit, batch: _Batch, pool: Array) -> None:
        """Moves the members of bags, each with the entries of its mask and structure."""
        structure = batch.structure(orbit.members)
        before = orbit.before[self._plan[batch.numbers]][structure]
        pool += batch.shift[orbit.entries][orbit.mask_of_entry[pool + before], structure].astype(pool.dtype)

    def _order(self, t: int, batch: _Batch) -> Tensor | None:
        """The rows of a tensor in canonical order; None if they are."""
        orbits = self._orbits[t]
        if self._is_ordered[t] and sum(len(orbit.entries) for orbit in orbits) <= 1:
            return None
        rows = []
        for orbit in orbits:
            starts = self._origin[orbit.entries][:, batch.numbers] + orbit.before[self._plan[batch.numbers]]
            place = spans(starts.ravel(), batch.sizes[orbit.entries, :-1].ravel())
            rows.append(orbit.rows[place] + batch.shift[self._entries[t]][batch.structure(orbit.entries)])
        return order_of([torch.from_numpy(own).to(self._device) for own in rows])


def _read_ptr(orbit: _Orbit, counts: Sequence[int], like: Tensor) -> Tensor:
    """Where the bags of every entry start, for as many entries of each mask: as in a longer list, if all have as many bags."""
    known, rest = orbit.old[0].read_ptr, iter(counts)
    shapes = [(sum(next(rest) for _ in run.masks), sum(run.widths)) for run in orbit.runs]
    is_longer = len(shapes) == 1 and shapes[0][0] < len(known) and known.dtype == like.dtype
    return known[: shapes[0][0] + 1] if is_longer else read_ptr_of(shapes, like)


def _runs(old: Sequence[OrbitPlan], counts: Array) -> list[_Run]:
    """The buckets of an orbit."""
    by_sizes: dict[tuple[int, ...], dict[int, Table]] = {}
    for number, lists in enumerate(old):
        for table in lists.tables:
            by_sizes.setdefault(table.sizes, {})[number] = table
    runs, first = [], starts_of(counts)
    for sizes, tables in sorted(by_sizes.items()):
        listed = list(tables.values())
        masks, widths = listed[0].masks, listed[0].widths
        if len(listed) == len(old) and all(table.masks == masks for table in listed):
            runs.append(_Run(sizes, widths, masks, np.concatenate([table.sets for table in listed], axis=1), first))
            continue
        masks = tuple(sorted({mask for table in listed for mask in table.masks}))
        sets = np.zeros((len(masks), int(counts.sum())), dtype=np.int64)
        for number, table in tables.items():
            sets[[masks.index(mask) for mask in table.masks], first[number] : first[number] + counts[number]] = table.sets
        runs.append(_Run(sizes, widths, masks, sets, first))
    return runs
