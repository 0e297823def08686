r"""Exact sums of colours: what pooling, reading and joins give, when every colour has a feature of
its own.

A *sum* is a vector of numbers, one for each colour (for products, one for each tuple of colours).
Rows with equal sums have equal *classes*, which are integers; class 0 is the empty sum. Equality is
decided by comparing the lists of terms. Random numbers only bring equal lists together: every
match is compared in full, so no result depends on them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from incidence.structure.ragged import expand, ranges, rank, rank_rows

__all__ = [
    "SumTable",
    "Sums",
    "Terms",
    "Vectors",
    "as_atoms",
    "as_sets",
    "atoms",
    "combine",
    "proportions",
    "same_lists",
    "terms_of",
]

_PRIME = 2**31 - 1  # products of two numbers below it fit into 8 bytes
_DRAWS = 2  # images of a class: different sums rarely have the same two


@dataclass(frozen=True, eq=False)
class Terms:
    """Which rows are multiplied, and to which target each product is added.

    Attributes:
        ptr: Where the terms of each target start, and the end.
        rows: For every factor its row of every term.
    """

    ptr: Tensor
    rows: tuple[Tensor, ...]

    @property
    def num_targets(self) -> int:
        """The number of targets."""
        return len(self.ptr) - 1

    @cached_property
    def targets(self) -> Tensor:
        """The target of every term."""
        numbers = torch.arange(self.num_targets)
        return numbers.repeat_interleave(self.ptr.diff(), output_size=len(self.rows[0]))

    @cached_property
    def lone(self) -> Tensor | None:
        """The row of the only term of every target, -1 where it has none.

        None if some target has two terms, or if terms have several factors.
        """
        counts = self.ptr.diff()
        if len(self.rows) > 1 or (len(counts) and int(counts.max()) > 1):
            return None
        lone = torch.full((self.num_targets,), -1)
        lone[counts > 0] = self.rows[0]
        return lone


def terms_of(targets: Tensor, rows: Sequence[Tensor], num_targets: int) -> Terms:
    """Return terms from their targets in any order."""
    order = targets.argsort(stable=True)
    ptr = ranges(torch.bincount(targets, minlength=num_targets))
    return Terms(ptr, tuple(column[order] for column in rows))


class Vectors(NamedTuple):
    """Sums written out, one after the other.

    Attributes:
        ptr: Where the colours of each sum start, and the end.
        colours: The colours, as classes of the innermost tables, a column for each factor.
        weights: Their numbers: integers, or `Fraction` objects.
    """

    ptr: Tensor
    colours: tuple[Tensor, ...]
    weights: np.ndarray[Any, Any]


@dataclass(frozen=True, eq=False)
class SumTable:
    """The sums of all classes.

    A class without sources is a colour. Any other class is a sum of products of classes of the
    sources.

    Attributes:
        num_classes: The number of classes, with class 0, the empty sum.
        sources: The tables of the factors.
        ptr: Where the terms of each class start, and the end.
        columns: For every factor its class in every term.
        weights: How often each term counts.
        totals: For proportions, what the weights of each class are divided by; else None.
        label: Whose colours these are, without sources.
        inner: The table whose classes are taken as colours, if they are not those of entries.
        seed: What the images of colours are drawn from.
    """

    num_classes: int
    sources: tuple[SumTable, ...] = ()
    ptr: Tensor | None = None
    columns: tuple[Tensor, ...] = ()
    weights: Tensor | None = None
    totals: Tensor | None = None
    label: object = None
    inner: SumTable | None = None
    seed: int = 0

    @property
    def leaves(self) -> tuple[SumTable, ...]:
        """The tables of the colours, one for each factor of a product."""
        if not self.sources:
            return (self,)
        return tuple(leaf for source in self.sources for leaf in source.leaves)

    @property
    def is_listed(self) -> bool:
        """Whether terms are colours, so that different lists are different sums."""
        return all(not source.sources for source in self.sources)

    @cached_property
    def images(self) -> Tensor:
        """A linear map of the sums to a few numbers, shape (classes, draws).

        Equal sums have equal images.
        """
        if not self.sources:
            draw = torch.Generator().manual_seed(self.seed)
            # (classes, draws)
            return torch.randint(1, _PRIME, (self.num_classes, _DRAWS), generator=draw)
        assert self.ptr is not None
        assert self.weights is not None
        terms = (self.weights % _PRIME)[:, None].expand(-1, _DRAWS)
        for source, column in zip(self.sources, self.columns, strict=True):
            # Reduced after every factor: the product of two numbers below the prime fits into 64
            # bits.
            terms = terms * source.images[column] % _PRIME
        owners = torch.arange(self.num_classes).repeat_interleave(self.ptr.diff())
        sums = torch.zeros(self.num_classes, _DRAWS, dtype=torch.long)
        sums = sums.index_add_(0, owners, terms) % _PRIME
        if self.totals is not None:
            sums = sums * _inverse(self.totals)[:, None] % _PRIME  # a division, modulo the prime
        return sums

    def take(self, classes: Tensor) -> SumTable:
        """Return the table of some classes, of which the first must be class 0."""
        assert self.ptr is not None
        assert self.weights is not None
        counts = self.ptr.diff()[classes]
        _, places = expand(self.ptr[classes], counts)
        return replace(
            self,
            num_classes=len(classes),
            ptr=ranges(counts),
            columns=tuple(column[places] for column in self.columns),
            weights=self.weights[places],
            totals=None if self.totals is None else self.totals[classes],
        )

    def vectors(self, classes: Tensor) -> Vectors:
        """Write out the sums of some classes: every colour once, in ascending order."""
        if not self.sources:
            ones = np.ones(len(classes), dtype=np.int64)
            return Vectors(torch.arange(len(classes) + 1), (classes,), ones)
        assert self.ptr is not None
        assert self.weights is not None
        owner, place = expand(self.ptr[classes], self.ptr.diff()[classes])
        weights = self.weights[place].numpy()
        if self.totals is not None:
            totals = self.totals[classes][owner].tolist()
            pairs = zip(weights.tolist(), totals, strict=True)
            # Fractions, as floats would call different means equal.
            weights = _objects([Fraction(weight, total) for weight, total in pairs])
        colours: list[Tensor] = []
        for source, column in zip(self.sources, self.columns, strict=True):
            needed, which = column[place].unique(return_inverse=True)
            inner = source.vectors(needed)
            # every term becomes one for each colour of its factor
            term, at = expand(inner.ptr[which], inner.ptr.diff()[which])
            owner, place = owner[term], place[term]
            weights = weights[term.numpy()] * inner.weights[at.numpy()]
            colours = [column[term] for column in colours]
            colours += [column[at] for column in inner.colours]
        return _collected(owner, colours, weights, len(classes))


def _objects(values: Sequence[object]) -> np.ndarray[Any, Any]:
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array


def _inverse(values: Tensor) -> Tensor:
    """Return the inverses of some numbers modulo the prime."""
    power, result = values % _PRIME, torch.ones_like(values)
    exponent = _PRIME - 2  # by Fermat, this power is the inverse
    while exponent:
        if exponent & 1:
            result = result * power % _PRIME
        power = power * power % _PRIME
        exponent >>= 1
    return result


def _collected(
    owner: Tensor, colours: Sequence[Tensor], weights: np.ndarray[Any, Any], num_owners: int
) -> Vectors:
    """Return vectors from terms in any order, whose weights are added up."""
    if not len(owner):
        return Vectors(torch.zeros(num_owners + 1, dtype=torch.long), tuple(colours), weights)
    columns = [owner, *colours]
    key, num_keys = rank_rows(columns, [int(column.max()) + 1 for column in columns])
    ordered, order = key.sort(stable=True)
    starts = torch.searchsorted(ordered, torch.arange(num_keys))
    sums = np.add.reduceat(weights[order.numpy()], starts.numpy())
    first = order[starts]
    ptr = ranges(torch.bincount(owner[first], minlength=num_owners))
    return Vectors(ptr, tuple(column[first] for column in colours), sums)


@dataclass(frozen=True, eq=False)
class Sums:
    """A sum for every row.

    Attributes:
        classes: The class of the sum of every row, shape (rows,).
        table: The sums of all classes.
    """

    classes: Tensor
    table: SumTable

    @property
    def num_classes(self) -> int:
        """The number of classes, with class 0."""
        return self.table.num_classes


def atoms(colours: Tensor, num_colours: int, label: object = None, seed: int = 0) -> Sums:
    """Return colours as sums: each is a sum of one colour.

    Args:
        colours: The colour of every row, from 0.
        num_colours: The number of colours.
        label: Whose colours these are.
        seed: Different for the factors of a product.
    """
    # 0 is the empty sum
    return Sums(colours + 1, SumTable(num_colours + 1, label=label, seed=seed))


def as_atoms(sums: Sums) -> Sums:
    """Return the classes of sums as colours: nothing is added up over them any more."""
    return Sums(sums.classes, SumTable(sums.num_classes, inner=sums.table))


def combine(terms: Terms, *factors: Sums) -> Sums:
    """Return the sums of all targets: over its terms, the products of the factors.

    Example:
        >>> colours = atoms(torch.tensor([0, 1, 0]), 2)
        >>> terms = Terms(torch.tensor([0, 2, 3, 5]), (torch.tensor([0, 1, 2, 1, 2]),))
        >>> one, two, three = combine(terms, colours).classes.tolist()
        >>> one == three, one == two
        (True, False)
    """
    if terms.lone is not None:
        [factor] = factors
        rows = terms.lone
        if not len(factor.classes):
            return Sums(torch.zeros_like(rows), factor.table)
        classes = factor.classes[rows.clamp(min=0)]
        return Sums(torch.where(rows >= 0, classes, 0), factor.table)
    columns = [f.classes[rows] for f, rows in zip(factors, terms.rows, strict=True)]
    targets = terms.targets
    # A product with an empty sum is 0, and says nothing.
    is_zero = torch.stack([column == 0 for column in columns]).any(0)
    if bool(is_zero.any()):
        columns, targets = [column[~is_zero] for column in columns], targets[~is_zero]
    sums = _listed(targets, columns, [f.table for f in factors], terms.num_targets)
    return sums if sums.table.is_listed else _merged(sums)


def _listed(
    targets: Tensor, columns: Sequence[Tensor], tables: Sequence[SumTable], num_targets: int
) -> Sums:
    """Return the lists of the terms of all targets, as sums."""
    codes, num_codes = rank_rows(columns, [table.num_classes for table in tables])
    example = torch.empty(num_codes, dtype=torch.long)
    example[codes] = torch.arange(len(codes))  # a row with each code; which one does not matter
    keys = torch.add(codes, targets, alpha=max(num_codes, 1))
    # ten times as fast as torch, which also returns the order
    keys = torch.from_numpy(np.sort(keys.numpy()))
    keys, counts = keys.unique_consecutive(return_counts=True)
    owners, codes = keys // max(num_codes, 1), keys % max(num_codes, 1)
    listed = tuple(column[example[codes]] for column in columns)
    ptr = ranges(torch.bincount(owners, minlength=num_targets))
    return _table_of(ptr, codes, listed, counts, tuple(tables))


def _table_of(
    ptr: Tensor,
    codes: Tensor,
    columns: tuple[Tensor, ...],
    weights: Tensor,
    sources: tuple[SumTable, ...],
    totals: Tensor | None = None,
) -> Sums:
    """Return sums from the list of every row: codes of terms, and how often each counts."""
    bounds = [int(values.max()) + 1 if len(values) else 1 for values in (codes, weights)]
    items, _ = rank_rows([codes, weights], bounds)
    classes, examples = same_lists(ptr, items)
    counts = ptr.diff()[examples]
    _, places = expand(ptr[examples], counts)
    table = SumTable(
        len(examples) + 1,
        sources,
        ranges(torch.cat([counts.new_zeros(1), counts])),
        tuple(column[places] for column in columns),
        weights[places],
        None if totals is None else torch.cat([totals.new_ones(1), totals[examples]]),
    )
    return Sums(classes, table)


def same_lists(ptr: Tensor, items: Tensor) -> tuple[Tensor, Tensor]:
    """Return which ascending lists of integers are equal.

    Lists are brought together by sums of random numbers. Then every list is compared with the
    first one of its class, item by item. If two of them differ, other numbers are drawn.

    Args:
        ptr: Where each list starts, and the end.
        items: The integers from 0, one list after the other.

    Returns:
        The class of every list, from 1, and 0 for an empty list; and one list of every class.
    """
    sizes = ptr.diff()
    filled = (sizes > 0).nonzero()[:, 0]
    classes = torch.zeros(len(sizes), dtype=torch.long)
    if not len(filled):
        return classes, filled
    num_items = int(items.max()) + 1
    for attempt in range(1_000):
        draw = torch.Generator().manual_seed(attempt)
        # sums of integers are exact modulo 2^64, in any order
        numbers = torch.randint(-(2**63), 2**63 - 1, (num_items,), generator=draw)
        sums = torch.cat([numbers.new_zeros(1), numbers[items].cumsum(0)])
        which, num_classes = rank((sums[ptr[1:]] - sums[ptr[:-1]])[filled])
        examples = filled.new_zeros(num_classes)
        examples[which.flip(0)] = filled.flip(0)  # the first list of every class stays
        if _are_equal(ptr, items, filled, examples[which]):
            classes[filled] = which + 1
            return classes, examples
    raise AssertionError("no numbers told different lists apart")


def _are_equal(ptr: Tensor, items: Tensor, lists: Tensor, others: Tensor) -> bool:
    """Return whether some lists equal other lists, one by one."""
    sizes = ptr.diff()
    if not torch.equal(sizes[lists], sizes[others]):
        return False
    _, one = expand(ptr[lists], sizes[lists])
    _, other = expand(ptr[others], sizes[lists])
    return torch.equal(items[one], items[other])


def _merged(sums: Sums) -> Sums:
    """Return the sums with one class for all lists that add up to the same.

    Different images are different sums. Sums with the same image are written out and compared.
    """
    table = sums.table
    images, num_images = rank_rows(list(table.images[1:].T), [_PRIME] * _DRAWS)
    shared = (torch.bincount(images, minlength=num_images) > 1)[images]
    candidates = shared.nonzero()[:, 0] + 1
    if not len(candidates):
        return sums
    vectors = table.vectors(candidates)
    columns = [*vectors.colours, _numbers(vectors.weights)]
    bounds = [int(column.max()) + 1 if len(column) else 1 for column in columns]
    items, _ = rank_rows(columns, bounds)
    which, examples = same_lists(vectors.ptr, items)
    # class 0 first: sums of nothing
    first = torch.cat([candidates.new_zeros(1), candidates[examples]])
    smallest = torch.arange(table.num_classes)
    smallest[candidates] = first[which]  # the first class with the same sum
    kept, classes = smallest.unique(return_inverse=True)
    return Sums(classes[sums.classes], table.take(kept))


def _numbers(weights: np.ndarray[Any, Any]) -> Tensor:
    """Return integers that are equal if weights are."""
    if weights.dtype != object:
        return rank(torch.from_numpy(weights))[0]
    places = {weight: number for number, weight in enumerate(sorted(set(weights.tolist())))}
    return torch.tensor([places[weight] for weight in weights.tolist()], dtype=torch.long)


def proportions(sums: Sums) -> Sums:
    """Return sums of colours divided by the number of their terms: means."""
    table = sums.table
    if not table.sources:
        return sums  # one colour each
    assert table.is_listed
    assert table.ptr is not None
    assert table.weights is not None
    weights, ptr = table.weights, table.ptr
    starts = ptr[:-1][ptr.diff() > 0]
    if not len(starts):
        return sums
    # Counts divided by their greatest common divisor: equal proportions become equal lists.
    divisors = torch.from_numpy(np.gcd.reduceat(weights.numpy(), starts.numpy()))
    sizes = ptr.diff()[ptr.diff() > 0]
    return _relisted(sums, weights // divisors.repeat_interleave(sizes), has_totals=True)


def as_sets(sums: Sums) -> Sums:
    """Return which colours occur, without their numbers, as sums in which each counts once."""
    table = sums.table
    if not table.sources:
        return sums  # one colour each
    assert table.is_listed
    assert table.weights is not None
    return _relisted(sums, torch.ones_like(table.weights), has_totals=False)


def _relisted(sums: Sums, weights: Tensor, has_totals: bool) -> Sums:
    """Return sums whose terms count differently."""
    table = sums.table
    assert table.ptr is not None
    totals = None
    if has_totals:
        owners = torch.arange(table.num_classes).repeat_interleave(table.ptr.diff())
        totals = torch.zeros(table.num_classes, dtype=torch.long).index_add_(0, owners, weights)
    bounds = [source.num_classes for source in table.sources]
    codes, _ = rank_rows(table.columns, bounds)
    known = _table_of(table.ptr, codes, table.columns, weights, table.sources, totals)
    return Sums(known.classes[sums.classes], known.table)
