"""PyG: everything goes there and comes back, batches too; what people have there is read as they
mean it.
"""

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import incidence as inc
from incidence.errors import IncidenceError
from incidence.geometry import lifting
from incidence.geometry.convert import from_pyg, to_pyg
from incidence.geometry.convert.pyg_hetero import letters_of
from incidence.structure import Example, Structure
from tests.geometry.convert.random_examples import seeds, with_features
from tests.structure.random_structures import random_structure

data = pytest.importorskip("torch_geometric.data")
T = torch.tensor
TARGETS = ["none", "whole", "number", "i", "entries"]
PATTERNS = [
    "{i j}",
    "(i j)",
    "[i j]",
    "i j",
    "{i ...}",
    "{i j k}",
    "bond={i j}",
    "i {i ...}",
    "(i j) (j k)",
    "ring={i ...}",
    "{i j k l}",
]
few = settings(max_examples=30, deadline=None)
pytestmark = pytest.mark.filterwarnings("ignore:these attributes of the data are not used")


@few
@given(
    st.integers(0, 5),
    st.lists(st.sampled_from(PATTERNS), unique=True),
    seeds,
    st.sampled_from(TARGETS),
)
def test_every_example_comes_back(num_nodes, texts, seed, kind):
    structure = random_structure(num_nodes, [*texts, "i"], seed)
    keys = ["i", "pos=i", "", "state=", *(p.name or str(p) for p in structure.patterns)]
    example = with_features(structure, keys[: seed % (len(keys) + 1)], seed)
    entries = {
        p.name or str(p): torch.rand(structure.num_entries(p), 2) for p in structure.patterns
    }
    targets = {
        "none": None,
        "whole": torch.rand(3),
        "number": T(2.5),
        "i": {"i": torch.arange(num_nodes)},
        "entries": entries or None,
    }
    example = example.replace(target=targets[kind])
    assert from_pyg(to_pyg(example)) == example


@settings(max_examples=15, deadline=None)
@given(st.lists(st.integers(0, 4), min_size=1, max_size=4), st.sampled_from(PATTERNS), seeds)
def test_batches_come_back_as_batches(sizes, text, seed):
    structures = [random_structure(n, [text, "i"], seed + k) for k, n in enumerate(sizes)]
    keys = ["i", *(p.name or str(p) for p in structures[0].patterns)]
    batch = inc.collate(
        [
            Example(s, {key: torch.rand(s.num_entries(key), 2) for key in keys}, torch.rand(2))
            for s in structures
        ]
    )
    there = to_pyg(batch)
    assert isinstance(there, data.Batch)
    assert from_pyg(there) == batch


@few
@given(seeds)
def test_sorts_come_back_from_hetero_data(seed):
    counts = {"user": seed % 4, "movie": 3}
    texts = [
        "u:user m:movie",
        "(u:user v:user)",
        "seen=u:user m:movie",
        "friend={u:user v:user}",
        "like=[m:movie n:movie]",
    ]
    structure = random_structure(counts, texts, seed)
    keys = [
        "i:user",
        "user_pos=i:user",
        "i:movie",
        "u:user m:movie",
        "(u:user v:user)",
        "seen",
        "friend",
        "like",
    ]
    target = {"i:user": torch.arange(counts["user"])} if seed % 2 else torch.rand(2)
    example = with_features(structure, keys, seed, target=target)
    there = to_pyg(example)
    assert isinstance(there, data.HeteroData)
    assert from_pyg(there) == example


def test_hetero_data_is_read_by_its_relations():
    graph = data.HeteroData()
    graph["user"].x = torch.zeros(3, 2)
    graph["movie"].num_nodes = 2
    graph["user", "rates", "movie"].edge_index = T([[0, 2], [1, 0]])
    graph["user", "rates", "movie"].edge_attr = T([5.0, 3.0])
    graph["user", "knows", "user"].edge_index = T([[0, 1], [1, 0]])
    graph["user", "likes", "movie"].edge_index = T([[0], [1]])
    graph["user", "likes", "user"].edge_index = T([[2], [1]])
    graph["user"].y = T([0, 1, 0])
    example = from_pyg(graph)
    assert {str(p) for p in example.structure.patterns} == {
        "rates=u:user m:movie",
        "knows=(u:user u2:user)",
        "user_likes_movie=u:user m:movie",
        "user_likes_user=(u:user u2:user)",
    }
    assert example.features["rates=u:user m:movie"].tolist() == [[5.0], [3.0]]
    assert example.target["u:user"].tolist() == [0, 1, 0]


def test_the_keys_of_hetero_data_form_a_map_that_a_network_reads():
    graph = data.HeteroData()
    graph["movie"].x, graph["user"].x, graph["m"].x = (
        torch.rand(2, 3),
        torch.rand(3, 4),
        torch.rand(1, 2),
    )
    graph["movie"].pos = torch.rand(2, 3)
    graph["user", "rates", "movie"].edge_index, graph["user", "rates", "movie"].edge_attr = (
        T([[0, 2], [1, 0]]),
        T([5.0, 3.0]),
    )
    graph["user", "knows", "user"].edge_index, graph["user", "knows", "user"].edge_attr = (
        T([[0], [1]]),
        T([1.0]),
    )
    graph["m", "to", "user"].edge_index, graph["m", "to", "user"].edge_attr = (
        T([[0], [1]]),
        T([1.0]),
    )
    graph["m", "to", "user"].edge_pattern = "u:m m:user"  # letters that are others elsewhere
    example = from_pyg(graph)
    keys = [
        "m:movie",
        "movie_pos=m:movie",
        "u:user",
        "a:m",
        "rates=u:user m:movie",
        "knows=(u:user u2:user)",
        "a:m u:user",
    ]
    assert list(example.features) == keys
    layer = inc.nn.Linear(
        f"{', '.join(keys)} -> u:user", {key: x.shape[1] for key, x in example.features.items()}, 5
    )
    assert layer(example.features, example.structure).shape == (3, 5)


def test_every_sort_has_a_letter_of_its_own_however_many_there_are():
    letters = letters_of([f"sort{k}" for k in range(60)])
    assert len(set(letters.values())) == 60
    assert list(letters.values())[:5] == ["s", "o", "r", "t", "a"]
    inc.EquivariantMap(f"{', '.join(f'{x}:{sort}' for sort, x in letters.items())} -> ")


def attributes() -> list:
    return [
        data.Data(x=torch.zeros(2, 1), z=torch.zeros(2), name="one"),
        data.Data(x=torch.zeros(2, 1), idx=3),
    ]


def test_attributes_that_are_not_used_are_named_in_one_warning(monkeypatch):
    monkeypatch.setattr("incidence.geometry.convert.pyg._WARNED", set())
    with pytest.warns(
        UserWarning,
        match=r"^these attributes of the data are not used: z, name, idx \(say with features= what",
    ) as seen:
        from_pyg(attributes())
    assert len(seen) == 1
    assert seen[0].filename == __file__
    graph = data.HeteroData()
    graph["user"].x, graph["user"].train_mask = torch.zeros(2, 1), torch.ones(2)
    with pytest.warns(UserWarning, match="not used: train_mask of user"):
        from_pyg(graph)


@pytest.mark.filterwarnings("error")
def test_a_warning_comes_once_and_only_about_what_is_not_used(monkeypatch):
    monkeypatch.setattr("incidence.geometry.convert.pyg._WARNED", set())
    graph = data.Data(x=torch.zeros(2, 1), z=torch.zeros(2))
    assert set(from_pyg(graph, features={"z": "charge=i"}).features) == {"i", "charge=i"}
    assert not from_pyg(to_pyg(from_pyg(graph, features={"z": "charge=i"}))).target
    with pytest.warns(UserWarning, match="not used: z "):
        from_pyg(graph)
    assert set(from_pyg(graph).features) == {"i"}


@few
@given(
    st.lists(st.integers(0, 4), min_size=8, max_size=10),
    st.sampled_from(["none", "one", "row", "vector", "number"]),
    seeds,
)
def test_many_graphs_are_read_together_as_one_by_one(sizes, kind, seed):
    graphs = targets(kind, [random_graph(n, seed + k) for k, n in enumerate(sizes)])
    for options in (
        {"target": ""},
        {"target": "", "edges": "(i j)"},
        {"target": "", "features": {"u": "", "z": "charge=i"}},
    ):
        assert from_pyg(graphs, **options) == [from_pyg(graph, **options) for graph in graphs]


def test_many_graphs_with_labelled_nodes_are_read_together_as_one_by_one():
    graphs = targets("nodes", [random_graph(n, n) for n in range(9)])
    assert from_pyg(graphs) == [from_pyg(graph, target="i") for graph in graphs]


def test_among_many_graphs_those_that_differ_keep_what_they_have():
    graphs = [random_graph(3, k) for k in range(9)]
    graphs[4].x, graphs[5].pos = graphs[4].x.double(), torch.rand(3, 3)
    assert from_pyg(graphs) == [from_pyg(graph) for graph in graphs]
    graphs[7].edge_index = T([[0, 0], [1, 1]])
    graphs[7].edge_attr = torch.zeros(2, 1)
    with pytest.raises(IncidenceError, match=r"the edge \(0, 1\) comes more than once"):
        from_pyg(graphs)


# ---- loaders


@few
@given(
    st.lists(st.integers(0, 4), min_size=1, max_size=5),
    st.sampled_from(["none", "one", "row", "vector", "number"]),
    seeds,
)
def test_graphs_of_pyg_collate_as_examples_do(sizes, kind, seed):
    graphs = targets(kind, [random_graph(n, seed + k) for k, n in enumerate(sizes)])
    assert inc.collate(graphs) == inc.collate(from_pyg(graphs))


def test_batches_and_node_types_of_pyg_collate_too():
    batch = data.Batch.from_data_list([random_graph(n, n) for n in (3, 1)])
    assert inc.collate([batch, random_graph(2, 5)]) == inc.collate(
        [from_pyg(batch), from_pyg(random_graph(2, 5))]
    )
    graph = data.HeteroData()
    graph["user"].x, graph["movie"].x = torch.rand(2, 3), torch.rand(1, 2)
    graph["user", "rates", "movie"].edge_index = T([[1], [0]])
    exact = inc.collate([from_pyg(graph)] * 2)
    assert inc.collate([graph, graph]) == exact.replace(
        features={**exact.features, "rates": torch.ones(2, 1)}
    )
    assert inc.collate(batch) == inc.collate([batch])
    with pytest.raises(
        IncidenceError,
        match="number 1 of the list is a Example among graphs of PyG: use from_pyg first",
    ):
        inc.collate([graph, from_pyg(graph)])


def test_the_loader_of_pyg_gives_examples_with_our_collate():
    loaders = pytest.importorskip("torch_geometric.loader")
    graphs = targets("one", [random_graph(n, n) for n in (3, 1, 4)])
    loader = loaders.DataLoader(graphs, batch_size=2)
    loader.collate_fn = inc.collate
    assert list(loader) == [inc.collate(from_pyg(graphs[:2])), inc.collate(from_pyg(graphs[2:]))]


def test_batches_of_hetero_data_are_batches():
    s = Structure({"user": 2, "movie": 1}, {"u:user m:movie": [[0], [0]]})
    examples = [Example(s, {"u:user": torch.rand(2, 2)}) for _ in range(3)]
    there = data.Batch.from_data_list([to_pyg(e) for e in examples])
    assert from_pyg(there) == inc.collate(examples) == from_pyg(to_pyg(inc.collate(examples)))


def random_graph(count: int, seed: int) -> object:
    random = torch.Generator().manual_seed(seed)
    keep = torch.rand(count, count, generator=random).triu(1) > 0.5
    low, high = keep.nonzero().T
    flip = torch.randperm(2 * len(low), generator=random)
    both, weight = (
        torch.stack([torch.cat([low, high]), torch.cat([high, low])]),
        torch.rand(len(low), 1, generator=random).repeat(2, 1),
    )
    graph = data.Data(
        x=torch.rand(count, 2, generator=random), edge_index=both[:, flip], edge_attr=weight[flip]
    )
    graph.u, graph.z = torch.rand(1, 3, generator=random), torch.arange(count)
    return graph


def targets(kind: str, graphs: list) -> list:
    rows = {
        "nodes": lambda g: torch.rand(g.num_nodes),
        "one": lambda g: T(float(g.num_nodes)),
        "row": lambda g: torch.rand(1, 3),
    }
    rows |= {"vector": lambda g: torch.rand(2), "number": lambda g: float(g.num_nodes)}
    for graph in graphs if kind != "none" else []:
        graph.y = rows[kind](graph)
    return graphs


@few
@given(
    st.lists(st.integers(0, 4), min_size=1, max_size=5),
    st.sampled_from(["none", "nodes", "one", "row", "vector", "number"]),
    seeds,
)
def test_a_batch_read_as_a_whole_equals_its_graphs(sizes, kind, seed):
    # one node does not tell whether a target is its own
    assume(kind != "nodes" or max(sizes) > 1)
    graphs = targets(kind, [random_graph(n, seed + k) for k, n in enumerate(sizes)])
    for options in ({}, {"edges": "(i j)"}, {"features": {"u": "", "z": "charge=i"}}):
        assert from_pyg(data.Batch.from_data_list(graphs), **options) == inc.collate(
            from_pyg(graphs, **options)
        )


def test_a_target_of_two_numbers_is_none_of_the_nodes_though_there_are_as_many():
    graphs = targets("vector", [random_graph(1, 0), random_graph(3, 1)])
    assert from_pyg(data.Batch.from_data_list(graphs)).target.shape == (2, 2)


def test_the_structure_of_a_batch_is_that_of_its_edges_and_nodes():
    batch = data.Batch.from_data_list([random_graph(n, n) for n in (3, 1, 4)])
    expected = Structure(batch.num_nodes, {"(i j)": batch.edge_index}, batch=batch.batch)
    assert from_pyg(batch, edges="(i j)").structure == expected


def test_a_batch_made_by_hand_is_read():
    made = data.Batch.from_data_list(targets("one", [random_graph(n, n) for n in (3, 1, 4)]))
    by_hand = data.Batch(
        x=made.x, edge_index=made.edge_index, edge_attr=made.edge_attr, y=made.y, batch=made.batch
    )
    assert from_pyg(by_hand) == from_pyg(made)
    of_nodes = data.Batch(x=made.x, batch=made.batch, y=torch.arange(8))
    assert from_pyg(of_nodes).target["i"].tolist() == list(range(8))
    assert (
        len(from_pyg(data.Batch(x=torch.zeros(0, 2), batch=torch.zeros(0, dtype=torch.long)))) == 1
    )


def test_data_that_tell_the_graph_of_every_node_are_a_batch():
    made = data.Batch.from_data_list(targets("one", [random_graph(n, n) for n in (3, 1, 4)]))
    plain = data.Data(
        x=made.x, edge_index=made.edge_index, edge_attr=made.edge_attr, y=made.y, batch=made.batch
    )
    assert from_pyg(plain) == from_pyg(made)
    assert len(from_pyg(plain)) == 3
    assert from_pyg([plain, made]) == [from_pyg(made)] * 2
    assert not from_pyg(data.Data(x=made.x, batch=7)).is_batch


def test_node_types_that_all_tell_the_graph_of_every_node_are_a_batch():
    graph = data.HeteroData()
    graph["user"].x, graph["movie"].x, graph.y = torch.rand(2, 3), torch.rand(1, 2), T([3.0])
    graph["user", "rates", "movie"].edge_index = T([[1], [0]])
    made = data.Batch.from_data_list([graph, graph])
    plain = data.HeteroData()
    plain.y = made.y
    for sort in ("user", "movie"):
        plain[sort].x, plain[sort].batch = made[sort].x, made[sort].batch
    plain["user", "rates", "movie"].edge_index = made["user", "rates", "movie"].edge_index
    assert from_pyg(plain) == from_pyg(made)
    del plain["movie"].batch
    with pytest.raises(
        IncidenceError, match="cannot be read as a whole: that takes `batch` for all nodes"
    ):
        from_pyg(plain)


@pytest.mark.parametrize("batch", [[1, 0, 0], [0.0, 0.0, 1.0], [-1, 0, 1], [0, 1]], ids=str)
def test_nodes_of_data_that_do_not_stand_by_graph_are_refused(batch):
    with pytest.raises(IncidenceError, match="must be 3 ascending integers from 0"):
        from_pyg(data.Data(x=torch.zeros(3, 1), batch=T(batch), y=torch.zeros(2)))


def test_a_batch_that_was_changed_is_read_as_it_is():
    batch = data.Batch.from_data_list([random_graph(n, n) for n in (3, 5)])
    loops = torch.arange(8).expand(2, 8)
    batch.edge_index, batch.edge_attr = (
        torch.cat([batch.edge_index, loops], 1),
        torch.cat([batch.edge_attr, torch.zeros(8, 1)]),
    )
    example = from_pyg(batch, edges="i j")
    assert example.structure.num_entries("i j") == batch.num_edges
    assert example.structure[0]["i j"][:, -3:].tolist() == [[0, 1, 2], [0, 1, 2]]
    assert torch.equal(
        example.features["i j"][example.structure.locate("i j", batch.edge_index)], batch.edge_attr
    )


def test_hyperedges_of_a_batch_are_those_of_its_graphs():
    graphs = [
        data.Data(num_nodes=2, hyperedge_index=T([[0, 1, 0, 1], [0, 0, 1, 2]])) for _ in range(2)
    ]
    batch = data.Batch.from_data_list(graphs)
    assert from_pyg(batch) == inc.collate(from_pyg(graphs))
    by_hand = data.Batch(hyperedge_index=batch.hyperedge_index, batch=batch.batch, num_nodes=4)
    with pytest.raises(
        IncidenceError,
        match=r"PyG cannot take this batch apart.*cannot be read as a whole.*no hyperedges",
    ):
        from_pyg(by_hand)


@pytest.mark.parametrize(
    "y", [T(1.0), torch.zeros(5), [T([1.0])] * 2], ids=["one number", "other rows", "a list"]
)
def test_a_batch_made_by_hand_with_a_target_of_other_rows_is_refused(y):
    with pytest.raises(
        IncidenceError, match=r"cannot be read as a whole.*`y` with a row for each node or graph"
    ):
        from_pyg(data.Batch(x=torch.zeros(3, 1), batch=T([0, 0, 1]), y=y))


def test_a_batch_of_node_types_that_pyg_cannot_take_apart_is_read():
    graph = data.HeteroData()
    graph["user"].num_nodes, graph["movie"].num_nodes = 2, 1
    graph["user", "rates", "movie"].edge_index = T([[1], [0]])
    graph.y = T([3.0])
    last = data.HeteroData()
    last["user"].num_nodes, last["movie"].num_nodes, last.y = 0, 0, T([4.0])
    last["user", "rates", "movie"].edge_index = torch.zeros(2, 0, dtype=torch.long)
    batch = data.Batch.from_data_list([graph, graph, last])
    assert from_pyg(batch) == inc.collate(from_pyg([graph, graph, last]))
    with pytest.raises(KeyError):
        batch.to_data_list()


def test_undirected_edges_may_come_once_or_both_ways_and_keep_their_order():
    both = data.Data(
        edge_index=T([[2, 0, 1, 0], [1, 1, 2, 2]]), edge_attr=T([1.0, 2.0, 1.0, 3.0]), num_nodes=4
    )
    example = from_pyg(both)
    assert example.structure["{i j}"].tolist() == [[2, 0, 0], [1, 1, 2]]
    assert example.features["{i j}"].tolist() == [[1.0], [2.0], [3.0]]
    assert from_pyg(both, edges="(i j)").structure["(i j)"].tolist() == both.edge_index.tolist()
    assert to_pyg(example).edge_index.tolist() == [[2, 0, 0, 1, 1, 2], [1, 1, 2, 2, 0, 0]]
    assert to_pyg(example).is_undirected()


def test_hyperedges_and_triangles_are_read():
    graph = data.Data(
        num_nodes=4,
        hyperedge_index=T([[0, 1, 2, 2, 3], [0, 0, 0, 1, 1]]),
        hyperedge_attr=torch.rand(2, 3),
        face=T([[0], [1], [2]]),
    )
    example = from_pyg(graph)
    assert torch.equal(example.structure["{i ...}"], graph.hyperedge_index)
    assert torch.equal(example.features["{i ...}"], graph.hyperedge_attr)
    assert example.structure["{i j k}"].tolist() == [[0], [1], [2]]


def test_other_attributes_are_read_when_their_place_is_told():
    graph = data.Data(
        x=torch.rand(3, 2),
        z=T([6, 1, 8]),
        edge_index=T([[0, 1], [1, 0]]),
        edge_weight=T([0.5, 0.5]),
        name="water",
    )
    example = from_pyg(graph, features={"z": "charge=i", "edge_weight": "{i j}"})
    assert example.features["charge=i"].tolist() == [[6], [1], [8]]
    assert example.features["{i j}"].tolist() == [[0.5]]
    assert set(from_pyg(graph).features) == {"i"}


@pytest.mark.parametrize(
    ("y", "expected"),
    [
        (T([1]), T(1)),
        (torch.zeros(1, 3), torch.zeros(3)),
        (T([0, 1, 2]), {"i": T([0, 1, 2])}),
        (torch.zeros(5), torch.zeros(5)),
        (0.5, T(0.5)),
    ],
    ids=["class", "row", "nodes", "vector", "number"],
)
def test_a_target_belongs_to_the_whole_or_to_nodes_by_its_shape(y, expected):
    found = from_pyg(data.Data(x=torch.zeros(3, 1), y=y)).target
    assert Example(Structure(3), target=found) == Example(Structure(3), target=expected)


def test_the_targets_of_a_data_set_belong_to_one_thing():
    graphs = [data.Data(x=torch.zeros(n, 1), y=torch.zeros(1)) for n in (1, 2)]
    assert [e.target.shape for e in from_pyg(graphs)] == [(), ()]
    labelled = [data.Data(x=torch.zeros(n, 1), y=torch.zeros(n)) for n in (1, 2)]
    assert [e.target["i"].shape for e in from_pyg(labelled)] == [(1,), (2,)]
    assert from_pyg(data.Data(x=torch.zeros(3, 1), y=torch.zeros(3)), target="").target.shape == (
        3,
    )


def edge_labels(count: int, seed: int, width: tuple = ()) -> object:
    """A graph with a target of every edge, the same in both directions, which come in any order."""
    graph = random_graph(count, seed)
    values = torch.rand(count, count, *width, generator=torch.Generator().manual_seed(seed))
    low, high = graph.edge_index.amin(0), graph.edge_index.amax(0)
    graph.y = values[low, high]
    return graph


@few
@given(
    st.lists(st.integers(2, 6), min_size=1, max_size=10), st.sampled_from([(), (1,), (3,)]), seeds
)
def test_a_target_with_a_row_for_every_column_belongs_to_edges(sizes, width, seed):
    graphs = [edge_labels(n, seed + k, width) for k, n in enumerate([*sizes, 7])]
    assume(graphs[-1].num_edges > 2)  # two columns tell nothing
    assume(any(graph.num_edges != graph.num_nodes for graph in graphs))
    found = from_pyg(graphs)
    for graph, example in zip(graphs, found, strict=True):
        rows = example.structure.locate("{i j}", graph.edge_index)
        assert torch.equal(example.target["{i j}"][rows], graph.y)
    assert inc.collate(found) == inc.collate(graphs) == from_pyg(data.Batch.from_data_list(graphs))


def test_a_batch_made_by_hand_may_have_targets_of_edges():
    made = data.Batch.from_data_list([edge_labels(5, 1), edge_labels(6, 2)])
    assert made.num_edges not in (made.num_nodes, 2)
    mixed = torch.randperm(made.num_edges)
    by_hand = data.Batch(
        x=made.x, edge_index=made.edge_index[:, mixed], y=made.y[mixed], batch=made.batch
    )
    found = from_pyg(by_hand)
    rows = found.structure.locate("{i j}", made.edge_index)
    assert torch.equal(found.target["{i j}"][rows], made.y)


def test_a_target_without_rows_belongs_to_no_edges_that_are_not_there():
    bare = data.Data(x=torch.zeros(2, 1), y=torch.zeros(0))
    assert from_pyg(data.Batch.from_data_list([bare, bare])).target.shape == (2, 0)


def test_what_a_target_belongs_to_may_be_told():
    both = data.Data(num_nodes=3, edge_index=T([[0, 1], [1, 0]]), y=T([4, 4]))
    assert from_pyg(both).target.tolist() == [4, 4]  # of the whole: two columns are one edge
    assert from_pyg(both, target="{i j}").target["{i j}"].tolist() == [4]
    assert from_pyg(both, target="(a b)", edges="(i j)").target["(a b)"].tolist() == [4, 4]
    square = data.Data(num_nodes=4, edge_index=T([[0, 1, 2, 3], [1, 2, 3, 0]]), y=T([1, 2, 3, 4]))
    assert from_pyg(square).target["i"].tolist() == [1, 2, 3, 4]  # of nodes, which come first
    assert from_pyg(square, target="(i j)", edges="(i j)").target["(i j)"].tolist() == [1, 2, 3, 4]
    longer = data.Data(num_nodes=3, edge_index=T([[0, 1, 1, 2], [1, 0, 2, 1]]), y=T([1, 2, 3, 4]))
    assert from_pyg(longer, target="").target.tolist() == [1, 2, 3, 4]
    with pytest.raises(
        IncidenceError,
        match=r"y of the edge \(0, 1\) differs from that of \(1, 0\).*read the edges as `\(i j\)`",
    ):
        from_pyg(longer)
    assert from_pyg(longer, edges="(i j)").target["(i j)"].tolist() == [1, 2, 3, 4]
    with pytest.raises(IncidenceError, match="y has 4 rows, and edge_index has 2 columns"):
        from_pyg(
            data.Data(num_nodes=3, edge_index=T([[0, 1], [1, 0]]), y=T([1, 2, 3, 4])),
            target="{i j}",
        )


def test_relations_may_have_targets():
    graph = data.HeteroData()
    graph["user"].x, graph["movie"].x = torch.rand(3, 1), torch.rand(2, 1)
    graph["user", "rates", "movie"].edge_index, graph["user", "rates", "movie"].y = (
        T([[0, 2], [1, 0]]),
        T([[5.0], [3.0]]),
    )
    assert from_pyg(graph).target["rates=u:user m:movie"].tolist() == [[5.0], [3.0]]
    graph["user", "rates", "movie"].y = T([5.0])
    with pytest.raises(IncidenceError, match="y has 1 rows, and edge_index has 2 columns"):
        from_pyg(graph)


@pytest.mark.parametrize(
    "y",
    [T(2.5), T([2.5]), 2.5, T([1.0, 2.0]), T([[1.0, 2.0]])],
    ids=["0-d", "1-d", "number", "vector", "row"],
)
def test_the_target_of_a_whole_graph_of_node_types_is_that_of_any_graph(y):
    graph = data.HeteroData()
    graph["user"].x, graph.y = torch.rand(3, 1), y
    assert torch.equal(from_pyg(graph).target, from_pyg(data.Data(x=torch.rand(3, 1), y=y)).target)


@pytest.mark.parametrize(
    "nothing",
    [torch.zeros(2, 0), T([]), torch.zeros(0, 2, dtype=torch.long)],
    ids=["float", "1-d", "transposed"],
)
def test_no_edges_may_have_any_shape_and_type(nothing):
    assert from_pyg(data.Data(num_nodes=2, edge_index=nothing)).structure.num_entries("{i j}") == 0


def test_many_nodes_may_be_numbered_by_short_integers():
    # which have one number modulo 2^32 among all pairs
    pairs = T([[0, 1 << 15], [100_000, 100_000]], dtype=torch.int32)
    assert (
        from_pyg(data.Data(num_nodes=1 << 17, edge_index=pairs)).structure["{i j}"].tolist()
        == pairs.tolist()
    )


def test_a_data_set_of_pyg_is_a_list_of_examples_for_a_loader():
    graphs = [
        data.Data(x=torch.rand(n, 2), edge_index=T([[0], [n - 1]]), y=T([n])) for n in (2, 3, 4)
    ]
    loader = torch.utils.data.DataLoader(from_pyg(graphs), batch_size=3, collate_fn=inc.collate)
    [batch] = loader
    assert batch.target.tolist() == [2, 3, 4]
    assert batch == from_pyg(data.Batch.from_data_list(graphs))


# ---- liftings as transforms


def hexagon() -> object:
    ring = torch.arange(6)
    edge_index = torch.cat(
        [torch.stack([ring, ring.roll(1)]), torch.stack([ring.roll(1), ring])], 1
    )
    return data.Data(
        x=torch.rand(6, 2),
        edge_index=edge_index,
        edge_attr=torch.ones(12, 1),
        pos=torch.rand(6, 3),
        y=T([1.0]),
    )


def test_liftings_compose_as_transforms():
    transforms = pytest.importorskip("torch_geometric.transforms")
    lift = transforms.Compose(
        [
            transforms.NormalizeFeatures(),
            lifting.as_transform(lifting.rings, max_length=6),
            lifting.as_transform(lifting.khop, k=3),
        ]
    )
    example = lift(hexagon())
    assert example.structure.num_entries("ring") == 1
    assert example.structure.num_entries("hop3") == 15
    assert set(example.features) == {"i", "pos=i", "{i j}"}
    assert example.target == 1


def test_lifted_data_stays_data_if_asked_for_and_batches_rightly():
    lift = lifting.as_transform(lifting.rings, as_data=True, max_length=6)
    graphs = [lift(hexagon()), lift(hexagon())]
    assert isinstance(graphs[0], data.Data)
    batch = from_pyg(data.Batch.from_data_list(graphs))
    assert batch.structure.num_entries("ring") == 2
    assert batch.structure == inc.collate([lifting.rings(from_pyg(hexagon()).structure)] * 2)
    assert repr(lift) == "as_transform(rings, max_length=6)"


def test_points_become_complexes_by_a_transform():
    cloud = data.Data(pos=torch.rand(6, 3), x=torch.rand(6, 2))
    example = lifting.as_transform(lifting.vietoris_rips, radius=5.0)(cloud)
    assert example.structure.num_entries("{i j k}") == 20
    assert set(example.features) == {"i", "pos=i"}
    with pytest.raises(
        IncidenceError,
        match="makes edges of its own, and there are tensors already: remove edge_index first",
    ):
        lifting.as_transform(lifting.alpha)(hexagon())
    with pytest.raises(IncidenceError, match=r"needs their coordinates: set data.pos"):
        lifting.as_transform(lifting.alpha)(data.Data(x=torch.rand(3, 1)))


def test_the_features_of_edges_go_to_the_nodes_of_a_line_graph():
    example = lifting.as_transform(lifting.line_graph)(hexagon())
    assert example.structure.num_nodes == 6
    assert example.features["i"].tolist() == [[1.0]] * 6
    assert example.target == 1


def test_a_transform_wants_a_lifting():
    with pytest.raises(IncidenceError, match="as_transform takes a lifting"):
        lifting.as_transform("rings")


# ---- refusals

PAIR = T([[0], [1]])


@pytest.mark.parametrize(
    ("graph", "arguments", "message"),
    [
        (3, {}, "from_pyg takes Data, HeteroData, a Batch, or a list or data set of them; got int"),
        ([data.Data(num_nodes=1), 3], {}, "number 1 of the list is a int, and all must be Data"),
        (
            data.Data(edge_index=PAIR),
            {},
            "the number of nodes is not known, because edges do not show nodes without edges",
        ),
        (
            data.Data(edge_index=T([[0], [0]]), num_nodes=1),
            {},
            r"Remove the self-loop, or use `\[i j\]`",
        ),
        (
            data.Data(edge_index=T([[0, 0], [1, 1]]), num_nodes=2),
            {},
            r"\(0, 1\) comes more than once in one direction.*data.coalesce",
        ),
        (
            data.Data(edge_index=T([[0, 0], [1, 1]]), num_nodes=2),
            {"edges": "(i j)"},
            "columns 0 and 1 denote one entry",
        ),
        (
            data.Data(edge_index=T([[0, 1], [1, 0]]), edge_attr=T([1.0, 2.0]), num_nodes=2),
            {},
            (
                r"edge_attr of the edge \(0, 1\) differs from that of \(1, 0\), so the edges are no"
                r" `{i j}`"
            ),
        ),
        (data.Data(edge_index=T([[0], [7]]), num_nodes=2), {}, "is 7: nodes are numbered 0 to 1"),
        (
            data.Data(edge_index=PAIR, edge_attr=torch.zeros(3, 1), num_nodes=2),
            {},
            "edge_attr has 3 rows, and edge_index has 1 columns",
        ),
        (
            data.Data(edge_index=PAIR, num_nodes=2),
            {"edges": "{i j k}"},
            "edges are read as `{i j}`.*got `{i j k}`",
        ),
        (
            data.Data(num_nodes=2),
            {"features": {"z": "i"}},
            "the data has no attribute `z`; it has num_nodes",
        ),
        (
            data.Data(x=torch.zeros(2, 1), z=torch.zeros(2)),
            {"features": {"z": "i"}},
            "two of x, z belong to one tensor",
        ),
        (data.Data(num_nodes=2, z="carbon"), {"features": {"z": "i"}}, "z is no array of numbers"),
        (data.Data(x=torch.eye(2).to_sparse()), {}, r"x is a sparse tensor, .* use .to_dense\(\)"),
        (data.Data(num_nodes=2, y="good"), {}, "y is no array of numbers"),
        (
            data.Data(num_nodes=2, edge_index=T([[0, 1]] * 3)),
            {},
            r"has integers of shape \[2, edges\]; got \[3, 2\] of torch.int64",
        ),
        (data.Data(num_nodes=2, edge_index=T([0, 1])), {}, r"got \[2\] of torch.int64"),
        (
            data.Data(num_nodes=2, edge_index=T([[0.0], [1.0]])),
            {},
            r"got \[2, 1\] of torch.float32",
        ),
        (
            data.Data(num_nodes=2, z=1.0),
            {"features": {"z": "i"}},
            "z is one number, and a row for each entry is needed",
        ),
    ],
)
def test_data_that_does_not_fit_is_refused(graph, arguments, message):
    with pytest.raises(IncidenceError, match=message):
        from_pyg(graph, **arguments)


def hetero(**edges: object) -> object:
    graph = data.HeteroData()
    graph["user"].num_nodes = 2
    for relation, pattern in edges.items():
        graph["user", relation, "user"].edge_index = PAIR
        graph["user", relation, "user"].edge_pattern = pattern
    return graph


def test_hetero_data_that_does_not_fit_is_refused():
    with pytest.raises(
        IncidenceError, match=r"two edge types are `\(u:user u2:user\)` here. Rename a relation"
    ):
        from_pyg(hetero(one="(i:user j:user)", two="(i:user j:user)"))
    nobody = data.HeteroData()
    nobody["user"].name = "nobody"
    with pytest.raises(IncidenceError, match="the number of nodes of `user` is not known"):
        from_pyg(nobody)


SORTS = {"user": 2, "movie": 1}


@pytest.mark.parametrize(
    ("example", "message"),
    [
        (
            Structure(SORTS, {"{u:user v:user} m:movie": [[0], [1], [0]]}),
            "HeteroData holds pairs of nodes, and no `{u:user v:user} m:movie`",
        ),
        (
            Structure(SORTS, {"to=u:user m:movie": [[0], [0]]}),
            "and no `to=u:user m:movie`. Leave it out, or call it otherwise",
        ),
        (
            Structure(SORTS, {"u:user m:movie": [[0], [0]], "{u:user m:movie}": [[0], [0]]}),
            "two tensors are of the edge type",
        ),
        (
            Example(Structure(SORTS), {"": torch.zeros(1, 1)}),
            "no place for features of `the whole structure`",
        ),
        (
            Example(
                Structure(SORTS, {"u:user m:movie": [[0], [0]]}),
                {},
                {"u:user m:movie": torch.zeros(1)},
            ),
            "no place for a target of `u:user m",
        ),
        ("text", "to_pyg takes an Example or a Structure; got str"),
    ],
)
def test_what_hetero_data_cannot_hold_is_refused(example, message):
    with pytest.raises(IncidenceError, match=message):
        to_pyg(example)


def test_a_missing_library_is_a_sentence(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "torch_geometric.data", None)
    with pytest.raises(
        ImportError,
        match=(
            r"from_pyg needs torch_geometric, which is not installed: pip install"
            r" 'incidence\[convert\]'"
        ),
    ):
        from_pyg(None)
