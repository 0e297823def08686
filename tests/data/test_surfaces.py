"""The named data set `surfaces`: targets, parts and finer triangulations."""

import gzip
from collections import Counter

import numpy as np
import pytest
import torch

import incidence as inc
from incidence import IncidenceError
from incidence.data.surfaces import TARGETS, TYPES
from incidence.geometry import faces, hodge
from incidence.geometry.closed_surfaces import canonical_form, closed_surfaces
from tests.data_folder import data_folder


@pytest.fixture(scope="module")
def small():
    return inc.data.load("surfaces", "betti", max_vertices=7)


@pytest.fixture
def no_folder(monkeypatch):
    monkeypatch.delenv("INCIDENCE_DATA", raising=False)


def labels():
    with np.load(data_folder("surfaces") / "labels.npz") as arrays:
        return {key: arrays[key] for key in arrays}


def lines():
    return gzip.decompress((data_folder("surfaces") / "surfaces10.txt.gz").read_bytes()).split()


def triangles_of(line):
    return [tuple(number - 48 for number in line[k : k + 3]) for k in range(0, len(line), 3)]


def test_small_surfaces_need_no_files(small, no_folder):
    assert len(small.examples) == 14
    again = inc.data.load("surfaces", max_vertices=5)
    assert [example.structure.counts["node"] for example in again.examples] == [4, 5]


def test_betti_numbers_are_those_of_boundary_matrices(small):
    for example in small.examples:
        betti = [hodge(example.structure, rank).betti for rank in range(3)]
        assert example.target.tolist() == betti


@pytest.mark.parametrize("target", TARGETS)
def test_targets_agree_with_each_other(small, target):
    data = inc.data.load("surfaces", target, max_vertices=7)
    assert len(data.task.names) == {"type": 11, "name": 5, "b1": 7, "betti": 3}.get(target, 2)
    for example, known in zip(data.examples, small.examples, strict=True):
        surface = faces(example.structure)
        _, b1, b2 = known.target.tolist()
        assert surface.is_orientable == (b2 == 1)
        expected = {"orientable": b2, "b2": b2, "b1": b1, "betti": known.target.tolist()}
        if target in expected:
            assert example.target.tolist() == expected[target]
        else:
            name = {(0, 1): "S^2", (2, 1): "T^2", (0, 0): "RP^2", (1, 0): "Klein bottle"}
            assert data.task.names[int(example.target)] == name[b1, b2]


def test_vertices_are_numbered_at_random(small):
    other = inc.data.load("surfaces", "betti", max_vertices=7, seed=1)
    pairs = list(zip(small.examples, other.examples, strict=True))
    index = [(a.structure["{i j k}"].T, b.structure["{i j k}"].T) for a, b in pairs]
    assert any(a.tolist() != b.tolist() for a, b in index)
    for a, b in index:
        assert canonical_form(a.tolist()) == canonical_form(b.tolist())


def test_those_that_are_enumerated_are_those_of_the_files():
    few = (labels()["n_vertices"] <= 8).nonzero()[0]
    whole = lines()
    known = Counter(canonical_form(triangles_of(whole[k])) for k in few)
    built = Counter(tuple(one) for n in range(4, 9) for one in closed_surfaces(n))
    assert built == known
    assert sum(built.values()) == 57


def test_labels_and_parts_of_the_files_are_kept():
    folder, known = data_folder("surfaces"), labels()
    assert tuple(known["type_names"].tolist()) == TYPES
    data = inc.data.load("surfaces", folder=folder.parent)
    assert [len(part) for part in data.split(0)] == [25884, 8627, 8627]
    assert len(data.splits) == 5
    targets = torch.stack([example.target for example in data.examples])
    assert targets.tolist() == known["type"].tolist()
    sizes = [example.structure.counts["node"] for example in data.examples]
    assert sizes == known["n_vertices"].tolist()
    with np.load(folder / "splits.npz") as arrays:
        for split, part in zip(data.splits, arrays["split"], strict=True):
            assert [rows.tolist() for rows in split] == [
                (part == k).nonzero()[0].tolist() for k in range(3)
            ]


def test_fewer_vertices_of_the_files_have_the_parts_of_the_files():
    folder, known = data_folder("surfaces"), labels()
    data = inc.data.load("surfaces", "b1", folder=folder, max_vertices=9)
    assert len(data.examples) == 712
    assert [int(e.target) for e in data.examples] == known["b1"][known["n_vertices"] < 10].tolist()
    assert sum(map(len, data.split(3))) == 712


@pytest.mark.parametrize(
    "refined",
    [
        "edge",
        *(pytest.param(one, marks=pytest.mark.slow) for one in ("barycentric", "stellar")),
        pytest.param("graded20", marks=pytest.mark.slow),
    ],
)
def test_the_test_part_may_be_refined(refined):
    folder, known = data_folder("surfaces"), labels()
    data = inc.data.load("surfaces", "orientable", folder=folder, refined=refined)
    assert [len(part) for part in data.split(0)] == [25884, 8627, 500]
    test = data.parts(0).test
    with np.load(folder / "refine500.npz") as arrays:
        chosen = arrays["index"]
    assert [int(e.target) for e in test] == known["orientable"][chosen].tolist()
    nodes = {
        "barycentric": sum(known[f"n_{part}"].astype(int) for part in ("vertices", "edges")),
        "stellar": known["n_vertices"].astype(int),
        "edge": known["n_vertices"].astype(int) + known["n_edges"],
    }
    if refined in ("barycentric", "stellar"):
        nodes[refined] = nodes[refined] + known["n_triangles"]
    expected = nodes[refined][chosen].tolist() if refined in nodes else [20] * 500
    assert [e.structure.counts["node"] for e in test] == expected


@pytest.mark.parametrize("how", ["barycentric", "stellar"])
def test_refinements_of_the_files_are_those_of_subdivide(how):
    folder = data_folder("surfaces")
    with np.load(folder / "refine500.npz") as arrays:
        chosen, ptr = arrays["index"], arrays[f"{how}_ptr"]
        triangles = arrays[f"{how}_triangles"]
    whole = lines()
    for k in (0, 120, 250):
        own = inc.geometry.simplicial_complex(triangles_of(whole[chosen[k]]))
        finer = inc.geometry.subdivide(own, how)["{i j k}"].T.tolist()
        theirs = [tuple(row) for row in triangles[ptr[k] : ptr[k + 1]].tolist()]
        assert canonical_form(finer) == canonical_form(theirs)


@pytest.mark.slow
def test_two_rounds_are_one_and_one_more():
    folder = data_folder("surfaces")
    once, twice = (
        inc.data.load("surfaces", folder=folder, refined="stellar", rounds=rounds).examples[-1]
        for rounds in (1, 2)
    )
    finer = inc.geometry.subdivide(once.structure, "stellar")
    assert twice.structure.counts == finer.counts
    assert twice.target == once.target


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"target": "x"}, "the targets of 'surfaces' are type, name, orientable, betti, b1, b2"),
        ({"max_vertices": 3}, "max_vertices"),
        ({"max_vertices": 8, "refined": "edge"}, "leave out max_vertices, or use inc.geometry"),
        ({"refined": "twice"}, "refined is one of none, barycentric, stellar, graded20"),
        ({}, r"read from files: .* set INCIDENCE_DATA. .* need no files: `max_vertices=8`"),
        ({"folder": "nowhere"}, r"needs the file .*surfaces10.txt.gz, which is not there"),
    ],
)
def test_mistakes_are_refused(no_folder, options, message):
    with pytest.raises(IncidenceError, match=message):
        inc.data.load("surfaces", **options)


def test_graded_triangulations_are_not_refined_again():
    with pytest.raises(IncidenceError, match="'graded20' is refined once"):
        inc.data.load("surfaces", folder=data_folder("surfaces"), refined="graded20", rounds=2)


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (b"01201", "three digits for each triangle"),
        (b"01x", "three digits for each triangle"),
        (None, "damaged"),
    ],
)
def test_damaged_files_are_told(tmp_path, lines, message):
    packed = b"not packed" if lines is None else gzip.compress(lines)
    (tmp_path / "surfaces10.txt.gz").write_bytes(packed)
    with pytest.raises(IncidenceError, match=message):
        inc.data.load("surfaces", folder=tmp_path)


def test_files_that_do_not_fit_together_are_told(tmp_path):
    (tmp_path / "surfaces10.txt.gz").write_bytes(gzip.compress(b"012013023123\n"))
    with pytest.raises(IncidenceError, match=r"splits.npz is missing or damaged"):
        inc.data.load("surfaces", folder=tmp_path)
    np.savez(tmp_path / "splits.npz", split=np.zeros((5, 2), np.uint8))
    with pytest.raises(IncidenceError, match="it is not for 1 surfaces"):
        inc.data.load("surfaces", folder=tmp_path)
    np.savez(tmp_path / "splits.npz", split=np.zeros((5, 1), np.uint8))
    arrays = {"index": [0], "stellar_ptr": [0, 5], "stellar_triangles": np.zeros((4, 3), np.uint8)}
    np.savez(tmp_path / "refine500.npz", **arrays)
    with pytest.raises(IncidenceError, match="stellar has other numbers of triangles"):
        inc.data.load("surfaces", folder=tmp_path, refined="stellar")
