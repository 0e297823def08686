"""Graphs of PyG as they come: loops are left out, parallel edges joined, directions kept, and it is
said.
"""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import incidence as inc
from incidence.errors import IncidenceError
from incidence.geometry.convert import from_pyg
from incidence.geometry.convert.pyg_graphs import PygOptions
from incidence.geometry.convert.pyg_lenient import read_lenient
from tests.geometry.convert.loose_graphs import GRAPHS, graph

data = pytest.importorskip("torch_geometric.data")
T = torch.tensor


@pytest.fixture(autouse=True)
def nothing_was_said(monkeypatch):
    monkeypatch.setattr("incidence.geometry.convert.pyg_lenient._WARNED", set())


def test_the_mean_of_parallel_edges_is_their_feature():
    one = graph([[0, 1], [1, 2], [0, 1], [1, 0]], [[1.0, 4.0], [7.0, 7.0], [3.0, 4.0], [2.0, 4.0]])
    with pytest.warns(
        UserWarning, match=r"1 parallel edges are joined, with the mean of their features\."
    ):
        [found], edges = read_lenient([one])
    assert edges is None
    assert found.features["{i j}"].tolist() == [[2.0, 4.0], [7.0, 7.0]]


def test_equal_parallel_edges_keep_their_feature_and_its_type():
    # whose sum divided by three is another float
    thrice = graph([[0, 1], [0, 1], [0, 1], [1, 0]], [0.1, 0.1, 0.1, 0.1])
    categories = graph([[0, 1], [0, 1], [1, 2]], [5, 5, 7])
    missing = graph([[0, 1], [0, 1]], [torch.nan, torch.nan])
    with pytest.warns(UserWarning, match="parallel edges are joined"):
        assert read_lenient([thrice])[0][0].features["{i j}"].tolist() == [[pytest.approx(0.1)]]
    with pytest.warns(UserWarning, match="parallel edges are joined"):
        assert read_lenient([categories])[0][0].features["{i j}"].tolist() == [[5], [7]]
    with pytest.warns(UserWarning, match="parallel edges are joined"):
        assert bool(read_lenient([missing])[0][0].features["{i j}"].isnan().all())


@pytest.mark.parametrize("count", [3, 9])
def test_means_of_integers_are_floats_in_all_graphs_of_a_list(count):
    plain = graph([[0, 1], [1, 2]], [5, 7])
    # which are not read together
    items = [plain] * (count - 1) + [graph([[0, 1], [0, 1]], [5, 6], name="other")]
    with pytest.warns(UserWarning, match="parallel edges are joined"):
        found, _ = read_lenient(items)
    assert {one.features["{i j}"].dtype for one in found} == {torch.float32}
    assert found[-1].features["{i j}"].tolist() == [[5.5]]
    assert found[0].features["i"].dtype == torch.float32


@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), max_size=12),
    st.sampled_from(["{i j}", "(i j)", "i j"]),
)
@pytest.mark.filterwarnings("ignore:edges are read as")
def test_what_is_left_is_the_simple_graph(pairs, edges):
    one = data.Data(
        num_nodes=4, edge_index=T(pairs, dtype=torch.long).view(-1, 2).T, x=torch.ones(4, 1)
    )
    [found], _ = read_lenient([one], PygOptions(edges))
    kept = [(u, v) for u, v in pairs if u != v or edges == "i j"]
    expected = {frozenset(pair) for pair in kept} if edges == "{i j}" else set(kept)
    listed = [tuple(pair) for pair in found.structure[edges].T.tolist()]
    assert len(listed) == len(expected)
    assert {frozenset(pair) if edges == "{i j}" else pair for pair in listed} == expected


def test_targets_that_differ_by_direction_make_edges_directed_and_of_parallel_ones_are_refused():
    by_direction = graph([[0, 1], [1, 0], [1, 2], [2, 1]], y=T([1, 2, 3, 3]))
    with pytest.warns(
        UserWarning, match=r"`\(i j\)`: features or targets of an edge and of its reverse differ"
    ):
        [found], _ = read_lenient([by_direction])
    assert found.target["(i j)"].tolist() == [1, 2, 3, 3]
    twice = graph([[0, 1], [0, 1], [1, 1], [1, 2]], y=T([1, 1, 5, 3]))
    with pytest.warns(UserWarning, match="1 loops are left out .* and 1 parallel edges are joined"):
        [found], _ = read_lenient([twice])
    assert found.target["{i j}"].tolist() == [1, 3]
    twice.y[0] = 2
    with pytest.raises(
        IncidenceError,
        match=(
            r"y differs among the parallel edges \(0, 1\), and an entry has one target: keep one of"
            r" them"
        ),
    ):
        read_lenient([twice])


def test_a_batch_is_read_alike_though_it_must_be_taken_apart():
    # a row for each graph would be read as a whole
    loop = graph([[0, 1], [1, 1], [1, 2]], y=torch.ones(2))
    other = graph([[0, 2], [2, 2]], y=torch.zeros(2))
    with pytest.warns(UserWarning, match="2 loops are left out"):
        [batch], _ = read_lenient([data.Batch.from_data_list([loop, other])])
    assert [one.structure["{i j}"].T.tolist() for one in batch] == [[[0, 1], [1, 2]], [[0, 2]]]
    assert batch.target.tolist() == [[1.0, 1.0], [0.0, 0.0]]


def test_relations_are_read_alike():
    hetero = data.HeteroData()
    hetero["user"].x, hetero["movie"].x = torch.ones(3, 1), torch.ones(2, 1)
    hetero["user", "knows", "user"].edge_index = T([[0, 1, 2], [1, 1, 2]])
    # no loops: users are no movies
    hetero["user", "rates", "movie"].edge_index = T([[1, 1, 0], [1, 1, 0]])
    hetero["user", "rates", "movie"].edge_attr = T([2.0, 4.0, 5.0])
    told = (
        r"`knows=\(u:user u2:user\)`, `rates=u:user m:movie`: 2 loops are left out and 1 parallel"
        r" edges are joined"
    )
    with pytest.warns(UserWarning, match=told):
        [found], _ = read_lenient([hetero])
    assert found.structure["knows"].T.tolist() == [[0, 1]]
    assert found.structure["rates"].T.tolist() == [[1, 1], [0, 0]]
    assert found.features["rates=u:user m:movie"].tolist() == [[3.0], [5.0]]


@pytest.mark.filterwarnings("error")
def test_collate_says_the_same_once_whatever_the_numbers():
    one, two = graph([[0, 1], [1, 1]]), graph([[0, 0], [1, 1], [0, 2]])
    with pytest.warns(
        UserWarning, match=r"2 loops are left out \(from_pyg\(data, edges='i j'\) keeps them\)\.$"
    ):
        inc.collate([one, one])
    assert inc.collate([one, two]).structure.num_entries("{i j}") == 2
    directed = [graph([[0, 1], [1, 0]], [1.0, 2.0])]
    with pytest.warns(
        UserWarning, match=r"differ\. inc\.data\.DataLoader reads all batches alike\.$"
    ):
        inc.collate(directed)
    assert inc.collate(directed).structure.num_entries("(i j)") == 2


@pytest.mark.filterwarnings("error")
def test_graphs_as_they_should_be_are_read_without_a_word():
    items = [graph([[0, 1], [1, 0], [1, 2]], [1.0, 1.0, 2.0])] * 9
    assert read_lenient(items) == (from_pyg(items), None)


def test_the_exact_converter_refuses_and_names_the_doors_that_do_not():
    for kind, message in (
        ("loops", "Remove the self-loop"),
        ("parallel edges", "comes more than once"),
    ):
        with pytest.raises(
            IncidenceError,
            match=(
                rf"{message}.* `inc\.data\.load`, the loaders .* `inc\.collate` leave out loops and"
                r" join"
            ),
        ):
            from_pyg(GRAPHS[kind][0])
    with pytest.raises(IncidenceError, match=r"read the edges as `\(i j\)`\.$"):
        from_pyg(GRAPHS["directions"][0])


def test_what_is_wrong_otherwise_is_refused_as_it_is():
    for bad, message in (
        (graph([[0, 7]]), "is 7: nodes are numbered 0 to 2"),
        (graph([[0, 0], [-1, 2]]), "is -1: nodes are numbered"),
    ):
        with pytest.raises(IncidenceError, match=message):
            read_lenient([bad])


# ---- graphs of one list have the same tensors and features


def test_patterns_that_graphs_tell_otherwise_are_not_mixed():
    with pytest.raises(IncidenceError, match=r"number 0 has `\(i j\)` and number 1 has not"):
        inc.collate([graph([[0, 1]], edge_pattern="(i j)"), graph([[0, 1]])])


def test_a_relation_that_a_graph_has_none_of_is_empty_there():
    one, other = data.HeteroData(), data.HeteroData()
    for hetero in (one, other):
        hetero["user"].x, hetero["movie"].x = torch.ones(2, 1), torch.ones(1, 1)
    one["user", "rates", "movie"].edge_index, one["user", "rates", "movie"].edge_attr = (
        T([[1], [0]]),
        T([4.0]),
    )
    batch = inc.collate([other, one])
    assert [e.structure.num_entries("rates") for e in batch] == [0, 1]
    del other["movie"]
    with pytest.raises(IncidenceError, match="sort"):
        inc.collate([one, other])
