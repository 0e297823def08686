"""Small data for networks: graphs, molecules, hypergraphs and tables, each with features of every
tensor.
"""

from __future__ import annotations

import torch
from torch import Tensor

import incidence as inc
from incidence.data.lifts import lift_all
from incidence.models import PRESETS

WIDTHS = {"i": 3, "{i j}": 2}


def graph(seed: int = 0, nodes: int = 6, chords: int = 3) -> inc.Example:
    """A ring of nodes with a few chords, points in space, and random features."""
    generator = torch.Generator().manual_seed(seed)
    ring = torch.stack([torch.arange(nodes), (torch.arange(nodes) + 1) % nodes])
    edges = {tuple(sorted(pair)) for pair in ring.T.tolist()}
    while len(edges) < nodes + chords:
        u, v = torch.randperm(nodes, generator=generator)[:2].tolist()
        edges.add((min(u, v), max(u, v)))
    structure = inc.Structure(nodes, {"{i j}": torch.tensor(sorted(edges)).T})
    features = {
        "i": torch.randn(nodes, 3, generator=generator),
        "{i j}": torch.randn(len(edges), 2, generator=generator),
        "pos=i": 1.5 * torch.randn(nodes, 3, generator=generator),
    }
    return inc.Example(structure, features).canonical()


def hypergraph() -> inc.Example:
    members = torch.tensor([[0, 1, 2, 2, 3, 4, 0, 4], [0, 0, 0, 1, 1, 1, 2, 2]])
    structure = inc.Structure(5, {"{i ...}": (torch.zeros(0, 3, dtype=torch.long), members)})
    return inc.Example(structure, {"i": noise(5, 3), "{i ...}": noise(3, 2)})


def flows() -> inc.Example:
    structure = inc.geometry.simplicial_complex(
        [[0, 1, 2], [1, 2, 3], [3, 4]], oriented=True
    ).with_pattern("{i j}")
    texts = {"i": 3, "<i j>": 2, "<i j k>": 1}
    return inc.Example(
        structure,
        {text: noise(structure.num_entries(text), channels) for text, channels in texts.items()},
    )


def table() -> inc.Example:
    structure = inc.Structure(
        {"user": 3, "movie": 2}, {"u:user m:movie": torch.tensor([[0, 1, 2, 2], [1, 1, 0, 1]])}
    )
    return inc.Example(
        structure, {"u:user": noise(3, 2), "m:movie": noise(2, 3), "u:user m:movie": noise(4, 1)}
    )


def noise(rows: int, channels: int, seed: int = 0) -> Tensor:
    return torch.randn(rows, channels, generator=torch.Generator().manual_seed(seed))


def for_preset(name: str, seed: int = 0) -> inc.Example:
    """Data that has the tensors of a preset."""
    special = {"hypergraph": hypergraph, "relational": table, "flows": flows}
    if name in special:
        return special[name]()
    lifts = {"mesh": "cliques", "molecule-rings": "rings"}
    return lift_all([graph(seed)], lifts.get(name, PRESETS[name].lift))[0]
