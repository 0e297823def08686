r"""The facets of the convex hull of points, as masks of the points that lie on them; found by Qhull.

Qhull works in floating point. *Integer* points are put right exactly: the hyperplane of every simplex that Qhull finds is computed in
integers, is kept if no point lies beyond it, and has all points on it. What is kept is a facet beyond doubt; that none is missing follows
once the lattice of their intersections is one of a polytope, as a part of the facets never closes up. *Other* points have rounded
coordinates, and what is flat in the original is not flat in them: Qhull merges neighbouring facets that are flat up to a tolerance.
"""

from __future__ import annotations

from math import gcd, lcm
from typing import Any

import numpy as np
from numpy.typing import NDArray

from incidence.errors import IncidenceError, need
from incidence.geometry.face_lattice import mask_of

__all__ = ["ExactCloud", "RoundedCloud"]

_SINGLE, _DOUBLE = 1e-6, 1e-10


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
    """Points of which some span a convex hull; `tolerance` is how far off a hyperplane points on it may lie."""

    points: NDArray[Any]
    tolerance = 0.0

    @property
    def dimension(self) -> int:
        return int(self.points.shape[1])

    def facets(self) -> list[int]:
        """The facets of the hull of points that span their space and differ; those of a segment are its ends."""
        values = self.points[:, 0]
        return (
            [1 << int(values.argmin()), 1 << int(values.argmax())]
            if self.dimension == 1
            else self._facets()
        )

    def _facets(self) -> list[int]:
        raise NotImplementedError


class ExactCloud(_Cloud):
    """Points with integer coordinates.

    Args:
        points: Shape [points, dimensions], integers of any size.
    """

    def __init__(self, points: NDArray[Any]) -> None:
        largest = max(abs(int(points.max(initial=0))), abs(int(points.min(initial=0))))
        self.points = points.astype(np.int64 if largest < 2**60 else object)
        self.points = self.points - self.points[:1]

    def equals(self) -> list[tuple[int, int]]:
        """Pairs of equal points, each the first of its kind and a later one."""
        seen: dict[tuple[int, ...], int] = {}
        pairs = (
            (seen.setdefault(tuple(row), number), number)
            for number, row in enumerate(self.points.tolist())
        )
        return [(one, other) for one, other in pairs if one != other]

    def spanned(self) -> ExactCloud:
        """The same points in as many coordinates as they span: leaving out the others loses nothing, and keeps integers."""
        return ExactCloud(self.points[:, sorted(_echelon(self.points.tolist()))])

    def _facets(self) -> list[int]:
        largest = int(np.abs(self.points).max())
        found: dict[tuple[int, ...], int | None] = {}
        for corners in _hull(self.points.astype(np.float64) / float(largest)).simplices.tolist():
            first, *others = self.points[corners].tolist()
            normal = _normal(
                [[a - b for a, b in zip(other, first, strict=True)] for other in others]
            )
            plane = (*normal, sum(a * b for a, b in zip(normal, first, strict=True)))
            if plane not in found and any(normal):
                fits = (
                    self.dimension * largest * max(map(abs, normal)) < 2**61
                )  # else Python's integers, which never overflow
                heights = (
                    self.points.astype(np.int64 if fits else object)
                    @ np.array(normal, dtype=None if fits else object)
                    - plane[-1]
                )
                is_facet = (heights >= 0).all() or (heights <= 0).all()
                found[plane] = mask_of(np.flatnonzero(heights == 0).tolist()) if is_facet else None
        return [facet for facet in found.values() if facet is not None]


def _echelon(vectors: list[list[int]]) -> dict[int, list[int]]:
    """The span of integer vectors as rows by the column in which each starts, all other rows 0 there; without fractions."""
    rows: dict[int, list[int]] = {}
    for vector in vectors:
        if len(rows) == len(vector):
            break
        for column, own in rows.items():
            vector = _cleared(vector, own, column)
        start = next((column for column, value in enumerate(vector) if value), None)
        if start is not None:
            rows = {column: _cleared(own, vector, start) for column, own in rows.items()} | {
                start: vector
            }
    return rows


def _cleared(row: list[int], other: list[int], column: int) -> list[int]:
    """A multiple of a row minus one of another that starts in a column, so that the row has 0 there."""
    if not row[column]:
        return row
    row = [other[column] * a - row[column] * b for a, b in zip(row, other, strict=True)]
    common = gcd(*row) or 1
    return [value // common for value in row]


def _normal(vectors: list[list[int]]) -> list[int]:
    """The shortest integer vector, up to its sign, that is orthogonal to d - 1 integer vectors in dimension d; 0 if they are dependent."""
    rows, dimension = _echelon(vectors), len(vectors[0])
    if len(rows) < dimension - 1:
        return [0] * dimension
    [free] = set(range(dimension)) - rows.keys()
    scale = lcm(*(own[column] for column, own in rows.items()))
    normal = [
        -rows[column][free] * scale // rows[column][column] if column in rows else scale
        for column in range(dimension)
    ]
    return [value // gcd(*normal) for value in normal]


class RoundedCloud(_Cloud):
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

    def equals(self) -> list[tuple[int, int]]:
        """Pairs of points within the tolerance of each other, in order."""
        spatial = need("scipy.spatial", "the convex hull of points", "geometry")
        pairs: NDArray[np.int64] = spatial.cKDTree(self.points).query_pairs(
            self.reach, output_type="ndarray"
        )
        return sorted(map(tuple, np.sort(pairs, axis=1).tolist()))

    def spanned(self) -> RoundedCloud:
        """The same points in as many coordinates as they span, up to the tolerance."""
        centred = self.points - self.points.mean(axis=0)
        axes = np.linalg.svd(centred, full_matrices=False)[2]
        thickness = np.ptp(centred @ axes.T, axis=0)
        if (thickness > 2 * self.reach).all() and len(axes) == self.points.shape[1]:
            return self
        return RoundedCloud(centred @ axes[thickness > 2 * self.reach].T, self.tolerance)

    def _facets(self) -> list[int]:
        hull = _hull(self.points, f"Qt C-{self.reach:.3g}")
        # Simplices of one merged facet have one equation.
        _, group = np.unique(hull.equations, axis=0, return_inverse=True)
        parts: dict[int, set[int]] = {}
        for number, corners in zip(group.ravel().tolist(), hull.simplices.tolist(), strict=True):
            parts.setdefault(number, set()).update(corners)
        return [mask_of(list(corners)) for corners in parts.values()]


def _precision(points: NDArray[np.float64]) -> float:
    with np.errstate(divide="ignore", over="ignore", under="ignore", invalid="ignore"):
        unit = 10.0 ** (7 - np.floor(np.log10(np.abs(points))))
        is_short = (points == 0) | (
            np.abs(np.rint(points * unit) / unit - points) <= 1e-15 * np.abs(points)
        )
        is_single = points.astype(np.float32).astype(np.float64) == points
    return _SINGLE if is_short.all() or is_single.all() else _DOUBLE
