r"""Families of polytopes in any dimension, prisms, small graphs and surfaces: corners by formulas,
faces without a search.

The corners of the regular and semiregular polytopes are orbits of a few points under permutations
and signs of the coordinates; these are the usual ones, from closed formulas, and `PHI` is the
golden ratio.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations, permutations, product
from math import pi, prod, sin, sqrt

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from incidence.geometry.assembly import assemble, assemble_ranks
from incidence.geometry.node_lists import NodeLists, sides
from incidence.structure import Structure

Floats = NDArray[np.float64]


def _ranks(num_nodes: int, faces: list[Tensor]) -> Structure:
    """A polytope from its faces of rank 1, 2, ..., each a matrix with one face a row."""
    return assemble_ranks(num_nodes, [NodeLists.of_rows(rows) for rows in faces])


def _choices(count: int, size: int) -> Tensor:
    # torch.combinations would take memory for count^size
    return torch.tensor(list(combinations(range(count), size)))


def simplex(n: int) -> Structure:
    """Return the n-simplex: n + 1 nodes, every set of them a face."""
    return _ranks(n + 1, [_choices(n + 1, rank + 1) for rank in range(1, n)])


def simplex_points(n: int) -> Floats:
    """Return the unit vectors and the point at the same distance from all, around 0."""
    points: Floats = np.concatenate([np.eye(n), np.full((1, n), (1 - sqrt(n + 1)) / n)])
    centre: Floats = points.mean(axis=0)
    return points - centre


def cube(n: int) -> Structure:
    """Return the n-cube: nodes are the numbers of n bits, faces have some bits free and the others
    fixed.
    """
    bits = 2 ** torch.arange(n - 1, -1, -1)  # the highest first

    def sums(some: list[int]) -> Tensor:
        """All sums of some bits."""
        rows = list(product((0, 1), repeat=len(some)))
        return torch.tensor(rows, dtype=torch.long).view(len(rows), len(some)) @ bits[some]

    def faces(rank: int) -> Tensor:
        parts = []
        for free in map(list, combinations(range(n), rank)):
            fixed = [bit for bit in range(n) if bit not in free]
            parts.append(sums(fixed)[:, None] + sums(free))  # (faces, 2^rank)
        return torch.cat(parts)

    return _ranks(2**n, [faces(rank) for rank in range(1, n)])


def cube_points(n: int) -> Floats:
    """Return all vectors of -1 and 1: node v has a 1 where v has a bit, the highest first."""
    return np.array(list(product((-1.0, 1.0), repeat=n)))


def cross_polytope(n: int) -> Structure:
    """Return the n-dimensional cross-polytope: nodes 2 k and 2 k + 1 are opposite, and sets without
    opposite nodes are faces.
    """

    def faces(rank: int) -> Tensor:
        axes = _choices(n, rank + 1)
        ends = torch.tensor(list(product((0, 1), repeat=rank + 1)))
        return (2 * axes[:, None] + ends).view(-1, rank + 1)  # (faces, rank + 1)

    return _ranks(2 * n, [faces(rank) for rank in range(1, n)])


def cross_polytope_points(n: int) -> Floats:
    """Return the unit vectors and their negatives, node 2 k and 2 k + 1 along axis k."""
    # + 0.0 turns -0.0 into 0.0
    return np.stack([np.eye(n), -np.eye(n)], axis=1).reshape(2 * n, n) + 0.0


def _solid(num_nodes: int, polygons: list[list[int]]) -> Structure:
    """A polytope of rank 3 from its polygons, nodes of each in order around it."""
    sets = NodeLists.of_lists(polygons)
    faces = sets.arranged(num_nodes)[0].index
    return assemble(num_nodes, {"{i j}": sides(sets, num_nodes), "rank2={i ...}": faces})


def polygon_points(n: int, turn: float = 0.0) -> Floats:
    """Return the corners of a regular n-gon on the unit circle, turned by a part of the angle
    between two.
    """
    angles = (np.arange(n) + turn) * (2 * pi / n)
    return np.stack([np.cos(angles), np.sin(angles)], axis=1)


def _two_layers(n: int, turn: float, height: float) -> Floats:
    low = np.column_stack([polygon_points(n), np.full(n, -height / 2)])
    high = np.column_stack([polygon_points(n, turn), np.full(n, height / 2)])
    return np.concatenate([low, high])


def _rims(n: int) -> list[list[int]]:
    return [list(range(n)), list(range(n, 2 * n))]


def prism(n: int) -> Structure:
    """Return the prism over an n-gon: node v is below node v + n."""
    return _solid(2 * n, [*_rims(n), *([v, (v + 1) % n, (v + 1) % n + n, v + n] for v in range(n))])


def prism_points(n: int) -> Floats:
    """Return the corners of the prism with squares for sides."""
    return _two_layers(n, 0.0, 2 * sin(pi / n))


def antiprism(n: int) -> Structure:
    """Return the antiprism over an n-gon: node v + n is above the edge of nodes v and v + 1."""
    sides_up = [[v, (v + 1) % n, v + n] for v in range(n)]
    sides_down = [[(v + 1) % n, v + n, (v + 1) % n + n] for v in range(n)]
    return _solid(2 * n, [*_rims(n), *sides_up, *sides_down])


def antiprism_points(n: int) -> Floats:
    """Return the corners of the antiprism with equal sides for triangles."""
    # By Pythagoras: a side of the n-gon, less the way between the corners of both layers seen from
    # above.
    return _two_layers(n, 0.5, 2 * sqrt(sin(pi / n) ** 2 - sin(pi / (2 * n)) ** 2))


def bipyramid(n: int) -> Structure:
    """Return the bipyramid over an n-gon: nodes n and n + 1 are its apices."""
    return _solid(n + 2, [[v, (v + 1) % n, apex] for apex in (n, n + 1) for v in range(n)])


def bipyramid_points(n: int) -> Floats:
    """Return the corners of the bipyramid with equal edges; n is 3, 4 or 5."""
    # The radius is 1: an edge to the apex is as long as a side of the n-gon.
    height = sqrt(4 * sin(pi / n) ** 2 - 1)
    base = np.column_stack([polygon_points(n), np.zeros(n)])
    return np.concatenate([base, [[0, 0, height], [0, 0, -height]]])


def cycle(n: int) -> Structure:
    """Return the undirected cycle."""
    return assemble(n, {"{i j}": sides(NodeLists.of_rows(torch.arange(n)[None]), n)})


def directed_cycle(n: int) -> Structure:
    """Return the directed cycle 0 -> 1 -> ... -> 0."""
    nodes = torch.arange(n)
    return Structure(n, {"(i j)": torch.stack([nodes, (nodes + 1) % n])}).canonical()[0]


def complete(n: int) -> Structure:
    """Return the graph with every pair of nodes."""
    return assemble(n, {"{i j}": torch.combinations(torch.arange(n)).T.contiguous()})


def petersen() -> Structure:
    """Return the Petersen graph: a pentagon, a pentagram, and the edges between them."""
    edges = []
    for v in range(5):
        edges += [[v, (v + 1) % 5], [v, v + 5], [v + 5, (v + 2) % 5 + 5]]
    return _ranks(10, [torch.tensor(edges)])


def _surface(triangles: list[list[int]]) -> Structure:
    """The triangles with their edges and nodes, which make a closed complex."""
    num_nodes = 1 + max(map(max, triangles))
    sets = NodeLists.of_lists(triangles)
    faces = sets.arranged(num_nodes)[0].nodes.view(-1, 3).T.contiguous()
    return assemble(num_nodes, {"{i j}": sides(sets, num_nodes), "{i j k}": faces})


def moebius_strip() -> Structure:
    """Return a strip of 5 nodes: triangles of consecutive nodes."""
    return _surface([[v, (v + 1) % 5, (v + 2) % 5] for v in range(5)])


def torus() -> Structure:
    """Return Möbius' torus with 7 nodes, every two of them joined."""
    return _surface([[v, (v + step) % 7, (v + 3) % 7] for v in range(7) for step in (1, 2)])


def projective_plane() -> Structure:
    """Return a projective plane of 6 nodes, every two joined: an icosahedron with opposite nodes
    made one.
    """
    triangles = []
    for v in range(5):
        triangles += [[v, (v + 1) % 5, 5], [v, (v + 1) % 5, (v + 3) % 5]]
    return _surface(triangles)


def klein_bottle() -> Structure:
    """Return a Klein bottle of 9 nodes: three rings of three, the last ring joined to the first in
    reverse.
    """

    def node(ring: int, place: int) -> int:
        # the reversal makes it a Klein bottle
        return 3 * ring + place % 3 if ring < 3 else -place % 3

    triangles = []
    for ring, place in product(range(3), range(3)):
        a = node(ring, place)
        b = node(ring, place + 1)
        c = node(ring + 1, place)
        d = node(ring + 1, place + 1)
        triangles += [[a, b, c], [b, c, d]]
    return _surface(triangles)


Seed = tuple[float, ...]

PHI = (1 + sqrt(5)) / 2
# t^3 = t^2 + t + 1 and x^3 = 2 x + PHI, by Cardano's formula
TRIBONACCI = float(1 + np.cbrt(19 - 3 * sqrt(33)) + np.cbrt(19 + 3 * sqrt(33))) / 3
SNUB = float(np.cbrt((PHI + sqrt(PHI - 5 / 27)) / 2) + np.cbrt((PHI - sqrt(PHI - 5 / 27)) / 2))
A = SNUB - 1 / SNUB
B = SNUB * PHI + PHI**2 + PHI / SNUB

# Which permutations (by parity) go with which signs (by their product).
GROUPS: dict[str, Callable[[int, int], bool]] = {
    "all": lambda parity, sign: True,
    "even permutations": lambda parity, sign: parity == 1,
    "even signs": lambda parity, sign: sign == 1,
    "rotations": lambda parity, sign: parity * sign == 1,
    "even rotations": lambda parity, sign: parity == sign == 1,
}

SOLIDS: dict[str, list[tuple[str, list[Seed]]]] = {
    "tetrahedron": [("even signs", [(1, 1, 1)])],
    "octahedron": [("all", [(1, 0, 0)])],
    "dodecahedron": [("even permutations", [(1, 1, 1), (0, 1 / PHI, PHI)])],
    "icosahedron": [("even permutations", [(0, 1, PHI)])],
    "truncated tetrahedron": [("even signs", [(3, 1, 1)])],
    "cuboctahedron": [("all", [(1, 1, 0)])],
    "truncated cube": [("all", [(sqrt(2) - 1, 1, 1)])],
    "truncated octahedron": [("all", [(0, 1, 2)])],
    "rhombicuboctahedron": [("all", [(1, 1, 1 + sqrt(2))])],
    "truncated cuboctahedron": [("all", [(1, 1 + sqrt(2), 1 + 2 * sqrt(2))])],
    "snub cube": [("rotations", [(1, 1 / TRIBONACCI, TRIBONACCI)])],
    "icosidodecahedron": [("even permutations", [(0, 0, 2 * PHI), (1, PHI, PHI**2)])],
    "truncated dodecahedron": [
        ("even permutations", [(0, 1 / PHI, 2 + PHI), (1 / PHI, PHI, 2 * PHI), (PHI, 2, PHI + 1)])
    ],
    "truncated icosahedron": [
        ("even permutations", [(0, 1, 3 * PHI), (1, 2 + PHI, 2 * PHI), (PHI, 2, 2 * PHI + 1)])
    ],
    "rhombicosidodecahedron": [
        ("even permutations", [(1, 1, PHI**3), (PHI**2, PHI, 2 * PHI), (2 + PHI, 0, PHI**2)])
    ],
    "truncated icosidodecahedron": [
        (
            "even permutations",
            [
                (1 / PHI, 1 / PHI, 3 + PHI),
                (2 / PHI, PHI, 1 + 2 * PHI),
                (1 / PHI, PHI**2, 3 * PHI - 1),
                (2 * PHI - 1, 2, 2 + PHI),
                (PHI, 3, 2 * PHI),
            ],
        )
    ],
    "snub dodecahedron": [
        (
            "even rotations",
            [
                (2 * A, 2, 2 * B),
                (A + B / PHI + PHI, -A * PHI + B + 1 / PHI, A / PHI + B * PHI - 1),
                (A + B / PHI - PHI, A * PHI - B + 1 / PHI, A / PHI + B * PHI + 1),
                (-A / PHI + B * PHI + 1, -A + B / PHI - PHI, A * PHI + B - 1 / PHI),
                (-A / PHI + B * PHI - 1, A - B / PHI - PHI, A * PHI + B + 1 / PHI),
            ],
        )
    ],
    "24-cell": [("all", [(1, 1, 0, 0)])],
    "600-cell": [
        ("all", [(2, 0, 0, 0), (1, 1, 1, 1)]),
        ("even permutations", [(PHI, 1, 1 / PHI, 0)]),
    ],
    "120-cell": [
        (
            "all",
            [
                (0, 0, 2, 2),
                (1, 1, 1, sqrt(5)),
                (PHI**-2, PHI, PHI, PHI),
                (1 / PHI, 1 / PHI, 1 / PHI, PHI**2),
            ],
        ),
        (
            "even permutations",
            [(0, PHI**-2, 1, PHI**2), (0, 1 / PHI, PHI, sqrt(5)), (1 / PHI, 1, PHI, 2)],
        ),
    ],
}


def solid_points(name: str) -> Floats:
    """Return the corners of a solid; shape [nodes, dimensions].

    Example:
        >>> solid_points("icosahedron").shape
        (12, 3)
    """
    corners: dict[Seed, None] = {}  # in the order of their first appearance
    for group, seeds in SOLIDS[name]:
        for seed, order in product(seeds, permutations(range(len(seeds[0])))):
            parity = prod((1 if b > a else -1) for k, a in enumerate(order) for b in order[k + 1 :])
            for signs in product((1, -1), repeat=len(seed)):
                if GROUPS[group](parity, prod(signs)):
                    places = zip(signs, order, strict=True)
                    corner = tuple(sign * seed[place] + 0.0 for sign, place in places)
                    corners[corner] = None  # with 0.0 for -0.0
    return np.array(list(corners))
