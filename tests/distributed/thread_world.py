"""Processes as threads: what they send each other is handed over, with nothing in between."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from incidence.structure.world import World

__all__ = ["ThreadWorld", "run_threads"]


class ThreadWorld(World):
    def __init__(self, rank: int, size: int, barrier: threading.Barrier, desk: list[Any]) -> None:
        self.rank, self.size, self.sent = rank, size, 0
        self._barrier, self._desk = barrier, desk

    def _all(self, value: Any) -> list[Any]:
        self._desk[self.rank] = value
        self._barrier.wait(20)
        values = list(self._desk)
        self._barrier.wait(20)
        return values

    def swap(self, parts: Sequence[Tensor], sizes: Sequence[int]) -> list[Tensor]:
        came = [of_rank[self.rank].clone() for of_rank in self._all(parts)]
        assert [len(part) for part in came] == list(sizes)
        others = sum(p.numel() for rank, p in enumerate(parts) if rank != self.rank)
        self.sent += others * parts[0].element_size()
        return came

    def reduce(self, x: Tensor, op: str = "sum") -> Tensor:
        values = torch.stack(self._all(x))
        self.sent += x.numel() * x.element_size()
        if op == "sum":
            return values.sum(0)
        return values.amax(0) if op == "max" else values.amin(0)


def run_threads(size: int, work: Callable[[ThreadWorld], Any]) -> list[Any]:
    """Return what every thread makes of its world; the first error of any is raised."""
    barrier, desk = threading.Barrier(size), [None] * size
    results: list[Any] = [None] * size
    errors: list[BaseException] = []

    def run(rank: int) -> None:
        try:
            results[rank] = work(ThreadWorld(rank, size, barrier, desk))
        except threading.BrokenBarrierError:
            pass
        except BaseException as error:
            errors.append(error)
            barrier.abort()

    threads = [threading.Thread(target=run, args=(rank,)) for rank in range(size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return results
