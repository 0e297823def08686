"""Spans of matrices: ranks, and what lies in them. Double precision, on small structures."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["basis", "is_within", "rank"]

_TOLERANCE = 1e-9  # of the largest singular value of vectors of length 1; the spans here come from small integers


def basis(vectors: Tensor) -> Tensor:
    """An orthonormal basis of the span of the rows; shape (rank, length)."""
    lengths = vectors.norm(dim=1, keepdim=True)
    is_kept = lengths[:, 0] > _TOLERANCE * lengths.max() if len(vectors) else lengths[:, 0] > 0  # rounding is no direction
    if not bool(is_kept.any()):
        return vectors[:0]
    _, values, rows = torch.linalg.svd(vectors[is_kept] / lengths[is_kept], full_matrices=False)
    found: Tensor = rows[values > _TOLERANCE * values[0]]
    return found


def rank(vectors: Tensor) -> int:
    """The dimension of the span of the rows.

    Example:
        >>> rank(torch.tensor([[1.0, 0.0], [2.0, 0.0]], dtype=torch.float64))
        1
    """
    return len(basis(vectors))


def is_within(vectors: Tensor, span: Tensor) -> Tensor:
    """Which rows lie in the span of the rows of another matrix; shape (rows,)."""
    frame = basis(span)
    left: Tensor = vectors - vectors @ frame.T @ frame
    is_in: Tensor = left.norm(dim=1) <= 1e-7 * vectors.norm(dim=1).clamp(min=1)
    return is_in
