"""Data sets of PyG, made in memory."""

import pytest
import torch

from incidence.data import load
from incidence.data.pyg import examples_of_pyg
from incidence.errors import IncidenceError

pyg = pytest.importorskip("torch_geometric.data")


@pytest.fixture(autouse=True)
def nothing_was_said(monkeypatch):
    monkeypatch.setattr("incidence.geometry.convert.pyg._WARNED", set())


def path(n, y, **more):
    pairs = torch.stack([torch.arange(n - 1), torch.arange(1, n)])
    return pyg.Data(edge_index=torch.cat([pairs, pairs.flip(0)], dim=1), num_nodes=n, y=y, **more)


class Paths(pyg.InMemoryDataset):
    def __init__(self, items):
        super().__init__(None)
        self.data, self.slices = self.collate(items)


def test_a_data_set_in_memory_is_ready_for_training():
    items = [
        path(n, torch.tensor([n % 3]), x=torch.full((n, 4), n, dtype=torch.long))
        for n in range(2, 22)
    ]
    data = load(Paths(items), name="paths")
    assert (data.name, data.task.kind, data.task.names, data.metric) == (
        "paths",
        "classification",
        ("class 0", "class 1", "class 2"),
        "accuracy",
    )
    assert [len(part) for part in data.splits[0]] == [16, 2, 2]
    assert data.examples[3].features["i"].tolist() == [[5.0] * 4] * 5
    assert data.examples[3].features["{i j}"].tolist() == [[1.0]] * 4
    assert int(data.examples[3].target) == 2
    assert len(data.parts().train) == 16


def test_what_graphs_tell_in_words_stands_beside_predictions():
    graphs = [
        path(3, torch.tensor([float(k)]), smiles="C" * (k + 1), name=f"m{k}") for k in range(4)
    ]
    data = load(graphs)  # and no warning of what is not used
    assert data.columns == {"smiles": ["C", "CC", "CCC", "CCCC"], "name": ["m0", "m1", "m2", "m3"]}
    assert data.label_columns == ["example", "smiles", "name"]
    del graphs[2].name
    with pytest.warns(UserWarning, match="these attributes of the data are not used: name"):
        assert list(load(graphs).columns) == ["smiles"]


def test_nodes_without_features_get_their_degrees():
    data = load([path(3, torch.tensor([0.5]))])
    assert torch.allclose(data.examples[0].features["i"][:, 0].exp(), torch.tensor([2.0, 3.0, 2.0]))
    assert data.task.kind == "regression"
    assert data.examples[0].target.tolist() == [0.5]


def test_a_column_of_several_targets_may_be_chosen():
    items = [path(n, torch.tensor([[n, 2.0 * n]])) for n in range(2, 8)]
    assert load(items).task.names == ("target 0", "target 1")
    data = load(items, target=1)
    assert data.task.names == ("target",)
    assert data.examples[0].target.tolist() == [4.0]
    with pytest.raises(IncidenceError, match=r"shape \[2\], so there is no column 2"):
        load(items, target=2)


def test_whole_numbers_may_be_targets_of_regression():
    items = [path(n, torch.tensor([n])) for n in range(2, 8)]
    assert load(items, task="regression").examples[2].target.tolist() == [4.0]


def test_masks_are_splits_of_the_nodes():
    masks = torch.eye(3, dtype=torch.bool).repeat_interleave(2, 0)
    data = load(
        [
            path(
                6,
                torch.tensor([0, 1, 0, 1, 0, -1]),
                train_mask=masks[:, 0],
                val_mask=masks[:, 1],
                test_mask=masks[:, 2],
            )
        ]
    )
    assert data.is_transductive
    assert data.task.at == "i"
    assert [part.tolist() for part in data.splits[0]] == [[0, 1], [2, 3], [4, 5]]
    assert data.parts().validation[0].target["i"].tolist() == [-1, -1, 0, 1, -1, -1]
    table = torch.stack([masks[:, 0], masks[:, 1]], dim=1)
    two = load([path(6, torch.arange(6) % 2, train_mask=table, test_mask=masks[:, 2])])
    assert [split.train.tolist() for split in two.splits] == [[0, 1], [2, 3]]
    assert [len(split.validation) for split in two.splits] == [0, 0]


def papers(**masks):
    graph = pyg.HeteroData()
    graph["paper"].x, graph["paper"].y, graph["author"].x = (
        torch.ones(6, 2),
        torch.arange(6) % 3,
        torch.ones(2, 1),
    )
    graph["author", "writes", "paper"].edge_index = torch.tensor([[0, 0, 1], [0, 3, 5]])
    for key, mask in masks.items():
        graph["paper"][key] = mask
    return graph


def test_masks_of_a_node_type_are_splits_too():
    masks = torch.eye(3, dtype=torch.bool)[[0, 2, 0, 1, 0, 2]]
    graph = papers(train_mask=masks[:, 0], val_mask=masks[:, 1], test_mask=masks[:, 2])
    data = load(graph)
    assert data.task.at == "p:paper"
    assert [part.tolist() for part in data.splits[0]] == [[0, 2, 4], [3], [1, 5]]
    several = load(papers(train_mask=masks[:, [0, 2]], test_mask=masks[:, 1]))
    assert [split.train.tolist() for split in several.splits] == [[0, 2, 4], [1, 5]]
    assert [split.test.tolist() for split in several.splits] == [[3]] * 2
    both = papers(train_mask=masks[:, 0], test_mask=masks[:, 1])
    both["author"].y = torch.arange(2)
    with pytest.raises(
        IncidenceError,
        match="targets must belong to one pattern; these belong to 'a:author', 'p:paper'",
    ):
        load(both)
    graph["author"].train_mask = torch.ones(2)
    with pytest.warns(UserWarning, match=r"not used: train_mask of author \("):
        assert len(load(graph).splits[0].train) == 3


def test_masks_that_are_no_splits_are_named():
    mask = torch.arange(6) < 3
    with pytest.warns(UserWarning, match="not used: train_mask of paper, val_mask of paper"):
        load(papers(train_mask=mask, val_mask=~mask))
    two = [path(6, torch.arange(6) % 2, train_mask=mask, test_mask=~mask) for _ in range(2)]
    with pytest.warns(UserWarning, match=r"not used: train_mask, test_mask \("):
        load(two)
    with pytest.raises(IncidenceError, match="pyg: test_mask of paper has 5 rows, and y has 6"):
        load(papers(train_mask=mask, test_mask=~mask[:5]))


def labelled_edges(**more):
    pairs = torch.tensor([[3, 0, 1, 1, 2, 0, 2, 3], [2, 1, 0, 2, 1, 3, 3, 0]])
    return pyg.Data(
        x=torch.ones(5, 2), edge_index=pairs, y=pairs.amin(0) + pairs.amax(0) - 1, **more
    )


def test_a_target_of_edges_is_one_of_their_entries_and_so_are_its_masks():
    data = load(labelled_edges())
    assert (data.task.at, data.task.kind, data.is_transductive) == ("{i j}", "classification", True)
    example = data.examples[0]
    assert example.structure["{i j}"].T.tolist() == [[0, 1], [0, 3], [1, 2], [3, 2]]
    assert example.target["{i j}"].tolist() == [0, 2, 2, 4]
    # of every column: of {2 3}, {0 1}, {1 2} and {0 3}
    part = torch.tensor([0, 1, 1, 2, 2, 2, 0, 2])
    masked = load(labelled_edges(train_mask=part == 2, val_mask=part == 0, test_mask=part == 1))
    assert [rows.tolist() for rows in masked.splits[0]] == [[1, 2], [3], [0]]
    part[1] = 0
    with pytest.raises(
        IncidenceError,
        match=r"masks put an edge and its reverse, or a parallel one, into different parts",
    ):
        load(labelled_edges(train_mask=part == 2, test_mask=part != 2, val_mask=part == 1))
    directed = load(
        labelled_edges(train_mask=part == 2, val_mask=part == 0, test_mask=part == 1), edges="(i j)"
    )
    columns = directed.examples[0].structure.locate("(i j)", labelled_edges().edge_index)
    assert [rows.tolist() for rows in directed.splits[0]] == [
        sorted(columns[part == k].tolist()) for k in (2, 0, 1)
    ]


def test_masks_of_a_relation_are_splits_of_its_entries():
    graph = papers()
    del graph["paper"].y
    store, train = graph["author", "writes", "paper"], torch.tensor([False, True, True])
    store.edge_index = store.edge_index.flip(1)
    store.y, store.train_mask, store.test_mask = torch.tensor([1, 0, 1]), train, ~train
    data = load(graph)
    assert data.task.at == "writes=a:author p:paper"
    assert data.examples[0].structure["writes"].T.tolist() == [[0, 0], [0, 3], [1, 5]]
    assert [rows.tolist() for rows in data.splits[0]] == [[0, 1], [], [2]]


def test_loops_that_are_left_out_are_in_no_part():
    pairs = torch.tensor([[0, 1, 1, 2], [1, 1, 2, 3]])
    train = torch.tensor([True, True, False, False])
    graph = pyg.Data(
        x=torch.ones(5, 2),
        edge_index=pairs,
        y=torch.tensor([0, 9, 1, 1]),
        train_mask=train,
        test_mask=~train,
    )
    with pytest.warns(UserWarning, match="1 loops are left out"):
        data = load(graph)
    assert [rows.tolist() for rows in data.splits[0]] == [[0], [], [1, 2]]


def test_a_single_column_may_be_chosen_by_its_number():
    assert load([path(n, torch.tensor([n % 2])) for n in range(2, 8)], target=0).task.names == (
        "class 0",
        "class 1",
    )
    assert load(path(6, torch.arange(6) % 2), target=0).examples[0].target["i"].tolist() == [
        0,
        1,
        0,
        1,
        0,
        1,
    ]


def test_graphs_to_predict_for_need_no_target_that_fits():
    graph = labelled_edges()
    graph.y = torch.rand(8)
    [found] = examples_of_pyg(graph)
    assert (found.target, str(found.structure.patterns[0])) == (None, "{i j}")
    [batch] = [
        examples_of_pyg(
            pyg.Batch(x=torch.ones(3, 1), batch=torch.tensor([0, 0, 1]), y=torch.zeros(5))
        )
    ]
    assert [one.structure.num_nodes for one in batch] == [2, 1]


def test_given_splits_are_kept():
    items = [path(3, torch.tensor([k % 2])) for k in range(4)]
    data = load(items, splits=[(torch.tensor([0, 1]), torch.tensor([2]), torch.tensor([3]))])
    assert data.splits[0].train.tolist() == [0, 1]


def test_loops_are_left_out_and_parallel_edges_joined_where_edges_have_none():
    pairs = torch.tensor([[0, 1, 1, 2, 2, 0, 0], [1, 0, 2, 1, 2, 1, 0]])
    graph = pyg.Data(
        x=torch.ones(3, 2),
        edge_index=pairs,
        edge_attr=torch.tensor([1, 2, 5, 5, 9, 3, 9]),
        y=torch.tensor([0]),
    )
    with pytest.warns(
        UserWarning,
        match=(
            r"read as `\{i j\}`: 4 loops are left out \(edges='i j' keeps them\) and 2 parallel"
            r" edges are joined, with"
        ),
    ):
        data = load([graph, graph])
    assert data.examples[0].structure["{i j}"].T.tolist() == [[0, 1], [1, 2]]
    assert data.examples[0].features["{i j}"].flatten().tolist() == [2, 5]
    assert graph.edge_index is pairs  # what was given stays as it was
    with pytest.warns(
        UserWarning,
        match="read as `i j`: 2 parallel edges are joined, with the mean of their features.$",
    ):
        kept = load([graph, graph], edges="i j")
    assert kept.examples[0].structure.num_entries("i j") == 6


def test_loops_and_parallel_edges_need_no_features():
    loop = pyg.Data(
        x=torch.ones(3, 2),
        edge_index=torch.tensor([[0, 1, 1], [1, 1, 2]]),
        y=torch.tensor([0, 1, 0]),
    )
    with pytest.warns(UserWarning, match="1 loops are left out"):
        assert load(loop).examples[0].structure["{i j}"].T.tolist() == [[0, 1], [1, 2]]
    twice = pyg.Data(
        x=torch.ones(3, 2),
        edge_index=torch.tensor([[0, 0, 1], [1, 1, 2]]),
        y=torch.tensor([0, 1, 0]),
    )
    with pytest.warns(UserWarning, match="1 parallel edges are joined"):
        assert load(twice).examples[0].features["{i j}"].tolist() == [[1.0], [1.0]]


def test_edges_whose_two_directions_differ_are_directed():
    pairs = torch.tensor([[0, 1, 1, 1], [1, 0, 0, 1]])
    graph = pyg.Data(
        x=torch.ones(2, 1),
        edge_index=pairs,
        edge_attr=torch.tensor([1.0, 2.0, 4.0, 5.0]),
        y=torch.tensor([0]),
    )
    with pytest.warns(
        UserWarning,
        match=(
            r"read as `\(i j\)`: 1 loops are left out.*features of an edge and of its reverse"
            r" differ"
        ),
    ):
        data = load(graph)
    assert data.examples[0].features["(i j)"].flatten().tolist() == [1, 3]
    # so that other graphs are read in the same way
    assert data.reader_options == {"edges": "(i j)"}
    with pytest.raises(IncidenceError, match="differs from that of"):
        load(graph, edges="{i j}")


def test_what_cannot_be_learned_from_is_refused(tmp_path):
    with pytest.raises(IncidenceError, match="'pyg' is empty"):
        load(Paths([path(3, torch.tensor([0]))])[:0])
    with pytest.raises(
        IncidenceError, match=r"example 1 has no target, .* Give it target=, or y in PyG"
    ):
        load([path(3, torch.tensor([1])), path(3, None)])
    with pytest.raises(IncidenceError, match="pyg: all targets are missing"):
        load([path(1, torch.zeros(0, dtype=torch.long))])
    with pytest.raises(IncidenceError, match="pyg 1 has 2 features"):
        load([path(3, torch.tensor([k]), x=torch.zeros(3, 1 + k)) for k in range(2)])
    with pytest.raises(IncidenceError, match="no finite numbers"):
        load([path(3, torch.tensor([0]), x=torch.full((3, 1), torch.nan))])
    with pytest.raises(IncidenceError, match="PyG has no data set 'Nothing'"):
        load("pyg:Nothing/X", folder=tmp_path)
    with pytest.raises(IncidenceError, match="PyG has no data set 'os'"):
        load("pyg:os", folder=tmp_path)
    with pytest.raises(IncidenceError, match="give the folder for them"):
        load("pyg:TUDataset/MUTAG")


def test_a_data_set_is_made_by_the_class_of_its_name(monkeypatch, tmp_path):
    datasets = pytest.importorskip("torch_geometric.datasets")
    asked = []

    class Named(Paths):
        def __init__(self, root, name):
            asked.append((root, name))
            super().__init__([path(n, torch.tensor([n % 2])) for n in range(2, 8)])

    class Greedy(Paths):
        def __init__(self, root, more):
            raise AssertionError

    monkeypatch.setattr(datasets, "Named", Named, raising=False)
    monkeypatch.setattr(datasets, "Greedy", Greedy, raising=False)
    data = load("pyg:Named/short", folder=tmp_path, seed=1)
    assert asked == [(str(tmp_path), "short")]
    assert (data.name, len(data.examples)) == ("pyg:Named/short", 6)
    with pytest.raises(
        IncidenceError, match=r"Greedy takes more than folder and name .*give it to `inc.data.load`"
    ):
        load("pyg:Greedy", folder=tmp_path)


def test_data_that_pyg_cannot_fetch_is_told_with_its_place(monkeypatch, tmp_path):
    class Far(Paths):
        def __init__(self, root, name):
            (tmp_path / "MUTAG" / "raw").mkdir(parents=True)
            raise ConnectionError("no network")

    monkeypatch.setattr(pytest.importorskip("torch_geometric.datasets"), "Far", Far, raising=False)
    with pytest.raises(
        IncidenceError,
        match=r"PyG could not download 'pyg:Far/MUTAG', .*no network.* into .*MUTAG/raw yourself",
    ):
        load("pyg:Far/MUTAG", folder=tmp_path)


def test_graphs_of_a_batch_are_examples_of_their_own():
    graphs = [path(k + 2, torch.tensor([k % 2])) for k in range(4)]
    batch = pyg.Batch.from_data_list(graphs)
    plain = pyg.Data(
        edge_index=batch.edge_index, num_nodes=batch.num_nodes, y=batch.y, batch=batch.batch
    )
    for given in (batch, plain, [batch], [plain]):
        assert load(given).examples == load(graphs).examples


@pytest.mark.parametrize("part", ["val_mask", "test_mask"])
def test_masks_that_share_nodes_with_training_are_refused(part):
    masks = {
        "train_mask": torch.arange(9) < 5,
        "val_mask": torch.zeros(9, dtype=torch.bool),
        "test_mask": torch.arange(9) > 6,
    }
    masks[part] = torch.arange(9) >= 3
    with pytest.raises(
        IncidenceError,
        match=r"pyg: 2 rows are for training and for (validation|testing)\. A metric of rows",
    ):
        load(path(9, torch.arange(9) % 2, **masks))


def test_several_columns_of_targets_can_be_chosen():
    items = [path(3, torch.tensor([[k, 2.5 * k, -k]])) for k in range(5)]
    assert [one.target.tolist() for one in load(items, target=[2, 0]).examples][3] == [-3.0, 3.0]
    for wrong in ([0, 3], [], [-1]):
        with pytest.raises(IncidenceError, match="so there is no column"):
            load(items, target=wrong)
    with pytest.raises(
        IncidenceError,
        match=("the option `target` of data of PyG is a whole number or a list; got 'logp'"),
    ):
        load(items, target="logp")


def test_what_no_graph_had_in_training_is_left_out_of_others():
    trained = load([path(4, torch.tensor([float(k)])) for k in range(6)])
    assert trained.reader_options == {"lacking": ["x", "edge_attr"]}
    # which differs by direction
    other = path(4, None, x=torch.full((4, 3), 9.0), edge_attr=torch.rand(6, 2))
    with pytest.warns(
        UserWarning,
        match="the model was trained on graphs without x and edge_attr, which are left out here",
    ):
        [found] = examples_of_pyg(other, **trained.reader_options)
    assert found == examples_of_pyg(path(4, None))[0]
    assert "x" in other  # as it was
