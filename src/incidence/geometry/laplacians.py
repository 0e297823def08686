r"""Boundary matrices, Laplacians and harmonic flows, for those who want matrices.

A layer computes with these operators and never makes them: `<i j k> -> <i j>` is the boundary, `<i j> -> <i j>` the identity and the down
Laplacian (docs/oriented.md). Here they are, with what only matrices tell: the Hodge decomposition, and the holes.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from functools import cached_property
from typing import NamedTuple

import torch
from torch import Tensor

from incidence.errors import IncidenceError
from incidence.geometry.homology import betti_number
from incidence.geometry.ranks import Faces, faces
from incidence.structure import Structure
from incidence.structure.ragged import MAX_ENTRIES, pairs

__all__ = ["Flow", "Hodge", "hodge"]


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
    r"""The Hodge theory of the faces of one rank: matrices, holes, and what a flow is made of.

    Oriented faces have the reference orientation of the structure, others that of ascending nodes (see `Faces.signs`).

    Args:
        structure: The structure; a batch is looked at as a whole.
        rank: 0 for nodes, 1 for edges, 2 for triangles, ....
        ranks: The tensors to take for the ranks, as in `faces`.

    Raises:
        IncidenceError: There is no such rank.

    Example:
        >>> from incidence.geometry import simplicial_complex
        >>> edges = hodge(simplicial_complex([[0, 1, 2], [1, 3], [2, 3]], oriented=True), 1)  # a full triangle, and an empty one
        >>> edges, edges.betti
        (Hodge(rank=1, faces=5), 1)
        >>> edges.laplacian.to_dense()[0].tolist()
        [3.0, 0.0, 0.0, -1.0, 0.0]
    """
    found = faces(structure, ranks)
    found.of_rank(rank)
    return Hodge(found, rank)


class Hodge:
    r"""What `hodge` finds of the faces of rank k. Matrices are sparse, in float64.

    With $B_k$ the boundary matrix of rank k, `down` is $B_k^\top B_k$, `up` is $B_{k+1} B_{k+1}^\top$, and `laplacian` their sum.

    Attributes:
        rank: The rank.
    """

    def __init__(self, found: Faces, rank: int) -> None:
        self._faces, self.rank = found, rank

    @property
    def num_faces(self) -> int:
        """The number of faces of the rank."""
        return self._faces.of_rank(self.rank).count

    @cached_property
    def boundary(self) -> Tensor:
        """From the faces to those below, shape [faces below, faces]; of nodes, shape [0, nodes]."""
        return self._faces.boundary_matrix(self.rank)

    @cached_property
    def coboundary(self) -> Tensor:
        """From the faces to those above, shape [faces above, faces]; of edges the curl."""
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
        """The number of independent holes of this dimension: the dimension of the kernel of the Laplacian. Found exactly, with integers."""
        self._assert_complex()
        return betti_number(self._faces, self.rank)

    @cached_property
    def harmonic(self) -> Tensor:
        """An orthonormal basis of the kernel of the Laplacian, shape [faces, betti]."""
        generator = torch.Generator().manual_seed(0)
        basis = torch.randn(
            self.num_faces, self.betti, generator=generator, dtype=torch.float64
        ).to(self.boundary.device)
        for _ in range(
            2
        ):  # what is left of random flows spans the kernel; the second time only rounding is left to remove
            basis = torch.linalg.qr(self.decompose(basis).harmonic)[0]
        return basis

    def decompose(self, x: Tensor) -> Flow:
        r"""The Hodge decomposition of values of the faces: $x = B_k^\top p + B_{k+1} q + h$ with $B_k h = 0$ and $B_{k+1}^\top h = 0$.

        Args:
            x: The values, shape [faces, channels].

        Example:
            >>> from incidence.geometry import simplicial_complex
            >>> square = hodge(simplicial_complex([[0, 1], [1, 2], [2, 3], [0, 3]], oriented=True), 1)
            >>> around = torch.tensor([[1.0], [-1.0], [1.0], [1.0]])  # 0 -> 1 -> 2 -> 3 -> 0; the second edge is <0 3>
            >>> square.decompose(around).harmonic.T
            tensor([[ 1., -1.,  1.,  1.]])
        """
        self._assert_complex()
        if (
            not isinstance(x, Tensor)
            or not x.is_floating_point()
            or x.ndim != 2
            or len(x) != self.num_faces
        ):
            what = (
                f"{x.dtype} of shape {list(x.shape)}" if isinstance(x, Tensor) else type(x).__name__
            )
            raise IncidenceError(
                f"decompose takes a floating tensor of shape [{self.num_faces}, channels], a row for each face of rank {self.rank}; "
                f"got {what}."
            )
        values = x.double()
        without_gradient = _residual(self.boundary.t(), values)
        harmonic = _residual(self.coboundary.t(), without_gradient)
        return Flow(
            *(
                part.to(x.dtype)
                for part in (values - without_gradient, without_gradient - harmonic, harmonic)
            )
        )

    def _assert_complex(self) -> None:
        """The two parts are orthogonal where boundaries of boundaries vanish."""
        wrong = _product(self.boundary, self.coboundary.t())
        if bool(wrong.values().any()):
            bad = int(wrong.indices()[1, wrong.values().nonzero()[0, 0]])
            raise IncidenceError(
                f"face {bad} of rank {self.rank + 1} (`{self._faces.tensors[self.rank + 1]}`) lacks faces of its boundary, so there is no "
                f"Hodge decomposition. Add them, as `simplicial_complex` does."
            )

    def __repr__(self) -> str:
        return f"Hodge(rank={self.rank}, faces={self.num_faces:,})"


def _product(one: Tensor, other: Tensor) -> Tensor:
    """The product of two sparse matrices; torch's own warns of what it does inside."""
    one, other = one.coalesce(), other.coalesce()
    left, right = pairs(
        one.indices()[1], other.indices()[0], MAX_ENTRIES, "the Laplacian has too many entries"
    )
    place = torch.stack([one.indices()[0, left], other.indices()[1, right]])
    values = one.values()[left] * other.values()[right]
    return torch.sparse_coo_tensor(
        place, values, [len(one), other.shape[1]], check_invariants=False
    ).coalesce()


_PRECISION = 1e-13
_MAX_STEPS = 100_000  # the meshes of the tests take some hundred


def _residual(matrix: Tensor, x: Tensor) -> Tensor:
    """What is left of values, (faces, channels), without their projection to the image of a matrix: conjugate gradients."""
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore"
        )  # torch says that rows in one piece are new; they are seven times as fast
        there, back = matrix.to_sparse_csr(), matrix.t().to_sparse_csr()
    rest = x.clone()
    slope = back @ rest
    direction, size = slope, slope.square().sum(0)
    enough = _PRECISION**2 * x.square().sum(0)  # below it there is rounding alone
    for _ in range(_MAX_STEPS):
        if not bool((size > enough).any()):
            return rest
        moved = there @ direction
        length = moved.square().sum(0)
        rest -= moved * torch.where(length > 0, size / length, 0)
        slope, before = back @ rest, size
        size = slope.square().sum(0)
        direction = slope + direction * torch.where(before > 0, size / before, 0)
    raise IncidenceError(
        f"the Hodge decomposition of {len(x):,} faces was not found within {_MAX_STEPS:,} steps."
    )
