r"""The facets of the convex hull of points, as masks of the points that lie on them.

Qhull works in floating point and cuts every facet into simplices. *Integer* points are put right exactly: the hyperplane of every simplex
is computed in integers, is kept if no point lies beyond it, and has all points on it. What is kept is a facet beyond doubt; that none is
missing follows once the lattice of their intersections is one of a polytope, as a part of the facets never closes up. *Other* points have
rounded coordinates, and what is flat in the original is not flat in them: neighbouring simplices are joined where all their corners lie
within a tolerance of one hyperplane.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from incidence.errors import IncidenceError, need
from incidence.geometry.integer_planes import normals, pivots
from incidence.geometry.lattices import mask_of

__all__ = ["ExactCloud", "RoundedCloud"]

_SINGLE, _DOUBLE = 1e-6, 1e-10
_CHUNK = 2**22  # signed distances held at a time


def _simplices(points: NDArray[np.float64]) -> Any:
    """Qhull's convex hull of points that span their space."""
    spatial = need("scipy.spatial", "the convex hull of points", "geometry")
    try:
        return spatial.ConvexHull(points)
    except spatial.QhullError as error:
        reason = str(error).strip().splitlines()[0]
        raise IncidenceError(f"the convex hull of the points cannot be found in double precision: {reason}") from None


def _ends(values: NDArray[Any]) -> list[int]:
    """The two facets of a segment, its ends."""
    return [1 << int(values.argmin()), 1 << int(values.argmax())]


class ExactCloud:
    """Points with integer coordinates.

    Args:
        points: Shape [points, dimensions], of int64, or of Python's integers if they are larger.
    """

    def __init__(self, points: NDArray[Any]) -> None:
        largest = max(abs(int(points.max(initial=0))), abs(int(points.min(initial=0))))
        self.points = points.astype(np.int64 if largest < 2**60 else object)
        self.points = self.points - self.points[:1]

    @property
    def dimension(self) -> int:
        """The number of coordinates."""
        return int(self.points.shape[1])

    def take(self, rows: NDArray[np.int64]) -> ExactCloud:
        """Some of the points."""
        return ExactCloud(self.points[rows])

    def equals(self) -> list[tuple[int, int]]:
        """Pairs of equal points, each the first of its kind and a later one."""
        seen: dict[tuple[int, ...], int] = {}
        pairs = ((seen.setdefault(tuple(row), number), number) for number, row in enumerate(self.points.tolist()))
        return [(one, other) for one, other in pairs if one != other]

    def spanned(self) -> ExactCloud:
        """The same points in as many coordinates as they span: leaving out the others loses nothing, and keeps integers."""
        return ExactCloud(self.points[:, pivots(self.points)])

    def facets(self) -> list[int]:
        """The facets of the hull of points that span their space and differ."""
        if self.dimension == 1:
            return _ends(self.points[:, 0])
        corners = _simplices(self.points.astype(np.float64) / float(np.abs(self.points).max())).simplices
        planes = normals(self.points[corners[:, 1:]] - self.points[corners[:, :1]])
        planes, corners = planes[planes.any(axis=1)], corners[planes.any(axis=1)]
        found: dict[int, None] = {}
        step = max(1, _CHUNK // len(self.points))
        for start in range(0, len(planes), step):
            some, on = planes[start : start + step], self.points[corners[start : start + step, 0]]
            heights = some @ self.points.T - (some * on).sum(axis=1, keepdims=True)  # (planes, points)
            is_facet = (heights >= 0).all(axis=1) | (heights <= 0).all(axis=1)
            bits = np.packbits((heights == 0)[is_facet], axis=1, bitorder="little")
            found.update(dict.fromkeys(int.from_bytes(row.tobytes(), "little") for row in bits))
        return list(found)


class RoundedCloud:
    """Points with rounded coordinates.

    Args:
        points: Shape [points, dimensions], finite.
        tolerance: How far from a hyperplane points may lie and still be on it, and how near two points are one, as a part of the
            diagonal of the box around all points; if None 1e-6 for coordinates in single precision or with at most 8 decimal digits, as in
            text files, and 1e-10 for others.
    """

    def __init__(self, points: NDArray[np.float64], tolerance: float | None = None) -> None:
        scaled = points / max(float(np.abs(points).max(initial=0)), np.finfo(float).tiny)
        scaled = scaled - scaled.min(axis=0)
        self.points = scaled
        self.tolerance = _precision(points) if tolerance is None else tolerance
        self.reach = self.tolerance * float(np.linalg.norm(scaled.max(axis=0, initial=0)))

    @property
    def dimension(self) -> int:
        """The number of coordinates."""
        return int(self.points.shape[1])

    def take(self, rows: NDArray[np.int64]) -> RoundedCloud:
        """Some of the points."""
        return RoundedCloud(self.points[rows], self.tolerance)

    def equals(self) -> list[tuple[int, int]]:
        """Pairs of points within the tolerance of each other, in order."""
        spatial = need("scipy.spatial", "the convex hull of points", "geometry")
        pairs: NDArray[np.int64] = spatial.cKDTree(self.points).query_pairs(self.reach, output_type="ndarray")
        return sorted(map(tuple, np.sort(pairs, axis=1).tolist()))

    def spanned(self) -> RoundedCloud:
        """The same points in as many coordinates as they span, up to the tolerance."""
        centred = self.points - self.points.mean(axis=0)
        axes = np.linalg.svd(centred, full_matrices=False)[2]
        thickness = np.ptp(centred @ axes.T, axis=0)
        if (thickness > 2 * self.reach).all() and len(axes) == self.points.shape[1]:
            return self
        return RoundedCloud(centred @ axes[thickness > 2 * self.reach].T, self.tolerance)

    def facets(self) -> list[int]:
        """The facets of the hull of points that span their space and differ."""
        if self.dimension == 1:
            return _ends(self.points[:, 0])
        hull = _simplices(self.points)
        group = self._joined(hull.simplices, hull.neighbors, hull.equations)
        parts = [np.unique(hull.simplices[rows]) for rows in _rows_of(group)]
        for corners in parts:
            self._assert_flat(corners)
        return [mask_of(corners.tolist()) for corners in parts]

    def _joined(self, simplices: NDArray[np.int64], neighbours: NDArray[np.int64], planes: NDArray[np.float64]) -> NDArray[np.int64]:
        """A number for every simplex, equal for those that are joined.

        Parts of one facet of Qhull have one hyperplane. Some of them are so thin that they are flat with a part of any facet beside them:
        they follow Qhull alone.
        """
        graph, csgraph = (need(f"scipy.{name}", "the convex hull of points", "geometry") for name in ("sparse", "sparse.csgraph"))
        one = np.repeat(np.arange(len(simplices)), neighbours.shape[1])
        other = neighbours.reshape(-1)
        one, other = one[one < other], other[one < other]
        apex = (neighbours[other] == one[:, None]).argmax(axis=1)  # which corner of the other is not shared
        corners = np.concatenate([simplices[one], simplices[other, apex][:, None]], axis=1)  # (pairs, dimensions + 1)
        is_one = (planes[one] == planes[other]).all(axis=1)
        is_thin = self._residuals(self.points[simplices], 2) <= self.reach
        is_thin &= np.bincount(np.concatenate([one[is_one], other[is_one]]), minlength=len(simplices)) > 0
        is_flat = is_one | ((self._residuals(self.points[corners]) <= self.reach) & ~is_thin[one] & ~is_thin[other])
        links = graph.coo_array((np.ones(is_flat.sum()), (one[is_flat], other[is_flat])), shape=(len(simplices),) * 2)
        group: NDArray[np.int64] = csgraph.connected_components(links, directed=False)[1]
        return group

    def _residuals(self, sets: NDArray[np.float64], codimension: int = 1) -> NDArray[np.float64]:
        """How far the points of each set lie from the hyperplane, or one of a smaller dimension, that fits them best."""
        centred = sets - sets.mean(axis=-2, keepdims=True)
        normal = np.linalg.svd(centred, full_matrices=False)[2][..., -codimension, None, :]
        residuals: NDArray[np.float64] = np.abs((centred * normal).sum(axis=-1)).max(axis=-1)
        return residuals

    def _assert_flat(self, corners: NDArray[np.int64]) -> None:
        if len(corners) > self.points.shape[1] + 1 and self._residuals(self.points[corners]) > 2 * self.reach:
            raise IncidenceError(
                f"points {corners[:6].tolist()}... lie on one hyperplane two facets at a time, but not together, up to the tolerance "
                f"{self.tolerance:g}. Give a smaller `tolerance`."
            )


def _rows_of(group: NDArray[np.int64]) -> list[NDArray[np.int64]]:
    order = np.argsort(group, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(group[order])) + 1)


def _precision(points: NDArray[np.float64]) -> float:
    with np.errstate(divide="ignore", over="ignore", under="ignore", invalid="ignore"):
        unit = 10.0 ** (7 - np.floor(np.log10(np.abs(points))))
        is_short = (points == 0) | (np.abs(np.rint(points * unit) / unit - points) <= 1e-15 * np.abs(points))
        is_single = points.astype(np.float32).astype(np.float64) == points
    return _SINGLE if is_short.all() or is_single.all() else _DOUBLE
