"""Polytopes: all faces of the convex hull of points, or of a polytope whose facets are known."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from incidence.errors import IncidenceError
from incidence.geometry.assembly import assemble_ranks
from incidence.geometry.face_lattice import (
    NotPolytopeError,
    face_lattice,
    loose_nodes,
    mask_of,
    nodes_of,
    transposed,
)
from incidence.geometry.hulls import ExactCloud, RoundedCloud
from incidence.geometry.node_lists import NodeLists, as_array, assert_nodes, read_node_lists
from incidence.structure import Structure

__all__ = ["corners", "polytope", "polytope_from_facets"]

_FAR = 2**1000


def polytope(points: Any, *, tolerance: float | None = None, flat: bool = False) -> Structure:
    r"""The polytope with given corners: all faces of their convex hull.

    Node v is point v. Edges are `{i j}`, faces of higher rank `rank2={i ...}`, `rank3={i ...}`, ... up to the facets. The polytope itself
    is not listed, so a polygon is its edges and a segment its two nodes. Entries are in the order that structures prefer.

    Points with integer coordinates (in any type) are treated exactly. Others are rounded: points within `tolerance` of one hyperplane lie
    on it. The result is checked to be the face lattice of a polytope.

    Args:
        points: The corners, shape [nodes, dimensions]; every one must be a corner of the hull (`corners` finds those that are).
        tolerance: For coordinates that are no integers, as a part of the diagonal of the box around the points. If not given, 1e-6 where
            they are in single precision or have at most 8 decimal digits, as in text files, and 1e-10 else.
        flat: Takes points that span less than their space, such as a square in three dimensions, and works in what they span.

    Raises:
        IncidenceError: Two points are equal, a point is no corner, or the points span less than their space; the message names the points.

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
            f"points {one} and {other} are equal, {_shown(values, one)} and {_shown(values, other)}: the corners of a polytope differ. "
            f"Keep one, as in points[geometry.corners(points)]."
        )
    inner = cloud.spanned()
    if inner.dimension < values.shape[1] and not flat:
        raise IncidenceError(
            f"the {len(values)} points span {inner.dimension} of their {values.shape[1]} dimensions, so that their convex hull is flat. "
            f"Add the points that are missing, or give flat=True for the polytope of rank {inner.dimension}."
        )
    levels, loose = _hull_lattice(inner)
    if loose:
        within, remedy = (
            (f", up to the tolerance {inner.tolerance:g}", ", or give a smaller `tolerance`")
            if inner.tolerance
            else ("", "")
        )
        raise IncidenceError(
            f"point {loose[0]}, {_shown(values, loose[0])}, is no corner of the convex hull of the points{within}. "
            f"Leave such points out, as in points[geometry.corners(points)]{remedy}."
        )
    return _structure(levels, len(values))


def corners(points: Any, *, tolerance: float | None = None) -> Tensor:
    """The rows of the points that are corners of their convex hull, ascending; the first of equal ones. Points may be flat.

    Example:
        >>> corners([[0, 0], [2, 0], [1, 0], [0, 2], [0, 0]])
        tensor([0, 1, 3])
    """
    values = _as_points(points)
    cloud = _cloud(values, tolerance)
    is_kept = np.ones(len(cloud.points), dtype=bool)
    for one, other in cloud.equals():
        is_kept[other] &= not is_kept[one]
    rows = np.flatnonzero(is_kept)
    inner = _cloud(values[rows], cloud.tolerance).spanned()
    if inner.dimension:
        rows = np.delete(rows, _hull_lattice(inner)[1])
    return torch.from_numpy(rows)


def polytope_from_facets(facets: Any) -> Structure:
    r"""The polytope with given facets, each the set of its nodes, with all its faces; see `polytope` for how they are written.

    The faces are the intersections of facets. They must be those of a polytope: graded; two faces that differ by two ranks have exactly two
    between them; what lies around a face hangs together; and Euler's relation holds. Up to rank 3 nothing else passes; from rank 4 on some
    lattices pass that no points realise, such as those of triangulated 3-manifolds.

    Args:
        facets: Lists of nodes, in any order, or a matrix with one facet a row. Nodes are numbered from 0, each in some facet.

    Raises:
        IncidenceError: A facet is broken, or they do not make a polytope; the message says which face is wrong.

    Example:
        >>> polytope_from_facets([[0, 1, 2], [0, 1, 3], [0, 2, 3], [1, 2, 3]])  # a tetrahedron
        Structure(num_nodes=4, '{i j}': 6 entries, 'rank2={i ...}': 4 entries)
    """
    lists = read_node_lists("facets", facets)
    if len(lists) < 2:
        raise IncidenceError(f"a polytope has at least 2 facets; got {len(lists)}.")
    known = set(lists.nodes.tolist())
    num_nodes = max(known, default=0) + 1
    assert_nodes(lists, num_nodes, lambda k: f"facets[{k}]")
    if len(known) < num_nodes:
        bad = next(node for node in range(num_nodes) if node not in known)
        raise IncidenceError(
            f"node {bad} is in no facet, but node {max(known)} is: nodes are numbered from 0 without gaps. Renumber them."
        )
    masks = [mask_of(nodes.tolist()) for nodes in lists.nodes.split(lists.sizes.tolist())]
    spare = loose_nodes(
        transposed(masks, num_nodes), len(masks)
    )  # of facets seen as nodes, and nodes as the facets around them
    if spare:
        one = spare[0]
        other = next(
            k for k in range(len(masks)) if k != one and masks[k] & masks[one] == masks[one]
        )
        raise IncidenceError(
            f"all nodes of facet {one}, {nodes_of(masks[one])}, lie in facet {other} as well. Remove facet {one}."
        )
    loose = loose_nodes(masks, num_nodes)
    if loose:
        raise IncidenceError(
            f"node {loose[0]} is no corner: the facets that contain it have other nodes in common. Correct the facets."
        )
    return _structure(face_lattice(masks, num_nodes), num_nodes)


def _hull_lattice(cloud: ExactCloud | RoundedCloud) -> tuple[list[list[int]], list[int]]:
    """The faces of a convex hull, nodes being its corners alone, and the points that are no corners.

    If the lattice is one of a polytope of the right rank then no facet is missing, so that only then something can be said of corners.
    """
    facets = cloud.facets()
    loose = loose_nodes(facets, len(cloud.points))
    kept = sorted(set(range(len(cloud.points))) - set(loose))
    number = {node: k for k, node in enumerate(kept)}
    masks = (
        [mask_of([number[node] for node in nodes_of(facet) if node in number]) for facet in facets]
        if loose
        else facets
    )
    try:
        if len(masks) < 2 or loose_nodes(transposed(masks, len(kept)), len(masks)):
            raise NotPolytopeError("some facets are missing, or lie in others.")
        levels = face_lattice(masks, len(kept))
        if len(levels) != cloud.dimension:
            raise NotPolytopeError(
                f"the faces have {len(levels)} ranks instead of {cloud.dimension}."
            )
    except NotPolytopeError as error:
        raise IncidenceError(
            f"the faces of the convex hull cannot be told apart in double precision ({error}) Give a larger or smaller `tolerance`, or "
            f"the facets to `polytope_from_facets`."
        ) from None
    return levels, loose


def _structure(levels: list[list[int]], num_nodes: int) -> Structure:
    return assemble_ranks(
        num_nodes, [NodeLists.of_lists(list(map(nodes_of, level))) for level in levels[1:]]
    )


def _as_points(points: Any) -> NDArray[Any]:
    """Points as int64, Python's integers, or float64."""
    try:
        values = as_array(points)
        if values.dtype.kind not in "iu" and not (
            values.dtype.kind == "O" and all(isinstance(v, int) for v in values.flat)
        ):
            values = values.astype(np.float64) if values.dtype.kind in "fO" else np.zeros(())
    except (TypeError, ValueError, OverflowError):
        values = np.zeros(())
    if values.ndim != 2:
        got = (
            f"shape {list(points.shape)} of {points.dtype}"
            if hasattr(points, "dtype")
            else type(points).__name__
        )
        raise IncidenceError(
            f"points must be a matrix of numbers, shape [nodes, dimensions]; got {got}."
        )
    if values.shape[0] < 2 or values.shape[1] < 1:
        raise IncidenceError(
            f"a polytope has at least 2 corners in at least 1 dimension; got points of shape {list(values.shape)}."
        )
    is_far = (
        (np.abs(values) >= _FAR).any(axis=1)
        if values.dtype.kind == "O"
        else np.zeros(len(values), dtype=bool)
    )
    if is_far.any():
        bad = int(np.flatnonzero(is_far)[0])
        raise IncidenceError(
            f"point {bad} has a coordinate of 2^1000 or more, too large for double precision. Scale the points down."
        )
    if values.dtype.kind == "f" and not np.isfinite(values).all():
        bad = int(np.flatnonzero(~np.isfinite(values).all(axis=1))[0])
        raise IncidenceError(
            f"point {bad} is {_shown(values, bad)}: coordinates must be finite numbers."
        )
    return values


def _cloud(values: NDArray[Any], tolerance: float | None) -> ExactCloud | RoundedCloud:
    if tolerance is not None and (
        not isinstance(tolerance, (int, float, np.number)) or not 0 <= tolerance < 0.1
    ):
        raise IncidenceError(
            f"tolerance must be at least 0 and below 0.1, as a part of the size of all points; got {tolerance!r}."
        )
    # Doubles that are integers are meant as such, as long as doubles can tell all integers apart.
    if values.dtype.kind != "f" or bool(
        (np.abs(values) < 2**53).all() and (values == np.rint(values)).all()
    ):
        return ExactCloud(values)
    return RoundedCloud(values, tolerance)


def _shown(values: NDArray[Any], row: int) -> str:
    return (
        f"({', '.join(f'{v:g}' if isinstance(v, float) else str(v) for v in values[row].tolist())})"
    )
