r"""A layer on a plan: write to subsets, multiply level by level, read from subsets.

With $P_k$ the pooled rows of the keys of level k, slots side by side,

    P_k = pool of X over (row, key, slot)              (keys, slots x in)
    Z_k = sum over inputs of P_k @ M_k                 (keys, slots x out)
    Y   = sum over k of Z_k read back                  (rows, out)

where the block $M_k[u, w]$ is the weight of the operation of the slots u and w.

An orbit that meets itself needs no key for all its nodes: those operations are products of its
rows, read by their partners, the entries on the same nodes. Rows keep the caller's order; nothing
is permuted. Backward is the same with M transposed and the two sides swapped. Every adjoint is
written out, as torch's own are several times slower. `docs/engine.md` carries an example through by
hand.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any, NamedTuple

import torch
from torch import Tensor

from incidence.engine.aggregate import Aggregation, LinearAggregation, Pooled, assert_linear
from incidence.engine.bags import transposed_product, wide_of
from incidence.engine.gather import PartnerTerm, add_gradients, read_rows
from incidence.engine.plan import Plan
from incidence.engine.weights import Products

__all__ = ["Operator", "apply"]

Gradients = tuple[Sequence[Tensor | None], Sequence[Tensor], Sequence[Tensor | None]]
"""The gradients of inputs, weights and biases."""


class Operator(NamedTuple):
    """What a layer does on a structure: its operations as products, aggregations, and the plan."""

    products: Products
    aggregations: tuple[Aggregation, ...]
    plan: Plan


class _Forward(NamedTuple):
    """What backward needs of the way forward.

    Attributes:
        matrices: The matrices of all products.
        factors: What every product on a level starts from, by aggregation, input and level.
        pooled: What aggregations that are not linear pooled, by aggregation and input.
    """

    matrices: list[Tensor]
    factors: dict[tuple[int, int, int], Tensor]
    pooled: dict[tuple[int, int], Pooled]


def apply(
    operator: Operator,
    xs: Sequence[Tensor],
    weights: Sequence[Tensor],
    biases: Sequence[Tensor | None],
) -> Sequence[Tensor]:
    """Return the outputs of a layer.

    Args:
        operator: What the layer does.
        xs: The inputs, (entries, in) each.
        weights: ([aggregations,] operations, in, out) each.
        biases: (orbits, out) for every output, or None.
    """
    ys: Sequence[Tensor] = _Layer.apply(operator, len(xs), len(weights), *xs, *weights, *biases)  # type: ignore[no-untyped-call]
    return ys


def _pool(operator: Operator, xs: Sequence[Tensor], weights: Sequence[Tensor]) -> _Forward:
    """Every row writes to its bags."""
    products, aggregations, plan = operator
    factors: dict[tuple[int, int, int], Tensor] = {}
    pooled: dict[tuple[int, int], Pooled] = {}
    sums: dict[int, list[Tensor]] = {}
    for aggr, s, level in products.out_of:
        aggregation, bags, x = aggregations[aggr], plan.inputs[s], xs[s]
        if not isinstance(aggregation, LinearAggregation):
            if (aggr, s) not in pooled:
                pooled[aggr, s] = aggregation.pool(x, bags)
            factors[aggr, s, level] = pooled[aggr, s].levels[level]
            continue
        if s not in sums:
            sums[s] = bags.pool(x.to(wide_of(x.dtype)))
        factors[aggr, s, level] = aggregation.scale(sums[s][level], bags, level).to(x.dtype)
    num_in, num_out = _channels(operator, xs, weights)
    matrices = products.matrices(num_in, num_out, xs[0].device).gather(weights)
    return _Forward(matrices, factors, pooled)


def _channels(
    operator: Operator, xs: Sequence[Tensor], weights: Sequence[Tensor]
) -> tuple[list[int], list[int]]:
    """Return the channels of every input and of every output."""
    num_out = [weight.shape[-1] for weight in weights[: len(operator.products.layout.outputs)]]
    return [x.shape[1] for x in xs], num_out


def _run(
    operator: Operator,
    xs: Sequence[Tensor],
    weights: Sequence[Tensor],
    biases: Sequence[Tensor | None],
) -> tuple[list[Tensor], _Forward]:
    """Return the outputs, and what backward needs."""
    products, plan = operator.products, operator.plan
    forward = _pool(operator, xs, weights)
    ys = []
    for t, bags in enumerate(plan.outputs):
        z = bags.buffers.empty((bags.num_bags, weights[t].shape[-1]), xs[0])  # (bags, out)
        levels = bags.by_level(z)  # (keys, slots x out) each
        for into, own in zip(levels, products.into[t], strict=True):
            _multiply(into, [(forward.factors[p[:3]], forward.matrices[p.matrix]) for p in own])
        bias = biases[t]
        if bias is not None:  # every row whose orbit has a bias reads the bag of its structure
            levels[0] += bias.flatten()
        ys.append(read_rows(z, bags, _partner_terms(operator, t, xs, forward.matrices)))
    return ys, forward


def _multiply(into: Tensor, factors: Sequence[tuple[Tensor, Tensor]]) -> None:
    """Set the rows of a level to a sum of products of rows and matrices."""
    if not factors:
        into.zero_()
        return
    torch.mm(*factors[0], out=into)
    for rows, matrix in factors[1:]:
        into.addmm_(rows, matrix)


def _partner_terms(
    operator: Operator, t: int, xs: Sequence[Tensor], matrices: Sequence[Tensor]
) -> list[PartnerTerm]:
    """Return what the rows of an output read from their partners."""
    partners = operator.plan.partners
    return [
        PartnerTerm(xs[p.source], _sum(matrices, p.matrices), partners[p.key])
        for p in operator.products.of_partners
        if p.target == t and p.key in partners
    ]


def _sum(matrices: Sequence[Tensor], numbers: Sequence[int]) -> Tensor:
    first, *others = (matrices[k] for k in numbers)
    return sum(others, first)


def _backward(
    operator: Operator,
    forward: _Forward,
    xs: Sequence[Tensor],
    weights: Sequence[Tensor],
    grads: Sequence[Tensor],
    needs_x: Sequence[bool],
    has_bias: Sequence[bool],
) -> Gradients:
    products, plan = operator.products, operator.plan
    read = [bags.pool(grad) for bags, grad in zip(plan.outputs, grads, strict=True)]
    num_in, num_out = _channels(operator, xs, weights)
    gathering = products.matrices(num_in, num_out, xs[0].device)
    d_matrices, arrays = gathering.empty(weights)
    for p in products.of_levels:
        transposed_product(
            forward.factors[p[:3]], read[p.target][p.target_level], out=d_matrices[p.matrix]
        )
    d_xs: list[Tensor | None] = []
    for s, needed in enumerate(needs_x):
        terms = _adjoint_terms(operator, s, xs, grads, forward.matrices, d_matrices)
        if needed:
            d_xs.append(_input_gradient(operator, s, xs[s], forward, read, terms))
        else:
            add_gradients(terms)
            d_xs.append(None)
    for partner_product in products.of_partners:
        first, *others = (d_matrices[k] for k in partner_product.matrices)
        if partner_product.key not in plan.partners:
            first.zero_()
        for other in others:  # all aggregations give a lone entry back: they share the gradient
            other.copy_(first)
    d_biases = [
        levels[0].sum(0).view(-1, grad.shape[1]) if has else None
        for levels, grad, has in zip(read, grads, has_bias, strict=True)
    ]
    return d_xs, gathering.to_weights(arrays, weights), d_biases


def _adjoint_terms(
    operator: Operator,
    s: int,
    xs: Sequence[Tensor],
    grads: Sequence[Tensor],
    matrices: Sequence[Tensor],
    d_matrices: Sequence[Tensor],
) -> list[PartnerTerm]:
    """Return what the rows of an input get back from the outputs that read them."""
    partners = operator.plan.partners
    return [
        PartnerTerm(
            grads[p.target],
            _sum(matrices, p.matrices).t(),
            partners[p.adjoint],
            xs[s],
            d_matrices[p.matrices[0]],
        )
        for p in operator.products.of_partners
        if p.source == s and p.adjoint in partners
    ]


def _input_gradient(
    operator: Operator,
    s: int,
    x: Tensor,
    forward: _Forward,
    read: Sequence[Sequence[Tensor]],
    terms: Sequence[PartnerTerm],
) -> Tensor:
    """Return the gradient of an input."""
    bags = operator.plan.inputs[s]
    is_linear = [isinstance(a, LinearAggregation) for a in operator.aggregations]
    linear = [aggr for aggr, linear in enumerate(is_linear) if linear]
    d_pooled = _pooled_gradient(operator, s, linear, x, forward.matrices, read)
    d_x = read_rows(d_pooled, bags, terms)
    for (aggr, source), pooled in forward.pooled.items():
        if source == s:
            d_pooled = _pooled_gradient(operator, s, [aggr], x, forward.matrices, read)
            operator.aggregations[aggr].add_adjoint(d_x, d_pooled, x, pooled, bags)
    return d_x


def _pooled_gradient(
    operator: Operator,
    s: int,
    aggregations: Sequence[int],
    x: Tensor,
    matrices: Sequence[Tensor],
    read: Sequence[Sequence[Tensor]],
) -> Tensor:
    """Return the gradient of what some aggregations pool in all bags of an input, (bags, in).

    That of a linear aggregation is scaled already, as rows read it back.
    """
    bags = operator.plan.inputs[s]
    d_pooled = bags.buffers.empty((bags.num_bags, x.shape[1]), x)
    for level, into in enumerate(bags.by_level(d_pooled)):  # (keys, slots x in)
        is_blank = True
        for aggr in aggregations:
            own = operator.products.out_of.get((aggr, s, level))
            if not own:
                continue
            part = into if is_blank else torch.empty_like(into)
            _multiply(part, [(read[p.target][p.target_level], matrices[p.matrix].t()) for p in own])
            aggregation = operator.aggregations[aggr]
            if isinstance(aggregation, LinearAggregation):
                aggregation.scale(part, bags, level, out=part)
            if not is_blank:
                into += part
            is_blank = False
        if is_blank:
            into.zero_()
    return d_pooled


class _Layer(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, operator: Operator, num_inputs: int, num_weights: int, *tensors: Any
    ) -> tuple[Tensor, ...]:
        stop = num_inputs + num_weights
        xs, weights, biases = tensors[:num_inputs], tensors[num_inputs:stop], tensors[stop:]
        ctx.operator, ctx.num_inputs, ctx.num_weights = operator, num_inputs, num_weights
        ctx.has_bias = [bias is not None for bias in biases]
        ys, forward = _run(operator, [x.contiguous() for x in xs], weights, biases)
        ctx.matrices, ctx.factors = forward.matrices, tuple(forward.factors)
        ctx.pooled = tuple(forward.pooled)
        rest = [part for levels, kept in forward.pooled.values() for part in (*levels, kept)]
        ctx.save_for_backward(*xs, *weights, *forward.factors.values(), *rest)
        return tuple(ys)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Any, ...]:
        operator: Operator = ctx.operator
        stop = ctx.num_inputs + ctx.num_weights
        xs, weights = ctx.saved_tensors[: ctx.num_inputs], ctx.saved_tensors[ctx.num_inputs : stop]
        if torch.is_grad_enabled():  # to be differentiated again
            return None, None, None, *chain(*_gradients(operator, xs, weights, grads, ctx.has_bias))
        rest = iter(ctx.saved_tensors[stop:])
        factors = {key: next(rest) for key in ctx.factors}
        pooled = {
            (aggr, s): Pooled([next(rest) for _ in operator.plan.inputs[s].num_slots], next(rest))
            for aggr, s in ctx.pooled
        }
        gradients = _backward(
            operator,
            _Forward(ctx.matrices, factors, pooled),
            [x.contiguous() for x in xs],
            weights,
            [grad.contiguous() for grad in grads],
            ctx.needs_input_grad[3 : 3 + ctx.num_inputs],
            ctx.has_bias,
        )
        return None, None, None, *chain(*gradients)


def _gradients(
    operator: Operator,
    xs: Sequence[Tensor],
    weights: Sequence[Tensor],
    grads: Sequence[Tensor],
    has_bias: Sequence[bool],
) -> Gradients:
    """Return the gradients of a layer as something that can be differentiated."""
    counts = len(xs), len(weights)
    flat = _Gradients.apply(operator, counts, has_bias, *xs, *weights, *grads)  # type: ignore[no-untyped-call]
    return flat[: counts[0]], flat[counts[0] : sum(counts)], flat[sum(counts) :]


class _Gradients(torch.autograd.Function):
    """A layer y = L(x, W) is linear in x and in W, and its gradients X(g, W) and D(g, x) are linear
    in those and in the gradient g of y.

    So the gradients of u X(g, W) + V D(g, x) are L(u, W) + L(x, V) for g, X(g, V) for x, and D(g,
    u) for W: layers and gradients again.
    """

    @staticmethod
    def forward(
        ctx: Any,
        operator: Operator,
        counts: tuple[int, int],
        has_bias: Sequence[bool],
        *tensors: Tensor,
    ) -> tuple[Any, ...]:
        ctx.operator, ctx.counts, ctx.has_bias = operator, counts, has_bias
        ctx.save_for_backward(*tensors)
        xs, weights, grads = _split(tensors, counts)
        xs, grads = ([t.contiguous() for t in part] for part in (xs, grads))
        forward = _pool(operator, xs, weights)
        needs_x = [True] * len(xs)
        return tuple(chain(*_backward(operator, forward, xs, weights, grads, needs_x, has_bias)))

    @staticmethod
    def backward(ctx: Any, *seconds: Any) -> tuple[Any, ...]:
        operator: Operator = ctx.operator
        assert_linear(operator.aggregations)
        xs, weights, grads = _split(ctx.saved_tensors, ctx.counts)
        us, vs, biases = _split(seconds, ctx.counts)
        one = apply(operator, us, weights, biases)
        other = apply(operator, xs, vs, [None] * len(grads))
        d_grads = [a + b for a, b in zip(one, other, strict=True)]
        d_xs, _, _ = _gradients(operator, xs, vs, grads, ctx.has_bias)
        _, d_weights, _ = _gradients(operator, us, weights, grads, ctx.has_bias)
        return None, None, None, *d_xs, *d_weights, *d_grads


def _split(tensors: Sequence[Any], counts: tuple[int, int]) -> tuple[Sequence[Any], ...]:
    """Return the first, the next and the other tensors."""
    return tensors[: counts[0]], tensors[counts[0] : sum(counts)], tensors[sum(counts) :]
