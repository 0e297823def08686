"""Named objects: solids, polytopes of any dimension, small surfaces and graphs, with coordinates if
they have some.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass
from difflib import get_close_matches
from functools import partial
from itertools import combinations
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from incidence.errors import IncidenceError, TooLargeError
from incidence.geometry import families
from incidence.geometry.polytopes import polytope_from_facets
from incidence.structure import Structure

__all__ = ["coordinates", "named", "names"]

_MAX_INCIDENCES = 20_000_000


@dataclass(frozen=True)
class _Entry:
    """How to make an object, of a size if it is one of a family, and its coordinates."""

    structure: Callable[..., Structure]
    points: Callable[..., NDArray[np.float64]] | None = None
    least: int | None = None  # the smallest size of a family; None for a single object
    # about how many nodes all faces have together, to refuse what would not fit
    incidences: Callable[[int], int] = lambda n: 10 * n


def _solid(name: str) -> Structure:
    """A polytope whose edges are the shortest distances between its corners, as in all uniform
    polytopes.

    Edges at any corner of a facet span it, so all hyperplanes spanned by edges at a corner are
    tried.
    """
    points = families.solid_points(name)
    num_nodes, dimension = points.shape
    # (nodes, nodes)
    distances = np.linalg.norm(points[:, None] - points, axis=-1) + 1e9 * np.eye(num_nodes)
    # Coordinates come from formulas, so that equal distances differ by rounding alone.
    is_edge = distances < distances.min() * (1 + 1e-9)
    facets: dict[bytes, list[int]] = {}
    for corner in range(num_nodes):
        ends = points[is_edge[corner]] - points[corner]  # (edges at the corner, dimension)
        # (choices, dimension - 1, dimension)
        spans = ends[list(combinations(range(len(ends)), dimension - 1))]
        _, widths, axes = np.linalg.svd(spans)
        normals = axes[widths[:, -1] > 1e-6 * widths[:, 0], -1]  # of those that span hyperplanes
        heights = normals @ (points - points[corner]).T  # (hyperplanes, nodes)
        heights[np.abs(heights) < 1e-9 * widths.max()] = 0
        is_facet = (heights >= 0).all(axis=1) | (heights <= 0).all(axis=1)
        for row in heights[is_facet] == 0:
            # The same facet is met at each of its corners.
            facets.setdefault(row.tobytes(), np.flatnonzero(row).tolist())
    return polytope_from_facets(list(facets.values()))


_FAMILIES = {
    "simplex-n": _Entry(families.simplex, families.simplex_points, 1, lambda n: (n + 1) * 2**n),
    "cube-n": _Entry(families.cube, families.cube_points, 1, lambda n: 4**n),
    "cross-polytope-n": _Entry(
        families.cross_polytope, families.cross_polytope_points, 1, lambda n: 2 * n * 3 ** (n - 1)
    ),
    "prism-n": _Entry(families.prism, families.prism_points, 3),
    "antiprism-n": _Entry(families.antiprism, families.antiprism_points, 3),
    "cycle-n": _Entry(families.cycle, families.polygon_points, 3),
    "directed-cycle-n": _Entry(families.directed_cycle, families.polygon_points, 2),
    "complete-n": _Entry(families.complete, None, 1, lambda n: n * n),
}
_SINGLES = {
    **{
        name: _Entry(partial(_solid, name), partial(families.solid_points, name))
        for name in families.SOLIDS
    },
    "cube": _Entry(partial(families.cube, 3), partial(families.cube_points, 3)),
    "triangular bipyramid": _Entry(
        partial(families.bipyramid, 3), partial(families.bipyramid_points, 3)
    ),
    "Möbius strip": _Entry(families.moebius_strip),
    "torus": _Entry(families.torus),
    "Klein bottle": _Entry(families.klein_bottle),
    "projective plane": _Entry(families.projective_plane),
    "Petersen graph": _Entry(families.petersen),
}
_OTHER_NAMES = {
    "soccer ball": "truncated icosahedron",
    "tesseract": "cube-4",
    "moebius strip": "Möbius strip",
    "petersen": "Petersen graph",
    "5-cell": "simplex-4",
    "8-cell": "cube-4",
    "16-cell": "cross-polytope-4",
}


def names() -> list[str]:
    """Return the names that `named` knows; n stands for a number.

    Example:
        >>> [name for name in names() if "prism" in name]
        ['antiprism-n', 'prism-n']
    """
    return sorted([*_FAMILIES, *_SINGLES, *_OTHER_NAMES], key=str.lower)


def named(name: str) -> Structure:
    r"""Return a structure by name; upper and lower case, hyphens and spaces are the same.

    Polytopes have their edges `{i j}` and their faces `rank2={i ...}`, `rank3={i ...}`, ... up to
    the facets; surfaces have `{i j}` and `{i j k}`; graphs `{i j}`, directed ones `(i j)`. All are
    in the order that structures prefer. `names` lists the names, `coordinates` gives the corners.

    Raises:
        IncidenceError: Nothing has that name; the message says what comes near.

    Example:
        >>> named("soccer ball")
        Structure(num_nodes=60, '{i j}': 90 entries, 'rank2={i ...}': 32 entries)
        >>> named("cube-4")
        Structure(num_nodes=16, '{i j}': 32 entries, 'rank2={i ...}': 24 entries, 'rank3={i ...}': 8
        entries)
        >>> named("torus")
        Structure(num_nodes=7, '{i j}': 21 entries, '{i j k}': 14 entries)
    """
    named_object, size = _find(name)
    return named_object.structure(*size)


def coordinates(name: str) -> Tensor:
    """Return the coordinates of a named object, shape [nodes, dimensions], in float64; edges have
    equal lengths.

    Raises:
        IncidenceError: Nothing has that name, or it has no coordinates.

    Example:
        >>> coordinates("cross-polytope-2")
        tensor([[ 1.,  0.],
                [-1.,  0.],
                [ 0.,  1.],
                [ 0., -1.]], dtype=torch.float64)
    """
    named_object, size = _find(name)
    if named_object.points is None:
        raise IncidenceError(
            f"{name!r} has no coordinates: it is a structure alone, not a polytope. Leave them out."
        )
    return torch.from_numpy(np.ascontiguousarray(named_object.points(*size)))


def _plain(name: str) -> str:
    """A name without accents, case and the difference of spaces and hyphens."""
    bare = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode()
    return re.sub(r"\s+|[_-]", "-", bare.strip().lower())


_BY_PLAIN_NAME = {_plain(name): value for name, value in (_FAMILIES | _SINGLES).items()}
_PLAIN_OTHER_NAMES = {_plain(other): _plain(name) for other, name in _OTHER_NAMES.items()}


def _find(name: Any) -> tuple[_Entry, tuple[int, ...]]:
    if not isinstance(name, str):
        raise IncidenceError(
            f"an object is found by its name, a text such as 'cube'; got {type(name).__name__}."
        )
    plain = _plain(name)
    plain = _PLAIN_OTHER_NAMES.get(plain, plain)
    family, _, number = plain.rpartition("-")  # `cube-4` is the 4-cube
    if plain in _BY_PLAIN_NAME and plain not in map(_plain, _FAMILIES):
        return _BY_PLAIN_NAME[plain], ()
    if f"{family}-n" not in _BY_PLAIN_NAME or not re.fullmatch(r"[0-9]{1,9}", number):
        near = get_close_matches(plain, [_plain(known) for known in names()], n=3, cutoff=0.5)
        written = [known for close in near for known in names() if _plain(known) == close]
        hint = f"Did you mean {' or '.join(written)}?" if written else "geometry.names() lists all."
        if any(known.endswith("-n") for known in written):
            hint += " Write a number for n."
        raise IncidenceError(f"no object is called {name!r}. {hint}")
    value = _BY_PLAIN_NAME[f"{family}-n"]
    size = int(number)
    if value.least is not None and size < value.least:
        raise IncidenceError(
            f"{name!r}: the number of `{family}-n` must be at least {value.least}."
        )
    # Powers of large numbers take long to compute.
    is_too_large = value.incidences(min(size, 64)) > _MAX_INCIDENCES
    if is_too_large or value.incidences(size) > _MAX_INCIDENCES:
        raise TooLargeError(
            f"{name!r} has more than {_MAX_INCIDENCES:,} nodes in its faces, which are not listed."
            " Take a smaller number."
        )
    return value, (size,)
