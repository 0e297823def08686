"""Orbits against the vectors, the paper, and exhaustive enumeration."""

from typing import Any

import pytest

from incidence.algebra import Pattern
from incidence.algebra.orbit import orbits
from incidence.errors import TooLargeError
from tests.cases import some
from tests.exact_numbers import load_cases, with_sorts

CASES = [
    pytest.param(pattern, case["sorts"], orbits, id=f"{case['id']}-{side}-{pattern}")
    for case in load_cases("patterns.json")
    for side in ("input", "output")
    for pattern, orbits in zip(
        case[side], case["orbits_in" if side == "input" else "orbits_out"], strict=True
    )
]


def as_data(orbit: Any) -> tuple:
    classes = [(c.sort, c.size, tuple(sorted(c.faces))) for c in orbit.classes]
    return orbit.size, orbit.symmetry, tuple(sorted(classes))


@pytest.mark.parametrize(("pattern", "sorts", "expected"), some(CASES))
def test_orbits_have_the_sizes_symmetries_and_classes_of_the_vectors(pattern, sorts, expected):
    found = sorted(as_data(orbit) for orbit in Pattern(with_sorts(pattern, sorts)).orbits)
    wanted = sorted(
        (
            o["m"],
            o["H"],
            tuple(
                sorted(
                    (c["sort"], c["size"], tuple(map(tuple, sorted(c["faces"]))))
                    for c in o["classes"]
                )
            ),
        )
        for o in expected
    )
    assert found == wanted


@pytest.mark.parametrize(
    ("text", "sizes"),
    [
        ("i j", [(1,), (1, 1)]),
        ("i {j k}", [(1, 1), (1, 2)]),
        ("{i j} {i k}", [(2,), (1, 1, 1)]),
        ("{i j} {k l}", [(2,), (1, 1, 1), (2, 2)]),
        ("[i j]", [(1,), (2,)]),
        ("[i j k]", [(1,), (1, 1), (3,)]),
        ("i j k", [(1,), (1, 1), (1, 1), (1, 1), (1, 1, 1)]),
        ("", [()]),
    ],
)
def test_class_sizes_are_those_of_the_table_of_orbits(text, sizes):
    assert [tuple(sorted(c.size for c in orbit.classes)) for orbit in Pattern(text).orbits] == sizes


def test_a_node_that_repeats_in_a_symmetric_face_has_its_place_twice():
    [diagonal, _] = Pattern("[i j]").orbits
    assert diagonal.classes[0].faces == ((0, -1), (0, -1))


@pytest.mark.parametrize(
    ("text", "families"),
    [
        ("{i ...}", ["{...}"]),
        ("i {i ...}", ["i {i ...}"]),
        ("i {j ...}", ["i {...}", "i {i ...}"]),
        ("{i ...} {i ...}", ["{...} {...}"]),
        ("{i j} {k ...}", ["{i j} {...}", "{i j} {i ...}", "{i j} {i j ...}"]),
        ("{i j} {i ...}", ["{i j} {i ...}", "{i j} {i j ...}"]),
        ("i:a {j:b ...}", ["i {...}"]),
    ],
)
def test_open_faces_have_one_family_for_each_way_to_meet_the_fixed_faces(text, families):
    assert sorted(map(str, Pattern(text).orbits)) == sorted(families)


def test_an_open_class_has_no_size_and_a_fixed_one_keeps_it():
    [family] = Pattern("i {i ...}").orbits
    assert [(c.faces, c.size) for c in family.classes] == [
        (((0, 0), (1, -1)), 1),
        (((1, -1),), None),
    ]
    assert family.size == 1
    assert family.is_open


def test_two_open_faces_have_three_open_classes():
    [family] = Pattern("{i ...} {j ...}").orbits
    assert [c.faces for c in family.classes] == [((0, -1),), ((0, -1), (1, -1)), ((1, -1),)]


def test_orbits_come_by_size_then_classes():
    orbits = Pattern("i j k l").orbits
    assert [o.order_key for o in orbits] == sorted(o.order_key for o in orbits)
    assert [o.size for o in orbits] == sorted(o.size for o in orbits)


def test_orbits_print_as_patterns_with_the_letters_of_their_pattern():
    assert [str(o) for o in Pattern("u:user v:user m:movie").orbits] == ["u u m", "u v m"]
    assert [str(o) for o in Pattern("{i j} {k l}").orbits] == [
        "{i j} {i j}",
        "{i j} {i k}",
        "{i j} {k l}",
    ]


def test_too_many_orbits_are_refused_with_a_count():
    with pytest.raises(TooLargeError, match="too many orbits to list"):
        _ = Pattern(" ".join("abcdefghijklmnop")).orbits
    with pytest.raises(TooLargeError, match="five open faces"):
        _ = Pattern("{i ...} " * 6).orbits


def test_more_than_50_000_orbits_are_refused_however_small_they_are():
    """Ten nodes have 115,975 orbits, whose lists would have fewer nodes than the work may be."""
    assert len(Pattern("a b c d e f g h").orbits) == 4_140
    with pytest.raises(TooLargeError, match="more than 50,001 at least"):
        _ = Pattern("a b c d e f g h i j").orbits


def test_the_work_is_the_number_of_nodes_of_the_orbits_met_at_one_step(monkeypatch):
    """The last of three letters joins one or two nodes: 1, 2, 2, 2 and 3 nodes in all."""
    monkeypatch.setattr("incidence.algebra.orbit._MAX_WORK", 10)
    assert len(orbits(Pattern("a b c"))) == 5
    monkeypatch.setattr("incidence.algebra.orbit._MAX_WORK", 9)
    with pytest.raises(TooLargeError, match="too many orbits to list"):
        orbits(Pattern("x y z"))
