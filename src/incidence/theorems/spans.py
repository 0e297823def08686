"""Spans of matrices: their ranks, and which vectors lie in them.

Everything is computed in double precision, for small structures.
"""

from __future__ import annotations

import torch
from torch import Tensor

from incidence.nn.linear import Linear
from incidence.structure import Structure, carry

__all__ = ["basis", "carry_rank", "is_within", "rank", "recovered"]

# Relative to the largest singular value of vectors of length 1; the spans come from small integers.
_TOLERANCE = 1e-9


def basis(vectors: Tensor) -> Tensor:
    """Return an orthonormal basis of the span of the rows; shape (rank, length)."""
    if not len(vectors):
        return vectors
    lengths = vectors.norm(dim=1, keepdim=True)
    is_long = lengths[:, 0] > _TOLERANCE * lengths.max()  # rounding errors have no direction
    if not bool(is_long.any()):
        return vectors[:0]
    _, values, rows = torch.linalg.svd(vectors[is_long] / lengths[is_long], full_matrices=False)
    frame: Tensor = rows[values > _TOLERANCE * values[0]]
    return frame


def rank(vectors: Tensor) -> int:
    """Return the dimension of the span of the rows.

    Example:
        >>> rank(torch.tensor([[1.0, 0.0], [2.0, 0.0]], dtype=torch.float64))
        1
    """
    return len(basis(vectors))


def is_within(vectors: Tensor, span: Tensor) -> Tensor:
    """Return which rows lie in the span of the rows of another matrix; shape (rows,)."""
    frame = basis(span)
    left: Tensor = vectors - vectors @ frame.T @ frame  # what is orthogonal to the span
    is_in: Tensor = left.norm(dim=1) <= 1e-7 * vectors.norm(dim=1).clamp(min=1)
    return is_in


def _carried(structure: Structure, source: str, target: str) -> Tensor:
    """Return the matrix of `carry`, shape (entries of the target, entries of the source)."""
    one_hot = torch.eye(structure.num_entries(source), dtype=torch.float64)
    return carry(structure, source, target, one_hot)


def carry_rank(structure: Structure, source: str, target: str) -> int:
    """Return the rank of `carry` as a linear map.

    If it is less than the number of small faces, their features cannot be recovered.

    Example:
        >>> square = Structure(4, {"{i j}": torch.tensor([[0, 1, 2, 3], [1, 2, 3, 0]])})
        >>> carry_rank(square, "i", "{i j}")  # n_i + n_j on a bipartite graph
        3
    """
    return rank(_carried(structure, source, target).T)


def recovered(structure: Structure, source: str, target: str, carrier: str) -> int:
    r"""Count the maps between two small faces that a layer on larger faces can compute.

    It is the dimension of the common part of $\{C_b M\}$ and $\{W C_a\}$. M are the operators from
    source to target, W those of the carrier to itself, and C carries the source (a) and the target
    (b).

    Example:
        >>> recovered(Structure.complete(4, ["(i j)"]), "i", "i", "(i j)")
        2
    """

    def operators(start: str, end: str) -> Tensor:
        layer = Linear(f"{start} -> {end}", 1, 1)
        return torch.stack(
            [layer.operator(number, structure).to_dense() for number in range(layer.map.dimension)]
        )

    wanted = (_carried(structure, target, carrier) @ operators(source, target)).flatten(1)
    there = (operators(carrier, carrier) @ _carried(structure, source, carrier)).flatten(1)
    # dim(A and B) = dim A + dim B - dim(A + B)
    return rank(wanted) + rank(there) - rank(torch.cat([wanted, there]))
