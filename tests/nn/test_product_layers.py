"""Product layers and attention: what they compute, equivariance in batches, tracing, autocast, and
what is refused.
"""

import pytest
import torch

from incidence.algebra import explain
from incidence.errors import IncidenceError
from incidence.nn import Attention, Linear, Product, Sequential
from incidence.nn.functional import einsum, softmax
from incidence.structure import Structure, collate
from incidence.testing import assert_equivariant
from tests.structure.random_structures import random_structure

PRODUCTS = [
    ("i j, j k -> i k", False),
    ("(i j), (j k) -> (i k)", True),
    ("{i j}, j -> i", False),
    ("i, {i j}, j -> {i j}", True),
    ("bond={i j}, bond={j k} -> i", False),
    ("u:a m:b, m:b -> u:a", True),
]
ATTENTIONS = [
    ("(i j)", "j"),
    ("i j", "j"),
    ("v e:edge", "v"),
    ("v e:edge", "e"),
    ("(i j k)", "k"),
    ("(i j k)", "j k"),
    ("i", "i"),
    ("i {i j}", "j"),
]


@pytest.fixture(autouse=True)
def _fresh_compiler():
    torch.manual_seed(0)
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def example(layer, width: int, sizes: tuple[int, ...] = (4, 0, 3)):
    """A batch with the tensors of a layer, and features for its inputs."""
    texts = [
        str(p)
        for p in (
            *layer.map.inputs,
            *layer.map.outputs,
            *([layer.pattern] if isinstance(layer, Attention) else []),
        )
    ]
    s = collate([random_structure(n, texts, seed=n) for n in sizes])
    x = {
        p.name or str(p): torch.randn(s.num_entries(p), width, dtype=torch.float64)
        for p in layer.map.inputs
    }
    return x, s


@pytest.mark.parametrize(("text", "is_complete"), PRODUCTS, ids=[text for text, _ in PRODUCTS])
def test_a_product_layer_is_equivariant_in_batches(text, is_complete):
    layer = Product(text, 3, 4, is_complete=is_complete, dtype=torch.float64)
    x, s = example(layer, 3)
    y = layer(x, s)
    assert y.shape == (s.num_entries(layer.map.outputs[0]), 4)
    assert_equivariant(layer, x, s, outputs=str(layer.map.outputs[0]))


def test_a_product_layer_multiplies_mapped_operands_and_normalises():
    s = Structure.complete(4, "i j")
    x = torch.randn(16, 3)
    layer = Product("i j, j k -> i k", 3, 5, norm=None)
    expected = einsum("i j, j k -> i k", layer.maps[0](x), layer.maps[1](x), s)
    torch.testing.assert_close(layer(x, s), expected)
    torch.testing.assert_close(layer((x, x), s), expected)
    normed = Product("i j, j k -> i k", 3, 5)
    torch.testing.assert_close(normed(x, s).mean(1), torch.zeros(16), atol=1e-5, rtol=0)
    assert isinstance(Product("i j, j k -> i k", 3, 5, is_complete=True).maps[0], Linear)
    assert Product("i j -> i", 3, 5, norm="batch")(x, s).mean(0).abs().max() < 1e-5


def test_a_product_layer_of_one_channel_is_a_product_of_matrices():
    layer = Product("i j, j k -> i k", 1, 1, norm=None)
    for part in layer.maps:
        torch.nn.init.ones_(part.weight)
        torch.nn.init.zeros_(part.bias)
    s, matrix = Structure.complete(3, "i j"), torch.randn(3, 3)
    i, j = s["i j"]
    torch.testing.assert_close(layer(matrix[i, j, None], s)[:, 0], (matrix @ matrix)[i, j])


def test_a_product_layer_of_oriented_operands_has_no_bias_there():
    layer = Product("<i j>, j -> i", {"<i j>": 2, "j": 2}, 3)
    assert layer.maps[0].bias is None
    assert layer.maps[1].bias is not None
    s = random_structure(4, ["<i j>"], seed=0)
    x, v = torch.randn(s.num_entries("<i j>"), 2), torch.randn(4, 2)
    plain = Product("<i j>, j -> i", 2, 3, norm=None)
    torch.testing.assert_close(plain((-x, v), s), -plain((x, v), s))


@pytest.mark.parametrize("edges", [None, 2], ids=["", "edges"])
@pytest.mark.parametrize(
    ("pattern", "over"), ATTENTIONS, ids=[f"{p} over {o}" for p, o in ATTENTIONS]
)
def test_attention_is_equivariant_in_batches_and_gives_shares(pattern, over, edges):
    layer = Attention(pattern, over, 2, 6, heads=3, edge_channels=edges, dtype=torch.float64)
    x, s = example(layer, 2)
    assert layer(x, s).shape == (s.num_entries(layer.queries), 6)
    assert_equivariant(layer, x, s, outputs=str(layer.queries))


def test_attention_is_the_formula_head_by_head():
    s = random_structure(5, ["(i j)"], seed=3, draws=15)
    x, e = torch.randn(5, 4), torch.randn(s.num_entries("(i j)"), 3)
    layer = Attention("(i j)", "j", 4, 6, heads=2, edge_channels=3)
    q, k, v = (m(x).view(5, 2, 3) for m in (layer.query, layer.key, layer.value))
    heads = []
    for h in range(2):
        scores = (
            einsum("i, j -> (i j)", q[:, h], k[:, h], s).sum(1, keepdim=True) / 3**0.5
            + layer.edge(e)[:, h : h + 1]
        )
        heads.append(einsum("(i j), j -> i", softmax(scores, "(i j)", "j", s), v[:, h], s))
    torch.testing.assert_close(layer({"i": x, "(i j)": e}, s), layer.out(torch.cat(heads, dim=1)))


def test_attention_over_all_nodes_is_that_of_torch():
    s = Structure.complete(5, "i j")
    x = torch.randn(5, 4)
    layer = Attention("i j", "j", 4, 6, heads=2)
    q, k, v = (m(x).view(5, 2, 3).transpose(0, 1) for m in (layer.query, layer.key, layer.value))
    expected = torch.nn.functional.scaled_dot_product_attention(q, k, v).transpose(0, 1).flatten(1)
    torch.testing.assert_close(layer(x, s), layer.out(expected))


def test_dropout_drops_weights_while_training():
    s = Structure.complete(5, "i j")
    x = torch.randn(5, 4)
    layer = Attention("i j", "j", 4, 4, dropout=0.5)
    assert not torch.equal(layer(x, s), layer(x, s))
    layer.eval()
    assert torch.equal(layer(x, s), layer(x, s))


TRIANGLE = Structure(3, {"{i j}": [[0, 1, 0], [1, 2, 2]]})

LAYERS = {
    "product": lambda **made: Product("(i j), (j k) -> (i k)", 4, 4, **made),
    "complete product": lambda **made: Product(
        "i, (i j) -> (i j)", 4, 4, norm="batch", is_complete=True, **made
    ),
    "attention": lambda **made: Attention("(i j)", "j", 4, 4, heads=2, edge_channels=4, **made),
}


@pytest.mark.parametrize("name", ["complete product", "attention"])
def test_layers_compile_whole_after_their_plan(name):
    layer = LAYERS[name](dtype=torch.float64)
    layer.eval()
    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
    x, s = example(layer, 4, (4, 5))
    x = x if len(x) > 1 else next(iter(x.values()))
    layer.plan(s)
    leaves = [v.requires_grad_() for v in (x.values() if isinstance(x, dict) else [x])]
    found, expected = compiled(x, s), layer(x, s)
    torch.testing.assert_close(found, expected)
    weight = torch.randn_like(expected)
    torch.testing.assert_close(
        torch.autograd.grad(found, leaves, weight), torch.autograd.grad(expected, leaves, weight)
    )


@pytest.mark.parametrize("name", LAYERS)
def test_layers_run_under_autocast(name):
    layer = LAYERS[name]()
    x, s = example(layer, 4)
    x = {key: v.float() for key, v in x.items()}
    exact = layer.eval()(x, s)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        rough = layer(x, s)
    torch.testing.assert_close(rough.float(), exact, atol=0.2, rtol=0.2)
    rough.float().sum().backward()
    assert all(p.grad is not None for p in layer.parameters())


def test_a_network_plans_all_of_its_layers():
    net = Sequential(Attention("(i j)", "j", 4, 4), Linear("i -> i", 4, 4), torch.nn.ReLU())
    s = random_structure(5, ["(i j)"], seed=0)
    net.plan(s)
    x = torch.randn(5, 4)
    torch.testing.assert_close(
        torch.compile(net, fullgraph=True, backend="aot_eager")(x, s), net(x, s)
    )


def test_layers_say_what_they_are():
    assert repr(Product("i j, j k -> i k", 3, 4)).startswith(
        "Product(\n  'i j, j k -> i k', 3, 4\n"
    )
    assert "'(i j)' over j, heads=2" in repr(Attention("(i j)", "j", 4, 4, heads=2))
    assert "0: i -> i\n  Attention, '(i j)' over j, heads=1." in str(
        explain(Sequential(Attention("(i j)", "j", 4, 4)))
    )
    assert "sum x0 * x1" in repr(
        Product("i j, j k -> i k", 3, 4).plan(Structure.complete(3, "i j"))
    )


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Product("i j, j k", 3, 4), "a product needs an arrow"),
        (
            lambda: Product("i j, j k -> i k", 3, 4, norm="rms"),
            "norm is 'layer', 'batch' or None; got 'rms'",
        ),
        (lambda: Product("i j, j k -> i k", 0, 4), "in_channels is a number of channels"),
        (lambda: Product("i j, j k -> i k", {"i": 3}, 4), "in_channels has no tensor 'i'"),
        (
            lambda: Product("i j, j -> i", 3, 4)(torch.ones(9, 3), Structure.complete(3, "i j")),
            "are different tensors: pass one for each",
        ),
        (
            lambda: Product("i j -> i", 3, 4)(torch.ones(9, 2), Structure.complete(3, "i j")),
            "must have 3 channels",
        ),
        (
            lambda: Product("{i j}, j -> i", 3, 4, limit=5)((torch.ones(3, 3),) * 2, TRIANGLE),
            "in too many ways: 6 combinations",
        ),
        (lambda: Attention("{i j}", "j", 3, 4), "has 2 keys"),
        (lambda: Attention("(i j)", "k", 3, 4), "`k` is not in"),
        (lambda: Attention("(i j)", ["j"], 3, 4), "over= is the letters to sum over as text"),
        (
            lambda: Attention("(i j)", "j", 3, 5, heads=2),
            "out_channels must be a multiple of heads, 2; got 5",
        ),
        (lambda: Attention("(i j)", "j", 3, 4, heads=0), "heads is a number"),
        (lambda: Attention("(i j)", "j", 3, 4, dropout=2), "dropout is a probability"),
        (
            lambda: Attention("i", "i", {"": 2, "i": 3}, 4, edge_channels=2),
            "with 3 channels: edge_channels is as many",
        ),
        (
            lambda: Attention("(i j)", "j", 3, 4, edge_channels=0),
            "edge_channels is a number of channels",
        ),
        (
            lambda: Attention("v e:edge", "v", 3, 4)(
                torch.ones(3, 3), Structure({"node": 3, "edge": 3})
            ),
            "the input has 2 tensors: pass a dict",
        ),
        (
            lambda: Attention("(i j)", "j", 3, 4)(torch.ones(3, 3), Structure(3)),
            "no index for `.i j.` here",
        ),
    ],
)
def test_what_does_not_fit_is_refused_with_a_sentence(make, message):
    with pytest.raises(IncidenceError, match=message):
        make()


def test_a_product_is_explained_as_the_one_layer_that_it_is():
    told = str(explain(Product("(i j), (j k) -> (i k)", 4, 4)))
    assert told.splitlines()[0] == "Product (i j) -> (i k): 1 equivariant layer, 48 parameters."
    assert "Product, '(i j), (j k) -> (i k)', 4, 4." in told
