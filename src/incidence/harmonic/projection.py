r"""The harmonic part of an oriented tensor (docs/math.md section 19).

Let B be the boundary of the faces of a tensor, and C the boundary of the faces one node larger. The
harmonic part of x is what is left without its part in the image of $B^\top$ and its part in the
image of C:

$$P x = x - B^\top (B B^\top)^+ B x - C (C^\top C)^+ C^\top x.$$

P is an orthogonal projection, so its gradient is P again. Where few tensors are harmonic, every
structure gets an orthonormal basis H of them once (`bases.py`), and $P x = H H^\top x$ is two thin
products. Where many tensors are harmonic, and with weights, conjugate gradients run in every call.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor

from incidence.algebra.pattern import Pattern
from incidence.engine.bags import Lists, bag_sum, wide_of
from incidence.engine.store import Batchable, Listed, cached_plan
from incidence.harmonic.bases import Bases, bases_of, homes, maps_of
from incidence.harmonic.boundaries import FaceMaps, assert_whole, face_maps
from incidence.harmonic.least_squares import HarmonicSolver
from incidence.structure import Structure
from incidence.structure.data import Array, StructureData, cache_of
from incidence.structure.ragged import are_short, ranges, spans, starts_of

__all__ = ["WAYS", "HarmonicPlan", "harmonic_part", "harmonic_plan_of", "plain_harmonic_part"]

WAYS = ("auto", "dense", "gradients")
"""How a harmonic part may be computed."""


@dataclass(frozen=True, eq=False)
class HarmonicPlan(Batchable):
    """What harmonic parts of one tensor on a structure need.

    Attributes:
        heights: The number of rows of every structure, on the host.
        widths: The number of columns of the basis of every structure, on the host; 0 without one.
        values: The bases one after the other, each row by row, in float64.
        solver: Solves for the structures without a basis; None if all have one.
        open_rows: The rows of these structures, shape (rows,).
    """

    heights: Array
    widths: Array
    values: Tensor
    solver: HarmonicSolver | None = None
    open_rows: Tensor | None = None
    _typed: dict[torch.dtype, tuple[Lists, Lists]] = field(default_factory=dict, repr=False)

    @property
    def device(self) -> torch.device:
        """The device of the bases."""
        return self.values.device

    @property
    def is_batchable(self) -> bool:
        """Whether all structures have a basis."""
        return self.solver is None

    def spaces(self) -> list[Array]:
        """Return the spaces: rows, columns and numbers of bases."""
        numbers = self.heights * self.widths
        return [self.heights[None], self.widths[None], numbers[None]]

    def lists(self) -> list[Listed]:
        """Return the numbers of bases, which plans of batches take over bit by bit."""
        bits = self.values.view(torch.int64)
        low = 0xFFFFFFFF
        return [Listed((bits >> 32) & low, 2, None), Listed(bits & low, 2, None)]

    def remade(self, sizes: Sequence[Array], tensors: Iterator[Tensor]) -> HarmonicPlan:
        """Return the plan of other structures, from the sizes of its spaces and its lists."""
        [heights], [widths], _ = sizes
        high = next(tensors).long()
        low = next(tensors).long()
        values = ((high << 32) | low).view(torch.float64)
        return HarmonicPlan(heights, widths, values)

    def __repr__(self) -> str:
        count = len(self.heights)
        bases = f"{int(self.widths.sum()):,} harmonic of {int(self.heights.sum()):,} rows"
        where = f"{count:,} structure{'s' * (count != 1)}"
        solved = "" if self.open_rows is None else f", {len(self.open_rows):,} rows to be solved"
        memory = self.values.numel() * self.values.element_size() / 2**20
        return f"HarmonicPlan({bases} in {where}{solved}, memory: {memory:.1f} MiB)"

    @cached_property
    def pairs(self) -> tuple[Tensor, Tensor]:
        """The row and the column of every number of the bases."""
        counts = self.widths.repeat(self.heights)  # (rows,)
        rows = np.arange(len(counts)).repeat(counts)
        columns = spans(starts_of(self.widths).repeat(self.heights), counts)
        return tuple(torch.from_numpy(part).to(self.device) for part in (rows, columns))  # type: ignore[return-value]

    def project(self, x: Tensor, residual: float | None = None) -> Tensor:
        """Return the harmonic part of values, (rows, channels)."""
        y = self._by_bases(x)
        if self.solver is None or self.open_rows is None:
            return y
        solver = replace(self.solver, residual=residual)
        return y.index_copy(0, self.open_rows, solver(x[self.open_rows]))

    def _by_bases(self, x: Tensor) -> Tensor:
        """Return the harmonic part where there is a basis, and 0 elsewhere."""
        wide = x.to(wide_of(x.dtype))
        if len(self.heights) == 1:
            basis = self.values.view(int(self.heights[0]), int(self.widths[0]))
            basis = basis.to(wide.dtype)  # (rows, columns)
            inside = basis.T @ wide  # (columns, channels)
            return (basis @ inside).to(x.dtype)
        if wide.dtype not in self._typed:
            with torch.inference_mode(False):
                self._typed[wide.dtype] = self._lists(wide.dtype)
        of_columns, of_rows = self._typed[wide.dtype]
        inside = bag_sum(wide, *of_columns)  # (columns, channels)
        return bag_sum(inside, *of_rows).to(x.dtype)

    def _lists(self, dtype: torch.dtype) -> tuple[Lists, Lists]:
        """The rows of every column of the bases, and the columns of every row."""
        rows, columns = self.pairs
        values = self.values.to(dtype)
        short = are_short(len(values), int(self.heights.sum()))
        index = torch.int32 if short else torch.int64
        by_column = columns.argsort(stable=True)
        widths = torch.from_numpy(self.widths.repeat(self.heights)).to(self.device)
        heights = torch.from_numpy(self.heights.repeat(self.widths)).to(self.device)
        of_columns = Lists(
            rows[by_column].to(index),
            ranges(heights).to(index),
            values[by_column],
        )
        of_rows = Lists(
            columns.to(index),
            ranges(widths).to(index),
            values,
        )
        return of_columns, of_rows


def harmonic_plan_of(structure: Structure, pattern: Pattern, way: str = "auto") -> HarmonicPlan:
    """Return the plan of the harmonic parts of a tensor, which is cached on the structure.

    Args:
        structure: The structure.
        pattern: Its tensor.
        way: `auto`, `dense` or `gradients`.

    Raises:
        IncidenceError: It is a part of a structure, or lacks sides of faces.
    """
    assert_whole(structure)

    def build(source: StructureData) -> HarmonicPlan:
        return _new_plan(cast("Structure", source), pattern, way)

    return cached_plan(structure, HarmonicPlan, (pattern, way), build)


def harmonic_part(
    x: Tensor,
    structure: Structure,
    pattern: Pattern,
    weights: Tensor | None = None,
    way: str = "auto",
    residual: float | None = None,
) -> Tensor:
    """Return the harmonic part of a tensor, with its gradient.

    Args:
        x: The values, (entries, channels).
        structure: The structure.
        pattern: The tensor.
        weights: Of the inner product, positive, shape (entries, 1); None for 1.
        way: `auto`, `dense` or `gradients`.
        residual: What conjugate gradients may leave of the boundary and the coboundary, relative
            to the size of x.
    """
    if weights is not None:
        root = weights.detach().double().sqrt()
        below, above = _cached_maps(structure, pattern)
        scaled = FaceMaps(
            None if below is None else below.scaled(1 / root[:, 0]),
            None if above is None else above.scaled(root[:, 0]),
        )
        home = structure.batch(pattern)
        solver = HarmonicSolver(scaled.known, home, structure.num_structures, residual)
        y: Tensor = _Project.apply(x * root.to(x.dtype), solver)  # type: ignore[no-untyped-call]
        return y / root.to(x.dtype)
    plan = harmonic_plan_of(structure, pattern, way)

    def project(values: Tensor) -> Tensor:
        return plan.project(values, residual)

    part: Tensor = _Project.apply(x, project)  # type: ignore[no-untyped-call]
    return part


def plain_harmonic_part(x: Tensor, rows: Tensor, columns: Tensor, values: Tensor) -> Tensor:
    """Return the harmonic part in plain steps, for graphs that are recorded.

    Args:
        x: The values, (entries, channels).
        rows: The row of every number of the bases.
        columns: The column of every number of the bases.
        values: The numbers of the bases.
    """
    weights = values[:, None].to(x.dtype)
    # a column belongs to one structure, which has at least one row: there are not more columns
    into = x.index_select(0, rows) * weights  # (numbers, channels)
    sums = x.new_zeros(x.shape).index_add(0, columns, into)
    back = sums.index_select(0, columns) * weights
    return x.new_zeros(x.shape).index_add(0, rows, back)


class _Project(torch.autograd.Function):
    """A symmetric linear map, whose gradient is itself."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, project: Callable[[Tensor], Tensor]) -> Tensor:
        ctx.project = project
        return project(x.contiguous())

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        return _Project.apply(grads[0], ctx.project), None  # type: ignore[no-untyped-call]


def _cached_maps(structure: Structure, pattern: Pattern) -> FaceMaps:
    assert_whole(structure)
    cache = cache_of(structure, FaceMaps)
    if pattern not in cache:
        with torch.inference_mode(False):
            cache[pattern] = face_maps(structure, pattern)
    return cache[pattern]


def _new_plan(structure: Structure, pattern: Pattern, way: str) -> HarmonicPlan:
    """Return the plan of a tensor: bases where there are any, and a solver for all others."""
    heights = structure._lengths_of(structure.resolve(pattern))
    bases = list(bases_of(structure, pattern, heights, way))
    widths, values = _side_by_side(heights, bases, structure.device)
    has_basis = heights == 0
    for one in bases:
        has_basis[one.numbers] = True
    large = np.flatnonzero(~has_basis)
    if not len(large):
        return HarmonicPlan(heights, widths, values)
    is_open = (~has_basis).repeat(heights)  # (rows,)
    rows = torch.from_numpy(is_open.nonzero()[0]).to(structure.device)
    maps = maps_of(structure, pattern, large)
    solver = HarmonicSolver(maps, homes(heights[large], rows), len(large))
    return HarmonicPlan(heights, widths, values, solver, rows)


def _side_by_side(
    heights: Array, bases: Sequence[Bases], device: torch.device
) -> tuple[Array, Tensor]:
    """The widths of all bases and their numbers, in the order of the structures."""
    widths = np.zeros_like(heights)
    starts = np.zeros_like(heights)
    first = 0
    for one in bases:
        sizes = heights[one.numbers] * one.widths
        widths[one.numbers] = one.widths
        starts[one.numbers] = first + starts_of(sizes)
        first += len(one.values)
    order = torch.from_numpy(spans(starts, heights * widths)).to(device)
    none = torch.zeros(0, dtype=torch.float64, device=device)
    return widths, torch.cat([none, *(one.values for one in bases)])[order]
