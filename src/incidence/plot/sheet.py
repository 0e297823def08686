"""A sheet of paper with the nodes of one structure on it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from incidence.plot.scene import Point
from incidence.plot.space import Camera, light_on
from incidence.plot.stress import Points

__all__ = ["Sheet"]


@dataclass(frozen=True)
class Sheet:
    """Where the nodes are on paper.

    Attributes:
        places: In points from the upper left corner, shape (nodes, 2).
        space: Right, up and towards the reader, shape (nodes, 3), if there is a third dimension.
        radius: Of a node, in points: small enough that nodes next to each other do not touch.
        width, height: Of the drawing, in points.
    """

    places: Points
    space: Points | None
    radius: float
    width: float
    height: float

    @staticmethod
    def of(
        points: Points, size: float, camera: Camera, room: float = 0.34, margin: float = 14.0
    ) -> Sheet:
        """Puts coordinates on paper whose longer side has a size; nodes take a share of the room between them."""
        space = (
            camera.see(points)
            if points.shape[1] == 3 and len(points) and np.ptp(points[:, 2]) > 1e-9
            else None
        )
        flat = (points if space is None else space)[:, :2] * [1, -1]
        low = flat.min(0) if len(flat) else np.zeros(2)
        extent = np.ptp(flat, axis=0) if len(flat) else np.zeros(2)
        scale = (size - 2 * margin) / (float(extent.max(initial=0)) or 1.0)
        places = (flat - low) * scale + margin
        wide, high = (np.maximum(extent * scale, size / 6) + 2 * margin).tolist()
        places = places + (np.array([wide, high]) - 2 * margin - extent * scale) / 2
        return Sheet(places, space, _radius(places, room, is_flat=space is None), wide, high)

    def at(self, node: int) -> Point:
        """The place of a node."""
        x, y = self.places[node].tolist()
        return x, y

    def middle(self, nodes: Sequence[int]) -> Point:
        """The middle of some nodes."""
        x, y = self.places[list(nodes)].mean(0).tolist()
        return x, y

    def depth(self, nodes: Sequence[int]) -> float:
        """How near to the reader the middle of some nodes is; 0 on flat paper."""
        return 0.0 if self.space is None else float(self.space[list(nodes), 2].mean())

    def light(self, nodes: Sequence[int]) -> float:
        """How much light falls on a face; 1 on flat paper."""
        return 1.0 if self.space is None else light_on(self.space[list(nodes)])


def _radius(places: Points, room: float, is_flat: bool) -> float:
    """A share of how far the nearest other node is, for most nodes; less in space, where nodes stand behind each other."""
    most = 8.5 if is_flat else 4.0
    if len(places) < 2:
        return most
    sample = places[:: max(1, len(places) // 400)]
    apart = np.linalg.norm(sample[:, None] - places, axis=-1)
    apart[apart < 1e-6] = np.inf
    nearest = float(np.quantile(apart.min(1), 0.25))
    return min(most, max(0.6, room * nearest if np.isfinite(nearest) else most))
