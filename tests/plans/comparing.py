"""When two plans are the same."""

import numpy as np
import torch

from incidence.plans import Plan
from incidence.plans.orbit_plan import OrbitPlan


def reads(orbit: OrbitPlan) -> list[tuple[int, int]]:
    """All pairs (row of an entry, bag that it reads from)."""
    rows = orbit.row_of(torch.arange(orbit.num_entries)).tolist()
    return sorted(
        (row, bag)
        for row, start, stop in zip(rows, *pairs_of(orbit.bags_ptr), strict=True)
        for bag in orbit.bags_of_entries[start:stop].tolist()
    )


def writes(orbit: OrbitPlan) -> list[tuple[int, int]]:
    """All pairs (row of an entry, bag that it writes to)."""
    bags = enumerate(zip(*pairs_of(orbit.rows_ptr), strict=True))
    return sorted((row, bag) for bag, (start, stop) in bags for row in orbit.rows_of_bags[start:stop].tolist())


def pairs_of(ptr: torch.Tensor) -> tuple[list[int], list[int]]:
    return ptr[:-1].tolist(), ptr[1:].tolist()


def assert_same_plan(one: Plan, other: Plan) -> None:
    """All entries write to and read from the same bags, in whatever order; a mask that no set has may be listed or not."""
    assert one.tensors == other.tensors
    assert one.levels == other.levels
    np.testing.assert_array_equal(one.num_keys, other.num_keys)
    np.testing.assert_array_equal(one.num_entries, other.num_entries)
    for ours, theirs in zip(one.orbits, other.orbits, strict=True):
        for a, b in zip(ours, theirs, strict=True):
            assert (a.num_entries, a.level_numbers, a.num_slots, a.level_ptr) == (b.num_entries, b.level_numbers, b.num_slots, b.level_ptr)
            present = [[(m, n) for m, n in zip(o.masks, o.num_sets, strict=True) if n] for o in (a, b)]
            assert present[0] == present[1]
            assert reads(a) == reads(b) == writes(b) == writes(a)
