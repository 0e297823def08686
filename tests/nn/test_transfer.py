"""Weights carried between groups: the same map for a smaller group, the nearest one for a
larger.
"""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from incidence.errors import IncidenceError
from incidence.nn import AutomorphismLinear, Exchangeable, Linear
from incidence.nn.transfer import project, restrict
from incidence.structure import Structure
from incidence.symmetry import Group, automorphisms
from incidence.testing import random_features, random_structure
from tests.symmetry import solids

D = torch.float64


def filled(layer):
    """A layer with random weights and biases."""
    with torch.no_grad():
        for k, parameter in enumerate(layer.parameters()):
            parameter.copy_(
                torch.randn(parameter.shape, dtype=D, generator=torch.Generator().manual_seed(k))
            )
    return layer


def features(layer, structure: Structure):
    return random_features(
        ", ".join(map(str, layer.map.inputs)),
        structure,
        2,
        generator=torch.Generator().manual_seed(9),
    )


def assert_same(one, other, x, structure: Structure) -> None:
    y, z = one(x, structure), other(x, structure)
    for a, b in [(y, z)] if isinstance(y, torch.Tensor) else [(y[key], z[key]) for key in y]:
        assert torch.allclose(a, b, rtol=1e-12, atol=1e-12)


SMALL = [
    (solids.bipyramid, "i {i j k} -> i {i j k}"),
    (solids.bipyramid, "i, {i j} -> {i j}, {i j k}"),
    (solids.cube, "i, {i j} -> i, {i j}"),
    (solids.cube, "{i j k l} -> "),
    (lambda: solids.directed_cycle(5), "(i j), i -> (i j)"),
    (
        lambda: solids.structure_of(
            6, {"{i j}": [(0, 1), (1, 2), (2, 0), (2, 3)], "i j": [(0, 0), (0, 1), (4, 4)]}
        ),
        "i j -> i j",
    ),
    (solids.soccer_ball, "face={i ...} -> i, face={i ...}"),
]


@pytest.mark.parametrize(("make", "text"), SMALL, ids=[text for _, text in SMALL])
def test_a_layer_restricted_to_the_automorphisms_computes_the_same(make, text):
    structure = make()
    layer = filled(Linear(text, 2, 3, dtype=D))
    small = layer.restrict_to(automorphisms(structure))
    assert isinstance(small, AutomorphismLinear)
    assert_same(layer, small, features(layer, structure), structure)


@pytest.mark.parametrize(("make", "text"), SMALL, ids=[text for _, text in SMALL])
def test_a_restricted_layer_projected_back_computes_the_same(make, text):
    structure = make()
    layer = filled(Linear(text, 2, 3, dtype=D))
    back = layer.restrict_to(automorphisms(structure)).project()
    assert isinstance(back, Linear)
    assert_same(layer, back, features(layer, structure), structure)


TENSORS = [
    "i {i j}",
    "i j",
    "{i j} {i k}",
    "i {j k}",
    "(i j) (j k)",
    "[i j] i",
    "i {i j k}",
    "i j k",
    "i {i j} -> i, {i j}",
    "i {i j}, {i j}",
    "u:user m:movie",
    "u:user v:user m:movie",
    "i j -> ",
    "{i j} -> i {i j}",
]


def structure_for(layer) -> Structure:
    texts = [
        str(p)
        for p in dict.fromkeys(layer.map.inputs + layer.map.outputs)
        if p.faces and str(p) != "i"
    ]
    if "{i j}" in texts:
        return Structure.complete(4, texts)
    return random_structure(
        dict.fromkeys(layer.map.sorts, 4), texts, 0.6, torch.Generator().manual_seed(3)
    )


@pytest.mark.parametrize("text", TENSORS)
def test_a_relaxed_layer_restricted_to_all_relabellings_computes_the_same_on_every_structure(text):
    layer = filled(Exchangeable(text, 2, 3, dtype=D))
    exact = layer.restrict_to("symmetric")
    assert isinstance(exact, Linear)
    structure = structure_for(layer)
    assert_same(layer, exact, features(layer, structure), structure)


@pytest.mark.parametrize("text", [text for text in TENSORS if text != "i j k"])
def test_a_relaxed_layer_comes_back_from_the_exact_one(text):
    layer = filled(Exchangeable(text, 2, 3, dtype=D))
    structure = structure_for(layer)
    back = layer.restrict_to("symmetric").project("product", structure)
    assert isinstance(back, Exchangeable)
    assert_same(layer, back, features(layer, structure), structure)


def test_the_way_over_all_relabellings_is_the_direct_way():
    structure = Structure.complete(4, ["i {i j}"]).select("i {i j}", list(range(9)))
    layer = filled(Exchangeable("i {i j}", 2, 3, dtype=D))
    group = automorphisms(structure)
    one, other = layer.restrict_to(group), layer.restrict_to("symmetric").restrict_to(group)
    assert torch.allclose(one.weight, other.weight, atol=1e-12)
    assert torch.allclose(one.bias, other.bias, atol=1e-12)


def test_parts_of_groups_refine_and_projection_undoes_it():
    ring = solids.directed_cycle(6)
    layer = filled(AutomorphismLinear(ring, "i, (i j) -> i", 2, 2, dtype=D))
    half = Group(ring, [[2, 3, 4, 5, 0, 1]])
    small = layer.restrict_to(half)
    assert small.weight_0_0.shape[0] == 12
    assert_same(layer, small, features(layer, ring), ring)
    back = small.project(layer.group)
    for name, parameter in layer.named_parameters():
        assert torch.allclose(parameter, dict(back.named_parameters())[name], atol=1e-12)


@torch.no_grad()
def difference(one, other) -> float:
    """The Frobenius norm of the difference of two layers of one structure, from their matrices and
    biases.
    """
    total = 0.0
    for s, t in one.pair_orbits:
        a, b = (getattr(x, x.weight_name(s, t))[x.pair_orbits[s, t].number] for x in (one, other))
        total += float((a - b).square().sum())
    for t in range(len(one.out_channels)):
        a, b = (getattr(x, x.bias_name(t))[x.entry_orbits[t]] for x in (one, other))
        total += float((a - b).square().sum())
    return total**0.5


@settings(max_examples=5, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from(["symmetric", "product"]))
def test_no_layer_of_the_larger_group_is_nearer_than_the_projection(seed, group):
    structure = solids.structure_of(5, {"i {i j}": [(0, 1), (1, 0), (1, 2), (2, 1), (3, 4)]})
    layer = filled(AutomorphismLinear(structure, "i {i j} -> i {i j}", 1, 1, group=[], dtype=D))
    nearest = layer.project(group)
    own = difference(layer, nearest.restrict_to(layer.group))
    generator = torch.Generator().manual_seed(seed)
    for scale in (1e-3, 1.0):
        other = layer.project(group)
        with torch.no_grad():
            for parameter in other.parameters():
                parameter += scale * torch.randn(parameter.shape, dtype=D, generator=generator)
        assert difference(layer, other.restrict_to(layer.group)) >= own - 1e-12


def test_projection_to_a_group_averages_over_its_orbits():
    ring = Structure(3)
    layer = AutomorphismLinear(ring, "i -> i", 1, 1, group=[], dtype=D)
    layer.weight.data = torch.arange(9.0, dtype=D).view(9, 1, 1)
    layer.bias.data = torch.tensor([[1.0], [2.0], [6.0]], dtype=D)
    turned = layer.project(Group(3, [[1, 2, 0]]))
    assert turned.weight.flatten().tolist() == [4.0, (1 + 5 + 6) / 3, (2 + 3 + 7) / 3]
    assert turned.bias.flatten().tolist() == [3.0]


def test_a_layer_with_one_input_entry_is_projected_by_the_mean_over_its_outputs():
    layer = Linear(" -> i j", 1, 1, bias=False, dtype=D)
    # on the diagonal, and beside it
    layer.weight.data = torch.tensor([1.0, 4.0], dtype=D).view(2, 1, 1)
    assert layer.project(
        "product", Structure.complete(3, ["i j"])
    ).linear.weight.item() == pytest.approx((3 * 1 + 6 * 4) / 9)


def test_of_the_weights_that_give_the_nearest_map_the_shortest_are_taken():
    """On a star any two edges meet, so that two of the three operators on edges agree with the
    third.
    """
    star = solids.structure_of(4, {"{i j}": [(0, 1), (0, 2), (0, 3)]})
    layer = filled(Linear("{i j} -> {i j}", 1, 1, dtype=D))
    back = layer.restrict_to(automorphisms(star)).project()
    operators = torch.stack([layer.operator(k, star).to_dense().flatten() for k in range(3)])
    shortest = torch.linalg.pinv(operators.T) @ (operators.T @ layer.weight[:, 0, 0])
    assert int(torch.linalg.matrix_rank(operators)) == 2
    assert torch.allclose(back.weight[:, 0, 0], shortest, atol=1e-12)
    assert float(back.weight.detach().norm()) < float(layer.weight.detach().norm())


def test_biases_of_orbits_without_entries_become_0():
    diagonal = solids.structure_of(3, {"i j": [(0, 0), (1, 1)]})
    layer = filled(Linear("i j -> i j", 1, 1, dtype=D))
    back = layer.restrict_to(automorphisms(diagonal)).project()
    assert torch.allclose(
        back.bias, torch.stack([layer.bias[0], torch.zeros(1, dtype=D)]), atol=1e-12
    )


def test_some_operations_are_enough_to_restrict():
    structure = solids.bipyramid()
    layer = filled(
        Linear("i, {i j} -> i", 2, 3, operations=lambda o: any(map(any, o.overlap)), dtype=D)
    )
    assert_same(
        layer, layer.restrict_to(automorphisms(structure)), features(layer, structure), structure
    )
    relaxed = filled(
        Exchangeable("i {i j k}", 2, 3, operations=lambda o: any(map(any, o.overlap)), dtype=D)
    )
    assert_same(relaxed, relaxed.restrict_to("symmetric"), features(relaxed, structure), structure)


def test_layers_without_bias_and_in_single_precision_stay_so():
    structure = solids.cube()
    small = Linear("i -> i", 2, 3, bias=False).restrict_to(automorphisms(structure))
    assert small.bias is None
    assert small.weight.dtype == torch.float32
    assert small.project().bias is None


def test_a_linear_layer_restricted_to_all_relabellings_is_a_copy():
    layer = Linear("i -> i", 1, 1)
    copy = layer.restrict_to("symmetric")
    assert copy is not layer
    assert torch.equal(copy.weight, layer.weight)
    with torch.no_grad():
        copy.weight.add_(1)
    assert not torch.equal(copy.weight, layer.weight)


@pytest.mark.parametrize("is_training", [True, False])
def test_carried_layers_train_if_the_layer_did(is_training):
    cube = solids.cube()
    layer = Linear("{i j} -> {i j}", 1, 1).train(is_training)
    small = layer.restrict_to(automorphisms(cube))
    trivial = small.restrict_to(Group(cube))
    carried = [
        small,
        layer.restrict_to("symmetric"),
        layer.project("product", cube),
        small.project(),
        trivial.project(small.group),
    ]
    assert [new.training for new in carried] == [is_training] * 5


def test_groups_of_carried_layers_need_only_keep_the_tensors_of_the_map():
    ring = solids.directed_cycle(5)
    large = AutomorphismLinear(ring, "i -> i", 1, 1).project(Group.symmetric(5))
    assert large.structure is ring
    assert len(large.weight) == 2
    part = large.restrict_to(Group(5, [[1, 0, 2, 3, 4]]))
    x = torch.randn(5, 1)
    assert torch.allclose(part(x, ring), large(x, ring), atol=1e-6)


def test_what_cannot_be_carried_is_refused_and_says_why():
    cube = solids.cube()
    group, layer = automorphisms(cube), Linear("i -> i", 1, 1)
    small = layer.restrict_to(group)
    with pytest.raises(
        IncidenceError, match=r"between layers that take sums; this one has aggr=\['mean'\]"
    ):
        Linear("i -> i", 1, 1, aggr="mean").restrict_to(group)
    with pytest.raises(
        IncidenceError, match="restricted to a Group, or to 'symmetric'; got 'product'"
    ):
        layer.restrict_to("product")
    with pytest.raises(IncidenceError, match="larger than the group of this layer: use project"):
        small.restrict_to("symmetric")
    with pytest.raises(
        IncidenceError, match="restrict_to takes a part of the group of the layer; generator"
    ):
        small.restrict_to(Group.symmetric(8))
    with pytest.raises(
        IncidenceError,
        match="project takes a group that has that of the layer as a part; generator",
    ):
        small.project(Group(cube, []))
    with pytest.raises(IncidenceError, match="is projected to 'product'; got 'symmetric'"):
        layer.project("symmetric", cube)
    with pytest.raises(
        IncidenceError, match="is projected to a Group, 'symmetric' or 'product'; got 'cyclic'"
    ):
        small.project("cyclic")
    with pytest.raises(IncidenceError, match="no group of nodes is larger"):
        layer.project(group, cube)
    with pytest.raises(IncidenceError, match="give project the structure whose entries count"):
        project(Linear("i j -> i j", 1, 1), "product")
    with pytest.raises(IncidenceError, match="give project the structure whose entries count"):
        layer.project("product")
    with pytest.raises(
        IncidenceError,
        match=r"structure= is a Structure; got int. Call layer.project\('product', structure\)",
    ):
        layer.project("product", 5)
    with pytest.raises(IncidenceError, match="no group is larger than the product"):
        project(Exchangeable("i j", 1, 1), "symmetric")
    with pytest.raises(
        IncidenceError,
        match="`i {i ...} -> i {i ...}` has open faces".replace("{", r"\{").replace("}", r"\}"),
    ):
        Exchangeable("i {i ...}", 1, 1).restrict_to("symmetric")
    with pytest.raises(
        IncidenceError, match=r"Exchangeable\(2\) does not say which tensor it means"
    ):
        Exchangeable(2, 1, 1).restrict_to("symmetric")
    with pytest.raises(IncidenceError, match="has no weights yet: run it once"):
        Linear("i -> i", -1, 1).restrict_to(group)
    with pytest.raises(
        IncidenceError, match="Linear, Exchangeable and AutomorphismLinear layers; got ReLU"
    ):
        restrict(torch.nn.ReLU(), group)
