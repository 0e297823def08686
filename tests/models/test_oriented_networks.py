"""Layers of oriented faces among other modules: equivariant with signs, equal to the matrices of
geometry and of published layers.
"""

import pytest
import torch
from torch import nn

from incidence import geometry
from incidence.errors import IncidenceError
from incidence.models import IncidenceNet, Predictor, make
from incidence.nn import (
    Activation,
    BatchNorm,
    Dropout,
    Gate,
    LayerNorm,
    Linear,
    Readout,
    Residual,
    Sequential,
)
from incidence.structure import Structure, collate
from incidence.testing import assert_equivariant, random_features, random_structure
from incidence.testing.rewriting import reoriented
from tests.geometry.shapes import PROJECTIVE_PLANE, sphere, times

SIDE = "i, <i j>, <i j k>"
TORUS = times(sphere(1), sphere(1))


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def complex_of(facets=((0, 1, 2), (1, 2, 3), (3, 4), (2, 4, 5)), seed: int = 0) -> Structure:
    """A complex with random orientations."""
    return reoriented(
        geometry.simplicial_complex([list(f) for f in facets], oriented=True), generator(seed)
    )[0]


# ---- matrices


@pytest.mark.parametrize(
    "facets",
    [TORUS, PROJECTIVE_PLANE, sphere(3)],
    ids=["torus", "projective plane", "three-sphere"],
)
@pytest.mark.parametrize("seed", [0, 1])
def test_boundary_matrices_are_operators_of_layers(facets, seed):
    s = complex_of(facets, seed)
    found = geometry.faces(s)
    texts = ["i", "<i j>", "<i j k>", "<i j k l>"]
    for rank in range(1, found.top + 1):
        matrix = found.boundary_matrix(rank).to_dense()
        assert torch.equal(
            Linear(f"{texts[rank]} -> {texts[rank - 1]}", 1, 1).operator(0, s).to_dense(), matrix
        )
        assert torch.equal(
            Linear(f"{texts[rank - 1]} -> {texts[rank]}", 1, 1).operator(0, s).to_dense(), matrix.T
        )
        down, identity = (
            Linear(f"{texts[rank]} -> {texts[rank]}", 1, 1).operator(k, s).to_dense()
            for k in range(2)
        )
        assert torch.equal(identity, torch.eye(len(identity), dtype=torch.float64))
        assert torch.equal(down, geometry.hodge(s, rank).down.to_dense())


@pytest.mark.parametrize(
    "text", ["i, <i j>, <i j k> -> i", "i, <i j>, <i j k> -> <i j k>", "i, <i j k> -> {i j}, <i j>"]
)
def test_a_tensor_that_no_operation_reads_adds_nothing(text):
    s = complex_of().with_pattern("{i j}")
    s = collate([s, s])
    layer = Linear(text, 2, 3, dtype=torch.float64)
    x = random_features(text.split("->")[0], s, 2, generator=generator())
    assert_equivariant(layer, x, s)
    unread = [
        p
        for k, p in enumerate(layer.map.inputs)
        if not any(layer.operations_of(k, t) for t in range(len(layer.map.outputs)))
    ]
    before = layer(x, s)
    after = layer(
        {key: value + 1.0 if key in map(str, unread) else value for key, value in x.items()}, s
    )
    pairs = (
        zip(before.values(), after.values(), strict=True)
        if isinstance(before, dict)
        else [(before, after)]
    )
    assert all(torch.equal(a, b) for a, b in pairs)


# ---- equivariance


class Broken(nn.Module):
    """What a network does that its maker did not check."""

    def __init__(self, function) -> None:
        super().__init__()
        self.layer, self.function = Linear("<i j> -> <i j>", 2, 2, dtype=torch.float64), function
        self.map = self.layer.map

    def forward(self, x, structure):
        return self.function(self.layer(x, structure))


@pytest.mark.parametrize(
    "function",
    [torch.relu, torch.abs, lambda y: y + 0.1, lambda y: y - y.mean(0)],
    ids=["relu", "abs", "shift", "mean"],
)
def test_a_function_that_is_not_odd_is_caught(function):
    s = complex_of()
    x = random_features("<i j>", s, 2, generator=generator())
    with pytest.raises(
        AssertionError,
        match=r"not equivariant \(orientation 0\): reversing entries of .*Something is not odd",
    ):
        assert_equivariant(Broken(function), x, s)
    assert_equivariant(Broken(torch.tanh), x, s)


def test_one_entry_is_enough_to_catch_a_relu():
    s = Structure(3, {"<i j k>": torch.tensor([[0], [1], [2]])})
    with pytest.raises(AssertionError, match="orientation 0"):
        assert_equivariant(
            lambda x, s: torch.relu(x), torch.ones(1, 1), s, inputs="<i j k>", trials=1
        )


def test_other_causes_are_still_told_apart():
    s = complex_of()
    x = random_features("<i j>", s, 2, generator=generator())
    with pytest.raises(AssertionError, match="relabelling 0"):
        assert_equivariant(lambda x, s: x * torch.arange(len(x))[:, None], x, s, inputs="<i j>")
    both = s.with_pattern("{i j}")
    nodes = random_features("i", s, 2, generator=generator())
    with pytest.raises(AssertionError, match="rewriting 0"):
        assert_equivariant(lambda x, s: x[s["{i j}"][0]], nodes, both, inputs="i", outputs="{i j}")


def test_random_structures_have_random_orientations():
    s = random_structure(6, ["<i j>"], density=1.0, generator=generator())
    assert 0 < int((s["<i j>"][0] < s["<i j>"][1]).sum()) < 15


def modules() -> dict[str, nn.Module]:
    by_tensor = {"i": torch.relu, "<i j>": torch.tanh, "<i j k>": Gate(3)}
    layer = Linear(f"{SIDE} -> {SIDE}", 3, 3, aggr="mean")
    return {
        "layer": layer,
        "norms": Sequential(BatchNorm(SIDE, 3), LayerNorm(SIDE, 3)),
        "activation": Activation(by_tensor),
        "network": Sequential(
            layer,
            BatchNorm(SIDE, 3),
            Activation(by_tensor),
            Residual(Linear(f"{SIDE} -> {SIDE}", 3, 3)),
            Dropout(0.5),
        ),
        "readout": Sequential(layer, Readout(SIDE, ["sum", "max", "std"]), nn.ReLU()),
        "squares": Readout(SIDE, even="square"),
    }


@pytest.mark.parametrize("name", modules())
def test_modules_around_oriented_tensors_are_equivariant_with_signs(name):
    torch.manual_seed(0)
    module = modules()[name].double()
    for parameter in module.parameters():
        nn.init.normal_(parameter)
    if name == "network":
        module.eval()
    s = collate([complex_of(seed=1), complex_of(TORUS, seed=2)])
    outputs = "" if name in ("readout", "squares") else None
    assert_equivariant(
        module,
        random_features(SIDE, s, generator=generator()),
        s,
        outputs=outputs,
        rtol=1e-8,
        atol=1e-8,
    )


@pytest.mark.parametrize(
    ("activation", "norm"),
    [
        (None, "batch"),
        (None, "none"),
        ("softshrink", "batch"),
        ("sin", "none"),
        ({"<i j>": "gate", "i": "silu"}, "layer"),
    ],
    ids=["chosen", "no norm", "soft threshold", "waves", "gates"],
)
@pytest.mark.parametrize(
    "text", [f"{SIDE} -> ", f"{SIDE} -> <i j>", "<i j> -> i, <i j k>", "i, <i j> -> {i j}"]
)
def test_networks_choose_what_is_allowed(text, activation, norm):
    if isinstance(activation, dict) and "i," not in text.split("->")[0]:
        activation = {"<i j>": "gate"}
    torch.manual_seed(0)
    s = complex_of().with_pattern("{i j}")
    net = IncidenceNet(text, 2, 3, hidden=4, depth=1, norm=norm, activation=activation).double()
    x = random_features(text.split("->")[0], s, 2, generator=generator())
    net.calibrate(x, s)
    net(x, s)
    assert_equivariant(
        net.eval(), x, s, outputs="" if text.endswith("-> ") else None, rtol=1e-7, atol=1e-8
    )


def test_the_preset_flows_reads_flows():
    net = make("flows", {"i": 2, "<i j>": 1, "<i j k>": 1}, out_channels=1, at="<i j>").double()
    assert str(net.map) == "i, <i j>, <i j k> -> <i j>"
    s = complex_of()
    x = {
        "i": torch.randn(6, 2),
        "<i j>": torch.randn(s.num_entries("<i j>"), 1),
        "<i j k>": torch.randn(s.num_entries("<i j k>"), 1),
    }
    x = {key: value.double() for key, value in x.items()}
    net.calibrate(x, s)
    assert_equivariant(net.eval(), x, s, rtol=1e-7)


def test_a_relu_for_oriented_tensors_is_refused_when_the_network_is_made():
    for settings in ({"activation": "relu"}, {"activation": {"<i j>": "silu"}}):
        with pytest.raises(
            IncidenceError,
            match=r"values of `<i j>` change sign .* must be odd, and (relu|silu) is not",
        ):
            IncidenceNet("i, <i j> -> i", 2, 3, **settings)
    with pytest.raises(
        IncidenceError, match=r"activation has `{i j}`, and the network has `i`, `<i j>`"
    ):
        IncidenceNet("i, <i j> -> i", 2, 3, activation={"{i j}": "relu"})


def test_flows_are_scaled_and_not_shifted():
    predictor = Predictor(
        IncidenceNet("i, <i j> -> <i j>", {"i": 1, "<i j>": 1}, hidden=4, depth=0)
    )
    flow = torch.tensor([[3.0], [5.0]])
    predictor.fit_scales(
        [{"i": torch.tensor([[1.0], [3.0]]), "<i j>": flow}], [torch.tensor([1.0, 7.0])]
    )
    scaled = predictor.standardise({"i": torch.tensor([[1.0], [3.0]]), "<i j>": flow})
    assert scaled["i"].tolist() == [[-1.0], [1.0]]
    assert torch.allclose(scaled["<i j>"], flow / 17**0.5)
    assert predictor.target_shift.tolist() == [0.0]
    assert predictor.target_scale.item() == pytest.approx(5.0)


# ---- published layers, as a choice of operations, beside their matrices


def weights(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=generator(sum(shape)))


def layer_of(text: str, *parts: torch.Tensor) -> Linear:
    """A layer with given weights, one for each operation, and no bias."""
    layer = Linear(text, *parts[0].shape, bias=False, dtype=torch.float64)
    with torch.no_grad():
        layer.weight.copy_(torch.stack(parts))
    return layer


@pytest.fixture
def flow():
    s = complex_of(TORUS[:-3])
    return s, geometry.hodge(s, 1), weights(s.num_entries("<i j>"), 3)


def up(x: torch.Tensor, s: Structure) -> torch.Tensor:
    """The up Laplacian: there by the coboundary, back by the boundary."""
    one = torch.eye(x.shape[1], dtype=x.dtype)
    return layer_of("<i j k> -> <i j>", one)(layer_of("<i j> -> <i j k>", one)(x, s), s)


def test_scone_is_a_choice_of_operations(flow):
    s, h, x = flow
    identity, lower, upper = weights(3, 4), weights(3, 5)[:, :4], weights(3, 6)[:, :4]
    ours = torch.tanh(layer_of("<i j> -> <i j>", lower, identity)(x, s) + up(x, s) @ upper)
    theirs = torch.tanh(x @ identity + h.down @ x @ lower + h.up @ x @ upper)
    assert torch.allclose(ours, theirs)


def test_scn_is_a_choice_of_operations(flow):
    s, h, x = flow
    w = weights(3, 4)
    # one weight for the Laplacian and the identity
    ours = layer_of("<i j> -> <i j>", w, w)(x, s) + up(x, s) @ w
    assert torch.allclose(ours, (h.laplacian @ x + x) @ w)


def test_scnn_is_a_polynomial_of_operations(flow):
    s, h, x = flow
    one = torch.eye(3, dtype=torch.float64)
    down = layer_of("<i j> -> <i j>", one, 0 * one)
    w = [weights(3, 4 + k)[:, :4] for k in range(5)]
    lower, upper = [x], [x]
    for _ in range(2):
        lower, upper = [*lower, down(lower[-1], s)], [*upper, up(upper[-1], s)]
    ours = x @ w[0] + lower[1] @ w[1] + lower[2] @ w[2] + upper[1] @ w[3] + upper[2] @ w[4]
    theirs = (
        x @ w[0]
        + h.down @ x @ w[1]
        + h.down @ (h.down @ x) @ w[2]
        + h.up @ x @ w[3]
        + h.up @ (h.up @ x) @ w[4]
    )
    assert torch.allclose(ours, theirs)


def test_the_linear_part_of_mpsn_is_a_choice_of_operations(flow):
    s, h, x = flow
    nodes, triangles = weights(s.counts["node"], 3), weights(s.num_entries("<i j k>"), 3)
    layer = Linear("i, <i j>, <i j k> -> <i j>", 3, 4, bias=False, dtype=torch.float64)
    w = [weights(3, 4 + k)[:, :4] for k in range(5)]
    with torch.no_grad():
        layer.weight_0_0.copy_(w[0][None])  # boundaries: the gradient of the nodes
        # lower adjacent edges, and the edge itself
        layer.weight_1_0.copy_(torch.stack([w[1], w[2]]))
        layer.weight_2_0.copy_(w[3][None])  # coboundaries
    # and upper adjacent edges
    ours = layer({"i": nodes, "<i j>": x, "<i j k>": triangles}, s) + up(x, s) @ w[4]
    theirs = (
        h.boundary.T @ nodes @ w[0]
        + h.down @ x @ w[1]
        + x @ w[2]
        + h.coboundary.T @ triangles @ w[3]
        + h.up @ x @ w[4]
    )
    assert torch.allclose(ours, theirs)


@pytest.mark.parametrize("activation", ["tanh", "gate", "softshrink"])
def test_a_network_with_oriented_tensors_has_an_outline_without_memory(activation):
    with torch.device("meta"):
        net = make("flows", {"i": 1, "<i j>": 2, "<i j k>": 1}, activation={"<i j>": activation})
    assert all(p.is_meta for p in net.parameters())
