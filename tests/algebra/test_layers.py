"""Layers and networks in words: which operations they keep, and what they cost."""

import json

import pytest
import torch

import incidence as inc
from incidence.errors import IncidenceError

LAYER = inc.nn.Linear(
    "i, (i j) -> i, (i j)",
    {"i": 8, "(i j)": 4},
    16,
    aggr=["mean", "max"],
    operations=lambda o: any(map(any, o.overlap)),
)


class TwoLayers(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = inc.nn.Linear("i -> {i j}", 3, 4, aggr="mean")
        self.norm = torch.nn.LayerNorm(4)
        self.second = inc.nn.Linear("{i j} -> ", 4, 1, bias=False)


def said(what: object) -> str:
    return " ".join(str(inc.explain(what)).split())


def test_a_layer_says_its_operations_aggregations_channels_and_parameters():
    text = said(LAYER)
    assert text.startswith(
        "i, (i j) -> i, (i j) Linear, 11 of 15 operations; pools by mean, max; channels i: 8, (i"
        " j): 4 -> 16; "
    )
    assert f"; {sum(p.numel() for p in LAYER.parameters()):,} parameters." in text


def test_only_the_operations_that_a_layer_keeps_are_shown():
    lines = str(inc.explain(LAYER)).splitlines()
    numbers = [int(line.split()[0]) for line in lines if line[:5].strip().isdigit()]
    assert numbers == [1, 3, 4, 6, 7, *range(9, 15)]
    assert [line for line in lines if line.startswith("(i j)  (i j)")] == [
        "(i j)  (i j)           6"
    ]
    data = inc.explain(LAYER).data()
    assert [o["number"] for pair in data["blocks"] for o in pair["operations"]] == numbers
    assert data["layer"]["num_operations"] == 11


def test_a_whole_layer_is_explained_like_its_map_with_one_sentence_more():
    layer = inc.nn.Linear("i j -> i j", 2, 3)
    lines, plain = (str(inc.explain(what, nodes=3)).splitlines() for what in (layer, "i j -> i j"))
    assert lines[1] == "Linear, all 15 operations; pools by sum; channels 2 -> 3; 96 parameters."
    assert [lines[0], *lines[2:]] == plain


def test_a_layer_that_has_seen_no_input_says_so():
    lazy = inc.nn.Linear("i -> i", -1, 3, bias=False)
    sentence = (
        "all 2 operations, no bias; pools by sum; channels as the input -> 3; parameters not known"
        " before the first input."
    )
    assert sentence in said(lazy)
    assert "parameters not known before the first input" in said(torch.nn.Sequential(lazy))
    lazy(torch.ones(2, 5), inc.Structure(2))
    assert "channels 5 -> 3; 30 parameters." in said(lazy)


def test_a_network_is_explained_layer_by_layer_with_totals():
    assert str(inc.explain(TwoLayers())).splitlines() == [
        "TwoLayers: 2 equivariant layers, 40 parameters.",
        "",
        "first: i -> {i j}",
        "  Linear, all 2 operations; pools by mean; channels 3 -> 4; 28 parameters.",
        "",
        "second: {i j} ->",
        "  Linear, the 1 operation, no bias; pools by sum; channels 4 -> 1; 4 parameters.",
        "",
        "Besides: LayerNorm 8 parameters.",
        "",
        "Networks of such layers need 2 variables. They tell apart at most what colour",
        "refinement (1-WL) does on structures with these tensors as relations.",
    ]


def test_the_parts_of_a_network_add_up_to_its_parameters():
    cycle = inc.Structure(4, {"(i j)": [[0, 1, 2, 3], [1, 2, 3, 0]]})
    shared = torch.nn.Linear(3, 4)
    parts = [
        LAYER,
        inc.nn.Exchangeable(2, 3, 4),
        inc.nn.MaskedLinear("i j -> i j", 2, 3),
        shared,
        shared,
    ]
    network = torch.nn.ModuleList([*parts, inc.nn.AutomorphismLinear(cycle, "i -> i", 2, 3)])
    data = inc.explain(network).data()
    assert [layer["name"] for layer in data["layers"]] == ["0", "1.linear", "2.linear", "5"]
    assert data["num_parameters"] == sum(p.numel() for p in network.parameters())
    assert (
        sum(layer["num_parameters"] for layer in data["layers"]) + sum(data["others"].values())
        == data["num_parameters"]
    )
    assert json.loads(json.dumps(data)) == data
    assert "AutomorphismLinear, 'i -> i', 2, 3, bias=True, orbits=4, group of order 4." in said(
        network
    )


def test_a_parameter_that_two_modules_share_is_counted_once():
    one, other = torch.nn.Linear(3, 4), torch.nn.Linear(3, 4)
    other.weight = one.weight
    assert inc.explain(torch.nn.ModuleList([LAYER, one, other])).data()["others"] == {
        "Linear": 12 + 4 + 4
    }


def test_networks_and_layers_render_in_notebooks():
    html = inc.explain(TwoLayers())._repr_html_()
    assert "<code>i -&gt; {i j}</code>" in html
    assert "LayerNorm 8 parameters" in html
    assert "11 of 15 operations" in inc.explain(LAYER)._repr_html_()


def test_a_network_without_layers_says_that_it_has_none():
    assert str(inc.explain(torch.nn.ReLU())) == "ReLU: 0 equivariant layers, 0 parameters."


def test_what_cannot_be_explained_is_refused():
    with pytest.raises(
        IncidenceError, match="explain takes a map, its text, a layer or a network; got int"
    ):
        inc.explain(3)
    with pytest.raises(IncidenceError, match="got type"):
        inc.explain(torch.nn.ReLU)
    with pytest.raises(IncidenceError, match="nodes= is for a map or a layer"):
        inc.explain(TwoLayers(), nodes=3)
    with pytest.raises(IncidenceError, match="max_overlap belongs to the map"):
        inc.explain(LAYER, max_overlap=2)
