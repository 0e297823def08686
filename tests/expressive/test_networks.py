"""Networks with their own layers: their rounds, and that random weights agree."""

import copy

import pytest
import torch
from torch import nn

import incidence as inc
from incidence.models.net import IncidenceNet
from incidence.models.predictor import Predictor
from incidence.nn import Activation, Linear, Readout, Residual, Sequential
from tests.expressive.graphs import as_edges, as_matrix, cycle, partition, rook, shrikhande

EDGES = "i, {i j} -> i, {i j}"
SIDE = "i, {i j}"
PATHS = [[{1}, {0, 2}, {1, 3}, {2}], [{1, 2, 3}, {0}, {0}, {0}], *(cycle(4), cycle(3))]


def ones(batch, keys):
    return {key: inc.ones(batch, key) for key in keys}


def by_random_weights(net, batch, keys):
    """Classes of the outputs of a network whose weights are random, in double precision."""
    net = copy.deepcopy(net).double().eval()
    x = {key: value.double() for key, value in ones(batch, keys).items()}
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.normal_()
        y = net(x if len(x) > 1 else next(iter(x.values())), batch)
    scale = y.abs().amax().clamp(min=1)
    return partition([tuple(row) for row in (y / scale * 1e8).round().tolist()])


def deep_path(length):
    return [{v for v in (u - 1, u + 1) if 0 <= v < length} for u in range(length)]


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_a_network_sees_as_far_as_it_is_deep(depth):
    batch = inc.collate([as_edges(deep_path(n)) for n in (20, 20)])
    x = torch.zeros(40, 1)
    # the distances of the marks to the nearer end are 8 and 9: a layer leads from edge to edge
    x[[8, 29]] = 1
    layers = [Linear(EDGES, -1, 8, operations="local"), Activation(torch.relu)]
    for _ in range(depth - 1):
        layers += [Linear(EDGES, 8, 8, operations="local"), Activation(torch.relu)]
    e = inc.expressivity(Sequential(*layers), batch, features={"i": x})
    whole = inc.expressivity(EDGES, batch, features={"i": x}, operations="local")
    assert e.rounds == depth
    assert not e.separates(0, 1)
    assert whole.separates(0, 1)
    assert len(e.colours["i"].unique()) < len(whole.colours["i"].unique())


def test_a_deep_network_tells_apart_what_its_text_does():
    structures = list(map(as_edges, [*PATHS, cycle(6), cycle(3, 3), deep_path(6)]))
    whole = inc.expressivity(EDGES, structures)
    net = IncidenceNet("i, {i j} -> ", {"i": 1, "{i j}": 1}, hidden=8, depth=3)
    e = inc.expressivity(net, structures)
    assert e.classes == whole.classes
    assert e.rounds == 5  # the encoder, three blocks, the readout
    assert e.is_exact


NETS = {
    "edges": {"text": "i, {i j} -> ", "depth": 2},
    "shallow": {"text": "i, {i j} -> ", "depth": 0},
    "max": {"text": "i, {i j} -> ", "depth": 2, "aggr": "max", "whole": "max", "readout": ("max",)},
    "mean": {"text": "i, {i j} -> ", "depth": 2, "aggr": "mean", "readout": ("mean",)},
    "nodes alone": {"text": "i -> ", "depth": 2},
    "nodes": {"text": "i, {i j} -> ", "depth": 1, "ends": "entry", "operations": "local"},
    "neighbours": {
        "text": "i, {i j} -> ",
        "depth": 2,
        "ends": "entry",
        "adjacent": True,
        "norm": "layer",
    },
    "products": {"text": "i, {i j} -> ", "depth": 1, "products": ("{i j}, {j k} -> {i k}",)},
}


@pytest.mark.parametrize("name", NETS)
def test_random_weights_agree_with_the_exact_classes(name):
    settings = dict(NETS[name])
    text = settings.pop("text")
    torch.manual_seed(0)
    keys = ["i", "{i j}"] if "{i j}" in text else ["i"]
    graphs = [*PATHS, cycle(6), cycle(3, 3), deep_path(6), cycle(8), cycle(3, 5), cycle(4, 4)]
    batch = inc.collate(list(map(as_edges, graphs)))
    channels = dict.fromkeys(keys, 1)
    # functions that lose nothing: what differs then differs in the outputs
    chosen = {"norm": "none", "activation": "tanh", "dropout": 0.0, **settings}
    net = IncidenceNet(text, channels, 4, hidden=24, **chosen)
    e = inc.expressivity(net, batch)
    torch.manual_seed(1)
    random = by_random_weights(net, batch, keys)
    pairs = set(zip(e.classes, random, strict=True))
    assert len(pairs) == len(set(e.classes))  # never more than the exact answer
    assert len(set(random)) == len(set(e.classes))  # and all of it


def test_attention_is_an_upper_bound():
    pair = [as_edges(cycle(6)), as_edges(cycle(3, 3))]
    layer = inc.nn.Attention("{i j}", "i j", 8, 8)
    assert not inc.expressivity(layer, pair).is_exact
    net = IncidenceNet(
        "i, {i j} -> ", 1, through="i, {i j}, ", attention=("{i j} over i j",), depth=1, hidden=4
    )
    e = inc.expressivity(net, pair)
    assert not e.is_exact
    assert not e.separates(0, 1)
    directed = inc.nn.Attention("(i j)", "j", 8, 8, edge_channels=2)
    one = inc.Structure(3, {"(i j)": [[0, 0, 1], [1, 2, 0]]})
    assert inc.expressivity(directed, one).colours["i"].tolist() == [2, 1, 0]


def test_layers_alone_are_layers_of_networks_of_any_depth():
    pair = [as_edges(cycle(6)), as_edges(cycle(3, 3))]
    layer = Linear(EDGES, 4, 4)
    assert inc.expressivity(layer, pair).classes == (0, 0)
    assert inc.expressivity(inc.nn.Neighbours("i, {i j}"), pair).classes == (0, 0)
    matrices = list(map(as_matrix, [cycle(6), cycle(3, 3), rook(), shrikhande()]))
    product = inc.nn.Product("i j, j k -> i k", 4, 4)
    assert inc.expressivity(product, matrices).classes == (0, 1, 2, 2)
    complete = inc.nn.Product("i j, j k -> i k", 4, 4, is_complete=True)
    assert inc.expressivity(complete, matrices).classes == (0, 1, 2, 2)
    multilinear = inc.nn.Multilinear("i j * i j -> i j", 2, 2)
    assert inc.expressivity(multilinear, matrices[:2]).classes == (0, 1)


def test_neighbours_read_what_stands_around():
    structures = list(map(as_edges, [*PATHS, cycle(6), cycle(3, 3), deep_path(6)]))
    e = inc.expressivity(inc.nn.Neighbours("i, {i j}"), structures)
    assert e.classes == inc.expressivity(EDGES, structures).classes
    diffusion = Sequential(inc.nn.Diffusion("i, {i j}", steps=2), Readout("i"))
    assert not inc.expressivity(diffusion, structures).is_exact


def test_a_residual_keeps_what_went_in():
    batch = inc.collate([as_edges(cycle(6)), as_edges(cycle(6))])
    x = torch.zeros(12, dtype=torch.long)
    x[[0, 1, 6, 8]] = 1
    to_edges = Linear("i, {i j} -> {i j}, i", -1, 4, operations="global")
    bare = inc.expressivity(Sequential(to_edges), batch, features={"i": x})
    kept = inc.expressivity(Sequential(Residual(to_edges)), batch, features={"i": x})
    assert len(bare.colours["i"].unique()) == 1
    assert len(kept.colours["i"].unique()) == 2


def test_zeros_of_two_orbits_are_equal_without_a_bias_or_a_norm():
    s = inc.Structure.complete(3, ["i j"])
    empty = s.with_index({"(i j k)": [[], [], []]})
    layer = Linear("(i j k) -> i j", 1, 1, bias=False)
    features = {"(i j k)": torch.zeros(0, 1)}
    colours = inc.expressivity(Sequential(layer, Activation()), empty, features).colours["i j"]
    assert len(colours.unique()) == 1
    normed = Sequential(layer, inc.nn.LayerNorm("i j", 1))
    assert len(inc.expressivity(normed, empty, features).colours["i j"].unique()) == 2


def test_a_predictor_is_its_network():
    pair = [as_edges(cycle(6)), as_edges(cycle(3, 3))]
    net = IncidenceNet("i, {i j} -> ", {"i": 1, "{i j}": 1}, hidden=4)
    assert inc.expressivity(Predictor(net), pair).classes == (0, 0)


def test_outputs_of_entries_have_the_colours_of_their_head():
    batch = inc.collate([as_edges(deep_path(5))])
    net = IncidenceNet("i, {i j} -> i", {"i": 1, "{i j}": 1}, hidden=4, depth=2)
    e = inc.expressivity(net, batch)
    assert partition(e.colours["i"].tolist()) == (0, 1, 2, 1, 0)


class Other(nn.Module):
    def forward(self, x):
        return x


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Sequential(Linear(EDGES, 1, 1), Other()), "cannot follow Other"),
        (lambda: nn.Linear(3, 3), "Linear has no layer of incidence"),
        (lambda: Sequential(Linear("<i j> -> <i j>", 1, 1)), "values without a sign"),
        (
            lambda: Sequential(inc.nn.Product("i, j -> {i j}", 1, 1, is_complete=True)),
            "cannot follow Product with is_complete=True",
        ),
        (
            lambda: IncidenceNet("i, {i j} -> ", {"i": 1, "{i j}": 1}, hidden=4, harmonic=3),
            "also reads the holes of a structure.*harmonic=0",
        ),
        (
            lambda: IncidenceNet("i, {i j} -> i", {"i": 1, "{i j}": 1}, hidden=4, harmonic=3),
            "also reads the holes of a structure.*harmonic=0",
        ),
    ],
)
def test_networks_that_cannot_be_followed_are_refused(make, message):
    with pytest.raises(inc.IncidenceError, match=message):
        inc.expressivity(make(), as_edges(cycle(6)))


def test_options_of_texts_are_refused_for_networks():
    with pytest.raises(inc.IncidenceError, match="aggr= is for the text of a map; Linear has its"):
        inc.expressivity(Linear(EDGES, 1, 1), as_edges(cycle(6)), aggr="max")
