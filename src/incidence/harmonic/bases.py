"""Orthonormal bases of the harmonic tensors of structures.

That of a small structure is made of eigenvectors of a dense matrix. That of a large one is the
harmonic part of noise, by conjugate gradients.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from incidence.algebra.pattern import Pattern
from incidence.harmonic.boundaries import face_maps
from incidence.harmonic.least_squares import FaceMap, HarmonicSolver
from incidence.structure import Structure
from incidence.structure.data import Array
from incidence.structure.ragged import expand, group, spans, starts_of

__all__ = ["Bases", "bases_of", "homes", "maps_of"]

_DENSE_ROWS = 256  # of a structure, up to which its basis is made of eigenvectors
_MOST_COLUMNS = 32  # of the basis of a larger structure: with more, every call is solved
_FIRST_COLUMNS = 8  # of noise, where nothing is known about the number of harmonic tensors
_MOST_ELEMENTS = 1 << 22  # of the dense matrices that are solved together
_NULL = 1e-9  # of the largest eigenvalue: a smaller one is rounding
_SMALLEST_NOISE = 1e-14  # of the square of noise: a smaller harmonic part is rounding
_FIRST_RESIDUAL, _RESIDUAL = 1e-7, 1e-13  # of a basis, before and after it is orthonormal


class Bases(NamedTuple):
    """The bases of some structures of a batch.

    Attributes:
        numbers: The structures.
        widths: The number of columns of each.
        values: Their numbers one after the other, each row by row.
    """

    numbers: Array
    widths: Array
    values: Tensor


def bases_of(structure: Structure, pattern: Pattern, heights: Array, way: str) -> Iterator[Bases]:
    """Yield the bases of those structures that get one.

    Args:
        structure: The structure.
        pattern: The tensor.
        heights: The number of its rows in every structure.
        way: `auto`, `dense` or `gradients`.
    """
    most = {"auto": _DENSE_ROWS, "dense": heights.max(initial=0), "gradients": 0}[way]
    yield from _dense_bases(structure, pattern, np.flatnonzero(heights <= most))
    if way == "auto":
        yield from _sampled_bases(structure, pattern, np.flatnonzero(heights > most))


def homes(heights: Array, like: Tensor) -> Tensor:
    """Return the structure of every row, from the number of rows of each."""
    return torch.from_numpy(np.arange(len(heights)).repeat(heights)).to(like.device)


def maps_of(structure: Structure, pattern: Pattern, numbers: Array) -> list[FaceMap]:
    """Return the boundaries on some structures of a batch."""
    if len(numbers) < structure.num_structures:
        structure = structure[numbers.tolist()]
    return face_maps(structure, pattern).known


def _dense_bases(structure: Structure, pattern: Pattern, numbers: Array) -> Iterator[Bases]:
    """Yield the bases of some structures, made of eigenvectors of their Laplacians.

    Structures with as many rows are solved at once.
    """
    if not len(numbers):
        return
    heights = structure._lengths_of(structure.resolve(pattern))[numbers]
    maps = maps_of(structure, pattern, numbers)
    blocks = [_DenseMaps(one, torch.from_numpy(heights).to(structure.device)) for one in maps]
    for height, some in group(torch.from_numpy(heights)):
        if not height:
            continue
        widest = max([height, *(int(one.counts[some].max()) for one in blocks)])
        together = max(1, _MOST_ELEMENTS // max(1, height * widest))
        for part in some.split(together):
            shape = len(part), height, height
            laplacian = torch.zeros(shape, dtype=torch.float64, device=structure.device)
            for one in blocks:
                matrix = one.dense(part.to(structure.device), height)
                laplacian += matrix.mT @ matrix
            sizes, vectors = torch.linalg.eigh(laplacian)
            largest = sizes.amax(1, keepdim=True).clamp(min=1.0)  # (structures, 1)
            is_null = sizes <= _NULL * largest
            values = vectors[is_null[:, None].expand_as(vectors)]
            widths = is_null.sum(1).cpu().numpy()
            yield Bases(numbers[part.numpy()], widths, values)


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
) -> Iterator[Bases]:
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
    maps = maps_of(structure, pattern, numbers)
    heights = structure._lengths_of(structure.resolve(pattern))[numbers]
    home = homes(heights, structure.batch(pattern))
    if len(maps) == 1:
        walk = maps[0].transposed(home)
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
        # as many as columns: there may be more
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
    yield Bases(numbers[is_few], widths[is_few], torch.cat(values))
    if not is_known and columns == _FIRST_COLUMNS and not is_few.all():
        yield from _sampled_bases(structure, pattern, numbers[~is_few], 5 * _FIRST_COLUMNS)


def _bases_of_parts(walk: FaceMap, numbers: Array, heights: Array) -> Bases:
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
    number_of_kernel = has_kernel.cumsum(0) - 1
    column = number_of_kernel[part].numpy() - starts_of(nullity).repeat(heights)
    row = spans(np.zeros_like(heights), heights)  # counted within the structure
    first = starts_of(heights * widths).repeat(heights)
    place = first + row * widths.repeat(heights) + column
    is_number = (sign.numpy() != 0) & is_few.repeat(heights)
    sizes = torch.bincount(part).double()
    numbers_of_rows = sign.double() / sizes[part].sqrt()
    values = torch.zeros(int((heights * widths).sum()), dtype=torch.float64)
    values[torch.from_numpy(place[is_number])] = numbers_of_rows[torch.from_numpy(is_number)]
    return Bases(numbers[is_few], widths[is_few], values.to(walk.home.device))


def _known_widths(maps: Sequence[FaceMap], heights: Array) -> Array | None:
    """Return the number of harmonic tensors of every structure; None where it takes more to know
    it.
    """
    if not all(one.is_graph for one in maps):
        return None
    ranks = [one.rank.cpu().numpy() for one in maps]
    widths: Array = heights - sum(ranks)
    return widths


def _rank(part: Tensor) -> int:
    """Return the number of independent columns of the harmonic part of noise."""
    sizes = torch.linalg.eigvalsh(part.T @ part)
    return int((sizes > _SMALLEST_NOISE * len(part)).sum())


def _orthonormal(part: Tensor, width: int) -> Tensor:
    """Return an orthonormal basis, so many columns wide, of the span of the columns."""
    sizes, vectors = torch.linalg.eigh(part.T @ part)
    first = len(sizes) - width  # sizes ascend
    basis: Tensor = part @ (vectors[:, first:] / sizes[first:].sqrt())
    return basis
