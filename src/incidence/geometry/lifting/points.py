"""Complexes of points: Vietoris-Rips and alpha."""

from __future__ import annotations

from math import exp, lgamma, log, pi
from typing import Any

import torch

from incidence.algebra.pattern import Pattern
from incidence.errors import IncidenceError, need
from incidence.geometry.assembly import attach_faces, face_text
from incidence.geometry.lifting.adjacency import LIMIT, Bound
from incidence.geometry.lifting.cliques import add_cliques
from incidence.geometry.node_lists import as_integer
from incidence.geometry.point_clouds import as_points, as_radius
from incidence.structure import Structure

__all__ = ["alpha", "vietoris_rips"]


def vietoris_rips(points: Any, radius: float, max_size: int = 3, *, limit: int | None = LIMIT) -> Structure:
    r"""The sets of up to so many points that are pairwise at most a radius apart: tensors `{i j}`, `{i j k}`, ....

    Args:
        points: Coordinates, shape [points, dimensions].
        radius: The largest distance between two points of a face.
        max_size: The number of points of the largest faces.
        limit: How many faces of one size may be found; None for any number.

    Raises:
        TooLargeError: There are more faces than the limit.

    Example:
        >>> square = [[0.0, 0.0], [1.0, 0.0], [1.0, 1.0], [0.0, 1.0]]
        >>> vietoris_rips(square, radius=1.0)
        Structure(num_nodes=4, '{i j}': 4 entries, '{i j k}': 0 entries)
        >>> vietoris_rips(square, radius=1.5)
        Structure(num_nodes=4, '{i j}': 6 entries, '{i j k}': 4 entries)
    """
    max_size = as_integer("vietoris_rips", "max_size", max_size, 2)
    at = as_points(points, "vietoris_rips")
    spatial = need("scipy.spatial", "vietoris_rips", "geometry")
    bound = Bound("vietoris_rips", limit, "Lower the radius or max_size")
    radius = as_radius(radius, "vietoris_rips")
    pairs = torch.zeros(0, 2, dtype=torch.long)
    if len(at):
        tree = spatial.cKDTree(at.numpy())
        bound.assert_room((int(tree.count_neighbors(tree, radius)) - len(at)) // 2, "pairs of points")
        pairs = torch.from_numpy(tree.query_pairs(radius, output_type="ndarray")).long()
    graph = attach_faces(Structure(len(at)), {"{i j}": [pairs]})
    return add_cliques(graph, Pattern("{i j}"), max_size, bound)


def alpha(points: Any, radius: float | None = None, max_size: int | None = None, *, limit: int | None = LIMIT) -> Structure:
    r"""The alpha complex: faces of the Delaunay triangulation whose empty circumscribed ball is at most so large.

    Args:
        points: Coordinates, shape [points, dimensions]; no point twice.
        radius: The largest radius of a ball; any, if not given, which is the whole triangulation.
        max_size: The number of points of the largest faces; dimensions + 1, if not given.
        limit: How many faces may be found; None for any number. Points in many dimensions for which a triangulation of evenly spread points
            would have more are refused before it is made.

    Raises:
        TooLargeError: There are more faces than the limit.

    Example:
        >>> square_with_centre = [[0.0, 0.0], [1.0, 0.0], [1.0, 1.0], [0.0, 1.0], [0.4, 0.5]]
        >>> alpha(square_with_centre)
        Structure(num_nodes=5, '{i j}': 8 entries, '{i j k}': 4 entries)
        >>> alpha(square_with_centre, radius=0.4)
        Structure(num_nodes=5, '{i j}': 4 entries, '{i j k}': 0 entries)
    """
    at = as_points(points, "alpha")
    full = at.shape[1] + 1
    top = full if max_size is None else min(as_integer("alpha", "max_size", max_size, 2), full)
    if len(at) and len(torch.unique(at, dim=0)) < len(at):
        raise IncidenceError("alpha: a point stands twice among the points. Keep one of each, as with torch.unique(points, dim=0).")
    bound = Bound("alpha", limit, "Take fewer points or dimensions")
    bound.assert_room(_expected_faces(*at.shape), "faces to be expected in the triangulation")
    largest = float("inf") if radius is None else as_radius(radius, "alpha") ** 2
    faces: dict[int, list[list[int]]] = {size: [] for size in range(1, top + 1)}
    if len(at):
        tree = need("gudhi", "alpha", "convert").AlphaComplex(points=at.numpy()).create_simplex_tree(max_alpha_square=largest)
        bound.assert_room(tree.num_simplices(), "faces")
        for face, _ in tree.get_skeleton(top - 1):
            faces[len(face)].append(face)
    found = {face_text(size): [torch.tensor(faces[size], dtype=torch.long).view(-1, size)] for size in range(2, top + 1)}
    return attach_faces(Structure(len(at)), found)


def _expected_faces(count: int, dimensions: int) -> int:
    r"""About how many faces the triangulation of evenly spread points has: $2^{d+1}$ for each simplex.

    The number of simplices is that of a Poisson process, 2 n in the plane and 6.77 n in space:
    $n\, \frac{2^{d+1} \pi^{(d-1)/2}}{d^2 (d+1)} \frac{\Gamma((d^2+1)/2)}{\Gamma(d^2/2)}
    \left(\frac{\Gamma(d/2+1)}{\Gamma((d+1)/2)}\right)^d$.
    """
    d = dimensions
    if d < 2 or count <= d + 1:
        return count << min(d + 1, count, 62)
    logarithm = 2 * (d + 1) * log(2) + (d - 1) / 2 * log(pi) - log(d * d * (d + 1)) + lgamma((d * d + 1) / 2) - lgamma(d * d / 2)
    logarithm += d * (lgamma(d / 2 + 1) - lgamma((d + 1) / 2))
    return count * round(exp(min(logarithm, 40.0)))
