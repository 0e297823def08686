"""The cases that run by default are a fixed eighth of all."""

import pytest

from tests.cases import some


def is_exhaustive(case) -> bool:
    return any(mark.name == "exhaustive" for mark in case.marks)


def test_an_eighth_runs_by_default_with_the_first_and_the_last_case():
    cases = some(range(80))
    default = [case.values[0] for case in cases if not is_exhaustive(case)]
    assert [case.values[0] for case in cases] == list(range(80))
    assert 10 <= len(default) <= 12
    assert {0, 79} <= {*default}


def test_every_call_draws_the_same_cases():
    assert [*map(is_exhaustive, some(range(50)))] == [*map(is_exhaustive, some("ab" * 25))]


def test_cases_keep_their_marks_their_ids_and_all_their_values():
    slow = pytest.param(1, 2, marks=pytest.mark.slow, id="one and two")
    before, *others = some([(0, 0), *[slow] * 20, (3, 4)])
    assert {case.id for case in others[:-1]} == {"one and two"}
    assert {case.values for case in others[:-1]} == {(1, 2)}
    assert {tuple(mark.name for mark in case.marks) for case in others[:-1]} == {
        ("slow",),
        ("slow", "exhaustive"),
    }
    assert (before.values, others[-1].values) == ((0, 0), (3, 4))


def test_a_list_without_cases_stays_empty():
    assert some([]) == []
