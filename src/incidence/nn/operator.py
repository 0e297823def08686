"""One operation as a sparse matrix, for people who want to look."""

from __future__ import annotations

import torch
from torch import Tensor

from incidence.algebra.maps import EquivariantMap, Operation
from incidence.algebra.words import Level, overlap_of, words
from incidence.kernels.bags import bag_numbers
from incidence.plans import plan_of
from incidence.plans.orbit_plan import OrbitPlan
from incidence.plans.plan import is_aligned
from incidence.structure import Structure
from incidence.structure.ragged import no_entries, pairs

__all__ = ["operator_matrix"]


def operator_matrix(m: EquivariantMap, operation: Operation, structure: Structure) -> Tensor:
    """The matrix of one operation, (output entries, input entries): paths from entries over keys to entries, added up."""
    plan = plan_of(structure, m)
    source, target = m.inputs[operation.source.tensor], m.outputs[operation.target.tensor]
    s, t = plan.tensors.index(source), plan.tensors.index(target)
    one, other = plan.orbits[s][operation.source.number], plan.orbits[t][operation.target.number]
    matched = sum(map(sum, operation.overlap))
    level = tuple(sorted(c.sort for c, row in zip(operation.source.orbit.classes, operation.overlap, strict=True) for _ in range(sum(row))))
    is_block = is_aligned(source, target, operation.source.number, operation.target.number) and matched == operation.source.orbit.size
    ys, xs = _side_by_side(one, operation) if is_block else _over_keys(one, other, operation, m, plan.levels.index(level), level)
    places = torch.stack([other.row_of(ys), one.row_of(xs)])  # (2, paths)
    shape = [int(plan.num_entries[k].sum()) for k in (t, s)]
    values = torch.ones(len(ys), dtype=torch.float64, device=ys.device)
    return torch.sparse_coo_tensor(places, values, shape, check_invariants=False).coalesce()


def _side_by_side(orbit: OrbitPlan, operation: Operation) -> tuple[Tensor, Tensor]:
    """Pairs of entries on one node set with the words that the operation connects: output entries, input entries."""
    sizes = len(operation.overlap), len(operation.overlap[0]) if operation.overlap else 0
    found = [no_entries(2, orbit.bags_ptr.device)]
    for (start, stop, entries_per_set), mask in zip(orbit.mask_slices, orbit.masks, strict=True):
        first = torch.arange(start, stop, entries_per_set, device=orbit.bags_ptr.device)
        for u, one in enumerate(mask):
            for w, other in enumerate(mask):
                if overlap_of(one, other, *sizes) == operation.overlap:
                    found.append(torch.stack([first + w, first + u]))
    ys, xs = torch.cat(found, dim=1)
    return ys, xs


def _over_keys(
    one: OrbitPlan, other: OrbitPlan, operation: Operation, m: EquivariantMap, number: int, level: Level
) -> tuple[Tensor, Tensor]:
    """Pairs of entries that meet in a key with the words that the operation connects: output entries, input entries."""
    classes = operation.source.orbit.classes, operation.target.orbit.classes
    us, ws = (words(c, level, m.max_overlap) for c in classes)
    sources, targets = _reads(one, number, len(us)), _reads(other, number, len(ws))
    found = [no_entries(2, one.bags_ptr.device)]
    for u, word in enumerate(us):
        for w, other_word in enumerate(ws):
            if overlap_of(word, other_word, len(classes[0]), len(classes[1])) == operation.overlap:
                (xs, x_keys), (ys, y_keys) = sources[u], targets[w]
                x, y = pairs(x_keys, y_keys)
                found.append(torch.stack([ys[y], xs[x]]))
    ys, xs = torch.cat(found, dim=1)
    return ys, xs


def _reads(orbit: OrbitPlan, number: int, num_slots: int) -> list[tuple[Tensor, Tensor]]:
    """For every slot of a level the entries and the keys that they write to with that word."""
    at = orbit.level_numbers.index(number)
    bags = orbit.bags_of_entries.long()
    entries = bag_numbers(orbit.bags_ptr, len(bags))
    inside = (bags >= orbit.level_ptr[at]) & (bags < orbit.level_ptr[at + 1])
    entries, local = entries[inside], bags[inside] - orbit.level_ptr[at]
    keys, slots = local // max(num_slots, 1), local % max(num_slots, 1)
    return [(entries[slots == slot], keys[slots == slot].contiguous()) for slot in range(num_slots)]
