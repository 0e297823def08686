"""How the memory of tensors that come and go in every step is had from the system."""

from __future__ import annotations

import ctypes
from typing import Any

__all__ = ["keep_memory"]

# From glibc's malloc.h: no allocation has pages of its own, which would go back when it is freed; nothing goes back from the
# end of the heap; and the heap grows by 64 MB at a time.
_SETTINGS = ((-4, 0), (-1, -1), (-2, 64 << 20))  # M_MMAP_MAX, M_TRIM_THRESHOLD, M_TOP_PAD


def keep_memory() -> bool:
    """Keeps the memory of tensors that are freed, on the CPU, for those that come next, until the process ends.

    By default large tensors are given back to the system, which has to clear their pages anew in every step. Layers keep the memory of
    their own results with the plan; this is for all else that comes and goes, such as activations and norms. Call it once, before the
    first tensors are made. A free place is not always of the size that is wanted, so a process may hold more memory at its peak:
    `incidence bench memory` measures both.

    Returns:
        Whether it is so now. False on systems whose C library is not glibc, where nothing is changed.

    Example:
        >>> keep_memory() in (True, False)  # True on most Linux systems
        True
    """
    library = _glibc()
    return library is not None and all(
        library.mallopt(name, value) == 1 for name, value in _SETTINGS
    )


def _glibc() -> Any:
    """The C library of this process, if it is glibc: others have a `mallopt` too, whose numbers mean something else."""
    try:
        library = ctypes.CDLL(None)
    except (OSError, TypeError):  # the latter on Windows
        return None
    return library if hasattr(library, "gnu_get_libc_version") else None
