"""Small geometric objects from formulas, for the tests of symmetry: nodes, faces, and the structure
they make.
"""

from itertools import combinations, product

import torch

from incidence.structure import Structure


def structure_of(num_nodes: int, faces: dict[str, list]) -> Structure:
    """A structure from lists of faces; open faces may have any sizes."""
    index: dict[str, torch.Tensor] = {}
    for text, listed in faces.items():
        if "..." in text:
            index[text] = torch.tensor(
                [(v, k) for k, face in enumerate(listed) for v in sorted(face)]
            ).T
        else:
            index[text] = torch.tensor([tuple(face) for face in listed]).T
    return Structure(num_nodes, index)


def close_pairs(points: list[tuple[float, ...]], distance2: float) -> list[tuple[int, int]]:
    """Pairs of points at a given squared distance."""
    pairs = combinations(range(len(points)), 2)
    return [
        (a, b)
        for a, b in pairs
        if abs(sum((x - y) ** 2 for x, y in zip(points[a], points[b], strict=True)) - distance2)
        < 1e-9
    ]


def cube_faces() -> dict[str, list]:
    points = list(product((0, 1), repeat=3))
    squares = [
        [v for v, p in enumerate(points) if p[axis] == side] for axis in range(3) for side in (0, 1)
    ]
    return {"{i j}": close_pairs(points, 1), "{i j k l}": squares}


def cube() -> Structure:
    """8 nodes, 12 edges, 6 squares."""
    return structure_of(8, cube_faces())


def bipyramid_faces() -> dict[str, list]:
    """The two tetrahedra share the triangle 0, 1, 2: 9 edges, 7 triangles, 2 tetrahedra."""
    tetrahedra = [(0, 1, 2, 3), (0, 1, 2, 4)]
    faces = {m: sorted({face for t in tetrahedra for face in combinations(t, m)}) for m in (2, 3)}
    return {"{i j}": faces[2], "{i j k}": faces[3], "{i j k l}": tetrahedra}


def bipyramid() -> Structure:
    """The triangular bipyramid of the paper, with its node-triangle incidence."""
    faces = bipyramid_faces()
    incidence = [(v, *(u for u in face if u != v)) for face in faces["{i j k}"] for v in face]
    return structure_of(5, {**faces, "i {i j k}": incidence})


def icosahedron_points() -> list[tuple[float, ...]]:
    golden = (1 + 5**0.5) / 2
    rows = [(0.0, a, b * golden) for a, b in product((-1, 1), repeat=2)]
    return [row[k:] + row[:k] for row in rows for k in range(3)]


def icosahedron_faces() -> dict[str, list]:
    edges = close_pairs(icosahedron_points(), 4)
    triangles = [
        t for t in combinations(range(12), 3) if all(pair in edges for pair in combinations(t, 2))
    ]
    return {"{i j}": edges, "{i j k}": triangles}


def icosahedron() -> Structure:
    """12 nodes, 30 edges, 20 triangles."""
    return structure_of(12, icosahedron_faces())


def soccer_ball() -> Structure:
    """The truncated icosahedron: a node for each end of an edge; 90 edges, 12 pentagons and 20
    hexagons.
    """
    solid = icosahedron_faces()
    number = {
        end: k
        for k, end in enumerate(sorted({e for a, b in solid["{i j}"] for e in ((a, b), (b, a))}))
    }
    pentagons = [[number[e] for e in number if e[0] == v] for v in range(12)]
    hexagons = [[number[a, b] for a in t for b in t if a != b] for t in solid["{i j k}"]]
    short = [
        (number[a, b], number[a, c])
        for t in solid["{i j k}"]
        for a in t
        for b, c in [[x for x in t if x != a]]
    ]
    long = [(number[a, b], number[b, a]) for a, b in solid["{i j}"]]
    return structure_of(60, {"{i j}": short + long, "face={i ...}": pentagons + hexagons})


def cell_24() -> Structure:
    """The 24-cell: 24 nodes, 96 edges, 96 triangles."""
    points = [p for p in product((-1, 0, 1), repeat=4) if sum(x != 0 for x in p) == 2]
    edges = close_pairs(points, 2)
    triangles = [
        t for t in combinations(range(24), 3) if all(pair in edges for pair in combinations(t, 2))
    ]
    return structure_of(24, {"{i j}": edges, "{i j k}": triangles})


def petersen() -> Structure:
    """Pairs of five things, joined where they have nothing in common."""
    pairs = list(combinations(range(5), 2))
    return structure_of(
        10,
        {
            "{i j}": [
                (a, b) for a, b in combinations(range(10), 2) if not set(pairs[a]) & set(pairs[b])
            ]
        },
    )


def directed_cycle(n: int) -> Structure:
    return structure_of(n, {"(i j)": [(v, (v + 1) % n) for v in range(n)]})


def paley(q: int) -> Structure:
    """Numbers modulo a prime, joined where their difference is a square: strongly regular."""
    squares = {x * x % q for x in range(1, q)}
    return structure_of(
        q, {"{i j}": [(a, b) for a, b in combinations(range(q), 2) if (b - a) % q in squares]}
    )


def rook(n: int) -> Structure:
    """The fields of a board, joined where a rook goes: strongly regular, with (n!)^2 2
    symmetries.
    """
    fields = list(product(range(n), repeat=2))
    is_near = [
        sum(x == y for x, y in zip(fields[a], fields[b], strict=True)) == 1
        for a, b in combinations(range(n * n), 2)
    ]
    return structure_of(
        n * n,
        {
            "{i j}": [
                pair
                for pair, near in zip(combinations(range(n * n), 2), is_near, strict=True)
                if near
            ]
        },
    )
