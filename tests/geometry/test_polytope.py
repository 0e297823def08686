"""Polytopes from points and from facets: the faces are those of the definition, and of the
literature.
"""

import gzip
import json
from itertools import combinations, permutations, product
from math import comb
from zipfile import ZipFile

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import incidence as inc
from incidence import geometry
from tests.data_folder import data_folder

pytest.importorskip("scipy", reason="convex hulls need scipy")


def f_vector(s: inc.Structure) -> tuple[int, ...]:
    """The numbers of faces by rank; a polytope has a tensor for each."""
    return (s.num_nodes, *(s.num_entries(p) for p in s.patterns))


def faces(s: inc.Structure, rank: int) -> set[frozenset[int]]:
    """The node sets of one rank."""
    if rank == 0:
        return {frozenset([v]) for v in range(s.num_nodes)}
    if rank == 1:
        return set(map(frozenset, s["{i j}"].T.tolist()))
    node, number = s[f"rank{rank}"]
    return {frozenset(node[number == k].tolist()) for k in range(s.num_entries(f"rank{rank}"))}


def assert_lattice(s: inc.Structure) -> None:
    """All that a list of all faces of a polytope must be, by the definition and one pair at
    a time.
    """
    assert s.canonical()[0] == s
    assert inc.Structure(s.num_nodes, {str(p): s[str(p)] for p in s.patterns}) == s
    top = frozenset(range(s.num_nodes))
    levels = [{frozenset()}, *(faces(s, rank) for rank in range(len(s.patterns) + 1)), {top}]
    everything = set().union(*levels)
    assert sum(map(len, levels)) == len(everything)
    # closed under intersection
    assert all(a & b in everything for a, b in combinations(everything, 2))
    for low, middle, high in zip(levels, levels[1:], levels[2:], strict=False):
        for a, c in product(low, high):
            if a < c:
                assert sum(a < b < c for b in middle) == 2
    assert sum((-1) ** k * n for k, n in enumerate(f_vector(s))) == 1 - (-1) ** len(f_vector(s))


CUBE = list(product((0, 1), repeat=3))


# ---- known polytopes


@pytest.mark.parametrize(
    ("points", "expected"),
    [
        pytest.param([[3], [-1]], (2,), id="segment"),
        pytest.param([[0, 0], [4, 0], [0, 4]], (3, 3), id="triangle"),
        pytest.param([[1, 0], [0, 1], [-1, 0], [0, -1], [1, 1]], (5, 5), id="pentagon"),
        pytest.param(CUBE, (8, 12, 6), id="cube"),
        pytest.param(
            [[x, y, z, w] for x, y, z, w in product((0, 1), repeat=4)],
            (16, 32, 24, 8),
            id="tesseract",
        ),
        pytest.param(
            [p for p in product((-1, 0, 1), repeat=3) if abs(sum(map(abs, p))) == 2],
            (12, 24, 14),
            id="cuboctahedron",
        ),
        pytest.param(
            [p for p in product((-1, 0, 1), repeat=4) if sum(map(abs, p)) == 2],
            (24, 96, 96, 24),
            id="24-cell",
        ),
        pytest.param(
            [[k, k**2, k**3, k**4] for k in range(8)], (8, 28, 40, 20), id="cyclic polytope C(8, 4)"
        ),
        pytest.param(
            [[k, k**2, k**3, k**4, k**5, k**6] for k in range(9)],
            (9, 36, 84, 117, 90, 30),
            id="cyclic polytope C(9, 6)",
        ),
    ],
)
def test_known_lattice_polytopes_have_their_f_vectors(points, expected):
    s = geometry.polytope(points)
    assert f_vector(s) == expected
    assert_lattice(s)


@pytest.mark.parametrize("n", [3, 4, 5])
def test_a_permutohedron_lives_in_one_dimension_less_than_its_points(n):
    points = list(permutations(range(n)))
    s = geometry.polytope(points, flat=True)
    stirling = {3: (6, 6), 4: (24, 36, 14), 5: (120, 240, 150, 30)}[n]  # k! S(n, k), backwards
    assert f_vector(s) == stirling


def test_the_polytope_of_doubly_stochastic_matrices_of_size_3():
    points = [np.eye(3, dtype=int)[list(p)].reshape(-1) for p in permutations(range(3))]
    s = geometry.polytope(points, flat=True)
    assert f_vector(s) == (6, 15, 18, 9)
    assert_lattice(s)


def test_node_v_is_point_v():
    s = geometry.polytope(CUBE)
    for a, b in s["{i j}"].T.tolist():
        assert sum(x != y for x, y in zip(CUBE[a], CUBE[b], strict=True)) == 1


def test_coplanar_simplices_are_one_facet_in_single_and_double_precision_and_in_text():
    angle = 0.3
    turn = np.array(
        [[np.cos(angle), -np.sin(angle), 0], [np.sin(angle), np.cos(angle), 0], [0, 0, 1]]
    )
    points = np.array(CUBE) @ turn @ turn[[2, 0, 1]][:, [2, 0, 1]] * 7.3 + 11
    exact = geometry.polytope(CUBE)
    assert geometry.polytope(points) == exact
    assert geometry.polytope(points.astype(np.float32)) == exact
    assert geometry.polytope(torch.from_numpy(points).float()) == exact
    assert geometry.polytope([[float(f"{x:.7g}") for x in p] for p in points]) == exact


def test_a_tolerance_decides_what_is_flat():
    bent = [[*p[:2], p[2] + 1e-4 * (p == (1, 1, 1))] for p in CUBE]
    assert f_vector(geometry.polytope(bent, tolerance=1e-9)) == (8, 13, 7)
    assert f_vector(geometry.polytope(bent, tolerance=1e-3)) == (8, 12, 6)


def test_integers_are_exact_however_thin_the_difference():
    large = 10**12
    points = [[large * x, large * y, large * z] for x, y, z in CUBE]
    assert f_vector(geometry.polytope(points)) == (8, 12, 6)
    points[-1][2] += 1  # the square above is bent, by a part of 10^-12
    assert f_vector(geometry.polytope(points)) == (8, 13, 7)


def test_integers_beyond_64_bits_are_exact():
    large = 2**70
    assert geometry.polytope(
        [[large * x, large * y, large * z] for x, y, z in CUBE]
    ) == geometry.polytope(CUBE)
    assert geometry.polytope(np.array(CUBE, dtype=np.uint64) * 2**63) == geometry.polytope(CUBE)


@pytest.mark.parametrize("scale", [1e-300, 1e-9, 1e300])
def test_size_does_not_matter(scale):
    points = geometry.coordinates("icosahedron") * scale
    assert geometry.polytope(points) == geometry.named("icosahedron")


# ---- against a definition that needs no hull: a set is a face iff some linear function is greatest
# exactly there


@settings(max_examples=25, deadline=None)
@given(st.lists(st.tuples(*[st.integers(-3, 3)] * 3), min_size=4, max_size=12, unique=True))
def test_faces_of_small_lattice_polytopes_are_where_linear_functions_are_greatest(points):
    matrix = np.array(points)
    assume(np.linalg.matrix_rank(matrix - matrix[0]) == 3)
    kept = geometry.corners(points).tolist()
    s = geometry.polytope(matrix[kept])
    assert_lattice(s)
    planes = [np.cross(b - a, c - a) for a, b, c in combinations(matrix, 3)]
    expected = set()
    for normal in [sign * n for n in planes if n.any() for sign in (1, -1)]:
        heights = matrix[kept] @ normal
        if heights.max() == (matrix @ normal).max() and len(set(heights.tolist())) > 1:
            best = frozenset(np.flatnonzero(heights == heights.max()).tolist())
            if np.linalg.matrix_rank(matrix[kept][list(best)] - matrix[kept][min(best)]) == 2:
                expected.add(best)
    assert faces(s, 2) == expected


@settings(max_examples=25, deadline=None)
@given(st.lists(st.tuples(*[st.integers(-4, 4)] * 2), min_size=1, max_size=14))
def test_corners_are_the_points_that_no_others_surround(points):
    kept = geometry.corners([*points, (9, 9)]).tolist()
    everything = [*points, (9, 9)]
    different = list(dict.fromkeys(everything))

    def is_corner(p):
        others = np.array([q for q in different if q != p])
        if not len(others):
            return True
        rays = others - p
        angles = np.sort(np.arctan2(rays[:, 1], rays[:, 0]))
        gaps = np.diff([*angles, angles[0] + 2 * np.pi])
        return gaps.max() > np.pi + 1e-9

    assert [everything[k] for k in kept] == [p for p in different if is_corner(p)]


def test_corners_of_rounded_points_are_found_up_to_the_tolerance_and_in_what_they_span():
    square = [[0.1, 0.1, 0.3], [0.9, 0.1, 0.3], [0.9, 0.9, 0.3], [0.1, 0.9, 0.3]]
    # on an edge, in the middle, and a corner again
    inside = [[0.5, 0.1, 0.3], [0.5, 0.5, 0.3], [0.1, 0.1, 0.30000001]]
    assert geometry.corners([inside[0], *square, *inside[1:]]).tolist() == [1, 2, 3, 4]
    assert geometry.corners([[0.5, 0.5]] * 3).tolist() == [0]
    assert f_vector(geometry.polytope(square, flat=True)) == (4, 4)


@settings(max_examples=20, deadline=None)
@given(st.integers(2, 5), st.integers(0, 6), st.integers(0, 2**32 - 1))
def test_random_points_on_a_sphere_make_simplicial_polytopes(dimension, more, seed):
    points = np.random.default_rng(seed).normal(size=(dimension + 1 + more, dimension))
    points /= np.linalg.norm(points, axis=1, keepdims=True)
    s = geometry.polytope(points)
    assert all(len(face) == dimension for face in faces(s, dimension - 1))
    assert_lattice(s)
    assert geometry.polytope_from_facets([list(face) for face in faces(s, dimension - 1)]) == s


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_facets_give_the_polytope_back_in_any_order_and_the_polar_has_the_f_vector_reversed(seed):
    random = np.random.default_rng(seed)
    points = random.integers(-4, 5, size=(12, 3))
    assume(np.linalg.matrix_rank(points - points[0]) == 3)
    s = geometry.polytope(points[geometry.corners(points)])
    facets = [random.permutation(list(face)).tolist() for face in faces(s, 2)]
    random.shuffle(facets)
    assert geometry.polytope_from_facets(facets) == s
    polar = [[k for k, facet in enumerate(facets) if v in facet] for v in range(s.num_nodes)]
    assert f_vector(geometry.polytope_from_facets(polar)) == f_vector(s)[::-1]


@pytest.mark.parametrize("n", [2, 3, 4, 5, 6])
def test_simplices_from_their_facets(n):
    s = geometry.polytope_from_facets(list(combinations(range(n + 1), n)))
    assert f_vector(s) == tuple(comb(n + 1, k + 1) for k in range(n))


# ---- real data


def reflexive(dimension: int) -> list[np.ndarray]:
    with gzip.open(
        data_folder("reflexive_polytopes") / f"reflexive_polytopes_{dimension}d.gz", "rt"
    ) as file:
        words = iter(file.read().split())
    found = []
    for count in words:
        size = (int(count), int(next(words)))
        found.append(np.array([int(next(words)) for _ in range(size[0] * size[1])]).reshape(size))
    return found


def test_the_16_reflexive_polygons():
    sizes = [f_vector(geometry.polytope(points)) for points in reflexive(2)]
    assert sorted(sizes) == sorted([(3, 3)] * 5 + [(4, 4)] * 7 + [(5, 5)] * 3 + [(6, 6)])


@pytest.mark.slow
def test_the_4319_reflexive_polytopes():
    found = [f_vector(geometry.polytope(points)) for points in reflexive(3)]
    assert len(found) == 4319
    assert all(v - e + f == 2 for v, e, f in found)
    pairs = [(v, f) for v, _, f in found]
    assert [(min(column), max(column)) for column in zip(*pairs, strict=True)] == [(4, 14), (4, 14)]
    assert len(set(pairs)) == 50
    # The polar of a reflexive polytope is reflexive, so facets are counted as often as nodes.
    assert sorted(pairs) == sorted((f, v) for v, f in pairs)


def test_reflexive_facets_lie_at_distance_1():
    for points in reflexive(3)[::97]:
        for facet in faces(geometry.polytope(points), 2):
            normal = np.linalg.lstsq(points[sorted(facet)], np.ones(len(facet)), rcond=None)[0]
            assert np.allclose(points[sorted(facet)] @ normal, 1)
            assert np.allclose(normal, np.rint(normal))


def test_the_120_regular_faced_polyhedra_from_coordinates_and_from_facets():
    archive = ZipFile(data_folder("polyhedra") / "polyhedra.zip")
    solids = [
        json.loads(archive.read(name))
        for name in archive.namelist()
        if name.startswith("polyhedra/")
    ]
    assert len(solids) == 120
    for solid in solids:
        s = geometry.polytope(solid["vertices"])
        assert f_vector(s) == (
            len(solid["vertices"]),
            len(solid["edges"]),
            len(solid["faces"]),
        ), solid["name"]
        assert faces(s, 1) == set(map(frozenset, solid["edges"]))
        assert geometry.polytope_from_facets(solid["faces"]) == s


def rings(xyz: np.ndarray) -> list[list[int]]:
    """The pentagons and hexagons of a fullerene: chordless cycles of the graph of three nearest
    neighbours.
    """
    near = np.argsort(np.linalg.norm(xyz[:, None] - xyz, axis=-1), axis=1)[:, 1:4].tolist()
    found: dict[frozenset[int], list[int]] = {}
    for start in range(len(xyz)):
        paths = [[start]]
        for _ in range(5):
            paths = [[*p, v] for p in paths for v in near[p[-1]] if v > start and v not in p]
            for p in paths:
                if len(p) >= 5 and start in near[p[-1]]:
                    found.setdefault(frozenset(p), p)
    return list(found.values())


def test_all_fullerenes_are_simple_polytopes_with_12_pentagons():
    with gzip.open(data_folder("fullerenes") / "fullerenes.jsonl.gz", "rt") as file:
        cages = [json.loads(line) for line in file]
    assert len(cages) == 46
    for cage in cages:
        n = cage["n_atoms"]
        polygons = rings(np.array(cage["xyz"]))
        s = geometry.polytope_from_facets(polygons)
        assert f_vector(s) == (n, 3 * n // 2, n // 2 + 2)
        assert np.bincount(list(map(len, polygons))).tolist() == [0, 0, 0, 0, 0, 12] + [
            n // 2 - 10
        ] * (n > 20)


def test_the_120_cell_comes_back_from_its_coordinates():
    assert f_vector(geometry.polytope(geometry.coordinates("120-cell"))) == (600, 1200, 720, 120)
