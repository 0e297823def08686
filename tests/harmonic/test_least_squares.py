"""What is left of vectors outside of the image of a sparse matrix."""

import pytest
import torch

from incidence.errors import IncidenceError
from incidence.harmonic import least_squares
from incidence.harmonic.least_squares import FaceMap, without_image


def random_map(images, rows, most, seed, structures=1):
    """A sparse matrix with up to `most` numbers in every column."""
    generator = torch.Generator().manual_seed(seed)
    image = torch.rand(rows, images, generator=generator).argsort(1)[:, :most]
    row = torch.arange(rows)[:, None].expand_as(image)
    values = torch.randn(rows, most, generator=generator, dtype=torch.double)
    home = torch.arange(images) * structures // images
    return FaceMap(image.reshape(-1), row.reshape(-1), values.reshape(-1), rows, home, structures)


@pytest.mark.parametrize(("most", "seed"), [(1, 0), (3, 1), (5, 2)])
def test_what_is_left_is_that_of_the_pseudo_inverse(most, seed):
    faces = random_map(12, 30, most, seed)
    matrix = faces.coo.to_dense()
    x = torch.randn(30, 4, dtype=torch.double, generator=torch.Generator().manual_seed(seed))
    expected = x - torch.linalg.pinv(matrix) @ (matrix @ x)
    enough = torch.full((1, 4), 1e-26, dtype=torch.double)
    torch.testing.assert_close(without_image(x, faces, enough), expected, rtol=0, atol=1e-10)


def test_no_more_is_left_of_a_structure_than_is_enough():
    faces = random_map(20, 60, 3, 3)
    x = torch.randn(60, 2, dtype=torch.double, generator=torch.Generator().manual_seed(0))
    for bound in (1e-2, 1e-6, 1e-12):
        enough = torch.full((1, 2), bound, dtype=torch.double)
        left = faces.forth @ without_image(x, faces, enough)
        assert bool((left.square().sum(0) <= 1.1 * bound).all())


def test_the_transpose_and_multiples_of_rows_are_those_of_the_matrix():
    faces = random_map(7, 9, 3, 4)
    matrix = faces.coo.to_dense()
    factors = torch.arange(1.0, 10.0, dtype=torch.double)
    torch.testing.assert_close(faces.scaled(factors).coo.to_dense(), matrix * factors)
    other = faces.transposed(torch.zeros(9, dtype=torch.long))
    torch.testing.assert_close(other.coo.to_dense(), matrix.T)


def test_too_many_steps_are_an_error(monkeypatch):
    monkeypatch.setattr(least_squares, "_MOST_STEPS", 2)
    faces = random_map(12, 30, 3, 5)
    x = torch.ones(30, 1, dtype=torch.double)
    with pytest.raises(IncidenceError, match="30 values was not found within 2 steps"):
        without_image(x, faces, torch.full((1, 1), 1e-26, dtype=torch.double))
