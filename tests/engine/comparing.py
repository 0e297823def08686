"""When two plans are the same."""

from itertools import pairwise

import numpy as np
import torch

from incidence.engine.bags import Bags, Lists
from incidence.engine.partners import Partners
from incidence.engine.plan import Plan


def pairs_of(lists: Lists) -> list[tuple[int, int]]:
    """All pairs (list, member)."""
    ptr = lists.ptr.tolist()
    return [
        (number, member)
        for number, (start, stop) in enumerate(pairwise(ptr))
        for member in lists.members[start:stop].tolist()
    ]


def reads(bags: Bags) -> list[tuple[int, int]]:
    """All pairs (row, bag that it reads from)."""
    return sorted(pairs_of(bags.of_rows))


def writes(bags: Bags) -> list[tuple[int, int]]:
    """All pairs (row, bag that it writes to)."""
    return sorted((row, bag) for bag, row in pairs_of(bags.of_bags))


def partner_pairs(partners: Partners) -> list[tuple[int, int]]:
    """All pairs (row that reads, row that is read)."""
    targets = partners.targets
    if targets is None:
        targets = torch.arange(partners.num_rows)
    sources = targets if partners.sources is None else partners.sources
    return sorted(zip(targets.tolist(), sources.tolist(), strict=True))


def assert_same_plan(one: Plan, other: Plan) -> None:
    """All rows write to and read from the same bags and partners, in whatever order."""
    assert one.layout is other.layout
    np.testing.assert_array_equal(one.num_keys, other.num_keys)
    np.testing.assert_array_equal(one.num_entries, other.num_entries)
    for a, b in zip(one.bags, other.bags, strict=True):
        assert (a.num_rows, a.num_slots, a.level_ptr) == (b.num_rows, b.num_slots, b.level_ptr)
        assert a.node_slots == b.node_slots
        np.testing.assert_array_equal(a.num_reads, b.num_reads)
        assert reads(a) == reads(b) == writes(b) == writes(a)
        assert int(a.num_reads.sum()) == len(a.of_rows.members)
    assert list(one.partners) == list(other.partners)
    for key, partners in one.partners.items():
        assert partner_pairs(partners) == partner_pairs(other.partners[key])
        np.testing.assert_array_equal(partners.counts, other.partners[key].counts)
