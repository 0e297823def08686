"""Named objects: solids, polytopes of any dimension, small surfaces and graphs, with coordinates where they have some."""

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
class _Object:
    """How to make an object, of a size if it is one of a family, and its coordinates."""

    structure: Callable[..., Structure]
    points: Callable[..., NDArray[np.float64]] | None = None
    least: int | None = None  # the smallest size of a family; None for a single object
    incidences: Callable[[int], int] = lambda n: (
        10 * n
    )  # about how many nodes all faces have together, to refuse what would not fit


def _solid(name: str) -> Structure:
    """A polytope whose edges are the shortest distances between its corners, as they are in all uniform ones.

    A facet is spanned by edges at any of its corners, so all hyperplanes spanned by edges at a corner are tried.
    """
    points = families.solid_points(name)
    num_nodes, dimension = points.shape
    distances = np.linalg.norm(points[:, None] - points, axis=-1) + 1e9 * np.eye(num_nodes)
    is_edge = distances < distances.min() * (1 + 1e-9)
    found: dict[bytes, list[int]] = {}
    for corner in range(num_nodes):
        ends = points[is_edge[corner]] - points[corner]
        spans = ends[
            list(combinations(range(len(ends)), dimension - 1))
        ]  # (choices, dimension - 1, dimension)
        _, widths, axes = np.linalg.svd(spans)
        heights = axes[widths[:, -1] > 1e-6 * widths[:, 0], -1] @ (points - points[corner]).T
        heights[np.abs(heights) < 1e-9 * widths.max()] = 0
        for row in heights[(heights >= 0).all(axis=1) | (heights <= 0).all(axis=1)] == 0:
            found.setdefault(row.tobytes(), np.flatnonzero(row).tolist())
    return polytope_from_facets(list(found.values()))


_FAMILIES = {
    "simplex-n": _Object(families.simplex, families.simplex_points, 1, lambda n: (n + 1) * 2**n),
    "cube-n": _Object(families.cube, families.cube_points, 1, lambda n: 4**n),
    "cross-polytope-n": _Object(
        families.cross_polytope, families.cross_polytope_points, 1, lambda n: 2 * n * 3 ** (n - 1)
    ),
    "prism-n": _Object(families.prism, families.prism_points, 3),
    "antiprism-n": _Object(families.antiprism, families.antiprism_points, 3),
    "cycle-n": _Object(families.cycle, families.polygon_points, 3),
    "directed-cycle-n": _Object(families.directed_cycle, families.polygon_points, 2),
    "complete-n": _Object(families.complete, None, 1, lambda n: n * n),
}
_SINGLES = {
    **{
        name: _Object(partial(_solid, name), partial(families.solid_points, name))
        for name in families.SOLIDS
    },
    "cube": _Object(partial(families.cube, 3), partial(families.cube_points, 3)),
    "triangular bipyramid": _Object(
        partial(families.bipyramid, 3), partial(families.bipyramid_points, 3)
    ),
    "Möbius strip": _Object(families.moebius_strip),
    "torus": _Object(families.torus),
    "Klein bottle": _Object(families.klein_bottle),
    "projective plane": _Object(families.projective_plane),
    "Petersen graph": _Object(families.petersen),
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
    """The names that `named` knows; n stands for a number.

    Example:
        >>> [name for name in names() if "prism" in name]
        ['antiprism-n', 'prism-n']
    """
    return sorted([*_FAMILIES, *_SINGLES, *_OTHER_NAMES], key=str.lower)


def named(name: str) -> Structure:
    r"""A structure by name; upper and lower case, hyphens and spaces are the same.

    Polytopes have their edges `{i j}` and their faces `rank2={i ...}`, `rank3={i ...}`, ... up to the facets; surfaces have `{i j}` and
    `{i j k}`; graphs `{i j}`, directed ones `(i j)`. All are in the order that structures prefer. `names` lists the names, `coordinates`
    gives the corners.

    Raises:
        IncidenceError: Nothing has that name; the message says what comes near.

    Example:
        >>> named("soccer ball")
        Structure(num_nodes=60, '{i j}': 90 entries, 'rank2={i ...}': 32 entries)
        >>> named("cube-4")
        Structure(num_nodes=16, '{i j}': 32 entries, 'rank2={i ...}': 24 entries, 'rank3={i ...}': 8 entries)
        >>> named("torus")
        Structure(num_nodes=7, '{i j}': 21 entries, '{i j k}': 14 entries)
    """
    found, size = _find(name)
    return found.structure(*size)


def coordinates(name: str) -> Tensor:
    """The coordinates of a named object, one row for each node, shape [nodes, dimensions], of float64; edges have equal lengths.

    Raises:
        IncidenceError: Nothing has that name, or it has no coordinates.

    Example:
        >>> coordinates("cross-polytope-2")
        tensor([[ 1.,  0.],
                [-1.,  0.],
                [ 0.,  1.],
                [ 0., -1.]], dtype=torch.float64)
    """
    found, size = _find(name)
    if found.points is None:
        raise IncidenceError(
            f"{name!r} has no coordinates: it is a structure alone, not a polytope. Leave them out."
        )
    return torch.from_numpy(np.ascontiguousarray(found.points(*size)))


def _plain(name: str) -> str:
    """A name as it is compared."""
    bare = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode()
    return re.sub(r"\s+|[_-]", "-", bare.strip().lower())


_BY_PLAIN_NAME = {_plain(name): found for name, found in (_FAMILIES | _SINGLES).items()}


def _find(name: Any) -> tuple[_Object, tuple[int, ...]]:
    if not isinstance(name, str):
        raise IncidenceError(
            f"an object is found by its name, a text such as 'cube'; got {type(name).__name__}."
        )
    plain = _plain(name)
    plain = next(
        (_plain(own) for other, own in _OTHER_NAMES.items() if _plain(other) == plain), plain
    )
    family, _, number = plain.rpartition("-")
    if plain in _BY_PLAIN_NAME and plain not in map(_plain, _FAMILIES):
        return _BY_PLAIN_NAME[plain], ()
    if f"{family}-n" not in _BY_PLAIN_NAME or not re.fullmatch(r"[0-9]{1,9}", number):
        near = get_close_matches(plain, [_plain(known) for known in names()], n=3, cutoff=0.5)
        written = [known for close in near for known in names() if _plain(known) == close]
        meant = (
            f"Did you mean {' or '.join(written)}?" if written else "geometry.names() lists all."
        )
        meant += " Write a number for n." if any(known.endswith("-n") for known in written) else ""
        raise IncidenceError(f"no object is called {name!r}. {meant}")
    found, size = _BY_PLAIN_NAME[f"{family}-n"], int(number)
    if found.least is not None and size < found.least:
        raise IncidenceError(
            f"{name!r}: the number of `{family}-n` must be at least {found.least}."
        )
    if (size > 64 and found.incidences(64) > _MAX_INCIDENCES) or found.incidences(
        size
    ) > _MAX_INCIDENCES:
        raise TooLargeError(
            f"{name!r} has more than {_MAX_INCIDENCES:,} nodes in its faces, which are not listed. Take a smaller number."
        )
    return found, (size,)
