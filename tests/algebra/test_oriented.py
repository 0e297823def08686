"""Oriented faces in the algebra: exact numbers, signs of spellings, words, and names of familiar
operations.
"""

import json
from itertools import combinations, product
from math import prod

import pytest

from incidence.algebra import EquivariantMap, Pattern, explain, read
from incidence.algebra.overlap import overlaps
from incidence.algebra.words import levels, overlap_of, sign_of, words
from incidence.errors import PatternError
from tests.algebra import definition
from tests.cases import some
from tests.exact_numbers import VECTORS, map_text, with_sorts

DATA = json.loads((VECTORS / "oriented.json").read_text(encoding="utf-8"))
MAPS = [pytest.param(case, id=f"{case['id']}-{map_text(case)}") for case in DATA["maps"]]


@pytest.mark.parametrize(("one", "other", "is_equal"), DATA["equal"])
def test_patterns_are_equal_by_meaning_with_sign(one, other, is_equal):
    assert (Pattern(one) == Pattern(other)) is is_equal
    assert (Pattern(one).sign == Pattern(other).sign) or not is_equal
    assert hash(Pattern(one)) == hash(Pattern(other)) or not is_equal


@pytest.mark.parametrize("text", DATA["refused"])
def test_texts_that_are_no_patterns_are_refused(text):
    with pytest.raises(PatternError, match="Hint: "):
        Pattern(text)


@pytest.mark.parametrize("case", some(MAPS))
def test_dimensions_and_biases_are_those_of_the_vectors(case):
    m = EquivariantMap(map_text(case))
    assert (m.dimension, m.num_biases, dict(m.enough_nodes)) == (
        case["params"],
        case["bias"],
        case["N_large"],
    )
    for small in case["small_N"]:
        assert (
            m.dimension_at({sort: small["N"].get(sort, 0) for sort in m.sorts}) == small["params"]
        )


@pytest.mark.parametrize("case", some(MAPS))
def test_operations_and_their_order_are_those_of_the_vectors(case):
    listed = [
        {
            "pattern_in": o.source.tensor,
            "pattern_out": o.target.tensor,
            "orbit_in": o.source.number,
            "orbit_out": o.target.number,
            "overlap": [list(row) for row in o.overlap],
        }
        for o in EquivariantMap(map_text(case)).operations
    ]
    assert len(listed) == case["params"]
    assert listed == case.get("ops", listed)


@pytest.mark.parametrize("case", some(MAPS))
def test_orbits_are_those_of_the_vectors_with_odd_classes_and_biases(case):
    for side, key in (("input", "orbits_in"), ("output", "orbits_out")):
        for pattern, expected in zip(case[side], case[key], strict=True):
            found = [
                {
                    "m": orbit.size,
                    "H": orbit.symmetry,
                    "bias": orbit.has_bias,
                    "classes": [
                        {
                            "sort": c.sort,
                            "size": c.size,
                            "faces": [list(f) for f in c.faces],
                            "odd": c.is_odd,
                        }
                        for c in orbit.classes
                    ],
                }
                for orbit in Pattern(with_sorts(pattern, case["sorts"])).orbits
            ]
            assert found == expected


@pytest.mark.parametrize(
    "text", ["<i j>->i", "<i j>->", "->i <i j>", "<i j>,i-><i j>", "flow=<i j>->flow=<a b>"]
)
def test_an_arrow_may_follow_a_face_that_is_closed_by_its_bracket(text):
    assert EquivariantMap(str(EquivariantMap(text))) == EquivariantMap(text)


@pytest.mark.parametrize(
    "text", ["i <i j>", "i <j i>", "<i:a j:b> i:a", "flow=<i j> <j k>", "<i j> <j i>"]
)
def test_the_sign_survives_renaming_and_unnaming(text):
    pattern = Pattern(text)
    renamed = pattern.rename(dict(zip(pattern.letters, "zyx", strict=False)))
    assert renamed == pattern
    assert pattern.unnamed().sign == renamed.sign == pattern.sign


def test_a_name_means_one_orientation_throughout_a_map():
    assert EquivariantMap("flow=i <i j> -> flow=a <a b>").dimension == 7
    with pytest.raises(PatternError, match="means `i <i j>` left of the arrow"):
        EquivariantMap("flow=i <i j> -> flow=i <j i>")


def test_operations_and_orbits_do_not_depend_on_the_sign():
    one, other = EquivariantMap("i <i j> -> <i j>"), EquivariantMap("i <j i> -> <i j>")
    assert one != other
    assert [o.overlap for o in one.operations] == [o.overlap for o in other.operations]
    assert one.inputs[0].orbits == other.inputs[0].orbits


def test_a_matrix_is_its_diagonal_and_its_symmetric_and_antisymmetric_parts():
    assert (
        EquivariantMap("i, {i j}, <i j> -> i, {i j}, <i j>").dimension
        == EquivariantMap("i j -> i j").dimension
        == 15
    )


def faces(size: int) -> str:
    return f"<{' '.join('ijklmnop'[:size])}>"


@pytest.mark.parametrize(("size", "other"), list(product(range(1, 6), repeat=2)))
def test_faces_of_two_sizes_have_two_one_or_no_operations(size, other):
    expected = {0: 2, 1: 1}.get(abs(size - other), 0)
    assert EquivariantMap(f"{faces(size)} -> {faces(other)}").dimension == expected


def test_an_odd_class_that_nothing_matches_has_no_operation():
    assert list(overlaps((), Pattern("<i j>").orbits[0].classes)) == []
    assert "y[" not in str(explain(" -> <i j>"))
    assert [
        len(pair["operations"]) for pair in explain("i:a, -> <k:b j:b>, i:a").data()["blocks"]
    ] == [0, 2, 0, 1]


def test_many_beginnings_that_lead_nowhere_do_not_hang():
    letters = " ".join(f"i{n}" for n in range(30))
    assert len(list(EquivariantMap(f"({letters}) -> <{letters}>").operations)) == 31
    few = " ".join(f"i{n}" for n in range(9))
    assert EquivariantMap(f"({few}) -> <{few}> <{few.replace('i', 'j')}>").pairs[-1].count == 0


def sign_of_entry(classes, sets, key):
    """The sign with which an entry writes to a key: the rank in its class of each node that is left
    out.
    """
    return prod(
        (-1) ** sorted(nodes).index(v)
        for c, nodes in zip(classes, sets, strict=True)
        if c.is_odd
        for v in nodes - key
    )


def by_words(source, target, x, y, a):
    """B_A(y, x) by keys and words: over all common keys, the signs of both entries times that of
    the block.
    """
    total = 0
    word_of = [{node: i for i, nodes in enumerate(sets) for node in nodes} for sets in (x, y)]
    shared = sorted(word_of[0].keys() & word_of[1].keys())
    for size in range(len(shared) + 1):
        for key in combinations(shared, size):
            u, w = (tuple(word[node] for node in key) for word in word_of)
            level = tuple(sorted(node[0] for node in key))
            is_word = u in words(source, level, 1) and w in words(target, level, 1)
            if is_word and overlap_of(u, w, len(source), len(target)) == a:
                total += (
                    sign_of(source, target, u, w)
                    * sign_of_entry(source, x, set(key))
                    * sign_of_entry(target, y, set(key))
                )
    return total


def class_sets(classes, names):
    """Sets of the right sizes, filled with nodes in the order given."""
    left = {sort: iter([(sort, n) for n in names]) for sort in {c.sort for c in classes}}
    return [frozenset(next(left[c.sort]) for _ in range(c.size)) for c in classes]


@pytest.mark.parametrize(
    "text",
    [
        "<i j k> -> <i j k>",
        "<i j k> -> (i j k)",
        "<i j> {i j k} -> <i j k>",
        "(i j) <j k> -> <i j> <j k>",
        "i <i j k> -> {i j} <i j k>",
        "<i j k l> -> <i j> {k l}",
        "<i:a j:a k:b> -> <i:a j:a> k:b",
    ],
)
def test_words_on_keys_with_their_signs_are_the_operations(text):
    m = EquivariantMap(text)
    orders = [(0, 1, 2, 3), (3, 0, 2, 1), (1, 4, 0, 2), (2, 5, 1, 0)]
    for operation in m.operations:
        source, target = operation.source.orbit.classes, operation.target.orbit.classes
        odd = [[c.is_odd for c in side] for side in (source, target)]
        for one, other in product(orders, repeat=2):
            x, y = class_sets(source, one), class_sets(target, other)
            assert by_words(source, target, x, y, operation.overlap) == definition.value(
                x, y, *odd, operation.overlap
            )


def test_keys_leave_out_at_most_one_node_of_an_odd_class():
    [orbit] = Pattern("<i j k> {l:b m:b}").orbits
    assert set(levels(orbit.classes, 1)) == {
        ("b",) * b + ("node",) * n for b in (0, 1, 2) for n in (2, 3)
    }
    assert words(orbit.classes, ("node",), 1) == ()


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("<i j> -> i", ["boundary (divergence)"]),
        ("i -> <i j>", ["coboundary (gradient)"]),
        ("<i j> -> <i j k>", ["coboundary (curl)"]),
        ("<i j k> -> <i j>", ["boundary"]),
        ("<i j k l> -> <i j k>", ["boundary"]),
        ("<i j> -> <i j>", ["down Laplacian", "match i, j"]),
        ("<i j> -> {i j}", ["divergences of both ends"]),
        ("{i j} -> <i j>", ["gradient of sums at nodes"]),
        ("(i j) -> <i j>", ["sum over i", "sum over j", "antisymmetric part"]),
        ("<i j> -> (i j)", ["signed sum over j", "signed sum over j", "antisymmetric matrix"]),
        ("<i j> -> [i j]", ["signed sum over j", "signed sum over j"]),
    ],
)
def test_familiar_operations_are_called_by_their_names(text, names):
    found = [read(operation).words for operation in EquivariantMap(text).operations]
    assert len(found) == len(names)
    for words_of, name in zip(found, names, strict=True):
        assert name in words_of.replace(": ", "; ").split("; ")


def test_formulas_are_written_in_the_order_in_which_no_sign_is_left():
    assert [str(operation) for operation in EquivariantMap("<i j> -> i, <i j>").operations] == [
        "y[i] = sum_j x[<j i>]: boundary (divergence): signed sum over j; match i",
        (
            "y[<a i>] = sum_j x[<j i>]: down Laplacian: signed sum over j; match i; copy along a;"
            " add up the two choices of i, with signs"
        ),
        "y[<i j>] = x[<i j>]: match i, j",
    ]
    assert [str(orbit) for orbit in Pattern("<j i> <j k>").orbits] == ["<j i> <j i>", "<i j> <j k>"]


def test_explanations_say_what_an_oriented_face_means():
    assert "x[<j i>] = -x[<i j>]" in str(explain("<i j> -> i"))
    assert "x[<j i>]" not in str(explain("{i j} -> i"))
    assert "the paper does not treat oriented faces" in " ".join(str(explain("<i j> -> i")).split())
