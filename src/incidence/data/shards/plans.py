"""Plans in shards: those of every example beside its index, from which plans of batches are made.

A shard has the plans of all its examples, for the layers of one network. For each plan it has the
numbers of `PlanParts`, in the smallest type that holds them. The numbers of an example stand
together, so the system reads few pages for it.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np

from incidence.engine.store import Batchable, PlanParts, PlanStore
from incidence.errors import IncidenceError
from incidence.structure.data import Array, StructureData
from incidence.structure.ragged import spans

if TYPE_CHECKING:
    from incidence.data.shards.reading import Shard

__all__ = ["ShardPlan", "StoredPlans", "plan_arrays", "plans_from"]

P = TypeVar("P", bound=Batchable)

_SIGNED = (np.int8, np.int16, np.int32, np.int64)


def plan_arrays(structure: StructureData) -> dict[str, Array]:
    """Return the plans that are cached on a batch as arrays, each with a key that says what it is.

    Plans of parts of structures, and others that are not made of those of single structures, are
    left out.
    """
    arrays: dict[str, Any] = {}
    number = 0
    for kind, cached in structure._cache.items():
        if not (isinstance(kind, type) and issubclass(kind, Batchable)):
            continue
        for key, plan in cached.items():
            # only tracing needs those of fixed steps
            is_traced = str(key).endswith(", fixed")
            if is_traced or not plan.is_batchable or not plan.fits(structure):
                continue
            store = PlanStore([plan])
            parts, place = store.parts(), f"plan/{number}"
            ptr = store.lengths(parts.sizes).cumsum()
            arrays[f"{place}/name"] = np.array(_name(kind, key))
            arrays[f"{place}/form"] = np.array(store.form)
            arrays[f"{place}/sizes"] = _small(parts.sizes)
            arrays[f"{place}/values"] = _small(parts.values)
            arrays[f"{place}/kinds"] = _small(parts.kinds)
            arrays[f"{place}/ptr"] = np.append(0, ptr)
            number += 1
    return arrays


def _name(kind: type, key: Hashable) -> str:
    return f"{kind.__name__} {key!r}"


def _small(values: Array) -> Array:
    """Return integers in the smallest type that holds them."""
    low, high = int(values.min(initial=0)), int(values.max(initial=0))
    fits = (one for one in _SIGNED if np.iinfo(one).min <= low and high <= np.iinfo(one).max)
    return np.ascontiguousarray(values.astype(next(fits)))


class ShardPlan(NamedTuple):
    """The plans of the examples of a shard for one layout of layers.

    Attributes:
        form: What it must have in common with others to make a batch.
        sizes: How many things of every kind each example has, (examples, kinds).
        values, kinds: The numbers of all examples, and what they count.
        ptr: Where the numbers of every example start, and the end.
    """

    form: str
    sizes: Array
    values: Array
    kinds: Array
    ptr: Array


def plans_from(arrays: Mapping[str, Any]) -> dict[str, ShardPlan]:
    """Return the plans of a shard by name, from the arrays that `plan_arrays` returned."""
    plans, number = {}, 0
    while (place := f"plan/{number}") + "/name" in arrays:
        lists = (arrays[f"{place}/{key}"] for key in ("sizes", "values", "kinds", "ptr"))
        plans[str(arrays[f"{place}/name"])] = ShardPlan(str(arrays[f"{place}/form"]), *lists)
        number += 1
    return plans


class StoredPlans:
    """The plans of a batch of examples of shards, as an `Origin` has them.

    Args:
        chosen: The shard and the number of every example.
        stores: Plans of single structures by name, for the forms of all others. Batches of one
            folder share this dict.
    """

    def __init__(
        self, chosen: Sequence[tuple[Shard, int]], stores: dict[str, PlanStore[Any] | None]
    ) -> None:
        self._first, self._stores = chosen[0], stores
        # the numbers of the examples of every shard, and their places in the batch
        self._rows: dict[Shard, list[int]] = {}
        places: dict[Shard, list[int]] = {}
        for place, (shard, number) in enumerate(chosen):
            self._rows.setdefault(shard, []).append(number)
            places.setdefault(shard, []).append(place)
        self._order = np.concatenate(list(places.values())).argsort()

    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
        """Let another process, such as that of a loader, open the shards itself."""
        has_plans = any(shard.plans for shard in self._rows)
        return _reopened, (list(self._rows.items()) if has_plans else [], self._order)

    def has(self, kind: type[Batchable], key: Hashable) -> bool:
        """Return whether the shards of all examples have a plan."""
        name = _name(kind, key)
        return all(name in shard.plans for shard in self._rows)

    def plan(
        self,
        structure: StructureData,
        kind: type[P],
        key: Hashable,
        build: Callable[[StructureData], P],
    ) -> P | None:
        """Return the plan of the batch; None if the shards have none.

        Raises:
            IncidenceError: The plans in the shards are not those of this version of the library, or
                have numbers that the structures have not.
        """
        name = _name(kind, key)
        if not self.has(kind, key):
            return None
        if name not in self._stores:
            self._stores[name] = self._checked_store(structure, name, build)
        store = self._stores[name]
        if store is None:
            return None
        first = self._first[0]
        other = next((one for one in self._rows if one.plans[name].form != store.form), None)
        if other is not None:
            raise other.damage(f"its plans have another form than those of {first.path}")
        try:
            parts = _joined((one.plans[name], rows) for one, rows in self._rows.items())
            plan: P = store.with_parts(parts).take(self._order)
            _assert_inside(plan, structure)
        except (ValueError, IndexError, TypeError) as error:
            raise first.damage(f"a plan does not fit its examples ({error})") from None
        return plan

    def _checked_store(
        self, structure: StructureData, name: str, build: Callable[[StructureData], P]
    ) -> PlanStore[P] | None:
        """Return the store of the plan of the first example, which is built and compared.

        None if its steps differ from those of all examples together, as large products may.
        """
        shard, number = self._first
        store = PlanStore([build(structure[0])])  # type: ignore[index]
        stored = shard.plans[name]
        if store.form != stored.form:
            return None
        ours, theirs = store.parts(), _joined([(stored, [number])])
        if not all(map(np.array_equal, ours, theirs)):
            raise IncidenceError(
                f"the plans in {shard.path} are not those that this version of the library makes:"
                " prepare the data again, into a new folder."
            )
        return store


def _reopened(rows: list[tuple[Shard | None, list[int]]], order: Array) -> StoredPlans | None:
    """Return plans that come from another process; None if a shard is gone."""
    chosen = [(shard, number) for shard, numbers in rows if shard for number in numbers]
    if not chosen or len(chosen) != len(order):
        return None
    first = chosen[order[0]]
    return StoredPlans([chosen[k] for k in order], first[0].stores)


def _joined(plans: Iterable[tuple[ShardPlan, list[int]]]) -> PlanParts:
    """Return the numbers of some examples, shard by shard."""
    columns = []
    for one, rows in plans:
        starts, stops = one.ptr.take(rows), one.ptr.take(np.add(rows, 1))
        at = spans(starts, stops - starts)
        columns.append((one.sizes.take(rows, axis=0), one.values.take(at), one.kinds.take(at)))
    sizes, values, kinds = (np.concatenate(parts) for parts in zip(*columns, strict=True))
    return PlanParts(sizes.astype(np.int64), values, kinds)


def _assert_inside(plan: Batchable, structure: StructureData) -> None:
    """Refuse numbers that nothing in the structure has: the sums trust them."""
    if not plan.fits(structure):
        raise ValueError("it is for another number of entries")
    totals = [int(space.sum()) for space in plan.spaces()]
    for listed in plan.lists():
        values = listed.values
        if listed.counts is None or not len(values):
            continue
        low, high = (int(one) for one in values.aminmax())
        is_outside = low < -1 or high > totals[listed.counts] - (not listed.has_end)
        if is_outside or (listed.has_end and bool((values.diff() < 0).any())):
            raise ValueError("it has numbers outside of it")
