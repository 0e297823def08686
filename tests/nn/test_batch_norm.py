"""Norms over rows: as torch's own, with one row or none, and over several processes as over one."""

from __future__ import annotations

import os
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import nn

from incidence.nn.norms import RowNorm, RowRms


def rows(count: int = 7, seed: int = 0) -> torch.Tensor:
    return 3 + 2 * torch.randn(
        count, 4, generator=torch.Generator().manual_seed(seed), dtype=torch.float64
    )


def norm(kind: type[nn.BatchNorm1d] = RowNorm, **settings: Any) -> nn.BatchNorm1d:
    made = kind(4, **settings).double()
    with torch.no_grad():
        made.weight.copy_(torch.linspace(0.5, 2, 4))
        made.bias.copy_(torch.linspace(-1, 1, 4))
    return made


@pytest.mark.parametrize("is_training", [True, False])
def test_it_is_torchs_own_whose_running_statistics_begin_as_means(is_training):
    ours, theirs = norm().train(is_training), norm(nn.BatchNorm1d, momentum=None).train(is_training)
    for seed in range(14):
        theirs.momentum = None if seed < 10 else ours.momentum
        assert torch.equal(ours(rows(seed=seed)), theirs(rows(seed=seed)))
        torch.testing.assert_close(ours.state_dict(), theirs.state_dict(), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("is_shared", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_a_channel_that_is_the_same_in_all_rows_is_scaled_and_not_centred(dtype, is_shared):
    """The second and third differ by rounding only, and the last is nothing but rounding."""
    x = torch.tensor([[-3.0, 0.1, 700.1, 0.0]], dtype=dtype).repeat(101, 1)
    x[::2, 1:3] *= 1 + 2 * torch.finfo(dtype).eps
    x[:, 3] = 1e-7 * torch.randn(101, dtype=dtype, generator=torch.Generator().manual_seed(0))
    ours = norm().to(dtype)
    ours.is_shared = is_shared  # alone, which is not over several processes
    expected = torch.tensor([-1.0, 1.0, 1.0, 0.0], dtype=dtype) * ours.weight + ours.bias
    for _ in range(3):
        torch.testing.assert_close(ours(x), expected.expand(101, 4), rtol=1e-3, atol=1e-6)
    torch.testing.assert_close(ours.eval()(x), expected.expand(101, 4), rtol=1e-3, atol=1e-6)
    # a per cent of each, and no more after
    changed = x + torch.tensor([0.03, 0.001, 7.0, 1e-7], dtype=dtype)
    assert (ours(changed) - ours(x)).abs().max() < 0.03


def test_what_is_rounding_stays_rounding_however_many_norms_follow():
    x = torch.full((50, 4), 0.3) * (
        1 + 1e-7 * torch.randn(50, 4, generator=torch.Generator().manual_seed(0))
    )
    norms = nn.Sequential(*(RowNorm(4) for _ in range(12)))
    for _ in range(3):
        assert norms(x).std(0).max() < 1e-4
    assert norms.eval()(x).std(0).max() < 1e-4


def test_gradients_of_channels_that_do_not_vary_are_those_of_the_formula():
    torch.manual_seed(0)
    x = torch.randn(6, 3, dtype=torch.float64)
    x[:, 1] = 2.0
    ours = RowNorm(3).double()
    [grad] = torch.autograd.grad(
        (ours(x.requires_grad_()) * torch.arange(18.0).view(6, 3)).sum(), x
    )
    others = [0, 2]
    [expected] = torch.autograd.grad(
        (nn.BatchNorm1d(3).double()(x) * torch.arange(18.0).view(6, 3)).sum(), x
    )
    torch.testing.assert_close(grad[:, others], expected[:, others])
    root = (4 + ours.eps) ** 0.5
    by_hand = torch.arange(18.0).view(6, 3)[:, 1].double()
    torch.testing.assert_close(grad[:, 1], by_hand / root - by_hand.sum() * 2 * 2 / (6 * root**3))


def test_values_with_a_sign_that_are_rounding_become_0():
    x = torch.tensor([[1.0, 1e-7], [-2.0, -2e-7], [2.0, 1e-7]])
    found = RowRms(2)(x)
    assert found[:, 1].tolist() == [0, 0, 0]
    torch.testing.assert_close(found[:, 0], x[:, 0] / 3**0.5)


@pytest.mark.parametrize("is_shared", [False, True])
def test_one_row_and_no_row_take_the_running_statistics(is_shared):
    ours = norm()
    ours.is_shared = is_shared
    ours(rows())
    before = {key: value.clone() for key, value in ours.state_dict().items()}
    one, none = ours(rows(1)), ours(rows(0))
    torch.testing.assert_close(one, ours.eval()(rows(1)))
    assert none.shape == (0, 4)
    assert all(torch.equal(value, before[key]) for key, value in ours.state_dict().items())


PARTS = {
    "halves": (4, 3),
    "one row and the rest": (1, 6),
    "no row and all": (0, 7),
    "a row each": (1, 1),
    "one row in all": (1, 0),
    "none": (0, 0),
}


def _work(rank: int, sizes: tuple[int, int], folder: str) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=2)
    ours = norm().train()
    ours.is_shared = True
    x = rows(sum(sizes)).split(sizes)[rank].clone().requires_grad_()
    y = ours(x)
    _loss(y).backward()
    for p in ours.parameters():
        dist.all_reduce(p.grad)
    found = {
        **ours.state_dict(),
        "y": y.detach(),
        "x": x.grad,
        "weight": ours.weight.grad,
        "bias": ours.bias.grad,
    }
    torch.save(found, f"{folder}/{rank}.pt")
    dist.destroy_process_group()


def _loss(y: torch.Tensor) -> torch.Tensor:
    return (y.sin() * torch.arange(1.0, 5.0)).sum()


def _fork(rank: int, sizes: tuple[int, int], folder: str) -> int:
    child = os.fork()
    if not child:
        try:
            _work(rank, sizes, folder)
            os._exit(0)
        except BaseException:
            os._exit(1)
    return child


@pytest.mark.parametrize("sizes", PARTS.values(), ids=PARTS.keys())
def test_two_processes_do_what_one_does(sizes, tmp_path):
    children = [_fork(rank, sizes, str(tmp_path)) for rank in range(2)]
    assert [os.waitpid(child, 0)[1] for child in children] == [0, 0]
    parts = [torch.load(tmp_path / f"{rank}.pt", weights_only=True) for rank in range(2)]
    whole = norm().train()
    x = rows(sum(sizes)).requires_grad_()
    y = whole(x)
    _loss(y).backward()
    torch.testing.assert_close(torch.cat([p["y"] for p in parts]), y.detach())
    torch.testing.assert_close(torch.cat([p["x"] for p in parts]), x.grad)
    for part in parts:
        torch.testing.assert_close(part["weight"], whole.weight.grad)
        torch.testing.assert_close(part["bias"], whole.bias.grad)
        for key in ("running_mean", "running_var", "num_batches_tracked"):
            torch.testing.assert_close(part[key], whole.state_dict()[key])


@pytest.mark.parametrize("kind", [RowNorm, RowRms])
def test_compiled_norms_learn_the_same_running_statistics(kind):
    torch._dynamo.reset()
    eager, compiled = kind(4).double(), kind(4).double()
    step = torch.compile(compiled, fullgraph=True, backend="eager")
    for seed in range(4):
        torch.testing.assert_close(step(rows(seed=seed)), eager(rows(seed=seed)))
        torch.testing.assert_close(compiled.state_dict(), eager.state_dict())
