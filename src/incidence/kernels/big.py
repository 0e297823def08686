"""Big: the weights of a layer as the matrices of its products, and the gradients of those back."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import torch
from torch import Tensor

from incidence.kernels.bags import bag_sum
from incidence.plans.program import BigIndex, MatrixRef, Products

__all__ = ["Big"]


class Big:
    """The matrices between all stacks, (slots x in, slots x out) each: gathered from weights, or their gradients before they go back."""

    def __init__(
        self,
        products: Products,
        index: dict[tuple[int, int], BigIndex],
        rows: dict[tuple[int, int], Tensor],
    ) -> None:
        self.rows = rows
        self._products, self._index = products, index
        self._matrices = {pair: _matrices(of_pair, index[pair]) for pair, of_pair in rows.items()}

    @classmethod
    def of(cls, products: Products, weights: Sequence[Tensor]) -> Big:
        """Gathers the matrices from the weights, ([aggregations,] operations, in, out) each."""
        index, rows = {}, {}
        for pair, known in products.stack_pairs.items():
            first = weights[known.weights[0]]
            index[pair] = known.index(first.shape[-2], first.shape[-1], first.device)
            rows[pair] = _gathered([weights[number] for number in known.weights], index[pair])
        return cls(products, index, rows)

    def empty_like(self) -> Big:
        """Matrices of the same shapes, to be written."""
        return Big(
            self._products,
            self._index,
            {pair: torch.empty_like(rows) for pair, rows in self.rows.items()},
        )

    def __getitem__(self, ref: MatrixRef) -> Tensor:
        return self._matrices[ref.source, ref.target][ref.number]

    def sum(self, refs: Sequence[MatrixRef]) -> Tensor:
        """The sum of some matrices."""
        first, *others = (self[ref] for ref in refs)
        return sum(others, first)

    def to_weights(self, shapes: Sequence[tuple[int, ...]]) -> list[Tensor]:
        """The gradients of the weights from those of the matrices: every row of a weight is the sum of where it stands."""
        found: dict[int, Tensor] = {}
        for pair, rows in self.rows.items():
            at, numbers = self._index[pair], self._products.stack_pairs[pair].weights
            summed = (
                rows if at.is_plain else bag_sum(rows, at.block_rows, at.block_ptr, at.block_signs)
            )
            parts = summed.unsafe_split_with_sizes(
                [prod(shapes[number][:-1]) for number in numbers]
            )
            found.update(
                {
                    number: part.view(shapes[number])
                    for number, part in zip(numbers, parts, strict=True)
                }
            )
        return [found[number] for number in range(len(shapes))]


def _matrices(rows: Tensor, at: BigIndex) -> list[Tensor]:
    """The matrices of one pair of stacks, one after the other; views."""
    parts = rows.split_with_sizes(at.lengths)
    return [
        part if part.shape == shape else part.view(shape)
        for part, shape in zip(parts, at.shapes, strict=True)
    ]


def _gathered(weights: Sequence[Tensor], at: BigIndex) -> Tensor:
    parts = [
        weight.detach().reshape(-1, weight.shape[-1]) for weight in weights
    ]  # (operations x in, out) each
    if not at.is_full:
        parts.append(parts[0].new_zeros(1, parts[0].shape[1]))
    rows = parts[0] if len(parts) == 1 else torch.cat(parts)
    if at.is_plain:
        return rows
    blocks = rows.index_select(0, at.weight_rows)  # (rows of blocks, out)
    return blocks if at.row_signs is None else blocks.mul_(at.row_signs[:, None])
