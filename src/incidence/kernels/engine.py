r"""The one engine behind every layer: write to subsets, one product for each level, read from subsets.

With $P_k$ the pooled rows of the keys of level k, words side by side,

    P_k = pool of X over (entry, key, word)            (keys, words x in)
    Z_k = sum over input orbits of P_k @ Big_k         (keys, words x out)    Big_k[u, w] = weight of the operation of the words u, w
    Y   = sum over k of Z_k read back                  (entries, out)

An orbit that meets itself needs no key for all its nodes: entries on one node set lie side by side, and those operations are a
product of blocks of rows. Backward is the same with Big transposed and the two sides swapped; every adjoint is written out, as
torch's own are several times slower. `docs/engine.md` carries an example through by hand.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import Any, NamedTuple

import torch
from torch import Tensor

from incidence.kernels.aggregate import Aggregation, LinearAggregation, Pooled, assert_linear, levels_of, pool_sum, read_back
from incidence.kernels.bags import bag_sum, side_by_side, some_rows, take_rows, transposed_product
from incidence.plans.orbit_plan import OrbitPlan
from incidence.plans.program import BigIndex, LevelProduct, MatrixRef, OrbitRef, SelfProduct, Side
from incidence.plans.program import Program as AnyProgram

__all__ = ["Big", "Program", "apply", "run", "run_backward"]

_BLOCK = 1 << 19  # floats of the output that are made at a time: small enough to stay in the cache
_CHUNK = 1 << 24  # floats of rows that are looked up for the gradient of a weight at a time

Program = AnyProgram[Aggregation]
PooledTensors = list[list[list[Pooled]]]
"""The pooled rows by aggregation, tensor and orbit."""
ReadGradients = list[list[list[Tensor]]]
"""The gradients of the outputs, added up in the bags that they read: by tensor, orbit and level."""
Gradients = tuple[Sequence[Tensor | None], Sequence[Tensor], Sequence[Tensor | None]]
"""The gradients of inputs, weights and biases."""


class Big:
    """The matrices of every weight, (words x in, words x out) each: gathered from its rows, or their gradients before they go back."""

    def __init__(self, index: Sequence[BigIndex], rows: Sequence[Tensor]) -> None:
        self.rows = rows
        self._index = index
        self._matrices = [_matrices(of_weight, at) for of_weight, at in zip(rows, index, strict=True)]

    @classmethod
    def of(cls, program: Program, weights: Sequence[Tensor]) -> Big:
        """Gathers the matrices from the weights, ([aggregations,] operations, in, out) each."""
        index = program.products.big_index([weight.shape for weight in weights])
        return cls(index, [_gathered(weight, at) for weight, at in zip(weights, index, strict=True)])

    def empty_like(self) -> Big:
        """Matrices of the same shapes, to be written."""
        return Big(self._index, [torch.empty_like(rows) for rows in self.rows])

    def __getitem__(self, ref: MatrixRef) -> Tensor:
        return self._matrices[ref.weight][ref.number]

    def to_weights(self, shapes: Sequence[tuple[int, ...]]) -> list[Tensor]:
        """The gradients of the weights from those of the matrices: every row of a weight is the sum of where it stands."""
        return [
            (rows if at.is_plain else bag_sum(rows, at.block_rows, at.block_ptr)).view(shape)
            for rows, at, shape in zip(self.rows, self._index, shapes, strict=True)
        ]


def _matrices(rows: Tensor, at: BigIndex) -> list[Tensor]:
    """The matrices of one weight, one after the other; views."""
    parts = rows.split_with_sizes(at.lengths)
    return [part if part.shape == shape else part.view(shape) for part, shape in zip(parts, at.shapes, strict=True)]


def _gathered(weight: Tensor, at: BigIndex) -> Tensor:
    rows = weight.detach().reshape(-1, weight.shape[-1])  # (operations x in, out)
    if at.is_plain:
        return rows
    if not at.is_full:
        rows = torch.cat([rows, rows.new_zeros(1, rows.shape[1])])
    return rows.index_select(0, at.weight_rows)  # (rows of blocks, out)


class Forward(NamedTuple):
    """What backward needs of the way forward: the inputs, the matrices, and the pooled rows."""

    xs: Sequence[Tensor]
    big: Big
    pooled: PooledTensors


def apply(program: Program, xs: Sequence[Tensor], weights: Sequence[Tensor], biases: Sequence[Tensor | None]) -> list[Tensor]:
    """The outputs of a layer.

    Args:
        program: What to do.
        xs: The inputs, (entries, in) each.
        weights: ([aggregations,] operations, in, out) each.
        biases: (orbits, out) for every output, or None.
    """
    return list(_Layer.apply(program, len(xs), len(weights), *xs, *weights, *biases))  # type: ignore[no-untyped-call]


def run(program: Program, xs: Sequence[Tensor], weights: Sequence[Tensor], biases: Sequence[Tensor | None]) -> tuple[list[Tensor], Forward]:
    """The outputs, and what backward needs."""
    forward = _pool(program, xs, weights)
    widths = [weights[number].shape[-1] for number in program.products.weight_into]
    return [_output(program, t, width, forward, biases[t]) for t, width in enumerate(widths)], forward


def run_backward(
    program: Program, xs: Sequence[Tensor], weights: Sequence[Tensor], grads: Sequence[Tensor], has_bias: Sequence[bool]
) -> Gradients:
    """The gradients of the inputs, weights and biases, from the inputs alone: the pooled rows are made again."""
    return _backward(program, _pool(program, xs, weights), [w.shape for w in weights], grads, [True] * len(xs), has_bias)


def _pool(program: Program, xs: Sequence[Tensor], weights: Sequence[Tensor]) -> Forward:
    """Every entry writes to its bags."""
    inputs = [x.detach().contiguous() for x in xs]
    sides = list(zip(inputs, program.inputs, strict=True))
    pooled = [[[aggregation.pool(x, orbit) for orbit in side.orbits] for x, side in sides] for aggregation in program.aggregations]
    return Forward(inputs, Big.of(program, weights), pooled)


def _output(program: Program, t: int, width: int, forward: Forward, bias: Tensor | None) -> Tensor:
    """An output from the products of all levels, and of entries that lie side by side."""
    side, products = program.outputs[t], program.products
    y = forward.xs[0].new_empty(side.num_entries, width)  # (entries, out), orbit by orbit
    for b, (orbit, of_orbit) in enumerate(_by_orbit(y, side)):
        ref = OrbitRef(t, b)
        factors = (_Factor(p.target_level, _pooled_level(forward, p), forward.big[p.matrix]) for p in products.into.get(ref, ()))
        z = _sum_products(orbit, width, y, factors, None if bias is None else bias[b])  # (bags, out)
        with_self = products.self_into.get(ref)
        x = None if with_self is None else forward.xs[with_self.source.tensor]
        _read_into(of_orbit, z, orbit, x, () if with_self is None else _self_blocks(orbit, with_self, forward.big, False))
    return _in_place(y, side)


def _by_orbit(y: Tensor, side: Side) -> Iterator[tuple[OrbitPlan, Tensor]]:
    """The orbits of a tensor with their entries, which follow each other; views."""
    start = 0
    for orbit in side.orbits:
        yield orbit, some_rows(y, start, start + orbit.num_entries)
        start += orbit.num_entries


def _in_place(y: Tensor, side: Side) -> Tensor:
    """The rows of a tensor where the caller has them. Gathering is four times as fast as writing rows there one by one."""
    return y if side.places is None else y.index_select(0, side.places)


def _pooled_level(forward: Forward, product: LevelProduct) -> Tensor:
    """The pooled rows that a product starts from, (keys, words x in)."""
    return forward.pooled[product.aggr][product.source.tensor][product.source.orbit].levels[product.source_level]


class _Factor(NamedTuple):
    """A product into a level: rows (keys, words x in) times a matrix (words x in, words x out)."""

    level: int
    rows: Tensor
    matrix: Tensor


def _sum_products(orbit: OrbitPlan, channels: int, like: Tensor, factors: Iterable[_Factor], bias: Tensor | None = None) -> Tensor:
    """What the bags of an orbit hold: for every level the sum of the products; and at structures the bias, as every entry reads one."""
    z = like.new_empty(orbit.num_bags, channels)  # (bags, channels)
    levels = levels_of(z, orbit)  # (keys, words x channels) each
    blank = set(range(len(levels)))
    for level, rows, matrix in factors:
        if level in blank:
            torch.mm(rows, matrix, out=levels[level])
            blank.remove(level)
        else:
            levels[level].addmm_(rows, matrix)
    for level in blank:
        levels[level].zero_()
    if bias is not None:
        levels[0] += bias
    return z


class _SelfBlock(NamedTuple):
    """Entries that are multiplied as they lie side by side, entries_per_set at a time."""

    start: int
    stop: int
    entries_per_set: int
    matrix: Tensor


def _self_blocks(orbit: OrbitPlan, product: SelfProduct, big: Big, is_adjoint: bool) -> Iterator[_SelfBlock]:
    """The entries of every mask with their matrix: the sum of those of all aggregations."""
    for (start, stop, entries_per_set), refs in zip(orbit.mask_slices, product.matrices, strict=True):
        first, *others = (big[ref] for ref in refs)
        matrix = sum(others, first)
        yield _SelfBlock(start, stop, entries_per_set, matrix.t() if is_adjoint else matrix)


def _read_into(y: Tensor, z: Tensor | None, orbit: OrbitPlan, x: Tensor | None, blocks: Iterable[_SelfBlock]) -> None:
    """Sets the entries of an orbit to the sums of their bags in z, if any, plus the products of those of x that lie side by side.

    In blocks that stay in the cache, so that rows of x which have to be looked up are never copied as a whole.
    """
    has_blocks = False
    for start, stop, entries_per_set, matrix in blocks:
        assert x is not None
        step = max(1, _BLOCK // (entries_per_set * y.shape[1])) * entries_per_set
        for a in range(start, stop, step):
            b = min(a + step, stop)
            rows = side_by_side(take_rows(x, orbit, a, b), entries_per_set)  # (sets, words x in)
            into = side_by_side(some_rows(y, a, b), entries_per_set)  # (sets, words x out)
            if z is None:
                torch.mm(rows, matrix, out=into)
            else:
                torch.addmm(side_by_side(_read_some(z, orbit, a, b), entries_per_set), rows, matrix, out=into)
        has_blocks = True
    if has_blocks:
        return
    if z is None:
        y.zero_()
    else:
        y.copy_(read_back(z, orbit))


def _read_some(z: Tensor, orbit: OrbitPlan, start: int, stop: int) -> Tensor:
    """The sums of the bags of some entries, which have as many bags as all others."""
    width = orbit.bags_of_entries.shape[0] // orbit.num_entries  # so any block of entries has the starts of the first ones
    bags, ptr = some_rows(orbit.bags_of_entries, start * width, stop * width), some_rows(orbit.bags_ptr, 0, stop - start + 1)
    return bag_sum(z, bags, ptr)


def _backward(
    program: Program,
    forward: Forward,
    shapes: Sequence[tuple[int, ...]],
    grads: Sequence[Tensor],
    needs_x: Sequence[bool],
    has_bias: Sequence[bool],
) -> Gradients:
    grads = [g.detach().contiguous() for g in grads]
    read = [[pool_sum(g, orbit) for orbit in side.orbits] for g, side in zip(grads, program.outputs, strict=True)]
    d_weights = _weight_gradients(program, forward, shapes, grads, read)
    d_xs = [_input_gradient(program, s, forward, grads, read) if need else None for s, need in enumerate(needs_x)]
    d_biases = [torch.cat([levels[0].sum(0, keepdim=True) for levels in read[t]]) if has else None for t, has in enumerate(has_bias)]
    return d_xs, d_weights, d_biases


def _weight_gradients(
    program: Program, forward: Forward, shapes: Sequence[tuple[int, ...]], grads: Sequence[Tensor], read: ReadGradients
) -> list[Tensor]:
    d_big = forward.big.empty_like()
    for product in program.products.of_levels:
        into = read[product.target.tensor][product.target.orbit][product.target_level]  # (keys, words x out)
        transposed_product(_pooled_level(forward, product), into, out=d_big[product.matrix])
    for with_self in program.products.self_into.values():
        x, g = forward.xs[with_self.source.tensor], grads[with_self.target.tensor]
        orbit = program.outputs[with_self.target.tensor].orbits[with_self.target.orbit]
        for (start, stop, entries_per_set), refs in zip(orbit.mask_slices, with_self.matrices, strict=True):
            first, *others = (d_big[ref] for ref in refs)
            _self_weight_gradient(first, x, g, orbit, start, stop, entries_per_set)
            for copy in others:
                copy.copy_(first)
    return d_big.to_weights(shapes)


def _self_weight_gradient(d_matrix: Tensor, x: Tensor, g: Tensor, orbit: OrbitPlan, start: int, stop: int, entries_per_set: int) -> None:
    """The gradient of a matrix that entries of one mask are multiplied with; rows that have to be looked up are in chunks."""
    step = stop - start if orbit.rows is None else max(1, _CHUNK // (entries_per_set * (x.shape[1] + g.shape[1]))) * entries_per_set
    for a in range(start, stop, max(step, 1)):
        b = min(a + step, stop)
        one, other = (side_by_side(take_rows(v, orbit, a, b), entries_per_set) for v in (x, g))  # (sets, words x channels)
        if a == start:
            transposed_product(one, other, out=d_matrix)
        else:
            d_matrix += transposed_product(one, other)
    if start == stop:
        d_matrix.zero_()


def _input_gradient(program: Program, s: int, forward: Forward, grads: Sequence[Tensor], read: ReadGradients) -> Tensor:
    side, x, products = program.inputs[s], forward.xs[s], program.products
    d_x = torch.empty_like(x)  # (entries, in), orbit by orbit
    curved = []
    for number, (orbit, of_orbit) in enumerate(_by_orbit(d_x, side)):
        ref = OrbitRef(s, number)
        d_pooled = [
            _sum_products(orbit, x.shape[1], x, _backward_factors(products.out_of.get(ref, ()), aggr, read, forward.big))
            for aggr in range(len(program.aggregations))
        ]  # (bags, in) each
        scaled = [a.scale(d, orbit) for a, d in zip(program.aggregations, d_pooled, strict=True) if isinstance(a, LinearAggregation)]
        with_self = products.self_out_of.get(ref)
        g = None if with_self is None else grads[with_self.target.tensor]
        blocks = () if with_self is None else _self_blocks(orbit, with_self, forward.big, True)
        _read_into(of_orbit, sum(scaled[1:], scaled[0]) if scaled else None, orbit, g, blocks)
        for aggr, aggregation in enumerate(program.aggregations):
            if not isinstance(aggregation, LinearAggregation):
                curved.append((aggregation, d_pooled[aggr], forward.pooled[aggr][s][number], orbit))
    d_x = _in_place(d_x, side)
    for aggregation, grad, pooled, orbit in curved:
        aggregation.add_adjoint(d_x, grad, x, pooled, orbit)
    return d_x


def _backward_factors(products: Iterable[LevelProduct], aggr: int, read: ReadGradients, big: Big) -> Iterator[_Factor]:
    for product in products:
        if product.aggr == aggr:
            rows = read[product.target.tensor][product.target.orbit][product.target_level]
            yield _Factor(product.source_level, rows, big[product.matrix].t())


class _Layer(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, program: Program, num_inputs: int, num_weights: int, *tensors: Any) -> tuple[Tensor, ...]:
        given, biases = tensors[: num_inputs + num_weights], tensors[num_inputs + num_weights :]
        ys, forward = run(program, given[:num_inputs], given[num_inputs:], biases)
        ctx.program, ctx.big, ctx.has_bias = program, forward.big, [b is not None for b in biases]
        pooled = (part for tensors in forward.pooled for orbits in tensors for one in orbits for part in (*one.levels, one.kept))
        ctx.save_for_backward(*given, *pooled)
        return tuple(ys)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Any, ...]:
        program: Program = ctx.program
        flat, num_inputs = iter(ctx.saved_tensors), len(program.inputs)
        xs, weights = list(islice(flat, num_inputs)), list(islice(flat, len(ctx.big.rows)))
        if torch.is_grad_enabled():  # to be differentiated again
            return None, None, None, *chain(*_gradients(program, xs, weights, grads, ctx.has_bias))
        forward = Forward([x.detach().contiguous() for x in xs], ctx.big, _restore_pooled(program, flat))
        needs_x = ctx.needs_input_grad[3 : 3 + num_inputs]
        found = _backward(program, forward, [w.shape for w in weights], grads, needs_x, ctx.has_bias)
        return None, None, None, *chain(*found)


def _restore_pooled(program: Program, flat: Iterator[Tensor]) -> PooledTensors:
    def one(orbit: OrbitPlan) -> Pooled:
        return Pooled([next(flat) for _ in orbit.level_numbers], next(flat))

    def tensor(side: Side) -> list[Pooled]:
        return [one(orbit) for orbit in side.orbits]

    return [[tensor(side) for side in program.inputs] for _ in program.aggregations]


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
        assert_linear(program.aggregations)
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
