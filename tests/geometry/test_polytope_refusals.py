"""Points and facets that make no polytope: the sentence names the first that is wrong."""

import sys
from itertools import combinations, product

import numpy as np
import pytest

from incidence import geometry
from incidence.errors import IncidenceError, TooLargeError
from incidence.geometry import face_lattice

pytest.importorskip("scipy", reason="convex hulls need scipy")

SQUARE = [[0, 0], [1, 0], [1, 1], [0, 1]]
CUBE = list(product((0, 1), repeat=3))
NAN = float("nan")


@pytest.mark.parametrize(
    ("points", "sentence"),
    [
        pytest.param(
            [*SQUARE, [1, 0]],
            r"points 1 and 4 are equal, \(1, 0\) and \(1, 0\): the corners of a polytope differ\."
            r" Keep one",
            id="equal",
        ),
        pytest.param(
            [[0.1, -1.0], [1.0, 0.0], [0.0, 1.0], [1.0000001, 0.0]],
            r"points 1 and 3 are equal, \(1, 0\) and \(1, 0\)",
            id="equal but for rounding",
        ),
        pytest.param(
            [*SQUARE, [0.5, 0.5]],
            r"point 4, \(0\.5, 0\.5\), is no corner of the convex hull of the points, up to the"
            r" tolerance 1e-06\. Leave such",
            id="inside",
        ),
        pytest.param(
            [[2, 0], [0, 0], [1, 0], [0, 2]],
            r"point 2, \(1, 0\), is no corner",
            id="in an edge, of integers",
        ),
        pytest.param(
            [[2.5, 0], [0, 0], [1, 0], [0, 2.5]],
            r"point 2, \(1, 0\), is no corner",
            id="in an edge",
        ),
        pytest.param(
            [[2 * x for x in p] for p in CUBE] + [[1, 1, 2]],
            r"point 8, \(1, 1, 2\), is no corner",
            id="in a facet",
        ),
        pytest.param([[0], [5], [3]], r"point 2, \(3\), is no corner", id="in a segment"),
        pytest.param(
            [[0, 0, 0], [1, 0, 0], [0, 1, 0], [1, 1, 0]],
            r"the 4 points span 2 of their 3 dimensions, so that.*flat=True .* rank 2",
            id="coplanar",
        ),
        pytest.param(
            [[0.1, 0, 0], [1, 0, 0], [0, 1, 0], [1, 1, 0]],
            r"the 4 points span 2 of their 3 dimensions",
            id="coplanar, rounded",
        ),
        pytest.param(
            [[0, 0], [1, 1]],
            r"the 2 points span 1 of their 2 dimensions",
            id="two points in a plane",
        ),
        pytest.param(
            [[0, 0], [1, NAN], [0, 1]],
            r"point 1 is \(1, nan\): coordinates must be finite numbers",
            id="nan",
        ),
        pytest.param(
            [[0, 0], [1, 0], [float("inf"), 1]],
            r"point 2 is \(inf, 1\): coordinates must be finite",
            id="infinite",
        ),
        pytest.param(
            [[1, 2]],
            r"a polytope has at least 2 corners in at least 1 dimension; got points of shape"
            r" \[1, 2\]",
            id="one point",
        ),
        pytest.param(np.zeros((0, 3)), r"got points of shape \[0, 3\]", id="no point"),
        pytest.param(np.zeros((3, 0)), r"got points of shape \[3, 0\]", id="no dimension"),
        pytest.param(
            [1, 2, 3],
            r"points must be a matrix of numbers, shape \[nodes, dimensions\]; got list",
            id="a list",
        ),
        pytest.param([[1, 2], [3]], r"points must be a matrix of numbers", id="ragged"),
        pytest.param("cube", r"points must be a matrix of numbers.*; got str", id="text"),
        pytest.param(None, r"points must be a matrix of numbers.*; got NoneType", id="nothing"),
        pytest.param(
            np.ones((3, 2), dtype=bool),
            r"points must be a matrix of numbers.*; got shape \[3, 2\] of bool",
            id="truth values",
        ),
        pytest.param(
            np.ones((3, 2), dtype=complex),
            r"got shape \[3, 2\] of complex128",
            id="complex numbers",
        ),
    ],
)
def test_points_that_make_no_polytope_are_refused(points, sentence):
    with pytest.raises(IncidenceError, match=sentence):
        geometry.polytope(points)


@pytest.mark.parametrize("tolerance", [-1.0, 0.5, NAN])
def test_tolerances_that_make_no_sense_are_refused(tolerance):
    with pytest.raises(
        IncidenceError,
        match=r"tolerance must be at least 0 and below 0\.1, as a part of the size of all points",
    ):
        geometry.polytope(SQUARE, tolerance=tolerance)


def test_a_tolerance_too_large_for_the_points_is_refused():
    circle = [[np.cos(t), np.sin(t)] for t in np.arange(200) * (2 * np.pi / 200)]
    with pytest.raises(
        IncidenceError,
        match=r"is no corner of .*, up to the tolerance 0\.0003\..*, or give a smaller `tolerance`",
    ):
        geometry.polytope(circle, tolerance=3e-4)


OCTAHEDRON = [[1, 0, 0], [-1, 0, 0], [0, 1, 0], [0, -1, 0], [0, 0, 1], [0, 0, -1]]


@pytest.mark.parametrize(
    ("facets", "reason"),
    [
        pytest.param([], "some facets are missing, or lie in others", id="none"),
        pytest.param(
            [0b000111, 0b000011, 0b111000],
            "some facets are missing, or lie in others",
            id="one in another",
        ),
        pytest.param(
            [0b000111, 0b011001, 0b101010, 0b110100], "the facets are not those of", id="no lattice"
        ),
        pytest.param([3, 6, 12, 24, 48, 33], "the faces have 2 ranks instead of 3", id="a hexagon"),
    ],
)
def test_a_hull_that_is_no_lattice_is_refused(facets, reason, monkeypatch):
    monkeypatch.setattr("incidence.geometry.polytopes.ExactCloud.facets", lambda self: facets)
    with pytest.raises(
        IncidenceError,
        match=(
            rf"convex hull cannot be separated in double precision \({reason}.* smaller"
            r" `tolerance`"
        ),
    ):
        geometry.polytope(OCTAHEDRON)


@pytest.mark.parametrize("function", [geometry.polytope, geometry.corners])
def test_integers_too_thin_for_qhull_are_refused_rather_than_wrong(function):
    points = [[10**15 * x for x in p] for p in CUBE]
    points[-1][2] += 1
    with pytest.raises(
        IncidenceError,
        match="the faces of the convex hull cannot be separated in double precision",
    ):
        function(points)


def test_what_qhull_refuses_is_told(monkeypatch):
    monkeypatch.setattr("incidence.geometry.polytopes.ExactCloud.spanned", lambda self: self)
    with pytest.raises(
        IncidenceError,
        match="the convex hull of the points cannot be found in double precision: QH",
    ):
        geometry.polytope([[0, 0, 0], [1, 0, 0], [0, 1, 0], [1, 1, 0]])


def cube_facets(n):
    return [[v for v in range(2**n) if v >> bit & 1 == side] for bit in range(n) for side in (0, 1)]


# Two caps of five triangles around corners that are both called 10, and the ten triangles between
# them.
PINCHED = [[v, (v + 1) % 5, 10] for v in range(5)] + [
    [v + 5, (v + 1) % 5 + 5, 10] for v in range(5)
]
PINCHED += [[v, (v + 1) % 5, v + 5] for v in range(5)] + [
    [(v + 1) % 5, v + 5, (v + 1) % 5 + 5] for v in range(5)
]
TORUS = [[v % 7, (v + step) % 7, (v + 3) % 7] for v in range(7) for step in (1, 2)]
TETRAHEDRON = list(combinations(range(4), 3))


@pytest.mark.parametrize(
    ("facets", "sentence"),
    [
        pytest.param(
            [[0, 1, 2, 1], [0, 1, 3]],
            r"facets\[0\] is \(0, 1, 2, 1\): the node 1 stands twice",
            id="a node twice",
        ),
        pytest.param(
            [[0, 1], [1, 2], [2, -1]],
            r"facets\[2\] has the negative node -1: nodes are numbered from 0",
            id="negative",
        ),
        pytest.param(
            [[0, 1], [1, 3], [3, 0]],
            r"node 2 is in no facet, but node 3 is: nodes are numbered from 0 without gaps",
            id="a gap",
        ),
        pytest.param(
            [[0, 1], [1, 10**15]],
            r"node 2 is in no facet, but node 1000000000000000 is",
            id="a large gap",
        ),
        pytest.param([[0, 1, 2]], "a polytope has at least 2 facets; got 1", id="one facet"),
        pytest.param(
            [[0, 1], []], r"facets\[1\] is empty: a face has at least one node", id="an empty facet"
        ),
        pytest.param(
            [[0, 1], [1, 2], "ab"],
            r"facets\[2\] must be a list of nodes, which are integers; got 'ab'",
            id="text",
        ),
        pytest.param(
            [*TETRAHEDRON, (2, 1, 0)],
            r"all nodes of facet 0, \[0, 1, 2\], lie in facet 4 as well\. Remove facet 0",
            id="twice",
        ),
        pytest.param(
            [*TETRAHEDRON, (1, 3)],
            r"all nodes of facet 4, \[1, 3\], lie in facet \d as well",
            id="one in another",
        ),
        pytest.param(
            TETRAHEDRON[:3],
            r"node 1 is no corner: the facets that contain it have other nodes in common",
            id="one missing",
        ),
        pytest.param(
            [[a, b, c] for a, b, c in product((0, 1), (2, 3), (4, 5))][1:],
            r"between \[\d\] and \[\d, \d, \d\] there must be 2 faces, and there are 1",
            id="an octahedron with a hole",
        ),
        pytest.param(
            PINCHED,
            r"no chain of neighbours one rank above \[10\] leads from",
            id="an icosahedron with two corners made one",
        ),
        pytest.param(
            [[0], [1], [2]],
            r"between \[\] and \[0, 1, 2\] there must be 2 faces, and there are 3",
            id="three ends of a segment",
        ),
        pytest.param(
            TORUS,
            r"by rank, \(7, 21, 14\), have the alternating sum 0 instead of 2 \(Euler's relation\)",
            id="a torus",
        ),
        pytest.param(
            [*TETRAHEDRON, *[[v + 4 for v in f] for f in TETRAHEDRON]],
            r"no chain of neighbours one rank below \[0, 1, 2, 3, 4, 5, 6, 7\] leads from \[0, 1,"
            r" 2\] to \[4, 5, 6\]",
            id="two at a time",
        ),
        pytest.param(
            [[0, 1, 2, 3, 4, 5], [0, 1, 6], [1, 2, 6], [0, 2, 6], [3, 4, 6], [4, 5, 6], [3, 5, 6]],
            r"no chain of neighbours one rank below \[0, 1, 2, 3, 4, 5\] leads from",
            id="a facet with a hole, and a pinched node",
        ),
        pytest.param(
            [*cube_facets(3), [0, 8], [7, 8]],
            r"their intersection \[\d\] lies at two ranks or at none",
            id="an edge beside squares",
        ),
        pytest.param(
            [*cube_facets(4), [0, 1, 16], [0, 2, 16], [1, 2, 16]],
            r"their intersection \[\d, \d\] lies at two ranks",
            id="a square beside cubes",
        ),
        pytest.param(
            [*TETRAHEDRON, [0, 4], [1, 4]],
            r"their intersection \[[\d, ]+\] lies at two ranks or at none",
            id="an edge beside triangles",
        ),
        pytest.param(
            [[0, 1, 2], [2, 3, 4], [4, 5, 0], [1, 3, 5]],
            r"between \[\] and \[\d, \d, \d\] there",
            id="facets that only touch",
        ),
    ],
)
def test_facets_that_make_no_polytope_are_refused(facets, sentence):
    with pytest.raises(IncidenceError, match=sentence):
        geometry.polytope_from_facets(facets)


def test_a_lattice_upside_down_is_refused_alike():
    """More facets than nodes: faces are found from the nodes up."""
    facets = [[0, 1, 2, 3], [0, 1, 4], [1, 2, 4], [2, 3, 4], [0, 3, 4], [0, 2, 5], [1, 3, 5]]
    with pytest.raises(IncidenceError, match="the facets are not those of"):
        geometry.polytope_from_facets(facets)


def test_polytopes_with_too_many_faces_are_refused(monkeypatch):
    monkeypatch.setattr(face_lattice, "MAX_FACES", 20)
    with pytest.raises(
        TooLargeError, match="the polytope has more than 20 faces, which are not listed"
    ):
        geometry.polytope(CUBE)


def test_without_scipy_facets_work_and_points_say_what_is_missing(monkeypatch):
    monkeypatch.setitem(sys.modules, "scipy.spatial", None)
    assert geometry.polytope_from_facets(TETRAHEDRON).num_nodes == 4
    with pytest.raises(
        IncidenceError,
        match=(
            r"the convex hull of points needs scipy, which is not installed: pip install"
            r" 'incidence\[geometry\]'"
        ),
    ):
        geometry.polytope(CUBE)
