"""Scaling the weights of a layer to its first batch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from incidence.kernels.aggregate import Aggregation
from incidence.kernels.engine import apply
from incidence.nn.tensors import Values, as_list
from incidence.plans import plan_of
from incidence.plans.program import Layout, compile_map

if TYPE_CHECKING:
    from incidence.nn.linear import Linear
    from incidence.plans import Plan
    from incidence.structure import Structure

__all__ = ["calibrate"]


_CANCELLED = 1e-5  # of what a term would be if nothing cancelled: what is left is rounding


@torch.no_grad()
def calibrate(layer: Linear, x: Values | Mapping[str, Tensor], structure: Structure) -> None:
    """Divides the weight of every operation by the root mean square of its term; terms that are 0, but for rounding, are left alone.

    The term of an operation is what it gives before its weight, on the entries of its output orbit.
    """
    xs = as_list(layer.map.inputs, x, structure, [None if c < 0 else c for c in layer.in_channels])
    layer._materialize(xs)
    plan = plan_of(structure, layer.map)
    for pair, weight in zip(layer._layout.pairs, layer._weights(), strict=True):
        for row, number in enumerate(layer._layout.kept[pair]):
            for a, aggregation in enumerate(layer._aggregations):
                scale = _scale(layer, plan, pair, number, aggregation, xs)
                bound = max(_scale(layer, plan, pair, number, aggregation, [v.abs() for v in xs]), _rms(xs[pair[0]], xs[pair[0]].numel()))
                if scale > _CANCELLED * bound:
                    (weight[a, row] if layer._is_list else weight[row]).div_(scale)


def _scale(layer: Linear, plan: Plan, pair: tuple[int, int], number: int, aggregation: Aggregation, xs: list[Tensor]) -> float:
    """The root mean square of the term of one operation."""
    s, t = pair
    width = xs[s].shape[1]
    kept: dict[tuple[int, int], tuple[int, ...]] = {other: (number,) if other == pair else () for other in layer._layout.pairs}
    program = compile_map(Layout(layer.map, kept), plan, (aggregation,))
    eye = torch.eye(width, dtype=xs[s].dtype, device=xs[s].device)[None, None]
    weights = [eye if other == pair else xs[other[0]].new_zeros(1, 0, xs[other[0]].shape[1], width) for other in kept]
    ys = apply(program, xs, weights, [None] * len(layer.map.outputs))
    target = layer.map.operations[number].target.number
    orbit = plan.orbits[plan.tensors.index(layer.map.outputs[t])][target]
    return _rms(ys[t], orbit.num_entries * width)


def _rms(x: Tensor, count: int) -> float:
    return float((x.double().square().sum() / max(1, count)).sqrt())
