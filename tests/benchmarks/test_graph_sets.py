"""The graph data sets have the published counts, and features that a network can take."""

import gzip
from collections import Counter
from functools import cache

import networkx as nx
import numpy as np
import pytest
import torch

import incidence as inc
from benchmarks.separate import equal_pairs
from benchmarks.sets import load
from benchmarks.sets.graphs import random_folds
from benchmarks.sets.neighbour_lists import read_neighbour_lists
from incidence.data import reader
from incidence.data.dataset_checks import checked
from incidence.errors import IncidenceError
from tests.data_folder import data_folder

# graphs, sizes of the classes in their order, columns of the nodes, mean and largest number of
# nodes, mean number of edges
TU = {
    "mutag": (188, [63, 125], 9, 17.93, 28, 19.79),
    "ptc": (344, [192, 152], 21, 25.56, 109, 25.96),
    "proteins": (1113, [663, 450], 5, 39.06, 620, 72.82),
    "nci1": (4110, [2053, 2057], 39, 29.87, 111, 32.30),
    "imdb-b": (1000, [500, 500], 2, 19.77, 136, 96.53),
    "imdb-m": (1500, [500, 500, 500], 2, 13.00, 89, 65.94),
}
NAMES = [pytest.param(name, marks=pytest.mark.slow) if name == "nci1" else name for name in TU]
# of the others all graphs are in some test part
TESTED = {"mutag": 180, "ptc": 340, "proteins": 1110}


@cache
def load_cached(name, **options):
    folder = {
        "csl": "csl",
        "exp": "exp_cexp",
        "cexp": "exp_cexp",
        "sr": "sr_graphs",
        "brec": "brec",
        "counting": "substructure_counting",
        "small-graphs": "small_graphs",
    }
    return load(name, data_folder(folder.get(name, "tu_graphs")).parent, **options)


def whole(data):
    return inc.collate(list(data.examples))


def assert_ready(data):
    """Features are finite floats with a row for each entry, in canonical order; targets suit the
    task.
    """
    batch = whole(data)
    assert set(batch.features) == {"i", "{i j}"}
    assert all(
        x.dtype == torch.float32 and bool(x.isfinite().all()) for x in batch.features.values()
    )
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
    data, again, other = (plain.with_parts(0.1, seed) for seed in (3, 3, 4))
    for split, before in zip(data.splits, plain.splits, strict=True):
        assert torch.equal(
            torch.cat([split.train, split.validation]).sort().values, before.train.sort().values
        )
        assert torch.equal(split.test, before.test)
        counts = [
            Counter(int(data.examples[k].target) for k in rows.tolist())
            for rows in (split.validation, before.train)
        ]
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
    assert (len(batch), batch.structure.num_nodes, batch.structure.num_entries("{i j}")) == (
        150,
        150 * 41,
        150 * 82,
    )
    assert batch.target.bincount().tolist() == [15] * 10
    assert bool((torch.bincount(batch.structure["{i j}"].flatten()) == 4).all())
    for split in data.splits:
        assert [batch.target[part].bincount().tolist() for part in split] == [
            [9] * 10,
            [3] * 10,
            [3] * 10,
        ]
    assert torch.equal(
        torch.cat([split.test for split in data.splits]).sort().values, torch.arange(150)
    )


@pytest.mark.parametrize(
    ("name", "nodes", "edges"), [("exp", 58442, 72530), ("cexp", 66938, 83736)]
)
def test_exp_keeps_pairs_together(name, nodes, edges):
    data = load_cached(name)
    assert_ready(data)
    batch = whole(data)
    assert (len(batch), batch.structure.num_nodes, batch.structure.num_entries("{i j}")) == (
        1200,
        nodes,
        edges,
    )
    assert bool((batch.target[::2] != batch.target[1::2]).all())
    for split in data.splits:
        assert [len(part) for part in split] == [1080, 0, 120]
        assert all(sorted(part.tolist()) == sorted((part ^ 1).tolist()) for part in split)
    assert torch.equal(
        torch.cat([split.test for split in data.splits]).sort().values, torch.arange(1200)
    )


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
    assert (len(batch), batch.structure.num_nodes, batch.structure.num_entries("{i j}")) == (
        5000,
        50000,
        67485,
    )
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
    data = load_cached("mutag").with_parts(0.1, 0)
    parts = data.parts(2)
    assert [len(part) for part in parts] == [len(rows) for rows in data.splits[2]]
    assert parts.test[0] == data.examples[int(data.splits[2].test[0])]


def test_a_data_set_is_found_in_its_own_folder_too():
    assert len(load("csl", data_folder("csl")).examples) == 150


@pytest.mark.parametrize("name", ["csl", "counting", "mutag"])
def test_the_data_is_fit_to_be_learned_from(name):
    assert len(checked(load_cached(name)).examples) == len(load_cached(name).examples) > 0


# ---- lists of neighbours

TRIANGLE = "1\n3 0\n0 2 1 2\n0 2 0 2\n1 2 0 1\n"


def write(folder, name, text):
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
    return path


def test_neighbour_lists_are_read(tmp_path):
    lists = read_neighbour_lists(write(tmp_path, "x.txt", "2\n1 5\n3 0\n" + TRIANGLE[2:]))
    assert lists.sizes.tolist() == [1, 3]
    assert lists.classes.tolist() == [5, 0]
    assert lists.labels.tolist() == [3, 0, 0, 1]
    assert lists.edges.T.tolist() == [[1, 2], [1, 3], [2, 3]]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "as many graphs"),
        ("2\n1 0\n0 0\n", "as many graphs"),
        ("1\n1 0\n0 0\n7\n", "as many graphs"),
        ("1\n2 0\n0 1 2\n0 1 0\n", "no node of its graph"),
        ("1\n2 0\n0 1 1\n0 0\n", "one direction"),
        ("1\n1 0\n0 1 0\n", "loops"),
        ("1\n1 x\n0 0\n", "invalid literal"),
    ],
)
def test_damaged_neighbour_lists_are_refused(tmp_path, text, problem):
    with pytest.raises(IncidenceError, match=rf"x\.txt is damaged.*{problem}.*fetch it again"):
        read_neighbour_lists(write(tmp_path, "x.txt", text))


# ---- missing and damaged files


@pytest.mark.parametrize(
    "name", ["mutag", "csl", "exp", "sr", "brec", "counting", "cora-cocitation"]
)
def test_a_data_set_needs_its_folder(name, tmp_path):
    with pytest.raises(IncidenceError, match="with `folder`"):
        load(name)
    with pytest.raises(IncidenceError, match=r"needs the file .* which is not there"):
        load(name, tmp_path)


def test_unknown_choices_are_refused(tmp_path):
    with pytest.raises(
        IncidenceError, match=r"family of the data set 'sr' is one of sr16622, .*; got 'sr1'"
    ):
        load("sr", tmp_path, family="sr1")
    with pytest.raises(IncidenceError, match="group of the data set 'brec'"):
        load("brec", tmp_path, group="hard")
    with pytest.raises(IncidenceError, match="target of the data set 'counting'"):
        load("counting", tmp_path, target="square")


def mutag(folder, text="2\n1 0\n0 0\n1 2\n1 0\n", train="0\n", test="1\n"):
    write(folder, "tu_graphs/MUTAG/MUTAG.txt.gz", text)
    for k in range(1, 11):
        write(folder, f"tu_graphs/MUTAG/10fold_idx/train_idx-{k}.txt", train)
        write(folder, f"tu_graphs/MUTAG/10fold_idx/test_idx-{k}.txt", test)
    return folder


def test_classes_are_renumbered(tmp_path):
    data = load("mutag", mutag(tmp_path))
    assert [int(example.target) for example in data.examples] == [0, 1]
    assert data.examples[0].features["{i j}"].shape == (0, 1)


def test_damaged_sets_are_refused(tmp_path):
    with pytest.raises(IncidenceError, match="it has 1 classes, not 2"):
        load("mutag", mutag(tmp_path, "1\n1 0\n0 0\n"))
    with pytest.raises(
        IncidenceError, match=r"train_idx-1.txt is damaged \(examples are numbered from 0 to 1\)"
    ):
        load("mutag", mutag(tmp_path, train="7\n"))
    (tmp_path / "tu_graphs/MUTAG/MUTAG.txt.gz").write_bytes(b"no gzip")
    with pytest.raises(IncidenceError, match=r"MUTAG.txt.gz is damaged"):
        load("mutag", tmp_path)
    (mutag(tmp_path) / "tu_graphs/MUTAG/10fold_idx/train_idx-1.txt").unlink()
    with pytest.raises(IncidenceError, match=r"train_idx-1.txt, which is not there"):
        load("mutag", tmp_path)


def test_damaged_hard_sets_are_refused(tmp_path):
    np.savez(
        tmp_path / "csl.npz",
        edges=np.zeros((2, 1, 2), dtype=np.int8),
        labels=np.zeros(3, dtype=np.int8),
    )
    with pytest.raises(IncidenceError, match="edges and labels do not fit"):
        load("csl", tmp_path)
    np.savez(
        tmp_path / "csl.npz",
        edges=np.array([[[0, 1]]], dtype=np.int8),
        labels=np.zeros(1, dtype=np.int8),
    )
    write(tmp_path, "CSL_train.txt", "0\n")
    with pytest.raises(IncidenceError, match="it has 1 lines, not one for each of the 5 folds"):
        load("csl", tmp_path)
    write(tmp_path, "CSL_train.txt", "0\n0\n0\n0\n0,x\n")
    with pytest.raises(IncidenceError, match=r"CSL_train.txt is damaged"):
        load("csl", tmp_path)
    np.savez(tmp_path / "csl.npz", other=np.zeros(1))
    with pytest.raises(IncidenceError, match=r"csl.npz is damaged"):
        load("csl", tmp_path)
    write(tmp_path, "sr16622.g6", "O~\n")
    with pytest.raises(IncidenceError, match=r"sr16622.g6 is damaged \(graph6 is a line"):
        load("sr", tmp_path)
    np.save(tmp_path / "basic.npy", np.zeros(2))
    with pytest.raises(IncidenceError, match="no pairs of graph6"):
        load("brec", tmp_path)
    np.save(tmp_path / "basic.npy", np.array([{}], dtype=object))
    with pytest.raises(IncidenceError, match=r"basic.npy is damaged"):  # pickles are never loaded
        load("brec", tmp_path)
    np.savez(
        tmp_path / "dataset1_er.npz",
        node_ptr=np.array([0, 2]),
        edge_ptr=np.array([0, 5]),
        edges=np.array([[0, 1]]),
        label_triangle=np.zeros(1),
    )
    with pytest.raises(IncidenceError, match="arrays do not fit"):
        load("counting", tmp_path)


def test_the_reader_makes_the_features_of_the_tu_sets(tmp_path):
    data = load("mutag", mutag(tmp_path, "2\n3 0\n0 2 1 2\n0 2 0 2\n1 2 0 1\n1 1\n0 0\n"))
    path = write(tmp_path, "a.edges", "0 1\n1 2\n2 0\n")
    write(tmp_path, "a.nodes", "0 0\n1 0\n2 1\n")
    [(_, example, *_)] = reader("graph").read(path, None, **data.reader_options)
    assert example == data.examples[0].replace(target=None)


@pytest.mark.parametrize(("nodes", "count", "equal"), [(5, 21, 0), (6, 112, 3), (7, 853, 17)])
def test_small_graphs_have_the_known_counts_and_as_many_pairs_that_colour_refinement_leaves(
    nodes, count, equal
):
    data = load_cached("small-graphs", nodes=nodes)
    assert_ready(data)
    assert len(data.examples) == count
    hashes = [_refined(e.structure["{i j}"]) for e in data.examples]
    expected = [[k, m] for k in range(count) for m in range(k + 1, count) if hashes[k] == hashes[m]]
    assert equal_pairs(data.examples).tolist() == expected
    assert len(expected) == equal


def _refined(edges):
    graph = nx.Graph(edges.T.tolist())
    nx.set_node_attributes(graph, "1", "colour")
    return nx.weisfeiler_lehman_graph_hash(graph, node_attr="colour", iterations=len(graph))


def test_small_graphs_have_2_to_8_nodes():
    with pytest.raises(
        IncidenceError,
        match=(
            "the option nodes of the data set 'small-graphs' is one of 2, 3, 4, 5, 6, 7, 8; got '9'"
        ),
    ):
        load_cached("small-graphs", nodes=9)


@pytest.mark.parametrize(("target", "deviation"), [("cycle3", 3.0723), ("cycle6", 31.5909)])
def test_cycles_have_the_published_splits_and_deviations(target, deviation):
    data = load_cached("cycles", target=target)
    assert [len(part) for part in data.splits[0]] == [1500, 1000, 2500]
    counts = torch.cat([e.target for e in data.examples])
    assert float(counts.double().std()) == pytest.approx(deviation, abs=1e-4)
    for example in data.examples[:5]:
        a = nx.to_numpy_array(nx.Graph(example.structure["{i j}"].T.tolist()))
        if target == "cycle3":
            assert float(example.target) == np.trace(a @ a @ a) / 6


def test_cycles_of_other_lengths_are_refused():
    with pytest.raises(
        IncidenceError,
        match=r"the option target of the data set 'cycles' is one of cycle3, .*; got 'cycle7'",
    ):
        load_cached("cycles", target="cycle7")
