"""Products by arrays, where nearly all entries are present: fill, multiply, read back. Autograd knows every step of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from incidence.plans.dense_join import DenseFactor, DenseStep

__all__ = ["dense_join", "multiply_arrays"]


def dense_join(step: DenseStep, xs: Sequence[Tensor], shape: Sequence[int] | None = None) -> Tensor:
    """One step; the rows of the factors may have any shape that can be broadcast, and are summed to `shape`, if it is given."""
    return multiply_arrays(step.equation, step.sizes, step.factors, step.places, xs, shape)


def multiply_arrays(
    equation: str,
    sizes: Mapping[str, int],
    factors: Sequence[DenseFactor],
    places: Tensor,
    xs: Sequence[Tensor],
    shape: Sequence[int] | None,
) -> Tensor:
    """The same from the parts of a step."""
    wide = torch.broadcast_shapes(*(x.shape[1:] for x in xs))
    words = equation.partition("->")[0]
    arrays = [
        _filled(x.expand(-1, *wide).flatten(1), factor, [sizes[letter] for letter in word[:-1]])
        for x, factor, word in zip(xs, factors, words.split(","), strict=True)
    ]
    y = torch.einsum(equation, *arrays)
    found = y.reshape(-1, y.shape[-1]).index_select(0, places).view(places.shape[0], *wide)
    return found if shape is None else found.sum_to_size(places.shape[0], *shape)


def _filled(x: Tensor, factor: DenseFactor, sizes: Sequence[int]) -> Tensor:
    """An array (*sizes, channels) with rows of x at their places, and 0 elsewhere."""
    rows = x.index_select(0, factor.rows)
    if factor.sign is not None:
        rows = rows * factor.sign[:, None].to(rows.dtype)
    total = 1
    for size in sizes:
        total = total * size
    return (
        rows.new_zeros(total, x.shape[1])
        .index_copy(0, factor.places, rows)
        .view(*sizes, x.shape[1])
    )
