"""Posets: ranks, atoms, rows of elements, and the chain or the elements that a refusal names."""

from math import comb

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from incidence import geometry
from incidence.errors import IncidenceError
from tests.geometry.shapes import cube_order, grid_order
from tests.structure.listing import entries_of

modest = settings(deadline=None, max_examples=25, derandomize=True)
simplices = st.lists(st.sets(st.integers(0, 5), min_size=1, max_size=4), min_size=1, max_size=6)


def inclusions(sets):
    """All relations of a complex: proper inclusions of its faces."""
    faces = sorted({frozenset(part) for s in sets for part in _subsets(sorted(s))}, key=sorted)
    return [(tuple(sorted(a)), tuple(sorted(b))) for a in faces for b in faces if a < b], [
        tuple(sorted(face)) for face in faces
    ]


def _subsets(nodes):
    return [[v for k, v in enumerate(nodes) if bits >> k & 1] for bits in range(1, 1 << len(nodes))]


@pytest.mark.parametrize("dimension", [2, 3, 4])
def test_a_cube_has_its_faces_by_rank(dimension):
    found = geometry.poset(cube_order(dimension))
    assert geometry.faces(found).f_vector == tuple(
        comb(dimension, k) * 2 ** (dimension - k) for k in range(dimension)
    )
    assert [str(p) for p in found.patterns] == [
        "{i j}",
        *(f"rank{k}={{i ...}}" for k in range(2, dimension)),
    ]
    assert found.canonical()[0] == found


@modest
@given(simplices, st.randoms(use_true_random=False))
def test_the_order_of_inclusion_of_a_complex_is_that_complex(sets, random):
    relations, elements = inclusions(sets)
    found, rows = geometry.poset(
        random.sample(relations, len(relations)), elements, return_elements=True
    )
    assert rows["i"] == [x for x in elements if len(x) == 1]
    number = {x[0]: k for k, x in enumerate(rows["i"])}
    for text, level in rows.items():
        nodes = [
            tuple(v for _, v in entry[0]) for entry in entries_of(found, str(found.resolve(text)))
        ]
        assert nodes == [tuple(number[v] for v in x) for x in level]
    assert found.canonical()[0] == found


@modest
@given(st.randoms(use_true_random=False), st.integers(2, 3))
def test_covers_and_all_relations_in_any_order_tell_the_same(random, dimension):
    every = cube_order(dimension, with_top=True)
    covers = [(a, b) for a, b in every if b.count("*") == a.count("*") + 1]
    some = covers + random.sample(every, len(every) // 2)
    random.shuffle(some)
    assert geometry.poset(some) == geometry.poset(every)


def test_elements_stand_in_the_order_of_the_rows():
    found, rows = geometry.poset(
        [("b", "e"), ("a", "e"), ("b", "f"), ("c", "f"), ("e", "t"), ("f", "t")],
        return_elements=True,
    )
    assert rows == {"i": ["a", "b", "c"], "{i j}": ["e", "f"], "rank2": ["t"]}
    assert found["{i j}"].T.tolist() == [[0, 1], [1, 2]]


def test_elements_that_do_not_compare_are_numbered_by_appearance():
    _, rows = geometry.poset([("b", 7), (1, 7), (1, 8), (None, 8)], return_elements=True)
    assert rows["i"] == ["b", 1, None]


def test_a_least_element_is_the_empty_face():
    assert geometry.poset(
        [*cube_order(2), ("", "00"), ("", "01"), ("", "10"), ("", "11")]
    ) == geometry.poset(cube_order(2))


def test_elements_without_relations_are_nodes():
    assert geometry.poset([(0, "e"), (1, "e")], elements=[5, 6]).num_nodes == 4
    assert geometry.poset([], elements=[5]).num_nodes == 1


def test_hyperedges_of_a_poset_have_a_tensor_of_their_own():
    found = geometry.poset([(v, "abc") for v in "abc"] + [(v, "cd") for v in "cd"])
    assert repr(found) == "Structure(num_nodes=4, 'rank1={i ...}': 2 entries)"
    assert geometry.faces(found).boundary(1).shape == (2, 5)


def test_faces_of_one_rank_may_have_different_sizes():
    prism = [(v, v + w) for v, w in ("ab", "bc", "ca", "de", "ef", "fd", "ad", "be", "cf")]
    edges = {frozenset(x): x for _, x in prism}
    prism += [(w, v + w) for v, w in ("ab", "bc", "ca", "de", "ef", "fd", "ad", "be", "cf")]
    for face in ("abc", "def", "abed", "bcfe", "cadf"):
        prism += [
            (edges[frozenset(pair)], face) for pair in zip(face, face[1:] + face[:1], strict=True)
        ]
    found = geometry.faces(geometry.poset(prism))
    assert (found.f_vector, found.euler, found.is_manifold, found.is_orientable) == (
        (6, 9, 5),
        2,
        True,
        True,
    )


@pytest.mark.parametrize(
    ("flip", "orientable"), [(False, True), (True, False)], ids=["torus", "klein bottle"]
)
def test_surfaces_of_quadrilaterals(flip, orientable):
    found = geometry.faces(geometry.poset(grid_order(4, 5, flip)))
    assert (found.f_vector, found.euler, found.is_manifold, found.is_orientable) == (
        (20, 40, 20),
        0,
        True,
        orientable,
    )


@pytest.mark.parametrize(
    ("relations", "message"),
    [
        (
            [(1, 2), (2, 3), (3, 1)],
            r"the relations have a cycle: 1 < 2 < 3 < 1\. An order has none",
        ),
        ([("x", 1), ("y", 2), (1, 2), (2, 1)], "the relations have a cycle: (1 < 2 < 1|2 < 1 < 2)"),
        (
            [("a", "b"), ("b", "c"), ("d", "c")],
            (
                "not graded: 'c' is reached by chains of different length, 'd' < 'c' and 'a' < 'b'"
                " < 'c'"
            ),
        ),
        (
            [("a", "e"), ("b", "e"), ("a", "f"), ("b", "f")],
            "'e' and 'f' have the same minimal elements below them",
        ),
        (
            [("a", "e"), ("b", "f"), ("c", "f")],
            "'a' and 'e' have the same minimal elements below them",
        ),
        (
            [("a", "e"), ("b", "e"), ("a", "t"), ("b", "t"), ("c", "t")],
            "'e' is not below 't', but all minimal elements below it are",
        ),
        (
            [*cube_order(3), ("000", "diagonal"), ("011", "diagonal")],
            "'diagonal' is not below '0\\*\\*', but all minimal elements below it are",
        ),
        (
            [(1, 1)],
            (
                r"relations\[0\] must be a pair \(lower, upper\) of two different elements; got"
                r" \(1, 1\)"
            ),
        ),
        ([(1, 2), (1, 2, 3)], r"relations\[1\] must be a pair"),
        (["ab"], r"relations\[0\] must be a pair .* got 'ab'"),
        ([([], 1)], "pairs \\(lower, upper\\) of hashable elements"),
        (7, "relations must be a list of pairs"),
        ([], "the poset is empty"),
    ],
)
def test_orders_that_faces_cannot_tell_are_refused_with_what_shows_it(relations, message):
    with pytest.raises(IncidenceError, match=message):
        geometry.poset(relations)
