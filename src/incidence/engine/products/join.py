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

import numpy as np
import torch
from torch import Tensor

from incidence.engine.bags import Lists, bag_sum, wide_of
from incidence.engine.gradient import with_gradient
from incidence.engine.library import compiled_library
from incidence.engine.products.dense import DenseStep, multiply_arrays
from incidence.engine.products.plan import JoinStep
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
    """Return one step of a product.

    Args:
        step: Which rows are multiplied.
        xs: What has the other roles, in order, (rows, *shape of a row); the shapes of rows can be
            broadcast.
        shape: The shape of a row of the result, 1 where it is summed; all of it, if not given.
        role: What is computed: the target, or what goes to a factor when the target is given in its
            place.
    """
    wide = torch.broadcast_shapes(*(x.shape[1:] for x in xs))
    sums = _sums(step, role, tuple(wide if shape is None else shape), xs)
    if role or isinstance(step, DenseStep) or step.shared is None:
        return sums
    return step.shared.complete(sums)


def _sums(
    step: JoinStep | DenseStep, role: int, shape: Sequence[int], xs: Sequence[Tensor]
) -> Tensor:
    """Return a step in one role, from what has the other roles.

    Its gradients are the step in those roles.
    """

    def run(*xs: Tensor) -> tuple[tuple[Tensor], tuple[Tensor, ...]]:
        if isinstance(step, DenseStep):
            return (run_dense(step, role, xs, shape),), xs
        return (run_join(step.lists(role), xs, shape),), xs

    def gradient(
        saved: Sequence[Tensor], grads: Sequence[Tensor], needs: Sequence[bool]
    ) -> list[Tensor | None]:
        by_role = [*saved[:role], grads[0], *saved[role:]]
        others = [other for other in range(len(by_role)) if other != role]
        d_xs: list[Tensor | None] = []
        for other, needed in zip(others, needs, strict=True):
            given = [*by_role[:other], *by_role[other + 1 :]]
            row = by_role[other].shape[1:]
            d_xs.append(_sums(step, other, row, given) if needed else None)
        return d_xs

    [sums] = with_gradient(run, gradient, *xs)
    return sums


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


def run_join(lists: Sequence[Lists], xs: Sequence[Tensor], shape: Sequence[int]) -> Tensor:
    """Return the sums of one role, (rows of the role, *shape).

    What no factor tells apart is copied.

    Args:
        lists: For every factor its rows for each row of the role.
        xs: The factors, (rows, *shape of a row).
        shape: The shape of a row of the result, 1 where it is summed.
    """
    wide = torch.broadcast_shapes(*(x.shape[1:] for x in xs))
    num_rows = lists[0].num_lists
    if not lists[0].members.numel() or not prod(wide):
        return xs[0].new_zeros(num_rows, *shape)
    # 1 where it is summed, or copied
    own = [min(n, size) for n, size in zip(shape, wide, strict=True)]
    vectors = [k for k, x in enumerate(xs) if prod(x.shape[1:]) > 1]
    if len(vectors) <= 1 and own == list(wide):
        sums = _weighted_sums(lists, xs, next(iter(vectors), 0))
    else:
        compiled = _compiled_join(lists, xs, own)
        sums = _sums_in_blocks(lists, xs, own) if compiled is None else compiled
    sums = sums.view(num_rows, *own)
    return sums if own == list(shape) else sums.expand(-1, *shape).contiguous()


def _weighted_sums(lists: Sequence[Lists], xs: Sequence[Tensor], vector: int) -> Tensor:
    """Return sums of rows of one factor, where all others have one value a row.

    The result has shape (rows of the role, channels).
    """
    members, ptr, signs = lists[vector]
    weights = None if signs is None else signs.to(wide_of(xs[vector].dtype))
    for k, (x, own) in enumerate(zip(xs, lists, strict=True)):
        if k == vector:
            continue
        more = x.reshape(-1).index_select(0, own.members).to(wide_of(x.dtype))
        weights = more if weights is None else weights * more
    return bag_sum(xs[vector].reshape(len(xs[vector]), -1), members, ptr, weights)


def _sums_in_blocks(lists: Sequence[Lists], xs: Sequence[Tensor], shape: Sequence[int]) -> Tensor:
    """Return the same where several factors have channels; (rows of the role, channels)."""
    wide = torch.broadcast_shapes(*(x.shape[1:] for x in xs))
    ptr, num_rows, device = lists[0].ptr, lists[0].num_lists, xs[0].device
    out = torch.zeros(num_rows, prod(shape), dtype=wide_of(xs[0].dtype), device=device)
    total, step = len(lists[0].members), max(1, _BLOCK // prod(wide))
    starts = [*range(0, total, step), total]
    bounds = torch.tensor(starts, dtype=ptr.dtype, device=device)
    # whose joined rows a block starts with
    rows = (torch.searchsorted(ptr, bounds, right=True) - 1).tolist()
    for a, b, first, last in zip(starts, starts[1:], rows, rows[1:], strict=False):
        stop = min(last + 1, num_rows)
        products = _products(lists, xs, slice(a, b))
        flat = products.sum_to_size(b - a, *shape).reshape(b - a, -1)
        members = torch.arange(b - a, device=device, dtype=ptr.dtype)
        out[first:stop] += bag_sum(flat, members, (ptr[first : stop + 1] - a).clamp(0, b - a))
    return out.to(xs[0].dtype)


def _products(lists: Sequence[Lists], xs: Sequence[Tensor], part: slice) -> Tensor:
    """Return the products of some joined rows, (joined rows, *shape of a row)."""
    first, *others = lists
    products = xs[0].index_select(0, first.members[part]).to(wide_of(xs[0].dtype))
    for x, own in zip(xs[1:], others, strict=True):
        products = products * x.index_select(0, own.members[part])
    if first.signs is None:
        return products
    return products * first.signs[part].to(products.dtype).view(-1, *[1] * (products.ndim - 1))


def _compiled_join(
    lists: Sequence[Lists], xs: Sequence[Tensor], shape: Sequence[int]
) -> Tensor | None:
    """Return the sums of one role, (rows of the role, *shape), by `join.c`.

    None where there is no library, or where it was not written for such factors.
    """
    wide = torch.broadcast_shapes(*(x.shape[1:] for x in xs))
    is_made_for = (
        len(xs) == 2
        and len(wide) <= 2
        and all(x.dtype == torch.float32 and x.device.type == "cpu" for x in xs)
        and lists[0].ptr.dtype == torch.int32
    )
    library = _library() if is_made_for else None
    if library is None:
        return None
    a, b = (x.detach().contiguous() for x in xs)
    one, other = lists
    out = torch.empty(one.num_lists, *shape)
    sizes = role_sizes(wide, a.shape[1:], b.shape[1:], shape)
    given = (
        sizes.ctypes.data,
        a.data_ptr(),
        b.data_ptr(),
        one.members.data_ptr(),
        other.members.data_ptr(),
        None if one.signs is None else one.signs.data_ptr(),
        one.ptr.data_ptr(),
    )

    def run(first: int, last: int) -> None:
        library.join_rows(*given, first, last, out.data_ptr())

    _in_shares(_shares(one, len(one.members) * prod(wide)), run)
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


def _shares(lists: Lists, work: int) -> list[int]:
    """Return where the targets of every thread start, and the end.

    There are as many joined rows for each.
    """
    count = torch.get_num_threads() if work >= _LEAST_SHARED else 1
    if count == 1:
        return [0, lists.num_lists]
    starts = torch.arange(1, count, dtype=lists.ptr.dtype) * (len(lists.members) // count)
    targets = torch.searchsorted(lists.ptr, starts).clamp(max=lists.num_lists)
    return [0, *targets.tolist(), lists.num_lists]


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
