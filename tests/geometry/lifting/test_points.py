"""Complexes of points against their definitions."""

from itertools import combinations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from incidence.errors import IncidenceError, TooLargeError
from incidence.geometry import lifting
from tests.geometry.lifting.graphs import faces

T = torch.tensor


def random_points(count: int, dimensions: int, seed: int) -> torch.Tensor:
    return torch.rand(
        count, dimensions, generator=torch.Generator().manual_seed(seed), dtype=torch.float64
    )


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 9), st.integers(1, 4), st.floats(0, 1.5), st.integers(0, 99))
def test_rips_faces_are_the_sets_of_near_points(count, dimensions, radius, seed):
    points = random_points(count, dimensions, seed)
    lifted = lifting.vietoris_rips(points, radius, max_size=4)
    near = (points[:, None] - points).norm(dim=2) <= radius
    for size, text in ((2, "{i j}"), (3, "{i j k}"), (4, "{i j k l}")):
        expected = [
            frozenset(c)
            for c in combinations(range(count), size)
            if all(near[u, v] for u, v in combinations(c, 2))
        ]
        assert faces(lifted, text) == expected


def smallest_empty_ball(points: np.ndarray, face: tuple[int, ...]) -> float:
    """The radius of the smallest ball with a face on its sphere and no point inside, by a search
    over its support: the definition.
    """
    best = np.inf
    others = [v for v in range(len(points)) if v not in face]
    for extra in range(points.shape[1] + 2 - len(face)):
        for support in combinations(others, extra):
            at = points[[*face, *support]]
            normal = 2 * (at[1:] - at[0])
            offset, *_ = np.linalg.lstsq(normal, ((at[1:] - at[0]) ** 2).sum(1), rcond=None)
            centre = at[0] + offset
            radius = np.linalg.norm(centre - at, axis=1)
            if (
                np.ptp(radius) < 1e-9
                and (np.linalg.norm(points - centre, axis=1) > radius[0] - 1e-9).all()
            ):
                best = min(best, radius[0])
    return best


@settings(max_examples=25, deadline=None)
@given(st.integers(4, 7), st.integers(2, 3), st.floats(0.05, 1.0), st.integers(0, 99))
def test_alpha_faces_have_small_empty_balls(count, dimensions, radius, seed):
    points = random_points(count, dimensions, seed)
    lifted = lifting.alpha(points, radius)
    for size, text in zip(
        range(2, dimensions + 2), ("{i j}", "{i j k}", "{i j k l}"), strict=False
    ):
        expected = {
            frozenset(c)
            for c in combinations(range(count), size)
            if smallest_empty_ball(points.numpy(), c) <= radius
        }
        assert set(faces(lifted, text)) == expected


def test_the_whole_triangulation_and_its_skeleton():
    points = random_points(30, 3, 0)
    whole = lifting.alpha(points)
    skeleton = lifting.alpha(points, max_size=3)
    assert [str(p) for p in whole.patterns] == ["{i j}", "{i j k}", "{i j k l}"]
    assert [str(p) for p in skeleton.patterns] == ["{i j}", "{i j k}"]
    assert torch.equal(whole["{i j k}"], skeleton["{i j k}"])
    numbers = [30, *(whole.num_entries(p) for p in whole.patterns)]
    # a ball has Euler characteristic 1
    assert numbers[0] - numbers[1] + numbers[2] - numbers[3] == 1
    assert whole.canonical()[0] == whole


@pytest.mark.parametrize(
    "lift", [lambda p: lifting.vietoris_rips(p, 1.0), lifting.alpha], ids=["rips", "alpha"]
)
@pytest.mark.parametrize("count", [0, 1, 2])
def test_few_points_make_few_faces(lift, count):
    lifted = lift(torch.arange(2.0 * count).view(count, 2))
    assert lifted.num_nodes == count
    assert lifted.num_entries("{i j k}") == 0


def test_points_may_be_a_list_or_an_array():
    points = random_points(8, 2, 1)
    assert (
        lifting.alpha(points.tolist())
        == lifting.alpha(points.numpy())
        == lifting.alpha(points.float().double())
    )
    assert lifting.vietoris_rips(points.tolist(), 0.3) == lifting.vietoris_rips(points.numpy(), 0.3)


def test_points_on_a_line_have_no_triangles():
    line = torch.stack([torch.arange(5.0), torch.zeros(5)], 1)
    assert lifting.alpha(line).num_entries("{i j}") == 4
    assert lifting.alpha(line).num_entries("{i j k}") == 0


@pytest.mark.parametrize(
    ("lift", "message"),
    [
        (
            lambda: lifting.vietoris_rips(torch.zeros(2000, 2), 1.0, limit=1000),
            "at least 1,999,000 pairs of points, and limit=1,000",
        ),
        (
            lambda: lifting.vietoris_rips(torch.zeros(20, 2), 1.0, 3, limit=200),
            "vietoris_rips: there are at least 1,140 cliques of 3 nodes",
        ),
        (
            lambda: lifting.alpha(random_points(100, 2, 0), limit=100),
            r"alpha: there are at least 1,600 faces to be expected",
        ),
        (
            lambda: lifting.alpha(random_points(1000, 9, 0)),
            r"alpha: there are at least .* Take fewer points or dimensions",
        ),
        (lambda: lifting.alpha(random_points(500, 100, 0)), "Take fewer points or dimensions"),
    ],
    ids=["pairs", "cliques", "plane", "nine dimensions", "hundred dimensions"],
)
def test_points_that_would_make_too_many_faces_are_refused(lift, message):
    with pytest.raises(TooLargeError, match=message):
        lift()


@pytest.mark.parametrize(
    ("lift", "message"),
    [
        (
            lambda: lifting.vietoris_rips(torch.zeros(3), 1.0),
            r"points must be numbers of shape \[points, dimensions\]; got shape \[3\]",
        ),
        (
            lambda: lifting.vietoris_rips("points", 1.0),
            "vietoris_rips: points must be numbers .*got str",
        ),
        (
            lambda: lifting.alpha(T([[0.0, 1.0], [float("nan"), 0.0]])),
            r"alpha: points\[1\] is .*: coordinates are finite",
        ),
        (
            lambda: lifting.alpha(torch.zeros(3, 2)),
            "alpha: a point stands twice among the points. Keep one of each",
        ),
        (
            lambda: lifting.alpha(torch.eye(3), radius="big"),
            "alpha: the radius is a number of at least 0; got 'big'",
        ),
        (
            lambda: lifting.vietoris_rips(torch.eye(3), -1.0),
            "vietoris_rips: the radius is a number of at least 0; got -1.0",
        ),
        (
            lambda: lifting.vietoris_rips(torch.eye(3), 1.0, 1),
            "vietoris_rips: max_size is an integer from 2 to 64",
        ),
        (
            lambda: lifting.alpha(torch.eye(3), max_size=1),
            "alpha: max_size is an integer of at least 2",
        ),
    ],
)
def test_points_that_make_no_sense_are_refused(lift, message):
    with pytest.raises(IncidenceError, match=message):
        lift()
