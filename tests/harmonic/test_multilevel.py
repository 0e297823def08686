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


def random_graph(seed):
    """A graph with a few hubs, whose signs agree around all cycles or around few."""
    generator = torch.Generator().manual_seed(seed)

    def drawn(low, high, count=1):
        return torch.randint(low, high, (count,), generator=generator)

    nodes = int(drawn(20, 200))
    # the earlier a node, the more edges it has
    pairs = {(int(v * torch.rand(1, generator=generator) ** 2), v) for v in range(1, nodes)}
    more = zip(drawn(0, nodes, nodes).tolist(), drawn(0, nodes, nodes).tolist(), strict=True)
    pairs |= {(min(pair), max(pair)) for pair in more if pair[0] != pair[1]}
    edges = sorted(pairs)
    gauge = 2 * drawn(0, 2, nodes) - 1
    signs = [int(gauge[a] * gauge[b]) for a, b in edges]
    if seed % 2:
        signs[-1] = -signs[-1]
    return laplacian(edges, signs, nodes)


@pytest.mark.parametrize("seed", range(30))
def test_the_kernel_of_a_graph_with_hubs_has_the_dimension_of_the_definition(seed):
    matrix = random_graph(seed)
    sizes = torch.linalg.eigvalsh(matrix.to_dense())
    inverse = Multilevel(matrix, torch.zeros(len(matrix), dtype=torch.long), 1)
    assert inverse.nullity.tolist() == [int((sizes < 1e-9).sum())]
    _, value = inverse.kernel()
    assert float((matrix @ value.double()[:, None]).abs().max()) == 0
