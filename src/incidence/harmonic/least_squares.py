r"""Vectors without their part in the image of a sparse matrix, by conjugate gradients.

A matrix M maps the rows of a tensor to other faces, such as edges to nodes. The part of x in the
image of the transpose is $M^\top (M M^\top)^+ M x$. All channels and all structures of a batch are
solved at once, each with steps of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from incidence.errors import IncidenceError
from incidence.harmonic.multilevel import Multilevel, coo_matrix, csr_matrix
from incidence.structure.ragged import pairs

__all__ = ["FaceMap", "HarmonicSolver", "without_image"]

_MOST_STEPS = 20_000
_FEW = 2  # images of a row, up to which the normal equations are those of a graph


@dataclass(frozen=True, eq=False)
class FaceMap:
    """A sparse matrix from the rows of a tensor to other faces.

    Attributes:
        images: The face of every entry that is not 0, shape (entries,).
        rows: The row of every entry, shape (entries,).
        values: The values, in float64, shape (entries,).
        num_rows: The number of rows of the tensor.
        home: The structure of every face, shape (faces,).
        num_structures: The number of structures.
    """

    images: Tensor
    rows: Tensor
    values: Tensor
    num_rows: int
    home: Tensor
    num_structures: int

    @property
    def num_images(self) -> int:
        """The number of faces."""
        return len(self.home)

    def scaled(self, factors: Tensor) -> FaceMap:
        """Return the map after a multiplication of every row, (rows,)."""
        values = self.values * factors[self.rows]
        return FaceMap(
            self.images, self.rows, values, self.num_rows, self.home, self.num_structures
        )

    def transposed(self, home: Tensor) -> FaceMap:
        """Return the transpose, given the structure of every row."""
        count = self.num_structures
        return FaceMap(self.rows, self.images, self.values, self.num_images, home, count)

    @cached_property
    def coo(self) -> Tensor:
        """The matrix, shape (faces, rows)."""
        return coo_matrix(self.images, self.rows, self.values, (self.num_images, self.num_rows))

    @cached_property
    def forth(self) -> Tensor:
        """The matrix, stored row by row."""
        return csr_matrix(self.coo)

    @cached_property
    def back(self) -> Tensor:
        """The transpose, stored row by row."""
        return csr_matrix(self.coo.t().coalesce())

    @cached_property
    def is_graph(self) -> bool:
        """Whether every row has at most two images.

        Then `normal` is the Laplacian of a graph with a node for each face.
        """
        counts = torch.bincount(self.rows, minlength=self.num_rows)
        return bool((counts <= _FEW).all())

    @cached_property
    def normal(self) -> Tensor:
        """The product with the transpose, shape (faces, faces), for graphs."""
        one, other = pairs(self.rows, self.rows)
        values = self.values[one] * self.values[other]
        shape = self.num_images, self.num_images
        return coo_matrix(self.images[one], self.images[other], values, shape)

    @cached_property
    def multilevel(self) -> Multilevel:
        """An approximate inverse of `normal`, for graphs."""
        return Multilevel(self.normal, self.home, self.num_structures)

    @property
    def rank(self) -> Tensor:
        """The rank of the map on every structure, shape (structures,), for graphs."""
        counts = torch.bincount(self.home, minlength=self.num_structures)
        return counts - self.multilevel.nullity

    @cached_property
    def times_normal(self) -> Callable[[Tensor], Tensor]:
        """The product of the normal matrix with values of faces."""
        if self.is_graph:
            matrix = csr_matrix(self.normal)
            return lambda x: matrix @ x
        return lambda x: self.forth @ (self.back @ x)

    @cached_property
    def precondition(self) -> Callable[[Tensor], Tensor]:
        """An approximate inverse of the normal matrix."""
        if self.is_graph:
            return self.multilevel
        diagonal = self.values.new_zeros(self.num_images)
        diagonal.index_add_(0, self.images, self.values.square())
        inverse = torch.where(diagonal > 0, 1 / diagonal, 0)[:, None]
        return lambda residual: residual * inverse

    def sum(self, x: Tensor) -> Tensor:
        """Return the sums of values of faces over every structure, (structures, channels)."""
        if self.num_structures == 1:
            return x.sum(0, keepdim=True)
        return x.new_zeros(self.num_structures, x.shape[1]).index_add_(0, self.home, x)

    def spread(self, sums: Tensor) -> Tensor:
        """Return numbers of structures for every face, (faces, channels)."""
        return sums if self.num_structures == 1 else sums.index_select(0, self.home)


def without_image(x: Tensor, faces: FaceMap, enough: Tensor) -> Tensor:
    r"""Return $x - M^\top (M M^\top)^+ M x$.

    Args:
        x: Values of rows in float64, (rows, channels).
        faces: The matrix M.
        enough: How large $M y$ of the result y may be, as a sum of squares over every structure,
            (structures, channels).

    Raises:
        IncidenceError: It is larger after many steps.
    """
    residual = faces.forth @ x  # (faces, channels)
    potential = torch.zeros_like(residual)
    direction = potential
    before: Tensor | None = None
    for _ in range(_MOST_STEPS):
        is_open = faces.sum(residual.square()) > enough  # (structures, channels)
        if not is_open.any():
            return x - faces.back @ potential
        corrected = faces.precondition(residual)
        size = faces.sum(residual * corrected)
        factor = torch.zeros_like(size) if before is None else _quotient(size, before)
        direction = torch.addcmul(corrected, faces.spread(factor), direction)
        moved = faces.times_normal(direction)
        curvature = faces.sum(direction * moved)
        step = _quotient(size, curvature) * is_open
        potential = torch.addcmul(potential, faces.spread(step), direction)
        residual = torch.addcmul(residual, faces.spread(-step), moved)
        before = size
    raise IncidenceError(
        f"the harmonic part of {len(x):,} values was not found within {_MOST_STEPS:,} steps of"
        " conjugate gradients: weights differ too much, or residual= is too small."
    )


def _quotient(a: Tensor, b: Tensor) -> Tensor:
    return torch.where(b > 0, a / b, 0)


@dataclass(frozen=True)
class HarmonicSolver:
    """The part of values outside of the images of two matrices that are orthogonal to each other.

    Attributes:
        maps: From rows to the faces below, and to those above.
        home: The structure of every row.
        num_structures: The number of structures.
        residual: What may be left of the boundaries, relative to the size of the values.
    """

    maps: Sequence[FaceMap]
    home: Tensor
    num_structures: int
    residual: float | None = None

    def __call__(self, x: Tensor) -> Tensor:
        residual = self.residual
        if residual is None:
            residual = 1e-12 if x.dtype == torch.float64 else 1e-8
        y = x.double()
        zeros = y.new_zeros(self.num_structures, y.shape[1])
        sizes = zeros.index_add_(0, self.home, y.square())
        enough = residual**2 * sizes  # (structures, channels)
        for faces in self.maps:
            y = without_image(y, faces, enough)
        return y.to(x.dtype)
