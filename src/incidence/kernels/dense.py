r"""The dense twin: the same operations on complete structures by plain reductions and broadcasts. No index lists.

A tensor of a pattern with letters l_1 .. l_L is an array [batch, N, .., N, channels] with an axis for each letter. An orbit with m
nodes is read off along a diagonal as an array [batch, N, .., N, channels] with an axis for each node, of which only the positions
with different nodes count. Operations share what they can: a pooling is taken once, all products with one pooled array are one, and
what is spread over the same axes is added up before it is spread. This module shares no code with the sparse engine: each is the
test of the other.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import combinations
from math import factorial, prod

import torch
from torch import Tensor

__all__ = ["Choices", "DenseOrbit", "Overlap", "Source", "choices", "spread", "write_orbits"]

Overlap = tuple[tuple[int, ...], ...]
Choices = tuple[tuple[int, ...], ...]
"""Ways to put the axes of an array on output nodes."""


@dataclass(frozen=True)
class DenseOrbit:
    """An orbit of a dense tensor.

    Attributes:
        sizes: The number of nodes of each class.
        sorts: The sort of each node, class by class.
        placements: The ways to put the letters on the nodes: for every letter, the number of its node.
    """

    sizes: tuple[int, ...]
    sorts: tuple[str, ...]
    placements: tuple[tuple[int, ...], ...]

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
    is_fine = torch.ones((1,) * (len(shape) + 2), dtype=torch.bool, device=device)
    for p, q in combinations(range(len(shape)), 2):
        if orbit.sorts[p] == orbit.sorts[q]:
            is_fine = is_fine & (_axis(shape, p, device) != _axis(shape, q, device))
    return is_fine.expand(1, *shape, 1)


def _axis(shape: tuple[int, ...], p: int, device: torch.device) -> Tensor:
    view = [1] * (len(shape) + 2)
    view[p + 1] = shape[p]
    return torch.arange(shape[p], device=device).view(view)


class Source:
    """The entries of one orbit of a dense input, and what is pooled from them."""

    def __init__(self, x: Tensor, orbit: DenseOrbit, num_nodes: dict[str, int]) -> None:
        self._values = _on_diagonal(x, orbit.placements[0])
        self._orbit = orbit
        self._is_there = _distinct(orbit, num_nodes, x.device)
        self._pooled: dict[tuple[tuple[int, ...], str], Tensor] = {}

    @cached_property
    def _filled(self) -> Tensor:
        """The entries, with 0 where there is none."""
        same = [pair for pair in combinations(range(len(self._orbit.sorts)), 2) if len({self._orbit.sorts[p] for p in pair}) == 1]
        filled = self._values.clone() if same else self._values
        for p, q in same:  # faster than a mask
            filled.diagonal(dim1=1 + p, dim2=1 + q).zero_()
        return filled

    def pool(self, counts: tuple[int, ...], aggr: str) -> Tensor:
        """The pooled values p(U), with an axis for each matched node, class by class; 0 where no entry contains them.

        Args:
            counts: How many nodes of each class are matched.
            aggr: How entries become one value.
        """
        if (counts, aggr) not in self._pooled:
            self._pooled[counts, aggr] = self._pool(counts, aggr)
        return self._pooled[counts, aggr]

    def _pool(self, counts: Sequence[int], aggr: str) -> Tensor:
        orbit, is_there = self._orbit, self._is_there
        summed = [start + n for start, size, a in zip(orbit.starts, orbit.sizes, counts, strict=True) for n in range(a, size)]
        axes = [1 + node for node in summed]
        repeats = prod(factorial(size - a) for size, a in zip(orbit.sizes, counts, strict=True))
        total = _reduce(self._filled, axes)
        if aggr == "sum":
            return total / repeats if repeats > 1 else total
        count = _reduce(is_there.to(total.dtype), axes).expand_as(total)
        if not count.any():
            return torch.zeros_like(total)
        if aggr in ("max", "min"):
            worst = float("-inf") if aggr == "max" else float("inf")
            filled = self._values.masked_fill(~is_there, worst)
            best = (filled.amax(axes) if aggr == "max" else filled.amin(axes)) if axes else filled
            return torch.where(count > 0, best, torch.zeros_like(best))
        mean = total / count.clamp(min=1)
        if aggr == "mean":
            return mean
        centred = (self._values - _restore_axes(mean, axes)).masked_fill(~is_there, 0)
        variance = _reduce(centred.square(), axes) / count.clamp(min=1)
        is_flat = variance == 0
        return torch.where(is_flat, torch.zeros_like(variance), variance.masked_fill(is_flat, 1).sqrt())


def _reduce(f: Tensor, axes: Sequence[int]) -> Tensor:
    return f.sum(list(axes)) if axes else f


def _restore_axes(p: Tensor, axes: Sequence[int]) -> Tensor:
    for axis in sorted(axes):
        p = p.unsqueeze(axis)
    return p


def choices(overlap: Overlap, target: DenseOrbit) -> Choices:
    """The ways to choose disjoint sets V_ij of nodes in the output classes, as output nodes for the matched input nodes."""
    pairs = [(j, a) for row in overlap for j, a in enumerate(row) if a]

    def extend(k: int, used: frozenset[int], chosen: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
        if k == len(pairs):
            yield chosen
            return
        j, a = pairs[k]
        free = [target.starts[j] + n for n in range(target.sizes[j]) if target.starts[j] + n not in used]
        for nodes in combinations(free, a):
            yield from extend(k + 1, used | set(nodes), (*chosen, *nodes))

    return tuple(extend(0, frozenset(), ()))


def spread(terms: Sequence[tuple[Choices, Tensor]], orbit: DenseOrbit, shape: Sequence[int], like: Tensor) -> Tensor:
    """The sum of arrays that have axes for some of the nodes of an orbit, spread over the others.

    Args:
        terms: Arrays, each with the output nodes that its axes stand for, in one or several ways.
        orbit: The output orbit.
        shape: [batch, N, .., N, channels] of the sum.
        like: A tensor of the type of the sum.
    """
    # Whatever differs by an exchange of two nodes of one class is added up first: sums are then the same to the bit for both orders.
    by_nodes: dict[tuple[int, ...], Tensor] = {}
    for chosen, values in terms:
        own: dict[tuple[int, ...], Tensor] = {}
        for nodes in chosen:
            order = sorted(range(len(nodes)), key=lambda i: nodes[i])
            _add(own, tuple(sorted(nodes)), values.permute(0, *(1 + i for i in order), values.ndim - 1))
        for axes, part in own.items():
            _add(by_nodes, axes, part)
    by_class: dict[tuple[int, ...], Tensor] = {}
    for axes, part in by_nodes.items():
        view = part.reshape([part.shape[0], *(n if i in axes else 1 for i, n in enumerate(shape[1:-1])), shape[-1]])
        _add(by_class, tuple(orbit.labels[node] for node in axes), view)
    total = like.new_zeros((1,) * len(shape))
    for labels in sorted(by_class, key=lambda labels: (len(labels), labels)):
        part = by_class[labels]
        total = total.add_(part) if list(total.shape) == list(shape) else total + part
    return total.expand(*shape)


def _add(sums: dict[tuple[int, ...], Tensor], key: tuple[int, ...], value: Tensor) -> None:
    sums[key] = sums[key] + value if key in sums else value


def write_orbits(values: Sequence[tuple[DenseOrbit, Tensor]], like: Tensor, num_nodes: dict[str, int]) -> Tensor:
    """The output from the values of its orbits, each at all its assignments; 0 at positions that are none.

    Orbits with fewer nodes are written later, over the places where nodes of larger ones coincide.

    Args:
        values: The orbits and their values.
        like: An empty array of the shape of the output.
        num_nodes: Of every sort.
    """
    y: Tensor | None = None
    for orbit, value in sorted(values, key=lambda item: -len(item[0].sorts)):
        for placement in _different(orbit.placements):
            if y is None and len(set(placement)) == len(placement):
                y = value.permute(0, *(1 + node for node in placement), value.ndim - 1).contiguous()
                continue
            y = torch.zeros_like(like) if y is None else y
            _on_diagonal(y, placement).copy_(value)
    y = torch.zeros_like(like) if y is None else y
    no_entry = _no_entry(tuple(orbit for orbit, _ in values), tuple(num_nodes.items()), tuple(like.shape[1:-1]), like.device)
    return y if no_entry is None else y.masked_fill(no_entry, 0)


@lru_cache(maxsize=16)
@torch.inference_mode(False)
def _no_entry(
    orbits: tuple[DenseOrbit, ...], num_nodes: tuple[tuple[str, int], ...], shape: tuple[int, ...], device: torch.device
) -> Tensor | None:
    """The positions that are no assignment of any entry, shape [1, N, .., N, 1]; None if there is none."""
    is_entry = torch.zeros(1, *shape, 1, dtype=torch.bool, device=device)
    for orbit in orbits:
        for placement in _different(orbit.placements):
            spots = _on_diagonal(is_entry, placement)
            spots |= _distinct(orbit, dict(num_nodes), device)
    return None if bool(is_entry.all()) else ~is_entry


def _different(placements: Sequence[tuple[int, ...]]) -> Iterator[tuple[int, ...]]:
    """One of all placements that give the same positions, which is when nodes of one class are exchanged."""
    seen = set()
    for placement in placements:
        blocks = frozenset(frozenset(i for i, node in enumerate(placement) if node == n) for n in placement)
        if blocks not in seen:
            seen.add(blocks)
            yield placement


def _on_diagonal(y: Tensor, placement: Sequence[int]) -> Tensor:
    """The positions of an array of letters at which letters on one node agree, with an axis for each node; a view."""
    last = len(set(placement)) + 1
    return torch.einsum(y, [0, *(1 + node for node in placement), last], [0, *range(1, last), last])
