"""Layers, readouts, diffusion and products of asked nodes in plain steps, which is what is
exported: they give what the engine gives.
"""

import pytest
import torch

import incidence as inc
from incidence.engine.diffusion import plain_diffuse
from incidence.engine.pair_products import plain_pair_products
from incidence.engine.plain import pairs_of_level, plain_layer, pool_level
from incidence.errors import IncidenceError
from incidence.models import make
from incidence.models.query_head import PairProducts
from incidence.nn import Diffusion, Linear, Readout
from incidence.nn.plain import plain_inputs, planned_structure
from incidence.structure import collate
from tests.models.small import for_preset
from tests.nn.sparse_maps import (
    FIXED,
    OPEN,
    ORIENTED,
    features_for,
    layer_for,
    outputs,
    structure_for,
)

MAPS = [
    *((text, 1, "mean") for text in FIXED),
    *((text, 1, "sum") for text in ORIENTED),
    *((text, k, "sum") for text, k in OPEN),
]


def plain_outputs(layer: Linear, x, structure: inc.Structure) -> list[torch.Tensor]:
    found = plain_inputs(layer, structure)
    names, _ = found.parts[layer._key]
    xs = [x] if isinstance(x, torch.Tensor) else list(x.values())
    products, cpu = layer._products, torch.device("cpu")
    return plain_layer(
        products,
        products.matrices(layer.in_channels, layer.out_channels, cpu),
        layer.aggr,
        [found.tensors[name] for name in names],
        xs,
        layer._weights(),
        layer._biases(),
    )


@pytest.mark.parametrize(
    ("text", "max_overlap", "aggr"), MAPS, ids=[f"{text} {k}" for text, k, _ in MAPS]
)
def test_every_kind_of_map_in_plain_steps_is_the_layer(text, max_overlap, aggr):
    layer = layer_for(text, max_overlap, aggr)
    structure = collate([structure_for(layer.map, n, seed=n, draws=12) for n in (4, 6)])
    x = features_for(layer.map, structure)
    for one, other in zip(
        plain_outputs(layer, x, structure), outputs(layer(x, structure)), strict=True
    ):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize("num_nodes", [0, 1, 2, 9])
@pytest.mark.parametrize("aggr", [["sum", "mean", "max", "min", "std"], "std"], ids=["all", "std"])
def test_every_aggregation_in_plain_steps_is_the_layer_on_structures_of_any_size(aggr, num_nodes):
    layer = layer_for("i, (i j) -> i, (i j)", 1, aggr)
    structure = structure_for(layer.map, num_nodes, seed=1, draws=20)
    x = features_for(layer.map, structure)
    for one, other in zip(
        plain_outputs(layer, x, structure), outputs(layer(x, structure)), strict=True
    ):
        torch.testing.assert_close(one, other)


def test_a_readout_in_plain_steps_is_the_readout():
    readout = Readout("i, i j, <i j>", ["sum", "mean", "max"])
    structure = collate(
        [
            inc.testing.random_structure(n, ["i j", "<i j>"], 0.5, torch.Generator().manual_seed(n))
            for n in (3, 5)
        ]
    )
    x = {
        key: torch.randn(structure.num_entries(key), 2, dtype=torch.float64)
        for key in ("i", "i j", "<i j>")
    }
    found = plain_inputs(readout, structure)
    parts = []
    for (names, _), key in zip(found.parts.values(), x, strict=True):
        pairs = pairs_of_level([found.tensors[name] for name in names])
        value = x[key].abs() if key == "<i j>" else x[key]
        pooled = [pool_level(value, pairs, name).view(2, -1, 2) for name in readout.aggr]
        parts.append(torch.stack(pooled, 2).flatten(1))
    torch.testing.assert_close(torch.cat(parts, 1), readout(x, structure))


@pytest.mark.parametrize("text", ["i, {i j}", "i, {i ...}", "u:user, m:movie, u:user m:movie"])
def test_diffusion_in_plain_steps_is_diffusion(text):
    module = Diffusion(text, steps=1)
    structure = structure_for(inc.EquivariantMap(f"{text} -> "), 7, seed=2, draws=5)
    x = features_for(inc.EquivariantMap(f"{text} -> "), structure)
    sorts = sorted(module.nodes)
    found = plain_diffuse(
        torch.cat([x[module.nodes[sort]] for sort in sorts]), *module.plan(structure).tensors
    )
    wanted = module(x, structure)
    torch.testing.assert_close(found, torch.cat([wanted[module.nodes[sort]] for sort in sorts]))


ASKED = [
    ("i", "{i j}"),
    ("i", "{i ...}"),
    ("u:user, m:movie", "u:user m:movie"),
    ("i:b", "{i:b j:b}"),
]


@pytest.mark.parametrize(("nodes", "asked"), ASKED, ids=[asked for _, asked in ASKED])
def test_products_of_asked_nodes_in_plain_steps_are_the_products(nodes, asked):
    m = inc.EquivariantMap(f"k:a, {nodes}, {asked} -> ")  # nodes of other sorts may come first
    module, structure = (
        PairProducts(nodes, inc.Pattern(asked), 2).double(),
        structure_for(m, 7, seed=2, draws=5),
    )
    x = features_for(m, structure)
    found = plain_inputs(module, structure)
    mapped = torch.cat(
        [linear(x[key]) for key, linear in zip(module.nodes.values(), module.maps, strict=True)]
    )
    torch.testing.assert_close(
        plain_pair_products(mapped, *found.tensors.values()), module(x, structure)
    )
    assert list(found.about) == [f"asked_{asked}_{what}" for what in ("nodes", "entries", "sizes")]


def test_lists_are_named_told_in_words_and_shared_by_layers():
    example = for_preset("graph")
    net = make("graph", {key: x.shape[1] for key, x in example.features.items()}, 2, depth=4)
    found = plain_inputs(net, example.structure)
    assert found.about["tensor_0_node_bags"] == "bag of each pair: i at every node, 1 bag each"
    assert found.about["entries_1"] == "the structure of every entry of `{i j}`"
    assert set(found.about) == set(found.tensors)
    shallow = make("graph", {key: x.shape[1] for key, x in example.features.items()}, 2, depth=1)
    assert list(plain_inputs(shallow, example.structure).tensors) == list(found.tensors)


def test_an_aggregation_of_the_users_own_is_refused():
    layer = layer_for("i -> i", 1, "range")
    with pytest.raises(
        IncidenceError,
        match=r"the aggregation 'range' cannot be recorded, .*; sum, mean, max, min, std can",
    ):
        plain_inputs(layer, structure_for(layer.map, 3, seed=0))


@pytest.mark.slow
def test_a_network_with_diffusion_compiles_once_it_has_its_lists():
    example = for_preset("graph")
    x = {key: example.features[key].float() for key in ("i", "{i j}")}
    net = (
        make("diffusion", {key: value.shape[1] for key, value in x.items()}, 2, at="i", hidden=4)
        .float()
        .eval()
    )
    compiled = torch.compile(net, fullgraph=True, backend="eager")
    with pytest.raises(
        IncidenceError,
        match=r"^call layer\.plan\(structure\), or net\.plan\(structure\), before tracing",
    ):
        compiled(x, inc.Structure(6, {"{i j}": example.structure["{i j}"]}))
    net.plan(example.structure)
    torch.testing.assert_close(compiled(x, example.structure), net(x, example.structure))


@pytest.mark.slow
def test_a_network_that_is_asked_compiles_once_it_has_its_lists():
    example = for_preset("graph")
    x = {key: example.features[key].float() for key in ("i", "{i j}")}
    net = (
        make(
            "completion", {key: value.shape[1] for key, value in x.items()}, 2, at="{i j}", hidden=4
        )
        .float()
        .eval()
    )
    for parameter in net.parameters():
        torch.nn.init.normal_(parameter, std=0.5)  # heads of asked entries start with zeros
    net.plan(example.structure)
    compiled = torch.compile(net, fullgraph=True, backend="eager")
    torch.testing.assert_close(compiled(x, example.structure), net(x, example.structure))


def test_a_structure_for_export_has_nothing_but_lists():
    structure = planned_structure({"a layer": (["rows"], "")}, {"rows": torch.arange(3)})
    assert structure.patterns == ()
