"""What every lifting keeps: the preferred order, equivariance, batches, the tensors that were
there, limits and good manners.
"""

import networkx as nx
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from incidence.errors import IncidenceError, TooLargeError
from incidence.geometry import lifting
from incidence.structure import Structure, collate
from tests.geometry.lifting.graphs import random_graphs, structure_of

LIFTINGS = {
    "cliques": lambda s, **more: lifting.cliques(s, 4, **more),
    "rings": lambda s, **more: lifting.rings(s, 6, **more),
    "khop": lambda s, **more: lifting.khop(s, 2, **more),
    "khop exact": lambda s, **more: lifting.khop(s, 3, exact=True, **more),
    "paths": lambda s, **more: lifting.paths(s, **more),
    "tuples": lambda s, **more: lifting.tuples(s, 3, **more),
    "line_graph": lambda s, **more: lifting.line_graph(s, **more),
    "neighbourhoods": lambda s, **more: lifting.neighbourhoods(s, **more),
    "centred": lambda s, **more: lifting.neighbourhoods(s, 2, centred=True, **more),
}
every_lifting = pytest.mark.parametrize("lift", LIFTINGS.values(), ids=LIFTINGS)
SAME_NODES = pytest.mark.parametrize(
    "lift",
    [f for n, f in LIFTINGS.items() if n != "line_graph"],
    ids=[n for n in LIFTINGS if n != "line_graph"],
)
graphs = st.one_of(random_graphs(6), random_graphs(5, directed=True))
K5 = Structure.complete(5, ["{i j}"])


def only_new(lifted: Structure, source: Structure) -> Structure:
    """The lifted structure without the tensors that were there before."""
    index = {p: parts for p, parts in lifted._index.items() if p not in source._index}
    return Structure._of(lifted._node_ptr, index, {p: lifted._entry_ptr[p] for p in index})


@SAME_NODES
@settings(max_examples=15, deadline=None)
@given(graphs, st.integers(0, 9))
def test_new_tensors_come_in_the_preferred_order_and_old_ones_stay(lift, graph, seed):
    source = structure_of(graph, shuffle=seed)
    lifted = lift(source)
    new = only_new(lifted, source)
    assert new.canonical()[0] == new
    for pattern in source.patterns:
        assert torch.equal(lifted[pattern], source[pattern])
    checked = Structure(
        lifted.counts,
        {str(p): parts if p.is_open else parts[0] for p, parts in lifted._index.items()},
    )
    assert checked == lifted  # every entry is right, and there once


@SAME_NODES
@settings(max_examples=15, deadline=None)
@given(graphs, st.randoms(use_true_random=False))
def test_liftings_commute_with_relabelling(lift, graph, random):
    source = structure_of(graph)
    permutation = list(range(len(graph)))
    random.shuffle(permutation)
    assert (
        lift(source.relabel(permutation)).canonical()[0]
        == lift(source).relabel(permutation).canonical()[0]
    )


@every_lifting
@settings(max_examples=10, deadline=None)
@given(st.lists(random_graphs(5), min_size=1, max_size=3))
def test_lifting_a_batch_is_batching_the_lifted(lift, graphs):
    parts = [structure_of(graph, shuffle=1) for graph in graphs]
    assert lift(collate(parts)) == collate([lift(part) for part in parts])


@every_lifting
def test_a_batch_of_directed_graphs_is_lifted_part_by_part(lift):
    parts = [Structure(n, {"(i j)": [[0, 1, 2, 1], [1, 2, 0, 0]]}) for n in (3, 4, 3)]
    assert lift(collate(parts)) == collate([lift(part) for part in parts])


@every_lifting
def test_structures_without_nodes_or_edges_are_lifted(lift):
    parts = [Structure(n, {"{i j}": []}) for n in (0, 2, 0)]
    assert lift(collate(parts)) == collate([lift(part) for part in parts])


@SAME_NODES
def test_a_lifted_structure_lives_where_the_source_lives(lift):
    assert lift(K5).device == K5.device


@every_lifting
def test_a_limit_is_a_sentence_and_not_a_hang(lift):
    with pytest.raises(
        TooLargeError,
        match=r"^\w+: there are at least \d+ [\w ]+, and limit=3\. [A-Z].*, or raise limit=\.$",
    ):
        lift(K5, limit=3)
    assert lift(K5, limit=None) == lift(K5)


@every_lifting
@pytest.mark.parametrize("limit", [-1, 2.5, True, "many"])
def test_a_limit_is_a_number(lift, limit):
    with pytest.raises(IncidenceError, match="limit is an integer of at least 0; got"):
        lift(K5, limit=limit)


@every_lifting
def test_only_structures_are_lifted(lift):
    with pytest.raises(IncidenceError, match=r"takes a Structure; got list"):
        lift([K5])


@pytest.mark.parametrize(
    "lift", [lifting.cliques, lifting.rings, lifting.khop], ids=["cliques", "rings", "khop"]
)
def test_many_candidates_for_few_entries_are_refused_too(lift, monkeypatch):
    """Two nodes with thirty neighbours in common: no clique of three, but many pairs of edges that
    might be in one.
    """
    monkeypatch.setattr("incidence.geometry.lifting.adjacency.WORK", 2)
    graph = structure_of(nx.complete_bipartite_graph(2, 30))
    with pytest.raises(
        TooLargeError,
        match=r"would have to be tested, more than 2 for each of limit=10 entries\. Lower",
    ):
        lift(graph, limit=10)


def test_edges_of_another_tensor_or_sort_are_read_when_asked_for():
    bonds = {"bond={i j}": [[0, 1, 0], [1, 2, 2]], "contact={i j}": [[0], [3]]}
    s = Structure(4, bonds)
    assert lifting.cliques(s, 3, edges="bond").num_entries("{i j k}") == 1
    assert lifting.cliques(s, 3, edges="contact").num_entries("{i j k}") == 0
    users = Structure(
        {"user": 3, "movie": 2},
        {"{u:user v:user}": [[0, 1, 0], [1, 2, 2]], "u:user m:movie": [[0], [1]]},
    )
    assert lifting.cliques(users, 3).num_entries("{i:user j:user k:user}") == 1
    assert lifting.rings(users, 3).num_entries("ring={i:user ...}") == 1
    assert (
        lifting.neighbourhoods(users, centred=True).num_entries("neighbourhood=i:user {i:user ...}")
        == 3
    )
    assert lifting.khop(users, 1).num_entries("hop1={i:user j:user}") == 3
    assert lifting.tuples(users, 2, sort="movie").num_entries("i:movie j:movie") == 4
    assert lifting.paths(users).num_entries("{i:user j:user} {j:user k:user}") == 9


@pytest.mark.parametrize(
    ("structure", "edges", "message"),
    [
        (
            Structure(3),
            None,
            (
                r"rings reads edges, as in `{i j}` or `\(i j\)`, and there are no unnamed edges"
                r" among the tensors \(none\)"
            ),
        ),
        (
            Structure(3, {"(i j)": [[0], [1]], "i j": [[0], [1]]}),
            None,
            r"there are `\(i j\)`, `i j`: say which, as in edges=",
        ),
        (Structure(3, {"{i j k}": [[0], [1], [2]]}), "{i j k}", "`{i j k}` has none"),
        (Structure({"a": 3, "b": 3}, {"i:a j:b": [[0], [1]]}), "i:a j:b", "two nodes of one sort"),
        (K5, "bond", "no tensor is called `bond`"),
    ],
)
def test_edges_that_cannot_be_read_are_refused(structure, edges, message):
    with pytest.raises(IncidenceError, match=message):
        lifting.rings(structure, edges=edges)


def test_undirected_edges_come_before_others():
    s = Structure(3, {"(i j)": [[0, 1, 2], [1, 2, 0]], "{i j}": [[0], [1]]})
    assert lifting.rings(s).num_entries("ring") == 0
    assert lifting.rings(s, edges="(i j)").num_entries("ring") == 1


def test_loops_and_directions_do_not_matter_to_cliques_and_rings():
    s = Structure(3, {"i j": [[0, 0, 1, 2, 1], [0, 1, 2, 0, 0]]})
    assert lifting.cliques(s)["{i j}"].tolist() == [[0, 0, 1], [1, 2, 2]]
    assert lifting.cliques(s)["{i j k}"].tolist() == [[0], [1], [2]]
    assert lifting.rings(s).num_entries("ring") == 1


def test_a_loop_is_no_step():
    s = Structure(2, {"i j": [[0, 0], [0, 1]]})
    assert lifting.paths(s).num_entries("(i j) (j k)") == 0
    assert lifting.khop(s, 2)["hop2"].tolist() == [[0], [1]]


@pytest.mark.parametrize(
    ("lift", "message"),
    [
        (lambda: lifting.cliques(K5, 1), "cliques: max_size is an integer from 2 to 64; got 1"),
        (lambda: lifting.rings(K5, 2), "rings: max_length is an integer of at least 3; got 2"),
        (
            lambda: lifting.rings(K5, 4, min_length=2.5),
            "rings: min_length is an integer of at least 3; got 2.5",
        ),
        (lambda: lifting.khop(K5, 0), "khop: k is an integer of at least 1; got 0"),
        (
            lambda: lifting.neighbourhoods(K5, 0),
            "neighbourhoods: k is an integer of at least 1; got 0",
        ),
        (lambda: lifting.tuples(K5, 1), "tuples: k is an integer of at least 2; got 1"),
        (
            lambda: lifting.tuples(K5, 2, sort="user"),
            "needs nodes of sort `user`; this structure has `node`",
        ),
        (
            lambda: lifting.rings(lifting.khop(K5, 2, name="ring")),
            r"`ring={i j}` is here already, so `ring={i ...}` needs another name",
        ),
    ],
)
def test_arguments_out_of_range_are_refused(lift, message):
    with pytest.raises(IncidenceError, match=message):
        lift()


def test_rings_are_sought_no_further_than_there_are_paths():
    cycle = Structure(7, {"{i j}": [[0, 1, 2, 3, 4, 5, 6], [1, 2, 3, 4, 5, 6, 0]]})
    assert lifting.rings(cycle, 10**12) == lifting.rings(cycle, 7)
