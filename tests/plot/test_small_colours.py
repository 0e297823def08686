"""Colours of small graphs in the explorer are those of `inc.expressivity`."""

from __future__ import annotations

import random
from collections import Counter
from itertools import combinations, permutations, product

import pytest
import torch

import incidence as inc
from incidence.errors import IncidenceError, TooLargeError
from incidence.plot.small_colours import colour_rounds, tensors_of
from incidence.plot.small_graphs import SmallGraph, entries_on, places, read_graph
from incidence.plot.weights import Entry, entries_at
from tests.cases import some
from tests.expressive.graphs import partition
from tests.structure.listing import entry_of

MAPS = [
    "i -> i",
    "i, {i j} -> i, {i j}",
    "i, (i j) -> i, (i j)",
    "{i j} -> i",
    "i, {i j} -> ",
    ", i, {i j} -> , i",
    "i, {i j}, {i j k} -> i, {i j}, {i j k}",
    "{i j k} -> {i j k}",
    "(i j k), {i j} -> (i j k), {i j}",
    "{i j k l}, {i j} -> {i j k l}, {i j}",
    "i j -> i j",
    "i j, {i j} -> i",
    "[i j] -> [i j]",
    "[i j], i j -> i",
    "i {i j} -> i {i j}",
    "i {j k} -> i",
    "(i j) (j k) -> (i j)",
    "i j k -> i j k",
    "[i j k] -> i",
    "bond={i j}, i -> i, bond={i j}",
]
PAIRS = {
    "hexagon": ("0-1-2-3-4-5-0", "0-1-2-0 3-4-5-3"),
    "prism": ("0-1-2-0 3-4-5-3 0-3 1-4 2-5", "0-3-1-4-2-5-0 0-4 1-5 2-3"),
    "path and star": ("0-1-2-3", "0-1 0-2 0-3"),
    "nodes without edges": ("a, b, c", "c, b, a"),
    "one edge": ("0-1 2", "0-1-2"),
}


def drawn_pairs(count: int) -> list[tuple[str, str]]:
    """Graphs with as many nodes and edges."""
    draw = random.Random(0)
    pairs = []
    for _ in range(count):
        n = draw.randint(4, 6)
        all_pairs = [(a, b) for b in range(n) for a in range(b)]
        size = draw.randint(2, len(all_pairs) - 1)
        texts = (
            " ".join([*map(str, range(n)), *(f"{a}-{b}" for a, b in draw.sample(all_pairs, size))])
            for _ in range(2)
        )
        pairs.append((next(texts), next(texts)))
    return pairs


def is_entry(graph: SmallGraph, pattern: inc.Pattern, nodes: dict[str, int]) -> bool:
    """Whether the nodes of every face in brackets, but for square ones, are adjacent."""
    near = {frozenset(edge) for edge in graph.edges}
    return all(
        frozenset((nodes[a.name], nodes[b.name])) in near
        for face in pattern.faces
        if face.kind.opening in ("{", "(")
        for a, b in permutations(face.letters, 2)
    )


def as_example(graph: SmallGraph, patterns: list[inc.Pattern]) -> inc.Example:
    """The entries as a structure, and how many pairs of nodes of two faces are adjacent."""
    n = len(graph.names)
    near = {frozenset(edge) for edge in graph.edges}
    index, features = {}, {}
    for p in patterns:
        if len(p.letters) < 2:
            continue
        listed: dict[object, tuple[int, ...]] = {}
        for nodes in product(range(n), repeat=len(p.letters)):
            at = dict(zip(p.letters, nodes, strict=True))
            if is_entry(graph, p, at):
                listed.setdefault(entry_of(p, list(nodes)), nodes)
        columns = list(listed.values())
        index[str(p)] = torch.tensor(columns, dtype=torch.long).view(-1, len(p.letters)).T
        rows = [
            [
                float(sum(frozenset((a, b)) in near for (_, a), (_, b) in product(one, other)))
                for one, other in product(entry, entry)
            ]
            for entry in listed
        ]
        features[str(p)] = torch.tensor(rows).view(-1, p.order**2)
    return inc.Example(inc.Structure(n, index), features)


def found_by_the_library(m: inc.EquivariantMap, graphs: list[SmallGraph]):
    """The classes, the number of layers, and the colours of all entries, graph by graph."""
    tensors = tensors_of(m)
    examples = [as_example(graph, tensors) for graph in graphs]
    e = inc.expressivity(m, examples)
    colours: list[dict[object, object]] = [{}, {}]
    for p in tensors:
        home = e.structure.batch(p).tolist()
        starts = e.structure.entry_ptr(p).tolist()
        for row, colour in enumerate(e.colours[str(p)].tolist()):
            number = home[row]
            structure = examples[number].structure
            if p.letters:
                nodes = structure.index(p)[0].T.tolist()[row - starts[number]]
            [entry] = entries_at(p, [[v] for v in nodes]) if p.letters else [Entry(0, ())]
            colours[number][p, entry] = (p, colour)
    return e.separates(0, 1), e.rounds, colours


KNOWN = [(text, pair) for text in MAPS for pair in PAIRS.values()]
DRAWN = [(text, pair) for text in MAPS for pair in drawn_pairs(12)]


@pytest.mark.parametrize(("text", "pair"), some(KNOWN) + some(DRAWN))
def test_colours_are_those_of_expressivity(text: str, pair: tuple[str, str]) -> None:
    m = inc.EquivariantMap(text)
    graphs = [read_graph(one) for one in pair]
    states = colour_rounds(m, graphs)
    separates, rounds, expected = found_by_the_library(m, graphs)
    tensors = tensors_of(m)
    listed = [[(p, e) for p in tensors for e in entries_on(graph, p)] for graph in graphs]
    mine = [colour for own in states[-1] for colour in own]
    theirs = [own[key] for own, keys in zip(expected, listed, strict=True) for key in keys]
    assert [len(own) for own in expected] == [len(keys) for keys in listed]
    assert partition(mine) == partition(theirs)
    assert len(states) - 1 == rounds
    assert (Counter(states[-1][0]) != Counter(states[-1][1])) == separates


def test_a_colour_that_splits_stays_that_of_its_first_entry():
    m = inc.EquivariantMap("i, {i j} -> i, {i j}")
    states = colour_rounds(m, [read_graph("0-1-2-3-4")])
    nodes = [state[0][:5] for state in states]
    assert nodes == [[0, 0, 0, 0, 0], [0, 2, 2, 2, 0], [0, 2, 4, 2, 0]]
    edges = [state[0][5:] for state in states]
    assert edges == [[1, 1, 1, 1], [1, 3, 3, 1], [1, 3, 3, 1]]


def test_a_graph_is_read_from_paths_and_names():
    graph = read_graph("a-b-c-a, d; b-a\n  e-d")
    assert graph.names == ("a", "b", "c", "d", "e")
    assert graph.edges == ((0, 1), (0, 2), (1, 2), (3, 4))
    assert graph.is_edge(2, 0)
    assert not graph.is_edge(0, 3)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("0-1 2--3", "`2--3` is no edge: write names"),
        ("0-1-1", "joins two different nodes; got one in `0-1-1`"),
        (" , ", "has 1 to 40 nodes; got 0"),
        ("-".join(map(str, range(41))), "has 1 to 40 nodes; got 41"),
    ],
)
def test_texts_that_are_no_small_graphs_are_refused(text: str, message: str) -> None:
    with pytest.raises(IncidenceError, match=message):
        read_graph(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("<i j> -> i", "`<i j>` is oriented: write `{i j}`"),
        ("i, {i ...} -> i", "no faces of any size"),
        ("u:user m:movie -> u:user", "of one sort; got "),
        ("i j k l -> i j k l", "up to 2,000 operations"),
    ],
)
def test_maps_without_colours_on_graphs_are_refused(text: str, message: str) -> None:
    with pytest.raises(IncidenceError, match=message):
        colour_rounds(inc.EquivariantMap(text), [read_graph("0-1")])


def test_what_would_take_too_long_is_refused():
    path = read_graph("-".join(map(str, range(40))))
    with pytest.raises(TooLargeError, match="more than 5,000 entries on a graph of 40 nodes"):
        colour_rounds(inc.EquivariantMap("i j k -> "), [path])
    short = read_graph("-".join(map(str, range(16))))
    with pytest.raises(TooLargeError, match="the limit is 150,000"):
        colour_rounds(inc.EquivariantMap("i j k -> i j k"), [short])


def test_places_are_apart_and_within_the_picture():
    for text in [one for pair in PAIRS.values() for one in pair] + ["a"]:
        points = places(read_graph(text))
        assert all(-1e-3 <= x <= 1.001 for point in points for x in point)
        assert all(abs(a[0] - b[0]) + abs(a[1] - b[1]) > 0.1 for a, b in combinations(points, 2))
