"""Plans: which keys the entries of a structure write to and read from, and a map compiled for them. Index data only."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from incidence.algebra.maps import EquivariantMap
from incidence.errors import IncidenceError
from incidence.plans.batches import PlanStore
from incidence.plans.plan import Plan, build_plan, tensors_of
from incidence.structure.data import StructureData, cache_of

__all__ = ["Plan", "plan_of"]


def plan_of(structure: StructureData, equivariant_map: EquivariantMap) -> Plan:
    """The plan of a map on a structure: made once, kept, and shared by all layers with that map.

    That of a batch is put together from those of the structures it is made of, where they have one or were packed as a data set.
    """
    known = cache_of(structure, Plan).get(equivariant_map)
    return _make(structure, equivariant_map) if known is None else known


# A plan is kept and used in training later, so it is never made of inference tensors.
@torch.inference_mode(False)
def _make(structure: StructureData, equivariant_map: EquivariantMap) -> Plan:
    if structure.device.type == "meta":
        raise IncidenceError("a structure on the meta device has no entries to plan with: move it to another device.")
    plan = _joined(structure, equivariant_map)
    if plan is None:
        for pattern in tensors_of(equivariant_map):
            structure.resolve(pattern)
        plan = build_plan(equivariant_map, structure)
    cache_of(structure, Plan)[equivariant_map] = plan
    return plan


def _joined(structure: StructureData, equivariant_map: EquivariantMap) -> Plan | None:
    """The plan from those of the structures that this batch was made of, if they have it."""
    origin = structure._origin
    if origin is None or not _has_plan(structure, equivariant_map):
        return None
    if origin.numbers is None:
        return _store(origin.sources, equivariant_map).take()
    return _store_of(origin.sources[0], equivariant_map).take(np.asarray(origin.numbers))


def _has_plan(structure: StructureData, equivariant_map: EquivariantMap) -> bool:
    """Whether a structure has a plan, or one can be put together; a store of packed structures makes one for all."""
    origin = structure._origin
    if equivariant_map in cache_of(structure, Plan):
        return True
    return origin is not None and (origin.numbers is not None or all(_has_plan(s, equivariant_map) for s in origin.sources))


def _store(sources: Sequence[StructureData], equivariant_map: EquivariantMap) -> PlanStore:
    return _store_of(sources[0], equivariant_map) if len(sources) == 1 else PlanStore([plan_of(s, equivariant_map) for s in sources])


def _store_of(source: StructureData, equivariant_map: EquivariantMap) -> PlanStore:
    """The plan of one structure or batch, ready to make batches of; kept with it."""
    cache = cache_of(source, PlanStore)
    if equivariant_map not in cache:
        cache[equivariant_map] = PlanStore([plan_of(source, equivariant_map)])
    return cache[equivariant_map]
