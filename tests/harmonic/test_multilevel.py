"""The preconditioner: symmetric, positive, and with the kernel of the Laplacian."""

import pytest
import torch

from incidence.harmonic.multilevel import Multilevel, coo_matrix


def laplacian(edges, signs, nodes):
    """The Laplacian of a graph whose edges have signs."""
    one, other = torch.tensor(edges).T
    sign = torch.tensor(signs, dtype=torch.double)
    row = torch.cat([one, other, one, other])
    column = torch.cat([one, other, other, one])
    values = torch.cat([torch.ones(2 * len(sign), dtype=torch.double), -sign, -sign])
    return coo_matrix(row, column, values, (nodes, nodes))


def cycle(start, length):
    return [(start + k, start + (k + 1) % length) for k in range(length)]


@pytest.fixture
def two_cycles():
    """Two structures: a cycle whose signs agree, and one where a single edge does not."""
    edges = cycle(0, 40) + cycle(40, 30)
    matrix = laplacian(edges, [1] * 40 + [1] * 29 + [-1], 70)
    home = torch.tensor([0] * 40 + [1] * 30)
    return matrix, Multilevel(matrix, home, 2)


def test_the_kernel_has_one_vector_for_each_part_whose_signs_agree(two_cycles):
    matrix, inverse = two_cycles
    assert inverse.nullity.tolist() == [1, 0]
    part, value = inverse.kernel()
    assert len(set(part[:40].tolist())) == 1
    assert value[:40].abs().tolist() == [1] * 40
    assert not value[40:].any()
    assert float((matrix @ value.double()[:, None]).abs().max()) == 0


def test_signs_of_the_kernel_follow_those_of_the_edges():
    edges, signs = cycle(0, 20), [1] * 20
    signs[3] = signs[11] = -1  # twice: they agree around the cycle
    inverse = Multilevel(laplacian(edges, signs, 20), torch.zeros(20, dtype=torch.long), 1)
    _, value = inverse.kernel()
    assert inverse.nullity.tolist() == [1]
    assert all(value[b] == sign * value[a] for (a, b), sign in zip(edges, signs, strict=True))


def test_it_is_symmetric_and_positive_where_the_laplacian_is(two_cycles):
    matrix, inverse = two_cycles
    dense = matrix.to_dense()
    generator = torch.Generator().manual_seed(0)
    x, y = dense @ torch.randn(2, 70, 3, generator=generator, dtype=torch.double)
    left = (y * inverse(x)).sum(0)
    right = (inverse(y) * x).sum(0)
    torch.testing.assert_close(left, right, rtol=1e-4, atol=1e-5)
    assert bool(((x * inverse(x)).sum(0) > 0).all())
