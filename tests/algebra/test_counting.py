"""The paper's formulas."""

import pytest

from incidence.algebra import EquivariantMap, counting, overlap
from incidence.errors import IncidenceError, TooLargeError
from tests.cases import some
from tests.exact_numbers import load_cases, map_text

CASES = [
    pytest.param(c, id=f"{c['id']}-{map_text(c)}")
    for c in load_cases("patterns.json")
    if c["paper"]
]


@pytest.mark.parametrize("case", some(CASES))
def test_the_papers_counts_are_those_of_the_vectors(case):
    paper = case["paper"]
    found = counting.paper_count(map_text(case))
    assert (found.tau, found.tau_symm) == (paper["tau"], paper["tau_symm"])
    assert found.tau_is_exact == paper["tau_equals_exact"]
    assert (None if found.tau_symm is None else found.tau_symm_is_exact) == paper[
        "tau_symm_equals_exact"
    ]
    assert found.is_exact == (found.exact in (found.tau, found.tau_symm))
    assert list(found.reasons) == paper["why_tau_differs"]


@pytest.mark.parametrize("case", some(CASES))
def test_multiplicities_count_partitions_as_in_the_theorem(case):
    m = EquivariantMap(map_text(case))
    for patterns, expected in ((m.inputs, "kappa_in"), (m.outputs, "kappa_out")):
        found = [{str(size): n for size, n in counting.kappa(p).items()} for p in patterns]
        assert found == case["paper"][expected]


@pytest.mark.parametrize(
    ("sizes", "expected"),
    {(1, 1): 2, (1, 2): 3, (2, 2): 7, (1, 3): 4, (2, 3): 13, (3, 3): 34}.items(),
)
def test_tau_is_that_of_the_paper_and_of_directed_faces(sizes, expected):
    def face(size: int) -> str:
        return "(" + " ".join("ijk"[:size]) + ")"

    assert counting.tau(*sizes) == counting.tau(*sizes[::-1]) == expected
    assert EquivariantMap(f"{face(sizes[0])} -> {face(sizes[1])}").dimension == expected


def test_tau_symm_is_that_of_undirected_faces():
    for m, n in [(1, 2), (2, 2), (3, 2), (4, 4)]:
        text = " -> ".join("{" + " ".join("ijkl"[:size]) + "}" for size in (m, n))
        assert counting.tau_symm(m, n) == EquivariantMap(text).dimension


@pytest.mark.parametrize(("order", "expected"), [(1, 2), (2, 9), (3, 23), (4, 46)])
def test_the_formula_for_symmetric_tensors_counts_collections_of_undirected_faces(order, expected):
    faces = ", ".join("{" + " ".join("ijkl"[:size]) + "}" for size in range(1, order + 1))
    assert (
        counting.symmetric_total(order)
        == EquivariantMap(f"{faces} -> {faces}").dimension
        == expected
    )


def test_stirling_numbers_sum_to_bell_numbers():
    assert [counting.stirling(4, m) for m in range(5)] == [0, 1, 7, 6, 1]
    assert counting.stirling(0, 0) == 1
    assert counting.stirling(2, 3) == 0
    for n in range(12):
        assert sum(counting.stirling(n, m) for m in range(n + 1)) == counting.bell(n)


@pytest.mark.parametrize(
    ("text", "reason"), [("i:a -> j:b", "one sort"), ("{i ...} -> i", "open faces")]
)
def test_what_the_paper_does_not_treat_is_said(text, reason):
    found = counting.paper_count(text)
    assert found.tau is None
    assert not found.is_exact
    assert reason in found.reasons[0]


def test_counts_of_bad_arguments_are_refused():
    with pytest.raises(TooLargeError, match="numbers up to 2,000 are counted"):
        counting.bell(20_000)
    with pytest.raises(IncidenceError, match="a map is an EquivariantMap or its text; got int"):
        counting.total_tau(5)
    with pytest.raises(IncidenceError, match="n must be an integer of at least 0; got -1"):
        counting.bell(-1)
    with pytest.raises(IncidenceError, match="open face, which the paper does not treat"):
        counting.kappa("{i ...}")


def test_every_request_has_a_bound_of_its_own_which_what_it_asks_for_shares():
    with overlap.bounded():
        with overlap.bounded():
            overlap._spend(5)
        overlap._spend(2)
        assert overlap._spent.get() == [7]
    assert overlap._spent.get() is None
