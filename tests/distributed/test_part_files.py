"""Files by part: what every process has written is what it reads."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import incidence as inc
from incidence.distributed import Part, assemble, load, rows, save, split
from incidence.structure.world import World
from tests.distributed.cases import STRUCTURES, features
from tests.distributed.thread_world import run_threads


@pytest.mark.parametrize("size", [1, 3])
@pytest.mark.parametrize("name", list(STRUCTURES))
def test_a_part_is_what_was_written(name: str, size: int, tmp_path: Path) -> None:
    structure = STRUCTURES[name]()
    xs = features(structure, structure.patterns)
    key = str(structure.patterns[0])
    whole = inc.Example(structure, xs, {key: xs[key]}, is_batch=structure.num_structures > 1)
    layer = inc.nn.Linear(f"{key} -> {key}", 2, 2).double()

    def work(world: World) -> None:
        example = split(whole, world=world)
        save(example, tmp_path)
        came = load(tmp_path, world=world)
        assert came == example
        part, known = came.structure, example.structure
        assert isinstance(part, Part)
        for text in (*xs, *(f"v:{sort}" for sort in structure.counts)):
            assert torch.equal(rows(part, text), rows(known, text))
        y = layer(came.features[key], part)
        torch.testing.assert_close(y, layer(example.features[key], known), rtol=0, atol=0)

    run_threads(size, work)
    files = sorted(path.name for path in tmp_path.iterdir())
    assert files == [f"part-{k + 1}-of-{size}.npz" for k in range(size)]


def test_an_assembled_structure_is_written_by_part(tmp_path: Path) -> None:
    def work(world: World) -> None:
        edges = torch.tensor([[2 * world.rank], [2 * world.rank + 1]])
        part = assemble(4, {"{i j}": edges}, world=world)
        save(part, tmp_path)
        assert load(tmp_path, world=world) == part

    run_threads(2, work)


def test_targets_of_whole_structures_are_written(tmp_path: Path) -> None:
    structure = STRUCTURES["graph"]()

    def work(world: World) -> None:
        part = split(structure, world=world)
        for target in (None, torch.tensor([2.0])):
            save(inc.Example(part, {}, target), tmp_path)
            came = load(tmp_path, world=world).target
            assert came is target or torch.equal(came, target)

    run_threads(2, work)


def _written(folder: Path, structure: inc.Structure, size: int = 2) -> None:
    run_threads(size, lambda world: save(split(structure, world=world), folder))


def _refused(folder: Path, size: int, message: str) -> None:
    """Every process refuses the folder."""

    def work(world: World) -> None:
        with pytest.raises(inc.IncidenceError, match=message):
            load(folder, world=world)

    run_threads(size, work)


def test_folders_that_do_not_fit_are_refused_on_all_processes(tmp_path: Path) -> None:
    _refused(tmp_path, 2, r"process 0: .*part-1-of-2\.npz is missing")
    _written(tmp_path, STRUCTURES["graph"]())
    _refused(tmp_path, 3, "has the parts of 2 processes, and there are 3 now")
    (tmp_path / "part-2-of-2.npz").unlink()
    _refused(tmp_path, 2, r"process 1: .*part-2-of-2\.npz is missing: save the parts again")
    shutil.copy(tmp_path / "part-1-of-2.npz", tmp_path / "part-2-of-2.npz")
    _refused(tmp_path, 2, "it is part 1 of 2, and its name says 2 of 2")


def test_parts_of_different_structures_are_refused(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    edges = torch.tensor([[0, 1, 2], [1, 2, 3]])
    for folder, num_nodes in ((one, 4), (other, 5)):
        _written(folder, inc.Structure(num_nodes, {"{i j}": edges}))
    shutil.copy(other / "part-2-of-2.npz", one / "part-2-of-2.npz")
    _refused(one, 2, "the structure in .* must be the same on all processes")


def test_parts_of_different_splits_are_refused(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    structure = inc.Structure(4, {"{i j}": [[0, 1, 2], [1, 2, 3]]})
    for folder, parts in ((one, [0, 0, 1, 1]), (other, [1, 1, 0, 0])):
        given = torch.tensor(parts)
        run_threads(2, lambda w, p=given, f=folder: save(split(structure, parts=p, world=w), f))
    shutil.copy(other / "part-2-of-2.npz", one / "part-2-of-2.npz")
    _refused(one, 2, "the parts do not add up to one structure")


@pytest.mark.parametrize("key", ["node/0/bytes", "row/0/bytes", "held/0/bytes"])
def test_damaged_numbers_are_refused(key: str, tmp_path: Path) -> None:
    _written(tmp_path, STRUCTURES["sorts"]())
    path = tmp_path / "part-2-of-2.npz"
    with np.load(path) as archive:
        arrays: dict[str, Any] = dict(archive)
    arrays[key] = arrays[key][::-1].copy()
    np.savez(path, **arrays)
    _refused(tmp_path, 2, "process 1: .* is damaged: the numbers of its .* do not ascend")


def test_a_folder_that_cannot_be_written_is_an_error_on_all_processes(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    part_of = STRUCTURES["graph"]()

    def work(world: World) -> None:
        part = split(part_of, world=world)
        with pytest.raises(inc.IncidenceError, match=r"process 0: the folder .* cannot"):
            save(part, tmp_path / "file" / "parts")

    run_threads(2, work)


def test_a_part_is_not_written_as_a_structure(tmp_path: Path) -> None:
    def work(world: World) -> None:
        part = split(STRUCTURES["graph"](), world=world)
        for one in (part, inc.Example(part)):
            with pytest.raises(inc.IncidenceError, match=r"use inc\.distributed\.save"):
                one.save(tmp_path / "s.npz")

    run_threads(1, work)
    with pytest.raises(inc.IncidenceError, match="this takes a part"):
        save(STRUCTURES["graph"](), tmp_path)
