"""Links as data: what is drawn beside them is never there, what is asked for is not seen, and
scores without learning are right.
"""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import incidence as inc
from incidence.data import Split, load
from incidence.data.completion import ROWS, Completion, read_completion, write_completion
from incidence.data.links import (
    LinkGraph,
    Links,
    NeighbourLists,
    absent_links,
    links_of,
    neighbour_scores,
)
from incidence.errors import IncidenceError
from incidence.train.metrics import area_under_curve
from tests.structure.listing import entries_of

pd = pytest.importorskip("pandas")


def graph(count=12, chance=0.3, text="{i j}", seed=0):
    generator = torch.Generator().manual_seed(seed)
    pairs = torch.combinations(torch.arange(count)).T
    edges = pairs[:, torch.rand(pairs.shape[1], generator=generator) < chance]
    return inc.Example(inc.Structure(count, {text: edges}), {text: torch.ones(edges.shape[1], 1)})


def hypergraph():
    sets = [[0, 1, 2], [2, 3], [3, 4, 5, 6], [0, 6], [1, 3, 5], [5, 7], [2, 7, 8]]
    members = [[node, k] for k, own in enumerate(sets) for node in own]
    return inc.Example(inc.Structure(9, {"{i ...}": torch.tensor(members).T}))


def sets_of(structure, name):
    return [
        tuple(sorted(node for _, node in face))
        for [face] in entries_of(structure, str(structure.resolve(name)))
    ]


@pytest.mark.parametrize(
    ("example", "count"),
    [(graph(), 1), (graph(text="(i j)"), 3), (hypergraph(), 2), (graph(9, 0.9), 1)],
    ids=["edges", "arcs", "sets", "dense"],
)
def test_what_is_drawn_is_different_and_never_there(example, count):
    text = str(example.structure.patterns[0])
    rows = Completion.store(example.structure, text, example.structure[text])
    drawn = [tuple(entry) for entry in absent_links(rows, count, torch.Generator().manual_seed(0))]
    present = (
        [tuple(p) for p in example.structure[text].T.tolist()]
        if text == "(i j)"
        else sets_of(rows, ROWS)
    )
    assert len(set(drawn)) == len(drawn)
    assert not set(drawn) & set(present)
    assert all(
        len(set(entry)) == len(entry)
        and 0 <= min(entry) <= max(entry) < example.structure.num_nodes
        for entry in drawn
    )
    assert drawn == [
        tuple(entry) for entry in absent_links(rows, count, torch.Generator().manual_seed(0))
    ]
    if text == "{i ...}":
        assert sorted(map(len, drawn)) == sorted(count * [*map(len, present)])
    elif example.structure.num_nodes == 9:  # nearly all pairs are there
        assert len(drawn) == 36 - len(present)
    else:
        assert len(drawn) == count * len(present)


@pytest.mark.parametrize("example", [graph(), hypergraph()], ids=["edges", "sets"])
def test_links_that_are_asked_for_carry_no_message(example):
    data = links_of(LinkGraph("x", example), folds=4).with_parts(seed=0)
    split, whole = data.split(), sets_of(data.examples[0].structure, "query")
    present = {whole[k] for k in range(len(whole)) if int(data.completion.target[k])}
    train, validation, _ = ({whole[k] for k in part.tolist()} for part in split)
    parts = data.parts(split)
    for part in parts.train:
        asked, known = (set(sets_of(part.structure, name)) for name in ("query", "known"))
        assert known == (train & present) - asked
    assert [set(sets_of(part[0].structure, "known")) for part in parts[1:]] == [
        train & present,
        (train | validation) & present,
    ]
    assert data.task.rows(parts.test[0]).tolist() == [
        int(one in present) for one in sets_of(parts.test[0].structure, "query")
    ]


@settings(max_examples=25, deadline=None)
@given(
    st.sets(
        st.tuples(st.integers(0, 7), st.integers(0, 7)).filter(lambda pair: pair[0] < pair[1]),
        min_size=1,
    )
)
def test_scores_without_learning_are_those_of_their_definitions(edges):
    known = torch.tensor(sorted(edges)).T
    around = {v: {a + b - v for a, b in edges if v in (a, b)} for v in range(8)}
    asked = list(combinations(range(8), 2))
    found = neighbour_scores(
        torch.tensor(asked).T, NeighbourLists.of(torch.cat([known, known.flip(0)], 1), 8)
    )
    for (a, b), (common, adamic, attachment) in zip(asked, found.tolist(), strict=True):
        shared = around[a] & around[b]
        assert common == pytest.approx(math.log1p(len(shared)), abs=1e-6)
        assert adamic == pytest.approx(sum(1 / math.log(len(around[c])) for c in shared), rel=1e-5)
        assert attachment == pytest.approx(math.log1p(len(around[a]) * len(around[b])), abs=1e-5)


def test_a_set_is_scored_by_the_mean_over_its_pairs():
    data = links_of(LinkGraph("x", hypergraph()))
    completion = data.completion
    known = torch.arange(1, 7)
    example = completion.example(known, torch.tensor([0]))
    pairs = torch.tensor(list(combinations([0, 1, 2], 2))).T
    graph_pairs = [
        pair for own in sets_of(example.structure, "known") for pair in combinations(own, 2)
    ]
    scores = neighbour_scores(pairs, NeighbourLists.of(torch.tensor(graph_pairs).T, 9)).mean(0)
    torch.testing.assert_close(
        example.features["query={i ...}"][0], torch.cat([scores, torch.tensor([math.log(3)])])
    )
    assert example.features["i"][:, 0].tolist() == pytest.approx(
        [math.log1p(sum(v in own for own in sets_of(example.structure, "known"))) for v in range(9)]
    )


def test_the_area_under_the_curve_is_that_of_scikit_learn():
    metrics = pytest.importorskip("sklearn.metrics", exc_type=ImportError)
    generator = torch.Generator().manual_seed(0)
    scores, labels = (
        torch.randint(9, (200,), generator=generator).float(),
        torch.rand(200, generator=generator) < 0.3,
    )
    assert float(area_under_curve(scores, labels)) == pytest.approx(
        metrics.roc_auc_score(labels.numpy(), scores.numpy())
    )


EDGES = "source,target,split\nn1,n2,train\nn2,n1,train\nn2,n3,train\nn4,n3,test\nn1,n4,train\n"
NODES = "id,size\nn1,1\nn2,2\nn3,4\nn4,8\nn5,16\nn6,32\nn7,64\n"


def test_links_are_read_from_tables_with_their_parts(tmp_path):
    (tmp_path / "edges.csv").write_text(EDGES)
    (tmp_path / "nodes.csv").write_text(NODES)
    for data in (
        load(tmp_path, task="links"),
        load(tmp_path / "edges.csv", task="links", nodes=tmp_path / "nodes.csv"),
    ):
        assert (data.task.kind, data.task.names, data.metric) == (
            "classification",
            ("absent", "present"),
            "auc",
        )
        assert data.completion.keys == ("source", "target")
        assert data.examples[0].features["i"][:, 0].tolist() == [1, 2, 4, 8, 16, 32, 64]
        ends = list(zip(data.columns["source"], data.columns["target"], strict=True))
        assert next(set(ends[k]) for k in data.split().test.tolist()) == {"n3", "n4"}
        assert len(data.split().train) == 6


def test_links_are_read_from_whatever_has_a_graph(tmp_path):
    pandas, geometric = pytest.importorskip("pandas"), pytest.importorskip("torch_geometric.data")
    example = graph()
    edges = example.structure["{i j}"]
    frame = pandas.DataFrame(
        {"a": [f"v{k:02}" for k in edges[0].tolist()], "b": [f"v{k:02}" for k in edges[1].tolist()]}
    )
    np.savez(tmp_path / "arrays.npz", edges=edges.T.numpy())
    example.save(tmp_path / "example.npz")
    pyg = geometric.Data(edge_index=torch.cat([edges, edges.flip(0)], 1), num_nodes=12)
    sources = [
        example,
        frame,
        tmp_path / "arrays.npz",
        tmp_path / "example.npz",
        pyg,
        load(example.replace(target={"i": torch.zeros(12)})),
    ]
    found = [load(source, task="links") for source in sources]
    for data in found:
        known = {tuple(sorted(p)) for p in data.examples[0].structure["known"].T.tolist()}
        assert len(known) == edges.shape[1]
        # degrees of what is known, and none of what is asked
        assert data.examples[0].features["i"].shape == (12, 1)
    assert {tuple(sorted(p)) for p in found[2].examples[0].structure["known"].T.tolist()} == {
        tuple(p) for p in edges.T.tolist()
    }


def test_links_of_a_graph_of_pyg_are_read_as_its_other_doors_read_them():
    geometric = pytest.importorskip("torch_geometric.data")
    edges = graph().structure["{i j}"]
    pairs = torch.cat([edges, edges[:, :2], torch.tensor([[3], [3]])], 1)
    # which are not asked for
    looped = geometric.Data(edge_index=pairs, num_nodes=12, y=torch.arange(pairs.shape[1]))
    with pytest.warns(
        UserWarning, match="1 loops are left out .* and 2 parallel edges are joined"
    ) as seen:
        data = load(looped, task="links")
    assert seen[0].filename == __file__
    assert data.examples[0].structure.num_entries("known") == edges.shape[1]
    with pytest.raises(
        IncidenceError, match="links are predicted within one graph; got 2 graphs of PyG"
    ):
        load([geometric.Data(edge_index=edges, num_nodes=12)] * 2, task="links")


def test_lines_of_different_length_are_hyperedges(tmp_path):
    path = tmp_path / "sets.txt"
    path.write_text("n1 n2 n3\nn2, n4\n# a comment\nn4\nn3 n2 n1\nn5 n6 n7 n1\n")
    with pytest.warns(
        UserWarning,
        match=(
            r"(?s)line 4: the hyperedge has one node only.*line 5: the hyperedge is there already,"
            r" in line 1"
        ),
    ):
        data = load(path, task="links", negatives=2)
    assert data.task.at == "query={i ...}"
    assert data.columns["nodes"][:3] == ["n1 n2 n3", "n2 n4", "n1 n5 n6 n7"]
    assert data.num_rows == 9
    (tmp_path / "triples.csv").write_text("n1,n2,n3\nn2,n3,n4\nn5,n1,n2\n")
    (tmp_path / "nodes.csv").write_text(NODES)
    data = load(
        tmp_path / "triples.csv", task="links", hyperedges=True, nodes=tmp_path / "nodes.csv"
    )
    assert data.examples[0].features["i"][:, 0].tolist() == [1, 2, 4, 8, 16, 32, 64]


@pytest.mark.parametrize(
    ("what", "options", "problem"),
    [
        (
            graph(),
            {"colour": 1},
            (
                "links have no option `colour`: they take nodes, directed, hyperedges, keys, links,"
                " negatives, folds"
            ),
        ),
        (
            graph(),
            {"negatives": 0},
            "the option `negatives` of links is a whole number, at least 1; got 0",
        ),
        (graph(), {"target": "x"}, "with `task='links'`, links are the target: leave out `target`"),
        (
            graph(),
            {"links": "i"},
            r"links are sets or tuples of different nodes, .*`i` is none\. There are `\{i j\}`",
        ),
        (
            inc.Example(inc.Structure(3)),
            {},
            "which tensor has the links is not clear: say one of none",
        ),
        (
            inc.Example(inc.Structure(3, {"{i j}": torch.zeros(2, 0, dtype=torch.long)})),
            {},
            r"no links to learn from, as `\{i j\}` has no",
        ),
        (
            3,
            {},
            (
                "links are those of one graph: a path, data frames, a graph of PyG or an Example;"
                " got int"
            ),
        ),
        (
            "solubility",
            {},
            "links are predicted within one graph, and 'solubility' has 1282 examples",
        ),
    ],
)
def test_what_has_no_links_is_refused(what, options, problem):
    with pytest.raises(IncidenceError, match=problem):
        load(what, task="links", **options)


def test_tables_that_are_no_single_graph_are_refused(tmp_path):
    with pytest.raises(
        IncidenceError, match="links are in one table of edges, beside one of nodes; got no table"
    ):
        load(tmp_path, task="links")
    (tmp_path / "sets.txt").write_text("n1\nn2\n")
    with pytest.raises(
        IncidenceError, match=r"sets\.txt' has no hyperedge: a line is a set of nodes, two or more"
    ):
        load(tmp_path / "sets.txt", task="links", hyperedges=True)


@pytest.mark.parametrize(
    "example", [graph(), graph(text="(i j)"), hypergraph()], ids=["edges", "arcs", "sets"]
)
def test_links_are_asked_for_by_name_in_any_order_of_a_set(example, tmp_path):
    completion = links_of(LinkGraph("x", example)).completion
    write_completion(completion, tmp_path / "known.npz")
    completion = read_completion(tmp_path / "known.npz", {"links": Links})
    assert bool((completion.target == 1).all())
    [first] = (
        [completion.columns()[key][0] for key in completion.keys][:1]
        if len(completion.keys) == 1
        else [""]
    )
    entry = first.split() if first else [completion.columns()[key][0] for key in completion.keys]
    found = list(completion.ask([entry, entry[::-1], ["0", "new"]]))
    at = [place for places, _ in found for place in places]
    assert at == (
        [[2], [0, 1]] if example.structure.patterns[0] != inc.Pattern("(i j)") else [[1], [2], [0]]
    )
    for _, one in found:
        assert not set(map(tuple, sets_of(one.structure, "known"))) & set(
            sets_of(one.structure, "query")
        ) or "(i j)" in str(one.structure)


def test_parts_that_are_told_are_kept():
    parts = [2] * 3 + [0] * (graph().structure.num_entries("{i j}") - 3)
    data = links_of(LinkGraph("x", graph(), parts=parts))
    assert isinstance(data.split(), Split)
    assert sum(int(data.completion.target[k]) for k in data.split().test.tolist()) == 3
    assert len(data.split().test) == 6


def test_names_in_a_third_place_are_nodes_of_hyperedges_and_numbers_may_be_weights(tmp_path):
    (tmp_path / "sets.txt").write_text("a b c\nb c d\nc d a\nd b e\n")
    assert load(tmp_path / "sets.txt", task="links").task.at == "query={i ...}"
    (tmp_path / "numbers.txt").write_text("4 5 1\n5 4 2\n1 2 3\n")
    with pytest.raises(
        IncidenceError,
        match="If every line is a set of nodes, say so: `hyperedges=True`",
    ):
        load(tmp_path / "numbers.txt", task="links")


@pytest.mark.parametrize(
    "text",
    [
        'source,target\nNew York,Rome\n"Washington, D.C.",Rome\nOslo,New York\nOslo,#1\n',
        "source,target,weight\nNew York,Rome,1\nWashington,Rome,\nOslo,New York,2\nOslo,#1,3\n",
        "New York,Rome\nWashington,Rome\nOslo,New York\nOslo,#1\n",
    ],
    ids=["quoted", "missing", "unnamed"],
)
def test_names_with_blanks_and_commas_and_missing_values_leave_edges_what_they_are(text, tmp_path):
    (tmp_path / "cities.csv").write_text(text)
    data = load(tmp_path / "cities.csv", task="links")
    assert data.task.at == "query={i j}"
    [names] = data.completion.names.values()
    assert len(names) == 5
    assert {"New York", "Rome", "#1"} < {*names}


def test_rows_of_one_graph_that_are_passed_over_are_counted_alone(tmp_path):
    (tmp_path / "edges.csv").write_text("source,target\na,b\nb,c\nc,d\nd,e\na,a\na,b\n")
    with pytest.warns(UserWarning, match=r"edges: skipped 2 rows:\n"):
        load(tmp_path / "edges.csv", task="links")


PAIRS = sorted({(k % 20, (k * k // 7 + k) % 15) for k in range(120)})


def test_links_of_users_and_movies_are_between_two_sorts_though_they_share_numbers():
    frame = pd.DataFrame(PAIRS, columns=["user", "movie"])
    links = load(frame, task="links").completion
    assert {sort: len(names) for sort, names in links.names.items()} == {"user": 20, "movie": 15}
    assert int(links.target.sum()) == len(PAIRS)
    pairs = list(zip(links.columns()["user"], links.columns()["movie"], strict=True))
    known = {(str(a), str(b)) for a, b in PAIRS}
    assert {
        pair for pair, is_there in zip(pairs, links.target.tolist(), strict=True) if is_there
    } == known
    assert (
        not {
            pair
            for pair, is_there in zip(pairs, links.target.tolist(), strict=True)
            if not is_there
        }
        & known
    )


@pytest.mark.parametrize(
    ("columns", "options", "sorts"),
    [
        (["drug", "protein"], {}, ["drug", "protein"]),  # by what is in them
        (["source", "target"], {}, ["node"]),
        (["drug", "protein"], {"directed": True}, ["node"]),
        (["source", "target"], {"keys": ["source", "target"]}, ["source", "target"]),
        (["user_id", "book"], {}, ["user_id", "book"]),
    ],
    ids=str,
)
def test_nodes_of_two_columns_are_of_two_sorts_by_names_by_values_or_if_it_is_said(
    columns, options, sorts
):
    frame = pd.DataFrame([(f"a{a}", f"b{b}") for a, b in PAIRS], columns=columns)
    assert list(load(frame, task="links", **options).completion.names) == sorts


def test_tables_of_either_sort_stand_beside_links():
    frame = pd.DataFrame(PAIRS, columns=["user", "movie"]).assign(when=range(len(PAIRS)))
    users = pd.DataFrame({"user": range(20), "age": range(20)})
    example = load(frame, task="links", nodes={"users": users}).examples[0]
    assert example.features["a:user"].shape == (20, 2)  # age, and how many links are known
    assert example.features["known=a:user b:movie"].shape[1] == 2  # that it is there, and when


def test_numbers_that_are_measured_name_no_nodes(tmp_path):
    (tmp_path / "a.csv").write_text("smiles,y\nCCO,0.25\nCCC,0.5\nCC,0.7\n")
    with pytest.raises(
        IncidenceError,
        match="the column `y` has numbers that are not whole, and names no nodes of links",
    ):
        load(tmp_path / "a.csv", task="links")
    frame = pd.DataFrame(PAIRS, columns=["user", "movie"])
    with pytest.raises(
        IncidenceError, match=r"a link has two ends, as in `keys=\['user', 'movie'\]`; got user"
    ):
        load(frame, task="links", keys="user")


@pytest.mark.parametrize(
    "comment",
    [
        "# Directed graph: x.txt\n# Nodes: 3 Edges: 3\n# FromNodeId\tToNodeId\n",
        "% sym unweighted\n% 3 3 3\n",
    ],
)
@pytest.mark.parametrize("mark", ["\t", " "])
def test_comments_of_lists_of_edges_are_no_links(tmp_path, comment, mark):
    (tmp_path / "edges.txt").write_text(
        comment + "".join(f"{a}{mark}{b}\n" for a, b in [(0, 1), (1, 2), (2, 3)])
    )
    links = load(tmp_path / "edges.txt", task="links").completion
    assert links.pattern == "{i j}"
    assert list(links.names["node"]) == ["0", "1", "2", "3"]


def test_where_all_links_are_there_nothing_can_be_learned_and_few_absent_ones_are_told():
    pairs = list(combinations(range(6), 2))
    with pytest.raises(
        IncidenceError,
        match=(r"all possible entries of `\{i j\}` exist, so there are no absent links"),
    ):
        load(pd.DataFrame(pairs, columns=["source", "target"]), task="links")
    with pytest.warns(
        UserWarning, match=r"only 2 entries of `\{i j\}` do not exist, and 13 were to be drawn"
    ):
        assert (
            len(
                load(
                    pd.DataFrame(pairs[2:], columns=["source", "target"]), task="links"
                ).completion.target
            )
            == 15
        )
