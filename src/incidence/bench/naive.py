"""The same maps the usual way: pool with `index_add_`, one product for each operation, spread with `index_select`.

This is what one writes on top of the scatter and gather of a graph library. Pooling is shared between operations with the same keys.
`at="entries"` multiplies after spreading, as message passing does; `at="keys"` before, which is cheaper where keys are fewer.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from incidence.algebra.maps import EquivariantMap, Operation
from incidence.algebra.overlap import Matrix
from incidence.algebra.pattern import Pattern
from incidence.algebra.words import Word, overlap_of, words
from incidence.kernels.bags import bag_numbers
from incidence.nn import Linear
from incidence.structure import Structure
from incidence.structure.lists import OrbitPlan
from incidence.structure.plan import Plan, is_aligned

__all__ = ["NaiveLayer"]


class NaiveLayer:
    """A layer for one orbit in each tensor, operation by operation, with the weights of a given layer."""

    def __init__(self, layer: Linear, structure: Structure, at: str = "entries", scatter: Callable[..., Tensor] | None = None) -> None:
        self.layer, self.at, self.map = layer, at, layer.map
        self.scatter = scatter or _scatter
        plan = structure.plan(layer.map)
        self.reads = {p: _reads_by_word(layer.map, p, plan.tensors.index(p), plan) for p in plan.tensors}
        self.num_keys = dict(zip(plan.levels, plan.num_keys, strict=True))
        self.rows = dict(zip(plan.tensors, plan.num_entries, strict=True))
        self.partners = {
            p: _partners(plan.orbits[plan.tensors.index(p)][0]) for p in plan.tensors if p in self.map.inputs and p in self.map.outputs
        }

    def __call__(self, xs: list[Tensor]) -> list[Tensor]:
        """The outputs, for inputs in canonical order."""
        ys: dict[int, Tensor] = {}
        pooled: dict[tuple[int, Word], Tensor] = {}
        for (s, t), weight in zip(self.layer._layout.pairs, self.layer._weights(), strict=True):
            for row, operation in enumerate(self.layer.operations_of(s, t)):
                part = self._term(operation, s, t, xs[s], weight[row], pooled)
                ys[t] = ys[t] + part if t in ys else part
        for t, bias in enumerate(self.layer._biases()):
            if bias is not None:
                ys[t] = ys[t] + bias[0]
        return [ys[t] for t in range(len(ys))]

    def _term(self, operation: Operation, s: int, t: int, x: Tensor, weight: Tensor, pooled: dict[tuple[int, Word], Tensor]) -> Tensor:
        source, target = self.map.inputs[s], self.map.outputs[t]
        classes = source.orbits[0].classes, target.orbits[0].classes
        overlap = operation.overlap
        if is_aligned(source, target, 0, 0) and sum(map(sum, overlap)) == source.orbits[0].size:
            return self._matched(source, overlap, x, weight)
        level = tuple(sorted(c.sort for c, row in zip(classes[0], overlap, strict=True) for _ in range(sum(row))))
        total: Tensor | None = None
        for u in words(classes[0], level, self.map.max_overlap):
            for w in words(classes[1], level, self.map.max_overlap):
                if overlap_of(u, w, len(classes[0]), len(classes[1])) != overlap:
                    continue
                key = (s, u)
                if key not in pooled:
                    entries, keys = self.reads[source][u]
                    pooled[key] = self.scatter(x, entries, keys, self.num_keys[level])
                entries, keys = self.reads[target][w]
                part = self._spread(pooled[key], weight, entries, keys, self.rows[target])
                total = part if total is None else total + part
        assert total is not None
        return total

    def _spread(self, p: Tensor, weight: Tensor, entries: Tensor, keys: Tensor, num_rows: int) -> Tensor:
        if self.at == "keys":
            p = p @ weight
        rows = p.index_select(0, keys)
        if len(entries) != num_rows or self.reads_overlap(entries):
            rows = self.scatter(rows, torch.arange(len(entries)), entries, num_rows)
        return rows if self.at == "keys" else rows @ weight

    @staticmethod
    def reads_overlap(entries: Tensor) -> bool:
        """Whether the entries are anything but 0, 1, 2, ..."""
        return not bool((entries == torch.arange(len(entries))).all())

    def _matched(self, source: Pattern, overlap: Matrix, x: Tensor, weight: Tensor) -> Tensor:
        found = self.partners[source][overlap]
        if found is None:
            return x @ weight
        partner, is_there = found
        rows = x.index_select(0, partner)
        return (rows if is_there is None else rows * is_there) @ weight


def _scatter(x: Tensor, entries: Tensor, keys: Tensor, num_keys: int) -> Tensor:
    return x.new_zeros(num_keys, x.shape[1]).index_add(0, keys, x.index_select(0, entries))


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
