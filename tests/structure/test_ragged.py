"""Codes, ranks and groups: integers that stand for tuples, however large."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from incidence.structure.ragged import code, group, ranges, rank

modest = settings(deadline=None, max_examples=50, derandomize=True)


def integers(*shape: int) -> torch.Tensor:
    return torch.zeros(shape, dtype=torch.long)


@modest
@given(st.lists(st.integers(-(2**62), 2**62), max_size=20))
def test_a_rank_is_the_number_of_smaller_different_values(values):
    ranks, count = rank(torch.tensor(values, dtype=torch.long))
    assert ranks.tolist() == [len({w for w in values if w < v}) for v in values]
    assert count == len(set(values))


def test_ranks_keep_the_shape():
    ranks, count = rank(torch.tensor([[5, 3], [3, 9]]))
    assert ranks.tolist() == [[1, 0], [0, 2]]
    assert count == 3
    assert rank(integers(2, 0))[0].shape == (2, 0)


def test_fractions_have_ranks_too():
    ranks, count = rank(torch.tensor([0.5, 0.25, 0.5, 0.75]))
    assert ranks.tolist() == [1, 0, 1, 2]
    assert count == 3


@modest
@given(st.sampled_from([3, 10**4, 10**7, 2**40, 2**60]), st.integers(1, 5), st.integers(0, 100))
def test_codes_are_equal_and_ordered_as_the_rows_are_and_never_overflow(num_nodes, width, seed):
    generator = torch.Generator().manual_seed(seed)
    rows = torch.randint(num_nodes - 3, num_nodes, (12, width), generator=generator)
    codes, bound = code(rows.unbind(1), [num_nodes] * width)
    listed = rows.tolist()
    assert (codes >= 0).all()
    assert int(codes.max()) < bound
    for a, one in enumerate(listed):
        for b, other in enumerate(listed):
            assert (codes[a] < codes[b]) == (one < other)
            assert (codes[a] == codes[b]) == (one == other)


def test_codes_of_no_rows_are_none():
    assert code([integers(0), integers(0)], [5, 5])[0].shape == (0,)


def test_a_code_of_no_columns_is_refused():
    with pytest.raises(ValueError, match="a code needs at least one column"):
        code([], [])


@modest
@given(st.lists(st.integers(-3, 3), max_size=12))
def test_groups_have_every_position_once_by_ascending_value(values):
    found = group(torch.tensor(values, dtype=torch.long))
    assert [value for value, _ in found] == sorted(set(values))
    for value, positions in found:
        assert positions.tolist() == [k for k, v in enumerate(values) if v == value]


def test_ranges_start_at_zero_and_end_at_the_total():
    assert ranges(torch.tensor([2, 0, 3])).tolist() == [0, 2, 2, 5]
    assert ranges(integers(0)).tolist() == [0]
