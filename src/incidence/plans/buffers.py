"""Memory of large results, kept with a plan from one step to the next.

Malloc gives large blocks back to the system as soon as they are free, and the system clears every page of them again for the next step:
a third of the time of a large layer. A block is used again only when nothing else refers to it.
"""

from __future__ import annotations

from math import prod
from sys import getrefcount
from threading import Lock
from typing import Any

import torch
from torch import Tensor

__all__ = ["Buffers"]

_LEAST = 1 << 25  # bytes: smaller blocks are kept by malloc itself
_MOST = 4  # blocks that a stack keeps: outputs and gradients of one layer, and what its bags hold

_num_references: Any = getattr(
    torch._C, "_storage_Use_Count", None
)  # of a block of memory; not in every version of torch


class Buffers:
    """Blocks of memory for the results of one stack. Copies of it are empty."""

    def __init__(self) -> None:
        self._blocks: list[torch.UntypedStorage] = []
        self._lock = Lock()

    def __reduce__(self) -> tuple[type[Buffers], tuple[()]]:
        return Buffers, ()

    def empty(self, shape: tuple[int, int], like: Tensor) -> Tensor:
        """An array to be written, in memory that was free or is new."""
        size = prod(shape) * like.element_size()
        if size < _LEAST or like.device.type != "cpu" or _num_references is None:
            return like.new_empty(shape)
        with self._lock:  # no other thread may find the same block free
            for block in self._blocks:
                # Tensors refer to the memory, and who asked for it as such to this object: the list, this name and the question.
                if (
                    block.nbytes() == size
                    and _num_references(block._cdata) == 1
                    and getrefcount(block) <= 3
                ):
                    again: Tensor = like.new_empty(0).set_(block, 0, shape)  # type: ignore[call-overload]
                    return again
            found = like.new_empty(shape)
            self._blocks = [*self._blocks, found.untyped_storage()][-_MOST:]
        return found
