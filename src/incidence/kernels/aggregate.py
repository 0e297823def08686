r"""Aggregations: how the entries of a bag become one row. Each is one class with its adjoint; a new one is one new entry.

All aggregations run over present entries, and an empty bag gives 0. The members of an orbit's bags come as `OrbitPlan`: the bags
of whole structures (`whole`) apart from all others (`pool`), as there may be a single one with all entries in it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

import torch
from torch import Tensor

from incidence.kernels.bags import bag_sum
from incidence.structure.keys import group
from incidence.structure.plan import OrbitPlan

__all__ = ["AGGREGATIONS", "Aggregation", "gather", "pool_sum"]

_BLOCK = 1 << 19  # numbers of a temporary


def gather(z: Tensor, lists: OrbitPlan) -> Tensor:
    """For every entry, the sum of its bags: broadcasting, and the adjoint of pooling by sums."""
    return bag_sum(z, lists.read, lists.read_ptr)


def pool_sum(x: Tensor, lists: OrbitPlan) -> tuple[Tensor, Tensor]:
    """For every bag, the sum of its entries: (structures, channels) and (other bags, channels)."""
    local = bag_sum(x, lists.pool, lists.pool_ptr)
    return _whole_sum(x, local, lists), local


def _whole_sum(x: Tensor, local: Tensor, lists: OrbitPlan) -> Tensor:
    num_structures = lists.offsets[1]
    if num_structures == 1:  # one huge bag would be summed by one thread
        if lists.nodes_at is None:
            return x.sum(0, keepdim=True)
        at, slot, size = lists.nodes_at  # the sums at nodes are there already, and far fewer than the entries
        level = local[lists.offsets[at] - lists.offsets[1] : lists.offsets[at + 1] - lists.offsets[1]]
        return level.view(-1, lists.num_slots[at], x.shape[1])[:, slot].sum(0, keepdim=True).div_(size)
    if not lists.whole_ptr.numel():
        return x.new_zeros(num_structures, x.shape[1])
    return bag_sum(x, lists.whole, lists.whole_ptr)


def _counts(lists: OrbitPlan, like: Tensor) -> tuple[Tensor, Tensor]:
    """The number of entries of every bag, as columns."""
    num_structures = lists.offsets[1]
    if num_structures == 1:
        whole = torch.tensor([len(lists.read_ptr) - 1], device=like.device)
    elif lists.whole_ptr.numel():
        whole = lists.whole_ptr.diff()
    else:
        whole = torch.zeros(num_structures, device=like.device)
    wide = like.dtype if like.dtype == torch.float64 else torch.float32
    return whole.to(wide)[:, None], lists.pool_ptr.diff().to(wide)[:, None]


class Aggregation(Protocol):
    """Turns the entries of every bag into one row.

    Attributes:
        is_linear: Whether the adjoint is `gather` of the scaled gradient, whatever the entries are.
    """

    is_linear: bool

    def pool(self, x: Tensor, lists: OrbitPlan) -> tuple[Tensor, Tensor]:
        """The rows of the structures and of the other bags."""
        ...

    def adjoint(self, grad: Tensor, x: Tensor, pooled: tuple[Tensor, Tensor], lists: OrbitPlan) -> Tensor:
        """The gradient of the entries, from that of all bags, the entries and what `pool` gave."""
        ...

    def scale(self, grad: Tensor, lists: OrbitPlan) -> Tensor:
        """For a linear aggregation: what to gather."""
        ...


class _Linear:
    is_linear = True

    def scale(self, grad: Tensor, lists: OrbitPlan) -> Tensor:
        return grad

    def adjoint(self, grad: Tensor, x: Tensor, pooled: tuple[Tensor, Tensor], lists: OrbitPlan) -> Tensor:
        return gather(self.scale(grad, lists), lists)


class _NotLinear:
    is_linear = False

    def scale(self, grad: Tensor, lists: OrbitPlan) -> Tensor:
        raise NotImplementedError("only linear aggregations scale")


class Sum(_Linear):
    """The sum: the paper's pooling."""

    def pool(self, x: Tensor, lists: OrbitPlan) -> tuple[Tensor, Tensor]:
        return pool_sum(x, lists)


class Mean(_Linear):
    """The mean over present entries."""

    def pool(self, x: Tensor, lists: OrbitPlan) -> tuple[Tensor, Tensor]:
        sums, counts = pool_sum(x, lists), _counts(lists, x)
        whole, local = (s.div_(n.clamp(min=1)) for s, n in zip(sums, counts, strict=True))
        return whole, local

    def scale(self, grad: Tensor, lists: OrbitPlan) -> Tensor:
        return (grad / torch.cat(_counts(lists, grad)).clamp(min=1)).to(grad.dtype)


def _by_size(lists: OrbitPlan, channels: int) -> Iterator[tuple[Tensor, Tensor]]:
    """The bags that are not empty, gathered by size: numbers of bags, and their entries as a matrix (bags, size).

    Bags of one size are reduced together, along an axis; that is several times faster than reducing by scattering.
    """
    yield from _grouped(*_whole_lists(lists), 0, channels)
    yield from _grouped(lists.pool, lists.pool_ptr, lists.offsets[1], channels)


def _whole_lists(lists: OrbitPlan) -> tuple[Tensor, Tensor]:
    if lists.offsets[1] == 1:
        count = lists.stop - lists.start
        every = torch.arange(count, device=lists.read.device)
        return every, torch.tensor([0, count], device=every.device)
    return lists.whole, lists.whole_ptr if lists.whole_ptr.numel() else lists.whole_ptr.new_zeros(lists.offsets[1] + 1)


def _grouped(index: Tensor, ptr: Tensor, offset: int, channels: int) -> Iterator[tuple[Tensor, Tensor]]:
    sizes = ptr.diff()
    for size, bags in group(sizes):
        step = max(1, _BLOCK // max(1, size * channels))
        for part in bags.split(step) if size else ():
            yield part + offset, index[ptr[part, None].long() + torch.arange(size, device=ptr.device)]


def _by_entry(lists: OrbitPlan, channels: int) -> Iterator[tuple[slice | Tensor, Tensor]]:
    """All pairs (entry, bag) in pieces with each entry at most once: entries, and their bags."""
    count = lists.stop - lists.start
    sizes = lists.read_ptr.diff()
    step = max(1, _BLOCK // max(1, channels))
    for size, entries in group(sizes):
        is_all = len(entries) == count
        for start in range(0, len(entries), step):
            part = entries[start : start + step]
            rows: slice | Tensor = slice(start, start + len(part)) if is_all else part
            bags = lists.read[lists.read_ptr[part, None].long() + torch.arange(size, device=part.device)]
            for column in bags.unbind(1):
                yield rows, column


class Extremum(_NotLinear):
    """The maximum or the minimum; ties share the gradient equally, so that gradients are equivariant too."""

    def __init__(self, is_max: bool) -> None:
        self._is_max = is_max

    def pool(self, x: Tensor, lists: OrbitPlan) -> tuple[Tensor, Tensor]:
        best = x.new_zeros(lists.offsets[-1], x.shape[1])
        for bags, entries in _by_size(lists, x.shape[1]):
            rows = _take(x, entries)
            best[bags] = rows.amax(1) if self._is_max else rows.amin(1)
        return best[: lists.offsets[1]], best[lists.offsets[1] :]

    def adjoint(self, grad: Tensor, x: Tensor, pooled: tuple[Tensor, Tensor], lists: OrbitPlan) -> Tensor:
        best, shared = torch.cat(pooled), grad.clone()
        for bags, entries in _by_size(lists, x.shape[1]):
            ties = (_take(x, entries) == best[bags, None]).sum(1)
            shared[bags] /= ties
        out = torch.zeros_like(x)
        for rows, bags in _by_entry(lists, x.shape[1]):
            out[rows] += shared.index_select(0, bags).mul_(x[rows] == best.index_select(0, bags))
        return out


class Std(_NotLinear):
    """The standard deviation of the present entries (population); 0 with gradient 0 where they are all equal.

    The entries are centred before they are squared: differences of large sums would lose all digits.
    """

    def pool(self, x: Tensor, lists: OrbitPlan) -> tuple[Tensor, Tensor]:
        spread = x.new_zeros(lists.offsets[-1], x.shape[1])
        for bags, entries in _by_size(lists, x.shape[1]):
            rows = _take(x, entries)
            spread[bags] = rows.sub_(rows.mean(1, keepdim=True)).square_().mean(1).sqrt_()
        return spread[: lists.offsets[1]], spread[lists.offsets[1] :]

    def adjoint(self, grad: Tensor, x: Tensor, pooled: tuple[Tensor, Tensor], lists: OrbitPlan) -> Tensor:
        spread, mean, slope = torch.cat(pooled), torch.zeros_like(grad), torch.zeros_like(grad)
        for bags, entries in _by_size(lists, x.shape[1]):
            mean[bags] = _take(x, entries).mean(1)
            scale = spread[bags] * entries.shape[1]
            slope[bags] = torch.where(scale > 0, grad[bags] / scale.masked_fill(scale == 0, 1), 0)
        out = torch.zeros_like(x)
        for rows, bags in _by_entry(lists, x.shape[1]):
            out[rows] += (x[rows] - mean.index_select(0, bags)).mul_(slope.index_select(0, bags))
        return out


def _take(x: Tensor, entries: Tensor) -> Tensor:
    """The rows of the entries of several bags of one size; shape (bags, size, channels)."""
    return x.index_select(0, entries.flatten()).view(*entries.shape, x.shape[1])


AGGREGATIONS: dict[str, Aggregation] = {
    "sum": Sum(),
    "mean": Mean(),
    "max": Extremum(is_max=True),
    "min": Extremum(is_max=False),
    "std": Std(),
}
