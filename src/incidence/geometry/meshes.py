"""Meshes: points and polygons from files, from trimesh, or from arrays."""

from __future__ import annotations

from dataclasses import dataclass
from os import PathLike
from typing import Any

import numpy as np
import torch
from torch import Tensor

from incidence.errors import IncidenceError
from incidence.geometry.assembly import assemble, brackets, face_text
from incidence.geometry.meshfiles import Soup, read_soup
from incidence.geometry.node_lists import NodeLists, as_array, read_node_lists, sides
from incidence.structure import Structure

__all__ = ["Mesh", "checked_faces", "mesh", "read_mesh"]


@dataclass(frozen=True)
class Mesh:
    r"""A mesh in the order of its file, and its structure.

    Attributes:
        points: The coordinates of every node, shape [nodes, dimensions], in the order of the file.
        faces: The polygons, nodes in the order of the file: `faces[k]` is polygon k.
        structure: The structure, entries in the order that structures prefer.
        face_pattern: The tensor of the structure that has the faces: `{i j k}` or `<i j k>`, or
            `face` for polygons.
        kept: The number in the file of each of `faces`: all numbers, if nothing was repaired.

    Example:
        >>> square = [[0.0, 0.0], [1.0, 0.0], [1.0, 1.0], [0.0, 1.0]]
        >>> m = read_mesh((square, [[2, 3, 0], [0, 1, 2]]))
        >>> m
        Mesh(4 points, 2 faces)
        >>> m.structure
        Structure(num_nodes=4, '{i j}': 5 entries, '{i j k}': 2 entries)
        >>> m.face_rows  # face 0 of the caller is row 1 of the structure
        tensor([1, 0])
    """

    points: Tensor
    faces: NodeLists
    structure: Structure
    face_pattern: str
    kept: Tensor

    def __repr__(self) -> str:
        return f"Mesh({len(self.points):,} points, {len(self.faces):,} faces)"

    @property
    def face_index(self) -> Tensor:
        """The faces as an index of `face_pattern`, in the order of the file; for `align` and
        `locate`.
        """
        return self.faces.index if self.face_pattern == "face" else self.faces.nodes.view(-1, 3).T

    @property
    def face_rows(self) -> Tensor:
        """The row of the structure that holds each face of the file."""
        return self.structure.locate(self.face_pattern, self.face_index)


def mesh(
    source: Any,
    *,
    format: str | None = None,
    repair: bool = False,
    open_faces: bool = False,
    oriented: bool = False,
) -> Structure:
    r"""Return the structure of a mesh: its nodes, its edges `{i j}`, and its faces.

    Faces are `{i j k}` if all are triangles and `face={i ...}` else; the edges of a face are its
    consecutive nodes. Nothing is assumed of the surface: it may have borders, several components,
    edges in more than two faces, and points in no face. `read_mesh` gives the coordinates and the
    order of the file as well. A volume of tetrahedra is a `simplicial_complex`.

    Args:
        source: The path of an OBJ, OFF, PLY or STL file (the last read by trimesh), `.gz` or not;
            an open binary file; a `trimesh.Trimesh`; or a pair (points, faces) of a matrix and a
            list of polygons.
        format: The format of the file: obj, off, ply or stl. Default: by its name.
        repair: Whether to drop faces that name a point twice, and all but the first of faces with
            the same points. If not, they are refused.
        open_faces: Whether faces are `face={i ...}` even if all are triangles, so that any surfaces
            can share a batch.
        oriented: Whether triangles are `<i j k>`, oriented as they are wound in the file, and edges
            `<i j>`, from the smaller node to the larger.

    Raises:
        IncidenceError: The file is broken, or a face is; the message says what and where.

    Example:
        >>> base = [[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [1.0, 1.0, 0.0], [0.0, 1.0, 0.0]]
        >>> points = [*base, [0.5, 0.5, 1.0]]
        >>> mesh((points, [[0, 1, 2, 3], [0, 1, 4], [1, 2, 4], [2, 3, 4], [3, 0, 4]]))  # a pyramid
        Structure(num_nodes=5, '{i j}': 8 entries, 'face={i ...}': 5 entries)
        >>> mesh((points, [[1, 0, 4], [1, 2, 4]]), oriented=True)["<i j k>"].T.tolist()
        [[1, 0, 4], [1, 2, 4]]
    """
    return read_mesh(
        source, format=format, repair=repair, open_faces=open_faces, oriented=oriented
    ).structure


def read_mesh(
    source: Any,
    *,
    format: str | None = None,
    repair: bool = False,
    open_faces: bool = False,
    oriented: bool = False,
) -> Mesh:
    """Return a mesh with its coordinates, its polygons in the order of the file, and its structure;
    for the arguments see `mesh`.

    Example:
        >>> m = read_mesh(([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]], [[0, 1, 2]]))
        >>> m.points.shape, m.faces[0], m.face_rows
        (torch.Size([3, 2]), tensor([0, 1, 2]), tensor([0]))
    """
    soup = _as_soup(source, format)
    faces, kept = checked_faces(soup, repair)
    num_nodes = len(soup.points)
    is_other = faces.sizes != 3
    is_open = open_faces or bool(is_other.any())
    if is_open and oriented:
        what = "open_faces=True writes faces of any size"
        if bool(is_other.any()):
            bad = int(is_other.nonzero()[0])
            what = f"{soup.face(int(kept[bad]))} has {int(faces.sizes[bad])} points"
        raise IncidenceError(
            f"{what}, and oriented faces are triangles. Cut polygons into triangles, or leave out"
            " oriented=True."
        )
    # Node sets for what has no winding; the corners as they are wound only where it counts.
    arranged, order, _ = faces.arranged(num_nodes)
    edges, triangles = (face_text(size, brackets=brackets(oriented)) for size in (2, 3))
    wound = faces.take(order) if oriented else arranged
    index = {edges: sides(faces, num_nodes)}
    if is_open:
        index["face={i ...}"] = arranged.index
    else:
        index[triangles] = wound.nodes.view(-1, 3).T.contiguous()
    structure = assemble(num_nodes, index)
    face_pattern = "face" if is_open else triangles
    return Mesh(torch.from_numpy(soup.points), faces, structure, face_pattern, kept)


def checked_faces(soup: Soup, repair: bool = False) -> tuple[NodeLists, Tensor]:
    """Return the faces of a mesh without flaws, and the number of each in the file."""
    is_finite = np.isfinite(soup.points).all(axis=1)
    if not is_finite.all():
        bad = int(np.flatnonzero(~is_finite)[0])
        raise IncidenceError(
            f"{soup.point(bad)} is {tuple(soup.points[bad].tolist())}: coordinates must be finite"
            " numbers."
        )
    num_nodes = len(soup.points)
    faces = soup.faces
    small = faces.sizes < 3
    if small.any():
        bad = int(small.nonzero()[0])
        raise IncidenceError(
            f"{soup.face(bad)} has {int(faces.sizes[bad])} points: a face has at least 3."
            " Remove it."
        )
    is_far = (faces.nodes < 0) | (faces.nodes >= num_nodes)
    if is_far.any():
        spot = int(is_far.nonzero()[0])
        raise IncidenceError(
            f"{soup.face(int(faces.numbers[spot]))} names point"
            f" {int(faces.nodes[spot]) + soup.first}, but there are {num_nodes:,} points, numbered"
            f" from {soup.first}. Correct the face."
        )
    # For every face -1 if it is sound, its number if it names a node twice, and else the number of
    # the first face that equals it.
    flaws = torch.full((len(faces),), -1)
    repeats = faces.repeats()
    flaws[repeats] = repeats.nonzero()[:, 0]
    sound = (~repeats).nonzero()[:, 0]
    # Sorting puts equal faces side by side, however they are wound.
    _, order, again = faces.take(sound).arranged(num_nodes)
    # sorting is stable: the first of the equal faces stands first
    first = order[~again][(~again).cumsum(0) - 1]
    flaws[sound[order[again]]] = sound[first[again]]
    is_sound = flaws < 0
    if not repair and not is_sound.all():
        bad = int((~is_sound).nonzero()[0])
        other = int(flaws[bad])
        problem = f"number {other} has the same points already"
        if other == bad:
            problem = "it names a point twice"
        raise IncidenceError(
            f"{soup.face(bad)} is {(faces[bad] + soup.first).tolist()}: {problem}. Remove it, or"
            " read the mesh by `read_mesh` with repair=True."
        )
    kept = is_sound.nonzero()[:, 0]
    return faces.take(kept), kept


def _as_soup(source: Any, file_format: str | None) -> Soup:
    if isinstance(source, (str, PathLike)) or hasattr(source, "read"):
        soup = read_soup(source, file_format)
        if not len(soup.sizes):
            raise IncidenceError(
                f"{soup.name} has {len(soup.points):,} points and no faces: use `point_cloud` for"
                " points alone."
            )
        return soup
    if any(kind.__module__.split(".")[0] == "trimesh" for kind in type(source).__mro__):
        if not hasattr(source, "faces"):
            raise IncidenceError(
                f"a mesh is one trimesh.Trimesh; got {type(source).__name__}. Join its parts first,"
                " as with `to_mesh()`."
            )
        source = (np.array(source.vertices), np.array(source.faces))
    if not isinstance(source, (tuple, list)) or len(source) != 2:
        raise IncidenceError(
            "a mesh is a path, an open file, a trimesh.Trimesh or a pair (points, faces); got"
            f" {type(source).__name__}."
        )
    points, faces = source
    try:
        matrix = as_array(points).astype(np.float64)
    except (TypeError, ValueError):
        raise IncidenceError(
            "points must be a matrix of numbers, shape [nodes, dimensions]; got"
            f" {type(points).__name__}."
        ) from None
    if matrix.ndim != 2:
        raise IncidenceError(
            f"points must have the shape [nodes, dimensions]; got {list(matrix.shape)}."
        )
    lists = read_node_lists("faces", faces)
    return Soup("the mesh", matrix, lists.sizes.numpy(), lists.nodes.numpy())
