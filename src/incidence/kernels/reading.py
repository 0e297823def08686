"""Reading back: every row of a stack adds up its bags, and what its partners give it, in blocks that stay in the cache."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from incidence.kernels.bags import bag_sum, some_rows, transposed_product
from incidence.plans.stack import Partners, StackPlan

__all__ = ["MatrixGradient", "PartnerTerm", "add_gradients", "read_rows"]

_BLOCK = 1 << 19  # floats of the output that are made at a time
_MOST_ROWS = 2  # for each row that reads a partner, up to which all rows are taken


class PartnerTerm(NamedTuple):
    """Rows of a tensor times a matrix, added to their partners.

    Attributes:
        place, num_rows: Of the tensor that they are added to: its place in its stack, and how many rows it has.
        x: The rows.
        matrix: (channels of x, channels of the result).
        partners: Which rows read which.
        gradient: On the way back, what the gradient of the matrix is made of.
    """

    place: int
    num_rows: int
    x: Tensor
    matrix: Tensor
    partners: Partners
    gradient: MatrixGradient | None = None

    @property
    def is_dense(self) -> bool:
        """Whether most rows read a partner, and no row reads two: then all are taken, with 0 for those that read none."""
        targets = self.partners.targets
        return targets is None or (
            _MOST_ROWS * len(targets) >= self.num_rows
            and self.partners.by_row(self.num_rows) is not None
        )


class MatrixGradient:
    """The gradient of a matrix by which rows reach their partners: it is added up from the rows that are looked up anyway."""

    def __init__(self, x: Tensor, d_matrix: Tensor) -> None:
        self._x, self._d_matrix, self._is_blank = x, d_matrix, True

    def add(self, rows: Tensor | slice, g: Tensor) -> None:
        """Adds the part of some rows of x, which read rows g of the gradient."""
        x = self._x[rows] if isinstance(rows, slice) else self._x.index_select(0, rows)
        if self._is_blank:
            transposed_product(x, g, out=self._d_matrix)
        else:
            self._d_matrix += transposed_product(x, g)
        self._is_blank = False

    def close(self) -> None:
        """Says that this was all."""
        if self._is_blank:
            self._d_matrix.zero_()


def read_rows(z: Tensor, stack: StackPlan, terms: Sequence[PartnerTerm]) -> Sequence[Tensor]:
    """Every row reads its bags and its partners: the tensors of a stack, in blocks that stay in the cache.

    They share memory, but none is a view of another, so that the caller may change one in place.
    """
    if stack.num_rows * z.shape[1] <= _BLOCK:
        y = bag_sum(z, *stack.bags_of_rows)  # (rows, channels)
        ys = y.unsafe_split_with_sizes(stack.num_rows_of) if len(stack.row_ptr) > 2 else [y]
        for place, part in enumerate(ys):
            own = [term for term in terms if term.place == place]
            _add_partners(
                part,
                [(term, _rowsread_rows(term, 0, len(part))) for term in own if term.is_dense],
                part,
            )
            _add_few(part, own)
        return ys
    ys = stack.buffers.empty((stack.num_rows, z.shape[1]), z).unsafe_split_with_sizes(
        stack.num_rows_of
    )
    for place, y in enumerate(ys):
        own = [term for term in terms if term.place == place]
        for a, b, found in _blocks(z, stack, place):
            _add_partners(
                found, [(term, _rowsread_rows(term, a, b)) for term in own if term.is_dense], y[a:b]
            )
        _add_few(y, own)
    return ys


def _blocks(z: Tensor, stack: StackPlan, place: int) -> Iterator[tuple[int, int, Tensor]]:
    """The rows of a tensor in blocks: from, to, and the sums of their bags."""
    first, last = stack.row_ptr[place : place + 2]
    starts = [*range(first, last, max(1, _BLOCK // z.shape[1])), last]
    bags, ptr, signs = stack.bags_of_rows
    ends = ptr[starts].tolist()
    for start, stop, begin, end in zip(starts, starts[1:], ends, ends[1:], strict=False):
        some = None if signs is None else signs[begin:end]
        yield (
            start - first,
            stop - first,
            bag_sum(z, bags[begin:end], ptr[start : stop + 1] - begin, some),
        )


def _add_partners(
    found: Tensor, products: Sequence[tuple[PartnerTerm, Tensor]], out: Tensor
) -> None:
    """Writes some rows, with what they read from their partners added: rows times matrices."""
    if not products and out is not found:
        out.copy_(found)
    for term, rows in products:
        torch.addmm(found, rows, term.matrix, out=out)
        found = out


def _rowsread_rows(term: PartnerTerm, a: int, b: int) -> Tensor:
    """What some rows of a tensor read from their partners, (b - a, channels); 0 where there is none."""
    by_row = None if term.partners.targets is None else term.partners.by_row(term.num_rows)
    sources, signs = (term.partners if by_row is None else by_row).read_from
    found = (
        some_rows(term.x, a, b)
        if sources is None
        else term.x.index_select(0, some_rows(sources, a, b))
    )
    if signs is not None:  # whoever has signs has sources too
        found *= some_rows(signs, a, b)[:, None]
    if by_row is not None and len(by_row.absent):
        first, last = torch.searchsorted(
            by_row.absent, torch.tensor([a, b], device=found.device)
        ).tolist()
        found = found.index_fill(0, by_row.absent[first:last] - a, 0)
    if term.gradient is not None:
        term.gradient.add(slice(a, b), found)
    return found


def _add_few(y: Tensor | None, terms: Sequence[PartnerTerm]) -> None:
    """Adds what few rows read, by pairs in blocks; without y, to the gradient of the matrix alone."""
    for term in terms:
        targets, sources, signs = term.partners.lists
        if term.is_dense or targets is None:
            continue
        step = max(1, _BLOCK // max(1, term.x.shape[1]))
        for a in range(0, len(targets), step):
            some = targets[a : a + step]
            found = term.x.index_select(0, some if sources is None else sources[a : a + step])
            if signs is not None:
                found *= signs[a : a + step, None]
            if term.gradient is not None:
                term.gradient.add(some, found)
            if y is not None:
                y.index_add_(0, some, found @ term.matrix)


def add_gradients(terms: Sequence[PartnerTerm]) -> None:
    """Adds up the gradients of matrices where nobody asks for those of the rows."""
    for term in terms:
        step = max(1, _BLOCK // max(1, term.x.shape[1]))
        for a in range(0, term.num_rows if term.is_dense else 0, step):
            _rowsread_rows(term, a, min(a + step, term.num_rows))
    _add_few(None, terms)
