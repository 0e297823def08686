"""What may be done to values of oriented faces, and what is refused when a network is made."""

import copy
import functools

import pytest
import torch
from torch import nn

from incidence.errors import IncidenceError
from incidence.nn import (
    Activation,
    AutomorphismLinear,
    BatchNorm,
    Dropout,
    Exchangeable,
    Gate,
    LayerNorm,
    Linear,
    Readout,
    Residual,
    Sequential,
)
from incidence.nn.odd import is_odd
from incidence.structure import Structure, collate
from incidence.structure.features import ones

T = torch.tensor
FLOW = "<i j> -> <i j>"
TRIANGLE = Structure(3, {"<i j>": T([[0, 2, 1], [1, 0, 2]])})


class Doubled(nn.Module):
    """A module of someone else's, which takes no structure."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return 2 * x


ODD = {
    "tanh": torch.tanh,
    "tanh as a module": nn.Tanh(),
    "soft threshold": nn.Softshrink(),
    "hard threshold": nn.Hardshrink(),
    "x |x|": lambda x: x * x.abs(),
    "gate": Gate(4),
    "linear map": nn.Linear(4, 6, bias=False),
    "dropout": nn.Dropout(0.5),
    "rms over channels": nn.RMSNorm(4),
    "layer norm without shift": nn.LayerNorm(4, bias=False),
    "several": nn.Sequential(nn.Linear(4, 6, bias=False), nn.Tanh(), nn.Linear(6, 1, bias=False)),
    "identity": nn.Identity(),
    "someone else's": Doubled(),
}
NOT_ODD = {
    "relu": torch.relu,
    "relu as a module": nn.ReLU(),
    "leaky relu": nn.LeakyReLU(0.9),
    "gelu": nn.functional.gelu,
    "softplus": nn.Softplus(),
    "abs": torch.abs,
    "an added constant": lambda x: x + 1e-3,
    "linear map with bias": nn.Linear(4, 6),
    "layer norm, whose shift is 0 before training": nn.LayerNorm(4),
    "batch norm, which subtracts a mean of entries while training": nn.BatchNorm1d(4, affine=False),
    "a mean over entries": lambda x: x - x.mean(0),
    "prelu, which is the identity at one value of its parameter": nn.PReLU(init=1.0),
    "random slopes": nn.RReLU(),
    "a partial": functools.partial(nn.functional.leaky_relu, negative_slope=0.2),
    "sorted": lambda x: x.sort(0)[0],
    "fewer rows": lambda x: x[:1],
}


@pytest.mark.parametrize("name", ODD)
def test_odd_functions_are_seen_to_be_odd(name):
    assert is_odd(ODD[name], 4)
    assert is_odd(ODD[name])  # the width is found out


@pytest.mark.parametrize("name", NOT_ODD)
def test_functions_that_are_not_odd_are_seen_not_to_be(name):
    assert not is_odd(NOT_ODD[name], 4)


def test_trying_a_function_changes_neither_it_nor_random_numbers():
    module = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Dropout(0.5))
    before = copy.deepcopy(module.state_dict())
    torch.manual_seed(0)
    expected = torch.rand(3)
    torch.manual_seed(0)
    is_odd(module)
    assert torch.equal(torch.rand(3), expected)
    assert all(torch.equal(value, before[key]) for key, value in module.state_dict().items())
    assert module.training


# ---- refused when the network is made

REFUSED = {
    "relu after a layer": lambda: Sequential(Linear(FLOW, 4, 4), Activation()),
    "relu of torch": lambda: Sequential(Linear(FLOW, 4, 4), nn.ReLU()),
    "relu with others between": lambda: Sequential(
        Linear(FLOW, 4, 4), Dropout(0.5), BatchNorm("<i j>", 4), Activation(torch.relu)
    ),
    "relu after a norm alone": lambda: Sequential(LayerNorm("i, <i j>", 4), Activation()),
    "relu before a layer": lambda: Sequential(nn.ReLU(), Dropout(0.1), Linear(FLOW, 4, 4)),
    "relu in a residual": lambda: Residual(Linear(FLOW, 4, 4), nn.ReLU()),
    "relu before the layer of a residual": lambda: Residual(nn.ReLU(), Linear(FLOW, 4, 4)),
    "relu in a sequence of a sequence": lambda: Sequential(
        Linear(FLOW, 4, 4), Sequential(Dropout(0.1), Activation())
    ),
    "relu after a residual": lambda: Sequential(
        Linear(FLOW, 4, 4), Residual(Linear(FLOW, 4, 4)), nn.ReLU()
    ),
    "relu added at the end": lambda: Sequential(Linear(FLOW, 4, 4)).append(nn.ReLU()),
    "relu put before": lambda: Sequential(Linear(FLOW, 4, 4)).insert(0, nn.ReLU()),
    "a bias": lambda: Sequential(Linear(FLOW, 4, 4), nn.Linear(4, 4)),
    "a sequence of torch": lambda: Sequential(
        Linear(FLOW, 4, 4), nn.Sequential(nn.Linear(4, 8, bias=False), nn.ReLU())
    ),
    "relu for one of several tensors": lambda: Sequential(
        Linear("i, <i j> -> i, <i j>", 4, 4), Activation()
    ),
    "relu by tensor": lambda: Activation({"i": torch.relu, "<i j>": torch.relu}),
    "relu by a named tensor": lambda: Activation({"flow=<i j>": torch.relu}),
    "relu after functions by tensor": lambda: Sequential(
        Activation({"i": torch.relu, "<i j>": torch.tanh}), Activation()
    ),
    "relu where the orientation is settled by writing": lambda: Sequential(
        Linear("i <i j> -> i <i j>", 4, 4), Activation()
    ),
    "relu on an even class": lambda: Sequential(
        Linear("<i j> <i j> -> <i j> <i j>", 4, 4), Activation()
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_odd_is_refused_on_oriented_tensors_when_the_network_is_made(name):
    with pytest.raises(
        IncidenceError,
        match=(
            r"values of `.*<i j>.*` change sign with the orientation of their entry, so functions"
            r" of them must"
        ),
    ):
        REFUSED[name]()


def test_the_refusal_says_what_to_do():
    with pytest.raises(
        IncidenceError,
        match=(
            r"must be odd, and relu is not\. Take nn\.Tanh\(\), nn\.Softshrink\(\),"
            r" inc\.nn\.Gate\(channels\) or a linear map without "
            r"bias; or write `{i j}` for values without a sign\."
        ),
    ):
        Sequential(Linear(FLOW, 4, 4), Activation())


def test_a_function_that_cannot_be_tried_is_refused_with_what_it_said():
    class Picky(nn.Module):
        def forward(self, x):
            raise ValueError("only on Sundays")

    with pytest.raises(
        IncidenceError, match=r"and Picky cannot be tried \(ValueError: only on Sundays\)"
    ):
        Sequential(Linear(FLOW, 4, 4), Picky())


def test_what_is_allowed_is_allowed():
    side = "i, <i j>"
    functions = Activation({"i": torch.relu, "<i j>": torch.tanh})
    made = [
        Sequential(
            Linear(f"{side} -> {side}", 4, 4),
            BatchNorm(side, 4),
            functions,
            Readout(side),
            nn.ReLU(),
        ),
        Sequential(
            Linear("<i j> -> i", 4, 4),
            nn.ReLU(),
            Linear("i -> <i j>", 4, 4),
            nn.Tanh(),
            nn.Linear(4, 2, bias=False),
        ),
        Sequential(Linear("{i j} -> {i j}", 4, 4), nn.ReLU(), nn.Linear(4, 2)),
        Sequential(nn.ReLU(), nn.Linear(4, 2)),
    ]
    assert list(map(len, made)) == [5, 5, 3, 2]


def test_layers_of_other_groups_refuse_oriented_faces():
    with pytest.raises(
        IncidenceError,
        match=(
            r"AutomorphismLinear shares weights along orbits .* got `<i j>`\. Use inc\.nn\.Linear"
        ),
    ):
        AutomorphismLinear(TRIANGLE, FLOW, 2, 2)
    with pytest.raises(
        IncidenceError, match=r"Exchangeable permutes the faces of each dimension, .* got `i <i j>`"
    ):
        Exchangeable("i <i j>", 2, 2)


def test_a_constant_is_no_feature_of_oriented_faces():
    with pytest.raises(
        IncidenceError,
        match=r"the value 1 of `<i j>` depends on the orientation .* Give ones to `{i j}`",
    ):
        ones(TRIANGLE, "<i j>")


# ---- norms, gates, readouts


def signs_of(rows: int) -> torch.Tensor:
    return torch.where(
        torch.rand(rows, 1, generator=torch.Generator().manual_seed(1)) < 0.5, -1.0, 1.0
    ).double()


@pytest.mark.parametrize("norm", [BatchNorm, LayerNorm])
@pytest.mark.parametrize("is_training", [True, False])
def test_norms_of_oriented_tensors_are_odd_in_every_entry(norm, is_training):
    module = norm("<i j>", 5).double().train(is_training)
    for parameter in module.parameters():
        nn.init.normal_(parameter)
    x, signs = torch.randn(3, 5, dtype=torch.float64), signs_of(3)
    assert torch.allclose(module(signs * x, TRIANGLE), signs * module(x, TRIANGLE))


def test_batch_norm_of_an_oriented_tensor_divides_by_the_root_mean_square():
    module, x = BatchNorm("<i j>", 2, eps=0.0), torch.randn(3, 2) * T([2.0, 5.0]) + 1
    y = module(x, TRIANGLE)
    assert torch.allclose(y.square().mean(0), torch.ones(2))
    assert torch.allclose(y, x / x.square().mean(0).sqrt())
    running = module.norms[0][0].running_square
    assert torch.allclose(running, 0.9 + 0.1 * x.square().mean(0))
    module.eval()
    assert torch.allclose(module(x, TRIANGLE), x / running.sqrt())


def test_one_entry_or_none_is_divided_by_the_running_root_mean_square():
    module = BatchNorm("<i j>", 2)
    module.norms[0][0].running_square.fill_(4.0)
    for count in (0, 1):
        s = Structure(2, {"<i j>": T([[0], [1]])[:, :count]})
        assert torch.allclose(
            module(torch.ones(count, 2), s), torch.full((count, 2), 0.5), atol=1e-4
        )
    assert module.norms[0][0].running_square.tolist() == [4.0, 4.0]


def test_other_tensors_keep_the_norms_they_had():
    batch, layer = BatchNorm("i, <i j>", 3), LayerNorm("i, <i j>", 3)
    assert [sorted(name for name, _ in norms[0].named_parameters()) for norms in batch.norms] == [
        ["bias", "weight"],
        ["weight"],
    ]
    assert [sorted(name for name, _ in norms[0].named_parameters()) for norms in layer.norms] == [
        ["bias", "weight"],
        ["weight"],
    ]


def test_a_gate_depends_on_sizes_or_on_other_features():
    gate = Gate(3)
    x = torch.randn(4, 3)
    assert torch.allclose(gate(x), x * torch.sigmoid(gate.opening(x.abs())))
    by, z = Gate(3, by=2), torch.randn(4, 2)
    assert torch.allclose(by(x, z), x * torch.sigmoid(by.opening(z)))
    assert torch.allclose(by(-x, z), -by(x, z))
    with pytest.raises(IncidenceError, match="channels is a number of channels, at least 1; got 0"):
        Gate(0)


@pytest.mark.parametrize(("even", "change"), [("abs", torch.abs), ("square", torch.square)])
def test_a_readout_of_an_oriented_tensor_is_one_of_its_sizes(even, change):
    s = collate(
        [
            TRIANGLE,
            Structure(4, {"<i j>": T([[3, 1], [0, 0]])}),
            Structure(2, {"<i j>": T([[], []]).long()}),
        ]
    )
    x = torch.randn(5, 3, dtype=torch.float64)
    found = Readout("<i j>", ["sum", "mean", "max"], even=even)(x, s)
    parts = change(x).split([3, 2])
    expected = torch.stack([torch.cat([p.sum(0), p.mean(0), p.amax(0)]) for p in parts])
    assert torch.allclose(found[:2], expected)
    assert not found[2].any()
    both = Readout("i, <i j>, <i j> <j k>", even=even)
    t = TRIANGLE.with_pattern("<i j> <j k>")
    values = {
        "i": torch.randn(3, 2),
        "<i j>": torch.randn(3, 2),
        "<i j> <j k>": torch.randn(t.num_entries("<i j> <j k>"), 2),
    }
    y = both(values, t)
    assert y.shape == (1, both.out_channels(2)) == (1, 8)  # two orbits of pairs of edges
    assert torch.allclose(y[0, :2], values["i"].sum(0))
    assert torch.allclose(y[0, 2:4], change(values["<i j>"]).sum(0))
    assert torch.allclose(y[0, 4:6] + y[0, 6:], change(values["<i j> <j k>"]).sum(0))


def test_a_readout_takes_even_functions_that_are_there():
    with pytest.raises(
        IncidenceError,
        match="even= is `abs` or `square`, what a readout takes of values with a sign; got 'cube'",
    ):
        Readout("<i j>", even="cube")


def test_readouts_of_oriented_tensors_are_kept_and_traced():
    readout = Readout("<i j>", "mean")
    x = torch.randn(3, 2)
    expected = readout(x, TRIANGLE)
    readout.plan(TRIANGLE)
    compiled = torch.compile(readout, fullgraph=True, backend="eager")
    assert torch.allclose(compiled(x, TRIANGLE), expected)


def test_an_activation_by_tensor_prints_and_copies_and_trains_its_parts():
    activation = Activation({"i": torch.relu, "<i j>": Gate(3)})
    assert "relu" in repr(activation)
    assert "Gate" in repr(activation)
    assert len(list(copy.deepcopy(activation).parameters())) == 2
    x = {"i": torch.randn(3, 3), "<i j>": torch.randn(3, 3)}
    y = activation(x, TRIANGLE)
    assert torch.equal(y["i"], x["i"].relu())
    assert torch.equal(y["<i j>"], activation.functions[1](x["<i j>"]))
    assert torch.equal(Activation({"<i j>": torch.tanh})(x["<i j>"], TRIANGLE), x["<i j>"].tanh())
    with pytest.raises(
        IncidenceError, match=r"an activation is a function of a tensor, such as torch\.relu; got 3"
    ):
        Activation({"i": 3})


@pytest.mark.parametrize(
    "after",
    [Linear("{i j} -> i", 2, 2), BatchNorm("{i j}", 2), Readout("{i j}")],
    ids=["layer", "norm", "readout"],
)
def test_a_flow_is_not_handed_on_as_a_tensor_without_signs(after):
    with pytest.raises(
        IncidenceError,
        match=r"reads `\{i j\}`, and what comes in is `<i j>`: values of oriented faces have signs",
    ):
        Sequential(Linear("<i j> -> <i j>", 2, 2), after)


def test_a_flow_is_not_handed_on_in_the_opposite_spelling():
    with pytest.raises(IncidenceError, match="reads `i <j i>`, and what comes in is `i <i j>`"):
        Sequential(Linear("<i j> -> i <i j>", 2, 2), Linear("i <j i> -> i", 2, 2))


def test_a_module_put_in_the_place_of_another_must_be_odd_too():
    steps = Sequential(Linear("<i j> -> <i j>", 4, 4), nn.Tanh())
    with pytest.raises(IncidenceError, match="functions of them must be odd"):
        steps[1] = nn.ReLU()
