r"""A preconditioner for Laplacians of graphs, by smoothed aggregation on several levels.

Conjugate gradients with the diagonal alone take about as many steps as a mesh is wide. A Laplacian
hardly changes vectors that vary slowly. So neighbours are put together in groups, on which such a
vector is nearly constant. The groups make a smaller Laplacian, which is treated in the same way.

Edges may have signs, as between faces whose orientations agree or not. A vector that varies slowly
changes its sign along an edge with a positive entry, and so does a group.

Smoothing makes entries of either sign between groups. So groups, signs and the kernel come from a
second matrix for every level, the skeleton: that of the groups without any smoothing.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import torch
from torch import Tensor

__all__ = ["Multilevel", "coo_matrix", "csr_matrix"]

_STRONG = 0.08  # of the geometric mean of the two diagonal entries; halved on every level
_WEAKEST = 1e-12  # of the same: below it an entry is rounding
_NULL = 1e-9  # of the largest entry: a diagonal below it is rounding
_DAMPING = 4 / 3  # of a sweep; with the sums of absolute values as steps, it may not reach 2
_SWEEPS = 2


@dataclass(frozen=True)
class _GraphLevel:
    """A Laplacian in single precision, and the way to the next level.

    Attributes:
        matrix: The Laplacian, shape (nodes, nodes).
        steps: What residuals are multiplied by in a sweep, shape (nodes, 1).
        collect: From residuals of nodes to those of groups, shape (groups, nodes).
        spread: The transpose.
    """

    matrix: Tensor
    steps: Tensor
    collect: Tensor
    spread: Tensor


class Multilevel:
    r"""An approximate inverse of a sparse symmetric matrix whose diagonal dominates every row.

    It is symmetric, and positive on the image of the matrix, as conjugate gradients need it.

    Args:
        matrix: The matrix, coalesced, shape (nodes, nodes).
        home: The structure of every node, shape (nodes,).
        num_structures: The number of structures.

    Attributes:
        nullity: The dimension of the kernel on every structure, shape (structures,). The last level
            has one node for each connected part, with 0 on the diagonal iff the part has a kernel.
    """

    def __init__(self, matrix: Tensor, home: Tensor, num_structures: int) -> None:
        generator = torch.Generator().manual_seed(0)  # the same groups for the same matrix
        largest = float(matrix.values().max()) if matrix._nnz() else 0.0
        strong = _STRONG
        self._levels: list[_GraphLevel] = []
        self._part = torch.arange(len(home), device=home.device)
        plain = matrix
        while True:
            graph = _Graph(matrix, _NULL * largest)
            skeleton = _Graph(plain, _NULL * largest)
            edges = skeleton.edges(strong)
            if not len(edges):
                edges = skeleton.edges(_WEAKEST)
            if not len(edges):
                break
            group, sign = skeleton.groups(edges, generator)
            spread = graph.smoothed(group, sign)
            plain = skeleton.collected(group, sign)
            collect = spread.t().coalesce()
            steps = torch.where(graph.is_null, 0, _DAMPING / graph.sums)
            level = _GraphLevel(
                csr_matrix(matrix.float()),
                steps.float()[:, None],
                csr_matrix(collect.float()),
                csr_matrix(spread.float()),
            )
            self._levels.append(level)
            self._part = group[self._part]
            home = home.new_zeros(len(collect)).index_copy_(0, group, home)
            moved = _product(matrix, spread)
            matrix = _product(collect, moved)
            strong /= 2
        inverse = torch.where(skeleton.is_null, 0, graph.inverse)
        self._inverse = inverse.float()[:, None]  # (nodes of the last level, 1)
        self._is_null = skeleton.is_null
        self.nullity = torch.bincount(home[skeleton.is_null], minlength=num_structures)

    def __call__(self, residual: Tensor) -> Tensor:
        """Return the correction for a residual, (nodes, channels) both."""
        # near the end a residual is too small for single precision
        scale = residual.abs().amax(0).clamp(min=torch.finfo(residual.dtype).tiny)  # (channels,)
        scaled = (residual / scale).float()
        corrected = self._corrected(0, scaled)
        return corrected.to(residual.dtype) * scale

    def kernel(self) -> tuple[Tensor, Tensor]:
        """Return the kernel of a matrix of integers.

        Returns:
            For every node the connected part that it lies in, and its value, 1 or -1, in the vector
            of the kernel that the part has; 0 if the part has none. Shape (nodes,) each.
        """
        x = self._is_null.float()[:, None]
        for level in reversed(self._levels):
            x = level.spread @ x
        return self._part, x[:, 0].round()

    def _corrected(self, number: int, residual: Tensor) -> Tensor:
        if number == len(self._levels):
            return residual * self._inverse
        level = self._levels[number]
        x = residual * level.steps
        for _ in range(_SWEEPS - 1):
            x = torch.addcmul(x, residual - level.matrix @ x, level.steps)
        left = level.collect @ (residual - level.matrix @ x)  # (groups, channels)
        coarse = self._corrected(number + 1, left)
        x = x + level.spread @ coarse
        for _ in range(_SWEEPS):  # as many after as before, or it would not be symmetric
            x = torch.addcmul(x, residual - level.matrix @ x, level.steps)
        return x


def coo_matrix(row: Tensor, column: Tensor, values: Tensor, shape: tuple[int, int]) -> Tensor:
    """Return a sparse matrix from its entries; those at one place are added up."""
    place = torch.stack([row, column])
    return torch.sparse_coo_tensor(place, values, shape, check_invariants=False).coalesce()


def csr_matrix(matrix: Tensor) -> Tensor:
    """Return a sparse matrix stored row by row, which multiplies seven times as fast."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch warns that such matrices are new
        return matrix.to_sparse_csr()


def _product(one: Tensor, other: Tensor) -> Tensor:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the same
        product: Tensor = torch.sparse.mm(one, other)
        return product.coalesce()


class _Graph:
    """A symmetric matrix as a graph whose edges are the entries beside the diagonal.

    Args:
        matrix: The matrix.
        null: Up to which a diagonal entry is rounding: a part of the graph that is one node by now,
            and in the kernel.
    """

    def __init__(self, matrix: Tensor, null: float) -> None:
        self.matrix = matrix
        self.row, self.column = matrix.indices()
        self.values = matrix.values()
        zeros = self.values.new_zeros(len(matrix))
        self.is_beside = self.row != self.column
        self.diagonal = zeros.index_add(0, self.row, self.values * ~self.is_beside)
        self.sums = zeros.index_add(0, self.row, self.values.abs())
        self.is_null = self.diagonal <= null
        self.inverse = torch.where(self.is_null, 0, 1 / self.diagonal)

    def edges(self, strong: float) -> Tensor:
        """Return the numbers of the entries beside the diagonal that are large."""
        ends = self.diagonal[self.row] * self.diagonal[self.column]
        is_strong = self.values.abs() > strong * ends.sqrt()
        numbers: Tensor = (self.is_beside & is_strong).nonzero()
        return numbers[:, 0]

    def groups(self, edges: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Return the group of every node, and its sign there.

        A group is a root with the nodes at most two edges away. Roots are nodes that no other
        root is near, and as many as possible.
        """
        row = self.row[edges]
        column = self.column[edges]
        root = _roots(row, column, len(self.diagonal), generator)
        group = torch.full_like(self.diagonal, -1, dtype=torch.long)
        group[root] = torch.arange(len(root), device=root.device)
        sign = self.values.new_ones(len(group))
        agrees = -self.values[edges].sign()
        while True:  # twice, as every node is near a root
            is_next = (group[row] < 0) & (group[column] >= 0)
            number = is_next.nonzero()[:, 0]
            if not len(number):
                return group, sign
            edge = torch.full_like(group, -1).scatter_reduce(0, row[number], number, "amax")
            node = (edge >= 0).nonzero()[:, 0]
            edge = edge[node]
            sign[node] = sign[column[edge]] * agrees[edge]
            group[node] = group[column[edge]]

    def collected(self, group: Tensor, sign: Tensor) -> Tensor:
        """Return the matrix between groups, without smoothing."""
        signs = sign[self.row] * sign[self.column]
        row = group[self.row]
        column = group[self.column]
        count = int(group.max()) + 1
        return coo_matrix(row, column, self.values * signs, (count, count))

    def smoothed(self, group: Tensor, sign: Tensor) -> Tensor:
        """Return the matrix that spreads values of groups to nodes, (nodes, groups).

        A step of smoothing makes what it spreads vary slowly.
        """
        node = torch.arange(len(group), device=group.device)
        shape = len(group), int(group.max()) + 1
        constant = coo_matrix(node, group, sign, shape)
        bound = (self.sums * self.inverse).max()  # of the eigenvalues
        scale = _DAMPING / bound * self.inverse
        moved = _product(self.matrix, constant)
        values = -scale[moved.indices()[0]] * moved.values()
        row, column = moved.indices()
        return (constant + coo_matrix(row, column, values, shape)).coalesce()


def _roots(row: Tensor, column: Tensor, num_nodes: int, generator: torch.Generator) -> Tensor:
    """Return nodes of a graph that are more than two edges apart, as many as possible.

    Nodes draw numbers. In every round those with the largest number nearby become roots, and all
    that are near them drop out.
    """
    drawn = torch.rand(num_nodes, generator=generator, dtype=torch.float64).to(row.device) + 1
    dropped, chosen = 0.0, 3.0  # all numbers that are drawn lie between

    def largest_nearby() -> Tensor:
        nearby = drawn
        for _ in range(2):
            nearby = nearby.scatter_reduce(0, row, nearby[column], "amax")
        return nearby

    while True:
        is_open = (drawn > dropped) & (drawn < chosen)
        if not is_open.any():
            return (drawn == chosen).nonzero()[:, 0]
        is_largest = largest_nearby() == drawn
        drawn = torch.where(is_open & is_largest, chosen, drawn)
        is_near_root = largest_nearby() == chosen
        drawn = torch.where((drawn < chosen) & is_near_root, dropped, drawn)
