"""Packed structures: a batch is taken from the store by ranges, and is what collating the
structures one by one gives.
"""

import copy
import pickle

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from incidence import IncidenceError, Structure, collate, pack
from incidence.nn import Linear
from tests.cases import some
from tests.engine.comparing import assert_same_plan
from tests.nn.sparse_maps import ALL, IDS, features_for, layer_for, outputs, parts_for
from tests.structure.random_structures import random_structure

SIZES = (4, 0, 5, 1, 3)


@pytest.mark.parametrize(("text", "max_overlap"), some(ALL), ids=IDS)
def test_a_packed_batch_computes_what_a_collated_one_computes(text, max_overlap):
    layer = layer_for(text, max_overlap, ["sum", "max"])
    loose = parts_for(layer.map, SIZES)
    packed = pack(loose)
    for numbers in ([2], [4, 0, 2], [1, 1], [3, 3, 2, 0, 1, 4, 2]):
        one, other = collate([packed[k] for k in numbers]), collate([loose[k] for k in numbers])
        assert one == other
        x = features_for(layer.map, other)
        for found, expected in zip(outputs(layer(x, one)), outputs(layer(x, other)), strict=True):
            torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(("text", "max_overlap"), some(ALL), ids=IDS)
def test_the_plan_of_a_packed_batch_is_the_one_that_would_be_built(text, max_overlap):
    layer = layer_for(text, max_overlap)
    loose = parts_for(layer.map, SIZES)
    packed = pack(loose)
    one = layer.plan(collate([packed[k] for k in (2, 0, 2)]))
    other = layer.plan(collate([loose[k] for k in (2, 0, 2)]))
    assert_same_plan(one, other)


def test_a_plan_is_made_once_for_all_batches(monkeypatch):
    layer = layer_for("i, (i j) -> i, (i j)")
    packed = pack(parts_for(layer.map, SIZES))
    layer.plan(packed[0])
    monkeypatch.setattr(
        "incidence.engine.plan.build_plan", lambda *args: pytest.fail("the plan was built again")
    )
    for numbers in ([0, 2], [2, 4, 3], [4]):
        batch = collate([packed[k] for k in numbers])
        x = features_for(layer.map, batch)
        assert [len(y) for y in outputs(layer(x, batch))] == [
            batch.num_entries(p) for p in layer.map.outputs
        ]


def test_a_layer_on_a_packed_batch_needs_no_index(monkeypatch):
    layer = layer_for("i, (i j) -> i, (i j)")
    packed = pack(parts_for(layer.map, SIZES))
    x = features_for(layer.map, collate([packed[2], packed[0]]))
    batch = collate([packed[2], packed[0]])
    with monkeypatch.context() as patch:
        patch.setattr(
            "incidence.structure.batch._LazyIndex._compute",
            lambda *args: pytest.fail("the index was made"),
        )
        assert batch.num_entries("(i j)") == sum(packed[k].num_entries("(i j)") for k in (2, 0)) > 0
        outputs(layer(x, batch))
    assert batch["(i j)"].shape[1] == batch.num_entries("(i j)")


def test_an_index_made_in_inference_mode_serves_training():
    packed = pack([Structure(n, {"(i j)": [[0], [1]]}) for n in (2, 3)])
    batch = collate(packed)
    with torch.inference_mode():
        made = batch["(i j)"]
    assert not made.is_inference()
    assert pickle.loads(pickle.dumps(collate(packed))) == batch


def test_batches_of_packed_structures_collate_again():
    loose = [
        Structure(n, {"(i j)": [[0], [1]], "{i ...}": [[0, 1, 1], [0, 0, 1]]}) for n in (2, 3, 4)
    ]
    packed = pack(loose)
    nested = collate([collate(packed[1:]), packed[0], collate([packed[2]])])
    assert nested == collate([loose[1], loose[2], loose[0], loose[2]])
    assert nested[3] == loose[2]


def test_packed_batches_may_be_packed_again():
    loose = [Structure(n, {"(i j)": [[0], [1]]}) for n in (2, 3, 4)]
    assert pack([collate(loose[:2]), loose[2]]) == [collate(loose[:2]), loose[2]]
    again = pack(pack(loose))
    assert collate(again) == collate(loose)


def test_structures_of_two_stores_or_of_none_make_batches_too():
    loose = [Structure(n, {"(i j)": [[0], [1]]}) for n in (2, 3, 4)]
    one, other = pack(loose[:2]), pack(loose[2:])
    layer = Linear("(i j) -> i", 2, 3).double()
    for parts in ([one[0], other[0]], [one[1], loose[2]]):
        batch, plain = (
            collate(parts),
            collate([Structure(p.num_nodes, {"(i j)": p["(i j)"]}) for p in parts]),
        )
        assert batch == plain
        x = torch.randn(2, 2, dtype=torch.float64)
        torch.testing.assert_close(layer(x, batch), layer(x, plain))


@pytest.mark.parametrize(
    "clone", [copy.deepcopy, lambda v: pickle.loads(pickle.dumps(v))], ids=["deepcopy", "pickle"]
)
def test_copies_of_packed_structures_are_structures(clone):
    packed = pack([Structure(n, {"(i j)": [[0], [1]]}) for n in (2, 3)])
    assert clone(packed) == packed
    assert collate(clone(packed)) == collate(packed)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(0, 4), min_size=1, max_size=9))
def test_any_choice_of_packed_structures_is_the_batch_of_those(numbers):
    loose = [
        random_structure(n, ["(i j)", "{i ...}", "i {j k}"], seed=n, draws=10)
        for n in (4, 0, 2, 5, 1)
    ]
    packed = pack(loose)
    assert collate([packed[k] for k in numbers]) == collate([loose[k] for k in numbers])
    assert list(collate([packed[k] for k in numbers])) == [loose[k] for k in numbers]


def test_nothing_cannot_be_packed():
    with pytest.raises(IncidenceError, match="collate needs at least one structure"):
        pack([])
