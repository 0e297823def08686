r"""The one engine behind every layer: write to subsets, one product for each level, read from subsets.

With $P_k$ the pooled rows of the keys of level k, words side by side,

    P_k = pool of X over (entry, key, word)            (keys, words x channels)
    Z_k = sum over input orbits of P_k @ Big_k         Big_k[u, w] = weight of the operation that the words u, w determine
    Y   = sum over k of Z_k read back over (entry, key, word)

An orbit that meets itself needs no key for all its nodes: entries on one node set lie side by side, and those operations are a
product of blocks of rows. Backward is the same with Big transposed and the two sides swapped; every adjoint is written out, as
torch's own are several times slower.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from incidence.kernels.aggregate import AGGREGATIONS, gather, pool_sum
from incidence.kernels.bags import bag_sum, transposed_product
from incidence.structure.lists import OrbitPlan

__all__ = ["Program", "Side", "Table", "Term", "apply", "run", "run_backward", "slices"]

_BLOCK = 1 << 19  # floats of the output that are made at a time: small enough to stay in the cache


class Table:
    """The operation that every pair of words means, as rows of a weight; -1 where the layer has none."""

    def __init__(self, operations: Tensor) -> None:
        self.operations = operations
        self.shape = operations.shape[0], operations.shape[1]
        self.flat = operations.flatten()
        self.is_full = bool((operations >= 0).all())
        self.present = (self.flat >= 0).nonzero()[:, 0]
        self.single = int(self.flat[0]) if self.flat.numel() == 1 and self.is_full else None

    def big(self, weight: Tensor) -> Tensor:
        """The matrix of a level, (words x in, words x out), from a weight (operations, in, out)."""
        if self.single is not None:
            return weight[self.single]
        (rows, cols), (num_in, num_out) = self.shape, weight.shape[1:]
        if self.is_full:
            blocks = weight.index_select(0, self.flat)
        else:
            blocks = weight.new_zeros(rows * cols, num_in, num_out)
            blocks[self.present] = weight.index_select(0, self.flat[self.present])
        return blocks.view(rows, cols, num_in, num_out).permute(0, 2, 1, 3).reshape(rows * num_in, cols * num_out)

    def add_adjoint(self, d_weight: Tensor, d_big: Tensor) -> None:
        """Adds the gradient of the matrix to that of the weight."""
        if self.single is not None:
            d_weight[self.single] += d_big
            return
        (rows, cols), (num_in, num_out) = self.shape, d_weight.shape[1:]
        blocks = d_big.view(rows, num_in, cols, num_out).permute(0, 2, 1, 3).reshape(rows * cols, num_in, num_out)
        if self.is_full:
            d_weight.index_add_(0, self.flat, blocks)
        else:
            d_weight.index_add_(0, self.flat[self.present], blocks[self.present])


@dataclass(frozen=True)
class Side:
    """A tensor of the input or the output: its rows in canonical order (None if they are), and the lists of its orbits."""

    order: Tensor | None
    num_entries: int
    orbits: tuple[OrbitPlan, ...]


@dataclass(frozen=True)
class Term:
    """All operations between two orbits.

    Attributes:
        source, target: (tensor, orbit) on either side.
        weight: Which weight holds the operations.
        levels: For every level that both have: its place in the lists of either, and the operation of every pair of words.
        blocks: Where the two are the same entries: for every mask, the operation of every pair of words; else None.
    """

    source: tuple[int, int]
    target: tuple[int, int]
    weight: int
    levels: tuple[tuple[int, int, Table], ...]
    blocks: tuple[Table, ...] | None


@dataclass(frozen=True)
class Program:
    """What to do: the sides, the terms and the aggregations."""

    inputs: tuple[Side, ...]
    outputs: tuple[Side, ...]
    terms: tuple[Term, ...]
    aggr: tuple[str, ...]


Rows = tuple[Tensor, Tensor]
"""The rows of all bags of an orbit: those of structures, and the others."""
Pooled = list[list[list[tuple[Tensor, Tensor, Tensor]]]]
"""The pooled rows by aggregation, input tensor and orbit; each with what the adjoint needs besides."""


def apply(program: Program, xs: Sequence[Tensor], weights: Sequence[Tensor], biases: Sequence[Tensor | None]) -> list[Tensor]:
    """The outputs of a layer.

    Args:
        program: What to do.
        xs: The inputs, (entries, channels) each.
        weights: (aggregations, operations, in, out) each.
        biases: (orbits, out) for every output, or None.
    """
    return list(_Layer.apply(program, len(xs), len(weights), *xs, *weights, *biases))  # type: ignore[no-untyped-call]


def run(
    program: Program, xs: Sequence[Tensor], weights: Sequence[Tensor], biases: Sequence[Tensor | None]
) -> tuple[list[Tensor], list[Tensor], Pooled]:
    """The outputs; with the inputs in canonical order and the pooled rows, which backward needs."""
    arranged = [_arrange(x, side) for x, side in zip(xs, program.inputs, strict=True)]
    pooled = _pool(program, arranged)
    ys = [_output(program, t, arranged, pooled, weights, biases[t]) for t in range(len(program.outputs))]
    return ys, arranged, pooled


def run_backward(
    program: Program, xs: Sequence[Tensor], weights: Sequence[Tensor], grads: Sequence[Tensor], has_bias: Sequence[bool]
) -> tuple[list[Tensor | None], list[Tensor], list[Tensor | None]]:
    """The gradients of the inputs, weights and biases, from the inputs alone: the pooled rows are made again."""
    arranged = [_arrange(x, side) for x, side in zip(xs, program.inputs, strict=True)]
    return _backward(program, arranged, _pool(program, arranged), weights, grads, [True] * len(xs), has_bias)


class _Layer(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, program: Program, num_inputs: int, num_weights: int, *tensors: Any) -> tuple[Tensor, ...]:
        xs, weights = tensors[:num_inputs], tensors[num_inputs : num_inputs + num_weights]
        biases = tensors[num_inputs + num_weights :]
        ys, arranged, pooled = run(program, xs, weights, biases)
        ctx.program, ctx.num_inputs, ctx.num_weights = program, num_inputs, num_weights
        ctx.has_bias = [b is not None for b in biases]
        ctx.save_for_backward(*arranged, *weights, *(part for a in pooled for x in a for parts in x for part in parts))
        return tuple(ys)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Any, ...]:
        program: Program = ctx.program
        saved = ctx.saved_tensors
        arranged, weights = saved[: ctx.num_inputs], saved[ctx.num_inputs : ctx.num_inputs + ctx.num_weights]
        flat = iter(saved[ctx.num_inputs + ctx.num_weights :])
        pooled: Pooled = [[[(next(flat), next(flat), next(flat)) for _ in side.orbits] for side in program.inputs] for _ in program.aggr]
        needs_x = list(ctx.needs_input_grad[3 : 3 + ctx.num_inputs])
        d_xs, d_weights, d_biases = _backward(program, arranged, pooled, weights, grads, needs_x, ctx.has_bias)
        return None, None, None, *d_xs, *d_weights, *d_biases


def _arrange(x: Tensor, side: Side) -> Tensor:
    x = x.contiguous()
    return x if side.order is None else x.index_select(0, side.order)


def _restore(y: Tensor, side: Side) -> Tensor:
    return y if side.order is None else torch.empty_like(y).index_copy_(0, side.order, y)


def _pool(program: Program, xs: Sequence[Tensor]) -> Pooled:
    sides = list(zip(xs, program.inputs, strict=True))
    return [[[AGGREGATIONS[name].pool(_rows(x, o), o) for o in side.orbits] for x, side in sides] for name in program.aggr]


def _rows(x: Tensor, lists: OrbitPlan) -> Tensor:
    """The rows of an orbit; a view."""
    return x if lists.stop - lists.start == x.shape[0] else x[lists.start : lists.stop]


def _level(rows: Sequence[Tensor], lists: OrbitPlan, at: int, channels: int) -> Tensor:
    """The rows of one level as a matrix of keys by (words x channels); a view."""
    start, stop = lists.offsets[at], lists.offsets[at + 1]
    part = rows[0] if at == 0 else rows[1][start - lists.offsets[1] : stop - lists.offsets[1]]
    return part.view(-1, lists.num_slots[at] * channels)


def _products(lists: OrbitPlan, channels: int, like: Tensor, factors: Iterable[tuple[int, Tensor, Tensor]]) -> Tensor:
    """What the bags of an orbit hold: for every level the sum of the products of the given factors (level, a, b)."""
    z = like.new_empty(lists.offsets[-1], channels)
    is_started = [False] * len(lists.levels)
    for at, a, b in factors:
        out = z[lists.offsets[at] : lists.offsets[at + 1]].view(-1, lists.num_slots[at] * channels)
        if is_started[at]:
            out.addmm_(a, b)
        else:
            torch.mm(a, b, out=out)
        is_started[at] = True
    for at, started in enumerate(is_started):
        if not started:
            z[lists.offsets[at] : lists.offsets[at + 1]] = 0
    return z


Block = tuple[int, int, int, Tensor]
"""Rows that are multiplied as they lie side by side: start, stop, how many at a time, and the matrix."""


def _spread(out: Tensor, z: Tensor | None, lists: OrbitPlan, x: Tensor | None, blocks: Iterable[Block]) -> None:
    """Sets every entry of out to the sum of its bags, if there are any, plus the products of the rows of x side by side."""
    channels, done = out.shape[1], 0
    for start, stop, words, matrix in blocks:
        assert x is not None
        step = max(1, _BLOCK // (words * channels)) * words
        for a in range(start, stop, step):
            b = min(a + step, stop)
            torch.mm(x[a:b].view(-1, matrix.shape[0]), matrix, out=out[a:b].view(-1, matrix.shape[1]))
            if z is not None:
                out[a:b] += _gather_part(z, lists, a, b)
        done = stop
    if done == 0 and out.shape[0]:
        out.copy_(gather(z, lists)) if z is not None else out.zero_()


def _gather_part(z: Tensor, lists: OrbitPlan, start: int, stop: int) -> Tensor:
    """The sums of the bags of some entries; all entries have the same number of bags."""
    width = lists.read.shape[0] // (lists.stop - lists.start)
    return bag_sum(z, lists.read[start * width : stop * width], lists.read_ptr[: stop - start + 1])


def slices(lists: OrbitPlan, term: Term) -> Iterator[tuple[int, int, int, Table]]:
    """The rows of every mask: start, stop, how many entries a set has, and their operations."""
    start = 0
    for mask, num_sets, table in zip(lists.masks, lists.num_sets, term.blocks or (), strict=term.blocks is not None):
        stop = start + num_sets * len(mask)
        yield start, stop, len(mask), table
        start = stop


def _own_weight(program: Program, weight: Tensor) -> Tensor:
    """The weight of a match of all nodes: a bag of one entry is the entry itself, but for the spread, which is 0."""
    kept = [number for number, name in enumerate(program.aggr) if name != "std"]
    return weight[kept].sum(0) if len(kept) != 1 else weight[kept[0]]


def _output(program: Program, t: int, xs: Sequence[Tensor], pooled: Pooled, weights: Sequence[Tensor], bias: Tensor | None) -> Tensor:
    side = program.outputs[t]
    into = [term for term in program.terms if term.target[0] == t]
    like = weights[into[0].weight]
    y = like.new_empty(side.num_entries, like.shape[-1])
    for b, lists in enumerate(side.orbits):
        terms = [term for term in into if term.target[1] == b]
        z = _products(lists, y.shape[1], like, _forward_factors(program, terms, pooled, weights))
        if bias is not None:
            z[: lists.offsets[1]] += bias[b]  # every entry reads its structure once
        own = next((term for term in terms if term.blocks is not None), None)
        if own is None:
            _spread(_rows(y, lists), z, lists, None, ())
            continue
        weight = _own_weight(program, weights[own.weight])
        x = _rows(xs[own.source[0]], program.inputs[own.source[0]].orbits[own.source[1]])
        _spread(_rows(y, lists), z, lists, x, ((i, j, n, table.big(weight)) for i, j, n, table in slices(lists, own)))
    return _restore(y, side)


def _forward_factors(
    program: Program, terms: Sequence[Term], pooled: Pooled, weights: Sequence[Tensor]
) -> Iterator[tuple[int, Tensor, Tensor]]:
    for term in terms:
        (s, a), weight = term.source, weights[term.weight]
        for i, j, table in term.levels:
            for number in range(len(program.aggr)):
                yield j, _level(pooled[number][s][a], program.inputs[s].orbits[a], i, weight.shape[2]), table.big(weight[number])


def _backward(
    program: Program,
    xs: Sequence[Tensor],
    pooled: Pooled,
    weights: Sequence[Tensor],
    grads: Sequence[Tensor],
    needs_x: Sequence[bool],
    has_bias: Sequence[bool],
) -> tuple[list[Tensor | None], list[Tensor], list[Tensor | None]]:
    arranged = [_arrange(g, side) for g, side in zip(grads, program.outputs, strict=True)]
    read = [[pool_sum(_rows(g, o), o) for o in side.orbits] for g, side in zip(arranged, program.outputs, strict=True)]
    d_weights = [torch.zeros_like(w) for w in weights]
    for term in program.terms:
        _weight_gradient(program, term, xs, pooled, arranged, read, d_weights[term.weight])
    d_xs = [_input_gradient(program, s, xs[s], pooled, weights, arranged, read) if need else None for s, need in enumerate(needs_x)]
    d_biases = [torch.stack([q[0].sum(0) for q in read[t]]) if has else None for t, has in enumerate(has_bias)]
    return d_xs, d_weights, d_biases


def _weight_gradient(
    program: Program,
    term: Term,
    xs: Sequence[Tensor],
    pooled: Pooled,
    grads: Sequence[Tensor],
    read: list[list[Rows]],
    d_weight: Tensor,
) -> None:
    (s, a), (t, b) = term.source, term.target
    source, target = program.inputs[s].orbits[a], program.outputs[t].orbits[b]
    num_in, num_out = d_weight.shape[2:]
    for i, j, table in term.levels:
        q = _level(read[t][b], target, j, num_out)
        for number in range(len(program.aggr)):
            p = _level(pooled[number][s][a], source, i, num_in)
            table.add_adjoint(d_weight[number], transposed_product(p, q))
    if term.blocks is None:
        return
    x, g = _rows(xs[s], source), _rows(grads[t], target)
    for start, stop, words, table in slices(target, term):
        d_big = transposed_product(x[start:stop].view(-1, words * num_in), g[start:stop].view(-1, words * num_out))
        for number, name in enumerate(program.aggr):
            if name != "std":
                table.add_adjoint(d_weight[number], d_big)


def _input_gradient(
    program: Program,
    s: int,
    x: Tensor,
    pooled: Pooled,
    weights: Sequence[Tensor],
    grads: Sequence[Tensor],
    read: list[list[Rows]],
) -> Tensor:
    side = program.inputs[s]
    d_x = torch.empty_like(x)
    for a, lists in enumerate(side.orbits):
        terms = [term for term in program.terms if term.source == (s, a)]
        own = next((term for term in terms if term.blocks is not None), None)
        out, rows = _rows(d_x, lists), _rows(x, lists)
        blocks: list[Block] = []
        g = None
        if own is not None:
            weight = _own_weight(program, weights[own.weight])
            g = _rows(grads[own.target[0]], program.outputs[own.target[0]].orbits[own.target[1]])
            blocks = [(i, j, n, table.big(weight).t()) for i, j, n, table in slices(lists, own)]
        d_pooled = [_products(lists, x.shape[1], x, _backward_factors(program, terms, k, weights, read)) for k in range(len(program.aggr))]
        linear = [
            AGGREGATIONS[name].scale(d, lists) for name, d in zip(program.aggr, d_pooled, strict=True) if AGGREGATIONS[name].is_linear
        ]
        _spread(out, sum(linear[1:], linear[0]) if linear else None, lists, g, blocks)
        for number, name in enumerate(program.aggr):
            if not AGGREGATIONS[name].is_linear:
                AGGREGATIONS[name].add_adjoint(out, d_pooled[number], rows, pooled[number][s][a], lists)
    return _restore(d_x, side)


def _backward_factors(
    program: Program, terms: Sequence[Term], number: int, weights: Sequence[Tensor], read: list[list[Rows]]
) -> Iterator[tuple[int, Tensor, Tensor]]:
    for term in terms:
        (t, b), weight = term.target, weights[term.weight]
        for i, j, table in term.levels:
            yield i, _level(read[t][b], program.outputs[t].orbits[b], j, weight.shape[3]), table.big(weight[number]).t()
