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
from itertools import chain, islice
from typing import Any, NamedTuple

import torch
from torch import Tensor

from incidence.errors import IncidenceError
from incidence.kernels.aggregate import AGGREGATIONS, Pooled, gather, levels_of, pool_sum, side_by_side
from incidence.kernels.bags import bag_sum, transposed_product
from incidence.plans.orbit_plan import OrbitPlan
from incidence.plans.terms import Own, Product, Terms

__all__ = ["Program", "Side", "apply", "run", "run_backward"]

_BLOCK = 1 << 19  # floats of the output that are made at a time: small enough to stay in the cache


@dataclass(frozen=True)
class Side:
    """A tensor of the input or the output: its rows in canonical order (None if they are), and the lists of its orbits."""

    order: Tensor | None
    num_entries: int
    orbits: tuple[OrbitPlan, ...]


@dataclass(frozen=True)
class Program:
    """What to do: the sides, the terms and the aggregations."""

    inputs: tuple[Side, ...]
    outputs: tuple[Side, ...]
    terms: Terms
    aggr: tuple[str, ...]


Levels = list[list[Pooled]]
"""The pooled rows by tensor and orbit."""
Read = list[list[list[Tensor]]]
"""The gradients of the outputs, added up in the bags that they read: by tensor, orbit and level."""
Big = list[list[Tensor]]
"""The matrices of every weight; views."""


Gradients = tuple[Sequence[Tensor | None], Sequence[Tensor], Sequence[Tensor | None]]
"""The gradients of inputs, weights and biases."""


class Made(NamedTuple):
    """What backward needs: the inputs in canonical order, the matrices of every weight and their rows, and the pooled rows."""

    xs: Sequence[Tensor]
    rows: Sequence[Tensor]
    big: Big
    pooled: Sequence[Levels]


def apply(program: Program, xs: Sequence[Tensor], weights: Sequence[Tensor], biases: Sequence[Tensor | None]) -> list[Tensor]:
    """The outputs of a layer.

    Args:
        program: What to do.
        xs: The inputs, (entries, channels) each.
        weights: ([aggregations,] operations, in, out) each.
        biases: (orbits, out) for every output, or None.
    """
    return list(_Layer.apply(program, len(xs), len(weights), *xs, *weights, *biases))  # type: ignore[no-untyped-call]


def run(program: Program, xs: Sequence[Tensor], weights: Sequence[Tensor], biases: Sequence[Tensor | None]) -> tuple[list[Tensor], Made]:
    """The outputs, and what backward needs."""
    made = _make(program, xs, weights)
    widths = [weights[number].shape[-1] for number in program.terms.weight_into]
    return [_output(program, t, width, made, biases[t]) for t, width in enumerate(widths)], made


def run_backward(
    program: Program, xs: Sequence[Tensor], weights: Sequence[Tensor], grads: Sequence[Tensor], has_bias: Sequence[bool]
) -> Gradients:
    """The gradients of the inputs, weights and biases, from the inputs alone: the pooled rows are made again."""
    return _backward(program, _make(program, xs, weights), [w.shape for w in weights], grads, [True] * len(xs), has_bias)


def _make(program: Program, xs: Sequence[Tensor], weights: Sequence[Tensor]) -> Made:
    arranged = [_arrange(x, side) for x, side in zip(xs, program.inputs, strict=True)]
    sides = list(zip(arranged, program.inputs, strict=True))
    pooled = [[[AGGREGATIONS[name].pool(_part(x, o.start, o.stop), o) for o in side.orbits] for x, side in sides] for name in program.aggr]
    rows = program.terms.make(weights)
    return Made(arranged, rows, program.terms.split(rows, [w.shape for w in weights]), pooled)


class _Layer(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, program: Program, num_inputs: int, num_weights: int, *tensors: Any) -> tuple[Tensor, ...]:
        given, biases = tensors[: num_inputs + num_weights], tensors[num_inputs + num_weights :]
        ys, made = run(program, given[:num_inputs], given[num_inputs:], biases)
        ctx.program, ctx.big, ctx.has_bias = program, made.big, [b is not None for b in biases]
        ctx.save_for_backward(*given, *made.rows, *(part for a in made.pooled for x in a for rows, kept in x for part in (*rows, kept)))
        return tuple(ys)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Any, ...]:
        program: Program = ctx.program
        flat, num_inputs = iter(ctx.saved_tensors), len(program.inputs)
        xs, weights, rows = (list(islice(flat, count)) for count in (num_inputs, len(ctx.big), len(ctx.big)))
        if torch.is_grad_enabled():  # to be differentiated again
            return None, None, None, *chain(*_gradients(program, xs, weights, grads, ctx.has_bias))
        pooled: list[Levels] = [
            [[([next(flat) for _ in o.levels], next(flat)) for o in side.orbits] for side in program.inputs] for _ in program.aggr
        ]
        made = Made([_arrange(x, side) for x, side in zip(xs, program.inputs, strict=True)], rows, ctx.big, pooled)
        needs_x = ctx.needs_input_grad[3 : 3 + num_inputs]
        found = _backward(program, made, [w.shape for w in weights], grads, needs_x, ctx.has_bias)
        return None, None, None, *chain(*found)


def _gradients(
    program: Program, xs: Sequence[Tensor], weights: Sequence[Tensor], grads: Sequence[Tensor], has_bias: Sequence[bool]
) -> Gradients:
    """The gradients of a layer as something that can be differentiated."""
    counts = len(xs), len(weights)
    found = _Gradients.apply(program, counts, has_bias, *xs, *weights, *grads)  # type: ignore[no-untyped-call]
    return found[: counts[0]], found[counts[0] : sum(counts)], found[sum(counts) :]


class _Gradients(torch.autograd.Function):
    """A layer y = L(x, W) is linear in x and in W, and its gradients X(g, W) and D(g, x) are linear in those and in the gradient g of y.

    So the gradients of u X(g, W) + V D(g, x) are L(u, W) + L(x, V) for g, X(g, V) for x, and D(g, u) for W: layers and gradients again.
    """

    @staticmethod
    def forward(ctx: Any, program: Program, counts: tuple[int, int], has_bias: Sequence[bool], *tensors: Any) -> tuple[Any, ...]:
        ctx.program, ctx.counts, ctx.has_bias = program, counts, has_bias
        ctx.save_for_backward(*tensors)
        flat = iter(tensors)
        xs, weights = (list(islice(flat, count)) for count in counts)
        return tuple(chain(*run_backward(program, xs, weights, list(flat), has_bias)))

    @staticmethod
    def backward(ctx: Any, *seconds: Any) -> tuple[Any, ...]:
        program: Program = ctx.program
        curved = [name for name in program.aggr if not AGGREGATIONS[name].is_linear]
        if curved:
            raise IncidenceError(f"a layer with aggr={curved[0]!r} has no second derivative; those with 'sum' and 'mean' have.")
        given, again = iter(ctx.saved_tensors), iter(seconds)
        xs, weights = (list(islice(given, count)) for count in ctx.counts)
        us, vs = (list(islice(again, count)) for count in ctx.counts)
        grads, biases = list(given), list(again)
        d_grads = [
            one + other for one, other in zip(apply(program, us, weights, biases), apply(program, xs, vs, [None] * len(grads)), strict=True)
        ]
        d_xs, _, _ = _gradients(program, xs, vs, grads, ctx.has_bias)
        _, d_weights, _ = _gradients(program, us, weights, grads, ctx.has_bias)
        return None, None, None, *d_xs, *d_weights, *d_grads


def _arrange(x: Tensor, side: Side) -> Tensor:
    x = x.detach().contiguous()
    return x if side.order is None else x.index_select(0, side.order)


def _restore(y: Tensor, side: Side) -> Tensor:
    return y if side.order is None else torch.empty_like(y).index_copy_(0, side.order, y)


def _part(rows: Tensor, start: int, stop: int) -> Tensor:
    """Some rows; a view."""
    return rows if stop - start == rows.shape[0] else rows[start:stop]


Factor = tuple[int, Tensor, Tensor]
"""A level, and two matrices to multiply."""


def _products(lists: OrbitPlan, channels: int, like: Tensor, factors: Iterable[Factor], bias: Tensor | None = None) -> Tensor:
    """What the bags of an orbit hold: for every level the sum of the products; and at structures the bias, as every entry reads one."""
    z = like.new_empty(lists.num_bags, channels)
    levels = levels_of(z, lists)
    blank = set(range(len(levels)))
    for at, a, b in factors:
        if at in blank:
            torch.mm(a, b, out=levels[at])
            blank.remove(at)
        else:
            levels[at].addmm_(a, b)
    for at in blank:
        levels[at].zero_()
    if bias is not None:
        levels[0] += bias
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
            own, into = side_by_side(_part(x, a, b), words), side_by_side(_part(out, a, b), words)
            if z is None:
                torch.mm(own, matrix, out=into)
            else:
                torch.addmm(side_by_side(_gather_part(z, lists, a, b), words), own, matrix, out=into)
        done = stop
    if done == 0 and out.shape[0]:
        out.copy_(gather(z, lists)) if z is not None else out.zero_()


def _gather_part(z: Tensor, lists: OrbitPlan, start: int, stop: int) -> Tensor:
    """The sums of the bags of some entries; all entries have the same number of bags."""
    width = lists.read.shape[0] // (lists.stop - lists.start)
    return bag_sum(z, _part(lists.read, start * width, stop * width), _part(lists.read_ptr, 0, stop - start + 1))


def _blocks(lists: OrbitPlan, own: Own, big: Big, is_adjoint: bool) -> Iterator[Block]:
    """The rows of every mask with their matrix: the sum of those of all aggregations."""
    for (start, stop, words), places in zip(lists.slices, own.matrices, strict=True):
        first, *others = (big[w][k] for w, k in places)
        matrix = sum(others, first)
        yield start, stop, words, matrix.t() if is_adjoint else matrix


def _output(program: Program, t: int, width: int, made: Made, bias: Tensor | None) -> Tensor:
    side, terms = program.outputs[t], program.terms
    y = made.xs[0].new_empty(side.num_entries, width)
    for b, lists in enumerate(side.orbits):
        factors = _forward_factors(terms.into.get((t, b), ()), made.pooled, made.big)
        z = _products(lists, width, y, factors, None if bias is None else bias[b])
        own = terms.own_into.get((t, b))
        x = None if own is None else _orbit(program.inputs, made.xs, own.source)
        _spread(_part(y, lists.start, lists.stop), z, lists, x, () if own is None else _blocks(lists, own, made.big, False))
    return _restore(y, side)


def _orbit(sides: Sequence[Side], rows: Sequence[Tensor], place: tuple[int, int]) -> Tensor:
    """The rows of an orbit of a tensor; a view."""
    lists = sides[place[0]].orbits[place[1]]
    return _part(rows[place[0]], lists.start, lists.stop)


def _forward_factors(products: Iterable[Product], pooled: Sequence[Levels], big: Big) -> Iterator[Factor]:
    for (s, a), _, number, (i, j), (w, k) in products:
        yield j, pooled[number][s][a][0][i], big[w][k]


def _backward_factors(products: Iterable[Product], number: int, read: Read, big: Big) -> Iterator[Factor]:
    for _, (t, b), own, (i, j), (w, k) in products:
        if own == number:
            yield i, read[t][b][j], big[w][k].t()


def _backward(
    program: Program,
    made: Made,
    shapes: Sequence[tuple[int, ...]],
    grads: Sequence[Tensor],
    needs_x: Sequence[bool],
    has_bias: Sequence[bool],
) -> Gradients:
    arranged = [_arrange(g, side) for g, side in zip(grads, program.outputs, strict=True)]
    read = [[pool_sum(_part(g, o.start, o.stop), o) for o in side.orbits] for g, side in zip(arranged, program.outputs, strict=True)]
    d_weights = _weight_gradients(program, made, shapes, arranged, read)
    d_xs = [_input_gradient(program, s, made, arranged, read) if need else None for s, need in enumerate(needs_x)]
    d_biases = [torch.cat([q[0].sum(0, keepdim=True) for q in read[t]]) if has else None for t, has in enumerate(has_bias)]
    return d_xs, d_weights, d_biases


def _weight_gradients(program: Program, made: Made, shapes: Sequence[tuple[int, ...]], grads: Sequence[Tensor], read: Read) -> list[Tensor]:
    terms = program.terms
    rows = [torch.empty_like(own) for own in made.rows]
    d_big = terms.split(rows, shapes)
    for (s, a), (t, b), number, (i, j), (w, k) in terms.products:
        transposed_product(made.pooled[number][s][a][0][i], read[t][b][j], out=d_big[w][k])
    for own in terms.own_into.values():
        x, g = _orbit(program.inputs, made.xs, own.source), _orbit(program.outputs, grads, own.target)
        lists = program.outputs[own.target[0]].orbits[own.target[1]]
        for (start, stop, words), places in zip(lists.slices, own.matrices, strict=True):
            first, *others = (d_big[w][k] for w, k in places)
            one, other = (side_by_side(_part(v, start, stop), words) for v in (x, g))
            transposed_product(one, other, out=first)
            for copy in others:
                copy.copy_(first)
    return terms.adjoint(rows, shapes)


def _input_gradient(program: Program, s: int, made: Made, grads: Sequence[Tensor], read: Read) -> Tensor:
    side, x, terms = program.inputs[s], made.xs[s], program.terms
    d_x = torch.empty_like(x)
    for a, lists in enumerate(side.orbits):
        out, rows = _part(d_x, lists.start, lists.stop), _part(x, lists.start, lists.stop)
        products = terms.out_of.get((s, a), ())
        names = [AGGREGATIONS[name] for name in program.aggr]
        d_pooled = [_products(lists, x.shape[1], x, _backward_factors(products, k, read, made.big)) for k in range(len(names))]
        linear = [aggregation.scale(d, lists) for aggregation, d in zip(names, d_pooled, strict=True) if aggregation.is_linear]
        own = terms.own_out_of.get((s, a))
        g = None if own is None else _orbit(program.outputs, grads, own.target)
        blocks = () if own is None else _blocks(lists, own, made.big, True)
        _spread(out, sum(linear[1:], linear[0]) if linear else None, lists, g, blocks)
        for number, aggregation in enumerate(names):
            if not aggregation.is_linear:
                aggregation.add_adjoint(out, d_pooled[number], rows, made.pooled[number][s][a], lists)
    return _restore(d_x, side)
