"""The layer of one structure: parameters shared along the orbits of its automorphisms on pairs of
entries.
"""

import re
from itertools import permutations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from incidence.algebra import Pattern
from incidence.errors import IncidenceError, TooLargeError
from incidence.nn import AutomorphismLinear, Sequential
from incidence.structure import Structure, collate
from incidence.symmetry import Group, automorphisms
from incidence.symmetry.pairs import pair_orbits
from incidence.testing import random_features
from tests.structure.listing import entries_of
from tests.structure.random_structures import random_structure
from tests.symmetry import solids

COUNTS = [
    (solids.bipyramid, "i {i j k} -> i {i j k}", 40),
    (lambda: solids.directed_cycle(7), "i -> i", 7),
    (lambda: solids.directed_cycle(12), "i -> i", 12),
    (solids.cube, "i -> i", 4),
    (solids.cube, "{i j} -> {i j}", None),
    (solids.cube, "{i j} -> i", None),
    (solids.cube, "{i j k l} -> {i j k l}", 3),
    (solids.petersen, "i -> i", 3),
    (solids.icosahedron, "i -> i", 4),
    (lambda: Structure.complete(5, ["i j"]), "i j -> i j", 15),
    (lambda: Structure.complete(5, ["{i j}"]), "{i j} -> {i j}", 3),
]


def moved(entry, pattern: Pattern, g: tuple[int, ...]) -> tuple:
    faces = ([(sort, g[v]) for sort, v in face] for face in entry)
    return tuple(
        tuple(f) if face.kind.is_ordered else tuple(sorted(f))
        for f, face in zip(faces, pattern.faces, strict=True)
    )


def orbits_by_exhaustion(structure: Structure, source: str, target: str) -> list[set]:
    """Orbits on pairs under all automorphisms, which are found by trying all permutations."""
    sides = [
        (
            Pattern(text),
            [moved(e, Pattern(text), tuple(range(99))) for e in entries_of(structure, text)],
        )
        for text in (source, target)
    ]
    tensors = [
        (p, {moved(e, p, tuple(range(99))) for e in entries_of(structure, str(p))})
        for p in structure.patterns
    ]
    group = [
        g
        for g in permutations(range(structure.counts["node"]))
        if all(moved(e, p, g) in listed for p, listed in tensors for e in listed)
    ]
    left = {(y, x) for y in sides[1][1] for x in sides[0][1]}
    orbits = []
    while left:
        y, x = next(iter(left))
        orbits.append({(moved(y, sides[1][0], g), moved(x, sides[0][0], g)) for g in group})
        left -= orbits[-1]
    return orbits


@pytest.mark.parametrize(
    ("make", "text", "expected"), COUNTS, ids=lambda v: v if isinstance(v, str) else ""
)
def test_the_number_of_parameters_is_that_of_orbits_on_pairs(make, text, expected):
    structure = make()
    count = AutomorphismLinear(structure, text, 1, 1).weight.shape[0]
    if structure.counts["node"] <= 7:
        assert count == len(orbits_by_exhaustion(structure, *text.split(" -> ")))
    assert expected is None or count == expected


@pytest.mark.parametrize("text", ["i -> i", "{i j} -> {i j}", "{i j} -> i"])
def test_the_parameters_of_the_cube_are_those_found_by_all_its_48_automorphisms(text):
    """All elements of the group, made by closing its generators, on all pairs: slow, and
    obvious.
    """
    cube = solids.cube()
    generators = [tuple(g.tolist()) for g in automorphisms(cube).generators]
    elements = {tuple(range(8))}
    while True:
        more = {tuple(h[v] for v in g) for g in elements for h in generators} | elements
        if more == elements:
            break
        elements = more
    assert len(elements) == 48
    sides = [
        (Pattern(t), [moved(e, Pattern(t), tuple(range(8))) for e in entries_of(cube, t)])
        for t in text.split(" -> ")
    ]
    pairs = {(y, x) for y in sides[1][1] for x in sides[0][1]}
    orbits = {
        frozenset((moved(y, sides[1][0], g), moved(x, sides[0][0], g)) for g in elements)
        for y, x in pairs
    }
    orbits_found = AutomorphismLinear(cube, text, 1, 1).pair_orbits[0, 0]
    assert sorted(map(len, orbits)) == sorted(orbits_found.sizes.tolist())


@settings(max_examples=20, deadline=None)
@given(
    st.sampled_from([["{i j}"], ["(i j)"], ["i j"], ["i {i j}"], ["{i j k}"]]),
    st.integers(2, 5),
    st.integers(0, 999),
)
def test_orbits_on_pairs_are_those_found_by_exhaustion(texts, num_nodes, seed):
    structure = random_structure(num_nodes, texts, seed)
    found = pair_orbits(automorphisms(structure), texts[0], "i")
    sides = [
        [moved(e, Pattern(t), tuple(range(99))) for e in entries_of(structure, t)]
        for t in (texts[0], "i")
    ]
    ours: dict[int, set] = {}
    for y, row in zip(sides[1], found.number.tolist(), strict=True):
        for x, number in zip(sides[0], row, strict=True):
            ours.setdefault(number, set()).add((y, x))
    theirs = orbits_by_exhaustion(structure, texts[0], "i")
    assert sorted(map(sorted, ours.values())) == sorted(map(sorted, theirs))


def matrix_of(layer: AutomorphismLinear, s: int = 0, t: int = 0) -> torch.Tensor:
    # (outputs, inputs, in, out)
    return getattr(layer, layer.weight_name(s, t))[layer.pair_orbits[s, t].number]


MAPS = [
    (solids.bipyramid, "i {i j k} -> i {i j k}"),
    (solids.bipyramid, "{i j k} -> i"),
    (solids.soccer_ball, "face={i ...} -> i"),
    (lambda: solids.structure_of(5, {"{i j}": [(0, 1), (1, 2), (2, 3)]}), "{i j} -> i"),
    (lambda: Structure(4), "i -> "),
    (lambda: Structure(4), " -> i"),
]


@pytest.mark.parametrize(("make", "text"), MAPS, ids=[text for _, text in MAPS])
def test_the_layer_is_the_product_with_the_shared_matrix(make, text):
    structure = make()
    layer = AutomorphismLinear(structure, text, 2, 3, dtype=torch.float64)
    layer.bias.data.normal_()
    x = torch.randn(structure.num_entries(layer.map.inputs[0]), 2, dtype=torch.float64)
    y = torch.einsum("tsio,si->to", matrix_of(layer), x) + layer.bias[layer.entry_orbits[0]]
    assert torch.allclose(layer(x, structure), y, atol=1e-12)


@pytest.mark.parametrize(("make", "text"), MAPS[:4], ids=[text for _, text in MAPS[:4]])
def test_the_layer_commutes_with_every_generator(make, text):
    structure = make()
    layer = AutomorphismLinear(structure, text, 2, 3, dtype=torch.float64)
    x = torch.randn(structure.num_entries(layer.map.inputs[0]), 2, dtype=torch.float64)
    y = layer(x, structure)
    for p, q in zip(
        *(layer.group.permutations(t) for t in (layer.map.inputs[0], layer.map.outputs[0])),
        strict=True,
    ):
        moved_x, moved_y = (
            torch.empty_like(x).index_copy_(0, p, x),
            torch.empty_like(y).index_copy_(0, q, y),
        )
        assert torch.allclose(layer(moved_x, structure), moved_y, atol=1e-12)


def test_collections_have_a_weight_for_each_pair_of_tensors():
    cube = solids.cube()
    layer = AutomorphismLinear(
        cube, "i, {i j} -> i, {i j}", {"i": 2, "{i j}": 3}, 4, dtype=torch.float64
    )
    x = random_features("i, {i j}", cube, 2)
    x["{i j}"] = torch.randn(12, 3, dtype=torch.float64)
    y = layer(x, cube)
    expected = torch.einsum("tsio,si->to", matrix_of(layer, 0, 1), x["i"]) + torch.einsum(
        "tsio,si->to", matrix_of(layer, 1, 1), x["{i j}"]
    )
    assert torch.allclose(y["{i j}"], expected, atol=1e-12)
    assert layer.weight_1_0.shape == (3, 3, 4)


def test_gradients_are_those_of_the_definition():
    bipyramid = solids.bipyramid()
    layer = AutomorphismLinear(bipyramid, "{i j k} -> i", 2, 2, dtype=torch.float64)
    x = torch.randn(7, 2, dtype=torch.float64, requires_grad=True)

    def run(v, w, b):
        return torch.func.functional_call(layer, {"weight": w, "bias": b}, (v, bipyramid))

    assert torch.autograd.gradcheck(run, (x, layer.weight, layer.bias), check_forward_ad=True)
    assert torch.autograd.gradgradcheck(run, (x, layer.weight, layer.bias))


def test_jacobians_by_torch_func_are_the_shared_matrix():
    ring = solids.directed_cycle(5)
    layer = AutomorphismLinear(ring, "i -> i", 1, 1)
    matrix = layer.weight[layer.pair_orbits[0, 0].number, 0, 0]
    for jacobian in (torch.func.jacrev, torch.func.jacfwd):
        found = jacobian(lambda v: layer(v[:, None], ring)[:, 0])(torch.randn(5))
        assert torch.allclose(found, matrix, atol=1e-6)
    xs = torch.randn(3, 5, 1)
    assert torch.allclose(
        torch.func.vmap(lambda v: layer(v, ring))(xs),
        torch.stack([layer(v, ring) for v in xs]),
        atol=1e-6,
    )


def test_a_batch_of_copies_gives_what_each_copy_gives():
    cube = solids.cube()
    layer = AutomorphismLinear(cube, "i, {i j} -> {i j}", 2, 3, dtype=torch.float64)
    xs = [
        random_features("i, {i j}", cube, 2, generator=torch.Generator().manual_seed(k))
        for k in range(3)
    ]
    together = layer({key: torch.cat([x[key] for x in xs]) for key in xs[0]}, collate([cube] * 3))
    assert torch.allclose(together, torch.cat([layer(x, cube) for x in xs]), atol=1e-12)


def test_an_equal_structure_is_as_good():
    layer = AutomorphismLinear(solids.cube(), "i -> i", 2, 2)
    x = torch.randn(8, 2)
    assert torch.equal(layer(x, solids.cube()), layer(x, layer.structure))
    assert Sequential(layer, torch.nn.ReLU())(x, solids.cube()).shape == (8, 2)


def test_a_given_group_or_its_generators_take_the_place_of_the_automorphisms():
    ring = Structure(6)
    turn = [1, 2, 3, 4, 5, 0]
    assert AutomorphismLinear(ring, "i -> i", 1, 1, group=[turn]).weight.shape[0] == 6
    assert (
        AutomorphismLinear(
            ring, "i -> i", 1, 1, group=Group(6, [turn, [0, 5, 4, 3, 2, 1]])
        ).weight.shape[0]
        == 4
    )
    assert AutomorphismLinear(ring, "i -> i", 1, 1, group=[]).weight.shape[0] == 36
    assert AutomorphismLinear(ring, "i -> i", 1, 1).weight.shape[0] == 2


def test_many_generators_give_the_orbits_of_few():
    edges = Structure.complete(12, ["{i j}"])
    found = pair_orbits(automorphisms(edges), "{i j}", "{i j}")
    assert len(automorphisms(edges).generators) > 4
    assert torch.equal(found.number, pair_orbits(Group.symmetric(edges), "{i j}", "{i j}").number)


def test_without_a_bias_there_is_none_and_without_entries_there_are_no_orbits():
    none = Structure(3, {"{i j}": torch.zeros(2, 0, dtype=torch.long)})
    layer = AutomorphismLinear(none, "{i j} -> {i j}", 2, 3, bias=False)
    assert layer.weight.shape == (0, 2, 3)
    assert layer.bias is None
    assert layer(torch.zeros(0, 2), none).shape == (0, 3)
    assert AutomorphismLinear(none, "{i j} -> i", 2, 3)(torch.zeros(0, 2), none).shape == (3, 3)


def test_outputs_start_with_the_variance_of_the_inputs():
    torch.manual_seed(0)
    ball = solids.soccer_ball()
    layer = AutomorphismLinear(ball, "i, face={i ...} -> i", 8, 64)
    y = layer({"i": torch.randn(60, 8), "face": torch.randn(32, 8)}, ball)
    assert 0.5 < float(y.detach().var()) < 2


def test_the_layer_moves_with_its_structure():
    layer = AutomorphismLinear(solids.cube(), "i -> i", 2, 2).to("meta")
    assert layer.structure.device.type == "meta"
    assert layer._bags[0, 0].members.device.type == "meta"
    assert layer.to(torch.float64).weight.dtype == torch.float64


def test_other_structures_types_and_too_many_pairs_are_refused(monkeypatch):
    layer = AutomorphismLinear(solids.cube(), "i -> i", 2, 2)
    with pytest.raises(IncidenceError, match="this layer belongs to one structure"):
        layer(torch.randn(10, 2), solids.petersen())
    with pytest.raises(
        IncidenceError, match=r"the features are torch.float64 and the layer is torch.float32"
    ):
        layer(torch.randn(8, 2).double(), layer.structure)
    monkeypatch.setattr("incidence.symmetry.pairs._MAX_PAIRS", 100)
    with pytest.raises(TooLargeError, match=r"have 144 pairs of entries here; at most 100"):
        AutomorphismLinear(solids.cube(), "{i j} -> {i j}", 1, 1)


@pytest.mark.parametrize("group", [Group.symmetric(8), [[1, 0, 2, 3, 4, 5, 6, 7]]])
def test_groups_that_do_not_keep_every_tensor_of_the_structure_are_refused(group):
    with pytest.raises(
        IncidenceError, match=r"generator [01] does not keep the entries of `\(i j\)`"
    ):
        AutomorphismLinear(solids.directed_cycle(8), "i -> i", 1, 1, group=group)


def test_a_group_given_by_its_nodes_alone_may_keep_the_structure():
    ring = solids.directed_cycle(8)
    turn = Group(8, [[2, 3, 4, 5, 6, 7, 0, 1]])
    assert len(AutomorphismLinear(ring, "i -> i", 1, 1, group=turn).weight) == 16


@pytest.mark.parametrize("group", [5, "symmetric", 1.5, torch.tensor(5)])
def test_what_is_no_group_is_refused(group):
    with pytest.raises(
        IncidenceError,
        match=(
            "group= is a Group or a list of generators, permutations of the nodes; got"
            f" {re.escape(repr(group))}"
        ),
    ):
        AutomorphismLinear(solids.cube(), "i -> i", 1, 1, group=group)


def test_what_is_no_structure_is_refused_where_it_stands():
    with pytest.raises(
        IncidenceError,
        match=(
            r"the first argument is a Structure; got NoneType. Call AutomorphismLinear\(structure,"
            r" text"
        ),
    ):
        AutomorphismLinear(None, "i -> i", 1, 1)


def test_the_layer_says_what_it_is():
    assert (
        repr(AutomorphismLinear(solids.cube(), "i -> i", 2, 3))
        == "AutomorphismLinear('i -> i', 2, 3, bias=True, orbits=4, group of order 48)"
    )
