"""Real data sets as examples, with the counts that are published for them."""

import gzip
from collections import Counter

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader

import incidence as inc
from incidence.structure import Example, Structure
from tests.data_folder import data_folder

TU = {
    "MUTAG": (188, [125, 63], 7, 17.93, 28, 19.79),
    "PTC": (344, [192, 152], 19, 25.56, 109, 25.96),
    "PROTEINS": (1113, [663, 450], 3, 39.06, 620, 72.82),
    "NCI1": (4110, [2057, 2053], 37, 29.87, 111, 32.30),
    "IMDBBINARY": (1000, [500, 500], 1, 19.77, 136, 96.53),
    "IMDBMULTI": (1500, [500, 500, 500], 1, 13.00, 89, 65.94),
}


def read_tu(name: str) -> list[Example]:
    """Graphs as lists of neighbours: a line `n y` for each, then for each node its label, its
    degree and its neighbours.
    """
    with gzip.open(data_folder("tu_graphs") / name / f"{name}.txt.gz", "rt") as file:
        lines = iter(file.read().splitlines())
    examples = []
    for _ in range(int(next(lines))):
        count, label = map(int, next(lines).split())
        nodes = [list(map(int, next(lines).split())) for _ in range(count)]
        pairs = [(i, j) for i, (_, _, *others) in enumerate(nodes) for j in others if i < j]
        structure = Structure(count, {"{i j}": torch.tensor(pairs, dtype=torch.long).view(-1, 2).T})
        examples.append(Example(structure, {"i": torch.tensor([row[:1] for row in nodes])}, label))
    return examples


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow) if name == "NCI1" else name for name in TU]
)
def test_tu_graphs_have_the_published_counts(name):
    graphs, classes, labels, nodes, most, edges = TU[name]
    examples = read_tu(name)
    whole = inc.collate(examples)
    sizes = whole.structure.node_ptr().diff()
    assert len(whole) == graphs
    assert sorted(Counter(whole.target.tolist()).values(), reverse=True) == classes
    assert len(whole.features["i"].unique()) == labels
    assert (round(sizes.double().mean().item(), 2), int(sizes.max())) == (nodes, most)
    assert round(whole.structure.num_entries("{i j}") / graphs, 2) == edges
    assert whole[graphs - 1] == examples[-1]


def read_qm9() -> list[Example]:
    with np.load(data_folder("qm9_subset") / "qm9_every10th.npz") as file:
        ptr, z, at, targets = (
            torch.from_numpy(file[key].astype(kind))
            for key, kind in zip(
                ("ptr", "z", "xyz", "targets"),
                ("int64", "int64", "float32", "float64"),
                strict=True,
            )
        )
    sizes = ptr.diff().tolist()
    parts = zip(sizes, z[:, None].split(sizes), at.split(sizes), targets, strict=True)
    return [
        Example(Structure(n), {"i": numbers, "pos=i": places}, y) for n, numbers, places, y in parts
    ]


def test_qm9_has_the_published_counts():
    examples = read_qm9()
    assert len(examples) == 13087
    [whole] = DataLoader(examples, batch_size=len(examples), collate_fn=inc.collate)
    assert whole.structure.num_nodes == 235827
    assert Counter(whole.features["i"][:, 0].tolist()) == {
        1: 120707,
        6: 83077,
        8: 18378,
        7: 13355,
        9: 310,
    }
    assert int(whole.structure.node_ptr().diff().max()) == 29
    assert whole.target.shape == (13087, 15)
    assert whole.features["pos=i"].shape == (235827, 3)
