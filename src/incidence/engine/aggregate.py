r"""Aggregations: how the rows of a bag become one row.

Each aggregation is one class with its sparse form, its adjoint and its dense form. All of them run
over present entries, and an empty bag gives 0. A new one is a class with `reduce`, registered by
`register_aggregation`; the others override the parts for which they have a faster way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import torch
from torch import Tensor

from incidence.engine.bags import Bags, ListsByLength, wide_of
from incidence.engine.dense import DenseBags
from incidence.engine.layout import NodeSlot
from incidence.errors import IncidenceError

__all__ = [
    "AGGREGATIONS",
    "Aggregation",
    "LinearAggregation",
    "as_aggregations",
    "assert_linear",
    "register_aggregation",
]

_BLOCK = 1 << 20  # numbers of a temporary: half of it is a third slower, and so is twice of it


class Aggregation:
    """How the rows of a bag become one row. A subclass defines `reduce`; everything else follows.

    Attributes:
        name: The name under which it is registered.
        keeps_entry: Whether a bag of one entry gives that entry; else it gives 0.
            `register_aggregation` finds out.

    Example:
        >>> class Range(Aggregation):
        ...     def reduce(self, entries):
        ...         return entries.amax(1) - entries.amin(1)
        >>> Range().reduce(torch.tensor([[[1.0], [5.0], [3.0]]]))
        tensor([[4.]])
    """

    name = ""
    keeps_entry = True
    _keeps_more = False  # whether the adjoint needs more of a bag than its statistic

    def reduce(self, entries: Tensor) -> Tensor:
        """Return the rows of bags with as many entries each, differentiably.

        The result must not depend on the order of the entries. A single entry gives that entry,
        or 0.

        Args:
            entries: The entries, shape (bags, entries each, channels).

        Returns:
            One row for each bag, shape (bags, channels).
        """
        raise IncidenceError(f"{type(self).__name__} must define reduce(entries).")

    def pool(self, x: Tensor, bags: Bags) -> tuple[Tensor, Tensor]:
        """Pool the features of a tensor, shape (rows, channels).

        Returns:
            The rows of all bags, (bags, channels); and what else `add_adjoint` needs of every bag,
            (bags, channels) or nothing.
        """
        if bags.shared:
            return self._pool_shared(x, bags)
        return self._pool_here(x, bags)

    def _pool_shared(self, x: Tensor, bags: Bags) -> tuple[Tensor, Tensor]:
        """Return the same over the rows of all processes."""
        raise IncidenceError(
            f"aggr={self.name!r} needs all entries of a bag on one process, so it does not work"
            " on a part of a structure: use 'sum', 'mean', 'max', 'min' or 'std'."
        )

    def _pool_here(self, x: Tensor, bags: Bags) -> tuple[Tensor, Tensor]:
        """Return the same over the rows of this process."""
        num_structures = bags.level_ptr[1]
        num_others = bags.num_bags - num_structures
        others, kept = self._statistics(x, bags.others_by_size, num_others)
        of_structures = self._from_nodes(others, kept, bags)
        if of_structures is None:
            of_structures = self._statistics(x, bags.structures_by_size, num_structures)
        whole, kept_of_whole = of_structures
        return torch.cat([whole, others]).to(x.dtype), torch.cat([kept_of_whole, kept])

    def _statistics(
        self, x: Tensor, by_size: ListsByLength, num_bags: int
    ) -> tuple[Tensor, Tensor]:
        """Return the statistic of some bags, (bags, channels), and what to keep of it.

        Bags of one size are reduced along an axis: scattering is much slower.
        """
        shape, dtype = (num_bags, x.shape[1]), wide_of(x.dtype)
        statistic = x.new_zeros(shape, dtype=dtype)
        kept = torch.zeros_like(statistic) if self._keeps_more else x.new_empty(0)
        for some, rows in _bag_blocks(by_size, x.shape[1]):
            of_bags, kept_of_bags = self._reduce_and_keep(_entries(x, rows))
            _put(statistic, some, of_bags)
            if kept_of_bags is not None:
                _put(kept, some, kept_of_bags.to(dtype))
        return statistic, kept

    def _reduce_and_keep(self, entries: Tensor) -> tuple[Tensor, Tensor | None]:
        """Return the statistic of bags of one size, and what to keep of it; (bags, channels) each.

        It may overwrite the entries, (bags, entries each, channels).
        """
        return self.reduce(entries), None

    def _from_nodes(self, others: Tensor, kept: Tensor, bags: Bags) -> tuple[Tensor, Tensor] | None:
        """Return the statistic of a lone structure, if those at nodes determine it; else None."""
        return None

    def add_adjoint(
        self, d_x: Tensor, grad: Tensor, x: Tensor, pooled: tuple[Tensor, Tensor], bags: Bags
    ) -> None:
        """Add the gradient of the features to `d_x`.

        Args:
            d_x: The gradient of the features, shape (rows, channels).
            grad: The gradient of all bags, shape (bags, channels).
            x: The features.
            pooled: What `pool` returned.
            bags: The bags of the tensor.
        """
        num_structures = bags.level_ptr[1]
        parts = (grad[:num_structures], grad[num_structures:])
        sides = (bags.structures_by_size, bags.others_by_size)
        for part, by_size in zip(parts, sides, strict=True):
            for some, rows in _bag_blocks(by_size, x.shape[1]):
                with torch.enable_grad():
                    # (bags, entries each, channels)
                    entries = _entries(x, rows).detach().requires_grad_()
                    of_bags = part[some].to(entries.dtype)
                    [d_entries] = torch.autograd.grad(self.reduce(entries), entries, of_bags)
                d_x.index_add_(0, rows.flatten(), d_entries.flatten(0, 1).to(d_x.dtype))

    def dense(self, bags: DenseBags) -> Tensor:
        """Return the same on a complete structure, differentiably.

        Returns:
            The rows, shape [batch, an axis for each matched node, channels].
        """
        return bags.reduce(self.reduce)


def _bag_blocks(by_size: ListsByLength, channels: int) -> Iterator[tuple[slice | Tensor, Tensor]]:
    """Yield all bags that have entries, in blocks of one size: the bags, and their rows."""
    for bags, rows in by_size:
        size = rows.shape[1]
        if size:
            yield from _blocks(bags, rows, size * channels)


def _row_blocks(bags: Bags, channels: int) -> Iterator[tuple[slice | Tensor, Tensor]]:
    """Yield all rows in blocks: the rows, and their bags, (rows, bags each)."""
    for rows, members in bags.rows_by_width:
        yield from _blocks(rows, members, channels)


def _blocks(
    lists: Tensor | None, members: Tensor, cost: int
) -> Iterator[tuple[slice | Tensor, Tensor]]:
    """Yield lists of one length in blocks: which lists, and their members.

    Args:
        lists: The numbers of the lists, or None for all of them in order.
        members: Their members, (lists, length).
        cost: How many numbers a list adds to a temporary.
    """
    step = max(1, _BLOCK // max(1, cost))
    for start in range(0, len(members), step):
        part = slice(start, min(start + step, len(members)))
        yield part if lists is None else lists[part], members[part]


def _put(table: Tensor, where: slice | Tensor, rows: Tensor) -> None:
    """Write rows of a table."""
    if isinstance(where, slice):
        table[where] = rows
    else:
        table.index_copy_(0, where, rows)  # faster than an index


def _entries(x: Tensor, rows: Tensor) -> Tensor:
    """Return the entries of bags, (bags, entries each, channels), in a type to add them up in."""
    return x.index_select(0, rows.flatten()).view(*rows.shape, x.shape[1]).to(wide_of(x.dtype))


class LinearAggregation(Aggregation):
    """The sum, which is the paper's pooling; or the mean over present entries.

    Both are multiples of the sum, by a number that depends on the bag alone. What is linear can be
    differentiated again.
    """

    def __init__(self, is_mean: bool) -> None:
        self.is_mean = is_mean

    def reduce(self, entries: Tensor) -> Tensor:
        return entries.mean(1) if self.is_mean else entries.sum(1)

    def scale(self, sums: Tensor, bags: Bags, level: int, out: Tensor | None = None) -> Tensor:
        """Return the sums of the bags of a level, or their gradients, each times its number.

        Args:
            sums: The sums, (keys, slots x channels).
            bags: The bags of the tensor.
            level: The number of the level.
            out: Where the result goes; it may be `sums`.
        """
        if not self.is_mean:
            return sums
        out = torch.empty_like(sums) if out is None else out
        num_slots = bags.num_slots[level]
        shape = -1, num_slots, sums.shape[1] // num_slots  # (keys, slots, channels)
        torch.div(sums.view(shape), bags.sizes(level), out=out.view(shape))
        return out

    def pool(self, x: Tensor, bags: Bags) -> tuple[Tensor, Tensor]:
        sums = bags.pool_all(x.to(wide_of(x.dtype)))  # (keys, slots x channels) by level
        levels = [self.scale(own, bags, level) for level, own in enumerate(sums)]
        return _side_by_side(levels, x.shape[1]).to(x.dtype), x.new_empty(0)

    def add_adjoint(
        self, d_x: Tensor, grad: Tensor, x: Tensor, pooled: tuple[Tensor, Tensor], bags: Bags
    ) -> None:
        levels = [self.scale(part, bags, level) for level, part in enumerate(bags.by_level(grad))]
        d_x += bags.read(_side_by_side(levels, grad.shape[1]))

    def dense(self, bags: DenseBags) -> Tensor:
        sums = bags.sum()
        return sums / bags.count().clamp(min=1) if self.is_mean else sums


def _side_by_side(levels: Sequence[Tensor], channels: int) -> Tensor:
    """Return the values of all bags, (bags, channels), from those of every level."""
    return torch.cat([level.view(-1, channels) for level in levels])


def _add_factored(
    d_x: Tensor,
    x: Tensor,
    bags: Bags,
    factors: Sequence[Tensor],
    compare: Callable[..., Tensor],
) -> None:
    """Add gradients that are products of two factors at every entry of a bag.

    One factor depends on the entry and its bag, the other on the bag alone. What a bag has for both
    stands side by side in one table, so that an entry reads it together. That is several times
    faster than going through the bags by size again.

    Args:
        d_x: The gradient of the features, shape (rows, channels).
        x: The features, shape (rows, channels).
        bags: The bags of the tensor.
        factors: What entries are compared with, and the factor of the bag, (bags, channels) each.
        compare: The factor of an entry and its bag, from both and from where it goes (`out`).
    """
    channels = x.shape[1]
    table = torch.cat([factor.to(x.dtype) for factor in factors], dim=1)  # (bags, 2 x channels)
    for rows, members in _row_blocks(bags, channels):
        # (block, channels)
        entries = x[rows] if isinstance(rows, slice) else x.index_select(0, rows)
        total = torch.zeros_like(entries)
        for bag in members.unbind(1):
            both = table.index_select(0, bag)  # (block, 2 x channels)
            mine = both[:, :channels]
            total.addcmul_(compare(entries, mine, out=mine), both[:, channels:])
        if isinstance(rows, slice):
            d_x[rows] += total
        else:
            d_x.index_add_(0, rows, total)


def _over_rows(values: Tensor, bags: Bags, op: str = "sum") -> Tensor:
    """Return the values of all bags over all processes, (bags, channels)."""
    return _side_by_side(bags.over_rows(bags.by_level(values), op), values.shape[1])


def _all_sizes(bags: Bags, dtype: torch.dtype) -> Tensor:
    """Return the number of rows of every bag, (bags, 1)."""
    sizes = [bags.sizes(level) for level in range(len(bags.num_slots))]
    return _side_by_side(sizes, 1).to(dtype)


def _moment(x: Tensor, bags: Bags, centre: Tensor, power: int) -> Tensor:
    """Return the sums over bags of powers of the entries less a centre, (bags, channels)."""
    sums = torch.zeros_like(centre)
    numbers = torch.arange(bags.num_bags, device=x.device)
    num_structures = bags.level_ptr[1]
    parts = numbers[:num_structures], numbers[num_structures:]
    sides = bags.structures_by_size, bags.others_by_size
    for part, by_size in zip(parts, sides, strict=True):
        for some, rows in _bag_blocks(by_size, x.shape[1]):
            own = part[some]
            entries = _entries(x, rows).sub_(centre[own][:, None])
            sums[own] = (entries if power == 1 else entries.square_()).sum(1)
    return sums


class Extremum(Aggregation):
    """The maximum or the minimum.

    Ties share the gradient equally, so that gradients are equivariant too.
    """

    _keeps_more = True  # how many entries share the extremum

    def __init__(self, is_max: bool) -> None:
        self._is_max, self._worst = is_max, float("-inf") if is_max else float("inf")

    def _best(self, x: Tensor, axes: list[int]) -> Tensor:
        return x.amax(axes) if self._is_max else x.amin(axes)

    def reduce(self, entries: Tensor) -> Tensor:
        return self._best(entries, [1])

    def _reduce_and_keep(self, entries: Tensor) -> tuple[Tensor, Tensor | None]:
        best = self.reduce(entries)  # (bags, channels)
        return best, entries.eq_(best[:, None]).sum(1)

    def _pool_shared(self, x: Tensor, bags: Bags) -> tuple[Tensor, Tensor]:
        of_process, ties_here = self._pool_here(x, bags)
        is_empty = (bags.of_bags.ptr.diff() == 0)[:, None]
        own = of_process.masked_fill(is_empty, self._worst)
        best = _over_rows(own, bags, "max" if self._is_max else "min")
        shared = (ties_here * (own == best)).masked_fill(is_empty, 0)
        ties = _over_rows(shared.to(x.dtype), bags)
        best = best.masked_fill((ties == 0) & (best == self._worst), 0)  # empty on all processes
        return best, ties

    def add_adjoint(
        self, d_x: Tensor, grad: Tensor, x: Tensor, pooled: tuple[Tensor, Tensor], bags: Bags
    ) -> None:
        best, ties = pooled
        _add_factored(d_x, x, bags, (best, grad / ties.clamp(min=1)), torch.eq)

    def _from_nodes(self, others: Tensor, kept: Tensor, bags: Bags) -> tuple[Tensor, Tensor] | None:
        if bags.num_structures != 1 or bags.node_slots is None or not bags.num_rows:
            return None
        counts = bags.of_others.ptr.diff()[:, None]  # (other bags, 1)
        of_slots = [self._at_slot(others, kept, counts, slot, bags) for slot in bags.node_slots]
        whole, ties = (torch.cat(parts) for parts in zip(*of_slots, strict=True))
        return whole, ties

    def _at_slot(
        self, others: Tensor, kept: Tensor, counts: Tensor, slot: NodeSlot, bags: Bags
    ) -> tuple[Tensor, Tensor]:
        """Return the extremum of all entries of an orbit, and how many share it."""
        # (nodes, channels)
        best, ties, count = (bags.at_nodes(v, slot) for v in (others, kept, counts))
        filled = best.masked_fill(count == 0, self._worst)
        whole = self._best(filled, [0])[None]
        if not bool(count.any()):  # an orbit without entries
            return torch.zeros_like(whole), torch.zeros_like(whole)
        return whole, ties.masked_fill(filled != whole, 0).sum(0, keepdim=True).div_(slot.size)

    def dense(self, bags: DenseBags) -> Tensor:
        filled = bags.filled_with(self._worst)
        best = self._best(filled, bags.axes) if bags.axes else filled
        return torch.where(bags.count() > 0, best, torch.zeros_like(best))


class Std(Aggregation):
    """The standard deviation of the present entries (population); 0 with gradient 0 where they are
    all equal.

    The entries are centred before they are squared: differences of large sums would lose all
    digits. Before that, one of them is taken from all: the mean of equal numbers need not be that
    number, but the mean of zeros is 0.
    """

    _keeps_more = True  # the mean

    def reduce(self, entries: Tensor) -> Tensor:
        return self._reduce_and_keep(entries.clone())[0]

    def _reduce_and_keep(self, entries: Tensor) -> tuple[Tensor, Tensor | None]:
        first = entries[:, :1].clone()  # (bags, 1, channels)
        mean = entries.sub_(first).mean(1)  # (bags, channels)
        return entries.sub_(mean[:, None]).square_().mean(1).sqrt_(), mean + first[:, 0]

    def _pool_shared(self, x: Tensor, bags: Bags) -> tuple[Tensor, Tensor]:
        members, ptr, _ = bags.of_bags
        is_filled = ptr.diff() > 0
        first = x.new_full((bags.num_bags, x.shape[1]), float("-inf"), dtype=wide_of(x.dtype))
        first[is_filled] = x[members[ptr[:-1][is_filled]]].to(first.dtype)
        first = _over_rows(first, bags, "max")  # one of the entries, on all processes
        first = first.masked_fill(first.isneginf(), 0)  # bags without entries
        sizes = _all_sizes(bags, first.dtype)
        mean = first + _over_rows(_moment(x, bags, first, 1), bags) / sizes
        variance = _over_rows(_moment(x, bags, mean, 2), bags) / sizes
        return variance.sqrt_().to(x.dtype), mean

    def add_adjoint(
        self, d_x: Tensor, grad: Tensor, x: Tensor, pooled: tuple[Tensor, Tensor], bags: Bags
    ) -> None:
        deviation, mean = pooled
        # (bags, channels): d std / d x = (x - mean) / (n std)
        scale = deviation * _all_sizes(bags, deviation.dtype)
        factor = torch.where(scale > 0, grad / scale.masked_fill(scale == 0, 1), 0)
        _add_factored(d_x, x, bags, (mean, factor), torch.sub)

    def dense(self, bags: DenseBags) -> Tensor:
        count = bags.count().clamp(min=1)
        variance = bags.sum(bags.centred(bags.sum() / count).square()) / count
        is_flat = variance == 0
        deviation = variance.masked_fill(is_flat, 1).sqrt()
        return torch.where(is_flat, torch.zeros_like(variance), deviation)


AGGREGATIONS: dict[str, Aggregation] = {}
_OURS: set[str] = set()


def register_aggregation(name: str, aggregation: Aggregation) -> None:
    """Make an aggregation available by name, for `aggr=` of layers and readouts made from now on.

    Args:
        name: An identifier. A name that you registered before is replaced, as when a notebook runs
            again.
        aggregation: An instance of a subclass of `Aggregation`. Of a single entry it must give that
            entry, or 0.

    Raises:
        IncidenceError: The name is one of the library's or no identifier, or `aggregation` breaks
            a rule of `Aggregation.reduce`.

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
            f"the aggregation {name!r} comes with the library, and saved runs refer to it: use"
            " another name."
        )
    if not isinstance(aggregation, Aggregation):
        raise IncidenceError(
            "an aggregation is an instance of a subclass of inc.nn.Aggregation; got"
            f" {aggregation!r}."
        )
    aggregation.name, aggregation.keeps_entry = name, _keeps_entry(name, aggregation)
    AGGREGATIONS[name] = aggregation


def _keeps_entry(name: str, aggregation: Aggregation) -> bool:
    """Return whether a bag of one entry gives that entry, and check the rules of `reduce`."""
    entry = torch.tensor([[[3.0, -2.0]]], dtype=torch.float64)
    alone = _reduced(name, aggregation, entry)
    if not torch.equal(alone, entry[0]) and bool(alone.any()):
        came = f"{alone.tolist()} of {entry[0].tolist()}"
        raise IncidenceError(
            f"of a single entry an aggregation gives that entry, or 0; {name!r} makes {came}."
        )
    values = [[[3.0], [-2.0], [-3.0], [0.5]], [[1.0], [4.0], [2.0], [-1.5]]]
    bags = torch.tensor(values, dtype=torch.float64)
    both = _reduced(name, aggregation, bags)
    each = torch.cat([_reduced(name, aggregation, bag[None]) for bag in bags])
    if not torch.allclose(both, each):
        raise IncidenceError(f"every bag is reduced on its own; {name!r} makes one of all of them.")
    if not torch.allclose(both, _reduced(name, aggregation, bags.flip(1))):
        raise IncidenceError(
            f"{name!r} depends on the order of the entries of a bag, so that no layer with it would"
            " be equivariant."
        )
    return bool(alone.any())


def _reduced(name: str, aggregation: Aggregation, entries: Tensor) -> Tensor:
    """Return what `reduce` makes of some bags, once its shape and type are checked."""
    reduced = aggregation.reduce(entries.clone())
    wanted = [len(entries), entries.shape[2]]
    came = type(reduced).__name__
    if isinstance(reduced, Tensor):
        if list(reduced.shape) == wanted and reduced.dtype == entries.dtype:
            return reduced
        came = f"{list(reduced.shape)} of {reduced.dtype}"
    raise IncidenceError(
        f"reduce of {name!r} turns (bags, entries each, channels) into (bags, channels): of"
        f" {list(entries.shape)} it must make {wanted} of {entries.dtype}, and made {came}."
    )


def assert_linear(aggregations: Sequence[Aggregation]) -> None:
    """Raise an error where an aggregation is not linear: it has no second derivative."""
    for aggregation in aggregations:
        if not isinstance(aggregation, LinearAggregation):
            known = (name for name, a in AGGREGATIONS.items() if isinstance(a, LinearAggregation))
            linear = " and ".join(map(repr, known))
            raise IncidenceError(
                f"aggr={aggregation.name!r} has no second derivative; {linear} have one."
            )


def as_aggregations(names: Sequence[str]) -> tuple[Aggregation, ...]:
    """Return aggregations by name."""
    return tuple(AGGREGATIONS[name] for name in names)


for _name, _aggregation in (
    ("sum", LinearAggregation(is_mean=False)),
    ("mean", LinearAggregation(is_mean=True)),
    ("max", Extremum(is_max=True)),
    ("min", Extremum(is_max=False)),
    ("std", Std()),
):
    register_aggregation(_name, _aggregation)
_OURS.update(AGGREGATIONS)
