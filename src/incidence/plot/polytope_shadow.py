"""Shadows of polytopes: what has more than three dimensions, on the plane with most symmetry."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from incidence.errors import IncidenceError
from incidence.plot.viewport import Points
from incidence.structure import Structure
from incidence.symmetry import Group
from incidence.symmetry.automorphisms import automorphisms

__all__ = ["shadow"]

_WORDS = 400  # random products of generators that are tried


def shadow(structure: Structure, points: Any) -> Tensor:
    r"""Return the coordinates of a polytope on the plane that a symmetry rotates by the smallest
    angle; shape [nodes, 2].

    An automorphism that is an isometry $A$ has eigenvalues $e^{\pm 2\pi i / h}$; the plane of the
    largest $h$ is the Coxeter plane of a regular polytope, on which its shadow has $h$-fold
    symmetry.

    Args:
        structure: The structure.
        points: The coordinates of its nodes, shape [nodes, dimensions].

    Raises:
        IncidenceError: There are no coordinates, or no symmetry of the structure rotates them.

    Example:
        >>> import incidence as inc
        >>> cell = shadow(inc.geometry.named("24-cell"), inc.geometry.coordinates("24-cell"))
        >>> radii = cell.norm(dim=1).sort()[0]
        >>> (radii[:12] - radii[0]).abs().max() < 1e-6, (radii[12:] - radii[12]).abs().max() < 1e-6
        (tensor(True), tensor(True))
    """
    if points is None:
        raise IncidenceError(
            "a shadow is one of coordinates: give those of the nodes, as in plot.shadow(s,"
            " geometry.coordinates(name))."
        )
    x = np.asarray(torch.as_tensor(points, dtype=torch.float64))
    x = x - x.mean(0)  # symmetries fix the middle
    elements = _elements(automorphisms(structure))
    planes = [plane for element in elements for plane in _planes(x, element)]
    if not planes:
        raise IncidenceError(
            "no symmetry of this structure rotates its coordinates in a plane: use another layout."
        )
    _, axes = max(planes, key=lambda plane: plane[0])
    return torch.from_numpy(x @ axes)


def _elements(group: Group) -> list[Any]:
    """Some permutations of a group: random products of its generators, the same each time."""
    generators = [np.asarray(g) for g in group.generators]
    if not generators:
        return []
    draw = np.random.default_rng(0)
    product = np.arange(len(generators[0]))
    elements = []
    for _ in range(_WORDS):
        product = product[generators[draw.integers(len(generators))]]
        elements.append(product)
    return elements


def _planes(points: Points, permutation: Any) -> list[tuple[float, Points]]:
    """The planes that an isometry rotates, by how many steps make a turn."""
    moved = points[permutation]
    matrix, *_ = np.linalg.lstsq(points, moved, rcond=None)  # (dimensions, dimensions)
    is_linear = np.allclose(points @ matrix, moved, atol=1e-8)
    if not is_linear or not np.allclose(matrix @ matrix.T, np.eye(len(matrix)), atol=1e-8):
        return []
    values, vectors = np.linalg.eig(matrix)
    planes = []
    for k, angle in enumerate(np.angle(values)):
        # Of an eigenvalue that comes twice, no plane is distinguished.
        is_simple = np.sum(np.abs(values - values[k]) < 1e-6) == 1
        if is_simple and 1e-6 < angle < np.pi - 1e-6:
            # (dimensions, 2)
            axes, _ = np.linalg.qr(np.stack([vectors[:, k].real, vectors[:, k].imag], axis=1))
            planes.append((round(2 * np.pi / float(angle), 6), axes))
    return planes
