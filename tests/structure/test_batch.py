"""Batches: structures side by side and back, with their plans."""

import numpy as np
import pytest
import torch

import incidence as inc
from incidence.algebra import EquivariantMap
from incidence.errors import IncidenceError
from incidence.nn import Linear
from incidence.structure import Structure, collate, uncollate
from tests.cases import some
from tests.nn.sparse_maps import ALL, IDS, features_for, layer_for, outputs, parts_for
from tests.structure.listing import entries_of

T = torch.tensor
PATH = T([[0, 1, 2], [1, 2, 3]])


@pytest.mark.parametrize(("text", "max_overlap"), some(ALL), ids=IDS)
def test_a_batch_falls_back_into_its_structures(text, max_overlap):
    parts = parts_for(EquivariantMap(text, max_overlap))
    batch = collate(parts)
    assert batch.num_structures == len(batch) == 4
    assert uncollate(batch) == parts
    assert list(batch) == parts
    assert [batch[k] for k in range(-4, 4)] == parts + parts


@pytest.mark.parametrize(("text", "max_overlap"), some(ALL), ids=IDS)
def test_the_entries_of_a_batch_are_those_of_its_structures_with_nodes_numbered_through(
    text, max_overlap
):
    m = EquivariantMap(text, max_overlap)
    parts = parts_for(m)
    batch = collate(parts)
    for p in batch.patterns:
        expected = []
        start = dict.fromkeys(batch.counts, 0)
        for part in parts:
            for entry in entries_of(part, str(p)):
                expected.append(
                    tuple(tuple((sort, v + start[sort]) for sort, v in face) for face in entry)
                )
            start = {sort: start[sort] + part.counts[sort] for sort in start}
        assert entries_of(batch, str(p)) == expected
        numbers = [k for k, part in enumerate(parts) for _ in range(part.num_entries(p))]
        assert batch.batch(p).tolist() == numbers


def test_pointers_tell_where_structures_start():
    batch = collate(
        [
            Structure(4, {"(i j)": PATH}),
            Structure(0, {"(i j)": []}),
            Structure(2, {"(i j)": PATH[:, :1]}),
        ]
    )
    assert batch.node_ptr().tolist() == [0, 4, 4, 6]
    assert batch.entry_ptr("(i j)").tolist() == [0, 3, 3, 4]
    assert batch.entry_ptr("i").tolist() == [0, 4, 4, 6]
    assert batch.entry_ptr("").tolist() == [0, 1, 2, 3]
    assert batch.batch("i").tolist() == [0, 0, 0, 0, 2, 2]
    assert batch.num_nodes == 6


def test_one_structure_is_a_batch_of_one():
    structure = Structure(4, {"(i j)": PATH})
    assert collate([structure]) == structure
    assert structure[0] == structure
    assert structure.num_structures == 1


def test_batches_collate_again():
    parts = parts_for(EquivariantMap("i, {i j}, {i ...} -> i"))
    nested = collate([collate(parts[:2]), parts[2], collate([collate(parts[3:])])])
    assert nested == collate(parts)
    assert uncollate(nested) == parts


@pytest.mark.parametrize(
    ("item", "numbers"),
    [
        (slice(1, 3), [1, 2]),
        (slice(None, None, -1), [3, 2, 1, 0]),
        ([2, 0, 2], [2, 0, 2]),
        ([-1], [3]),
        (T([1, 3]), [1, 3]),
        (T([True, False, False, True]), [0, 3]),
        (np.array([1, 3]), [1, 3]),
        ((0, 1), [0, 1]),
        (range(2), [0, 1]),
    ],
    ids=["slice", "backwards", "list", "negative", "tensor", "mask", "numpy", "tuple", "range"],
)
def test_several_structures_are_taken_as_a_batch(item, numbers):
    parts = parts_for(EquivariantMap("i, {i j}, {i ...} -> i"))
    assert collate(parts)[item] == collate([parts[k] for k in numbers])


@pytest.mark.parametrize(
    "number", [2, T(2), np.int64(2), -2], ids=["int", "tensor", "numpy", "negative"]
)
def test_one_structure_is_taken_by_its_number(number):
    parts = parts_for(EquivariantMap("i, {i j}, {i ...} -> i"))
    assert collate(parts)[number] == parts[2]


def test_structures_of_different_spelling_collate():
    one, other = Structure(3, {"{i j} j": T([[0], [1]])}), Structure(3, {"{a b} a": T([[2], [1]])})
    batch = collate([one, other])
    assert batch["{i j} j"].tolist() == [[0, 4], [1, 5]]
    assert uncollate(batch) == [one, other]


def test_tensors_may_come_in_another_order():
    one = Structure(4, {"(i j)": PATH, "{i j}": PATH[:, :1]})
    other = Structure(4, {"{i j}": PATH, "(i j)": PATH[:, :1]})
    batch = collate([one, other])
    assert batch.entry_ptr("(i j)").tolist() == [0, 3, 4]
    assert batch[1] == other


@pytest.mark.parametrize("columns", [0, 1, 2, 5])
def test_letters_that_an_open_face_has_not_may_have_any_number_of_columns(columns):
    members = T([[0, 1, 2], [0, 0, 1]])
    parts = [Structure(n, {"{i ...}": (torch.zeros(0, columns), members)}) for n in (3, 4)]
    batch = collate(parts)
    assert (
        [batch[0], batch[1]]
        == uncollate(batch)
        == parts
        == [Structure(n, {"{i ...}": members}) for n in (3, 4)]
    )
    assert batch[[1, 0, 1]] == collate([parts[1], parts[0], parts[1]])


def test_sorts_are_numbered_each_on_their_own():
    parts = [Structure({"a": n, "b": 3 - n}, {"u:a m:b": T([[0], [0]])}) for n in (1, 2)]
    batch = collate(parts)
    assert batch["u:a m:b"].tolist() == [[0, 1], [0, 2]]
    assert batch.node_ptr("a").tolist() == [0, 1, 3]
    assert batch.node_ptr("b").tolist() == [0, 2, 3]


# ---- plans


@pytest.mark.parametrize("sizes", [(4, 5), (4, 0, 5, 1), (0, 0)], ids=str)
@pytest.mark.parametrize(("text", "max_overlap"), some(ALL), ids=IDS)
def test_collated_plans_give_what_rebuilt_plans_give(text, max_overlap, sizes):
    layer = layer_for(text, max_overlap, ["sum", "max"])
    planned, bare = parts_for(layer.map, sizes), parts_for(layer.map, sizes)
    for structure in planned:
        layer.plan(structure)
    x = features_for(layer.map, collate(bare))
    for one, other in zip(
        outputs(layer(x, collate(planned))), outputs(layer(x, collate(bare))), strict=True
    ):
        torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    "text", ["i, (i j) -> i, (i j)", "{i j} {i k} -> (i j)", "u:a m:b -> {u:a v:a}"]
)
def test_collated_plans_have_the_cost_of_rebuilt_plans(text):
    layer = layer_for(text)
    planned, bare = (parts_for(layer.map, (5, 6)) for _ in range(2))
    for structure in planned:
        layer.plan(structure)
    assert str(layer.plan(collate(planned))) == str(layer.plan(collate(bare)))


def test_plans_are_carried_over_and_not_rebuilt(monkeypatch):
    layer = layer_for("i, (i j) -> i, (i j)")
    parts = parts_for(layer.map)
    for structure in parts:
        layer.plan(structure)
    monkeypatch.setattr(
        "incidence.engine.plan.build_plan", lambda *args: pytest.fail("the plan was built again")
    )
    batch = collate([collate(parts[:2]), *parts[2:]])
    x = features_for(layer.map, batch)
    found = outputs(layer(x, batch))
    monkeypatch.undo()
    for one, other in zip(found, outputs(layer(x, collate(parts_for(layer.map)))), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-12)


def test_a_plan_that_some_structure_lacks_is_made_anew():
    layer = layer_for("i, (i j) -> i, (i j)")
    parts = parts_for(layer.map)
    layer.plan(parts[0])
    batch = collate(parts)
    assert layer(features_for(layer.map, batch), batch)["i"].shape == (10, 2)


def test_the_front_door_has_both_ways():
    assert inc.collate is collate
    assert inc.uncollate is uncollate


# ---- several structures at once


def test_structures_given_at_once_are_those_that_are_collated():
    one = Structure(3, {"{i j}": [[0, 1], [1, 2]], "{i ...}": [[0, 1, 2], [0, 0, 0]]})
    two = Structure(2, {"{i j}": [[0], [1]], "{i ...}": [[0, 1, 1], [0, 0, 1]]})
    index = {"{i j}": [[0, 1, 3], [1, 2, 4]], "{i ...}": [[0, 1, 2, 3, 4, 4], [0, 0, 0, 1, 1, 2]]}
    batch = Structure(5, index, batch=[0, 0, 0, 1, 1])
    assert batch == collate([one, two])
    assert list(batch) == [one, two]


def test_structures_given_at_once_may_have_sorts_and_be_empty():
    batch = Structure(
        {"a": 3, "b": 2},
        {"u:a v:b": [[0, 2], [0, 1]]},
        batch={"a": [0, 0, 3], "b": torch.tensor([0, 3])},
    )
    assert batch.num_structures == 4
    assert batch.batch("u:a v:b").tolist() == [0, 3]
    assert [s.num_nodes for s in batch] == [
        {"a": 2, "b": 1},
        {"a": 0, "b": 0},
        {"a": 0, "b": 0},
        {"a": 1, "b": 1},
    ]


def test_no_operation_crosses_structures_that_are_given_at_once():
    edges = [[0, 1, 2, 3], [1, 0, 3, 2]]
    layer = Linear("i, (i j) -> i, (i j)", 2, 2)
    x = {"i": torch.randn(4, 2), "(i j)": torch.randn(4, 2)}
    x["i"][3] = x["(i j)"][3] = float("nan")
    ys = layer(x, Structure(4, {"(i j)": edges}, batch=[0, 0, 1, 1]))
    assert all(y[:2].isfinite().all() for y in ys.values())
    assert not any(y.isfinite().all() for y in layer(x, Structure(4, {"(i j)": edges})).values())


BAD_BATCHES = {
    "an edge between two structures": (
        [[1], [2]],
        [0, 0, 1, 1],
        r"entry 0 has nodes of more than one structure",
    ),
    "entries out of order": (
        [[2, 0], [3, 1]],
        [0, 0, 1, 1],
        r"entry 1 is of structure 0 and stands after entries of structure 1",
    ),
    "nodes out of order": ([[0], [1]], [1, 1, 0, 0], r"4 ascending integers from 0"),
    "too few nodes": ([[0], [1]], [0, 0], r"4 ascending integers from 0"),
    "a negative number": ([[0], [1]], [-1, 0, 0, 0], r"4 ascending integers from 0"),
    "no integers": ([[0], [1]], [0.0, 0.0, 1.0, 1.0], r"4 ascending integers from 0"),
    "nodes out of order in bytes": (
        [[0], [1]],
        torch.tensor([1, 1, 0, 0], dtype=torch.uint8),
        r"4 ascending integers from 0",
    ),
    "a number far beyond": (
        [[0], [1]],
        [0, 0, 0, 10**12],
        r"up to 1,000,000,000,000, and there are 4 nodes: renumber",
    ),
    "a mask": ([[0], [1]], [False, False, True, True], r"4 ascending integers from 0"),
    "a sort that is not there": (
        [[0], [1]],
        {"atom": [0, 0, 1, 1]},
        r"map each of node to a tensor",
    ),
}


@pytest.mark.parametrize(("edges", "batch", "message"), BAD_BATCHES.values(), ids=BAD_BATCHES)
def test_structures_at_once_that_do_not_fit_are_refused(edges, batch, message):
    with pytest.raises(IncidenceError, match=message):
        Structure(4, {"(i j)": edges}, batch=batch)


def test_several_sorts_need_a_mapping():
    with pytest.raises(IncidenceError, match="with several sorts, map each of a, b"):
        Structure({"a": 2, "b": 2}, {}, batch=[0, 1])
