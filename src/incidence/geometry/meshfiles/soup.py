"""What a mesh file says, before anything is checked but its grammar, and the numbers of its lines for messages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray

from incidence.errors import IncidenceError
from incidence.geometry.node_lists import NodeLists
from incidence.structure.ragged import ranges

__all__ = ["Floats", "Integers", "Soup", "damaged", "shown"]

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]


def _none() -> Integers:
    return np.zeros((0, 4), dtype=np.int64)


@dataclass(frozen=True)
class Soup:
    """Points and polygons as a file has them, polygons by number of nodes and nodes one after the other.

    Attributes:
        name: How messages call the file.
        points: Shape [nodes, dimensions].
        sizes: The number of nodes of every polygon.
        nodes: The nodes of all polygons, numbered from 0.
        tetrahedra: Shape [tetrahedra, 4]; of a volume.
        first: How the file itself numbers its first point, for messages.
        point_lines: The line of every point, where the file has lines.
        face_lines: The line of every polygon.
    """

    name: str
    points: Floats
    sizes: Integers
    nodes: Integers
    tetrahedra: Integers = field(default_factory=_none)
    first: int = 0
    point_lines: Sequence[int] | None = None
    face_lines: Sequence[int] | None = None

    def point(self, number: int) -> str:
        """The place of a point, for a message."""
        return _place(self.name, "point", number, self.point_lines)

    def face(self, number: int) -> str:
        """The place of a polygon, for a message."""
        return _place(self.name, "face", number, self.face_lines)

    def tetrahedron(self, number: int) -> str:
        """The place of a tetrahedron, for a message."""
        return _place(self.name, "tetrahedron", number, None)

    @property
    def faces(self) -> NodeLists:
        """The polygons."""
        return NodeLists(ranges(torch.from_numpy(self.sizes)), torch.from_numpy(self.nodes))


def _place(name: str, what: str, number: int, lines: Sequence[int] | None) -> str:
    return f"{name}, {what} {number}" + (f" (line {lines[number]})" if lines is not None else "")


def damaged(what: str) -> IncidenceError:
    """The error for a file that breaks the grammar of its format."""
    return IncidenceError(f"{what} The file is cut off or damaged.")


def shown(token: bytes) -> str:
    """A word of a file as a message quotes it."""
    text = token[:40].decode("ascii", "backslashreplace")
    return f"`{text}{'…' * (len(token) > 40)}`"
