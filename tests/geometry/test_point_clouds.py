"""Graphs of near points, against all distances."""

import sys
from itertools import combinations, product

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from incidence import geometry
from incidence.errors import IncidenceError, MissingExtraError, TooLargeError
from incidence.geometry import point_clouds

modest = settings(deadline=None, max_examples=25, derandomize=True)
grids = st.lists(st.tuples(*[st.integers(-3, 3)] * 2), min_size=2, max_size=12)


def edges(structure):
    return {tuple(edge) for edge in structure["{i j}"].T.tolist()}


def square_distances(points):
    return {
        (i, j): sum((a - b) ** 2 for a, b in zip(points[i], points[j], strict=True))
        for i, j in product(range(len(points)), repeat=2)
    }


@modest
@given(grids, st.integers(1, 5))
def test_a_radius_joins_the_points_within_it(points, radius):
    far = square_distances(points)
    near = {(i, j) for i, j in combinations(range(len(points)), 2) if far[i, j] <= radius**2}
    assert edges(geometry.point_cloud(points, radius=radius)) == near


@modest
@given(grids, st.data())
def test_k_joins_each_point_to_its_nearest_and_to_all_that_are_as_near(points, data):
    k = data.draw(st.integers(1, len(points) - 1))
    far = square_distances(points)
    near = set()
    for i in range(len(points)):
        reach = sorted(far[i, j] for j in range(len(points)) if j != i)[k - 1]
        near |= {
            (min(i, j), max(i, j)) for j in range(len(points)) if j != i and far[i, j] <= reach
        }
    assert edges(geometry.point_cloud(points, k=k)) == near


@pytest.mark.parametrize("how", [{"radius": 0.2}, {"k": 6}], ids=["radius", "k"])
@pytest.mark.parametrize("dimension", [1, 2, 3, 6])
def test_the_tree_finds_what_all_distances_find(how, dimension, monkeypatch):
    pytest.importorskip("scipy", reason="point clouds of more than 4096 points need scipy")
    points = torch.rand(700, dimension, generator=torch.Generator().manual_seed(dimension))
    whole = geometry.point_cloud(points, **how)
    monkeypatch.setattr(point_clouds, "_SMALL", 100)
    assert geometry.point_cloud(points, **how) == whole


@pytest.mark.parametrize("how", [{"radius": 0.2}, {"k": 6}], ids=["radius", "k"])
def test_distances_in_blocks_are_the_same(how, monkeypatch):
    points = torch.rand(300, 3, generator=torch.Generator().manual_seed(0))
    whole = geometry.point_cloud(points, **how)
    monkeypatch.setattr(point_clouds, "_BLOCK", 7 * 300)
    assert geometry.point_cloud(points, **how) == whole


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_points_that_are_equally_far_up_to_rounding_are_all_taken(dtype):
    lattice = torch.cartesian_prod(*[torch.arange(5).to(dtype) * 0.1 + 0.7] * 3)
    assert geometry.point_cloud(lattice, k=3).num_entries("{i j}") == 3 * 5 * 5 * 4


def test_the_order_of_the_points_is_immaterial():
    points = torch.randint(5, (30, 2), generator=torch.Generator().manual_seed(1)).double()
    turn = torch.randperm(30, generator=torch.Generator().manual_seed(2))
    turned = torch.empty_like(points)
    turned[turn] = points
    assert (
        geometry.point_cloud(turned, k=3)
        == geometry.point_cloud(points, k=3).relabel(turn).canonical()[0]
    )


def test_coordinates_with_gradients_are_looked_at_as_they_are():
    points = torch.rand(5, 2, requires_grad=True)
    assert geometry.point_cloud(points, k=4).num_entries("{i j}") == 10


@pytest.mark.parametrize("points", [torch.zeros(0, 3), torch.zeros(1, 3)])
def test_no_points_and_one_point_have_no_edges(points):
    assert geometry.point_cloud(points, radius=1.0).num_entries("{i j}") == 0


@pytest.mark.parametrize(
    ("points", "how", "message"),
    [
        ([[0.0], [1.0]], {}, "takes either radius= or k="),
        ([[0.0], [1.0]], {"radius": 1, "k": 1}, "takes either radius= or k="),
        (
            [[0.0], [1.0]],
            {"radius": -1},
            "point_cloud: the radius is a number of at least 0; got -1",
        ),
        ([[0.0], [1.0]], {"radius": float("nan")}, "the radius is a number of at least 0; got nan"),
        ([[0.0], [1.0]], {"radius": "1"}, "the radius is a number of at least 0; got '1'"),
        (
            [[0.0], [1.0]],
            {"k": 2},
            "point_cloud: k must be less than the number of points, which is 2; got 2",
        ),
        ([[0.0], [1.0]], {"k": 1.5}, "k is an integer of at least 1; got 1.5"),
        ([[0.0], [float("inf")]], {"k": 1}, r"points\[1\] is \[inf\]: coordinates are finite"),
        (
            [0.0, 1.0],
            {"k": 1},
            r"point_cloud: points must be numbers of shape \[points, dimensions\]; got shape \[2\]",
        ),
        ("points", {"k": 1}, "points must be numbers of shape"),
    ],
)
def test_clouds_that_make_no_graph_are_refused(points, how, message):
    with pytest.raises(IncidenceError, match=message):
        geometry.point_cloud(points, **how)


@pytest.mark.parametrize(
    ("small", "how"), [(4096, {"radius": 1.0}), (10, {"k": 1}), (10, {"radius": 1.0})]
)
def test_too_many_edges_are_refused(small, how, monkeypatch):
    pytest.importorskip("scipy", reason="point clouds of more than 4096 points need scipy")
    monkeypatch.setattr(point_clouds, "_SMALL", small)
    monkeypatch.setattr(point_clouds, "MAX_ENTRIES", 1000)
    with pytest.raises(TooLargeError, match=f"too many edges: .* Give a smaller {next(iter(how))}"):
        geometry.point_cloud(torch.zeros(50, 2), **how)


def test_a_large_cloud_without_scipy_says_what_is_missing(monkeypatch):
    monkeypatch.setitem(sys.modules, "scipy", None)
    monkeypatch.setitem(sys.modules, "scipy.spatial", None)
    monkeypatch.setattr(point_clouds, "_SMALL", 10)
    with pytest.raises(
        MissingExtraError,
        match=r"needs scipy, which is not installed: pip install 'incidence\[geometry\]'",
    ):
        geometry.point_cloud(torch.zeros(50, 2), k=1)
