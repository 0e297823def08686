"""Graphs from coordinates: points that are near each other."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor

from incidence.errors import IncidenceError, need
from incidence.geometry.complexes import graph
from incidence.geometry.node_lists import as_integer
from incidence.structure import Structure
from incidence.structure.ragged import MAX_ENTRIES, assert_few

__all__ = ["as_points", "as_radius", "point_cloud"]

_SMALL = 4096  # points up to which all distances are computed, in blocks of rows; beyond, a tree
_BLOCK = 2**22  # distances held at once


def point_cloud(points: Any, radius: float | None = None, k: int | None = None) -> Structure:
    r"""Return the graph of points that are near each other: the tensor `{i j}` over the points, in
    their order.

    With `radius`, edges join points at a distance of at most `radius`. With `k`, edges join every
    point to its k nearest others, in either direction. Points equally far (up to rounding) all
    count, so the graph does not depend on the order of the points.

    Args:
        points: Coordinates, shape [points, dimensions].
        radius: The largest distance of an edge.
        k: How many neighbours each point has at least.

    Raises:
        IncidenceError: Not exactly one of `radius` and `k` is given, or a coordinate is not finite.
        TooLargeError: There are too many edges.
        MissingExtraError: There are more than 4096 points, and scipy is not installed.

    Example:
        >>> square = [[0.0, 0.0], [1.0, 0.0], [1.0, 1.0], [0.0, 1.0]]
        >>> point_cloud(square, radius=1.1)["{i j}"].T.tolist()
        [[0, 1], [0, 3], [1, 2], [2, 3]]
    """
    where = as_points(points, "point_cloud")
    dtype = torch.as_tensor(points).dtype
    precision = torch.finfo(dtype if dtype.is_floating_point else torch.float64).eps
    # of a distance, as coordinates were rounded
    rounding = 4 * precision * float(where.norm(dim=1).max()) if len(where) else 0.0
    if (radius is None) == (k is None):
        raise IncidenceError(
            "point_cloud takes either radius= or k=: the largest distance of an edge, or a number"
            " of nearest neighbours."
        )
    reach = as_radius(radius, "point_cloud") if radius is not None else None
    nearest = as_integer("point_cloud", "k", k, 1) if k is not None else 0
    if nearest and nearest >= len(where):
        raise IncidenceError(
            f"point_cloud: k must be less than the number of points, which is {len(where)}; got"
            f" {k!r}."
        )
    neighbours = _all_distances if len(where) <= _SMALL else _tree
    ends = [torch.zeros(2, 0, dtype=torch.long)]
    total = 0
    for one, other in neighbours(where, reach, nearest, rounding):
        total += len(one)
        _assert_few_edges(total, reach)
        ends.append(torch.stack([one, other])[:, one != other])
    return graph(torch.cat(ends, dim=1), len(where))


def as_points(points: Any, who: str) -> Tensor:
    """Return coordinates as float64 on the host, shape [points, dimensions]."""
    try:
        where = torch.as_tensor(points).detach().to("cpu", torch.float64)
    except (TypeError, ValueError, RuntimeError):
        raise IncidenceError(
            f"{who}: points must be numbers of shape [points, dimensions]; got"
            f" {type(points).__name__}."
        ) from None
    if where.ndim != 2:
        raise IncidenceError(
            f"{who}: points must be numbers of shape [points, dimensions]; got shape"
            f" {list(where.shape)}."
        )
    is_bad = ~where.isfinite().all(1)
    if is_bad.any():
        bad = int(is_bad.nonzero()[0])
        raise IncidenceError(
            f"{who}: points[{bad}] is {where[bad].tolist()}: coordinates are finite numbers. Drop"
            " the point."
        )
    return where


def as_radius(radius: Any, who: str) -> float:
    """Return a radius, and check that it is finite and not negative."""
    try:
        value = float("nan") if isinstance(radius, str) else float(radius)
    except (TypeError, ValueError):
        value = float("nan")
    if not 0 <= value < float("inf"):
        raise IncidenceError(f"{who}: the radius is a number of at least 0; got {radius!r}.")
    return value


Neighbours = Iterator[tuple[Tensor, Tensor]]


def _assert_few_edges(count: int, radius: float | None) -> None:
    remedy = "Give a smaller k" if radius is None else "Give a smaller radius"
    assert_few(count, MAX_ENTRIES, "there are too many edges", remedy)


def _all_distances(points: Tensor, radius: float | None, k: int, rounding: float) -> Neighbours:
    """All distances, a block of points at a time."""
    rows = max(1, _BLOCK // max(len(points), 1))
    for start in range(0, len(points), rows):
        block = points[start : start + rows]
        distances = torch.cdist(block, points, compute_mode="donot_use_mm_for_euclid_dist")
        reach: Any = radius
        if radius is None:  # the point itself is nearest
            reach = distances.kthvalue(k + 1, dim=1, keepdim=True)[0] + rounding
        one, other = (distances <= reach).nonzero().unbind(1)
        yield one + start, other


def _tree(points: Tensor, radius: float | None, k: int, rounding: float) -> Neighbours:
    """Neighbours from a tree, counted before they are listed."""
    spatial = need("scipy.spatial", f"a cloud of more than {_SMALL} points", "geometry")
    tree = spatial.cKDTree(points.numpy())
    for start in range(0, len(points), _SMALL):
        block = points[start : start + _SMALL].numpy()
        reach: Any = radius
        if radius is None:
            reach = tree.query(block, k=[k + 1])[0][:, 0] + rounding
        counts = tree.query_ball_point(block, reach, return_length=True)
        _assert_few_edges(int(counts.sum()), radius)
        lists = tree.query_ball_point(block, reach)
        other = np.concatenate([np.asarray(near, dtype=np.int64) for near in lists])
        one = np.repeat(np.arange(start, start + len(block)), counts)
        yield torch.from_numpy(one), torch.from_numpy(other)
