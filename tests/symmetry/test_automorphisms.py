"""The automorphisms of a structure: known orders, exhaustion, and two engines that agree."""

import sys
from itertools import permutations, product
from math import factorial

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import incidence as inc
from incidence.errors import IncidenceError, MissingExtraError, TooLargeError
from incidence.structure import Structure, collate
from incidence.symmetry import automorphisms
from incidence.symmetry.search import coloured_graph, find_symmetries
from tests.data_folder import data_folder
from tests.structure.listing import entries_of
from tests.structure.random_structures import random_structure
from tests.symmetry import solids

MODULE = sys.modules["incidence.symmetry.automorphisms"]  # by name it is the function

KNOWN = {
    "cube": (solids.cube, 48),
    "icosahedron": (solids.icosahedron, 120),
    "triangular bipyramid": (solids.bipyramid, 12),
    "soccer ball": (solids.soccer_ball, 120),
    "24-cell": (solids.cell_24, 1152),
    "Petersen": (solids.petersen, 120),
    "directed 9-cycle": (lambda: solids.directed_cycle(9), 9),
    "directed 100-cycle": (lambda: solids.directed_cycle(100), 100),
    "K_5": (lambda: Structure.complete(5, ["{i j}"]), factorial(5)),
    "K_50": (lambda: Structure.complete(50, ["{i j}"]), factorial(50)),
    "K_20, directed": (lambda: Structure.complete(20, ["(i j)"]), factorial(20)),
    "Paley 29": (lambda: solids.paley(29), 29 * 14),
    "rook 5": (lambda: solids.rook(5), 2 * factorial(5) ** 2),
    "no entries": (
        lambda: Structure(6, {"{i j}": torch.zeros(2, 0, dtype=torch.long)}),
        factorial(6),
    ),
    "no tensors": (lambda: Structure({"a": 3, "b": 2}), 12),
    "no nodes": (lambda: Structure(0), 1),
}


def engine(name: str) -> str:
    if name == "pynauty":
        pytest.importorskip(
            "pynauty",
            reason="the optional engine is not installed: pip install 'incidence[symmetry]'",
        )
    return name


@pytest.mark.parametrize("name", ["python", "pynauty", "auto"])
@pytest.mark.parametrize("case", KNOWN)
def test_known_objects_have_the_known_numbers_of_automorphisms(case, name):
    make, order = KNOWN[case]
    assert automorphisms(make(), engine(name)).order == order


@pytest.mark.parametrize(
    "case",
    [
        "cube",
        "icosahedron",
        "triangular bipyramid",
        "soccer ball",
        "24-cell",
        "Petersen",
        "Paley 29",
    ],
)
def test_the_order_that_the_search_counts_is_that_of_the_group_its_generators_make(case):
    group = automorphisms(KNOWN[case][0](), "python")
    assert inc.Group(group.structure, group.generators).order == group.order


@pytest.mark.parametrize("case", KNOWN)
def test_there_are_fewer_generators_than_nodes(case):
    group = automorphisms(KNOWN[case][0](), "python")
    assert len(group.generators) <= max(0, group.structure.total_nodes - 1)


def keeps(tensors: list[tuple[inc.Pattern, set]], g: dict[str, tuple[int, ...]]) -> bool:
    return all(
        sort_faces([[(s, g[s][v]) for s, v in face] for face in entry], pattern) in listed
        for pattern, listed in tensors
        for entry in listed
    )


def entries_by_pattern(structure: Structure) -> list[tuple[inc.Pattern, set]]:
    return [
        (pattern, {sort_faces(e, pattern) for e in entries_of(structure, str(pattern))})
        for pattern in structure.patterns
    ]


def sort_faces(entry, pattern) -> tuple:
    return tuple(
        tuple(f) if face.kind.is_ordered else tuple(sorted(f))
        for f, face in zip(entry, pattern.faces, strict=True)
    )


def all_automorphisms(structure: Structure) -> list[dict[str, tuple[int, ...]]]:
    sorts, tensors = structure.counts, entries_by_pattern(structure)
    every = product(*(permutations(range(n)) for n in sorts.values()))
    return [g for parts in every if keeps(tensors, g := dict(zip(sorts, parts, strict=True)))]


TENSORS = [
    ["{i j}"],
    ["(i j)"],
    ["i j"],
    ["[i j]"],
    ["{i j k}"],
    ["i {i j}", "{i j}"],
    ["(i j) (j k)"],
    ["{i j} {k l}"],
    ["{i ...}"],
    ["i {i ...}"],
    ["one={i j}", "two={i j}"],
    ["(i j)", "{i j k}"],
    ["u:user m:movie"],
    ["u:user m:movie", "{u:user v:user}"],
    ["{i:a j:a k:b}"],
]


@pytest.mark.parametrize("texts", TENSORS, ids=", ".join)
@settings(max_examples=12, deadline=None)
@given(st.integers(0, 5), st.integers(0, 10**6), st.integers(1, 12))
def test_the_engines_agree_with_exhaustion_and_each_other(texts, num_nodes, seed, draws):
    sorts = {letter.sort for t in texts for face in inc.Pattern(t).faces for letter in face.letters}
    assert_exhaustive(
        random_structure(min(num_nodes, 4) if len(sorts) > 1 else num_nodes, texts, seed, draws)
    )


@pytest.mark.parametrize(("num_nodes", "seed"), [(6, 0), (6, 1), (6, 2), (7, 3)])
def test_the_engines_agree_with_exhaustion_on_seven_nodes(num_nodes, seed):
    assert_exhaustive(random_structure(num_nodes, ["{i j}", "(i j)"], seed, 3))


def assert_exhaustive(structure: Structure) -> None:
    listed = all_automorphisms(structure)
    group = automorphisms(structure, "python")
    assert group.order == len(listed)
    assert all(g in group for g in listed)
    assert automorphisms(structure, engine("pynauty")).order == len(listed)


@settings(max_examples=30, deadline=None)
@given(st.integers(2, 40), st.integers(0, 10**6), st.floats(0.3, 2.5))
def test_the_engines_agree_on_larger_random_graphs(num_nodes, seed, degree):
    pytest.importorskip(
        "pynauty", reason="the optional engine is not installed: pip install 'incidence[symmetry]'"
    )
    generator = torch.Generator().manual_seed(seed)
    pairs = torch.triu_indices(num_nodes, num_nodes, 1)
    graph = Structure(
        num_nodes,
        {"{i j}": pairs[:, torch.rand(pairs.shape[1], generator=generator) < degree / num_nodes]},
    )
    ours, theirs = automorphisms(graph, "python"), automorphisms(graph, "pynauty")
    assert ours.order == theirs.order
    assert all(g in ours for g in theirs.generators)
    assert torch.equal(ours.orbits("i"), theirs.orbits("i"))


def test_presence_counts_and_the_order_of_entries_does_not():
    edges = torch.tensor([[0, 1, 2, 3], [1, 2, 3, 0]])
    square = Structure(4, {"{i j}": edges})
    assert (
        automorphisms(square.select("{i j}", [2, 0, 3, 1])).order
        == automorphisms(square).order
        == 8
    )
    assert automorphisms(square.select("{i j}", [0, 1, 2])).order == 2


def test_a_listed_node_differs_from_one_that_is_not():
    assert automorphisms(Structure(4, {"i": [[0, 1, 2]]})).order == 6
    assert automorphisms(Structure(4, {"i j": [[0, 1, 2], [0, 1, 3]]})).order == 2


@pytest.mark.parametrize("name", ["python", "pynauty"])
def test_copies_of_one_thing_may_be_exchanged_and_turned(name):
    rings = solids.structure_of(
        200, {"{i j}": [(5 * c + v, 5 * c + (v + 1) % 5) for c in range(40) for v in range(5)]}
    )
    assert automorphisms(rings, engine(name)).order == 10**40 * factorial(40)


@pytest.mark.parametrize(("name", "count"), [("python", 1000), ("pynauty", 100)])
def test_a_thousand_twins_take_no_time_and_have_two_to_the_thousand_symmetries(name, count):
    spine = [(v, v + 1) for v in range(count - 1)]
    twins = [(v, count + 2 * v + side) for v in range(count) for side in (0, 1)]
    # without it the spine could be turned round
    tail = [(0, 3 * count), (3 * count, 3 * count + 1)]
    assert (
        automorphisms(
            solids.structure_of(3 * count + 2, {"{i j}": spine + twins + tail}), engine(name)
        ).order
        == 2**count
    )


@pytest.mark.parametrize("name", ["sr16622", "sr251256", "sr261034", "sr281264", "sr291467"])
def test_strongly_regular_graphs_are_done_by_both_engines(name):
    engine("pynauty")
    for line in (data_folder("sr_graphs") / f"{name}.g6").read_text().split():
        graph = graph6(line)
        assert automorphisms(graph, "python").order == automorphisms(graph, "pynauty").order


def graph6(line: str) -> Structure:
    """Reads one graph of up to 62 nodes: bits of the upper triangle, column by column, six to a
    character.
    """
    n, *rest = (ord(c) - 63 for c in line.removeprefix(">>graph6<<"))
    bits = [x >> k & 1 for x in rest for k in range(5, -1, -1)]
    pairs = [(i, j) for j in range(n) for i in range(j)]
    return solids.structure_of(
        n, {"{i j}": [p for p, bit in zip(pairs, bits, strict=False) if bit]}
    )


def test_what_is_too_hard_is_given_up_with_advice(monkeypatch):
    rings = solids.structure_of(
        12,
        {
            "{i j}": [
                (s + v, s + (v + 1) % n) for s, n in ((0, 3), (3, 4), (7, 5)) for v in range(n)
            ]
        },
    )
    with pytest.raises(
        TooLargeError, match=r"too hard to find for the search .* pip install pynauty"
    ):
        find_symmetries(coloured_graph(rings), max_steps=1)
    monkeypatch.setattr(MODULE, "_EASY", 1)
    assert automorphisms(rings, engine("auto")).order == 6 * 8 * 10


def test_many_symmetries_are_not_hard():
    assert find_symmetries(coloured_graph(Structure.complete(20, ["{i j}"])), max_steps=1)[
        1
    ] == factorial(20)


def test_an_engine_that_is_not_installed_says_so(monkeypatch):
    monkeypatch.setitem(sys.modules, "pynauty", None)
    with pytest.raises(MissingExtraError, match="needs pynauty, which is not installed"):
        automorphisms(solids.cube(), "pynauty")


def test_the_search_serves_where_the_other_engine_is_missing(monkeypatch):
    monkeypatch.setattr(MODULE, "find_spec", lambda name: None)
    assert automorphisms(solids.cube()).order == 48


def test_batches_unknown_engines_and_what_is_no_structure_are_refused():
    with pytest.raises(IncidenceError, match="for one structure; got a batch of 2"):
        automorphisms(collate([solids.cube(), solids.cube()]))
    with pytest.raises(
        IncidenceError,
        match="no engine 'bliss' for automorphisms; there are: auto, python, pynauty",
    ):
        automorphisms(solids.cube(), "bliss")
    with pytest.raises(
        IncidenceError,
        match=r"the first argument is a Structure; got int. Call automorphisms\(structure\)",
    ):
        automorphisms(5)


def test_geometry_has_the_function_too():
    assert inc.geometry.automorphisms is automorphisms
