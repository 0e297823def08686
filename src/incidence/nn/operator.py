"""One operation as a sparse matrix, for people who want to look."""

from __future__ import annotations

import torch
from torch import Tensor

from incidence.algebra.maps import EquivariantMap, Operation
from incidence.algebra.words import overlap_of, words
from incidence.kernels.bags import bag_numbers
from incidence.plans.orbit_plan import OrbitPlan
from incidence.plans.plan import is_aligned
from incidence.structure import Structure

__all__ = ["operator_matrix"]


def operator_matrix(m: EquivariantMap, operation: Operation, structure: Structure) -> Tensor:
    """The matrix of one operation, (output entries, input entries): paths from entries over keys to entries, added up."""
    plan = structure.plan(m)
    source, target = m.inputs[operation.source.tensor], m.outputs[operation.target.tensor]
    s, t = plan.tensors.index(source), plan.tensors.index(target)
    one, other = plan.orbits[s][operation.source.number], plan.orbits[t][operation.target.number]
    matched = sum(map(sum, operation.overlap))
    level = tuple(sorted(c.sort for c, row in zip(operation.source.orbit.classes, operation.overlap, strict=True) for _ in range(sum(row))))
    is_block = is_aligned(source, target, operation.source.number, operation.target.number) and matched == operation.source.orbit.size
    ys, xs = _in_blocks(one, operation) if is_block else _over_keys(one, other, operation, m, plan.levels.index(level), level)
    rows, cols = ys + other.start, xs + one.start
    for_rows, for_cols = plan.orders[t], plan.orders[s]
    rows = rows if for_rows is None else for_rows[rows]
    cols = cols if for_cols is None else for_cols[cols]
    shape = plan.num_entries[t], plan.num_entries[s]
    values = torch.ones(len(rows), dtype=torch.float64, device=rows.device)
    return torch.sparse_coo_tensor(torch.stack([rows, cols]), values, shape, check_invariants=False).coalesce()


def _in_blocks(lists: OrbitPlan, operation: Operation) -> tuple[Tensor, Tensor]:
    sizes = len(operation.overlap), len(operation.overlap[0]) if operation.overlap else 0
    ys, xs, start = [], [], 0
    for mask, num_sets in zip(lists.masks, lists.num_sets, strict=True):
        first = start + torch.arange(num_sets, device=lists.read.device) * len(mask)
        for u, one in enumerate(mask):
            for w, other in enumerate(mask):
                if overlap_of(one, other, *sizes) == operation.overlap:
                    xs.append(first + u)
                    ys.append(first + w)
        start += num_sets * len(mask)
    none = torch.zeros(0, dtype=torch.long, device=lists.read.device)
    return torch.cat(ys or [none]), torch.cat(xs or [none])


def _over_keys(
    one: OrbitPlan, other: OrbitPlan, operation: Operation, m: EquivariantMap, number: int, level: tuple[str, ...]
) -> tuple[Tensor, Tensor]:
    classes = operation.source.orbit.classes, operation.target.orbit.classes
    us, ws = (words(c, level, m.max_overlap) for c in classes)
    ys, xs = [], []
    reads = [_reads(lists, number) for lists in (one, other)]
    for u, word in enumerate(us):
        for w, other_word in enumerate(ws):
            if overlap_of(word, other_word, len(classes[0]), len(classes[1])) == operation.overlap:
                x, y = _join(*(part[:, part[2] == slot] for part, slot in zip(reads, (u, w), strict=True)))
                xs.append(x)
                ys.append(y)
    none = torch.zeros(0, dtype=torch.long, device=one.read.device)
    return torch.cat(ys or [none]), torch.cat(xs or [none])


def _reads(lists: OrbitPlan, number: int) -> Tensor:
    """The reads of one level as rows (entry, key, slot)."""
    at = lists.levels.index(number)
    bags = lists.read.long()
    entries = bag_numbers(lists.read_ptr, len(bags))
    inside = (bags >= lists.offsets[at]) & (bags < lists.offsets[at + 1])
    local = bags[inside] - lists.offsets[at]
    slots = max(lists.num_slots[at], 1)
    return torch.stack([entries[inside], local // slots, local % slots])


def _join(one: Tensor, other: Tensor) -> tuple[Tensor, Tensor]:
    """All pairs of entries that share a key."""
    order = other[1].sort(stable=True)[1]
    keys = other[1][order]
    start, stop = torch.searchsorted(keys, one[1].contiguous()), torch.searchsorted(keys, one[1].contiguous(), right=True)
    counts = stop - start
    x = torch.repeat_interleave(one[0], counts)
    within = torch.arange(len(x), device=x.device) - torch.repeat_interleave(counts.cumsum(0) - counts, counts)
    return x, other[0][order][torch.repeat_interleave(start, counts) + within]
