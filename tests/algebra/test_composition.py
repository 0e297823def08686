"""The two bases and the product of maps, against their definitions by exhaustion."""

from collections.abc import Callable
from itertools import product
from math import comb

import pytest

from incidence.algebra import EquivariantMap, Pattern, composition, orbit_to_pool, pool_to_orbit
from incidence.algebra.maps import Operation
from incidence.errors import IncidenceError
from tests.algebra import brute_force, definition

MAPS = [
    "i j -> i j",
    "{i j} -> (i j)",
    "i {i j} -> i {i j}",
    "[i j] -> [i j]",
    "{i j} {i k} -> {i j}",
    "i, {i j} -> i, {i j}",
    "i:a j:b -> i:a",
    "{i:a j:a k:b} -> {i:a k:b}",
    "i, <i j>, <i j k> -> i, <i j>, <i j k>",
    "<i j k> <i j l> -> <i j>",
    "<i j> {i j} -> (i j)",
    "i <i j k> -> {i j} <i j k>",
    "<i:a j:a k:b> -> <i:a j:a> k:b",
]


@pytest.mark.parametrize("text", MAPS)
def test_the_changes_of_basis_are_inverse_to_each_other(text):
    m = EquivariantMap(text)
    for k in range(m.dimension):
        for there, back in ((pool_to_orbit, orbit_to_pool), (orbit_to_pool, pool_to_orbit)):
            total: dict[int, int] = {}
            for c, value in there(m, k).items():
                for d, other in back(m, c).items():
                    total[d] = total.get(d, 0) + value * other
            assert {d: v for d, v in total.items() if v} == {k: 1}


@pytest.mark.parametrize("text", MAPS)
def test_the_change_of_basis_is_unitriangular(text):
    m = EquivariantMap(text)
    for k in range(m.dimension):
        terms = pool_to_orbit(m, k)
        assert terms[k] == 1
        assert min(terms) == k


def class_sets(pattern: str, entry: tuple) -> dict[tuple, frozenset]:
    """The nodes of an entry by signature, worked out from the entry alone."""
    kinds = [face.kind.is_ordered for face in Pattern(pattern).faces]
    places: dict[tuple, list] = {}
    for d, nodes in enumerate(entry):
        for position, node in enumerate(nodes):
            places.setdefault(node, []).append((d, position if kinds[d] else -1))
    sets: dict[tuple, set] = {}
    for node, where in places.items():
        sets.setdefault((tuple(sorted(where)), node[0]), set()).add(node)
    return {key: frozenset(nodes) for key, nodes in sets.items()}


def matrix_of(
    m: EquivariantMap,
    operation: Operation,
    num_nodes: dict[str, int],
    value: Callable = definition.value,
) -> dict[tuple, int]:
    """B_A(y, x) from the definition of pooling and broadcasting; values belong to class sets in
    ascending order.
    """
    texts = str(m.inputs[operation.source.tensor]), str(m.outputs[operation.target.tensor])
    sides, odd = [], []
    for text, orbit in zip(texts, (operation.source.orbit, operation.target.orbit), strict=True):
        raw, sorts = brute_force.read(text)
        keys = [(c.faces, c.sort) for c in orbit.classes]
        sizes = {key: c.size for key, c in zip(keys, orbit.classes, strict=True)}
        found = []
        for entry in brute_force.entries(raw, sorts, num_nodes):
            sets = class_sets(text, entry)
            if {key: len(nodes) for key, nodes in sets.items()} == sizes:
                found.append((entry, [sets[key] for key in keys]))
        sides.append(found)
        odd.append([sum(raw[d].kind == "<" for d, _ in faces) % 2 == 1 for faces, _ in keys])
    values = {
        (y, x): value(xs, ys, *odd, operation.overlap) for (x, xs), (y, ys) in product(*sides)
    }
    return {place: value for place, value in values.items() if value}


@pytest.mark.parametrize("text", MAPS)
def test_operations_are_the_combinations_of_orbit_indicators_that_the_change_of_basis_says(text):
    m = EquivariantMap(text)
    num_nodes = dict.fromkeys(m.sorts, 4)
    indicators = [
        matrix_of(m, operation, num_nodes, definition.indicator) for operation in m.operations
    ]
    for k, operation in enumerate(m.operations):
        total: dict[tuple, int] = {}
        for c, factor in pool_to_orbit(m, k).items():
            # their supports are disjoint
            total |= {place: factor * value for place, value in indicators[c].items()}
        assert total == matrix_of(m, operation, num_nodes)


@pytest.mark.parametrize("text", [text for text in MAPS if "," not in text])
def test_the_operations_of_the_map_back_are_the_transposed_ones(text):
    m = EquivariantMap(text)
    back = EquivariantMap(" -> ".join(reversed(text.split(" -> "))))
    num_nodes = dict.fromkeys(m.sorts, 3)
    transposed = {
        (o.target.number, o.source.number, tuple(zip(*o.overlap, strict=True))): o
        for o in back.operations
    }
    for operation in m.operations:
        other = transposed[operation.source.number, operation.target.number, operation.overlap]
        expected = {(x, y): value for (y, x), value in matrix_of(m, operation, num_nodes).items()}
        assert matrix_of(back, other, num_nodes) == expected


def multiply(second: dict[tuple, int], first: dict[tuple, int]) -> dict[tuple, int]:
    by_middle: dict[tuple, list] = {}
    for (y, x), value in first.items():
        by_middle.setdefault(y, []).append((x, value))
    total: dict[tuple, int] = {}
    for (z, y), value in second.items():
        for x, other in by_middle.get(y, []):
            total[z, x] = total.get((z, x), 0) + value * other
    return {place: value for place, value in total.items() if value}


@pytest.mark.parametrize(
    ("first", "second", "num_nodes"),
    [
        ("{i j} -> {i j}", "{i j} -> {i j}", {"node": 4}),
        ("i j -> (i j)", "(i j) -> i j", {"node": 4}),
        ("{i j} -> i {i j}", "i {i j} -> [i j]", {"node": 4}),
        ("i, {i j} -> i, {i j}", "i, {i j} -> {i j}", {"node": 4}),
        ("i:a j:b -> i:a j:b", "i:a j:b -> j:b", {"a": 2, "b": 3}),
        ("{i:a j:a k:b} -> {i:a k:b}", "{i:a k:b} -> i:a", {"a": 3, "b": 2}),
        ("i -> ", " -> i", {"node": 3}),
        ("{i j k} -> {i j k}", "{i j k} -> {i j}", {"node": 3}),
        (
            "i, <i j>, <i j k> -> i, <i j>, <i j k>",
            "i, <i j>, <i j k> -> i, <i j>, <i j k>",
            {"node": 5},
        ),
        ("i j -> <i j>", "<i j> -> i j", {"node": 4}),
        ("{i j} -> <i j>", "<i j> -> {i j}", {"node": 4}),
        ("<i j k> -> {i j} <i j k>", "{i j} <i j k> -> <i j>", {"node": 4}),
        ("(i j k) -> <i j k>", "<i j k> -> (i j)", {"node": 4}),
        ("<i j> <j k> -> i <i j>", "i <i j> -> <i j>", {"node": 4}),
        ("<i:a j:a k:b> -> <i:a j:a> k:b", "<i:a j:a> k:b -> (i:a j:a)", {"a": 3, "b": 2}),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_products_of_operations_equal_products_of_their_matrices(first, second, num_nodes):
    one, other = EquivariantMap(first), EquivariantMap(second)
    result = one.compose(other)
    maps = dict.fromkeys((one, other, result.map))
    of = {m: [matrix_of(m, operation, num_nodes) for operation in m.operations] for m in maps}
    for a, b in product(range(one.dimension), range(other.dimension)):
        meets = one.operations[a].target[:2] == other.operations[b].source[:2]
        expected = multiply(of[other][b], of[one][a]) if meets else {}
        total: dict[tuple, int] = {}
        for c, polynomial in result[a, b].items():
            for place, value in of[result.map][c].items():
                total[place] = total.get(place, 0) + value * polynomial(num_nodes)
        assert {k: v for k, v in total.items() if v} == expected, (a, b)


@pytest.mark.parametrize(("m", "middle", "n"), [(2, 2, 2), (1, 2, 3), (3, 2, 3), (3, 3, 2)])
def test_undirected_products_follow_the_multiplication_rule(m, middle, n):
    def faces(size: int) -> str:
        return "{" + " ".join("ijkl"[:size]) + "}"

    first = EquivariantMap(f"{faces(m)} -> {faces(middle)}")
    second = EquivariantMap(f"{faces(middle)} -> {faces(n)}")
    result = first.compose(second)
    for i, j, num_nodes in product(range(first.dimension), range(second.dimension), range(6, 12)):
        for k in range(result.map.dimension):
            expected = 0
            if max(0, i + j - middle) <= k <= min(i, j):
                outside = comb(num_nodes - i - j, middle - i - j + k)
                expected = outside * comb(m - k, i - k) * comb(n - k, j - k)
            found = result[i, j].get(k)
            assert (found(num_nodes) if found else 0) == expected


def test_products_of_large_faces_take_no_time():
    quadruples = EquivariantMap("(i j k l) -> (i j k l)")
    assert {c: str(p) for c, p in quadruples.compose(quadruples)[0, 0].items()} == {
        0: "N^4 - 6 N^3 + 11 N^2 - 6 N"
    }
    assert {c: str(p) for c, p in quadruples.compose(quadruples)[208, 208].items()} == {208: "1"}
    twenty = "{" + " ".join(f"i{n}" for n in range(20)) + "}"
    assert (
        len(EquivariantMap(f"{twenty} -> {twenty}").compose(f"{twenty} -> {twenty}")[10, 10]) == 11
    )


def test_a_scalar_product_is_a_number_at_any_number_of_nodes():
    assert EquivariantMap(" -> ").compose(" -> ")[0, 0][0]({}) == 1


def test_names_of_the_outer_sides_are_kept_in_a_product():
    product_map = EquivariantMap("bond={i j} -> i").compose("i -> bond=i").map
    assert [p.name for p in product_map.inputs + product_map.outputs] == ["bond", "bond"]


def test_products_are_indexed_by_two_numbers_and_values_by_every_sort():
    edges = EquivariantMap("{i j} -> {i j}")
    with pytest.raises(IncidenceError, match="a product is indexed by two numbers"):
        edges.compose(edges)[0]
    rows = EquivariantMap("u:user m:movie -> u:user").compose("u:user -> m:movie")
    with pytest.raises(IncidenceError, match="needs a number of nodes for the sort `movie`"):
        rows[0, 0][0]({"user": 3})


def test_maps_that_do_not_fit_or_are_open_are_refused():
    with pytest.raises(IncidenceError, match=r"Swap them: `a.compose\(b\)` does a first"):
        EquivariantMap("i -> i j").compose(EquivariantMap("i j k -> i"))
    with pytest.raises(IncidenceError, match="outputs of the first must be the inputs"):
        EquivariantMap("i -> i j").compose(EquivariantMap("{i j} -> {i j k}"))
    with pytest.raises(IncidenceError, match="no complete structure"):
        EquivariantMap("i -> {i ...}").compose(EquivariantMap("{i ...} -> i"))
    with pytest.raises(IncidenceError, match="orbit basis is infinite"):
        pool_to_orbit(EquivariantMap("{i ...} -> i"), 0)


@pytest.mark.parametrize(
    ("n", "parts", "ways"),
    [(4, [2, 1], 12), (3, [], 1), (0, [0], 1), (2, [3], 0), (2, [2, 1], 0), (3, [2, -1], 0)],
)
def test_disjoint_sets_of_impossible_sizes_are_chosen_in_no_way(n, parts, ways):
    assert composition._multinomial(n, parts) == ways
