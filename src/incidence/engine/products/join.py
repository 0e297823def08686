r"""Products of rows, added up at their targets: the one primitive behind products and all their
gradients.

    z[t] = sum over the joined rows p of t:  s_p x_1[r_1p] ... x_m[r_mp]

Each factor has rows of shape (groups, channels) or smaller, 1 where values are shared. The result
is summed over what its own shape lacks. The gradient of a factor is the same sum in another role
(see `plan.py`), so gradients of any order are this function again. Rows are taken in blocks that
stay in the cache: no array of joined rows times channels is ever made.

Products of two factors in single precision on a CPU are computed by `join.c`, where it can be
compiled. Threads share the targets; one thread computes each, so the bits do not depend on their
number.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from ctypes import CDLL, c_int64, c_void_p, cast
from functools import lru_cache
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from incidence.engine.bags import bag_sum, wide_of
from incidence.engine.library import compiled_library
from incidence.engine.products.dense import DenseStep, multiply_arrays
from incidence.engine.products.plan import JoinStep, RoleLists
from incidence.structure.data import Array

__all__ = ["join", "join_functions", "role_sizes", "run_dense", "run_join"]

_BLOCK = 1 << 17  # elements of the products that are made at a time
_LEAST_SHARED = 1 << 20  # products of channels that are worth a second thread


def join(
    step: JoinStep | DenseStep,
    xs: Sequence[Tensor],
    shape: Sequence[int] | None = None,
    role: int = 0,
) -> Tensor:
    """One step of a product.

    Args:
        step: Which rows are multiplied.
        xs: What has the other roles, in order, (rows, *shape of a row); the shapes of rows can be
            broadcast.
        shape: The shape of a row of the result, 1 where it is summed; all of it, if not given.
        role: What is computed: the target, or what goes to a factor when the target is given in its
            place.
    """
    wide = torch.broadcast_shapes(*(x.shape[1:] for x in xs))
    found: Tensor = _Join.apply(step, role, tuple(wide if shape is None else shape), *xs)  # type: ignore[no-untyped-call]
    return found


class _Join(torch.autograd.Function):
    """A step in one role, as a function of what has the other roles; its gradients are the step in
    those roles.
    """

    @staticmethod
    def forward(
        ctx: Any, step: JoinStep | DenseStep, role: int, shape: tuple[int, ...], *xs: Tensor
    ) -> Tensor:
        ctx.step, ctx.role = step, role
        ctx.save_for_backward(*xs)
        if isinstance(step, DenseStep):
            return run_dense(step, role, xs, shape)
        return run_join(step.lists(role), xs, shape)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
        step, role, xs = ctx.step, ctx.role, list(ctx.saved_tensors)
        by_role = [*xs[:role], grad, *xs[role:]]
        grads: list[Tensor | None] = []
        for other, x in enumerate(by_role):
            if other == role:
                continue
            is_asked = ctx.needs_input_grad[3 + len(grads)]
            given = [*by_role[:other], *by_role[other + 1 :]]
            grads.append(_Join.apply(step, other, tuple(x.shape[1:]), *given) if is_asked else None)  # type: ignore[no-untyped-call]
        return None, None, None, *grads


def run_dense(step: DenseStep, role: int, xs: Sequence[Tensor], shape: Sequence[int]) -> Tensor:
    """Return one role of a step by matrices, (rows of the role, *shape)."""
    wide = torch.broadcast_shapes(*(x.shape[1:] for x in xs))
    flat = [x.expand(-1, *wide).flatten(1) for x in xs]
    found = _compiled_cells(step, role, flat)
    if found is None:
        others = [other for other in range(3) if other != role]
        readings = [step.readings(own) for own in (*others, role)]
        found = multiply_arrays(role, step.shape, readings, flat, step.num_rows[role])
    return found.view(-1, *wide).sum_to_size(len(found), *shape)


def run_join(lists: RoleLists, xs: Sequence[Tensor], shape: Sequence[int]) -> Tensor:
    """The sums of one role, (rows of the role, *shape); what no factor tells apart is copied."""
    wide = torch.broadcast_shapes(*(x.shape[1:] for x in xs))
    if not lists.columns[0].numel() or not prod(wide):
        return xs[0].new_zeros(lists.num_rows, *shape)
    # 1 where it is summed, or copied
    own = [min(n, size) for n, size in zip(shape, wide, strict=True)]
    vectors = [k for k, x in enumerate(xs) if prod(x.shape[1:]) > 1]
    if len(vectors) <= 1 and own == list(wide):
        found = _weighted_sums(lists, xs, next(iter(vectors), 0))
    else:
        compiled = _compiled_join(lists, xs, own)
        found = _sums_in_blocks(lists, xs, own) if compiled is None else compiled
    found = found.view(lists.num_rows, *own)
    return found if own == list(shape) else found.expand(-1, *shape).contiguous()


def _weighted_sums(lists: RoleLists, xs: Sequence[Tensor], vector: int) -> Tensor:
    """Sums of rows of one factor, where all others have one value a row; (rows of the role,
    channels).
    """
    others = [
        (x, column)
        for k, (x, column) in enumerate(zip(xs, lists.columns, strict=True))
        if k != vector
    ]
    weights = None if lists.sign is None else lists.sign.to(wide_of(xs[vector].dtype))
    for x, column in others:
        more = x.reshape(-1).index_select(0, column).to(wide_of(x.dtype))
        weights = more if weights is None else weights * more
    return bag_sum(
        xs[vector].reshape(len(xs[vector]), -1), lists.columns[vector], lists.ptr, weights
    )


def _sums_in_blocks(lists: RoleLists, xs: Sequence[Tensor], shape: Sequence[int]) -> Tensor:
    """The same where several factors have channels; (rows of the role, channels)."""
    wide = torch.broadcast_shapes(*(x.shape[1:] for x in xs))
    out = torch.zeros(lists.num_rows, prod(shape), dtype=wide_of(xs[0].dtype), device=xs[0].device)
    total, step = len(lists.columns[0]), max(1, _BLOCK // prod(wide))
    starts = [*range(0, total, step), total]
    bounds = torch.tensor(starts, dtype=lists.ptr.dtype, device=out.device)
    # whose joined rows a block starts with
    rows = (torch.searchsorted(lists.ptr, bounds, right=True) - 1).tolist()
    for a, b, first, last in zip(starts, starts[1:], rows, rows[1:], strict=False):
        stop = min(last + 1, lists.num_rows)
        products = _products(lists, xs, slice(a, b)).sum_to_size(b - a, *shape).reshape(b - a, -1)
        ptr = (lists.ptr[first : stop + 1] - a).clamp(0, b - a)
        out[first:stop] += bag_sum(
            products, torch.arange(b - a, device=ptr.device, dtype=ptr.dtype), ptr
        )
    return out.to(xs[0].dtype)


def _products(lists: RoleLists, xs: Sequence[Tensor], part: slice) -> Tensor:
    """The products of some joined rows, (joined rows, *shape of a row)."""
    columns = [column[part] for column in lists.columns]
    found = xs[0].index_select(0, columns[0]).to(wide_of(xs[0].dtype))
    for x, column in zip(xs[1:], columns[1:], strict=True):
        found = found * x.index_select(0, column)
    if lists.sign is None:
        return found
    return found * lists.sign[part].to(found.dtype).view(-1, *[1] * (found.ndim - 1))


def _compiled_join(lists: RoleLists, xs: Sequence[Tensor], shape: Sequence[int]) -> Tensor | None:
    """Return the sums of one role, (rows of the role, *shape), by `join.c`.

    None where there is no library, or where it was not written for such factors.
    """
    wide = torch.broadcast_shapes(*(x.shape[1:] for x in xs))
    is_made_for = (
        len(xs) == 2
        and len(wide) <= 2
        and all(x.dtype == torch.float32 and x.device.type == "cpu" for x in xs)
    )
    library = _library() if is_made_for and lists.ptr.dtype == torch.int32 else None
    if library is None:
        return None
    a, b = (x.detach().contiguous() for x in xs)
    out = torch.empty(lists.num_rows, *shape)
    sizes = role_sizes(wide, a.shape[1:], b.shape[1:], shape)
    sign = None if lists.sign is None else lists.sign.data_ptr()
    given = (
        sizes.ctypes.data,
        a.data_ptr(),
        b.data_ptr(),
        lists.columns[0].data_ptr(),
        lists.columns[1].data_ptr(),
        sign,
        lists.ptr.data_ptr(),
    )

    def run(first: int, last: int) -> None:
        library.join_rows(*given, first, last, out.data_ptr())

    _in_shares(_shares(lists, len(lists.columns[0]) * prod(wide)), run)
    return out


def role_sizes(wide: Sequence[int], *shapes: Sequence[int]) -> Array:
    """Return what `join_rows` needs to know of rows: groups and channels, and how far they are
    apart in both factors and in the result.

    Args:
        wide: The shape of a product.
        shapes: The shapes of a row of the first factor, the second, and the result.
    """
    apart = (number for shape in shapes for number in _apart(shape, wide))
    return np.array([*_pair(wide), *apart], dtype=np.int64)


def join_functions() -> tuple[int, int] | None:
    """Return the addresses of `join_rows` and `join_cells`; None where there is no library."""
    library = _library()
    if library is None:
        return None
    rows, cells = (cast(f, c_void_p).value for f in (library.join_rows, library.join_cells))
    return (rows, cells) if rows and cells else None


def _compiled_cells(step: DenseStep, role: int, xs: Sequence[Tensor]) -> Tensor | None:
    """Return one role of a step by matrices, (rows of the role, channels), by `join.c`; None where
    there is no library, or where it was not written for such factors.
    """
    is_made_for = all(x.dtype == torch.float32 and x.device.type == "cpu" for x in xs)
    library = _library() if is_made_for else None
    if library is None:
        return None
    given = [x.detach().contiguous() for x in xs]
    width = given[0].shape[1]
    out = torch.zeros(step.num_rows[role], width)
    order = (*(other for other in range(3) if other != role), role)
    kept = [(step.rows[own].int(), step.signs[own]) for own in order]
    lists = [None if part is None else part.data_ptr() for pair in kept for part in pair]
    sizes = np.ascontiguousarray(step.sizes)
    num_structures = sizes.shape[1]
    ends = given[0].data_ptr(), given[1].data_ptr(), out.data_ptr()

    def run(first: int, last: int) -> None:
        library.join_cells(
            sizes.ctypes.data, num_structures, role, width, *ends, *lists, first, last
        )

    count = torch.get_num_threads() if step.num_products * width >= _LEAST_SHARED else 1
    shares = np.linspace(0, num_structures, min(count, num_structures) + 1).astype(int).tolist()
    _in_shares(shares, run)
    return out


def _in_shares(shares: Sequence[int], run: Callable[[int, int], None]) -> None:
    """Run a function from each start to the next, with a thread for each."""
    if len(shares) == 2:
        run(*shares)
    else:
        list(_threads(len(shares) - 1).map(run, shares, shares[1:]))


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


@lru_cache(maxsize=1)
def _library() -> CDLL | None:
    library = compiled_library(Path(__file__).with_name("join.c"))
    if library is not None:
        library.join_rows.argtypes = [c_void_p] * 7 + [c_int64] * 2 + [c_void_p]
        library.join_rows.restype = None
        library.join_cells.argtypes = [c_void_p, *[c_int64] * 3, *[c_void_p] * 9, *[c_int64] * 2]
        library.join_cells.restype = None
    return library


@lru_cache(maxsize=4)
def _threads(count: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(count, thread_name_prefix="incidence-join")
