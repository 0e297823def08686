r"""The harmonic part of an oriented tensor (docs/math.md section 19).

Let B be the boundary of the faces of a tensor, and C the boundary of the faces one node larger. The
harmonic part of x is what is left without its part in the image of $B^\top$ and its part in the
image of C:

$$P x = x - B^\top (B B^\top)^+ B x - C (C^\top C)^+ C^\top x.$$

P is an orthogonal projection, so its gradient is P again. Where few tensors are harmonic, every
structure gets an orthonormal basis H of them once, and $P x = H H^\top x$ is two thin products. The
basis of a small structure is made of eigenvectors of a dense matrix. That of a large one is the
harmonic part of noise, by conjugate gradients. Where many tensors are harmonic, and with weights,
conjugate gradients run in every call.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple, cast

import numpy as np
import torch
from torch import Tensor

from incidence.algebra.pattern import Pattern
from incidence.engine.bags import Lists, bag_sum, wide_of
from incidence.engine.boundaries import FaceMaps, face_maps
from incidence.engine.least_squares import FaceMap, without_image
from incidence.engine.store import Batchable, Listed, cached_plan
from incidence.structure import Structure
from incidence.structure.data import Array, StructureData, cache_of
from incidence.structure.ragged import are_short, expand, group, ranges, spans, starts_of

__all__ = ["WAYS", "HarmonicPlan", "harmonic_part", "harmonic_plan_of", "plain_harmonic_part"]

WAYS = ("auto", "dense", "gradients")
"""How a harmonic part may be computed."""

_DENSE_ROWS = 256  # of a structure, up to which its basis is made of eigenvectors
_MOST_COLUMNS = 32  # of the basis of a larger structure: with more, every call is solved
_FIRST_COLUMNS = 8  # of noise, where nothing is known about the number of harmonic tensors
_MOST_ELEMENTS = 1 << 22  # of the dense matrices that are solved together
_NULL = 1e-9  # of the largest eigenvalue: a smaller one is rounding
_SMALLEST_NOISE = 1e-14  # of the square of noise: a smaller harmonic part is rounding
_FIRST_RESIDUAL, _RESIDUAL = 1e-7, 1e-13  # of a basis, before and after it is orthonormal


@dataclass(frozen=True)
class HarmonicSolver:
    """The projection by conjugate gradients.

    Attributes:
        maps: The boundaries.
        home: The structure of every row.
        num_structures: The number of structures.
        residual: What may be left of the boundaries, relative to the size of the values.
    """

    maps: FaceMaps
    home: Tensor
    num_structures: int
    residual: float | None = None

    def __call__(self, x: Tensor) -> Tensor:
        residual = self.residual
        if residual is None:
            residual = 1e-12 if x.dtype == torch.float64 else 1e-8
        y = x.double()
        enough = residual**2 * _sums(y.square(), self.home, self.num_structures)
        for faces in self.maps.known:
            y = without_image(y, faces, enough)
        return y.to(x.dtype)


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
        return [self.heights[None], self.widths[None], (self.heights * self.widths)[None]]

    def lists(self) -> list[Listed]:
        """Return the numbers of bases, which plans of batches take over bit by bit."""
        bits = self.values.view(torch.int64)
        low = 0xFFFFFFFF
        return [Listed((bits >> 32) & low, 2, None), Listed(bits & low, 2, None)]

    def remade(self, sizes: Sequence[Array], tensors: Iterator[Tensor]) -> HarmonicPlan:
        """Return the plan of other structures, from the sizes of its spaces and its lists."""
        [heights], [widths], _ = sizes
        high, low = (next(tensors).long() for _ in range(2))
        return HarmonicPlan(heights, widths, ((high << 32) | low).view(torch.float64))

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
            basis = self.values.view(int(self.heights[0]), int(self.widths[0])).to(wide.dtype)
            return (basis @ (basis.T @ wide)).to(x.dtype)
        if wide.dtype not in self._typed:
            with torch.inference_mode(False):
                self._typed[wide.dtype] = self._lists(wide.dtype)
        of_columns, of_rows = self._typed[wide.dtype]
        return bag_sum(bag_sum(wide, *of_columns), *of_rows).to(x.dtype)

    def _lists(self, dtype: torch.dtype) -> tuple[Lists, Lists]:
        """The rows of every column of the bases, and the columns of every row."""
        rows, columns = self.pairs
        values = self.values.to(dtype)
        short = are_short(len(values), int(self.heights.sum()))
        index = torch.int32 if short else torch.int64
        by_column = columns.argsort(stable=True)
        widths = torch.from_numpy(self.widths.repeat(self.heights)).to(self.device)
        heights = torch.from_numpy(self.heights.repeat(self.widths)).to(self.device)
        return (
            Lists(rows[by_column].to(index), ranges(heights).to(index), values[by_column]),
            Lists(columns.to(index), ranges(widths).to(index), values),
        )


def harmonic_plan_of(structure: Structure, pattern: Pattern, way: str = "auto") -> HarmonicPlan:
    """Return the plan of the harmonic parts of a tensor, which is cached on the structure.

    Args:
        structure: The structure.
        pattern: Its tensor.
        way: `auto`, `dense` or `gradients`.
    """

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
        maps = _cached_maps(structure, pattern)
        root = weights.detach().double().sqrt()
        below, above = maps
        scaled = FaceMaps(
            None if below is None else below.scaled(1 / root[:, 0]),
            None if above is None else above.scaled(root[:, 0]),
        )
        solver = HarmonicSolver(
            scaled, structure.batch(pattern), structure.num_structures, residual
        )
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
    sums = x.new_zeros(x.shape).index_add(0, columns, x.index_select(0, rows) * weights)
    return x.new_zeros(x.shape).index_add(0, rows, sums.index_select(0, columns) * weights)


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
    cache = cache_of(structure, FaceMaps)
    if pattern not in cache:
        with torch.inference_mode(False):
            cache[pattern] = face_maps(structure, pattern)
    return cache[pattern]


def _sums(x: Tensor, home: Tensor, num_structures: int) -> Tensor:
    """The sums of rows over every structure, (structures, channels)."""
    return x.new_zeros(num_structures, x.shape[1]).index_add_(0, home, x)


# ---- making plans


class _Bases(NamedTuple):
    """The bases of some structures of a batch.

    Attributes:
        numbers: The structures.
        widths: The number of columns of each.
        values: Their numbers one after the other, each row by row.
    """

    numbers: Array
    widths: Array
    values: Tensor


def _new_plan(structure: Structure, pattern: Pattern, way: str) -> HarmonicPlan:
    heights = structure._lengths_of(structure.resolve(pattern))
    most = {"auto": _DENSE_ROWS, "dense": heights.max(initial=0), "gradients": 0}[way]
    dense, large = np.flatnonzero(heights <= most), np.flatnonzero(heights > most)
    bases = list(_dense_bases(structure, pattern, dense))
    if way == "auto":
        bases += _sampled_bases(structure, pattern, large)
        large = np.setdiff1d(large, np.concatenate([[], *(one.numbers for one in bases)]))
    widths, values = _side_by_side(heights, bases, structure.device)
    if not len(large):
        return HarmonicPlan(heights, widths, values)
    is_open = np.zeros(len(heights), dtype=bool)
    is_open[large] = True
    rows = torch.from_numpy(is_open.repeat(heights).nonzero()[0]).to(structure.device)
    solver = HarmonicSolver(
        _maps_of(structure, pattern, large), _homes(heights[large], rows), len(large)
    )
    return HarmonicPlan(heights, widths, values, solver, rows)


def _homes(heights: Array, like: Tensor) -> Tensor:
    """The structure of every row, from the number of rows of each."""
    return torch.from_numpy(np.arange(len(heights)).repeat(heights)).to(like.device)


def _maps_of(structure: Structure, pattern: Pattern, numbers: Array) -> FaceMaps:
    """The boundaries on some structures of a batch."""
    if len(numbers) == structure.num_structures:
        return face_maps(structure, pattern)
    return face_maps(structure[numbers.tolist()], pattern)


def _side_by_side(
    heights: Array, bases: Sequence[_Bases], device: torch.device
) -> tuple[Array, Tensor]:
    """The widths of all bases and their numbers, in the order of the structures."""
    widths, starts = np.zeros_like(heights), np.zeros_like(heights)
    first = 0
    for one in bases:
        sizes = heights[one.numbers] * one.widths
        widths[one.numbers] = one.widths
        starts[one.numbers] = first + starts_of(sizes)
        first += len(one.values)
    order = torch.from_numpy(spans(starts, heights * widths)).to(device)
    none = torch.zeros(0, dtype=torch.float64, device=device)
    return widths, torch.cat([none, *(one.values for one in bases)])[order]


def _dense_bases(structure: Structure, pattern: Pattern, numbers: Array) -> Iterator[_Bases]:
    """Yield the bases of some structures, made of eigenvectors of their Laplacians.

    Structures with as many rows are solved at once.
    """
    if not len(numbers):
        return
    heights = structure._lengths_of(structure.resolve(pattern))[numbers]
    maps = _maps_of(structure, pattern, numbers).known
    blocks = [_DenseMaps(one, torch.from_numpy(heights).to(structure.device)) for one in maps]
    for height, some in group(torch.from_numpy(heights)):
        if not height:
            continue
        widest = max([height, *(int(one.counts[some].max()) for one in blocks)])
        for part in some.split(max(1, _MOST_ELEMENTS // max(1, height * widest))):
            laplacian = torch.zeros(len(part), height, height, dtype=torch.float64)
            laplacian = laplacian.to(structure.device)
            for one in blocks:
                matrix = one.dense(part.to(structure.device), height)
                laplacian += matrix.mT @ matrix
            sizes, vectors = torch.linalg.eigh(laplacian)
            is_null = sizes <= _NULL * sizes.amax(1, keepdim=True).clamp(min=1.0)
            values = vectors[is_null[:, None].expand_as(vectors)]
            yield _Bases(numbers[part.numpy()], is_null.sum(1).cpu().numpy(), values)


class _DenseMaps:
    """The maps of single structures as dense matrices.

    Args:
        faces: The map of all of them.
        heights: The number of rows of each structure.

    Attributes:
        counts: The number of images of each structure.
    """

    def __init__(self, faces: FaceMap, heights: Tensor) -> None:
        self._faces = faces
        home = faces.home[faces.images]
        self._order = home.argsort(stable=True)
        self._entries = torch.bincount(home, minlength=len(heights))
        self._first_entries = self._entries.cumsum(0) - self._entries
        self._first_rows = heights.cumsum(0) - heights
        self.counts = torch.bincount(faces.home, minlength=len(heights))
        self._first_images = self.counts.cumsum(0) - self.counts

    def dense(self, numbers: Tensor, height: int) -> Tensor:
        """Return the matrices of some structures of a height, (structures, images, height)."""
        which, place = expand(self._first_entries[numbers], self._entries[numbers])
        entry = self._order[place]
        number = numbers[which]
        row = self._faces.rows[entry] - self._first_rows[number]
        image = self._faces.images[entry] - self._first_images[number]
        most = int(self.counts[numbers].max())
        zeros = self._faces.values.new_zeros(len(numbers), most, height)
        return zeros.index_put((which, image, row), self._faces.values[entry])


def _sampled_bases(
    structure: Structure, pattern: Pattern, numbers: Array, columns: int = _FIRST_COLUMNS
) -> Iterator[_Bases]:
    """Yield the bases of those structures that have few harmonic tensors, by the harmonic part of
    noise.

    Args:
        structure: The structure.
        pattern: The tensor.
        numbers: The structures to look at.
        columns: How many columns of noise there are, if the number of harmonic tensors is unknown.
    """
    if not len(numbers):
        return
    maps = _maps_of(structure, pattern, numbers)
    heights = structure._lengths_of(structure.resolve(pattern))[numbers]
    home = _homes(heights, structure.batch(pattern))
    if len(maps.known) == 1:
        walk = maps.known[0].transposed(home)
        if walk.is_graph:
            yield _bases_of_parts(walk, numbers, heights)
            return
    widths = _known_widths(maps, heights)
    is_known = widths is not None
    if widths is not None:
        columns = int(widths[widths <= _MOST_COLUMNS].max(initial=0))
    generator = torch.Generator().manual_seed(0)
    noise = torch.randn(len(home), columns, generator=generator, dtype=torch.float64)
    # a rank takes all digits; else the second time gives the last ones
    project = HarmonicSolver(
        maps, home, len(numbers), _RESIDUAL if widths is None else _FIRST_RESIDUAL
    )
    parts = project(noise.to(structure.device)).split(heights.tolist())
    if widths is None:
        widths = np.array([_rank(part) for part in parts])
        is_few = widths < columns
    else:
        is_few = widths <= _MOST_COLUMNS
    widths[~is_few] = 0
    # What was left of noise was small beside the noise. It must be small beside the basis.
    basis = noise.new_zeros(noise.shape).to(structure.device)
    for own, part, width in zip(basis.split(heights.tolist()), parts, widths.tolist(), strict=True):
        own[:, :width] = _orthonormal(part, width)
    again = HarmonicSolver(maps, home, len(numbers), _RESIDUAL)
    parts = again(basis).split(heights.tolist())
    values = [
        _orthonormal(part[:, :width], width).flatten()
        for part, width in zip(parts, widths.tolist(), strict=True)
    ]
    yield _Bases(numbers[is_few], widths[is_few], torch.cat(values))
    if not is_known and columns == _FIRST_COLUMNS and not is_few.all():
        yield from _sampled_bases(structure, pattern, numbers[~is_few], 5 * _FIRST_COLUMNS)


def _bases_of_parts(walk: FaceMap, numbers: Array, heights: Array) -> _Bases:
    """Return the bases of structures where nothing but the kernel of a graph is harmonic.

    So it is for nodes, and for triangles of a closed surface: a harmonic tensor is constant on
    every connected part, up to orientations.

    Args:
        walk: From other faces to rows; each has at most two.
        numbers: The structures.
        heights: The number of rows of each.
    """
    nullity = walk.multilevel.nullity.cpu().numpy()
    is_few = nullity <= _MOST_COLUMNS
    widths = np.where(is_few, nullity, 0)
    part, sign = (own.cpu() for own in walk.multilevel.kernel())
    has_kernel = torch.zeros(int(part.max()) + 1, dtype=torch.bool)
    has_kernel[part[sign != 0]] = True
    # parts stand structure by structure, as rows do
    column = (has_kernel.cumsum(0) - 1)[part].numpy() - starts_of(nullity).repeat(heights)
    row = spans(np.zeros_like(heights), heights)  # counted within the structure
    place = starts_of(heights * widths).repeat(heights) + row * widths.repeat(heights) + column
    is_number = (sign.numpy() != 0) & is_few.repeat(heights)
    numbers_of_rows = sign.double() / torch.bincount(part).double()[part].sqrt()
    values = torch.zeros(int((heights * widths).sum()), dtype=torch.float64)
    values[torch.from_numpy(place[is_number])] = numbers_of_rows[torch.from_numpy(is_number)]
    return _Bases(numbers[is_few], widths[is_few], values.to(walk.home.device))


def _known_widths(maps: FaceMaps, heights: Array) -> Array | None:
    """The number of harmonic tensors of every structure; None where it takes more to know it."""
    if not all(one.is_graph for one in maps.known):
        return None
    ranks = [one.rank.cpu().numpy() for one in maps.known]
    widths: Array = heights - sum(ranks)
    return widths


def _rank(part: Tensor) -> int:
    """The number of independent columns of the harmonic part of noise."""
    sizes = torch.linalg.eigvalsh(part.T @ part)
    return int((sizes > _SMALLEST_NOISE * len(part)).sum())


def _orthonormal(part: Tensor, width: int) -> Tensor:
    """An orthonormal basis, so many columns wide, of the span of the columns."""
    sizes, vectors = torch.linalg.eigh(part.T @ part)
    first = len(sizes) - width  # sizes ascend
    basis: Tensor = part @ (vectors[:, first:] / sizes[first:].sqrt())
    return basis
