r"""Plans of batches, with nothing looked up again.

The numbers of a plan are one list in pieces, one for each part and structure, and every number counts things of one kind: the bags of
a level, the rows of a tensor, the reads of a level. A batch of some structures has the pieces of those, in the same order, and a
number moves as far as what it counts has moved. So a batch is one gathering of ranges and one sum, whatever the map is. All this is
on the host, where sizes are needed anyway, and goes to the device in one piece.

Every batch is closed by one structure more, which has nothing but the ends of lists: whatever starts there ends there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate

import numpy as np
import torch
from torch import Tensor

from incidence.plans.plan import PartnerKey, Plan, reads_itself
from incidence.plans.stack import Partners, StackLists, StackPlan, StackSigns
from incidence.structure.data import Array
from incidence.structure.ragged import are_short, spans, starts_of

__all__ = ["PlanStore"]


class _Kinds:
    """The kinds of things that are counted: each is a row of the table of sizes, by structure.

    Attributes:
        sizes: How many things of each kind every structure has.
        list_of: For every kind the first kind of the list it is counted in.
    """

    def __init__(self) -> None:
        self.sizes: list[Array] = []
        self.list_of: list[int] = []

    def add(self, sizes: Array) -> range:
        """The kinds of one list, which follow each other there; from their sizes, (kinds, structures)."""
        first = len(self.sizes)
        self.sizes += list(sizes)
        self.list_of += [first] * len(sizes)
        return range(first, len(self.sizes))


Numbers = tuple[Array, Array]
"""Some numbers of a plan, and the kind of what each counts."""


class _StackParts:
    """The lists of one stack in all plans. Each list has a number for every thing of some kinds.

    Attributes:
        rows, reads: The kinds of rows and reads, by tensor; `bags` and `level_reads` those of bags and reads, by level.
        end: The kind of the end of a list of starts. No structure has any, so that what counts it, such as a sign, stays as it is.
    """

    def __init__(
        self, kinds: _Kinds, plans: Sequence[StackPlan], num_rows: Array, num_bags: Array
    ) -> None:
        self._first = plans[0]
        self._num_reads = np.concatenate(
            [plan.num_reads for plan in plans], axis=2
        )  # (tensors, levels, structures)
        self.rows, self.bags = kinds.add(num_rows), kinds.add(num_bags)
        self.reads, self.level_reads = (
            kinds.add(self._num_reads.sum(axis=1)),
            kinds.add(self._num_reads.sum(axis=0)),
        )
        [self.end] = kinds.add(np.zeros_like(num_bags[:1]))

    @property
    def lists(self) -> list[list[int]]:
        """The kinds of the lists of a plan, as `StackLists` has them, and of its signs; a list of starts has an end."""
        signs = [] if self._first.signs is None else [[*self.reads], [*self.level_reads]]
        return [
            [*self.reads],
            [*self.rows, self.end],
            [*self.level_reads],
            [*self.bags, self.end],
            *signs,
        ]

    @property
    def ends(self) -> list[int]:
        """The kinds that the ends of the lists of starts count."""
        return [self.reads[-1], self.level_reads[-1]]

    def numbers(self, plan: StackPlan) -> Iterator[Numbers]:
        """All numbers of a plan but the ends."""
        bags, starts, rows, bag_starts = (t.cpu().numpy() for t in plan.lists)
        yield bags, self.bags[0] + np.searchsorted(plan.level_ptr, bags, side="right") - 1
        yield starts[:-1], np.repeat(self.reads, plan.num_rows_of)
        yield rows, self.rows[0] + np.searchsorted(plan.row_ptr, rows, side="right") - 1
        yield bag_starts[:-1], np.repeat(self.level_reads, plan.num_bags_at)
        for signs in plan.signs or ():
            yield signs.cpu().numpy().astype(np.int64), np.full(len(signs), self.end)

    def make(self, totals: Sequence[int], numbers: Array, parts: Iterator[Tensor]) -> StackPlan:
        """The lists of a batch, from how many things of each kind it has, its structures, and their numbers."""
        return StackPlan(
            (0, *accumulate(totals[kind] for kind in self.rows)),
            len(numbers),
            self._first.num_slots,
            (0, *accumulate(totals[kind] for kind in self.bags)),
            StackLists(*(next(parts) for _ in StackLists._fields)),
            self._num_reads.take(numbers, axis=2),
            self._first.single_nodes,
            None
            if self._first.signs is None
            else StackSigns(*(next(parts).float() for _ in StackSigns._fields)),
        )


class _PartnerParts:
    """The partners of one orbit and operation in all plans: a list of targets, of sources, of signs, or none.

    Attributes:
        pairs: The kind of pairs.
        has: Whether there is a list of targets, one of sources, and one of signs.
        lists: The kinds of the lists.
    """

    def __init__(
        self, kinds: _Kinds, plans: Sequence[Plan], key: PartnerKey, entries: int, fixed: int
    ) -> None:
        self._key, self._counted = key, (entries, entries, fixed)
        found = [self._partners(plan) for plan in plans]
        self._counts = np.concatenate([partners.counts for partners in found])
        [self.pairs] = kinds.add(self._counts[None])
        self.has = tuple(
            any(list_ is not None for list_ in lists)
            for lists in zip(*(f.lists for f in found), strict=True)
        )
        self.lists = [[self.pairs] for has in self.has if has]

    def _partners(self, plan: Plan) -> Partners:
        """Those of a plan, which may have none."""
        known = plan.partners.get(self._key)
        if known is not None:
            return known
        none = torch.zeros(0, dtype=torch.long)
        num_entries = plan.num_entries[self._key[0].tensor]
        sources = None if reads_itself(self._key[1]) else none
        signs = (
            none
            if sources is not None and plan.layout.tensors[self._key[0].tensor].is_oriented
            else None
        )
        return Partners(
            none if num_entries.any() else None, sources, np.zeros_like(num_entries), signs
        )

    def numbers(self, plan: Plan) -> Iterator[Numbers]:
        """The numbers of a plan."""
        partners = self._partners(plan)
        for list_, has, kind in zip(partners.lists, self.has, self._counted, strict=True):
            if has:
                rows = (
                    np.arange(int(partners.counts.sum()))
                    if list_ is None
                    else list_.cpu().numpy().astype(np.int64)
                )
                yield rows, np.full(len(rows), kind)

    def make(self, numbers: Array, parts: Iterator[Tensor]) -> Partners:
        """The partners in a batch."""
        targets, sources, signs = (next(parts) if has else None for has in self.has)
        return Partners(
            targets, sources, self._counts.take(numbers), None if signs is None else signs.float()
        )


class PlanStore:
    """The numbers of several plans, ready to make batches of.

    Args:
        plans: The plans of one map on several structures or batches.
    """

    def __init__(self, plans: Sequence[Plan]) -> None:
        self._layout, self._device = plans[0].layout, plans[0].device
        counts = np.array([plan.num_keys.shape[1] for plan in plans])
        self._first, self._plan_of = starts_of(counts), np.repeat(np.arange(len(counts)), counts)
        self._num_keys = np.concatenate([plan.num_keys for plan in plans], axis=1)
        self._num_entries = np.concatenate([plan.num_entries for plan in plans], axis=1)
        kinds = _Kinds()
        entries = [kinds.add(row[None])[0] for row in self._num_entries]
        self._stacks = [
            self._stack_parts(kinds, plans, number) for number in range(len(self._layout.stacks))
        ]
        keys = dict.fromkeys(key for plan in plans for key in plan.partners)
        [fixed] = kinds.add(
            np.zeros_like(self._num_entries[:1])
        )  # what counts this, such as a sign, stays as it is
        self._partners = {
            key: _PartnerParts(kinds, plans, key, entries[key[0].tensor], fixed) for key in keys
        }
        self._list_of = np.array(kinds.list_of)
        self._set_pieces(np.stack(kinds.sizes), plans)

    def _stack_parts(self, kinds: _Kinds, plans: Sequence[Plan], number: int) -> _StackParts:
        stack = self._layout.stacks[number]
        levels = [self._layout.levels.index(level) for level in stack.all_levels]
        num_rows = self._num_entries[[self._layout.tensors.index(p) for p in stack.patterns]]
        num_bags = self._num_keys[levels] * np.array(stack.num_slots)[:, None]
        return _StackParts(kinds, [plan.stacks[number] for plan in plans], num_rows, num_bags)

    def _set_pieces(self, sizes: Array, plans: Sequence[Plan]) -> None:
        """Puts the numbers of all plans one after the other, and notes where the pieces are and what they count."""
        lists = [part for stack in self._stacks for part in stack.lists] + [
            part for p in self._partners.values() for part in p.lists
        ]
        self._lists = lists
        self._pieces = np.array(
            [kind for kinds in lists for kind in kinds]
        )  # the kinds that pieces have a number for each of
        numbers, counted = zip(*map(self._numbers_of, plans), strict=True)
        ends = np.array([kind for stack in self._stacks for kind in stack.ends])
        self._numbers = np.concatenate([*numbers, np.zeros(len(ends), dtype=np.int64)])
        if are_short(int(self._numbers.max(initial=0)), int(sizes.sum())):
            self._numbers = self._numbers.astype(np.int32)
        self._counted = np.concatenate([*counted, ends])
        lengths = np.array([len(values) for values in numbers])
        places = (
            self._starts(sizes[self._pieces], np.zeros(len(self._pieces), dtype=np.int64))
            + starts_of(lengths)[self._plan_of]
        )
        closing = np.zeros(
            len(self._pieces), dtype=np.int64
        )  # where the closing structure has its ends
        is_end = np.isin(self._pieces, [stack.end for stack in self._stacks])
        closing[is_end] = len(self._numbers) - len(ends) + np.arange(len(ends))
        self._places = np.column_stack([places, closing])
        self._sizes, self._origin = (
            np.pad(table, [(0, 0), (0, 1)]) for table in (sizes, self._starts(sizes, self._list_of))
        )
        self._sizes[[stack.end for stack in self._stacks], -1] = 1
        self._closing = np.array([len(self._plan_of)])

    def _numbers_of(self, plan: Plan) -> Numbers:
        """All numbers of a plan; kept with it, as loose structures are put into batches again and again."""
        key = tuple((key, partners.has) for key, partners in self._partners.items())
        if key not in plan.on_host:
            parts = [
                pair
                for parts, stack in zip(self._stacks, plan.stacks, strict=True)
                for pair in parts.numbers(stack)
            ]
            parts += [
                pair for partners in self._partners.values() for pair in partners.numbers(plan)
            ]
            numbers, counted = zip(*parts, strict=True)
            plan.on_host[key] = np.concatenate(numbers), np.concatenate(counted)
        return plan.on_host[key]

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
        sizes, origin, places = (
            table.take(closed, axis=1) for table in (self._sizes, self._origin, self._places)
        )
        totals, shift = _counted(sizes, self._list_of)
        shift -= origin
        lengths = sizes.take(self._pieces, axis=0)
        at = spans(places.ravel(), lengths.ravel())
        values = self._numbers.take(at, mode="clip")  # twice as fast as with a check of bounds
        moved = self._counted.take(at, mode="clip") * len(closed)
        moved += np.tile(np.arange(len(closed)), len(lengths)).repeat(lengths.ravel())
        values += shift.astype(values.dtype).ravel().take(moved, mode="clip")
        return self._plan(numbers, totals.tolist(), values)

    def _plan(self, numbers: Array, totals: Sequence[int], values: Array) -> Plan:
        lengths = [sum(totals[kind] for kind in kinds) for kinds in self._lists]
        parts = iter(torch.from_numpy(values).to(self._device).split_with_sizes(lengths))
        stacks = tuple(stack.make(totals, numbers, parts) for stack in self._stacks)
        partners = {key: found.make(numbers, parts) for key, found in self._partners.items()}
        return Plan(
            self._layout,
            self._num_keys.take(numbers, axis=1),
            self._num_entries.take(numbers, axis=1),
            stacks,
            partners,
        )


def _counted(sizes: Array, list_of: Array) -> tuple[Array, Array]:
    """How many things of every kind a batch has, and where those of every structure start in the list that they are counted in."""
    starts = sizes.cumsum(axis=1)
    totals = starts[:, -1].copy()
    starts -= sizes
    above = starts_of(totals)
    starts += (above - above.take(list_of))[:, None]
    return totals, starts
