r"""Aggregations: how the entries of a bag become one row. Each is one class with its sparse form, its adjoint and its dense form.

All aggregations run over present entries, and an empty bag gives 0. A new one is a class with `reduce`, registered by
`register_aggregation`; the others override what they know a faster way for.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple

import torch
from torch import Tensor

from incidence.errors import IncidenceError
from incidence.kernels.bags import bag_sum, side_by_side, wide_of
from incidence.kernels.dense import DenseBags
from incidence.plans.layout import NodeSlot
from incidence.plans.stack import BagsBySize, StackPlan

__all__ = [
    "AGGREGATIONS",
    "Aggregation",
    "LinearAggregation",
    "Pooled",
    "as_aggregations",
    "assert_linear",
    "known_aggregation",
    "levels_of",
    "pool_sum",
    "read_back",
    "register_aggregation",
    "wide_of",
]

_FEW = (
    1 << 13
)  # rows of one structure that one call pools into all bags; more are added up by one thread only
_BLOCK = 1 << 20  # numbers of a temporary: half of it is a third slower, and so is twice of it


class Pooled(NamedTuple):
    """What pooling gives: for every level a matrix of keys by (words x channels); and what else the adjoint needs."""

    levels: Sequence[Tensor]
    kept: Tensor


class Aggregation:
    """How the entries of a bag become one row. A subclass defines `reduce`; all else follows, and may be overridden by something faster.

    Attributes:
        name: Its name, once it is registered; `version` counts how often that name was registered before.
        keeps_entry: Whether a bag of one entry gives that entry; else it gives 0. Found out when it is registered.

    Example:
        >>> class Range(Aggregation):
        ...     def reduce(self, entries):
        ...         return entries.amax(1) - entries.amin(1)
        >>> Range().reduce(torch.tensor([[[1.0], [5.0], [3.0]]]))
        tensor([[4.]])
    """

    name = ""
    version = 0
    keeps_entry = True

    def reduce(self, entries: Tensor) -> Tensor:
        """The rows of bags with as many entries each: from (bags, entries each, channels) to (bags, channels), differentiable.

        It must not depend on the order of the entries, and of a single entry it gives that entry, or 0.
        """
        raise IncidenceError(f"{type(self).__name__} must define reduce(entries).")

    def pool(self, x: Tensor, stack: StackPlan) -> Pooled:
        """The rows of all bags of a stack, from its features, shape (rows, channels)."""
        parts = [
            self._reduce_all(x, by_size)
            for by_size in (stack.structures_by_size, stack.others_by_size)
        ]
        return Pooled(levels_of(torch.cat(parts).to(x.dtype), stack), x.new_empty(0))

    def _reduce_all(self, x: Tensor, by_size: BagsBySize) -> Tensor:
        """The rows of all bags. Those of one size are reduced along an axis: scattering is much slower."""
        found = x.new_zeros(
            by_size.num_bags, x.shape[1], dtype=wide_of(x.dtype)
        )  # (bags, channels)
        for bags, rows in _blocks(by_size, x.shape[1]):
            found.index_copy_(0, bags, self.reduce(_entries(x, rows)))
        return found

    def add_adjoint(
        self, d_x: Tensor, grad: Tensor, x: Tensor, pooled: Pooled, stack: StackPlan
    ) -> None:
        """Adds the gradient of the features, from that of all bags, shape (bags, channels), the features and what `pool` gave."""
        first = 0
        for by_size in (stack.structures_by_size, stack.others_by_size):
            for bags, rows in _blocks(by_size, x.shape[1]):
                with torch.enable_grad(), _recorded():
                    entries = (
                        _entries(x, rows).detach().requires_grad_()
                    )  # (bags, entries each, channels)
                    [d_entries] = torch.autograd.grad(
                        self.reduce(entries), entries, grad[first + bags].to(entries.dtype)
                    )
                d_x.index_add_(0, rows.flatten(), d_entries.flatten(0, 1).to(d_x.dtype))
            first += by_size.num_bags

    def dense(self, bags: DenseBags) -> Tensor:
        """The same on a complete structure, [batch, an axis for each matched node, channels]; differentiable by torch."""
        return bags.reduce(self.reduce)


def _recorded() -> AbstractContextManager[None]:
    """Lets torch record what is done even inside of the operator for tracing, where nothing is recorded otherwise."""
    tls: Any = torch._C
    excluded = tls._dispatch_tls_local_exclude_set().remove(tls.DispatchKey.AutogradFunctionality)
    guard: AbstractContextManager[None] = tls._ForceDispatchKeyGuard(
        tls._dispatch_tls_local_include_set(), excluded
    )
    return guard


def _blocks(by_size: BagsBySize, channels: int) -> Iterator[tuple[Tensor, Tensor]]:
    """All bags that have entries, in blocks of one size: their numbers (bags,) and the rows of their entries (bags, entries each)."""
    for bags, rows in by_size.filled:
        step = max(1, _BLOCK // max(1, rows.shape[1] * channels))
        yield from zip(bags.split(step), rows.split(step), strict=True)


def _entries(x: Tensor, rows: Tensor) -> Tensor:
    """The entries of bags, in a type in which they can be added up: (bags, entries each, channels)."""
    return x.index_select(0, rows.flatten()).view(*rows.shape, x.shape[1]).to(wide_of(x.dtype))


def levels_of(z: Tensor, stack: StackPlan, first: int = 0) -> list[Tensor]:
    """The rows of the bags from a level on, by level: matrices of keys by (slots x channels); views."""
    parts = z.split_with_sizes(stack.num_bags_at[first:])
    return [
        side_by_side(part, slots)
        for part, slots in zip(parts, stack.num_slots[first:], strict=True)
    ]


def read_back(z: Tensor, stack: StackPlan) -> Tensor:
    """For every row of a stack the sum of its bags: also the adjoint of pooling by sums."""
    return bag_sum(z, *stack.bags_of_rows)  # (rows, channels)


def pool_sum(x: Tensor, stack: StackPlan) -> list[Tensor]:
    """For every bag of a stack the sum of its rows, by level: matrices of keys by (slots x channels)."""
    if x.shape[0] <= _FEW or stack.num_structures > 1:
        return levels_of(bag_sum(x, *stack.rows_of_bags), stack)
    others = bag_sum(x, *stack.rows_of_others)
    return [
        side_by_side(_structure_sums(x, others, stack), stack.num_slots[0]),
        *levels_of(others, stack, 1),
    ]


def _structure_sums(x: Tensor, others: Tensor, stack: StackPlan) -> Tensor:
    """The sums over one structure. Those at nodes are there already, and far fewer than the rows; one huge bag is summed by one thread."""
    if (
        stack.num_slots[0] == len(stack.num_rows_of) and stack.signs is None
    ):  # one orbit in every tensor
        return torch.stack(
            [rows.sum(0, dtype=wide_of(x.dtype)) for rows in x.split_with_sizes(stack.num_rows_of)]
        ).to(x.dtype)
    if stack.single_nodes is None or x.dtype != wide_of(x.dtype):
        return bag_sum(x, *stack.rows_of_structures)
    return torch.stack(
        [_at_nodes(others, slot, stack).sum(0).div_(slot.size) for slot in stack.single_nodes]
    )


def _at_nodes(others: Tensor, slot: NodeSlot, stack: StackPlan) -> Tensor:
    """Of what all bags but those of structures have: that of a class which every entry has nodes of, shape (nodes, channels)."""
    start, stop = (stack.level_ptr[at] - stack.level_ptr[1] for at in (slot.level, slot.level + 1))
    return others[start:stop].view(-1, stack.num_slots[slot.level], others.shape[1])[:, slot.slot]


class LinearAggregation(Aggregation):
    """A multiple of the sum, by a number that depends on the bag alone. What is linear can be differentiated again."""

    def scale(
        self, sums: Tensor, stack: StackPlan, level: int, out: Tensor | None = None
    ) -> Tensor:
        """The sums of the bags of a level, or their gradients, each times its number: matrices of keys by (slots x channels)."""
        raise NotImplementedError

    def pool(self, x: Tensor, stack: StackPlan) -> Pooled:
        levels = pool_sum(x.to(wide_of(x.dtype)), stack)
        return Pooled(
            [self.scale(sums, stack, level).to(x.dtype) for level, sums in enumerate(levels)],
            x.new_empty(0),
        )

    def add_adjoint(
        self, d_x: Tensor, grad: Tensor, x: Tensor, pooled: Pooled, stack: StackPlan
    ) -> None:
        levels = [
            self.scale(part, stack, level) for level, part in enumerate(levels_of(grad, stack))
        ]
        d_x += read_back(torch.cat([part.view(-1, grad.shape[1]) for part in levels]), stack)


class Sum(LinearAggregation):
    """The sum: the paper's pooling."""

    def reduce(self, entries: Tensor) -> Tensor:
        return entries.sum(1)

    def scale(
        self, sums: Tensor, stack: StackPlan, level: int, out: Tensor | None = None
    ) -> Tensor:
        return sums

    def dense(self, bags: DenseBags) -> Tensor:
        return bags.sum()


class Mean(LinearAggregation):
    """The mean over present entries."""

    def reduce(self, entries: Tensor) -> Tensor:
        return entries.mean(1)

    def scale(
        self, sums: Tensor, stack: StackPlan, level: int, out: Tensor | None = None
    ) -> Tensor:
        out = torch.empty_like(sums) if out is None else out
        shape, sizes = (
            (-1, stack.num_slots[level], sums.shape[1] // stack.num_slots[level]),
            stack.bag_sizes(level),
        )  # (keys, slots, 1)
        torch.div(sums.view(shape), sizes, out=out.view(shape))
        return out

    def dense(self, bags: DenseBags) -> Tensor:
        return bags.sum() / bags.count().clamp(min=1)


class _FactoredAggregation(Aggregation):
    """A statistic whose gradient at an entry is a product: a factor that the entry and its bag make, times a factor of the bag.

    Both factors stand side by side in one table with a row for each bag, so that an entry finds them together: several times faster
    than going through the bags by size again.
    """

    def pool(self, x: Tensor, stack: StackPlan) -> Pooled:
        others, kept = self._statistics(x, stack.others_by_size)
        at_once = self._from_nodes(others, kept, stack)
        whole, of_whole = (
            at_once if at_once is not None else self._statistics(x, stack.structures_by_size)
        )
        return Pooled(
            levels_of(torch.cat([whole, others]).to(x.dtype), stack), torch.cat([of_whole, kept])
        )

    def _statistics(self, x: Tensor, by_size: BagsBySize) -> tuple[Tensor, Tensor]:
        """The statistic of every bag, and what to keep of it; (bags, channels) each."""
        found, kept = (
            x.new_empty(by_size.num_bags, x.shape[1], dtype=wide_of(x.dtype)).index_fill_(
                0, by_size.empty, 0
            )
            for _ in range(2)
        )
        for bags, rows in _blocks(by_size, x.shape[1]):
            for table, values in zip(
                (found, kept), self._reduce_and_keep(_entries(x, rows)), strict=True
            ):
                table.index_copy_(0, bags, values)
        return found, kept

    def _from_nodes(
        self, others: Tensor, kept: Tensor, stack: StackPlan
    ) -> tuple[Tensor, Tensor] | None:
        """Where there is one structure: its statistic from those at nodes, if it can be had from them."""
        return None

    def add_adjoint(
        self, d_x: Tensor, grad: Tensor, x: Tensor, pooled: Pooled, stack: StackPlan
    ) -> None:
        channels = x.shape[1]
        statistic = torch.cat(
            [level.view(-1, channels) for level in pooled.levels]
        )  # (bags, channels)
        one, other = (
            part.to(x.dtype) for part in self._factors(grad, statistic, pooled.kept, stack)
        )
        table = torch.cat([one, other], dim=1)  # (bags, 2 x channels)
        for rows, bags in _row_blocks(stack, channels):
            entries = (
                x[rows] if isinstance(rows, slice) else x.index_select(0, rows)
            )  # (block, channels)
            total = torch.zeros_like(entries)
            for bag in bags.unbind(1):
                found = table.index_select(0, bag)  # (block, 2 x channels)
                mine = found[:, :channels]
                total.addcmul_(self._compare(mine, entries, mine), found[:, channels:])
            if isinstance(rows, slice):
                d_x[rows] += total
            else:
                d_x.index_add_(0, rows, total)

    def _reduce_and_keep(self, entries: Tensor) -> tuple[Tensor, Tensor]:
        """The statistic of bags of one size, (bags, entries each, channels), and what to keep of it. May overwrite the entries."""
        raise NotImplementedError

    def _factors(
        self, grad: Tensor, pooled: Tensor, kept: Tensor, stack: StackPlan
    ) -> tuple[Tensor, Tensor]:
        """For every bag: what its entries are compared with, and the factor of the bag."""
        raise NotImplementedError

    def _compare(self, of_bag: Tensor, x: Tensor, out: Tensor) -> Tensor:
        """The factor that entries and their bags make, written to `out`."""
        raise NotImplementedError


def _row_blocks(stack: StackPlan, channels: int) -> Iterator[tuple[slice | Tensor, Tensor]]:
    """All rows with their bags, in blocks with as many bags each: the rows, and a matrix (rows, bags each)."""
    step = max(1, _BLOCK // max(1, channels))
    for rows, bags in stack.rows_by_width:
        for start in range(0, len(bags), step):
            some = slice(start, min(start + step, len(bags)))
            yield some if rows is None else rows[some], bags[some]


class Extremum(_FactoredAggregation):
    """The maximum or the minimum; ties share the gradient equally, so that gradients are equivariant too."""

    def __init__(self, is_max: bool) -> None:
        self._is_max, self._worst = is_max, float("-inf") if is_max else float("inf")

    def _best(self, x: Tensor, axes: list[int]) -> Tensor:
        return x.amax(axes) if self._is_max else x.amin(axes)

    def reduce(self, entries: Tensor) -> Tensor:
        return self._best(entries, [1])

    def _reduce_and_keep(self, entries: Tensor) -> tuple[Tensor, Tensor]:
        found = self.reduce(entries)
        return found, entries.eq_(found[:, None]).sum(1)  # how many share it

    def _factors(
        self, grad: Tensor, pooled: Tensor, kept: Tensor, stack: StackPlan
    ) -> tuple[Tensor, Tensor]:
        return pooled, grad / kept.clamp(min=1)

    def _compare(self, of_bag: Tensor, x: Tensor, out: Tensor) -> Tensor:
        return torch.eq(x, of_bag, out=out)

    def _from_nodes(
        self, others: Tensor, kept: Tensor, stack: StackPlan
    ) -> tuple[Tensor, Tensor] | None:
        if stack.num_structures != 1 or stack.single_nodes is None or not all(stack.num_rows_of):
            return None
        counts = stack.rows_of_others[1].diff()[:, None]
        found = [
            self._of_structure(others, kept, counts, slot, stack) for slot in stack.single_nodes
        ]
        whole, ties = (torch.cat(parts) for parts in zip(*found, strict=True))
        return whole, ties

    def _of_structure(
        self, others: Tensor, kept: Tensor, counts: Tensor, slot: NodeSlot, stack: StackPlan
    ) -> tuple[Tensor, Tensor]:
        """The extremum of all entries of an orbit, and how many share it, from those at nodes."""
        best, ties, count = (
            _at_nodes(v, slot, stack) for v in (others, kept, counts)
        )  # (nodes, channels)
        filled = best.masked_fill(count == 0, self._worst)
        whole = self._best(filled, [0])[None]
        if not bool(count.any()):  # an orbit without entries
            return torch.zeros_like(whole), torch.zeros_like(whole)
        return whole, ties.masked_fill(filled != whole, 0).sum(0, keepdim=True).div_(slot.size)

    def dense(self, bags: DenseBags) -> Tensor:
        best = (
            self._best(bags.filled_with(self._worst), bags.axes)
            if bags.axes
            else bags.filled_with(self._worst)
        )
        return torch.where(bags.count() > 0, best, torch.zeros_like(best))


class Std(_FactoredAggregation):
    """The standard deviation of the present entries (population); 0 with gradient 0 where they are all equal.

    The entries are centred before they are squared: differences of large sums would lose all digits. Before that, one of them is taken
    from all: the mean of equal numbers need not be that number, but the mean of zeros is 0.
    """

    def reduce(self, entries: Tensor) -> Tensor:
        return self._reduce_and_keep(entries.clone())[0]

    def _reduce_and_keep(self, entries: Tensor) -> tuple[Tensor, Tensor]:
        first = entries[:, :1].clone()
        mean = entries.sub_(first).mean(1)
        return entries.sub_(mean[:, None]).square_().mean(1).sqrt_(), mean + first[:, 0]

    def _factors(
        self, grad: Tensor, pooled: Tensor, kept: Tensor, stack: StackPlan
    ) -> tuple[Tensor, Tensor]:
        sizes = torch.cat(
            [stack.bag_sizes(level).view(-1, 1) for level in range(len(stack.num_slots))]
        )  # (bags, 1)
        scale = pooled * sizes.to(pooled.dtype)
        return kept, torch.where(scale > 0, grad / scale.masked_fill(scale == 0, 1), 0)

    def _compare(self, of_bag: Tensor, x: Tensor, out: Tensor) -> Tensor:
        return torch.sub(x, of_bag, out=out)

    def dense(self, bags: DenseBags) -> Tensor:
        count = bags.count().clamp(min=1)
        variance = bags.sum(bags.centred(bags.sum() / count).square()) / count
        is_flat = variance == 0
        return torch.where(
            is_flat, torch.zeros_like(variance), variance.masked_fill(is_flat, 1).sqrt()
        )


AGGREGATIONS: dict[str, Aggregation] = {}
_OURS: set[str] = set()
_EVERY_VERSION: dict[
    tuple[str, int], Aggregation
] = {}  # what a traced layer means by a name stays what it was


def register_aggregation(name: str, aggregation: Aggregation) -> None:
    """Makes an aggregation known under a name, for `aggr=` of every layer and readout made from now on.

    Args:
        name: An identifier. One that was registered before is replaced, as when a notebook is run again.
        aggregation: An instance of a subclass of `Aggregation`. Of a single entry it must give that entry, or 0.

    Raises:
        IncidenceError: The name is one of the library's own or no identifier, or it is no aggregation.

    Example:
        >>> class Range(Aggregation):
        ...     def reduce(self, entries):
        ...         return entries.amax(1) - entries.amin(1)
        >>> register_aggregation("range_in_an_example", Range())
        >>> AGGREGATIONS["range_in_an_example"].keeps_entry
        False
    """
    if not isinstance(name, str) or not name.isidentifier():
        raise IncidenceError(
            f"the name of an aggregation is an identifier, such as 'range'; got {name!r}."
        )
    if name in _OURS:
        raise IncidenceError(
            f"the aggregation {name!r} comes with the library, and runs and files mean that one: use another name."
        )
    if not isinstance(aggregation, Aggregation):
        raise IncidenceError(
            f"an aggregation is an instance of a subclass of inc.nn.Aggregation; got {aggregation!r}."
        )
    aggregation.name, aggregation.keeps_entry = name, _keeps_entry(name, aggregation)
    aggregation.version = AGGREGATIONS[name].version + 1 if name in AGGREGATIONS else 0
    AGGREGATIONS[name] = _EVERY_VERSION[name, aggregation.version] = aggregation


def _keeps_entry(name: str, aggregation: Aggregation) -> bool:
    """Whether a bag of one entry gives that entry; layers use entries themselves where all their nodes are matched."""

    def reduced(entries: Tensor) -> Tensor:
        found = aggregation.reduce(entries.clone())
        wanted = [len(entries), entries.shape[2]]
        if (
            not isinstance(found, Tensor)
            or list(found.shape) != wanted
            or found.dtype != entries.dtype
        ):
            came = (
                f"{list(found.shape)} of {found.dtype}"
                if isinstance(found, Tensor)
                else type(found).__name__
            )
            what = f"of {list(entries.shape)} it must make {wanted} of {entries.dtype}, and made {came}"
            raise IncidenceError(
                f"reduce of {name!r} turns (bags, entries each, channels) into (bags, channels): {what}."
            )
        return found

    entry = torch.tensor([[[3.0, -2.0]]], dtype=torch.float64)
    alone = reduced(entry)
    if not torch.equal(alone, entry[0]) and bool(alone.any()):
        came = f"{alone.tolist()} of {entry[0].tolist()}"
        raise IncidenceError(
            f"of a single entry an aggregation gives that entry, or 0; {name!r} makes {came}."
        )
    bags = torch.tensor(
        [[[3.0], [-2.0], [-3.0], [0.5]], [[1.0], [4.0], [2.0], [-1.5]]], dtype=torch.float64
    )
    if not torch.allclose(reduced(bags), torch.cat([reduced(bag[None]) for bag in bags])):
        raise IncidenceError(f"every bag is reduced on its own; {name!r} makes one of all of them.")
    if not torch.allclose(reduced(bags), reduced(bags.flip(1))):
        raise IncidenceError(
            f"{name!r} depends on the order of the entries of a bag, so that no layer with it would be equivariant."
        )
    return bool(alone.any())


def assert_linear(aggregations: Sequence[Aggregation]) -> None:
    """Refuses to differentiate again what is not linear."""
    for aggregation in aggregations:
        if not isinstance(aggregation, LinearAggregation):
            linear = " and ".join(
                repr(name)
                for name, known in AGGREGATIONS.items()
                if isinstance(known, LinearAggregation)
            )
            raise IncidenceError(
                f"aggr={aggregation.name!r} has no second derivative; {linear} have one."
            )


def as_aggregations(names: Sequence[str]) -> tuple[Aggregation, ...]:
    """Aggregations by name."""
    return tuple(AGGREGATIONS[name] for name in names)


def known_aggregation(name: str, version: int) -> Aggregation:
    """The aggregation that a traced layer means.

    Raises:
        IncidenceError: It is not registered in this process.
    """
    if (name, version) not in _EVERY_VERSION:
        raise IncidenceError(
            f"the layer was made with an aggregation {name!r} that is not registered here: register it first."
        )
    return _EVERY_VERSION[name, version]


for _name, _aggregation in (
    ("sum", Sum()),
    ("mean", Mean()),
    ("max", Extremum(True)),
    ("min", Extremum(False)),
    ("std", Std()),
):
    register_aggregation(_name, _aggregation)
_OURS.update(AGGREGATIONS)
