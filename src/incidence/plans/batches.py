r"""Plans of batches, with nothing looked up again.

The numbers of a plan are one list in pieces, one for each part and structure. The numbers of a piece count things of one kind: the
bags of a level, the rows of a tensor, the pairs of a level. A batch of some structures has the pieces of those, in the same order,
and the numbers in a piece move as far as what they count has moved. So a batch is one gathering of ranges and one sum, whatever the
map is. All this is on the host, where sizes are needed anyway, and goes to the device in one piece.

Every batch is closed by one structure more, which has nothing but the ends of lists: whatever starts there ends there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate, chain
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from incidence.plans.orbit_plan import BucketPlan, OrbitPlan, bags_ptr_of, places_of
from incidence.plans.plan import Plan
from incidence.structure.arrange import Mask
from incidence.structure.data import Array
from incidence.structure.ragged import spans, starts_of

__all__ = ["PlanStore"]


class _Bucket(NamedTuple):
    """A bucket of an orbit in all plans: see `BucketPlan`. Masks that some plans lack are there with no set."""

    sizes: tuple[int, ...]
    widths: tuple[int, ...]
    masks: tuple[Mask, ...]
    sets: Array

    @property
    def entries(self) -> Array:
        """How many entries of each mask the structures have."""
        found: Array = self.sets * np.array([len(mask) for mask in self.masks])[:, None]
        return found


class _Part(NamedTuple):
    """A part of the list of numbers: the kind of thing that it has numbers for, and the kinds that these numbers count, one a column."""

    kind: int
    counted: tuple[int, ...]


class _Orbit:
    """An orbit in all plans. Kinds of things are rows of the table of sizes.

    Attributes:
        lists: Its lists in each plan.
        buckets: Its buckets; `masks` those of all.
        has_rows: Whether batches look its rows up.
        bags, pairs, end, entries: The kinds: bags by level, pairs of bags and entries by level, the end of a list, entries by mask.
        bag_parts: The parts of the list of numbers that have the bags of entries.
    """

    def __init__(self, lists: Sequence[OrbitPlan], buckets: Sequence[_Bucket], is_alone: bool, first_kind: int) -> None:
        self.lists, self.buckets = lists, buckets
        self.masks = tuple(mask for bucket in buckets for mask in bucket.masks)
        self.has_rows = not is_alone or len(self.masks) > 1 or any(orbit.rows is not None for orbit in lists)
        num_levels = len(lists[0].level_numbers)
        self.bags, self.pairs = range(first_kind, first_kind + num_levels), range(first_kind + num_levels, first_kind + 2 * num_levels)
        self.end = self.pairs.stop
        self.entries = range(self.end + 1, self.end + 1 + len(self.masks))
        # The bags of entries, by mask: each moves with its level.
        columns = [tuple(np.repeat(self.bags, bucket.widths).tolist()) for bucket in buckets for _ in bucket.masks]
        self.bag_parts = [_Part(kind, counted) for kind, counted in zip(self.entries, columns, strict=True)]

    def sizes(self, num_keys: Array) -> list[Array]:
        """How many bags, pairs, ends and entries there are, each by structure."""
        bags = np.array(self.lists[0].num_slots)[:, None] * num_keys[list(self.lists[0].level_numbers)]
        pairs = np.zeros_like(bags)
        for bucket in self.buckets:
            pairs += np.array(bucket.widths)[:, None] * bucket.entries.sum(axis=0)
        return [bags, pairs, np.zeros_like(bags[:1]), *(bucket.entries for bucket in self.buckets)]

    def row_parts(self, tensor: int) -> list[_Part]:
        """The rows of bags and where they start, by level; then the rows of entries, by mask."""
        of_bags = [_Part(kind, (tensor,)) for kind in self.pairs]
        starts = [_Part(kind, (counted,)) for kind, counted in zip(self.bags, self.pairs, strict=True)]
        of_entries = [_Part(kind, (tensor,)) for kind in self.entries] if self.has_rows else []
        return [*of_bags, *starts, _Part(self.end, (self.pairs[-1],)), *of_entries]

    def row_numbers(self, lists: OrbitPlan) -> list[Array]:
        """What a plan has of these."""
        names = ["rows_of_bags", "rows_ptr", *(["rows"] if self.has_rows else [])]
        return [lists.on_host[name] for name in names]

    def make(self, totals: Sequence[int], numbers: Array, bags: Tensor, parts: Iterator[Tensor]) -> OrbitPlan:
        """The lists of a batch, from how many things of each kind it has, its structures, and their numbers."""
        first, counts = self.lists[0], [totals[kind] for kind in self.entries]
        level_ptr = 0, *accumulate(totals[kind] for kind in self.bags)
        num_sets = tuple(n // len(mask) for n, mask in zip(counts, self.masks, strict=True))
        buckets = tuple(BucketPlan(b.sizes, b.widths, b.masks, b.sets.take(numbers, axis=1)) for b in self.buckets)
        rows_of_bags, rows_ptr = next(parts), next(parts)
        rows = next(parts).long() if self.has_rows else None
        return OrbitPlan(
            num_entries=sum(counts),
            first_row=0,
            rows=rows,
            level_numbers=first.level_numbers,
            num_slots=first.num_slots,
            level_ptr=level_ptr,
            bags_of_entries=bags,
            bags_ptr=self._bags_ptr(counts, bags),
            rows_of_bags=rows_of_bags,
            rows_ptr=rows_ptr,
            masks=self.masks,
            num_sets=num_sets,
            single_nodes=first.single_nodes,
            buckets=buckets,
        )

    def _bags_ptr(self, counts: Sequence[int], like: Tensor) -> Tensor:
        """Where the bags of every entry start, for as many entries of each mask: as in a longer list, if all have as many bags."""
        known, rest = self.lists[0].bags_ptr, iter(counts)
        shapes = [(sum(next(rest) for _ in bucket.masks), sum(bucket.widths)) for bucket in self.buckets]
        is_longer = len(shapes) == 1 and shapes[0][0] < len(known) and known.dtype == like.dtype
        return known[: shapes[0][0] + 1] if is_longer else bags_ptr_of(shapes, like)


class PlanStore:
    """The numbers of several plans, ready to make batches of.

    Args:
        plans: The plans of one map on several structures or batches.
    """

    def __init__(self, plans: Sequence[Plan]) -> None:
        self._plans, self._device = plans, plans[0].device
        counts = np.array([plan.num_keys.shape[1] for plan in plans])
        self._first, self._plan_of = starts_of(counts), np.repeat(np.arange(len(counts)), counts)
        num_keys = np.concatenate([plan.num_keys for plan in plans], axis=1)
        num_entries = np.concatenate([plan.num_entries for plan in plans], axis=1)
        self._keys, self._tensors = range(len(num_keys)), range(len(num_keys), len(num_keys) + len(num_entries))
        sizes = [num_keys, num_entries]
        list_of = [*range(self._tensors.stop)]  # for every kind the first kind of the list it is counted in; these have lists of their own
        self._orbits: list[list[_Orbit]] = []
        for t, orbits in enumerate(plans[0].orbits):
            self._orbits.append([])
            for o in range(len(orbits)):
                lists = [plan.orbits[t][o] for plan in plans]
                orbit = _Orbit(lists, _buckets(lists, counts), len(orbits) == 1, len(list_of))
                sizes += orbit.sizes(num_keys)
                list_of += [kinds[0] for kinds in (orbit.bags, orbit.pairs, [orbit.end], orbit.entries) for _ in kinds]
                self._orbits[-1].append(orbit)
        self._list_of = np.array(list_of)
        self._set_parts(np.concatenate(sizes))

    def _set_parts(self, sizes: Array) -> None:
        """Puts the numbers of all plans one after the other, and notes where the pieces are and with what they move."""
        orbits = [(orbit, self._tensors[t]) for t, listed in enumerate(self._orbits) for orbit in listed]
        self._bag_parts = [part for orbit, _ in orbits for part in orbit.bag_parts]
        row_parts = [part for orbit, tensor in orbits for part in orbit.row_parts(tensor)]
        self._row_kinds = np.array([part.kind for part in row_parts])
        self._row_counted = np.array([part.counted[0] for part in row_parts])
        parts = [*self._bag_parts, *row_parts]
        self._kinds = np.array([part.kind for part in parts])
        self._widths = np.array([len(part.counted) for part in parts])[:, None]
        flats = [self._flat(plan) for plan in self._plans]
        self._numbers = np.concatenate([*flats, np.zeros(1, dtype=flats[0].dtype)])  # the last for the ends
        before = starts_of(np.array([len(flat) for flat in flats]))
        lengths = sizes[self._kinds] * self._widths
        places = self._starts(lengths, np.zeros(len(lengths), dtype=np.int64)) + before[self._plan_of]
        self._sizes, self._origin, self._places = (
            np.pad(table, [(0, 0), (0, 1)], constant_values=value)
            for table, value in ((sizes, 0), (self._starts(sizes, self._list_of), 0), (places, len(self._numbers) - 1))
        )
        self._sizes[[orbit.end for orbit, _ in orbits], -1] = 1
        self._closing = np.array([len(self._plan_of)])

    def _flat(self, plan: Plan) -> Array:
        """All numbers of a plan: the bags of entries, orbit by orbit; then what there is of rows, orbit by orbit. On the host."""
        pairs = list(zip(chain(*self._orbits), chain(*plan.orbits), strict=True))
        parts = [lists.on_host["bags"] for _, lists in pairs]
        parts += [part for orbit, lists in pairs for part in orbit.row_numbers(lists)]
        found: Array = np.concatenate(parts)
        return found

    def _starts(self, sizes: Array, list_of: Array) -> Array:
        """Where the things of every structure start in the lists of its plan, which come by kind, then by structure."""
        before = sizes.cumsum(axis=1) - sizes
        totals = np.add.reduceat(sizes, self._first, axis=1)
        above = totals.cumsum(axis=0) - totals
        found: Array = before + (above - above[list_of] - before[:, self._first])[:, self._plan_of]
        return found

    def take(self, numbers: Array | None = None) -> Plan:
        """The plan of some structures, counted through all plans; or of all."""
        numbers = np.arange(len(self._plan_of)) if numbers is None else numbers
        closed = np.concatenate([numbers, self._closing])
        sizes, origin, places = (table.take(closed, axis=1) for table in (self._sizes, self._origin, self._places))
        totals, shift = _counted(sizes, self._list_of)
        shift -= origin
        lengths = sizes.take(self._kinds, axis=0) * self._widths
        values = self._numbers.take(spans(places.ravel(), lengths.ravel()), mode="clip")  # twice as fast as with a check of bounds
        self._move(values, sizes, shift.astype(values.dtype))
        return self._plan(numbers, sizes, totals.tolist(), values)

    def _move(self, values: Array, sizes: Array, shift: Array) -> None:
        """Moves all numbers as far as what they count has moved. The bags of an entry are side by side, and each moves with its level."""
        moves = [shift.take(part.counted, axis=0).T.repeat(sizes[part.kind], axis=0).ravel() for part in self._bag_parts]
        moves.append(shift.take(self._row_counted, axis=0).ravel().repeat(sizes.take(self._row_kinds, axis=0).ravel()))
        start = 0
        for move in moves:
            values[start : start + len(move)] += move
            start += len(move)

    def _plan(self, numbers: Array, sizes: Array, totals: Sequence[int], values: Array) -> Plan:
        orbits = [orbit for listed in self._orbits for orbit in listed]
        lengths = [sum(len(part.counted) * totals[part.kind] for part in orbit.bag_parts) for orbit in orbits]
        for orbit in orbits:
            lengths += [sum(totals[kind] for kind in orbit.pairs), sum(totals[kind] for kind in orbit.bags) + 1]
            lengths += [sum(totals[kind] for kind in orbit.entries)] if orbit.has_rows else []
        parts = torch.from_numpy(values).to(self._device).split_with_sizes(lengths)
        bags, rest = iter(parts[: len(orbits)]), iter(parts[len(orbits) :])
        lists = tuple(tuple(orbit.make(totals, numbers, next(bags), rest) for orbit in listed) for listed in self._orbits)
        first = self._plans[0]
        num_keys, num_entries = (sizes[kinds.start : kinds.stop, :-1] for kinds in (self._keys, self._tensors))
        return Plan(first.tensors, first.levels, num_keys, num_entries, lists, tuple(map(places_of, lists)))


def _counted(sizes: Array, list_of: Array) -> tuple[Array, Array]:
    """How many things of every kind a batch has, and where those of every structure start in the list that they are counted in."""
    starts = sizes.cumsum(axis=1)
    totals = starts[:, -1].copy()
    starts -= sizes
    above = starts_of(totals)
    starts += (above - above.take(list_of))[:, None]
    return totals, starts


def _buckets(lists: Sequence[OrbitPlan], counts: Array) -> list[_Bucket]:
    """The buckets of an orbit in all plans, which have so many structures each."""
    by_sizes: dict[tuple[int, ...], dict[int, BucketPlan]] = {}
    for number, orbit in enumerate(lists):
        for bucket in orbit.buckets:
            by_sizes.setdefault(bucket.sizes, {})[number] = bucket
    found, first = [], starts_of(counts)
    for sizes, known in sorted(by_sizes.items()):
        listed = list(known.values())
        masks, widths = listed[0].masks, listed[0].widths
        if len(listed) == len(lists) and all(bucket.masks == masks for bucket in listed):
            found.append(_Bucket(sizes, widths, masks, np.concatenate([bucket.sets for bucket in listed], axis=1)))
            continue
        masks = tuple(sorted({mask for bucket in listed for mask in bucket.masks}))
        sets = np.zeros((len(masks), int(counts.sum())), dtype=np.int64)
        for number, bucket in known.items():
            sets[[masks.index(mask) for mask in bucket.masks], first[number] : first[number] + counts[number]] = bucket.sets
        found.append(_Bucket(sizes, widths, masks, sets))
    return found
