r"""The one engine behind every layer: write to subsets, one product for each level, read from subsets.

With $P_k$ the pooled rows of the keys of level k, slots side by side,

    P_k = pool of X over (row, key, slot)              (keys, slots x in)
    Z_k = sum over input stacks of P_k @ Big_k         (keys, slots x out)    Big_k[u, w] = weight of the operation of the slots u, w
    Y   = sum over k of Z_k read back                  (rows, out)

An orbit that meets itself needs no key for all its nodes: those operations are products of its rows, read by their partners, the
entries on the same nodes. Rows are the caller's throughout; nothing is permuted. Backward is the same with Big transposed and the two
sides swapped; every adjoint is written out, as torch's own are several times slower. `docs/engine.md` carries an example through by
hand.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, islice
from typing import Any, NamedTuple

import torch
from torch import Tensor

from incidence.kernels.aggregate import (
    Aggregation,
    LinearAggregation,
    Pooled,
    assert_linear,
    levels_of,
    pool_sum,
    wide_of,
)
from incidence.kernels.bags import transposed_product
from incidence.kernels.big import Big
from incidence.kernels.native import native_layer
from incidence.kernels.reading import MatrixGradient, PartnerTerm, add_gradients, read_rows
from incidence.plans.program import PartnerProduct, Stack
from incidence.plans.program import Program as AnyProgram

__all__ = ["Program", "apply", "run", "run_backward", "run_forward"]

Program = AnyProgram[Aggregation]
Gradients = tuple[Sequence[Tensor | None], Sequence[Tensor], Sequence[Tensor | None]]
"""The gradients of inputs, weights and biases."""


class Forward(NamedTuple):
    """What backward needs of the way forward: the inputs, the matrices, what every product on a level starts from, and what was pooled
    by aggregations that are not linear, by aggregation and stack.
    """

    xs: Sequence[Tensor]
    big: Big
    factors: dict[tuple[int, int, int], Tensor]
    pooled: dict[tuple[int, int], Pooled]


def apply(
    program: Program,
    xs: Sequence[Tensor],
    weights: Sequence[Tensor],
    biases: Sequence[Tensor | None],
) -> list[Tensor]:
    """The outputs of a layer.

    Args:
        program: What to do.
        xs: The inputs, (entries, in) each.
        weights: ([aggregations,] operations, in, out) each.
        biases: (orbits, out) for every output, or None.
    """
    return list(_Layer.apply(program, len(xs), len(weights), *xs, *weights, *biases))  # type: ignore[no-untyped-call]


def run_forward(
    program: Program,
    xs: Sequence[Tensor],
    weights: Sequence[Tensor],
    biases: Sequence[Tensor | None],
    kept: Tensor,
) -> list[Tensor]:
    """The outputs alone; what the compiled library keeps for `run_backward`, where it is used, is written to `kept`."""
    native = native_layer(program, xs, weights)
    return (
        run(program, xs, weights, biases)[0]
        if native is None
        else native.forward(_plain(xs), _plain(weights), biases, kept)[0]
    )


def _plain(tensors: Sequence[Tensor]) -> list[Tensor]:
    """Tensors whose rows follow each other, without their past."""
    return [tensor.detach().contiguous() for tensor in tensors]


def run(
    program: Program,
    xs: Sequence[Tensor],
    weights: Sequence[Tensor],
    biases: Sequence[Tensor | None],
) -> tuple[list[Tensor], Forward]:
    """The outputs, and what backward needs."""
    forward = _pool(program, xs, weights)
    ys: dict[int, Tensor] = {}
    for b, stack in enumerate(program.outputs):
        width = weights[program.products.stack_pairs[0, b].weights[0]].shape[-1]
        z = stack.plan.buffers.empty((stack.plan.num_bags, width), forward.xs[0])  # (bags, out)
        levels = levels_of(z, stack.plan)  # (keys, slots x out) each
        for into, products in zip(levels, program.products.into[b], strict=True):
            _multiply(into, [(forward.factors[p.factor], forward.big[p.matrix]) for p in products])
        if any(
            biases[t] is not None for t in stack.tensors
        ):  # at structures, as every row whose orbit has a bias reads one
            levels[0] += _side_by_side([biases[t] for t in stack.tensors])
        ys.update(
            zip(
                stack.tensors,
                read_rows(z, stack.plan, _partner_terms(program, stack, forward)),
                strict=True,
            )
        )
    return [ys[t] for t in range(len(ys))], forward


def _multiply(into: Tensor, factors: Sequence[tuple[Tensor, Tensor]]) -> None:
    """Sets the rows of a level to the sum of products: rows (keys, slots x in) times a matrix (slots x in, slots x out)."""
    if not factors:
        into.zero_()
        return
    torch.mm(*factors[0], out=into)
    for rows, matrix in factors[1:]:
        into.addmm_(rows, matrix)


def _side_by_side(biases: Sequence[Tensor | None]) -> Tensor:
    """The biases of all orbits of a stack in one row; one that is missing beside others has no rows."""
    found = [bias.flatten() for bias in biases if bias is not None]
    return found[0] if len(found) == 1 else torch.cat(found)


def run_backward(
    program: Program,
    xs: Sequence[Tensor],
    weights: Sequence[Tensor],
    grads: Sequence[Tensor],
    has_bias: Sequence[bool],
    kept: Tensor | None = None,
) -> Gradients:
    """The gradients of the inputs, weights and biases, from the inputs alone: the pooled rows are made again, if they were not kept."""
    native = native_layer(program, xs, weights)
    if native is not None:
        inner, grads = _plain(xs), _plain(grads)
        if kept is None:
            _, kept = native.forward(inner, _plain(weights), [None] * len(grads))
        return native.backward(inner, [w.shape for w in weights], grads, kept, True, has_bias)
    return _backward(
        program,
        _pool(program, xs, weights),
        [w.shape for w in weights],
        grads,
        [True] * len(xs),
        has_bias,
    )


def _stacked(xs: Sequence[Tensor], stack: Stack) -> Tensor:
    """The rows of the tensors of a stack, one below the other."""
    return (
        xs[stack.tensors[0]]
        if len(stack.tensors) == 1
        else torch.cat([xs[k] for k in stack.tensors])
    )


def _pool(program: Program, xs: Sequence[Tensor], weights: Sequence[Tensor]) -> Forward:
    """Every row writes to its bags."""
    inputs = _plain(xs)
    factors: dict[tuple[int, int, int], Tensor] = {}
    pooled: dict[tuple[int, int], Pooled] = {}
    stacked: dict[int, Tensor] = {}
    sums: dict[int, list[Tensor]] = {}
    for aggr, a, level in program.products.out_of:
        aggregation, stack = program.aggregations[aggr], program.inputs[a]
        if a not in stacked:
            stacked[a] = _stacked(inputs, stack)
        x = stacked[a]
        if isinstance(aggregation, LinearAggregation):
            if a not in sums:
                sums[a] = pool_sum(x.to(wide_of(x.dtype)), stack.plan)
            factors[aggr, a, level] = aggregation.scale(sums[a][level], stack.plan, level).to(
                x.dtype
            )
        else:
            if (aggr, a) not in pooled:
                pooled[aggr, a] = aggregation.pool(x, stack.plan)
            factors[aggr, a, level] = pooled[aggr, a].levels[level]
    return Forward(inputs, Big.of(program.products, weights), factors, pooled)


def _partner_terms(program: Program, stack: Stack, forward: Forward) -> list[PartnerTerm]:
    """The products of entries that are read by their partners in an output stack."""
    return [
        PartnerTerm(
            stack.tensors.index(p.target),
            len(forward.xs[p.source]),
            forward.xs[p.source],
            forward.big.sum(p.matrices),
            program.partners[p.key],
        )
        for p in program.products.of_partners
        if p.target in stack.tensors and p.key in program.partners
    ]


def _backward(
    program: Program,
    forward: Forward,
    shapes: Sequence[tuple[int, ...]],
    grads: Sequence[Tensor],
    needs_x: Sequence[bool],
    has_bias: Sequence[bool],
) -> Gradients:
    grads = _plain(grads)
    read = [
        pool_sum(_stacked(grads, stack), stack.plan) for stack in program.outputs
    ]  # by stack and level
    d_big = forward.big.empty_like()
    for p in program.products.of_levels:
        transposed_product(
            forward.factors[p.factor], read[p.target][p.target_level], out=d_big[p.matrix]
        )
    d_xs: dict[int, Tensor] = {}
    for a, stack in enumerate(program.inputs):
        terms = _adjoint_terms(program, stack, forward, grads, d_big)
        if any(needs_x[s] for s in stack.tensors):
            d_xs.update(
                zip(stack.tensors, _input_gradients(program, a, forward, read, terms), strict=True)
            )
        else:
            add_gradients(terms)
        for term in terms:
            assert term.gradient is not None
            term.gradient.close()
    for product in program.products.of_partners:
        _copy_gradients(d_big, product, product.key in program.partners)
    d_biases = _bias_gradients(program, grads, read, has_bias)
    return (
        [d_xs.get(s) if need else None for s, need in enumerate(needs_x)],
        d_big.to_weights(shapes),
        d_biases,
    )


def _copy_gradients(d_big: Big, product: PartnerProduct, has_partners: bool) -> None:
    """Gives the matrices of all aggregations the gradient of the first; 0 where no entry has such a partner."""
    first, *others = (d_big[ref] for ref in product.matrices)
    if not has_partners:
        first.zero_()
    for other in others:
        other.copy_(first)


def _bias_gradients(
    program: Program,
    grads: Sequence[Tensor],
    read: Sequence[Sequence[Tensor]],
    has_bias: Sequence[bool],
) -> list[Tensor | None]:
    found: dict[int, Tensor] = {}
    for stack, levels in zip(program.outputs, read, strict=True):
        if any(has_bias[t] for t in stack.tensors):
            orbits = (
                levels[0].sum(0).view(stack.plan.num_slots[0], grads[stack.tensors[0]].shape[1])
            )  # (orbits, out)
            found.update(
                zip(stack.tensors, orbits.unsafe_split_with_sizes(stack.num_biases), strict=True)
            )
    return [found.get(t) if has else None for t, has in enumerate(has_bias)]


def _adjoint_terms(
    program: Program, stack: Stack, forward: Forward, grads: Sequence[Tensor], d_big: Big
) -> list[PartnerTerm]:
    """What the inputs of a stack get back from the outputs that their partners are."""
    return [
        PartnerTerm(
            stack.tensors.index(p.source),
            len(forward.xs[p.source]),
            grads[p.target],
            forward.big.sum(p.matrices).t(),
            program.partners[p.adjoint],
            MatrixGradient(forward.xs[p.source], d_big[p.matrices[0]]),
        )
        for p in program.products.of_partners
        if p.source in stack.tensors and p.adjoint in program.partners
    ]


def _input_gradients(
    program: Program,
    a: int,
    forward: Forward,
    read: Sequence[Sequence[Tensor]],
    terms: Sequence[PartnerTerm],
) -> Sequence[Tensor]:
    """The gradients of the inputs of a stack."""
    stack = program.inputs[a]
    x = forward.xs[stack.tensors[0]]
    linear = [
        aggr
        for aggr, aggregation in enumerate(program.aggregations)
        if isinstance(aggregation, LinearAggregation)
    ]
    d_xs = read_rows(_pooled_gradient(program, a, linear, x, forward.big, read), stack.plan, terms)
    for (aggr, of_stack), pooled in forward.pooled.items():
        if of_stack == a:
            inner = _stacked(forward.xs, stack)
            d_x, d_pooled = (
                torch.zeros_like(inner),
                _pooled_gradient(program, a, [aggr], x, forward.big, read),
            )
            program.aggregations[aggr].add_adjoint(d_x, d_pooled, inner, pooled, stack.plan)
            for mine, part in zip(d_xs, d_x.split_with_sizes(stack.plan.num_rows_of), strict=True):
                mine += part
    return d_xs


def _pooled_gradient(
    program: Program,
    a: int,
    aggregations: Sequence[int],
    like: Tensor,
    big: Big,
    read: Sequence[Sequence[Tensor]],
) -> Tensor:
    """The gradient of what some aggregations pool in all bags of a stack, (bags, in); of linear ones, as rows read it back."""
    stack = program.inputs[a].plan
    d_pooled = stack.buffers.empty((stack.num_bags, like.shape[1]), like)
    for level, into in enumerate(levels_of(d_pooled, stack)):  # (keys, slots x in)
        is_blank = True
        for aggr in aggregations:
            products = program.products.out_of.get((aggr, a, level), ())
            if not products:
                continue
            part = into if is_blank else torch.empty_like(into)
            _multiply(part, [(read[p.target][p.target_level], big[p.matrix].t()) for p in products])
            aggregation = program.aggregations[aggr]
            if isinstance(aggregation, LinearAggregation):
                aggregation.scale(part, stack, level, out=part)
            if not is_blank:
                into += part
            is_blank = False
        if is_blank:
            into.zero_()
    return d_pooled


class _Layer(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, program: Program, num_inputs: int, num_weights: int, *tensors: Any
    ) -> tuple[Tensor, ...]:
        given, biases = tensors[: num_inputs + num_weights], tensors[num_inputs + num_weights :]
        xs, weights = given[:num_inputs], given[num_inputs:]
        ctx.program, ctx.has_bias, ctx.num_inputs = (
            program,
            [b is not None for b in biases],
            num_inputs,
        )
        ctx.native = native_layer(program, xs, weights)
        if ctx.native is not None:
            ys, kept = ctx.native.forward(_plain(xs), _plain(weights), biases)
            ctx.save_for_backward(*given, kept)
            return tuple(ys)
        ys, forward = run(program, xs, weights, biases)
        ctx.big, ctx.factors, ctx.pooled = (
            forward.big,
            tuple(forward.factors),
            tuple(forward.pooled),
        )
        rest = (
            part for pooled in forward.pooled.values() for part in (*pooled.levels, pooled.kept)
        )
        ctx.save_for_backward(*given, *forward.factors.values(), *rest)
        return tuple(ys)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Any, ...]:
        program: Program = ctx.program
        saved = iter(ctx.saved_tensors)
        xs, weights = (
            list(islice(saved, ctx.num_inputs)),
            list(islice(saved, program.products.num_weights)),
        )
        if torch.is_grad_enabled():  # to be differentiated again
            return None, None, None, *chain(*_gradients(program, xs, weights, grads, ctx.has_bias))
        needs_x, shapes = ctx.needs_input_grad[3 : 3 + ctx.num_inputs], [w.shape for w in weights]
        xs = _plain(xs)
        if ctx.native is not None:
            return (
                None,
                None,
                None,
                *chain(
                    *ctx.native.backward(
                        xs, shapes, _plain(grads), next(saved), any(needs_x), ctx.has_bias
                    )
                ),
            )
        factors = {key: next(saved) for key in ctx.factors}
        pooled = {
            (aggr, a): Pooled([next(saved) for _ in program.inputs[a].plan.num_slots], next(saved))
            for aggr, a in ctx.pooled
        }
        found = _backward(
            program, Forward(xs, ctx.big, factors, pooled), shapes, grads, needs_x, ctx.has_bias
        )
        return None, None, None, *chain(*found)


def _gradients(
    program: Program,
    xs: Sequence[Tensor],
    weights: Sequence[Tensor],
    grads: Sequence[Tensor],
    has_bias: Sequence[bool],
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
    def forward(
        ctx: Any, program: Program, counts: tuple[int, int], has_bias: Sequence[bool], *tensors: Any
    ) -> tuple[Any, ...]:
        ctx.program, ctx.counts, ctx.has_bias = program, counts, has_bias
        ctx.save_for_backward(*tensors)
        flat = iter(tensors)
        xs, weights = (list(islice(flat, count)) for count in counts)
        return tuple(chain(*run_backward(program, xs, weights, list(flat), has_bias)))

    @staticmethod
    def backward(ctx: Any, *seconds: Any) -> tuple[Any, ...]:
        program: Program = ctx.program
        assert_linear(program.aggregations)
        given, again = iter(ctx.saved_tensors), iter(seconds)
        xs, weights = (list(islice(given, count)) for count in ctx.counts)
        us, vs = (list(islice(again, count)) for count in ctx.counts)
        grads, biases = list(given), list(again)
        d_grads = [
            one + other
            for one, other in zip(
                apply(program, us, weights, biases),
                apply(program, xs, vs, [None] * len(grads)),
                strict=True,
            )
        ]
        d_xs, _, _ = _gradients(program, xs, vs, grads, ctx.has_bias)
        _, d_weights, _ = _gradients(program, us, weights, grads, ctx.has_bias)
        return None, None, None, *d_xs, *d_weights, *d_grads
