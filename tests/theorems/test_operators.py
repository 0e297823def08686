"""The nine operators, the rule by which they multiply, and what is left of carried features."""

from itertools import combinations, product
from math import comb

import pytest
import torch

from incidence.algebra import EquivariantMap, counting
from incidence.errors import IncidenceError
from incidence.structure import Structure
from incidence.theorems import carry_rank, multiplication_rule, nine_operators, recovered


def operator(m: int, n: int, i: int, num_nodes: int) -> torch.Tensor:
    """C(|x n y|, i) on the complete structure, by definition."""
    xs, ys = (list(map(set, combinations(range(num_nodes), size))) for size in (m, n))
    return torch.tensor([[comb(len(x & y), i) for x in xs] for y in ys], dtype=torch.float64).view(
        len(ys), len(xs)
    )


CASES = [
    (m, mid, n, i, j)
    for m, mid, n in product((1, 2, 3), repeat=3)
    for i in range(min(m, mid) + 1)
    for j in range(min(mid, n) + 1)
]


@pytest.mark.parametrize("num_nodes", [3, 5, 7])
def test_products_of_operators_have_the_constants_of_the_rule(num_nodes):
    for m, mid, n, i, j in CASES:
        expected = sum(
            float(value({"node": num_nodes})) * operator(m, n, k, num_nodes)
            for k, value in multiplication_rule(m, mid, n, i, j).items()
        )
        assert torch.allclose(
            operator(mid, n, j, num_nodes) @ operator(m, mid, i, num_nodes),
            torch.as_tensor(expected, dtype=torch.float64),
        )


def test_the_rule_is_what_composition_gives():
    edges = EquivariantMap("{i j} -> {i j}")
    for i, j in product(range(3), repeat=2):
        assert edges.compose(edges)[i, j] == multiplication_rule(2, 2, 2, i, j)


def test_the_constants_depend_on_the_number_of_nodes_and_may_vanish():
    """The paper's sign for 'up to constants' hides this: on two nodes the square of an operator
    loses a term.
    """
    terms = multiplication_rule(2, 2, 2, 1, 1)
    assert [terms[k]({"node": 2}) for k in (0, 1)] == [4, 0]


@pytest.mark.parametrize(
    "numbers", [("a", 1, 1, 1, 0), (2.5, 2, 2, 1, 1), (2, 2, 2, 1, None), (2, 2, 2, True, 1)]
)
def test_sizes_that_are_no_whole_numbers_are_refused(numbers):
    with pytest.raises(IncidenceError, match="multiplication_rule takes five whole numbers"):
        multiplication_rule(*numbers)


def test_operators_that_keep_too_many_nodes_are_refused():
    with pytest.raises(
        IncidenceError, match="an operator matches at most as many nodes as its faces have"
    ):
        multiplication_rule(1, 2, 2, 2, 1)


def test_the_table_has_nine_operators_and_each_sends_edges_to_nodes_as_its_name_says():
    table = nine_operators()
    named = [name for row in table.values() for name in row if name != "-"]
    assert len(named) == len(set(named)) == EquivariantMap("i, {i j} -> i, {i j}").dimension == 9
    # the paper has W(2->2)_1 twice
    assert table["partially pooled edges"] == ("W(2->1)_1", "W(2->2)_1")


FACES = {1: "i", 2: "(i j)", 3: "(i j k)"}


@pytest.mark.parametrize(("a", "b"), list(product((1, 2), repeat=2)))
def test_directed_faces_carried_on_larger_ones_lose_no_map(a, b):
    complete = Structure.complete(5, list(FACES.values())[1:])
    assert recovered(complete, FACES[a], FACES[b], FACES[3]) == counting.tau(a, b)


@pytest.mark.slow
@pytest.mark.parametrize(("a", "b"), [(1, 3), (3, 1), (2, 3), (3, 2), (3, 3)])
def test_directed_faces_carried_on_triples_lose_no_map(a, b):
    complete = Structure.complete(6, list(FACES.values())[1:])
    assert recovered(complete, FACES[a], FACES[b], FACES[3]) == counting.tau(a, b)


def test_nodes_carried_on_the_node_edge_incidence_give_back_all_15():
    complete = Structure.complete(5, ["i {i j}"])
    carried = {
        (a, b): recovered(complete, a, b, "i {i j}") for a, b in product(("i", "i {i j}"), repeat=2)
    }
    assert list(carried.values()) == [2, 3, 3, 7]


def test_nodes_carried_on_edges_are_lost_on_two_nodes_and_on_bipartite_parts():
    assert [carry_rank(Structure.complete(n, ["{i j}"]), "i", "{i j}") for n in (2, 3, 4)] == [
        1,
        3,
        4,
    ]
    square_and_triangle = Structure(
        7, {"{i j}": torch.tensor([[0, 1, 2, 3, 4, 5, 6], [1, 2, 3, 0, 5, 6, 4]])}
    )
    assert carry_rank(square_and_triangle, "i", "{i j}") == 7 - 1


@pytest.mark.parametrize(
    ("m", "large", "n"), [(1, 2, 4), (2, 3, 4), (2, 3, 5), (1, 3, 4), (1, 3, 3)]
)
def test_sets_carried_on_larger_sets_are_kept_iff_there_is_room(m, large, n):
    texts = ["{" + " ".join("ijkl"[:size]) + "}" for size in (m, large)]
    complete = Structure.complete(n, [t for t in texts if t != "{i}"])
    assert (carry_rank(complete, *texts) == comb(n, m)) == (m <= n - large)


def test_nodes_in_no_edge_are_lost_when_carried():
    sparse = Structure(4, {"i {i j}": torch.tensor([[0, 1], [1, 0]])})
    assert carry_rank(sparse, "i", "i {i j}") == 2
