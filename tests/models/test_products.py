"""Products in the blocks of a network: what they compute, what they tell apart, and how such a
model is trained and kept.
"""

from __future__ import annotations

import json

import networkx as nx
import pytest
import torch

import incidence as inc
from incidence.data import load
from incidence.data.lifts import lift_all
from incidence.errors import IncidenceError, TooLargeError
from incidence.models import IncidenceNet, assert_has, make, read_channels
from incidence.models.blocks import AttentionTerm, ProductTerm
from incidence.train import RunFolder, train
from tests.models.small import for_preset, graph
from tests.train.small_runs import graphs

PRODUCTS = ["ppgn", "local-fgnn", "subgraph", "transformer"]
HEXAGON, TRIANGLES = nx.cycle_graph(6), nx.disjoint_union(nx.cycle_graph(3), nx.cycle_graph(3))
ROOK = nx.cartesian_product(nx.complete_graph(4), nx.complete_graph(4))
SHRIKHANDE = nx.Graph(
    ((a, b), ((a + x) % 4, (b + y) % 4))
    for a in range(4)
    for b in range(4)
    for x, y in ((0, 1), (1, 0), (1, 1))
)


def plain(nodes: nx.Graph) -> inc.Example:
    numbers = nx.convert_node_labels_to_integers(nodes)
    structure = inc.Structure(
        len(numbers), {"{i j}": torch.tensor(sorted(map(sorted, numbers.edges))).T}
    )
    return inc.Example(
        structure,
        {"i": torch.ones(len(numbers), 1), "{i j}": torch.ones(nodes.number_of_edges(), 1)},
    )


def tells_apart(model: str, lift: str, one: nx.Graph, other: nx.Graph, **settings) -> bool:
    """Whether random weights do, by far more than a relabelled copy differs."""
    order = torch.randperm(len(one), generator=torch.Generator().manual_seed(0))
    copy = plain(
        nx.relabel_nodes(nx.convert_node_labels_to_integers(one), dict(enumerate(order.tolist())))
    )
    examples = lift_all([plain(one), plain(other), copy], lift)
    batch = inc.collate(examples)
    batch = batch.replace(features={key: x.double() for key, x in batch.features.items()})
    torch.manual_seed(0)
    widths = {key: x.shape[1] for key, x in batch.features.items()}
    widths = read_channels(model, widths)
    net = (
        make(
            model,
            widths,
            4,
            hidden=8,
            depth=2,
            norm="none",
            activation="silu",
            dropout=0.0,
            **settings,
        )
        .double()
        .eval()
    )
    a, b, c = net.calibrate(batch)(batch).detach()
    return float((a - b).abs().max()) > max(1e-8, 100 * float((a - c).abs().max()))


@pytest.mark.parametrize(
    ("model", "lift"), [("ppgn", "pairs"), ("local-fgnn", "hops"), ("subgraph", "pairs")]
)
def test_products_tell_two_triangles_from_a_hexagon(model, lift):
    assert tells_apart(model, lift, HEXAGON, TRIANGLES)


@pytest.mark.parametrize(
    ("model", "lift"), [("graph", "none"), ("matrix", "matrix"), ("i j", "pairs")]
)
def test_linear_layers_do_not_tell_two_triangles_from_a_hexagon(model, lift):
    assert not tells_apart(model, lift, HEXAGON, TRIANGLES)


@pytest.mark.parametrize(
    ("model", "lift"), [("ppgn", "pairs"), ("local-fgnn", "hops"), ("subgraph", "pairs")]
)
def test_products_of_pairs_do_not_tell_the_rook_graph_from_that_of_shrikhande(model, lift):
    assert not tells_apart(model, lift, ROOK, SHRIKHANDE)


def test_rings_tell_the_rook_graph_from_that_of_shrikhande_with_products_too():
    settings = {"through": "i j", "products": "i j, j k -> i k", "max_overlap": 2}
    assert tells_apart("i, {i j}, ring={i ...}, i j", "rings+pairs", ROOK, SHRIKHANDE, **settings)


# ---- what a term computes


def test_a_term_over_all_pairs_is_a_product_of_matrices_for_each_channel():
    torch.manual_seed(0)
    term = ProductTerm("i j, j k -> i k", [inc.Pattern("i j")], 3).double()
    s = inc.Structure.complete(4, ["i j"])
    x = torch.randn(16, 3, dtype=torch.float64)
    i, j = s["i j"]
    dense = torch.zeros(4, 4, 3, dtype=torch.float64).index_put((i, j), x)
    one, other = (linear(dense) for linear in term.product.maps)
    expected = term.result(torch.einsum("ijc,jkc->ikc", one, other))
    torch.testing.assert_close(term(x, s), expected[i, j])


def test_a_term_is_added_to_its_own_tensor_alone():
    example = for_preset("subgraph")
    torch.manual_seed(0)
    texts = {"i": 3, "{i j}": 2, "i j": 2}
    net = IncidenceNet(
        "i, {i j}, i j -> i j, {i j}",
        texts,
        2,
        hidden=4,
        depth=1,
        products="{i j}, j k -> i k",
        norm="none",
    ).eval()
    [layer] = [block.inner[0] for block in net.blocks]
    x = net.encoder({key: example.features[key] for key in texts}, example.structure)
    with_term, without = layer(x, example.structure), layer.layer(x, example.structure)
    assert all(torch.equal(with_term[key], without[key]) for key in ("i", "{i j}"))
    torch.testing.assert_close(
        with_term["i j"], without["i j"] + layer.terms[0](x, example.structure)
    )


def test_letters_of_a_product_are_its_own_and_a_diagonal_is_read():
    net = IncidenceNet(
        "i j -> ", 2, hidden=4, depth=1, products=["a b, b c -> a c", "a a, a b -> b b"]
    )
    assert [term.key for term in net.blocks[0].inner[0].terms] == ["i j", "i j"]


def test_calibrating_brings_products_to_the_scale_of_one():
    example = lift_all([graph()], "pairs")[0]
    torch.manual_seed(0)
    term = ProductTerm("i j, j k -> i k", [inc.Pattern("i j")], 8)
    x = 100 * torch.randn(36, 8, generator=torch.Generator().manual_seed(0))
    before = term(x, example.structure)
    after = term.calibrate(x, example.structure)(x, example.structure)
    assert float(before.detach().square().mean().sqrt()) > 1e3
    assert 0.1 < float(after.detach().square().mean().sqrt()) < 2
    nothing = torch.zeros(36, 8)
    for linear in term.product.maps:
        torch.nn.init.zeros_(linear.bias)
    weight = term.result.weight.clone()
    term.calibrate(nothing, example.structure)
    assert torch.equal(term.result.weight, weight)  # nothing to go by


def test_wrong_products_are_refused():
    with pytest.raises(
        IncidenceError,
        match=(
            r"the product `i, j -> i j` must take hidden tensors, and `i` is none: there are"
            r" `i j`\. Name the hidden tensors with `through`"
        ),
    ):
        IncidenceNet("i j -> ", 2, products="i, j -> i j")
    with pytest.raises(IncidenceError, match=r"and `near=i k` is none: there are `i j`"):
        IncidenceNet("i j -> ", 2, products=["i j, j k -> near=i k"])
    with pytest.raises(IncidenceError, match=r"products= is a text, or a list of texts; got \[3\]"):
        IncidenceNet("i j -> ", 2, products=[3])


@pytest.mark.parametrize("name", PRODUCTS)
def test_graphs_that_were_not_lifted_are_refused(name):
    with pytest.raises(IncidenceError, match="lift it, or choose another model"):
        assert_has(name, {"i": 3, "{i j}": 2})
    net, structure = make(name, {"i": 3, "{i j}": 2}), inc.Structure(3, {"{i j}": [[0, 1], [1, 2]]})
    with pytest.raises(IncidenceError, match=r"`(near=)?i j`|`\{i j k\}`"):
        net({"i": torch.ones(3, 3), "{i j}": torch.ones(2, 2)}, structure)


# ---- as the other models


@pytest.mark.parametrize("name", PRODUCTS)
def test_graphs_of_a_batch_do_not_see_each_other(name):
    examples = [for_preset(name, seed) for seed in range(3)]
    torch.manual_seed(0)
    net = make(
        name, {key: x.shape[1] for key, x in examples[0].features.items()}, 2, hidden=4, depth=2
    ).eval()
    together = net(inc.collate(examples))
    packed = net(inc.collate(inc.pack(examples)))
    torch.testing.assert_close(together, torch.cat([net(e) for e in examples]))
    torch.testing.assert_close(packed, together)


@pytest.mark.parametrize("name", PRODUCTS)
def test_autocast_gives_nearly_the_same_in_half_precision(name):
    example = for_preset(name)
    torch.manual_seed(0)
    net = make(
        name, {key: x.shape[1] for key, x in example.features.items()}, 2, hidden=8, depth=1
    ).eval()
    expected = net.calibrate(example)(example)
    with torch.autocast("cpu", torch.bfloat16):
        found = net(example)
    torch.testing.assert_close(found.float(), expected, rtol=0.1, atol=0.1)


@pytest.mark.parametrize("name", PRODUCTS)
def test_a_run_is_kept_with_its_products_and_predicts_the_same_again(name, tmp_path):
    run = train(
        {
            "model": name,
            "out": str(tmp_path / "run"),
            "epochs": 1,
            "batch_size": 16,
            "hidden": 4,
            "depth": 1,
        },
        load(graphs(20)),
    )
    settings = json.loads((tmp_path / "run" / "model.json").read_text())["settings"]
    kind = "attention" if name == "transformer" else "products"
    assert settings[kind] == settings_in_json(name, kind)
    predictor, spec = RunFolder.open(tmp_path / "run").load()
    batch = inc.collate(lift_all(graphs(5), spec.lift))
    torch.testing.assert_close(predictor.predict(batch), run.predictor.eval().predict(batch))


def settings_in_json(name: str, kind: str) -> str | list[str]:
    texts = list(inc.models.PRESETS[name].settings[kind])
    return texts if len(texts) > 1 else texts[0]


def test_products_may_be_given_to_a_run(tmp_path):
    options = {
        "model": "matrix",
        "products": ("i j, j k -> i k",),
        "epochs": 1,
        "hidden": 4,
        "depth": 1,
    }
    run = train({**options, "out": str(tmp_path / "run")}, load(graphs(20)))
    assert run.predictor.net.settings.product_texts == ("i j, j k -> i k",)


def test_a_graph_that_is_too_large_for_all_pairs_is_refused_before_training(tmp_path):
    options = {"model": "ppgn", "data_options": ("limit=10",), "out": str(tmp_path / "run")}
    with pytest.raises(TooLargeError, match="tuples of 2 nodes, and limit=10"):
        train(options, load(graphs(20)))


# ---- attention


def test_attention_is_added_to_what_looks_with_a_bias_from_what_it_goes_along():
    example = for_preset("transformer")
    torch.manual_seed(0)
    net = make(
        "transformer", {key: x.shape[1] for key, x in example.features.items()}, hidden=4, depth=1
    )
    terms = {str(term.attention.pattern): term for term in net.blocks[0].inner[0].terms}
    assert {text: term.key for text, term in terms.items()} == {
        "near=i j": "i",
        "i": "",
        "{i j}": "",
        "{i j k}": "",
    }
    assert [text for text, term in terms.items() if term.attention.edge is not None] == ["near=i j"]
    assert [term.attention.heads for term in terms.values()] == [4] * 4


def test_attention_along_pairs_is_a_softmax_over_the_nodes_that_are_near():
    example = lift_all([graph()], "hops", k=1)[0]
    torch.manual_seed(0)
    term = AttentionTerm(
        "near=i j over j", [inc.Pattern("i"), inc.Pattern("near=i j")], 4, 2
    ).double()
    i, j = example.structure["near"]
    x = {
        "i": torch.randn(6, 4, dtype=torch.float64),
        "near": torch.randn(len(i), 4, dtype=torch.float64),
    }
    layer = term.attention
    q, k, v = (linear(x["i"]).view(6, 2, 2) for linear in (layer.query, layer.key, layer.value))
    scores = torch.full((6, 6, 2), -torch.inf, dtype=torch.float64)
    scores[i, j] = (q[i] * k[j]).sum(2) / 2**0.5 + layer.edge(x["near"])
    expected = layer.out(torch.einsum("ijh,jhc->ihc", scores.softmax(1), v).flatten(1))
    torch.testing.assert_close(term(x, example.structure), expected)


def test_wrong_attention_is_refused():
    with pytest.raises(
        IncidenceError,
        match=(
            "attention= is along a tensor over some of its letters, such as 'near=i j over j'; got"
            " 'i j'"
        ),
    ):
        IncidenceNet("i, i j -> ", 2, attention="i j")
    with pytest.raises(
        IncidenceError,
        match=(
            "attention along `i j over j` must take hidden tensors, and `i` is none: there are"
            " `i j`"
        ),
    ):
        IncidenceNet("i j -> ", 2, hidden=4, attention="i j over j")
    with pytest.raises(IncidenceError, match="attention= is a text, or a list of texts; got"):
        IncidenceNet("i, i j -> ", 2, attention=[4])
    with pytest.raises(
        IncidenceError, match="with attention, hidden is a multiple of heads; got 4 and 3"
    ):
        IncidenceNet("i, i j -> ", 2, hidden=4, heads=3, attention="i j over j")


def test_without_an_activation_products_make_a_polynomial():
    """Of degree 2 with one product: third differences along a line are 0."""
    example = lift_all([graph()], "pairs")[0]
    torch.manual_seed(0)
    net = (
        IncidenceNet(
            "i j -> i j",
            2,
            hidden=4,
            depth=1,
            norm="none",
            activation="none",
            products="i j, j k -> i k",
        )
        .double()
        .eval()
    )
    x, y = torch.randn(2, 36, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    a, b, c, d = (net(x + k * y, example.structure) for k in range(4))
    torch.testing.assert_close(d - 3 * c + 3 * b, a)
    assert not torch.allclose(c - b, b - a)


def test_a_structure_without_faces_looks_at_nothing():
    [example] = lift_all([plain(nx.path_graph(3))], "cliques+hops")
    torch.manual_seed(0)
    term = AttentionTerm("{i j k} over i j k", [inc.Pattern(""), inc.Pattern("{i j k}")], 4, 2)
    y = term({"": torch.randn(1, 4), "{i j k}": torch.zeros(0, 4)}, example.structure)
    torch.testing.assert_close(y, term.attention.out.bias.view(1, 4))  # the sum of no values
