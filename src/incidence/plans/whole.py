"""Plans of maps that pool over whole structures alone, as readouts do: how many entries each structure has tells everything."""

from __future__ import annotations

from itertools import accumulate

import numpy as np
import torch

from incidence.plans.layout import BagLayout, MapLayout
from incidence.plans.plan import Plan
from incidence.plans.stack import StackLists, StackPlan
from incidence.structure.data import Array, StructureData
from incidence.structure.ragged import are_short, spans, starts_of

__all__ = ["is_whole", "whole_plan"]


def is_whole(layout: MapLayout) -> bool:
    """Whether all keys of a map are structures, and every tensor is one orbit: then the entries of a structure are a range of rows.

    Not where entries count with signs.
    """
    is_plain = all(len(p.orbits) == 1 and not p.is_oriented for p in layout.tensors)
    return layout.levels == ((),) and not layout.partners and is_plain


def whole_plan(layout: MapLayout, structure: StructureData) -> Plan:
    """The plan of such a map."""
    num_entries = np.stack([structure._lengths_of(p) for p in layout.tensors])
    num_keys = np.ones((1, structure.num_structures), dtype=np.int64)
    stacks = tuple(
        _stack(stack, num_entries[[layout.tensors.index(p) for p in stack.patterns]], structure)
        for stack in layout.stacks
    )
    return Plan(layout, num_keys, num_entries, stacks, {})


def _stack(stack: BagLayout, counts: Array, structure: StructureData) -> StackPlan:
    """The lists of a stack, from how many entries its tensors have in every structure, (tensors, structures)."""
    num_tensors, num_structures = counts.shape
    row_ptr = (0, *accumulate(counts.sum(axis=1).tolist()))
    starts = starts_of(counts.ravel()).reshape(
        counts.shape
    )  # where the rows of each structure start
    rows = spans(starts.T.ravel(), counts.T.ravel())  # by structure, then by tensor
    rows_ptr = np.zeros(num_tensors * num_structures + 1, dtype=np.int64)
    counts.T.ravel().cumsum(out=rows_ptr[1:])
    bags = (np.arange(num_structures) * num_tensors + np.arange(num_tensors)[:, None]).repeat(
        counts.ravel()
    )
    dtype = np.int32 if are_short(row_ptr[-1], len(rows_ptr)) else np.int64
    numbers = bags, np.arange(len(bags) + 1), rows, rows_ptr
    lists = StackLists(
        *(torch.from_numpy(part.astype(dtype)).to(structure.device) for part in numbers)
    )
    level_ptr = 0, num_tensors * num_structures
    return StackPlan(
        row_ptr, num_structures, stack.num_slots, level_ptr, lists, counts[:, None, :], None
    )
