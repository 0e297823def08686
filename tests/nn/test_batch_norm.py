"""Norms over rows: as torch's own, with one row or none, and over several processes as over one."""

from __future__ import annotations

import os

import pytest
import torch
import torch.distributed as dist
from torch import nn

from incidence.nn.batch_norm import RowNorm


def rows(count: int = 7, seed: int = 0) -> torch.Tensor:
    return 3 + 2 * torch.randn(count, 4, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def norm(kind: type[nn.BatchNorm1d] = RowNorm) -> nn.BatchNorm1d:
    made = kind(4).double()
    with torch.no_grad():
        made.weight.copy_(torch.linspace(0.5, 2, 4))
        made.bias.copy_(torch.linspace(-1, 1, 4))
    return made


@pytest.mark.parametrize("is_training", [True, False])
def test_it_is_torchs_own(is_training):
    ours, theirs = norm().train(is_training), norm(nn.BatchNorm1d).train(is_training)
    for seed in range(3):
        assert torch.equal(ours(rows(seed=seed)), theirs(rows(seed=seed)))
    for key, value in theirs.state_dict().items():
        assert torch.equal(ours.state_dict()[key], value)


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


PARTS = {"halves": (4, 3), "one row and the rest": (1, 6), "no row and all": (0, 7), "one row in all": (1, 0), "none": (0, 0)}


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
    found = {**ours.state_dict(), "y": y.detach(), "x": x.grad, "weight": ours.weight.grad, "bias": ours.bias.grad}
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
