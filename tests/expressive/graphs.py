"""Graphs as structures, for the tests of expressivity."""

import gzip
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import torch

import incidence as inc
from tests.expressive.definition import Graph


def graph6(line: bytes) -> Graph:
    """A graph of at most 258047 nodes from its line in graph6."""
    codes = [byte - 63 for byte in line.strip().removeprefix(b">>graph6<<")]
    n, rest = codes[0], codes[1:]
    if n == 63:
        n, rest = (rest[0] << 12) + (rest[1] << 6) + rest[2], rest[3:]
    bits = [code >> shift & 1 for code in rest for shift in range(5, -1, -1)]
    graph: Graph = [set() for _ in range(n)]
    place = iter(bits)
    for v in range(n):
        for u in range(v):
            if next(place):
                graph[u].add(v)
                graph[v].add(u)
    return graph


def read_graph6(path: Path) -> list[Graph]:
    return [graph6(line) for line in path.read_bytes().splitlines() if line]


def read_brec(path: Path) -> list[tuple[Graph, Graph]]:
    """The pairs of a group of BREC."""
    lines = [x.encode() if isinstance(x, str) else bytes(x) for x in np.load(path).ravel()]
    graphs = [graph6(line) for line in lines]
    return list(zip(graphs[::2], graphs[1::2], strict=True))


def read_exp(path: Path) -> Iterator[tuple[Graph, list[int]]]:
    """The graphs of a text file with the labels of their nodes."""
    words = iter(gzip.decompress(path.read_bytes()).split())
    for _ in range(int(next(words))):
        n, _ = int(next(words)), next(words)
        graph, labels = [], []
        for _ in range(n):
            labels.append(int(next(words)))
            graph.append({int(next(words)) for _ in range(int(next(words)))})
        yield graph, labels


def edges(graph: Graph) -> list[tuple[int, int]]:
    return [(u, v) for u, own in enumerate(graph) for v in sorted(own) if u < v]


def as_edges(graph: Graph) -> inc.Structure:
    """The nodes and the edges."""
    index = torch.tensor(edges(graph), dtype=torch.long).view(-1, 2).T
    return inc.Structure(len(graph), {"{i j}": index})


def as_matrix(graph: Graph) -> inc.Example:
    """The adjacency matrix, complete."""
    n = len(graph)
    s = inc.Structure.complete(n, ["i j"])
    rows = [[float(v in graph[u])] for u, v in s["i j"].T.tolist()]
    return inc.Example(s, {"i j": torch.tensor(rows).view(-1, 1)})


def as_triples(graph: Graph) -> inc.Structure:
    """All triples, with the edges beside them."""
    n = len(graph)
    index = torch.tensor(edges(graph), dtype=torch.long).view(-1, 2).T
    triples = inc.Structure.complete(n, ["i j k"])["i j k"]
    return inc.Structure(n, {"i j k": triples, "{i j}": index})


def cycle(*lengths: int) -> Graph:
    """Disjoint cycles."""
    graph: Graph = []
    for n in lengths:
        start = len(graph)
        graph += [{start + (v - 1) % n, start + (v + 1) % n} for v in range(n)]
    return graph


def rook() -> Graph:
    """The 4 x 4 rook's graph."""
    return [
        {u for u in range(16) if u != v and (u // 4 == v // 4 or u % 4 == v % 4)} for v in range(16)
    ]


def shrikhande() -> Graph:
    """The Shrikhande graph, with the parameters of the rook's graph."""
    steps = [(0, 1), (0, 3), (1, 0), (3, 0), (1, 1), (3, 3)]
    return [{(v // 4 + a) % 4 * 4 + (v % 4 + b) % 4 for a, b in steps} for v in range(16)]


def partition(colours: Sequence[int]) -> tuple[int, ...]:
    """Colours numbered by first occurrence."""
    numbers: dict[int, int] = {}
    return tuple(numbers.setdefault(colour, len(numbers)) for colour in colours)
