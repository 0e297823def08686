"""Plans in shards: those of a batch are what would be built, and wrong ones are refused."""

from __future__ import annotations

import pickle
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import incidence as inc
from incidence.data.lifts import lift_all
from incidence.data.loading import load_whole
from incidence.data.shards import ShardFolder
from incidence.engine.plan import Plan
from incidence.engine.store import Batchable
from incidence.errors import IncidenceError
from incidence.structure import Structure
from incidence.structure.data import cache_of
from tests.data.small_shards import PLAIN, RINGS, change, graphs, written

ROWS = [7, 0, 3, 3, 9, 1]
CHANNELS = {"i": 3, "{i j}": 2, "ring={i ...}": 4}


def planned(name: str, structure: Structure, channels: Any) -> dict[Any, Batchable]:
    """Return the plans that a network makes on a structure, by kind and text."""
    inc.models.make(name, channels, 1, hidden=8).plan(structure)
    return {
        (kind, repr(key)): plan
        for kind, cached in structure._cache.items()
        if isinstance(kind, type) and issubclass(kind, Batchable)
        for key, plan in cached.items()
    }


def lists(plan: Batchable) -> list[list[int]]:
    sizes = [space.ravel().tolist() for space in plan.spaces()]
    return [*sizes, *(listed.values.tolist() for listed in plan.lists())]


@pytest.mark.parametrize(
    ("model", "lift"),
    [
        ("rings", "rings"),
        ("triangles", "cliques"),
        ("matrix", "matrix"),
        ("i, {i j}", "none"),
        ("ppgn", "pairs"),
        ("local-fgnn", "hops"),
    ],
)
def test_plans_of_batches_of_shards_are_those_that_would_be_built(
    model, lift, tmp_path, monkeypatch
):
    data = graphs()
    lifted = lift_all(list(data.examples), lift)
    channels = {key: x.shape[1] for key, x in lifted[0].features.items()}
    channels = {key: channels[key] for key in inc.models.read_channels(model, channels)}
    folder = written(
        tmp_path / "prepared",
        data,
        preparation=RINGS._replace(lift=lift, lift_options={}),
        make_plans=lambda structure: planned(model, structure, channels),
    )
    built = planned(model, inc.collate([lifted[k] for k in ROWS]).structure, channels)
    batch = inc.collate(inc.data.load(folder.path).examples.take(ROWS)).structure
    names = set(inc.data.load(folder.path).examples.shard(1).plans)
    stored = planned(model, batch, channels)
    assert stored.keys() == built.keys()
    assert names
    for key, plan in built.items():
        assert lists(stored[key]) == lists(plan), key


@pytest.fixture
def folder(tmp_path: Path) -> ShardFolder:
    return written(
        tmp_path / "prepared",
        graphs(),
        make_plans=lambda structure: planned("rings", structure, CHANNELS),
    )


def test_a_batch_builds_no_plan_but_that_of_the_first_example(folder, monkeypatch):
    built = []

    def build(layout: Any, structure: Structure) -> Plan:
        built.append(structure.num_structures)
        return own(layout, structure)

    own = inc.engine.plan.build_plan
    monkeypatch.setattr("incidence.engine.plan.build_plan", build)
    examples = inc.data.load(folder.path).examples
    for start in (0, 4):
        batch = inc.collate(examples[start : start + 4])
        planned("rings", batch.structure, CHANNELS)
    layouts = len(cache_of(batch.structure, Plan))
    assert built == [1] * layouts


def test_batches_from_other_processes_keep_their_plans(folder, monkeypatch):
    examples = inc.data.load(folder.path).examples
    batch = inc.collate(examples.take(ROWS))
    expected = planned("rings", batch.structure, CHANNELS)
    sent = [pickle.loads(pickle.dumps(batch)) for _ in range(2)]
    built = []

    def build(layout: Any, structure: Structure) -> Plan:
        built.append(structure.num_structures)
        return own(layout, structure)

    own = inc.engine.plan.build_plan
    monkeypatch.setattr("incidence.engine.plan.build_plan", build)
    for one in sent:
        ours = planned("rings", one.structure, CHANNELS)
        assert all(lists(ours[key]) == lists(expected[key]) for key in expected)
    assert built == [1] * len(cache_of(batch.structure, Plan))
    written_text = pickle.dumps(batch)
    shutil.rmtree(folder.path)
    late = pickle.loads(written_text)
    assert late == batch


def test_batches_of_batches_have_the_stored_plans(folder):
    examples = inc.data.load(folder.path).examples
    both = inc.collate([inc.collate(examples[:3]), inc.collate(examples[5:9])])
    whole = [list(examples)[k] for k in (0, 1, 2, 5, 6, 7, 8)]
    ours = planned("rings", both.structure, CHANNELS)
    theirs = planned("rings", inc.collate(whole).structure, CHANNELS)
    assert all(lists(ours[key]) == lists(theirs[key]) for key in theirs)


def test_another_network_builds_its_plans(folder):
    batch = inc.collate(inc.data.load(folder.path).examples[:4])
    net = inc.models.make("i, {i j}", {"i": 3, "{i j}": 2}, 1)
    features = {key: batch.features[key] for key in ("i", "{i j}")}
    assert net(features, batch.structure).shape == (4, 1)


def arrays_of_plan(folder: ShardFolder, number: int) -> tuple[str, dict[str, Any]]:
    """Return the place of the plan of all tensors in a shard, and its arrays."""
    with np.load(folder.file(number)) as arrays:
        places = [key[:-7] for key in arrays if key.endswith("/values") and len(arrays[key])]
        place = places[0]
        return place, {key: arrays[key] for key in arrays if key.startswith(place)}


@pytest.mark.parametrize(
    ("key", "wrong", "match"),
    [
        ("values", lambda x: np.where(x > 0, x + 100, x), "damaged: a plan does not fit"),
        ("values", lambda x: -2 - x, "damaged: a plan does not fit"),
        ("sizes", lambda x: x + 1, "damaged: a plan does not fit"),
        ("sizes", lambda x: -x, "damaged: a plan does not fit"),
        ("kinds", lambda x: x + 100, "damaged: a plan does not fit"),
        ("ptr", lambda x: x[::-1], "damaged: a plan does not fit"),
        ("values", lambda x: x[:-30], "damaged: a plan does not fit"),
        ("form", lambda x: np.array("another"), "its plans have another form"),
    ],
)
def test_plans_that_were_changed_with_their_checksum_are_refused(folder, key, wrong, match):
    place, arrays = arrays_of_plan(folder, 2)
    change(folder, 2, {f"{place}/{key}": wrong(arrays[f"{place}/{key}"])})
    # the first example is in another shard: its plan is compared with the one that is built
    batch = inc.collate(inc.data.load(folder.path).examples[2:7])
    with pytest.raises(IncidenceError, match=match):
        planned("rings", batch.structure, CHANNELS)


def test_plans_of_another_way_of_planning_are_refused(folder):
    place, arrays = arrays_of_plan(folder, 1)
    values = arrays[f"{place}/values"].copy()
    values[: len(values) // 3] = 0
    change(folder, 1, {f"{place}/values": values})
    batch = inc.collate(inc.data.load(folder.path).examples[:3])
    with pytest.raises(IncidenceError, match="are not those that this version of the library"):
        planned("rings", batch.structure, CHANNELS)


def test_oriented_tensors_have_stored_plans(tmp_path):
    torch.manual_seed(0)
    examples = []
    for count in (4, 5, 6, 7):
        s = inc.Structure(count, {"<i j>": [list(range(count - 1)), list(range(1, count))]})
        x = {"i": torch.rand(count, 2), "<i j>": torch.rand(count - 1, 3)}
        examples.append(inc.Example(s, x, torch.rand(1)))
    layer = inc.nn.Linear("i, <i j> -> i, <i j>", {"i": 2, "<i j>": 3}, 4)
    written(tmp_path / "p", load_whole(examples), 2, PLAIN, layer.plan)
    batch = inc.collate(inc.data.load(tmp_path / "p").examples.take([3, 1, 0]))
    theirs = inc.collate([examples[k] for k in (3, 1, 0)])
    assert batch.structure._origin.stored.has(Plan, layer._products.layout)
    ours = layer(batch.features, batch.structure)
    for key, y in layer(theirs.features, theirs.structure).items():
        assert torch.equal(ours[key], y)
