r"""Boundary matrices, Laplacians, the Hodge decomposition and Betti numbers.

A layer computes with these operators and never makes them: `<i j k> -> <i j>` is the boundary, `<i
j> -> <i j>` the identity and the down Laplacian (docs/oriented.md). This module makes the matrices.
"""

from __future__ import annotations

import warnings
from collections.abc import Container, Mapping
from functools import cached_property
from math import gcd
from typing import NamedTuple

import torch
from torch import Tensor

from incidence.errors import IncidenceError
from incidence.geometry.ranks import Faces, faces
from incidence.structure import Structure
from incidence.structure.ragged import MAX_ENTRIES, pairs

__all__ = ["Flow", "Hodge", "hodge"]

_PRECISION = 1e-13
_MAX_STEPS = 100_000  # the meshes of the tests take some hundred

_Column = dict[int, int]
"""The entries of a column of an integer matrix that are not 0, by row."""


class Flow(NamedTuple):
    """Values of faces as a sum of three orthogonal parts, each of the shape of the values.

    Attributes:
        gradient: The part that comes from the faces below: differences of a potential.
        curl: The part that comes from the faces above: rotation around them.
        harmonic: The rest: without divergence and without curl, it goes around holes.
    """

    gradient: Tensor
    curl: Tensor
    harmonic: Tensor


def hodge(structure: Structure, rank: int = 1, ranks: Mapping[int, str] | None = None) -> Hodge:
    r"""Return the Hodge theory of the faces of one rank: matrices, holes, and the parts of a flow.

    Oriented faces have the reference orientation of the structure, others that of ascending nodes
    (see `Faces.signs`).

    Args:
        structure: The structure; a batch counts as one structure.
        rank: 0 for nodes, 1 for edges, 2 for triangles, ....
        ranks: The tensors to take for the ranks, as in `faces`.

    Raises:
        IncidenceError: There is no such rank.

    Example:
        >>> from incidence.geometry import simplicial_complex
        >>> facets = [[0, 1, 2], [1, 3], [2, 3]]  # a full triangle, and an empty one
        >>> edges = hodge(simplicial_complex(facets, oriented=True), 1)
        >>> edges, edges.betti
        (Hodge(rank=1, faces=5), 1)
        >>> edges.laplacian.to_dense()[0].tolist()
        [3.0, 0.0, 0.0, -1.0, 0.0]
    """
    ranked = faces(structure, ranks)
    ranked.of_rank(rank)
    return Hodge(ranked, rank)


class Hodge:
    r"""The Hodge theory of the faces of rank k. Matrices are sparse, in float64.

    With $B_k$ the boundary matrix of rank k, `down` is $B_k^\top B_k$, `up` is $B_{k+1}
    B_{k+1}^\top$, and `laplacian` their sum.

    Attributes:
        rank: The rank.
    """

    def __init__(self, ranked: Faces, rank: int) -> None:
        self._faces = ranked
        self.rank = rank

    @property
    def num_faces(self) -> int:
        """The number of faces of the rank."""
        return self._faces.of_rank(self.rank).count

    @cached_property
    def boundary(self) -> Tensor:
        """The map to the faces below, shape [faces below, faces]; for nodes [0, nodes]."""
        return self._faces.boundary_matrix(self.rank)

    @cached_property
    def coboundary(self) -> Tensor:
        """The map to the faces above, shape [faces above, faces]; for edges the curl."""
        return self._faces.boundary_matrix(self.rank + 1).t().coalesce()

    @cached_property
    def down(self) -> Tensor:
        """The Laplacian by way of the faces below, shape [faces, faces]."""
        return _product(self.boundary.t(), self.boundary)

    @cached_property
    def up(self) -> Tensor:
        """The Laplacian by way of the faces above, shape [faces, faces]."""
        return _product(self.coboundary.t(), self.coboundary)

    @cached_property
    def laplacian(self) -> Tensor:
        """The Hodge Laplacian, shape [faces, faces]."""
        return (self.down + self.up).coalesce()

    @cached_property
    def betti(self) -> int:
        """The number of independent holes of this dimension: the dimension of the kernel of the
        Laplacian. It is exact, by integers.
        """
        self._assert_complex()
        return _betti_number(self._faces, self.rank)

    @cached_property
    def harmonic(self) -> Tensor:
        """An orthonormal basis of the kernel of the Laplacian, shape [faces, betti]."""
        generator = torch.Generator().manual_seed(0)
        size = self.num_faces, self.betti
        basis = torch.randn(size, generator=generator, dtype=torch.float64)
        basis = basis.to(self.boundary.device)
        # The harmonic parts of random flows span the kernel. The second time removes rounding.
        for _ in range(2):
            basis = torch.linalg.qr(self.decompose(basis).harmonic)[0]
        return basis

    def decompose(self, x: Tensor) -> Flow:
        r"""Return the Hodge decomposition of values of the faces: $x = B_k^\top p + B_{k+1} q + h$
        with $B_k h = 0$ and $B_{k+1}^\top h = 0$.

        Args:
            x: The values, shape [faces, channels].

        Example:
            >>> from incidence.geometry import simplicial_complex
            >>> sides = [[0, 1], [1, 2], [2, 3], [0, 3]]
            >>> square = hodge(simplicial_complex(sides, oriented=True), 1)
            >>> # 0 -> 1 -> 2 -> 3 -> 0; the second edge is <0 3>
            >>> around = torch.tensor([[1.0], [-1.0], [1.0], [1.0]])
            >>> square.decompose(around).harmonic.T
            tensor([[ 1., -1.,  1.,  1.]])
        """
        self._assert_complex()
        is_float = isinstance(x, Tensor) and x.is_floating_point()
        if not is_float or x.ndim != 2 or len(x) != self.num_faces:
            got = type(x).__name__
            if isinstance(x, Tensor):
                got = f"{x.dtype} of shape {list(x.shape)}"
            raise IncidenceError(
                f"decompose takes a floating tensor of shape [{self.num_faces}, channels], a row"
                f" for each face of rank {self.rank}; got {got}."
            )
        values = x.double()
        without_gradient = _residual(self.boundary.t(), values)
        harmonic = _residual(self.coboundary.t(), without_gradient)
        parts = values - without_gradient, without_gradient - harmonic, harmonic
        return Flow(*(part.to(x.dtype) for part in parts))

    def _assert_complex(self) -> None:
        """The two parts are orthogonal where boundaries of boundaries vanish."""
        wrong = _product(self.boundary, self.coboundary.t())
        if bool(wrong.values().any()):
            bad = int(wrong.indices()[1, wrong.values().nonzero()[0, 0]])
            raise IncidenceError(
                f"face {bad} of rank {self.rank + 1} (`{self._faces.tensors[self.rank + 1]}`) lacks"
                " faces of its boundary, so there is no Hodge decomposition. Add them, as"
                " `simplicial_complex` does."
            )

    def __repr__(self) -> str:
        return f"Hodge(rank={self.rank}, faces={self.num_faces:,})"


def _product(one: Tensor, other: Tensor) -> Tensor:
    """The product of two sparse matrices. That of torch warns of what it does inside."""
    one = one.coalesce()
    other = other.coalesce()
    (row, inner), (inner_too, column) = one.indices(), other.indices()
    left, right = pairs(inner, inner_too, MAX_ENTRIES, "the Laplacian has too many entries")
    place = torch.stack([row[left], column[right]])
    values = one.values()[left] * other.values()[right]
    shape = [len(one), other.shape[1]]
    return torch.sparse_coo_tensor(place, values, shape, check_invariants=False).coalesce()


def _residual(matrix: Tensor, x: Tensor) -> Tensor:
    """Values, (faces, channels), without their projection to the image of a matrix, by conjugate
    gradients.
    """
    with warnings.catch_warnings():
        # torch warns that CSR matrices are new; they are seven times as fast
        warnings.simplefilter("ignore")
        there = matrix.to_sparse_csr()
        back = matrix.t().to_sparse_csr()
    rest = x.clone()
    slope = back @ rest
    direction = slope
    size = slope.square().sum(0)  # (channels,)
    enough = _PRECISION**2 * x.square().sum(0)  # below it there is rounding alone
    for _ in range(_MAX_STEPS):
        if not bool((size > enough).any()):
            return rest
        moved = there @ direction
        length = moved.square().sum(0)
        rest -= moved * torch.where(length > 0, size / length, 0)
        before = size
        slope = back @ rest
        size = slope.square().sum(0)
        direction = slope + direction * torch.where(before > 0, size / before, 0)
    raise IncidenceError(
        f"the Hodge decomposition of {len(x):,} faces was not found within {_MAX_STEPS:,} steps."
    )


# ---- ranks of boundary matrices over the rationals, exactly


def _betti_number(ranked: Faces, rank: int) -> int:
    r"""The dimension of the rational homology in one rank, $f_k - \mathrm{rank}\,B_k -
    \mathrm{rank}\,B_{k+1}$.

    If a boundary of rank k + 1 has its last row at a face, the boundary of that face depends on
    those of the faces before it, and is skipped.
    """
    above = _pivots(_columns(ranked, rank + 1), ()) if rank < ranked.top else {}
    below = _pivots(_columns(ranked, rank), above) if rank else {}
    return ranked.of_rank(rank).count - len(below) - len(above)


def _columns(ranked: Faces, rank: int) -> list[_Column]:
    columns: list[_Column] = [{} for _ in range(ranked.of_rank(rank).count)]
    rows, numbers = ranked.boundary(rank).tolist()
    for row, number, sign in zip(rows, numbers, ranked.signs(rank).tolist(), strict=True):
        columns[number][row] = sign
    return columns


def _pivots(columns: list[_Column], skipped: Container[int]) -> dict[int, _Column]:
    """Independent columns with the same span, by the last row of each, which no other has; as many
    as the rank.

    Integers are exact, and stay small here: for surfaces, all are 1 or -1.
    """
    pivots: dict[int, _Column] = {}
    for number, column in enumerate(columns):
        if number in skipped:
            continue
        rest = column
        while rest and (last := max(rest)) in pivots:
            rest = _without(rest, pivots[last], last)
        if rest:
            pivots[last] = rest
    return pivots


def _without(column: _Column, other: _Column, row: int) -> _Column:
    """A combination of two columns in which a row is 0."""
    common = gcd(column[row], other[row])
    times = other[row] // common
    less = column[row] // common
    result = {r: times * value for r, value in column.items()}
    for r, value in other.items():
        result[r] = result.get(r, 0) - less * value
        if not result[r]:
            del result[r]
    return result
