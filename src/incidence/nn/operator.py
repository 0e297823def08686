"""One operation as a sparse matrix, for people who want to look."""

from __future__ import annotations

from itertools import product
from typing import NamedTuple

import torch
from torch import Tensor

from incidence.algebra.maps import EquivariantMap, Operation
from incidence.algebra.words import Level, Word, overlap_of, sign_of
from incidence.engine.bags import Bags, bag_numbers
from incidence.engine.layout import OrbitRef, TensorLayout, layout_of
from incidence.engine.partners import PartnerKey
from incidence.engine.plan import Plan, plan_of
from incidence.structure import Structure
from incidence.structure.ragged import no_entries, pairs

__all__ = ["operator_matrix"]


def operator_matrix(m: EquivariantMap, operation: Operation, structure: Structure) -> Tensor:
    """The matrix of one operation, (output entries, input entries): paths from entries over keys to
    entries, added up.
    """
    layout = layout_of(m)
    plan = plan_of(structure, layout)
    source, target = (
        OrbitRef(orbit.tensor, orbit.number) for orbit in (operation.source, operation.target)
    )
    is_whole = sum(map(sum, operation.overlap)) == operation.source.orbit.size
    if is_whole and (source, target) in layout.partners:
        ys, xs, signs = _of_partners(plan, (layout.pattern_ref(source), operation.overlap))
    else:
        ys, xs, signs = _over_keys(plan, source, target, operation)
    shape = [plan.outputs[target.tensor].num_rows, plan.inputs[source.tensor].num_rows]
    return torch.sparse_coo_tensor(
        torch.stack([ys, xs]), signs.double(), shape, check_invariants=False
    ).coalesce()


Paths = tuple[Tensor, Tensor, Tensor]
"""Output rows, input rows, and the signs by which these connect: 1 without oriented faces."""


def _of_partners(plan: Plan, key: PartnerKey) -> Paths:
    """Pairs of entries on one node set that the operation connects."""
    partners = plan.partners[key]
    targets, sources, signs = partners.targets, partners.sources, partners.signs
    ys = (
        torch.arange(int(partners.counts.sum()), device=plan.device)
        if targets is None
        else targets.long()
    )
    return (
        ys,
        ys if sources is None else sources.long(),
        torch.ones_like(ys) if signs is None else signs.long(),
    )


def _over_keys(plan: Plan, source: OrbitRef, target: OrbitRef, operation: Operation) -> Paths:
    """Pairs of entries that meet in a key with the words that the operation connects."""
    level = tuple(
        sorted(
            c.sort
            for c, row in zip(operation.source.orbit.classes, operation.overlap, strict=True)
            for _ in range(sum(row))
        )
    )
    inputs, outputs = plan.layout.inputs[source.tensor], plan.layout.outputs[target.tensor]
    classes = operation.source.orbit.classes, operation.target.orbit.classes
    sources, targets = (
        _reads(plan.inputs[source.tensor], inputs, source.orbit, level),
        _reads(plan.outputs[target.tensor], outputs, target.orbit, level),
    )
    found = [no_entries(3, plan.device)]
    for one, other in product(sources, targets):
        if overlap_of(one.word, other.word, *map(len, classes)) == operation.overlap:
            x, y = pairs(one.keys, other.keys)
            sign = sign_of(*classes, one.word, other.word)
            found.append(
                torch.stack([other.rows[y], one.rows[x], sign * one.signs[x] * other.signs[y]])
            )
    ys, xs, signs = torch.cat(found, dim=1)
    return ys, xs, signs


class _Reads(NamedTuple):
    """The rows of a tensor that write to keys with one word, the keys, and their signs."""

    word: Word
    rows: Tensor
    keys: Tensor
    signs: Tensor


def _reads(own: Bags, layout: TensorLayout, orbit: int, level: Level) -> list[_Reads]:
    """What the rows of an orbit write to at a level, word by word."""
    at = layout.levels.index(level)
    members, ptr, signs = own.of_rows
    bags = members.long()
    signs = torch.ones_like(bags) if signs is None else signs.long()
    rows = bag_numbers(ptr, len(bags))
    inside = (bags >= own.level_ptr[at]) & (bags < own.level_ptr[at + 1])
    rows, signs, bags = rows[inside], signs[inside], bags[inside] - own.level_ptr[at]
    keys, slots = bags // own.num_slots[at], bags % own.num_slots[at]
    words = zip(layout.slots[at][orbit], layout.words(orbit, level), strict=True)
    chosen = [(word, slots == slot) for slot, word in words]
    return [
        _Reads(word, rows[which], keys[which].contiguous(), signs[which]) for word, which in chosen
    ]
