"""What layers tell apart, against colour refinements from their definitions."""

import re
from itertools import product

import networkx as nx
import pytest
import torch

import incidence as inc
from incidence import EquivariantMap, Structure
from incidence.algebra.multilinear import MultilinearMap
from incidence.structure.data import support_of
from incidence.testing import random_structure
from tests.cases import some
from tests.expressive import definition as by_definition
from tests.expressive.graphs import (
    as_edges,
    as_matrix,
    as_triples,
    cycle,
    edges,
    partition,
    rook,
    shrikhande,
)

EDGES = "i, {i j} -> i, {i j}"


def random_structures(patterns, sizes, seed, count=3):
    generator = torch.Generator().manual_seed(seed)
    return [random_structure(sizes, patterns, 0.5, generator) for _ in range(count)]


def atlas(most):
    return [
        [set(g[v]) for v in sorted(g)]
        for g in nx.graph_atlas_g()
        if 2 <= g.number_of_nodes() <= most
    ]


MAPS = [
    (EDGES, ["{i j}"], 5, 1),
    ("{i j} -> i", ["{i j}"], 5, 1),
    ("i, (i j) -> i, (i j)", ["(i j)"], 4, 1),
    ("i j -> i j", ["i j"], 4, 1),
    ("[i j] -> [i j]", ["[i j]"], 4, 1),
    ("{i j k}, {i j} -> {i j k}, {i j}", ["{i j}", "{i j k}"], 5, 1),
    ("i {i j k} -> i {i j k}", ["i {i j k}"], 4, 1),
    ("{i j} {i k} -> {i j} {i k}, i", ["{i j} {i k}"], 4, 1),
    ("(i j k) -> (i j k)", ["(i j k)"], 4, 1),
    ("i, {i ...} -> i, {i ...}", ["{i ...}"], 5, 1),
    ("i, {i j}, ring={i ...} -> i, {i j}, ring={i ...}", ["{i j}", "ring={i ...}"], 5, 2),
    ("u:a m:b, u:a -> u:a m:b, u:a", ["u:a m:b"], {"a": 3, "b": 4}, 1),
    ("old={i j} -> new={i j}, i", ["old={i j}", "new={i j}"], 5, 1),
    ("{i j}, i -> ", ["{i j}"], 5, 1),
]  # fmt: skip
CASES = [
    pytest.param(*case, aggr, id=f"{case[0]} {aggr}")
    for case in MAPS
    for aggr in ("sum", "mean", "max", "min")
]


@pytest.mark.parametrize(("text", "patterns", "sizes", "max_overlap", "aggr"), some(CASES, 4))
def test_colours_are_those_of_the_definition(text, patterns, sizes, max_overlap, aggr):
    m = EquivariantMap(text, max_overlap)
    structures = random_structures(patterns, sizes, len(text))
    start = by_definition.start_of_map(m, structures)
    refined = by_definition.refined_by_map(m, structures, aggr)
    expected, rounds = by_definition.until_stable(start, refined)
    e = inc.expressivity(text, structures, aggr=aggr, max_overlap=max_overlap)
    assert e.classes == by_definition.classes(expected)
    assert e.rounds == rounds
    assert e.is_exact
    tensors = list(dict.fromkeys(m.inputs + m.outputs))
    for tensor, pattern in enumerate(tensors):
        ours = e.colours[str(pattern)].tolist()
        theirs = [
            own[tensor, row]
            for s, own in zip(structures, expected, strict=True)
            for row in range(s.num_entries(pattern))
        ]
        assert partition(ours) == partition(theirs)


def test_edges_do_what_colour_refinement_does():
    graphs = atlas(6)
    e = inc.expressivity(EDGES, list(map(as_edges, graphs)))
    refined = by_definition.colour_refinement(graphs)
    expected, _ = by_definition.until_stable(by_definition.same_nodes(graphs), refined)
    # isolated nodes see how many nodes there are, so colours can only be finer: classes are not
    assert e.classes == by_definition.classes(expected)


def test_matrices_tell_apart_what_edges_do():
    graphs = atlas(6)
    one = inc.expressivity("i j -> i j", list(map(as_matrix, graphs)))
    other = inc.expressivity(EDGES, list(map(as_edges, graphs)))
    assert one.classes == other.classes


@pytest.mark.parametrize("most", [5, pytest.param(6, marks=pytest.mark.exhaustive)])
def test_products_of_matrices_are_folklore_2wl(most):
    graphs = [*atlas(most), cycle(6), cycle(3, 3), cycle(8), cycle(4, 4), cycle(3, 5)]
    batch = list(map(as_matrix, graphs))
    e = inc.expressivity("i j -> i j", batch, products="i j, j k -> i k")
    start = by_definition.atomic_types(graphs, 2)
    expected, _ = by_definition.until_stable(start, by_definition.folklore_2wl(graphs))
    assert e.classes == by_definition.classes(expected)


def test_folklore_2wl_and_triples_fail_on_strongly_regular_graphs():
    graphs = [rook(), shrikhande()]
    batch = list(map(as_matrix, graphs))
    products = inc.expressivity("i j -> i j", batch, products="i j, j k -> i k")
    assert not products.separates(0, 1)
    start = by_definition.atomic_types(graphs, 2)
    stable, _ = by_definition.until_stable(start, by_definition.folklore_2wl(graphs))
    assert by_definition.classes(stable) == (0, 0)
    pairs = products.colours["i j"]
    index = batch[0].structure["i j"].T.tolist()
    theirs = [own[u, v] for own in stable for u, v in index]
    assert partition(pairs.tolist()) == partition(theirs)


def test_triples_are_oblivious_3wl():
    graphs = [*atlas(4), cycle(6), cycle(3, 3)]
    e = inc.expressivity("i j k, {i j} -> i j k, {i j}", list(map(as_triples, graphs)))
    start = by_definition.atomic_types(graphs, 3)
    expected, _ = by_definition.until_stable(start, by_definition.oblivious_3wl(graphs))
    assert e.classes == by_definition.classes(expected)
    assert e.separates(len(graphs) - 2, len(graphs) - 1)


def cubes(graphs):
    """The adjacency of the first two nodes of every triple of distinct nodes, as a feature."""
    examples = []
    for graph in graphs:
        s = Structure.complete(len(graph), ["(i j k)"])
        rows = [
            [v in graph[u], w in graph[v], w in graph[u]] for u, v, w in s["(i j k)"].T.tolist()
        ]
        examples.append(inc.Example(s, {"(i j k)": torch.tensor(rows).float().view(-1, 3)}))
    return examples


def test_triples_of_distinct_nodes_are_oblivious_3wl():
    graphs = [g for g in atlas(5) if len(g) > 3]
    graphs += [cycle(6), cycle(3, 3), cycle(7), cycle(3, 4)]
    e = inc.expressivity("(i j k) -> (i j k)", cubes(graphs))
    start = by_definition.atomic_types(graphs, 3)
    expected, _ = by_definition.until_stable(start, by_definition.oblivious_3wl(graphs))
    assert e.classes == by_definition.classes(expected)


# ---- products


PRODUCTS = [
    ("i j, j k -> i k", ["i j"]),
    ("(i j), j -> i", ["(i j)"]),
    ("(i j), (j k) -> i", ["(i j)"]),
    ("{i j}, {j k} -> {i k}", ["{i j}"]),
    ("{i j}, {j k}, {i k} -> {i j k}", ["{i j}", "{i j k}"]),
    ("(i j), (j k), (k i) -> ", ["(i j)"]),
    ("i, j -> (i j)", ["(i j)"]),
    ("{i j}, {j k} -> ", ["{i j}"]),
    ("i j, i i -> i j", ["i j"]),
]


def tuples_of_colours(text, structure, colours):
    """The sums of all tuples of colours, entry by entry: the product of their indicators."""
    pattern = inc.algebra.products.parse_product(text)
    operands = [support_of(structure, p) for p in pattern.operands]
    sums = []
    for own in product(*({*colours[p].tolist()} for p in operands)):
        xs = [
            (colours[p] == colour).double()[:, None]
            for p, colour in zip(operands, own, strict=True)
        ]
        sums.append(inc.einsum(text, *xs, structure).round().long()[:, 0])
    return torch.stack(sums, 1)


@pytest.mark.parametrize(("text", "patterns"), PRODUCTS)
def test_products_read_the_multisets_of_tuples(text, patterns):
    batch = inc.collate(random_structures(patterns, 5, len(text), count=2))
    generator = torch.Generator().manual_seed(7)
    reader = inc.expressive.readers.ProductReader(text, batch)
    colours = {
        p: torch.randint(3, (batch.num_entries(p),), generator=generator) for p in reader.inputs
    }
    Colours = inc.expressive.readers.Colours
    [reading] = reader.readings({p: Colours(own, 3) for p, own in colours.items()})
    rows = tuples_of_colours(text, batch, colours)
    expected = [tuple(row) for row in rows.tolist()]
    assert partition(reading.sums.classes.tolist()) == partition(expected)
    assert [number == 0 for number in reading.sums.classes.tolist()] == [
        not any(row) for row in expected
    ]


def test_a_multilinear_map_reads_all_its_products():
    batch = list(map(as_matrix, [cycle(6), cycle(3, 3)]))
    assert inc.expressivity("i j * i j -> i j", batch).separates(0, 1)
    texts = [str(p) for p in MultilinearMap("i j * i -> i j").products]
    reads = inc.expressivity("i j * i -> i j", batch)
    assert len(reads.architecture.readers) == len(texts)


# ---- what is given


def test_a_hexagon_and_two_triangles_are_told_apart_by_triangles_alone():
    pair = [as_edges(cycle(6)), as_edges(cycle(3, 3))]
    assert not inc.expressivity(EDGES, pair).separates(0, 1)
    triangles = [
        s.with_index({"{i j k}": t})
        for s, t in zip(pair, [[[], [], []], [[0, 3], [1, 4], [2, 5]]], strict=True)
    ]
    e = inc.expressivity("i, {i j}, {i j k} -> i, {i j}, {i j k}", triangles)
    assert e.separates(0, 1)
    assert e.rounds == 1
    assert e.groups == ()


def test_classes_do_not_depend_on_the_batch():
    pair = [as_edges(cycle(6)), as_edges(cycle(3, 3)), as_edges(cycle(7))]
    assert inc.expressivity(EDGES, pair).classes == (0, 0, 1)
    assert inc.expressivity(EDGES, inc.collate(pair)).classes == (0, 0, 1)
    examples = [inc.Example(s, {"i": torch.ones(s.num_nodes, 1)}) for s in pair]
    assert inc.expressivity(EDGES, examples).classes == (0, 0, 1)
    assert inc.expressivity(EDGES, pair[:1]).classes == (0,)


def test_colours_move_with_the_nodes():
    generator = torch.Generator().manual_seed(3)
    s = random_structure(9, ["{i j}", "(i j)"], 0.3, generator)
    text = "i, {i j}, (i j) -> i, {i j}, (i j)"
    permutation = torch.randperm(9, generator=generator)
    e, moved = (inc.expressivity(text, one) for one in (s, s.relabel(permutation)))
    assert torch.equal(moved.colours["i"][permutation], e.colours["i"])
    assert torch.equal(moved.colours["{i j}"], e.colours["{i j}"])
    assert torch.equal(moved.colours["(i j)"], e.colours["(i j)"])


def test_features_are_the_first_colours():
    batch = inc.collate([as_edges(cycle(6)), as_edges(cycle(6))])
    x = torch.zeros(12, dtype=torch.long)
    x[[0, 3, 6, 8]] = 1
    e = inc.expressivity(EDGES, batch, features={"i": x})
    assert e.separates(0, 1)
    assert not inc.expressivity(EDGES, batch, features={"i": torch.zeros(12, 2)}).separates(0, 1)
    signed_zero = torch.tensor([[0.0], [-0.0]] * 6)
    assert inc.expressivity(EDGES, batch, features={"i": signed_zero}).rounds == 0


def test_neighbouring_numbers_are_different_features():
    s = as_edges(cycle(4))
    x = torch.tensor([1.0, 1.0, 1.0, 1.0 + 2**-23])
    assert len(inc.expressivity(EDGES, s, features={"i": x}).colours["i"].unique()) == 3


def test_operations_that_are_left_out_are_not_read():
    sizes = [as_edges(cycle(6)), as_edges(cycle(6, 6))]
    x = {"i": torch.ones(18, 1)}
    whole = inc.expressivity(EDGES, sizes, features=x)
    local = inc.expressivity(EDGES, sizes, features=x, operations="local")
    assert len(whole.colours["i"].unique()) == 2
    assert len(local.colours["i"].unique()) == 1
    assert local.separates(0, 1)  # by the sum of all nodes


def test_a_mean_does_not_count():
    star = Structure(4, {"(i j)": [[1, 2, 3], [0, 0, 0]]})
    path = Structure(4, {"(i j)": [[1], [0]]})
    [to_heads] = [
        operation
        for operation in EquivariantMap("(i j) -> i").operations
        if operation.overlap == ((0,), (1,))
    ]
    colours = {
        aggr: inc.expressivity(
            "(i j) -> i", [star, path], aggr=aggr, operations=lambda o: o == to_heads
        ).colours["i"]
        for aggr in ("sum", "mean", "max")
    }
    assert colours["sum"][0] != colours["sum"][4]
    assert colours["mean"][0] == colours["mean"][4]
    assert colours["max"][0] == colours["max"][4]


def test_several_aggregations_are_read_side_by_side():
    structures = random_structures(["(i j)"], 5, 1)
    text = "i, (i j) -> i, (i j)"
    both = inc.expressivity(text, structures, aggr=["mean", "max"])
    one = inc.expressivity(text, structures, aggr="mean")
    for key in ("i", "(i j)"):
        pairs = set(zip(one.colours[key].tolist(), both.colours[key].tolist(), strict=True))
        assert len(pairs) == len(both.colours[key].unique())
    assert inc.expressivity(text, structures, aggr=lambda o: "mean").classes == one.classes


def test_std_is_an_upper_bound_and_says_so():
    pair = [as_edges(cycle(6)), as_edges(cycle(3, 3))]
    e = inc.expressivity(EDGES, pair, aggr="std")
    assert not e.is_exact
    assert "upper bound" in str(e)
    assert not e.separates(0, 1)


def test_open_faces_share_as_many_nodes_as_they_may():
    # two hyperedges that share two nodes, or one node twice
    one = Structure(
        8, {"{i ...}": [[0, 1, 2, 1, 2, 3, 4, 5, 6, 7], [0, 0, 0, 1, 1, 1, 2, 2, 3, 3]]}
    )
    text = "{i ...} -> {i ...}"
    few, more = (inc.expressivity(text, one, max_overlap=k) for k in (0, 2))
    assert len(few.colours[text[:7]].unique()) == 1
    assert len(more.colours[text[:7]].unique()) == 2


def test_one_colour_has_one_value_under_any_network():
    structures = random_structures(["{i j}", "{i j k}"], 6, 5)
    batch = inc.collate(structures)
    text = "i, {i j}, {i j k} -> i, {i j}, {i j k}"
    e = inc.expressivity(text, structures)
    net = inc.nn.Sequential(
        inc.nn.Linear(text, 1, 8), inc.nn.Activation(torch.tanh), inc.nn.Linear(text, 8, 8)
    ).double()
    keys = ["i", "{i j}", "{i j k}"]
    with torch.no_grad():
        y = net({key: inc.ones(batch, key).double() for key in keys}, batch)
    for key in keys:
        colours = e.colours[key]
        for colour in colours.unique().tolist():
            rows = y[key][colours == colour]
            torch.testing.assert_close(rows, rows[:1].expand_as(rows))


def test_the_result_prints():
    e = inc.expressivity(EDGES, [as_edges(cycle(6)), as_edges(cycle(3, 3))])
    assert str(e) == ("`i, {i j} -> i, {i j}`: 2 structures in 1 class, 2 colours after 0 layers")
    assert repr(e) == f"<Expressivity {e}>"
    assert e.groups == ((0, 1),)
    assert e.num_equal_pairs == 1
    assert list(e.colours) == ["i", "{i j}"]
    assert len(e.colours) == 2


def test_all_graphs_on_seven_nodes():
    graphs = [g for g in atlas(7) if len(g) == 7]
    structures = [Structure(7, {"{i j}": torch.tensor(edges(g)).view(-1, 2).T}) for g in graphs]
    e = inc.expressivity(EDGES, structures)
    expected, _ = by_definition.until_stable(
        by_definition.same_nodes(graphs), by_definition.colour_refinement(graphs)
    )
    assert e.classes == by_definition.classes(expected)


# ---- refusals


@pytest.mark.parametrize(
    ("what", "keywords", "message"),
    [
        ("i, <i j> -> i", {}, "values without a sign; got `<i j>`"),
        (7, {}, "the text of a map, a layer or a network; got int"),
        ("i j -> i j", {}, "no index for `i j` here"),
        (EDGES, {"features": {"{i j}": torch.ones(3, 1)}}, "must have 6 rows.*got 3"),
        (EDGES, {"features": {"i": [1, 2]}}, "must be a tensor of numbers.*got list"),
        (EDGES, {"features": {"i": torch.full((6,), torch.nan)}}, "missing numbers"),
        ("i -> i", {"features": {"{i j}": torch.ones(6, 1)}}, "starts from `i`"),
        ("i * i -> i", {"aggr": "max"}, "aggr= is for linear maps"),
        (EDGES, {"aggr": "median"}, "no aggregation 'median'"),
        (EDGES, {"products": "{i j ...} -> i"}, "an open face in a product"),
    ],
)
def test_what_cannot_be_decided_is_refused(what, keywords, message):
    s = as_edges(cycle(6))
    with pytest.raises(inc.IncidenceError, match=re.compile(message, re.DOTALL)):
        inc.expressivity(what, s, **keywords)


@pytest.mark.parametrize("given", [[], [cycle(3)], 3, "graphs"])
def test_what_is_no_structure_is_refused(given):
    with pytest.raises(inc.IncidenceError, match="compares structures or examples"):
        inc.expressivity(EDGES, given)


@pytest.mark.parametrize("number", [2, -1, True, "a"])
def test_a_structure_that_is_not_there_is_refused(number):
    e = inc.expressivity(EDGES, [as_edges(cycle(6)), as_edges(cycle(3, 3))])
    with pytest.raises(inc.IncidenceError, match="numbered 0 to 1"):
        e.separates(0, number)


def test_colours_of_a_tensor_that_is_not_there_are_refused():
    e = inc.expressivity(EDGES, as_edges(cycle(6)))
    with pytest.raises(inc.IncidenceError, match="no colours of `i j`; there are those of 'i', "):
        e.colours["i j"]
