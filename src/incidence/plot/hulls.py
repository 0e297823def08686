"""Regions around points: the convex hull of circles. Standard library only."""

from __future__ import annotations

from collections.abc import Sequence
from math import cos, pi, sin

from incidence.plot.scene import Point

__all__ = ["holds", "region_around"]

_SIDES = 16  # corners of a circle


def region_around(points: Sequence[Point], reach: float) -> tuple[Point, ...]:
    """The corners of the convex hull of circles around points, such that what lies inside is at the left of all sides.

    Example:
        >>> holds(region_around([(0.0, 0.0), (4.0, 0.0)], 1.0), (2.0, 0.5)), holds(region_around([(0.0, 0.0)], 1.0), (2.0, 0.5))
        (True, False)
    """
    turns = [2 * pi * k / _SIDES for k in range(_SIDES)]
    corners = sorted({(x + reach * cos(t), y + reach * sin(t)) for x, y in points for t in turns})
    return tuple(_chain(corners)[:-1] + _chain(corners[::-1])[:-1])


def _chain(corners: Sequence[Point]) -> list[Point]:
    """One side of a convex hull, by Andrew's method."""
    kept: list[Point] = []
    for corner in corners:
        while len(kept) >= 2 and _turn(kept[-2], kept[-1], corner) <= 0:
            kept.pop()
        kept.append(corner)
    return kept


def _turn(a: Point, b: Point, c: Point) -> float:
    return (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0])


def holds(region: Sequence[Point], point: Point) -> bool:
    """Whether a point lies in a convex region."""
    return all(
        _turn(a, b, point) >= 0 for a, b in zip(region, [*region[1:], region[0]], strict=True)
    )
