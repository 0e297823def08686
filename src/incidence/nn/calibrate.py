"""Scaling the weights of a layer to its first batch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from incidence.kernels.engine import apply
from incidence.nn.program import Layout, make_program
from incidence.nn.tensors import Values, as_list

if TYPE_CHECKING:
    from incidence.nn.linear import Linear
    from incidence.structure import Structure

__all__ = ["calibrate"]


@torch.no_grad()
def calibrate(layer: Linear, x: Values | Mapping[str, Tensor], structure: Structure) -> None:
    """Divides the weight of every operation by the root mean square of its term; terms that are 0 are left alone.

    The term of an operation is what it gives before its weight, on the entries of its output orbit.
    """
    xs = as_list(layer.map.inputs, x, structure, [None if c < 0 else c for c in layer.in_channels])
    layer._materialize(xs)
    plan = structure.plan(layer.map)
    for pair, weight in zip(layer._layout.pairs, layer._weights(), strict=True):
        s, t = pair
        eye = torch.eye(xs[s].shape[1], dtype=xs[s].dtype, device=xs[s].device)[None, None]
        for row, number in enumerate(layer._layout.kept[pair]):
            operation = layer.map.operations[number]
            kept: dict[tuple[int, int], tuple[int, ...]] = {other: (number,) if other == pair else () for other in layer._layout.pairs}
            for a, name in enumerate(layer.aggr):
                program = make_program(Layout(layer.map, kept), plan, (name,))
                blank = [xs[i].new_zeros(1, len(kept[i, j]), xs[i].shape[1], xs[s].shape[1]) for i, j in kept]
                weights = [eye if other == pair else zero for other, zero in zip(kept, blank, strict=True)]
                ys = apply(program, xs, weights, [None] * len(layer.map.outputs))
                lists = plan.orbits[plan.tensors.index(layer.map.outputs[t])][operation.target.number]
                size = max(1, (lists.stop - lists.start) * xs[s].shape[1])
                scale = (ys[t].double().square().sum() / size).sqrt()
                if scale > 0:
                    (weight[a, row] if layer._is_list else weight[row]).div_(scale.to(weight.dtype))
