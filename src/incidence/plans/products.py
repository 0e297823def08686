"""Plans of products on structures: made once, kept, shared by all layers with that product, and put together for batches."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch

from incidence.algebra.products import ProductText
from incidence.errors import IncidenceError, TooLargeError
from incidence.plans.groups import build_groups
from incidence.plans.join_batches import JoinStore
from incidence.plans.join_plan import JoinPlan
from incidence.plans.joining import MAX_JOINED, build_join_plan
from incidence.structure.data import StructureData, cache_of

__all__ = ["groups_of", "join_plan_of"]

_MOST_STORED = 20_000_000  # joined rows of a packed data set: with more, the plan of every batch is made on its own

_Build = Callable[[StructureData, int], JoinPlan]  # makes a plan, with at most so many joined rows


def join_plan_of(
    structure: StructureData, text: ProductText, limit: int = MAX_JOINED, is_fixed: bool = False
) -> JoinPlan:
    """The plan of a product on a structure; `is_fixed` asks for one of lists alone, whose program is the same for all structures.

    That of a batch is put together from those of the structures it is made of, where they have one or were packed as a data set.

    Raises:
        IncidenceError: Some tensor of the product is not there.
        TooLargeError: There is no plan yet, and some step of it would look at more than `limit` rows to join them.
    """
    key = f"{text.key}, fixed" if is_fixed else text.key
    return _planned(
        structure, key, lambda source, most: build_join_plan(text, source, most, is_fixed), limit
    )


def groups_of(structure: StructureData, text: str, over: str) -> JoinPlan:
    """The entries of a tensor by what is left of them without some letters, as a plan with one step, which adds them up.

    Raises:
        IncidenceError: The tensor is not there, or some entry would be in two groups.
    """
    return _planned(
        structure,
        f"{text} over {over}",
        lambda source, _: build_groups(source, text, over),
        MAX_JOINED,
    )


def _planned(structure: StructureData, key: str, build: _Build, limit: int) -> JoinPlan:
    known = cache_of(structure, JoinPlan).get(key)
    return _make(structure, key, build, limit) if known is None else known


# A plan is kept and used in training later, so it is never made of inference tensors.
@torch.inference_mode(False)
def _make(structure: StructureData, key: str, build: _Build, limit: int) -> JoinPlan:
    if structure.device.type == "meta":
        raise IncidenceError(
            "a structure on the meta device has no entries to plan with: move it to another device."
        )
    plan = _put_together(structure, key, build) or build(structure, limit)
    cache_of(structure, JoinPlan)[key] = plan
    return plan


def _put_together(structure: StructureData, key: str, build: _Build) -> JoinPlan | None:
    """The plan from those of the structures that this batch was made of, if they have it and it is the same for all."""
    origin = structure._origin
    if origin is None or not _has_plan(structure, key):
        return None
    try:
        plans = [_planned(source, key, build, _MOST_STORED) for source in origin.sources]
    except TooLargeError:
        return None
    if len({plan.program for plan in plans}) > 1 or plans[0].is_dense:
        return None
    store = _store_of(origin.sources[0], key, plans[0]) if len(plans) == 1 else JoinStore(plans)
    return store.take(None if origin.numbers is None else np.asarray(origin.numbers))


def _has_plan(structure: StructureData, key: str) -> bool:
    """Whether a structure has a plan, or one can be put together; a store of packed structures makes one for all."""
    origin = structure._origin
    if key in cache_of(structure, JoinPlan):
        return True
    return origin is not None and (
        origin.numbers is not None or all(_has_plan(source, key) for source in origin.sources)
    )


def _store_of(source: StructureData, key: str, plan: JoinPlan) -> JoinStore:
    """The plan of one structure or batch, ready to make batches of; kept with it."""
    cache = cache_of(source, JoinStore)
    if key not in cache:
        cache[key] = JoinStore([plan])
    return cache[key]
