"""What layers are made of: the best rates of the machine, pooling and broadcasting."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from benchmarks.speed.bench import Bench
from benchmarks.speed.timing import Figure, rates, ratio
from incidence.engine.bags import bag_sum

__all__ = ["broadcast", "limits", "pool"]


def limits(bench: Bench) -> list[Figure]:
    """The best rates of this machine: products of K x K matrices, and copies."""
    rows = []
    for channels in (16, 64):
        found = [rates(channels) for _ in range(3)]
        rows.append(
            Figure(
                f"product, K = {channels}, rows in the cache",
                [r.cached / 1e9 for r in found],
                "GF/s",
            )
        )
        rows.append(
            Figure(
                f"product, K = {channels}, rows from memory", [r.cold / 1e9 for r in found], "GF/s"
            )
        )
    rows.append(Figure("copy", [r.bandwidth / 1e9 for r in found], "GB/s"))
    return rows


def pool(bench: Bench) -> list[Figure]:
    """Sums over bags against `index_add_`."""
    rows = []
    for count, channels in ((1_000_000, 64), (1_000_000, 16), (10_000, 64)):
        n = bench.size(count)
        bags = torch.randint(n // 10, (n,), generator=torch.Generator().manual_seed(0))
        index = bags.sort(stable=True)[1].int()
        ptr = torch.cat([torch.zeros(1), torch.bincount(bags, minlength=n // 10).cumsum(0)]).int()
        x = torch.randn(n, channels)

        def add(x: Tensor = x, bags: Tensor = bags, n: int = n) -> None:
            torch.zeros(n // 10, x.shape[1]).index_add_(0, bags, x)

        work: dict[str, Callable[[], object]] = {
            "bags": partial(bag_sum, x, index, ptr),
            "index_add": add,
        }
        times = bench.timer(f"n = {n:,}, K = {channels}", 5).run(work)
        rows.append(
            Figure(
                f"index_add_ over ours, n = {n:,}, K = {channels}, unsorted",
                ratio(times, "index_add", "bags"),
            )
        )
    return rows


def broadcast(bench: Bench) -> list[Figure]:
    """Sums of three bags for every entry against three `index_select`."""
    n, channels = bench.size(1_000_000), 64
    generator = torch.Generator().manual_seed(0)
    read = torch.randint(n // 10, (n, 3), generator=generator)
    z = torch.randn(n // 10, channels)
    flat, ptr = read.flatten().int(), torch.arange(0, 3 * n + 1, 3).int()

    def select() -> Tensor:
        return (
            z.index_select(0, read[:, 0])
            + z.index_select(0, read[:, 1])
            + z.index_select(0, read[:, 2])
        )

    times = bench.timer(f"n = {n:,}, K = {channels}", 5).run(
        {"bags": lambda: bag_sum(z, flat, ptr), "select": select}
    )
    return [
        Figure(
            f"index_select and add over ours, n = {n:,}, K = {channels}",
            ratio(times, "select", "bags"),
        )
    ]
