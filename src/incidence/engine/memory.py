"""Memory of large results that is used again in the next step.

malloc gives large blocks back to the system when they are freed, and the system clears every page
again in the next step. That is a third of the time of a large layer.
"""

from __future__ import annotations

import ctypes
from math import prod
from sys import getrefcount
from threading import Lock
from typing import Any

import torch
from torch import Tensor

__all__ = ["Buffers", "keep_memory"]

_LEAST = 1 << 25  # bytes: malloc itself keeps smaller blocks
_MOST = 4  # blocks that one tensor of a plan keeps: outputs, gradients, and the values of bags

# How many tensors refer to a block of memory. torch has no public function for it. Where this one
# is missing, every result gets new memory: slower, and nothing else changes.
_num_references: Any = getattr(torch._C, "_storage_Use_Count", None)


class Buffers:
    """Blocks of memory for the values of rows and bags of one tensor. Copies of it are empty."""

    def __init__(self) -> None:
        self._blocks: list[torch.UntypedStorage] = []
        self._lock = Lock()

    def __reduce__(self) -> tuple[type[Buffers], tuple[()]]:
        return Buffers, ()

    def empty(self, shape: tuple[int, int], like: Tensor) -> Tensor:
        """Return an array to be written, in a block that nothing refers to, or in new memory."""
        size = prod(shape) * like.element_size()
        if size < _LEAST or like.device.type != "cpu" or _num_references is None:
            return like.new_empty(shape)
        with self._lock:  # no other thread may take the same block
            for block in self._blocks:
                if block.nbytes() == size and self._is_free(block):
                    again: Tensor = like.new_empty(0).set_(block, 0, shape)  # type: ignore[call-overload]
                    return again
            new = like.new_empty(shape)
            self._blocks = [*self._blocks, new.untyped_storage()][-_MOST:]
        return new

    @staticmethod
    def _is_free(block: torch.UntypedStorage) -> bool:
        """Return whether no tensor refers to a block, and no user holds the block itself.

        The list, the loop, this argument and the question count as references to it.
        """
        return _num_references(block._cdata) == 1 and getrefcount(block) <= 4


# From glibc's malloc.h: no allocation has pages of its own, which would go back when it is freed;
# nothing goes back from the end of the heap; and the heap grows by 64 MB at a time.
_SETTINGS = ((-4, 0), (-1, -1), (-2, 64 << 20))  # M_MMAP_MAX, M_TRIM_THRESHOLD, M_TOP_PAD


def keep_memory() -> bool:
    """Keep the memory of freed tensors on the CPU for the next ones, until the process ends.

    By default large tensors are given back to the system, which clears their pages again in every
    step. Layers reuse the memory of their own results anyway. This function is for everything else,
    such as activations and norms. Call it once, before the first tensors are made. A process may
    then hold more memory at its peak: `incidence bench memory` measures both.

    Returns:
        True if memory is kept from now on. False on systems whose C library is not glibc, where
        nothing changes.

    Example:
        >>> keep_memory() in (True, False)  # True on most Linux systems
        True
    """
    library = _glibc()
    return library is not None and all(
        library.mallopt(name, value) == 1 for name, value in _SETTINGS
    )


def _glibc() -> Any:
    """Return the C library of this process if it is glibc.

    Other libraries have a `mallopt` too, whose numbers mean something else.
    """
    try:
        library = ctypes.CDLL(None)
    except (OSError, TypeError):  # the latter on Windows
        return None
    return library if hasattr(library, "gnu_get_libc_version") else None
