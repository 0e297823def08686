r"""Polytopes: all faces of the convex hull of points, or of a polytope whose facets are known.

Qhull finds the facets of a hull in floating point. *Integer* points are put right exactly: the
hyperplane of every simplex of Qhull is computed in integers, counts if no point lies beyond it, and
has all points on it. What counts is a facet beyond doubt; that none is missing follows once the
lattice of their intersections is one of a polytope, as a part of the facets never closes up.
*Other* points have rounded coordinates, and what is flat in the original is not flat in them: Qhull
merges neighbouring facets that are flat up to a tolerance.
"""

from __future__ import annotations

from math import gcd, lcm
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from incidence.errors import IncidenceError, need
from incidence.geometry.assembly import assemble_ranks
from incidence.geometry.face_lattice import (
    NotPolytopeError,
    face_lattice,
    loose_nodes,
    mask_of,
    nodes_of,
    transposed,
)
from incidence.geometry.node_lists import NodeLists, as_array, assert_nodes, read_node_lists
from incidence.structure import Structure

__all__ = ["corners", "polytope", "polytope_from_facets"]

_FAR = 2**1000
_SINGLE, _DOUBLE = 1e-6, 1e-10  # tolerances


def polytope(points: Any, *, tolerance: float | None = None, flat: bool = False) -> Structure:
    r"""Return the polytope with given corners: all faces of their convex hull.

    Node v is point v. Edges are `{i j}`, faces of higher rank `rank2={i ...}`, `rank3={i ...}`, ...
    up to the facets. The polytope itself is not listed, so a polygon is its edges and a segment its
    two nodes. Entries are in the order that structures prefer.

    Points with integer coordinates (in any type) are treated exactly. Others are rounded: points
    within `tolerance` of one hyperplane lie on it. The result is checked to be the face lattice of
    a polytope.

    Args:
        points: The corners, shape [nodes, dimensions]; every one must be a corner of the hull
            (`corners` returns those that are).
        tolerance: For coordinates that are no integers, as a part of the diagonal of the box around
            the points. Default: 1e-6 if they are in single precision or have at most 8 decimal
            digits, as in text files, else 1e-10.
        flat: Whether points may span less than their space, such as a square in three dimensions.

    Raises:
        IncidenceError: Two points are equal, a point is no corner, or the points span less than
            their space; the message names the points.

    Example:
        >>> polytope([[x, y, z] for x in (0, 1) for y in (0, 1) for z in (0, 1)])  # a cube
        Structure(num_nodes=8, '{i j}': 12 entries, 'rank2={i ...}': 6 entries)
    """
    values = _as_points(points)
    cloud = _cloud(values, tolerance)
    equal = cloud.equals()
    if equal:
        one, other = equal[0]
        raise IncidenceError(
            f"points {one} and {other} are equal, {_shown(values, one)} and"
            f" {_shown(values, other)}: the corners of a polytope differ. Keep one, as in"
            " points[geometry.corners(points)]."
        )
    inner = cloud.spanned()
    if inner.dimension < values.shape[1] and not flat:
        raise IncidenceError(
            f"the {len(values)} points span {inner.dimension} of their {values.shape[1]}"
            " dimensions, so that their convex hull is flat. Add the points that are missing, or"
            f" give flat=True for the polytope of rank {inner.dimension}."
        )
    levels, loose = _hull_lattice(inner)
    if loose:
        within = remedy = ""
        if inner.tolerance:
            within = f", up to the tolerance {inner.tolerance:g}"
            remedy = ", or give a smaller `tolerance`"
        raise IncidenceError(
            f"point {loose[0]}, {_shown(values, loose[0])}, is no corner of the convex hull of the"
            f" points{within}. Leave such points out, as in"
            f" points[geometry.corners(points)]{remedy}."
        )
    return _structure(levels, len(values))


def corners(points: Any, *, tolerance: float | None = None) -> Tensor:
    """Return the rows of the points that are corners of their convex hull, ascending.

    Of equal points, only the first counts. Points may be flat.

    Example:
        >>> corners([[0, 0], [2, 0], [1, 0], [0, 2], [0, 0]])
        tensor([0, 1, 3])
    """
    values = _as_points(points)
    cloud = _cloud(values, tolerance)
    is_first = np.ones(len(cloud.points), dtype=bool)
    for one, other in cloud.equals():
        # Equality up to a tolerance is not transitive: a point counts unless it is near one that
        # counts.
        is_first[other] &= not is_first[one]
    rows = np.flatnonzero(is_first)
    inner = _cloud(values[rows], cloud.tolerance).spanned()
    if inner.dimension:
        rows = np.delete(rows, _hull_lattice(inner)[1])
    return torch.from_numpy(rows)


def polytope_from_facets(facets: Any) -> Structure:
    r"""Return the polytope with given facets, each the set of its nodes, with all its faces.

    Faces are written as for `polytope`. They are the intersections of facets, and must be those of
    a polytope: graded; two faces that differ by two ranks have exactly two between them; the faces
    around a face are connected; and Euler's relation holds. Up to rank 3 only polytopes pass. From
    rank 4 on some lattices pass that no points realise, such as those of triangulated 3-manifolds.

    Args:
        facets: Lists of nodes, in any order, or a matrix with one facet a row. Nodes are numbered
            from 0, each in some facet.

    Raises:
        IncidenceError: A facet is broken, or they do not make a polytope; the message says which
            face is wrong.

    Example:
        >>> polytope_from_facets([[0, 1, 2], [0, 1, 3], [0, 2, 3], [1, 2, 3]])  # a tetrahedron
        Structure(num_nodes=4, '{i j}': 6 entries, 'rank2={i ...}': 4 entries)
    """
    lists = read_node_lists("facets", facets)
    if len(lists) < 2:
        raise IncidenceError(f"a polytope has at least 2 facets; got {len(lists)}.")
    nodes = set(lists.nodes.tolist())
    num_nodes = max(nodes, default=0) + 1
    assert_nodes(lists, num_nodes, lambda k: f"facets[{k}]")
    if len(nodes) < num_nodes:
        bad = next(node for node in range(num_nodes) if node not in nodes)
        raise IncidenceError(
            f"node {bad} is in no facet, but node {max(nodes)} is: nodes are numbered from 0"
            " without gaps. Renumber them."
        )
    masks = [mask_of(facet.tolist()) for facet in lists.nodes.split(lists.sizes.tolist())]
    # Seen the other way, facets are nodes, and nodes are the sets of facets around them.
    spare = loose_nodes(transposed(masks, num_nodes), len(masks))
    if spare:
        one = spare[0]
        others = (k for k in range(len(masks)) if k != one)
        other = next(k for k in others if masks[k] & masks[one] == masks[one])
        raise IncidenceError(
            f"all nodes of facet {one}, {nodes_of(masks[one])}, lie in facet {other} as well."
            f" Remove facet {one}."
        )
    loose = loose_nodes(masks, num_nodes)
    if loose:
        raise IncidenceError(
            f"node {loose[0]} is no corner: the facets that contain it have other nodes in common."
            " Correct the facets."
        )
    return _structure(face_lattice(masks, num_nodes), num_nodes)


def _hull_lattice(cloud: ExactCloud | RoundedCloud) -> tuple[list[list[int]], list[int]]:
    """The faces of a convex hull over its corners, and the points that are no corners.

    Only if the lattice is one of a polytope of the right rank, no facet is missing, and the corners
    are known.
    """
    masks = cloud.facets()
    num_points = len(cloud.points)
    loose = loose_nodes(masks, num_points)
    if loose:
        corners_only = sorted(set(range(num_points)) - set(loose))
        number = {node: k for k, node in enumerate(corners_only)}
        facets = [[number[v] for v in nodes_of(mask) if v in number] for mask in masks]
        masks = [mask_of(facet) for facet in facets]
    num_corners = num_points - len(loose)
    try:
        if len(masks) < 2 or loose_nodes(transposed(masks, num_corners), len(masks)):
            raise NotPolytopeError("some facets are missing, or lie in others.")
        levels = face_lattice(masks, num_corners)  # by rank, as masks
        if len(levels) != cloud.dimension:
            raise NotPolytopeError(
                f"the faces have {len(levels)} ranks instead of {cloud.dimension}."
            )
    except NotPolytopeError as error:
        raise IncidenceError(
            f"the faces of the convex hull cannot be separated in double precision ({error}) Give"
            " a larger or smaller `tolerance`, or the facets to `polytope_from_facets`."
        ) from None
    return levels, loose


def _structure(levels: list[list[int]], num_nodes: int) -> Structure:
    faces = [NodeLists.of_lists(list(map(nodes_of, level))) for level in levels[1:]]
    return assemble_ranks(num_nodes, faces)


def _as_points(points: Any) -> NDArray[Any]:
    """Points as int64, Python's integers, or float64."""
    values = _as_numbers(points)
    if values.ndim != 2:
        got = type(points).__name__
        if hasattr(points, "dtype"):
            got = f"shape {list(points.shape)} of {points.dtype}"
        raise IncidenceError(
            f"points must be a matrix of numbers, shape [nodes, dimensions]; got {got}."
        )
    if values.shape[0] < 2 or values.shape[1] < 1:
        raise IncidenceError(
            "a polytope has at least 2 corners in at least 1 dimension; got points of shape"
            f" {list(values.shape)}."
        )
    if values.dtype.kind == "O" and bool((np.abs(values) >= _FAR).any()):
        bad = int(np.flatnonzero((np.abs(values) >= _FAR).any(axis=1))[0])
        raise IncidenceError(
            f"point {bad} has a coordinate of 2^1000 or more, too large for double precision. Scale"
            " the points down."
        )
    if values.dtype.kind == "f" and not np.isfinite(values).all():
        bad = int(np.flatnonzero(~np.isfinite(values).all(axis=1))[0])
        raise IncidenceError(
            f"point {bad} is {_shown(values, bad)}: coordinates must be finite numbers."
        )
    return values


def _as_numbers(points: Any) -> NDArray[Any]:
    """An array of integers or doubles; without axes if these are no numbers."""
    try:
        values = as_array(points)
        if values.dtype.kind in "iu":
            return values
        if values.dtype.kind == "O" and all(isinstance(v, int) for v in values.flat):
            return values
        return values.astype(np.float64) if values.dtype.kind in "fO" else np.zeros(())
    except (TypeError, ValueError, OverflowError):
        return np.zeros(())


def _cloud(values: NDArray[Any], tolerance: float | None) -> ExactCloud | RoundedCloud:
    is_number = isinstance(tolerance, (int, float, np.number))
    if tolerance is not None and not (is_number and 0 <= tolerance < 0.1):
        raise IncidenceError(
            "tolerance must be at least 0 and below 0.1, as a part of the size of all points; got"
            f" {tolerance!r}."
        )
    # Doubles that are integers count as such, as long as doubles can tell all integers apart.
    is_exact = (np.abs(values) < 2**53) & (values == np.rint(values.astype(np.float64)))
    if values.dtype.kind != "f" or bool(is_exact.all()):
        return ExactCloud(values)
    return RoundedCloud(values, tolerance)


def _shown(values: NDArray[Any], row: int) -> str:
    texts = [f"{v:g}" if isinstance(v, float) else str(v) for v in values[row].tolist()]
    return f"({', '.join(texts)})"


# ---- facets of convex hulls, as masks of the points that lie on them


def _hull(points: NDArray[np.float64], options: str = "Qt") -> Any:
    """Qhull's convex hull of points that span their space, in simplices."""
    spatial = need("scipy.spatial", "the convex hull of points", "geometry")
    try:
        return spatial.ConvexHull(points, qhull_options=options)
    except spatial.QhullError as error:
        reason = str(error).strip().splitlines()[0]
        raise IncidenceError(
            f"the convex hull of the points cannot be found in double precision: {reason}"
        ) from None


class _Cloud:
    """Points of which some span a convex hull.

    Attributes:
        points: The points, shape [points, dimensions].
        tolerance: How far points on a hyperplane may lie from it.
    """

    points: NDArray[Any]
    tolerance = 0.0

    @property
    def dimension(self) -> int:
        """The number of coordinates."""
        return int(self.points.shape[1])

    def facets(self) -> list[int]:
        """Return the facets of the hull of points that span their space and differ.

        Those of a segment are its ends.
        """
        if self.dimension > 1:
            return self._facets()
        values = self.points[:, 0]
        return [1 << int(values.argmin()), 1 << int(values.argmax())]

    def _facets(self) -> list[int]:
        raise NotImplementedError


class ExactCloud(_Cloud):
    """Points with integer coordinates.

    Args:
        points: Shape [points, dimensions], integers of any size.
    """

    def __init__(self, points: NDArray[Any]) -> None:
        # Not `np.abs`, which turns the smallest int64 into itself.
        largest = max(abs(int(points.max(initial=0))), abs(int(points.min(initial=0))))
        self.points = points.astype(np.int64 if largest < 2**60 else object)
        # Seen from the first point, coordinates are as small as they can be, and fit into 64 bits.
        self.points = self.points - self.points[:1]

    def equals(self) -> list[tuple[int, int]]:
        """Return pairs of equal points, each the first of its kind and a later one."""
        first: dict[tuple[int, ...], int] = {}
        pairs = []
        for number, row in enumerate(self.points.tolist()):
            other = first.setdefault(tuple(row), number)
            if other != number:
                pairs.append((other, number))
        return pairs

    def spanned(self) -> ExactCloud:
        """Return the same points in as many coordinates as they span.

        The others follow from them. Coordinates remain integers.
        """
        return ExactCloud(self.points[:, sorted(_echelon(self.points.tolist()))])

    def _facets(self) -> list[int]:
        largest = int(np.abs(self.points).max())
        # Qhull only proposes hyperplanes; whether they are facets is decided in integers below.
        hull = _hull(self.points.astype(np.float64) / float(largest))
        facets: dict[tuple[int, ...], int | None] = {}  # by hyperplane; None for what is none
        for corners in hull.simplices.tolist():
            first, *others = self.points[corners].tolist()
            edges = [[a - b for a, b in zip(other, first, strict=True)] for other in others]
            normal = _normal(edges)
            height = sum(a * b for a, b in zip(normal, first, strict=True))
            plane = (*normal, height)
            if plane in facets or not any(normal):
                continue
            # Python's integers never overflow
            fits = self.dimension * largest * max(map(abs, normal)) < 2**61
            kind: Any = np.int64 if fits else object
            heights = self.points.astype(kind) @ np.array(normal, dtype=kind) - height
            is_facet = (heights >= 0).all() or (heights <= 0).all()
            facets[plane] = mask_of(np.flatnonzero(heights == 0).tolist()) if is_facet else None
        return [facet for facet in facets.values() if facet is not None]


def _echelon(vectors: list[list[int]]) -> dict[int, list[int]]:
    """The span of integer vectors as rows, by the column in which each starts.

    All other rows are 0 there. There are no fractions.
    """
    rows: dict[int, list[int]] = {}
    for vector in vectors:
        if len(rows) == len(vector):
            break
        for column, row in rows.items():
            vector = _cleared(vector, row, column)
        start = next((column for column, value in enumerate(vector) if value), None)
        if start is not None:
            # Reduced at once, so that `_normal` reads each row without the others.
            rows = {column: _cleared(row, vector, start) for column, row in rows.items()}
            rows[start] = vector
    return rows


def _cleared(row: list[int], other: list[int], column: int) -> list[int]:
    """A multiple of a row minus one of another, which starts in a column, with 0 there."""
    if not row[column]:
        return row
    row = [other[column] * a - row[column] * b for a, b in zip(row, other, strict=True)]
    common = gcd(*row) or 1
    return [value // common for value in row]


def _normal(vectors: list[list[int]]) -> list[int]:
    """The shortest integer vector, up to its sign, that is orthogonal to d - 1 integer vectors in
    dimension d; 0 if they are dependent.
    """
    rows = _echelon(vectors)
    normal = [0] * len(vectors[0])
    if len(rows) < len(normal) - 1:
        return normal
    [free] = set(range(len(normal))) - rows.keys()
    # so that no division leaves a rest
    normal[free] = lcm(*(row[column] for column, row in rows.items()))
    for column, row in rows.items():
        normal[column] = -row[free] * normal[free] // row[column]
    common = gcd(*normal)
    return [value // common for value in normal]


class RoundedCloud(_Cloud):
    """Points with rounded coordinates.

    Args:
        points: Shape [points, dimensions], finite.
        tolerance: As for `polytope`. Points on a hyperplane may lie so far from it, and points are
            equal if they are so near.
    """

    def __init__(self, points: NDArray[np.float64], tolerance: float | None = None) -> None:
        scaled = points / max(float(np.abs(points).max(initial=0)), np.finfo(float).tiny)
        scaled = scaled - scaled.min(axis=0)
        self.points = scaled
        self.tolerance = _precision(points) if tolerance is None else tolerance
        # in units of `points`
        self.reach = self.tolerance * float(np.linalg.norm(scaled.max(axis=0, initial=0)))

    def equals(self) -> list[tuple[int, int]]:
        """Return pairs of points within the tolerance of each other, in order."""
        spatial = need("scipy.spatial", "the convex hull of points", "geometry")
        tree = spatial.cKDTree(self.points)
        pairs: NDArray[np.int64] = tree.query_pairs(self.reach, output_type="ndarray")
        return sorted(map(tuple, np.sort(pairs, axis=1).tolist()))

    def spanned(self) -> RoundedCloud:
        """Return the same points in as many coordinates as they span, up to the tolerance."""
        centred = self.points - self.points.mean(axis=0)
        axes = np.linalg.svd(centred, full_matrices=False)[2]
        is_thick = np.ptp(centred @ axes.T, axis=0) > 2 * self.reach  # along each axis
        if is_thick.sum() == self.dimension:
            return self
        return RoundedCloud(centred @ axes[is_thick].T, self.tolerance)

    def _facets(self) -> list[int]:
        hull = _hull(self.points, f"Qt C-{self.reach:.3g}")
        # Simplices of one merged facet have one equation.
        # the merged facet of each simplex
        _, group = np.unique(hull.equations, axis=0, return_inverse=True)
        parts: dict[int, set[int]] = {}
        for number, corners in zip(group.ravel().tolist(), hull.simplices.tolist(), strict=True):
            parts.setdefault(number, set()).update(corners)
        return [mask_of(list(corners)) for corners in parts.values()]


def _precision(points: NDArray[np.float64]) -> float:
    """The tolerance that suits the digits of coordinates."""
    with np.errstate(divide="ignore", over="ignore", under="ignore", invalid="ignore"):
        unit = 10.0 ** (7 - np.floor(np.log10(np.abs(points))))
        rest = np.abs(np.rint(points * unit) / unit - points)  # after 8 digits
        is_short = (points == 0) | (rest <= 1e-15 * np.abs(points))
        is_single = points.astype(np.float32).astype(np.float64) == points
    return _SINGLE if is_short.all() or is_single.all() else _DOUBLE
