"""Networks respect relabelling whatever they are made of, and structures of a batch do not see each
other.
"""

from __future__ import annotations

import json
from dataclasses import FrozenInstanceError
from typing import Any

import pytest
import torch

import incidence as inc
from incidence.algebra.describe import read as in_words
from incidence.algebra.selection import predicate
from incidence.data.lifts import lift_all
from incidence.errors import IncidenceError, PatternError
from incidence.models import (
    PRESETS,
    IncidenceNet,
    NetSettings,
    assert_has,
    find_preset,
    make,
    preset_for,
    read_channels,
)
from incidence.models.blocks import NeighbourTerm, RowScale
from incidence.models.settings import ACTIVATIONS, NORMS
from incidence.nn import Linear, Sequential
from incidence.nn.norms import RowNorm
from incidence.testing import assert_equivariant
from tests.models.small import WIDTHS, for_preset, graph, noise, table

SMALL: dict[str, Any] = {"hidden": 5, "depth": 1, "heads": 5}


def widths(example: inc.Example) -> dict[str, int]:
    return {key: x.shape[1] for key, x in example.features.items()}


def read(net: IncidenceNet, example: inc.Example) -> Any:
    return dict(
        zip((p.name or str(p) for p in net.map.inputs), net.select(example.features), strict=True)
    )


def warm(net: IncidenceNet, example: inc.Example) -> IncidenceNet:
    """In double precision, with running statistics that are those of some data, ready to
    predict.
    """
    torch.manual_seed(1)
    net = net.double().train()
    x = {key: value.double() for key, value in read(net, example).items()}
    for _ in range(3):
        net(x, example.structure)
    return net.eval()


def assert_respects(net: IncidenceNet, example: inc.Example) -> None:
    net = warm(net, example)
    x = {key: value.double() for key, value in read(net, example).items()}
    assert_equivariant(
        net,
        x if len(x) > 1 else next(iter(x.values())),
        example.structure,
        rtol=1e-9,
        atol=1e-9,
        trials=1,
    )


@pytest.mark.parametrize("at", ["", "i", "{i j}"])
@pytest.mark.parametrize(
    "name", [name for name in PRESETS if name not in ("completion", "hypergraph", "relational")]
)
def test_every_preset_respects_relabelling(name, at):
    example = for_preset(name)
    assert_respects(make(name, read_channels(name, widths(example)), 2, at, **SMALL), example)


@pytest.mark.parametrize(
    ("name", "at"),
    [
        ("hypergraph", ""),
        ("hypergraph", "i"),
        ("hypergraph", "{i ...}"),
        ("relational", ""),
        ("relational", "u:user"),
        ("relational", "u:user m:movie"),
        ("mesh", "{i j k}"),
        ("rings", "ring={i ...}"),
        ("order3", "i j k"),
    ],
)
def test_outputs_may_belong_to_any_tensor(name, at):
    example = for_preset(name)
    net = make(name, read_channels(name, widths(example)), 2, at, **SMALL)
    assert_respects(net, example)
    y = net.float()(example.features, example.structure)
    assert y.shape == (example.structure.num_entries(at) if at else 1, 2)


def test_several_outputs_come_at_once():
    example = for_preset("triangles")
    inputs = {key: x for key, x in widths(example).items() if key != "pos=i"}
    net = IncidenceNet(
        "i, {i j}, {i j k} -> i, {i j k}, ", inputs, {"i": 1, "{i j k}": 2, "": 3}, **SMALL
    )
    assert_respects(net, example)
    ys = net.float()(example.features, example.structure)
    assert {key: tuple(y.shape) for key, y in ys.items()} == {
        "i": (6, 1), "{i j k}": (example.structure.num_entries("{i j k}"), 2), "": (1, 3),
    }  # fmt: skip


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_norms_and_activations_respect_relabelling(norm, activation):
    assert_respects(
        IncidenceNet("i, {i j} -> i", WIDTHS, norm=norm, activation=activation, **SMALL), graph()
    )


@pytest.mark.parametrize(
    "settings",
    [{"aggr": ["sum", "max", "std"]}, {"aggr": "max", "whole": None}, {"readout": ["mean", "min"]}],
)
def test_layers_may_pool_in_several_ways(settings):
    assert_respects(IncidenceNet("i, {i j} -> , i", WIDTHS, **settings, **SMALL), graph())


def test_open_faces_may_match_two_nodes():
    example = for_preset("rings")
    inputs = {**WIDTHS, "ring={i ...}": 4}
    one, two = (
        IncidenceNet("i, {i j}, ring={i ...} -> ", inputs, max_overlap=k, **SMALL) for k in (1, 2)
    )
    assert sum(p.numel() for p in two.parameters()) > sum(p.numel() for p in one.parameters())
    assert_respects(two, example)


def test_sorts_do_not_mix():
    example = table()
    net = IncidenceNet("u:user, m:movie, u:user m:movie -> m:movie", widths(example), 2, **SMALL)
    assert_respects(net, example)


def test_nodes_that_all_look_alike_are_no_rounding_to_a_network():
    """In single precision: relabelled copies are alike, and what was trained is what predicts."""
    generator = torch.Generator().manual_seed(0)
    circles = [
        inc.Structure(n, {"{i j}": torch.stack([torch.arange(n), (torch.arange(n) + 1) % n])})
        for n in (3, 5, 8, 13)
    ]
    batch = inc.collate(
        [
            inc.Example(
                s, {"i": torch.full((s.num_nodes, 1), 0.3), "{i j}": torch.ones(s.num_nodes, 1)}
            )
            for s in circles
        ]
    )
    torch.manual_seed(0)
    net = make("graph", {"i": 1, "{i j}": 1}, 1, dropout=0.0).calibrate(batch)
    assert max(float(p.detach().abs().max()) for p in net.parameters()) < 20
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-2)
    for _ in range(30):
        optimizer.zero_grad()
        (net(batch) - torch.tensor([[-1.0], [-0.5], [0.5], [1.0]])).square().mean().backward()
        optimizer.step()
    for _ in range(60):  # the running statistics settle
        trained = net(batch).detach()
    predicted = net.eval()(batch).detach()
    # their variance is unbiased
    torch.testing.assert_close(
        predicted - predicted.mean(), trained - trained.mean(), rtol=0.2, atol=0.2
    )
    for number, s in enumerate(circles):
        moved = s.relabel(torch.randperm(s.num_nodes, generator=generator))
        alone = net(
            {"i": torch.full((s.num_nodes, 1), 0.3), "{i j}": torch.ones(s.num_nodes, 1)}, moved
        )
        torch.testing.assert_close(alone, predicted[number : number + 1], rtol=0, atol=1e-3)


def test_depth_0_is_an_encoder_and_a_head():
    assert_respects(IncidenceNet("i, {i j} -> i", WIDTHS, hidden=4, depth=0), graph())


@pytest.mark.parametrize("at", ["", "i"])
def test_one_structure_alone_can_be_trained_on(at):
    example, net = graph(), IncidenceNet(f"i, {{i j}} -> {at}", WIDTHS, **SMALL).train()
    net(example.features, example.structure).square().sum().backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in net.parameters())


def test_a_structure_with_no_edges_can_be_trained_on():
    empty = inc.Structure(3, {"{i j}": torch.zeros(2, 0, dtype=torch.long)})
    net = IncidenceNet("i, {i j} -> ", WIDTHS, **SMALL).train()
    assert net({"i": noise(3, 3), "{i j}": torch.zeros(0, 2)}, empty).isfinite().all()


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("at", ["", "i"])
def test_predictions_do_not_depend_on_batch_mates(norm, at):
    examples = [graph(seed, nodes=4 + seed, chords=1) for seed in range(4)]
    net = warm(
        IncidenceNet(f"i, {{i j}} -> {at}", WIDTHS, norm=norm, **SMALL), inc.collate(examples)
    ).float()
    together = inc.collate(examples)
    alone = torch.cat([net(e.features, e.structure) for e in examples])
    torch.testing.assert_close(
        net(together.features, together.structure), alone, rtol=1e-4, atol=1e-5
    )


def test_calibration_gives_terms_of_unit_size():
    batch = inc.collate([graph(seed) for seed in range(6)])
    net = IncidenceNet("i, {i j} -> ", WIDTHS, norm="none", dropout=0.0, **SMALL)
    scaled = {"i": 100 * batch.features["i"], "{i j}": 0.01 * batch.features["{i j}"]}
    layer = next(m for m in net.encoder.modules() if isinstance(m, Linear))
    before = layer(scaled, batch.structure)["i"].std(0).mean()
    net.calibrate(scaled, batch.structure)
    after = layer(scaled, batch.structure)["i"].std(0).mean()
    assert before > 10
    assert 0.1 < after < 10


@pytest.mark.parametrize("is_training", [True, False])
def test_calibration_leaves_running_statistics_fresh_and_the_mode_as_it_was(is_training):
    batch = inc.collate([graph(seed) for seed in range(4)])
    net = IncidenceNet("i, {i j} -> ", WIDTHS, **SMALL).train(is_training)
    net.calibrate(batch.features, batch.structure)
    norms = [m for m in net.modules() if isinstance(m, RowNorm)]
    assert norms
    for norm in norms:
        assert torch.equal(norm.running_mean, torch.zeros(norm.num_features))
        assert torch.equal(norm.running_var, torch.ones(norm.num_features))
        assert norm.num_batches_tracked == 0
    assert net.training is is_training
    assert not any(m._forward_pre_hooks for m in net.modules())


def test_widths_may_be_left_to_the_first_batch():
    example, net = graph(), IncidenceNet("i, {i j} -> ", **SMALL)
    net.calibrate(example.features, example.structure)
    assert net.eval()(example.features, example.structure).shape == (1, 1)


def test_features_are_found_in_any_spelling():
    example = lift_all([graph()], "rings")[0]
    net = IncidenceNet(
        "a, {b a}, ring={i ...} -> ", {"a": 3, "{b a}": 2, "ring={i ...}": 4}, **SMALL
    ).eval()
    named = {"ring" if key.startswith("ring") else key: x for key, x in example.features.items()}
    assert torch.equal(net(named, example.structure), net(example.features, example.structure))


# ---- refusals


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"norm": "group"}, "norm is one of batch, layer, none; got 'group'"),
        (
            {"activation": "swish"},
            (
                "activation is one of elu, gate, gelu, none, relu, silu, sin, softshrink, tanh; got"
                " 'swish'"
            ),
        ),
        ({"aggr": "median"}, "median"),
        ({"readout": "median"}, "median"),
        ({"in_channels": {"i": 3}}, "in_channels has no value for '{i j}'"),
    ],
)
def test_settings_that_do_not_exist_are_refused(settings, message):
    with pytest.raises(IncidenceError, match=message):
        IncidenceNet("i, {i j} -> ", **{"in_channels": WIDTHS, **SMALL, **settings})


def test_missing_features_are_named():
    example, net = graph(), IncidenceNet("i, {i j}, {i j k} -> ", 2, **SMALL)
    with pytest.raises(
        IncidenceError,
        match=(
            r"the network reads `\{i j k\}`, which has no features here; there are: 'i', '\{i j\}'"
        ),
    ):
        net(example.features, example.structure)


def test_a_model_that_data_does_not_fit_is_refused():
    with pytest.raises(
        IncidenceError,
        match=(
            r"the model 'mesh' reads `\{i j k\}`, and the data has features of `i`, `\{i j\}`:"
            r" lift it"
        ),
    ):
        assert_has("mesh", WIDTHS)
    assert_has("graph", WIDTHS)
    assert_has("nodes", {})


def test_an_unknown_model_is_refused_and_the_known_ones_are_listed():
    with pytest.raises(
        IncidenceError, match=r"no model 'transformer\('; there are: graph, .*Or name the tensors"
    ):
        find_preset("transformer(")


def test_channels_may_be_one_number_for_all_tensors_where_it_is_known_which_these_are():
    assert make("rings", 4).in_channels == [4, 4, 4]
    with pytest.raises(
        IncidenceError,
        match=r"the model 'nodes' reads all tensors that have features: give in_channels for each",
    ):
        make("nodes", 4)
    with pytest.raises(IncidenceError, match=r"no model 'ring'; .* Did you mean 'rings'\?"):
        make("ring", 4)


def test_tensors_are_a_model_of_their_own():
    assert find_preset("i, {i j}").inputs == "i, {i j}"
    assert str(make("i, {i j}", WIDTHS, at="i").map) == "i, {i j} -> i"


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"depth": -1}, "depth, head_depth and hops count layers, from 0; got -1, 1 and 0"),
        ({"head_depth": -2}, "depth, head_depth and hops count layers"),
        ({"hops": -2}, "count layers, from 0; got 3, 1 and -2"),
        ({"harmonic": -1}, "harmonic is a number of columns, from 0; got -1"),
        ({"dropout": 2.0}, "dropout is a probability, from 0 to 1; got 2.0"),
        ({"in_dropout": -1.0}, "in_dropout is a probability, from 0 to 1; got -1.0"),
        ({"ends": "middle"}, "ends is one of layer, entry, query; got 'middle'"),
        ({"scale": "none"}, "scale is one of columns, rows; got 'none'"),
        ({"first_norm": "none "}, "first_norm is one of same, batch, layer, none; got 'none '"),
        ({"dropout_at": "block"}, "dropout_at is one of branch, stream; got 'block'"),
        (
            {"ends": "entry", "through": "i j"},
            "with `ends='entry'` the hidden tensors are among the inputs; got `i j`",
        ),
        ({"out_channels": 0}, "out_channels is a number of channels, at least 1; got 0"),
    ],
)
def test_sizes_that_make_no_network_are_refused(settings, problem):
    with pytest.raises(IncidenceError, match=problem):
        IncidenceNet("i -> ", 3, **settings)


def test_a_network_takes_an_example_or_its_features_and_structure():
    examples = [for_preset("graph"), for_preset("graph")]
    batch = inc.collate(examples)
    torch.manual_seed(0)
    net = make("graph", widths(batch), 2, **SMALL).calibrate(batch).plan(batch).eval()
    assert torch.equal(net(batch), net(batch.features, batch.structure))
    predictor = inc.models.Predictor(net).eval()
    assert torch.equal(predictor(batch), predictor(batch.features, batch.structure))
    assert torch.equal(predictor.predict(batch), predictor.predict(batch.features, batch.structure))
    assert predictor.calibrate(batch) is predictor


@pytest.mark.parametrize(
    ("arguments", "came"),
    [
        (lambda e: (e, e.structure), "an example and a structure"),
        (lambda e: (e.features,), "dict alone"),
    ],
    ids=["two structures", "none"],
)
def test_a_network_needs_one_structure(arguments, came):
    example = for_preset("graph")
    net = make("graph", widths(example), 2, **SMALL)
    with pytest.raises(
        IncidenceError,
        match=f"call it with an example, or with features and their structure.*got {came}",
    ):
        net(*arguments(example))


@pytest.mark.parametrize("name", ["rings", "molecule-rings"])
def test_presets_with_rings_know_the_sides_of_a_ring(name):
    net = make(name, {"i": 2, "{i j}": 1, "ring={i ...}": 1}, **SMALL)
    formulas = {
        in_words(o).formula for layer in [net.encoder[0]] for o in layer.operations_of(1, 2)
    }
    assert "y[{i j ...}] = x[{i j}]" in formulas


def test_tensors_of_a_preset_are_named_as_in_layers():
    net = make("rings", {"i": 2, "{a b}": 3, "ring": 4, "pos=i": 3})
    assert net.in_channels == [2, 3, 4]
    assert make("relational", {"i": 2, "ring={i ...}": 4}).in_channels == [2, 4]


@pytest.mark.parametrize(
    "choice", ["local", ["boundary"], [1, 3, 5, 6], ["global", "y[i] = x[i]"], None], ids=str
)
def test_layers_of_a_network_have_the_operations_that_are_chosen(choice):
    through = "i, {i j}"
    net = IncidenceNet(f"{through} -> i", {"i": 2, "{i j}": 1}, 2, operations=choice, **SMALL)
    layers = {name: m for name, m in net.named_modules() if isinstance(m, Linear)}
    inner = next(m for name, m in layers.items() if name.startswith("blocks"))
    expected = [o for o in inner.map.operations if predicate(choice, inner.map)(o)]
    assert [o for s in range(2) for t in range(2) for o in inner.operations_of(s, t)] == expected
    head = next(m for name, m in layers.items() if name.startswith("heads"))
    kept = {(s, o.overlap) for s in range(2) for o in head.operations_of(s, 0)}
    assert kept == {(o.source.tensor, o.overlap) for o in expected if o.target.tensor == 0}
    example = for_preset("graph")
    read_there = {key: example.features[key].shape[1] for key in ("i", "{i j}")}
    assert_respects(
        IncidenceNet(f"{through} -> i", read_there, 2, operations=choice, **SMALL), example
    )


def test_a_network_without_operations_in_a_layer_is_refused():
    with pytest.raises(IncidenceError, match="operations= keeps none of the 9 operations"):
        IncidenceNet("i, {i j} -> ", 2, operations=lambda o: False)
    with pytest.raises(IncidenceError, match=r"got 'locally'\. Did you mean 'local'"):
        IncidenceNet("i, {i j} -> ", 2, operations="locally")


def test_a_network_inside_of_a_sequential_is_called_with_the_structure():
    structure = inc.Structure(3, {"{i j}": [[0, 1], [1, 2]]})
    net = IncidenceNet("i, {i j} -> i, {i j}", 2, 3, hidden=4, depth=1).eval()
    x = {"i": torch.randn(3, 2), "{i j}": torch.randn(2, 2)}
    y = Sequential(net, torch.nn.ReLU())(x, structure)
    torch.testing.assert_close(y, {key: value.relu() for key, value in net(x, structure).items()})


def test_maps_of_entries_at_both_ends_have_one_weight_a_feature():
    example = graph()
    net = IncidenceNet(
        "i, {i j} -> i",
        WIDTHS,
        2,
        ends="entry",
        depth=0,
        hidden=4,
        norm="none",
        scale="rows",
        in_dropout=0.5,
    )
    assert {tuple(p.shape) for p in net.parameters()} == {(4, 3), (4, 2), (4,), (2, 4), (2,)}
    x = {key: example.features[key] for key in WIDTHS}
    scaled = {key: value / value.abs().sum(1, keepdim=True) for key, value in x.items()}
    assert torch.allclose(
        net.eval()(x, example.structure), net(scaled, example.structure), atol=1e-6
    )
    first, last = net.encoder[2].maps[0], net.heads[0][2].maps[0]
    assert torch.allclose(net(x, example.structure), last(first(scaled["i"]).relu()), atol=1e-6)


def test_channels_that_are_not_known_yet_come_from_the_first_batch():
    example = graph()
    net = IncidenceNet("i, {i j} -> i", -1, 2, ends="entry", depth=0, hidden=4, hops=1)
    assert net({key: example.features[key] for key in WIDTHS}, example.structure).shape == (6, 2)


def test_rows_of_zeros_stay_when_rows_are_scaled():
    x = torch.tensor([[1.0, 3.0], [0.0, 0.0], [-2.0, 2.0]])
    assert RowScale()(x, graph().structure).tolist() == [[0.25, 0.75], [0, 0], [-0.5, 0.5]]


@pytest.mark.parametrize(
    ("text", "through"),
    [
        ("i, {i j} -> i", "i"),
        ("i, {i j} -> i, {i j}", "i, {i j}"),
        ("i, {i ...}, (i j) -> ", "i"),
        ("i -> ", "i"),
        ("{i j} -> ", "{i j}"),
        ("u:user, m:movie, u:user m:movie -> u:user", "u:user, m:movie"),
        ("u:user, u:user m:movie -> u:user", "u:user, u:user m:movie"),
    ],
)
def test_what_joins_nodes_is_not_hidden_where_blocks_have_neighbours(text, through):
    net = IncidenceNet(text, 2, adjacent=True, ends="entry", **SMALL)
    assert net.through == through
    # between nodes that have features
    has_links = text not in ("i -> ", "{i j} -> ", "u:user, u:user m:movie -> u:user")
    assert any(isinstance(m, NeighbourTerm) for m in net.modules()) == has_links


def test_blocks_with_neighbours_respect_relabelling_and_see_what_joins_nodes():
    example, asked = (
        graph(),
        {
            "adjacent": True,
            "ends": "entry",
            "operations": "local",
            "first_norm": "layer",
            "dropout_at": "stream",
        },
    )
    net = IncidenceNet("i, {i j} -> i", WIDTHS, 2, **asked, **SMALL)
    assert_respects(net, example)
    x = {key: value.double() for key, value in read(net, example).items()}
    other = {**x, "{i j}": x["{i j}"] + 1}
    assert not torch.allclose(net(x, example.structure), net(other, example.structure))


def test_dropout_is_of_what_a_block_adds_or_of_what_it_starts_from():
    """Without anything that a block adds, it leaves alone what comes in; unless that drops out."""
    example = graph()
    for where, is_same in (("branch", True), ("stream", False)):
        net = IncidenceNet(
            "i, {i j} -> i",
            WIDTHS,
            2,
            dropout=0.9,
            dropout_at=where,
            ends="entry",
            norm="none",
            head_dropout=0.0,
            **SMALL,
        )
        for parameter in net.blocks.parameters():
            parameter.data.zero_()
        torch.manual_seed(0)
        assert torch.equal(net.train()(example), net.eval()(example)) == is_same


def test_the_encoder_may_have_a_norm_of_its_own():
    def norms(first: str) -> list[str]:
        net = IncidenceNet("i, {i j} -> i", WIDTHS, norm="batch", first_norm=first, **SMALL)
        return [name for name in (type(m).__name__ for m in net.encoder) if "Norm" in name]

    assert [norms(first) for first in ("same", "layer", "none")] == [
        ["BatchNorm"],
        ["LayerNorm"],
        [],
    ]


@pytest.mark.parametrize(
    ("name", "widths"),
    [("rings", {"ring": 4}), ("graph", {"i": 4}), ("triangles", {"i": 2, "{i j k}": 3})],
)
def test_what_a_preset_reads_and_has_no_features_is_hidden_all_the_same(name, widths):
    net = make(name, widths, hidden=4, depth=1)
    assert net.through == PRESETS[name].inputs
    bare = inc.Structure(
        4,
        {
            "{i j}": [[0, 1, 2, 3, 0], [1, 2, 3, 0, 2]],
            "ring={i ...}": [[0, 1, 2, 3], [0, 0, 0, 0]],
            "{i j k}": [[0], [1], [2]],
        },
    )
    x = {key: torch.randn(bare.num_entries(key), width) for key, width in widths.items()}
    assert net(x, bare).shape == (1, 1)
    fewer = inc.Structure(
        4,
        {
            "{i j}": [[0, 1, 2, 3], [1, 2, 3, 0]],
            "ring={i ...}": [[0, 1, 2, 3], [0, 0, 0, 0]],
            "{i j k}": [[0], [1], [2]],
        },
    )
    # it sees what it has no features of
    assert not torch.equal(net.eval()(x, bare), net(x, fewer))


@pytest.mark.parametrize(
    ("name", "channels", "message"),
    [
        (
            "graph",
            {"i": 3, "(i j)": 2},
            r"'graph' reads `i`, `\{i j\}`, and not `\(i j\)`: .* make\('i, \(i j\)', ...\)",
        ),
        (
            "graph",
            {**WIDTHS, "{i j k}": 1},
            r"not `\{i j k\}`: .* make\('i, \{i j\}, \{i j k\}'",
        ),
        ("i, {i j}", {**WIDTHS, "i j": 1}, r"'i, \{i j\}' reads .*, and not `i j`: leave that out"),
    ],
)
def test_features_that_a_preset_does_not_read_are_refused(name, channels, message):
    with pytest.raises(IncidenceError, match=message):
        make(name, channels)


def test_coordinates_are_read_only_by_a_network_that_names_them():
    channels = {"pos=i": 3, "i": 2, "{i j}": 1}
    assert make("graph", channels).in_channels == [2, 1]
    assert str(make("relational", channels).map) == "i, {i j} -> "
    assert make("i, pos=i", {"pos=i": 3, "i": 2}).in_channels == [2, 3]
    with pytest.raises(IncidenceError, match="there are none beside the coordinates, which change"):
        make("relational", {"pos=i": 3})


def test_data_finds_its_preset():
    assert preset_for(["i", "{a b}"]) == "graph"
    assert preset_for(["i", "{i j}", "{i j k}"]) == "triangles"
    assert preset_for(["i", "{i j}", "{i j k}", "pos=i"]) == "mesh"
    assert preset_for(["i", "{i j}", "pos=i"]) == "graph"
    assert preset_for(["i", "{i ...}"]) == "hypergraph"
    assert preset_for(["u:user", "u:user m:movie"]) == "relational"


def test_channels_that_are_missing_are_told():
    with pytest.raises(
        IncidenceError,
        match=(
            r"the model 'rings' reads `i`, `\{i j\}`, .* and in_channels has `i j`: add the"
            r" others"
        ),
    ):
        make("rings", {"i j": 4})
    with pytest.raises(
        IncidenceError,
        match=(
            r"the model 'i, \{i j\}' reads `i`, `\{i j\}`, and in_channels has `i`: add the"
            r" others"
        ),
    ):
        make("i, {i j}", {"i": 4})


def test_a_tensor_by_a_name_that_is_nearly_right_is_answered_with_the_right_one():
    with pytest.raises(
        IncidenceError, match=r"the model 'rings' reads no tensor `rings`: did you mean `ring`\?"
    ):
        make("rings", {"i": 2, "{i j}": 1, "rings": 4})
    with pytest.raises(PatternError, match="never closed"):
        make("rings", {"(a b c d e": 4})
    with pytest.raises(IncidenceError, match=r"reads no tensor `ring`: it reads i, \{i j\}"):
        make("mesh", {"i": 4, "{i j}": 2, "ring": 1})


def test_settings_of_keywords_and_of_an_object_make_the_same_network():
    settings = NetSettings(hidden=4, depth=1, norm="layer")
    nets = [
        IncidenceNet("i, {i j} -> i", WIDTHS, settings=settings),
        IncidenceNet("i, {i j} -> i", WIDTHS, hidden=4, depth=1, norm="layer"),
        IncidenceNet(
            "i, {i j} -> i", WIDTHS, settings=NetSettings(hidden=4), depth=1, norm="layer"
        ),
    ]
    assert all(net.settings == settings for net in nets)
    assert len({tuple(net.state_dict()) for net in nets}) == 1


def test_settings_print_what_differs_from_the_defaults_and_cannot_change():
    settings = NetSettings(hidden=4, readout="mean")
    assert repr(settings) == "NetSettings(hidden=4, readout='mean')"
    with pytest.raises(FrozenInstanceError, match="cannot assign to field 'hidden'"):
        settings.hidden = 5


def test_settings_survive_the_way_through_a_file():
    settings = NetSettings(aggr=("mean", "max"), readout=("mean",), products=("i j, j k -> i k",))
    again = NetSettings(**json.loads(json.dumps(settings.keywords())))
    assert again.keywords() == json.loads(json.dumps(settings.keywords()))
    assert (again.statistics, again.product_texts) == (["mean"], settings.product_texts)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("hiden", "IncidenceNet has no setting 'hiden'. Did you mean 'hidden'"),
        ("xyz", "IncidenceNet has no setting 'xyz'. There are through, hidden, depth, .*scale"),
    ],
)
def test_a_setting_that_does_not_exist_is_refused(name, message):
    with pytest.raises(TypeError, match=message):
        IncidenceNet("i -> ", 3, **{name: 4})
