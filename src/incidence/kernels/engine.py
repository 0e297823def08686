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

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from incidence.kernels.aggregate import AGGREGATIONS, gather, pool_sum
from incidence.kernels.bags import transposed_product
from incidence.structure.plan import OrbitPlan

__all__ = ["Program", "Side", "Term", "apply", "run", "run_backward"]


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
    levels: tuple[tuple[int, int, Tensor], ...]
    blocks: tuple[Tensor, ...] | None


@dataclass(frozen=True)
class Program:
    """What to do: the sides, the terms, the aggregations, and the bias of every output tensor."""

    inputs: tuple[Side, ...]
    outputs: tuple[Side, ...]
    terms: tuple[Term, ...]
    aggr: tuple[str, ...]


def apply(program: Program, xs: Sequence[Tensor], weights: Sequence[Tensor], biases: Sequence[Tensor | None]) -> list[Tensor]:
    """The outputs of a layer.

    Args:
        program: What to do.
        xs: The inputs, (entries, channels) each.
        weights: (aggregations, operations, in, out) each.
        biases: (orbits, out) for every output, or None.
    """
    return list(_Layer.apply(program, len(xs), len(weights), *xs, *weights, *biases))  # type: ignore[no-untyped-call]


Pooled = list[list[list[tuple[Tensor, Tensor]]]]
"""The pooled rows by aggregation, input tensor and orbit."""


def run(
    program: Program, xs: Sequence[Tensor], weights: Sequence[Tensor], biases: Sequence[Tensor | None]
) -> tuple[list[Tensor], list[Tensor], Pooled]:
    """The outputs; with the inputs in canonical order and the pooled rows, which backward needs."""
    arranged = [_arrange(x, side) for x, side in zip(xs, program.inputs, strict=True)]
    pooled = _pool(program, arranged)
    return _forward(program, arranged, pooled, weights, biases), arranged, pooled


def run_backward(
    program: Program, xs: Sequence[Tensor], weights: Sequence[Tensor], grads: Sequence[Tensor], has_bias: Sequence[bool]
) -> tuple[list[Tensor | None], list[Tensor], list[Tensor | None]]:
    """The gradients of the inputs, weights and biases, from the inputs alone: the pooled rows are made again."""
    arranged = [_arrange(x, side) for x, side in zip(xs, program.inputs, strict=True)]
    return _backward(program, arranged, _pool(program, arranged), weights, grads, [True] * len(xs), has_bias)


def _pool(program: Program, xs: Sequence[Tensor]) -> Pooled:
    return [
        [[AGGREGATIONS[a].pool(x[o.start : o.stop], o) for o in side.orbits] for x, side in zip(xs, program.inputs, strict=True)]
        for a in program.aggr
    ]


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
        pooled = [[[(next(flat), next(flat)) for _ in side.orbits] for side in program.inputs] for _ in program.aggr]
        needs_x = list(ctx.needs_input_grad[3 : 3 + ctx.num_inputs])
        d_xs, d_weights, d_biases = _backward(program, arranged, pooled, weights, grads, needs_x, ctx.has_bias)
        return None, None, None, *d_xs, *d_weights, *d_biases


def _arrange(x: Tensor, side: Side) -> Tensor:
    x = x.contiguous()
    return x if side.order is None else x.index_select(0, side.order)


def _restore(y: Tensor, side: Side) -> Tensor:
    return y if side.order is None else torch.empty_like(y).index_copy_(0, side.order, y)


def _big(weight: Tensor, table: Tensor) -> Tensor:
    """The matrix of a level: (words x in, words x out), the weight of the operation of every pair of words; -1 is none."""
    rows, cols = table.shape
    num_in, num_out = weight.shape[1:]
    if bool((table < 0).any()):
        weight = torch.cat([weight, weight.new_zeros(1, num_in, num_out)])
        table = torch.where(table < 0, weight.shape[0] - 1, table)
    if rows == 1 and cols == 1:
        return weight[int(table)]
    blocks = weight.index_select(0, table.flatten()).view(rows, cols, num_in, num_out)
    return blocks.permute(0, 2, 1, 3).reshape(rows * num_in, cols * num_out)


def _add_blocks(d_weight: Tensor, d_big: Tensor, table: Tensor) -> None:
    """The adjoint of `_big`, added to the gradient of the weight."""
    rows, cols = table.shape
    num_in, num_out = d_weight.shape[1:]
    blocks = d_big.view(rows, num_in, cols, num_out).permute(0, 2, 1, 3).reshape(rows * cols, num_in, num_out)
    is_there = (table >= 0).flatten()
    if not bool(is_there.all()):
        blocks, table = blocks[is_there], table.flatten()[is_there]
    d_weight.index_add_(0, table.flatten(), blocks)


def _level(rows: tuple[Tensor, Tensor] | Tensor, lists: OrbitPlan, at: int, channels: int) -> Tensor:
    """The rows of one level as a matrix of keys by (words x channels); a view."""
    start, stop, slots = lists.offsets[at], lists.offsets[at + 1], lists.num_slots[at]
    if isinstance(rows, tuple):
        whole, local = rows
        part = whole if at == 0 else local[start - lists.offsets[1] : stop - lists.offsets[1]]
    else:
        part = rows[start:stop]
    return part.view(-1, slots * channels) if slots else part.new_zeros(0, 0)


def _set_or_add(out: Tensor, a: Tensor, b: Tensor, is_first: bool) -> None:
    if is_first:
        torch.mm(a, b, out=out)
    else:
        out.addmm_(a, b)


def _forward(
    program: Program, xs: Sequence[Tensor], pooled: Pooled, weights: Sequence[Tensor], biases: Sequence[Tensor | None]
) -> list[Tensor]:
    ys = []
    for t, side in enumerate(program.outputs):
        into = [term for term in program.terms if term.target[0] == t]
        num_out = weights[into[0].weight].shape[-1]
        y = xs[0].new_empty(side.num_entries, num_out)
        for b, lists in enumerate(side.orbits):
            terms = [term for term in into if term.target[1] == b]
            z = _products(program, terms, lists, pooled, weights, num_out)
            bias = biases[t]
            if bias is not None:
                z[: lists.offsets[1]] += bias[b]  # every entry reads its structure once
            _read(program, terms, lists, z, xs, weights, y[lists.start : lists.stop])
        ys.append(_restore(y, side))
    return ys


def _products(program: Program, terms: Sequence[Term], lists: OrbitPlan, pooled: Pooled, weights: Sequence[Tensor], num_out: int) -> Tensor:
    """What the bags of an output orbit hold: for every level the products of the pooled rows of all input orbits."""
    like = weights[terms[0].weight]
    z = like.new_empty(lists.offsets[-1], num_out)
    started = [False] * len(lists.levels)
    for term in terms:
        s, a = term.source
        source, weight = program.inputs[s].orbits[a], weights[term.weight]
        for i, j, table in term.levels:
            for number in range(len(program.aggr)):
                p = _level(pooled[number][s][a], source, i, weight.shape[2])
                _set_or_add(_level(z, lists, j, num_out), p, _big(weight[number], table), not started[j])
                started[j] = True
    for j, is_started in enumerate(started):
        if not is_started:
            z[lists.offsets[j] : lists.offsets[j + 1]] = 0
    return z


def _self_weight(program: Program, weight: Tensor) -> Tensor:
    """The weight of a match of all nodes: a bag of one entry is the entry itself, but for the spread, which is 0."""
    kept = [number for number, name in enumerate(program.aggr) if name != "std"]
    return weight[kept].sum(0) if len(kept) != 1 else weight[kept[0]]


def _read(
    program: Program,
    terms: Sequence[Term],
    lists: OrbitPlan,
    z: Tensor,
    xs: Sequence[Tensor],
    weights: Sequence[Tensor],
    y: Tensor,
) -> None:
    """Reads the bags of every entry into y, and adds the products of the entries on one node set."""
    own = [term for term in terms if term.blocks is not None]
    if not own:
        y.copy_(gather(z, lists))
        return
    [term] = own
    s, a = term.source
    x = xs[s][program.inputs[s].orbits[a].start : program.inputs[s].orbits[a].stop]
    weight = _self_weight(program, weights[term.weight])
    for start, stop, words, table in _slices(lists, term):
        out, rows = y[start:stop].view(-1, words * y.shape[1]), x[start:stop].view(-1, words * x.shape[1])
        torch.mm(rows, _big(weight, table), out=out)
    y += gather(z, lists)


def _slices(lists: OrbitPlan, term: Term) -> list[tuple[int, int, int, Tensor]]:
    found, start = [], 0
    for mask, num_sets, table in zip(lists.masks, lists.num_sets, term.blocks or (), strict=True):
        stop = start + num_sets * len(mask)
        found.append((start, stop, len(mask), table))
        start = stop
    return found


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
    read = [[pool_sum(g[o.start : o.stop], o) for o in side.orbits] for g, side in zip(arranged, program.outputs, strict=True)]
    d_weights = [torch.zeros_like(w) for w in weights]
    for term in program.terms:
        _weight_gradient(program, term, xs, pooled, arranged, read, d_weights[term.weight])
    d_xs: list[Tensor | None] = []
    for s, side in enumerate(program.inputs):
        if not needs_x[s]:
            d_xs.append(None)
            continue
        d_x = torch.empty_like(xs[s])
        for a, lists in enumerate(side.orbits):
            terms = [term for term in program.terms if term.source == (s, a)]
            d_x[lists.start : lists.stop] = _input_gradient(program, terms, lists, xs[s], pooled, weights, arranged, read)
        d_xs.append(_restore(d_x, side))
    d_biases = [torch.stack([q[0].sum(0) for q in read[t]]) if has else None for t, has in enumerate(has_bias)]
    return d_xs, d_weights, d_biases


def _weight_gradient(
    program: Program, term: Term, xs: Sequence[Tensor], pooled: Pooled, grads: Sequence[Tensor], read: Any, d_weight: Tensor
) -> None:
    (s, a), (t, b) = term.source, term.target
    source, target = program.inputs[s].orbits[a], program.outputs[t].orbits[b]
    num_in, num_out = d_weight.shape[2:]
    for i, j, table in term.levels:
        q = _level(read[t][b], target, j, num_out)
        for number in range(len(program.aggr)):
            p = _level(pooled[number][s][a], source, i, num_in)
            _add_blocks(d_weight[number], transposed_product(p, q), table)
    if term.blocks is None:
        return
    x, g = xs[s][source.start : source.stop], grads[t][target.start : target.stop]
    for start, stop, words, table in _slices(target, term):
        rows, out = x[start:stop].view(-1, words * num_in), g[start:stop].view(-1, words * num_out)
        d_big = transposed_product(rows, out)
        for number, name in enumerate(program.aggr):
            if name != "std":
                _add_blocks(d_weight[number], d_big, table)


def _input_gradient(
    program: Program,
    terms: Sequence[Term],
    lists: OrbitPlan,
    x: Tensor,
    pooled: Pooled,
    weights: Sequence[Tensor],
    grads: Sequence[Tensor],
    read: Any,
) -> Tensor:
    s, a = terms[0].source
    rows = x[lists.start : lists.stop]
    total: Tensor | None = None
    for number, name in enumerate(program.aggr):
        d_p = rows.new_zeros(lists.offsets[-1], rows.shape[1])
        for term in terms:
            (t, b), weight = term.target, weights[term.weight]
            target = program.outputs[t].orbits[b]
            for i, j, table in term.levels:
                q = _level(read[t][b], target, j, weight.shape[3])
                _level(d_p, lists, i, rows.shape[1]).addmm_(q, _big(weight[number], table).t())
        part = AGGREGATIONS[name].adjoint(d_p, rows, pooled[number][s][a], lists)
        total = part if total is None else total.add_(part)
    assert total is not None
    for term in terms:
        if term.blocks is None:
            continue
        t, b = term.target
        target = program.outputs[t].orbits[b]
        g = grads[t][target.start : target.stop]
        weight = _self_weight(program, weights[term.weight])
        for start, stop, words, table in _slices(lists, term):
            out = total[start:stop].view(-1, words * rows.shape[1])
            out.addmm_(g[start:stop].view(-1, words * g.shape[1]), _big(weight, table).t())
    return total
