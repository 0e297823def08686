"""The benchmark of ratings reads published arrays as the tables that people have."""

import json

import numpy as np
import pytest

from benchmarks import ratings
from incidence.data import load


@pytest.fixture
def folder(tmp_path):
    every = [(u, m) for u in range(8) for m in range(6) if (u + m) % 3]
    pairs = np.array(every, dtype=np.int16)
    values = np.array([(u * m) % 5 + 1 for u, m in every], dtype=np.float32)
    edges = np.array([[0, 1], [1, 0], [2, 5], [5, 2]], dtype=np.int16)
    parts = {
        "train": pairs[:-4],
        "test": pairs[-4:],
        "train_rating": values[:-4],
        "test_rating": values[-4:],
    }
    np.savez(tmp_path / "douban.npz", shape=np.array([8, 6]), W_users=edges, **parts)
    return tmp_path


def test_arrays_of_ratings_become_tables_with_the_same_parts(folder, tmp_path):
    path, *others = ratings.write_tables("douban", folder, tmp_path / "tables")
    data = load(path, "rating", tables=others, validation=0)
    assert [len(part) for part in data.split()] == [28, 0, 4]
    assert data.examples[0].structure["{a:user c:user}"].shape == (2, 2)
    named = {(u, m) for u, m in zip(data.columns["user"], data.columns["movie"], strict=True)}
    with np.load(folder / "douban.npz") as file:
        assert named == {(f"u{u}", f"m{m}") for part in ("train", "test") for u, m in file[part]}


def test_the_benchmark_prints_an_object_for_each_set(folder, tmp_path, capsys):
    words = [
        "douban",
        "--folder",
        str(folder),
        "--seeds",
        "1",
        "--out",
        str(tmp_path / "out"),
        "--set",
        "epochs=1",
        "hidden=4",
        "depth=1",
    ]
    assert ratings.main(words) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["set"], told["part"], len(told["values"]), told["published"]["IGMC"]) == (
        "douban",
        "test",
        1,
        0.721,
    )
    with pytest.raises(SystemExit, match="2"):
        ratings.main(["nothing"])
