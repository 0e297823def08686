"""Where the nodes of one structure are on paper: a camera, the light on faces, and a viewport."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from incidence.plot.scene import Point

__all__ = ["Camera", "Points", "Viewport"]

Points = NDArray[np.float64]
"""Coordinates of nodes, shape (nodes, dimensions)."""

# right, up, towards the reader
_SUN = np.array([-0.35, 0.55, 0.75]) / np.linalg.norm([-0.35, 0.55, 0.75])


@dataclass(frozen=True)
class Camera:
    """Looks at the middle of what is drawn.

    Attributes:
        azimuth, elevation: Where it stands, in degrees.
        distance: In radii of what is drawn; near cameras exaggerate depth.
    """

    azimuth: float = -55.0
    elevation: float = 20.0
    distance: float = 6.0

    def see(self, points: Points) -> Points:
        """Return how far points lie right, up and towards the camera; shape (points, 3)."""
        turn = np.radians(self.azimuth)
        tilt = np.radians(self.elevation)
        right = np.array([-np.sin(turn), np.cos(turn), 0.0])
        towards = np.array([np.cos(tilt) * np.cos(turn), np.cos(tilt) * np.sin(turn), np.sin(tilt)])
        axes = np.stack([right, np.cross(towards, right), towards])  # (3, 3): right, up, towards
        seen = (points - (points.max(0) + points.min(0)) / 2) @ axes.T
        radius = float(np.linalg.norm(seen, axis=1).max(initial=0)) or 1.0
        near = self.distance * radius / (self.distance * radius - seen[:, 2:])  # (points, 1)
        return np.concatenate([seen[:, :2] * near, seen[:, 2:]], axis=1)


@dataclass(frozen=True)
class Viewport:
    """Paper with the nodes of one structure on it.

    Attributes:
        places: In points from the upper left corner, shape (nodes, 2).
        space: Right, up and towards the reader, shape (nodes, 3), if there is a third dimension.
        radius: Radius of a node, in points: so small that neighbours do not touch.
        width, height: Size of the drawing, in points.
    """

    places: Points
    space: Points | None
    radius: float
    width: float
    height: float

    @staticmethod
    def of(
        points: Points, size: float, camera: Camera, room: float = 0.34, margin: float = 14.0
    ) -> Viewport:
        """Put coordinates on paper.

        Args:
            points: Mark (nodes, 2 or 3).
            size: The longer side of the paper.
            camera: Where one looks from, if there are three dimensions.
            room: The share of the room between nodes that they fill.
            margin: Points around the drawing.
        """
        # a flat drawing needs no camera
        has_depth = points.shape[1] == 3 and len(points) > 0 and np.ptp(points[:, 2]) > 1e-9
        space = camera.see(points) if has_depth else None
        flat = (points if space is None else space)[:, :2] * [1, -1]  # (nodes, 2)
        low = flat.min(0) if len(flat) else np.zeros(2)
        extent = np.ptp(flat, axis=0) if len(flat) else np.zeros(2)
        scale = (size - 2 * margin) / (float(extent.max(initial=0)) or 1.0)
        places = (flat - low) * scale + margin
        wide, high = (np.maximum(extent * scale, size / 6) + 2 * margin).tolist()
        places = places + (np.array([wide, high]) - 2 * margin - extent * scale) / 2  # centred
        return Viewport(
            places,
            space,
            _radius(places, room, is_flat=space is None),
            wide,
            high,
        )

    def at(self, node: int) -> Point:
        """Return the place of a node."""
        x, y = self.places[node].tolist()
        return x, y

    def middle(self, nodes: Sequence[int]) -> Point:
        """Return the middle of some nodes."""
        x, y = self.places[list(nodes)].mean(0).tolist()
        return x, y

    def depth(self, nodes: Sequence[int]) -> float:
        """Return how near to the reader the middle of some nodes is; 0 on flat paper."""
        return 0.0 if self.space is None else float(self.space[list(nodes), 2].mean())

    def light(self, nodes: Sequence[int]) -> float:
        """Return how much light falls on a face: 0.62 to 1.1 on either side, 1 on flat paper."""
        if self.space is None:
            return 1.0
        corners = self.space[list(nodes)]
        # twice the area, by Newell's method
        normal = np.cross(corners, np.roll(corners, -1, axis=0)).sum(0)
        length = float(np.linalg.norm(normal))
        if not length:
            return 0.85
        # towards the reader: faces have no inside here
        normal = normal * np.sign(normal[2] or 1.0) / length
        return 0.62 + 0.48 * max(0.0, float(normal @ _SUN))


def _radius(places: Points, room: float, is_flat: bool) -> float:
    """A share of the distance to the nearest other node, for most nodes.

    It is less in space, where nodes stand behind each other.
    """
    most = 8.5 if is_flat else 4.0
    if len(places) < 2:
        return most
    # all distances of thousands of nodes take too long
    sample = places[:: max(1, len(places) // 400)]
    apart = np.linalg.norm(sample[:, None] - places, axis=-1)  # (sample, nodes)
    apart[apart < 1e-6] = np.inf
    # Not the least one: two nodes that nearly meet would make all nodes dots.
    nearest = float(np.quantile(apart.min(1), 0.25))
    return min(most, max(0.6, room * nearest if np.isfinite(nearest) else most))
