"""Plans: which keys the entries of a structure write to and read from, and a map compiled for them. Index data only."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from incidence.algebra.maps import EquivariantMap
from incidence.errors import IncidenceError
from incidence.plans.batches import PlanStore
from incidence.plans.layout import MapLayout, layout_of
from incidence.plans.plan import Plan, build_plan
from incidence.plans.whole import is_whole, whole_plan
from incidence.structure.data import StructureData, cache_of

__all__ = ["Plan", "plan_of"]


def plan_of(structure: StructureData, layout: MapLayout | EquivariantMap) -> Plan:
    """The plan of a map on a structure: made once, kept, and shared by all layers with that map.

    That of a batch is put together from those of the structures it is made of, where they have one or were packed as a data set.
    """
    layout = layout if isinstance(layout, MapLayout) else layout_of(layout)
    known = cache_of(structure, Plan).get(layout)
    return _make(structure, layout) if known is None else known


# A plan is kept and used in training later, so it is never made of inference tensors.
@torch.inference_mode(False)
def _make(structure: StructureData, layout: MapLayout) -> Plan:
    if structure.device.type == "meta":
        raise IncidenceError(
            "a structure on the meta device has no entries to plan with: move it to another device."
        )
    for pattern in layout.tensors:
        structure.resolve(pattern)
    plan = (
        whole_plan(layout, structure)
        if is_whole(layout)
        else _joined(structure, layout) or build_plan(layout, structure)
    )
    cache_of(structure, Plan)[layout] = plan
    return plan


def _joined(structure: StructureData, layout: MapLayout) -> Plan | None:
    """The plan from those of the structures that this batch was made of, if they have it."""
    origin = structure._origin
    if origin is None or not _has_plan(structure, layout):
        return None
    if origin.numbers is None:
        return _store(origin.sources, layout).take()
    return _store_of(origin.sources[0], layout).take(np.asarray(origin.numbers))


def _has_plan(structure: StructureData, layout: MapLayout) -> bool:
    """Whether a structure has a plan, or one can be put together; a store of packed structures makes one for all."""
    origin = structure._origin
    if layout in cache_of(structure, Plan):
        return True
    return origin is not None and (
        origin.numbers is not None or all(_has_plan(s, layout) for s in origin.sources)
    )


def _store(sources: Sequence[StructureData], layout: MapLayout) -> PlanStore:
    return (
        _store_of(sources[0], layout)
        if len(sources) == 1
        else PlanStore([plan_of(s, layout) for s in sources])
    )


def _store_of(source: StructureData, layout: MapLayout) -> PlanStore:
    """The plan of one structure or batch, ready to make batches of; kept with it."""
    cache = cache_of(source, PlanStore)
    if layout not in cache:
        cache[layout] = PlanStore([plan_of(source, layout)])
    return cache[layout]
