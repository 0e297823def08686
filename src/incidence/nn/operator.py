"""One operation as a sparse matrix, for people who want to look."""

from __future__ import annotations

from itertools import product

import numpy as np
import torch
from torch import Tensor

from incidence.algebra.maps import EquivariantMap, Operation
from incidence.algebra.words import Level, Word, overlap_of
from incidence.kernels.bags import bag_numbers
from incidence.plans import Plan, plan_of
from incidence.plans.layout import BagLayout, OrbitRef, layout_of
from incidence.plans.plan import PartnerKey
from incidence.plans.stack import Partners, StackPlan
from incidence.structure import Structure
from incidence.structure.ragged import no_entries, pairs

__all__ = ["operator_matrix"]


def operator_matrix(m: EquivariantMap, operation: Operation, structure: Structure) -> Tensor:
    """The matrix of one operation, (output entries, input entries): paths from entries over keys to entries, added up."""
    layout = layout_of(m)
    plan = plan_of(structure, layout)
    source, target = (OrbitRef(orbit.tensor, orbit.number) for orbit in (operation.source, operation.target))
    is_whole = sum(map(sum, operation.overlap)) == operation.source.orbit.size
    if is_whole and (source, target) in layout.partners:
        ref = OrbitRef(layout.tensors.index(m.inputs[source.tensor]), source.orbit)
        ys, xs = _of_partners(plan, (ref, operation.overlap))
    else:
        ys, xs = _over_keys(plan, source, target, operation)
    shape = [plan.outputs[0].num_rows_of[target.tensor], plan.inputs[0].num_rows_of[source.tensor]]
    values = torch.ones(len(ys), dtype=torch.float64, device=plan.device)
    return torch.sparse_coo_tensor(torch.stack([ys, xs]), values, shape, check_invariants=False).coalesce()


def _of_partners(plan: Plan, key: PartnerKey) -> tuple[Tensor, Tensor]:
    """Pairs of entries on one node set that the operation connects: output rows, input rows."""
    nothing = torch.zeros(0, dtype=torch.long, device=plan.device)
    partners = plan.partners.get(key, Partners(nothing, None, np.zeros(0, dtype=np.int64)))
    targets, sources = partners.lists
    ys = torch.arange(int(partners.counts.sum()), device=plan.device) if targets is None else targets.long()
    return ys, ys if sources is None else sources.long()


def _over_keys(plan: Plan, source: OrbitRef, target: OrbitRef, operation: Operation) -> tuple[Tensor, Tensor]:
    """Pairs of entries that meet in a key with the words that the operation connects: output rows, input rows."""
    level = tuple(sorted(c.sort for c, row in zip(operation.source.orbit.classes, operation.overlap, strict=True) for _ in range(sum(row))))
    [inputs], [outputs] = plan.layout.inputs, plan.layout.outputs
    classes = len(operation.source.orbit.classes), len(operation.target.orbit.classes)
    sources, targets = _reads(plan.inputs[0], inputs, source, level), _reads(plan.outputs[0], outputs, target, level)
    found = [no_entries(2, plan.device)]
    for (word, xs, x_keys), (other_word, ys, y_keys) in product(sources, targets):
        if overlap_of(word, other_word, *classes) == operation.overlap:
            x, y = pairs(x_keys, y_keys)
            found.append(torch.stack([ys[y], xs[x]]))
    ys, xs = torch.cat(found, dim=1)
    return ys, xs


def _reads(stack: StackPlan, layout: BagLayout, ref: OrbitRef, level: Level) -> list[tuple[Word, Tensor, Tensor]]:
    """For every word of an orbit at a level the rows of its tensor, and the keys that they write to with that word."""
    at = layout.all_levels.index(level)
    bags = stack.lists.bags_of_rows.long()
    rows = bag_numbers(stack.lists.bags_ptr, len(bags)) - stack.row_ptr[ref.tensor]
    inside = (bags >= stack.level_ptr[at]) & (bags < stack.level_ptr[at + 1])
    rows, bags = rows[inside], bags[inside] - stack.level_ptr[at]
    keys, slots = bags // stack.num_slots[at], bags % stack.num_slots[at]
    words = zip(layout.slots[at][ref], layout.words(ref, level), strict=True)
    return [(word, rows[slots == slot], keys[slots == slot].contiguous()) for slot, word in words]
