"""Examples made of graphs of networkx, for the tests of lifts."""

import torch

import incidence as inc


def example(graph, target=1):
    n = graph.number_of_nodes()
    pairs = sorted(tuple(sorted(edge)) for edge in graph.edges)
    structure = inc.Structure(n, {"{i j}": torch.tensor(pairs, dtype=torch.long).view(-1, 2).T})
    x = torch.arange(2.0 * n).view(n, 2) + 1
    return inc.Example(
        structure,
        {"i": x, "{i j}": torch.arange(float(len(pairs)))[:, None] + 10},
        torch.tensor(target),
    )
