"""Cliques of graphs as faces, and the complexes of points: Vietoris-Rips and alpha."""

from __future__ import annotations

from math import exp, lgamma, log, pi
from typing import Any

import torch
from torch import Tensor

from incidence.algebra.grammar import MAX_LETTERS
from incidence.algebra.pattern import Pattern
from incidence.errors import IncidenceError, need
from incidence.geometry.assembly import attach_faces, brackets, face_text
from incidence.geometry.lifting.adjacency import (
    LIMIT,
    Adjacency,
    Bound,
    adjacency,
    edge_pattern,
    pairs_in_groups,
)
from incidence.geometry.node_lists import as_integer
from incidence.geometry.point_clouds import as_points, as_radius
from incidence.structure import Structure

__all__ = ["alpha", "cliques", "vietoris_rips"]


def cliques(
    structure: Structure,
    max_size: int = 3,
    *,
    edges: str | None = None,
    limit: int | None = LIMIT,
    oriented: bool = False,
) -> Structure:
    r"""Add the cliques of up to so many nodes: tensors `{i j}`, `{i j k}`, ..., closed under
    subsets.

    Args:
        structure: One structure or a batch. Directions of edges are ignored, and so are loops.
        max_size: The number of nodes of the largest cliques.
        edges: The tensor whose entries are the edges. Default: the only one there is.
        limit: How many cliques of one size may result; None for any number.
        oriented: Whether the new faces have an orientation, that of ascending nodes: `<i j>`,
            `<i j k>` and so on.

    Raises:
        TooLargeError: There are more cliques than the limit.

    Example:
        >>> k4 = Structure.complete(4, ["{i j}"])
        >>> cliques(k4, max_size=4)
        Structure(num_nodes=4, '{i j}': 6 entries, '{i j k}': 4 entries, '{i j k l}': 1 entry)
    """
    max_size = as_integer("cliques", "max_size", max_size, 2, MAX_LETTERS)
    bound = Bound("cliques", limit, "Lower max_size")
    return _add_cliques(
        structure, edge_pattern(structure, edges, "cliques"), max_size, bound, oriented
    )


def _add_cliques(
    structure: Structure, pattern: Pattern, max_size: int, bound: Bound, oriented: bool
) -> Structure:
    """The cliques of the edges of one tensor, within a bound.

    Every edge points to the end with more neighbours, so no node has more than sqrt(2 edges)
    neighbours ahead. Cliques are kept sorted along that order; two that agree in all but the last
    node make a larger one if these two nodes are joined.
    """
    [sort] = set(pattern.sorts.values())
    graph = adjacency(structure, pattern)
    order = torch.argsort(graph.degree, stable=True)
    rank = torch.empty_like(order)
    rank[order] = torch.arange(len(order), device=order.device)
    source = rank[graph.source]
    target = rank[graph.neighbour]
    ahead = Adjacency.of(source[source < target], target[source < target], graph.num_nodes)
    rows = torch.stack([ahead.source, ahead.neighbour], dim=1)
    parent = ahead.source
    texts = [face_text(size, sort, brackets(oriented)) for size in range(2, max_size + 1)]
    faces_of = {} if Pattern(texts[0]) in structure.patterns else {texts[0]: [order[rows]]}
    for text in texts[1:]:
        rows, parent = _larger(rows, parent, ahead, bound)
        faces_of[text] = [order[rows]]
    return attach_faces(structure, faces_of)


def _larger(rows: Tensor, parent: Tensor, ahead: Adjacency, bound: Bound) -> tuple[Tensor, Tensor]:
    """The cliques with one node more, and for each the number of the clique it was made from."""
    size = rows.shape[1] + 1
    larger = [rows.new_zeros(0, size)]
    parents = [parent.new_zeros(0)]
    total = 0
    what = f"pairs of cliques of {size - 1} nodes"
    for which, other in pairs_in_groups(parent, bound.assert_time, what):
        last = rows[other, -1]
        joined = ahead.has(rows[which, -1], last)
        which = which[joined]
        last = last[joined]
        total += len(which)
        bound.assert_room(total, f"cliques of {size} nodes")
        larger.append(torch.cat([rows[which], last[:, None]], dim=1))
        parents.append(which)
    return torch.cat(larger), torch.cat(parents)


def vietoris_rips(
    points: Any,
    radius: float,
    max_size: int = 3,
    *,
    limit: int | None = LIMIT,
    oriented: bool = False,
) -> Structure:
    r"""Return the sets of up to so many points that are pairwise at most a radius apart: tensors
    `{i j}`, `{i j k}`, ....

    Args:
        points: Coordinates, shape [points, dimensions].
        radius: The largest distance between two points of a face.
        max_size: The number of points of the largest faces.
        limit: How many faces of one size may result; None for any number.
        oriented: Whether faces have an orientation, that of ascending nodes: `<i j>`, `<i j k>`
            and so on.

    Raises:
        TooLargeError: There are more faces than the limit.

    Example:
        >>> square = [[0.0, 0.0], [1.0, 0.0], [1.0, 1.0], [0.0, 1.0]]
        >>> vietoris_rips(square, radius=1.0)
        Structure(num_nodes=4, '{i j}': 4 entries, '{i j k}': 0 entries)
        >>> vietoris_rips(square, radius=1.5)
        Structure(num_nodes=4, '{i j}': 6 entries, '{i j k}': 4 entries)
    """
    max_size = as_integer("vietoris_rips", "max_size", max_size, 2, MAX_LETTERS)
    at = as_points(points, "vietoris_rips")
    spatial = need("scipy.spatial", "vietoris_rips", "geometry")
    bound = Bound("vietoris_rips", limit, "Lower the radius or max_size")
    radius = as_radius(radius, "vietoris_rips")
    pairs = torch.zeros(0, 2, dtype=torch.long)
    if len(at):
        tree = spatial.cKDTree(at.numpy())
        num_pairs = (int(tree.count_neighbors(tree, radius)) - len(at)) // 2
        bound.assert_room(num_pairs, "pairs of points")
        pairs = torch.from_numpy(tree.query_pairs(radius, output_type="ndarray")).long()
    text = face_text(2, brackets=brackets(oriented))
    graph = attach_faces(Structure(len(at)), {text: [pairs]})
    return _add_cliques(graph, Pattern(text), max_size, bound, oriented)


def alpha(
    points: Any,
    radius: float | None = None,
    max_size: int | None = None,
    *,
    limit: int | None = LIMIT,
    oriented: bool = False,
) -> Structure:
    r"""Return the alpha complex: faces of the Delaunay triangulation whose empty circumscribed ball
    is at most so large.

    gudhi makes it. Its alpha complexes use parts of CGAL that are under the GPL: mind that where
    you pass on what you build with it.

    Args:
        points: Coordinates, shape [points, dimensions]; no point twice.
        radius: The largest radius of a ball; any, if not given, which is the whole triangulation.
        max_size: The number of points of the largest faces; dimensions + 1, if not given.
        limit: How many faces may result; None for any number. Points in many dimensions for which
            a triangulation of evenly spread points would have more are refused before it is made.
        oriented: Whether faces have an orientation, that of ascending nodes: `<i j>`, `<i j k>`
            and so on.

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
        raise IncidenceError(
            "alpha: a point stands twice among the points. Keep one of each, as with"
            " torch.unique(points, dim=0)."
        )
    bound = Bound("alpha", limit, "Take fewer points or dimensions")
    bound.assert_room(_expected_faces(*at.shape), "faces to be expected in the triangulation")
    largest = float("inf") if radius is None else as_radius(radius, "alpha") ** 2
    faces: dict[int, list[list[int]]] = {size: [] for size in range(1, top + 1)}
    if len(at):
        gudhi = need("gudhi", "alpha", "convert")
        complex_ = gudhi.AlphaComplex(points=at.numpy())
        tree = complex_.create_simplex_tree(max_alpha_square=largest)
        bound.assert_room(tree.num_simplices(), "faces")
        for face, _ in tree.get_skeleton(top - 1):
            faces[len(face)].append(face)
    texts = {size: face_text(size, brackets=brackets(oriented)) for size in range(2, top + 1)}
    rows = {
        text: [torch.tensor(faces[size], dtype=torch.long).view(-1, size)]
        for size, text in texts.items()
    }
    return attach_faces(Structure(len(at)), rows)


def _expected_faces(count: int, dimensions: int) -> int:
    r"""About how many faces the triangulation of evenly spread points has: $2^{d+1}$ for each
    simplex.

    The number of simplices is that of a Poisson process, 2 n in the plane and 6.77 n in space:
    $n\, \frac{2^{d+1} \pi^{(d-1)/2}}{d^2 (d+1)} \frac{\Gamma((d^2+1)/2)}{\Gamma(d^2/2)}
    \left(\frac{\Gamma(d/2+1)}{\Gamma((d+1)/2)}\right)^d$.
    """
    d = dimensions
    if d < 2 or count <= d + 1:
        return count << min(d + 1, count, 62)
    logarithm = (
        2 * (d + 1) * log(2)
        + (d - 1) / 2 * log(pi)
        - log(d * d * (d + 1))
        + lgamma((d * d + 1) / 2)
        - lgamma(d * d / 2)
    )
    logarithm += d * (lgamma(d / 2 + 1) - lgamma((d + 1) / 2))
    return count * round(exp(min(logarithm, 40.0)))
