"""`surfaces`: triangulated closed surfaces with their topology, and finer triangulations of some.

The files hold all 43,138 triangulations with at most ten vertices. Those with at most eight are
enumerated where there are no files.
"""

from __future__ import annotations

import gzip
import os
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from incidence.data.dataset import DataSet, Split, Task
from incidence.errors import IncidenceError
from incidence.geometry.assembly import attach
from incidence.geometry.closed_surfaces import closed_surfaces
from incidence.geometry.complexes import close_downwards
from incidence.geometry.manifolds import agreeing_signs
from incidence.geometry.node_lists import as_integer
from incidence.geometry.ranks import faces
from incidence.geometry.subdivision import subdivide
from incidence.limits import assert_unpacked
from incidence.structure.collate import uncollate
from incidence.structure.example import Example
from incidence.structure.ragged import expand, ranges
from incidence.structure.structure import Structure

__all__ = ["TARGETS", "TYPES", "load_surfaces"]

TYPES = (
    *("S^2", "T^2", "#^2 T^2", "#^3 T^2"),
    *("RP^2", "Klein bottle", "#^3 RP^2", "#^4 RP^2", "#^5 RP^2", "#^6 RP^2", "#^7 RP^2"),
)
"""The types of closed surfaces, the orientable ones first."""

_NUM_ORIENTABLE = 4  # of the types

TARGETS: Mapping[str, Task] = {
    "type": Task("classification", TYPES, target="type"),
    "name": Task("classification", ("S^2", "T^2", "RP^2", "Klein bottle", "other"), target="name"),
    "orientable": Task("classification", ("no", "yes"), target="orientable"),
    "betti": Task("regression", ("b0", "b1", "b2")),
    "b1": Task("classification", tuple("0123456"), target="b1"),
    "b2": Task("classification", ("0", "1"), target="b2"),
}
"""What can be predicted of a surface."""

_FOLDER = "INCIDENCE_DATA"
_FROM_FILES = ("barycentric", "stellar", "graded20", "graded40")
_REFINED = (*_FROM_FILES, "edge")
_SURFACES, _SPLITS, _REFINEMENTS = "surfaces10.txt.gz", "splits.npz", "refine500.npz"
_MOST_VERTICES, _MOST_BUILT = 10, 8
_TEST = 2  # the number of that part
_ABOUT = (
    "All triangulations of connected closed surfaces with at most {most} vertices, up to"
    " isomorphism. Vertices are numbered at random. The features are ones. Betti numbers are over"
    " the rationals."
)


class _Surfaces(NamedTuple):
    """Surfaces one after the other.

    Attributes:
        triangles: Vertices counted from 0 in each surface, (triangles, 3).
        sizes: The number of triangles of every surface, (surfaces,).
    """

    triangles: Tensor
    sizes: Tensor

    @property
    def home(self) -> Tensor:
        """The surface of every triangle."""
        return torch.arange(len(self.sizes)).repeat_interleave(self.sizes)

    @property
    def num_vertices(self) -> Tensor:
        """The number of vertices of every surface."""
        counts = torch.zeros_like(self.sizes)
        return counts.scatter_reduce(0, self.home, self.triangles.amax(1) + 1, "amax")

    def structure(self) -> Structure:
        """Return a batch of the surfaces, with `{i j}` and `{i j k}`."""
        node_ptr = ranges(self.num_vertices)
        nodes = (self.triangles + node_ptr[:-1][self.home][:, None]).sort(dim=1)[0]
        index = close_downwards({3: nodes}, 3, int(node_ptr[-1]))
        alone = Structure._of({"node": node_ptr}, {}, {})
        entries = {"{i j}": index[2].T.contiguous(), "{i j k}": index[3].T.contiguous()}
        return attach(alone, entries)

    def take(self, rows: Tensor) -> _Surfaces:
        """Return some of the surfaces."""
        _, place = expand(ranges(self.sizes)[rows], self.sizes[rows])
        return _Surfaces(self.triangles[place], self.sizes[rows])

    def shuffled(self, generator: torch.Generator) -> _Surfaces:
        """Return the surfaces with their vertices numbered at random."""
        counts = self.num_vertices
        most = int(counts.max())
        drawn = torch.rand(len(counts), most, generator=generator)
        drawn[torch.arange(most) >= counts[:, None]] = 2.0  # no vertex, so it comes last
        number = drawn.argsort(dim=1).argsort(dim=1)
        return _Surfaces(number[self.home[:, None], self.triangles], self.sizes)


def load_surfaces(
    name: str,
    folder: Path | None,
    *,
    target: str = "type",
    max_vertices: int = _MOST_VERTICES,
    refined: str = "none",
    rounds: int = 1,
    seed: int = 0,
) -> DataSet:
    """Load triangulated closed surfaces.

    Args:
        name: The name of the data set.
        folder: The folder with the files, or the one that holds it. Default: `INCIDENCE_DATA`.
        target: `type` (11 classes), `name` (5 classes: sphere, torus, projective plane, Klein
            bottle, others), `orientable`, `betti` (the three Betti numbers), `b1` or `b2` (as
            classes).
        max_vertices: The largest number of vertices. Up to 8 the surfaces are enumerated, and need
            no files. They then have no parts of their own.
        refined: `barycentric`, `stellar`, `edge`, `graded20` or `graded40`: the test part is 500
            surfaces, each as a finer triangulation. Training and validation are as without.
        rounds: How often these are refined.
        seed: Seed of the numbering of vertices.

    Raises:
        IncidenceError: The files are missing or damaged, or an option has no such value.
    """
    most = as_integer(name, "max_vertices", max_vertices, 4, _MOST_VERTICES)
    if target not in TARGETS:
        raise IncidenceError(
            f"the targets of {name!r} are {', '.join(TARGETS)}, one of them; got {target!r}."
        )
    if refined not in ("none", *_REFINED):
        raise IncidenceError(f"refined is one of none, {', '.join(_REFINED)}; got {refined!r}.")
    if refined != "none" and most < _MOST_VERTICES:
        raise IncidenceError(
            f"the refined surfaces of {name!r} are some of those with up to {_MOST_VERTICES}"
            " vertices: leave out max_vertices, or use inc.geometry.subdivide."
        )
    generator = torch.Generator().manual_seed(seed)
    if most <= _MOST_BUILT:
        structure = _built(most).shuffled(generator).structure()
        return _data_set(name, target, uncollate(_example(structure, target)), (), most)
    files = _Files(name, folder)
    surfaces = files.surfaces()
    parts = files.parts(len(surfaces.sizes))
    if refined == "none":
        kept = (surfaces.num_vertices <= most).nonzero()[:, 0]
        structure = surfaces.take(kept).shuffled(generator).structure()
        splits = tuple(_split(row) for row in parts[:, kept])
        return _data_set(name, target, uncollate(_example(structure, target)), splits, most)
    finer = _refined(files, surfaces, refined, as_integer(name, "rounds", rounds, 1), generator)
    seen = (parts[0] < _TEST).nonzero()[:, 0]
    structure = surfaces.take(seen).shuffled(generator).structure()
    examples = uncollate(_example(structure, target)) + uncollate(_example(finer, target))
    is_finer = torch.full((finer.num_structures,), _TEST)
    splits = (_split(torch.cat([parts[0, seen], is_finer])),)
    return _data_set(name, target, examples, splits, most)


def _split(part: Tensor) -> Split:
    """The split in which row k has the part `part[k]`."""
    return Split(*((part == which).nonzero()[:, 0] for which in range(3)))


def _data_set(
    name: str,
    target: str,
    examples: Sequence[Example],
    splits: tuple[Split, ...],
    most: int,
) -> DataSet:
    task = TARGETS[target]
    metric = "mae" if task.kind == "regression" else "accuracy"
    about = _ABOUT.format(most=most)
    return DataSet(name, examples, task, splits, "example", about=about, metric=metric)


def _built(most: int) -> _Surfaces:
    found = [one for count in range(4, most + 1) for one in closed_surfaces(count)]
    return _Surfaces(
        torch.tensor([triangle for one in found for triangle in one]),
        torch.tensor([len(one) for one in found]),
    )


def _refined(
    files: _Files, surfaces: _Surfaces, how: str, rounds: int, generator: torch.Generator
) -> Structure:
    """The 500 surfaces of the test part as finer triangulations."""
    if how in _FROM_FILES:
        finer, rounds = files.refined(how).structure(), rounds - 1
    else:
        finer = surfaces.take(files.chosen()).shuffled(generator).structure()
    if rounds and how.startswith("graded"):
        raise IncidenceError(f"{how!r} is refined once, to so many vertices: leave out rounds.")
    return subdivide(finer, how, rounds) if rounds else finer


def _example(structure: Structure, target: str) -> Example:
    """A batch of surfaces with features and targets."""
    keys = ("i", "{i j}", "{i j k}")
    features = {key: torch.ones(structure.num_entries(key), 1) for key in keys}
    return Example(structure, features, _targets(structure, target), is_batch=True)


def _targets(structure: Structure, target: str) -> Tensor:
    """What is to be predicted of every surface of a batch.

    A connected closed surface is known by its Euler characteristic, and by whether it is
    orientable.
    """
    nodes, edges, triangles = (structure.entry_ptr(key).diff() for key in ("i", "{i j}", "{i j k}"))
    euler = nodes - edges + triangles
    is_orientable = _are_orientable(structure)
    b2 = is_orientable.long()
    b1 = 1 + b2 - euler
    kind = torch.where(is_orientable, b1 // 2, _NUM_ORIENTABLE + b1)
    names = {0: 0, 1: 1, _NUM_ORIENTABLE: 2, _NUM_ORIENTABLE + 1: 3}
    by_name = torch.tensor([names.get(number, 4) for number in range(len(TYPES))])
    values = {
        "type": kind,
        "name": by_name[kind],
        "orientable": b2,
        "betti": torch.stack([torch.ones_like(b1), b1, b2], dim=1).float(),
        "b1": b1,
        "b2": b2,
    }
    return values[target]


def _are_orientable(structure: Structure) -> Tensor:
    """Whether each closed surface of a batch is orientable, (surfaces,)."""
    ranked = faces(structure)
    triangle = ranked.boundary(2)[1]
    _sides, order = ranked.boundary(2)[0].sort(stable=True)
    both = order.view(-1, 2).T  # of every edge its two places in the boundary
    products = -ranked.signs(2)[both].prod(0)
    is_fine = agreeing_signs(ranked.of_rank(2).count, triangle[both], products)[1]
    fine = torch.ones(structure.num_structures, dtype=torch.bool)
    fine[structure.batch("{i j k}")[~is_fine]] = False
    return fine


class _Files:
    """The files of the data set.

    Raises:
        IncidenceError: There is no folder with them.
    """

    def __init__(self, name: str, folder: Path | None) -> None:
        given = folder or os.environ.get(_FOLDER)
        if not given:
            raise IncidenceError(
                f"the data set {name!r} is read from files: give the folder that holds them with"
                f" --folder, or set {_FOLDER}. Surfaces with up to {_MOST_BUILT}"
                f" vertices need no files: `--data-options max_vertices={_MOST_BUILT}`."
            )
        places = [Path(given) / "surfaces", Path(given)]
        found = next((one for one in places if (one / _SURFACES).is_file()), None)
        if found is None:
            raise IncidenceError(
                f"the data set {name!r} needs the file {places[0] / _SURFACES}, which is not there:"
                " give the folder that holds `surfaces`."
            )
        self._folder = found

    def surfaces(self) -> _Surfaces:
        """Return all surfaces: a line for each, three digits for each triangle."""
        path = self._folder / _SURFACES
        try:
            assert_unpacked(path)
            lines = gzip.decompress(path.read_bytes()).split()
        except (OSError, EOFError, zlib.error) as error:
            raise _damaged(path, error) from None
        digits = torch.frombuffer(bytearray(b"".join(lines)), dtype=torch.uint8).long() - ord("0")
        sizes = torch.tensor([len(line) for line in lines])
        if bool((sizes % 3).any()) or not 0 <= int(digits.min()) <= int(digits.max()) <= 9:
            raise _damaged(path, "a line is not three digits for each triangle")
        return _Surfaces(digits.view(-1, 3), sizes // 3)

    def parts(self, count: int) -> Tensor:
        """Return the part of every surface: 0, 1 or 2, (splits, surfaces)."""
        parts = self._array(_SPLITS, "split")
        if parts.ndim != 2 or parts.shape[1] != count:
            raise _damaged(self._folder / _SPLITS, f"it is not for {count} surfaces")
        return parts

    def chosen(self) -> Tensor:
        """Return the numbers of the surfaces that are there as finer triangulations, too."""
        return self._array(_REFINEMENTS, "index")

    def refined(self, how: str) -> _Surfaces:
        """Return the finer triangulations of these surfaces."""
        sizes = self._array(_REFINEMENTS, f"{how}_ptr").diff()
        triangles = self._array(_REFINEMENTS, f"{how}_triangles")
        if int(sizes.sum()) != len(triangles):
            raise _damaged(self._folder / _REFINEMENTS, f"{how} has other numbers of triangles")
        return _Surfaces(triangles, sizes)

    def _array(self, file: str, key: str) -> Tensor:
        path = self._folder / file
        try:
            with np.load(path, allow_pickle=False) as arrays:
                return torch.from_numpy(arrays[key].astype(np.int64))
        except (OSError, ValueError, KeyError, EOFError, zlib.error, zipfile.BadZipFile) as error:
            raise _damaged(path, error) from None


def _damaged(path: Path, problem: object) -> IncidenceError:
    return IncidenceError(f"{path} is missing or damaged ({problem}): fetch it again.")
