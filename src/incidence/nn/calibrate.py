"""Scaling the weights of a layer to its first batch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from incidence.engine.aggregate import Aggregation
from incidence.engine.layer import Operator, apply
from incidence.engine.plan import Plan, plan_of
from incidence.engine.weights import Products, WeightLayout
from incidence.nn.tensors import Values, as_list
from incidence.structure.arrange import orbit_rows

if TYPE_CHECKING:
    from incidence.nn.linear import Linear
    from incidence.structure import Structure

__all__ = ["calibrate"]


_CANCELLED = 1e-5  # of what a term would be if nothing cancelled: what is left is rounding


@torch.no_grad()
def calibrate(layer: Linear, x: Values | Mapping[str, Tensor], structure: Structure) -> None:
    """Divides the weight of every operation by the root mean square of its term; terms that are 0,
    but for rounding, are left alone.

    The term of an operation is what it gives before its weight, on the entries of its output orbit.
    """
    xs = as_list(layer.map.inputs, x, structure, [None if c < 0 else c for c in layer.in_channels])
    layer._materialize(xs)
    plan, layout = plan_of(structure, layer._products.layout), layer._weight_layout
    for pair, weight in zip(layout.pairs, layer._weights(), strict=True):
        rows = weight.view(-1, *weight.shape[-2:])  # one for each operation and aggregation
        for row, (number, aggr) in zip(rows, layout.terms(pair), strict=True):
            aggregation = layer._aggregations[aggr]
            scale = _scale(layer, structure, plan, pair, number, aggregation, xs)
            least = _rms(xs[pair[0]], xs[pair[0]].numel())
            bound = max(
                _scale(layer, structure, plan, pair, number, aggregation, [v.abs() for v in xs]),
                least,
            )
            if scale > _CANCELLED * bound:
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
    """The root mean square of the term of one operation."""
    s, t = pair
    width = xs[s].shape[1]
    kept: dict[tuple[int, int], tuple[int, ...]] = {
        other: (number,) if other == pair else () for other in layer._weight_layout.pairs
    }
    products = Products(WeightLayout(layer.map, kept), [aggregation.keeps_entry])
    operator = Operator(products, (aggregation,), plan)
    eye = torch.eye(width, dtype=xs[s].dtype, device=xs[s].device)[None]
    weights = [
        eye if other == pair else xs[other[0]].new_zeros(0, xs[other[0]].shape[1], width)
        for other in kept
    ]
    ys = apply(operator, xs, weights, [None] * len(layer.map.outputs))
    rows = orbit_rows(structure, layer.map.outputs[t])[layer.map.operations[number].target.number]
    return _rms(ys[t], len(rows) * layer.in_channels[s])


def _rms(x: Tensor, count: int) -> float:
    return float((x.double().square().sum() / max(1, count)).sqrt())
