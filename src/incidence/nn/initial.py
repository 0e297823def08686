"""What a linear layer starts from: which operations it has, how each of them aggregates, and how
large its weights are.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from math import comb, sqrt
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from incidence.algebra.maps import EquivariantMap, Operation
from incidence.algebra.selection import Choice, predicate
from incidence.engine.aggregate import AGGREGATIONS, Aggregation
from incidence.engine.layer import apply
from incidence.engine.plan import Plan, plan_of
from incidence.engine.weights import Products, WeightLayout
from incidence.errors import IncidenceError
from incidence.nn.tensors import Values, as_list
from incidence.structure.arrange import orbit_rows

if TYPE_CHECKING:
    from incidence.nn.linear import Linear
    from incidence.structure import Structure

__all__ = ["Aggr", "as_aggr", "by_operation", "calibrate", "draw_weights", "kept_operations"]

Aggr = (
    str
    | Sequence[str]
    | Callable[[Operation], str | Sequence[str]]
    | Mapping[int, str | Sequence[str]]
)
"""One aggregation, a list of them, or one for every operation."""

Kept = dict[tuple[int, int], tuple[int, ...]]
"""The numbers of the operations of a layer, by the numbers of an input and an output."""
_MOST_TRIED = 3  # matched nodes in faces of any size, for a hint


def kept_operations(m: EquivariantMap, choice: Choice) -> Kept:
    """Return the operations of a map that a layer has.

    Raises:
        IncidenceError: There are none.
    """
    is_kept = None if choice is None else predicate(choice, m)
    kept: dict[tuple[int, int], list[int]] = {
        (s, t): [] for s in range(len(m.inputs)) for t in range(len(m.outputs))
    }
    for number, operation in enumerate(m.operations):
        if is_kept is None or is_kept(operation):
            kept[operation.source.tensor, operation.target.tensor].append(number)
    if not m.dimension:
        raise IncidenceError(
            f"`{m}` has no operation: every contribution to an output is cancelled by its opposite."
            " Pool absolute values or squares with inc.nn.Readout, or go through"
            " another tensor, as in `<i j> -> i` and `i -> `."
        )
    if not any(kept.values()):
        raise IncidenceError(
            f"operations= keeps none of the {m.dimension} operations of `{m}`: the layer would be"
            f" constant.{_wider(m, choice)}"
        )
    return {pair: tuple(numbers) for pair, numbers in kept.items()}


def _wider(m: EquivariantMap, choice: Choice) -> str:
    """Return the hint that faces of any size, such as rings, may share more nodes, if it helps."""
    for most in range(m.max_overlap + 1, _MOST_TRIED + 1) if m.is_open else ():
        wider = EquivariantMap(m.text, most)
        try:
            is_kept = predicate(choice, wider)
        except IncidenceError:
            return ""
        if any(is_kept(operation) for operation in wider.operations):
            what = f"entries that share {most} nodes, as a ring and its edges do"
            return f" It keeps some with `--max-overlap {most}`, which matches {what}."
    return ""


def by_operation(
    aggr: Any, m: EquivariantMap, kept: Kept
) -> tuple[tuple[str, ...], dict[int, tuple[int, ...]]]:
    """Return all aggregations of a layer, and for every operation which of them it has."""
    numbers = sorted(number for listed in kept.values() for number in listed)
    if isinstance(aggr, Mapping):
        for number in aggr:
            if type(number) is not int or not 0 <= number < m.dimension:
                raise IncidenceError(
                    f"aggr= maps numbers of operations, 0 to {m.dimension - 1}, to aggregations;"
                    f" got {number!r}."
                )
        chosen = {number: as_aggr(aggr.get(number, "sum")) for number in numbers}
    else:
        chosen = {number: as_aggr(aggr(m.operations[number])) for number in numbers}
    names = tuple(dict.fromkeys(name for listed in chosen.values() for name in listed))
    return names, {number: tuple(map(names.index, listed)) for number, listed in chosen.items()}


def as_aggr(aggr: Any) -> tuple[str, ...]:
    """Return the names of aggregations, checked."""
    if not isinstance(aggr, (str, list, tuple)):
        raise IncidenceError(
            f"aggr is one of {', '.join(AGGREGATIONS)}, or a list of them; got {aggr!r}."
        )
    names = (aggr,) if isinstance(aggr, str) else tuple(aggr)
    for name in names:
        if not isinstance(name, str) or name not in AGGREGATIONS:
            raise IncidenceError(f"no aggregation {name!r}; there are: {', '.join(AGGREGATIONS)}.")
    if not names or len(set(names)) < len(names):
        raise IncidenceError(
            f"aggr is one aggregation or a list of different ones; got {list(names)}."
        )
    return names


@torch.no_grad()
def draw_weights(layer: Linear) -> None:
    """Draw the weights of a layer.

    An output entry then has unit variance where the keys that it reads have. Weights without a
    shape or without storage are left as they are.
    """
    pairs = layer._weight_layout.pairs
    reads: dict[tuple[int, int], int] = defaultdict(int)
    for pair in pairs:
        width = abs(layer.in_channels[pair[0]]) * (len(layer.aggr) if layer._is_list else 1)
        for operation in layer.operations_of(*pair):
            orbit = operation.target.tensor, operation.target.number
            reads[orbit] += _num_reads(operation) * width  # numbers that one output number sums
    for pair, weight in zip(pairs, layer._weights(), strict=True):
        # On meta tensors torch would load much to do nothing.
        if isinstance(weight, nn.UninitializedParameter) or weight.is_meta:
            continue
        orbits = [(o.target.tensor, o.target.number) for o in layer.operations_of(*pair)]
        scale = weight.new_tensor([1 / sqrt(max(reads[orbit], 1)) for orbit in orbits])  # (rows,)
        weight.normal_().mul_(scale[:, None, None])  # (rows, in, out)
    for bias in layer._biases():
        if bias is not None:
            bias.zero_()


def _num_reads(operation: Operation) -> int:
    """Return how many keys an operation reads for each output entry.

    Open classes count as if they held just the matched nodes.
    """
    reads = 1
    for j, c in enumerate(operation.target.orbit.classes):
        column = [row[j] for row in operation.overlap]
        left = sum(column) if c.size is None else c.size
        for a in column:  # the nodes of a class are dealt out one input class after the other
            reads *= comb(left, a)
            left -= a
    return reads


_CANCELLED = 1e-5  # of what a term would be if nothing cancelled: what is left is rounding


@torch.no_grad()
def calibrate(layer: Linear, x: Values | Mapping[str, Tensor], structure: Structure) -> None:
    """Divide the weight of every operation by the root mean square of its term.

    The term of an operation is what it gives before its weight, on the entries of its output orbit.
    Terms that are 0, but for rounding, are left alone.
    """
    xs = as_list(layer.map.inputs, x, structure, [None if c < 0 else c for c in layer.in_channels])
    layer._materialize(xs)
    plan, layout = plan_of(structure, layer._products.layout), layer._weight_layout
    sizes = [value.abs() for value in xs]
    for pair, weight in zip(layout.pairs, layer._weights(), strict=True):
        least = _rms(xs[pair[0]], xs[pair[0]].numel())
        rows = weight.view(-1, *weight.shape[-2:])  # (operations x aggregations, in, out)
        for row, (number, aggr) in zip(rows, layout.terms(pair), strict=True):
            aggregation = layer._aggregations[aggr]
            scale = _scale(layer, structure, plan, pair, number, aggregation, xs)
            # Values that cancel leave rounding, which must not be scaled up to 1.
            bound = _scale(layer, structure, plan, pair, number, aggregation, sizes)
            if scale > _CANCELLED * max(bound, least):
                row.div_(scale)


def _scale(
    layer: Linear,
    structure: Structure,
    plan: Plan,
    pair: tuple[int, int],
    number: int,
    aggregation: Aggregation,
    xs: list[Tensor],
) -> float:
    """Return the root mean square of the term of one operation."""
    s, t = pair
    width = xs[s].shape[1]
    # A layer of this operation alone, whose weight is the identity.
    kept: Kept = {other: (number,) if other == pair else () for other in layer._weight_layout.pairs}
    products = Products(WeightLayout(layer.map, kept), [aggregation.keeps_entry])
    eye = torch.eye(width, dtype=xs[s].dtype, device=xs[s].device)[None]  # (1, in, in)
    weights = [
        eye if other == pair else xs[other[0]].new_zeros(0, xs[other[0]].shape[1], width)
        for other in kept
    ]
    ys = apply(products, (aggregation,), plan, xs, weights, [None] * len(layer.map.outputs))
    rows = orbit_rows(structure, layer.map.outputs[t])[layer.map.operations[number].target.number]
    return _rms(ys[t], len(rows) * layer.in_channels[s])


def _rms(x: Tensor, count: int) -> float:
    return float((x.double().square().sum() / max(1, count)).sqrt())
