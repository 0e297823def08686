"""What was decided, in words: witnesses with their counts, and larger architectures."""

from __future__ import annotations

import re

import pytest
import torch

import incidence as inc
from incidence.algebra.variables import bound_in_words
from incidence.expressive.witness import counts_of
from incidence.geometry import lifting
from incidence.models.net import IncidenceNet
from tests.expressive.graphs import as_edges, as_matrix, cycle, rook, shrikhande

EDGES = "i, {i j} -> i, {i j}"
PATH, STAR = [{1}, {0, 2}, {1, 3}, {2}], [{1, 2, 3}, {0}, {0}, {0}]


def pair(*graphs):
    return list(map(as_edges, graphs))


def test_a_witness_is_a_colour_with_different_counts_as_early_as_there_is_one():
    e = inc.expressivity(EDGES, pair(PATH, STAR))
    witness = e.witness(0, 1)
    assert witness.num_layers == 1
    state = e.refinement.states[1][witness.tensor]
    counts = counts_of(e.structure, witness.tensor, *state)
    assert tuple(map(list, [witness.counts])) == ([*witness.counts],)
    assert [*witness.counts] in counts.T.tolist()
    assert witness.counts[0] != witness.counts[1]


def test_a_witness_unfolds_to_what_its_entries_read():
    e = inc.expressivity(EDGES, pair(PATH, STAR), operations="local")
    witness = e.witness(0, 1)
    # the node in the middle of the star is the only one with three edges
    assert (str(witness.tensor), witness.num_layers, witness.counts) == ("i", 1, (0, 1))
    first, *rest = witness.lines
    assert re.match(r"A: after layer 1, an entry of `i` that reads 3 x B \(by `", first)
    assert rest == ["B: an entry of `{i j}`"] or rest == ["B: an entry of `i`"]


def test_colours_of_later_layers_are_told_by_those_of_earlier_ones():
    def path_with(length, *marks):
        graph = [{v for v in (u - 1, u + 1) if 0 <= v < length} for u in range(length)]
        for mark in marks:
            graph[mark].add(len(graph))
            graph.append({mark})
        return graph

    e = inc.expressivity(EDGES, pair(path_with(9, 2, 5), path_with(9, 2, 6)), operations="local")
    witness = e.witness(0, 1)
    assert witness.num_layers > 1
    text = str(witness)
    names = set(re.findall(r"x ([A-Z]\d*)", text))
    assert names <= set(re.findall(r"^([A-Z]\d*):", text, flags=re.MULTILINE))
    assert "after layer 2, " in text
    assert "after layer 1, " in text


@pytest.mark.parametrize("aggr", ["sum", "mean", "max"])
def test_every_aggregation_has_witnesses(aggr):
    e = inc.expressivity(EDGES, pair(PATH, STAR), aggr=aggr)
    if e.separates(0, 1):
        assert "A: " in e.explain(0, 1)
    else:
        assert "are not told apart" in e.explain(0, 1)


def test_products_name_the_colours_that_meet():
    matrices = [as_matrix(cycle(6)), as_matrix(cycle(3, 3))]
    e = inc.expressivity("i j -> i j", matrices, products="i j, j k -> i k")
    text = str(e.witness(0, 1))
    assert re.search(r"\d x [A-Z]\d* with [A-Z]\d*", text)


def test_a_network_has_a_witness_of_its_own_layers():
    net = IncidenceNet("i, {i j} -> ", {"i": 1, "{i j}": 1}, hidden=4, depth=1)
    e = inc.expressivity(net, pair(PATH, STAR))
    assert e.separates(0, 1)
    assert "Structures 0 and 1 are told apart after" in e.explain(0, 1)


def test_equal_structures_have_no_witness_and_a_list_of_larger_architectures():
    e = inc.expressivity(EDGES, pair(cycle(6), cycle(3, 3)))
    assert e.witness(0, 1) is None
    larger = e.larger(0, 1)
    assert larger["cliques of 3 nodes"] is True
    assert larger["products over all pairs (folklore 2-WL)"] is True
    text = e.explain()
    assert "Structures 0 and 1 are not told apart, whatever the weights." in text
    assert "cliques of 3 nodes: yes" in text


def test_the_strongly_regular_graphs_need_cliques_of_four_or_rings():
    e = inc.expressivity(EDGES, pair(rook(), shrikhande()))
    larger = e.larger(0, 1)
    assert larger["cliques of 3 nodes"] is False
    assert larger["cliques of 4 nodes"] is True
    assert larger["products over all pairs (folklore 2-WL)"] is False
    assert larger["all triples (3-WL)"] is False


def test_tensors_that_the_map_does_not_read_are_named():
    pairs = [lifting.tuples(s, 2) for s in pair(cycle(6), cycle(3, 3))]
    product = "i j, j k -> i k"
    blind = inc.expressivity("i j -> i j", pairs, products=product)
    assert not blind.separates(0, 1)
    note = "Not read, though the structures have it: `{i j}`. Add it to both sides of the map"
    assert note in blind.explain()
    assert blind.larger(0, 1)["products over all pairs (folklore 2-WL)"]  # these see edges
    assert blind.larger(0, 1)["all triples (3-WL)"]
    whole = inc.expressivity("i j, {i j} -> i j, {i j}", pairs, products=product)
    assert whole.separates(0, 1)
    assert "Not read" not in whole.explain()


def test_what_products_and_parts_of_a_network_read_is_not_called_unread():
    pairs = [lifting.tuples(s, 2) for s in pair(PATH, STAR)]
    by_product = inc.expressivity("i -> i", pairs, products="{i j}, j -> i")
    assert "Not read, though the structures have it: `i j`." in by_product.explain()
    net = inc.nn.Sequential(inc.nn.Linear("{i j} -> i", 1, 1), inc.nn.Linear("i -> i j", 1, 1))
    assert "Not read" not in inc.expressivity(net, pairs).explain()


def test_copies_of_one_structure_are_separated_by_nothing():
    s = as_edges(PATH)
    e = inc.expressivity(EDGES, [s, s.relabel(torch.tensor([2, 0, 3, 1]))])
    assert not any(e.larger(0, 1).values())
    assert "one structure whose nodes are numbered in two ways" in e.explain(0, 1)


def test_larger_architectures_start_from_the_same_features():
    s = as_edges(cycle(6))
    batch = inc.collate([s, s])
    x = torch.zeros(12, 1)
    x[0] = 1
    local = inc.expressivity(EDGES, batch, operations="self")
    assert not local.separates(0, 1)
    marked = inc.expressivity("i -> i", batch, features={"i": x}, operations="self")
    assert marked.separates(0, 1)
    text = marked.explain(0, 1)
    assert "with the features (1)" in text


def test_a_list_of_rings_stops_at_the_size_that_is_enough():
    larger = inc.expressivity(EDGES, pair(cycle(10), cycle(5, 5))).larger(0, 1)
    assert larger["rings of up to 4 nodes"] is False
    assert larger["rings of up to 5 nodes"] is True
    assert "rings of up to 6 nodes" not in larger


def test_what_is_only_a_bound_says_so():
    e = inc.expressivity(inc.nn.Attention("{i j}", "i j", 8, 8), pair(PATH, STAR))
    assert "This is an upper bound" in e.explain()


def test_one_structure_alone_cannot_be_explained():
    e = inc.expressivity(EDGES, pair(PATH, STAR))
    with pytest.raises(inc.IncidenceError, match="two different structures, or none; got 0 and"):
        e.explain(0)
    with pytest.raises(inc.IncidenceError, match="got 1 and 1"):
        e.explain(1, 1)


@pytest.mark.parametrize(
    ("make", "number"),
    [
        (lambda: inc.models.make("graph", 1), 2),
        (lambda: inc.models.make("triangles", 1), 3),
        (lambda: inc.models.make("ppgn", 1), 3),
        (lambda: inc.nn.Product("i j, j k -> i k", 2, 2), 3),
        (lambda: inc.nn.Sequential(inc.nn.Multilinear("i j * i j -> i j", 2, 2)), 3),
        (lambda: inc.nn.Linear("i -> i", 2, 2), 1),
        (lambda: inc.models.make("rings", 1), None),  # faces of any size
        (lambda: inc.models.make("topology", 1), None),  # reads holes
        (lambda: inc.nn.Sequential(inc.nn.Harmonic("<i j>")), None),
    ],
)
def test_the_bound_of_a_network_is_that_of_its_layers(make, number):
    explanation = inc.explain(make())
    assert explanation.data()["num_variables"] == number
    assert bound_in_words(number) in " ".join(str(explanation).split())
    assert ("variables." in str(explanation)) == (number in (2, 3))
