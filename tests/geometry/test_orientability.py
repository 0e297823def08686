"""Orientability, decided exactly by an operation of a layer: the kernel of the boundary of the
largest faces.
"""

import gzip
import json

import pytest
import torch

from incidence import geometry
from incidence.nn import Linear
from tests.data_folder import data_folder
from tests.geometry.shapes import MOEBIUS, PROJECTIVE_PLANE, sphere, times

LETTERS = ["i", "j", "k", "l", "m"]
_PRIME = 2**31 - 1


def nullity(matrix: torch.Tensor) -> int:
    """The dimension of the kernel of an integer matrix, modulo a prime that no torsion here has."""
    rows = [
        dict(zip(row.nonzero()[:, 0].tolist(), row[row != 0].long().tolist(), strict=True))
        for row in matrix
    ]
    pivots: dict[int, dict[int, int]] = {}
    for row in rows:
        while row and (lead := min(row)) in pivots:
            factor = row[lead]
            for column, value in pivots[lead].items():
                left = (row.get(column, 0) - factor * value) % _PRIME
                row = (
                    {**row, column: left} if left else {k: v for k, v in row.items() if k != column}
                )
        if row:
            inverse = pow(row[lead], -1, _PRIME)
            pivots[lead] = {column: value * inverse % _PRIME for column, value in row.items()}
    return matrix.shape[1] - len(pivots)


def boundary(facets: list[list[int]]) -> torch.Tensor:
    """The boundary of the largest faces, as the one operation of its layer has it."""
    size = len(facets[0])
    s = geometry.simplicial_complex(facets, oriented=True)
    upper, lower = (f"<{' '.join(LETTERS[:n])}>" for n in (size, size - 1))
    return Linear(f"{upper} -> {lower}", 1, 1).operator(0, s).to_dense()


@pytest.mark.parametrize(
    ("facets", "is_orientable"),
    [
        (sphere(2), True),
        (times(sphere(1), sphere(1)), True),
        (PROJECTIVE_PLANE, False),
        (times(PROJECTIVE_PLANE, sphere(1)), False),
    ],
    ids=["sphere", "torus", "projective plane", "projective plane times circle"],
)
def test_a_closed_manifold_is_orientable_iff_its_facets_have_signs_without_boundary(
    facets, is_orientable
):
    assert nullity(boundary([list(f) for f in facets])) == is_orientable


def test_a_manifold_with_border_has_no_facets_without_boundary():
    assert nullity(boundary([list(f) for f in MOEBIUS])) == 0


@pytest.mark.parametrize(
    ("dimension", "count"),
    [
        (2, 95),
        pytest.param(3, 316, marks=pytest.mark.slow),
        pytest.param(4, 87, marks=pytest.mark.slow),
    ],
)
def test_all_triangulated_manifolds_are_orientable_iff_their_homology_says_so(dimension, count):
    with gzip.open(data_folder("triangulated_manifolds") / "complexes.jsonl.gz", "rt") as lines:
        cases = [case for case in map(json.loads, lines) if case["dim"] == dimension]
    assert len(cases) == count
    for case in cases:
        assert nullity(boundary(case["facets"])) == case["homology"][dimension][0], case["name"]
        assert (
            geometry.hodge(
                geometry.simplicial_complex(case["facets"], oriented=True), dimension
            ).betti
            == case["homology"][dimension][0]
        )
