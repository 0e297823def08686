"""Labels of vertices, edges or faces of meshes, from files; and coloured meshes.

Labels stand in a text beside a mesh, in properties of a PLY file, or in an archive of arrays. They
are in the order of the file; edges are numbered as MeshCNN does: face after face, and in a face its
sides (0, 1), (1, 2), ..., each edge when it is first met.
"""

from __future__ import annotations

import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from incidence.data.columns import PARTS, as_classes, is_missing
from incidence.data.dataset import METRICS, DataSet, Record
from incidence.data.dataset_builder import DataRequest
from incidence.data.meshes import augment, examples_of
from incidence.data.splitting import splits_of
from incidence.errors import IncidenceError
from incidence.files import whole_file
from incidence.geometry.meshes import Mesh, read_mesh
from incidence.geometry.meshfiles.ply import read_ply_numbers
from incidence.structure.storage import read_archive

__all__ = ["find_labelled", "from_labelled_meshes", "write_coloured"]

_MESHES = (".obj", ".off", ".ply", ".stl")
_LABELS = (".eseg", ".seg", ".labels", ".label", ".lab", ".txt")
_BESIDE = ("seg", "labels", "gt")  # folders beside train and test
_NAMES = ("label", "labels", "class", "segment", "segmentation", "seg", "part", "category")
_AT = {"vertices": "i", "edges": "{i j}", "faces": "{i j k}"}
_COLOURS = (
    (78, 121, 167), (242, 142, 43), (89, 161, 79), (225, 87, 89), (118, 183, 178),
    (237, 201, 72), (176, 122, 161), (255, 157, 167), (156, 117, 95), (186, 176, 172),
)  # fmt: skip
_LOW, _HIGH = np.array([68.0, 1.0, 84.0]), np.array([253.0, 231.0, 37.0])  # of numbers


class _Labelled(NamedTuple):
    """A mesh with the file of its labels, which may be the mesh itself, and its part."""

    mesh: Path
    labels: Path
    part: int | None


def find_labelled(folder: Path) -> list[_Labelled]:
    """Return the meshes of a folder, or of its parts, that have labels in files."""
    if not folder.is_dir():
        return []
    places: list[tuple[Path, int | None]] = [(folder, None)]
    for below in sorted(folder.iterdir()):
        if below.is_dir() and below.name.lower() in PARTS:
            places.append((below, PARTS[below.name.lower()]))
    found = []
    for place, part in places:
        for file in sorted(place.iterdir()):
            if file.suffix.lower() in (*_MESHES, ".npz") and file.is_file():
                labels = _labels_of(file, folder)
                if labels is not None:
                    found.append(_Labelled(file, labels, part))
    return found


def _labels_of(mesh: Path, folder: Path) -> Path | None:
    """Return the file with the labels of a mesh, if there is one."""
    for place in (mesh.parent, *(folder / name for name in _BESIDE)):
        for suffix in _LABELS:
            if (place / (mesh.stem + suffix)).is_file():
                return place / (mesh.stem + suffix)
    if mesh.suffix.lower() == ".npz":
        names = _array_names(mesh)
        has_all = {"vertices", "faces"} <= names and not names.isdisjoint(_NAMES)
        return mesh if has_all else None
    if mesh.suffix.lower() == ".ply":
        # A PLY file counts as labelled only if one of its properties has a usual name.
        numbers = read_ply_numbers(mesh.read_bytes(), str(mesh))
        if any(name in _NAMES for columns in numbers.values() for name in columns):
            return mesh
    return None


def _array_names(path: Path) -> set[str]:
    """Return the names of the arrays in an archive; none if it is damaged."""
    try:
        with zipfile.ZipFile(path) as archive:
            return {name.removesuffix(".npy") for name in archive.namelist()}
    except (OSError, zipfile.BadZipFile):  # whoever reads it says what is wrong
        return set()


def from_labelled_meshes(meshes: Sequence[_Labelled], request: DataRequest) -> DataSet:
    """Return the data set of meshes whose vertices, edges or faces have labels.

    Raises:
        IncidenceError: Labels do not fit their mesh, or belong to different things.
    """
    at, texts, loaded, names = set[str](), list[list[str]](), list[Mesh](), list[str]()
    for one in meshes:
        mesh = _mesh_of(one.mesh)
        what, values = _read_labels(one, mesh)
        at.add(what)
        texts.append(_in_order(mesh, what, values))
        loaded.append(mesh)
        names.append(one.mesh.name)
    if len(at) > 1:
        raise IncidenceError(
            f"{request.source}: the labels of some meshes are of {' and of others of '.join(at)}:"
            " give all of one kind."
        )
    [what] = at
    task, classes = as_classes(
        [None if is_missing(text) else text for some in texts for text in some]
    )
    targets = classes.split([len(some) for some in texts])
    pattern = _AT[what]
    examples = examples_of(loaded, [{pattern: target} for target in targets])
    parts = [-1 if one.part is None else one.part for one in meshes]
    has_parts = any(part >= 0 for part in parts)
    return DataSet(
        request.name,
        examples,
        replace(task, at=pattern, target="label"),
        splits_of(parts) if has_parts else (),
        reader="mesh",
        about=f"Your own data: {len(examples)} meshes with labels of {what}.",
        metric=METRICS[task.kind],
        augment=_augment,
        names=names,
    )


def _augment(examples: list[Any], generator: torch.Generator) -> list[Any]:
    return augment(examples, generator)


def _mesh_of(path: Path) -> Mesh:
    if path.suffix.lower() == ".npz":
        arrays = _arrays(path)
        mesh = read_mesh((arrays["vertices"], arrays["faces"].tolist()))
    else:
        mesh = read_mesh(path)
    if mesh.face_pattern != "{i j k}":
        raise IncidenceError(
            f"{path} has polygons, and labels belong to triangles here: cut the polygons into"
            " triangles."
        )
    return mesh


def _arrays(path: Path) -> dict[str, Any]:
    def read(arrays: Any) -> dict[str, Any]:
        return {name: arrays[name] for name in arrays}

    return read_archive(path, "a mesh in arrays of numbers", read)


def _read_labels(one: _Labelled, mesh: Mesh) -> tuple[str, list[str]]:
    """Return what has labels, and the labels in the order of the file."""
    if one.labels.suffix.lower() == ".ply":
        numbers = read_ply_numbers(one.labels.read_bytes(), str(one.labels))
        for element, what in (("face", "faces"), ("vertex", "vertices")):
            name = next((name for name in _NAMES if name in numbers[element]), None)
            if name is not None:
                return what, [f"{value:g}" for value in numbers[element][name]]
    if one.labels.suffix.lower() == ".npz":
        arrays = _arrays(one.labels)
        values = next(arrays[name] for name in _NAMES if name in arrays)
        return _kind(one, mesh, [str(value) for value in values.reshape(-1).tolist()])
    try:
        text = one.labels.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise IncidenceError(f"{one.labels} cannot be read: {error}.") from None
    lines = [line.split("#")[0].split() for line in text.splitlines() if line.split("#")[0].strip()]
    # All labels in one line, or a line for each that may begin with the number of the element.
    words = lines[0] if len(lines) == 1 else [line[-1] for line in lines]
    return _kind(one, mesh, words)


def _kind(one: _Labelled, mesh: Mesh, labels: list[str]) -> tuple[str, list[str]]:
    """Return what has labels, by their number."""
    structure = mesh.structure
    counts = {
        "edges": structure.num_entries("{i j}"),
        "faces": len(mesh.faces),
        "vertices": len(mesh.points),
    }
    # Where two numbers are equal, the first counts: edges, then faces, then vertices.
    fitting = [what for what, count in counts.items() if count == len(labels)]
    if one.labels.suffix.lower() == ".eseg":  # MeshCNN's suffix for edges
        fitting = [what for what in fitting if what == "edges"]
    if not fitting:
        sizes = ", ".join(f"{count} {what}" for what, count in counts.items())
        raise IncidenceError(
            f"{one.labels} has {len(labels)} labels, and {one.mesh.name} has {sizes}: there must be"
            " one for each."
        )
    return fitting[0], labels


def _in_order(mesh: Mesh, what: str, labels: Sequence[str]) -> list[str]:
    """Return labels in the order of the entries of the structure."""
    if what == "vertices":
        return list(labels)
    rows = mesh.face_rows if what == "faces" else _edge_rows(mesh)
    ordered = [""] * len(labels)
    for row, label in zip(rows.tolist(), labels, strict=True):
        ordered[row] = label
    return ordered


def _edge_rows(mesh: Mesh) -> Tensor:
    """Return the row in the structure of every edge, in the order in which faces meet them."""
    corners = mesh.faces.nodes.view(-1, 3)
    # (3 faces, 2)
    pairs = torch.stack([corners, corners.roll(-1, 1)], 2).reshape(-1, 2).sort(1).values
    rows = mesh.structure.locate("{i j}", pairs.T.contiguous())
    # each edge when first met
    return torch.tensor(list(dict.fromkeys(rows.tolist())), dtype=torch.long)


def write_coloured(
    record: Record, at: str, values: Sequence[Sequence[float]], is_class: bool, path: Path
) -> None:
    """Write a mesh as a PLY file whose colours show predictions, completely or not at all.

    Faces and vertices have a colour and the number of the class, or the number that is predicted.
    Values of edges are shown by their means around every vertex.

    Args:
        record: The mesh.
        at: What is predicted: `i`, `{i j}` or `{i j k}`.
        values: A row of numbers for each entry.
        is_class: Whether they are probabilities of classes.
        path: The file.

    Raises:
        IncidenceError: The example is no mesh with coordinates, or other entries are predicted.
    """
    example = record.example
    structure, points = example.structure, example.features.get("pos=i")
    has_faces = "{i j k}" in map(str, structure.patterns)
    if points is None or not has_faces or at not in _AT.values():
        raise IncidenceError(
            f"{record.name}: a coloured mesh has coordinates and triangles, and predictions of"
            " vertices, edges or faces. Write a table instead: `--out predicted.csv`."
        )
    rows = torch.tensor(values, dtype=torch.float64)
    if at == "{i j}":
        edges = structure["{i j}"]
        # Only faces and vertices have colours, so each vertex gets the mean of its edges.
        sums = rows.new_zeros(len(points), rows.shape[1])
        for ends in edges:
            sums.index_add_(0, ends, rows)
        count = torch.bincount(edges.reshape(-1), minlength=len(points)).clamp(min=1)
        rows = sums / count[:, None]
    shown = rows.argmax(1).double() if is_class else rows[:, 0]
    colours = _colours(shown.numpy(), is_class)
    labels = shown.tolist()
    is_of_faces = at == "{i j k}"
    own = [
        f"{red} {green} {blue} {label:g}"
        for (red, green, blue), label in zip(colours, labels, strict=True)
    ]
    vertices = [" ".join(f"{x:.9g}" for x in (*point, 0.0)[:3]) for point in points.tolist()]
    faces = [f"3 {' '.join(map(str, face))}" for face in structure["{i j k}"].T.tolist()]
    if is_of_faces:
        faces = [f"{face} {colour}" for face, colour in zip(faces, own, strict=True)]
    else:
        vertices = [f"{point} {colour}" for point, colour in zip(vertices, own, strict=True)]
    text = "\n".join([*_ply_header(len(vertices), len(faces), is_of_faces), *vertices, *faces, ""])
    with whole_file(path) as file:
        file.write(text.encode())


def _ply_header(num_vertices: int, num_faces: int, is_of_faces: bool) -> Iterator[str]:
    colours = [f"property uchar {name}" for name in ("red", "green", "blue")]
    colours.append("property float label")
    yield from ("ply", "format ascii 1.0", f"element vertex {num_vertices}")
    yield from (f"property float {axis}" for axis in "xyz")
    yield from () if is_of_faces else colours
    yield f"element face {num_faces}"
    yield "property list uchar int vertex_indices"
    yield from colours if is_of_faces else ()
    yield "end_header"


def _colours(values: np.ndarray[Any, Any], is_class: bool) -> list[tuple[int, int, int]]:
    """Return a colour for every value: of a palette for classes, between two for numbers."""
    if is_class:
        return [_COLOURS[int(value) % len(_COLOURS)] for value in values]
    low, high = (float(values.min()), float(values.max())) if len(values) else (0.0, 1.0)
    shares = (values - low) / (high - low or 1.0)  # (values,), from 0 to 1
    table = np.rint(_LOW + shares[:, None] * (_HIGH - _LOW)).astype(int)
    return [(int(red), int(green), int(blue)) for red, green, blue in table]
