"""trimesh: triangle meshes."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import torch
from torch import Tensor

from incidence.algebra.pattern import Pattern
from incidence.errors import IncidenceError, need
from incidence.geometry.convert.exchange import as_array, assert_held, by_meaning, single
from incidence.structure.example import Example
from incidence.structure.structure import Structure

__all__ = ["from_trimesh", "to_trimesh"]


def from_trimesh(mesh: Any) -> Example:
    r"""Reads a mesh: `{i j k}` for its faces, in their order and winding, and `{i j}` for their edges, in the preferred order.

    The vertices are the features of `pos=i`; attributes called `features` of vertices and of faces are those of `i` and `{i j k}`.

    Raises:
        IncidenceError: A face has a vertex twice, or two faces have the same vertices.

    Example:
        >>> import trimesh
        >>> from_trimesh(trimesh.creation.icosahedron())
        Example(Structure(num_nodes=12, '{i j}': 30 entries, '{i j k}': 20 entries), features={'pos=i': [12, 3]}, target=None)
    """
    trimesh = need("trimesh", "from_trimesh", "mesh")
    if not isinstance(mesh, trimesh.Trimesh):
        raise IncidenceError(f"from_trimesh takes a Trimesh; got {type(mesh).__name__}. Of a scene, take scene.to_mesh().")
    faces = torch.from_numpy(np.array(mesh.faces, dtype=np.int64)).view(-1, 3)
    _assert_proper(faces)
    index = {"{i j}": _edges(faces, len(mesh.vertices)), "{i j k}": faces.T}
    # trimesh has coordinates in double precision; to_trimesh leaves word of another.
    features = {"pos=i": torch.from_numpy(np.array(mesh.vertices, dtype=mesh.metadata.get("pos_dtype", np.float64))).view(-1, 3)}
    for text, attributes in (("i", mesh.vertex_attributes), ("{i j k}", mesh.face_attributes)):
        if "features" in attributes:
            features[text] = torch.from_numpy(np.array(attributes["features"]))
    return Example(Structure(len(mesh.vertices), index), features)


def _assert_proper(faces: Tensor) -> None:
    ordered = faces.sort(dim=1)[0]
    flat = (ordered[:, 1:] == ordered[:, :-1]).any(1)
    if bool(flat.any()):
        bad = int(flat.nonzero()[0])
        remedy = "Drop such faces with mesh.update_faces(mesh.nondegenerate_faces())"
        raise IncidenceError(f"from_trimesh: face {bad} is {faces[bad].tolist()}, with a vertex twice. {remedy}.")
    _, number, times = torch.unique(ordered, dim=0, return_inverse=True, return_counts=True)
    again = times[number] > 1
    if bool(again.any()):
        one = int(again.nonzero()[0])
        other = int((number == number[one]).nonzero()[1])
        remedy = "Keep one of each with mesh.update_faces(mesh.unique_faces())"
        raise IncidenceError(f"from_trimesh: faces {one} and {other} have the same vertices {faces[one].tolist()}. {remedy}.")


def _edges(faces: Tensor, num_nodes: int) -> Tensor:
    """The edges of triangles, each once, in the preferred order."""
    sides = torch.cat([faces[:, list(pair)] for pair in combinations(range(3), 2)]).sort(dim=1)[0]
    codes = torch.unique(sides[:, 0] * num_nodes + sides[:, 1])
    return torch.stack([codes // max(num_nodes, 1), codes % max(num_nodes, 1)])


def to_trimesh(example: Example | Structure) -> Any:
    r"""Writes the triangles `{i j k}` as a mesh, with the features of `pos=i` as vertices.

    Other features of `i` and `{i j k}` become attributes called `features`. The edges must be those of the triangles, as a mesh has no
    others.

    Raises:
        IncidenceError: There are no coordinates, or a mesh cannot hold what there is.

    Example:
        >>> s = Structure(3, {"{i j}": [[0, 0, 1], [1, 2, 2]], "{i j k}": [[0], [1], [2]]})
        >>> to_trimesh(Example(s, {"pos=i": torch.eye(3)})).faces.tolist()
        [[0, 1, 2]]
    """
    trimesh = need("trimesh", "to_trimesh", "mesh")
    example = single(example, "to_trimesh")
    structure, features = example.structure, by_meaning(example)
    assert_held(example, "to_trimesh", ["{i j}", "{i j k}"], ["i", "pos=i", "{i j k}"])
    at = features.get(Pattern("pos=i"))
    if at is None or at.shape[1] != 3:
        raise IncidenceError("to_trimesh: a mesh needs coordinates of its nodes in space: give features['pos=i'] of shape [nodes, 3].")
    faces = structure["{i j k}"].T
    if Pattern("{i j}") in structure.patterns:
        own = _edges(faces, structure.counts["node"])
        if own.shape[1] != structure.num_entries("{i j}") or bool((structure.locate("{i j}", own) < 0).any()):
            raise IncidenceError("to_trimesh: the edges of a mesh are those of its triangles, and these are others. Leave out `{i j}`.")
    mesh = trimesh.Trimesh(vertices=as_array(at, "to_trimesh"), faces=as_array(faces, "to_trimesh"), process=False)
    if at.dtype != torch.float64:
        mesh.metadata["pos_dtype"] = str(at.dtype).removeprefix("torch.")
    for text, attributes in (("i", mesh.vertex_attributes), ("{i j k}", mesh.face_attributes)):
        if Pattern(text) in features:
            attributes["features"] = as_array(features[Pattern(text)], "to_trimesh")
    return mesh
