"""Random graphs and slow, obvious answers to compare with."""

from itertools import combinations, permutations

import networkx as nx
import torch
from hypothesis import strategies as st

from incidence.structure import Structure

Sets = set[frozenset[int]]


def structure_of(graph: nx.Graph, shuffle: int | None = None) -> Structure:
    """The structure of a graph whose nodes are 0, 1, ...; `(i j)` if it is directed; edges in a
    random order and spelling if asked for.
    """
    edges = torch.tensor(list(graph.edges), dtype=torch.long).view(-1, 2)
    if shuffle is not None:
        generator = torch.Generator().manual_seed(shuffle)
        edges = edges[torch.randperm(len(edges), generator=generator)]
        if not graph.is_directed():
            edges = torch.where(
                torch.rand(len(edges), 1, generator=generator) < 0.5, edges, edges.flip(1)
            )
    return Structure(len(graph), {"(i j)" if graph.is_directed() else "{i j}": edges.T})


def random_graphs(max_nodes: int = 8, directed: bool = False) -> st.SearchStrategy[nx.Graph]:
    def make(num_nodes: int, bits: int) -> nx.Graph:
        graph = nx.DiGraph() if directed else nx.Graph()
        graph.add_nodes_from(range(num_nodes))
        pairs = permutations(range(num_nodes), 2) if directed else combinations(range(num_nodes), 2)
        graph.add_edges_from(pair for k, pair in enumerate(pairs) if bits >> k & 1)
        return graph

    return st.builds(
        make, st.integers(0, max_nodes), st.integers(0, 2 ** (max_nodes * (max_nodes - 1)) - 1)
    )


def faces(structure: Structure, text: str) -> list[frozenset[int]]:
    """The entries of lone undirected faces, each as a set of nodes, in order."""
    if structure.resolve(text).is_open:
        found: list[set[int]] = [set() for _ in range(structure.num_entries(text))]
        for node, entry in structure[text].T.tolist():
            found[entry].add(node)
        return list(map(frozenset, found))
    return [frozenset(column) for column in structure[text].T.tolist()]


def columns(structure: Structure, text: str) -> list[tuple[int, ...]]:
    """The entries of a tensor as tuples of nodes, in order."""
    return [tuple(column) for column in structure[text].T.tolist()]
