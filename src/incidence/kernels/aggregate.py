r"""Aggregations: how the entries of a bag become one row. Each is one class with its adjoint; a new one is one new entry.

All aggregations run over present entries, and an empty bag gives 0. The members of an orbit's bags come as `OrbitPlan`: the bags
of whole structures (`whole`) apart from all others (`pool`), as there may be a single one with all entries in it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

import torch
from torch import Tensor

from incidence.kernels.bags import bag_sum
from incidence.plans.orbit_plan import BySize, OrbitPlan

__all__ = ["AGGREGATIONS", "Aggregation", "gather", "levels_of", "pool_sum", "side_by_side"]

_FEW = 1 << 13  # entries that one call pools into all bags; of many, those of structures would be added up by one thread
_BLOCK = 1 << 20  # numbers of a temporary: half of it is a third slower, and so is twice of it


def gather(z: Tensor, lists: OrbitPlan) -> Tensor:
    """For every entry, the sum of its bags: broadcasting, and the adjoint of pooling by sums."""
    return bag_sum(z, lists.read, lists.read_ptr)


def side_by_side(rows: Tensor, words: int) -> Tensor:
    """As many rows at a time as one; a view."""
    return rows if words == 1 else rows.view(-1, words * rows.shape[1])


def levels_of(rows: Tensor, lists: OrbitPlan, first: int = 0) -> list[Tensor]:
    """The rows of the bags of all levels from the first on, by level: matrices of keys by (words x channels); views."""
    parts = rows.split_with_sizes(lists.num_bags_at[first:])
    return [side_by_side(part, slots) for part, slots in zip(parts, lists.num_slots[first:], strict=True)]


def pool_sum(x: Tensor, lists: OrbitPlan) -> list[Tensor]:
    """For every bag the sum of its entries, by level."""
    return _by_level(_sums(x, lists), lists)


def _by_level(parts: tuple[Tensor, ...], lists: OrbitPlan) -> list[Tensor]:
    """The rows of all bags by level, from those of structures and of others; or from all of them."""
    *whole, others = parts
    return [*whole, *levels_of(others, lists, len(whole))]


def _sums(x: Tensor, lists: OrbitPlan) -> tuple[Tensor, ...]:
    """For every bag the sum of its entries: those of structures and others apart, where there are many entries."""
    if x.shape[0] <= _FEW:
        return (bag_sum(x, lists.pool, lists.pool_ptr),)
    local = bag_sum(x, *lists.local)
    return _whole_sum(x, local, lists), local


def _whole_sum(x: Tensor, local: Tensor, lists: OrbitPlan) -> Tensor:
    if lists.offsets[1] == 1:  # one huge bag would be summed by one thread
        if lists.nodes_at is None or x.dtype != wide_of(x.dtype):
            return x.sum(0, keepdim=True, dtype=wide_of(x.dtype)).to(x.dtype)
        at, slot, size = lists.nodes_at  # the sums at nodes are there already, and far fewer than the entries
        level = local[lists.offsets[at] - lists.offsets[1] : lists.offsets[at + 1] - lists.offsets[1]]
        return level.view(-1, lists.num_slots[at], x.shape[1])[:, slot].sum(0, keepdim=True).div_(size)
    return bag_sum(x, *lists.whole)


def wide_of(dtype: torch.dtype) -> torch.dtype:
    """The type in which numbers of a type are added up: half precision would overflow."""
    return dtype if dtype == torch.float64 else torch.float32


def _counts(lists: OrbitPlan, like: Tensor) -> Tensor:
    """The number of entries of every bag, as a column."""
    return lists.pool_ptr.diff().to(wide_of(like.dtype))[:, None]


Pooled = tuple[Sequence[Tensor], Tensor]
"""The rows of the bags by level, each a matrix of keys by (words x channels); and what else the adjoint needs."""


class Aggregation(Protocol):
    """Turns the entries of every bag into one row.

    Attributes:
        is_linear: Whether the adjoint is `gather` of the scaled gradient, whatever the entries are.
    """

    is_linear: bool

    def pool(self, x: Tensor, lists: OrbitPlan) -> Pooled:
        """The rows of the bags by level; and what else the adjoint needs, a row for every bag or for none."""
        ...

    def scale(self, grad: Tensor, lists: OrbitPlan) -> Tensor:
        """For a linear aggregation: what to gather."""
        ...

    def add_adjoint(self, out: Tensor, grad: Tensor, x: Tensor, pooled: Pooled, lists: OrbitPlan) -> None:
        """Adds the gradient of the entries, from that of all bags, the entries and what `pool` gave."""
        ...


class _Linear:
    is_linear = True

    def scale(self, grad: Tensor, lists: OrbitPlan) -> Tensor:
        return grad

    def add_adjoint(self, out: Tensor, grad: Tensor, x: Tensor, pooled: Pooled, lists: OrbitPlan) -> None:
        out += gather(self.scale(grad, lists), lists)


class Sum(_Linear):
    """The sum: the paper's pooling."""

    def pool(self, x: Tensor, lists: OrbitPlan) -> Pooled:
        return pool_sum(x, lists), x.new_empty(0)


class Mean(_Linear):
    """The mean over present entries."""

    def pool(self, x: Tensor, lists: OrbitPlan) -> Pooled:
        sums = _sums(x.to(wide_of(x.dtype)), lists)
        counts = _counts(lists, x).clamp_(min=1).split_with_sizes([len(part) for part in sums])
        means = tuple(part.div_(n).to(x.dtype) for part, n in zip(sums, counts, strict=True))
        return _by_level(means, lists), x.new_empty(0)

    def scale(self, grad: Tensor, lists: OrbitPlan) -> Tensor:
        return (grad / _counts(lists, grad).clamp_(min=1)).to(grad.dtype)


class _NotLinear:
    """A statistic whose gradient at an entry is a product: a factor that the entry and its bag make, times a factor of the bag.

    Both factors stand side by side in one table with a row for each bag, so that an entry finds them together.
    """

    is_linear = False

    def pool(self, x: Tensor, lists: OrbitPlan) -> Pooled:
        local, of_local = self._statistics(x, lists.bags_by_size)
        one = self._from_nodes(local, of_local, lists)
        whole, of_whole = one if one is not None else self._statistics(x, lists.structures_by_size)
        return _by_level((whole.to(x.dtype), local.to(x.dtype)), lists), torch.cat([of_whole, of_local])

    def _statistics(self, x: Tensor, by_size: BySize) -> tuple[Tensor, Tensor]:
        """The statistic of every bag, and what to keep of it. Bags of one size are reduced along an axis: scattering is much slower."""
        channels, wide = x.shape[1], wide_of(x.dtype)
        found, kept = (x.new_empty(by_size.num_bags, channels, dtype=wide).index_fill_(0, by_size.empty, 0) for _ in range(2))
        for bags, entries in by_size.filled:
            step = max(1, _BLOCK // max(1, entries.shape[1] * channels))
            for part, at in zip(entries.split(step), bags.split(step), strict=True):
                members = x.index_select(0, part.flatten()).view(*part.shape, channels).to(wide)
                for whole, rows in zip((found, kept), self._reduce(members), strict=True):
                    whole.index_copy_(0, at, rows)
        return found, kept

    def _from_nodes(self, local: Tensor, kept: Tensor, lists: OrbitPlan) -> tuple[Tensor, Tensor] | None:
        """Where there is one structure: its statistic from those at nodes, if it can be had from them."""
        return None

    def scale(self, grad: Tensor, lists: OrbitPlan) -> Tensor:
        raise NotImplementedError("only linear aggregations scale")

    def add_adjoint(self, out: Tensor, grad: Tensor, x: Tensor, pooled: Pooled, lists: OrbitPlan) -> None:
        channels, is_one = x.shape[1], lists.offsets[1] == 1
        statistic = torch.cat([level.view(-1, channels) for level in pooled[0]])
        one, other = (part.to(x.dtype) for part in self._factors(grad, statistic, pooled[1], lists))
        table = torch.cat([one, other], dim=1)  # (bags, 2 x channels)
        for rows, bags in _by_entry(lists, channels):
            if is_one:  # all read the same row
                out[rows].addcmul_(self._compare(one[0], x[rows], torch.empty_like(x[rows])), other[0])
            for bag in bags.unbind(1)[is_one:]:
                found = table.index_select(0, bag)
                mine = found[:, :channels]
                out[rows].addcmul_(self._compare(mine, x[rows], mine), found[:, channels:])

    def _reduce(self, members: Tensor) -> tuple[Tensor, Tensor]:
        """The statistic of bags of one size, (bags, size, channels), and what to keep of it. May overwrite the members."""
        raise NotImplementedError

    def _factors(self, grad: Tensor, pooled: Tensor, kept: Tensor, lists: OrbitPlan) -> tuple[Tensor, Tensor]:
        """For every bag: what its entries are compared with, and the factor of the bag."""
        raise NotImplementedError

    def _compare(self, of_bag: Tensor, x: Tensor, out: Tensor) -> Tensor:
        """The factor that entries and their bags make, written to `out`."""
        raise NotImplementedError


def _by_entry(lists: OrbitPlan, channels: int) -> Iterator[tuple[slice, Tensor]]:
    """All entries with their bags, in blocks with as many bags each: the rows, and a matrix (entries, bags each)."""
    step = max(1, _BLOCK // max(1, channels))
    for start, stop, first, width in lists.entries_by_width:
        bags = lists.read[first : first + (stop - start) * width].view(-1, width)
        for a in range(start, stop, step):
            b = min(a + step, stop)
            yield slice(a, b), bags[a - start : b - start]


class Extremum(_NotLinear):
    """The maximum or the minimum; ties share the gradient equally, so that gradients are equivariant too."""

    def __init__(self, is_max: bool) -> None:
        self._is_max = is_max

    def _reduce(self, members: Tensor) -> tuple[Tensor, Tensor]:
        found = members.amax(1) if self._is_max else members.amin(1)
        return found, members.eq_(found[:, None]).sum(1)  # how many share it

    def _factors(self, grad: Tensor, pooled: Tensor, kept: Tensor, lists: OrbitPlan) -> tuple[Tensor, Tensor]:
        return pooled, grad / kept.clamp(min=1)

    def _compare(self, of_bag: Tensor, x: Tensor, out: Tensor) -> Tensor:
        return torch.eq(x, of_bag, out=out)

    def _from_nodes(self, local: Tensor, kept: Tensor, lists: OrbitPlan) -> tuple[Tensor, Tensor] | None:
        if lists.offsets[1] != 1 or lists.nodes_at is None or lists.start == lists.stop:
            return None
        at, slot, size = lists.nodes_at  # every entry stands in `size` of these bags
        part = slice(lists.offsets[at] - 1, lists.offsets[at + 1] - 1)
        counts = lists.local[1].diff()[:, None]
        best, ties, count = (v[part].view(-1, lists.num_slots[at], v.shape[1])[:, slot] for v in (local, kept, counts))
        filled = best.masked_fill(count == 0, float("-inf") if self._is_max else float("inf"))
        whole = filled.amax(0, keepdim=True) if self._is_max else filled.amin(0, keepdim=True)
        return whole, ties.masked_fill(filled != whole, 0).sum(0, keepdim=True).div_(size)


class Std(_NotLinear):
    """The standard deviation of the present entries (population); 0 with gradient 0 where they are all equal.

    The entries are centred before they are squared: differences of large sums would lose all digits. Before that, one of them is taken
    from all: the mean of equal numbers need not be that number, but the mean of zeros is 0.
    """

    def _reduce(self, members: Tensor) -> tuple[Tensor, Tensor]:
        first = members[:, :1].clone()
        mean = members.sub_(first).mean(1)
        return members.sub_(mean[:, None]).square_().mean(1).sqrt_(), mean + first[:, 0]

    def _factors(self, grad: Tensor, pooled: Tensor, kept: Tensor, lists: OrbitPlan) -> tuple[Tensor, Tensor]:
        scale = pooled * _counts(lists, grad).to(pooled.dtype)
        return kept, torch.where(scale > 0, grad / scale.masked_fill(scale == 0, 1), 0)

    def _compare(self, of_bag: Tensor, x: Tensor, out: Tensor) -> Tensor:
        return torch.sub(x, of_bag, out=out)


AGGREGATIONS: dict[str, Aggregation] = {
    "sum": Sum(),
    "mean": Mean(),
    "max": Extremum(is_max=True),
    "min": Extremum(is_max=False),
    "std": Std(),
}
