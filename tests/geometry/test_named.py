"""Named objects: the numbers of the literature, edges of one length, and surfaces of the right
kind.
"""

from itertools import combinations
from math import comb

import numpy as np
import pytest
import torch

import incidence as inc
from incidence import geometry
from incidence.errors import IncidenceError, TooLargeError

PLATONIC = {
    "tetrahedron": (4, 6, 4),
    "cube": (8, 12, 6),
    "octahedron": (6, 12, 8),
    "dodecahedron": (20, 30, 12),
    "icosahedron": (12, 30, 20),
}
ARCHIMEDEAN = {
    "truncated tetrahedron": (12, 18, 8),
    "cuboctahedron": (12, 24, 14),
    "truncated cube": (24, 36, 14),
    "truncated octahedron": (24, 36, 14),
    "rhombicuboctahedron": (24, 48, 26),
    "truncated cuboctahedron": (48, 72, 26),
    "snub cube": (24, 60, 38),
    "icosidodecahedron": (30, 60, 32),
    "truncated dodecahedron": (60, 90, 32),
    "truncated icosahedron": (60, 90, 32),
    "rhombicosidodecahedron": (60, 120, 62),
    "truncated icosidodecahedron": (120, 180, 62),
    "snub dodecahedron": (60, 150, 92),
}
# the polygons around each node
CONFIGURATIONS = {
    "tetrahedron": [3] * 3,
    "cube": [4] * 3,
    "octahedron": [3] * 4,
    "dodecahedron": [5] * 3,
    "icosahedron": [3] * 5,
    "truncated tetrahedron": [3, 6, 6],
    "cuboctahedron": [3, 3, 4, 4],
    "truncated cube": [3, 8, 8],
    "truncated octahedron": [4, 6, 6],
    "rhombicuboctahedron": [3, 4, 4, 4],
    "truncated cuboctahedron": [4, 6, 8],
    "snub cube": [3, 3, 3, 3, 4],
    "icosidodecahedron": [3, 3, 5, 5],
    "truncated dodecahedron": [3, 10, 10],
    "truncated icosahedron": [5, 6, 6],
    "rhombicosidodecahedron": [3, 4, 4, 5],
    "truncated icosidodecahedron": [4, 6, 10],
    "snub dodecahedron": [3, 3, 3, 3, 5],
}
FOUR = {
    "24-cell": (24, 96, 96, 24),
    "600-cell": (120, 720, 1200, 600),
    "120-cell": (600, 1200, 720, 120),
}
OTHERS = {
    "triangular bipyramid": (5, 9, 6),
    "soccer ball": (60, 90, 32),
    "tesseract": (16, 32, 24, 8),
    "5-cell": (5, 10, 10, 5),
    "8-cell": (16, 32, 24, 8),
    "16-cell": (8, 24, 32, 16),
}
FAMILIES = {
    "simplex": lambda n: tuple(comb(n + 1, k + 1) for k in range(n)),
    "cube": lambda n: tuple(2 ** (n - k) * comb(n, k) for k in range(n)),
    "cross-polytope": lambda n: tuple(2 ** (k + 1) * comb(n, k + 1) for k in range(n)),
}
POLYTOPES = PLATONIC | ARCHIMEDEAN | FOUR | OTHERS
POLYTOPES |= {
    f"{family}-{n}": numbers(n) for family, numbers in FAMILIES.items() for n in range(1, 8)
}
POLYTOPES |= {f"prism-{n}": (2 * n, 3 * n, n + 2) for n in (3, 4, 5, 6, 10)} | {
    f"antiprism-{n}": (2 * n, 4 * n, 2 * n + 2) for n in (3, 4, 6, 10)
}
GRAPHS = {
    "cycle-5": (5, 5),
    "directed-cycle-5": (5, 5),
    "directed-cycle-2": (2, 2),
    "complete-5": (5, 10),
    "complete-1": (1, 0),
    "Petersen graph": (10, 15),
}
# nodes, edges, triangles, edges in one triangle, orientable
SURFACES = {
    "Möbius strip": (5, 10, 5, 5, False),
    "torus": (7, 21, 14, 0, True),
    "Klein bottle": (9, 27, 18, 0, False),
    "projective plane": (6, 15, 10, 0, False),
}


def f_vector(s: inc.Structure) -> tuple[int, ...]:
    return (s.num_nodes, *(s.num_entries(p) for p in s.patterns))


def by_number(members: torch.Tensor) -> list[list[int]]:
    count = int(members[1].max()) + 1
    return [members[0, members[1] == k].tolist() for k in range(count)]


@pytest.mark.parametrize("name", POLYTOPES)
def test_polytopes_have_the_f_vectors_of_the_literature(name):
    s = geometry.named(name)
    assert f_vector(s) == POLYTOPES[name]
    assert sum((-1) ** rank * n for rank, n in enumerate(f_vector(s))) == 1 - (-1) ** len(
        f_vector(s)
    )
    assert [str(p) for p in s.patterns] == [
        "{i j}",
        *(f"rank{k}={{i ...}}" for k in range(2, len(f_vector(s)))),
    ][: len(s.patterns)]
    assert s.canonical()[0] == s


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_around_every_node_of_a_uniform_solid_are_the_same_regular_polygons(name):
    polygons = by_number(geometry.named(name)["rank2"])
    points = geometry.coordinates(name)
    for node in range(len(points)):
        assert sorted(len(p) for p in polygons if node in p) == CONFIGURATIONS[name]
    # corners of a regular polygon lie on a circle, which holds the more of them the longer it is
    for polygon in polygons:
        radius = (points[polygon] - points[polygon].mean(dim=0)).norm(dim=1)
        assert float(radius.max() / radius.min()) == pytest.approx(1, abs=1e-14)


@pytest.mark.parametrize(
    "name", [name for name in [*POLYTOPES, "cycle-5", "directed-cycle-7"] if name[-2:] != "-1"]
)
def test_edges_have_one_length_to_double_precision(name):
    s, points = geometry.named(name), geometry.coordinates(name)
    assert points.dtype == torch.float64
    assert len(points) == s.num_nodes
    one, other = s["(i j)" if "directed" in name else "{i j}"]
    lengths = (points[one] - points[other]).norm(dim=1)
    assert float(lengths.max() / lengths.min()) == pytest.approx(1, abs=1e-14)


@pytest.mark.parametrize("name", [*PLATONIC, *ARCHIMEDEAN, *FOUR])
def test_corners_of_uniform_polytopes_lie_on_a_sphere_around_0(name):
    points = geometry.coordinates(name)
    radii = points.norm(dim=1)
    assert float(radii.max() / radii.min()) == pytest.approx(1, abs=1e-14)
    assert float(points.mean(dim=0).abs().max()) < 1e-15 * len(points)


@pytest.mark.parametrize(
    "name",
    [
        name
        for name in POLYTOPES
        if name not in ("600-cell", "120-cell") and not name.endswith("-7")
    ],
)
def test_the_convex_hull_of_the_coordinates_is_the_object(name):
    pytest.importorskip("scipy", reason="convex hulls need scipy")
    assert geometry.polytope(geometry.coordinates(name)) == geometry.named(name)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["600-cell", "120-cell"])
def test_the_convex_hull_of_the_large_four_dimensional_ones_is_the_object(name):
    pytest.importorskip("scipy", reason="convex hulls need scipy")
    assert geometry.polytope(geometry.coordinates(name)) == geometry.named(name)


@pytest.mark.parametrize("name", GRAPHS)
def test_graphs_have_their_numbers(name):
    s = geometry.named(name)
    assert f_vector(s) == GRAPHS[name]
    assert s.canonical()[0] == s


def test_a_directed_cycle_goes_round():
    assert sorted(geometry.named("directed-cycle-4")["(i j)"].T.tolist()) == [
        [0, 1],
        [1, 2],
        [2, 3],
        [3, 0],
    ]


def test_the_petersen_graph_is_the_one_of_pairs_that_do_not_meet():
    """3-regular with girth 5 on 10 nodes: there is only one."""
    adjacency = torch.zeros(10, 10, dtype=torch.long)
    one, other = geometry.named("petersen")["{i j}"]
    adjacency[one, other] = adjacency[other, one] = 1
    square = adjacency @ adjacency
    assert adjacency.sum(0).tolist() == [3] * 10
    # Neighbours have no common neighbour and others exactly one: A^2 + A = 2 I + J.
    assert torch.equal(square + adjacency, 2 * torch.eye(10, dtype=torch.long) + 1)


def is_orientable(triangles: list[list[int]]) -> bool:
    """Whether signs can be chosen so that neighbours run through their common edge in opposite
    directions.
    """
    runs = [{(a, b): 1, (b, c): 1, (a, c): -1} for a, b, c in map(sorted, triangles)]
    pairs = [
        (s, t, edge)
        for s, t in combinations(range(len(runs)), 2)
        for edge in runs[s].keys() & runs[t].keys()
    ]
    signs = {0: 1}
    while len(signs) < len(runs):
        for s, t, edge in pairs + [(t, s, edge) for s, t, edge in pairs]:
            if s in signs:
                signs.setdefault(t, -signs[s] * runs[s][edge] * runs[t][edge])
    return all(signs[s] * runs[s][edge] == -signs[t] * runs[t][edge] for s, t, edge in pairs)


@pytest.mark.parametrize("name", SURFACES)
def test_surfaces_are_of_their_kind(name):
    s = geometry.named(name)
    triangles = s["{i j k}"].T.tolist()
    counts = torch.zeros(s.num_entries("{i j}"), dtype=torch.long)
    for pair in combinations(range(3), 2):
        counts += torch.bincount(s.locate("{i j}", s["{i j k}"][list(pair)]), minlength=len(counts))
    assert set(counts.tolist()) <= {1, 2}
    assert (*f_vector(s), int((counts == 1).sum()), is_orientable(triangles)) == SURFACES[name]
    assert s.num_nodes - s.num_entries("{i j}") + s.num_entries("{i j k}") == (
        1 if name == "projective plane" else 0
    )
    assert s.canonical()[0] == s


@pytest.mark.parametrize("name", SURFACES)
def test_around_every_node_of_a_surface_is_one_cycle_or_one_path(name):
    triangles = geometry.named(name)["{i j k}"].T.tolist()
    for node in range(geometry.named(name).num_nodes):
        links = [set(t) - {node} for t in triangles if node in t]
        reached = links.pop()
        while any(link & reached for link in links):
            link = next(link for link in links if link & reached)
            reached |= link
            links.remove(link)
        assert not links


def test_every_name_that_is_listed_is_found():
    for name in geometry.names():
        assert isinstance(geometry.named(name.replace("-n", "-4")), inc.Structure)


@pytest.mark.parametrize(
    "name", ["Soccer Ball", "soccer-ball", " soccer_ball ", "truncated icosahedron"]
)
def test_names_may_be_written_in_many_ways(name):
    assert geometry.named(name) == geometry.named("soccer ball")


@pytest.mark.parametrize("name", ["möbius strip", "Mobius Strip", "moebius-strip"])
def test_a_name_with_an_umlaut_may_do_without(name):
    assert geometry.named(name).num_nodes == 5


def test_large_members_of_families_are_made_without_a_search():
    assert f_vector(geometry.named("cube-10")) == FAMILIES["cube"](10)
    assert f_vector(geometry.named("simplex-14")) == FAMILIES["simplex"](14)
    assert f_vector(geometry.named("cross-polytope-9")) == FAMILIES["cross-polytope"](9)


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("dodecahedrn", r"no object is called 'dodecahedrn'\. Did you mean dodecahedron or "),
        ("cub", r"Did you mean cube or cube-n or .*\? Write a number for n\."),
        ("simplex", r"Did you mean simplex-n\? Write a number for n\.|Did you mean simplex-n or "),
        ("zzzz", r"no object is called 'zzzz'\. geometry\.names\(\) lists all"),
        ("", r"no object is called ''"),
        ("simplex--1", r"no object is called 'simplex--1'"),
        ("cube-1.5", r"no object is called"),
        ("cube-0", r"'cube-0': the number of `cube-n` must be at least 1"),
        ("prism-2", r"'prism-2': the number of `prism-n` must be at least 3"),
        (5, r"an object is found by its name, a text such as 'cube'; got int"),
    ],
)
def test_names_of_nothing_are_refused_with_what_comes_near(name, sentence):
    with pytest.raises(IncidenceError, match=sentence):
        geometry.named(name)
    with pytest.raises(IncidenceError, match=sentence):
        geometry.coordinates(name)


@pytest.mark.parametrize(
    "name",
    ["cube-20", "simplex-999999999", "cross-polytope-40", "complete-100000", "cycle-999999999"],
)
def test_objects_too_large_to_list_are_refused_at_once(name):
    with pytest.raises(
        TooLargeError,
        match=rf"'{name}' has more than 20,000,000 nodes in its faces.*Take a smaller number",
    ):
        geometry.named(name)


def test_surfaces_and_graphs_without_a_place_in_space_have_no_coordinates():
    with pytest.raises(
        IncidenceError, match="'torus' has no coordinates: it is a structure alone, not a polytope"
    ):
        geometry.coordinates("torus")


def test_coordinates_of_cubes_are_the_bits_of_the_nodes():
    points = geometry.coordinates("cube-3").numpy()
    assert np.array_equal((points > 0) @ [4, 2, 1], np.arange(8))
