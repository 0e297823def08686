"""When two plans are the same."""

import numpy as np
import torch

from incidence.plans import Plan
from incidence.plans.stack import Partners, StackPlan


def reads(stack: StackPlan) -> list[tuple[int, int]]:
    """All pairs (row, bag that it reads from)."""
    rows = enumerate(zip(*pairs_of(stack.lists.bags_ptr), strict=True))
    return sorted(
        (row, bag)
        for row, (start, stop) in rows
        for bag in stack.lists.bags_of_rows[start:stop].tolist()
    )


def writes(stack: StackPlan) -> list[tuple[int, int]]:
    """All pairs (row, bag that it writes to)."""
    bags = enumerate(zip(*pairs_of(stack.lists.rows_ptr), strict=True))
    return sorted(
        (row, bag)
        for bag, (start, stop) in bags
        for row in stack.lists.rows_of_bags[start:stop].tolist()
    )


def pairs_of(ptr: torch.Tensor) -> tuple[list[int], list[int]]:
    return ptr[:-1].tolist(), ptr[1:].tolist()


def partner_pairs(partners: Partners) -> list[tuple[int, int]]:
    """All pairs (row that reads, row that is read)."""
    targets = (
        list(range(int(partners.counts.sum())))
        if partners.targets is None
        else partners.targets.tolist()
    )
    return sorted(
        zip(
            targets, targets if partners.sources is None else partners.sources.tolist(), strict=True
        )
    )


def assert_same_plan(one: Plan, other: Plan) -> None:
    """All rows write to and read from the same bags and partners, in whatever order; partners that no entry has may be listed or not."""
    assert one.layout == other.layout
    np.testing.assert_array_equal(one.num_keys, other.num_keys)
    np.testing.assert_array_equal(one.num_entries, other.num_entries)
    for a, b in zip(one.stacks, other.stacks, strict=True):
        assert (a.row_ptr, a.num_structures, a.num_slots, a.level_ptr) == (
            b.row_ptr,
            b.num_structures,
            b.num_slots,
            b.level_ptr,
        )
        assert a.single_nodes == b.single_nodes
        np.testing.assert_array_equal(a.num_reads, b.num_reads)
        assert reads(a) == reads(b) == writes(b) == writes(a)
        assert int(a.num_reads.sum()) == len(a.lists.bags_of_rows)
    found = [
        {key: partner_pairs(p) for key, p in plan.partners.items() if p.counts.any()}
        for plan in (one, other)
    ]
    assert found[0] == found[1]
    for key in found[0]:
        np.testing.assert_array_equal(one.partners[key].counts, other.partners[key].counts)
