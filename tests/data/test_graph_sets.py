"""The graph data sets have the published counts, and features that a network can take."""

from collections import Counter
from functools import cache

import networkx as nx
import pytest
import torch

import incidence as inc
from incidence.data import load
from incidence.data.graphs.folds import held_out, random_folds
from tests.data_folder import data_folder

# graphs, sizes of the classes in their order, columns of the nodes, mean and largest number of nodes, mean number of edges
TU = {
    "mutag": (188, [63, 125], 9, 17.93, 28, 19.79),
    "ptc": (344, [192, 152], 21, 25.56, 109, 25.96),
    "proteins": (1113, [663, 450], 5, 39.06, 620, 72.82),
    "nci1": (4110, [2053, 2057], 39, 29.87, 111, 32.30),
    "imdb-b": (1000, [500, 500], 2, 19.77, 136, 96.53),
    "imdb-m": (1500, [500, 500, 500], 2, 13.00, 89, 65.94),
}
NAMES = [pytest.param(name, marks=pytest.mark.slow) if name == "nci1" else name for name in TU]
TESTED = {"mutag": 180, "ptc": 340, "proteins": 1110}  # of the others all graphs are in some test part


@cache
def load_cached(name, **options):
    folder = {"csl": "csl", "exp": "exp_cexp", "cexp": "exp_cexp", "sr": "sr_graphs", "brec": "brec", "counting": "substructure_counting"}
    return load(name, data_folder(folder.get(name, "tu_graphs")).parent, **options)


def whole(data):
    return inc.collate(list(data.examples))


def assert_ready(data):
    """Features are finite floats with a row for each entry, in canonical order; targets suit the task."""
    batch = whole(data)
    assert set(batch.features) == {"i", "{i j}"}
    assert all(x.dtype == torch.float32 and bool(x.isfinite().all()) for x in batch.features.values())
    assert batch == batch.canonical()
    for split in data.splits:
        rows = torch.cat(list(split))
        assert len(rows) == len(rows.unique())
        assert int(rows.max()) < len(data.examples)
    if data.task.kind == "classification":
        assert batch.target.dtype == torch.long
        assert batch.target.unique().tolist() == list(range(len(data.task.names)))


@pytest.mark.parametrize("name", NAMES)
def test_tu_sets_have_the_published_counts(name):
    graphs, classes, columns, nodes, most, edges = TU[name]
    data = load_cached(name)
    assert_ready(data)
    batch = whole(data)
    sizes = batch.structure.node_ptr().diff()
    assert len(batch) == graphs
    assert batch.target.bincount().tolist() == classes
    assert batch.features["i"].shape[1] == columns
    assert (round(sizes.double().mean().item(), 2), int(sizes.max())) == (nodes, most)
    assert round(batch.structure.num_entries("{i j}") / graphs, 2) == edges


@pytest.mark.parametrize("name", NAMES)
def test_the_ten_folds_are_those_of_the_files(name):
    data = load_cached(name)
    assert len(data.splits) == 10
    for split in data.splits:
        assert len(split.validation) == 0
        assert len(split.train) + len(split.test) == len(data.examples)
    tests = torch.cat([split.test for split in data.splits])
    assert len(tests) == len(tests.unique()) == TESTED.get(name, len(data.examples))


def test_the_columns_of_nodes_are_labels_and_degrees():
    batch = whole(load_cached("mutag"))
    x = batch.features["i"].double()
    degree = torch.bincount(batch.structure["{i j}"].flatten(), minlength=len(x)).double()
    assert torch.equal(x[:, :7].sum(1), torch.ones(len(x)))
    assert torch.allclose(x[:, 7], (1 + degree).log())
    assert torch.allclose(x[:, 8], 1 / (degree + 1))


def test_validation_takes_a_share_of_every_class_from_training():
    plain = load_cached("mutag")
    data, again, other = (held_out(plain, 0.1, seed) for seed in (3, 3, 4))
    for split, before in zip(data.splits, plain.splits, strict=True):
        assert torch.equal(torch.cat([split.train, split.validation]).sort().values, before.train.sort().values)
        assert torch.equal(split.test, before.test)
        counts = [Counter(int(data.examples[k].target) for k in rows.tolist()) for rows in (split.validation, before.train)]
        assert all(abs(counts[0][label] - 0.1 * count) <= 1 for label, count in counts[1].items())
    assert torch.equal(again.splits[0].validation, data.splits[0].validation)
    assert not torch.equal(other.splits[0].validation, data.splits[0].validation)


def test_the_seed_of_folds_counts():
    folds, again, other = (random_folds(600, 10, seed) for seed in (0, 0, 1))
    assert torch.equal(folds[3], again[3])
    assert not torch.equal(folds[3], other[3])


def test_csl_has_ten_classes_of_regular_graphs():
    data = load_cached("csl")
    assert_ready(data)
    batch = whole(data)
    assert (len(batch), batch.structure.num_nodes, batch.structure.num_entries("{i j}")) == (150, 150 * 41, 150 * 82)
    assert batch.target.bincount().tolist() == [15] * 10
    assert bool((torch.bincount(batch.structure["{i j}"].flatten()) == 4).all())
    for split in data.splits:
        assert [batch.target[part].bincount().tolist() for part in split] == [[9] * 10, [3] * 10, [3] * 10]
    assert torch.equal(torch.cat([split.test for split in data.splits]).sort().values, torch.arange(150))


@pytest.mark.parametrize(("name", "nodes", "edges"), [("exp", 58442, 72530), ("cexp", 66938, 83736)])
def test_exp_keeps_pairs_together(name, nodes, edges):
    data = load_cached(name)
    assert_ready(data)
    batch = whole(data)
    assert (len(batch), batch.structure.num_nodes, batch.structure.num_entries("{i j}")) == (1200, nodes, edges)
    assert bool((batch.target[::2] != batch.target[1::2]).all())
    for split in data.splits:
        assert [len(part) for part in split] == [1080, 0, 120]
        assert all(sorted(part.tolist()) == sorted((part ^ 1).tolist()) for part in split)
    assert torch.equal(torch.cat([split.test for split in data.splits]).sort().values, torch.arange(1200))


@pytest.mark.parametrize(
    ("family", "graphs", "nodes", "degree"),
    [
        ("sr16622", 2, 16, 6),
        ("sr251256", 15, 25, 12),
        ("sr261034", 10, 26, 10),
        ("sr281264", 4, 28, 12),
        ("sr291467", 41, 29, 14),
        ("sr351899", 227, 35, 18),
    ],
)
def test_strongly_regular_graphs_are_read(family, graphs, nodes, degree):
    data = load_cached("sr", family=family)
    assert_ready(data)
    batch = whole(data)
    assert (len(batch), batch.structure.num_nodes) == (graphs, graphs * nodes)
    assert bool((torch.bincount(batch.structure["{i j}"].flatten()) == degree).all())
    assert [len(part) for part in data.splits[0]] == [0, 0, graphs]


@pytest.mark.parametrize(
    ("group", "pairs", "nodes", "edges"),
    [
        ("basic", 60, (10, 10), (13, 38)),
        ("regular", 50, (7, 10), (12, 35)),
        ("str", 50, (16, 35), (48, 315)),
        ("4vtx", 20, (63, 63), (945, 945)),
        ("dr", 20, (30, 63), (96, 253)),
        ("extension", 100, (10, 19), (11, 36)),
        ("cfi", 100, (18, 198), (18, 742)),
    ],
)
def test_brec_has_its_pairs(group, pairs, nodes, edges):
    data = load_cached("brec", group=group)
    assert_ready(data)
    structure = whole(data).structure
    sizes, numbers = structure.node_ptr().diff(), structure.entry_ptr("{i j}").diff()
    assert len(sizes) == 2 * pairs
    assert torch.equal(sizes[::2], sizes[1::2])
    assert torch.equal(numbers[::2], numbers[1::2])
    assert [(int(x.min()), int(x.max())) for x in (sizes, numbers)] == [nodes, edges]


@pytest.mark.parametrize(
    ("target", "variance"),
    [
        ("triangle", 7.353),
        pytest.param("star", 311.2, marks=pytest.mark.slow),
        pytest.param("tailed_triangle", 67.53, marks=pytest.mark.slow),
        pytest.param("chordal_cycle", 9.609, marks=pytest.mark.slow),
    ],
)
def test_counting_has_its_graphs_and_targets(target, variance):
    data = load_cached("counting", target=target)
    batch = whole(data)
    assert (len(batch), batch.structure.num_nodes, batch.structure.num_entries("{i j}")) == (5000, 50000, 67485)
    assert batch.target.shape == (5000, 1)
    assert float(batch.target.double().var(correction=0)) == pytest.approx(variance, rel=1e-3)
    assert [len(part) for part in data.splits[0]] == [1500, 1000, 2500]
    assert f"{variance:.4g}" in data.about


def test_counted_triangles_are_those_of_the_graph():
    data = load_cached("counting", target="triangle")
    assert_ready(data)
    for example in data.examples[:20]:
        graph = nx.Graph(example.structure["{i j}"].T.tolist())
        assert float(example.target) == sum(nx.triangles(graph).values()) / 3


def test_the_parts_of_a_fold_are_packed_examples():
    data = held_out(load_cached("mutag"), 0.1, 0)
    parts = data.parts(2)
    assert [len(part) for part in parts] == [len(rows) for rows in data.splits[2]]
    assert parts.test[0] == data.examples[int(data.splits[2].test[0])]


def test_a_data_set_is_found_in_its_own_folder_too():
    assert len(load("csl", data_folder("csl")).examples) == 150
