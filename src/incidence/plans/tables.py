"""The matrices of a layer from its weights, by one gathering of rows; and their gradients back, by one sum over bags."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import NamedTuple

import torch
from torch import Tensor

from incidence.kernels.bags import bag_sum
from incidence.structure.ragged import ranges

__all__ = ["Matrices", "Table"]


class Table:
    """The operation that every pair of words means, as rows of a weight; -1 where the layer has none."""

    def __init__(self, operations: Tensor) -> None:
        self.operations = operations
        self.flat = operations.flatten()
        self.present = (self.flat >= 0).nonzero()[:, 0]

    def rows(self, number: int, shape: Sequence[int]) -> Tensor:
        """Where the rows of the matrix are in a weight: (words, in, words) numbers, or one past the last where there is none.

        Args:
            number: Which aggregation.
            shape: Of the weight, ([aggregations,] operations, in, out).
        """
        num_operations, num_in = shape[-3:-1]
        operations = self.operations[:, None, :]
        within = torch.arange(num_in, device=operations.device)[:, None]
        found = (number * num_operations + operations) * num_in + within
        return found.masked_fill(operations < 0, prod(shape[:-1])).flatten()


class _Lists(NamedTuple):
    """For one shape of the weight: its row for every row of the matrices, and the rows of the matrices for each of its own.

    Attributes:
        num_rows, shapes: Of every matrix.
        is_full: Whether no row is missing; `is_plain` whether they are those of the weight in order.
    """

    source: Tensor
    members: Tensor
    ptr: Tensor
    num_rows: list[int]
    shapes: list[tuple[int, int]]
    is_full: bool
    is_plain: bool


class Matrices:
    """All matrices of a layer that are made of one weight, (words x in, words x out) each.

    Args:
        tables: For every matrix an aggregation, and the operations of its blocks.
    """

    def __init__(self, tables: Sequence[tuple[int, Table]]) -> None:
        self._tables = tables
        self._lists: dict[tuple[int, ...], _Lists] = {}

    def make(self, weight: Tensor) -> Tensor:
        """The rows of all matrices, one matrix after the other."""
        lists, rows = self._of(weight.shape), weight.detach().reshape(-1, weight.shape[-1])
        if lists.is_plain:
            return rows
        if not lists.is_full:
            rows = torch.cat([rows, rows.new_zeros(1, rows.shape[1])])
        return rows.index_select(0, lists.source)

    def split(self, rows: Tensor, shape: tuple[int, ...]) -> list[Tensor]:
        """The matrices; views."""
        lists = self._of(shape)
        parts = rows.split_with_sizes(lists.num_rows)
        return [part if part.shape == size else part.view(size) for part, size in zip(parts, lists.shapes, strict=True)]

    def adjoint(self, rows: Tensor, shape: tuple[int, ...]) -> Tensor:
        """The gradient of the weight from those of the matrices."""
        lists = self._of(shape)
        return (rows if lists.is_plain else bag_sum(rows, lists.members, lists.ptr)).view(shape)

    def _of(self, shape: tuple[int, ...]) -> _Lists:
        if shape not in self._lists:
            self._lists[shape] = self._make_lists(shape)
        return self._lists[shape]

    @torch.inference_mode(False)
    def _make_lists(self, shape: tuple[int, ...]) -> _Lists:
        parts = [table.rows(number, shape) for number, table in self._tables]
        index = torch.cat(parts) if parts else torch.zeros(0, dtype=torch.long)
        total = prod(shape[:-1])
        ptr = ranges(torch.bincount(index, minlength=total + 1))[: total + 1]
        is_full = int(ptr[-1]) == len(index)
        is_plain = torch.equal(index.cpu(), torch.arange(total))
        members = index.sort(stable=True)[1][: int(ptr[-1])]
        sizes = [(len(t.operations) * shape[-2], t.operations.shape[1] * shape[-1]) for _, t in self._tables]
        return _Lists(index, members.int(), ptr.int(), [len(part) for part in parts], sizes, is_full, is_plain)
