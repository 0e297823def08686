"""Meshes: points and polygons from files, from trimesh, or from arrays."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations
from os import PathLike
from typing import Any

import numpy as np
import torch
from torch import Tensor

from incidence.errors import IncidenceError
from incidence.geometry.meshfiles import Soup, read_soup
from incidence.geometry.node_lists import NodeLists, as_array, as_node_lists, sides, structure_of
from incidence.structure import Structure

__all__ = ["Mesh", "mesh", "read_mesh"]


@dataclass(frozen=True)
class Mesh:
    r"""A mesh as its file has it, and the structure that it makes.

    Attributes:
        points: The coordinates of every node, shape [nodes, dimensions], in the order of the file.
        faces: The polygons, nodes in the order of the file: `faces[k]` is polygon k.
        tetrahedra: The cells of a volume, shape [tetrahedra, 4]; none for a surface.
        structure: The structure, entries in the order that structures prefer.
        face_pattern: The tensor of the structure that has the faces: `{i j k}`, or `face` for polygons.
        kept: Which face of the file each of `faces` is: all of them, if nothing had to be repaired.

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
    tetrahedra: Tensor
    structure: Structure
    face_pattern: str
    kept: Tensor

    def __repr__(self) -> str:
        cells = f", {len(self.tetrahedra):,} tetrahedra" if len(self.tetrahedra) else ""
        return f"Mesh({len(self.points):,} points, {len(self.faces):,} faces{cells})"

    @property
    def face_index(self) -> Tensor:
        """The faces as an index of `face_pattern`, in the order of the file; for `align` and `locate`."""
        return self.faces.index if self.face_pattern == "face" else self.faces.nodes.view(-1, 3).T

    @property
    def face_rows(self) -> Tensor:
        """The row of the structure that holds each face of the file."""
        return self.structure.locate(self.face_pattern, self.face_index)


def mesh(source: Any, *, format: str | None = None, repair: bool = False, open_faces: bool = False) -> Structure:
    r"""The structure of a mesh: its nodes, its edges `{i j}`, and its faces.

    Faces are `{i j k}` if all are triangles and `face={i ...}` else; the edges of a face are its consecutive nodes. A volume of
    tetrahedra is a simplicial complex up to `{i j k l}`. Nothing is assumed of the surface: it may have borders, several components,
    edges in more than two faces, and points in no face. `read_mesh` gives the coordinates and the order of the file as well.

    Args:
        source: The path of an OBJ, OFF, PLY, STL or MEDIT (`.mesh`) file, `.gz` or not; an open binary file; a `trimesh.Trimesh`; or a pair
            (points, faces) of a matrix and a list of polygons.
        format: The format of the file, if its name does not tell: obj, off, ply, stl or mesh.
        repair: Drops faces that name a point twice, and all but the first of faces with the same points, instead of refusing them.
        open_faces: Writes the faces as `face={i ...}` even if all are triangles, so that any surfaces can share a batch.

    Raises:
        IncidenceError: The file is broken, or a face is; the message says what and where.

    Example:
        >>> points = [[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [1.0, 1.0, 0.0], [0.0, 1.0, 0.0], [0.5, 0.5, 1.0]]
        >>> mesh((points, [[0, 1, 2, 3], [0, 1, 4], [1, 2, 4], [2, 3, 4], [3, 0, 4]]))  # a pyramid
        Structure(num_nodes=5, '{i j}': 8 entries, 'face={i ...}': 5 entries)
    """
    return read_mesh(source, format=format, repair=repair, open_faces=open_faces).structure


def read_mesh(source: Any, *, format: str | None = None, repair: bool = False, open_faces: bool = False) -> Mesh:
    """A mesh with its coordinates, its polygons in the order of the file, and its structure; for the arguments see `mesh`.

    Example:
        >>> m = read_mesh(([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]], [[0, 1, 2]]))
        >>> m.points.shape, m.faces[0], m.face_rows
        (torch.Size([3, 2]), tensor([0, 1, 2]), tensor([0]))
    """
    soup = _as_soup(source, format)
    faces, kept = _checked(soup, repair)
    num_nodes = len(soup.points)
    tetrahedra = torch.from_numpy(np.ascontiguousarray(soup.tetrahedra))
    is_open = open_faces or bool((faces.sizes != 3).any())
    if len(tetrahedra):
        if open_faces:
            raise IncidenceError(f"{soup.name} has tetrahedra: its faces are triangles, and `open_faces` is for surfaces. Leave it out.")
        structure = _volume(faces, tetrahedra, num_nodes)
    else:
        arranged, _, _ = faces.arranged(num_nodes)
        own = {"face={i ...}": arranged.index} if is_open else {"{i j k}": arranged.nodes.view(-1, 3).T.contiguous()}
        structure = structure_of(num_nodes, {"{i j}": sides(faces, num_nodes), **own})
    points = torch.from_numpy(soup.points)
    return Mesh(points, faces, tetrahedra, structure, "face" if is_open else "{i j k}", kept)


def _volume(faces: NodeLists, tetrahedra: Tensor, num_nodes: int) -> Structure:
    """The simplicial complex of tetrahedra, with the triangles that the file has beside them."""
    found: dict[str, Tensor] = {}
    for size, text in ((2, "{i j}"), (3, "{i j k}"), (4, "{i j k l}")):
        parts = [tetrahedra[:, corners] for corners in combinations(range(4), size)]
        parts += [faces.nodes.view(-1, 3)[:, corners] for corners in combinations(range(3), size)]
        arranged, _, again = NodeLists.of_rows(torch.cat(parts)).arranged(num_nodes)
        found[text] = arranged.nodes.view(-1, size)[~again].T.contiguous()
    return structure_of(num_nodes, found)


# ---- what is refused


def _checked(soup: Soup, repair: bool) -> tuple[NodeLists, Tensor]:
    """The faces of a mesh that has nothing wrong, and which face of the file each is."""
    if not np.isfinite(soup.points).all():
        bad = int(np.flatnonzero(~np.isfinite(soup.points).all(axis=1))[0])
        raise IncidenceError(f"{soup.point(bad)} is {tuple(soup.points[bad].tolist())}: coordinates must be finite numbers.")
    num_nodes = len(soup.points)
    faces = soup.faces
    small = faces.sizes < 3
    if small.any():
        bad = int(small.nonzero()[0])
        raise IncidenceError(f"{soup.face(bad)} has {int(faces.sizes[bad])} points: a face has at least 3. Remove it.")
    cells = NodeLists.of_rows(torch.from_numpy(np.ascontiguousarray(soup.tetrahedra)))
    for sets, place in ((faces, soup.face), (cells, soup.tetrahedron)):
        _assert_range(sets, num_nodes, place, soup.first)
    _refuse_flaws(cells, _flaws(cells, num_nodes), soup.tetrahedron, soup.first)
    flaws = _flaws(faces, num_nodes)
    if not repair:
        _refuse_flaws(faces, flaws, soup.face, soup.first)
    kept = (flaws < 0).nonzero()[:, 0]
    return (faces if len(kept) == len(faces) else faces.take(kept)), kept


def _assert_range(sets: NodeLists, num_nodes: int, place: Callable[[int], str], first: int) -> None:
    is_bad = (sets.nodes < 0) | (sets.nodes >= num_nodes)
    if is_bad.any():
        spot = int(is_bad.nonzero()[0])
        raise IncidenceError(
            f"{place(int(sets.numbers[spot]))} names point {int(sets.nodes[spot]) + first}, but there are {num_nodes:,} points, "
            f"numbered from {first}. Correct the face."
        )


def _flaws(sets: NodeLists, num_nodes: int) -> Tensor:
    """For every set -1 if it is sound, its own number if it names a node twice, and else the number of the first set that equals it."""
    flaws = torch.full((len(sets),), -1)
    repeats = sets.repeats()
    flaws[repeats] = repeats.nonzero()[:, 0]
    sound = (~repeats).nonzero()[:, 0]
    _, order, again = sets.take(sound).arranged(num_nodes)
    first = order[~again][(~again).cumsum(0) - 1]  # sorting is stable: the first of the equal sets stands first
    flaws[sound[order[again]]] = sound[first[again]]
    return flaws


def _refuse_flaws(sets: NodeLists, flaws: Tensor, place: Callable[[int], str], first: int) -> None:
    if bool((flaws < 0).all()):
        return
    bad = int((flaws >= 0).nonzero()[0])
    other, nodes = int(flaws[bad]), (sets[bad] + first).tolist()
    what = "it names a point twice" if other == bad else f"number {other} has the same points already"
    raise IncidenceError(f"{place(bad)} is {nodes}: {what}. Remove it, or read the mesh with repair=True.")


# ---- where a mesh comes from


def _as_soup(source: Any, file_format: str | None) -> Soup:
    if isinstance(source, (str, PathLike)) or hasattr(source, "read"):
        soup = read_soup(source, file_format)
        if not len(soup.sizes) and not len(soup.tetrahedra):
            raise IncidenceError(f"{soup.name} has {len(soup.points):,} points and no faces: use `point_cloud` for points alone.")
        return soup
    if any(kind.__module__.split(".")[0] == "trimesh" for kind in type(source).__mro__):
        if not hasattr(source, "faces"):
            raise IncidenceError(f"a mesh is one trimesh.Trimesh; got {type(source).__name__}. Join its parts first, as with `to_mesh()`.")
        source = (np.array(source.vertices), np.array(source.faces))
    if isinstance(source, (tuple, list)) and len(source) == 2:
        return _from_arrays(*source)
    raise IncidenceError(f"a mesh is a path, an open file, a trimesh.Trimesh or a pair (points, faces); got {type(source).__name__}.")


def _from_arrays(points: Any, faces: Any) -> Soup:
    try:
        matrix = as_array(points).astype(np.float64)
    except (TypeError, ValueError):
        raise IncidenceError(f"points must be a matrix of numbers, shape [nodes, dimensions]; got {type(points).__name__}.") from None
    if matrix.ndim != 2:
        raise IncidenceError(f"points must have the shape [nodes, dimensions]; got {list(matrix.shape)}.")
    sets = as_node_lists(faces, "face")
    return Soup("the mesh", matrix, sets.sizes.numpy(), sets.nodes.numpy())
