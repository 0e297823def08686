"""`i j -> i j` as the authors of the paper describe their own layer: on sparse matrices, every
operation by itself.

Each of the fifteen operations pools the entries, multiplies by its weight and broadcasts to the
entries, by `index_add` and `index_select`; nothing is shared between operations. Written from that
description, with all index lists made beforehand.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor, nn

__all__ = ["FifteenOperations", "SparseMatrix"]


@dataclass(frozen=True)
class SparseMatrix:
    """A matrix by its entries, the whole diagonal among them.

    Attributes:
        index: The rows and columns of the entries, (2, entries).
        values: (entries, channels).
        transposed: The entry at the transposed place of each.
        diagonal: The entries on the diagonal, by row.
    """

    index: Tensor
    values: Tensor
    transposed: Tensor
    diagonal: Tensor

    @staticmethod
    def of(index: Tensor, values: Tensor) -> SparseMatrix:
        """Finds transposed and diagonal entries; every entry has a transposed one."""
        size = int(index.max()) + 1
        codes, order = (index[0] * size + index[1]).sort()
        transposed = order[torch.searchsorted(codes, index[1] * size + index[0])]
        diagonal = order[torch.searchsorted(codes, torch.arange(size) * (size + 1))]
        return SparseMatrix(index, values, transposed, diagonal)


def _sums(axis: int, x: SparseMatrix) -> Tensor:
    return x.values.new_zeros(len(x.diagonal), x.values.shape[1]).index_add(
        0, x.index[axis], x.values
    )


def _on_diagonal(x: SparseMatrix) -> Tensor:
    return x.values.index_select(0, x.diagonal)


def _along(axis: int, x: SparseMatrix, y: Tensor) -> Tensor:
    return y.index_select(0, x.index[axis])


def _to_diagonal(x: SparseMatrix, y: Tensor) -> Tensor:
    return y.new_zeros(len(x.values), y.shape[1]).index_add(
        0, x.diagonal, y.expand(len(x.diagonal), -1)
    )


def _everywhere(x: SparseMatrix, y: Tensor) -> Tensor:
    return y.expand(len(x.values), -1)


Pool = Callable[[SparseMatrix], Tensor]
Broadcast = Callable[[SparseMatrix, Tensor], Tensor]

_TO_NODES: list[Pool] = [_on_diagonal, partial(_sums, 0), partial(_sums, 1)]
_FROM_NODES: list[Broadcast] = [_to_diagonal, partial(_along, 0), partial(_along, 1)]
_TO_WHOLE: list[Pool] = [
    lambda x: _on_diagonal(x).sum(0, keepdim=True),
    lambda x: x.values.sum(0, keepdim=True),
]
_FROM_WHOLE: list[Broadcast] = [_to_diagonal, _everywhere]
_SAME: list[Pool] = [lambda x: x.values, lambda x: x.values.index_select(0, x.transposed)]

OPERATIONS: list[tuple[Pool, Broadcast]] = [
    *((pool, lambda _, y: y) for pool in _SAME),
    *((pool, broadcast) for pool in _TO_NODES for broadcast in _FROM_NODES),
    *((pool, broadcast) for pool in _TO_WHOLE for broadcast in _FROM_WHOLE),
]
"""The fifteen: two of entries, nine by way of nodes, four by way of the whole."""


class FifteenOperations(nn.Module):
    """The layer, with a weight for each operation."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(
            torch.randn(len(OPERATIONS), channels, channels) / (len(OPERATIONS) * channels) ** 0.5
        )

    def forward(self, x: SparseMatrix) -> Tensor:
        """The values of the entries, (entries, channels)."""
        first, *rest = (
            broadcast(x, pool(x) @ weight)
            for (pool, broadcast), weight in zip(OPERATIONS, self.weight, strict=True)
        )
        for term in rest:
            first = first + term
        return first
