"""Small graphs with a number each: some as sparse as molecules, some with counts of something."""

import torch

import incidence as inc
from incidence.data import DataSet, Split, Task


def cycle(length: int, chord: bool = False) -> torch.Tensor:
    nodes = torch.arange(length)
    edges = torch.stack([nodes, (nodes + 1) % length])
    return torch.cat([edges, torch.tensor([[0], [2]])], dim=1) if chord else edges


def fan(triangles: int) -> torch.Tensor:
    """A node that is joined to all nodes of a path: so many triangles."""
    path = torch.arange(1, triangles + 2)
    spokes = torch.stack([torch.zeros_like(path), path])
    return torch.cat([spokes, torch.stack([path[:-1], path[1:]])], dim=1)


def graph(edges: torch.Tensor, kinds: bool, target: float) -> inc.Example:
    count = int(edges.max()) + 1
    x = torch.nn.functional.one_hot(torch.arange(count) % 3, 3).float()
    features = {"i": x if kinds else torch.ones(count, 1), "{i j}": torch.ones(edges.shape[1], 1)}
    structure = inc.Structure(count, {"{i j}": edges})
    return inc.Example(structure, features, torch.tensor([target]))


def data_of(examples: list[inc.Example], metric: str = "rmse") -> DataSet:
    rows = torch.arange(len(examples))
    split = Split(rows[:-10], rows[-10:], rows[:0])
    task = Task("regression", ("y",))
    return DataSet("graphs", examples, task, (split,), reader="graph", metric=metric)


MOLECULES = data_of([graph(cycle(5 + k % 4), True, k / 7) for k in range(60)])
COUNTED = data_of([graph(fan(1 + k % 20), False, float(1 + k % 20)) for k in range(60)])
