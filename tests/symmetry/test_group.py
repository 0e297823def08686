"""Groups of permutations of nodes: order, membership, orbits."""

from math import factorial

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from incidence.errors import IncidenceError
from incidence.structure import Structure, collate
from incidence.symmetry import Group, automorphisms
from incidence.symmetry.group import connect, number_orbits
from tests.symmetry import solids


def cycles(degree: int, *given: tuple[int, ...]) -> list[int]:
    """A permutation from cycles, counted from 1."""
    row = list(range(degree))
    for cycle in given:
        for a, b in zip(cycle, cycle[1:] + cycle[:1], strict=True):
            row[a - 1] = b - 1
    return row


def closure(degree: int, generators: list[tuple[int, ...]]) -> set[tuple[int, ...]]:
    """All elements of a small group."""
    found = {tuple(range(degree))}
    todo = list(found)
    while todo:
        g = todo.pop()
        for h in generators:
            new = tuple(h[v] for v in g)
            if new not in found:
                found.add(new)
                todo.append(new)
    return found


@settings(max_examples=60, deadline=None)
@given(
    st.integers(1, 6).flatmap(
        lambda n: st.tuples(st.just(n), st.lists(st.permutations(range(n)), max_size=3))
    ),
    st.randoms(),
)
def test_order_and_membership_are_those_of_the_elements_listed(case, random):
    degree, generators = case
    group, elements = Group(degree, generators), closure(degree, [tuple(g) for g in generators])
    assert group.order == len(elements)
    for _ in range(20):
        permutation = random.sample(range(degree), degree)
        assert (permutation in group) == (tuple(permutation) in elements)


MATHIEU_24 = [
    [*range(1, 23), 0, 23],
    cycles(24, (3, 17, 10, 7, 9), (4, 13, 14, 19, 5), (8, 18, 11, 12, 23), (15, 20, 22, 21, 16)),
    cycles(
        24,
        (1, 24),
        (2, 23),
        (3, 12),
        (4, 16),
        (5, 18),
        (6, 10),
        (7, 20),
        (8, 14),
        (9, 21),
        (11, 17),
        (13, 22),
        (15, 19),
    ),
]

RUBIK = [  # the six faces of the cube puzzle, 48 moving stickers
    cycles(48, (1, 3, 8, 6), (2, 5, 7, 4), (9, 33, 25, 17), (10, 34, 26, 18), (11, 35, 27, 19)),
    cycles(
        48, (9, 11, 16, 14), (10, 13, 15, 12), (1, 17, 41, 40), (4, 20, 44, 37), (6, 22, 46, 35)
    ),
    cycles(
        48, (17, 19, 24, 22), (18, 21, 23, 20), (6, 25, 43, 16), (7, 28, 42, 13), (8, 30, 41, 11)
    ),
    cycles(
        48, (25, 27, 32, 30), (26, 29, 31, 28), (3, 38, 43, 19), (5, 36, 45, 21), (8, 33, 48, 24)
    ),
    cycles(
        48, (33, 35, 40, 38), (34, 37, 39, 36), (3, 9, 46, 32), (2, 12, 47, 29), (1, 14, 48, 27)
    ),
    cycles(
        48, (41, 43, 48, 46), (42, 45, 47, 44), (14, 22, 30, 38), (15, 23, 31, 39), (16, 24, 32, 40)
    ),
]


@pytest.mark.parametrize(
    ("degree", "generators", "order"),
    [
        (24, MATHIEU_24, 244_823_040),
        (48, RUBIK, 43_252_003_274_489_856_000),
        (60, [[*range(1, 60), 0]], 60),
        (40, [[*range(1, 40), 0], [1, 0, *range(2, 40)]], factorial(40)),
        (9, [cycles(9, (1, 2, 3)), cycles(9, tuple(range(1, 10)))], factorial(9) // 2),
        (7, [], 1),
        (0, [], 1),
    ],
    ids=["Mathieu 24", "cube puzzle", "cyclic", "symmetric", "alternating", "trivial", "no nodes"],
)
def test_orders_of_known_groups(degree, generators, order):
    assert Group(degree, generators).order == order


@pytest.mark.parametrize(
    "make",
    [solids.cube, solids.bipyramid, solids.soccer_ball, solids.petersen, lambda: solids.rook(3)],
)
def test_automorphisms_know_their_elements_as_the_group_of_their_generators_does(make):
    """One asks whether the entries are kept, the other the chain of stabilisers."""
    structure = make()
    kept = automorphisms(structure)
    group = Group(structure.counts, kept.generators)
    random = np.random.default_rng(0)
    element = np.arange(structure.num_nodes)
    for _ in range(20):
        element = np.asarray(kept.generators[random.integers(len(kept.generators))])[element]
        other = random.permutation(structure.num_nodes)
        swapped = element.copy()
        swapped[[0, 1]] = swapped[[1, 0]]
        assert element in kept
        assert element in group
        assert (other in kept) == (other in group)
        assert (swapped in kept) == (swapped in group)


def swaps(n: int) -> list[list[int]]:
    return [[*range(k), k + 1, k, *range(k + 2, n)] for k in range(n - 1)]


@pytest.mark.parametrize("n", [8, 13, 100, 300])
def test_all_permutations_are_known_by_any_generators_without_a_chain(n, monkeypatch):
    monkeypatch.setattr("sympy.combinatorics.PermutationGroup.schreier_sims", None)
    group = Group(n, swaps(n))
    assert group.order == factorial(n)
    assert [*range(1, n), 0] in group
    turns = [[*range(k), k + 1, k + 2, k, *range(k + 3, n)] for k in range(n - 2)]
    even = Group(n, turns)
    assert even.order == factorial(n) // 2
    assert turns[0] in even
    assert swaps(n)[0] not in even


def test_automorphisms_of_large_structures_know_their_elements_without_a_chain(monkeypatch):
    monkeypatch.setattr("sympy.combinatorics.PermutationGroup.schreier_sims", None)
    ring = automorphisms(solids.directed_cycle(2000))
    assert [*range(3, 2000), 0, 1, 2] in ring
    assert [1, 0, *range(2, 2000)] not in ring


def test_members_of_all_permutations_keep_their_sorts():
    group = Group.symmetric({"user": 300, "movie": 200})
    assert group.order == factorial(300) * factorial(200)
    assert {"user": [*range(1, 300), 0]} in group


def test_generators_that_do_not_keep_the_entries_are_refused_every_time():
    path = Structure(3, {"{i j}": torch.tensor([[0, 1], [1, 2]])})
    group = Group(3, [[1, 0, 2]])
    for _ in range(2):
        with pytest.raises(
            IncidenceError, match=r"generator 0 does not keep the entries of `\{i j\}`"
        ):
            group.orbits("{i j}", path)


def test_generators_that_move_different_nodes_make_a_direct_product():
    group = Group(300, [[*range(k), k + 1, k, *range(k + 2, 300)] for k in range(0, 300, 2)])
    assert group.order == 2**150
    assert len(group._factors) == 150
    assert [1, 0, *range(2, 300)] in group
    assert [2, 1, 0, *range(3, 300)] not in group
    assert [1, 2, 0, *range(3, 300)] not in group


def test_nodes_that_no_generator_moves_stay():
    group = Group(4, [[1, 0, 2, 3]])
    assert [1, 0, 3, 2] not in group
    assert [0, 1, 2, 3] in group


def test_sorts_are_permuted_each_on_its_own():
    group = Group({"user": 3, "movie": 2}, [{"user": [1, 2, 0]}, {"movie": [1, 0]}])
    assert group.order == 6
    assert {"user": [2, 0, 1], "movie": [1, 0]} in group
    assert {"user": [1, 0, 2]} not in group
    assert group.orbits("u:user").tolist() == [0, 0, 0]
    assert group.generators[0]["user"].tolist() == [1, 2, 0]
    assert group.generators[0]["movie"].tolist() == [0, 1]


@pytest.mark.parametrize("nodes", [0, 1, 2, 5, {"a": 3, "b": 1}])
def test_the_symmetric_group_has_all_permutations(nodes):
    group = Group.symmetric(nodes)
    counts = nodes.values() if isinstance(nodes, dict) else [nodes]
    assert group.order == np.prod([factorial(n) for n in counts])


@pytest.mark.parametrize(
    ("make", "text", "expected"),
    [
        (solids.cube, "i", 1),
        (solids.cube, "{i j}", 1),
        (solids.cube, "{i j k l}", 1),
        (solids.bipyramid, "i", 2),
        (solids.bipyramid, "{i j}", 2),
        (solids.bipyramid, "{i j k}", 2),
        (solids.bipyramid, "i {i j k}", 3),
        (solids.soccer_ball, "{i j}", 2),
        (solids.soccer_ball, "face", 2),
        (solids.soccer_ball, "", 1),
    ],
)
def test_entries_fall_into_the_known_numbers_of_orbits(make, text, expected):
    structure = make()
    orbits = automorphisms(structure).orbits(text)
    assert orbits.unique().tolist() == list(range(expected))
    assert orbits.shape == (structure.num_entries(text),)


def test_the_orbits_of_the_soccer_ball_are_pentagons_and_hexagons():
    ball = solids.soccer_ball()
    sizes = torch.bincount(ball["face"][1])
    assert torch.equal(automorphisms(ball).orbits("face"), (sizes == 6).long())


def test_orbits_on_another_structure_over_the_same_nodes():
    turn = Group(4, [[1, 2, 3, 0]])
    pairs = Structure.complete(4, ["{i j}"])
    assert torch.bincount(turn.orbits("{i j}", pairs)).tolist() in ([4, 2], [2, 4])


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 30), st.lists(st.tuples(st.integers(0, 29), st.integers(0, 29)), max_size=40))
def test_labels_of_joined_things_are_their_smallest_members(count, pairs):
    pairs = [(a % count, b % count) for a, b in pairs]
    parent = list(range(count))
    for _ in range(count):
        for a, b in pairs:
            parent[a] = parent[b] = min(parent[a], parent[b])
    one, other = torch.tensor(pairs, dtype=torch.long).view(-1, 2).T
    assert connect(torch.arange(count), one, other).tolist() == parent


def test_long_cycles_are_joined_in_few_rounds():
    turn = torch.arange(100_000).roll(1)
    assert not number_orbits(100_000, [turn])[0].any()


@pytest.mark.parametrize(
    "wrong", [[0, 1], [0, 0, 1], [0.0, 1.0, 2.0], [True, False, True], [[0, 1, 2]], "abc", None]
)
def test_what_is_no_permutation_is_refused(wrong):
    with pytest.raises(
        IncidenceError,
        match="generator 0: give a permutation of the 3 nodes of sort `node`, each of 0 to 2 once",
    ):
        Group(3, [wrong])


def test_generators_that_do_not_keep_the_entries_are_refused():
    path = Structure(3, {"{i j}": torch.tensor([[0, 1], [1, 2]])})
    with pytest.raises(
        IncidenceError,
        match=r"generator 0 does not keep the entries of `\{i j\}`: it takes entry 1",
    ):
        Group(path, [[1, 0, 2]])


def test_batches_other_nodes_and_unknown_sorts_are_refused():
    cube = solids.cube()
    with pytest.raises(IncidenceError, match="nodes of one structure; got a batch of 2"):
        Group(collate([cube, cube]))
    with pytest.raises(
        IncidenceError, match="the group permutes 8 nodes of one structure; got Structure"
    ):
        automorphisms(cube).orbits("{i j}", Structure.complete(5, ["{i j}"]))
    with pytest.raises(
        IncidenceError, match="generator 0: no nodes of sort `user` here; there are: node"
    ):
        Group(3, [{"user": [0, 1, 2]}])


def test_a_group_says_what_it_is():
    assert repr(Group(4, [[1, 2, 3, 0]])) == "Group(num_nodes=4, 1 generator, order=4)"
