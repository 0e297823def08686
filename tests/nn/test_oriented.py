"""Layers of oriented faces: the operators of the textbooks, biases, aggregations, and what is
refused.
"""

import pytest
import torch

import incidence as inc
from incidence.errors import IncidenceError
from incidence.nn import AutomorphismLinear, Exchangeable, Linear, MaskedLinear
from incidence.structure import Structure, collate
from incidence.symmetry import automorphisms
from tests.nn.sparse_maps import features_for, gradients, layer_for, outputs, structure_for

T = torch.tensor
FLOWS = "i, <i j>, <i j k> -> i, <i j>, <i j k>"


def matrix(text: str, number: int, structure: Structure) -> torch.Tensor:
    return Linear(text, 1, 1).operator(number, structure).to_dense()


def test_the_gradient_is_the_value_at_the_head_less_that_at_the_tail():
    structure = Structure(3, {"<i j>": [[0, 2], [1, 1]]})
    layer = Linear("i -> <i j>", 1, 1, bias=False)
    layer.weight.data.fill_(1.0)
    assert layer(T([[1.0], [10.0], [100.0]]), structure).flatten().tolist() == [9.0, -90.0]


def test_the_divergence_is_what_comes_in_less_what_goes_out():
    structure = Structure(3, {"<i j>": [[0, 2], [1, 1]]})
    assert matrix("<i j> -> i", 0, structure).tolist() == [[-1, 0], [1, 1], [0, -1]]


def test_the_curl_goes_round_a_triangle():
    structure = Structure(3, {"<i j>": [[0, 1, 0], [1, 2, 2]], "<i j k>": [[0], [1], [2]]})
    assert matrix("<i j> -> <i j k>", 0, structure).tolist() == [[1, 1, -1]]


@pytest.mark.parametrize("num_nodes", [4, 5])
def test_the_boundary_of_a_boundary_is_nothing_and_the_laplacians_add_up_to_the_number_of_nodes(
    num_nodes,
):
    structure = Structure.complete(num_nodes, ["<i j>", "<i j k>"])
    d1, d2 = matrix("<i j> -> i", 0, structure), matrix("<i j k> -> <i j>", 0, structure)
    assert not (d1 @ d2).any()
    assert torch.equal(matrix("<i j> -> <i j>", 0, structure), d1.T @ d1)
    assert torch.equal(d2 @ d2.T + d1.T @ d1, num_nodes * torch.eye(len(d2), dtype=torch.float64))
    assert torch.equal(matrix("<i j> -> <i j k>", 0, structure), d2.T)


def test_only_orbits_without_a_reversing_exchange_have_a_bias():
    layer = Linear(FLOWS, 2, 3)
    assert [tuple(layer.get_parameter(f"bias_{t}").shape) for t in range(3)] == [
        (1, 3),
        (0, 3),
        (0, 3),
    ]
    assert Linear("<i j> -> <i j>", 2, 3).bias.shape == (0, 3)
    assert Linear("<i j> -> i <i j>", 2, 3).bias.shape == (1, 3)
    assert Linear("<i j> -> <i j>", 2, 3, bias=False).bias is None


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["single", "double"])
def test_biases_without_rows_get_gradients_and_states_without_rows(dtype):
    layer = Linear(FLOWS, 2, 3).to(dtype)
    structure = structure_for(layer.map, 5)
    x = {key: v.to(dtype) for key, v in features_for(layer.map, structure).items()}
    sum(y.sum() for y in layer(x, structure).values()).backward()
    assert [
        tuple(p.grad.shape) for name, p in layer.named_parameters() if name.startswith("bias")
    ] == [(1, 3), (0, 3), (0, 3)]
    again = Linear(FLOWS, 2, 3).to(dtype)
    again.load_state_dict(layer.state_dict())
    assert all(
        torch.equal(one, other)
        for one, other in zip(
            outputs(layer(x, structure)), outputs(again(x, structure)), strict=True
        )
    )


@pytest.mark.parametrize(
    "text",
    ["<i j>, i -> i, <i j>", FLOWS, "{i j} <k l> -> {i j} <k l>", "i, <i j>, i <i j> -> i <i j>"],
)
def test_large_structures_are_pooled_as_small_ones(text, monkeypatch):
    layer = layer_for(text, 1, ["sum", "mean"])
    structure = structure_for(layer.map, 5, draws=20)
    x = {key: v.requires_grad_() for key, v in features_for(layer.map, structure).items()}
    expected = outputs(layer(x, structure))
    expected += gradients(expected, [*x.values(), *layer.parameters()])
    monkeypatch.setattr("incidence.engine.bags._FEW", 0)
    fresh = structure.select(
        structure.patterns[0], range(structure.num_entries(structure.patterns[0]))
    )
    found = outputs(layer(x, fresh))
    found += gradients(found, [*x.values(), *layer.parameters()])
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("text", [FLOWS, "{i j} <k l> -> {i j} <k l>"])
def test_half_precision_is_single_precision_rounded(text, dtype):
    layer = layer_for(text).float()
    structure = structure_for(layer.map, 5, draws=12)
    x = {key: v.float() for key, v in features_for(layer.map, structure).items()}
    expected = outputs(layer(x, structure))
    with torch.autocast("cpu", dtype):
        found = outputs(layer(x, structure))
    for one, other in zip(found, expected, strict=True):
        assert one.dtype == dtype
        torch.testing.assert_close(one.float(), other, rtol=0.1, atol=0.3)


def test_a_maximum_may_be_read_by_oriented_faces_but_not_taken_of_them():
    layer = Linear(
        "i, <i j> -> <i j>",
        1,
        1,
        aggr=lambda o: "max" if o.source.tensor == 0 else "sum",
        bias=False,
    )
    for parameter in layer.parameters():
        parameter.data.fill_(1.0)
    structure = Structure(3, {"<i j>": [[0], [1]]})
    assert layer({"i": T([[1.0], [5.0], [7.0]]), "<i j>": T([[0.0]])}, structure).tolist() == [
        [4.0]
    ]


@pytest.mark.parametrize("aggr", ["max", "min", "std", ["sum", "max"], {1: "max"}], ids=str)
def test_what_does_not_change_sign_with_its_values_is_refused_for_oriented_inputs(aggr):
    with pytest.raises(
        IncidenceError,
        match=(
            r"aggr='\w+' of `<i j>`: values of an oriented face change sign.*only 'sum' and 'mean'"
            r" do too"
        ),
    ):
        Linear("<i j> -> <i j>", 1, 1, aggr=aggr)


@pytest.mark.parametrize("text", ["<i j> -> ", "<i j k> -> i", " -> <i j>"])
def test_a_map_without_operations_is_refused(text):
    with pytest.raises(
        IncidenceError,
        match="has no operation: every contribution to an output is cancelled by its opposite",
    ):
        Linear(text, 1, 1)


def test_layers_without_signs_refuse_oriented_faces():
    structure = Structure(3, {"<i j>": [[0, 1], [1, 2]]})
    with pytest.raises(IncidenceError, match="faces are points without orientation"):
        Exchangeable(2, 1, 1)(torch.ones(1, 1), Structure(3, {"i <i j>": [[0], [1]]}))
    with pytest.raises(IncidenceError, match="pairs of entries, which have no signs"):
        AutomorphismLinear(structure, "<i j> -> i", 1, 1)
    with pytest.raises(IncidenceError, match="pairs of entries, which have no signs"):
        Linear("<i j> -> i", 1, 1).restrict_to(automorphisms(structure))


def test_a_masked_layer_keeps_orientations():
    structure = Structure(4, {"<i j>": [[0, 2, 2], [1, 1, 3]]})
    x = torch.randn(3, 2)
    masked = MaskedLinear("<i j> -> <i j>", 2, 2, mask=lambda x, s: [True, False, True])
    plain = Linear("<i j> -> <i j>", 2, 2)
    plain.load_state_dict(masked.linear.state_dict())
    assert torch.allclose(masked(x, structure)[[0, 2]], plain(x, structure)[[0, 2]], atol=1e-6)


def test_calibration_gives_every_term_unit_scale_and_leaves_cancelled_ones_alone():
    structure = collate([Structure.complete(5, ["<i j>", "<i j k>"])] * 2)
    layer = Linear(FLOWS, 4, 4)
    before = layer.get_parameter("weight_0_1").clone()
    x = {"i": torch.ones(10, 4), "<i j>": torch.randn(20, 4), "<i j k>": torch.randn(20, 4)}
    layer.calibrate(x, structure)
    # the gradient of a constant is 0
    assert torch.equal(layer.get_parameter("weight_0_1"), before)
    of_curl = Linear("<i j> -> <i j k>", 4, 4, bias=False)
    of_curl.weight.data = torch.eye(4)[None]
    scale = of_curl.calibrate(x["<i j>"], structure).weight[0, 0, 0]
    assert torch.allclose(of_curl(x["<i j>"], structure).square().mean(), T(1.0), rtol=1e-4)
    assert scale < 1


def test_layers_explain_their_operations_by_name():
    assert "coboundary (gradient)" in str(inc.explain(Linear(FLOWS, 2, 2)))
