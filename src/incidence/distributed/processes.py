"""The processes of `torch.distributed` as a `World`: collectives with a timeout, whose failures say
what happened.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor

from incidence.errors import IncidenceError
from incidence.structure.world import World

__all__ = ["DEFAULT_TIMEOUT", "TorchWorld", "as_world", "is_lost_connection"]

DEFAULT_TIMEOUT = 600.0  # seconds
_OPS = {"sum": 0, "max": 1, "min": 2}
_SWAP = 3  # the number of a swap among the operations
# what gloo says when a connection breaks, or a message does not come
_LOST = (
    r"gloo|Connection closed by peer|Connection reset|Broken pipe|Timed out waiting"
    r"|Connection was likely closed|client socket has (?:failed|timed out)"
)
_worlds: dict[float, TorchWorld] = {}

T = TypeVar("T")


class TorchWorld(World):
    """The processes that `torch.distributed` knows.

    Every collective is announced first: all processes compare the numbers of their steps. A process
    that calls a layer more often than the others is found out before anything is mixed up.

    Args:
        timeout: The seconds after which a process stops waiting for the others.

    Raises:
        IncidenceError: There are no processes yet.

    Example:
        >>> TorchWorld.is_there()
        False
    """

    def __init__(self, timeout: float = DEFAULT_TIMEOUT) -> None:
        if not self.is_there():
            raise IncidenceError(
                "there are no processes yet: call torch.distributed.init_process_group('gloo')"
                " first, and start the program with torchrun."
            )
        if not isinstance(timeout, (int, float)) or not timeout > 0:
            raise IncidenceError(f"timeout= is a number of seconds above 0; got {timeout!r}.")
        self.timeout = float(timeout)
        self.rank, self.size, self.sent = dist.get_rank(), dist.get_world_size(), 0
        self._step = 0
        self._group: Any = self._guarded(
            "the first message",
            lambda: dist.new_group(backend="gloo", timeout=timedelta(seconds=timeout)),
        )

    @staticmethod
    def is_there() -> bool:
        """Return whether `torch.distributed` has processes."""
        return dist.is_available() and dist.is_initialized()

    def swap(self, parts: Sequence[Tensor], sizes: Sequence[int]) -> list[Tensor]:
        lengths = [part.numel() for part in parts]
        if self.size == 1:
            return list(parts)
        self._announce(_SWAP, parts[0].element_size())
        out = parts[0].new_empty(sum(sizes))
        self._guarded(
            "bags",
            lambda: dist.all_to_all_single(
                out, torch.cat(list(parts)), list(sizes), lengths, group=self._group
            ),
        )
        self.sent += (sum(lengths) - lengths[self.rank]) * parts[0].element_size()
        return list(out.split(list(sizes)))

    def reduce(self, x: Tensor, op: str = "sum") -> Tensor:
        if self.size == 1:
            return x.clone()
        self._announce(_OPS[op], x.numel())
        total = x.clone(memory_format=torch.contiguous_format)
        kind = {"sum": dist.ReduceOp.SUM, "max": dist.ReduceOp.MAX, "min": dist.ReduceOp.MIN}[op]
        self._guarded("a sum", lambda: dist.all_reduce(total, kind, group=self._group))
        self.sent += total.numel() * total.element_size()
        return total

    def _announce(self, kind: int, detail: int) -> None:
        """Compare what comes next with the other processes."""
        self._step += 1
        mine = torch.tensor([self._step, kind, detail])
        parts = [torch.empty_like(mine) for _ in range(self.size)]
        self._guarded(
            "the number of the step", lambda: dist.all_gather(parts, mine, group=self._group)
        )
        every = torch.stack(parts)  # (processes, 3)
        other = (every != mine).any(1).nonzero()[:, 0]
        if len(other):
            step = every[other[0], 0]
            raise IncidenceError(
                f"process {self.rank} is at step {self._step} of the exchange, and process"
                f" {int(other[0])} at step {int(step)} or at another one: some process called a"
                " layer more often than the others, or another layer. All processes must call"
                " the same layers in the same order."
            )

    def _guarded(self, what: str, run: Callable[[], T]) -> T:
        try:
            return run()
        except (RuntimeError, ValueError) as error:
            first = str(error).strip().splitlines()[0] if str(error).strip() else "no reason"
            raise IncidenceError(
                f"process {self.rank} of {self.size} could not exchange {what} with the others:"
                " one of them has ended, was unplugged, or did not answer within the timeout of"
                f" {self.timeout:g} s (timeout=). Start all of them again; a training run goes on"
                f" with `incidence train --resume RUN`. ({first[:160]})"
            ) from error


def is_lost_connection(error: BaseException) -> bool:
    """Return whether an error of torch says that another process does not answer."""
    return re.search(_LOST, str(error)) is not None


def as_world(world: World | None, timeout: float = DEFAULT_TIMEOUT) -> World:
    """Return the given processes, or those of `torch.distributed`: one world for each timeout."""
    if world is not None:
        return world
    known = _worlds.get(timeout)
    if known is None or not _is_alive(known):
        _worlds[timeout] = known = TorchWorld(timeout)
    return known


def _is_alive(world: TorchWorld) -> bool:
    """Return whether the group of a world is one of the current processes."""
    if not TorchWorld.is_there():
        return False
    try:
        return dist.get_world_size(world._group) == world.size
    except (ValueError, RuntimeError, KeyError):
        return False
