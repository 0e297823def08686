"""Networks with queries: products of nodes by definition, and no layer reads the queries."""

from __future__ import annotations

import pytest
import torch

import incidence as inc
from incidence.engine.pair_products import pair_products
from incidence.errors import IncidenceError
from incidence.models import IncidenceNet, Predictor, make
from incidence.models.query_head import PairProducts
from incidence.structure.incidences import incidences
from incidence.testing import assert_equivariant
from tests.structure.listing import entries_of
from tests.structure.random_structures import random_structure

RATED = "u:user, m:movie, {u:user v:user}, known=u:user m:movie, query=u:user m:movie"
SIDES = [
    RATED,
    "i, known={i j}, query={i j}",
    "i, known={i ...}, query={i ...}",
    "i, known=(i j), query=(i j)",
]


def texts_of(side):
    return [text.strip() for text in side.split(",")]


def example(side, seed=0):
    texts = texts_of(side)
    structure = random_structure(5, texts, seed)
    generator = torch.Generator().manual_seed(seed)
    return structure, {
        t: torch.randn(structure.num_entries(t), 3, generator=generator, dtype=torch.float64)
        for t in texts
    }


def network(side, **settings):
    torch.manual_seed(0)
    texts = texts_of(side)
    net = (
        make(
            "completion",
            dict.fromkeys(texts, 3),
            2,
            texts[-1],
            **{"hidden": 5, "depth": 1, **settings},
        )
        .double()
        .eval()
    )
    for parameter in net.parameters():
        torch.nn.init.normal_(parameter, std=0.5)  # heads start with zeros
    return net


@pytest.mark.parametrize("side", SIDES)
def test_products_are_the_mean_over_pairs_of_different_nodes(side):
    structure, x = example(side)
    query = inc.Pattern(texts_of(side)[-1])
    nodes = [
        text
        for text in texts_of(side)
        if len(inc.Pattern(text).letters) == 1 and not inc.Pattern(text).is_open
    ]
    module = PairProducts(", ".join(nodes), query, 3).double()
    made = dict(zip(module.nodes, module.maps, strict=True))
    rows = []
    for entry in entries_of(structure, str(query)):
        members = [
            made[sort](x[module.nodes[sort]][node])
            for sort, node in sorted({node for face in entry for node in face})
        ]
        pairs = [
            members[a] * members[b]
            for a in range(len(members))
            for b in range(len(members))
            if a != b
        ]
        rows.append(torch.stack(pairs).mean(0) if pairs else torch.zeros(3, dtype=torch.float64))
    torch.testing.assert_close(module(x, structure), torch.stack(rows))


def test_gradients_of_products_are_exact():
    structure, _ = example(SIDES[2])
    lists = incidences(structure, [inc.Pattern("query={i ...}")])
    x = torch.randn(structure.total_nodes, 2, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda y: pair_products(y, lists), (x,))


@pytest.mark.parametrize("side", SIDES)
def test_networks_with_queries_respect_relabelling(side):
    structure, x = example(side)
    assert_equivariant(network(side), x, structure, rtol=1e-9, atol=1e-9, trials=1)


@pytest.mark.parametrize("side", SIDES)
def test_the_output_of_a_query_does_not_depend_on_other_queries(side):
    structure, x = example(side)
    net, query = network(side), texts_of(side)[-1]
    kept = torch.arange(structure.num_entries("query"))[::2]
    some = {**x, query: x[query][kept]}
    torch.testing.assert_close(net(some, structure.select("query", kept)), net(x, structure)[kept])
    blind = {
        **x,
        query: x[query] + torch.nn.functional.one_hot(torch.tensor(0), len(x[query]))[:, None],
    }
    moved = (net(blind, structure) - net(x, structure)).abs().sum(1) > 1e-12
    assert moved.tolist() == [True] + [False] * (len(moved) - 1)


def test_queries_must_have_nodes_and_be_inputs():
    with pytest.raises(
        IncidenceError,
        match=(
            "with `ends='query'` every output is an input, too, whose entries are the queries; `i`"
            " is none"
        ),
    ):
        IncidenceNet("known={i j}, query={i j} -> i", 2, ends="query")
    with pytest.raises(IncidenceError, match="has no nodes of sort `node`: add them"):
        IncidenceNet("known={i j}, query={i j} -> query={i j}", 2, ends="query")
    with pytest.raises(
        IncidenceError, match="with `ends='query'` the hidden tensors are among the inputs"
    ):
        IncidenceNet("i, query={i j} -> query={i j}", 2, ends="query", through="{i j}")


def test_a_predictor_with_an_offset_starts_at_what_is_expected_and_stays_in_range():
    structure, x = example(SIDES[1])
    query = "query={i j}"
    features = {key: value.float() for key, value in x.items()}
    features[query] = torch.cat(
        [torch.linspace(-9, 9, len(x[query]))[:, None], features[query][:, 1:]], dim=1
    )
    net = make("completion", dict.fromkeys(features, 3), 1, query, hidden=4, depth=1)
    target = torch.linspace(-2, 3, len(x[query]))[:, None]
    predictor = Predictor(net, offset=query).fit_scales([features], [target]).eval()
    torch.testing.assert_close(
        predictor.predict(features, structure), features[query][:, :1].clamp(-2, 3)
    )
