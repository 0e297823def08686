"""Complexes whose shape is known, as lists of facets or orders of faces, made without the
library.
"""

from itertools import combinations, product

Facets = list[tuple[int, ...]]

MOEBIUS = [(k, (k + 1) % 5, (k + 2) % 5) for k in range(5)]
PROJECTIVE_PLANE = [
    (0, 1, 4),
    (0, 1, 5),
    (0, 2, 3),
    (0, 2, 5),
    (0, 3, 4),
    (1, 2, 3),
    (1, 2, 4),
    (1, 3, 5),
    (2, 4, 5),
    (3, 4, 5),
]


def sphere(dimension: int) -> Facets:
    """The boundary of a simplex."""
    return list(combinations(range(dimension + 2), dimension + 1))


def suspension(facets: Facets) -> Facets:
    top = 1 + max(map(max, facets))
    return [(*facet, apex) for facet in facets for apex in (top, top + 1)]


def cone(facets: Facets) -> Facets:
    top = 1 + max(map(max, facets))
    return [(*facet, top) for facet in facets]


def times(one: Facets, other: Facets) -> Facets:
    """The product of two complexes: the product of two simplices is filled by the monotone paths
    through its grid of nodes.
    """
    width = 1 + max(map(max, other))
    return [
        tuple(a[p] * width + b[q] for p, q in path)
        for a, b in product(map(sorted, one), map(sorted, other))
        for path in _paths(len(a) - 1, len(b) - 1)
    ]


def _paths(p: int, q: int) -> list[list[tuple[int, int]]]:
    if p == q == 0:
        return [[(0, 0)]]
    before = (_paths(p - 1, q) if p else []) + (_paths(p, q - 1) if q else [])
    return [[*path, (p, q)] for path in before]


def disjoint(one: Facets, other: Facets) -> Facets:
    shift = 1 + max(map(max, one))
    return one + [tuple(v + shift for v in facet) for facet in other]


def glued_at_node_0(one: Facets, other: Facets) -> Facets:
    shift = max(map(max, one))
    return one + [tuple(v and v + shift for v in facet) for facet in other]


def cube_order(dimension: int, with_top: bool = False) -> list[tuple[str, str]]:
    """The order of the faces of a cube, words in 0, 1 and *; all relations, the cube itself left
    out unless asked for.
    """
    words = ["".join(word) for word in product("01*", repeat=dimension)]
    words = [word for word in words if with_top or word != "*" * dimension]
    below = ((a, b) for a in words for b in words if a != b)
    return [(a, b) for a, b in below if all(y in ("*", x) for x, y in zip(a, b, strict=True))]


def grid_order(rows: int, columns: int, flip: bool = False) -> list[tuple[object, object]]:
    """The order of a torus of quadrilaterals; with a flip, of a Klein bottle. At least three rows
    and columns tell faces by their nodes.
    """

    def node(r: int, c: int) -> tuple[int, int]:
        return (r % rows, -c % columns if flip and r >= rows else c % columns)

    order: list[tuple[object, object]] = []
    for r, c in product(range(rows), range(columns)):
        corners = [node(r, c), node(r, c + 1), node(r + 1, c + 1), node(r + 1, c)]
        sides = [frozenset(pair) for pair in zip(corners, corners[1:] + corners[:1], strict=True)]
        order += [(v, side) for side in sides for v in side] + [
            (side, frozenset(corners)) for side in sides
        ]
    return order
