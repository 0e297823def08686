r"""A layer on a plan: write to subsets, multiply level by level, read from subsets.

With $P_k$ the pooled rows of the keys of level k, slots side by side,

    P_k = pool of X over (row, key, slot)              (keys, slots x in)
    Z_k = sum over inputs of P_k @ M_k                 (keys, slots x out)
    Y   = sum over k of Z_k read back                  (rows, out)

where the block $M_k[u, w]$ is the weight of the operation of the slots u and w.

Where the rows of a tensor are fewer than the keys of a level, a product is taken at these rows
instead: before they are pooled, or after they have read. `place_of` decides.

An orbit that meets itself needs no key for all its nodes: those operations are products of its
rows, read by their partners, the entries on the same nodes. Rows keep the caller's order; nothing
is permuted. Backward is the same with M transposed and the two sides swapped. Every adjoint is
written out, as torch's own are several times slower. `docs/engine.md` carries an example through by
hand.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any

import torch
from torch import Tensor

from incidence.engine.aggregate import Aggregation, LinearAggregation, assert_linear
from incidence.engine.bags import Bags, transposed_product, wide_of
from incidence.engine.gather import PartnerTerm, add_gradients, read_rows
from incidence.engine.gradient import with_gradient
from incidence.engine.plan import Plan
from incidence.engine.weights import (
    LevelProduct,
    Matrices,
    Products,
    empty_matrices,
    gathered,
    weight_gradients,
)

__all__ = ["READ_COST", "LayerCall", "apply"]

# A number that is read, and added to another, counts as so many multiplications. It is chosen, not
# fitted: a layer changes its way if it saves clearly more products than it adds reads.
READ_COST = 16

_AT_KEYS, _AT_SOURCE, _AT_TARGET = range(3)

Gradients = tuple[Sequence[Tensor | None], Sequence[Tensor], Sequence[Tensor | None]]
"""The gradients of inputs, weights and biases."""


def apply(
    products: Products,
    aggregations: tuple[Aggregation, ...],
    plan: Plan,
    xs: Sequence[Tensor],
    weights: Sequence[Tensor],
    biases: Sequence[Tensor | None],
) -> Sequence[Tensor]:
    """Return the outputs of a layer.

    Args:
        products: The operations of the layer.
        aggregations: By number.
        plan: The bags and partners of the structure.
        xs: The inputs, (entries, in) each.
        weights: ([aggregations,] operations, in, out) each.
        biases: (orbits, out) for every output, or None.
    """
    layer = products, aggregations, plan
    counts = len(xs), len(weights)
    has_bias = [bias is not None for bias in biases]

    def run(*tensors: Any) -> tuple[list[Tensor], list[Tensor]]:
        xs, weights, biases = _split(tensors, counts)
        call = LayerCall(*layer, xs, weights)
        call.pool()
        return call.outputs(biases), [*xs, *weights, *call.saved]

    def gradient(
        saved: Sequence[Tensor], grads: Sequence[Tensor], needs: Sequence[bool]
    ) -> Sequence[Tensor | None]:
        xs, weights, rest = _split(saved, counts)
        if torch.is_grad_enabled():  # to be differentiated again
            return [*chain(*_gradients(*layer, xs, weights, grads, has_bias))]
        call = LayerCall(*layer, xs, weights)
        call.restore(rest)
        return [*chain(*call.gradients(grads, needs[: len(xs)], has_bias))]

    return with_gradient(run, gradient, *xs, *weights, *biases)


def _gradients(
    products: Products,
    aggregations: tuple[Aggregation, ...],
    plan: Plan,
    xs: Sequence[Tensor],
    weights: Sequence[Tensor],
    grads: Sequence[Tensor],
    has_bias: Sequence[bool],
) -> Gradients:
    """Return the gradients of a layer as something that can be differentiated.

    A layer y = L(x, W) is linear in x and in W, and its gradients X(g, W) and D(g, x) are linear in
    those and in the gradient g of y. So the gradients of u X(g, W) + V D(g, x) are L(u, W) + L(x,
    V) for g, X(g, V) for x, and D(g, u) for W: layers and gradients again.
    """
    layer = products, aggregations, plan
    counts = len(xs), len(weights)

    def run(*tensors: Tensor) -> tuple[list[Any], Sequence[Tensor]]:
        xs, weights, grads = _split(tensors, counts)
        call = LayerCall(*layer, xs, weights)
        call.pool()
        return [*chain(*call.gradients(grads, [True] * len(xs), has_bias))], tensors

    def gradient(
        saved: Sequence[Tensor], seconds: Sequence[Any], needs: Sequence[bool]
    ) -> Sequence[Tensor | None]:
        assert_linear(aggregations)
        xs, weights, grads = _split(saved, counts)
        us, vs, biases = _split(seconds, counts)
        one = apply(*layer, us, weights, biases)
        other = apply(*layer, xs, vs, [None] * len(grads))
        d_grads = [a + b for a, b in zip(one, other, strict=True)]  # (entries, out) each
        d_xs, _, _ = _gradients(*layer, xs, vs, grads, has_bias)
        _, d_weights, _ = _gradients(*layer, us, weights, grads, has_bias)
        return [*d_xs, *d_weights, *d_grads]

    flat = with_gradient(run, gradient, *xs, *weights, *grads)
    d_xs, d_weights, d_biases = _split(flat, counts)
    return d_xs, d_weights, d_biases


def _split(tensors: Sequence[Any], counts: tuple[int, int]) -> tuple[Sequence[Any], ...]:
    """Return the first, the next and the other tensors."""
    return tensors[: counts[0]], tensors[counts[0] : sum(counts)], tensors[sum(counts) :]


def place_of(
    source: Bags, level: int, target: Bags, target_level: int, sides: Sequence[int]
) -> int:
    """Return where a product of a level is taken: at the keys, or at the rows of one tensor.

    It is linear in the rows, so they may be multiplied before they are pooled, or after they have
    read. That needs one more pass over the reads of that level. Tensors with several slots in the
    level, and those that several processes share, are multiplied at the keys.

    Args:
        source: The bags that are pooled into.
        level: The number of the level there.
        target: The bags that are read.
        target_level: The number of the level there.
        sides: The rows and the columns of the matrix.
    """
    keys = source.num_bags_at[level] // source.num_slots[level]
    place, least = _AT_KEYS, keys * sides[0] * sides[1]
    ways = (_AT_SOURCE, source, level, sides[1]), (_AT_TARGET, target, target_level, sides[0])
    for way, bags, at, width in ways:
        if bags.num_rows >= keys or bags.num_slots[at] > 1 or bags.shared:
            continue
        reads = bags.reads_ptr[at + 1] - bags.reads_ptr[at]
        cost = bags.num_rows * sides[0] * sides[1] + READ_COST * reads * width
        if cost < least:
            place, least = way, cost
    return place


class LayerCall:
    """One call of a layer on a structure, forward or backward.

    Attributes:
        matrices: The matrices of all products.
        factors: What every product on a level starts from, by aggregation, input and level.
        pooled: What aggregations that are not linear pooled, and what else their adjoints need,
            by aggregation and input.
        places: Where every product on a level is taken.
    """

    def __init__(
        self,
        products: Products,
        aggregations: tuple[Aggregation, ...],
        plan: Plan,
        xs: Sequence[Tensor],
        weights: Sequence[Tensor],
    ) -> None:
        self.products, self.aggregations, self.plan = products, aggregations, plan
        self.xs, self.weights = [x.contiguous() for x in xs], weights
        self._sources, self._targets = plan.inputs, plan.outputs
        self.matrices: list[Tensor] = []
        self.factors: dict[tuple[int, int, int], Tensor] = {}
        self.pooled: dict[tuple[int, int], tuple[Tensor, Tensor]] = {}
        self.places = {p: self._place(p) for p in products.of_levels}

    def _place(self, p: LevelProduct) -> int:
        source, target = self._sources[p.source], self._targets[p.target]
        num_in, num_out = self.xs[p.source].shape[1], self.weights[p.target].shape[-1]
        sides = (
            source.num_slots[p.source_level] * num_in,
            target.num_slots[p.target_level] * num_out,
        )
        place = place_of(source, p.source_level, target, p.target_level, sides)
        is_linear = isinstance(self.aggregations[p.aggr], LinearAggregation)
        return place if is_linear or place != _AT_SOURCE else _AT_KEYS

    @property
    def gathering(self) -> list[Matrices]:
        """How matrices are gathered from the rows of weights."""
        num_in = [x.shape[1] for x in self.xs]
        # weights of the first input come first
        num_out = [weight.shape[-1] for weight in self.weights[: len(self._targets)]]
        return self.products.matrices(num_in, num_out, self.xs[0].device)

    def pool(self) -> None:
        """Let every row write to its bags, and gather the matrices."""
        sums: dict[int, list[Tensor]] = {}  # of every input, by level
        for aggr, s, level in self.products.out_of:
            aggregation, bags, x = self.aggregations[aggr], self._sources[s], self.xs[s]
            if not isinstance(aggregation, LinearAggregation):
                if (aggr, s) not in self.pooled:
                    self.pooled[aggr, s] = aggregation.pool(x, bags)
                rows, _ = self.pooled[aggr, s]  # (bags, in)
                self.factors[aggr, s, level] = bags.by_level(rows)[level]
                continue
            if s not in sums:  # multiples of the sum share it
                sums[s] = bags.pool_all(x.to(wide_of(x.dtype)))
            scaled = aggregation.scale(sums[s][level], bags, level)  # (keys, slots x in)
            self.factors[aggr, s, level] = scaled.to(x.dtype)
        self.matrices = gathered(self.gathering, self.weights)

    @property
    def saved(self) -> list[Tensor]:
        """What `pool` made, for `restore`."""
        return [*self.matrices, *self.factors.values(), *chain(*self.pooled.values())]

    def restore(self, saved: Sequence[Tensor]) -> None:
        """Take what `pool` made from the tensors that autograd saved."""
        rest = iter(saved)
        self.matrices = [next(rest) for _ in self.products.tables]
        self.factors = {key: next(rest) for key in self.products.out_of}
        for aggr, s, _ in self.products.out_of:
            if (aggr, s) in self.pooled or isinstance(self.aggregations[aggr], LinearAggregation):
                continue
            self.pooled[aggr, s] = next(rest), next(rest)

    # ---- forward

    def outputs(self, biases: Sequence[Tensor | None]) -> list[Tensor]:
        """Return the outputs, (entries, out) each."""
        ys = []
        for t, bags in enumerate(self._targets):
            z = bags.buffers.empty((bags.num_bags, self.weights[t].shape[-1]), self.xs[0])
            levels = bags.by_level(z)  # (keys, slots x out) each
            for into, products in zip(levels, self.products.into[t], strict=True):
                terms = [
                    (self.factors[p[:3]], self.matrices[p.matrix])
                    for p in products
                    if self.places[p] == _AT_KEYS
                ]
                _set_to_products(into, terms)
                for p in products:
                    if self.places[p] == _AT_SOURCE:
                        rows = self.xs[p.source] @ self.matrices[p.matrix]  # (rows, slots x out)
                        sums = self._sources[p.source].pool_at(p.source_level, rows)
                        into += self._scaled(p, sums)
            bias = biases[t]
            if bias is not None:  # every row whose orbit has a bias reads the bag of its structure
                levels[0] += bias.flatten()  # (structures, slots x out)
            y = read_rows(z, bags, self._partner_terms(t))  # (entries, out)
            for p in chain(*self.products.into[t]):
                if self.places[p] == _AT_TARGET:
                    y.addmm_(self._read(p), self.matrices[p.matrix])
            ys.append(y)
        return ys

    def _scaled(self, p: LevelProduct, sums: Tensor) -> Tensor:
        """Return sums over the bags of the source of a product as its aggregation pools them."""
        aggregation = self.aggregations[p.aggr]
        assert isinstance(aggregation, LinearAggregation)
        return aggregation.scale(sums, self._sources[p.source], p.source_level)

    def _read(self, p: LevelProduct) -> Tensor:
        """Return what the rows of the target of a product read, before they are multiplied."""
        return self._targets[p.target].read_at(p.target_level, self.factors[p[:3]])

    def _partner_terms(self, t: int) -> list[PartnerTerm]:
        """Return what the rows of an output read from their partners."""
        partners = self.plan.partners
        return [
            PartnerTerm(self.xs[p.source], self._sum(p.matrices), partners[p.key])
            for p in self.products.of_partners
            if p.target == t and p.key in partners
        ]

    def _sum(self, numbers: Sequence[int]) -> Tensor:
        """Return the sum of some matrices."""
        first, *others = numbers
        return sum((self.matrices[k] for k in others), self.matrices[first])

    # ---- backward

    def gradients(
        self, grads: Sequence[Tensor], needs_x: Sequence[bool], has_bias: Sequence[bool]
    ) -> Gradients:
        """Return the gradients of inputs, weights and biases, given those of the outputs."""
        grads = [grad.contiguous() for grad in grads]
        # what was read is written back: (keys, slots x out) by output and level
        read = [bags.pool(grad) for bags, grad in zip(self._targets, grads, strict=True)]
        gathering = self.gathering
        d_matrices, arrays = empty_matrices(gathering, self.weights)
        at_source: list[tuple[LevelProduct, Tensor]] = []  # with the gradients of multiplied rows
        for p in self.products.of_levels:
            rows, grad = self.factors[p[:3]], read[p.target][p.target_level]
            if self.places[p] == _AT_TARGET:
                rows, grad = self._read(p), grads[p.target]
            elif self.places[p] == _AT_SOURCE:
                of_rows = self._sources[p.source].read_at(p.source_level, self._scaled(p, grad))
                at_source.append((p, of_rows))
                rows, grad = self.xs[p.source], of_rows
            transposed_product(rows, grad, out=d_matrices[p.matrix])
        d_biases = [
            # (structures, orbits x out) -> (orbits, out)
            levels[0].sum(0).view(-1, grad.shape[1]) if has else None
            for levels, grad, has in zip(read, grads, has_bias, strict=True)
        ]
        # Gradients of weights take the sums of this process alone, and are added up over processes.
        if any(needs_x):
            read = [list(bags.totals(sums)) for bags, sums in zip(self._targets, read, strict=True)]
        d_xs: list[Tensor | None] = []
        for s, needed in enumerate(needs_x):
            terms = self._adjoint_terms(s, grads, d_matrices)
            if needed:
                d_x = self._input_gradient(s, grads, read, terms)
                for p, of_rows in at_source:
                    if p.source == s:
                        d_x.addmm_(of_rows, self.matrices[p.matrix].t())
                d_xs.append(d_x)
            else:
                add_gradients(terms)
                d_xs.append(None)
        for partner_product in self.products.of_partners:
            first, *others = (d_matrices[k] for k in partner_product.matrices)
            if partner_product.key not in self.plan.partners:
                first.zero_()
            for other in others:  # all aggregations give a lone entry back: they share the gradient
                other.copy_(first)
        return d_xs, weight_gradients(gathering, arrays, self.weights), d_biases

    def _adjoint_terms(
        self, s: int, grads: Sequence[Tensor], d_matrices: Sequence[Tensor]
    ) -> list[PartnerTerm]:
        """Return what the rows of an input get back from the outputs that read them."""
        partners = self.plan.partners
        return [
            PartnerTerm(
                grads[p.target],
                self._sum(p.matrices).t(),
                partners[p.adjoint],
                self.xs[s],
                d_matrices[p.matrices[0]],
            )
            for p in self.products.of_partners
            if p.source == s and p.adjoint in partners
        ]

    def _input_gradient(
        self,
        s: int,
        grads: Sequence[Tensor],
        read: Sequence[Sequence[Tensor]],
        terms: Sequence[PartnerTerm],
    ) -> Tensor:
        """Return the gradient of an input, (entries, in)."""
        bags = self._sources[s]
        if bags.is_copy:  # another process counts its rows
            return torch.zeros_like(self.xs[s])
        is_linear = [isinstance(a, LinearAggregation) for a in self.aggregations]
        linear = [aggr for aggr, linear in enumerate(is_linear) if linear]
        d_x = read_rows(self._pooled_gradient(s, linear, grads, read), bags, terms)
        for (aggr, source), pooled in self.pooled.items():
            if source == s:
                d_pooled = self._pooled_gradient(s, [aggr], grads, read)
                self.aggregations[aggr].add_adjoint(d_x, d_pooled, self.xs[s], pooled, bags)
        return d_x

    def _pooled_gradient(
        self,
        s: int,
        aggregations: Sequence[int],
        grads: Sequence[Tensor],
        read: Sequence[Sequence[Tensor]],
    ) -> Tensor:
        """Return the gradient of what some aggregations pool in all bags of an input, (bags, in).

        That of a linear aggregation is scaled already, as rows read it back.
        """
        bags, x = self._sources[s], self.xs[s]
        d_pooled = bags.buffers.empty((bags.num_bags, x.shape[1]), x)
        for level, into in enumerate(bags.by_level(d_pooled)):  # (keys, slots x in)
            is_blank = True
            for aggr in aggregations:
                products = self.products.out_of.get((aggr, s, level))
                if not products:
                    continue
                part = into if is_blank else torch.empty_like(into)
                terms = [
                    (read[p.target][p.target_level], self.matrices[p.matrix].t())
                    for p in products
                    if self.places[p] == _AT_KEYS
                ]
                _set_to_products(part, terms)
                for p in products:
                    if self.places[p] == _AT_TARGET:
                        rows = grads[p.target] @ self.matrices[p.matrix].t()  # (rows, slots x in)
                        part += self._targets[p.target].pool_at(p.target_level, rows)
                aggregation = self.aggregations[aggr]
                if isinstance(aggregation, LinearAggregation):
                    aggregation.scale(part, bags, level, out=part)
                if not is_blank:
                    into += part
                is_blank = False
            if is_blank:
                into.zero_()
        return d_pooled


def _set_to_products(into: Tensor, factors: Sequence[tuple[Tensor, Tensor]]) -> None:
    """Set the rows of a level to a sum of products of rows and matrices."""
    if not factors:
        into.zero_()
        return
    torch.mm(*factors[0], out=into)
    for rows, matrix in factors[1:]:
        into.addmm_(rows, matrix)
