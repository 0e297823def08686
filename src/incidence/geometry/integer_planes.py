"""Hyperplanes through integer points, exactly: elimination without fractions (Bareiss), for many at a time."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["normals", "pivots"]

_LIMIT = 2.0**62


def normals(vectors: NDArray[Any]) -> NDArray[Any]:
    """For every set of d - 1 vectors in dimension d one that is orthogonal to them all; 0 if they are dependent.

    Every number on the way is a minor of the vectors. Where products of two of them may pass 2^62, Python's integers are used.

    Args:
        vectors: Shape [sets, d - 1, d], integers.

    Returns:
        Shape [sets, d].

    Example:
        >>> normals(np.array([[[1, 0, 0], [0, 2, 0]], [[1, 1, 1], [2, 2, 2]]])).tolist()
        [[0, 0, 2], [0, 0, 0]]
    """
    count, rank, dimension = vectors.shape
    rows = vectors.astype(np.int64 if _fits(vectors) else object)
    columns = np.tile(np.arange(dimension), (count, 1))
    sets, last = np.arange(count), np.ones((count, 1, 1), dtype=rows.dtype)
    is_sound = np.ones(count, dtype=bool)
    for k in range(rank):
        best = k + (rows[:, k, k:] != 0).argmax(axis=1)  # the first column that is not 0 comes to place k
        _swap(rows.swapaxes(1, 2), sets, k, best)
        _swap(columns, sets, k, best)
        pivot = rows[:, k : k + 1, k : k + 1].copy()
        is_sound &= pivot[:, 0, 0] != 0
        pivot[~is_sound] = 1
        kept = rows[:, k].copy()
        rows = (pivot * rows - rows[:, :, k : k + 1] * rows[:, k : k + 1]) // last
        rows[:, k] = kept
        last = pivot
    # Now rows are (last I | b), and (-b, last) is orthogonal to all.
    found = np.concatenate([-rows[:, :, -1], last[:, 0]], axis=1)
    result = np.zeros_like(found)
    result[sets[:, None], columns] = found
    result[~is_sound] = 0
    return result


def _swap(array: NDArray[Any], sets: NDArray[np.int64], k: int, best: NDArray[np.int64]) -> None:
    """Exchanges places k and best along the second axis, for every set."""
    array[sets, k], array[sets, best] = array[sets, best], array[sets, k].copy()


def _fits(vectors: NDArray[Any]) -> bool:
    rank = max(vectors.shape[1], 1)
    largest = float(np.abs(vectors).max(initial=1))
    minor = (largest * rank**0.5) ** rank  # Hadamard's bound
    return bool(2 * minor * minor < _LIMIT and (rank + 1) * minor * largest < _LIMIT)


def pivots(vectors: NDArray[Any]) -> list[int]:
    """Columns that alone tell all vectors of their span apart: as many as the rank.

    Example:
        >>> pivots(np.array([[0, 1, 1], [0, 2, 2], [3, 0, 0]]))
        [0, 1]
    """
    basis: dict[int, list[int]] = {}  # rows by the column in which they start
    for vector in vectors.tolist():
        row = list(map(int, vector))
        for column, own in basis.items():
            if row[column]:
                row = [own[column] * a - row[column] * b for a, b in zip(row, own, strict=True)]
        start = next((column for column, value in enumerate(row) if value), None)
        if start is not None:
            basis[start] = row
        if len(basis) == vectors.shape[1]:
            break
    return sorted(basis)
