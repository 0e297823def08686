"""Labels of vertices, edges and faces from files, and coloured meshes."""

from __future__ import annotations

import struct

import numpy as np
import pytest
import torch

import incidence as inc
from incidence.cli import main
from incidence.data.dataset import Record
from incidence.data.mesh_labels import write_coloured
from incidence.errors import IncidenceError
from incidence.geometry.meshfiles.ply import read_ply_numbers
from incidence.train.prediction import write_mesh

POINTS = [(1, 1, 1), (1, -1, -1), (-1, 1, -1), (-1, -1, 1), (0, 0, 3)]
FACES = [(3, 1, 0), (0, 1, 2), (3, 2, 1), (0, 2, 3), (0, 3, 4)]
# the sides of the faces in the order of the file, each when it is first met
EDGES = [(1, 3), (0, 1), (0, 3), (1, 2), (0, 2), (2, 3), (3, 4), (0, 4)]


def obj(path, faces=FACES, lift=0.0):
    lines = [f"v {x} {y} {z + lift}" for x, y, z in POINTS]
    lines += [f"f {' '.join(str(k + 1) for k in face)}" for face in faces]
    path.write_text("\n".join(lines) + "\n")


def labelled(example, at):
    """The labels of entries by their nodes."""
    index, target = example.structure[at], example.target[at].tolist()
    entries = [(k,) for k in range(len(target))] if at == "i" else index.T.tolist()
    return {tuple(sorted(entry)): label for entry, label in zip(entries, target, strict=True)}


@pytest.mark.parametrize(
    ("suffix", "at", "entries"),
    [
        (".eseg", "{i j}", EDGES),
        (".seg", "{i j k}", FACES),
        (".txt", "i", [(k,) for k in range(5)]),
    ],
)
def test_labels_beside_a_mesh_belong_to_what_they_are_listed_for(suffix, at, entries, tmp_path):
    # as many vertices as faces would be unclear
    faces = FACES if at == "{i j}" else FACES[:4]
    names = [f"part {sum(entry) % 3}" for entry in entries]
    if at == "{i j k}":
        faces = FACES[:4]
        entries, names = entries[:4], names[:4]
    for number in range(4):
        obj(tmp_path / f"{number}.obj", faces, lift=number)
        (tmp_path / f"{number}{suffix}").write_text("\n".join(names) + "\n")
    data = inc.data.load(tmp_path)
    expected = {tuple(sorted(e)): name for e, name in zip(entries, names, strict=True)}
    words = {entry: data.task.names[k] for entry, k in labelled(data.examples[0], at).items()}
    last = {key: value.split()[-1] for key, value in expected.items()}
    assert words == last
    assert (data.task.at, data.reader, len(data.examples)) == (at, "mesh", 4)


def ply(path, is_binary, element):
    label = {"vertex": [0, 1, 1, 0, 2], "face": [1, 0, 1, 2, 0]}[element]
    extra = {one: ["property int label"] if one == element else [] for one in ("vertex", "face")}
    header = ["ply", f"format {'binary_little_endian' if is_binary else 'ascii'} 1.0"]
    header += ["element vertex 5", *(f"property float {axis}" for axis in "xyz"), *extra["vertex"]]
    header += ["element face 5", "property list uchar int vertex_indices", *extra["face"]]
    raw = ("\n".join([*header, "end_header"]) + "\n").encode()
    for k, point in enumerate(POINTS):
        mark = [label[k]] if element == "vertex" else []
        raw += (
            struct.pack(f"<3f{len(mark)}i", *point, *mark)
            if is_binary
            else f"{' '.join(map(str, (*point, *mark)))}\n".encode()
        )
    for k, face in enumerate(FACES):
        mark = [label[k]] if element == "face" else []
        raw += (
            struct.pack(f"<B3i{len(mark)}i", 3, *face, *mark)
            if is_binary
            else f"3 {' '.join(map(str, (*face, *mark)))}\n".encode()
        )
    path.write_bytes(raw)
    return label


@pytest.mark.parametrize("is_binary", [False, True])
@pytest.mark.parametrize("element", ["vertex", "face"])
def test_properties_of_ply_files_are_labels(element, is_binary, tmp_path):
    for number in range(3):
        label = ply(tmp_path / f"{number}.ply", is_binary, element)
    data = inc.data.load(tmp_path)
    at = {"vertex": "i", "face": "{i j k}"}[element]
    entries = [(k,) for k in range(5)] if at == "i" else FACES
    found = labelled(data.examples[0], at)
    assert found == {tuple(sorted(e)): k for e, k in zip(entries, label, strict=True)}


def test_parts_of_folders_and_labels_in_a_folder_beside_are_found(tmp_path):
    for part in ("train", "test", "seg"):
        (tmp_path / part).mkdir()
    for number, part in enumerate(["train", "train", "test"]):
        obj(tmp_path / part / f"{number}.obj")
        (tmp_path / "seg" / f"{number}.eseg").write_text("1\n2\n" * 4)
    data = inc.data.load(tmp_path)
    assert [len(rows) for rows in data.split()] == [2, 0, 1]
    assert data.augment is not None


def test_archives_of_arrays_have_labels(tmp_path):
    for number in range(3):
        np.savez(
            tmp_path / f"{number}.npz",
            vertices=np.array(POINTS, float),
            faces=np.array(FACES[:4]),
            labels=np.arange(5),
        )
    data = inc.data.load(tmp_path)
    assert data.task.at == "i"
    assert data.examples[0].target["i"].tolist() == [0, 1, 2, 3, 4]


def test_labels_that_do_not_fit_are_refused(tmp_path):
    obj(tmp_path / "a.obj")
    (tmp_path / "a.eseg").write_text("1\n2\n3\n")
    with pytest.raises(IncidenceError, match=r"has 3 labels, and a\.obj has 8 edges, 5 faces"):
        inc.data.load(tmp_path)
    (tmp_path / "a.eseg").write_text("1\n2\n" * 4)
    obj(tmp_path / "b.obj", FACES[:4])
    (tmp_path / "b.seg").write_text("1\n2\n" * 2)
    with pytest.raises(IncidenceError, match="and of others of"):
        inc.data.load(tmp_path)
    obj(tmp_path / "b.obj", [(0, 1, 2, 3), (0, 3, 4)])
    with pytest.raises(IncidenceError, match=r"has polygons, and labels belong to triangles"):
        inc.data.load(tmp_path)
    (tmp_path / "a.eseg").write_bytes(b"\xff\xfe\xfa")
    with pytest.raises(IncidenceError, match=r"a\.eseg cannot be read"):
        inc.data.load(tmp_path)


def test_a_damaged_number_of_a_ply_file_is_named():
    header = ["ply", "format ascii 1.0", "element vertex 1"]
    header += [*(f"property float {axis}" for axis in "xyz"), "property int label"]
    header += ["element face 1", "property list uchar int vertex_indices", "end_header"]
    text = "\n".join([*header, "0 0 0 a", "3 0 0 0", ""])
    with pytest.raises(IncidenceError, match="a row of `vertex` has no number `label`"):
        read_ply_numbers(text.encode(), "a.ply")


def test_a_run_predicts_a_new_mesh_and_writes_it_in_colours(tmp_path, capsys):
    (tmp_path / "data").mkdir()
    for number in range(4):
        obj(tmp_path / "data" / f"{number}.obj", lift=number)
        (tmp_path / "data" / f"{number}.eseg").write_text("a\nb\n" * 4)
    options = {"epochs": 1, "hidden": 4, "depth": 1, "out": str(tmp_path / "run")}
    inc.train.train({**options, "data": str(tmp_path / "data")})
    obj(tmp_path / "new.obj", lift=2.5)
    words = ["predict", str(tmp_path / "run"), str(tmp_path / "new.obj"), "--out"]
    assert main([*words, str(tmp_path / "new.ply")]) == 0
    assert "the coloured mesh is in" in capsys.readouterr().err
    numbers = read_ply_numbers((tmp_path / "new.ply").read_bytes(), "new.ply")
    assert set(numbers["vertex"]) == {"red", "green", "blue", "label"}
    mesh = inc.geometry.read_mesh(tmp_path / "new.ply")
    assert mesh.structure == inc.geometry.read_mesh(tmp_path / "new.obj").structure
    again = str(tmp_path / "data" / "0.obj")
    with pytest.raises(IncidenceError, match=r"shows one prediction; got 2"):
        write_mesh(tmp_path / "run", [again], [None, None], tmp_path / "x.ply")


def test_faces_have_the_colours_of_their_own_predictions_and_others_are_refused(tmp_path):
    mesh = inc.geometry.read_mesh((np.array(POINTS, float), [list(face) for face in FACES]))
    example = inc.Example(mesh.structure, {"pos=i": mesh.points.float()})
    record = Record("m", example)
    values = [[float(k), 0.5] for k in range(5)]
    write_coloured(record, "{i j k}", values, False, tmp_path / "m.ply")
    numbers = read_ply_numbers((tmp_path / "m.ply").read_bytes(), "m.ply")
    assert numbers["face"]["label"].tolist() == [0.0, 1.0, 2.0, 3.0, 4.0]
    assert numbers["face"]["red"].tolist() == sorted(numbers["face"]["red"])
    with pytest.raises(IncidenceError, match="a coloured mesh has coordinates and triangles"):
        write_coloured(
            Record("m", inc.Example(mesh.structure)), "i", [[0.0]] * 5, False, tmp_path / "m.ply"
        )
    assert torch.equal(
        inc.geometry.read_mesh(tmp_path / "m.ply").points.float(), mesh.points.float()
    )
