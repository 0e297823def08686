"""The same bits for any number of processes: a structure is cut into a fixed number of blocks.

A sum of floats depends on its order. So every block is computed as if it had a process of its own,
in a thread, and sums over blocks are taken in the order of the blocks. A process owns whole blocks.
Then no number depends on how many processes there are.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, TypeVar

import torch
from torch import Tensor

from incidence.distributed.processes import TorchWorld, as_world
from incidence.errors import IncidenceError
from incidence.structure.world import World

__all__ = ["BlockWorld", "run_blocks"]

T = TypeVar("T")


def run_blocks(work: Callable[[World], T], blocks: int = 64, world: World | None = None) -> list[T]:
    """Run a function for every block of this process, and return the results.

    The function gets the world of its block, for `split(s, world=world)` and `sum_gradients(net,
    world)`. Blocks run in threads, so every call needs a module of its own, for example a copy.
    With the same number of blocks, all results have the same bits for any number of processes.

    Args:
        work: The function.
        blocks: The number of blocks of all processes.
        world: The processes; those of `torch.distributed` if not given, or this one if there are
            none.

    Example:
        >>> run_blocks(lambda world: int(world.reduce(torch.tensor([world.rank]))), blocks=4)
        [6, 6, 6, 6]
    """
    if world is None and TorchWorld.is_there():
        world = as_world(None)
    size = 1 if world is None else world.size
    if isinstance(blocks, bool) or not isinstance(blocks, int) or blocks < size:
        raise IncidenceError(
            f"blocks= is the number of blocks, an integer from the number of processes, {size};"
            f" got {blocks!r}."
        )
    desk = _Desk(world, blocks)
    results: list[Any] = [None] * len(desk.here)
    errors: list[BaseException] = []

    def run(place: int) -> None:
        try:
            results[place] = work(BlockWorld(desk, place))
        except threading.BrokenBarrierError:  # another block has failed
            return
        except BaseException as error:  # raised again by the thread that waits
            errors.append(error)
            desk.barrier.abort()

    threads = [threading.Thread(target=run, args=(place,)) for place in range(len(desk.here))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return results


class _Desk:
    """Where the blocks of a process hand over what they send.

    Attributes:
        world: The processes, or None for a single one.
        here: The blocks of this process.
        barrier: Where these wait for each other.
        given: What each of them hands over.
        taken: What each of them gets.
    """

    def __init__(self, world: World | None, blocks: int) -> None:
        self.world, self.blocks = world, blocks
        size, rank = (1, 0) if world is None else (world.size, world.rank)
        bounds = [blocks * k // size for k in range(size + 1)]
        self.of_process = [range(a, b) for a, b in pairwise(bounds)]
        self.here = self.of_process[rank]
        self.barrier = threading.Barrier(len(self.here))
        self.given: list[Any] = [None] * len(self.here)
        self.taken: list[Any] = [None] * len(self.here)

    def together(self, place: int, value: Any, run: Callable[[list[Any]], list[Any]]) -> Any:
        """Hand over a value, let one block run a function of all values, and take the result."""
        self.given[place] = value
        if self.barrier.wait() == 0:
            self.taken = run(list(self.given))
        self.barrier.wait()
        return self.taken[place]


class BlockWorld(World):
    """The blocks of all processes as a world. Every block is in a thread of its process."""

    def __init__(self, desk: _Desk, place: int) -> None:
        self._desk, self._place = desk, place
        self.rank, self.size, self.sent = desk.here[place], desk.blocks, 0

    def swap(self, parts: Sequence[Tensor], sizes: Sequence[int]) -> list[Tensor]:
        came: list[Tensor] = self._desk.together(self._place, (parts, sizes), self._swap_all)
        lengths = [part.numel() for part in parts]
        self.sent += (sum(lengths) - lengths[self.rank]) * parts[0].element_size()
        return came

    def _swap_all(self, given: list[Any]) -> list[list[Tensor]]:
        """Send the parts of all blocks here, and return what each of them gets."""
        desk = self._desk
        if desk.world is None:
            return [[parts[rank].clone() for parts, _ in given] for rank in desk.here]
        # to every process, block by block: first those that send, then those that receive
        out = [
            torch.cat([parts[rank] for parts, _ in given for rank in ranks])
            for ranks in desk.of_process
        ]
        lengths = [
            [[sizes[source] for _, sizes in given] for source in ranks] for ranks in desk.of_process
        ]
        totals = [sum(sum(row) for row in rows) for rows in lengths]
        came = desk.world.swap(out, totals)
        received: list[list[Tensor]] = [[] for _ in given]
        for piece, rows in zip(came, lengths, strict=True):
            parts = piece.split([count for row in rows for count in row])
            for place, target in enumerate(received):
                target += parts[place :: len(given)]
        return received

    def reduce(self, x: Tensor, op: str = "sum") -> Tensor:
        total: Tensor = self._desk.together(
            self._place, x, lambda given: self._reduce_all(given, op)
        )
        self.sent += x.numel() * x.element_size()
        return total

    def _reduce_all(self, given: list[Tensor], op: str) -> list[Tensor]:
        """Return the sum of the tensors of all blocks, in their order; a copy for each block."""
        values = torch.stack([x.contiguous() for x in given])
        world = self._desk.world
        if world is not None and world.size > 1:
            every = world.gather(values.flatten())
            values = torch.cat(every).view(self.size, *given[0].shape)
        if op == "sum":
            total = values[0].clone()
            for value in values[1:]:  # one after the other: the order is what counts
                total += value
        else:
            total = values.amax(0) if op == "max" else values.amin(0)
        return [total.clone() for _ in given]
