r"""Aggregations: how the entries of a bag become one row. Each is one class with its adjoint; a new one is one new entry.

All aggregations run over present entries, and an empty bag gives 0. The members of an orbit's bags come as `OrbitPlan`: the bags
of whole structures (`whole`) apart from all others (`pool`), as there may be a single one with all entries in it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

import torch
from torch import Tensor

from incidence.kernels.bags import bag_numbers, bag_sum
from incidence.structure.plan import OrbitPlan

__all__ = ["AGGREGATIONS", "Aggregation", "gather", "pool_sum"]


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


def _pairs(x: Tensor, lists: OrbitPlan) -> Iterator[tuple[Tensor, Tensor, slice]]:
    """All pairs (entry, bag), in blocks that keep temporaries small."""
    entries = bag_numbers(lists.read_ptr, len(lists.read))
    step = max(1, (1 << 20) // max(1, x.shape[1]))
    for start in range(0, len(lists.read), step):
        part = slice(start, start + step)
        yield entries[part], lists.read[part].long(), part


class Extremum(_NotLinear):
    """The maximum or the minimum; ties share the gradient equally, so that gradients are equivariant too."""

    def __init__(self, reduce: str, start: float) -> None:
        self._reduce, self._start = reduce, start

    def pool(self, x: Tensor, lists: OrbitPlan) -> tuple[Tensor, Tensor]:
        best = x.new_full((lists.offsets[-1], x.shape[1]), self._start)
        for entries, bags, _ in _pairs(x, lists):
            rows = x.index_select(0, entries)
            best.scatter_reduce_(0, bags[:, None].expand_as(rows), rows, self._reduce)
        best.masked_fill_(torch.cat(_counts(lists, x)) == 0, 0.0)
        return best[: lists.offsets[1]], best[lists.offsets[1] :]

    def adjoint(self, grad: Tensor, x: Tensor, pooled: tuple[Tensor, Tensor], lists: OrbitPlan) -> Tensor:
        best = torch.cat(pooled)
        ties = torch.zeros_like(best)
        for entries, bags, _ in _pairs(x, lists):
            ties.index_add_(0, bags, (x.index_select(0, entries) == best.index_select(0, bags)).to(x.dtype))
        shared = grad / ties.clamp_(min=1)
        out = torch.zeros_like(x)
        for entries, bags, _ in _pairs(x, lists):
            is_best = x.index_select(0, entries) == best.index_select(0, bags)
            out.index_add_(0, entries, shared.index_select(0, bags).mul_(is_best))
        return out


class Std(_NotLinear):
    """The standard deviation of the present entries (population); 0 with gradient 0 where they are all equal.

    The entries are centred before they are squared: differences of large sums would lose all digits.
    """

    def pool(self, x: Tensor, lists: OrbitPlan) -> tuple[Tensor, Tensor]:
        spread = self._variance(x, torch.cat(Mean().pool(x, lists)), lists).sqrt_()
        return spread[: lists.offsets[1]], spread[lists.offsets[1] :]

    @staticmethod
    def _variance(x: Tensor, mean: Tensor, lists: OrbitPlan) -> Tensor:
        total = torch.zeros_like(mean)
        for entries, bags, _ in _pairs(x, lists):
            total.index_add_(0, bags, x.index_select(0, entries).sub_(mean.index_select(0, bags)).square_())
        return total.div_(torch.cat(_counts(lists, x)).clamp(min=1))

    def adjoint(self, grad: Tensor, x: Tensor, pooled: tuple[Tensor, Tensor], lists: OrbitPlan) -> Tensor:
        mean, spread = torch.cat(Mean().pool(x, lists)), torch.cat(pooled)
        scale = torch.cat(_counts(lists, x)).clamp(min=1) * spread
        slope = torch.where(spread > 0, grad / torch.where(spread > 0, scale, torch.ones_like(scale)), torch.zeros_like(grad)).to(x.dtype)
        out = torch.zeros_like(x)
        for entries, bags, _ in _pairs(x, lists):
            centred = x.index_select(0, entries).sub_(mean.index_select(0, bags))
            out.index_add_(0, entries, centred.mul_(slope.index_select(0, bags)))
        return out


AGGREGATIONS: dict[str, Aggregation] = {
    "sum": Sum(),
    "mean": Mean(),
    "max": Extremum("amax", float("-inf")),
    "min": Extremum("amin", float("inf")),
    "std": Std(),
}
