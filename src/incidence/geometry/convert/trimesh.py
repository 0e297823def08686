"""trimesh: triangle meshes."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from incidence.algebra.pattern import Pattern
from incidence.errors import IncidenceError, need
from incidence.geometry.assembly import brackets, face_text
from incidence.geometry.convert.exchange import (
    as_array,
    assert_held,
    by_meaning,
    has_same_entries,
    single,
)
from incidence.geometry.meshes import checked_faces
from incidence.geometry.meshfiles import Soup
from incidence.geometry.node_lists import NodeLists, sides
from incidence.structure import Example, Structure

__all__ = ["from_trimesh", "to_trimesh"]


def from_trimesh(mesh: Any, oriented: bool | None = None) -> Example:
    r"""Read a mesh: `{i j k}` for its faces, in their order and winding, and `{i j}` for their
    edges, in the preferred order.

    The vertices are the features of `pos=i`. The attributes `features` of vertices and of faces are
    those of `i` and `{i j k}`.

    Args:
        mesh: The mesh.
        oriented: Whether faces are `<i j k>`, oriented as they are wound, and edges `<i j>`, from
            the smaller vertex to the larger. Default: whether `to_trimesh` made the mesh of such
            faces.

    Raises:
        IncidenceError: A face has a vertex twice, or two faces have the same vertices.

    Example:
        >>> import trimesh
        >>> from_trimesh(trimesh.creation.icosahedron())
        Example(Structure(num_nodes=12, '{i j}': 30 entries, '{i j k}': 20 entries),
        features={'pos=i': [12, 3]}, target=None)
    """
    trimesh = need("trimesh", "from_trimesh", "mesh")
    if not isinstance(mesh, trimesh.Trimesh):
        raise IncidenceError(
            f"from_trimesh takes a Trimesh; got {type(mesh).__name__}. Of a scene, take"
            " scene.to_mesh()."
        )
    faces = torch.from_numpy(np.array(mesh.faces, dtype=np.int64)).view(-1, 3)
    points = np.array(mesh.vertices)
    soup = Soup("from_trimesh", points, np.full(len(faces), 3), faces.flatten().numpy())
    lists, _ = checked_faces(soup)
    is_oriented = mesh.metadata.get("oriented", False) if oriented is None else oriented
    edges, triangles = (face_text(size, brackets=brackets(is_oriented)) for size in (2, 3))
    index = {edges: sides(lists, len(points)), triangles: faces.T}
    structure = Structure(len(points), index)
    # trimesh has coordinates in double precision; to_trimesh writes down another precision.
    dtype = mesh.metadata.get("pos_dtype", np.float64)
    features = {"pos=i": torch.from_numpy(np.array(points, dtype=dtype)).view(-1, 3)}
    for text, attributes in (("i", mesh.vertex_attributes), (triangles, mesh.face_attributes)):
        if "features" in attributes:
            features[text] = torch.from_numpy(np.array(attributes["features"]))
    return Example(structure, features)


def to_trimesh(example: Example | Structure) -> Any:
    r"""Write the triangles `{i j k}` or `<i j k>` as a mesh, with the features of `pos=i` as
    vertices; orientation is winding.

    Other features of `i` and of the triangles become attributes `features`. The edges must be those
    of the triangles, because a mesh has no others.

    Raises:
        IncidenceError: There are no coordinates, or a mesh cannot hold what there is.

    Example:
        >>> s = Structure(3, {"{i j}": [[0, 0, 1], [1, 2, 2]], "{i j k}": [[0], [1], [2]]})
        >>> to_trimesh(Example(s, {"pos=i": torch.eye(3)})).faces.tolist()
        [[0, 1, 2]]
    """
    trimesh = need("trimesh", "to_trimesh", "mesh")
    example = single(example, "to_trimesh")
    structure = example.structure
    features = by_meaning(example)
    is_oriented = Pattern("<i j k>") in structure.patterns
    edges, triangles = (face_text(size, brackets=brackets(is_oriented)) for size in (2, 3))
    assert_held(example, "to_trimesh", [edges, triangles], ["i", "pos=i", triangles])
    at = features.get(Pattern("pos=i"))
    if at is None or at.shape[1] != 3:
        raise IncidenceError(
            "to_trimesh: a mesh needs coordinates of its nodes in space: give features['pos=i'] of"
            " shape [nodes, 3]."
        )
    faces = structure[triangles].T
    if Pattern(edges) in structure.patterns:
        needed = sides(NodeLists.of_rows(faces), structure.counts["node"])
        if not has_same_entries(structure, edges, needed):
            raise IncidenceError(
                "to_trimesh: the edges of a mesh are those of its triangles, and these are others."
                f" Leave out `{edges}`."
            )
    vertices = as_array(at, "to_trimesh")
    mesh = trimesh.Trimesh(vertices, faces=as_array(faces, "to_trimesh"), process=False)
    if at.dtype != torch.float64:
        mesh.metadata["pos_dtype"] = str(at.dtype).removeprefix("torch.")
    if Pattern(triangles).is_oriented:
        mesh.metadata["oriented"] = True
    for text, attributes in (("i", mesh.vertex_attributes), (triangles, mesh.face_attributes)):
        if Pattern(text) in features:
            attributes["features"] = as_array(features[Pattern(text)], "to_trimesh")
    return mesh
