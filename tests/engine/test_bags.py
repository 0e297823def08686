"""Sums over bags against a loop, in every floating type and in blocks of any size."""

from itertools import pairwise

import pytest
import torch

from incidence.engine import bags
from incidence.engine.bags import bag_numbers, bag_sum, transposed_product

TYPES = [torch.float16, torch.bfloat16, torch.float32, torch.float64]


def by_loop(x: torch.Tensor, index: torch.Tensor, ptr: torch.Tensor) -> torch.Tensor:
    bounds = ptr.tolist()
    rows = [x.double()[index[a:b].long()].sum(0) for a, b in pairwise(bounds)]
    return torch.stack(rows) if rows else torch.zeros(0, x.shape[1], dtype=torch.float64)


@pytest.mark.parametrize("block", [1, 7, 1 << 22])
@pytest.mark.parametrize("kind", [torch.int32, torch.int64], ids=str)
@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("sizes", [[3, 0, 5, 1, 0], [0, 0], [], [12]], ids=str)
def test_every_bag_has_the_sum_of_its_rows(sizes, dtype, kind, block, monkeypatch):
    monkeypatch.setattr("incidence.engine.bags._BLOCK", block)
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(6, 3, generator=generator).to(dtype)
    index = torch.randint(6, (sum(sizes),), generator=generator).to(kind)
    ptr = torch.tensor([0, *sizes]).cumsum(0).to(kind)
    found = bag_sum(x, index, ptr)
    assert found.dtype == dtype
    precision = {
        torch.float16: 1e-2,
        torch.bfloat16: 1e-1,
        torch.float32: 1e-5,
        torch.float64: 1e-12,
    }[dtype]
    torch.testing.assert_close(
        found.double(), by_loop(x, index, ptr), rtol=precision, atol=precision
    )


@pytest.mark.parametrize("block", [10, 1 << 22])
def test_sums_of_many_small_numbers_are_taken_in_a_wider_type(block, monkeypatch):
    monkeypatch.setattr("incidence.engine.bags._BLOCK", block)
    x = torch.full((5000, 1), 0.001, dtype=torch.float16)
    total = bag_sum(x, torch.arange(5000), torch.tensor([0, 5000]))
    assert float(total) == pytest.approx(5.0, rel=2e-3)


def test_every_member_knows_its_bag():
    assert bag_numbers(torch.tensor([0, 2, 2, 5]), 5).tolist() == [0, 0, 2, 2, 2]


@pytest.mark.parametrize("is_given", [False, True], ids=["new", "written to out"])
@pytest.mark.parametrize("more", [-1, 0, 1, 5, 16], ids=lambda more: f"{more:+d}")
def test_the_transposed_product_is_that_of_torch_in_chunks_or_not(more, is_given):
    rows = bags._CHUNKS * bags._LEAST_CHUNK + more  # on both sides of the switch
    generator = torch.Generator().manual_seed(0)
    a, b = (torch.randn(rows, n, generator=generator, dtype=torch.float64) for n in (3, 4))
    out = torch.full((3, 4), 7.0, dtype=torch.float64)
    found = transposed_product(a, b, out=out) if is_given else transposed_product(a, b)
    torch.testing.assert_close(found, a.t() @ b)
    assert not is_given or found.data_ptr() == out.data_ptr()


@pytest.mark.parametrize("rows", [0, 1, 63])
def test_the_transposed_product_of_few_rows_is_that_of_torch(rows):
    generator = torch.Generator().manual_seed(0)
    a, b = (torch.randn(rows, n, generator=generator, dtype=torch.float64) for n in (3, 4))
    torch.testing.assert_close(transposed_product(a, b), a.t() @ b)
