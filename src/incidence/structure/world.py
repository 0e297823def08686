"""The processes that hold the parts of one structure, as the engine sees them.

The engine never imports `torch.distributed`: a part of a structure carries a `World`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import torch
from torch import Tensor

__all__ = ["World"]


class World(ABC):
    """What the processes of one structure can send each other. All of them call it in one order.

    Attributes:
        rank: The number of this process.
        size: The number of processes.
        sent: The bytes that this process has given to other processes so far.
    """

    rank: int
    size: int
    sent: int = 0

    @abstractmethod
    def swap(self, parts: Sequence[Tensor], sizes: Sequence[int]) -> list[Tensor]:
        """Send a part to every process, and return what they sent, in the order of processes.

        Args:
            parts: A tensor for each process, shape (numbers,), all of one type.
            sizes: How many numbers every process sends here.
        """

    @abstractmethod
    def reduce(self, x: Tensor, op: str = "sum") -> Tensor:
        """Return the sum, `max` or `min` of a tensor over all processes; bit for bit the same on
        all.
        """

    def swap_any(self, parts: Sequence[Tensor]) -> list[Tensor]:
        """Send a part to every process where nobody knows yet how many numbers come."""
        counts = [torch.tensor([part.numel()]) for part in parts]
        sizes = [int(count) for count in self.swap(counts, [1] * self.size)]
        return self.swap(parts, sizes)

    def gather(self, x: Tensor) -> list[Tensor]:
        """Return a flat tensor of every process, in the order of processes."""
        return self.swap_any([x] * self.size)
