"""Prepared data: shards give back the examples that were written, in any order, and refuse what is
missing, damaged, or from another preparation.
"""

from __future__ import annotations

import json
import pickle
import shutil
import tracemalloc
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import incidence as inc
from incidence.data.lifts import lift_all
from incidence.data.loading import load_whole
from incidence.data.prepared import preparation_of, prepare_shard, start_folder
from incidence.data.shards import ShardedExamples, ShardFolder
from incidence.errors import IncidenceError
from incidence.structure import Example
from incidence.testing import random_structure
from tests.data.small_shards import PLAIN, RINGS, change, graphs, ring, written


@pytest.fixture
def folder(tmp_path: Path) -> ShardFolder:
    return written(tmp_path / "prepared", graphs())


@pytest.mark.parametrize("shards", [1, 3, 10])
def test_shards_give_back_the_lifted_examples_in_order(tmp_path, shards):
    data = graphs()
    written(tmp_path / "prepared", data, shards)
    loaded = inc.data.load(tmp_path / "prepared")
    assert isinstance(loaded.examples, ShardedExamples)
    assert list(loaded.examples) == lift_all(data.examples, "rings", max_size=6)
    assert loaded.task == data.task
    assert loaded.examples[-1] == loaded.examples[9]


def test_a_batch_of_any_rows_is_what_collate_makes_of_the_examples(folder):
    examples = inc.data.load(folder.path).examples
    rows = [7, 0, 3, 3, 9, 1]
    whole = list(examples)
    assert inc.collate(examples.take(rows)) == inc.collate([whole[k] for k in rows])
    assert inc.collate(examples[2:9:3]) == inc.collate(whole[2:9:3])
    assert [len(part) for part in (examples[4:], examples[4:][1:3])] == [6, 2]


@pytest.mark.parametrize(
    "patterns",
    [
        ["(i j)", "u:user m:movie"],
        ["{i ...}", "<i j k>"],
        ["near=i j", "i"],
    ],
    ids=str,
)
def test_structures_of_all_kinds_of_tensors_come_back(tmp_path, patterns):
    generator = torch.Generator().manual_seed(1)
    counts = {"node": 5, "user": 4, "movie": 3} if "u:user" in patterns[1] else 5
    examples = []
    for _ in range(6):
        s = random_structure(counts, patterns, generator=generator)
        target = {patterns[0]: torch.rand(s.num_entries(patterns[0]), 2)}
        examples.append(Example(s, {p: torch.rand(s.num_entries(p), 2) for p in patterns}, target))
    data = inc.data.load(examples)
    written(tmp_path / "prepared", data, 2, PLAIN)
    loaded = inc.data.load(tmp_path / "prepared")
    assert list(loaded.examples) == list(data.examples)
    assert inc.collate(loaded.examples) == inc.collate(list(data.examples))


def test_nodes_with_open_faces_come_back(tmp_path):
    examples = []
    for count in (1, 2, 3):
        letters = torch.arange(count)[None]
        # the members of the last entry first
        members = torch.tensor([[2, 1, 3, 0], [count - 1, 0, count // 2, 0]])
        s = inc.Structure(4, {"i {j ...}": (letters, members), "{i ...}": members})
        examples.append(Example(s, {"i": torch.rand(4, 2)}, torch.tensor([1.0 * count])))
    data = load_whole(examples)
    written(tmp_path / "prepared", data, 2, PLAIN)
    loaded = inc.data.load(tmp_path / "prepared")
    assert list(loaded.examples) == list(data.examples)
    assert inc.collate(loaded.examples) == inc.collate(list(data.examples))


def test_classes_parts_names_and_columns_come_back(tmp_path):
    data = inc.data.load("solubility")
    written(tmp_path / "prepared", data, 2, PLAIN)
    loaded = inc.data.load(tmp_path / "prepared")
    assert list(loaded.names) == list(data.names)
    assert {key: list(texts) for key, texts in loaded.columns.items()} == data.columns
    assert [loaded.names[-1], *loaded.names[3:5]] == [data.names[-1], *data.names[3:5]]
    assert loaded.reader_options == data.reader_options
    assert [part.tolist() for part in loaded.split()] == [part.tolist() for part in data.split()]
    assert str(loaded.parts()) == str(data.parts())
    assert loaded.parts().test[0] == data.parts().test[0]


def test_a_manifest_has_a_size_per_shard(tmp_path):
    def bytes_of_manifest(count: int) -> int:
        data = graphs(count)
        texts = [f"a long name of graph {k}" for k in range(count)]
        split = inc.data.Split(*(torch.arange(count)[k::3] for k in range(3)))
        data = replace(data, names=texts, columns={"note": texts[::-1]}, splits=(split,))
        written(tmp_path / str(count), data, 2, PLAIN)
        loaded = inc.data.load(tmp_path / str(count))
        assert list(loaded.columns["note"]) == texts[::-1]
        assert all(map(torch.equal, loaded.split(), split))
        return (tmp_path / str(count) / "manifest.json").stat().st_size

    assert abs(bytes_of_manifest(60) - bytes_of_manifest(6)) < 10


def test_texts_and_parts_that_do_not_fit_are_refused(tmp_path):
    data = graphs(6)
    split = inc.data.Split(*(torch.arange(6)[k::3] for k in range(3)))
    data = replace(data, names=list("abcdef"), splits=(split,))
    folder = written(tmp_path / "prepared", data, 2, PLAIN)
    again = shutil.copytree(folder.path, tmp_path / "again")
    change(folder, 1, {"text/0/ends": np.array([0, 2, 1, 3])})
    with pytest.raises(IncidenceError, match="is damaged: text/0 is not for 3 examples"):
        inc.data.load(folder.path).names[0]
    change(folder, 1, {"text/0/ends": np.arange(4), "text/0/bytes": np.full(3, 255, np.uint8)})
    with pytest.raises(IncidenceError, match="is damaged: it lacks texts of its examples"):
        list(inc.data.load(folder.path).names)
    other = replace(data, splits=(inc.data.Split(*split[::-1]),))
    written(tmp_path / "other", other, 2, PLAIN)
    shutil.copy(tmp_path / "other" / "splits.npz", again)
    with pytest.raises(IncidenceError, match="it has other rows than the manifest says"):
        inc.data.load(again)
    with pytest.raises(IncidenceError, match="was begun with another parts"):
        start_folder(folder.path, other, PLAIN, 2)
    with pytest.raises(IncidenceError, match="was begun with another digest of names and columns"):
        start_folder(folder.path, replace(data, names=list("abcdeg")), PLAIN, 2)


def test_parts_that_are_drawn_are_those_of_the_data_itself(tmp_path):
    data = load_whole([ring(4, k % 2) for k in range(40)])
    written(tmp_path / "prepared", data)
    ours = inc.data.load(tmp_path / "prepared", validation=0.2, seed=3)
    theirs = inc.data.load(data, validation=0.2, seed=3)
    assert all(map(torch.equal, ours.split(), theirs.split()))


def test_a_shard_can_be_written_again_and_gives_the_same_bytes(folder):
    before = folder.file(2).read_bytes()
    prepare_shard(folder, graphs(), RINGS, 2)
    assert len(folder.file(2).read_bytes()) == len(before)
    assert Example.load(folder.file(2)) == inc.collate(inc.data.load(folder.path).examples[3:6])


def test_a_shard_that_is_stopped_halfway_leaves_the_former_one(folder, monkeypatch):
    before = {file.name: file.read_bytes() for file in folder.path.iterdir()}

    def stop(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(np, "savez", stop)
    with pytest.raises(KeyboardInterrupt):
        prepare_shard(folder, graphs(), RINGS, 2)
    assert {file.name: file.read_bytes() for file in folder.path.iterdir()} == before


def test_loaders_of_torch_read_shards(folder):
    examples = inc.data.load(folder.path)
    batches = list(inc.data.DataLoader(examples, batch_size=4))
    assert batches[1] == inc.collate(list(examples.examples)[4:8])
    again = pickle.loads(pickle.dumps(examples.examples))
    assert again[3] == examples.examples[3]


def test_memory_does_not_grow_with_the_number_of_examples(tmp_path):
    wide = [
        one.replace(features={**one.features, "i": torch.rand(one.structure.num_nodes, 20_000)})
        for one in graphs(40).examples
    ]
    written(tmp_path / "prepared", load_whole(wide), 5, PLAIN)
    examples = inc.data.load(tmp_path / "prepared").examples
    tracemalloc.start()
    for start in range(0, 40, 2):
        inc.collate(examples[start : start + 2])
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 0.25 * sum(file.stat().st_size for file in tmp_path.rglob("*.npz"))


def test_a_missing_shard_is_named_with_the_option_that_writes_it(folder):
    folder.file(2).unlink()
    with pytest.raises(
        IncidenceError, match=r"shard 2 of 3 in .* is missing. Write shard 2/3 again"
    ):
        inc.data.load(folder.path)


def test_a_shard_that_was_cut_short_is_refused_at_once(folder):
    file = folder.file(1)
    file.write_bytes(file.read_bytes()[:-100])
    with pytest.raises(IncidenceError, match=r"is damaged: it has .* bytes, and .* were written"):
        inc.data.load(folder.path)


def test_a_shard_with_a_changed_byte_is_refused_when_it_is_first_used(folder):
    file = folder.file(1)
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)
    examples = load_whole(folder.path).examples
    assert examples[5] is not None  # of another shard
    with pytest.raises(IncidenceError, match=r"damaged: its checksum .* prepare it again"):
        examples[0]


def test_a_shard_of_another_preparation_is_refused(folder, tmp_path):
    other = written(tmp_path / "other", graphs(), 3, RINGS._replace(lift_options={"max_size": 5}))
    for suffix in (".npz", ".json"):
        other.file(2).with_suffix(suffix).replace(folder.file(2).with_suffix(suffix))
    with pytest.raises(IncidenceError, match=r"prepared from other data, with other options"):
        inc.data.load(folder.path)


def test_shards_with_other_tensors_make_no_batch(folder):
    data = graphs()
    prepare_shard(folder, data, PLAIN, 2)
    examples = inc.data.load(folder.path).examples
    with pytest.raises(IncidenceError, match="has other tensors than"):
        inc.collate(examples)


def test_nodes_that_an_example_has_not_are_refused(folder, monkeypatch):
    data = graphs()
    part = inc.structure.storage.arrays_of

    def wrong(structure: Any) -> dict[str, Any]:
        arrays = part(structure)
        arrays["tensor/0/0"] = arrays["tensor/0/0"] + 100
        return arrays

    monkeypatch.setattr("incidence.structure.example.arrays_of", wrong)
    prepare_shard(folder, data, RINGS, 1)
    with pytest.raises(IncidenceError, match="has nodes that its examples have not"):
        inc.data.load(folder.path).examples[0]


@pytest.mark.parametrize(
    ("arrays", "match"),
    [
        ({"tensor/0/ptr": np.array([0, -3, 2, 9])}, "an example ends before it starts"),
        ({"feature/0/ptr": np.array([0, 1, 2, 3])}, "is damaged: features"),
        ({"nodes/node": np.array([0, {}], dtype=object)}, "has Python objects"),
        ({"feature/0/type": np.array("load")}, "is damaged: "),
    ],
    ids=lambda value: next(iter(value), "") if isinstance(value, dict) else "",
)
def test_arrays_that_were_changed_with_their_checksum_are_refused(folder, arrays, match):
    change(folder, 1, arrays)
    with pytest.raises(IncidenceError, match=match):
        inc.collate(load_whole(folder.path).examples[:3])


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"version": "2"}, r"begun with another version of the library: '1', and now"),
        ({"lift": "none", "lift_options": {}}, "begun with another lift"),
        ({"lift_options": {"max_size": 5}}, "begun with another options of the lift"),
        ({"options": {"target": "y"}}, "begun with another options"),
    ],
    ids=str,
)
def test_shards_of_other_options_do_not_go_into_one_folder(folder, changes, match):
    with pytest.raises(IncidenceError, match=match):
        start_folder(folder.path, graphs(), RINGS._replace(**changes), 3)


def test_shards_of_other_data_do_not_go_into_one_folder(folder):
    data = graphs()
    examples = [one.replace(target=one.target + 1) for one in data.examples]
    with pytest.raises(IncidenceError, match="begun with another targets"):
        start_folder(folder.path, replace(data, examples=examples), RINGS, 3)
    with pytest.raises(
        IncidenceError, match="begun with another number of shards: 3, and now it is 4"
    ):
        start_folder(folder.path, data, RINGS, 4)


def test_a_folder_with_other_files_is_refused(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(IncidenceError, match=r"has other files: give .* a new folder"):
        start_folder(tmp_path, graphs(), RINGS, 3)


def test_one_structure_is_no_data_for_shards(tmp_path):
    nodes = inc.data.load(ring(200, {"i": torch.arange(200) % 2}))
    with pytest.raises(IncidenceError, match="is one structure, and shards are for many"):
        start_folder(tmp_path / "prepared", nodes, RINGS, 1)


def test_there_are_not_more_shards_than_examples(tmp_path):
    with pytest.raises(IncidenceError, match="10 examples, so there are 1 to 10 shards; got 11"):
        start_folder(tmp_path / "prepared", graphs(), RINGS, 11)


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"format": 9}, "has format 9, and this version of the library reads format 3"),
        ({"shards": None}, "is damaged: .* Prepare the data again"),
        ({"task": {}}, "is damaged: .* Prepare the data again"),
    ],
    ids=str,
)
def test_a_manifest_of_another_format_or_damaged_is_refused(folder, change, match):
    manifest = folder.path / "manifest.json"
    manifest.write_text(json.dumps({**json.loads(manifest.read_text()), **change}))
    with pytest.raises(IncidenceError, match=match):
        inc.data.load(folder.path)


def test_options_of_reading_are_those_of_the_preparation(folder):
    with pytest.raises(IncidenceError, match="was prepared with target = None, and now it is 'y'"):
        inc.data.load(folder.path, target="y")


def test_only_prepared_data_has_a_preparation(folder):
    assert preparation_of(graphs()) is None
    assert preparation_of(inc.data.load(folder.path)) == RINGS
