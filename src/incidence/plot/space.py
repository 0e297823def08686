"""Three dimensions on paper: a camera, and the light on a face."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from incidence.plot.stress import Points

__all__ = ["Camera", "light_on"]

_SUN = np.array([-0.35, 0.55, 0.75]) / np.linalg.norm(
    [-0.35, 0.55, 0.75]
)  # right, up, towards the reader


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
        """What lies right, up and towards the camera: shape (points, 3)."""
        turn, tilt = np.radians(self.azimuth), np.radians(self.elevation)
        right = np.array([-np.sin(turn), np.cos(turn), 0.0])
        towards = np.array([np.cos(tilt) * np.cos(turn), np.cos(tilt) * np.sin(turn), np.sin(tilt)])
        up = np.cross(towards, right)
        seen = (points - (points.max(0) + points.min(0)) / 2) @ np.stack([right, up, towards]).T
        radius = float(np.linalg.norm(seen, axis=1).max(initial=0)) or 1.0
        near = self.distance * radius / (self.distance * radius - seen[:, 2:])
        return np.concatenate([seen[:, :2] * near, seen[:, 2:]], axis=1)


def light_on(corners: Points) -> float:
    """How much light falls on a face, whichever of its sides is seen: from 0.62 to 1.1."""
    normal = np.cross(corners, np.roll(corners, -1, axis=0)).sum(
        0
    )  # twice the area, by Newell's method
    length = float(np.linalg.norm(normal))
    if not length:
        return 0.85
    normal = normal * np.sign(normal[2] or 1.0) / length
    return 0.62 + 0.48 * max(0.0, float(normal @ _SUN))
