"""Rows read their bags and their partners, in blocks that stay in the cache."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from incidence.engine.bags import Bags, bag_sum, transposed_product
from incidence.engine.partners import Partners

__all__ = ["PartnerTerm", "add_gradients", "read_rows"]

_BLOCK = 1 << 19  # floats of the output that are made at a time


class PartnerTerm:
    """Rows times a matrix, which are added to the rows that are their partners.

    Args:
        x: The rows that are read.
        matrix: From channels of x to channels of the result.
        partners: Which rows read which.
        inputs: On the way back, the inputs of the matrix: a row for each row of the result.
        d_matrix: On the way back, where the gradient of the matrix goes: `inputs.T` times the rows
            that are read. These rows are looked up anyway.
    """

    def __init__(
        self,
        x: Tensor,
        matrix: Tensor,
        partners: Partners,
        inputs: Tensor | None = None,
        d_matrix: Tensor | None = None,
    ) -> None:
        self.x, self.matrix, self.partners = x, matrix, partners
        self._inputs, self._d_matrix, self._is_blank = inputs, d_matrix, True
        if d_matrix is not None and not partners.counts.any():
            d_matrix.zero_()

    @property
    def is_for_all(self) -> bool:
        """Whether all rows are taken at once: most read a partner."""
        return self.partners.targets is None or self.partners.by_row is not None

    def rows(self, a: int, b: int) -> Tensor:
        """Return what the rows from a to b read, (b - a, channels of x); 0 where there is none."""
        by_row = self.partners.by_row
        if by_row is not None:
            members, ptr, signs = by_row
            start, stop = ptr[[a, b]].tolist() if b - a < self.partners.num_rows else (0, None)
            own = None if signs is None else signs[start:stop]
            read = bag_sum(self.x, members[start:stop], ptr[a : b + 1] - start, own)
        else:
            read = self._selected(slice(a, b))
        self._add_gradient(slice(a, b), read)
        return read

    def _selected(self, part: slice) -> Tensor:
        """Return the rows that some pairs read, with their signs."""
        sources, signs = self.partners.sources, self.partners.signs
        if sources is None:
            return self.x[part]
        read = self.x.index_select(0, sources[part])  # (pairs of the part, channels)
        return read if signs is None else read.mul_(signs[part, None])

    def pairs(self) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield the pairs where few rows read, in blocks: the rows, and what they read."""
        targets = self.partners.targets
        assert targets is not None
        step = max(1, _BLOCK // max(1, self.x.shape[1]))
        for start in range(0, len(targets), step):
            part = slice(start, start + step)
            rows = targets[part]
            read = (
                self.x.index_select(0, rows)
                if self.partners.sources is None
                else self._selected(part)
            )
            self._add_gradient(rows, read)
            yield rows, read

    def _add_gradient(self, rows: slice | Tensor, read: Tensor) -> None:
        if self._inputs is None or self._d_matrix is None:
            return
        x = self._inputs[rows] if isinstance(rows, slice) else self._inputs.index_select(0, rows)
        if self._is_blank:
            transposed_product(x, read, out=self._d_matrix)
        else:
            self._d_matrix += transposed_product(x, read)
        self._is_blank = False


def read_rows(z: Tensor, bags: Bags, terms: Sequence[PartnerTerm]) -> Tensor:
    """Return what every row reads of its bags and its partners.

    Args:
        z: The values of the bags, (bags, channels).
        bags: The bags of the tensor.
        terms: What partners add.

    Returns:
        The rows, (rows, channels).
    """
    # the others are few pairs, added at the end
    of_all = [term for term in terms if term.is_for_all]
    num_rows, channels = bags.num_rows, z.shape[1]
    if num_rows * channels <= _BLOCK:
        y = bags.read(z)
        for term in of_all:
            y.addmm_(term.rows(0, num_rows), term.matrix)
    else:
        y = bags.buffers.empty((num_rows, channels), z)
        for a, b, block in _blocks(z, bags):
            _add(block, of_all, a, b, out=y[a:b])
    for term in terms:
        if not term.is_for_all:
            for rows, read in term.pairs():
                y.index_add_(0, rows, read @ term.matrix)  # (pairs, out) into (rows, out)
    return y


def _blocks(z: Tensor, bags: Bags) -> Iterator[tuple[int, int, Tensor]]:
    """Yield the rows in blocks: from, to, and the sums of their bags."""
    members, ptr, signs = bags.of_rows
    step = max(1, _BLOCK // z.shape[1])  # rows of a block
    starts = [*range(0, bags.num_rows, step), bags.num_rows]
    ends = ptr[starts].tolist()  # one copy to the host for all blocks
    for a, b, start, stop in zip(starts, starts[1:], ends, ends[1:], strict=False):
        own = None if signs is None else signs[start:stop]
        yield a, b, bag_sum(z, members[start:stop], ptr[a : b + 1] - start, own)


def _add(block: Tensor, terms: Sequence[PartnerTerm], a: int, b: int, out: Tensor) -> None:
    """Write the sum of a block and of what its rows read from partners."""
    if not terms:
        out.copy_(block)
    for term in terms:
        torch.addmm(block, term.rows(a, b), term.matrix, out=out)
        block = out


def add_gradients(terms: Sequence[PartnerTerm]) -> None:
    """Add up the gradients of matrices, where no gradients of rows are needed."""
    for term in terms:
        if not term.is_for_all:
            for _ in term.pairs():
                pass
            continue
        num_rows = term.partners.num_rows
        step = max(1, _BLOCK // max(1, term.x.shape[1]))
        for a in range(0, num_rows, step):
            term.rows(a, min(a + step, num_rows))
