"""Products of two factors by the compiled library, in single precision on a CPU: rows are read where they are, nothing is written twice.

Targets are shared out among as many threads as torch has; each is computed by one of them, so the result does not depend on their number.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from math import prod

import numpy as np
import torch
from torch import Tensor

from incidence.kernels import native
from incidence.plans.join_plan import RoleLists

__all__ = ["native_join"]

_LEAST_SHARED = 1 << 20  # products of channels that are worth a second thread


def native_join(lists: RoleLists, xs: Sequence[Tensor], shape: Sequence[int]) -> Tensor | None:
    """The sums of one role, (rows of the role, *shape); None where the library is not there, or not made for it."""
    wide = torch.broadcast_shapes(*(x.shape[1:] for x in xs))
    is_made_for = (
        len(xs) == 2
        and len(wide) <= 2
        and all(x.dtype == torch.float32 and x.device.type == "cpu" for x in xs)
    )
    library = native.library() if is_made_for and lists.ptr.dtype == torch.int32 else None
    if library is None:
        return None
    a, b = (x.detach().contiguous() for x in xs)
    out = torch.empty(lists.num_rows, *shape)
    told = np.array(
        [
            *_pair(wide),
            *(n for one in (a.shape[1:], b.shape[1:], shape) for n in _apart(one, wide)),
        ],
        dtype=np.int64,
    )
    sign = None if lists.sign is None else lists.sign.data_ptr()
    given = (
        told.ctypes.data,
        a.data_ptr(),
        b.data_ptr(),
        lists.columns[0].data_ptr(),
        lists.columns[1].data_ptr(),
        sign,
        lists.ptr.data_ptr(),
    )

    def run(first: int, last: int) -> None:
        library.join_rows(*given, first, last, out.data_ptr())

    shares = _shares(lists, len(lists.columns[0]) * prod(wide))
    if len(shares) == 2:
        run(*shares)
    else:
        list(_threads(len(shares) - 1).map(run, shares, shares[1:]))
    return out


def _pair(shape: Sequence[int]) -> tuple[int, int]:
    """The shape of a row as groups and channels."""
    groups, channels = (1, 1, *shape)[-2:]
    return groups, channels


def _apart(shape: Sequence[int], wide: Sequence[int]) -> tuple[int, int, int]:
    """How far rows, groups and channels of an array are apart, 0 where one value serves all."""
    groups, channels = _pair(shape)
    return (
        groups * channels,
        channels if groups > 1 else 0,
        int(channels > 1 or _pair(wide)[1] == 1),
    )


def _shares(lists: RoleLists, work: int) -> list[int]:
    """Where the targets of every thread start, and the end: as many joined rows for each."""
    count = torch.get_num_threads() if work >= _LEAST_SHARED else 1
    if count == 1:
        return [0, lists.num_rows]
    starts = torch.arange(1, count, dtype=lists.ptr.dtype) * (len(lists.columns[0]) // count)
    return [
        0,
        *torch.searchsorted(lists.ptr, starts).clamp(max=lists.num_rows).tolist(),
        lists.num_rows,
    ]


@lru_cache(maxsize=4)
def _threads(count: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(count, thread_name_prefix="incidence-join")
