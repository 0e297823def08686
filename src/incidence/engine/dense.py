r"""The dense twin: the same operations on complete structures by plain reductions and broadcasts.
No index lists.

A tensor of a pattern with letters l_1 .. l_L is an array [batch, N, .., N, channels] with an axis
for each letter. An orbit with m nodes is read off along a diagonal as an array [batch, N, .., N,
channels] with an axis for each node, of which only the positions with different nodes count.
Operations share what they can: a pooling is taken once, all products with one pooled array are one,
and what is spread over the same axes is added up before it is spread. This module shares no code
with the sparse engine: each is the test of the other.

With oriented faces every assignment holds its value with its sign (docs/math.md section 16). The
array of an orbit then alternates along the axes of an odd class, and its unmatched nodes come
first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations, pairwise
from math import factorial, prod

import torch
from torch import Tensor

__all__ = [
    "Choices",
    "DenseBags",
    "DenseOrbit",
    "Overlap",
    "choices",
    "spread",
    "write_orbits",
]

Overlap = tuple[tuple[int, ...], ...]
Choices = tuple[tuple[tuple[int, ...], int], ...]
"""Ways to put the axes of an array on output nodes, each with its sign."""


@dataclass(frozen=True)
class DenseOrbit:
    """An orbit of a dense tensor.

    Attributes:
        sizes: The number of nodes of each class.
        sorts: The sort of each node, class by class.
        placements: The ways to put the letters on the nodes: for every letter, the number of its
            node.
        signs: The sign of every placement: by which an assignment differs from the nodes in their
            order.
        odd: Whether each class is odd.
    """

    sizes: tuple[int, ...]
    sorts: tuple[str, ...]
    placements: tuple[tuple[int, ...], ...]
    signs: tuple[int, ...]
    odd: tuple[bool, ...]

    @property
    def starts(self) -> tuple[int, ...]:
        """The first node of each class."""
        return tuple(sum(self.sizes[:i]) for i in range(len(self.sizes)))

    @property
    def labels(self) -> tuple[int, ...]:
        """The class of each node."""
        return tuple(label for label, size in enumerate(self.sizes) for _ in range(size))


def _distinct(orbit: DenseOrbit, num_nodes: dict[str, int], device: torch.device) -> Tensor:
    """Where all nodes of one sort differ; shape [1, N, .., N, 1]."""
    return _mask(orbit, tuple(num_nodes[sort] for sort in orbit.sorts), device)


@lru_cache(maxsize=16)
@torch.inference_mode(False)
def _mask(orbit: DenseOrbit, shape: tuple[int, ...], device: torch.device) -> Tensor:
    is_fine = torch.ones((), dtype=torch.bool, device=device)
    for p, q in combinations(range(len(shape)), 2):
        if orbit.sorts[p] == orbit.sorts[q]:
            is_fine = is_fine & (_axis(shape, p, device) != _axis(shape, q, device))
    return is_fine.expand(1, *shape, 1)  # [1, N, .., N, 1]


def _axis(shape: tuple[int, ...], p: int, device: torch.device) -> Tensor:
    view = [1] * (len(shape) + 2)
    view[p + 1] = shape[p]
    return torch.arange(shape[p], device=device).view(view)


class DenseBags:
    """The entries of one orbit of a dense input, in bags: one for every choice of matched nodes.

    They are made with all nodes matched, so that every entry is a bag of its own. `matching` gives
    the bags of fewer nodes.

    Args:
        x: The dense input, [batch, an axis for each letter, channels].
        orbit: The orbit.
        num_nodes: Of every sort.
    """

    def __init__(self, x: Tensor, orbit: DenseOrbit, num_nodes: dict[str, int]) -> None:
        # [batch, an axis for each node, channels]
        self._values = _signed(_on_diagonal(x, orbit.placements[0]), orbit.signs[0])
        self._is_there = _distinct(orbit, num_nodes, x.device)
        self._filled = _without_diagonals(self._values, orbit.sorts)
        self._orbit = orbit
        self._unmatched: list[list[int]] = [[] for _ in orbit.sizes]  # nodes of every class
        self._pooled: dict[tuple[tuple[int, ...], DensePooling], Tensor] = {}

    def matching(self, counts: Sequence[int]) -> DenseBags:
        """Return the bags of all choices of so many matched nodes of each class."""
        bags, orbit = copy(self), self._orbit
        bags._unmatched = [
            [start + n for n in range(size - a)]
            for start, size, a in zip(orbit.starts, orbit.sizes, counts, strict=True)
        ]
        return bags

    def pool(self, counts: tuple[int, ...], pooling: DensePooling) -> Tensor:
        """The pooled values p(U), with an axis for each matched node, class by class; 0 where no
        entry contains them.

        Args:
            counts: How many nodes of each class are matched.
            pooling: How the entries of bags become one value.
        """
        if (counts, pooling) not in self._pooled:
            bags = self.matching(counts)
            self._pooled[counts, pooling] = pooling(bags) if bags.has_entries else bags.sum()
        return self._pooled[counts, pooling]

    @property
    def axes(self) -> list[int]:
        """The axes of the nodes that are not matched, along which entries become one value."""
        return [1 + node for nodes in self._unmatched for node in nodes]

    @property
    def repeats(self) -> int:
        """How often every entry of a bag stands there: once for each order of the nodes of a
        class.
        """
        return prod(factorial(len(nodes)) for nodes in self._unmatched)

    @property
    def has_entries(self) -> bool:
        """Whether any bag has an entry."""
        return bool(self._is_there.any())

    def sum(self, values: Tensor | None = None) -> Tensor:
        """The sum over the entries of every bag, of their values or of others that are 0 where
        there is no entry.
        """
        # [batch, matched nodes, channels]
        total = _reduce(self._filled if values is None else values, self.axes)
        return total / self.repeats if self.repeats > 1 else total

    def count(self) -> Tensor:
        """The number of entries of every bag, [1, an axis for each matched node, 1]."""
        return self.sum(self._is_there.to(self._values.dtype))

    def filled_with(self, value: float) -> Tensor:
        """The entries, with a value where there is none."""
        return self._values.masked_fill(~self._is_there, value)

    def centred(self, mean: Tensor) -> Tensor:
        """The entries less a value of their bag; 0 where there is none."""
        for axis in sorted(self.axes):
            mean = mean.unsqueeze(axis)
        return (self._values - mean).masked_fill(~self._is_there, 0)

    def reduce(self, function: Callable[[Tensor], Tensor]) -> Tensor:
        """Any function from (bags, entries each, channels) to (bags, channels) of the entries of
        every bag, each of them once.
        """
        is_first = self._is_there
        shape = is_first.shape[1:-1]
        for nodes in self._unmatched:
            for p, q in pairwise(nodes):
                is_first = is_first & (
                    _axis(shape, p, is_first.device) < _axis(shape, q, is_first.device)
                )
        kept = [axis for axis in range(1, 1 + len(shape)) if axis not in self.axes]
        order = [0, *kept, *self.axes, 1 + len(shape)]  # batch, matched nodes, others, channels
        sizes = [shape[axis - 1] for axis in kept]
        values = self._filled.permute(order)
        # [batch, kept nodes, others, channels]
        values = values.reshape(len(values), *sizes, -1, values.shape[-1])
        listed = is_first.permute(order).reshape(1, *sizes, -1)  # [1, kept nodes, others]
        # [1, kept nodes]: as many for all choices of different nodes, and none for others
        count = listed.sum(-1)
        where = listed.to(torch.uint8).argsort(dim=-1, descending=True, stable=True)[
            ..., : int(count.max()), None
        ]
        # [batch, kept nodes, entries, channels]
        entries = values.gather(-2, where.expand(*values.shape[:-2], -1, values.shape[-1]))
        is_filled = (count > 0).expand(values.shape[:-2])
        found = values.new_zeros(*values.shape[:-2], values.shape[-1])
        return found.index_put(is_filled.nonzero(as_tuple=True), function(entries[is_filled]))


DensePooling = Callable[[DenseBags], Tensor]
"""How bags become one value each: [batch, an axis for each matched node, channels]."""


def _without_diagonals(values: Tensor, sorts: Sequence[str]) -> Tensor:
    """Return values with 0 where nodes of one sort coincide: there is no entry."""
    same = [(p, q) for p, q in combinations(range(len(sorts)), 2) if sorts[p] == sorts[q]]
    filled = values.clone() if same else values
    for p, q in same:  # faster than a mask
        filled.diagonal(dim1=1 + p, dim2=1 + q).zero_()
    return filled


def _signed(x: Tensor, sign: int) -> Tensor:
    return x if sign > 0 else -x


def _reduce(f: Tensor, axes: Sequence[int]) -> Tensor:
    return f.sum(list(axes)) if axes else f


def choices(overlap: Overlap, target: DenseOrbit) -> Choices:
    """The ways to choose disjoint sets V_ij of nodes in the output classes, as output nodes for the
    matched input nodes.

    The sign is that of bringing the nodes of every odd output class into the order "those not
    chosen, then V_1j, V_2j, ...".
    """
    pairs = [(j, a) for row in overlap for j, a in enumerate(row) if a]

    def extend(k: int, used: frozenset[int], chosen: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
        if k == len(pairs):
            yield chosen
            return
        j, a = pairs[k]
        free = [
            target.starts[j] + n for n in range(target.sizes[j]) if target.starts[j] + n not in used
        ]
        for nodes in combinations(free, a):
            yield from extend(k + 1, used | set(nodes), (*chosen, *nodes))

    return tuple(
        (nodes, _order_sign(overlap, target, nodes)) for nodes in extend(0, frozenset(), ())
    )


def _order_sign(overlap: Overlap, target: DenseOrbit, nodes: Sequence[int]) -> int:
    # the output class of every matched node
    into = [j for row in overlap for j, a in enumerate(row) for _ in range(a)]
    sign = 1
    for j, (start, size) in enumerate(zip(target.starts, target.sizes, strict=True)):
        chosen = [node for node, label in zip(nodes, into, strict=True) if label == j]
        order = [node for node in range(start, start + size) if node not in chosen] + chosen
        if target.odd[j] and sum(one > other for one, other in combinations(order, 2)) % 2:
            sign = -sign
    return sign


def spread(
    terms: Sequence[tuple[Choices, Tensor]], orbit: DenseOrbit, shape: Sequence[int], like: Tensor
) -> Tensor:
    """The sum of arrays that have axes for some of the nodes of an orbit, spread over the others.

    Args:
        terms: Arrays, each with the output nodes that its axes stand for, in one or several ways.
        orbit: The output orbit.
        shape: [batch, N, .., N, channels] of the sum.
        like: A tensor of the type of the sum.
    """
    # Whatever differs by an exchange of two nodes of one class is added up first: sums are then the
    # same to the bit for both orders.
    by_nodes: dict[tuple[int, ...], Tensor] = {}
    for chosen, values in terms:
        of_term: dict[tuple[int, ...], Tensor] = {}
        for nodes, sign in chosen:
            order = sorted(range(len(nodes)), key=lambda i: nodes[i])
            _add(
                of_term,
                tuple(sorted(nodes)),
                _signed(values.permute(0, *(1 + i for i in order), values.ndim - 1), sign),
            )
        for axes, part in of_term.items():
            _add(by_nodes, axes, part)
    by_class: dict[tuple[int, ...], Tensor] = {}
    for axes, part in by_nodes.items():
        view = part.reshape(
            [part.shape[0], *(n if i in axes else 1 for i, n in enumerate(shape[1:-1])), shape[-1]]
        )
        _add(by_class, tuple(orbit.labels[node] for node in axes), view)
    total = like.new_zeros((1,) * len(shape))
    for labels in sorted(by_class, key=lambda labels: (len(labels), labels)):
        part = by_class[labels]
        total = total.add_(part) if list(total.shape) == list(shape) else total + part
    return total.expand(*shape)  # axes of size 1 are those of nodes that no term has


def _add(sums: dict[tuple[int, ...], Tensor], key: tuple[int, ...], value: Tensor) -> None:
    sums[key] = sums[key] + value if key in sums else value


def write_orbits(
    values: Sequence[tuple[DenseOrbit, Tensor]], like: Tensor, num_nodes: dict[str, int]
) -> Tensor:
    """The output from the values of its orbits, each at all its assignments; 0 at positions that
    are none.

    Orbits with fewer nodes are written later, over the places where nodes of larger ones coincide.

    Args:
        values: The orbits and their values.
        like: An empty array of the shape of the output.
        num_nodes: Of every sort.
    """
    y: Tensor | None = None
    for orbit, value in sorted(values, key=lambda item: -len(item[0].sorts)):
        for placement in _different(orbit.placements):
            signed = _signed(value, orbit.signs[orbit.placements.index(placement)])
            if y is None and len(set(placement)) == len(placement):
                y = signed.permute(
                    0, *(1 + node for node in placement), value.ndim - 1
                ).contiguous()
                continue
            y = torch.zeros_like(like) if y is None else y
            _on_diagonal(y, placement).copy_(signed)
    y = torch.zeros_like(like) if y is None else y
    no_entry = _no_entry(
        tuple(orbit for orbit, _ in values),
        tuple(num_nodes.items()),
        tuple(like.shape[1:-1]),
        like.device,
    )
    return y if no_entry is None else y.masked_fill(no_entry, 0)


@lru_cache(maxsize=16)
@torch.inference_mode(False)
def _no_entry(
    orbits: tuple[DenseOrbit, ...],
    num_nodes: tuple[tuple[str, int], ...],
    shape: tuple[int, ...],
    device: torch.device,
) -> Tensor | None:
    """The positions that are no assignment of any entry, shape [1, N, .., N, 1]; None if there is
    none.
    """
    is_entry = torch.zeros(1, *shape, 1, dtype=torch.bool, device=device)
    for orbit in orbits:
        for placement in _different(orbit.placements):
            spots = _on_diagonal(is_entry, placement)
            spots |= _distinct(orbit, dict(num_nodes), device)
    return None if bool(is_entry.all()) else ~is_entry


def _different(placements: Sequence[tuple[int, ...]]) -> Iterator[tuple[int, ...]]:
    """One of all placements that give the same positions, which is when nodes of one class are
    exchanged; signs follow by themselves.
    """
    seen = set()
    for placement in placements:
        blocks = frozenset(
            frozenset(i for i, node in enumerate(placement) if node == n) for n in placement
        )
        if blocks not in seen:
            seen.add(blocks)
            yield placement


def _on_diagonal(y: Tensor, placement: Sequence[int]) -> Tensor:
    """The positions of an array of letters at which letters on one node agree, with an axis for
    each node; a view.
    """
    last = len(set(placement)) + 1
    return torch.einsum(y, [0, *(1 + node for node in placement), last], [0, *range(1, last), last])
