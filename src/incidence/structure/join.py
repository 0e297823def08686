r"""Plans of batches, with nothing looked up again: ranges of the lists of plans, one after the other, numbered anew.

Every list of a plan is in pieces, one for each part (a level, a mask) and structure. A batch of some structures has the pieces of
those, in the same order: its lists are gathered by ranges, and the numbers in them, which mean bags or entries, are replaced by the
places where these have gone. What is small, a number for each piece, is done on the host, where sizes are needed anyway.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from incidence.structure.arrange import Mask
from incidence.structure.plan import Array, OrbitPlan, Plan, Table, flatten, mask_lists, offsets_of, order_of, whole_lists

__all__ = ["join", "spans", "starts_of"]


def starts_of(lengths: Array) -> Array:
    """Where pieces start that follow each other."""
    ends: Array = lengths.cumsum()
    return ends - lengths


def spans(starts: Array, lengths: Array) -> Array:
    """The numbers of several ranges, one range after the other."""
    found: Array = np.arange(int(lengths.sum())) + np.repeat(starts - starts_of(lengths), lengths)
    return found


def join(plans: Sequence[Plan], numbers: Array | None = None) -> Plan:
    """The plan of a batch.

    Args:
        plans: The plans of one map on several structures or batches.
        numbers: Which structures to take, counted through all of them; all of them if not given.
    """
    chosen = _Chosen([plan.keys.shape[1] for plan in plans], numbers)
    keys = np.concatenate([plan.keys for plan in plans], axis=1)
    entries = np.concatenate([plan.entries for plan in plans], axis=1)
    orbits, orders = [], []
    for t in range(len(plans[0].tensors)):
        parts: list[_Orbit] = []
        for o in range(len(plans[0].orbits[t])):
            start = parts[-1].lists.stop if parts else 0
            parts.append(_Orbit([plan.orbits[t][o] for plan in plans], chosen, keys, start))
        orbits.append(tuple(part.lists for part in parts))
        orders.append(_join_orders([plan.orders[t] for plan in plans], parts, entries[t], chosen))
    return Plan(plans[0].tensors, plans[0].levels, chosen.of(keys), chosen.of(entries), tuple(orbits), tuple(orders))


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
    """The lists of an orbit in a batch.

    Attributes:
        lists: The lists.
        old: The lists they were made of.
        entries: The pieces of the entries, by mask and structure.
        place: Where every entry was.
        structure: The structure of every entry.
    """

    def __init__(self, old: Sequence[OrbitPlan], chosen: _Chosen, keys: Array, start: int) -> None:
        self.old, self._chosen, first = old, chosen, old[0]
        self._dtype, self._device = first.read.dtype, first.read.device
        runs = _runs(old, chosen)
        lengths = np.concatenate([run.lengths for run in runs]) if runs else np.zeros((0, keys.shape[1]), dtype=np.int64)
        self.entries = chosen.pieces(lengths)
        self.place = self.entries.places().to(self._device)
        self.structure = self.entries.structure()
        bags = np.array(first.num_slots)[:, None] * keys[list(first.levels)]
        shift = chosen.pieces(bags).shift
        tables = [self._table(run, shift, is_only=len(runs) == 1) for run in runs]
        read, read_ptr = flatten([table.bags for table in tables], self._dtype, self._device)
        pool, pool_ptr = self._pool(runs, bags[1:])
        number = torch.from_numpy(self.structure).to(self._device)
        whole = whole_lists(number, chosen.size, self._dtype, is_sorted=len(lengths) == 1)
        shape = first.levels, first.num_slots, offsets_of(first.levels, first.num_slots, chosen.of(keys))
        lists = read, read_ptr, pool, pool_ptr, *whole
        stop = start + self.entries.total
        self.lists = OrbitPlan(start, stop, *shape, *lists, *mask_lists(tables), first.nodes_at, tuple(tables))

    def _table(self, run: _Run, shift: Array, is_only: bool) -> Table:
        """The bags of a bucket, each moved as the piece it lies in."""
        entries = self.entries if is_only else self._chosen.pieces(run.lengths)
        structure = self.structure if is_only else entries.structure()
        place = self.place if is_only else entries.places().to(self._device)
        by_structure = torch.from_numpy(np.repeat(shift.T, run.widths, axis=1)).to(self._device, self._dtype)
        old = _cat([table.bags for table in run.tables]).index_select(0, place)
        bags = old.add_(by_structure.index_select(0, torch.from_numpy(structure).to(self._device)))
        return Table(run.sizes, run.widths, bags, run.masks, self._chosen.of(run.sets))

    def _pool(self, runs: Sequence[_Run], bags: Array) -> tuple[Tensor, Tensor]:
        """The members of the bags but those of structures, and where they start."""
        each = [np.array(run.widths[1:], dtype=np.int64)[:, None] * run.lengths.sum(axis=0) for run in runs]
        members = self._chosen.pieces(sum(each, np.zeros_like(bags)))
        local = self._chosen.pieces(bags)
        ptr = _cat([lists.pool_ptr[:-1] for lists in self.old]).index_select(0, local.places().to(self._device))
        ptr = torch.cat([ptr + local.repeat(members.shift).to(self._device), ptr.new_tensor([members.total])])
        pool = _cat([lists.pool for lists in self.old]).index_select(0, members.places().to(self._device))
        if len(self.entries.lengths) == 1:
            return pool + members.repeat(np.broadcast_to(self.entries.shift, members.lengths.shape)).to(self._device), ptr
        counts = np.array([lists.stop - lists.start for lists in self.old])
        moved = torch.empty(int(counts.sum()), dtype=self._dtype, device=self._device)
        moved.index_copy_(0, self.place, torch.arange(self.entries.total, dtype=self._dtype, device=self._device))
        base = self._chosen.of(starts_of(counts)[self._chosen.plan])
        return moved.index_select(0, pool + members.repeat(np.broadcast_to(base, members.lengths.shape)).to(self._device)), ptr


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
            runs.append(_Run(listed, masks, np.concatenate([table.sets for table in listed], axis=1)))
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
        rows.append(_cat(pieces).index_select(0, part.place) + torch.from_numpy(shift[part.structure]).to(part.place.device))
    return order_of(rows)


def _cat(parts: Sequence[Tensor]) -> Tensor:
    return parts[0] if len(parts) == 1 else torch.cat(list(parts))
