r"""The dense twin: the same operations on complete structures by plain reductions and broadcasts. No index lists.

A tensor of a pattern with letters l_1 .. l_L is an array [batch, N, .., N, channels] with an axis for each letter. An orbit with m
nodes is read off along a diagonal as an array [batch, N, .., N, channels] with an axis for each node, of which only the positions
with different nodes count. This module shares no code with the sparse engine: each is the test of the other.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import factorial, prod

import torch
from torch import Tensor

__all__ = ["DenseOperation", "DenseOrbit", "broadcast", "pool", "read_orbit", "write_orbit"]


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


@dataclass(frozen=True)
class DenseOperation:
    """An operation: the orbits it joins and its overlap matrix."""

    source: DenseOrbit
    target: DenseOrbit
    overlap: tuple[tuple[int, ...], ...]


def _distinct(orbit: DenseOrbit, num_nodes: dict[str, int], device: torch.device) -> Tensor:
    """Where all nodes of one sort differ; shape [1, N, .., N, 1]."""
    size = len(orbit.sorts)
    is_fine = torch.ones((1,) * (size + 2), dtype=torch.bool, device=device)
    for p, q in combinations(range(size), 2):
        if orbit.sorts[p] == orbit.sorts[q]:
            is_fine = is_fine & (_axis(orbit, p, num_nodes, device) != _axis(orbit, q, num_nodes, device))
    shape = [1, *(num_nodes[sort] for sort in orbit.sorts), 1]
    return is_fine.expand(shape)


def _axis(orbit: DenseOrbit, p: int, num_nodes: dict[str, int], device: torch.device) -> Tensor:
    shape = [1] * (len(orbit.sorts) + 2)
    shape[p + 1] = num_nodes[orbit.sorts[p]]
    return torch.arange(shape[p + 1], device=device).view(shape)


def read_orbit(x: Tensor, orbit: DenseOrbit) -> Tensor:
    """The entries of an orbit with an axis for each node: a diagonal of x."""
    letters = [1 + node for node in orbit.placements[0]]
    last = len(orbit.sorts) + 1
    return torch.einsum(x, [0, *letters, last], [0, *range(1, last), last])


def write_orbit(y: Tensor, values: Tensor, orbit: DenseOrbit, num_nodes: dict[str, int]) -> Tensor:
    """Adds the entries of an orbit to y, at all their assignments."""
    values = values * _distinct(orbit, num_nodes, values.device)
    seen = set()
    for placement in orbit.placements:
        blocks = frozenset(frozenset(i for i, node in enumerate(placement) if node == n) for n in placement)
        if blocks in seen:  # exchanging nodes of one class gives the same positions
            continue
        seen.add(blocks)
        y = y + _on_letters(values, placement, y.shape[1:-1])
    return y


def _on_letters(values: Tensor, placement: Sequence[int], shape: Sequence[int]) -> Tensor:
    """Values of nodes as an array of letters: each node on the axis of its first letter, zero where its letters differ."""
    first = [placement.index(node) for node in range(values.ndim - 2)]
    order = sorted(range(len(first)), key=lambda node: first[node])
    moved = values.permute(0, *(1 + node for node in order), values.ndim - 1)
    view = [values.shape[0], *(n if i in first else 1 for i, n in enumerate(shape)), values.shape[-1]]
    spread = moved.reshape(view)
    for i, node in enumerate(placement):
        if i != first[node]:
            spread = spread * _equal(first[node], i, shape, values)
    return spread


def _equal(i: int, j: int, shape: Sequence[int], like: Tensor) -> Tensor:
    view = [1] * (len(shape) + 2)
    view[i + 1], view[j + 1] = shape[i], shape[j]
    return torch.eye(shape[i], dtype=like.dtype, device=like.device).view(view)


def pool(f: Tensor, operation: DenseOperation, aggr: str, num_nodes: dict[str, int]) -> Tensor:
    """The pooled values p(U), with an axis for each matched node, class by class; 0 where no entry contains them."""
    orbit, counts = operation.source, [sum(row) for row in operation.overlap]
    summed = [start + n for start, size, a in zip(orbit.starts, orbit.sizes, counts, strict=True) for n in range(a, size)]
    axes = [1 + node for node in summed]
    is_there = _distinct(orbit, num_nodes, f.device)
    repeats = prod(factorial(size - a) for size, a in zip(orbit.sizes, counts, strict=True))
    total = _reduce(f.masked_fill(~is_there, 0), axes)
    if aggr == "sum":
        return total / repeats
    count = _reduce(is_there.to(f.dtype), axes).expand_as(total)
    if aggr in ("max", "min"):
        worst = float("-inf") if aggr == "max" else float("inf")
        filled = f.masked_fill(~is_there, worst)
        best = (filled.amax(axes) if aggr == "max" else filled.amin(axes)) if axes else filled
        return torch.where(count > 0, best, torch.zeros_like(best))
    mean = total / count.clamp(min=1)
    if aggr == "mean":
        return mean
    centred = (f - _restore_axes(mean, axes)).masked_fill(~is_there, 0)
    variance = _reduce(centred.square(), axes) / count.clamp(min=1)
    is_flat = variance == 0
    return torch.where(is_flat, torch.zeros_like(variance), variance.masked_fill(is_flat, 1).sqrt())


def _reduce(f: Tensor, axes: Sequence[int]) -> Tensor:
    return f.sum(list(axes)) if axes else f


def _restore_axes(p: Tensor, axes: Sequence[int]) -> Tensor:
    for axis in sorted(axes):
        p = p.unsqueeze(axis)
    return p


def broadcast(p: Tensor, operation: DenseOperation, num_nodes: dict[str, int]) -> Tensor:
    """Spreads pooled values over the output orbit: the sum over all ways to find the matched nodes in an entry."""
    target = operation.target
    shape = [p.shape[0], *(num_nodes[sort] for sort in target.sorts), p.shape[-1]]
    out = torch.zeros(shape, dtype=p.dtype, device=p.device)
    for nodes in _choices(operation):
        order = sorted(range(len(nodes)), key=lambda i: nodes[i])
        moved = p.permute(0, *(1 + i for i in order), p.ndim - 1)
        view = [p.shape[0], *(n if i in nodes else 1 for i, n in enumerate(shape[1:-1])), p.shape[-1]]
        out = out + moved.reshape(view)
    return out


def _choices(operation: DenseOperation) -> Iterator[list[int]]:
    """The ways to choose disjoint sets V_ij of nodes in the output classes, as output nodes for the matched input nodes."""
    target = operation.target
    pairs = [(i, j, a) for i, row in enumerate(operation.overlap) for j, a in enumerate(row) if a]

    def extend(k: int, used: frozenset[int], chosen: list[tuple[int, ...]]) -> Iterator[list[int]]:
        if k == len(pairs):
            yield [node for nodes in chosen for node in nodes]
            return
        _, j, a = pairs[k]
        free = [target.starts[j] + n for n in range(target.sizes[j]) if target.starts[j] + n not in used]
        for nodes in combinations(free, a):
            yield from extend(k + 1, used | set(nodes), [*chosen, nodes])

    return extend(0, frozenset(), [])
