"""The same maps the usual way: pool with `index_add_`, one product for each operation, spread with `index_select`.

This is what one writes on top of the scatter and gather of a graph library, and all that depends on the graph alone is made beforehand:
pooling is shared between operations with the same keys, keys are ordered tuples of nodes where the classes are, and no row is
gathered into the place where it is already. `at="entries"` multiplies after spreading, as message passing does; `at="keys"` before,
which is cheaper where keys are fewer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from incidence.algebra.maps import EquivariantMap, Operation
from incidence.algebra.overlap import Matrix
from incidence.algebra.pattern import Pattern
from incidence.algebra.words import Word, overlap_of, words
from incidence.kernels.bags import bag_numbers
from incidence.nn import Linear
from incidence.plans.orbit_plan import OrbitPlan
from incidence.plans.plan import Plan, is_aligned
from incidence.structure import Structure

__all__ = ["NaiveLayer"]

Scatter = Callable[[Tensor, Tensor, int], Tensor]
"""Adds rows up by their keys, for a number of keys."""


class _Pairs(NamedTuple):
    """Entries with keys, by entry: None for the entries if they are 0, 1, 2, ..., as many as there are."""

    entries: Tensor | None
    keys: Tensor


class _Step(NamedTuple):
    """An operation: its weight and tensors, what to pool (a key of `pools`) and to read; or the entry that each reads, if there is one."""

    weight: tuple[int, int]
    source: int
    target: int
    pool: tuple[int, Word] | None
    read: _Pairs | None
    partner: tuple[Tensor, Tensor | None] | None


class NaiveLayer:
    """A layer for one orbit in each tensor, operation by operation, with the weights of a given layer."""

    def __init__(self, layer: Linear, structure: Structure, at: str = "entries", scatter: Scatter | None = None) -> None:
        self.layer, self.at, self.map = layer, at, layer.map
        self.scatter = scatter or _scatter
        plan = structure.plan(layer.map)
        self.reads = {p: _reads_by_word(layer.map, p, plan.tensors.index(p), plan) for p in plan.tensors}
        self.num_keys = dict(zip(plan.levels, plan.num_keys, strict=True))
        self.rows = dict(zip(plan.tensors, plan.num_entries, strict=True))
        self.partners = {
            p: _partners(plan.orbits[plan.tensors.index(p)][0]) for p in plan.tensors if p in self.map.inputs and p in self.map.outputs
        }
        self.pools: dict[tuple[int, Word], tuple[_Pairs, int]] = {}
        self.steps = [
            self._step(operation, (number, row), s, t)
            for number, (s, t) in enumerate(layer._layout.pairs)
            for row, operation in enumerate(layer.operations_of(s, t))
        ]

    def __call__(self, xs: list[Tensor]) -> list[Tensor]:
        """The outputs, for inputs in canonical order."""
        ys: dict[int, Tensor] = {}
        pooled: dict[tuple[int, Word], Tensor] = {}
        weights = self.layer._weights()
        for step in self.steps:
            number, row = step.weight
            part = self._term(step, xs[step.source], weights[number][row], pooled)
            ys[step.target] = ys[step.target] + part if step.target in ys else part
        for t, bias in enumerate(self.layer._biases()):
            if bias is not None:
                ys[t] = ys[t] + bias[0]
        return [ys[t] for t in range(len(ys))]

    def _term(self, step: _Step, x: Tensor, weight: Tensor, pooled: dict[tuple[int, Word], Tensor]) -> Tensor:
        if step.pool is None or step.read is None:
            if step.partner is None:
                return x @ weight
            partner, is_there = step.partner
            rows = x.index_select(0, partner)
            return (rows if is_there is None else rows * is_there) @ weight
        if step.pool not in pooled:
            (entries, keys), num_keys = self.pools[step.pool]
            pooled[step.pool] = self.scatter(x if entries is None else x.index_select(0, entries), keys, num_keys)
        p = pooled[step.pool] @ weight if self.at == "keys" else pooled[step.pool]
        rows = p.index_select(0, step.read.keys)
        if step.read.entries is not None:
            rows = self.scatter(rows, step.read.entries, self.rows[self.map.outputs[step.target]])
        return rows if self.at == "keys" else rows @ weight

    def _step(self, operation: Operation, weight: tuple[int, int], s: int, t: int) -> _Step:
        source, target = self.map.inputs[s], self.map.outputs[t]
        overlap, classes = operation.overlap, (source.orbits[0].classes, target.orbits[0].classes)
        if is_aligned(source, target, 0, 0) and sum(map(sum, overlap)) == source.orbits[0].size:
            return _Step(weight, s, t, None, None, self.partners[source][overlap])
        level = tuple(sorted(c.sort for c, row in zip(classes[0], overlap, strict=True) for _ in range(sum(row))))
        chosen = tuple(label for label, row in enumerate(overlap) for _ in range(sum(row)))  # the classes of the matched nodes
        ours = [u for u in words(classes[0], level, self.map.max_overlap) if tuple(sorted(u)) == chosen]
        pool, count = (s, chosen), len(ours)
        if pool not in self.pools:
            parts = [(entries, keys * count + k) for k, u in enumerate(ours) for entries, keys in [self.reads[source][u]]]
            self.pools[pool] = _by_entry(parts, self.rows[source]), count * self.num_keys[level]
        parts = [
            (entries, keys * count + k)
            for k, u in enumerate(ours)
            for w, (entries, keys) in self.reads[target].items()
            if len(w) == len(u) and overlap_of(u, w, len(classes[0]), len(classes[1])) == overlap
        ]
        return _Step(weight, s, t, pool, _by_entry(parts, self.rows[target]), None)


def _by_entry(parts: Sequence[tuple[Tensor, Tensor]], num_entries: int) -> _Pairs:
    entries, order = torch.cat([own for own, _ in parts]).sort(stable=True)
    is_plain = len(entries) == num_entries and bool((entries == torch.arange(num_entries)).all())
    return _Pairs(None if is_plain else entries, torch.cat([keys for _, keys in parts])[order])


def _scatter(rows: Tensor, keys: Tensor, num_keys: int) -> Tensor:
    return rows.new_zeros(num_keys, rows.shape[1]).index_add(0, keys, rows)


def _reads_by_word(m: EquivariantMap, pattern: Pattern, t: int, plan: Plan) -> dict[Word, tuple[Tensor, Tensor]]:
    found: dict[Word, tuple[Tensor, Tensor]] = {}
    lists = plan.orbits[t][0]
    classes = pattern.orbits[0].classes
    bags = lists.read.long()
    entries = bag_numbers(lists.read_ptr, len(bags))
    for at, number in enumerate(lists.levels):
        slots = lists.num_slots[at]
        for slot, word in enumerate(words(classes, plan.levels[number], m.max_overlap)):
            local = bags - lists.offsets[at]
            inside = (local >= 0) & (bags < lists.offsets[at + 1]) & (local % max(slots, 1) == slot)
            found[word] = entries[inside], local[inside] // max(slots, 1)
    return found


def _partners(lists: OrbitPlan) -> dict[Matrix, tuple[Tensor, Tensor | None] | None]:
    """For every operation that matches all nodes: the row of the entry it reads, and where there is one."""
    total = lists.stop - lists.start
    found: dict[Matrix, tuple[Tensor, Tensor]] = {}
    start = 0
    for mask, num_sets in zip(lists.masks, lists.num_sets, strict=True):
        size = max(w for word in mask for w in word) + 1
        for u, one in enumerate(mask):
            for w, other in enumerate(mask):
                overlap = overlap_of(one, other, size, size)
                rows, there = found.setdefault(overlap, (torch.zeros(total, dtype=torch.long), torch.zeros(total, 1)))
                base = start + torch.arange(num_sets) * len(mask)
                rows[base + w] = base + u
                there[base + w] = 1.0
        start += num_sets * len(mask)
    return {
        overlap: None if bool((rows == torch.arange(total)).all()) else (rows, None if bool(there.all()) else there)
        for overlap, (rows, there) in found.items()
    }
