"""Dimensions and operations against the vectors, the paper and exhaustive enumeration."""

import pickle
from contextlib import nullcontext
from math import prod
from types import SimpleNamespace

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from incidence.algebra import EquivariantMap, Pattern
from incidence.algebra.counting import bell
from incidence.algebra.maps import num_orbits
from incidence.algebra.overlap import num_overlaps, overlap_at, overlaps
from incidence.errors import IncidenceError, PatternError, TooLargeError
from tests.algebra import brute_force
from tests.algebra.random_patterns import raw_patterns
from tests.cases import some
from tests.exact_numbers import VECTORS, load_cases, map_text, with_sorts

CASES = [
    pytest.param(case, id=f"{case['id']}-{map_text(case)}") for case in load_cases("patterns.json")
]
OPEN_CASES = [
    pytest.param(
        case["input"], case["output"], int(k), n, id=f"{case['input']} -> {case['output']}, k={k}"
    )
    for case in load_cases("open_faces.json")
    for k, n in case["params"].items()
]

# Section 15 of the mathematics: the dimension for many nodes, at 1, 2, ... nodes, and the biases.
KNOWN = {
    "i -> i": (2, [1, 2], 1),
    "i -> (i j)": (3, [0, 2, 3], 1),
    "(i j) -> (i j)": (7, [0, 2, 6, 7], 1),
    "i -> {i j}": (2, [0, 1, 2], 1),
    "{i j} -> {i j}": (3, [0, 1, 2, 3], 1),
    "(i j) -> {i j}": (4, [0, 1, 3, 4], 1),
    "(i j k) -> (i j k)": (34, [0, 0, 6, 24, 33, 34], 1),
    "{i j k} -> {i j k}": (4, [0, 0, 1, 2, 3, 4], 1),
    "(i j k) -> {i j k}": (8, [0, 0, 1, 4, 7, 8], 1),
    "i j -> i j": (15, [1, 8, 14, 15], 2),
    "i j -> i j k": (52, [1, 16, 41, 51, 52], 5),
    "i j k -> i j k": (203, [1, 32, 122, 187, 202, 203], 5),
    "i j k l -> i j k l": (4140, [1, 128, 1094, 2795, 3845, 4111, 4139, 4140], 15),
    "i {i j} -> i {i j}": (7, [0, 2, 6, 7], 1),
    "i {j k} -> i {j k}": (35, [0, 2, 14, 28, 34, 35], 2),
    "{i j} {i k} -> {i j} {i k}": (51, [0, 1, 14, 39, 50, 51], 2),
    "{i j} {k l} -> {i j} {k l}": (139, [0, 1, 14, 60, 107, 132, 138, 139], 3),
    "i {i j k} -> i {i j k}": (12, [0, 0, 2, 7, 11, 12], 1),
    "{i j} {i j k} -> {i j} {i j k}": (12, [0, 0, 2, 7, 11, 12], 1),
    "{i j k} {i j l} -> {i j k} {i j l}": (94, [0, 0, 1, 15, 50, 82, 93, 94], 2),
    "i {i j} {i j k} -> i {i j} {i j k}": (34, [0, 0, 6, 24, 33, 34], 1),
    "(i j) (j k) -> (i j) (j k)": (67, [0, 2, 24, 55, 66, 67], 2),
    "i, {i j} -> i, {i j}": (9, [1, 5, 8, 9], 2),
    "i, (i j) -> i, (i j)": (15, [1, 8, 14, 15], 2),
    "i, {i j}, {i j k} -> i, {i j}, {i j k}": (23, [1, 5, 13, 19, 22, 23], 3),
    "i, (i j), (i j k) -> i, (i j), (i j k)": (83, [1, 8, 38, 71, 82, 83], 3),
    "i:a j:b -> i:a j:b": (4, [1, 4], 1),
    "i:a j:a k:b -> i:a j:a k:b": (30, [1, 16, 28, 30], 2),
    "{i:a j:a k:b} -> {i:a j:a k:b}": (6, [0, 2, 4, 6], 1),
}


@pytest.mark.parametrize("case", some(CASES))
def test_dimension_listing_and_biases_are_those_of_the_vectors(case):
    m = EquivariantMap(map_text(case))
    assert m.dimension == case["params"]
    assert sum(1 for _ in m.operations) == case["params"]
    assert m.num_biases == case["bias"]
    assert m.enough_nodes == case["N_large"]


@pytest.mark.parametrize("case", some(CASES))
def test_dimension_at_small_numbers_of_nodes_is_that_of_the_vectors(case):
    m = EquivariantMap(map_text(case))
    for small in case["small_N"]:
        num_nodes = {sort: small["N"].get(sort, 0) for sort in m.sorts}
        assert m.dimension_at(num_nodes) == small["params"], num_nodes


@pytest.mark.parametrize(("text", "numbers"), KNOWN.items())
def test_every_row_of_the_table_of_known_counts(text, numbers):
    dimension, small, biases = numbers
    m = EquivariantMap(text)
    assert (m.dimension, m.num_biases, len(list(m.operations))) == (dimension, biases, dimension)
    assert [m.dimension_at(n) for n in range(1, len(small) + 1)] == small
    assert m.dimension_at(len(small) + 5) == dimension


@pytest.mark.parametrize(("source", "target", "k", "expected"), OPEN_CASES)
def test_open_faces_have_the_operations_of_the_vectors(source, target, k, expected):
    m = EquivariantMap(f"{source} -> {target}", max_overlap=k)
    assert m.dimension == expected
    assert len(list(m.operations)) == expected


def test_15_is_2_and_3_and_3_and_7():
    assert [b.count for b in EquivariantMap("i j -> i j").pairs] == [2, 3, 3, 7]


def test_52_is_2_and_3_and_9_and_21_and_4_and_13():
    by_sizes: dict[tuple[int, int], int] = {}
    for pair in EquivariantMap("i j -> i j k").pairs:
        sizes = pair.source.orbit.size, pair.target.orbit.size
        by_sizes[sizes] = by_sizes.get(sizes, 0) + pair.count
    assert by_sizes == {(1, 1): 2, (2, 1): 3, (1, 2): 9, (2, 2): 21, (1, 3): 4, (2, 3): 13}


@pytest.mark.parametrize("order", range(1, 7))
def test_node_tensors_have_bell_numbers_of_operations(order):
    nodes = " ".join("ijklmn"[:order])
    m = EquivariantMap(f"{nodes} -> {nodes}")
    assert m.dimension == bell(2 * order)
    assert m.dimension == sum(pair.count for pair in m.pairs)


@pytest.mark.parametrize("order", range(1, 11))
def test_tensors_with_a_sort_for_each_letter_have_powers_of_two(order):
    nodes = " ".join(f"{c}:{c}" for c in "abcdefghij"[:order])
    m = EquivariantMap(f"{nodes} -> {nodes}")
    assert m.dimension == len(list(m.operations)) == 2**order


@pytest.mark.parametrize(
    ("letters", "expected"), [("i", 2), ("i j", 9), ("i j k", 31), ("i j k l", 109)]
)
def test_symmetric_tensors_have_2_9_31_109_operations(letters, expected):
    m = EquivariantMap(f"[{letters}] -> [{letters}]")
    assert len(list(m.operations)) == m.dimension == expected


@given(raw_patterns("abc"), raw_patterns("xyz"), st.integers(0, 4), st.integers(0, 2))
@settings(max_examples=150, deadline=None)
def test_dimension_at_equals_the_orbits_on_pairs_found_by_exhaustion(source, target, nodes, others):
    sorts = source[1] | target[1]
    num_nodes = {sort: {"node": nodes, "b": others}[sort] for sort in set(sorts.values())}
    work = [prod(num_nodes[s] for s in side[1].values()) for side in (source, target)]
    assume(prod(work) <= 5000)
    text = f"{brute_force.write(source[0], sorts)} -> {brute_force.write(target[0], sorts)}"
    expected = brute_force.num_orbits_on_pairs(source[0], target[0], sorts, num_nodes)
    assert EquivariantMap(text).dimension_at(num_nodes) == expected


@pytest.mark.parametrize(
    "text",
    [
        "[i j] [i k] -> i",
        "[i j k] -> {i j}",
        "[i j] (k l) -> [i j]",
        "{i:a j:b} -> [i:a k:a]",
        "[i j] <j k> -> <i j>",
        "<i j k> (k l) -> <i j>",
    ],
)
def test_mixed_faces_agree_with_exhaustion(text):
    (source, source_sorts), (target, target_sorts) = map(brute_force.read, text.split(" -> "))
    sorts = source_sorts | target_sorts
    for n in range(1, 5):
        num_nodes = dict.fromkeys(set(sorts.values()), n)
        expected = brute_force.num_orbits_on_pairs(source, target, sorts, num_nodes)
        assert EquivariantMap(text).dimension_at(num_nodes) == expected


@given(raw_patterns("abc"), raw_patterns("xyz"))
@settings(max_examples=100, deadline=None)
def test_counting_equals_listing_and_the_transpose(source, target):
    left, right = (brute_force.write(*side) for side in (source, target))
    m = EquivariantMap(f"{left} -> {right}")
    assert m.dimension == len(list(m.operations)) == EquivariantMap(f"{right} -> {left}").dimension
    assert [num_orbits(p) for p in (Pattern(left), Pattern(right))] == [
        len(Pattern(p).orbits) for p in (left, right)
    ]


@pytest.mark.parametrize(
    "text", ["i {j ...} -> i {j ...}", "{i:a ...} {j:b ...} k:a -> {i:a ...}", "i j {k ...} -> i"]
)
@pytest.mark.parametrize("k", [0, 1, 2, 3])
def test_counting_equals_listing_for_open_faces(text, k):
    m = EquivariantMap(text, max_overlap=k)
    assert m.dimension == len(list(m.operations)) == sum(b.count for b in m.pairs)


def test_the_bound_on_open_overlap_leaves_fixed_faces_alone():
    assert EquivariantMap("(i j), {i ...} -> (i j)", max_overlap=0).dimension == 7 + 1


def test_one_node_of_open_faces_is_matched_at_most_if_nothing_is_said():
    [family] = Pattern("{i ...}").orbits
    assert list(overlaps(family.classes, family.classes)) == [((0,),), ((1,),)]
    assert (
        num_overlaps(family.classes, family.classes)
        == EquivariantMap("{i ...} -> {i ...}").dimension
        == 2
    )


def test_operations_come_in_the_documented_order():
    m = EquivariantMap("i j, {i j} -> i, i j")
    keys = [
        (
            o.source.tensor,
            o.target.tensor,
            o.source.orbit.order_key,
            o.target.orbit.order_key,
            o.overlap,
        )
        for o in m.operations
    ]
    assert keys == sorted(keys)


def golden_text() -> str:
    maps = [
        "i j -> i j k",
        "{i j} {i k} -> i {i j}",
        "u:user m:movie, u:user -> m:movie u:user",
        "[i j k] -> (i j)",
    ]
    lines = []
    for text in maps:
        lines.append(text)
        for k, o in enumerate(EquivariantMap(text).operations):
            places = f"{o.source.tensor}.{o.source.number} {o.target.tensor}.{o.target.number}"
            lines.append(
                f"{k} {places} {o.source.orbit} -> {o.target.orbit}"
                f" {[list(row) for row in o.overlap]}"
            )
    return "\n".join(lines) + "\n"


def test_the_order_of_operations_is_frozen():
    """Saved layers depend on it. If this fails, the order changed: put it back, do not write the
    file anew.
    """
    assert golden_text() == (VECTORS / "operations_golden.txt").read_text(encoding="utf-8")


def test_the_order_depends_on_meaning_and_not_on_spelling():
    one, other = EquivariantMap("{i j} {i k} -> i j"), EquivariantMap("{b a} {c b} -> x y")
    assert one == other
    assert hash(one) == hash(other)
    assert list(one.operations) == list(other.operations)


def test_operations_are_a_sequence_that_can_be_sliced_from_both_ends():
    operations = EquivariantMap("i j k -> i j").operations
    listed = list(operations)
    assert len(operations) == len(listed) == 52
    assert operations[-1] == listed[-1]
    assert operations[3:9] == listed[3:9]
    for step in (-7, -1, 1, 2, 3):
        assert operations[::step] == listed[::step]
    assert operations[50:2:-7] == listed[50:2:-7]
    assert [operations[k] for k in range(52)] == listed
    with pytest.raises(IndexError, match="out of range"):
        operations[52]


def test_a_huge_map_is_counted_and_sliced_but_not_listed():
    m = EquivariantMap("a b c d e f -> a b c d e f")
    assert m.dimension == 4_213_597
    assert len(m.operations[4_000_000:4_000_003]) == 3
    assert m.operations[4_000_000] == m.operations[4_000_000:4_000_001][0]
    with pytest.raises(TooLargeError, match="4,213,597 operations, more than the 1,000,000"):
        iter(m.operations)
    with pytest.raises(TooLargeError, match="a slice of 4,213,597"):
        m.operations[:]


def test_maps_with_too_many_pairs_of_orbits_are_counted_only():
    m = EquivariantMap("a b c d e f g h -> a b c d e f g h")
    assert m.dimension == bell(16)
    with pytest.raises(TooLargeError, match="17,139,600 pairs of orbits"):
        m.operations[0]


def test_thirty_plain_nodes_are_counted_at_once():
    nodes = " ".join(f"i{n}" for n in range(30))
    assert EquivariantMap(f"{nodes} -> {nodes}").dimension == bell(60)


def sets(count: int, size: int) -> str:
    return " ".join("{" + " ".join(f"{c}{n}" for n in range(size)) + "}" for c in "abcdefg"[:count])


HOSTILE = [sets(7, 9), sets(3, 8), sets(4, 4), "[" + " ".join(f"i{n}" for n in range(60)) + "]"]
SLOW = pytest.mark.exhaustive  # seconds each


@pytest.mark.parametrize("side", [HOSTILE[0], *(pytest.param(s, marks=SLOW) for s in HOSTILE[1:])])
def test_hostile_sizes_are_refused_and_do_not_hang(side):
    with pytest.raises(TooLargeError, match=r"too many|more than"):
        _ = EquivariantMap(f"{side} -> {side}").dimension


def test_any_operation_of_a_huge_block_is_found_by_counting():
    m = EquivariantMap("(a b c d e f g h j k l m) -> (a b c d e f g h j k l m)")
    assert m.dimension == 53_334_454_417
    assert m.operations[-1].overlap == tuple(
        tuple(int(i == j) for j in range(12)) for i in range(12)
    )
    assert len(m.operations[-3:]) == 3
    assert m.operations[10**8 : 10**8 + 1] == [m.operations[10**8]]


@pytest.mark.parametrize(
    "text",
    [
        "(i j k) -> (i j k)",
        "{i j k} {i l} -> {i j}",
        "i {j ...} -> {i ...}",
        "i:a {j:a k:b} -> {j:a k:b}",
        "<i j k> {k l} -> <i j> k",
    ],
)
def test_operations_found_by_counting_are_those_listed(text):
    m = EquivariantMap(text, max_overlap=2)
    for pair in m.pairs:
        classes = pair.source.orbit.classes, pair.target.orbit.classes
        assert [overlap_at(*classes, 2, k) for k in range(pair.count)] == list(
            overlaps(*classes, 2)
        )


def test_more_operations_than_len_can_say_are_counted_still():
    nodes = " ".join(f"i{n}" for n in range(19))
    operations = EquivariantMap(f"{nodes} -> {nodes}").operations
    assert operations
    assert not EquivariantMap("<i j> -> ").operations
    with pytest.raises(TooLargeError, match="more than len"):
        len(operations)
    with pytest.raises(TooLargeError, match="a slice of"):
        EquivariantMap(f"({nodes}) -> ({nodes})").operations[:]


@pytest.mark.parametrize("most", [14, 15])
def test_len_says_as_many_operations_as_it_can(most, monkeypatch):
    monkeypatch.setattr("incidence.algebra.maps.sys", SimpleNamespace(maxsize=most))
    operations = EquivariantMap("i j -> i j").operations
    with nullcontext() if most == 15 else pytest.raises(TooLargeError, match="more than len"):
        assert len(operations) == 15


def test_many_like_tensors_are_counted_once():
    side = ", ".join(["i {j k}"] * 200)
    assert EquivariantMap(f"{side} -> {side}").dimension == 200 * 200 * 35


@pytest.mark.parametrize("value", [-1, 1.5, True, "2", 65])
def test_max_overlap_is_a_small_count(value):
    with pytest.raises(IncidenceError, match="max_overlap is a number of matched nodes"):
        EquivariantMap("{i ...} -> i", max_overlap=value)


def test_dimension_at_refuses_open_faces_and_bad_counts():
    with pytest.raises(IncidenceError, match="open faces"):
        EquivariantMap("{i ...} -> i").dimension_at(3)
    with pytest.raises(IncidenceError, match="needs a number of nodes for the sort `b`"):
        EquivariantMap("i:a -> j:b").dimension_at({"a": 3})
    with pytest.raises(IncidenceError, match="at least 0; got -1"):
        EquivariantMap("i -> i").dimension_at(-1)
    with pytest.raises(
        IncidenceError, match=r"an integer, or a mapping from sort to integer; got 3\.0"
    ):
        EquivariantMap("i -> i").dimension_at(3.0)
    with pytest.raises(IncidenceError, match="has no sort 'typo'"):
        EquivariantMap("i -> i").dimension_at({"node": 3, "typo": 4})


def test_maps_are_values():
    m = EquivariantMap("bond={i j}, contact={i j} -> i")
    assert pickle.loads(pickle.dumps(m)) == m
    assert EquivariantMap(str(m)) == m
    assert repr(m) == "EquivariantMap('bond={i j}, contact={i j} -> i')"
    assert m != EquivariantMap("contact={i j}, bond={i j} -> i")
    assert EquivariantMap("{i ...} -> i", 1) != EquivariantMap("{i ...} -> i", 2)
    assert EquivariantMap("i -> i", 1) == EquivariantMap("i -> i", 2)
    with pytest.raises(AttributeError, match="cannot be changed"):
        m.inputs = ()
    with pytest.raises(AttributeError, match="cannot be changed"):
        del m.inputs
    with pytest.raises(TypeError, match="does not support item assignment"):
        m.enough_nodes["node"] = 99


def test_a_name_means_one_support_throughout_a_map():
    assert EquivariantMap("bond={i j} -> bond={a b}").dimension == 3
    with pytest.raises(PatternError, match=r"means `{i j}` left of the arrow"):
        EquivariantMap("bond={i j} -> bond=(i j)")


def test_maps_between_patterns_rename_letters_that_clash():
    m = EquivariantMap.between([Pattern("i:a j:b")], [Pattern("{i:b j:b}")])
    assert m.inputs == (Pattern("i:a j:b"),)
    assert m.outputs == (Pattern("{x:b y:b}"),)


def test_vectors_with_sorts_are_written_with_sorts():
    assert with_sorts("i {j k}", {"i": "a", "j": "b", "k": "b"}) == "i:a {j:b k:b}"
